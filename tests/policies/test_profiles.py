"""The checked-in profiles of the shipped policies: fresh, loadable, and the same bytes whoever compiles them."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests._run_world import IS_ROOT, NAMES, POLICIES, PYTHON, ROOT

PROFILES = POLICIES / "profiles"


@pytest.mark.parametrize("name", NAMES)
def test_the_profile_is_fresh(name: str) -> None:
    """`sandboxc check --profile` finds the checked-in profile up to date, by digest and by compiling."""
    for more in ([], ["--recompile"]):
        words = [sys.executable, "-m", "sandboxc", "check", "--profile", str(PROFILES / name), *more]
        done = subprocess.run([*words, str(POLICIES / f"{name}.yaml")], cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_every_policy_has_one() -> None:
    """There is one profile directory for each policy, and no other."""
    assert sorted(path.name for path in PROFILES.iterdir()) == list(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_target_of_the_policy_is_in_it(name: str) -> None:
    """The profile loads, holds every target that the policy names, and every stopping loss of it is waived."""
    from sandboxc.loader import load
    from sandboxc.profile.load import load_profile

    policy = load(str(POLICIES / f"{name}.yaml")).policy
    assert policy is not None
    manifest = load_profile(str(PROFILES / name)).manifest
    assert set(manifest.targets) == set(policy.targets)
    for target, entry in manifest.targets.items():
        assert not [loss for loss in entry.losses if loss.stops and not loss.conditional], (name, target)


def test_a_changed_policy_is_noticed(tmp_path: Path) -> None:
    """A policy that says something else than its profile is stale: exit 1, with the code and what to do."""
    text = (POLICIES / "read-only.yaml").read_text()
    changed = tmp_path / "read-only.yaml"
    changed.write_text(text + "entries:\n  - {path: ~/private, access: deny}\n")
    words = [sys.executable, "-m", "sandboxc", "check", "--profile", str(PROFILES / "read-only"), str(changed)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    assert "SBX739" in done.stderr


def test_a_changed_profile_is_noticed(tmp_path: Path) -> None:
    """A profile that was edited by hand is refused by check and by run."""
    copy = tmp_path / "read-only"
    shutil.copytree(PROFILES / "read-only", copy)
    artefact = copy / "seatbelt.sb"
    artefact.write_text(artefact.read_text().replace("(deny default)", "(allow default)"))
    policy = str(POLICIES / "read-only.yaml")
    for words, code in ((["check", "--profile", str(copy), policy], 1), (["run", str(copy), "--", "true"], 125)):
        done = subprocess.run([sys.executable, "-m", "sandboxc", *words], cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == code, done.stderr
        assert "seatbelt.sb" in done.stderr


def compiled(
    python: str, out: Path, policy: Path, cwd: Path, env: Mapping[str, str], more: Sequence[str] = ()
) -> dict[str, bytes]:
    """Return the files of a profile compiled by a process of its own."""
    words = [*more, python, "-m", "sandboxc", "compile", str(policy), "--target", "all", "-o", str(out)]
    done = subprocess.run(words, cwd=cwd, env=dict(env), capture_output=True, text=True, umask=0o077 if more else 0o022)
    assert done.returncode == 0, done.stdout + done.stderr
    return {path.name: path.read_bytes() for path in out.iterdir()}


def test_the_bytes_depend_on_the_policy_only(tmp_path: Path) -> None:
    """Another user, directory, home, locale, time zone, umask and hash seed give the bytes that are checked in."""
    expected = {path.name: path.read_bytes() for path in (PROFILES / "coding-agent").iterdir()}
    policy = POLICIES / "coding-agent.yaml"
    here = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0", "LANG": "C", "HOME": "/"}
    assert compiled(sys.executable, tmp_path / "a", Path("policies/coding-agent.yaml"), ROOT, here) == expected
    there = {**here, "PYTHONHASHSEED": "4711", "LC_ALL": "tr_TR.UTF-8", "TZ": "Asia/Kathmandu", "HOME": str(tmp_path)}
    there |= {"COLUMNS": "20", "FORCE_COLOR": "1", "TMPDIR": str(tmp_path), "XDG_CONFIG_HOME": "/elsewhere"}
    assert compiled(sys.executable, tmp_path / "b", policy, tmp_path, there) == expected
    (tmp_path / "link").symlink_to(POLICIES)
    assert compiled(sys.executable, tmp_path / "c", tmp_path / "link/coding-agent.yaml", tmp_path, here) == expected


@pytest.mark.skipif(not IS_ROOT or not os.path.exists(PYTHON), reason="needs root, to become another user")
def test_another_user_compiles_the_same_bytes() -> None:
    """An ordinary user with the system's Python, under which nothing of this environment is readable, gets the same."""
    expected = {path.name: path.read_bytes() for path in (PROFILES / "coding-agent").iterdir()}
    base = Path(tempfile.mkdtemp(prefix="sandboxc-user-", dir="/tmp"))
    try:
        ignore = shutil.ignore_patterns("__pycache__", "*.so", "profiles")
        for name in ("sandboxc", "ruamel", "jinja2", "markupsafe"):
            spec = find_spec(name)
            assert spec is not None and spec.submodule_search_locations
            shutil.copytree(next(iter(spec.submodule_search_locations)), base / "package" / name, ignore=ignore)
        shutil.copytree(POLICIES, base / "policies", ignore=ignore)
        for path in (base, *base.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
            os.chown(path, 1000, 1000)
        env = {"PATH": "/usr/bin:/bin", "HOME": str(base), "PYTHONPATH": str(base / "package"), "PYTHONHASHSEED": "7"}
        become = ("setpriv", "--reuid", "1000", "--regid", "1000", "--clear-groups")
        policy = base / "policies/coding-agent.yaml"
        assert compiled(PYTHON, base / "out", policy, base, env, become) == expected
    finally:
        shutil.rmtree(base, ignore_errors=True)

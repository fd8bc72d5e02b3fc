"""Profiles are the same bytes whoever compiles them, from wherever, in whatever surroundings."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
POLICIES = sorted((ROOT / "policies").glob("*.yaml"))


def compiled(policy: str, output: Path, cwd: Path, **environment: str) -> dict[str, bytes]:
    """Return the files of a profile that a fresh process compiles."""
    inherited = {key: value for key, value in os.environ.items() if key in ("PATH", "PYTHONPYCACHEPREFIX")}
    subprocess.run(
        [sys.executable, "-m", "sandboxc", "compile", policy, "--target", "all", "-o", output],
        cwd=cwd,
        env={**inherited, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", **environment},
        check=True,
        capture_output=True,
    )
    return {path.name: path.read_bytes() for path in sorted(output.iterdir())}


@pytest.mark.parametrize("policy", POLICIES, ids=lambda path: path.stem)
def test_bytes_do_not_depend_on_the_surroundings(policy: Path, tmp_path: Path) -> None:
    """Another directory, HOME, locale, time zone and hash seed change nothing, and none of them shows."""
    home = tmp_path / "somebodys-home"
    home.mkdir()
    copy = home / policy.name
    shutil.copy(policy, copy)
    here = compiled(str(policy), tmp_path / "one", ROOT, PYTHONHASHSEED="1", HOME="/", LC_ALL="C", TZ="UTC")
    there = compiled(
        policy.name,
        tmp_path / "two",
        home,
        PYTHONHASHSEED="2",
        HOME=str(home),
        LC_ALL="tr_TR.UTF-8",
        TZ="Asia/Kathmandu",
        XDG_CONFIG_HOME="/elsewhere",
        TMPDIR=str(tmp_path),
        USER="somebody",
        COLUMNS="20",
    )
    assert here.keys() == there.keys()
    assert [name for name in here if here[name] != there[name]] == []
    assert not [name for name, data in here.items() if b"somebody" in data or str(ROOT).encode() in data]

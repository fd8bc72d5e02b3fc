"""A user with a home and a project on this host, and ``sandboxc run`` of a shipped policy in it.

Everything lies in one directory below /tmp that every user may enter, since an ordinary user cannot read where this
checkout may be. The policies are run as profiles, which need nothing beyond the standard library.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
POLICIES = ROOT / "policies"
NAMES = tuple(sorted(path.stem for path in POLICIES.glob("*.yaml")))
PATH = "/usr/local/bin:/usr/bin:/bin"
#: The interpreter of commands in the sandbox: the system's, which every user may execute.
PYTHON = "/usr/bin/python3"
IS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0
USERS = (0, 1000) if IS_ROOT else (None,)
LINUX = sys.platform == "linux" and os.path.exists(PYTHON)


class Ran(NamedTuple):
    """What a run gave: exit code, standard output and error, and the record where one was asked for."""

    code: int
    out: str
    err: str
    record: dict[str, Any]


class Shelf(NamedTuple):
    """What all worlds share: a copy of the package and the compiled profiles, readable for everyone."""

    base: Path

    @property
    def package(self) -> Path:
        """Return the directory to put on the import path."""
        return self.base / "package"

    def profile(self, name: str) -> Path:
        """Return the profile directory of a shipped policy."""
        return self.base / "profiles" / name


def make_shelf() -> Shelf:
    """Return a new shelf; the caller removes its directory."""
    from sandboxc.compile import compile_policy
    from sandboxc.loader import load
    from sandboxc.profile.save import save_profile
    from sandboxc.profile.write import profile_files

    base = Path(tempfile.mkdtemp(prefix="sandboxc-shelf-", dir="/tmp"))
    shelf = Shelf(base)
    shutil.copytree(ROOT / "sandboxc", shelf.package / "sandboxc", ignore=shutil.ignore_patterns("__pycache__"))
    for name in NAMES:
        policy = load(str(POLICIES / f"{name}.yaml")).policy
        assert policy is not None
        compiled = compile_policy(policy, [target for target in policy.targets if target in ("bwrap", "landlock")])
        assert compiled.ok, [item.message for item in compiled.diagnostics]
        save_profile(str(shelf.profile(name)), profile_files(compiled))
    for path in (base, *base.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return shelf


class World:
    """One user's home and project; ``target`` is the backend that ``run`` uses."""

    def __init__(self, shelf: Shelf, uid: int | None, target: str) -> None:
        self.shelf, self.uid, self.target = shelf, uid, target
        self.base = Path(tempfile.mkdtemp(prefix="sandboxc-world-", dir="/tmp"))
        self.base.chmod(0o755)
        self.home = self.base / "home"
        self.project = self.base / "project"
        for path in (self.home, self.project):
            path.mkdir()
        self.own()

    def own(self) -> None:
        """Give everything in the world to its user."""
        if self.uid:
            for path in (self.base, *self.base.rglob("*")):
                os.chown(path, self.uid, self.uid, follow_symlinks=False)

    def write(self, path: str, text: str, mode: int = 0o644) -> Path:
        """Write a file below the world's base, with the directories above it."""
        file = self.base / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)
        self.own()
        return file

    def environment(self, **more: str) -> dict[str, str]:
        """Return a small environment of the user, with the copied package on the import path."""
        return {
            "HOME": str(self.home),
            "PATH": PATH,
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(self.shelf.package),
            "PYTHONDONTWRITEBYTECODE": "1",
            "GIT_AUTHOR_NAME": "u",
            "GIT_AUTHOR_EMAIL": "u@example.invalid",
            "GIT_COMMITTER_NAME": "u",
            "GIT_COMMITTER_EMAIL": "u@example.invalid",
            "npm_config_update_notifier": "false",
            **more,
        }

    def words(self, policy: str, command: Sequence[str], options: Sequence[str] = ()) -> list[str]:
        """Return the argv of ``sandboxc run``."""
        source = str(self.shelf.profile(policy)) if policy in NAMES else policy
        words = [PYTHON, "-m", "sandboxc", "run", source, "--target", self.target, *options, "--", *command]
        if self.uid:
            words[:0] = ["setpriv", "--reuid", str(self.uid), "--regid", str(self.uid), "--clear-groups"]
        return words

    def run(
        self,
        policy: str,
        *command: str,
        options: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        input: str = "",
        report: bool = False,
        timeout: float = 120,
    ) -> Ran:
        """Run a command under a shipped policy (or a profile's path) in the project."""
        file = self.base / "record.json"
        more = ["--report", str(file)] if report else []
        done = subprocess.run(
            self.words(policy, command, [*options, *more]),
            cwd=cwd or self.project,
            env=self.environment() if env is None else dict(env),
            input=input,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        record = json.loads(file.read_text()) if report else {}
        return Ran(done.returncode, done.stdout, done.stderr, record)

    def ok(self, policy: str, *command: str, **more: Any) -> Ran:
        """Run a command that has to succeed."""
        ran = self.run(policy, *command, **more)
        assert ran.code == 0, f"{command} ended with {ran.code}\n{ran.out}\n{ran.err}"
        return ran

    def refused(self, policy: str, *command: str, **more: Any) -> Ran:
        """Run a command that has to start and fail."""
        ran = self.run(policy, *command, **more)
        assert ran.code not in (0, 125, 127), f"{command} ended with {ran.code}\n{ran.out}\n{ran.err}"
        return ran

    def remove(self) -> None:
        """Remove everything that the world made."""
        shutil.rmtree(self.base, ignore_errors=True)


# -- fixtures: a conftest.py imports those that it gives to its tests --------------------------------------------


@pytest.fixture(scope="session")
def shelf() -> Iterator[Shelf]:
    """Give the copied package and the compiled profiles."""
    made = make_shelf()
    yield made
    shutil.rmtree(made.base, ignore_errors=True)


@pytest.fixture(params=USERS, ids=lambda uid: "self" if uid is None else f"uid{uid}")
def uid(request: pytest.FixtureRequest) -> int | None:
    """Give each user that the tests can be run as."""
    user: int | None = request.param
    return user


@pytest.fixture(params=("bwrap", "landlock"))
def backend(request: pytest.FixtureRequest) -> str:
    """Give each Linux backend."""
    name: str = request.param
    return name


@pytest.fixture
def run_world(backend: str, shelf: Shelf, uid: int | None) -> Iterator[World]:
    """Give a fresh world for each user and backend."""
    made = World(shelf, uid, backend)
    yield made
    made.remove()

"""Which bubblewrap program is taken, and the probe that says whether it works."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import _bwrap_lab as lab
import pytest

from sandboxc.policy import Network

pytestmark = pytest.mark.skipif(not lab.usable(), reason="needs a working bubblewrap")

if lab.BWRAP:
    from sandboxc.runtime.bwrap_runner import Runner, RunnerError, find_runner, probe, proc_covers


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that another user may enter."""
    with tempfile.TemporaryDirectory(prefix="sbx") as base:
        os.chmod(base, 0o755)
        yield Path(os.path.realpath(base))


def fake(place: Path, script: str) -> None:
    """Put a program called bwrap into a directory."""
    (place / "bwrap").write_text("#!/bin/sh\n" + script)
    (place / "bwrap").chmod(0o755)


def reading(path: str) -> str:
    """Return `read` for every place."""
    return "read"


def test_the_runner_is_physical_and_outside_writable_places(place: Path) -> None:
    """A bwrap that the policy makes writable is passed over, through a link too; the next in PATH is taken."""
    shutil.copy(str(lab.BWRAP), place / "bwrap")
    (place / "way").symlink_to(".")
    writable = {str(place): "write", str(place / "bwrap"): "write"}

    def access(path: str) -> str:
        return writable.get(path, "read")

    found = find_runner(f"{place}/way:{lab.SEARCH}", access, os.geteuid())
    assert found.path == os.path.realpath(str(lab.BWRAP))
    assert find_runner(f"{place}/way", reading, os.geteuid()).path == f"{place}/bwrap"
    with pytest.raises(RunnerError, match="makes writable"):
        find_runner(str(place), access, os.geteuid())


def test_relative_and_foreign_programs_are_passed_over(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries of PATH that are not absolute are skipped; a program of another user or open to all is refused."""
    shutil.copy(str(lab.BWRAP), place / "bwrap")
    monkeypatch.chdir(place)
    with pytest.raises(RunnerError, match="no bwrap"):
        find_runner(".::bin", reading, os.geteuid())
    (place / "bwrap").chmod(0o777)
    with pytest.raises(RunnerError, match="everybody"):
        find_runner(str(place), reading, os.geteuid())
    (place / "bwrap").chmod(0o755)
    if os.geteuid() == 0:
        os.chown(place / "bwrap", 1000, 1000)
        with pytest.raises(RunnerError, match="another user"):
            find_runner(str(place), reading, 0)


def test_options_are_asked_for_not_guessed(place: Path) -> None:
    """A bwrap whose `--help` does not name the descriptor binds is refused, whatever its version."""
    fake(place, 'echo "bubblewrap 99.0 --args --bind-fd --perms"\n')
    with pytest.raises(RunnerError, match="--ro-bind-fd"):
        find_runner(str(place), reading, os.geteuid())


@pytest.mark.parametrize("mode", ["deny", "allow-all"])
def test_probe_starts_a_sandbox(place: Path, mode: str) -> None:
    """The probe says that the real program works, with a directory bound by descriptor."""
    found = probe(lab.runner(reading), network=Network(mode), directory=str(place), scope_abstract=lab.ABI >= 6)
    assert found.usable and found.reason == ""


def test_probe_says_why_not(place: Path) -> None:
    """What bwrap complains of is the reason."""
    fake(place, "echo 'bwrap: No permissions to create a new namespace' >&2; exit 1\n")
    found = probe(Runner(str(place / "bwrap"), frozenset(("--disable-userns",))))
    assert (found.usable, found.reason) == (False, "bwrap: No permissions to create a new namespace")
    gone = probe(Runner(str(place / "gone"), frozenset()))
    assert not gone.usable and "gone" in gone.reason


def test_covers_are_for_root() -> None:
    """Only root is shown more of /proc read-only, and only what is there."""
    found = proc_covers()
    assert all(os.path.exists(path) for path in found)
    assert not found or os.geteuid() == 0

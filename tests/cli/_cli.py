"""A command line run in this process, in a directory that holds a good, a bad and a lossy policy."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from sandboxc import cli

GOOD = """\
sandboxc: 1
name: good
mode: workspace-write
targets: [bwrap, landlock]
entries:
  - {path: "${workspace}/vendor", access: read, reason: kept as it is}
"""
BAD = "sandboxc: 1\nmode: workspce-write\nentries:\n  - {path: relative, access: ro}\n"
LOSSY = GOOD + '  - {glob: "**/.env", access: deny, within: writable}\n'


class Result(NamedTuple):
    """What a command line did."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """Return the decoded standard output."""
        return json.loads(self.out)


Run = Callable[..., Result]


# -- fixtures: conftest.py gives them to the tests ------------------------------------------------------


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs a command line in this process."""

    def call(*words: str | Path) -> Result:
        code = cli.run_command_line([str(word) for word in words])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return Result(code, captured.out, captured.err)

    return call


@pytest.fixture
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a directory of one's own, without colours or a debug switch from outside."""
    (tmp_path / "good.yaml").write_text(GOOD)
    (tmp_path / "bad.yaml").write_text(BAD)
    (tmp_path / "lossy.yaml").write_text(LOSSY)
    monkeypatch.chdir(tmp_path)
    for name in ("NO_COLOR", "FORCE_COLOR", "SANDBOXC_DEBUG", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)

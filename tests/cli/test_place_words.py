"""Paths with odd names on the command line: what the host says is taken as it is, what is wrong is named."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

POLICY = "sandboxc: 1\nname: places\nmode: workspace-write\ntargets: [bwrap, seatbelt]\n"
ROOT = str(Path(__file__).resolve().parents[2])


def sandboxc(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the command in a directory, in a fresh interpreter."""
    environment = {**os.environ, "PYTHONPATH": ROOT}
    return subprocess.run(
        [sys.executable, "-m", "sandboxc", *words], cwd=cwd, env=environment, capture_output=True, text=True, timeout=60
    )


@pytest.fixture
def policy(tmp_path: Path) -> str:
    """The path of a small policy."""
    place = tmp_path / "policy.yaml"
    place.write_text(POLICY)
    return str(place)


@pytest.mark.parametrize("name", ["a$x", "a$$b", "${home}", "~", "[a]*", "two  blanks", "d\u00e9j\u00e0"])
def test_the_current_directory_is_taken_as_it_is(name: str, tmp_path: Path, policy: str) -> None:
    """A dollar sign or another character of the policy language in the host's own paths stands for itself."""
    here = tmp_path / name
    here.mkdir()
    found = sandboxc("why", "--op", "write", "--format", "json", "file", policy, cwd=here)
    answer = json.loads(found.stdout)
    assert answer["allowed"] is True and answer["path"] == f"{here}/file", found.stderr
    made = sandboxc("compile", policy, "--target", "bwrap", "--host", cwd=here)
    assert str(here) in made.stdout.splitlines(), made.stderr


def test_a_refused_value_gets_help_of_its_own(tmp_path: Path, policy: str) -> None:
    """The help for a value does not speak of what only a policy can say."""
    for value, code in (("rel", "SBX313"), ("", "SBX310"), ("C:/x", "SBX318")):
        found = sandboxc("compile", policy, "--target", "seatbelt", "--bind", f"home={value}", cwd=tmp_path)
        assert found.returncode == 1 and code in found.stderr
        assert "entry" not in found.stderr and "relative-to" not in found.stderr and "when:" not in found.stderr


def test_output_names(tmp_path: Path, policy: str) -> None:
    """A name of 255 bytes can be written to; where none can be, the message names what was asked for."""
    longest = "n" * 255
    assert sandboxc("compile", policy, "--target", "seatbelt", "-o", longest, cwd=tmp_path).returncode == 0
    assert (tmp_path / longest).stat().st_size > 0
    found = sandboxc("compile", policy, "--target", "seatbelt", "-o", "none/x.sb", cwd=tmp_path)
    assert found.returncode == 2 and "none/x.sb`: no such file" in found.stderr


@pytest.mark.parametrize("text", ["{", "[1,]", '{"a" 1}', "", "nul", '"\\u12"', "{}x"])
@pytest.mark.parametrize("command", ["run", "why"])
def test_a_manifest_that_is_no_json(command: str, text: str, tmp_path: Path, policy: str) -> None:
    """Whatever the fault in the text, a fresh interpreter reports it as one of the profile."""
    assert sandboxc("compile", policy, "-o", "profile", cwd=tmp_path).returncode == 0
    (tmp_path / "profile" / "manifest.json").write_text(text)
    words = ("run", "profile", "--", "true") if command == "run" else ("why", "/x", "profile")
    found = sandboxc(*words, cwd=tmp_path)
    assert "SBX737" in found.stderr, found.stderr
    assert found.returncode == (125 if command == "run" else 1)

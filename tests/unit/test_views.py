"""Views are the same under every policy: a line may close what they show, never open more of it (design rule 12)."""

from __future__ import annotations

import shutil

import pytest

from sandboxc.ask import question
from sandboxc.compile import compile_policy
from sandboxc.loader import load_bytes
from tests.judges.seatbelt import decide_all, read_profile

HEAD = "sandboxc: 1\nmode: workspace-write\ntargets: [seatbelt]\nhidden: {preset: none, reason: test}\nentries:\n"
VALUES = {
    "HOME": "/Users/u",
    "WORKSPACE": "/Users/u/w",
    "TMP": "/private/t",
    "USER_CONFIG": "/Users/u/.config",
    "USER_CACHE": "/Users/u/.cache",
    "RUN_BASE": "/private/b",
}
LINES = (
    "{path: /dev, access: write}",
    "{path: /dev/disk0, access: write}",
    "{path: /, access: write}",
    '{glob: "/dev/*", access: write}',
    '{glob: "/*/disk0", access: write}',
    "{path: /dev/null, access: read}",
    "{path: /dev/null, access: deny}",
    "{path: /dev, access: deny}",
)


@pytest.mark.skipif(shutil.which("tinyscheme") is None, reason="needs tinyscheme")
@pytest.mark.parametrize("line", LINES)
def test_no_line_opens_a_device(line: str) -> None:
    """The profile lets writes through to exactly the devices that the evaluator names."""
    loaded = load_bytes("p.yaml", f"{HEAD}  - {line}\n".encode())
    assert loaded.policy is not None, loaded.diagnostics
    profile = read_profile(compile_policy(loaded.policy).artefacts["seatbelt"].native, VALUES)
    asked = question(loaded.policy, "macos", {name.lower().replace("_", "-"): VALUES[name] for name in VALUES})
    for path in ("/dev/disk0", "/dev/null", "/dev/random", "/dev/new"):
        answers = set(decide_all(profile, "file-write-data", path, vnode="CHARACTER-DEVICE").values())
        assert answers == {asked.decide("write", path).allowed}, path
    assert not any(decide_all(profile, "file-write-create", "/dev/new").values())


@pytest.mark.parametrize(
    ("line", "path", "allowed"),
    [
        ("{path: /dev, access: deny}", "/dev/null", True),
        ("{path: /dev, access: deny}", "/dev/other", False),
        ("{path: /dev/null, access: deny}", "/dev/null", False),
        ("{path: /dev/null, access: read}", "/dev/zero", True),
    ],
)
def test_the_deeper_of_view_and_line_decides(line: str, path: str, allowed: bool) -> None:
    """A line decides at and below its place, as far as it is stricter and no view stands deeper."""
    loaded = load_bytes("p.yaml", f"{HEAD}  - {line}\n".replace("seatbelt", "bwrap").encode())
    assert loaded.policy is not None
    assert question(loaded.policy, "linux", {}).decide("read", path).allowed is allowed


@pytest.mark.skipif(shutil.which("tinyscheme") is None, reason="needs tinyscheme")
@pytest.mark.parametrize("written", ["\u00e9t\u00e9", "e\u0301te\u0301"])
def test_composed_and_decomposed_names_are_one(written: str) -> None:
    """A deny on macOS holds for a name in either Unicode form, whichever the policy is written in."""
    loaded = load_bytes("p.yaml", f'{HEAD}  - {{path: "${{workspace}}/{written}", access: deny}}\n'.encode())
    assert loaded.policy is not None
    profile = read_profile(compile_policy(loaded.policy).artefacts["seatbelt"].native, VALUES)
    asked = question(loaded.policy, "macos", {name.lower().replace("_", "-"): VALUES[name] for name in VALUES})
    for name in ("\u00e9t\u00e9", "e\u0301te\u0301"):
        path = f"/Users/u/w/{name}/x"
        for op, operation in (("read", "file-read-data"), ("write", "file-write-data")):
            assert set(decide_all(profile, operation, path).values()) == {asked.decide(op, path).allowed} == {False}

"""What the field cases share: policies by their entries, compiled and bound for each target."""

import shutil
from collections.abc import Mapping
from typing import Any

import pytest

from sandboxc.bound import bind_stack
from sandboxc.compile import Compilation, compile_policy, options_of
from sandboxc.diagnostics import ERROR
from sandboxc.emitters import bwrap, landlock, seatbelt
from sandboxc.facts import Facts
from sandboxc.layers import Layers
from sandboxc.loader import load_bytes
from sandboxc.places import Place
from sandboxc.policy import DENY, READ, WRITE
from sandboxc.survey import Resolved, TreeLook, resolve
from tests.golden import golden
from tests.judges import windows as judge
from tests.judges.seatbelt import Profile, decide_all, read_profile

HEAD = "sandboxc: 1\nmode: workspace-write\n"
BARE = HEAD + "hidden: {preset: none, reason: t}\nprotected: {preset: none, reason: t}\n"
WAIVED = "waive:\n  - {loss: SBX475, target: windows, at: network, reason: t}\n"
DIR = {"type": "directory"}
FILE = {"type": "file"}

needs_scheme = pytest.mark.skipif(shutil.which("tinyscheme") is None, reason="needs tinyscheme")
needs_samba = pytest.mark.skipif(not judge.available(), reason="needs Samba's Python package")


def entries(*lines: str, head: str = BARE, waive: str = WAIVED) -> str:
    """Return a policy text with these entries."""
    return head + "entries:\n" + "".join(f"  - {line}\n" for line in lines) + waive


def compiled(text: str, *targets: str, facts: Facts | None = None) -> Compilation:
    """Return the compilation of a policy text that must compile."""
    loaded = load_bytes("policy.yaml", text.encode())
    assert loaded.policy is not None, loaded.diagnostics
    found = compile_policy(loaded.policy, targets or None, facts)
    assert found.ok, [item for item in found.diagnostics if item.severity == ERROR]
    return found


def codes(text: str, *targets: str) -> list[str]:
    """Return the codes of the errors of a policy text."""
    loaded = load_bytes("policy.yaml", text.encode())
    problems = list(loaded.diagnostics)
    if loaded.policy is not None:
        problems += compile_policy(loaded.policy, targets or None).diagnostics
    return [item.code for item in problems if item.severity == ERROR]


def bound(found: Compilation, os: str, **values: str) -> tuple[Layers, dict[str, Place]]:
    """Return the bound layers for an operating system, and the values."""
    lowered = found.lowered[os]
    declared = [parameter.name for parameter in found.policy.parameters]
    places, stack, _ = bind_stack(lowered.layers, lowered.defaults, declared, {**golden.VALUES[os], **values})
    return stack, places


def surveyed(found: Compilation, tree: Mapping[str, Any], **values: str) -> tuple[Resolved, TreeLook]:
    """Return the survey of a described world on Linux."""
    paths = {values.get("workspace", "/home/u/w"): DIR, "/home/u": DIR, **tree}
    look = TreeLook(paths)
    return resolve(bound(found, "linux", **values)[0], look, "/home/u"), look


def words_of(found: Compilation, tree: Mapping[str, Any], **values: str) -> tuple[list[str], bwrap.BwrapPlan]:
    """Return the bubblewrap words and plan in a described world."""
    resolved, _ = surveyed(found, tree, **values)
    plan = bwrap.finalise(resolved, Facts(), options_of(found.policy, "policy.yaml"), bwrap.Host(late_from=0))
    return bwrap.by_path_words(plan), plan


def rules_of(found: Compilation, tree: Mapping[str, Any], **values: str) -> landlock.LandlockPlan:
    """Return the Landlock plan in a described world."""
    resolved, look = surveyed(found, tree, **values)
    return landlock.finalise(resolved, look, Facts(), options_of(found.policy, "policy.yaml"))


def profile_of(found: Compilation, **values: str) -> Profile:
    """Return the Seatbelt profile as the real reader has it."""
    places = bound(found, "macos", **values)[1]
    words = seatbelt.definitions(found.lowered["macos"].layers, places)
    return read_profile(found.artefacts["seatbelt"].native, dict(word.split("=", 1) for word in words[1::2]))


def says(profile: Profile, operation: str, path: str, **more: Any) -> bool:
    """Return the one answer of every reading of rule order."""
    answers = set(decide_all(profile, operation, path, **more).values())
    assert len(answers) == 1, (operation, path, answers)
    return answers.pop()


def access(profile: Profile, path: str, **more: Any) -> str:
    """Return the access that a profile gives at a path."""
    if says(profile, "file-write-data", path, **more):
        return WRITE
    return READ if says(profile, "file-read-data", path, **more) else DENY

"""Policies compiled for Seatbelt, and what their profiles answer under every reading of rule order."""

from __future__ import annotations

from typing import Any

from sandboxc.emitters.artefact import Artefact, Options
from sandboxc.emitters.seatbelt import emit
from sandboxc.facts import Facts
from sandboxc.loader import load_bytes
from sandboxc.lower import lower
from tests.judges.seatbelt import Profile, decide_all, read_profile

FOLDING = Facts()
W, H = "/Users/me/w", "/Users/me"
VALUES = {
    "WORKSPACE": W,
    "HOME": H,
    "RUN_TMP": "/private/tmp/sbx/r1",
    "RUN_BASE": "/private/tmp/sbx",
    "TMP": "/private/tmp/t",
}
BARE = (
    "sandboxc: 1\ntargets: [seatbelt]\nmode: workspace-write\n"
    "hidden: {preset: none, reason: test}\nprotected: {preset: none, reason: test}\n"
)


def compiled(text: str, facts: Facts = FOLDING, **options: Any) -> Artefact:
    """The artefact of a policy text."""
    loaded = load_bytes("policy.yaml", text.encode())
    assert loaded.policy is not None, loaded.diagnostics
    policy = loaded.policy
    lowered = lower(policy, "macos").value
    assert lowered is not None
    if policy.macos_base:
        options.setdefault("macos_base", policy.macos_base.value)
    options.setdefault("macos_services", tuple(word.value for word in policy.macos_services))
    return emit(lowered.layers, facts, Options(**options))


def profile(text: str, values: dict[str, str] | None = None, facts: Facts = FOLDING, **options: Any) -> Profile:
    """The rules of a policy text under these parameter values."""
    return read_profile(compiled(text, facts, **options).native, VALUES | (values or {}))


def ask(found: Profile, operation: str, path: str | None = None, vnode: str = "REGULAR-FILE", **more: Any) -> bool:
    """The one answer that every reading of rule order gives."""
    answers = decide_all(found, operation, path, vnode=vnode, **more)
    assert len(set(answers.values())) == 1, f"{operation} {path}: {answers}"
    return answers["kernel"]

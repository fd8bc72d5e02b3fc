"""Hooks and configuration that lie where a repository says: which targets hold them, and that the others say so."""

import pytest

from sandboxc.capability import EXACT
from sandboxc.compile import compile_policy
from sandboxc.emitters.registry import TARGETS, emitter
from sandboxc.facts import Facts
from sandboxc.loader import load_bytes
from sandboxc.losses import WIDER

CODES = {"seatbelt": "SBX421", "windows": "SBX484"}
POLICY = "sandboxc: 1\nname: t\nmode: workspace-write\ntargets: [{}]\nnetwork: allow-all\n"
EXTRA = 'entries:\n  - {path: "~/other", access: write}\n'


def places(target: str, text: str) -> list[str]:
    """Return where a target's artefact says that configured names are not held."""
    policy = load_bytes("p.yaml", (POLICY.format(target) + text).encode()).policy
    assert policy is not None
    return [loss.at for loss in compile_policy(policy).artefacts[target].losses if loss.code == CODES[target]]


@pytest.mark.parametrize("target", TARGETS)
def test_only_a_target_that_surveys_holds_them(target: str) -> None:
    """A survey reads configuration; a target without one has a preset loss that lets more through."""
    row = emitter(target).table(Facts()).row("configured-names")
    if target in CODES:
        assert (row.code, row.status, row.preset) == (CODES[target], WIDER, True)
    else:
        assert row.status == EXACT


@pytest.mark.parametrize("target", CODES)
def test_each_write_root_is_named_once(target: str) -> None:
    """The loss stands at each write root once, by its spelling, and only where protected names of git are asked for."""
    assert places(target, "temp: private\n" + EXTRA) == ["${workspace}", "~/other"]
    assert places(target, "protected: seed\n") == []
    assert places(target, "protected: {preset: none, reason: t}\n") == []

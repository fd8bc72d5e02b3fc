"""What compiling costs grows with the policy, not with its square."""

from __future__ import annotations

import time

import pytest

from sandboxc.compile import compile_policy
from sandboxc.loader import load_bytes
from sandboxc.policy import TARGETS

HEAD = "sandboxc: 1\nmode: workspace-write\nnetwork: allow-all\nentries:\n"


def entries(kind: str, target: str) -> str:
    """Many lines of one kind."""
    drive = "C:" if target == "windows" else ""
    if kind == "roots":
        return "".join(f'  - {{path: "{drive}/d{i}/x/y", access: write}}\n' for i in range(100))
    if kind == "locks":
        return "".join(f'  - {{path: "{drive}/l{i}", access: deny, locked: true}}\n' for i in range(200))
    words = ("deny", "read", "write")
    return "".join(
        f'  - {{glob: "${{workspace}}/**/a{i}*/b?/**/c[a-z]{i}", access: {words[i % 3]}}}\n' for i in range(60)
    )


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", ["roots", "locks", "patterns"])
def test_many_lines(kind: str, target: str) -> None:
    """A hundred writable roots, locks or patterns compile in seconds on a slow machine, not in minutes."""
    text = HEAD.replace("mode", f"targets: [{target}]\nmode") + entries(kind, target)
    begun = time.process_time()
    loaded = load_bytes("p.yaml", text.encode())
    assert loaded.policy is not None, loaded.diagnostics
    compile_policy(loaded.policy, [target])
    assert time.process_time() - begun < 6

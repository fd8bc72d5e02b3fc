"""The reference evaluator: each rule of design section 3 as an operation on a place."""

from typing import Any

import pytest

import sandboxc
import sandboxc.ask
from sandboxc.evaluator import Evaluator, decide
from sandboxc.layers import ENTRY, Layer, Layers, restrict
from sandboxc.loader import load_bytes
from sandboxc.places import Place, posix
from sandboxc.policy import OPERATIONS, Policy

BASE = """\
sandboxc: 1
mode: workspace-write
targets: [seatbelt, bwrap, landlock]
hidden: {preset: none, reason: test}
protected: {preset: none, reason: test}
"""
VALUES = {"workspace": "/w", "home": "/h", "tmp": "/tmp"}


def policy_of(entries: str = "", base: str = BASE) -> Policy:
    """Return a policy with these entry lines."""
    text = base + ("entries:\n" + "".join(f"  - {{{line}}}\n" for line in entries.splitlines()) if entries else "")
    loaded = load_bytes("p.yaml", text.encode())
    assert loaded.policy is not None, loaded.diagnostics
    return loaded.policy


def ask(policy: Policy, op: str, path: str, to: str | None = None, os: str = "linux") -> Any:
    """Return the verdict for the values of these tests."""
    values = VALUES if os != "windows" else {}
    return sandboxc.decide(policy, op, path, to=to, os=os, values=values)


NEST = "path: /w, access: deny\npath: /w/a, access: read\npath: /w/a/b, access: write\npath: /w/a/b/c, access: deny"


@pytest.mark.parametrize(
    ("op", "path", "allowed"),
    [
        ("read", "/w/x", False),
        ("list", "/w", False),
        ("stat", "/w", True),
        ("stat", "/w/x", False),
        ("read", "/w/a/x", True),
        ("execute", "/w/a/x", True),
        ("write", "/w/a/x", False),
        ("write", "/w/a/b/x", True),
        ("chmod", "/w/a/b/x", True),
        ("create", "/w/a/b/x", True),
        ("delete", "/w/a/b/x", True),
        ("create", "/w/a/b", False),
        ("delete", "/w/a/b", False),
        ("read", "/w/a/b/c", False),
        ("stat", "/w/a/b/c", False),
        ("write", "/w/a/b/c/x", False),
        ("delete", "/w/a/b/c", False),
        ("read", "/etc/x", True),
        ("create", "/x", False),
    ],
)
def test_deepest_layer_decides(op: str, path: str, allowed: bool) -> None:
    """Four levels of nesting, one operation after the other (rules 1, 6 and 10)."""
    assert ask(policy_of(NEST), op, path).allowed is allowed


def test_verdict_names_the_line_and_what_it_beat() -> None:
    """The answer carries the layer, the beaten ones deepest first, the place and the access there."""
    verdict = ask(policy_of(NEST), "write", "/w/a/x")
    assert verdict.decided_by.span.line == 8 and verdict.access == "read" and verdict.at == posix("/w/a/x")
    assert [layer.text or layer.source for layer in verdict.beat] == ["/w", "${workspace}"]
    parent = ask(policy_of(NEST), "delete", "/w/a/b")
    assert parent.at == posix("/w/a") and parent.access == "write" and parent.decided_by.text == "/w/a"
    assert ask(policy_of(), "read", "/srv").decided_by is None


@pytest.mark.parametrize(
    ("op", "path", "to", "allowed"),
    [
        ("rename", "/w/a/secret", "/w/x", False),
        ("rename", "/w/a", "/w/x", False),
        ("delete", "/w/a", None, False),
        ("rename", "/w/b", "/w/c", True),
        ("rename", "/w/b", "/w/a", False),
        ("rename", "/w/b", "/srv/b", False),
        ("link", "/w/b", "/w/c", True),
        ("link", "/etc/passwd", "/w/c", False),
        ("link", "/w/b", "/w/a", False),
        ("link", "/w/b", "/w/a/secret", False),
        ("create", "/w/a", None, True),
        ("rename", "/w/a/other", "/w/a/more", True),
    ],
)
def test_ancestors_of_a_deny_stay_in_place(op: str, path: str, to: str | None, allowed: bool) -> None:
    """Moving the secret or what holds it is refused, unrelated names move freely (rule 7, field case S31)."""
    assert ask(policy_of("path: /w/a/secret, access: deny"), op, path, to).allowed is allowed


@pytest.mark.parametrize(
    ("path", "to", "allowed"),
    [
        ("/w/x", "/w/y", True),
        ("/w/x/.git", "/w/x/g", False),
        ("/w/x/.git/hooks", "/w/x/.git/h", False),
        ("/w/x/.git/objects", "/w/x/.git/o", True),
        ("/w/x/y", "/w/x/.git", False),
    ],
)
def test_floating_pattern_pins_its_own_prefix_only(path: str, to: str, allowed: bool) -> None:
    """Of `**/.git/hooks` only `.git` is pinned, wherever it is."""
    policy = policy_of('glob: "**/.git/hooks", access: read, within: writable')
    assert ask(policy, "rename", path, to).allowed is allowed


def test_floating_pattern_moves_with_its_directory_but_not_out() -> None:
    """`**/.env` pins nothing between directories that it covers; out of them a directory does not go."""
    base = BASE.replace("hidden:", 'temp: ["${tmp}"]\nhidden:')
    everywhere = policy_of('glob: "**/.env", access: deny, within: writable', base)
    assert ask(everywhere, "rename", "/w/x", "/w/y").allowed
    assert ask(everywhere, "rename", "/w/x", "/tmp/y").allowed
    assert not ask(everywhere, "rename", "/w/x/.env", "/w/x/env").allowed
    anchored = policy_of('glob: "/w/**/.env", access: deny', base)
    assert ask(anchored, "rename", "/w/x", "/w/y").allowed
    assert not ask(anchored, "rename", "/w/x", "/tmp/y").allowed
    assert ask(anchored, "delete", "/w/x").allowed
    below = policy_of('glob: "/w/m/**/.env", access: deny', base)
    assert not ask(below, "rename", "/w/m", "/w/n").allowed
    assert ask(below, "rename", "/w/m/x", "/w/m/y").allowed
    assert not ask(below, "rename", "/w/m/x", "/w/y").allowed


def test_inner_wildcards_pin_against_moves_but_not_removal() -> None:
    """Below `m*/**` any directory may hold a match: it is not moved, an empty one may be removed."""
    policy = policy_of('glob: "/w/m*/**/hooks", access: read')
    assert not ask(policy, "rename", "/w/m/x", "/w/m/y").allowed
    assert ask(policy, "delete", "/w/m/x").allowed
    assert not ask(policy, "delete", "/w/m").allowed
    assert ask(policy, "rename", "/w/n", "/w/o").allowed


def test_exceptions_free_what_they_name() -> None:
    """Below an exception the pattern neither denies nor pins."""
    policy = policy_of('glob: "**/.env", access: deny, within: writable, except: ["examples/**"]')
    assert ask(policy, "read", "/w/examples/x/.env").allowed
    assert not ask(policy, "read", "/w/other/.env").allowed


def test_protected_names_cap_what_others_say() -> None:
    """A hook can be read and not written; where a deny covers it, it is denied; an entry at it wins."""
    base = BASE.replace("protected: {preset: none, reason: test}\n", "")
    assert ask(policy_of("", base), "read", "/w/.git/hooks/x").allowed
    assert not ask(policy_of("", base), "create", "/w/.git/hooks/x").allowed
    assert ask(policy_of("", base), "create", "/w/.git/objects/x").allowed
    assert not ask(policy_of("", base), "rename", "/w/.git", "/w/g").allowed
    assert not ask(policy_of("path: /w/.git, access: deny", base), "read", "/w/.git/hooks/x").allowed
    assert ask(policy_of("path: /w/.git/hooks, access: write", base), "write", "/w/.git/hooks/x").allowed


def test_sockets() -> None:
    """What is bound before the run needs `connect`; what the run binds follows write; `deny` holds for both."""
    lines = (
        "socket: /w/open.sock, access: connect\nsocket: /w/shut.sock, access: deny\nsocket: /srv/x.sock, access: bind"
    )
    policy = policy_of(lines)
    stack = sandboxc.ask.question(policy, "linux", VALUES).stack
    judge = Evaluator(stack)

    def may(op: str, path: str, exists: bool = True) -> bool:
        return judge.decide(op, posix(path), None, exists).allowed

    assert may("connect", "/w/open.sock")
    assert not may("connect", "/w/other.sock")
    assert may("connect", "/w/other.sock", exists=False)
    assert not may("connect", "/srv/other.sock", exists=False)
    assert not may("connect", "/w/shut.sock", exists=False)
    assert not may("bind", "/w/shut.sock")
    assert may("bind", "/w/other.sock")
    assert may("bind", "/srv/x.sock")
    assert not may("bind", "/srv/other.sock")


def test_views_answer_for_themselves() -> None:
    """`/dev/null` can be written and `/dev` not filled, even under `write /`; a stricter entry still counts."""
    policy = policy_of("path: /, access: write\npath: /dev/shm, access: deny")
    assert ask(policy, "write", "/dev/null").allowed
    assert not ask(policy, "create", "/dev/node").allowed
    assert not ask(policy, "write", "/proc/sys/kernel/x").allowed
    assert ask(policy, "create", "/dev/pts/3").allowed
    assert not ask(policy, "create", "/dev/shm/x").allowed
    assert ask(policy_of(), "create", "/dev/shm/x").allowed
    assert not ask(policy, "delete", "/").allowed


def test_restrictions_narrow_every_operation() -> None:
    """A ceiling is asked as the stack is, and pins as the stack does."""
    stack = Layers("linux", "workspace-write", "read", (Layer(posix("/w"), "write", ENTRY),))
    narrowed = restrict(stack, "read", [Layer(posix("/w"), "write", ENTRY), Layer(posix("/w/a/b"), "read", ENTRY)])
    assert decide(narrowed, "write", posix("/w/x")).allowed
    assert not decide(narrowed, "write", posix("/w/a/b/x")).allowed
    assert not decide(narrowed, "rename", posix("/w/a"), posix("/w/c")).allowed


def test_case_is_folded_where_the_target_folds_it() -> None:
    """On Windows another spelling is the same place, and its ancestors are pinned under every spelling."""
    base = BASE.replace("seatbelt, bwrap, landlock", "windows")
    policy = policy_of('path: "C:/w/Secret/key", access: deny\npath: "C:/w", access: write', base)
    assert not ask(policy, "read", "c:\\W\\sECRET\\KEY", os="windows").allowed
    assert not ask(policy, "rename", "C:/w/SECRET", "C:/w/x", os="windows").allowed
    assert ask(policy, "rename", "C:/w/other", "C:/w/x", os="windows").allowed


def test_no_confinement_allows_everything() -> None:
    """Under `danger-full-access` nothing is refused, for the reason that it says."""
    policy = policy_of("", "sandboxc: 1\nmode: danger-full-access\n")
    for op in OPERATIONS:
        to = "/x" if op in ("rename", "link") else None
        assert ask(policy, op, "/etc/shadow", to).allowed


def test_wrong_questions_raise() -> None:
    """An unknown operation, and a new name where none belongs, are faults of the caller."""
    stack = Layers("linux", "read-only", "read")
    for op, to in (("fly", None), ("read", posix("/x")), ("rename", None)):
        with pytest.raises(ValueError, match=r"operation|goes with"):
            decide(stack, op, Place("", ("a",)), to)

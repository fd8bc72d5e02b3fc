"""Locks hold against literal lines, patterns, sockets and spellings, and for values that are known only at load."""

from __future__ import annotations

import shutil

import pytest

from sandboxc.bound import bind_stack
from sandboxc.compile import compile_policy
from sandboxc.diagnostics import PolicyError
from sandboxc.facts import Facts
from sandboxc.layers import Layer, Layers
from sandboxc.loader import load_bytes
from sandboxc.meets import Uppers
from sandboxc.places import Place
from tests.judges.seatbelt import decide_all, read_profile

HEAD = "sandboxc: 1\nmode: read-only\nnetwork: allow-all\ntargets: [seatbelt, bwrap]\nentries:\n"
WIDER = [
    ("{path: ~/s, access: deny, locked: true}", "{path: ~/s/x, access: read}"),
    ("{path: ~/s, access: read, locked: true}", "{path: ~/s/x, access: write}"),
    ("{path: ~/s, access: deny, locked: true}", '{glob: "~/*/x", access: write}'),
    ("{path: ~/s, access: deny, locked: true}", '{glob: "~/s/*.x", access: read}'),
    ("{path: ~/s, access: deny, locked: true}", '{glob: "**/x", within: everywhere, access: read}'),
    ('{glob: "~/*.d", access: deny, locked: true}', '{glob: "~/*.d/x", access: write}'),
    ('{glob: "~/*.d", access: deny, locked: true}', '{glob: "~/a.d/x*", access: write}'),
    ('{glob: "~/*.d", access: deny, locked: true}', "{path: ~/a.d/x, access: write}"),
    ('{glob: "**/s", within: everywhere, access: deny, locked: true}', "{path: ~/a/s/x, access: write}"),
    ('{glob: "**/s", within: everywhere, access: deny, locked: true}', '{glob: "~/a*/s/x", access: read}'),
    ("{path: /, access: read, locked: true}", "{path: ~/x, access: write}"),
    ("{path: /run/x, access: deny, locked: true}", "{socket: /run/x/a.sock, access: connect}"),
    ("{path: /run/x, access: read, locked: true}", "{socket: /run/x/a.sock, access: bind}"),
    ('{glob: "/run/*.d", access: deny, locked: true}', "{socket: /run/x.d/a.sock, access: connect}"),
]
WITHIN = [
    ("{path: ~/s, access: deny, locked: true}", "{path: ~/sx, access: write}"),
    ("{path: ~/s, access: read, locked: true}", "{path: ~/s/x, access: deny}"),
    ("{path: ~/s, access: write, locked: true}", "{path: ~/s/x, access: write}"),
    ("{path: ~/s, access: deny, locked: true}", '{glob: "~/*", access: write}'),
    ("{path: ~/s, access: deny, locked: true}", '{glob: "~/t/**", access: write}'),
    ("{path: ~/s, access: deny, locked: true}", '{glob: "**/x", within: everywhere, access: read, except: [s]}'),
    ('{glob: "~/**/*.k", access: deny, locked: true}', '{glob: "~/**/a.k", access: read}'),
    ('{glob: "~/*.d/**", access: deny, locked: true}', '{glob: "~/*.d/x", access: read}'),
    ('{glob: "~/*.d", access: deny, locked: true}', "{path: ~/a.e/x, access: write}"),
    ("{path: /run/x, access: read, locked: true}", "{socket: /run/x/a.sock, access: connect}"),
    ("{path: /run/x, access: deny, locked: true}", "{socket: /run/x/a.sock, access: deny}"),
]  # fmt: skip


def codes(text: str, facts: Facts = Facts()) -> list[str]:  # noqa: B008 -- a value
    """The codes that compiling a policy text reports."""
    loaded = load_bytes("p.yaml", text.encode())
    assert loaded.policy is not None, loaded.diagnostics
    return [item.code for item in compile_policy(loaded.policy, facts=facts).diagnostics]


def both(lock: str, line: str) -> str:
    """A policy of two lines."""
    return f"{HEAD}  - {lock}\n  - {line}\n"


@pytest.mark.parametrize(("lock", "line"), WIDER)
def test_nothing_below_a_lock_is_wider(lock: str, line: str) -> None:
    """A wider line at or below a lock is an error, in either order, be it a path, a pattern or a socket."""
    assert "SBX345" in codes(both(lock, line))
    assert "SBX345" in codes(both(line, lock))


@pytest.mark.parametrize(("lock", "line"), WITHIN)
def test_what_a_lock_does_not_forbid(lock: str, line: str) -> None:
    """Stricter lines, lines beside a lock, and patterns that lose to it everywhere are no conflict."""
    assert "SBX345" not in codes(both(lock, line))


@pytest.mark.parametrize(
    ("locked", "wider"),
    [("~/Foo", "~/foo/x"), ("~/\u00e9", "~/e\u0301/x"), ("/private/var/x", "/var/x/y"), ("/tmp/x", "/private/tmp/x/y")],
)
def test_locks_hold_for_every_spelling_on_macos(locked: str, wider: str) -> None:
    """Case, composed names and root links make no way around a lock."""
    text = both(f'{{path: "{locked}", access: deny, locked: true}}', f'{{path: "{wider}", access: write}}')
    assert "SBX345" in codes(text)
    if locked == "~/Foo":
        assert "SBX345" not in codes(text, Facts(fold_case=False))


def test_entries_that_meet_by_spelling_are_reported() -> None:
    """Two entries that are one place on a volume take the stricter access, and that is said."""
    text = both("{path: ~/Foo, access: deny}", "{path: ~/foo, access: write}")
    assert "SBX715" in codes(text)
    assert "SBX715" not in codes(text, Facts(fold_case=False))
    assert "SBX715" not in codes(text.replace("seatbelt, ", ""))


def test_the_workspace_below_a_locked_root() -> None:
    """Whatever the workspace is bound to lies below `/`, so that conflict shows at compile."""
    assert "SBX345" in codes(both("{path: /, access: read, locked: true}", "{path: /x, access: deny}").replace(
        "read-only", "workspace-write"))  # fmt: skip


@pytest.mark.skipif(shutil.which("tinyscheme") is None, reason="needs tinyscheme")
def test_a_profile_opens_nothing_below_a_lock() -> None:
    """Seatbelt text loaded with a workspace inside a locked place lets nothing through there."""
    text = HEAD.replace("read-only", "workspace-write") + (
        "  - {path: ~/s, access: deny, locked: true}\n  - {path: ~/r, access: read, locked: true}\n"
    )
    loaded = load_bytes("p.yaml", text.encode())
    assert loaded.policy is not None
    native = compile_policy(loaded.policy, ["seatbelt"]).artefacts["seatbelt"].native
    values = {"HOME": "/Users/u", "WORKSPACE": "/Users/u/s/w", "TMP": "/private/t", "RUN_BASE": "/private/b"}
    values |= {"USER_CONFIG": "/Users/u/.config", "USER_CACHE": "/Users/u/.cache"}

    def answers(workspace: str, operation: str, path: str) -> set[bool]:
        found = read_profile(native, values | {"WORKSPACE": workspace})
        return set(decide_all(found, operation, path).values())

    assert answers("/Users/u/s/w", "file-write-data", "/Users/u/s/w/f") == {False}
    assert answers("/Users/u/s/w", "file-read-data", "/Users/u/s/w/f") == {False}
    assert answers("/Users/u/r/w", "file-write-data", "/Users/u/r/w/f") == {False}
    assert answers("/Users/u/r/w", "file-read-data", "/Users/u/r/w/f") == {True}
    assert answers("/Users/u/w", "file-write-data", "/Users/u/w/f") == {True}


@pytest.mark.parametrize(
    ("upper", "lower", "meets", "below"),
    [
        (("a",), ("a",), True, False),
        (("a",), ("a", "b"), True, True),
        (("**", "a"), ("a", "a"), True, True),
        (("**", "a"), ("b", "*"), True, False),
        (("*.d",), ("x*", "y"), True, True),
        (("a", "**"), ("a",), True, False),
        (("a", "b"), ("a",), False, False),
        (("b",), ("**", "c"), True, True),
        (("A",), ("a", "x"), True, True),
        (("[xy]",), ("z", "**"), False, False),
    ],
)
def test_where_patterns_meet(upper: tuple[str, ...], lower: tuple[str, ...], meets: bool, below: bool) -> None:
    """One walk tells which of several patterns match at, or strictly above, a match of another."""
    uppers = Uppers([("other", "name"), upper, ("zz",)], True)
    found = uppers.meeting(lower, uppers.first())
    assert bool(found & uppers.ends([1])) is meets
    assert bool(uppers.meeting(lower, uppers.first(), strictly=True) & uppers.ends([1])) is below


@pytest.mark.parametrize(("os", "refused"), [("macos", True), ("linux", False)])
def test_binding_holds_a_lock_in_every_spelling(os: str, refused: bool) -> None:
    """A root that is bound below a lock spelled in another case is refused where volumes fold case."""
    home = Place("", ("Users", "u"))
    lock = Layer(home.child("Vault"), "deny", "entry", locked=True, text="~/Vault")
    root = Layer(Place("workspace", ()), "write", "mode", "workspace", text="${workspace}")
    stack = Layers(os, "workspace-write", "read", (lock, root))
    values = {"workspace": "/Users/u/vault/w"}
    if not refused:
        assert bind_stack(stack, {}, [], values)[1].layers
        return
    with pytest.raises(PolicyError) as fault:
        bind_stack(stack, {}, [], values)
    assert [item.code for item in fault.value.diagnostics] == ["SBX345"]

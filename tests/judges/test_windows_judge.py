"""The Windows judge: measured facts about write roots, islands and pins, with Samba's own access check."""

from __future__ import annotations

import random

import pytest

from . import windows
from ._ntfs import (
    ALL,
    DELETE,
    DELETE_CHILD,
    EVERYONE,
    GENERIC_READ,
    GENERIC_WRITE,
    READ_CONTROL,
    READ_DATA,
    WRITE_BITS,
    WRITE_DAC,
    WRITE_DATA,
)
from .windows import (
    PlanError,
    Token,
    Tree,
    access,
    apply_plan,
    can,
    granted,
    parse_ace,
    perform,
    revert,
)

pytestmark = pytest.mark.skipif(not windows.available(), reason="Samba's Python package is not installed")

USER = "S-1-5-21-1-2-3-1001"
OTHER = "S-1-5-21-1-2-3-1002"
LOGON = "S-1-5-5-0-77"
SANDBOX = "S-1-4-11-22"
PLAIN = Token(normal=(USER, EVERYONE, "BU", "AU"))
BOXED = Token(normal=(USER, EVERYONE, "BU", "AU"), restricting=(LOGON, EVERYONE, SANDBOX))
BOXED_STRICT = Token(normal=BOXED.normal, restricting=(SANDBOX,), write_restricted=False)
VOLUME = f"O:SYG:SYD:(A;OICI;0x1f01ff;;;SY)(A;OICI;0x1200a9;;;BU)(A;OICI;0x1f01ff;;;{USER})"

ROOT_ACES = (f"(A;OICI;0x100116;;;{SANDBOX})", f"(A;OICIIO;0x10000;;;{SANDBOX})")
ISLAND_ACE = f"(D;OICI;0xd0156;;;{SANDBOX})"
PIN_ACE = f"(D;;0x10000;;;{SANDBOX})"


def world() -> Tree:
    r"""C:\w with a repository, a read island two levels down, and a deeper write root in the island."""
    tree = Tree("C:\\", VOLUME)
    for path in (
        "C:\\w",
        "C:\\w\\.git",
        "C:\\w\\.git\\hooks",
        "C:\\w\\a",
        "C:\\w\\a\\ro",
        "C:\\w\\a\\ro\\rw",
    ):
        tree.add(path, directory=True)
    tree.add("C:\\w\\a\\ro\\rw\\deep", directory=True)
    files = (
        "w\\f",
        "w\\.git\\config",
        "w\\.git\\hooks\\h",
        "w\\a\\f",
        "w\\a\\ro\\f",
        "w\\a\\ro\\rw\\deep\\f",
        "out",
    )
    for path in files:
        tree.add("C:\\" + path)
    return tree


def step(number: int, path: str, ace: str, kind: str = "directory") -> dict[str, object]:
    """One step of a plan."""
    return {
        "id": f"s{number}",
        "path": path,
        "object": kind,
        "ace": ace,
        "inherit": True,
        "why": 0,
        "undo": {},
    }


def plan(*pairs: tuple[str, str]) -> dict[str, object]:
    """A plan of (path, ACE) steps on directories."""
    return {"steps": [step(number, path, ace) for number, (path, ace) in enumerate(pairs)]}


NESTED = plan(
    *(("C:\\w", ace) for ace in ROOT_ACES),
    ("C:\\w\\a\\ro", ISLAND_ACE),
    ("C:\\w\\.git\\hooks", ISLAND_ACE),
    ("C:\\w\\a", PIN_ACE),
    ("C:\\w\\.git", PIN_ACE),
    *(("C:\\w\\a\\ro\\rw", ace) for ace in ROOT_ACES),
)


@pytest.fixture
def tree() -> Tree:
    """The world with the nested plan applied."""
    made = world()
    apply_plan(made, NESTED)
    return made


# ---- measured facts ----


def test_without_a_plan_nothing_is_writable() -> None:
    """The second check refuses every write right where no ACE names a restricting SID, and no read right."""
    bare = world()
    for node in list(bare.nodes.values()):
        assert granted(bare, node.path, BOXED) & WRITE_BITS == 0
        assert can(bare, "read", node.path, BOXED)


def test_write_root_children_can_go_and_the_root_cannot(tree: Tree) -> None:
    """The pair of ACEs of a write root fills and empties it, but does not remove the root itself."""
    for op, path in (
        ("write", "f"),
        ("delete", "f"),
        ("create", "new"),
        ("create-directory", "new"),
        ("write", "a\\f"),
    ):
        assert can(tree, op, f"C:\\w\\{path}", BOXED), (op, path)
    assert not can(tree, "delete", "C:\\w", BOXED)
    assert not can(tree, "rename", "C:\\w", BOXED, to="C:\\w2")
    assert granted(tree, "C:\\w", BOXED) & (DELETE | DELETE_CHILD | WRITE_DAC) == 0
    assert not can(tree, "create", "C:\\new", BOXED)
    assert not can(tree, "write", "C:\\out", BOXED)


@pytest.mark.parametrize("island", ["C:\\w\\a\\ro", "C:\\w\\.git\\hooks"])
def test_read_island(tree: Tree, island: str) -> None:
    """A read island refuses all writes at and below it, and stays readable with the full read mask."""
    inner = next(node.path for node in tree.children(island) if not node.is_directory)
    for path in (island, inner):
        assert granted(tree, path, BOXED) & WRITE_BITS == 0
        assert can(tree, "read", path, BOXED)
    assert not can(tree, "create", island + "\\new", BOXED)
    assert not can(tree, "rename", inner, BOXED, to="C:\\w\\stolen")
    assert not can(tree, "rename", island, BOXED, to="C:\\w\\moved")
    assert not can(tree, "delete", inner, BOXED)


def test_deeper_write_root_beats_the_island(tree: Tree) -> None:
    """The explicit allow of a deeper write root beats the inherited deny, to any depth."""
    assert can(tree, "create", "C:\\w\\a\\ro\\rw\\new", BOXED)
    assert can(tree, "write", "C:\\w\\a\\ro\\rw\\deep\\f", BOXED)
    assert can(tree, "delete", "C:\\w\\a\\ro\\rw\\deep\\f", BOXED)
    assert not can(tree, "delete", "C:\\w\\a\\ro\\rw", BOXED)
    assert all(windows.is_canonical(node) for node in tree.nodes.values())


def test_pins_hold_ancestors_only(tree: Tree) -> None:
    """A pinned ancestor of an island cannot move or go; what lies beside it can."""
    for path in ("C:\\w\\.git", "C:\\w\\a"):
        assert not can(tree, "rename", path, BOXED, to="C:\\w\\other")
        assert not can(tree, "delete", path, BOXED)
        assert can(tree, "create", path + "\\new", BOXED)
    assert can(tree, "rename", "C:\\w\\.git\\config", BOXED, to="C:\\w\\.git\\config2")


def test_without_the_pin_the_island_moves_away() -> None:
    """The pin is what stops the two-step attack: without it the ancestor is renamed and made anew."""
    loose = world()
    apply_plan(loose, plan(*(("C:\\w", ace) for ace in ROOT_ACES), ("C:\\w\\.git\\hooks", ISLAND_ACE)))
    assert perform(loose, "rename", "C:\\w\\.git", BOXED, to="C:\\w\\.git2")
    assert perform(loose, "create-directory", "C:\\w\\.git", BOXED)
    assert perform(loose, "create-directory", "C:\\w\\.git\\hooks", BOXED)
    assert perform(loose, "create", "C:\\w\\.git\\hooks\\pre-commit", BOXED)
    assert not can(loose, "write", "C:\\w\\.git2\\hooks\\h", BOXED)


def test_delete_child_undoes_an_island() -> None:
    """A write root that grants DELETE_CHILD lets the island's root be deleted and replaced."""
    loose = world()
    wide = f"(A;OICI;0x100156;;;{SANDBOX})"
    apply_plan(loose, plan(("C:\\w", wide), ("C:\\w", ROOT_ACES[1]), ("C:\\w\\.git\\hooks", ISLAND_ACE)))
    assert not access(loose, "C:\\w\\.git\\hooks", DELETE, BOXED.normal, BOXED.restricting)
    assert can(loose, "delete", "C:\\w\\.git\\hooks", BOXED)


def test_the_users_own_access_is_unchanged(tree: Tree) -> None:
    """ACEs on the sandbox SID change nothing for the user, on any node."""
    before = world()
    for node in before.nodes.values():
        assert granted(before, node.path, PLAIN) == granted(tree, node.path, PLAIN)


def test_read_deny_is_not_held_under_write_restricted() -> None:
    """A read deny on a restricting SID is inert under WRITE_RESTRICTED, and holds otherwise."""
    denied = world()
    strict_read = f"(A;OICI;0x1200a9;;;{SANDBOX})"
    apply_plan(denied, plan(("C:\\", strict_read), ("C:\\w\\a", f"(D;OICI;0x1;;;{SANDBOX})")))
    assert can(denied, "read-data", "C:\\w\\a\\f", BOXED)
    assert not can(denied, "read-data", "C:\\w\\a\\f", BOXED_STRICT)
    assert can(denied, "read", "C:\\w\\f", BOXED_STRICT)


def test_new_objects_follow_their_place(tree: Tree) -> None:
    """What the run makes inherits: writable in the root, and its owner cannot rewrite the descriptor."""
    assert perform(tree, "create-directory", "C:\\w\\new", BOXED)
    assert perform(tree, "create", "C:\\w\\new\\f", BOXED)
    assert can(tree, "write", "C:\\w\\new\\f", BOXED)
    assert tree.node("C:\\w\\new\\f").owner == USER
    assert not can(tree, "chmod", "C:\\w\\new\\f", BOXED)
    assert can(tree, "chmod", "C:\\w\\new\\f", PLAIN)
    assert perform(tree, "delete", "C:\\w\\new\\f", BOXED)
    assert perform(tree, "delete", "C:\\w\\new", BOXED)


# ---- applying ----


def test_apply_is_idempotent_and_revert_is_exact() -> None:
    """A second apply changes nothing, and revert gives back every descriptor, also after two applies."""
    tree = world()
    before = tree.snapshot()
    first = apply_plan(tree, NESTED)
    after = tree.snapshot()
    second = apply_plan(tree, NESTED)
    assert after == tree.snapshot()
    assert all(item.added for item in first) and not any(item.added for item in second)
    revert(tree, second)
    assert after == tree.snapshot()
    revert(tree, first)
    assert before == tree.snapshot()


def test_revert_leaves_what_was_there_before() -> None:
    """An ACE that stood before the plan is not added and therefore not taken away."""
    tree = world()
    tree.add_ace("C:\\w", parse_ace(ROOT_ACES[0]))
    before = tree.snapshot()
    revert(tree, apply_plan(tree, NESTED))
    assert before == tree.snapshot()


def test_symbolic_plans_take_values() -> None:
    """Symbols in paths and ACEs are replaced; one that is left over is an error."""
    tree = world()
    symbolic = plan(("${workspace}\\a", "(A;OICI;0x100116;;;${sid})"))
    values = {"${workspace}": "C:\\w", "${sid}": SANDBOX}
    assert len(apply_plan(tree, symbolic, replace=values)) == 1
    assert can(tree, "write", "C:\\w\\a\\f", BOXED)
    with pytest.raises(PlanError, match="symbolic"):
        apply_plan(tree, symbolic, replace={"${workspace}": "C:\\w"})


@pytest.mark.parametrize(
    ("path", "kind", "ace"),
    [
        ("C:\\w\\f", "directory", PIN_ACE),  # not a directory
        ("C:\\w\\f", "file", ROOT_ACES[0]),  # a file passes nothing on
        ("C:\\none", "directory", PIN_ACE),
        ("w\\a", "directory", PIN_ACE),
        ("C:\\w", "folder", PIN_ACE),
        ("C:\\w", "directory", f"(A;OI CI;0x1;;;{SANDBOX})"),
        ("C:\\w", "directory", f"(A;OICI;FA;;;{SANDBOX})"),
        ("C:\\w", "directory", f"(A;ID;0x1;;;{SANDBOX})"),
        ("C:\\w", "directory", f"(A;IO;0x1;;;{SANDBOX})"),
        ("C:\\w", "directory", f"(A;OIOI;0x1;;;{SANDBOX})"),
        ("C:\\w", "directory", f"(A;OICI;0x0;;;{SANDBOX})"),
        ("C:\\w", "directory", "(A;OICI;0x1;;;workspace)"),
        ("C:\\w", "directory", f"(A;OICI;0x1;;;{SANDBOX})(A;;0x1;;;WD)"),
        ("C:\\w", "directory", f"(XA;OICI;0x1;;;{SANDBOX};(x))"),
    ],
)
def test_bad_steps_are_refused(path: str, kind: str, ace: str) -> None:
    """A step that Windows would refuse, or that names another object than it says, is an error."""
    with pytest.raises(PlanError):
        apply_plan(world(), {"steps": [step(1, path, ace, kind)]})


def test_missing_objects_can_be_skipped() -> None:
    """A plan for a tree that lacks an object may be applied without that step, if asked for."""
    tree = world()
    assert apply_plan(tree, plan(("C:\\none", PIN_ACE)), missing="skip") == []


# ---- inheritance ----


@pytest.mark.parametrize(
    ("flags", "on_directory", "on_file"),
    [
        ("OICI", "OICIID", "ID"),
        ("CI", "CIID", None),
        ("OI", "OIIOID", "ID"),
        ("OICIIO", "OICIID", "ID"),
        ("OICINP", "ID", "ID"),
        ("OINP", None, "ID"),
        ("CINP", "ID", None),
        ("", None, None),
    ],
)
def test_inheritance_flags(flags: str, on_directory: str | None, on_file: str | None) -> None:
    """Each combination of flags reaches directories and files as documented, to existing and new objects."""
    tree = Tree("C:\\", "O:SYG:SYD:")
    for name in ("d", "f"):
        tree.add(f"C:\\old-{name}", directory=name == "d")
    tree.add_ace("C:\\", parse_ace(f"(A;{flags};0x1;;;WD)"))
    for name in ("d", "f"):
        tree.create(f"C:\\new-{name}", owner=USER, directory=name == "d")
    for name, expected in (("d", on_directory), ("f", on_file)):
        aces = [] if expected is None else [f"(A;{expected};0x1;;;S-1-1-0)"]
        for age in ("old", "new"):
            assert aces == [str(ace) for ace in tree.node(f"C:\\{age}-{name}").dacl]


def test_protected_dacl_stops_inheritance() -> None:
    """A protected DACL receives nothing, and neither does what is below it."""
    tree = Tree("C:\\", "O:SYG:SYD:")
    tree.add("C:\\p", directory=True, sddl="O:SYG:SYD:P(A;OICI;0x1;;;SY)")
    tree.add("C:\\p\\f")
    tree.add_ace("C:\\", parse_ace("(A;OICI;0x2;;;WD)"))
    assert "".join(map(str, tree.node("C:\\p").dacl)) == "(A;OICI;0x1;;;S-1-5-18)"
    assert "".join(map(str, tree.node("C:\\p\\f").dacl)) == "(A;ID;0x1;;;S-1-5-18)"


def test_creator_owner_and_generic_rights() -> None:
    """Creator owner and generic rights become concrete on the child and travel on unchanged."""
    tree = Tree("C:\\", "O:SYG:SYD:(A;OICIIO;0x10000000;;;CO)")
    tree.create("C:\\d", owner=USER, directory=True)
    tree.create("C:\\d\\f", owner=OTHER)
    assert [f"(A;ID;0x1f01ff;;;{USER})", "(A;OICIIOID;0x10000000;;;S-1-3-0)"] == [
        str(a) for a in tree.node("C:\\d").dacl
    ]
    assert [f"(A;ID;0x1f01ff;;;{OTHER})"] == [str(ace) for ace in tree.node("C:\\d\\f").dacl]


def test_canonical_order_nearest_ancestor_first() -> None:
    """Explicit deny, explicit allow, then the parent's, then the grandparent's, deny first in each."""
    tree = Tree("C:\\", "O:SYG:SYD:(D;CI;0x1;;;WD)(A;CI;0x2;;;WD)")
    tree.add("C:\\a", directory=True)
    tree.add("C:\\a\\b", directory=True)
    for path, ace in (
        ("C:\\a", "(A;CI;0x10;;;WD)"),
        ("C:\\a\\b", "(A;CI;0x100;;;WD)"),
        ("C:\\a", "(D;CI;0x8;;;WD)"),
        ("C:\\a\\b", "(D;CI;0x80;;;WD)"),
    ):
        tree.add_ace(path, parse_ace(ace))
    assert [ace.mask for ace in tree.node("C:\\a\\b").dacl] == [0x80, 0x100, 0x8, 0x10, 0x1, 0x2]


def test_a_move_keeps_the_descriptor() -> None:
    """A renamed object keeps its inherited ACEs, so it stays as writable as it was."""
    tree = world()
    apply_plan(tree, plan(("C:\\w\\a", ROOT_ACES[0]), ("C:\\w\\a", ROOT_ACES[1])))
    assert not can(tree, "rename", "C:\\w\\a\\f", BOXED, to="C:\\w\\moved")
    tree.move("C:\\w\\a\\f", "C:\\w\\moved")
    assert can(tree, "write", "C:\\W\\MOVED", BOXED)


# ---- access checks ----


@pytest.mark.parametrize(
    ("dacl", "mask", "expected"),
    [
        ("(D;;0x2;;;WD)(A;;0x1f01ff;;;WD)", WRITE_DATA, False),
        ("(A;;0x1f01ff;;;WD)(D;;0x2;;;WD)", WRITE_DATA, True),  # the check takes the list as it is written
        ("(A;ID;0x1f01ff;;;WD)(D;;0x2;;;WD)", WRITE_DATA, True),
        ("(A;OIIO;0x1f01ff;;;WD)", READ_DATA, False),  # inherit-only says nothing here
        ("", READ_DATA, False),  # an empty DACL denies
        ("(A;;0x1;;;BU)(A;;0x120088;;;AU)", GENERIC_READ, True),  # rights add up
        (f"(A;;0x1f01ff;;;{OTHER})", READ_DATA, False),
        ("(A;;0x1f01ff;;;WD)(A;;0x120116;;;WD)", GENERIC_WRITE, True),
    ],
)
def test_access_check(dacl: str, mask: int, expected: bool) -> None:
    """The first ACE that settles a right decides, in the order of the list."""
    tree = Tree("C:\\", f"O:SYG:SYD:{dacl}")
    assert expected == access(tree, "C:\\", mask, PLAIN.normal, None)


def test_owner_rights() -> None:
    """An owner reads and changes the descriptor against a deny, unless an OWNER RIGHTS ACE says otherwise."""
    plain = Tree("C:\\", f"O:{USER}G:SYD:(D;;0x1f01ff;;;WD)")
    limited = Tree("C:\\", f"O:{USER}G:SYD:(A;;0x20000;;;OW)(A;;0x1;;;WD)")
    assert granted(plain, "C:\\", PLAIN) == READ_CONTROL | WRITE_DAC
    assert granted(limited, "C:\\", PLAIN) == READ_CONTROL | READ_DATA
    assert granted(plain, "C:\\", BOXED) == READ_CONTROL


def test_denying_generic_write_breaks_plain_reads() -> None:
    """GENERIC_WRITE holds READ_CONTROL and SYNCHRONIZE, so a deny of it refuses GENERIC_READ too."""
    tree = Tree("C:\\", "O:SYG:SYD:(D;;0x120116;;;BU)(A;;0x1f01ff;;;WD)")
    assert not can(tree, "read", "C:\\", PLAIN)
    assert can(tree, "read-data", "C:\\", PLAIN)


def test_both_checks_must_pass() -> None:
    """A right needs the normal SIDs and the restricting SIDs; a strict token asks for reads twice as well."""
    only_user = Tree("C:\\", f"O:SYG:SYD:(A;;0x1f01ff;;;{USER})")
    only_box = Tree("C:\\", f"O:SYG:SYD:(A;;0x1f01ff;;;{SANDBOX})")
    both = Tree("C:\\", f"O:SYG:SYD:(A;;0x1f01ff;;;{USER})(A;;0x1f01ff;;;{SANDBOX})")
    assert granted(only_user, "C:\\", BOXED) == ALL & ~WRITE_BITS
    assert granted(only_user, "C:\\", BOXED_STRICT) == 0
    assert granted(only_box, "C:\\", BOXED) == 0
    assert ALL == granted(both, "C:\\", BOXED) == granted(both, "C:\\", BOXED_STRICT)


def test_everyone_as_restricting_sid_opens_everyones_folders() -> None:
    """A folder that Everyone may write is writable in the sandbox: the published standing limit."""
    tree = Tree("C:\\", "O:SYG:SYD:(A;;0x1f01ff;;;WD)")
    assert can(tree, "create", "C:\\x", BOXED)
    assert not can(tree, "create", "C:\\x", BOXED_STRICT)


def test_rename_over_needs_both_ends() -> None:
    """Renaming removes the source, adds to the target's parent, and removes what is there."""
    tree = Tree("C:\\", "O:SYG:SYD:")
    tree.add("C:\\src", sddl="O:SYG:SYD:(A;;0x10000;;;WD)")
    tree.add("C:\\dst", sddl="O:SYG:SYD:")
    assert not can(tree, "rename", "C:\\src", PLAIN, to="C:\\new")
    tree.add_ace("C:\\", parse_ace("(A;;0x2;;;WD)"))
    assert can(tree, "rename", "C:\\src", PLAIN, to="C:\\new")
    assert not can(tree, "rename", "C:\\src", PLAIN, to="C:\\dst")
    tree.add_ace("C:\\", parse_ace("(A;;0x40;;;WD)"))
    assert can(tree, "rename", "C:\\src", PLAIN, to="C:\\dst")


def test_samba_agrees_with_a_plain_walk() -> None:
    """On random DACLs, inherited ones included, Samba and a walk over the ACEs give the same answers."""
    rng = random.Random(1)
    sids = (EVERYONE, USER, SANDBOX, "S-1-5-32-545")

    def walk(aces: list[windows.Ace], held: tuple[str, ...], mask: int) -> bool:
        for ace in aces:
            if ace.sid in held and "IO" not in ace.flags:
                if ace.kind == "D" and ace.mask & mask:
                    return False
                mask &= ~ace.mask if ace.kind == "A" else -1
            if not mask:
                return True
        return False

    def some_mask() -> int:
        return rng.randrange(1, ALL) & rng.randrange(1, ALL) & ALL or READ_DATA

    for _ in range(150):
        flags = ("", "OI", "CI", "OICI", "OICIIO", "OICINP")
        aces = (
            f"({rng.choice('AD')};{rng.choice(flags)};0x{some_mask():x};;;{rng.choice(sids)})"
            for _ in range(rng.randrange(6))
        )
        tree = Tree("C:\\", "O:SYG:SYD:" + "".join(aces))
        tree.add("C:\\d", directory=True)
        tree.add("C:\\d\\f")
        normal, restricting = (tuple(rng.sample(sids, rng.randrange(1, 4))) for _ in range(2))
        questions = [(path, some_mask()) for path in ("C:\\", "C:\\d", "C:\\d\\f")]
        token = Token(normal=normal, restricting=restricting)
        expected = [
            walk(tree.node(path).dacl, normal, mask)
            and (not mask & WRITE_BITS or walk(tree.node(path).dacl, restricting, mask & WRITE_BITS))
            for path, mask in questions
        ]
        assert windows.access_many(tree, questions, token) == expected


def test_masks_must_be_file_rights() -> None:
    """Generic bits and MAXIMUM_ALLOWED are no file rights and are refused as questions."""
    tree = world()
    for mask in (0, 0x2000000, 0x80000000):
        with pytest.raises(ValueError, match="file rights"):
            access(tree, "C:\\w", mask, PLAIN.normal, None)


def test_default_dacl_where_nothing_is_inherited() -> None:
    """A new object below a directory that passes nothing on gets the token's default DACL."""
    tree = Tree("C:\\", "O:SYG:SYD:(A;;0x1f01ff;;;WD)")
    token = Token(normal=(USER, EVERYONE), default_dacl=f"(A;;0x1f01ff;;;{USER})")
    assert perform(tree, "create", "C:\\f", token)
    assert [f"(A;;0x1f01ff;;;{USER})"] == [str(ace) for ace in tree.node("C:\\f").dacl]

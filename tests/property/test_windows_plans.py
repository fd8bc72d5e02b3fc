"""Windows plans for random policies, applied to a tree and judged by Samba's own access check."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandboxc.emitters.artefact import Options
from sandboxc.emitters.windows import emit, finalise
from sandboxc.facts import Facts
from sandboxc.globs import Glob
from sandboxc.layers import ENTRY, MODE, PROTECTED, Index, Layer, Layers, bind, restrict, sort_key
from sandboxc.loader import load_bytes
from sandboxc.lower import lower
from sandboxc.places import Place
from sandboxc.policy import ALLOW_ALL, DENY, READ, WRITE, Network
from tests.judges import windows as judge
from tests.property.windows_world import (
    LOGON,
    NORMAL,
    ask,
    bound_plan,
    expected,
    held_places,
    judge_tree,
    look,
    make_occupants,
    place,
    plan_of,
    questions,
    token,
)

pytestmark = pytest.mark.skipif(not judge.available(), reason="Samba's Python package is not installed")

NAMES = ("a", "b")
DIRECTORIES = [f"C:\\{one}" for one in NAMES] + [f"C:\\{one}\\{two}" for one in NAMES for two in NAMES]
DIRECTORIES += [f"C:\\a\\{two}\\{three}" for two in NAMES for three in NAMES]
OBJECTS = dict.fromkeys(DIRECTORIES, "directory") | {f"{path}\\f": "file" for path in DIRECTORIES}
PLACES = [place(path) for path in OBJECTS]
SETTINGS = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
FACTS = Facts()


def layers_at(places: st.SearchStrategy[Place]) -> st.SearchStrategy[Layer]:
    """Layers of any access and of three origins; a protected name is a cap."""
    return st.builds(
        lambda where, access, origin: Layer(
            where,
            READ if origin == PROTECTED else access,
            origin,
            origin,
            cap=origin == PROTECTED,
            absent="placeholder" if access != WRITE else "report",
            text=where.text(),
        ),
        places,
        st.sampled_from((DENY, READ, WRITE)),
        st.sampled_from((MODE, ENTRY, ENTRY, PROTECTED)),
    )


def stack_of(layers: list[Layer], baseline: str = READ) -> Layers:
    """A stack as lowering would give it: one entry a place, in canonical order."""
    kept = {(layer.where, layer.origin): layer for layer in layers}
    return Layers(
        "windows", "workspace-write", baseline, tuple(sorted(kept.values(), key=sort_key)), network=Network(ALLOW_ALL)
    )


def differences(stack: Layers, tree: judge.Tree, box: judge.Token, reads: bool) -> list[tuple[str, str, bool]]:
    """Each question where judge and layers part; reads only where the plan says that it holds them."""
    index = Index(stack, fold=True)
    held = held_places(stack, index, tree)
    found = []
    for op, path in questions(tree):
        if op == "read" and not reads:
            assert ask(op, path, tree, box)
            continue
        answer = ask(op, path, tree, box)
        if answer != expected(op, path, index, tree, held):
            found.append((op, path, answer))
    return found


@SETTINGS
@given(st.lists(layers_at(st.sampled_from(PLACES)), max_size=6))
def test_bound_plans_hold_every_write(layers: list[Layer]) -> None:
    """Writing, creating, deleting and renaming equal the layers on every object, and reads stay open."""
    stack = stack_of(layers)
    tree = judge_tree(OBJECTS)
    plan = plan_of(finalise(stack, FACTS, Options(), look(tree), with_scripts=False))
    journal = judge.apply_plan(tree, plan)
    assert differences(stack, tree, token(plan), reads=False) == []
    assert all(judge.is_canonical(node) for node in tree.nodes.values())
    after = tree.snapshot()
    assert not any(step.added for step in judge.apply_plan(tree, plan)) and after == tree.snapshot()
    judge.revert(tree, journal)
    assert judge_tree(OBJECTS).snapshot() == tree.snapshot()


@SETTINGS
@given(st.lists(layers_at(st.sampled_from(PLACES)), max_size=6), st.sampled_from((READ, DENY)))
def test_strict_plans_hold_reads_too(layers: list[Layer], baseline: str) -> None:
    """Under strict reads a denied place cannot be read either, and what a baseline leaves open is only narrower."""
    stack = stack_of(layers, baseline)
    tree = judge_tree(OBJECTS)
    options = Options(windows_reads="strict")
    plan = plan_of(finalise(stack, FACTS, options, look(tree), with_scripts=False))
    judge.apply_plan(tree, plan)
    found = differences(stack, tree, token(plan), reads=True)
    if baseline == DENY:
        assert found == []
    index = Index(stack, fold=True)
    for op, path, answer in found:
        assert op == "read" and not answer and index.decide(place(path)).layer is None


@SETTINGS
@given(
    st.lists(layers_at(st.sampled_from(PLACES)), max_size=5),
    st.lists(layers_at(st.sampled_from(PLACES)), max_size=4),
)
def test_restrictions_hold(layers: list[Layer], asked: list[Layer]) -> None:
    """A restricted stack is held like any other: at every object the stricter of the two."""
    stack = restrict(stack_of(layers), READ, stack_of([x._replace(cap=False) for x in asked]).layers)
    tree = judge_tree(OBJECTS)
    plan = plan_of(finalise(stack, FACTS, Options(), look(tree), with_scripts=False))
    judge.apply_plan(tree, plan)
    assert differences(stack, tree, token(plan), reads=False) == []


PATTERNS = (("**", "f"), ("**", "a", "f"), ("*", "b"), ("**", "b"), ("a", "**", "f"))


@SETTINGS
@given(
    st.lists(layers_at(st.sampled_from(PLACES)), max_size=4),
    st.lists(
        st.tuples(st.sampled_from(PATTERNS), st.sampled_from(DIRECTORIES[:4]), st.sampled_from((DENY, READ, WRITE))),
        max_size=3,
    ),
)
def test_patterns_become_steps(layers: list[Layer], patterns: list[tuple[tuple[str, ...], str, str]]) -> None:
    """Patterns hold for every name that is there, and pin only what rule 7 says of patterns."""
    made = [
        Layer(Glob(place(anchor), pattern, "/".join(pattern)), access, ENTRY, text="/".join(pattern))
        for pattern, anchor, access in patterns
    ]
    stack = stack_of([*layers, *made])
    tree = judge_tree(OBJECTS)
    plan = plan_of(finalise(stack, FACTS, Options(), look(tree), with_scripts=False))
    judge.apply_plan(tree, plan)
    assert differences(stack, tree, token(plan), reads=False) == []


@SETTINGS
@given(
    st.lists(layers_at(st.deferred(lambda: st.sampled_from(SYMBOLIC))), max_size=6),
    st.fixed_dictionaries({name: st.sampled_from(DIRECTORIES) for name in ("workspace", "home", "cache")}),
    st.sampled_from((READ, DENY)),
)
def test_strict_symbolic_plans_are_never_wider(layers: list[Layer], values: dict[str, str], baseline: str) -> None:
    """Under strict reads too, one symbolic plan opens nothing that the bound layers close."""
    symbolic = stack_of(layers, baseline)
    stack = bind(symbolic, {name: place(path) for name, path in values.items()})
    tree = judge_tree(OBJECTS)
    plan = plan_of(emit(symbolic, FACTS, Options(windows_reads="strict")))
    judge.apply_plan(tree, bound_plan(plan, values, tree))
    found = differences(stack, tree, token(plan, values), reads=True)
    assert not [item for item in found if item[2]]


SYMBOLIC = [Place(root, parts) for root in ("workspace", "home", "cache") for parts in ((), ("a",), ("b", "a"))]


@SETTINGS
@given(
    st.lists(layers_at(st.sampled_from([*SYMBOLIC, place("C:\\a\\b")])), max_size=6),
    st.fixed_dictionaries({name: st.sampled_from(DIRECTORIES) for name in ("workspace", "home", "cache")}),
)
def test_symbolic_plans_hold_for_every_nesting(layers: list[Layer], values: dict[str, str]) -> None:
    """One symbolic plan serves all nestings: exact where no two roots' layers tie, and never wider anywhere."""
    symbolic = stack_of(layers)
    stack = bind(symbolic, {name: place(path) for name, path in values.items()})
    tree = judge_tree(OBJECTS)
    plan = plan_of(emit(symbolic, FACTS, Options()))
    bound = bound_plan(plan, values, tree)
    judge.apply_plan(tree, bound)
    found = differences(stack, tree, token(plan, values), reads=False)
    places = [layer.where for layer in stack.layers]
    tied = {where for where in places if places.count(where) > 1}
    if not tied:
        assert found == []
    assert not [item for item in found if item[2]]


GONE = [place(f"{path}\\gone{tail}") for path in DIRECTORIES for tail in ("", "\\deep\\er")]


@SETTINGS
@given(st.lists(layers_at(st.sampled_from(GONE)), max_size=3))
def test_absent_entries_are_occupied(layers: list[Layer]) -> None:
    """A refusal on a path that is not there is held by an occupant, and undoing takes it away."""
    stack = stack_of([*layers, Layer(place("C:\\a"), WRITE, MODE, "workspace")])
    stack = stack._replace(layers=tuple(layer for layer in stack.layers if not layer.cap))
    tree = judge_tree(OBJECTS)
    plan = plan_of(finalise(stack, FACTS, Options(), look(tree), with_scripts=False))
    made = make_occupants(tree, plan)
    journal = judge.apply_plan(tree, plan)
    box = token(plan)
    index = Index(stack, fold=True)
    for layer in stack.layers:
        path = layer.where.native() if isinstance(layer.where, Place) else ""
        if layer.access != WRITE and layer.origin == ENTRY and index.access(layer.where.parent) == WRITE:
            assert not judge.can(tree, "write", path, box) and not judge.can(tree, "delete", path, box)
    judge.revert(tree, journal)
    for path in reversed(made):
        tree.remove(path)
    assert judge_tree(OBJECTS).snapshot() == tree.snapshot()


@SETTINGS
@given(st.lists(layers_at(st.sampled_from(PLACES)), max_size=6))
def test_the_users_own_access_never_changes(layers: list[Layer]) -> None:
    """No step names a SID that the user's ordinary token holds, so that token is answered as before."""
    tree = judge_tree(OBJECTS)
    plan = plan_of(finalise(stack_of(layers), FACTS, Options(), look(tree), with_scripts=False))
    judge.apply_plan(tree, plan)
    named = {judge.parse_ace(step["ace"]).sid for step in plan["steps"]}
    assert not named & {judge.sid(text) for text in (*NORMAL, LOGON)}
    plain = judge.Token(normal=NORMAL)
    asks = [(node.path, bit) for node in tree.nodes.values() for bit in (0x1, 0x2, 0x10000)]
    assert judge.access_many(judge_tree(OBJECTS), asks, plain) == judge.access_many(tree, asks, plain)


POLICY = b"""sandboxc: 1
mode: workspace-write
temp: private
targets: [windows]
entries:
  - {path: "${workspace}/vendor/", access: read}
  - {path: "${workspace}/vendor/out/", access: write}
  - {path: "${workspace}/a/secret/", access: deny}
"""
VALUES = {
    "workspace": "C:\\src\\repo",
    "home": "C:\\Users\\u",
    "run-base": "C:\\run",
    "run-tmp": "C:\\run\\1",
    "policy": "C:\\src\\repo\\ci\\policies\\p.yaml",
}
REPOSITORY = (
    dict.fromkeys(
        (
            *("C:\\src", "C:\\src\\repo", "C:\\src\\other", "C:\\Users", "C:\\Users\\u", "C:\\Users\\u\\.ssh"),
            *("C:\\run", "C:\\run\\1", "C:\\run\\2"),
            *(
                f"C:\\src\\repo\\{name}"
                for name in (
                    *(".git", ".git\\hooks", ".git\\objects", ".git\\refs", ".vscode", "vendor", "vendor\\out"),
                    *("a", "a\\secret", "a\\plain", "b", "ci", "ci\\policies", "Documents", "Documents\\PowerShell"),
                )
            ),
        ),
        "directory",
    )
    | dict.fromkeys((f"C:\\src\\repo\\.git\\{name}" for name in ("config", "index", "HEAD", "hooks\\pre-push")), "file")
    | {"C:\\src\\repo\\ci\\policies\\p.yaml": "file", "C:\\Users\\u\\.ssh\\id": "file", "C:\\src\\repo\\.npmrc": "file"}
    | {"C:\\src\\repo\\a\\secret\\k": "file", "C:\\src\\repo\\vendor\\v": "file", "C:\\run\\1\\t": "file"}
)
ALLOWED = (
    *(("create", f"C:\\src\\repo\\{name}") for name in (".git\\index.lock", ".git\\objects\\ab", "new", "a\\plain\\x")),
    *(("write", f"C:\\src\\repo\\{name}") for name in (".git\\index", ".git\\HEAD")),
    *(("delete", f"C:\\src\\repo\\{name}") for name in (".git\\index", "a\\plain", "b")),
    *(("rename", f"C:\\src\\repo\\{name}") for name in ("b", "a\\plain", ".git\\index")),
    *(("create", path) for path in ("C:\\src\\repo\\vendor\\out\\x", "C:\\run\\1\\x")),
)
REFUSED = (
    *(("create", f"C:\\src\\repo\\{name}") for name in (".git\\hooks\\pre-commit", ".vscode\\tasks.json", "vendor\\x")),
    *(("write", f"C:\\src\\repo\\{name}") for name in (".git\\config", ".git\\hooks\\pre-push", ".npmrc")),
    *(("rename", f"C:\\src\\repo\\{name}") for name in (".git", ".git\\hooks", ".vscode", "a", "a\\secret", "vendor")),
    *(("rename", f"C:\\src\\repo\\{name}") for name in ("ci", "ci\\policies", "Documents", "vendor\\out", "vendor\\v")),
    *(("write", f"C:\\src\\repo\\{name}") for name in ("ci\\policies\\p.yaml", "a\\secret\\k", "vendor\\v")),
    *(("delete", path) for path in ("C:\\src\\repo", "C:\\src\\other", "C:\\Users\\u\\.ssh\\id", "C:\\run\\1")),
    *(("create", path) for path in ("C:\\src\\x", "C:\\x", "C:\\Users\\u\\x", "C:\\run\\2\\x", "C:\\src\\other\\x")),
)


@pytest.mark.parametrize("symbolic", [False, True])
def test_a_repository_under_the_presets(symbolic: bool) -> None:
    """With the standard presets commits work, and hooks, settings, the policy file and their ancestors stay."""
    policy = load_bytes("p.yaml", POLICY).policy
    assert policy is not None
    lowered = lower(policy, "windows").value
    assert lowered is not None
    tree = judge_tree(REPOSITORY)
    if symbolic:
        made = plan_of(emit(lowered.layers, FACTS, Options()))
        plan = bound_plan(made, VALUES, tree)
    else:
        stack = bind(lowered.layers, {name: place(path) for name, path in VALUES.items()})
        plan = plan_of(finalise(stack, FACTS, Options(), look(tree)))
        make_occupants(tree, plan)
    judge.apply_plan(tree, plan)
    box = token(plan, VALUES)
    assert [item for item in ALLOWED if not ask(*item, tree, box)] == []
    assert [item for item in REFUSED if ask(*item, tree, box)] == []
    assert all(ask("read", node.path, tree, box) for node in list(tree.nodes.values()))


def test_strict_reads_on_a_machine_as_windows_lays_it_out() -> None:
    """What Users may read starts programs, the home stays closed but for its entries, and shared folders stay open."""
    tree = judge.Tree("C:\\", "O:SYG:SYD:(A;OICI;0x1f01ff;;;SY)(A;OICI;0x1200a9;;;BU)")
    tree.add("C:\\Windows", directory=True)
    tree.add("C:\\Windows\\cmd.exe")
    tree.add("C:\\shared", directory=True, sddl="O:SYG:SYD:P(A;OICI;0x1f01ff;;;SY)(A;OICI;0x1301bf;;;BU)")
    tree.add("C:\\Users", directory=True)
    own = f"O:{NORMAL[0]}G:{NORMAL[0]}D:P(A;OICI;0x1f01ff;;;SY)(A;OICI;0x1f01ff;;;{NORMAL[0]})"
    tree.add("C:\\Users\\u", directory=True, sddl=own)
    for name in ("secret", "tools", "w"):
        tree.add(f"C:\\Users\\u\\{name}", directory=True)
        tree.add(f"C:\\Users\\u\\{name}\\f")
    layers = [
        Layer(place("C:\\Users\\u\\w"), WRITE, MODE, "workspace"),
        Layer(place("C:\\Users\\u\\tools"), READ, ENTRY),
    ]
    stack = stack_of([*layers, Layer(place("C:\\Windows"), READ, MODE, "system:C:/Windows")], DENY)
    artefact = finalise(stack, FACTS, Options(windows_reads="strict"), look(tree), with_scripts=False)
    plan = plan_of(artefact)
    judge.apply_plan(tree, plan)
    box = token(plan)
    reads = {path for path in ("Windows\\cmd.exe", "Users\\u\\w\\f", "Users\\u\\tools\\f", "Users\\u\\secret\\f")
             if ask("read", f"C:\\{path}", tree, box)}  # fmt: skip
    assert reads == {"Windows\\cmd.exe", "Users\\u\\w\\f", "Users\\u\\tools\\f"}
    writes = [node.path for node in tree.nodes.values() if ask("write", node.path, tree, box)]
    assert writes == ["C:\\shared", "C:\\Users\\u\\w", "C:\\Users\\u\\w\\f"]
    assert [loss.kind for loss in artefact.losses if loss.code == "SBX471" and loss.standing] == ["wider"]
    assert not [step for step in plan["steps"] if step["path"] == "C:\\Windows"]

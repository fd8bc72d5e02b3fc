"""What must hold of every golden case: each artefact is read by a judge of its own and says what the layers say."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from sandboxc.compile import options_of
from sandboxc.diagnostics import Diagnostic
from sandboxc.emitters.seatbelt import definitions, with_repositories
from sandboxc.evaluator import Evaluator
from sandboxc.globs import Glob
from sandboxc.layers import Layers
from sandboxc.places import Place
from sandboxc.policy import DENY, READ, WRITE
from sandboxc.survey.look import DIRECTORY, LINK
from tests.golden import golden
from tests.judges import windows as judge
from tests.judges.seatbelt import Profile, decide_all, read_profile
from tests.property import windows_world

#: Questions are thinned out to about this many places a case.
PLACES = 70


class Difference(NamedTuple):
    """One question that a target answers otherwise than the layers; ``allowed`` is the target's answer."""

    op: str
    path: str
    allowed: bool

    def __str__(self) -> str:
        return f"{'wider' if self.allowed else 'narrower'}: {self.op} {self.path}"


# -- places to ask about ---------------------------------------------------------------------------------------


def _samples(glob: Glob) -> Iterator[tuple[str, ...]]:
    """Yield a few component tuples that a pattern may match or just miss."""
    for fill in ((), ("q",), ("q", "r")):
        parts: list[str] = []
        for component in glob.pattern:
            if component == "**":
                parts += fill
            else:
                parts.append(component.replace("*", "q").replace("?", "q"))
        yield tuple(part for part in parts if "[" not in part or part == "[")


def interesting(stack: Layers, fold: bool) -> list[Place]:
    """Return places around every layer: itself, its parent, a child, a sibling, names that look alike."""
    found: dict[Place, None] = {}
    for layers in (stack.layers, *(ceiling.layers for ceiling in stack.ceilings)):
        for layer in layers:
            where = layer.where
            if isinstance(where, Place):
                centres = [where]
            elif where.anchor is not None:
                centres = [where.anchor.child(*parts) for parts in _samples(where)]
            else:
                continue
            for centre in centres:
                for place in _around(centre, fold):
                    found[place] = None
    places = [place for place in found if len(place.text().encode()) < 3000]
    wanted = PLACES if len(stack.layers) < 400 else PLACES // 3  # a judge's answer costs the size of its profile
    step = max(1, len(places) // wanted)
    written = [layer.where for layer in stack.layers if layer.span and isinstance(layer.where, Place)]
    return list(dict.fromkeys([*written[:wanted], *places[::step]]))


def _around(place: Place, fold: bool) -> Iterator[Place]:
    yield place
    yield place.child("zz")
    if place.parts:
        name = place.parts[-1]
        yield place.parent
        yield place.parent.child("zz")
        yield place.parent.child(name + "x" if len(name.encode()) < 250 else "x")
        if fold:
            yield place.parent.child(name.swapcase() if name.isascii() else name)


# -- Seatbelt --------------------------------------------------------------------------------------------------

_SEATBELT_OPS = {
    "read": "file-read-data",
    "write": "file-write-data",
    "chmod": "file-write-mode",
    "create": "file-write-create",
    "delete": "file-write-unlink",
    "execute": "process-exec",
}


def seatbelt(case: golden.Case, made: golden.Made) -> list[Difference]:
    """Return the questions on which a profile, read by the real Scheme reader, differs from the layers.

    Every reading of rule order must give one answer.
    """
    assert made.compilation is not None
    lowered = made.compilation.lowered["macos"]
    values, stack, _ = _bound(case, "macos")
    options = options_of(made.compilation.policy, made.compilation.source)
    words = definitions(lowered.layers, values, options)
    profile = read_profile(made.texts["seatbelt"], dict(word.split("=", 1) for word in words[1::2]))
    evaluator = Evaluator(with_repositories(stack), case.facts.fold_case)
    found: list[Difference] = []
    for place in interesting(stack, case.facts.fold_case):
        if not place.parts:
            continue
        for op, operation in _SEATBELT_OPS.items():
            answer = _one_answer(profile, operation, place.text(), case.facts.fold_case)
            if answer != evaluator.decide(op, place).allowed:
                found.append(Difference(op, place.text(), answer))
        answer = _one_answer(profile, "network-outbound", place.text(), case.facts.fold_case)
        known = {evaluator.decide("connect", place, exists=exists).allowed for exists in (True, False)}
        if answer not in known:
            found.append(Difference("connect", place.text(), answer))
    return found


def _one_answer(profile: Profile, operation: str, path: str, fold: bool) -> bool:
    answers: set[bool] = set()
    for covers in (True, False):
        answers |= set(decide_all(profile, operation, path, fold_case=fold, subpath_covers_file=covers).values())
    assert len(answers) == 1, f"{operation} {path}: the readings of rule order differ"
    return answers.pop()


def _bound(case: golden.Case, os: str) -> tuple[dict[str, Place], Layers, tuple[Diagnostic, ...]]:
    from sandboxc.bound import bind_stack
    from sandboxc.lower import lower

    lowered = lower(case.policy, os).value
    assert lowered is not None
    declared = [parameter.name for parameter in case.policy.parameters]
    return bind_stack(lowered.layers, lowered.defaults, declared, case.values(os))


# -- Windows ---------------------------------------------------------------------------------------------------


def windows(case: golden.Case, made: golden.Made) -> list[Difference]:
    """Return the questions on which a plan, applied to a tree of objects, differs from the layers."""
    values, stack, _ = _bound(case, "windows")
    tree = _objects(case, stack)
    plan = json.loads(made.texts["windows"])
    native = {name: place.native() for name, place in values.items()}
    plan["steps"] = [step for step in plan["steps"] if _has_value(step["path"], native)]
    windows_world.make_occupants(tree, _bound_paths(plan, native))
    bare = tree.snapshot()
    steps = windows_world.bound_plan(plan, native, tree)
    journal = judge.apply_plan(tree, steps)
    assert all(judge.is_canonical(node) for node in tree.nodes.values())
    after = tree.snapshot()
    assert not any(item.added for item in judge.apply_plan(tree, steps)), "applying twice changes something"
    assert tree.snapshot() == after
    box = windows_world.token(plan, native)
    evaluator = Evaluator(stack, True)
    pinned = {_folded(item) for item in windows_world.held_places(stack, evaluator.index, tree)}
    held = [where for node in tree.nodes.values() if _folded(where := windows_world.place(node.path)) in pinned]
    reads = stack.baseline == DENY and not box.write_restricted
    found: list[Difference] = []
    for op, path in windows_world.questions(tree):
        if op == "read" and not reads:
            continue
        answer = windows_world.ask(op, path, tree, box)
        if answer != windows_world.expected(op, path, evaluator.index, tree, held):
            found.append(Difference(op, path, answer))
    judge.revert(tree, journal)
    assert tree.snapshot() == bare, "undoing does not restore what was"
    return found


def _has_value(path: str, values: Mapping[str, str]) -> bool:
    """Return whether the root of a step's path has a value: steps of an optional parameter without one are none."""
    return not path.startswith("${") or path[2 : path.index("}")] in values


def _folded(place: Place) -> Place:
    return Place(place.root, tuple(name.casefold() for name in place.parts))


def _bound_paths(plan: dict[str, Any], values: dict[str, str]) -> dict[str, Any]:
    steps = [{**step, "path": windows_world.bound_path(step["path"], values)} for step in plan["steps"]]
    return {**plan, "steps": steps}


def _objects(case: golden.Case, stack: Layers) -> judge.Tree:
    """Return a volume that holds the case's world, or a directory at every literal place if it has none."""
    kinds: dict[str, str] = {}
    if case.tree is not None:
        paths, _ = golden.world(case, "windows")
        for path, spec in paths.items():
            if spec.get("type") != LINK:
                kinds[path] = "directory" if spec.get("type") == DIRECTORY else "file"
    else:
        for layer in stack.layers:
            if isinstance(layer.where, Place) and layer.where.root == "C:" and (layer.span or layer.origin == "mode"):
                kinds[layer.where.native()] = "directory"
    thin = dict(sorted(kinds.items())[:120])
    for path in list(thin):
        parts = path.split("\\")
        for depth in range(2, len(parts)):
            thin["\\".join(parts[:depth])] = "directory"
    fine = {path: kind for path, kind in thin.items() if path.startswith("C:\\") and len(path) > 3}
    return windows_world.judge_tree(fine)


# -- bubblewrap: the words themselves, read as mounts ------------------------------------------------------------


class Mount(NamedTuple):
    """What a mount shows: the host's tree writable or not, or nothing (a mask, a fresh directory)."""

    shows: str  # "write", "read" or "deny"
    listable: bool = True


def mounts_of(words: list[str]) -> dict[str, Mount]:
    """Return what the last mount on each place shows."""
    found: dict[str, Mount] = {}
    index, mode = 0, ""

    def put(path: str, mount: Mount) -> None:
        for below in [other for other in found if other == path or other.startswith(path.rstrip("/") + "/")]:
            del found[below]
        found[path] = mount

    while index < len(words):
        word = words[index]
        if word in ("--bind", "--ro-bind"):
            assert words[index + 1] == words[index + 2], words[index : index + 3]
            put(words[index + 2], Mount(WRITE if word == "--bind" else READ))
            index += 3
        elif word == "--ro-bind-data":
            put(words[index + 2], Mount(DENY))
            index += 3
        elif word == "--tmpfs":
            put(words[index + 1], Mount(WRITE if mode == "1777" else DENY))
            index += 2
        elif word in ("--proc", "--dev"):
            put(words[index + 1], Mount("view"))
            index += 2
        elif word == "--perms":
            mode = words[index + 1]
            index += 2
            continue
        elif word in ("--dir", "--remount-ro", "--chdir", "--cap-drop"):
            index += 2
        elif word in ("--symlink",):
            index += 3
        else:
            assert word.startswith(("--unshare-", "--disable-userns", "--die-with-parent", "--new-session")), word
            index += 1
        mode = ""
    return found


def bwrap(case: golden.Case, made: golden.Made) -> list[Difference]:
    """Return the existing nodes of a case's world that the mounts show otherwise than the survey says."""
    _, stack, _ = _bound(case, "linux")
    resolved, look = golden.survey(case, stack)
    lines = made.texts["bwrap"].splitlines()
    mounts = mounts_of([line for line in lines if not line.startswith("# ")])
    late = [line.split(" ", 3) for line in lines if line.startswith("# late ")]
    for _, _, verb, *path in late:
        if verb in ("mask-file", "mask-dir"):
            mounts[path[0]] = Mount(DENY)
        elif verb == "read-only":
            mounts[path[0]] = Mount(READ)
    masked = {*resolved.sockets, *resolved.connectable}  # what a socket shows is what may be connected to
    found: list[Difference] = []
    for path in _nodes(look):
        shown = _governing(path, mounts)
        if shown == "view" or path in masked:
            continue
        access = resolved.access(path)
        if shown != access:
            order = (DENY, READ, WRITE)
            found.append(Difference(f"{access} shown as {shown}", path, order.index(shown) > order.index(access)))
    return found


def _governing(path: str, mounts: dict[str, Mount]) -> str:
    while path not in mounts:
        path = path.rpartition("/")[0] or "/"
    return mounts[path].shows


def _nodes(look: Any) -> Iterator[str]:
    """Yield the paths of a described world, links left out."""
    stack = ["/"]
    while stack:
        path = stack.pop()
        for name in look.names(path) or ():
            below = f"{path.rstrip('/')}/{name.name}"
            if name.kind != LINK:
                yield below
            if name.kind == DIRECTORY:
                stack.append(below)


# -- Landlock: the rules, added up -------------------------------------------------------------------------------


def landlock(case: golden.Case, made: golden.Made) -> list[Difference]:
    """Return the existing nodes of a case's world on which the sum of the rules differs from the survey."""
    _, stack, _ = _bound(case, "linux")
    resolved, look = golden.survey(case, stack)
    plan = json.loads(made.texts["landlock"])
    rules = {rule["path"]: set(rule["rights"]) for rule in plan["rules"]}
    found: list[Difference] = []
    for path in _nodes(look):
        node = look.node(path)
        if path.startswith(("/dev", "/proc", "/sys")) or node is None or node.kind == "socket":
            continue
        rights: set[str] = set()
        here = path
        while True:
            rights |= rules.get(here, set())
            if here == "/":
                break
            here = here.rpartition("/")[0] or "/"
        directory = node.kind == DIRECTORY
        access = resolved.access(path)
        questions = [
            ("list" if directory else "read", "read_dir" if directory else "read_file", access != DENY),
            ("write", "make_reg" if directory else "write_file", access == WRITE),
        ]
        for op, right, allowed in questions:
            if (right in rights) != allowed:
                found.append(Difference(op, path, right in rights))
    return found


# -- what a loss declares ----------------------------------------------------------------------------------------

#: (target, operation, whether wider) -> the code of a declared loss that explains such a difference.
EXPLAINED: Mapping[tuple[str, str, bool], str] = {
    ("landlock", "list", False): "SBX452",
    ("landlock", "write", False): "SBX451",
    ("landlock", "write", True): "SBX453",
    ("seatbelt", "create", False): "SBX415",
    ("windows", "create", True): "SBX473",
}


def unexplained(case: golden.Case, made: golden.Made, target: str, found: Iterable[Difference]) -> list[str]:
    """Return the differences that no declared loss of the target explains.

    A plan that was bound in a world with repositories or links may hold more there than the layers without it say.
    """
    losses = (*made.losses[target], *made.occurring.get(target, ()))
    codes = {loss.code for loss in losses}
    left: list[str] = []
    for item in found:
        if EXPLAINED.get((target, item.op, item.allowed)) in codes:
            continue
        if not item.allowed and target == "windows" and _surveyed_more(case):
            continue
        if not item.allowed and target == "seatbelt" and item.path.endswith("/.git"):
            continue  # a `.git` that is a file or a link is protected, and the judge is asked about a file
        left.append(f"{target} {item}")
    return left


def _surveyed_more(case: golden.Case) -> bool:
    paths = case.tree.paths if case.tree is not None else {}
    return any(spec.get("type") == LINK or "/.git" in path for path, spec in paths.items())

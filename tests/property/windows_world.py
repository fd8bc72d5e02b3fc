"""Plans of the Windows emitter on the judge's tree: building worlds, applying plans, asking every question."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sandboxc.emitters.artefact import Artefact
from sandboxc.emitters.windows.settle import DescribedTree
from sandboxc.emitters.windows.sids import canonical_path, derive_sid
from sandboxc.globs import Glob, match
from sandboxc.layers import Index, Layers
from sandboxc.places import WINDOWS, Place, Spelled, parse_place
from sandboxc.policy import DENY, WRITE
from tests.judges import windows as judge

USER = "S-1-5-21-1-2-3-1001"
LOGON = "S-1-5-5-0-77"
NORMAL = (USER, judge.ntfs.EVERYONE, "BU", "AU", LOGON)
VOLUME = f"O:{USER}G:{USER}D:(A;OICI;0x1f01ff;;;SY)(A;OICI;0x1f01ff;;;{USER})"


def place(path: str) -> Place:
    """The bound place of a native path."""
    spelled = parse_place(path.replace("$", "$$"), WINDOWS, ())
    assert isinstance(spelled, Spelled), path
    return spelled.place


def judge_tree(paths: Mapping[str, str]) -> judge.Tree:
    """A volume with these objects: native path to ``directory`` or ``file``."""
    tree = judge.Tree("C:\\", VOLUME)
    for path in sorted(paths, key=lambda item: (item.count("\\"), item)):
        tree.add(path, directory=paths[path] == "directory")
    return tree


def look(tree: judge.Tree) -> DescribedTree:
    """The same objects as the emitter sees them."""
    return DescribedTree(
        {node.path.rstrip("\\"): {"type": "directory" if node.is_directory else "file"} for node in tree.nodes.values()}
    )


def make_occupants(tree: judge.Tree, plan: Mapping[str, Any]) -> list[str]:
    """Make what the plan says is made where it is absent, and return the paths, in order."""
    made: list[str] = []
    for step in plan["steps"]:
        absent = step.get("absent")
        if absent and not tree.exists(step["path"]):
            parts = step["path"].split("\\")
            for depth in range(2, len(parts)):
                above = "\\".join(parts[:depth])
                if not tree.exists(above):
                    tree.add(above, directory=True)
                    made.append(above)
            tree.add(step["path"], directory=absent["make"] == "directory")
            made.append(step["path"])
    return made


def token(plan: Mapping[str, Any], values: Mapping[str, str] | None = None) -> judge.Token:
    """The judge's token of a plan, the logon SID filled in."""
    restricting = [_bound(text, values or {}) for text in plan["token"]["restricting_sids"]]
    return judge.Token(
        normal=NORMAL,
        restricting=tuple(restricting),
        write_restricted="WRITE_RESTRICTED" in plan["token"]["flags"],
    )


def _bound(text: str, values: Mapping[str, str]) -> str:
    text = text.replace("${sid:logon}", LOGON)
    while "${sid:" in text:
        start = text.index("${sid:")
        end = text.index("}", start)
        name, _, rest = text[start + 6 : end].partition("/")
        root = place(values[name])
        found = root.child(*rest.split("/")) if rest else root
        text = text[:start] + derive_sid(canonical_path(found)) + text[end + 1 :]
    return text


def bound_path(text: str, values: Mapping[str, str]) -> str:
    """A path of a plan with its parameter replaced."""
    if not text.startswith("${"):
        return text
    name, _, rest = text[2:].partition("}")
    return values[name].rstrip("\\") + rest


def _inside(path: str, root: str, strictly: bool) -> bool:
    one = [part.casefold() for part in path.split("\\") if part]
    other = [part.casefold() for part in root.split("\\") if part]
    return one[: len(other)] == other and not (strictly and len(one) == len(other))


def bound_plan(plan: Mapping[str, Any], values: Mapping[str, str], tree: judge.Tree) -> dict[str, Any]:
    """A symbolic plan as the apply script reads it: conditions settled, the entry chosen by what is there."""
    steps: list[dict[str, Any]] = []
    gone = tuple("${" + name + "}" for name in plan["optional"] if name not in values)
    for step in plan["steps"]:
        if step["path"].startswith(gone):
            continue
        path = bound_path(step["path"], values)
        roots = [bound_path(root, values) for root in step.get("below", ()) if not root.startswith(gone)]
        around = [root for root in roots if _inside(path, root, step.get("strictly", False))]
        if "below" in step and not around:
            continue
        paths = [path]
        if step.get("chain"):
            parts = path.split("\\")
            every = ["\\".join(parts[:depth]) for depth in range(2, len(parts))]
            paths = [above for above in every if any(_inside(above, root, True) for root in around)]
        for number, target in enumerate(paths):
            if not tree.exists(target):
                continue
            kind = "directory" if tree.node(target).is_directory else "file"
            ace = step["ace"] if kind == step["object"] else step.get("otherwise")
            if ace:
                steps.append(
                    {
                        "id": f"{step['id']}-{number}",
                        "path": target,
                        "object": kind,
                        "ace": _bound(ace, values),
                    }
                )
    return {**plan, "steps": steps}


def plan_of(artefact: Artefact) -> dict[str, Any]:
    """The plan as a reader of the file gets it."""
    found: dict[str, Any] = json.loads(artefact.files["windows.json"])
    return found


def questions(tree: judge.Tree, names: Iterable[str] = ()) -> Iterator[tuple[str, str]]:
    """Every operation and path that ``expected`` can answer."""
    for node in list(tree.nodes.values()):
        yield "read", node.path
        yield "write", node.path
        if node.path.count("\\") and node.path != "C:\\":
            yield "delete", node.path
            yield "rename", node.path
        if node.is_directory:
            for name in ("new", *names):
                new = node.path.rstrip("\\") + "\\" + name
                if not tree.exists(new):
                    yield "create", new


def expected(op: str, path: str, index: Index, tree: judge.Tree, held: Iterable[Place]) -> bool:
    """What the layers say; ``held`` are the places of ``held_places``."""
    where = place(path)
    access = index.access(where)
    if op == "read":
        return access != DENY
    if op == "write":
        return access == WRITE
    both = access == WRITE and index.access(where.parent) == WRITE
    if op == "create":
        return both
    return both and where not in held


def ask(op: str, path: str, tree: judge.Tree, box: judge.Token) -> bool:
    """What the judge says; renames go to a free name beside the object."""
    if op == "read":
        return judge.can(tree, "read-data", path, box)
    if op == "rename":
        return judge.can(tree, op, path, box, to=path + "-moved")
    return judge.can(tree, op, path, box)


def held_places(stack: Layers, index: Index, tree: judge.Tree) -> list[Place]:
    """Directories and files that may not move: those above a place that is stricter than its directory.

    The place may be absent. What a floating pattern names moves with its directory, so only directories that match
    a proper prefix of what follows the ``**`` are held for it.
    """
    places = [place(node.path) for node in tree.nodes.values()]
    for layers in (stack.layers, *(ceiling.layers for ceiling in stack.ceilings)):
        places += [layer.where for layer in layers if isinstance(layer.where, Place)]
    pinned: dict[Place, None] = {}
    for item in places:
        if not item.parts or index.access(item.parent) != WRITE or index.access(item) == WRITE:
            continue
        layer = index.decide(item).layer
        glob = layer.where if layer is not None and isinstance(layer.where, Glob) else None
        for depth in range(len(item.parts)):
            above = Place(item.root, item.parts[:depth])
            if glob is None or glob.pattern[0] != "**" or _is_prefix(glob, above):
                pinned[above] = None
    return list(pinned)


def _is_prefix(glob: Glob, above: Place) -> bool:
    assert glob.anchor is not None
    below = above.parts[len(glob.anchor.parts) :]
    return any(match(glob.pattern[:end], below, True) for end in range(2, len(glob.pattern)))

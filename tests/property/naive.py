"""The meaning of a stack of layers, written a second time and slowly: no tree, no automata, nothing shared.

Only the value types are those of the package. For one path it looks at every layer of every stack.
"""

from sandboxc.globs import Glob
from sandboxc.layers import Layer, Layers
from sandboxc.places import Place

STRICTNESS = ["deny", "read", "write"]
ORIGINS = ["mode", "protected", "entry", "restriction", "approval"]


def strictest(accesses: list[str]) -> str:
    """Return the strictest of some accesses."""
    return min(accesses, key=STRICTNESS.index)


def name_matches(pattern: str, name: str) -> bool:
    """Return whether one name matches one component pattern, by trying every split."""
    if not pattern:
        return not name
    head, rest = pattern[0], pattern[1:]
    if head == "*":
        return any(name_matches(rest, name[cut:]) for cut in range(len(name) + 1))
    if not name:
        return False
    if head == "?":
        return name_matches(rest, name[1:])
    if head == "[":
        end = pattern.index("]", 2)
        members, negated = pattern[1:end], False
        if members[0] in "!^":
            members, negated = members[1:], True
        chosen = False
        while members:
            if len(members) > 2 and members[1] == "-":
                chosen = chosen or members[0] <= name[0] <= members[2]
                members = members[3:]
            else:
                chosen = chosen or members[0] == name[0]
                members = members[1:]
        return chosen != negated and name_matches(pattern[end + 1 :], name[1:])
    return head == name[0] and name_matches(rest, name[1:])


def path_matches(pattern: tuple[str, ...], parts: tuple[str, ...]) -> bool:
    """Return whether the components match the whole pattern."""
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return any(path_matches(pattern[1:], parts[cut:]) for cut in range(len(parts) + 1))
    return bool(parts) and name_matches(pattern[0], parts[0]) and path_matches(pattern[1:], parts[1:])


def stands_at(layer: Layer, place: Place) -> bool:
    """Return whether a layer stands at exactly this node."""
    where = layer.where
    if isinstance(where, Place):
        return where == place
    return glob_stands_at(where, place)


def glob_stands_at(glob: Glob, place: Place) -> bool:
    """Return whether a pattern matches this node, exceptions and what is below them left out."""
    anchor = glob.anchor
    if anchor is None or anchor.root != place.root or place.parts[: len(anchor.parts)] != anchor.parts:
        return False
    below = place.parts[len(anchor.parts) :]
    for spared in glob.excepts:
        if any(path_matches(spared, below[:length]) for length in range(len(below) + 1)):
            return False
    return path_matches(glob.pattern, below)


def winner(layers: list[Layer]) -> Layer:
    """Return which of the layers at one node decides (design rule 2)."""
    highest = max(ORIGINS.index(layer.origin) for layer in layers)
    left = [layer for layer in layers if ORIGINS.index(layer.origin) == highest]
    literal = [layer for layer in left if isinstance(layer.where, Place)]
    return min(literal or left, key=lambda layer: STRICTNESS.index(layer.access))


def deepest(layers: tuple[Layer, ...], place: Place) -> Layer | None:
    """Return the layer that decides at a place, or None."""
    for length in range(len(place.parts), -1, -1):
        node = Place(place.root, place.parts[:length])
        here = [layer for layer in layers if stands_at(layer, node)]
        if here:
            return winner(here)
    return None


def one_stack(baseline: str, layers: tuple[Layer, ...], place: Place) -> str:
    """Return the access that one stack gives, its ceilings left aside."""
    decided = deepest(layers, place)
    if decided is None:
        return baseline
    if not decided.cap:
        return decided.access
    without = deepest(tuple(layer for layer in layers if not layer.cap), place)
    return strictest(["read", without.access if without else baseline])


def access(stack: Layers, place: Place) -> str:
    """Return the access at a place."""
    found = [one_stack(stack.baseline, stack.layers, place)]
    found += [one_stack(ceiling.baseline, ceiling.layers, place) for ceiling in stack.ceilings]
    return strictest(found)

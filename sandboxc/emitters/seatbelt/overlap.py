"""Where patterns of different access meet so that one filter cannot alternate between them."""

from collections.abc import Iterator

from sandboxc.emitters.seatbelt.tree import Scores, scores
from sandboxc.globs import ANY_DEPTH, Glob, match_component
from sandboxc.layers import Layer, Layers


def alternating(stack: Layers) -> Iterator[Layer]:
    """Yield the pattern layers that lose to a stricter pattern above them or at the same node.

    Patterns of one anchor are compared; exceptions below a match count too, as the match stays in force there.
    """
    layers = [layer for layer in stack.layers if isinstance(layer.where, Glob) and layer.where.anchor is not None]
    for wider in layers:
        if any(_stricter(scores(other), scores(wider)) and _meet(other, wider) for other in layers):
            yield wider
    for layer in layers:
        assert isinstance(layer.where, Glob)
        if any(_below(layer.where.pattern, spared) for spared in layer.where.excepts):
            yield layer


def _stricter(one: Scores, other: Scores) -> bool:
    reads = one.read >= 0 and other.read >= 0 and one.read % 3 == 2 and other.read % 3 != 2
    writes = one.write >= 0 and other.write >= 0 and one.write % 3 != 0 and other.write % 3 == 0
    return reads or writes


def _meet(strict: Layer, wide: Layer) -> bool:
    one, other = strict.where, wide.where
    assert isinstance(one, Glob) and isinstance(other, Glob)
    if one.anchor != other.anchor:
        return False
    if one.pattern == other.pattern:
        return False  # the profile keeps the one that wins
    return _below(one.pattern, other.pattern)


def _below(upper: tuple[str, ...], lower: tuple[str, ...]) -> bool:
    """Return whether some path has a match of ``lower`` at or below a match of ``upper``."""
    seen = {(0, 0)}
    stack = [(0, 0)]
    while stack:
        up, low = stack.pop()
        if low == len(lower) and up == len(upper):
            return True
        if up == len(upper):
            # Behind the upper match any name may follow.
            moves = [(up, low + 1)]
        elif low == len(lower):
            continue
        else:
            moves = _moves(upper[up], lower[low], up, low)
        if low < len(lower) and lower[low] == ANY_DEPTH:
            moves.append((up, low + 1))
        if up < len(upper) and upper[up] == ANY_DEPTH:
            moves.append((up + 1, low))
        for move in moves:
            if move not in seen:
                seen.add(move)
                stack.append(move)
    return False


def _moves(upper: str, lower: str, up: int, low: int) -> list[tuple[int, int]]:
    """Return the positions after one more name that both patterns take."""
    if upper == ANY_DEPTH:
        return [] if lower == ANY_DEPTH else [(up, low + 1)]
    if lower == ANY_DEPTH:
        return [(up + 1, low)]
    if not _wild(lower):
        same = match_component(upper, lower, True)
    elif not _wild(upper):
        same = match_component(lower, upper, True)
    else:
        same = True
    return [(up + 1, low + 1)] if same else []


def _wild(component: str) -> bool:
    return any(char in component for char in "*?[")

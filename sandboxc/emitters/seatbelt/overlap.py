"""Where patterns of different access meet so that one filter cannot alternate between them."""

from collections.abc import Iterator

from sandboxc.emitters.seatbelt.tree import Scores, scores
from sandboxc.globs import Glob
from sandboxc.layers import Layer, Layers
from sandboxc.meets import Uppers
from sandboxc.places import Place


def alternating(stack: Layers) -> Iterator[Layer]:
    """Yield the pattern layers that lose to a stricter pattern above them or at the same node.

    Patterns of one anchor are compared; exceptions below a match count too, as the match stays in force there.
    """
    groups: dict[Place, list[tuple[Layer, Glob]]] = {}
    for layer in stack.layers:
        if isinstance(layer.where, Glob) and layer.where.anchor is not None:
            groups.setdefault(layer.where.anchor, []).append((layer, layer.where))
    for group in groups.values():
        tests = [_Stricter(group, writing) for writing in (False, True)]
        for layer, glob in group:
            if any(test.loses(layer, glob) for test in tests):
                yield layer
    for group in groups.values():
        for layer, glob in group:
            upper = Uppers([glob.pattern], True) if glob.excepts else None
            if upper and any(upper.meeting(spared, upper.first()) for spared in glob.excepts):
                yield layer


class _Stricter:
    """The patterns of one anchor that refuse reading or writing, and what may lie at or below their matches."""

    def __init__(self, group: list[tuple[Layer, Glob]], writing: bool) -> None:
        self._writing = writing
        self._patterns = list(dict.fromkeys(glob.pattern for layer, glob in group if self._refuses(scores(layer))))
        self._uppers = Uppers(self._patterns, True)

    def loses(self, layer: Layer, glob: Glob) -> bool:
        """Return whether a pattern that does not refuse may match at or below one that does."""
        score = self._score(scores(layer))
        if not self._patterns or score < 0 or self._refuses(scores(layer)):
            return False
        own = [number for number, pattern in enumerate(self._patterns) if pattern == glob.pattern]
        # of one pattern, the profile keeps the layer that wins
        return bool(self._uppers.meeting(glob.pattern, self._uppers.first()) & ~self._uppers.ends(own))

    def _score(self, found: Scores) -> int:
        return found.write if self._writing else found.read

    def _refuses(self, found: Scores) -> bool:
        score = self._score(found)
        return score >= 0 and (score % 3 != 0 if self._writing else score % 3 == 2)

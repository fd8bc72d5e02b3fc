"""Which of many patterns may match at or above a match of another one, at the cost of one walk for all of them."""

from collections.abc import Collection, Sequence

from sandboxc.globs import ANY_DEPTH, match_component


class Uppers:
    """Patterns that another one may lie below; each is a run of bits, one for each of its positions.

    Behind its components a pattern has two more bits: its match was just read, or lies above what was read since.
    """

    def __init__(self, patterns: Sequence[tuple[str, ...]], fold: bool) -> None:
        self._fold = fold
        self._alike: dict[str, int] = {}
        self._at: dict[str, int] = {}  # component -> the positions that it stands at
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._any = self._just = self._above = 0
        bit = 0
        for pattern in patterns:
            self._starts.append(bit)
            for component in pattern:
                self._at[component] = self._at.get(component, 0) | 1 << bit
                bit += 1
            self._ends.append(bit)
            self._just |= 1 << bit
            self._above |= 1 << bit + 1
            bit += 2
        self._any = self._at.pop(ANY_DEPTH, 0)

    def first(self) -> int:
        """Return the bits of every pattern before any name was read."""
        return sum(1 << start for start in self._starts)

    def bits(self, number: int, states: Collection[int]) -> int:
        """Return the bits of one pattern in the given states."""
        return sum(1 << self._starts[number] + state for state in states)

    def meeting(self, lower: tuple[str, ...], bits: int, states: Collection[int] = (0,), strictly: bool = False) -> int:
        """Return the end bits of the patterns that match at or above some match of ``lower``.

        Two components with pattern characters are taken to match one name. ``strictly`` leaves out what matches
        at the same node only.
        """
        reached = [0] * (len(lower) + 1)
        waiting = [(state, bits) for state in states]
        while waiting:
            at, found = waiting.pop()
            found = self._closed(found)
            if not found & ~reached[at]:
                continue
            reached[at] |= found
            found = reached[at]
            if at == len(lower):
                continue
            stay = found & (self._any | self._above)
            if lower[at] == ANY_DEPTH:
                waiting += [(at, stay | (found & ~stay) << 1), (at + 1, found)]
            else:
                waiting.append((at + 1, stay | (found & (self._matching(lower[at]) | self._just)) << 1))
        last = reached[-1]
        above = (last & self._above) >> 1
        return above if strictly else above | last & self._just

    def ends(self, numbers: Collection[int]) -> int:
        """Return the end bits of some of the patterns, as ``meeting`` returns them."""
        return sum(1 << self._ends[number] for number in numbers)

    def _closed(self, found: int) -> int:
        while True:
            more = found | (found & self._any) << 1
            if more == found:
                return found
            found = more

    def _matching(self, component: str) -> int:
        """Return the positions whose component may match a name that this one matches."""
        if component not in self._alike:
            self._alike[component] = sum(bit for each, bit in self._at.items() if self._may(each, component))
        return self._alike[component]

    def _may(self, one: str, other: str) -> bool:
        if not _wild(other):
            return match_component(one, other, self._fold)
        return _wild(one) or match_component(other, one, self._fold)


def _wild(component: str) -> bool:
    return any(char in component for char in "*?[")

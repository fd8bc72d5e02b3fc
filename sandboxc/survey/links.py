"""Symbolic links on the way to the places of layers: followed, remembered, and refused where a run could plant them."""

from collections.abc import Callable, Iterable

from sandboxc.diagnostics import Diagnostic, error
from sandboxc.globs import Glob
from sandboxc.layers import RANK, Ceiling, Index, Layer, Layers, SocketRule, ordered
from sandboxc.places import Place, posix
from sandboxc.policy import BIND, CONNECT, DENY, WRITE
from sandboxc.survey.look import Walker

_SOCKET_RANK = {DENY: 0, BIND: 1, CONNECT: 2}


class Links:
    """Every link that a layer of one survey was reached through."""

    def __init__(self, walker: Walker) -> None:
        self.walker = walker
        self._seen: dict[str, list[Layer]] = {}  # link -> the layers reached through it, at their physical places
        self._hops: dict[str, str] = {}
        self._problems: list[Diagnostic] = []

    def physical(self, stack: Layers) -> Layers:
        """Return the stack with every literal place and glob anchor moved to where its links lead."""
        moved = tuple(self.layer(layer) for layer in stack.layers)
        ceilings = tuple(Ceiling(c.baseline, tuple(map(self.layer, c.layers))) for c in stack.ceilings)
        return stack._replace(layers=ordered(moved), ceilings=ceilings)

    def layer(self, layer: Layer) -> Layer:
        """Return a layer at its physical place."""
        where = layer.where
        place = where.anchor if isinstance(where, Glob) else where
        if place is None:
            return layer
        path = place.text()
        walked = self.walker.walk(path)
        if walked.loop and layer.span is not None:
            words = f"`{layer.describe()}` runs through a loop of symbolic links"
            self._problems.append(error("SBX711", words, layer.span))
        if not walked.links:
            return layer
        physical = posix(path if walked.loop else walked.path)
        layer = layer._replace(where=where.at(physical) if isinstance(where, Glob) else physical)
        self._note(layer, walked.links)
        return layer

    def _note(self, layer: Layer, links: Iterable[str]) -> None:
        for link in links:
            self._seen.setdefault(link, []).append(layer)
            node = self.walker.node(link)
            if layer.access != DENY and not layer.cap and node is not None:
                self._hops[link] = node.target

    def follows(self, layer: Layer, via: tuple[str, ...], index: Index) -> bool:
        """Return whether a glob's layer also stands where links among its matches lead.

        A restriction always does; a grant does not if the sandbox could have planted one of the links.
        """
        assert isinstance(layer.where, Place)
        if RANK[layer.access] > RANK[index.access(layer.where)] and any(_plantable(link, index) for link in via):
            return False
        self._note(layer, via)
        return True

    def problems(self, stack: Layers, index: Index) -> list[Diagnostic]:
        """Return an error for each layer that grants through a link which this policy lets the sandbox replace.

        What such layers grant together does not count in favour of any of them.
        """
        tainted: dict[Layer, str] = {}
        for link, layers in sorted(self._seen.items()):
            if any(not layer.cap and layer.access != DENY for layer in layers) and _plantable(link, index):
                for layer in layers:
                    if not layer.cap and layer.access != DENY:
                        tainted.setdefault(layer, link)
        found = list(self._problems)
        indexes: dict[str, Index] = {}  # what the stack says without the tainted layers of an access and wider ones
        for layer, link in tainted.items():
            where = layer.where if isinstance(layer.where, Place) else layer.where.anchor
            assert where is not None
            if layer.access not in indexes:
                out = {_key(other) for other in tainted if RANK[other.access] >= RANK[layer.access]}
                kept = tuple(other for other in stack.layers if _key(other) not in out)
                indexes[layer.access] = Index(stack._replace(layers=kept))
            if RANK[layer.access] > RANK[indexes[layer.access].access(where)]:
                found.append(_refusal(layer.describe(), layer.access, where.text(), link, layer))
        return found

    def socket_rules(
        self, rules: Iterable[SocketRule], access: Callable[[str], str], problems: list[Diagnostic]
    ) -> dict[str, SocketRule]:
        """Return the socket rules by physical path; where two meet the stricter one holds."""
        found: dict[str, SocketRule] = {}
        for rule in rules:
            walked = self.walker.walk(rule.where.text())
            known = found.get(walked.path)
            if known is None or _SOCKET_RANK[rule.access] < _SOCKET_RANK[known.access]:
                found[walked.path] = rule
            if rule.access != CONNECT:
                continue
            planted = next((link for link in walked.links if access(_parent(link)) == WRITE), None)
            if planted is not None:
                text = rule.text or rule.where.text()
                problems.append(_refusal(text, rule.access, walked.path, planted, rule))
            for link in walked.links:
                node = self.walker.node(link)
                if node is not None:
                    self._hops[link] = node.target
        return found

    def hops(self) -> tuple[tuple[str, str], ...]:
        """Return the links, with their texts, that something was opened through."""
        return tuple(sorted(self._hops.items()))

    def replaceable(self, access: Callable[[str], str]) -> tuple[str, ...]:
        """Return the links that lie in a directory where the sandbox may write."""
        return tuple(link for link in sorted(self._seen) if access(_parent(link)) == WRITE)


def _refusal(what: str, access: str, target: str, link: str, source: Layer | SocketRule) -> Diagnostic:
    return error(
        "SBX712",
        f"`{what}` grants `{access}` at `{target}` through the link `{link}`, which the sandbox may replace",
        source.span,
        f"write the entry for `{target}` itself, or deny writing to the link",
    )


def _plantable(link: str, index: Index) -> bool:
    return index.access(posix(_parent(link))) == WRITE


def _key(layer: Layer) -> tuple[object, ...]:
    return (layer.source, layer.text, layer.span)


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"

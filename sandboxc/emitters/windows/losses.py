"""Which losses a stack has on Windows: every one is asked of the capability table."""

from collections.abc import Iterator

from sandboxc.capability import Table
from sandboxc.emitters.windows.plan import Plan, Seen
from sandboxc.globs import Glob
from sandboxc.layers import ENTRY, PROTECTED, Layer, Layers
from sandboxc.losses import Loss
from sandboxc.places import Place
from sandboxc.policy import ALLOW_ALL, DENY, WRITE
from sandboxc.records import NamedTuple
from sandboxc.source import Span

AT_BASELINE = "baseline"
AT_HIDDEN = "hidden"
AT_NETWORK = "network"
AT_TARGET = "windows"
AT_TEMP = "temp"

_ALWAYS = ("shared-objects", "sockets-existing", "sockets-abstract", "signals", "terminal", "brokers")
_WITH_ROOTS = ("metadata", "hard-links", "baseline-links", "replaced-names", "host-changes")


class _Ask(NamedTuple):
    feature: str
    at: str
    span: Span | None = None
    message: str = ""


def losses(stack: Layers, plan: Plan, table: Table, seen: Seen | None) -> tuple[Loss, ...]:
    """Return the losses of a stack under its plan, sorted; ``seen`` settles those that depend on binding."""
    if not stack.confines:
        return ()
    found: dict[Loss, None] = {}
    for ask in _asks(stack, plan, seen):
        loss = table.loss(ask.feature, ask.at, ask.message, ask.span)
        if loss is None:
            continue
        if loss.conditional and seen is not None:
            loss = loss._replace(conditional=False)
        found[loss] = None
    return tuple(sorted(found, key=lambda loss: (loss.code, loss.at, loss.kind, loss.message)))


def _asks(stack: Layers, plan: Plan, seen: Seen | None) -> Iterator[_Ask]:
    for feature in _ALWAYS:
        yield _Ask(feature, AT_TARGET)
    if plan.roots:
        for feature in _WITH_ROOTS:
            yield _Ask(feature, AT_TARGET)
    yield from _network(stack)
    yield from _reads(stack)
    yield from _names(stack, plan, seen)
    for rule in stack.sockets:
        yield _Ask("sockets-existing", rule.text or rule.where.text(), rule.span)
    if any(layer.private for layer in stack.layers):
        yield _Ask("private-temp", AT_TEMP)


def _network(stack: Layers) -> Iterator[_Ask]:
    if stack.network.mode == ALLOW_ALL:
        return
    feature = f"network-{'deny' if stack.network.mode == DENY else 'loopback'}"
    yield _Ask(feature, AT_NETWORK, stack.network.span)


def _every(stack: Layers) -> Iterator[Layer]:
    yield from stack.layers
    for ceiling in stack.ceilings:
        yield from ceiling.layers


def _reads(stack: Layers) -> Iterator[_Ask]:
    baselines = {stack.baseline, *(ceiling.baseline for ceiling in stack.ceilings)}
    yield _Ask("read", AT_BASELINE)
    if DENY in baselines:
        yield _Ask("existence", AT_BASELINE)
    for layer in _every(stack):
        if layer.access != DENY or layer.cap or layer.source == "run base":
            continue
        feature = "deny-file" if layer.kind == "file" else "deny-directory"
        if layer.origin == PROTECTED:
            yield _Ask(feature, AT_HIDDEN)
        else:
            yield _Ask(feature, layer.spelled(), layer.span)


def _names(stack: Layers, plan: Plan, seen: Seen | None) -> Iterator[_Ask]:
    """Yield what asks for names that are not there yet."""
    missing = frozenset(plan.missing)
    roots = _Roots(stack)
    for layer in _every(stack):
        if isinstance(layer.where, Glob):
            if layer.cap:
                yield _Ask("preset-glob", roots.of(layer.where.anchor or Place("", ())))
            elif layer.origin == PROTECTED:
                yield _Ask("preset-glob", AT_HIDDEN)
            elif layer.origin == ENTRY or layer.text:
                yield _Ask("glob", layer.where.text, layer.span)
            continue
        if seen is not None and layer not in missing:
            continue
        if layer.cap:
            if layer.source not in ("protected:policy", "protected:profile"):
                yield _Ask("preset-absent", roots.of(layer.where))
        elif layer.origin != ENTRY:
            continue
        elif layer.access == WRITE:
            if layer.absent == "report":
                yield _Ask("write-absent", layer.text, layer.span)
        elif layer.absent == "report":
            yield _Ask("entry-absent", layer.text, layer.span)
    if any(name.git for name in stack.protected):
        for layer in stack.layers:
            if layer.access == WRITE and not layer.private:
                yield _Ask("configured-names", layer.spelled())
                yield _Ask("new-repositories", layer.spelled())


class _Roots:
    """Finds the writable root that a protected name belongs to, at the cost of the path's depth."""

    def __init__(self, stack: Layers) -> None:
        self._roots = {layer.where: layer.spelled() for layer in stack.layers if layer.access == WRITE}

    def of(self, place: Place) -> str:
        """Return the policy spelling of the deepest writable root that contains a place."""
        for depth in range(len(place.parts), -1, -1):
            found = self._roots.get(Place(place.root, place.parts[:depth]))
            if found is not None:
                return found
        return Place(place.root, ()).text()

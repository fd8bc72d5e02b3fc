"""What bubblewrap cannot hold of one stack of layers, from the capability table alone (pure)."""

from collections.abc import Iterable, Iterator

from sandboxc.capability import Table
from sandboxc.emitters.bwrap.capability import AT_HIDDEN, AT_NETWORK, AT_TARGET
from sandboxc.emitters.bwrap.finalise import WRITTEN, narrows_view
from sandboxc.globs import Glob
from sandboxc.layers import Layer, Layers
from sandboxc.losses import Loss
from sandboxc.places import Place
from sandboxc.policy import ALLOW_ALL, DENY, READ, WRITE
from sandboxc.source import Span


def stack_losses(stack: Layers, table: Table) -> tuple[Loss, ...]:
    """Return the losses of a stack, conditional ones and standing limits in reach included, sorted."""
    found = (loss for loss in _losses(stack, table) if loss is not None)
    return tuple(sorted(dict.fromkeys(found), key=lambda loss: (loss.code, loss.at, loss.message)))


def _losses(stack: Layers, table: Table) -> Iterator[Loss | None]:
    layers = [*stack.layers, *(layer for ceiling in stack.ceilings for layer in ceiling.layers)]
    roots = [layer for layer in layers if layer.access == WRITE and not layer.private]
    stricter = [layer for layer in layers if layer.access != WRITE and layer.source != "run base"]
    for layer in layers:
        yield from _layer_losses(layer, bool(roots), table)
    yield from _root_losses(stack, roots, table)
    if roots and stricter:
        yield table.loss("rename-across-pins", AT_TARGET)
    if stricter or stack.sockets:
        yield table.loss("replaced-names", AT_TARGET)
    if stack.baseline == READ or any(layer.access != DENY for layer in layers):
        yield table.loss("host-changes", AT_TARGET)
        yield table.loss("sockets-existing", AT_TARGET)
        yield table.loss("brokers", AT_TARGET)
    yield table.loss("terminal", AT_TARGET)
    network = stack.network
    if network.mode == ALLOW_ALL:
        yield table.loss("sockets-abstract", AT_NETWORK, span=network.span)
    elif network.ports:
        yield table.loss("network-ports", AT_NETWORK, span=network.span)


def _layer_losses(layer: Layer, writable: bool, table: Table) -> Iterator[Loss | None]:
    """Yield what one layer of an entry or of the hidden paths loses."""
    if layer.cap:
        return
    written = layer.origin in WRITTEN
    if isinstance(layer.where, Glob):
        if written:
            yield table.loss("glob", layer.spelled(), span=layer.span)
        elif writable and layer.access == DENY:
            yield table.loss("preset-glob", AT_HIDDEN)
    elif not written:
        if writable and layer.access == DENY and layer.source.startswith("hidden:"):
            yield table.loss("preset-absent", AT_HIDDEN)
    elif narrows_view(layer):
        yield table.loss("views", layer.spelled(), span=layer.span)
    elif layer.access == WRITE:
        if layer.absent != "create":
            yield table.loss("write-absent", layer.spelled(), span=layer.span)
    elif layer.absent == "report":
        yield table.loss("entry-absent", layer.spelled(), span=layer.span)


def _root_losses(stack: Layers, roots: Iterable[Layer], table: Table) -> Iterator[Loss | None]:
    """Yield what concerns all the protected names of one writable root together, named by the root's spelling."""
    git = any(name.git for name in stack.protected)
    globs = any(char in part for name in stack.protected for part in name.path for char in "*?[")
    plain = any(name.occupant is None for name in stack.protected)
    for root in roots:
        if isinstance(root.where, Place) and ".git" in root.where.parts:
            continue  # a root inside a git directory gets no protected names
        at, span = root.spelled(), _span(root)
        yield table.loss("baseline-links", at, span=span)
        if plain:
            yield table.loss("preset-absent", at, span=span)
        if globs:
            yield table.loss("preset-glob", at, span=span)
        if git:
            yield table.loss("new-repositories", at, span=span)


def _span(layer: Layer) -> Span | None:
    return layer.span

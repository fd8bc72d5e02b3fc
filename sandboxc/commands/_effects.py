"""What a target does with one verdict, as far as its declared losses tell."""

from collections.abc import Iterable

from sandboxc.capability import Table
from sandboxc.evaluator import Verdict
from sandboxc.layers import PROTECTED, Layer
from sandboxc.losses import NARROWER, SNAPSHOT, Loss
from sandboxc.places import Place
from sandboxc.policy import WRITE
from sandboxc.records import NamedTuple

_READING = frozenset({"read", "deny-directory", "deny-file", "glob", "preset-glob", "preset-absent", "entry-absent"})
_WRITING = frozenset(
    {"write", "boundary", "ancestor", "carve-out", "protected-names", "preset-absent", "entry-absent", "write-absent"}
    | {"glob", "preset-glob"}
)
#: Operation -> the features of ``capability.FEATURES`` that it depends on.
_FEATURES = {
    "read": _READING,
    "list": _READING,
    "execute": _READING,
    "stat": frozenset({"existence"}),
    "chmod": _WRITING | {"metadata"},
    "rename": _WRITING | {"rename-across-pins"},
    "link": _WRITING | {"rename-across-pins"},
    "connect": frozenset({"sockets-existing"}),
}


class Effect(NamedTuple):
    """What a target does, and the loss that makes it differ or that may."""

    allowed: bool
    loss: Loss | None


def on_target(target: str, op: str, verdict: Verdict, losses: Iterable[Loss], table: Table) -> Effect:
    """Return what a target does with an operation that the layers judged so."""
    wanted = _FEATURES.get(op, _WRITING)
    features: dict[str, set[str]] = {}
    for row in table.rows:
        if row.code:
            features.setdefault(row.code, set()).add(row.feature)
    names = _names(verdict, target)
    own = [loss for loss in losses if loss.at in names and features.get(loss.code, set()) & wanted]
    if not verdict.allowed:
        for loss in own:
            if loss.kind not in (NARROWER, SNAPSHOT):
                return Effect(True, loss)
    lasting = [loss for loss in own if (loss.kind == NARROWER) == verdict.allowed]
    return Effect(verdict.allowed, lasting[0] if lasting else None)


def _names(verdict: Verdict, target: str) -> set[str]:
    """Return the places at which a loss may stand that concerns the layer that decided."""
    layer = verdict.decided_by
    found = {target, "baseline" if layer is None else _spelled(layer.where), getattr(layer, "text", "")}
    if isinstance(layer, Layer):
        found.add(layer.source)
        if layer.origin == PROTECTED:
            found.add("hidden" if not layer.cap else layer.source)
        if layer.cap:
            roots = [beaten for beaten in verdict.beat if beaten.access == WRITE]
            found.update(root.text or _spelled(root.where) for root in roots)
    return found - {""}


def _spelled(where: object) -> str:
    return where.text() if isinstance(where, Place) else str(getattr(where, "text", ""))

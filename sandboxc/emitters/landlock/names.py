"""What a layer is called in losses and waivers of this target."""

from collections.abc import Iterable

from sandboxc.emitters.landlock.capability import AT_HIDDEN, TARGET
from sandboxc.emitters.landlock.regions import Blame
from sandboxc.layers import MODE, PROTECTED, Layer
from sandboxc.policy import Waiver


def blame_of(layer: Layer, root: Layer | None) -> Blame:
    """Return whose doing a stricter layer is; ``root`` is the write layer that encloses it, if any.

    Protected names go by their root together, what else a preset hides (and the base of private temp
    directories) by one word, entries by their own text.
    """
    if layer.cap:
        return Blame(root.spelled() if root is not None else AT_HIDDEN, root, True)
    if layer.span is None and layer.origin in (MODE, PROTECTED) and layer.source != "workspace":
        return Blame(AT_HIDDEN, None, True)
    return Blame(layer.spelled(), layer)


def waived_places(waivers: Iterable[Waiver], code: str) -> frozenset[str]:
    """Return the places where the waivers of this target accept a loss."""
    return frozenset(w.at.value for w in waivers if w.target == TARGET and w.loss == code)

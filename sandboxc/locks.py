"""Locks: a locked layer is a ceiling, and whatever stands at or below it may not be wider (design rule 4)."""

from sandboxc import globs
from sandboxc.globs import ANY_DEPTH, Glob
from sandboxc.layers import RANK, Layer, Layers, SocketRule, beats
from sandboxc.meets import Uppers
from sandboxc.places import POSIX, Place
from sandboxc.policy import BIND, CONNECT, DENY, WRITE
from sandboxc.records import NamedTuple

_ROOT = Place("", ())


class LockConflict(NamedTuple):
    """A layer or socket line at or below a locked layer that would be wider than the lock."""

    lock: Layer
    layer: Layer | SocketRule


def lock_conflicts(stack: Layers, fold: bool = False) -> tuple[LockConflict, ...]:
    """Return everything that a lock forbids, as far as it shows with the roots as they are.

    A layer at the very place of the lock that loses to it by origin has no effect and is no conflict. Patterns
    are judged without names that exist: two that may meet are taken to meet. To connect to a socket is wider
    than ``deny``, to bind one wider than ``read``.
    """
    locks = [layer for layer in stack.layers if layer.locked and layer.access != WRITE]
    if not locks:
        return ()
    posix = stack.flavour == POSIX
    layers = [layer for layer in stack.layers if not layer.cap and layer.access != DENY]
    opened = [rule for rule in stack.sockets if rule.access in (CONNECT, BIND)]
    found: list[LockConflict] = []
    for lock in locks:
        ceiling = RANK[lock.access]
        found += [
            LockConflict(lock, layer)
            for layer in layers
            if RANK[layer.access] > ceiling and layer is not lock and _reaches(lock, layer, fold, posix)
        ]
        for rule in opened:
            if (lock.access == DENY or rule.access == BIND) and _holds(lock.where, rule.where, fold, posix):
                found.append(LockConflict(lock, rule))
    return tuple(found)


def _reaches(lock: Layer, layer: Layer, fold: bool, posix: bool) -> bool:
    """Return whether a layer stands at or below a lock's place (and is not simply beaten there)."""
    where = layer.where
    if isinstance(where, Place):
        if not _holds(lock.where, where, fold, posix):
            return False
        return not (_same(lock.where, where, fold) and beats(lock, layer))
    if where.anchor is None:
        return False
    if _holds(lock.where, where.anchor, fold, posix):  # every match lies at or below the anchor
        return isinstance(lock.where, Place) or not (lock.where.pattern[-1] == ANY_DEPTH and beats(lock, layer))
    if isinstance(lock.where, Place):
        return _may_match(where, lock.where, fold, beats(lock, layer))
    return lock.where.anchor is not None and _may_meet(lock.where, where, fold, beats(lock, layer))


def _holds(where: Place | Glob, place: Place, fold: bool, posix: bool) -> bool:
    """Return whether a lock's place contains a place, or a match of its pattern does."""
    if isinstance(where, Place):
        return _below(where, place, fold, posix) is not None
    if where.anchor is None:
        return False
    parts = _below(where.anchor, place, fold, posix)
    if parts is None or (where.anchor == _ROOT and place.root and where.pattern[0] != ANY_DEPTH):
        return False  # how such a root lies below `/` shows at binding
    if any(globs.match_prefix(spared, parts, fold) for spared in where.excepts):
        return False
    return globs.match_prefix(where.pattern, parts, fold)


def _same(where: Place | Glob, place: Place, fold: bool) -> bool:
    """Return whether a place is the lock's own, or itself a match of its pattern."""
    if isinstance(where, Place):
        return where.root == place.root and len(where.parts) == len(place.parts)
    assert where.anchor is not None
    below = place.parts[len(where.anchor.parts) :]
    return globs.match(where.pattern, below, fold)


def _below(outer: Place, inner: Place, fold: bool, posix: bool) -> tuple[str, ...] | None:
    """Return the components of a place below one that contains it, or None.

    Whatever a parameter is bound to lies below ``/``, and a pattern that holds everywhere hangs from there.
    """
    if outer == _ROOT and (posix or inner.root):
        return inner.parts
    head = inner.parts[: len(outer.parts)]
    if outer.root != inner.root or len(head) < len(outer.parts):
        return None
    alike = _folded(head) == _folded(outer.parts) if fold else head == outer.parts
    return inner.parts[len(outer.parts) :] if alike else None


def _folded(parts: tuple[str, ...]) -> list[str]:
    return [name.casefold() for name in parts]


def _may_match(glob: Glob, lock: Place, fold: bool, beaten: bool) -> bool:
    """Return whether a pattern whose anchor lies above a lock's place may match at or below it.

    ``beaten`` says that a match at the very place would lose.
    """
    states = _walked(glob, lock, fold)
    return any(state < len(glob.pattern) or not beaten for state in states)


def _walked(glob: Glob, place: Place, fold: bool) -> frozenset[int]:
    """Return the states of a pattern after the components of a place; none where the place is out of its reach."""
    assert glob.anchor is not None
    parts = _below(glob.anchor, place, fold, True)
    if parts is None or (glob.anchor == _ROOT and place.root and glob.pattern[0] != ANY_DEPTH):
        return frozenset()
    if any(globs.match_prefix(spared, parts, fold) for spared in glob.excepts):
        return frozenset()
    states = globs.start(glob.pattern)
    for name in parts:
        states = globs.step(glob.pattern, states, name, fold)
    return states


def _may_meet(lock: Glob, glob: Glob, fold: bool, beaten: bool) -> bool:
    """Return whether a pattern may match at or below a match of a lock's pattern."""
    assert lock.anchor is not None and glob.anchor is not None
    upper, lower = globs.start(lock.pattern), globs.start(glob.pattern)
    if _below(lock.anchor, glob.anchor, fold, True) is not None:
        upper = _walked(lock, glob.anchor, fold)
    elif _below(glob.anchor, lock.anchor, fold, True) is not None:
        lower = _walked(glob, lock.anchor, fold)
    else:
        return False
    if beaten and _covers(lock.pattern, glob.pattern, fold):
        return False
    uppers = Uppers([lock.pattern], fold)
    return bool(uppers.meeting(glob.pattern, uppers.bits(0, upper), lower, strictly=beaten))


def _covers(lock: tuple[str, ...], pattern: tuple[str, ...], fold: bool) -> bool:
    """Return whether the lock's pattern plainly matches whatever another does at or below its matches."""
    if lock == pattern or lock[-1] == ANY_DEPTH:
        return True
    last = pattern[-1]
    if len(lock) != 2 or lock[0] != ANY_DEPTH or last == ANY_DEPTH:
        return False
    wild = any(char in last for char in "*?[")
    return lock[1] in (last, "*") or (not wild and globs.match_component(lock[1], last, fold))


__all__ = ["LockConflict", "lock_conflicts"]

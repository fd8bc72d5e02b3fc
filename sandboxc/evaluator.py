"""The reference evaluator: what a bound stack of layers says about one operation on one place (design section 3).

It looks at nothing but its arguments, so it answers for places whether or not anything is there. Targets are
compared with it; it is never asked by an emitter.
"""

from collections.abc import Iterator

from sandboxc import globs, packaged
from sandboxc.globs import ANY_DEPTH, Glob
from sandboxc.layers import RANK, Decision, Index, Layer, Layers, SocketRule
from sandboxc.places import Place
from sandboxc.policy import BIND, CONNECT, DENY, OPERATIONS, READ, WRITE
from sandboxc.records import NamedTuple


class Verdict(NamedTuple):
    """Whether an operation is allowed, and why.

    ``access`` is what holds at the place asked about. ``decided_by`` is the layer or socket line that settled the
    operation (None: the baseline, or a rule that ``reason`` names); ``at`` is where it did, which may be the parent
    directory or a target of a rename. ``beat`` are the layers that lost to it there.
    """

    allowed: bool
    access: str
    decided_by: Layer | SocketRule | None
    beat: tuple[Layer, ...]
    reason: str
    at: Place


class Evaluator:
    """Answers questions about one bound stack.

    ``fold`` compares names without regard to case. ``views`` says whether ``/dev``, ``/proc`` and the like are
    answered as the views of a confining target; without it they are ordinary places.
    """

    def __init__(self, stack: Layers, fold: bool = False, views: bool = True) -> None:
        self.stack = stack
        self.fold = fold
        self.index = Index(stack, fold)
        self._views = _views(stack.os) if views and stack.confines else ()
        self._stricter: list[Layer] = []
        self._wider: list[Layer] = []
        for layer in _every(stack):
            if isinstance(layer.where, Glob):
                if layer.where.anchor is None:
                    continue
                access = layer.access
            else:
                access = self.index.access(layer.where)
            if access != WRITE:
                self._stricter.append(layer)
            if access != DENY:
                self._wider.append(layer)

    def decide(self, op: str, place: Place, to: Place | None = None, exists: bool = True) -> Verdict:
        """Return the verdict on an operation of ``policy.OPERATIONS``.

        Args:
            op: the operation.
            place: the bound place that it is done to.
            to: the new name, for ``rename`` and ``link``.
            exists: for ``connect``, whether the socket was there at binding.

        Raises:
            ValueError: the operation is unknown, or ``to`` is missing or too much.
        """
        if op not in OPERATIONS:
            raise ValueError(f"unknown operation {op!r}")
        if (to is not None) != (op in ("rename", "link")):
            raise ValueError(f"`to` goes with rename and link, and only there, not with {op!r}")
        if not self.stack.confines:
            return Verdict(True, WRITE, None, (), "the policy asks for no confinement", place)
        view = self._view(op, place) or (self._view("create", to) if to is not None else None)
        if view is not None:
            return view
        if op in ("connect", "bind"):
            return self._socket(op, place, exists)
        if op in ("read", "list", "execute", "stat"):
            return self._reading(op, place)
        if op in ("write", "chmod"):
            return self._need(WRITE, place, place)
        if op == "create":
            return self._both(place, place)
        if op == "delete":
            return self._removal(place, place, None)
        assert to is not None
        source = self._both(place, place) if op == "rename" else self._need(WRITE, place, place)
        verdict = self._both(to, place) if source.allowed else source
        if verdict.allowed and op == "rename":
            verdict = self._removal(place, place, to)
        return self._arrival(place, to) if verdict.allowed else verdict

    # -- one node ----------------------------------------------------------------------------------------

    def _need(self, needed: str, node: Place, asked: Place, why: str = "") -> Verdict:
        """Return the verdict of requiring an access at one node."""
        found = self.index.decide(node)
        allowed = RANK[found.access] >= RANK[needed]
        reason = f"`{found.access}` holds at `{node.text()}`"
        if not allowed:
            reason += f", and {why or 'this'} needs `{needed}`"
        access = found.access if node == asked else self.index.access(asked)
        return Verdict(allowed, access, found.layer, found.beaten, reason, node)

    def _both(self, node: Place, asked: Place) -> Verdict:
        """Return the verdict of the boundary rule: write at the node and at the directory that holds it."""
        own = self._need(WRITE, node, asked)
        if not own.allowed:
            return own
        if not node.parts:
            return own._replace(allowed=False, reason="a root cannot be made, moved or removed")
        parent = self._need(WRITE, node.parent, asked, "a change of the names in it")
        return own if parent.allowed else parent

    def _reading(self, op: str, place: Place) -> Verdict:
        verdict = self._need(READ, place, place)
        if verdict.allowed or op != "stat":
            return verdict
        below = next(self._allowed_below(place), None)
        if below is None:
            return verdict
        return verdict._replace(
            allowed=True, reason=f"it leads to `{below.describe()}`, so it may be stat-ed but not listed"
        )

    def _allowed_below(self, place: Place) -> Iterator[Layer]:
        for layer in self._wider:
            where = layer.where
            if isinstance(where, Place):
                if len(where.parts) > len(place.parts) and self._contains(place, where):
                    yield layer
            elif self._leads(where, place):
                yield layer

    # -- names that come and go --------------------------------------------------------------------------

    def _removal(self, node: Place, asked: Place, to: Place | None) -> Verdict:
        verdict = self._both(node, asked)
        if not verdict.allowed:
            return verdict
        pin = self._pin(node, to, "delete" if to is None else "rename")
        if pin is None:
            return verdict
        reason = f"`{node.text()}` is above `{_name(pin)}`, which is `{pin.access}`, so it stays where it is"
        return verdict._replace(allowed=False, decided_by=pin, beat=(), reason=reason)

    def _arrival(self, asked: Place, to: Place) -> Verdict:
        verdict = self._both(to, asked)
        if not verdict.allowed:
            return verdict
        pin = self._pin(to, None, "arrive")
        if pin is None:
            return verdict
        reason = f"`{to.text()}` is above `{_name(pin)}`, which is `{pin.access}`, so nothing is moved into its place"
        return verdict._replace(allowed=False, decided_by=pin, beat=(), reason=reason)

    def _pin(self, node: Place, to: Place | None, act: str) -> Layer | None:
        """Return a stricter layer that keeps this directory in its place, or None."""
        for layer in self._stricter:
            where = layer.where
            if isinstance(where, Place):
                if len(where.parts) > len(node.parts) and self._contains(node, where):
                    return layer
            elif self._glob_pins(layer, where, node, to, act):
                return layer
        return None

    def _glob_pins(self, layer: Layer, glob: Glob, node: Place, to: Place | None, act: str) -> bool:
        """Return whether a pattern keeps a directory in its place.

        Above its anchor, and where the directory matches a proper prefix of what follows a leading ``**``, it does.
        Inside a later ``**`` any directory may hold a match: it may be removed (an empty one holds none), but not
        moved. Below a leading ``**`` a directory moves freely, unless it leaves what the pattern covers.
        """
        anchor = glob.anchor
        assert anchor is not None
        floating = glob.text.startswith(ANY_DEPTH)  # anchored at a root, which nobody wrote into the pattern
        if self._contains(node, anchor):
            return not floating  # its copies at the other writable roots hold wherever this one goes
        states = self._states(glob, node)
        length = len(glob.pattern)
        leading = 1 if glob.pattern[0] == ANY_DEPTH else 0
        fixed = {s for s in states if leading < s < length}
        if fixed:
            loose = fixed <= self._states(glob, node.parent)  # no new name of the pattern was read here
            return not (loose and act == "delete")
        if act != "rename" or to is None or not states - {length}:
            return False
        covered: set[int] = set()
        for other in self._stricter:
            twin = other.where
            if isinstance(twin, Glob) and twin.pattern == glob.pattern and twin.excepts == glob.excepts:
                same = other.cap == layer.cap and RANK[other.access] <= RANK[layer.access]
                covered |= self._states(twin, to) if same else frozenset()
        return not states <= covered | {length}

    def _states(self, glob: Glob, place: Place) -> frozenset[int]:
        """Return the states of a pattern after the components of a place below its anchor."""
        anchor = glob.anchor
        if anchor is None or not self._contains(anchor, place):
            return frozenset()
        below = place.parts[len(anchor.parts) :]
        if any(globs.match_prefix(spared, below, self.fold) for spared in glob.excepts):
            return frozenset()
        states = globs.start(glob.pattern)
        for name in below:
            states = globs.step(glob.pattern, states, name, self.fold)
        return states

    def _leads(self, glob: Glob, place: Place) -> bool:
        """Return whether a match of the pattern may lie strictly below a place."""
        if glob.anchor is not None and self._contains(place, glob.anchor):
            return True
        return any(state < len(glob.pattern) for state in self._states(glob, place))

    def _contains(self, outer: Place, inner: Place) -> bool:
        if not self.fold:
            return outer.contains(inner)
        head = inner.parts[: len(outer.parts)]
        return outer.root == inner.root and [n.casefold() for n in head] == [n.casefold() for n in outer.parts]

    # -- sockets and views -------------------------------------------------------------------------------

    def _socket(self, op: str, place: Place, exists: bool) -> Verdict:
        rule = next(
            (r for r in self.stack.sockets if len(r.where.parts) == place.depth and self._contains(r.where, place)),
            None,
        )
        access = self.index.access(place)
        if rule is not None and (rule.access == DENY or rule.access == {"connect": CONNECT, "bind": BIND}[op]):
            allowed = rule.access != DENY
            return Verdict(allowed, access, rule, (), f"the socket line says `{rule.access}`", place)
        if op == "bind":
            return self._both(place, place)
        verdict = self._need(WRITE, place, place, "a socket made during the run")
        if not exists:
            return verdict
        reason = "a socket that is there before the run needs a `socket:` line that says `connect`"
        return verdict._replace(allowed=False, reason=reason)

    def _view(self, op: str, place: Place) -> Verdict | None:
        """Return the verdict on a place that a target shows as a view, or None where layers decide.

        An entry that names a place inside a view decides there, as far as it is stricter than the view and no view
        stands deeper: `/dev/null` works below a denied `/dev` (design rule 12).
        """
        best: tuple[int, str] = (-1, "")
        for parts, access in self._views:
            if place.root == "" and place.parts[: len(parts)] == parts:
                best = max(best, (len(parts), access))
        access = best[1]
        if not access:
            return None
        own = self.index.decide(place)
        if own.layer is not None and own.depth >= max(1, best[0]) and RANK[own.access] < RANK[access]:
            return None
        changes = op not in ("read", "list", "stat", "execute", "write", "connect")
        shared = place.parts[:2] in (("dev", "shm"), ("dev", "pts")) and len(place.parts) > 2
        needed = READ if op in ("read", "list", "stat", "execute") else WRITE
        allowed = RANK[access] >= RANK[needed] and (shared or not changes)
        reason = f"`{place.text()}` is a view that the target makes, `{access}` for every policy"
        return Verdict(allowed, access, None, (), reason, place)


def decide(
    stack: Layers, op: str, place: Place, to: Place | None = None, fold: bool = False, exists: bool = True
) -> Verdict:
    """Return the verdict of a bound stack on one operation; see ``Evaluator.decide``.

    Asking several questions of one stack is cheaper through one ``Evaluator``.
    """
    return Evaluator(stack, fold).decide(op, place, to, exists)


def _name(layer: Layer) -> str:
    """Return a short name of a layer that pins: its place where it is literal."""
    return layer.where.text() if isinstance(layer.where, Place) else layer.where.describe()


def _every(stack: Layers) -> Iterator[Layer]:
    yield from stack.layers
    for ceiling in stack.ceilings:
        yield from ceiling.layers


def _views(os: str) -> tuple[tuple[tuple[str, ...], str], ...]:
    if os == "windows":
        return ()  # device names are no places there
    rows = packaged.data("system")["views"][os]
    return tuple(
        (tuple(part for part in row["path"].split("/") if part), row["access"])
        for row in rows
        if not row.get("pattern")
    )


__all__ = ["Decision", "Evaluator", "Verdict", "decide"]

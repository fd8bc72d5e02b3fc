"""Lowering: a policy becomes the grant layers of one operating system."""

from sandboxc.diagnostics import Diagnostic, Label, error, has_errors
from sandboxc.globs import Glob, parse_glob
from sandboxc.layers import (
    ENTRY,
    MODE,
    PROTECTED,
    Layer,
    Layers,
    SocketRule,
    ordered,
    protect,
)
from sandboxc.locks import lock_conflicts
from sandboxc.places import (
    BUILTIN_PARAMETERS,
    POSIX,
    RUN_BASE,
    RUN_TMP,
    WINDOWS,
    PathProblem,
    Place,
    parse_place,
    problem_diagnostic,
)
from sandboxc.policy import DENY, READ, WORKSPACE_WRITE, WRITE, Entry, Policy, Word
from sandboxc.presets import HiddenItem, hidden_layers, protected_names, system_layers
from sandboxc.records import NamedTuple


class Lowered(NamedTuple):
    """The layers of a policy for one operating system, and the default place of each declared parameter."""

    layers: Layers
    defaults: dict[str, Place]


class Result(NamedTuple):
    """A lowered policy, or None where any of the diagnostics is an error."""

    value: Lowered | None
    diagnostics: tuple[Diagnostic, ...]


def lower(policy: Policy, os: str) -> Result:
    """Return the grant layers of ``policy`` for ``linux``, ``macos`` or ``windows``."""
    return _Lowering(policy, os).run()


def hidden_items(policy: Policy, os: str) -> tuple[tuple[HiddenItem, ...], tuple[Diagnostic, ...]]:
    """Return the hidden paths that a policy asks for on one operating system, and what is wrong with them."""
    lowering = _Lowering(policy, os)
    return hidden_layers(policy.hidden, os, lowering.names, lowering.relative_to)


class _Lowering:
    """One lowering; collects diagnostics, so that all errors of a policy are reported in one run."""

    def __init__(self, policy: Policy, os: str) -> None:
        self.policy = policy
        self.os = os
        self.flavour = WINDOWS if os == "windows" else POSIX
        self.names = (*BUILTIN_PARAMETERS, *(parameter.name for parameter in policy.parameters))
        self.problems: list[Diagnostic] = []
        self.relative_to = self._place(policy.relative_to) if policy.relative_to else None

    def run(self) -> Result:
        policy = self.policy
        names, problems = protected_names(policy.protected, self.os)
        self.problems += problems
        layers = [*self._mode_layers(), *self._hidden(), *self._entries()]
        stack = Layers(
            self.os,
            policy.mode.value,
            policy.baseline.value if policy.baseline else READ,
            ordered(layers),
            self._sockets(),
            policy.network,
            names,
        )
        stack = protect(stack)
        for lock, layer in lock_conflicts(stack):
            self.problems.append(lock_error(lock, layer))
        defaults = self._defaults()
        if has_errors(self.problems):
            return Result(None, tuple(self.problems))
        return Result(Lowered(stack, defaults), tuple(self.problems))

    def workspace(self) -> Place:
        word = self.policy.workspace
        place = self._place(word) if word else None
        return place or Place("workspace", ())

    def _defaults(self) -> dict[str, Place]:
        found: dict[str, Place] = {}
        for parameter in self.policy.parameters:
            if parameter.default is not None:
                place = self._place(parameter.default)
                if place is not None:
                    found[parameter.name] = place
        for name in found:
            seen = [name]
            root = found[name].root
            while root in found:
                if root in seen:
                    span = next(p.span for p in self.policy.parameters if p.name == name)
                    self.problems.append(error("SBX344", f"the default of `{name}` refers to itself", span))
                    break
                seen.append(root)
                root = found[root].root
        return found

    def _place(self, word: Word) -> Place | None:
        spelled = parse_place(word.value, self.flavour, self.names, getattr(self, "relative_to", None))
        if isinstance(spelled, PathProblem):
            self.problems.append(problem_diagnostic(spelled, word.span, word.value))
            return None
        return spelled.place

    def _mode_layers(self) -> list[Layer]:
        policy = self.policy
        if policy.mode.value not in ("read-only", WORKSPACE_WRITE):
            return []
        found = [Layer(Place(RUN_BASE, ()), DENY, MODE, "run base", kind="directory")]
        if policy.protected.preset != "none":
            # whoever can write the policy or its profile rules the next run
            found += [
                Layer(Place(name, ()), READ, PROTECTED, f"protected:{name}", cap=True) for name in ("policy", "profile")
            ]
        if policy.baseline and policy.baseline.value == DENY and not (policy.system and policy.system.value == "none"):
            found += system_layers(self.os)
        if policy.mode.value == WORKSPACE_WRITE:
            span = policy.workspace.span if policy.workspace else policy.mode.span
            text = policy.workspace.value if policy.workspace else "${workspace}"
            root = Layer(self.workspace(), WRITE, MODE, "workspace", kind="directory", text=text, span=span)
            found.append(root)
        if policy.temp == "private" and policy.mode.value == WORKSPACE_WRITE:
            found.append(Layer(Place(RUN_TMP, ()), WRITE, MODE, "private temp", kind="directory", private=True))
        elif policy.temp and policy.mode.value == WORKSPACE_WRITE:
            for word in policy.temp:
                assert isinstance(word, Word)
                place = self._place(word)
                if place is not None:
                    found.append(Layer(place, WRITE, MODE, "temp", kind="directory", text=word.value, span=word.span))
        return found

    def _hidden(self) -> list[Layer]:
        if self.policy.baseline and self.policy.baseline.value == DENY:
            return []
        items, problems = hidden_layers(self.policy.hidden, self.os, self.names, self.relative_to)
        self.problems += problems
        return [item.layer for item in items] if self.policy.mode.value != "danger-full-access" else []

    def _entries(self) -> list[Layer]:
        found: list[Layer] = []
        said: dict[tuple[Place | Glob, bool], tuple[Entry, str]] = {}
        for entry in self.policy.entries:
            if entry.kind == "socket" or (entry.when and not entry.when.holds(self.os)):
                continue
            for layer in self._entry_layers(entry):
                key = (layer.where, isinstance(layer.where, Glob))
                earlier = said.setdefault(key, (entry, layer.access))
                if earlier[1] != layer.access:
                    self.problems.append(_conflict(earlier[0], entry))
                found.append(layer)
        return found

    def _entry_layers(self, entry: Entry) -> list[Layer]:
        directory = entry.text.value.endswith(("/", "\\") if self.flavour == WINDOWS else "/")
        absent = entry.absent or ("report" if entry.access.value == WRITE else "placeholder")
        shared = Layer(
            Place("", ()),
            entry.access.value,
            ENTRY,
            locked=entry.locked,
            kind="directory" if directory else "",
            absent=absent,
            text=entry.text.value,
            reason=entry.reason,
            span=entry.span,
        )
        if entry.kind == "path":
            place = self._place(entry.text)
            return [] if place is None else [shared._replace(where=place)]
        excepts = tuple(word.value for word in entry.excepts)
        globs = parse_glob(entry.text.value, entry.within, self.flavour, self.names, excepts)
        if isinstance(globs, PathProblem):
            self.problems.append(problem_diagnostic(globs, entry.text.span, entry.text.value))
            return []
        return [shared._replace(where=glob) for glob in globs]

    def _sockets(self) -> tuple[SocketRule, ...]:
        found: dict[Place, tuple[SocketRule, Entry]] = {}
        for entry in self.policy.entries:
            if entry.kind != "socket" or (entry.when and not entry.when.holds(self.os)):
                continue
            if self.flavour == WINDOWS and entry.text.value.startswith("/"):
                continue  # a socket of Linux and macOS: there is nothing on Windows that could be connected to
            place = self._place(entry.text)
            if place is None:
                continue
            rule = SocketRule(place, entry.access.value, ENTRY, entry.text.value, entry.span)
            earlier = found.setdefault(place, (rule, entry))
            if earlier[0].access != rule.access:
                self.problems.append(_conflict(earlier[1], entry))
        return tuple(sorted((rule for rule, _ in found.values()), key=lambda rule: rule.where))


def _conflict(first: Entry, second: Entry) -> Diagnostic:
    return error(
        "SBX340",
        f"`{second.text.value}` is `{second.access.value}` here and `{first.access.value}` at line {first.span.line}",
        second.access.span,
        "keep one of the two lines",
        [Label(first.access.span, f"`{first.access.value}` here")],
    )


def lock_error(lock: Layer, layer: Layer | SocketRule) -> Diagnostic:
    """Return the report of a line that stands below a stricter lock."""
    labels = [Label(lock.span, f"locked at `{lock.access}` here")] if lock.span else []
    return error(
        "SBX345",
        f"`{layer.describe()}` would be `{layer.access}` below `{lock.describe()}`, which is locked at `{lock.access}`",
        layer.span or lock.span,
        "remove the lock, or the wider line",
        labels,
    )

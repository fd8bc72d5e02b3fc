"""Preparing one run: parameters bound, the host surveyed, nothing spawned yet."""

import os
import sys
from collections.abc import Mapping

from sandboxc.binding import bind_values, missing_parameters
from sandboxc.diagnostics import Diagnostic, PolicyError, error, has_errors
from sandboxc.layers import MODE, PROTECTED, Ceiling, Index, Layer, Layers, bind, ordered
from sandboxc.places import POSIX, RUN_BASE, RUN_TMP, Place, posix
from sandboxc.policy import DENY, READ, WRITE
from sandboxc.records import NamedTuple
from sandboxc.runtime import host
from sandboxc.runtime.hostlook import HostLook
from sandboxc.runtime.subject import Subject
from sandboxc.runtime.unoccupied import UnoccupiedLook, standing
from sandboxc.survey import Resolved, resolve


class Session(NamedTuple):
    """One prepared run.

    ``values`` are the bound parameters as paths; ``stack`` is bound; ``resolved`` is what the survey of this moment
    found. ``temp`` is the private temp directory that the run will need, empty where the policy asks for none; it
    does not exist yet. ``state`` is the directory of journals.
    """

    subject: Subject
    values: Mapping[str, str]
    stack: Layers
    resolved: Resolved
    look: HostLook
    cwd: str
    base: str
    temp: str
    state: str
    diagnostics: tuple[Diagnostic, ...]


def prepare(
    subject: Subject, binds: Mapping[str, str], environ: Mapping[str, str], cwd: str, temp_name: str
) -> Session:
    """Return a prepared run.

    Args:
        subject: what was loaded.
        binds: parameter values that the caller gave; they win over what the host gives.
        environ: the environment of the run.
        cwd: the absolute directory to run in.
        temp_name: the name of the private temp directory below the run base.

    Raises:
        PolicyError: a value, a root, a lock or a link is refused; nothing was changed but the run base made.
    """
    around = host.surroundings(environ, cwd)
    problems = list(around.diagnostics)
    given = {**_literal({**around.values, **_read_from(subject)}), **binds}
    bound = bind_values(given, subject.defaults, subject.declared, POSIX)
    problems += bound.diagnostics
    problems += missing_parameters(subject.stack, {**bound.values, **_NOWHERE})
    if has_errors(problems):
        raise PolicyError(problems)
    whole = _mode_roots(subject.stack, {name: os.path.realpath(place.text()) for name, place in bound.values.items()})
    problems += host.kept_problems(environ, whole)
    if has_errors(problems):
        raise PolicyError(problems)
    try:
        state = host.state_directory(bound.values["home"].text(), environ)
        base = host.run_base(environ, state, _opens_tmp(subject.stack, bound.values))
    except host.BaseError as fault:
        advice = "a sandbox hides it from runs inside; elsewhere remove it, or set XDG_STATE_HOME and XDG_RUNTIME_DIR"
        raise PolicyError([error("SBX723", str(fault), help=advice)]) from None
    bound.values.update({RUN_BASE: posix(base), RUN_TMP: posix(f"{base}/{temp_name}")})
    values = {name: os.path.realpath(place.text()) for name, place in bound.values.items()}
    places = bound.values  # as spelled: the survey follows links, and refuses grants through what a run could plant
    problems += host.root_problems(_mode_roots(subject.stack, values), around.homes)
    known = standing(state)
    kept = (state, *host.others(environ, around.homes), *known.bases)
    closed = tuple(path for path in dict.fromkeys(kept) if path != base)
    stack = _with_host_layers(bind(subject.stack, places), subject.stack, places, around.homes, closed)
    look = UnoccupiedLook(known.occupied)
    resolved = resolve(stack, look, values["home"])
    problems += resolved.diagnostics
    if has_errors(problems):
        raise PolicyError(problems)
    uses_temp = any(layer.private for layer in stack.layers)
    temp = values[RUN_TMP] if uses_temp else ""
    return Session(subject, values, stack, resolved, look, cwd, base, temp, state, tuple(problems))


_NOWHERE = {RUN_BASE: posix("/"), RUN_TMP: posix("/")}


def _opens_tmp(stack: Layers, places: Mapping[str, Place]) -> bool:
    """Return whether the policy makes /tmp itself writable, so that a base there would be a carve-out."""
    tmp = posix("/tmp")  # noqa: S108

    def near(layer: Layer) -> bool:
        place = layer.where if isinstance(layer.where, Place) else layer.where.anchor
        bound = place.bind(places) if place is not None else None
        return bound is not None and bound.contains(tmp)

    # nothing below /tmp or beside it decides there, so the rest need not be bound
    slim = stack._replace(
        layers=tuple(filter(near, stack.layers)),
        ceilings=tuple(Ceiling(c.baseline, tuple(filter(near, c.layers))) for c in stack.ceilings),
    )
    return Index(bind(slim, places)).access(tmp) == WRITE


def _literal(values: Mapping[str, str]) -> dict[str, str]:
    """Return paths of this host as the texts that parameter values are, in which a dollar sign is written twice."""
    return {name: path.replace("$", "$$") for name, path in values.items()}


def _read_from(subject: Subject) -> dict[str, str]:
    found = {"policy": subject.policy, "profile": subject.profile}
    return {name: path for name, path in found.items() if path}


def _mode_roots(stack: Layers, values: Mapping[str, str]) -> dict[str, str]:
    """Return the parameters that a mode makes writable as a whole, with their values."""
    found: dict[str, str] = {}
    for layer in stack.layers:
        where = layer.where
        whole = isinstance(where, Place) and where.root in values and not where.parts
        if whole and layer.origin == MODE and layer.source in ("workspace", "temp"):
            assert isinstance(where, Place)
            found[where.root] = values[where.root]
    return found


def _with_host_layers(
    stack: Layers, symbolic: Layers, places: Mapping[str, Place], homes: tuple[str, ...], closed: tuple[str, ...]
) -> Layers:
    """Return the bound stack with what only a host knows: what runs keep denied, this program itself read-only where
    it lies in a writable root, hidden paths in every home."""
    extra = [Layer(posix(path), DENY, MODE, "run state", kind="directory") for path in closed]
    extra += [Layer(posix(path), READ, PROTECTED, "protected:sandboxc", cap=True) for path in _own_places()]
    for home in homes:
        if posix(home) != places["home"]:
            hidden = [layer for layer in symbolic.layers if layer.origin == PROTECTED and not layer.cap]
            elsewhere = {**places, "home": posix(home)}
            extra += bind(symbolic._replace(layers=tuple(hidden), sockets=()), elsewhere).layers
    return stack._replace(layers=ordered((*stack.layers, *extra)))


def _own_places() -> tuple[str, ...]:
    """Return where this program lies, as it was started: whoever can write there has the next run do anything."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    environment = os.path.normpath(sys.prefix)
    return (package,) if sys.prefix == sys.base_prefix else (package, environment)

"""Binding: the parameters of a policy get their values on one host (pure; the values are handed in)."""

from collections.abc import Iterable, Mapping

from sandboxc.diagnostics import Diagnostic, error
from sandboxc.globs import Glob
from sandboxc.layers import Layers
from sandboxc.places import (
    BUILTIN_PARAMETERS,
    INTERNAL_PARAMETERS,
    PathProblem,
    Place,
    nearest_help,
    parse_place,
)
from sandboxc.records import NamedTuple

#: What helps where a value is refused and the help for a path in a policy would mislead.
_VALUE_HELP = {
    "SBX310": "pass an absolute path, or leave an optional parameter out",
    "SBX313": "pass an absolute path",
    "SBX318": "pass a path that starts with `/`",
    "SBX319": "pass a path that starts with a drive, such as `C:/...`",
}


class Bound(NamedTuple):
    """The values of parameters as places, and what was wrong with them."""

    values: dict[str, Place]
    diagnostics: tuple[Diagnostic, ...]


def bind_values(
    given: Mapping[str, str], defaults: Mapping[str, Place], declared: Iterable[str], flavour: str
) -> Bound:
    """Return the place of every parameter that has a value.

    Args:
        given: parameter name to path text, checked by the same rules as a path in a policy.
        defaults: the default place of declared parameters, possibly hanging from another parameter.
        declared: the names that the policy declares.
        flavour: the path flavour of the target.
    """
    known = {*BUILTIN_PARAMETERS, *INTERNAL_PARAMETERS, *declared}
    values: dict[str, Place] = {}
    problems: list[Diagnostic] = []
    for name, text in given.items():
        if name not in known:
            problems.append(error("SBX702", f"unknown parameter `{name}`", help=nearest_help(name, known)))
            continue
        spelled = parse_place(text, flavour, ())
        if isinstance(spelled, PathProblem):
            advice = _VALUE_HELP.get(spelled.code, spelled.help)
            problems.append(error(spelled.code, f"parameter `{name}`: {spelled.message}", help=advice))
        elif not spelled.place.is_bound:
            home = given.get("home", "")
            problems.append(
                error(
                    "SBX313",
                    f"parameter `{name}`: `{text}` is not absolute",
                    help=f"write {home or '/home/...'}/...",
                )
            )
        else:
            values[name] = spelled.place
    pending = {name: place for name, place in defaults.items() if name not in values}
    progress = True
    while pending and progress:
        progress = False
        for name, place in list(pending.items()):
            bound = place.bind(values)
            if bound is not None:
                values[name] = bound
                del pending[name]
                progress = True
    return Bound(values, tuple(problems))


def used_parameters(stack: Layers) -> tuple[str, ...]:
    """Return the parameter names that the places of a stack hang from, sorted."""
    found: set[str] = set()
    places: list[Place | None] = [rule.where for rule in stack.sockets]
    for layers in (stack.layers, *(ceiling.layers for ceiling in stack.ceilings)):
        places += [layer.where.anchor if isinstance(layer.where, Glob) else layer.where for layer in layers]
    for place in places:
        if place is not None and not place.is_bound:
            found.add(place.root)
    return tuple(sorted(found))


def missing_parameters(stack: Layers, values: Mapping[str, Place]) -> tuple[Diagnostic, ...]:
    """Return an error for each used parameter that must have a value and has none."""
    return tuple(
        error("SBX703", f"parameter `{name}` has no value", help=f"pass `--bind {name}=/absolute/path`")
        for name in used_parameters(stack)
        if name not in values and BUILTIN_PARAMETERS.get(name, True)
    )

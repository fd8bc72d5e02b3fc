"""The protected, hidden and system presets: packaged data turned into layers."""

from collections.abc import Collection, Iterator, Mapping

from sandboxc import packaged
from sandboxc.diagnostics import Diagnostic, error
from sandboxc.globs import Glob, parse_glob
from sandboxc.layers import MODE, PROTECTED, Layer, ProtectedName
from sandboxc.places import (
    BUILTIN_PARAMETERS,
    OTHER_FLAVOUR,
    POSIX,
    WINDOWS,
    PathProblem,
    Place,
    Spelled,
    bad_component,
    nearest_help,
    parse_place,
    problem_diagnostic,
)
from sandboxc.policy import DENY, PresetChoice
from sandboxc.records import Any, NamedTuple

_PARAMETERS = tuple(BUILTIN_PARAMETERS)


class HiddenItem(NamedTuple):
    """A hidden path as a layer, and the spelling that a policy uses to remove it."""

    name: str
    layer: Layer


def versions() -> dict[str, int]:
    """Return the version of each preset file, for manifests."""
    return {name: int(packaged.data(name)["version"]) for name in ("hidden", "protected", "system")}


def protected_names(choice: PresetChoice, os: str) -> tuple[tuple[ProtectedName, ...], tuple[Diagnostic, ...]]:
    """Return the protected names that a choice asks for on one operating system."""
    found: dict[str, ProtectedName] = {}
    if choice.preset != "none":
        preset = packaged.data("protected")["presets"][choice.preset]
        for item in preset.get("direct", ()):
            if _on(item, os):
                found[item["name"]] = ProtectedName(tuple(item["name"].split("/")), _kind(item))
        for item in preset.get("git", ()):
            if _on(item, os):
                path = tuple(item["path"].split("/"))
                found[".git/" + item["path"]] = ProtectedName(path, item.get("kind", ""), True, item.get("occupant"))
    problems: list[Diagnostic] = []
    for word in choice.remove:
        if word.value not in found and word.value not in _everywhere("protected", choice.preset):
            help_text = nearest_help(word.value, found) or "`sandboxc protected` lists the names"
            problems.append(error("SBX341", f"`{word.value}` is not a protected name", word.span, help_text))
        found.pop(word.value, None)
    flavour = WINDOWS if os == "windows" else POSIX
    for word in choice.add:
        parts = tuple(part for part in word.value.split("/") if part and part != ".")
        advice = "write a name, or a path below the writable root, without pattern characters"
        unfit = (
            not parts
            or ".." in parts
            or word.value.startswith(("/", "~", "$"))
            or any(c in word.value for c in "*?[\\")
        )
        for part in () if unfit else parts:
            problem = bad_component(part, flavour)
            if problem is not None:
                unfit, advice = True, f"{problem.message}, so the name cannot stand on {os}"
        if unfit:
            problems.append(error("SBX342", f"`{word.value}` is not a name below a root", word.span, advice))
            continue
        found.setdefault("/".join(parts), ProtectedName(parts))  # what the preset says of a name holds on
    return tuple(found.values()), tuple(problems)


def hidden_layers(
    choice: PresetChoice, os: str, names: Collection[str] = _PARAMETERS, relative_to: Place | None = None
) -> tuple[tuple[HiddenItem, ...], tuple[Diagnostic, ...]]:
    """Return the deny layers that a choice of hidden paths asks for on one operating system.

    ``names`` are the parameters that may stand in added paths, ``relative_to`` is the root of relative ones. An
    added path of the other path flavour names nothing here.
    """
    found: dict[str, list[Layer]] = {}
    if choice.preset != "none":
        for item in packaged.data("hidden")["presets"][choice.preset]["items"]:
            if _on(item, os):
                found[_spelling(item)] = list(_layers(item, os, DENY, PROTECTED, "hidden:"))
    problems: list[Diagnostic] = []
    for word in choice.remove:
        name = word.value.rstrip("/")
        if name not in found and name not in _everywhere("hidden", choice.preset):
            help_text = nearest_help(word.value, found) or "`sandboxc protected --hidden` lists the paths"
            problems.append(error("SBX343", f"`{word.value}` is not a hidden path", word.span, help_text))
        found.pop(name, None)
    for word in choice.add:
        spelled = parse_place(word.value, WINDOWS if os == "windows" else POSIX, names, relative_to)
        if isinstance(spelled, PathProblem):
            if spelled.code in OTHER_FLAVOUR:
                continue
            problems.append(problem_diagnostic(spelled, word.span, word.value))
            continue
        kind = "directory" if spelled.directory else ""
        layer = Layer(spelled.place, DENY, PROTECTED, "hidden:" + word.value, kind=kind, span=word.span)
        found[word.value] = [layer]
    items = (HiddenItem(name, layer) for name, layers in found.items() for layer in layers)
    return tuple(items), tuple(problems)


def system_layers(os: str) -> tuple[Layer, ...]:
    """Return the read layers that a program needs to start under baseline deny."""
    found: list[Layer] = []
    for item in packaged.data("system")[os]:
        found += _layers(item, os, item["access"], MODE, "system:")
    return tuple(found)


def _everywhere(kind: str, preset: str) -> frozenset[str]:
    """Return the names of a preset on any operating system, as a policy removes them."""
    if preset == "none":
        return frozenset()
    found = packaged.data(kind)["presets"][preset]
    if kind == "hidden":
        return frozenset(_spelling(item) for item in found["items"])
    direct = {item["name"] for item in found.get("direct", ())}
    return frozenset(direct | {".git/" + item["path"] for item in found.get("git", ())})


def _on(item: Mapping[str, Any], os: str) -> bool:
    return "os" not in item or os in item["os"]


def _kind(item: Mapping[str, Any]) -> str:
    kind = str(item.get("kind", ""))
    return kind if kind in ("file", "directory") else ""


def _spelling(item: Mapping[str, Any]) -> str:
    return str(item.get("path") or item["glob"])


def _layers(item: Mapping[str, Any], os: str, access: str, origin: str, prefix: str) -> Iterator[Layer]:
    """Yield the layers of one data item; a malformed item is a fault of the package, not of a policy."""
    flavour = WINDOWS if os == "windows" else POSIX
    text = _spelling(item)
    kind = _kind(item)
    where: tuple[Place | Glob, ...]
    if "glob" in item:
        globs = parse_glob(text, item.get("within", ""), flavour, _PARAMETERS)
        if isinstance(globs, PathProblem):
            raise ValueError(f"packaged glob {text!r}: {globs.message}")
        where = globs
    else:
        spelled = parse_place(text, flavour, _PARAMETERS)
        if not isinstance(spelled, Spelled):
            raise ValueError(f"packaged path {text!r}: {spelled.message}")
        where = (spelled.place,)
    for place in where:
        yield Layer(place, access, origin, prefix + text, kind=kind)

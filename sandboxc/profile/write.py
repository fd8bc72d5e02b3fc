"""From a compilation to the files of a profile directory (pure).

The bytes depend on the policy's text, the facts and the compiler alone: keys are sorted, lines end in a line
feed, and no clock, host path or random tag takes part.
"""

import json
from collections.abc import Iterable, Mapping

from sandboxc import facts, presets
from sandboxc._version import VERSION
from sandboxc.binding import used_parameters
from sandboxc.compile import Compilation, options_of
from sandboxc.digests import sha256_hex
from sandboxc.losses import Loss, enforcement
from sandboxc.places import BUILTIN_PARAMETERS, INTERNAL_PARAMETERS
from sandboxc.profile.codec import (
    FORMAT_VERSION,
    LAYERS,
    MANIFEST,
    encode_loss,
    encode_place,
    encode_stack,
    encode_waiver,
)
from sandboxc.records import Any

_WIDTH = 200


def profile_files(compilation: Compilation) -> dict[str, bytes]:
    """Return the files of a profile directory: name to bytes, the manifest last.

    Raises:
        ValueError: the compilation has errors, or two emitters made the same file differently.
    """
    if not compilation.ok:
        raise ValueError("a compilation with errors has no profile")
    sources = [compilation.source]
    stacks = {os: encode_stack(item.layers, item.defaults, sources) for os, item in compilation.lowered.items()}
    layers = {"format_version": FORMAT_VERSION, "sources": sources, "stacks": stacks}
    files: dict[str, bytes] = {LAYERS: dump(layers)}
    for target in compilation.artefacts:
        for name, data in compilation.artefacts[target].files.items():
            if name == MANIFEST or files.setdefault(name, data) != data:
                raise ValueError(f"two emitters made different files named {name!r}")
    files = {name: files[name] for name in sorted(files)}
    files[MANIFEST] = dump(manifest(compilation, files))
    return files


def manifest(compilation: Compilation, files: Mapping[str, bytes]) -> dict[str, Any]:
    """Return the manifest of a compilation whose other files are these."""
    policy = compilation.policy
    options = options_of(policy, compilation.source)
    sources = [compilation.source]
    return {
        "format_version": FORMAT_VERSION,
        "compiler": {"name": "sandboxc", "version": VERSION},
        "policy": {
            "name": policy.name,
            "description": policy.description,
            "sha256": policy.digest,
            "mode": policy.mode.value,
            "baseline": policy.baseline.value if policy.baseline else "read",
            "network": policy.network.mode,
            "temp": "private" if policy.temp == "private" else "listed" if policy.temp else "none",
            "require": policy.require,
        },
        "options": {
            "macos_base": options.macos_base,
            "macos_services": list(options.macos_services),
            "windows_reads": options.windows_reads,
            "targets": list(policy.targets),
        },
        "sources": [{"name": compilation.source, "sha256": policy.digest}],
        "presets": presets.versions(),
        "parameters": _parameters(compilation),
        "facts": facts.to_data(compilation.facts),
        "targets": {target: _target(compilation, target, sources) for target in sorted(compilation.artefacts)},
        "waivers": [encode_waiver(waiver, sources) for waiver in options.waivers],
        "files": {name: sha256_hex(data) for name, data in files.items()},
    }


def _parameters(compilation: Compilation) -> dict[str, Any]:
    """Return every parameter that takes part: its type, whether it must be given, and its default by system."""
    declared = {parameter.name: parameter for parameter in compilation.policy.parameters}
    names = {*declared}
    for item in compilation.lowered.values():
        names.update(used_parameters(item.layers))
        names.update(place.root for place in item.defaults.values() if not place.is_bound)
    found: dict[str, Any] = {}
    for name in sorted(names - {*INTERNAL_PARAMETERS}):
        defaults = {
            os: encode_place(item.defaults[name])
            for os, item in sorted(compilation.lowered.items())
            if name in item.defaults
        }
        found[name] = {
            "type": "path",
            "declared": name in declared,
            "required": BUILTIN_PARAMETERS.get(name, True) and not defaults,
            "default": defaults,
            "description": declared[name].description if name in declared else "",
        }
    return found


def _target(compilation: Compilation, target: str, sources: list[str]) -> dict[str, Any]:
    artefact = compilation.artefacts[target]

    def rows(losses: Iterable[Loss]) -> list[dict[str, Any]]:
        return [encode_loss(loss, sources) for loss in losses]

    return {
        "enforcement": enforcement(artefact.losses),
        "constraints": list(artefact.constraints),
        "limits": rows(loss for loss in artefact.losses if loss.standing),
        "losses": rows(loss for loss in artefact.losses if not loss.standing),
        "files": sorted(artefact.files),
    }


def dump(value: object) -> bytes:
    """Return a value as JSON: keys sorted, ASCII, what fits on a line on one line, a line feed at the end."""
    return (_dump(value, "") + "\n").encode("ascii")


def _dump(value: object, indent: str) -> str:
    flat = json.dumps(value, sort_keys=True, allow_nan=False)
    if len(flat) + len(indent) <= _WIDTH or not isinstance(value, dict | list) or not value:
        return flat
    inner = indent + " "
    if isinstance(value, dict):
        rows = [f"{json.dumps(key)}: {_dump(value[key], inner)}" for key in sorted(value)]
        return "{\n" + ",\n".join(inner + row for row in rows) + "\n" + indent + "}"
    return "[\n" + ",\n".join(inner + _dump(item, inner) for item in value) + "\n" + indent + "]"

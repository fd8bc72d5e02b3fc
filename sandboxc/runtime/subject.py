"""What a run is made from, whether it was read from a compiled profile or compiled from a policy on the spot."""

import os
from collections.abc import Mapping

from sandboxc.diagnostics import Diagnostic, error
from sandboxc.emitters.artefact import Options
from sandboxc.layers import Layers
from sandboxc.places import Place
from sandboxc.records import NamedTuple
from sandboxc.source import SourceFile


class Subject(NamedTuple):
    """The Linux half of a profile: layers, parameters, and what the policy says besides them.

    ``targets`` are the targets that the policy is for. ``policy`` and ``profile`` are absolute paths of what was
    read, as spelled, empty where there is none; both are protected names of the run, and so are the links on the
    way: the next run will go by the same spelling. ``digest`` identifies the policy.
    """

    name: str
    stack: Layers
    defaults: Mapping[str, Place]
    declared: tuple[str, ...]
    options: Options
    require: str
    targets: tuple[str, ...]
    policy: str = ""
    profile: str = ""
    digest: str = ""


def _spelled(path: str) -> str:
    """Return an absolute path without dots that goes through the same links; a ``..`` leaves where they lead."""
    here = "/" if path.startswith("/") else os.getcwd()
    for part in path.split("/"):
        if part == "..":
            here = os.path.dirname(os.path.realpath(here))
        elif part not in ("", "."):
            here = os.path.join(here, part)
    return here


def from_profile(path: str) -> Subject:
    """Return the subject of a profile directory; imports no front end and no emitter.

    Raises:
        PolicyError: the profile cannot be read, is not what its manifest says, or holds nothing for Linux.
    """
    from sandboxc.profile.load import load_profile

    profile = load_profile(path)
    manifest = profile.manifest
    stored = profile.layers_for("linux")
    compiled = tuple(target for target in ("bwrap", "landlock") if target in manifest.targets)
    return Subject(
        profile.name,
        stored.layers,
        stored.defaults,
        tuple(name for name, parameter in manifest.parameters.items() if parameter.declared),
        manifest.options,
        manifest.policy["require"],
        compiled,
        "",
        _spelled(path),
        manifest.policy["sha256"],
    )


def from_policy(path: str) -> tuple[Subject | None, tuple[Diagnostic, ...], tuple[SourceFile, ...]]:
    """Return the subject of a policy file (``-``: standard input), or every reason why there is none."""
    from sandboxc.compile import compile_policy, options_of
    from sandboxc.loader import load

    loaded = load(path)
    if loaded.policy is None:
        return None, loaded.diagnostics, loaded.sources
    policy = loaded.policy
    targets = tuple(target for target in policy.targets if target in ("bwrap", "landlock"))
    if not targets:
        problem = error("SBX724", "this policy is for no Linux target", policy.mode.span, "add `bwrap` to `targets`")
        return None, (*loaded.diagnostics, problem), loaded.sources
    compiled = compile_policy(policy, targets)
    problems = (*loaded.diagnostics, *compiled.diagnostics)
    if not compiled.ok:
        return None, problems, loaded.sources
    lowered = compiled.lowered["linux"]
    subject = Subject(
        policy.name,
        lowered.layers,
        lowered.defaults,
        tuple(parameter.name for parameter in policy.parameters),
        options_of(policy, compiled.source),
        policy.require,
        targets,
        "" if path == "-" else _spelled(path),
        "",
        policy.digest,
    )
    return subject, problems, loaded.sources

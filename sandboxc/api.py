"""The Python interface: load a policy, compile it, load a profile, bind it, ask it questions."""

import sys
from collections.abc import Mapping

from sandboxc.bound import bind_stack
from sandboxc.diagnostics import Diagnostic, PolicyError
from sandboxc.layers import Layers
from sandboxc.places import Place
from sandboxc.profile.load import StoredProfile
from sandboxc.profile.load import load_profile as _load_profile
from sandboxc.records import TYPE_CHECKING

if TYPE_CHECKING:
    from sandboxc.emitters.artefact import Artefact
    from sandboxc.evaluator import Verdict
    from sandboxc.facts import Facts
    from sandboxc.policy import Policy


def load_policy(path: str) -> "Policy":
    """Return the policy that a file holds; ``-`` is standard input.

    Raises:
        PolicyError: the file cannot be read, or is no valid policy; every reason is in the exception.
    """
    from sandboxc.loader import load

    loaded = load(path)
    if loaded.policy is None:
        raise PolicyError(loaded.diagnostics)
    return loaded.policy


def compile_policy(policy: "Policy", target: str, facts: "Facts | None" = None) -> "Artefact":
    """Return the artefact of a policy for one target, its losses with the policy's waivers applied.

    Args:
        policy: what ``load_policy`` returned.
        target: ``seatbelt``, ``bwrap``, ``landlock`` or ``windows``.
        facts: what the target's host is assumed to be like; None means the defaults.

    Raises:
        PolicyError: the policy does not hold together, asks for no confinement, or the target cannot hold it and
            no waiver says that this is accepted.
        ValueError: there is no such target.
    """
    from sandboxc import compile as compiler
    from sandboxc.policy import TARGETS

    if target not in TARGETS:
        raise ValueError(f"unknown target {target!r}; known: {', '.join(TARGETS)}")
    compiled = compiler.compile_policy(policy, (target,), facts)
    if target not in compiled.artefacts:
        raise PolicyError(compiled.diagnostics)
    return compiled.artefacts[target]


def load_profile(path: str) -> "Profile":
    """Return the profile in a directory after verifying every digest.

    Raises:
        PolicyError: it cannot be read, is of an unknown form, or was changed after it was compiled.
    """
    return Profile(_load_profile(path))


class Profile:
    """A verified profile: ``stored`` is what the directory holds."""

    __slots__ = ("stored",)

    def __init__(self, stored: StoredProfile) -> None:
        self.stored = stored

    def bind(self, os: str | None = None, /, **values: str) -> "BoundProfile":
        """Return the profile with its parameters bound.

        Args:
            os: whose layers are meant: ``linux``, ``macos`` or ``windows``; None means this host's system.
            values: parameter name to absolute path; ``_`` in a name stands for ``-`` (``user_config``).

        Raises:
            PolicyError: a value is refused, a parameter that is needed has none, or what is bound breaks a lock.
        """
        named = {name.replace("_", "-"): value for name, value in values.items()}
        return bind_profile(self.stored, os or host_system(), named)


class BoundProfile:
    """A profile whose parameters have their values on one host.

    ``stack`` holds the bound layers, ``values`` the place of each parameter, ``diagnostics`` what was worth a word.
    The run's own private directory is not bound here: it is made for every confine.
    """

    __slots__ = ("diagnostics", "os", "profile", "stack", "symbolic", "values")

    def __init__(
        self,
        profile: StoredProfile,
        os: str,
        symbolic: Layers,
        values: dict[str, Place],
        stack: Layers,
        diagnostics: tuple[Diagnostic, ...],
    ) -> None:
        self.profile = profile
        self.os = os
        self.symbolic = symbolic
        self.values = values
        self.stack = stack
        self.diagnostics = diagnostics

    def decide(self, op: str, path: str, to: str | None = None) -> "Verdict":
        """Return what the layers say about an operation on an absolute path (``~/`` and ``${name}`` work too).

        Raises:
            PolicyError: the path is refused.
        """
        from sandboxc.ask import Question

        return Question(self.stack, self.values).decide(op, path, to)


def bind_profile(profile: StoredProfile, os: str, values: Mapping[str, str]) -> BoundProfile:
    """Return a stored profile bound to these values; see ``Profile.bind``."""
    stored = profile.layers_for(os)
    declared = [name for name, parameter in profile.manifest.parameters.items() if parameter.declared]
    bound = bind_stack(stored.layers, stored.defaults, declared, values)
    return BoundProfile(profile, os, stored.layers, bound[0], bound[1], bound[2])


def decide(
    policy: "Policy",
    op: str,
    path: str,
    *,
    to: str | None = None,
    os: str = "linux",
    values: Mapping[str, str] | None = None,
) -> "Verdict":
    """Return what a policy says about one operation on one path.

    Args:
        policy: what ``load_policy`` returned.
        op: an operation of ``policy.OPERATIONS``.
        path: an absolute path, or one that starts with ``~/`` or ``${name}``.
        to: the new name, for ``rename`` and ``link``.
        os: the operating system whose layers are meant.
        values: parameter name to absolute path. Built-in parameters without a value get those of
            ``sandboxc.canonical``, where the workspace lies in the home directory.

    Raises:
        PolicyError: the policy does not hold together, or the path or a value is refused.
        ValueError: the operation is unknown, or ``to`` is missing or too much.
    """
    from sandboxc.ask import question

    return question(policy, os, values or {}).decide(op, path, to)


def host_system() -> str:
    """Return the operating system of this host: ``linux``, ``macos`` or ``windows``."""
    return {"darwin": "macos", "win32": "windows", "cygwin": "windows"}.get(sys.platform, "linux")

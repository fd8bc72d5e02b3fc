"""Whether a profile still says what its policy says."""

from collections.abc import Mapping

from sandboxc import facts, presets
from sandboxc._version import VERSION
from sandboxc.compile import compile_policy
from sandboxc.diagnostics import Diagnostic, error
from sandboxc.policy import Policy
from sandboxc.profile.codec import MANIFEST
from sandboxc.profile.load import StoredProfile
from sandboxc.profile.write import profile_files
from sandboxc.records import NamedTuple


class Freshness(NamedTuple):
    """Whether a profile is fresh, and the diagnostics that say why not."""

    fresh: bool
    diagnostics: tuple[Diagnostic, ...]


def looks_fresh(profile: StoredProfile, digests: Mapping[str, str]) -> bool:
    """Return whether everything that a compile depends on is what the manifest says, without compiling.

    Args:
        profile: a loaded profile, its files verified.
        digests: the SHA-256 of each source file by the name that the manifest uses.
    """
    manifest = profile.manifest
    return manifest.compiler == VERSION and manifest.sources == dict(digests) and manifest.presets == presets.versions()


def compare(profile: StoredProfile, policy: Policy) -> Freshness:
    """Return whether compiling the policy anew, for the same targets and facts, gives the profile's very bytes."""
    assumed = facts.from_data(dict(profile.manifest.facts))
    if isinstance(assumed, Diagnostic):
        return Freshness(False, (assumed,))
    compiled = compile_policy(policy, profile.manifest.targets or policy.targets, assumed)
    if not compiled.ok:
        return Freshness(False, compiled.diagnostics)
    fresh = profile_files(compiled)
    stored = {**profile.files, MANIFEST: profile.manifest_bytes}
    differ = sorted(name for name in {*fresh, *stored} if fresh.get(name) != stored.get(name))
    if not differ:
        return Freshness(True, compiled.diagnostics)
    return Freshness(False, (*compiled.diagnostics, stale(profile.path, f"differs in {', '.join(differ)}")))


def stale(path: str, why: str) -> Diagnostic:
    """Return the report of a profile that no longer says what its policy says."""
    return error(
        "SBX739",
        f"the profile `{path}` {why}",
        None,
        f"compile it again: `sandboxc compile POLICY --target all -o {path}`",
    )

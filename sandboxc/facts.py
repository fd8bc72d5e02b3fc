"""Target facts: what the host of a target is like, as an explicit input value."""

from collections.abc import Mapping

from sandboxc.diagnostics import Diagnostic, error
from sandboxc.records import NamedTuple


class Facts(NamedTuple):
    """What an emitter may assume of a target's host.

    ``fold_case`` says whether the volumes of a macOS or Windows target compare names without regard to case
    (Linux never does).
    """

    name: str = "default"
    arch: str = "x86_64"
    landlock_abi: int = 6
    fold_case: bool = True


NAMED: Mapping[str, Facts] = {
    "default": Facts(),
    "linux-6.18": Facts("linux-6.18", landlock_abi=7),
    "linux-6.12": Facts("linux-6.12", landlock_abi=6),
    "linux-6.8": Facts("linux-6.8", landlock_abi=4),
    "linux-6.1": Facts("linux-6.1", landlock_abi=2),
    "linux-5.15": Facts("linux-5.15", landlock_abi=1),
    "linux-7.3": Facts("linux-7.3", landlock_abi=11),
    "macos": Facts("macos"),
    "macos-case-sensitive": Facts("macos-case-sensitive", fold_case=False),
}

_TYPES: Mapping[str, type] = {
    "name": str,
    "arch": str,
    "landlock_abi": int,
    "fold_case": bool,
}


def from_data(data: object) -> Facts | Diagnostic:
    """Return the facts of a decoded JSON object, or the reason why it is refused."""
    if not isinstance(data, dict):
        return error("SBX701", "target facts must be a JSON object")
    for key, value in data.items():
        kind = _TYPES.get(str(key))
        if kind is None:
            return error("SBX701", f"unknown target fact `{key}`", help=f"known: {', '.join(_TYPES)}")
        if type(value) is not kind:
            return error("SBX701", f"target fact `{key}` must be of type {kind.__name__}")
    facts = Facts(**data)
    if not 0 <= facts.landlock_abi <= 64:
        return error("SBX701", "`landlock_abi` must be between 0 and 64")
    if facts.arch not in ("x86_64", "aarch64"):
        return error("SBX701", f"unknown architecture `{facts.arch}`", help="known: x86_64, aarch64")
    return facts


def to_data(facts: Facts) -> dict[str, object]:
    """Return the facts as a JSON object."""
    return dict(facts._asdict())

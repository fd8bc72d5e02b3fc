"""Export of a bound plan as JSON of the landlockconfig project (its schema/landlockconfig.json)."""

from collections.abc import Iterable

from sandboxc import landlock_abi
from sandboxc.emitters.landlock.finalise import LandlockPlan
from sandboxc.records import Any

#: The newest ABI whose every right that format has a name for.
NEWEST_ABI = 8

_FS = landlock_abi.handled_fs(NEWEST_ABI)
_NET = landlock_abi.handled_net(NEWEST_ABI)


def landlockconfig(plan: LandlockPlan) -> str:
    """Return a bound plan as landlockconfig JSON: sorted keys, one final newline.

    The format has no place for the identity of nodes, for optional rules and for the seccomp companion: a path
    that is gone is left to the reader of the format, and the network is only closed as far as ports go. A name
    that is not UTF-8 cannot stand in it and is left out, which only narrows.

    Raises:
        ValueError: the plan confines nothing, or handles rights that the format has no name for (ABI 9 and
            later); leaving them out would widen it.
    """
    if not plan.confined:
        raise ValueError("a plan that confines nothing has no landlockconfig form")
    if plan.handled_fs & ~_FS or plan.handled_net & ~_NET:
        raise ValueError(
            f"landlockconfig knows the rights of Landlock ABI {NEWEST_ABI} and older, not of {plan.abi}; "
            f"compile with `landlock_abi` {NEWEST_ABI} or less"
        )
    ruleset: dict[str, Any] = {"handledAccessFs": list(landlock_abi.names(plan.handled_fs))}
    if plan.handled_net:
        ruleset["handledAccessNet"] = list(landlock_abi.names(plan.handled_net, landlock_abi.NET_BITS))
    if plan.scoped:
        ruleset["scoped"] = list(landlock_abi.names(plan.scoped, landlock_abi.SCOPE_BITS))
    data: dict[str, Any] = {"abi": plan.abi, "ruleset": [ruleset]}
    paths = _grouped((rule.rights, rule.path) for rule in plan.rules if _is_text(rule.path))
    if paths:
        data["pathBeneath"] = [
            {"allowedAccess": list(landlock_abi.names(mask)), "parent": sorted(map(_escaped, found))}
            for mask, found in paths
        ]
    ports: dict[int, list[int]] = {}
    for port, mask in plan.ports:
        ports.setdefault(mask, []).append(port)
    if ports:
        data["netPort"] = [
            {"allowedAccess": list(landlock_abi.names(mask, landlock_abi.NET_BITS)), "port": sorted(ports[mask])}
            for mask in sorted(ports)
        ]
    import json

    return json.dumps(data, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _grouped(pairs: Iterable[tuple[int, str]]) -> list[tuple[int, list[str]]]:
    groups: dict[int, list[str]] = {}
    for mask, path in pairs:
        groups.setdefault(mask, []).append(path)
    return sorted(groups.items())


def _escaped(path: str) -> str:
    """Return a path with its dollar signs doubled: the format's variables start with one."""
    return path.replace("$", "$$")


def _is_text(path: str) -> bool:
    """Return whether a path is without the surrogates that stand for bytes outside of UTF-8."""
    return not any(0xD800 <= ord(char) <= 0xDFFF for char in path)

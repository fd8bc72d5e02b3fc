"""One binding of the parameters for questions that no host answers.

The workspace lies in the home directory, as it mostly does. ``sandboxc why`` binds to the host instead; this is
for questions about the policy text alone, such as ``decide`` without values.
"""

from collections.abc import Mapping

from sandboxc.places import RUN_BASE, RUN_TMP, WINDOWS, Place

_POSIX: Mapping[str, tuple[str, ...]] = {
    "home": ("home", "user"),
    "workspace": ("home", "user", "workspace"),
    "tmp": ("tmp",),
    "user-config": ("home", "user", ".config"),
    "user-cache": ("home", "user", ".cache"),
    "user-runtime": ("run", "user", "1000"),
    RUN_BASE: ("run", "sandboxc"),
    RUN_TMP: ("run", "sandboxc", "this-run"),
}
_WINDOWS: Mapping[str, tuple[str, ...]] = {
    "home": ("Users", "user"),
    "workspace": ("Users", "user", "workspace"),
    "tmp": ("Users", "user", "AppData", "Local", "Temp"),
    "user-config": ("Users", "user", "AppData", "Roaming"),
    "user-cache": ("Users", "user", "AppData", "Local"),
    RUN_BASE: ("Users", "user", "AppData", "Local", "sandboxc"),
    RUN_TMP: ("Users", "user", "AppData", "Local", "sandboxc", "this-run"),
}


def values(flavour: str) -> dict[str, Place]:
    """Return a bound place for each built-in parameter that has one everywhere, by path flavour."""
    if flavour == WINDOWS:
        return {name: Place("C:", parts) for name, parts in _WINDOWS.items()}
    return {name: Place("", parts) for name, parts in _POSIX.items()}

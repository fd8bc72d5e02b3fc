"""The one list of targets: name to module, imported on demand."""

from importlib import import_module
from types import ModuleType

_MODULES = {
    "seatbelt": "sandboxc.emitters.seatbelt",
    "bwrap": "sandboxc.emitters.bwrap",
    "landlock": "sandboxc.emitters.landlock",
    "windows": "sandboxc.emitters.windows",
}

TARGETS = tuple(_MODULES)


def emitter(target: str) -> ModuleType:
    """Return the emitter module of a target: it has ``emit(stack, facts, options)`` and ``table(facts)``.

    A broken emitter raises; it is never skipped.
    """
    return import_module(_MODULES[target])

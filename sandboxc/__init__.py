"""sandboxc compiles one sandbox policy to Seatbelt, bubblewrap, Landlock and Windows ACLs.

The names listed in ``__all__`` are the public interface; each is imported on first use, so that
``import sandboxc`` itself costs next to nothing.
"""

from sandboxc._version import VERSION as __version__

TYPE_CHECKING = False  # importing it from typing would cost every start several milliseconds
if TYPE_CHECKING:
    from sandboxc.api import compile_policy, decide, load_policy, load_profile
    from sandboxc.diagnostics import PolicyError
    from sandboxc.facts import Facts

__all__ = ["Facts", "PolicyError", "__version__", "compile_policy", "decide", "load_policy", "load_profile"]

_HOMES = {"Facts": "facts", "PolicyError": "diagnostics"}


def __getattr__(name: str) -> object:
    if name in __all__:
        from importlib import import_module

        return getattr(import_module("sandboxc." + _HOMES.get(name, "api")), name)
    raise AttributeError(f"module 'sandboxc' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

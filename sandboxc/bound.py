"""A whole stack bound to values: parameters checked, roots replaced, locks looked at again (pure)."""

from collections.abc import Mapping

from sandboxc.binding import bind_values, missing_parameters
from sandboxc.diagnostics import Diagnostic, Label, PolicyError, error, has_errors
from sandboxc.layers import Layer, Layers, SocketRule, bind
from sandboxc.locks import lock_conflicts
from sandboxc.places import RUN_BASE, RUN_TMP, Place


def bind_stack(
    layers: Layers, defaults: Mapping[str, Place], declared: list[str], values: Mapping[str, str]
) -> tuple[dict[str, Place], Layers, tuple[Diagnostic, ...]]:
    """Return the place of each parameter, the bound layers, and diagnostics that stop nothing.

    Locks are looked at without regard to case but on Linux: a volume that tells case apart gets at worst an error.
    Layers of the run's private directory are dropped where ``values`` do not name it.

    Raises:
        PolicyError: a value is refused, a parameter that is needed has none, or what is bound breaks a lock.
    """
    bound = bind_values(values, defaults, declared, layers.flavour)
    internal = {RUN_BASE: Place("", ()), RUN_TMP: Place("", ())}
    refused = {name: Place("", ()) for name in values}  # has its own diagnostic, if any
    problems = [*bound.diagnostics, *missing_parameters(layers, {**internal, **refused, **bound.values})]
    stack = bind(layers, bound.values)
    problems += [lock_error(conflict.lock, conflict.layer) for conflict in lock_conflicts(stack, stack.os != "linux")]
    if has_errors(problems):
        raise PolicyError(problems)
    return bound.values, stack, tuple(problems)


def lock_error(lock: Layer, layer: Layer | SocketRule) -> Diagnostic:
    """Return the report of a layer that binding brought below a stricter lock."""
    labels = [Label(lock.span, f"locked at `{lock.access}` here")] if lock.span else []
    return error(
        "SBX345",
        f"`{layer.describe()}` is bound below `{lock.describe()}`, which is locked at `{lock.access}`",
        layer.span or lock.span,
        "bind it elsewhere, or remove the lock",
        labels,
    )

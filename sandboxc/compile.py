"""Compiling: a policy becomes one artefact for each target, or every reason why it does not (pure)."""

from collections.abc import Callable, Iterable, Mapping

from sandboxc.binding import used_parameters
from sandboxc.diagnostics import Diagnostic, Label, PolicyError, error, has_errors, note, ordered
from sandboxc.emitters.artefact import Artefact, Options
from sandboxc.emitters.registry import emitter
from sandboxc.facts import Facts
from sandboxc.globs import Glob
from sandboxc.layers import RANK, Ceiling, Layer, Layers, bind
from sandboxc.locks import lock_conflicts
from sandboxc.losses import NARROWER, Loss, apply_waivers, enforcement
from sandboxc.lower import Lowered, lock_error, lower
from sandboxc.places import Place
from sandboxc.policy import TARGET_OS, Policy, Waiver
from sandboxc.records import NamedTuple
from sandboxc.source import Span


class Compilation(NamedTuple):
    """What compiling one policy gave.

    ``lowered`` maps an operating system to its layers, ``artefacts`` a target to what its emitter made, with
    waivers applied to the losses; spans in both name source files by ``source`` (relative to the policy's own
    directory), so that nothing depends on where the policy was read from. Both are empty if any of the
    ``diagnostics`` is an error; ``artefacts`` is empty too where the policy asks for no confinement.
    ``diagnostics`` name files as they were loaded.
    """

    policy: Policy
    source: str
    targets: tuple[str, ...]
    facts: Facts
    lowered: Mapping[str, Lowered]
    artefacts: Mapping[str, Artefact]
    diagnostics: tuple[Diagnostic, ...]

    @property
    def ok(self) -> bool:
        """Return whether nothing stops the compile."""
        return not has_errors(self.diagnostics)


def compile_policy(
    policy: Policy,
    targets: Iterable[str] | None = None,
    facts: Facts | None = None,
    values: Mapping[str, Place] | None = None,
) -> Compilation:
    """Return the artefacts of a policy for the given targets.

    Args:
        policy: a decoded policy.
        targets: names of ``policy.TARGETS``; None means the targets that the policy itself names.
        facts: what the targets' hosts are assumed to be like; None means the defaults.
        values: parameters that have their value already; the others stay symbolic.
    """
    wanted = tuple(dict.fromkeys(policy.targets if targets is None else targets))
    facts = facts or Facts()
    source = policy.file.rpartition("/")[2]
    problems: list[Diagnostic] = []
    lowered: dict[str, Lowered] = {}
    for os in dict.fromkeys(TARGET_OS[target] for target in wanted):
        result = lower(policy, os)
        problems += result.diagnostics
        if result.value is not None:
            problems += _spelled_alike(result.value.layers, facts)
            stack = respan(_partly_bound(result.value.layers, values), lambda span: _named(span, source))
            lowered[os] = result.value._replace(layers=stack)
    artefacts: dict[str, Artefact] = {}
    if has_errors(problems):
        lowered = {}
    elif not all(item.layers.confines for item in lowered.values()):
        problems.append(
            note(
                "SBX404",
                "this policy asks for no confinement, so no target has an artefact",
                policy.mode.span,
                "write `mode: workspace-write` with `{path: /, access: write}` for a confined run that writes anywhere",
            )
        )
    else:
        options = options_of(policy, source)
        for target in wanted:
            try:
                made = emitter(target).emit(lowered[TARGET_OS[target]].layers, facts, options)
            except PolicyError as fault:
                problems += [located(item, policy.file) for item in fault.diagnostics]
                continue
            settled = apply_waivers(made.losses, options.waivers, target)
            artefacts[target] = made._replace(losses=settled.losses)
            problems += [located(item, policy.file) for item in settled.diagnostics]
            if policy.require == "full":
                problems += _shortfall(policy, target, settled.losses)
    if has_errors(problems):
        lowered, artefacts = {}, {}
    return Compilation(policy, source, wanted, facts, lowered, artefacts, ordered(problems))


def options_of(policy: Policy, source: str) -> Options:
    """Return what emitters may know of a policy besides its layers; spans name the file ``source``."""
    waivers = tuple(
        Waiver(w.loss, w.target, w.at._replace(span=_named(w.at.span, source)), w.reason, _named(w.span, source))
        for w in policy.waivers
    )
    return Options(
        policy.name,
        policy.digest,
        policy.macos_base.value if policy.macos_base else "closed",
        tuple(word.value for word in policy.macos_services),
        policy.windows_reads.value if policy.windows_reads else "standard",
        waivers,
    )


def respan(stack: Layers, rename: Callable[[Span], Span]) -> Layers:
    """Return the stack with every span replaced by what ``rename`` makes of it."""

    def layers(items: tuple[Layer, ...]) -> tuple[Layer, ...]:
        return tuple(item._replace(span=rename(item.span)) if item.span else item for item in items)

    network = stack.network
    return stack._replace(
        layers=layers(stack.layers),
        sockets=tuple(r._replace(span=rename(r.span)) if r.span else r for r in stack.sockets),
        network=network._replace(span=rename(network.span)) if network.span else network,
        ceilings=tuple(Ceiling(c.baseline, layers(c.layers)) for c in stack.ceilings),
    )


def _partly_bound(stack: Layers, values: Mapping[str, Place] | None) -> Layers:
    """Return the stack with the given parameters replaced and every other one left as it is."""
    if not values:
        return stack
    kept = {name: Place(name, ()) for name in used_parameters(stack)}
    return bind(stack, {**kept, **values})


def _spelled_alike(stack: Layers, facts: Facts) -> Iterable[Diagnostic]:
    """Yield what shows only where a volume takes two spellings for one: broken locks, and entries that meet.

    macOS volumes take composed and decomposed Unicode names for one, and some root directories for links.
    """
    if stack.os == "linux":
        return
    from unicodedata import normalize

    from sandboxc.emitters.seatbelt.tree import spellings

    fold = facts.fold_case

    def physical(place: Place) -> Place:
        if stack.os != "macos":
            return place
        parts = tuple(normalize("NFC", name) for name in place.parts)
        return Place(place.root, parts if place.root else spellings(parts)[0])

    layers: list[Layer] = []
    met: dict[tuple[str, str, tuple[str, ...]], tuple[Layer, Place]] = {}
    for layer in stack.layers:
        where = layer.where
        if isinstance(where, Glob):
            layers.append(layer._replace(where=where.at(physical(where.anchor)) if where.anchor else where))
            continue
        place = physical(where)
        layers.append(layer._replace(where=place))
        if layer.cap or layer.span is None:
            continue
        key = (layer.origin, place.root, tuple(name.casefold() for name in place.parts) if fold else place.parts)
        earlier, spelled = met.setdefault(key, (layer, where))
        if earlier.access != layer.access and spelled != where:
            strict = min(earlier, layer, key=lambda item: RANK[item.access])
            yield note(
                "SBX715",
                f"`{earlier.describe()}` and `{layer.describe()}` are one place on {stack.os}, "
                f"so the stricter one holds: `{strict.access}`",
                layer.span,
            )
    sockets = tuple(rule._replace(where=physical(rule.where)) for rule in stack.sockets)
    for lock, wider in lock_conflicts(stack._replace(layers=tuple(layers), sockets=sockets), fold):
        yield lock_error(lock, wider)


def _named(span: Span, file: str) -> Span:
    return span._replace(file=file)


def located(item: Diagnostic, file: str) -> Diagnostic:
    """Return a diagnostic about an artefact with its spans in the file as it was loaded."""
    labels = tuple(Label(_named(label.span, file), label.text) for label in item.labels)
    return item._replace(span=_named(item.span, file) if item.span else None, labels=labels)


def _shortfall(policy: Policy, target: str, losses: tuple[Loss, ...]) -> Iterable[Diagnostic]:
    """Yield an error where a policy requires full enforcement and the target holds it in part."""
    if enforcement(losses) == "full":
        return
    short = [loss for loss in losses if loss.kind != NARROWER and (loss.standing or not loss.conditional)]
    words = sorted({f"{loss.code} ({loss.kind}) at `{loss.at}`" for loss in short})
    more = f" and {len(words) - 4} more" if len(words) > 4 else ""
    yield error(
        "SBX403",
        f"{target} holds this policy in part only, and it says `require: full`",
        policy.mode.span,
        f"not held: {', '.join(words[:4])}{more}; name other `targets`, or write `require: partial`",
    )

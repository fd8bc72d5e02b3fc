"""Windows: access control entries for SIDs of the plan's own, and a token that is restricted to them.

``emit`` writes the plan of a stack whose parameters may be open; ``finalise`` writes it for a bound stack and
a look at the tree, with the kinds of objects told, patterns expanded and links followed.
"""

from collections.abc import Iterator

from sandboxc.capability import Table
from sandboxc.emitters.artefact import Artefact, Options
from sandboxc.emitters.windows.capability import TARGET, windows_table
from sandboxc.emitters.windows.losses import losses as losses_of
from sandboxc.emitters.windows.plan import HOME, Plan, Seen, build
from sandboxc.emitters.windows.render import PLAN, plan_data, scripts, to_json
from sandboxc.emitters.windows.settle import Tree, settle
from sandboxc.facts import Facts
from sandboxc.layers import Layers
from sandboxc.places import Place


def table(facts: Facts) -> Table:
    """Return the capability table under ordinary reads; the facts change nothing in it."""
    return windows_table()


def emit(stack: Layers, facts: Facts, options: Options) -> Artefact:
    """Return the plan of a Windows stack with its scripts.

    Raises:
        PolicyError: a layer lies where no access control list of one machine reaches (SBX480).
    """
    return _artefact(stack, facts, options, None, HOME, True)


def finalise(
    stack: Layers,
    facts: Facts,
    options: Options,
    tree: Tree,
    home: Place | None = None,
    with_scripts: bool = True,
) -> Artefact:
    """Return the plan of a bound stack for the objects that ``tree`` shows: nothing is assumed in it.

    ``home`` is the home directory, which strict reads open under a readable baseline; without it they do not.
    ``with_scripts`` false leaves the PowerShell renderings out, and with them the template engine.

    Raises:
        PolicyError: a parameter is open, or the tree holds what a policy may not name (SBX480, SBX703,
            SBX711 to SBX713).
    """
    settled = settle(stack, tree, facts.fold_case, options.windows_reads == "strict")
    return _artefact(settled.stack, facts, options, settled.seen, home or HOME, with_scripts)


def _artefact(
    stack: Layers, facts: Facts, options: Options, seen: Seen | None, home: Place, with_scripts: bool
) -> Artefact:
    plan = Plan()
    if stack.confines:
        plan = build(stack, facts.fold_case, options.windows_reads, seen, home)
    found = losses_of(stack, plan, windows_table(options.windows_reads, stack.baseline), seen)
    data = plan_data(plan, stack, facts, options, found, seen is not None)
    text = to_json(data)
    files = {PLAN: text.encode()}
    if with_scripts:
        files.update({name: body.encode() for name, body in scripts(data, text).items()})
    return Artefact(TARGET, text, files, found, _constraints(stack))


def _constraints(stack: Layers) -> tuple[str, ...]:
    """Return the conditions under which the symbolic plan means what the bound one does.

    Only a second stack (a restriction) beside open roots needs one: a step is made from the layers of its own
    root, and above it the other stack may hold a stricter layer that shows only once bound.
    """
    places = {(place.root, place.is_bound) for place in _places(stack)}
    is_open = any(not bound for _, bound in places)
    return ("layer-tree",) if stack.ceilings and is_open and len(places) > 1 else ()


def _places(stack: Layers) -> Iterator[Place]:
    for layers in (stack.layers, *(ceiling.layers for ceiling in stack.ceilings)):
        for layer in layers:
            place = layer.where if isinstance(layer.where, Place) else layer.where.anchor
            if place is not None:
                yield place


__all__ = ["PLAN", "emit", "finalise", "table"]

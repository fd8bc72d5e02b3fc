"""The symbolic plan: what a compile can say about bubblewrap without looking at any host (pure).

Every parameter stands for a directory of its own (``${workspace}``), and every place that a layer names is
taken to be there. Which mounts a run really needs, and in which order where parameters nest, is settled for
each run by ``finalise``; the plan's ``depends`` says, place by place, what was assumed and what happens where
a place is absent.
"""

from sandboxc import seccomp
from sandboxc.binding import used_parameters
from sandboxc.emitters.artefact import Artefact, Options
from sandboxc.emitters.bwrap import capability
from sandboxc.emitters.bwrap.finalise import WRITTEN, Host, finalise
from sandboxc.emitters.bwrap.losses import stack_losses
from sandboxc.emitters.bwrap.plan import FORMAT_VERSION, BwrapPlan, Op, by_path, groups, render
from sandboxc.facts import Facts
from sandboxc.globs import Glob
from sandboxc.layers import Layer, Layers, bind
from sandboxc.places import RUN_BASE, RUN_TMP, Place
from sandboxc.policy import DENY, WRITE
from sandboxc.records import Any
from sandboxc.survey import Resolved, Site, TreeLook, resolve
from sandboxc.survey.look import DIRECTORY, FILE, SOCKET


def emit(stack: Layers, facts: Facts, options: Options) -> Artefact:
    """Return the symbolic plan of a stack: ``bwrap.json``, the seccomp companions, the words, the losses."""
    if not stack.confines:
        return _unconfined(stack, options)
    resolved = _assumed(stack)
    plan = finalise(resolved, facts, options, Host(late_from=0))
    words = [[_printed(word) for word in group] for group in groups(plan, by_path)]
    companions = _companions(plan)
    data = {
        "format_version": FORMAT_VERSION,
        "target": capability.TARGET,
        "policy": options.name,
        "digest": options.digest,
        "confines": True,
        "facts": {"arch": facts.arch, "landlock_abi": facts.landlock_abi},
        "network": {"mode": stack.network.mode, "ports": list(stack.network.ports)},
        "companions": {
            "seccomp": {arch: f"seccomp-{arch}.bpf" for arch in seccomp.ARCHES},
            "landlock_scopes": ["abstract-unix-socket"] if plan.scope_abstract else [],
        },
        "words": words,
        "late": [[step.verb, _printed(step.path)] if step.path else [step.verb] for step in plan.steps],
        "depends": [*_depends(resolved), *_glob_depends(stack)],
    }
    native = "".join(word + "\n" for group in words for word in group)
    files = {"bwrap.json": render(data, ("words", "depends")), **companions}
    return Artefact(capability.TARGET, native, files, stack_losses(stack, capability.table(facts)))


def _unconfined(stack: Layers, options: Options) -> Artefact:
    plan = BwrapPlan(False, stack.network)
    words = groups(plan, by_path)
    data = {
        "format_version": FORMAT_VERSION,
        "target": capability.TARGET,
        "policy": options.name,
        "digest": options.digest,
        "confines": False,
        "note": "mode danger-full-access: no confinement; `sandboxc run` starts the command without bubblewrap",
        "words": words,
    }
    native = "".join(word + "\n" for group in words for word in group)
    return Artefact(capability.TARGET, native, {"bwrap.json": render(data, ("words",))}, ())


def _companions(plan: BwrapPlan) -> dict[str, bytes]:
    return {f"seccomp-{arch}.bpf": seccomp.bwrap_filter(arch, network=plan.network.mode) for arch in seccomp.ARCHES}


def _assumed(stack: Layers) -> Resolved:
    """Return the stack resolved in a world where each parameter is a directory and each named place is there."""
    values = {name: Place("", ("${" + name + "}",)) for name in used_parameters(stack)}
    if RUN_TMP in values:  # the one nesting that is always so
        values[RUN_TMP] = Place("", ("${" + RUN_BASE + "}", "${" + RUN_TMP + "}"))
    bound = bind(stack, values)
    world: dict[str, dict[str, Any]] = {}
    for layers in (bound.layers, *(ceiling.layers for ceiling in bound.ceilings)):
        for layer in layers:
            if isinstance(layer.where, Place) and layer.where.parts:
                path = layer.where.text()
                kind = FILE if layer.kind == FILE else DIRECTORY
                if world.get(path, {}).get("type") != DIRECTORY:
                    world[path] = {"type": kind}
    for rule in bound.sockets:
        world[rule.where.text()] = {"type": SOCKET}
    for path in list(world):  # what has something below it is a directory
        while path.count("/") > 1:
            path = path.rpartition("/")[0]
            if path in world:
                world[path] = {"type": DIRECTORY}
    for place in values.values():
        world.setdefault(place.text(), {"type": DIRECTORY})
    home = values.get("home")
    return resolve(bound, TreeLook(world), home.text() if home else "")


def _printed(word: str) -> str:
    """Return a word with the directory that stands for a parameter spelled as the parameter."""
    start = word.rfind("/${")
    return word[start + 1 :] if word.startswith("/${") else word


def _depends(resolved: Resolved) -> list[dict[str, Any]]:
    """Return what the words assume of the host, folded: one item for each kind, consequence and cause."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for site in resolved.sites:
        if site.path == "/" or _is_root(site):
            continue
        key = (site.kind, _if_absent(site), _cause(site.layer))
        found.setdefault(key, []).append(_printed(site.path))
    return [
        {"assumed": kind, "if_absent": absent, "why": why, "paths": sorted(paths)}
        for (kind, absent, why), paths in sorted(found.items())
    ]


def _is_root(site: Site) -> bool:
    return site.layer.source in ("run base", "private temp")


def _cause(layer: Layer) -> str:
    if layer.cap:
        return "protected"
    return layer.source.partition(":")[0] if layer.source else "entry"


def _if_absent(site: Site) -> str:
    """Return what happens where the place is absent, in the words of the plan's documentation."""
    layer = site.layer
    if site.access == WRITE:
        if layer.absent == "create":
            return "made"
        return f"opens nothing ({capability.WRITE_ABSENT})" if layer.origin in WRITTEN else "opens nothing"
    below_write = site.above == WRITE
    if layer.occupant is not None:
        return f"occupied by a file holding `{layer.occupant}`"
    if layer.origin in WRITTEN and not layer.cap:
        if layer.absent == "report":
            return f"not held below a writable root ({capability.ENTRY_ABSENT})"
        return "occupied below a writable root"
    if below_write or site.access == DENY:
        return f"not held below a writable root ({capability.PRESET_ABSENT})"
    return "opens nothing"


def _glob_depends(stack: Layers) -> list[dict[str, Any]]:
    """Return the patterns whose matches are looked for at binding."""
    found: dict[tuple[str, str, str], None] = {}
    for layers in (stack.layers, *(ceiling.layers for ceiling in stack.ceilings)):
        for layer in layers:
            if isinstance(layer.where, Glob) and layer.where.anchor is not None:
                pattern = layer.where.anchor.child(*layer.where.pattern).text()
                found[(layer.access, pattern, _cause(layer) if not layer.text else layer.spelled())] = None
    return [
        {"glob": pattern, "access": access, "why": why, "matches": "those that exist at binding"}
        for access, pattern, why in sorted(found)
    ]


def by_path_words(plan: BwrapPlan) -> list[str]:
    """Return the words of a bound plan for a person, binds by path (late steps and occupants are not in them).

    Words cannot hold the seccomp filter, so the command gets a session of its own.
    """
    return [word for group in groups(plan._replace(filtered=False), by_path) for word in group]


__all__ = ["Op", "by_path_words", "emit"]

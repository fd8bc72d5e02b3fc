"""The final artefact of one target for one host or described tree: ``compile --bind ... --host|--tree FILE``."""

import os
from collections.abc import Iterable, Mapping

from sandboxc import console
from sandboxc.bound import bind_stack
from sandboxc.commands._inputs import host_values, read_json
from sandboxc.compile import Compilation, options_of
from sandboxc.diagnostics import Diagnostic, PolicyError, error, has_errors, warning
from sandboxc.emitters.artefact import Options
from sandboxc.emitters.registry import emitter
from sandboxc.globs import Glob
from sandboxc.layers import Index, Layers
from sandboxc.losses import NARROWER, Loss
from sandboxc.places import RUN_BASE, Place, posix
from sandboxc.policy import TARGET_OS, WRITE
from sandboxc.records import Any, NamedTuple


class Final(NamedTuple):
    """What binding gave: the losses of that world, what is worth a word, and the target's own plan.

    ``losses`` are all that the bound artefact has; an error among the ``diagnostics`` says that binding is refused.
    """

    losses: tuple[Loss, ...]
    diagnostics: tuple[Diagnostic, ...]
    plan: Any


class Request(NamedTuple):
    """What is asked for: the target, the values of parameters, and the world that they are bound in.

    ``look`` answers about the file system: a ``survey.Look``, for Windows a ``settle.Tree``.
    """

    target: str
    given: Mapping[str, str]
    look: Any


def finalise(request: Request, form: str, compiled: Compilation) -> tuple[bytes, tuple[Diagnostic, ...]]:
    """Return the bytes of the final artefact in a form, and what is worth a word.

    Raises:
        PolicyError: a value is missing or refused, or a loss occurs in that world that the policy does not waive.
        Usage: the target has no such form.
    """
    made = settle(request, compiled)
    if has_errors(made.diagnostics):
        raise PolicyError(made.diagnostics)
    if request.target == "bwrap":
        data, notes = _words(made.plan, form)
        return data, (*made.diagnostics, *notes)
    return _text(request.target, form, made.plan).encode("utf-8"), made.diagnostics


def settle(request: Request, compiled: Compilation, late_from: int = 0) -> Final:
    """Return what a compiled policy is in one world; ``late_from`` as in ``bwrap.Host``.

    Raises:
        PolicyError: a value is missing or refused, or the world holds what no plan can be made of.
    """
    lowered = compiled.lowered[TARGET_OS[request.target]]
    options = options_of(compiled.policy, compiled.policy.file)
    places, stack, problems = bind_stack(lowered.layers, lowered.defaults, declared(compiled), request.given)
    home = places.get("home")
    if request.target == "windows":
        made = emitter("windows").finalise(stack, compiled.facts, options, request.look, home, with_scripts=False)
        found = Final(made.losses, (), made)
    else:
        from sandboxc.survey import resolve

        resolved = resolve(stack, request.look, home.text() if home else "")
        if request.target == "seatbelt":
            made = emitter("seatbelt").emit(stack, compiled.facts, options)
            found = Final(_met(made.losses, stack, resolved), (), made)
        elif request.target == "bwrap":
            cwd = places["workspace"].text() if "workspace" in places else ""
            host = emitter("bwrap").Host(cwd=cwd, late_from=late_from)
            plan = emitter("bwrap").finalise(resolved, compiled.facts, options, host)
            found = Final(plan.losses, (*resolved.diagnostics, *plan.diagnostics), plan)
        else:
            plan = emitter("landlock").finalise(resolved, request.look, compiled.facts, options)
            found = Final(plan.losses, (*resolved.diagnostics, *plan.diagnostics), plan)
    listed = compiled.artefacts[request.target].losses
    judged = _occurring(found.losses, listed, options)
    return found._replace(diagnostics=(*problems, *found.diagnostics, *judged))


def declared(compiled: Compilation) -> list[str]:
    """Return the names of the parameters that a policy declares."""
    return [parameter.name for parameter in compiled.policy.parameters]


def host_given(target: str, compiled: Compilation, given: Mapping[str, str]) -> dict[str, str]:
    """Return the values that this host gives, with those of the caller over them.

    Raises:
        PolicyError: a value is missing or refused.
    """
    values = {**host_values(), **given}
    if RUN_BASE in given or not hasattr(os, "getuid"):
        return values
    from sandboxc.runtime.host import run_base_path

    lowered = compiled.lowered[TARGET_OS[target]]
    places, stack, _ = bind_stack(lowered.layers, lowered.defaults, declared(compiled), values)
    named = os.environ.get("XDG_STATE_HOME", "")
    state = os.path.join(named if named.startswith("/") else places["home"].text() + "/.local/state", "sandboxc")
    crowded = Index(stack).access(posix("/tmp")) == WRITE  # noqa: S108
    return {**values, RUN_BASE: run_base_path(os.environ, os.path.realpath(state), crowded).replace("$", "$$")}


def _occurring(losses: Iterable[Loss], listed: Iterable[Loss], options: Options) -> Iterable[Diagnostic]:
    """Yield a report of each loss that binding made real, an error where no waiver covers it (design section 4).

    What the compile ``listed`` as unconditional was judged there.
    """
    known = {(loss.code, loss.kind, loss.at) for loss in listed if not loss.conditional}
    waived = {(waiver.loss, waiver.target, waiver.at.value) for waiver in options.waivers}
    for loss in dict.fromkeys(loss._replace(conditional=False) for loss in losses):
        if (loss.code, loss.target, loss.at) in waived or (loss.code, loss.kind, loss.at) in known:
            continue
        words = f"{loss.target}: {loss.message} ({loss.kind})"
        if loss.stops:
            advice = f'waive: {{loss: {loss.code}, target: {loss.target}, at: "{loss.at}", reason: ...}}'
            yield error(loss.code, words, loss.span, f"change the policy, or accept it with {advice}")
        elif loss.kind == NARROWER and not (loss.preset or loss.standing):
            yield warning(loss.code, words, loss.span)


def _met(losses: Iterable[Loss], stack: Layers, resolved: Any) -> tuple[Loss, ...]:
    """Return the losses of a bound Seatbelt profile in a world: of the conditional ones those that occur there.

    The survey knows the sockets that nothing opens, and the other names of held files. A profile goes by path: of
    these it holds the sockets that a ``socket:`` line denies.
    """
    ruled = {rule.where.text() for rule in stack.sockets}
    paths = {
        "SBX413": [path for path in resolved.sockets if path not in ruled and resolved.access(path) == WRITE],
        "SBX416": [site.path for site in resolved.sites if site.alias_of],
    }
    met = {(code, root) for code, found in paths.items() for path in found for root in _roots(stack, posix(path))}
    return tuple(loss for loss in losses if not loss.conditional or (loss.code, loss.at) in met)


def _roots(stack: Layers, place: Place) -> list[str]:
    """Return how the policy spells the innermost writable root around a place; of none, all writable patterns."""
    opened = [layer for layer in stack.layers if layer.access == WRITE]
    around = [
        (len(layer.where.parts), layer)
        for layer in opened
        if isinstance(layer.where, Place) and layer.where.contains(place)
    ]
    if around:
        return [max(around, key=lambda item: item[0])[1].spelled()]
    return [layer.spelled() for layer in opened if isinstance(layer.where, Glob)]


def look_at(target: str, tree: str | None) -> Any:
    """Return who answers about the file system: this host's, or the tree that a file describes.

    Raises:
        PolicyError: the file describes no tree (SBX752).
        Usage: this host has no file system of that target.
    """
    if tree is None:
        if target == "windows":
            advice = "describe the Windows tree with `--tree FILE`"
            raise console.Usage("`--host` looks at POSIX file systems only", advice)
        from sandboxc.runtime.hostlook import HostLook

        return HostLook()
    paths, mounts = _tree(tree)
    if target == "windows":
        from sandboxc.emitters.windows.settle import DescribedTree

        return DescribedTree(paths)
    from sandboxc.survey import TreeLook

    try:
        return TreeLook(paths, mounts)
    except (TypeError, ValueError, AttributeError) as fault:
        raise PolicyError([error("SBX752", f"`{tree}` does not describe a tree: {fault}")]) from None


def _is_mount(item: object) -> bool:
    """Return whether an item is a mount point, or a directory (``of``) that is shown a second time (at ``point``)."""
    if isinstance(item, dict):
        return set(item) == {"point", "of"} and all(isinstance(text, str) for text in item.values())
    return isinstance(item, str)


def _tree(path: str) -> tuple[dict[str, dict[str, Any]], tuple[Any, ...]]:
    """Return the described paths and mount points of a ``--tree`` file."""
    data = read_json(path, "SBX752")
    advice = 'write {"/path": {"type": "directory"}, ...}, or the same under "paths" beside "mounts": [...]'
    known = {"type": str, "target": str, "content": str, "inode": int}
    if isinstance(data, dict) and "paths" in data:
        paths, mounts = data["paths"], data.get("mounts", [])
    else:
        paths, mounts = data, []
    if not isinstance(paths, dict) or not isinstance(mounts, list) or not all(map(_is_mount, mounts)):
        raise PolicyError([error("SBX752", f"`{path}` does not describe a tree", None, advice)])
    for name, spec in paths.items():
        if not isinstance(spec, dict) or any(type(spec[key]) is not known.get(key) for key in spec):
            raise PolicyError([error("SBX752", f"`{path}`: `{name}` is not described as a node", None, advice)])
    return paths, tuple(mounts)


def _words(plan: Any, form: str) -> tuple[bytes, list[Diagnostic]]:
    """Return the words of a bubblewrap plan, and what words alone do not hold."""
    absent = {item.path for item in plan.occupants}
    held = plan._replace(ops=tuple(op for op in plan.ops if op.path not in absent))
    words = _runnable(emitter("bwrap").by_path_words(held))
    notes = [
        warning(
            "SBX753",
            "the words bind by path, so a path that is swapped for a link before bwrap starts is followed",
            None,
            "`sandboxc run` passes each source by descriptor, and adds the seccomp filter that words cannot hold",
        )
    ]
    if plan.occupants or plan.steps:
        names = sorted({item.path for item in (*plan.occupants, *plan.steps) if item.path})
        shown = ", ".join(f"`{name}`" for name in names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        notes.append(
            warning(
                "SBX754",
                f"bwrap alone does not hold {shown}",
                None,
                "`sandboxc run` occupies absent names and pins links; make the names before bwrap starts",
            )
        )
    end = "\0" if form == "args0" else "\n"
    if form != "args0" and any("\n" in word for word in words):
        raise console.Usage("a path holds a line feed", "use `--format args0`")
    return "".join(word + end for word in words).encode("utf-8", "surrogateescape"), notes


def _runnable(words: list[str]) -> list[str]:
    """Return the words with each mask that needs a descriptor made one that needs none.

    bwrap binds without device access, so `/dev/null` there can be opened by nobody.
    """
    found: list[str] = []
    for word in words:
        found.append(word)
        if word == "${null-fd}":
            del found[-4:]  # --perms 0000 --ro-bind-data ${null-fd}
            found += ["--ro-bind", "/dev/null"]
    return found


def _text(target: str, form: str, plan: Any) -> str:
    """Return the text of a final artefact; Seatbelt decides by path at load, so its is the profile of bound layers."""
    if target != "landlock":
        return str(plan.native)
    if form != "landlockconfig":
        return str(plan.text())
    try:
        return str(emitter("landlock").landlockconfig(plan))
    except ValueError as fault:
        raise console.Usage(str(fault), "use `--facts` with an older Landlock ABI, or `--format native`") from None

"""The final artefact of one target for one host or described tree: ``compile --bind ... --host|--tree FILE``."""

import os
from collections.abc import Iterable, Mapping

from sandboxc import console
from sandboxc.bound import bind_stack
from sandboxc.commands._inputs import host_values, read_json
from sandboxc.diagnostics import Diagnostic, PolicyError, error, has_errors, warning
from sandboxc.emitters.artefact import Options
from sandboxc.emitters.registry import emitter
from sandboxc.facts import Facts
from sandboxc.layers import Layers
from sandboxc.losses import NARROWER, Loss
from sandboxc.lower import Lowered
from sandboxc.places import RUN_BASE
from sandboxc.records import Any, NamedTuple


class Final(NamedTuple):
    """A final artefact: its bytes, the losses that occurred, and what is worth a word."""

    data: bytes
    losses: tuple[Loss, ...]
    diagnostics: tuple[Diagnostic, ...]


class Request(NamedTuple):
    """What the command line asks for: the target, the form, and the world (``tree`` is None for this host)."""

    target: str
    form: str
    tree: str | None
    given: Mapping[str, str]


def finalise(request: Request, lowered: Lowered, facts: Facts, options: Options, declared: list[str]) -> Final:
    """Return the final artefact.

    Raises:
        PolicyError: a value is missing or refused, or a loss occurs in that world that the policy does not waive.
        Usage: the target has no such form.
    """
    values = dict(request.given)
    if request.tree is None:
        values = {**host_values(), RUN_BASE: _run_base(), **values}
    places, stack, problems = bind_stack(lowered.layers, lowered.defaults, declared, values)
    make = {"seatbelt": _seatbelt, "bwrap": _bwrap, "landlock": _landlock, "windows": _windows}[request.target]
    made = make(request, stack, {name: place.text() for name, place in places.items()}, facts, options)
    found = (*problems, *made.diagnostics, *_occurring(made.losses, options))
    if has_errors(found):
        raise PolicyError(found)
    return made._replace(diagnostics=found)


def _run_base() -> str:
    """Return where the private temp directories of this user's runs are kept, without making it."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime.startswith("/") and os.path.isdir(runtime):
        return os.path.join(os.path.realpath(runtime), "sandboxc")
    return f"/tmp/sandboxc-{os.getuid() if hasattr(os, 'getuid') else 0}"  # noqa: S108


def _occurring(losses: Iterable[Loss], options: Options) -> Iterable[Diagnostic]:
    """Yield an error for each loss that binding made real and that no waiver covers."""
    waived = {(waiver.loss, waiver.target, waiver.at.value) for waiver in options.waivers}
    for loss in losses:
        if (loss.code, loss.target, loss.at) in waived or loss.preset or loss.standing:
            continue
        words = f"{loss.target}: {loss.message} ({loss.kind})"
        if loss.kind == NARROWER:
            yield warning(loss.code, words, loss.span)
        else:
            advice = f'waive: {{loss: {loss.code}, target: {loss.target}, at: "{loss.at}", reason: ...}}'
            yield error(loss.code, words, loss.span, f"change the policy, or accept it with {advice}")


def _look(request: Request) -> Any:
    """Return who answers about the file system."""
    if request.tree is None:
        from sandboxc.runtime.hostlook import HostLook

        return HostLook()
    from sandboxc.survey import TreeLook

    paths, mounts = _tree(request.tree)
    try:
        return TreeLook(paths, mounts)
    except (TypeError, ValueError, AttributeError) as fault:
        raise PolicyError([error("SBX752", f"`{request.tree}` does not describe a tree: {fault}")]) from None


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


def _resolved(request: Request, stack: Layers, values: Mapping[str, str], look: Any) -> Any:
    from sandboxc.survey import resolve

    return resolve(stack, look, values.get("home", ""))


def _bwrap(request: Request, stack: Layers, values: Mapping[str, str], facts: Facts, options: Options) -> Final:
    module = emitter("bwrap")
    resolved = _resolved(request, stack, values, _look(request))
    host = module.Host(cwd=values.get("workspace", ""), late_from=0)
    plan = module.finalise(resolved, facts, options, host)
    absent = {item.path for item in plan.occupants}
    held = plan._replace(ops=tuple(op for op in plan.ops if op.path not in absent))
    words = _runnable(module.by_path_words(held))
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
    end = "\0" if request.form == "args0" else "\n"
    if request.form != "args0" and any("\n" in word for word in words):
        raise console.Usage("a path holds a line feed", "use `--format args0`")
    data = "".join(word + end for word in words).encode("utf-8", "surrogateescape")
    return Final(data, plan.losses, (*resolved.diagnostics, *plan.diagnostics, *notes))


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


def _landlock(request: Request, stack: Layers, values: Mapping[str, str], facts: Facts, options: Options) -> Final:
    module = emitter("landlock")
    look = _look(request)
    resolved = _resolved(request, stack, values, look)
    plan = module.finalise(resolved, look, facts, options)
    if request.form == "landlockconfig":
        try:
            text: str = module.landlockconfig(plan)
        except ValueError as fault:
            raise console.Usage(str(fault), "use `--facts` with an older Landlock ABI, or `--format native`") from None
    else:
        text = plan.text()
    return Final(text.encode("utf-8"), plan.losses, (*resolved.diagnostics, *plan.diagnostics))


def _seatbelt(request: Request, stack: Layers, values: Mapping[str, str], facts: Facts, options: Options) -> Final:
    """Seatbelt decides by path when it loads the text, so the final form is the text for bound layers."""
    made = emitter("seatbelt").emit(stack, facts, options)
    return Final(made.native.encode("utf-8"), (), ())


def _windows(request: Request, stack: Layers, values: Mapping[str, str], facts: Facts, options: Options) -> Final:
    if request.tree is None:
        raise console.Usage("`--host` looks at POSIX file systems only", "describe the Windows tree with `--tree FILE`")
    from sandboxc.emitters.windows.settle import DescribedTree

    paths, _ = _tree(request.tree)
    made = emitter("windows").finalise(stack, facts, options, DescribedTree(paths))
    return Final(made.native.encode("utf-8"), (), ())

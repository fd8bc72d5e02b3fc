"""Golden cases: a policy, a world that it is bound in, and what every target must make of it, byte for byte.

A case is a folder with ``policy.yaml`` and, where it needs them, ``binds.json`` (parameter values by operating
system, or for ``all``), ``tree.json`` (the world, paths spelled with parameters) and ``facts.json``. Everything else
in the folder is expected output. ``case_files`` makes that output; the checks live in ``checks.py``.
"""

import json
from collections.abc import Iterable, Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from sandboxc.bound import bind_stack
from sandboxc.commands._final import Final, Request, settle
from sandboxc.compile import Compilation, compile_policy
from sandboxc.diagnostics import Diagnostic, PolicyError, has_errors, ordered
from sandboxc.emitters import bwrap
from sandboxc.emitters.windows.settle import DescribedTree
from sandboxc.facts import Facts, from_data
from sandboxc.globs import Glob
from sandboxc.layers import Layer, Layers
from sandboxc.loader import LoadedPolicy, load_bytes
from sandboxc.losses import Loss, enforcement
from sandboxc.lower import Lowered
from sandboxc.places import Place
from sandboxc.policy import OSES, TARGET_OS, Policy
from sandboxc.source import SourceFile, Span
from sandboxc.survey import Resolved, TreeLook, resolve

HERE = Path(__file__).parent
INPUTS = ("policy.yaml", "binds.json", "tree.json", "facts.json")
#: Of a larger file the first lines and a digest are kept.
LARGE = 150_000
RERUN = "rerun with: pytest tests/golden --update-golden"

#: Where parameters lie unless a case says otherwise. macOS values are physical, as they must be.
VALUES: Mapping[str, Mapping[str, str]] = {
    "linux": {
        "workspace": "/home/u/w",
        "home": "/home/u",
        "tmp": "/tmp",
        "user-config": "/home/u/.config",
        "user-cache": "/home/u/.cache",
        "run-base": "/run/user/1000/sandboxc",
        "run-tmp": "/run/user/1000/sandboxc/r",
    },
    "macos": {
        "workspace": "/Users/u/w",
        "home": "/Users/u",
        "tmp": "/private/tmp/t",
        "user-config": "/Users/u/.config",
        "user-cache": "/Users/u/Library/Caches",
        "run-base": "/private/tmp/sandboxc",
        "run-tmp": "/private/tmp/sandboxc/r",
    },
    "windows": {
        "workspace": "C:\\Users\\u\\w",
        "home": "C:\\Users\\u",
        "tmp": "C:\\Users\\u\\AppData\\Local\\Temp",
        "user-config": "C:\\Users\\u\\AppData\\Roaming",
        "user-cache": "C:\\Users\\u\\AppData\\Local\\Cache",
        "run-base": "C:\\Users\\u\\AppData\\Local\\sandboxc",
        "run-tmp": "C:\\Users\\u\\AppData\\Local\\sandboxc\\r",
    },
}


class Tree(NamedTuple):
    """A described world: nodes by path (parameters in them), and mounts."""

    paths: Mapping[str, Mapping[str, Any]]
    mounts: tuple[Any, ...] = ()


class Case(NamedTuple):
    """One golden case as it lies in its folder."""

    name: str
    folder: Path
    loaded: LoadedPolicy
    facts: Facts
    binds: Mapping[str, Mapping[str, str]]
    tree: Tree | None

    @property
    def policy(self) -> Policy:
        """Return the decoded policy of a case whose policy decodes."""
        assert self.loaded.policy is not None
        return self.loaded.policy

    def values(self, os: str) -> dict[str, str]:
        """Return the parameter values of an operating system."""
        found = dict(VALUES[os])
        for group in ("all", os):
            for name, text in self.binds.get(group, {}).items():
                found[name] = expand(text, found, os)
        return found


def names() -> list[str]:
    """Return the names of all cases."""
    return sorted(path.parent.name for path in HERE.glob("*/policy.yaml"))


@cache
def load_case(name: str) -> Case:
    """Return a case."""
    folder = HERE / name

    def read(file: str) -> Any:
        path = folder / file
        return json.loads(path.read_text("utf-8")) if path.exists() else None

    facts = from_data(read("facts.json") or {})
    assert isinstance(facts, Facts), facts
    tree = read("tree.json")
    described = None if tree is None else Tree(tree["paths"], tuple(tree.get("mounts", ())))
    loaded = load_bytes("policy.yaml", (folder / "policy.yaml").read_bytes())
    return Case(name, folder, loaded, facts, read("binds.json") or {}, described)


def expand(text: str, values: Mapping[str, str], os: str) -> str:
    """Return a text with ``~/`` and ``${name}`` at its start replaced, separators as the operating system has them."""
    if text.startswith("~/"):
        text = "${home}" + text[1:]
    for name, value in values.items():
        mark = "${" + name + "}"
        if text.startswith(mark):
            text = value + text[len(mark) :]
    return text.replace("/", "\\") if os == "windows" and not text.startswith(".") else text


def world(case: Case, os: str, values: Mapping[str, str] | None = None) -> tuple[dict[str, Any], tuple[Any, ...]]:
    """Return the nodes and mounts of a case's tree with parameters replaced."""
    assert case.tree is not None
    values = values or case.values(os)
    paths: dict[str, Any] = {}
    for path, spec in case.tree.paths.items():
        if os == "windows" and not _possible(path, spec):
            continue
        made = dict(spec)
        if "target" in made:
            made["target"] = expand(made["target"], values, os)
        if str(made.get("content", "")).startswith("gitdir: "):
            made["content"] = "gitdir: " + expand(made["content"][8:], values, os)
        paths[expand(path, values, os)] = made
    mounts = tuple(
        item if isinstance(item, str) else {key: expand(text, values, os) for key, text in item.items()}
        for item in case.tree.mounts
    )
    for name in ("workspace", "home", "tmp"):
        paths.setdefault(values[name], {"type": "directory"})
    return paths, mounts


def _possible(path: str, spec: Mapping[str, Any]) -> bool:
    """Return whether a Windows volume can hold such a node."""
    names = path.removeprefix("~/").split("/")
    odd = any(char in name.removeprefix("${").removesuffix("}") for name in names for char in '<>:"|?*\\')
    return not odd and spec.get("type", "file") in ("file", "directory", "link")


# -- making --------------------------------------------------------------------------------------------------


class Made(NamedTuple):
    """Everything that compiling and binding one case gave."""

    compilation: Compilation | None
    texts: dict[str, str]  # target -> native text
    losses: dict[str, tuple[Loss, ...]]
    occurring: dict[str, tuple[Loss, ...]]  # target -> what binding in the case's world made real
    diagnostics: tuple[Diagnostic, ...]


def bound(case: Case, lowered: Lowered, os: str) -> Layers:
    """Return the bound layers of a case for an operating system."""
    declared = [parameter.name for parameter in case.policy.parameters]
    return bind_stack(lowered.layers, lowered.defaults, declared, case.values(os))[1]


def survey(case: Case, stack: Layers) -> tuple[Resolved, TreeLook]:
    """Return the survey of a case's described world."""
    paths, mounts = world(case, "linux")
    look = TreeLook(paths, mounts)
    return resolve(stack, look, case.values("linux")["home"]), look


def make(case: Case, policy: Policy | None = None) -> Made:
    """Compile a case, and bind it where it has a world."""
    if case.loaded.policy is None:
        return Made(None, {}, {}, {}, case.loaded.diagnostics)
    compilation = compile_policy(policy or case.policy, facts=case.facts)
    problems = [*case.loaded.diagnostics, *compilation.diagnostics]
    texts = {target: artefact.native for target, artefact in compilation.artefacts.items()}
    losses = {target: artefact.losses for target, artefact in compilation.artefacts.items()}
    occurring: dict[str, tuple[Loss, ...]] = {}
    if case.tree is not None:
        for target in compilation.artefacts:
            try:
                if target == "seatbelt":
                    bound(case, compilation.lowered["macos"], "macos")
                    continue  # its text is the same for every world in which it binds
                final = settled(case, compilation, target)
            except PolicyError as fault:
                problems += fault.diagnostics
                del texts[target]
                continue
            occurring[target] = final.losses
            problems += final.diagnostics
            texts[target] = text_of(target, final.plan)
            if has_errors(final.diagnostics):
                del texts[target]
    return Made(compilation, texts, losses, occurring, ordered(problems))


def settled(case: Case, compilation: Compilation, target: str) -> Final:
    """Return what the compiler makes of a case in its world, as ``compile --tree`` does."""
    os = TARGET_OS[target]
    paths, mounts = world(case, os)
    look = DescribedTree(paths) if os == "windows" else TreeLook(paths, mounts)
    return settle(Request(target, case.values(os), look), compilation, bwrap.Host().late_from)


def text_of(target: str, plan: Any) -> str:
    """Return all that a plan says: for bubblewrap what is done beside its words too."""
    if target != "bwrap":
        return str(plan.native if target == "windows" else plan.text())
    lines = bwrap.by_path_words(plan)
    lines += [f"# occupy {item.kind} {item.path} {item.content!r}" for item in plan.occupants]
    lines += [f"# late {step.verb} {step.path}".rstrip() for step in plan.steps]
    return "\n".join(lines) + "\n"


def expects(name: str, target: str) -> bool:
    """Return whether an artefact of a target is among the files of a case; a refused policy has none."""
    return any((HERE / name / f"expect.{SUFFIX[target]}{tail}").exists() for tail in ("", ".head"))


SUFFIX = {"seatbelt": "seatbelt.sb", "bwrap": "bwrap.txt", "landlock": "landlock.json", "windows": "windows.json"}


def case_files(case: Case, made: Made | None = None) -> dict[str, bytes]:
    """Return the expected files of a case, by name."""
    made = made or make(case)
    found = {f"expect.{SUFFIX[target]}": text.encode("utf-8", "surrogateescape") for target, text in made.texts.items()}
    found["expect.diag.txt"] = report(case, made).encode()
    for name in [name for name, data in found.items() if len(data) > LARGE]:
        data = found.pop(name)
        lines = data.splitlines(keepends=True)
        tail = f"... {len(lines)} lines, {len(data)} bytes, sha256 {sha256(data).hexdigest()}\n"
        found[name + ".head"] = b"".join(lines[:60]) + tail.encode()
    if made.compilation is not None and made.compilation.lowered:
        found["expect.layers.json"] = (json.dumps(layers_data(made.compilation), indent=1) + "\n").encode()
    return found


# -- what is written down ------------------------------------------------------------------------------------


def report(case: Case, made: Made) -> str:
    """Return the diagnostics, each with the source text it underlines, and the losses of each target."""
    sources = {source.name: source for source in case.loaded.sources}
    out = [line for item in made.diagnostics for line in _lines(item, sources)]
    for target in sorted(made.losses):
        losses = made.losses[target]
        out.append(f"-- {target}: {enforcement(losses)}")
        out += [_loss_line(loss) for loss in sorted(set(losses), key=lambda loss: (loss.code, loss.at, loss.kind))]
        there = sorted(
            {loss for loss in made.occurring.get(target, ()) if not loss.standing},
            key=lambda loss: (loss.code, loss.at, loss.kind),
        )
        out += [f"   in this world:{_loss_line(loss)[2:]}" for loss in there]
    return "\n".join(out) + "\n"


def _lines(item: Diagnostic, sources: Mapping[str, SourceFile]) -> Iterable[str]:
    yield f"{item.severity}[{item.code}]{_under(item.span, sources)}"
    yield f"  {item.message}"
    if item.help:
        yield "  help: " + item.help.replace("\n", "\n        ")
    for label in item.labels:
        yield f"  label{_under(label.span, sources)}: {label.text}"


def _under(span: Span | None, sources: Mapping[str, SourceFile]) -> str:
    if span is None:
        return ""
    source = sources.get(span.file)
    text = source.snippet(span).replace("\n", "\\n") if source else "?"
    return f" {span.file}:{span.line}:{span.column} |{text}|"


def _loss_line(loss: Loss) -> str:
    words = [word for word in ("standing", "preset", "conditional") if getattr(loss, word)]
    words += ["waived"] if loss.waived else []
    return f"   {loss.code} {loss.kind} at `{loss.at}`{' (' + ', '.join(words) + ')' if words else ''}"


def layers_data(compilation: Compilation) -> dict[str, Any]:
    """Return the layers of each operating system as short lines; a system that equals Linux says so."""
    found: dict[str, Any] = {}
    for os in OSES:
        if os in compilation.lowered:
            stack = compilation.lowered[os].layers
            data = {
                "baseline": stack.baseline,
                "network": [stack.network.mode, *stack.network.ports],
                "layers": [_layer_line(layer) for layer in stack.layers],
                "sockets": [f"{rule.access} {rule.where.text()}" for rule in stack.sockets],
            }
            found[os] = "as linux" if data == found.get("linux") else data
    return found


def _layer_line(layer: Layer) -> str:
    where = layer.where
    text = where.text() if isinstance(where, Place) else f"{where.describe()} {where.within}".strip()
    spared = [f"except {'/'.join(form)}" for form in where.excepts] if isinstance(where, Glob) else []
    marks = [word for word in ("cap", "locked", "private") if getattr(layer, word)]
    marks += [layer.kind] if layer.kind else []
    marks += [layer.absent] if layer.absent else []
    return " ".join([layer.access, layer.origin, text, *spared, *(f"[{mark}]" for mark in marks)])

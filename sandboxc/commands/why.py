"""``sandboxc why``: what is allowed on a path, which line decided, which it beat, and what each target does there."""

from argparse import Namespace

from sandboxc import console
from sandboxc._version import REPORT_FORMAT
from sandboxc.commands._arguments import add, add_binds, add_facts, add_output
from sandboxc.commands._inputs import binds, facts, host_values
from sandboxc.exits import CLEAN
from sandboxc.policy import OPERATIONS, OSES, TARGET_OS, TARGETS
from sandboxc.records import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from sandboxc.ask import Question
    from sandboxc.commands._effects import Effect
    from sandboxc.evaluator import Verdict
    from sandboxc.facts import Facts
    from sandboxc.layers import Layer, SocketRule
    from sandboxc.losses import Loss

_EXAMPLE = """\
sandboxc why ~/.ssh/id_ed25519 sandbox.yaml
sandboxc why --op rename --to build.old build sandbox.yaml
sandboxc why .git/hooks/pre-commit --op write profiles/coding-agent --format json"""


class Subject(NamedTuple):
    """What is asked about: layers and losses of each target, from a policy or a profile."""

    targets: tuple[str, ...]
    question: "dict[str, Question]"  # by operating system
    losses: "dict[str, tuple[Loss, ...]]"  # by target
    facts: "Facts"


def add_parser(commands: Any) -> None:
    """Add the command to a parser."""
    parser = add(commands, "why", "say what is allowed on a path, and which line decided", _EXAMPLE)
    parser.add_argument("path", metavar="PATH", help="a path; relative ones are below the current directory")
    parser.add_argument("policy", metavar="POLICY", help="a policy file, a profile directory, or - for standard input")
    parser.add_argument("--op", choices=OPERATIONS, default="read", help="the operation (default: read)")
    parser.add_argument("--to", metavar="PATH", help="the new name, for rename and link")
    parser.add_argument("--new-socket", action="store_true", help="for connect: the socket is made during the run")
    parser.add_argument("--target", choices=TARGETS, help="ask for the operating system of this target, and it alone")
    parser.add_argument("--os", choices=OSES, help="ask for this operating system (default: this host's)")
    add_binds(parser)
    add_facts(parser)
    add_output(parser)


def run(arguments: Namespace) -> int:
    """Return the exit code: 0 for an answer, whatever it is; 1 for a broken policy."""
    from sandboxc.api import host_system
    from sandboxc.commands._effects import on_target
    from sandboxc.emitters.registry import emitter
    from sandboxc.layers import Layer

    if (arguments.to is not None) != (arguments.op in ("rename", "link")):
        wrong = "`--to` goes with rename and link only" if arguments.to else f"`--op {arguments.op}` needs the new name"
        raise console.Usage(wrong, "write `--op rename --to PATH`")
    if arguments.new_socket and arguments.op != "connect":
        raise console.Usage("`--new-socket` goes with `--op connect`", "remove it")
    system = TARGET_OS[arguments.target] if arguments.target else arguments.os or host_system()
    if arguments.target and arguments.os and arguments.os != system:
        raise console.Usage(f"{arguments.target} is no target of {arguments.os}", "remove `--os`")
    subject = _subject(arguments, system, facts(arguments.facts))
    asked = subject.question[system].place(arguments.path).text()
    verdicts = {os: _ask(subject, os, arguments) for os in subject.question}
    verdict = verdicts[system]
    wanted = (arguments.target,) if arguments.target else subject.targets
    rows = {
        target: on_target(
            target,
            arguments.op,
            verdicts[TARGET_OS[target]],
            subject.losses.get(target, ()),
            emitter(target).table(subject.facts),
        )
        for target in wanted
        if TARGET_OS[target] in verdicts
    }
    if arguments.format == "json":
        console.write_json(
            {
                "format_version": REPORT_FORMAT,
                "path": asked,
                "op": arguments.op,
                "allowed": verdict.allowed,
                "access": verdict.access,
                "reason": verdict.reason,
                "decided_by": line(verdict.decided_by),
                "beat": [line(layer) for layer in verdict.beat],
                "targets": {
                    name: {"allowed": row.allowed, "loss": row.loss.code if row.loss else None}
                    for name, row in rows.items()
                },
            }
        )
        return CLEAN
    out = [f"{arguments.op} {asked}: {'allowed' if verdict.allowed else 'denied'} ({verdict.reason})"]
    if verdict.decided_by is None:
        out.append("  decided by: the baseline" if "view" not in verdict.reason else "  decided by: the target")
    else:
        out.append(f"  decided by: {_text(verdict.decided_by)}")
    out += [f"  it beat: {_text(layer)}" for layer in verdict.beat]
    for name, row in rows.items():
        out.append(f"  {name}: {_effect(row, verdicts[TARGET_OS[name]])}")
    if isinstance(verdict.decided_by, Layer) and verdict.decided_by.reason:
        out.append(f"  reason given: {verdict.decided_by.reason}")
    from sandboxc.render.text import safe

    console.write("".join(safe(row) + "\n" for row in out))
    return CLEAN


def _subject(arguments: Namespace, system: str, assumed: "Facts") -> Subject:
    from sandboxc.profile.load import is_profile

    if arguments.policy != "-" and is_profile(arguments.policy):
        return _of_profile(arguments, system)
    return _of_policy(arguments, system, assumed)


def _values(arguments: Namespace, system: str) -> dict[str, str]:
    """Return the parameter values to ask with: this host's where it is this host that is asked about."""
    from sandboxc import canonical
    from sandboxc.api import host_system
    from sandboxc.places import POSIX, WINDOWS

    flavour = WINDOWS if system == "windows" else POSIX
    found = {name: place.native() for name, place in canonical.values(flavour).items()}
    here = host_values()
    if here and flavour == POSIX and host_system() != "windows":
        found = {name: value for name, value in found.items() if name.startswith("run-")} | here
    return {**found, **binds(arguments.bind)}


def _systems(named: tuple[str, ...], system: str) -> list[str]:
    """Return the systems whose answers can be compared: those with the same path flavour."""
    known = dict.fromkeys(TARGET_OS[target] for target in named)
    return list(dict.fromkeys([system, *(os for os in known if (os == "windows") == (system == "windows"))]))


def _cwd(system: str) -> Any:
    import os

    from sandboxc.places import posix

    return None if system == "windows" or os.sep != "/" else posix(os.getcwd())


def _of_policy(arguments: Namespace, system: str, assumed: "Facts") -> Subject:
    from sandboxc.ask import question
    from sandboxc.compile import compile_policy
    from sandboxc.diagnostics import PolicyError
    from sandboxc.loader import load

    loaded = load(arguments.policy)
    if loaded.policy is None:
        if arguments.format == "text":
            console.report(loaded.diagnostics, loaded.sources, arguments.color)
            raise SystemExit(console.code(loaded.diagnostics))
        raise PolicyError(loaded.diagnostics)
    policy = loaded.policy
    values = _values(arguments, system)
    fold = None if system == "linux" else assumed.fold_case
    asked = {
        os: question(policy, os, values, fold if os != "linux" else None, _cwd(os))
        for os in _systems(policy.targets, system)
    }
    wanted = (arguments.target,) if arguments.target else policy.targets
    compiled = compile_policy(policy, [name for name in wanted if TARGET_OS[name] in asked], assumed)
    losses = {target: artefact.losses for target, artefact in compiled.artefacts.items()}
    return Subject(wanted, asked, losses, assumed)


def _of_profile(arguments: Namespace, system: str) -> Subject:
    from sandboxc.api import bind_profile
    from sandboxc.ask import Question
    from sandboxc.diagnostics import Diagnostic, PolicyError
    from sandboxc.facts import from_data
    from sandboxc.profile.load import load_profile

    if arguments.facts:
        raise console.Usage("a profile has its own facts", "remove `--facts`")
    profile = load_profile(arguments.policy)
    assumed = from_data(dict(profile.manifest.facts))
    if isinstance(assumed, Diagnostic):
        raise PolicyError([assumed])
    values = _values(arguments, system)
    asked = {}
    for os in _systems(tuple(profile.manifest.targets), system):
        if os in profile.systems or os == system:
            bound = bind_profile(profile, os, values)
            asked[os] = Question(bound.stack, bound.values, assumed.fold_case and os != "linux", _cwd(os))
    losses = {name: record.losses for name, record in profile.manifest.targets.items()}
    return Subject(tuple(profile.manifest.targets), asked, losses, assumed)


def _ask(subject: Subject, os: str, arguments: Namespace) -> "Verdict":
    return subject.question[os].decide(arguments.op, arguments.path, arguments.to, not arguments.new_socket)


def _effect(effect: "Effect", verdict: "Verdict") -> str:
    """Return what a target does, in words."""
    if effect.loss is None:
        return "allowed" if effect.allowed else "denied"
    word = "allowed" if effect.allowed else "denied"
    but = "although" if effect.allowed != verdict.allowed else "but"
    return f"{word}, {but} {effect.loss.code} ({effect.loss.kind}): {effect.loss.message}"


def line(layer: "Layer | SocketRule | None") -> "dict[str, Any] | None":
    """Return where a layer comes from, as the JSON form has it; None for the baseline."""
    from sandboxc.layers import Layer

    if layer is None:
        return None
    span = layer.span
    found: dict[str, Any] = {
        "file": span.file if span else None,
        "line": span.line if span else None,
        "column": span.column if span else None,
        "text": layer.describe() if isinstance(layer, Layer) else layer.text,
        "access": layer.access,
        "origin": layer.origin,
    }
    return found


def _text(layer: "Layer | SocketRule") -> str:
    row = line(layer)
    assert row is not None
    place = f"{row['file']}:{row['line']}:{row['column']}: " if row["file"] else ""
    return f"{place}{row['text']} ({row['access']}, {row['origin']})"

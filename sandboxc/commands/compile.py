"""``sandboxc compile``: one target's artefact, or a profile directory."""

from argparse import Namespace

from sandboxc import console
from sandboxc.commands._arguments import add, add_binds, add_facts, add_output
from sandboxc.commands._inputs import TARGET_WORDS, binds, facts, targets
from sandboxc.exits import CLEAN, FINDINGS
from sandboxc.records import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sandboxc.compile import Compilation
    from sandboxc.diagnostics import Diagnostic
    from sandboxc.facts import Facts
    from sandboxc.loader import LoadedPolicy
    from sandboxc.policy import Policy

FORMATS = ("native", "args0", "landlockconfig")
_EXAMPLE = """\
sandboxc compile sandbox.yaml --target seatbelt > sandbox.sb
sandboxc compile policies/coding-agent.yaml --target all -o profiles/coding-agent
sandboxc compile sandbox.yaml --target bwrap --host --format args0 > words"""
_SUMMARY = "compile a policy to the dialect of a target, or to a profile directory"


def add_parser(commands: Any) -> None:
    """Add the command to a parser."""
    parser = add(commands, "compile", _SUMMARY, _EXAMPLE)
    parser.add_argument("policy", metavar="POLICY", help="a policy file, or - for standard input")
    parser.add_argument(
        "--target",
        choices=TARGET_WORDS,
        default="all",
        help="the target; all means those that the policy names (default)",
    )
    add_binds(parser)
    add_facts(parser)
    world = parser.add_mutually_exclusive_group()
    world.add_argument("--host", action="store_true", help="look at this host once and write the final artefact for it")
    world.add_argument("--tree", metavar="FILE", help="the same for a tree described in a JSON file")
    parser.add_argument(
        "-o",
        "--output",
        metavar="PATH",
        help="a file for one target; a profile directory for `--target all`, or with a / at the end",
    )
    parser.add_argument(
        "--format",
        choices=FORMATS,
        default="native",
        help="args0: bwrap words ended by NUL; landlockconfig: JSON of that project (both for a bound plan)",
    )
    add_output(parser, ())


def run(arguments: Namespace) -> int:
    """Return the exit code: 0, 1 where the policy or a target stands in the way, 2 could not run."""
    _check(arguments)
    given = binds(arguments.bind)
    assumed = facts(arguments.facts)
    from sandboxc.loader import load

    loaded = load(arguments.policy)
    if loaded.policy is None:
        console.report(loaded.diagnostics, loaded.sources, arguments.color)
        return console.code(loaded.diagnostics)
    return _compile(arguments, loaded, loaded.policy, given, assumed)


def _check(arguments: Namespace) -> None:
    """Refuse options that do not go together."""
    final = arguments.host or arguments.tree
    form = arguments.format
    needed = {"args0": "bwrap", "landlockconfig": "landlock"}.get(form)
    if needed and (arguments.target != needed or not final):
        raise console.Usage(
            f"`--format {form}` is a form of a bound {needed} plan",
            f"add `--target {needed}` and `--host` or `--tree FILE`",
        )
    if arguments.target == "all" and (final or arguments.bind):
        raise console.Usage("a profile stays symbolic", "name one target to bind parameters")
    if arguments.target == "all" and not arguments.output:
        raise console.Usage("several artefacts need a directory", "add `-o DIR`, or name one target")
    if _wants_directory(arguments) and (final or arguments.bind):
        raise console.Usage("a profile stays symbolic", "name a file for a bound artefact")


def _wants_directory(arguments: Namespace) -> bool:
    import os

    path = arguments.output
    if not path:
        return False
    return arguments.target == "all" or path.endswith(("/", os.sep)) or os.path.isdir(path)


def _compile(
    arguments: Namespace, loaded: "LoadedPolicy", policy: "Policy", given: dict[str, str], assumed: "Facts"
) -> int:
    from sandboxc.binding import bind_values
    from sandboxc.compile import compile_policy
    from sandboxc.diagnostics import has_errors
    from sandboxc.places import POSIX, WINDOWS

    wanted = targets(arguments.target, policy.targets)
    found: tuple[Diagnostic, ...] = loaded.diagnostics
    values = {}
    if given:
        flavour = WINDOWS if wanted == ("windows",) else POSIX
        bound = bind_values(given, {}, [parameter.name for parameter in policy.parameters], flavour)
        found, values = (*found, *bound.diagnostics), bound.values
    if has_errors(found):
        console.report(found, loaded.sources, arguments.color)
        return console.code(found)
    compiled = compile_policy(policy, wanted, assumed, values)
    found = (*found, *compiled.diagnostics)
    if not compiled.artefacts:
        console.report(found, loaded.sources, arguments.color)
        return max(FINDINGS, console.code(found))
    if arguments.host or arguments.tree:
        return _final(arguments, loaded, compiled, given, found)
    console.report(found, loaded.sources, arguments.color)
    if _wants_directory(arguments):
        from sandboxc.profile.save import save_profile
        from sandboxc.profile.write import profile_files

        save_profile(arguments.output, profile_files(compiled))
        return CLEAN
    _write(arguments, compiled.artefacts[wanted[0]].native.encode("utf-8"))
    return CLEAN


def _final(
    arguments: Namespace,
    loaded: "LoadedPolicy",
    compiled: "Compilation",
    given: dict[str, str],
    found: "tuple[Diagnostic, ...]",
) -> int:
    """Write the artefact for one host or described tree."""
    from sandboxc.commands._final import Request, finalise, host_given, look_at
    from sandboxc.compile import located
    from sandboxc.diagnostics import PolicyError

    target, file = compiled.targets[0], compiled.policy.file
    try:
        look = look_at(target, arguments.tree)
        values = given if arguments.tree else host_given(target, compiled, given)
        data, words = finalise(Request(target, values, look), arguments.format, compiled)
    except PolicyError as fault:
        problems = [located(item, file) for item in fault.diagnostics]
        console.report((*found, *problems), loaded.sources, arguments.color)
        return max(FINDINGS, console.code(problems))
    console.report((*found, *(located(item, file) for item in words)), loaded.sources, arguments.color)
    _write(arguments, data)
    return CLEAN


def _write(arguments: Namespace, data: bytes) -> None:
    """Write an artefact to its file, whole or not at all, or to standard output."""
    if not arguments.output or arguments.output == "-":
        console.write_bytes(data)
        return
    from sandboxc.profile.save import replace_file

    replace_file(arguments.output, data)

"""``sandboxc run``: a command under a policy or a profile.

This is on the way of every confined run, so its options are a small table that is read here; the same table feeds
the help and the completion scripts through argparse, which a run itself does not import.
"""

from sandboxc.exits import CLEAN, NOT_STARTED
from sandboxc.records import Any, NamedTuple


class Option(NamedTuple):
    """One option: its spelling, the name of its value (none: a switch), what it says, and its choices."""

    word: str
    value: str
    help: str
    choices: tuple[str, ...] = ()
    repeated: bool = False


OPTIONS = (
    Option("--bind", "NAME=VALUE", "give a parameter its value (repeatable)", (), True),
    Option("--target", "TARGET", "the backend to use (default: auto)", ("auto", "bwrap", "landlock")),
    Option("--cwd", "DIR", "run in this directory, which is then the workspace unless that is bound"),
    Option("--dry-run", "", "print the words that would be spawned, one a line, and stop"),
    Option("--report", "FILE", "write a JSON record of what was asked, applied and confirmed"),
)
_EXAMPLE = """\
sandboxc run sandbox.yaml -- make test
sandboxc run profiles/coding-agent --bind workspace=/srv/repo -- git commit -m done"""
_SUMMARY = "run a command under a policy or a profile"
_EXITS = "exit code: the command's own; 125 when it never started, 126 and 127 as a shell has them"


class Request(NamedTuple):
    """A parsed command line of ``run``."""

    source: str
    command: list[str]
    binds: dict[str, str]
    target: str
    cwd: str | None
    dry_run: bool
    report: str | None


class Wrong(Exception):
    """The command line cannot be followed; ``help`` says what would have been right."""

    def __init__(self, message: str, help: str) -> None:
        self.help = help
        super().__init__(message)


def parse(arguments: list[str]) -> Request | None:
    """Return the parsed words behind ``run``, or None where help is asked for.

    Raises:
        Wrong: the words cannot be followed.
    """
    if "--" in arguments:
        cut = arguments.index("--")
        words, command = arguments[:cut], arguments[cut + 1 :]
    else:
        words, command = arguments, []
    known = {option.word: option for option in OPTIONS}
    given: dict[str, list[str]] = {}
    sources: list[str] = []
    queue = list(reversed(words))
    while queue:
        word = queue.pop()
        if word in ("-h", "--help"):
            return None
        if not word.startswith("-") or word == "-":
            sources.append(word)
            continue
        name, sign, value = word.partition("=")
        option = known.get(name)
        if option is None:
            from sandboxc.places import nearest_help

            raise Wrong(f"unknown option `{name}`", nearest_help(name, known) or "`sandboxc run --help` shows them")
        if option.value and not sign:
            if not queue:
                raise Wrong(f"`{name}` needs a value", f"write `{name} {option.value}`")
            value = queue.pop()
        if sign and not option.value:
            raise Wrong(f"`{name}` takes no value", f"write `{name}`")
        if option.choices and value not in option.choices:
            raise Wrong(f"`{value}` is no value of `{name}`", f"known: {', '.join(option.choices)}")
        if name in given and not option.repeated:
            raise Wrong(f"`{name}` is given twice", "keep one of the two")
        given.setdefault(name, []).append(value)
    if len(sources) != 1:
        known_words = "write `sandboxc run POLICY -- COMMAND`"
        raise Wrong(
            "no policy is named" if not sources else f"`{sources[1]}` is in the way",
            known_words + "; the command stands behind `--`",
        )
    if not command:
        raise Wrong("no command is named", "write it behind `--`")
    binds: dict[str, str] = {}
    for word in given.get("--bind", ()):
        name, sign, value = word.partition("=")
        if not sign or not name:
            raise Wrong(f"`--bind {word}` gives no value", "write `--bind NAME=/absolute/path`")
        if name in binds:
            raise Wrong(f"`--bind {name}=` is given twice", "keep one of the two")
        binds[name] = value

    def one(name: str) -> str | None:
        return given[name][0] if name in given else None

    return Request(
        sources[0], command, binds, one("--target") or "auto", one("--cwd"), "--dry-run" in given, one("--report")
    )


def run(arguments: list[str]) -> int:
    """Return the exit code of the confined command, or 125 where it never started."""
    import sys

    try:
        request = parse(arguments)
    except Wrong as fault:
        sys.stderr.write(f"error[SBX750]: {fault}\n  = help: {fault.help}\n")
        return NOT_STARTED
    if request is None:
        from sandboxc.commands._arguments import parser

        parser(("run",)).parse_args(["run", "--help"])
        return CLEAN
    from sandboxc.runtime.run import run_command

    code: int = run_command(*request)
    return code


def add_parser(commands: Any) -> None:
    """Add the command to an argparse parser, for help and completion."""
    from sandboxc.commands._arguments import add

    parser = add(
        commands, "run", _SUMMARY, _EXAMPLE + "\n\n" + _EXITS, usage="sandboxc run SOURCE [options] -- COMMAND..."
    )
    parser.add_argument("source", metavar="SOURCE", help="a policy file or a profile directory")
    for option in OPTIONS:
        if option.value:
            parser.add_argument(option.word, metavar=option.value, choices=option.choices or None, help=_help(option))
        else:
            parser.add_argument(option.word, action="store_true", help=option.help)
    parser.add_argument("words", metavar="COMMAND", nargs="*", help="the command and its arguments, behind `--`")


def _help(option: Option) -> str:
    return option.help + (f": {', '.join(option.choices)}" if option.choices else "")

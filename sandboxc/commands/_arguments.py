"""What the argument parsers of all commands share."""

import argparse
from collections.abc import Iterable

from sandboxc.commands import COMMANDS, command
from sandboxc.console import Usage
from sandboxc.records import Any, NoReturn


class Parser(argparse.ArgumentParser):
    """An argument parser that reports a wrong command line as every other error is reported."""

    def error(self, message: str) -> NoReturn:
        """Raise ``Usage``, naming an option that may have been meant."""
        raise Usage(message, self._advice(message))

    def refuse_unknown(self, words: list[str]) -> None:
        """Raise ``Usage`` for the first option that no parser knows, before anything is said to be missing."""
        known = {option for action in self._all_actions() for option in action.option_strings}
        for word in words:
            name = word.partition("=")[0]
            if word == "--":
                return
            if name.startswith("--") and name not in known:
                raise Usage(f"unknown option `{name}`", self._advice(name))

    def _advice(self, message: str) -> str:
        from sandboxc.places import nearest_help

        for word in message.split():
            if word.startswith("--"):
                known = [option for action in self._all_actions() for option in action.option_strings]
                found = nearest_help(word.partition("=")[0], known)
                if found:
                    return found
        return f"`{self.prog} --help` shows the options"

    def _all_actions(self) -> list[argparse.Action]:
        found = list(self._actions)
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                found += [inner for sub in action.choices.values() for inner in sub._actions]
        return found


def parser(names: Iterable[str] = tuple(COMMANDS)) -> Parser:
    """Return a parser that knows the given commands."""
    top = Parser(prog="sandboxc", allow_abbrev=False)
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in names:
        command(name).add_parser(commands)
    return top


def add(commands: Any, name: str, summary: str, example: str, **more: Any) -> argparse.ArgumentParser:
    """Return a new sub-parser whose help ends with an example."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog="example:\n" + "\n".join("  " + line for line in example.splitlines()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        **more,
    )
    return parser


def add_output(parser: argparse.ArgumentParser, formats: tuple[str, ...] = ("text", "json")) -> None:
    """Add ``--format`` and ``--color``."""
    if formats:
        parser.add_argument(
            "--format", choices=formats, default=formats[0], help=f"form of the output (default: {formats[0]})"
        )
    parser.add_argument(
        "--color", choices=("auto", "always", "never"), default="auto", help="colour of diagnostics (default: auto)"
    )


def add_binds(parser: argparse.ArgumentParser) -> None:
    """Add ``--bind``."""
    parser.add_argument(
        "--bind", action="append", default=[], metavar="NAME=VALUE", help="give a parameter its value (repeatable)"
    )


def add_facts(parser: argparse.ArgumentParser) -> None:
    """Add ``--facts``."""
    parser.add_argument(
        "--facts",
        metavar="NAME|FILE",
        help="what the target's host is like: a named preset such as linux-6.12, or a JSON file (default: default)",
    )

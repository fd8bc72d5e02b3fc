"""``sandboxc schema``: the JSON schema of policy files."""

from argparse import Namespace

from sandboxc import console
from sandboxc.commands._arguments import add, add_output
from sandboxc.exits import CLEAN
from sandboxc.records import Any

_EXAMPLE = "sandboxc schema > .vscode/sandbox.schema.json"


def add_parser(commands: Any) -> None:
    """Add the command to a parser."""
    parser = add(commands, "schema", "print the JSON schema of policy files", _EXAMPLE)
    parser.add_argument("--path", action="store_true", help="print the path of the installed file instead")
    add_output(parser, ())


def run(arguments: Namespace) -> int:
    """Return the exit code."""
    import os

    from sandboxc import packaged

    place = os.path.join(packaged.folder("schemas"), "policy.schema.json")
    if arguments.path:
        console.write(place + "\n")
        return CLEAN
    with open(place, "rb") as file:
        console.write_bytes(file.read())
    return CLEAN

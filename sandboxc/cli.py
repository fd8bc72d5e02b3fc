"""The command line: which command is meant, what its exit code is, and what happens when something breaks.

Exit codes: 0 clean, 1 findings, 2 could not run, 3 a bug of ours. ``run`` ends with the command's own code, or
125 for everything that went wrong before the command started.
"""

import os
import sys

from sandboxc._version import VERSION
from sandboxc.commands import COMMANDS, command
from sandboxc.exits import BUG, CANNOT, CLEAN, NOT_STARTED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from types import ModuleType

_USAGE = """\
usage: sandboxc COMMAND ...

Compiles one sandbox policy to Seatbelt, bubblewrap, Landlock and Windows ACLs, and runs commands under it.

commands:
{commands}

options:
  -h, --help   show this text
  --version    show the version

`sandboxc COMMAND --help` shows a command's options and an example.

example:
  sandboxc init sandbox.yaml
  sandboxc run sandbox.yaml -- make test
"""


def run_command_line(arguments: list[str]) -> int:
    """Return the exit code of a command line, after doing what it says."""
    first = arguments[0] if arguments else ""
    try:
        code = _dispatch(first, arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CANNOT
    except KeyboardInterrupt:
        return 130
    except SystemExit as ending:  # argparse: help and usage errors
        return ending.code if isinstance(ending.code, int) else CANNOT
    except RecursionError:
        return _bug("RecursionError", first)
    except Exception as fault:
        return _failed(fault, first)
    return code


def _dispatch(first: str, arguments: list[str]) -> int:
    if first == "--version":
        sys.stdout.write(f"sandboxc {VERSION}\n")
        return CLEAN
    if first in ("-h", "--help", "help") and arguments[1:2] and arguments[1] in COMMANDS:
        first, arguments = arguments[1], [arguments[1], "--help"]
    if first in ("", "-h", "--help", "help"):
        (sys.stdout if first else sys.stderr).write(usage())
        return CLEAN if first else CANNOT
    if first not in COMMANDS:
        from sandboxc.places import nearest_help

        kind = "option" if first.startswith("-") else "command"
        advice = nearest_help(first, COMMANDS) or "`sandboxc --help` lists the commands"
        sys.stderr.write(f"error[SBX750]: unknown {kind} `{first}`\n  = help: {advice}\n")
        return CANNOT
    module = command(first)
    if first == "run":  # has a parser of its own, since it is on the way of every confined run
        code: int = module.run(arguments[1:])
        return code
    from sandboxc.commands._arguments import parser

    reader = parser((first,))
    reader.refuse_unknown(arguments)
    parsed = reader.parse_args(arguments)
    return _run_parsed(module, parsed)


def _run_parsed(module: "ModuleType", parsed: "Namespace") -> int:
    """Return the exit code of a parsed command; where it reports as JSON, a refusal is JSON too."""
    from sandboxc.diagnostics import PolicyError

    try:
        code: int = module.run(parsed)
    except PolicyError as fault:
        if getattr(parsed, "format", "") != "json":
            raise
        from sandboxc import console
        from sandboxc.render.json import report

        console.write_json(report(fault.diagnostics))
        return console.code(fault.diagnostics)
    return code


def usage() -> str:
    """Return the help text of the whole program."""
    width = max(map(len, COMMANDS)) + 2
    return _USAGE.format(commands="\n".join(f"  {name:<{width}} {what}" for name, what in COMMANDS.items()))


def _failed(fault: Exception, first: str) -> int:
    """Report what a command raised, and return the exit code."""
    from sandboxc.diagnostics import PolicyError, error

    if os.environ.get("SANDBOXC_DEBUG"):
        raise fault
    from sandboxc import console

    if isinstance(fault, PolicyError):
        console.report(fault.diagnostics)
        return NOT_STARTED if first == "run" else console.code(fault.diagnostics)
    if isinstance(fault, console.Usage):
        console.report([error("SBX750", str(fault), None, fault.help)])
    elif isinstance(fault, OSError):
        place = f"`{fault.filename}`: " if fault.filename else ""
        reason = (fault.strerror or type(fault).__name__).lower()
        console.report([error("SBX751", f"{place}{reason}")])
    else:
        return _bug(f"{type(fault).__name__}: {fault}", first)
    return NOT_STARTED if first == "run" else CANNOT


def _bug(what: str, first: str) -> int:
    words = " ".join(what.split())[:500]
    sys.stderr.write(
        f"error[SBX799]: internal error: {words}\n"
        f"  = help: this is a bug in sandboxc {VERSION}; please report it with the policy and the command line\n"
        "          (SANDBOXC_DEBUG=1 shows where it happened)\n"
    )
    return NOT_STARTED if first == "run" else BUG

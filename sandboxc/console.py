"""Where commands print, and how an error becomes an exit code."""

import json
import os
import sys
from collections.abc import Iterable

from sandboxc.diagnostics import Diagnostic, has_errors
from sandboxc.exits import CANNOT, CLEAN, FINDINGS
from sandboxc.source import SourceFile

#: Diagnostics shown before "and N more".
LIMIT = 100


class Usage(Exception):
    """The command line cannot be followed; ``help`` says what would have been right."""

    def __init__(self, message: str, help: str = "") -> None:
        self.help = help
        super().__init__(message)


def write(text: str) -> None:
    """Write a text to standard output, in UTF-8 and with its line ends as they are."""
    write_bytes(text.encode("utf-8", "surrogateescape"))


def write_bytes(data: bytes) -> None:
    """Write bytes to standard output."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def write_json(value: object) -> None:
    """Write a value to standard output as JSON."""
    write(json.dumps(value, indent=2, sort_keys=False) + "\n")


def note(text: str) -> None:
    """Write a line for people to standard error."""
    sys.stderr.write(text + "\n")


def coloured(choice: str = "auto") -> bool:
    """Return whether diagnostics are coloured (no-color.org, force-color.org)."""
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def report(diagnostics: Iterable[Diagnostic], sources: Iterable[SourceFile] = (), colour: str = "auto") -> bool:
    """Write diagnostics to standard error, and return whether there were any."""
    from sandboxc.render.text import render

    text = render(diagnostics, sources, coloured(colour), LIMIT)
    sys.stderr.flush()
    sys.stderr.buffer.write(text.encode("utf-8", "surrogateescape"))
    sys.stderr.buffer.flush()
    return bool(text)


def code(diagnostics: Iterable[Diagnostic]) -> int:
    """Return the exit code that diagnostics call for."""
    from sandboxc.loader import IO_CODES as POLICY_CODES
    from sandboxc.profile.load import IO_CODES as PROFILE_CODES

    found = list(diagnostics)
    if not has_errors(found):
        return CLEAN
    cannot = POLICY_CODES | PROFILE_CODES | {"SBX701", "SBX702", "SBX742", "SBX750", "SBX751"}
    return CANNOT if any(item.is_error and item.code in cannot for item in found) else FINDINGS

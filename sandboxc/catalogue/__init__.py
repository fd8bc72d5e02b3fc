"""The pages behind the codes: what each code means, why it exists, and how to put it right.

Nothing that raises a diagnostic imports this; ``sandboxc explain`` and the generated docs do.
"""

from importlib import import_module

from sandboxc.records import NamedTuple

#: First digit of a code -> the module that holds the rows of its range.
RANGES = {
    "1": "syntax",
    "2": "schema",
    "3": "meaning",
    "4": "losses",
    "7": "runtime",
}


class CodeInfo(NamedTuple):
    """The page of one code. ``bad`` and ``good`` are policy texts, empty where no text shows the case."""

    code: str
    title: str
    why: str
    bad: str
    good: str
    fix: str


def info(code: str) -> CodeInfo | None:
    """Return the page of a code such as ``SBX203``, or None where there is no such code."""
    word = code.upper()
    module = RANGES.get(word[3:4]) if word.startswith("SBX") else None
    if module is None:
        return None
    return next((row for row in _rows(module) if row.code == word), None)


def all_codes() -> tuple[str, ...]:
    """Return every code, in order."""
    return tuple(sorted(row.code for module in RANGES.values() for row in _rows(module)))


def _rows(module: str) -> tuple[CodeInfo, ...]:
    rows: tuple[CodeInfo, ...] = import_module(f"sandboxc.catalogue.{module}").ROWS
    return rows

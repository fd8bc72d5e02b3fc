"""Diagnostics -> text for people: the source line, a caret under the fault, labels and help."""

from collections.abc import Iterable, Mapping

from sandboxc.diagnostics import ERROR, NOTE, WARNING, Diagnostic, ordered
from sandboxc.source import SourceFile, Span

TAB = "    "
#: Columns of a source line that are shown; of a longer one the part around the fault.
WIDTH = 120

_COLOURS = {ERROR: "\x1b[1;31m", WARNING: "\x1b[1;33m", NOTE: "\x1b[1;36m"}
_BLUE, _BOLD, _RESET = "\x1b[1;34m", "\x1b[1m", "\x1b[0m"


def render(
    diagnostics: Iterable[Diagnostic],
    sources: Iterable[SourceFile] = (),
    colour: bool = False,
    limit: int = 0,
) -> str:
    """Return the report of all diagnostics, in order, with a summary line; empty when there are none.

    Args:
        diagnostics: what to report.
        sources: the texts that spans point into; without its text a diagnostic has no snippet.
        colour: whether to colour for a terminal.
        limit: how many to show before "and N more"; 0 shows all.
    """
    found = ordered(diagnostics)
    if not found:
        return ""
    lines = {source.name: source.text.split("\n") for source in sources}
    shown = found[:limit] if limit else found
    blocks = [_block(item, lines, colour) for item in shown]
    tail = f"and {len(found) - len(shown)} more\n" if len(shown) < len(found) else ""
    return "\n".join(blocks) + "\n" + tail + summary(found) + "\n"


def summary(diagnostics: Iterable[Diagnostic]) -> str:
    """Return the count of each severity, such as ``2 errors, 1 warning``."""
    found = list(diagnostics)
    counts: list[str] = []
    for severity in (ERROR, WARNING, NOTE):
        count = sum(item.severity == severity for item in found)
        if count:
            counts.append(f"{count} {severity}{'s' if count > 1 else ''}")
    return ", ".join(counts) or "no findings"


def line_of(item: Diagnostic) -> str:
    """Return a diagnostic on one line: ``file:line:column: error[CODE]: message``."""
    place = f"{safe(str(item.span))}: " if item.span else ""
    return f"{place}{item.severity}[{item.code}]: {safe(item.message)}"


def safe(text: str) -> str:
    """Return a text in which whatever could move a cursor or turn the direction is made visible."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_shown(char) for char in text)


def _shown(char: str) -> str:
    if char == " " or char.isprintable():
        return char
    return f"<U+{ord(char):04X}>"


def _paint(text: str, code: str, colour: bool) -> str:
    return f"{code}{text}{_RESET}" if colour and text else text


def _block(item: Diagnostic, lines: Mapping[str, list[str]], colour: bool) -> str:
    head = _paint(f"{item.severity}[{item.code}]", _COLOURS[item.severity], colour)
    out = [f"{head}{_paint(': ' + safe(item.message), _BOLD, colour)}"]
    gutter = 1
    if item.span is not None:
        marks = [(item.span, "", True)] + [(label.span, label.text, False) for label in item.labels]
        gutter = max(len(str(span.line)) for span, _, _ in marks)
        out.extend(_snippets(marks, lines, gutter, item.severity, colour))
    if item.help:
        bar = _paint(" " * gutter + " =", _BLUE, colour)
        first, *more = item.help.split("\n")
        out.append(f"{bar} {_paint('help', _BOLD, colour)}: {safe(first)}")
        out += [f"{' ' * (gutter + 9)}{safe(line)}" for line in more]
    return "\n".join(out) + "\n"


def _snippets(
    marks: list[tuple[Span, str, bool]],
    lines: Mapping[str, list[str]],
    gutter: int,
    severity: str,
    colour: bool,
) -> list[str]:
    """Return the source lines under all marks, file by file, the primary file first and lines in order."""
    out: list[str] = []
    files = list(dict.fromkeys(span.file for span, _, _ in marks))
    for file in files:
        here = [mark for mark in marks if mark[0].file == file]
        first = here[0][0]
        arrow = _paint(" " * gutter + ("-->" if not out else ":::"), _BLUE, colour)
        out.append(f"{arrow} {safe(file)}:{first.line}:{first.column}")
        text = lines.get(file)
        if text is None:
            continue
        bar = _paint(" " * gutter + " |", _BLUE, colour)
        out.append(bar)
        last = 0
        for span, words, primary in sorted(here, key=lambda mark: (mark[0].line, not mark[2])):
            if not 1 <= span.line <= len(text):
                continue
            line = text[span.line - 1].rstrip("\r")
            end = span.end_column if span.end_line == span.line else len(line) + 1
            shown, left, width = _window(line, span.column, end)
            if span.line != last:
                if last and span.line > last + 1:
                    out.append(_paint("...", _BLUE, colour))
                number = _paint(f"{span.line:>{gutter}} |", _BLUE, colour)
                out.append(f"{number} {shown}".rstrip())
                last = span.line
            caret = ("^" if primary else "-") * width + (f" {safe(words)}" if words else "")
            out.append(f"{bar} {' ' * left}{_paint(caret, _COLOURS[severity] if primary else _BLUE, colour)}")
    return out


def _window(line: str, column: int, end: int) -> tuple[str, int, int]:
    """Return the visible form of a line, how far right the mark starts in it, and how wide the mark is."""
    begin = min(max(column - 1, 0), len(line))
    stop = min(max(end - 1, begin), len(line), begin + WIDTH)
    skipped = max(0, begin - WIDTH)  # of a very long line only the neighbourhood is looked at
    rest = len(line) > begin + 2 * WIDTH
    cells = [_cell(char) for char in line[skipped : begin + 2 * WIDTH]]
    begin, stop = begin - skipped, stop - skipped
    cut = 0
    while cut < begin and sum(width for _, width in cells[cut:begin]) > WIDTH // 2:
        cut += 1
    left = sum(width for _, width in cells[cut:begin])
    width = max(1, sum(width for _, width in cells[begin:stop]))
    shown, used, index = "", 0, cut
    while index < len(cells) and used + cells[index][1] <= WIDTH:
        shown += cells[index][0]
        used += cells[index][1]
        index += 1
    width = max(1, min(width, WIDTH - left))
    if cut or skipped:
        shown, left = "..." + shown, left + 3
    if index < len(cells) or rest:
        shown += "..."
    return shown, left, width


def _cell(char: str) -> tuple[str, int]:
    """Return what is printed for a character and how many columns it takes."""
    if char.isascii():
        if char == "\t":
            return TAB, len(TAB)
        text = _shown(char)
        return text, len(text)
    from unicodedata import category, east_asian_width

    text = _shown(char)
    if len(text) > 1:
        return text, len(text)
    if category(char) in ("Mn", "Me"):
        return char, 0
    return char, 2 if east_asian_width(char) in "WF" else 1

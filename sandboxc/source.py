"""Where a value stands in a source file."""

from sandboxc.records import NamedTuple


class Span(NamedTuple):
    """A stretch of one source text.

    Lines and columns count from 1, columns in code points; the end is the position just behind the
    last character, so ``end_column - column`` is the width of a one-line span.
    """

    file: str
    line: int
    column: int
    end_line: int
    end_column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class SourceFile(NamedTuple):
    """A source text and the name that diagnostics print for it."""

    name: str
    text: str

    def snippet(self, span: Span) -> str:
        """Return the text under ``span`` (what a caret line underlines)."""
        lines = self.text.split("\n")
        if span.line == span.end_line:
            return lines[span.line - 1][span.column - 1 : span.end_column - 1]
        inner = lines[span.line : span.end_line - 1]
        first = lines[span.line - 1][span.column - 1 :]
        last = lines[span.end_line - 1][: span.end_column - 1] if span.end_line <= len(lines) else ""
        return "\n".join([first, *inner, last])

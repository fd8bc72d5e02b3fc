"""The one form in which every part of the compiler reports what is wrong, lossy or worth knowing."""

from collections.abc import Iterable

from sandboxc.records import NamedTuple
from sandboxc.source import Span

ERROR = "error"
WARNING = "warning"
NOTE = "note"

_RANK = {ERROR: 0, WARNING: 1, NOTE: 2}


class Label(NamedTuple):
    """A second place that belongs to a diagnostic, with the words to print beside it."""

    span: Span
    text: str


class Diagnostic(NamedTuple):
    """One report: a stable code, how bad it is, what happened, where, and what to do about it.

    ``message`` is one lower-case line without a final period; user text in it stands in backticks.
    ``help`` says what would have been right. ``span`` is None only for what no source line caused.
    """

    code: str
    severity: str
    message: str
    span: Span | None = None
    help: str = ""
    labels: tuple[Label, ...] = ()

    @property
    def is_error(self) -> bool:
        """Return whether this report stops a compile."""
        return self.severity == ERROR


def error(
    code: str, message: str, span: Span | None = None, help: str = "", labels: Iterable[Label] = ()
) -> Diagnostic:
    """Return an error-level diagnostic."""
    return Diagnostic(code, ERROR, message, span, help, tuple(labels))


def warning(
    code: str, message: str, span: Span | None = None, help: str = "", labels: Iterable[Label] = ()
) -> Diagnostic:
    """Return a warning-level diagnostic."""
    return Diagnostic(code, WARNING, message, span, help, tuple(labels))


def note(code: str, message: str, span: Span | None = None, help: str = "", labels: Iterable[Label] = ()) -> Diagnostic:
    """Return a note-level diagnostic."""
    return Diagnostic(code, NOTE, message, span, help, tuple(labels))


def ordered(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Return the diagnostics without repetitions, by place in the source, then severity and code."""

    def key(item: Diagnostic) -> tuple[str, int, int, int, str, str]:
        span = item.span or Span("", 0, 0, 0, 0)
        return (span.file, span.line, span.column, _RANK[item.severity], item.code, item.message)

    return tuple(sorted(set(diagnostics), key=key))


def has_errors(diagnostics: Iterable[Diagnostic]) -> bool:
    """Return whether any of the diagnostics stops a compile."""
    return any(item.severity == ERROR for item in diagnostics)


class PolicyError(Exception):
    """Raised at a public edge when a policy, profile or binding is refused; carries every reason."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = ordered(diagnostics)
        super().__init__("; ".join(f"{d.code}: {d.message}" for d in self.diagnostics))

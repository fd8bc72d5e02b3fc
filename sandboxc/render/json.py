"""Diagnostics -> plain objects for machines (the caller turns them into JSON text)."""

from collections.abc import Iterable

from sandboxc._version import REPORT_FORMAT
from sandboxc.diagnostics import Diagnostic, ordered
from sandboxc.source import Span


def report(diagnostics: Iterable[Diagnostic]) -> dict[str, object]:
    """Return the object that ``--format json`` prints for a list of diagnostics."""
    return {
        "format_version": REPORT_FORMAT,
        "diagnostics": [diagnostic_object(item) for item in ordered(diagnostics)],
    }


def diagnostic_object(item: Diagnostic) -> dict[str, object]:
    """Return one diagnostic as a plain object; its place is null when no source line caused it."""
    return {
        "code": item.code,
        "severity": item.severity,
        "message": item.message,
        **span_object(item.span),
        "help": item.help,
        "labels": [{**span_object(label.span), "text": label.text} for label in item.labels],
    }


def span_object(span: Span | None) -> dict[str, object]:
    """Return the five keys of a place."""
    if span is None:
        return dict.fromkeys(("file", "line", "column", "end_line", "end_column"))
    return {
        "file": span.file,
        "line": span.line,
        "column": span.column,
        "end_line": span.end_line,
        "end_column": span.end_column,
    }

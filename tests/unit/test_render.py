"""Diagnostics as text for people and as objects for machines."""

import json

from sandboxc.diagnostics import Diagnostic, Label, error, note, warning
from sandboxc.render.json import report
from sandboxc.render.text import line_of, render, safe, summary
from sandboxc.source import SourceFile, Span

SOURCE = SourceFile("p.yaml", "sandboxc: 1\nmode: rw\n\tname: \u202ex\n日本: e\u0301 z\n" + "#\n" * 8 + "end: here\n")


def at(line: int, column: int, end: int, end_line: int = 0) -> Span:
    """Return a span in the test source."""
    return Span("p.yaml", line, column, end_line or line, end)


def lines(item: Diagnostic, source: SourceFile = SOURCE) -> list[str]:
    """Return the rendered lines of one diagnostic, without the summary."""
    return render([item], [source]).split("\n")[:-2]


def test_full_report() -> None:
    """Head, place, source line, caret, help and summary."""
    item = error("SBX203", "unknown mode `rw`", at(2, 7, 9), "write `workspace-write`")
    assert render([item], [SOURCE]) == (
        "error[SBX203]: unknown mode `rw`\n"
        " --> p.yaml:2:7\n"
        "  |\n"
        "2 | mode: rw\n"
        "  |       ^^\n"
        "  = help: write `workspace-write`\n"
        "\n"
        "1 error\n"
    )


def test_nothing_to_report() -> None:
    """No diagnostics give no text."""
    assert render([], [SOURCE]) == ""


def test_labels_share_the_snippet() -> None:
    """Labels are shown in line order, with the gap between the lines marked and the gutter wide enough."""
    label = Label(at(1, 1, 9), "first written here")
    item = error("SBX102", "twice", at(13, 1, 4), labels=[label])
    assert lines(item) == [
        "error[SBX102]: twice",
        "  --> p.yaml:13:1",
        "   |",
        " 1 | sandboxc: 1",
        "   | -------- first written here",
        "...",
        "13 | end: here",
        "   | ^^^",
        "",
    ]


def test_label_in_another_file() -> None:
    """A label in another file has a place line of its own."""
    other = SourceFile("base.yaml", "mode: x\n")
    label = Label(Span("base.yaml", 1, 7, 1, 8), "here")
    item = error("SBX999", "m", at(2, 7, 9), labels=[label])
    text = render([item], [SOURCE, other])
    assert " ::: base.yaml:1:7\n  |\n1 | mode: x\n  |       - here\n" in text


def test_tabs_and_direction_characters() -> None:
    """Tabs become blanks and text-direction characters are made visible; the caret stays under its text."""
    assert lines(error("SBX114", "m", at(3, 8, 9)))[3:5] == [
        "3 |     name: <U+202E>x",
        "  |           ^^^^^^^^",
    ]


def test_wide_and_combining_characters() -> None:
    """Wide characters take two columns and combining marks none."""
    assert lines(error("SBX114", "m", at(4, 8, 9)))[3:5] == ["4 | 日本: e\u0301 z", "  |         ^"]
    assert lines(error("SBX114", "m", at(4, 1, 3)))[4] == "  | ^^^^"


def test_messages_cannot_move_the_cursor() -> None:
    """Control characters in messages, help and file names are made visible."""
    item = error("SBX201", "unknown key `\x1b[2J\u202e\r\n`", Span("a\x1bb", 1, 1, 1, 2), "x\x07y")
    text = render([item], [SourceFile("a\x1bb", "\x1b]0;t\x07\r\n")])
    assert all(char == "\n" or char.isprintable() for char in text)
    assert "unknown key `<U+001B>[2J<U+202E><U+000D><U+000A>`" in text
    assert "a<U+001B>b:1:1" in text
    assert "x<U+0007>y" in text


def test_long_lines_are_cut_around_the_caret() -> None:
    """Of a long line only the part around the fault is shown."""
    source = SourceFile("p.yaml", "x" * 9000 + "HERE" + "y" * 9000)
    shown, caret = lines(error("SBX999", "m", Span("p.yaml", 1, 9001, 1, 9005)), source)[3:5]
    assert len(shown) < 140
    assert shown.startswith("1 | ...x")
    assert shown.endswith("y...")
    assert shown[caret.index("^") : caret.rindex("^") + 1] == "HERE"


def test_span_over_several_lines_marks_the_first() -> None:
    """A span over several lines is underlined to the end of its first line."""
    assert lines(error("SBX999", "m", at(1, 11, 5, end_line=2)))[3:5] == ["1 | sandboxc: 1", "  |           ^"]


def test_places_outside_the_text() -> None:
    """An empty span at the end, a line behind the text, and an unknown file give no exception."""
    assert lines(error("SBX999", "m", at(2, 9, 9)))[4] == "  |         ^"
    assert lines(error("SBX999", "m", at(99, 1, 2)))[1] == "  --> p.yaml:99:1"
    assert render([error("SBX999", "m", Span("q", 1, 1, 1, 2))], [SOURCE]) == (
        "error[SBX999]: m\n --> q:1:1\n\n1 error\n"
    )
    assert render([error("SBX117", "m", None, "h")]) == "error[SBX117]: m\n  = help: h\n\n1 error\n"


def test_colour_is_only_added_when_asked() -> None:
    """Colour adds escapes and changes nothing else."""
    item = error("SBX203", "m", at(2, 7, 9), "h", [Label(at(1, 1, 2), "l")])
    plain, coloured = render([item], [SOURCE]), render([item], [SOURCE], colour=True)
    assert "\x1b" not in plain
    for code in ("\x1b[1;31m", "\x1b[1;34m", "\x1b[1m", "\x1b[0m"):
        assert code in coloured
        coloured = coloured.replace(code, "")
    assert coloured == plain


def test_order_limit_and_summary() -> None:
    """Diagnostics come by place, a limit says how many are left out, the summary counts all."""
    items = [error("SBX2", "b", at(2, 1, 2)), warning("SBX5", "c", at(3, 1, 2)), note("SBX6", "a", at(1, 1, 2))]
    text = render([*items, items[0]], [SOURCE], limit=2)
    assert text.index("note[SBX6]") < text.index("error[SBX2]")
    assert "SBX5" not in text
    assert text.endswith("and 1 more\n1 error, 1 warning, 1 note\n")
    assert summary(items * 2) == "2 errors, 2 warnings, 2 notes"
    assert summary([]) == "no findings"


def test_one_line_form() -> None:
    """The short form has place, severity, code and message."""
    assert line_of(error("SBX203", "m", at(2, 7, 9))) == "p.yaml:2:7: error[SBX203]: m"
    assert line_of(error("SBX117", "m")) == "error[SBX117]: m"


def test_safe_keeps_ordinary_text() -> None:
    """Letters of any script stay as they are; separators and format characters do not."""
    assert safe("日本 é a") == "日本 é a"
    assert safe("a\u00a0b\u200bc\ud800") == "a<U+00A0>b<U+200B>c<U+D800>"


def test_json_report() -> None:
    """The JSON object has a version and every field of each diagnostic, in order."""
    items = [error("SBX203", "m", at(2, 7, 9), "h", [Label(at(1, 1, 2), "l")]), error("SBX117", "n")]
    place = {"file": "p.yaml", "line": 2, "column": 7, "end_line": 2, "end_column": 9}
    found = report(items)
    assert json.loads(json.dumps(found)) == {
        "format_version": "1.0",
        "diagnostics": [
            {
                "code": "SBX117",
                "severity": "error",
                "message": "n",
                "file": None,
                "line": None,
                "column": None,
                "end_line": None,
                "end_column": None,
                "help": "",
                "labels": [],
            },
            {
                "code": "SBX203",
                "severity": "error",
                "message": "m",
                **place,
                "help": "h",
                "labels": [{**place, "line": 1, "column": 1, "end_line": 1, "end_column": 2, "text": "l"}],
            },
        ],
    }

"""The YAML front end: what it lets in, what it refuses, and where its spans point."""

import pytest

from sandboxc.diagnostics import Diagnostic
from sandboxc.frontend.yaml_nodes import (
    MAX_BYTES,
    MAX_DEPTH,
    MAX_LINE,
    MAX_LINES,
    MAX_VALUES,
    Mapping,
    Node,
    Scalar,
    Sequence,
    parse,
)
from sandboxc.source import SourceFile


def tree(text: str) -> tuple[SourceFile, Node]:
    """Return the source and the root of a text that is well-formed."""
    source = SourceFile("p.yaml", text)
    root, found = parse(source)
    assert found == ()
    assert root is not None
    return source, root


def faults(text: str) -> list[tuple[str, str, str]]:
    """Return (code, message, underlined text) of every fault of a text."""
    source = SourceFile("p.yaml", text)
    root, found = parse(source)
    assert root is None
    return [(item.code, item.message, under(source, item)) for item in found]


def under(source: SourceFile, item: Diagnostic) -> str:
    """Return the text that a diagnostic underlines."""
    assert item.span is not None
    return source.snippet(item.span)


def scalars(node: Node) -> list[Scalar]:
    """Return every scalar of a tree, keys included, in order."""
    if isinstance(node, Scalar):
        return [node]
    if isinstance(node, Sequence):
        return [scalar for item in node.items for scalar in scalars(item)]
    return [scalar for key, value in node.pairs for scalar in (key, *scalars(value))]


def test_every_key_and_value_knows_its_text() -> None:
    """The span of each plain scalar underlines exactly its text."""
    source, root = tree("a: b\nc:\n  - d e\n  - {f: g, h: [i, j]}\nk:\n- l\n")
    found = scalars(root)
    assert [source.snippet(item.span) for item in found] == [*"abc", "d e", *"fghijkl"]
    assert all(item.plain for item in found)


def test_quoted_scalars() -> None:
    """Quotes belong to the span and not to the text; a quoted scalar is not plain."""
    source, root = tree("a: \"b\\n\"\nc: 'd''e'\n")
    assert isinstance(root, Mapping)
    first, second = (value for _, value in root.pairs)
    assert first == Scalar("b\n", first.span, False)
    assert source.snippet(first.span) == '"b\\n"'
    assert second == Scalar("d'e", second.span, False)
    assert source.snippet(second.span) == "'d''e'"


@pytest.mark.parametrize(
    "word", ["no", "on", "yes", "y", "True", "0o7", "0x1", "1_000", "1e3", "~", "null", "=", "12:30"]
)
def test_plain_scalars_keep_their_text(word: str) -> None:
    """No plain scalar is turned into something else."""
    _, root = tree(f"a: {word}\n")
    assert [item.text for item in scalars(root)] == ["a", word]


def test_collection_spans_end_with_their_last_value() -> None:
    """A block collection ends where its last value ends, a flow collection behind its bracket."""
    source, root = tree("a:\n  - b: c\n    d: e  # note\n\n# more\nf: [g, h]  \ni:\n  j:\n")
    assert isinstance(root, Mapping)
    values = [value for _, value in root.pairs]
    assert source.snippet(values[0].span) == "- b: c\n    d: e"
    assert source.snippet(values[1].span) == "[g, h]"
    assert root.span.line == 1
    assert root.span.end_line == 8


@pytest.mark.parametrize(
    ("text", "under"),
    [
        ("a: |\n  b\n  c\n", "|\n  b\n  c"),
        ("a: >\n  b\n\n\nd: e\n", ">\n  b"),
        ("a: |-\n  b", "|-\n  b"),
        ("a: |+\n  b\n\n", "|+\n  b"),
    ],
)
def test_block_text_spans(text: str, under: str) -> None:
    """The span of a block text ends with its last line that is not blank."""
    source, root = tree(text)
    assert isinstance(root, Mapping)
    assert source.snippet(root.pairs[0][1].span) == under


def test_crlf_is_a_line_end() -> None:
    """Carriage returns before line feeds change no text and no column."""
    source, root = tree("a: b\r\nc: 'd'\r\n")
    assert [source.snippet(item.span) for item in scalars(root)] == ["a", "b", "c", "'d'"]


def test_missing_value_stands_behind_its_key() -> None:
    """A key without a value has an empty value just behind the colon, not on a later line."""
    _, root = tree("a:\n\n# note\nb :\n")
    assert isinstance(root, Mapping)
    assert [(value.span.line, value.span.column, value.span.end_column) for _, value in root.pairs] == [
        (1, 3, 3),
        (4, 4, 4),
    ]


def test_columns_count_code_points() -> None:
    """Characters outside the basic plane and combining marks count one column each."""
    source, root = tree("a: {\U0001f600: 'e\u0301', b: c}\n")
    assert [source.snippet(item.span) for item in scalars(root)] == ["a", "\U0001f600", "'e\u0301'", "b", "c"]


@pytest.mark.parametrize(
    ("text", "code", "message", "under"),
    [
        ('a: "b\n', "SBX101", "the document ends too early", ""),
        ("a: b: c\n", "SBX101", "a `:` is not possible here", ":"),
        ("a:\n\tb\n", "SBX101", "a tab cannot indent", "\t"),
        ("a: [b\n", "SBX101", "a list in brackets is not closed", ""),
        ("a: {b: c\nd: e\n", "SBX101", "a mapping in braces is not closed", ":"),
        ("a: b\n  c: d\n", "SBX101", "a `:` is not possible here", ":"),
        ("a:\n  - b\n c: d\n", "SBX101", "the line does not fit the lines above", "c"),
        ('a: "\\q"\n', "SBX101", "an unknown escape in double quotes", "q"),
        ("a: @b\n", "SBX101", "no value starts with this character", "@"),
        ("a: - b\n", "SBX101", "a list item is not possible here", "-"),
        ("a: b\na: c\n", "SBX102", "the key `a` is written twice", "a"),
        ("a: b\n'a': c\n", "SBX102", "the key `a` is written twice", "'a'"),
        ("a: !!str b\n", "SBX103", "`!!str` is a tag", "!!str"),
        ("a: !x [b]\n", "SBX103", "`!x` is a tag", "!x"),
        ("a: !<tag:x> b\n", "SBX103", "`!<tag:x>` is a tag", "!<tag:x>"),
        ("a: ! b\n", "SBX103", "`!` is a tag", "!"),
        ("a: &b c\n", "SBX104", "`&b` is an anchor", "&b"),
        ("a: {<<: {b: c}}\n", "SBX105", "`<<` merges another mapping", "<<"),
        ("a: b\n---\nc: d\n", "SBX108", "a second document starts here", "---"),
        ("", "SBX109", "the document is empty", ""),
        ("# a\n\n", "SBX109", "the document is empty", ""),
        ("a: b\0\n", "SBX110", "the document contains a NUL character", "\0"),
        ("a: \x1b[2J\n", "SBX111", "the document contains the control character U+001B", "\x1b"),
        ("a: \x85b\n", "SBX111", "the document contains the control character U+0085", "\x85"),
        ("a: \u2028b\n", "SBX111", "the document contains the control character U+2028", "\u2028"),
        ("a: b\rc: d\n", "SBX111", "the document contains the control character U+000D", "\r"),
        ("a: \ufeffb\n", "SBX111", "a byte order mark stands inside the document", "\ufeff"),
        ("[a]: b\n", "SBX113", "a key must be a word", "["),
        ("? {a: b}\n: c\n", "SBX113", "a key must be a word", "{"),
        ("a: \u202eb\n", "SBX114", "the text-direction character U+202E can make a line look like another",
         "\u202e"),
        ("%YAML 1.1\n---\na: b\n", "SBX118", "a directive changes how the document is read", "%YAML 1.1"),
        ("%TAG ! tag:x:\n---\na: b\n", "SBX118", "a directive changes how the document is read", "%TAG ! tag:x:"),
    ],
)  # fmt: skip
def test_refused(text: str, code: str, message: str, under: str) -> None:
    """Each kind of fault has its code and message, and underlines what is wrong."""
    assert faults(text) == [(code, message, under)]


def test_alias_is_refused_beside_its_anchor() -> None:
    """Both the anchor and each use of it are reported."""
    assert faults("a: &x b\nc: *x\n") == [
        ("SBX104", "`&x` is an anchor", "&x"),
        ("SBX104", "`*x` is an alias", "*x"),
    ]


def test_faults_are_reported_in_one_run() -> None:
    """Different faults of one text are all reported, the syntax error last."""
    codes = [code for code, _, _ in faults("a: !x 1\na: &y 2\n<<: {}\n[b]: *y\nc: [\n")]
    assert codes == ["SBX103", "SBX102", "SBX104", "SBX105", "SBX113", "SBX104", "SBX101"]


def test_duplicate_shows_the_first_line() -> None:
    """The report of a doubled key has a label on the first one."""
    source = SourceFile("p.yaml", "a: b\nc: d\na: e\n")
    (item,) = parse(source).diagnostics
    assert [(label.span.line, label.text) for label in item.labels] == [(1, "first written here")]
    assert item.help == "keep one of the two"


def test_the_same_key_in_two_mappings_is_fine() -> None:
    """Keys are compared inside one mapping only."""
    tree("- {a: b}\n- {a: b}\n")


def test_depth_limit() -> None:
    """32 levels are let in, 33 are not, in flow and in block style alike."""
    tree("[" * MAX_DEPTH + "]" * MAX_DEPTH)
    tree("- " * MAX_DEPTH + "a\n")
    message = "the document is nested deeper than 32"
    assert faults("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1)) == [("SBX107", message, "[")]
    assert faults("- " * (MAX_DEPTH + 1) + "a\n") == [("SBX107", message, "-")]


def test_size_limits() -> None:
    """Bytes, lines, the length of a line and the number of values are limited."""
    assert faults("#" * (MAX_BYTES + 1))[0][0] == "SBX106"
    assert faults("é\n" * (MAX_BYTES // 3 + 1))[0][0] == "SBX106"
    assert faults("\n" * MAX_LINES)[0][1] == "the document has more than 50000 lines"
    assert faults("a: b\n#" + "x" * MAX_LINE)[0][1] == "the line is longer than 16384 characters"
    assert faults("a:\n" + "  b b b b b\n" * 40000)[0][1] == "the document has more than 150000 words"
    assert faults("- a\n" * (MAX_VALUES + 1))[0][1] == "the document has more than 20000 values"


def test_a_directive_for_1_2_is_fine() -> None:
    """`%YAML 1.2` says what is meant anyway."""
    tree("%YAML 1.2\n---\na: b\n...\n")

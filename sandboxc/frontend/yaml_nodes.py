"""YAML text -> a small typed source tree in which every key and every value knows where it stands.

Only the plain core of YAML is let in: one document of mappings, lists and scalars. What could make a text
mean something else than it shows (aliases, merge keys, tags, doubled keys, invisible characters) or cost
more than it is worth (depth, size) is refused here, before any meaning is given to it. The tree is built from
the parser's events with a stack of our own, so no input can make it recurse.
"""

import re
from collections.abc import Iterable

from sandboxc.diagnostics import Diagnostic, Label, error, ordered
from sandboxc.records import NamedTuple
from sandboxc.source import SourceFile, Span

MAX_BYTES = 1 << 20
MAX_DEPTH = 32
MAX_VALUES = 20_000
MAX_LINES = 50_000
MAX_LINE = 16_384
MAX_WORDS = 150_000
#: How many faults of one kind are reported before the reading stops.
MAX_FAULTS = 100


class Scalar(NamedTuple):
    """A text, and whether it is written without quotes: only then can it be a number or a boolean."""

    text: str
    span: Span
    plain: bool


class Sequence(NamedTuple):
    """A list."""

    items: tuple["Node", ...]
    span: Span


class Mapping(NamedTuple):
    """A mapping in the order written; its keys are distinct scalars."""

    pairs: tuple[tuple[Scalar, "Node"], ...]
    span: Span


Node = Scalar | Sequence | Mapping


class Tree(NamedTuple):
    """What the front end found: the document's node, or None, and every fault of the text."""

    root: Node | None
    diagnostics: tuple[Diagnostic, ...]


class _Stop(Exception):
    """Raised when reading on would cost too much or make no sense; the fault is already reported."""


_FORBIDDEN = re.compile(
    "[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff\u202a-\u202e\u2066-\u2069]|\r(?!\n)"
)
_BIDI = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def parse(source: SourceFile) -> Tree:
    """Return the source tree of a policy text, or every reason found why it has none."""
    faults = _text_faults(source)
    if faults:
        return Tree(None, ordered(faults))
    builder = _Builder(source)
    root = builder.build()
    found = ordered(builder.faults)
    return Tree(None if found else root, found)


def _text_faults(source: SourceFile) -> list[Diagnostic]:
    """Return what is wrong with the text as such: its size and its characters."""
    name, text = source
    start = Span(name, 1, 1, 1, 1)
    if len(text) > MAX_BYTES or len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        return [error("SBX106", "the document is larger than 1 MiB", start, "split the policy")]
    lines = text.split("\n")
    if len(lines) > MAX_LINES:
        return [error("SBX115", f"the document has more than {MAX_LINES} lines", start, "split the policy")]
    if len(text.split()) > MAX_WORDS:
        return [error("SBX115", f"the document has more than {MAX_WORDS} words", start, "split the policy")]
    faults: list[Diagnostic] = []
    for number, line in enumerate(lines, 1):
        if len(line) > MAX_LINE:
            span = Span(name, number, 1, number, 2)
            faults.append(error("SBX115", f"the line is longer than {MAX_LINE} characters", span, "break the line"))
            break
    for match in _FORBIDDEN.finditer(text):
        line_number = text.count("\n", 0, match.start()) + 1
        column = match.start() - (text.rfind("\n", 0, match.start()) + 1) + 1
        faults.append(_character_fault(match.group(), Span(name, line_number, column, line_number, column + 1)))
        if len(faults) >= MAX_FAULTS:
            break
    return faults


def _character_fault(char: str, span: Span) -> Diagnostic:
    label = f"U+{ord(char):04X}"
    if char == "\0":
        return error("SBX110", "the document contains a NUL character", span, "remove it; a policy is plain text")
    if char in _BIDI:
        advice = f"write it as `\\u{ord(char):04X}` between double quotes where it is meant"
        return error("SBX114", f"the text-direction character {label} can make a line look like another", span, advice)
    if char == "\ufeff":
        return error("SBX111", "a byte order mark stands inside the document", span, "remove it")
    return error("SBX111", f"the document contains the control character {label}", span, "remove it")


class _Frame:
    """A collection that is still open."""

    __slots__ = ("children", "flow", "keys", "pending", "seen", "start")

    def __init__(self, start: Span, keys: bool, flow: bool) -> None:
        self.start = start
        self.keys = keys  # a mapping
        self.flow = flow
        self.children: list[Node] = []
        self.pending: list[tuple[Scalar, Node]] = []
        self.seen: dict[str, Span] = {}

    def close(self, end: Span) -> Node:
        last = self.children[-1].span if self.children else None
        if self.keys and self.pending:
            last = self.pending[-1][1].span
        tail = end if self.flow or last is None else last
        span = Span(self.start.file, self.start.line, self.start.column, tail.end_line, tail.end_column)
        return Mapping(tuple(self.pending), span) if self.keys else Sequence(tuple(self.children), span)


class _Builder:
    """Builds the tree of one text from the parser's events."""

    def __init__(self, source: SourceFile) -> None:
        self.source = source
        self.lines = source.text.split("\n")
        self.faults: list[Diagnostic] = []
        self.stack: list[_Frame] = []
        self.key: list[Scalar | None] = []  # for each open mapping the key that waits for its value
        self.root: Node | None = None
        self.values = 0
        self.documents = 0

    def build(self) -> Node | None:
        """Return the root node; faults are collected."""
        from ruamel.yaml import YAML
        from ruamel.yaml.error import MarkedYAMLError, YAMLError

        try:
            self._read(YAML(typ="safe", pure=True).parse(self.source.text))
        except _Stop:
            return None
        except MarkedYAMLError as problem:
            self._syntax(str(problem.problem or "cannot be read"), problem.problem_mark or problem.context_mark)
            return None
        except (YAMLError, ValueError, AssertionError, IndexError, AttributeError, TypeError) as problem:
            # The parser's own slips on odd texts: still the text's fault for whoever reads the report.
            self._syntax(str(problem).split("\n", 1)[0] or "cannot be read", None)
            return None
        if self.root is None and not self.faults:
            self._fault(
                "SBX109",
                "the document is empty",
                Span(self.source.name, 1, 1, 1, 1),
                "start with `sandboxc: 1`",
            )
        return self.root

    def _read(self, events: Iterable[object]) -> None:
        for event in events:
            kind = type(event).__name__
            if kind == "ScalarEvent":
                self._scalar(event)
            elif kind in ("MappingStartEvent", "SequenceStartEvent"):
                self._open(event, kind == "MappingStartEvent")
            elif kind in ("MappingEndEvent", "SequenceEndEvent"):
                node = self.stack.pop().close(self._span(event))
                self.key.pop()
                self._add(node)
            elif kind == "AliasEvent":
                name = str(getattr(event, "anchor", ""))
                self._fault("SBX104", f"`*{name}` is an alias", self._span(event), "write the value out")
                self._add(Scalar("", self._span(event), False))
            elif kind == "DocumentStartEvent":
                self._document(event)

    def _document(self, event: object) -> None:
        self.documents += 1
        version, tags = getattr(event, "version", None), getattr(event, "tags", None)
        if self.documents > 1:
            self._fault("SBX108", "a second document starts here", self._span(event), "keep one policy in a file")
            raise _Stop
        if tags or (version is not None and tuple(version) != (1, 2)):
            first = next((n for n, line in enumerate(self.lines, 1) if line.startswith("%")), 1)
            span = Span(self.source.name, first, 1, first, len(self.lines[first - 1].rstrip("\r")) + 1)
            self._fault("SBX118", "a directive changes how the document is read", span, "remove it; YAML 1.2 is meant")

    def _scalar(self, event: object) -> None:
        style = getattr(event, "style", None)
        span = self._span(event)
        if style in ("|", ">"):
            span = self._trim(span)
        self._properties(event, span)
        self._add(Scalar(str(getattr(event, "value", "")), span, not style))

    def _open(self, event: object, keys: bool) -> None:
        span = self._span(event)
        self._properties(event, span)
        if len(self.stack) >= MAX_DEPTH:
            start = span._replace(end_line=span.line, end_column=span.column + 1)
            self._fault(
                "SBX107",
                f"the document is nested deeper than {MAX_DEPTH}",
                start,
                "a policy needs no such depth",
            )
            raise _Stop
        self.stack.append(_Frame(span, keys, bool(getattr(event, "flow_style", False))))
        self.key.append(None)

    def _properties(self, event: object, span: Span) -> None:
        """Report the anchor and the tag written before a node."""
        anchor = getattr(event, "anchor", None)
        first = span._replace(end_line=span.line, end_column=span.column + 1)
        if anchor:
            width = len(str(anchor)) + 1
            at = self._find(f"&{anchor}", span) or first
            at = at._replace(end_column=at.column + width)
            self._fault("SBX104", f"`&{anchor}` is an anchor", at, "remove it; a policy has no aliases")
        tag = getattr(event, "tag", None)
        if tag is not None:
            at = self._find("!", span) or first
            rest = re.split(r"[\s,\[\]{}]", self.lines[at.line - 1][at.column - 1 :], maxsplit=1)[0]
            at = at._replace(end_column=at.column + max(1, len(rest)))
            shown = rest if rest.startswith("!") else str(tag)
            self._fault("SBX103", f"`{shown}` is a tag", at, "remove it; the key says what type its value has")

    def _find(self, text: str, span: Span) -> Span | None:
        column = self.lines[span.line - 1].find(text, span.column - 1)
        return None if column < 0 else Span(span.file, span.line, column + 1, span.line, column + 2)

    def _add(self, node: Node) -> None:
        self.values += 1
        if self.values > MAX_VALUES:
            self._fault(
                "SBX115",
                f"the document has more than {MAX_VALUES} values",
                self._point(node),
                "split the policy",
            )
            raise _Stop
        if not self.stack:
            self.root = node
            return
        frame = self.stack[-1]
        if not frame.keys:
            frame.children.append(node)
            return
        waiting = self.key[-1]
        if waiting is not None:
            self.key[-1] = None
            if isinstance(node, Scalar) and node.plain and not node.text:
                node = node._replace(span=self._behind(waiting.span))
            frame.pending.append((waiting, node))
            return
        self.key[-1] = self._key(node, frame)

    def _key(self, node: Node, frame: _Frame) -> Scalar:
        if not isinstance(node, Scalar):
            self._fault("SBX113", "a key must be a word", self._point(node), "write `key: value`")
            return Scalar("", node.span, False)
        if node.plain and node.text == "<<":
            self._fault("SBX105", "`<<` merges another mapping", node.span, "write the keys out")
        elif node.text in frame.seen:
            first = frame.seen[node.text]
            self._fault(
                "SBX102",
                f"the key `{node.text}` is written twice",
                node.span,
                "keep one of the two",
                (Label(first, "first written here"),),
            )
        else:
            frame.seen[node.text] = node.span
        return node

    def _behind(self, key: Span) -> Span:
        """Return the empty span behind a key's colon, where a value is missing."""
        line = self.lines[key.end_line - 1]
        column = line.find(":", key.end_column - 1) + 2
        column = max(column, key.end_column)
        return Span(key.file, key.end_line, column, key.end_line, column)

    def _point(self, node: Node) -> Span:
        return node.span._replace(end_line=node.span.line, end_column=node.span.column + 1)

    def _span(self, event: object) -> Span:
        start, end = getattr(event, "start_mark", None), getattr(event, "end_mark", None)
        line, column = getattr(start, "line", 0) + 1, getattr(start, "column", 0) + 1
        end_line, end_column = getattr(end, "line", 0) + 1, getattr(end, "column", 0) + 1
        return Span(self.source.name, line, column, end_line, end_column)

    def _trim(self, span: Span) -> Span:
        """Return the span of a block text without the line breaks behind it."""
        line, column = span.end_line, span.end_column
        while line > span.line and not self.lines[line - 1][: column - 1].strip():
            line -= 1
            column = len(self.lines[line - 1].rstrip("\r")) + 1
        return span._replace(end_line=line, end_column=column)

    def _syntax(self, problem: str, mark: object) -> None:
        line = min(getattr(mark, "line", 0) + 1, len(self.lines))
        column = min(getattr(mark, "column", 0) + 1, len(self.lines[line - 1].rstrip("\r")) + 1)
        span = Span(self.source.name, line, column, line, column + 1)
        if column > len(self.lines[line - 1].rstrip("\r")):
            span = span._replace(end_column=column)
        message, advice = _syntax_words(problem)
        self._fault("SBX101", message, span, advice)

    def _fault(self, code: str, message: str, span: Span, advice: str, labels: tuple[Label, ...] = ()) -> None:
        self.faults.append(error(code, message, span, advice, labels))
        if len(self.faults) >= MAX_FAULTS and code not in ("SBX107", "SBX108", "SBX115"):
            raise _Stop


_SYNTAX_WORDS = (
    # part of the parser's words, our words, our help
    ("found character '\\t'", "a tab cannot indent", "indent with blanks"),
    ("mapping values are not allowed", "a `:` is not possible here", "put text with `: ` between quotes"),
    ("expected <block end>", "the line does not fit the lines above", "align it with its siblings"),
    ("could not find expected ':'", "a key without `:`", "write `key: value`"),
    ("end of stream", "the document ends too early", "close the quote or bracket that is still open"),
    ("document separator", "a quoted text is not closed", "close it with the same quote"),
    ("expected ',' or ']'", "a list in brackets is not closed", "write `,` between items, `]` last"),
    ("expected ',' or '}'", "a mapping in braces is not closed", "write `,` between pairs, `}` last"),
    ("unknown escape character", "an unknown escape in double quotes", "write `\\\\`, or use single quotes"),
    ("expected escape sequence", "an escape in double quotes is cut short", "write `\\u` and four digits"),
    ("undefined tag handle", "an undefined tag handle", "remove the tag"),
    ("cannot start any token", "no value starts with this character", "put the text between quotes"),
    ("sequence entries", "a list item is not possible here", "start the list on its own line"),
    ("expected '<document start>'", "the line does not continue the document", "write `key: value`"),
)  # fmt: skip


def _syntax_words(problem: str) -> tuple[str, str]:
    """Return our message and help for the parser's words."""
    for part, message, advice in _SYNTAX_WORDS:
        if part in problem:
            return message, advice
    words = re.sub(r"[^ -~]", "?", problem).replace("'", "`").strip().rstrip(".")
    return f"not valid YAML: {words[:1].lower()}{words[1:120]}", ""

"""Typed reading of a source tree: each helper returns a value, or reports what is wrong and returns None."""

import re
from collections.abc import Collection, Iterable
from collections.abc import Mapping as AbstractMapping

from sandboxc.diagnostics import Diagnostic, Label, error
from sandboxc.frontend.yaml_nodes import Mapping, Node, Scalar, Sequence
from sandboxc.places import nearest_help
from sandboxc.policy import Word
from sandboxc.records import NamedTuple
from sandboxc.source import Span

#: How many errors are reported before the rest of the policy is left unread.
MAX_ERRORS = 100

_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,17})\Z")
_NOTHING = ("", "~", "null")
_CONTROL = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")

TEXT = "text"
BOOLEAN = "boolean"
INTEGER = "number"
NOTHING = "nothing"

#: Words of other systems, by the kind of word that is asked for -> the word that is meant here.
SYNONYMS: dict[str, dict[str, str]] = {
    "access": {
        "none": "deny", "no": "deny", "block": "deny", "hidden": "deny", "forbid": "deny", "false": "deny",
        "ro": "read", "r": "read", "readonly": "read", "read-only": "read", "rx": "read", "exec": "read",
        "rw": "write", "w": "write", "readwrite": "write", "read-write": "write", "rwx": "write",
    },
    "socket access": {
        "none": "deny", "no": "deny", "block": "deny", "read": "deny", "ro": "deny", "false": "deny",
        "write": "connect", "rw": "connect", "allow": "connect", "listen": "bind",
    },
    "mode": {
        "readonly": "read-only", "ro": "read-only", "read": "read-only",
        "rw": "workspace-write", "write": "workspace-write", "workspace": "workspace-write",
        "full": "danger-full-access", "full-access": "danger-full-access", "none": "danger-full-access",
    },
    "baseline": {"none": "deny", "no": "deny", "ro": "read", "readonly": "read", "read-only": "read"},
    "network mode": {
        "none": "deny", "no": "deny", "off": "deny", "false": "deny", "block": "deny",
        "localhost": "loopback", "local": "loopback",
        "all": "allow-all", "allow": "allow-all", "full": "allow-all", "on": "allow-all", "yes": "allow-all",
        "true": "allow-all", "host": "allow-all",
    },
    "target": {
        "macos": "seatbelt", "sandbox-exec": "seatbelt", "sbpl": "seatbelt", "darwin": "seatbelt",
        "bubblewrap": "bwrap", "linux": "bwrap", "win": "windows", "win32": "windows",
    },
    "operating system": {
        "darwin": "macos", "osx": "macos", "mac": "macos", "win": "windows", "win32": "windows",
    },
    "reach": {"write": "writable", "workspace": "writable", "all": "everywhere", "any": "everywhere"},
    "expectation": {
        "read": "allow", "write": "allow", "yes": "allow", "true": "allow", "none": "deny", "no": "deny",
    },
    "operation": {"ls": "list", "rm": "delete", "unlink": "delete", "mv": "rename", "exec": "execute",
                  "mkdir": "create", "mknod": "create", "modify": "write"},
    "preset": {"default": "standard", "off": "none", "no": "none", "false": "none"},
}  # fmt: skip


class Enough(Exception):
    """Raised when so much is wrong that reading on would help nobody; everything so far is reported."""


class Field(NamedTuple):
    """A key of a mapping and its value."""

    key: Scalar
    node: Node


Fields = dict[str, Field]


def scalar_type(node: Scalar) -> str:
    """Return what a scalar is: ``TEXT``, ``BOOLEAN``, ``INTEGER`` or ``NOTHING``."""
    if not node.plain:
        return TEXT
    if node.text in _NOTHING:
        return NOTHING
    if node.text in ("true", "false"):
        return BOOLEAN
    return INTEGER if _INTEGER.match(node.text) else TEXT


def describe(node: Node) -> str:
    """Return the words for what stands there, for a message."""
    if isinstance(node, Mapping):
        return "a mapping"
    if isinstance(node, Sequence):
        return "a list"
    kind = scalar_type(node)
    if kind == NOTHING:
        return "nothing"
    return {BOOLEAN: "a boolean", INTEGER: "a number"}.get(kind, "text")


def caret(node: Node) -> Span:
    """Return a span on one line for a node: a block collection is shown by its first key or item."""
    if isinstance(node, Mapping) and node.pairs and node.span.line != node.span.end_line:
        return node.pairs[0][0].span
    if isinstance(node, Sequence) and node.items and node.span.line != node.span.end_line:
        return caret(node.items[0])
    return node.span


class Reader:
    """Collects what is wrong while values are taken out of a source tree."""

    def __init__(self) -> None:
        self.diagnostics: list[Diagnostic] = []

    def report(self, code: str, message: str, span: Span | None, help: str = "", labels: Iterable[Label] = ()) -> None:
        """Add an error; raises ``Enough`` after the last one that is worth reporting."""
        self.add(error(code, message, span, help, labels))

    def add(self, found: Diagnostic) -> None:
        """Add a diagnostic that something else made."""
        if found in self.diagnostics:
            return
        self.diagnostics.append(found)
        if len(self.diagnostics) >= MAX_ERRORS:
            self.diagnostics.append(
                error(
                    "SBX290",
                    f"more than {MAX_ERRORS} errors, the rest of the policy was not read",
                    found.span,
                )
            )
            raise Enough

    def fields(
        self,
        node: Node,
        what: str,
        known: Collection[str],
        later: AbstractMapping[str, tuple[str, str]] | None = None,
    ) -> Fields | None:
        """Return the known keys of a mapping; others are reported.

        ``later`` names the keys that a later version brings: key -> (code, what to do until then).
        """
        if not isinstance(node, Mapping):
            self.wrong_type(node, what, "a mapping")
            return None
        found: Fields = {}
        for key, value in node.pairs:
            if key.text in known:
                found[key.text] = Field(key, value)
            elif later is not None and key.text in later:
                code, advice = later[key.text]
                self.report(code, f"`{key.text}` is not supported yet", key.span, advice)
            else:
                advice = nearest_help(key.text, known) or "known keys: " + ", ".join(f"`{k}`" for k in known)
                self.report("SBX201", f"unknown key `{key.text}` in {what}", key.span, advice)
        return found

    def wrong_type(self, node: Node, what: str, wanted: str, help: str = "") -> None:
        """Report a value of another type than the wanted one."""
        if not help and isinstance(node, Scalar) and wanted == "text":
            kind = scalar_type(node)
            if node.text == "~":
                help = "write `${home}` for the home directory, a lone `~` means nothing in YAML"
            elif kind in (BOOLEAN, INTEGER):
                help = f'write `"{node.text}"` where text is meant'
            elif kind == NOTHING:
                help = "write a value or remove the key"
        self.report("SBX202", f"{what} must be {wanted}, not {describe(node)}", caret(node), help)

    def text(self, field: Field | None, what: str, one_line: bool = True) -> Word | None:
        """Return a text that is not empty."""
        return None if field is None else self.text_node(field.node, what, one_line)

    def text_node(self, node: Node, what: str, one_line: bool = True) -> Word | None:
        """Return the text of a node; it must not be empty nor hold control characters."""
        word = self.path_node(node, what)
        if word is None:
            return None
        if not word.value.strip():
            self.report("SBX216", f"{what} is empty", word.span, "write a text or remove the key")
            return None
        bad = _CONTROL.search(word.value) or (re.search("[\t\n]", word.value.strip()) if one_line else None)
        if bad:
            label = f"U+{ord(bad.group()):04X}"
            self.report("SBX216", f"{what} contains the control character {label}", word.span, "remove it")
            return None
        return word

    def path_node(self, node: Node, what: str) -> Word | None:
        """Return the text of a node as it is; whoever reads it as a path checks its characters."""
        if not isinstance(node, Scalar) or scalar_type(node) != TEXT:
            self.wrong_type(node, what, "text")
            return None
        return Word(node.text, node.span)

    def choice(self, field: Field | None, what: str, words: Collection[str]) -> Word | None:
        """Return one of the words."""
        return None if field is None else self.choice_node(field.node, what, words)

    def choice_node(self, node: Node, what: str, words: Collection[str]) -> Word | None:
        """Return the word of a node if it is one of the words; ``what`` names the kind of word."""
        if not isinstance(node, Scalar) or scalar_type(node) == NOTHING:
            self.wrong_type(node, f"the {what}", "one of " + _listed(words))
            return None
        if node.text in words and scalar_type(node) == TEXT:
            return Word(node.text, node.span)
        meant = SYNONYMS.get(what, {}).get(node.text.lower())
        advice = f"write `{meant}`" if meant in words else nearest_help(node.text, words)
        self.report("SBX203", f"unknown {what} `{node.text}`", node.span, advice or "write one of " + _listed(words))
        return None

    def flag(self, field: Field | None) -> bool:
        """Return a boolean that is false where it is not written."""
        if field is None:
            return False
        node = field.node
        if isinstance(node, Scalar) and scalar_type(node) == BOOLEAN:
            return node.text == "true"
        advice = "write `true` or `false`, without quotes" if isinstance(node, Scalar) else ""
        self.wrong_type(node, f"`{field.key.text}`", "`true` or `false`", advice)
        return False

    def integer(self, node: Node, what: str) -> int | None:
        """Return a whole number."""
        if isinstance(node, Scalar) and scalar_type(node) == INTEGER:
            return int(node.text)
        self.wrong_type(node, what, "a whole number")
        return None

    def items(self, field: Field | None) -> tuple[Node, ...]:
        """Return the items of a list; nothing where it is not written."""
        if field is None:
            return ()
        if not isinstance(field.node, Sequence):
            advice = f"write `{field.key.text}: [...]`" if isinstance(field.node, Scalar) else ""
            self.wrong_type(field.node, f"`{field.key.text}`", "a list", advice)
            return ()
        return field.node.items

    def texts(self, field: Field | None, what: str) -> tuple[Word, ...]:
        """Return a list of different texts."""
        return self.distinct(filter(None, [self.text_node(item, what) for item in self.items(field)]), what)

    def choices(self, field: Field | None, what: str, words: Collection[str]) -> tuple[Word, ...]:
        """Return a list of different words."""
        return self.distinct(filter(None, [self.choice_node(item, what, words) for item in self.items(field)]), what)

    def distinct(self, words: Iterable[Word], what: str) -> tuple[Word, ...]:
        """Return the words without repetitions; a repetition is reported with its first place."""
        first: dict[str, Word] = {}
        for word in words:
            if word.value in first:
                label = Label(first[word.value].span, "first written here")
                self.report("SBX217", f"the {what} `{word.value}` is listed twice", word.span, "remove one", (label,))
            else:
                first[word.value] = word
        return tuple(first.values())

    def require(self, fields: Fields, names: Iterable[str], what: str, span: Span) -> bool:
        """Return whether all keys are written; a missing one is reported at ``span``."""
        missing = [name for name in names if name not in fields]
        for name in missing:
            self.report("SBX204", f"{what} has no `{name}`", span, f"add `{name}: ...`")
        return not missing


def _listed(words: Collection[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)

"""Judge of Seatbelt profiles: a real Scheme reader plus the published decision rules.

The text runs in the stock ``tinyscheme`` binary under ``prelude.scm``, which prints every rule that the
profile makes. ``decide`` then answers one question under the kernel's reading, or under one of the other
readings that a sound profile must agree with. Nothing of the product is imported.
"""

from __future__ import annotations

import functools
import ipaddress
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ._sbpl_operations import ALIASES, OPERATIONS, chain

__all__ = [
    "ALIASES",
    "OPERATIONS",
    "READINGS",
    "Endpoint",
    "Profile",
    "Question",
    "Rule",
    "SbplError",
    "chain",
    "compile_regex",
    "decide",
    "decide_all",
    "matches",
    "read_profile",
]

READINGS = ("kernel", "textual-last", "most-specific", "leaf-first-last", "leaf-first-first")
VNODES = frozenset(
    ["REGULAR-FILE", "DIRECTORY", "SYMLINK", "BLOCK-DEVICE", "CHARACTER-DEVICE", "FIFO", "SOCKET", "TTY"]
)

_PATH_FAMILIES = ("default", "file", "fs-", "network", "process-exec", "system-fsctl")
_PATH_FILTERS = frozenset(["literal", "subpath", "prefix", "regex", "vnode-type"])

Node = tuple[Any, ...]  # (kind, argument...); the meta filters hold nodes


class SbplError(Exception):
    """The profile does not read, or says something that the real compiler would refuse."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One allow or deny form; ``filter`` is None where the rule has none."""

    index: int
    action: str
    operations: tuple[str, ...]
    filter: Node | None
    modifiers: tuple[Node, ...] = ()


@dataclass(frozen=True)
class Profile:
    """All rules of one profile, in the order in which the text made them."""

    rules: tuple[Rule, ...]
    version: int = 1
    imports: tuple[str, ...] = ()

    @functools.cached_property
    def by_operation(self) -> dict[str, list[Rule]]:
        """Rules that name an operation, oldest first."""
        table: dict[str, list[Rule]] = {}
        for rule in self.rules:
            for operation in dict.fromkeys(rule.operations):
                table.setdefault(operation, []).append(rule)
        return table


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One end of an IP socket. ``this_machine`` None means: only loopback addresses are this machine's."""

    host: str
    port: int
    protocol: str = "tcp"
    this_machine: bool | None = None

    @property
    def is_localhost(self) -> bool:
        """True where the filter word ``localhost`` covers the address (an IPv4-mapped one it does not)."""
        address = ipaddress.ip_address(self.host)
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
            return False
        return address.is_loopback if self.this_machine is None else self.this_machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a filter is asked about."""

    path: str | None = None
    vnode: str = "REGULAR-FILE"
    remote: Endpoint | None = None
    local: Endpoint | None = None
    facts: Mapping[str, str] = field(default_factory=dict)  # filter kind -> value, for mach, sysctl and the like
    fold_case: bool = False
    subpath_covers_file: bool = True  # the disputed case: (subpath P) and P is not a directory


# ---- reading ----


def read_profile(text: str, params: Mapping[str, str] | None = None, *, allow_imports: bool = False) -> Profile:
    """Rules of a profile text; params are the ``-D`` values. SbplError where it would not compile."""
    if "\0" in text:
        raise SbplError("NUL in the profile")
    lines = _run_agreeing(text, tuple(sorted((params or {}).items())))
    version: int | None = None
    imports: list[str] = []
    rules: list[Rule] = []
    for line in lines:
        form = _parse_line(line)
        if form[0] == "version":
            version = int(form[1])
            if version != 1 or rules:
                raise SbplError("(version 1) must come once, before every rule")
        elif form[0] == "import":
            imports.append(form[1])
        else:
            rules.append(_rule(len(rules), form))
    if version is None:
        raise SbplError("no (version 1)")
    if imports and not allow_imports:
        raise SbplError(f"imports rules that the judge cannot see: {imports}")
    return Profile(tuple(rules), version, tuple(imports))


def _scheme_string(value: str) -> str:
    data = value.encode("utf-8", "surrogateescape")
    parts = [
        '"' + "".join(f"\\x{byte:02x}" for byte in data[start : start + 60]) + '"' for start in range(0, len(data), 60)
    ]
    return '""' if not parts else f"(string-append {' '.join(parts)})"


@functools.lru_cache(maxsize=1)
def _operation_forms() -> str:
    forms = [f'(define {name} (%op "{name}"))' for name in sorted(OPERATIONS)]
    return "\n".join(forms + [f"(define {alias} {name})" for alias, name in ALIASES.items()]) + "\n"


@functools.lru_cache(maxsize=256)
def _run_agreeing(text: str, params: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    """Rule lines on which two runs agree; the binary crashes now and then, so crashes do not count."""
    seen: list[tuple[int, str]] = []
    setup = _operation_forms()
    for name, value in params:
        if "\0" in name + value:
            raise SbplError(f"NUL in parameter {name!r}")
        setup += f"(%set-parameter! {_scheme_string(name)} {_scheme_string(value)})\n"
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "prelude.scm").write_bytes(Path(__file__).with_name("prelude.scm").read_bytes())
        Path(folder, "profile.sb").write_bytes(text.encode("utf-8", "surrogateescape") + b"\n(%sentinel)\n")
        for attempt in range(12):
            # A different heap each time: a crash that depends on it does not repeat.
            padding = f"(define %padding '({'x ' * (37 * attempt)}))\n"
            Path(folder, "setup.scm").write_bytes((setup + padding).encode())
            outcome = _run(folder)
            if outcome[0] < 0:
                continue
            if outcome in seen:
                return _checked(*outcome)
            seen.append(outcome)
    raise SbplError(f"no two runs of tinyscheme agree: {seen[-1:] or 'it only crashed'}")


def _run(folder: str) -> tuple[int, str]:
    done = subprocess.run(
        ["tinyscheme", "prelude.scm", "setup.scm", "profile.sb"],
        cwd=folder,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=120,
        check=False,
    )
    trouble = "No memory!\n" if b"No memory!" in done.stderr else ""
    return done.returncode, trouble + done.stdout.decode("latin-1")


def _checked(code: int, output: str) -> tuple[str, ...]:
    lines = output.split("\n")
    trouble = [line for line in lines if line.startswith("Error:") or "No memory!" in line]
    if trouble or code != 0:
        raise SbplError((trouble or lines)[0].strip() or f"tinyscheme ended with {code}")
    if lines[-2:] != ["(end)", ""]:
        raise SbplError("a form is left open at the end of the profile, so it was dropped")
    return tuple(lines[:-2])


_TOKEN = re.compile(r'\s*(?:([()])|"((?:[^"\\]|\\x[0-9A-Fa-f]{2}|\\.)*)"|([^\s()"]+))')
_ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|(.))", re.DOTALL)
_PLAIN = {"n": "\n", "t": "\t", "r": "\r"}


def _unescape(match: re.Match[str]) -> str:
    return chr(int(match[1], 16)) if match[1] else _PLAIN.get(match[2], match[2])


def _parse_line(line: str) -> list[Any]:
    stack: list[list[Any]] = [[]]
    position = 0
    while position < len(line):
        match = _TOKEN.match(line, position)
        if match is None:
            raise SbplError(f"unexpected output: {line[:80]!r}")
        position = match.end()
        paren, string, word = match.groups()
        if paren == "(":
            stack.append([])
        elif paren == ")":
            done = stack.pop()
            if not stack:
                raise SbplError(f"unexpected output: {line[:80]!r}")
            stack[-1].append(done)
        elif string is not None:
            raw = _ESCAPE.sub(_unescape, string)
            stack[-1].append(raw.encode("latin-1").decode("utf-8", "surrogateescape"))
        else:
            stack[-1].append(word)
    known = ("rule", "version", "import")
    if len(stack) != 1 or len(stack[0]) != 1 or not isinstance(stack[0][0], list) or stack[0][0][0] not in known:
        raise SbplError(f"unexpected output: {line[:80]!r}")
    return stack[0][0]


def _rule(index: int, form: list[Any]) -> Rule:
    _, action, operations, filters, modifiers = form
    nodes = [_node(item) for item in filters]
    tree = None if not nodes else nodes[0] if len(nodes) == 1 else ("require-any", *nodes)
    for operation in operations:
        if tree is not None and not operation.startswith(_PATH_FAMILIES):
            wrong = sorted({kind for kind in _kinds(tree) if kind in _PATH_FILTERS})
            if wrong:
                raise SbplError(f"{operation} does not take the filter {wrong[0]}")
    return Rule(index, action, tuple(operations), tree, tuple(tuple(item) for item in modifiers))


def _node(item: list[Any]) -> Node:
    kind, *values = item
    if kind in ("require-all", "require-any", "require-not"):
        return (kind, *(_node(value) for value in values))
    if kind in ("remote", "local"):
        return _address_node(kind, values)
    if kind.endswith("regex"):
        for value in values:
            compile_regex(value)
    if kind in ("vnode-type", "socket-domain", "socket-type"):
        values = [value.upper() for value in values]
    nodes: list[Node] = [(kind, value) for value in values]
    return nodes[0] if len(nodes) == 1 else ("require-any", *nodes)


def _address_node(kind: str, values: list[Any]) -> Node:
    protocol, *rest = values
    if not rest:
        return (kind, protocol) if protocol == "unix-socket" else (kind, protocol, "*", "*")
    if protocol == "unix-socket":
        return (kind, protocol, _node(rest[0]))
    host, separator, port = rest[0].rpartition(":")
    if host not in ("*", "localhost") or not separator:
        raise SbplError(f"host must be * or localhost in network address {rest[0]!r}")
    if port != "*" and not (port.isascii() and port.isdigit() and 1 <= int(port) <= 65535):
        raise SbplError(f"bad port in network address {rest[0]!r}")
    return (kind, protocol, host, port)


def _kinds(node: Node) -> Iterator[str]:
    """Filter kinds of a tree; what sits inside a unix-socket filter is not listed."""
    yield node[0]
    if node[0].startswith("require-"):
        for child in node[1:]:
            yield from _kinds(child)


@functools.lru_cache(maxsize=4096)
def compile_regex(pattern: str) -> re.Pattern[bytes]:
    """Byte pattern with the meaning of the macOS dialect; SbplError for what that dialect leaves in doubt."""
    out: list[str] = []
    text = pattern.encode("utf-8", "surrogateescape").decode("latin-1")
    position = 0
    while position < len(text):
        char = text[position]
        position += 1
        if char == "\\":
            if position == len(text) or text[position].isalnum():
                raise SbplError(f"backslash before a letter, a digit or nothing in the regex {pattern!r}")
            out.append(re.escape(text[position]))
            position += 1
        elif char == "[":
            end = text.find("]", position + (2 if text[position : position + 1] == "^" else 1))
            body = text[position:end]
            if end < 0 or "\\" in body or "[" in body:
                raise SbplError(f"bracket that is open, or holds \\ or [, in the regex {pattern!r}")
            negated = body.startswith("^")
            inner = body[1:] if negated else body
            out.append("[" + "^" * negated + re.sub(r"([\]^&~|])", r"\\\1", inner) + "]")
            position = end + 1
        elif char in "^$":
            out.append("\\A" if char == "^" else "\\Z")
        elif char in "{}":
            raise SbplError(f"counted repetition in the regex {pattern!r}")
        elif char == "(" and text[position : position + 1] == "?":
            raise SbplError(f"(? in the regex {pattern!r}")
        elif char in "*+?" and text[position : position + 1] in ("*", "+", "?"):
            raise SbplError(f"two repetitions in a row in the regex {pattern!r}")
        else:
            out.append(char if char in "().*+?|" else re.escape(char))
    try:
        return re.compile("".join(out).encode("latin-1"), re.DOTALL)
    except re.error as error:
        raise SbplError(f"regex {pattern!r}: {error}") from None


# ---- deciding ----


def decide(
    profile: Profile,
    operation: str,
    path: str | None = None,
    *,
    vnode: str = "REGULAR-FILE",
    reading: str = "kernel",
    **more: Any,
) -> tuple[bool, Rule | None]:
    """(allowed, deciding rule) of one operation; None as rule where nothing matched. more: see Question."""
    question = _question(path, vnode, more)
    names = chain(operation)
    return _choose(_matching(profile, names, question), names, reading, question)


def decide_all(
    profile: Profile, operation: str, path: str | None = None, *, vnode: str = "REGULAR-FILE", **more: Any
) -> dict[str, bool]:
    """What each reading answers; a sound profile gives one answer."""
    question = _question(path, vnode, more)
    names = chain(operation)
    matching = _matching(profile, names, question)
    return {reading: _choose(matching, names, reading, question)[0] for reading in READINGS}


def _question(path: str | None, vnode: str, more: Mapping[str, Any]) -> Question:
    if path is not None and path != "/":
        # canonical: absolute, no empty or dot component
        parts = path.split("/")
        if parts[0] or len(parts) == 1 or not all(part not in ("", ".", "..") for part in parts[1:]):
            raise ValueError(f"the kernel only ever compares canonical paths, not {path!r}")
    if vnode not in VNODES:
        raise ValueError(f"unknown vnode type {vnode!r}")
    return Question(path=path, vnode=vnode, **more)


def _matching(profile: Profile, names: tuple[str, ...], question: Question) -> dict[str, list[Rule]]:
    table = profile.by_operation
    return {
        name: [rule for rule in table.get(name, ()) if rule.filter is None or matches(rule.filter, question)]
        for name in names
    }


def _choose(
    matching: dict[str, list[Rule]], names: tuple[str, ...], reading: str, question: Question
) -> tuple[bool, Rule | None]:
    rule: Rule | None = None
    if reading == "kernel":
        for name in names:
            filtered = [item for item in matching[name] if item.filter is not None]
            if found := filtered or matching[name]:
                rule = found[-1]
                break
    elif reading in ("leaf-first-last", "leaf-first-first"):
        found = next((matching[name] for name in names if matching[name]), [])
        rule = (found[-1] if reading.endswith("last") else found[0]) if found else None
    elif reading == "textual-last":
        rule = max((item for name in names for item in matching[name]), key=lambda item: item.index, default=None)
    elif reading == "most-specific":
        ranked = [
            (_specificity(item.filter, question), -depth, item.index, item)
            for depth, name in enumerate(names)
            for item in matching[name]
        ]
        rule = max(ranked, key=lambda entry: entry[:3])[3] if ranked else None
    else:
        raise ValueError(f"unknown reading {reading!r}")
    if rule is None:
        return names[-1] != "default", None
    return rule.action == "allow", rule


def _specificity(node: Node | None, question: Question) -> tuple[int, int]:
    """(components that the filter pins, strength of its kind) of a filter that matches."""
    if node is None:
        return (-1, 0)
    kind = node[0]
    if kind in ("require-all", "require-any"):
        hits = [child for child in node[1:] if matches(child, question)]
        return max((_specificity(child, question) for child in hits), default=(0, 0))
    strength = {"literal": 3, "subpath": 2, "prefix": 1, "regex": 1}.get(kind, 0)
    if not strength:
        return (0, 0)
    known = re.split(r"[][().*+?|$\\]", node[1].removeprefix("^"))[0] if kind == "regex" else node[1]
    return (len([part for part in known.split("/") if part]), strength)


def matches(node: Node, question: Question) -> bool:
    """True where a filter tree covers the question."""
    kind = node[0]
    if kind == "require-all":
        return all(matches(child, question) for child in node[1:])
    if kind == "require-any":
        return any(matches(child, question) for child in node[1:])
    if kind == "require-not":
        return not matches(node[1], question)
    if kind in ("remote", "local"):
        return _address_matches(node, question)
    if kind in _PATH_FILTERS:
        return question.path is not None and _path_matches(kind, node[1], question.path, question)
    return _fact_matches(kind, node[1], question.facts)


def _path_matches(kind: str, value: str, path: str, question: Question) -> bool:
    if kind == "vnode-type":
        return value == question.vnode
    if kind == "regex":
        return compile_regex(value).search(path.encode("utf-8", "surrogateescape")) is not None
    if question.fold_case:
        value, path = value.casefold(), path.casefold()
    if kind == "literal":
        return path == value
    if kind == "prefix":
        return path.startswith(value)
    if path == value:
        return question.subpath_covers_file or question.vnode == "DIRECTORY"
    return path.startswith("/" if value == "/" else value + "/")


def _address_matches(node: Node, question: Question) -> bool:
    kind, protocol = node[0], node[1]
    end = question.remote if kind == "remote" else question.local
    if protocol == "unix-socket":
        return question.path is not None and (len(node) == 2 or matches(node[2], question))
    if end is None:
        return False
    family = str(ipaddress.ip_address(end.host).version)
    if protocol.rstrip("46") not in ("ip", end.protocol) or (protocol[-1] in "46" and protocol[-1] != family):
        return False
    return (node[2] == "*" or end.is_localhost) and node[3] in ("*", str(end.port))


def _fact_matches(kind: str, value: str, facts: Mapping[str, str]) -> bool:
    for ending in ("-prefix", "-regex"):
        if kind.endswith(ending):
            fact = facts.get(kind.removesuffix(ending))
            if fact is None:
                return False
            if ending == "-prefix":
                return fact.startswith(value)
            return compile_regex(value).search(fact.encode("utf-8", "surrogateescape")) is not None
    return facts.get(kind) == value

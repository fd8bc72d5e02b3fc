"""Glob patterns over path components: ``*``, ``?``, ``[set]``, ``**`` and ``{a,b}``, and nothing else.

A pattern is a tuple of component patterns below an anchor; ``**`` stands for any number of components,
zero included. A leading dot is an ordinary character.
"""

from collections.abc import Callable, Collection
from functools import lru_cache

from sandboxc.places import (
    MAX_COMPONENT,
    MAX_NAMES,
    MAX_PATH,
    WINDOWS,
    PathProblem,
    Place,
    Spelled,
    _bad_character,
    _decode,
    parse_place,
)
from sandboxc.records import NamedTuple

ANY_DEPTH = "**"
MAX_ALTERNATIVES = 64


class Glob(NamedTuple):
    """One brace-free pattern below an anchor, or floating until it is given its anchors.

    ``anchor`` is None for a floating pattern; ``within`` then says where it holds: ``writable`` or
    ``everywhere``. ``text`` is the text in the policy, braces and all. ``excepts`` are patterns below the
    same anchor whose matches, and everything below them, the glob leaves alone.
    """

    anchor: Place | None
    pattern: tuple[str, ...]
    text: str
    within: str = ""
    excepts: tuple[tuple[str, ...], ...] = ()

    def at(self, anchor: Place) -> "Glob":
        """Return the pattern anchored at a place."""
        return self._replace(anchor=anchor)

    def matches(self, parts: tuple[str, ...], fold: bool = False) -> bool:
        """Return whether the components below the anchor match the whole pattern and no exception."""
        if not match(self.pattern, parts, fold):
            return False
        return not any(match_prefix(spared, parts, fold) for spared in self.excepts)

    def describe(self) -> str:
        """Return the pattern with its anchor, for messages."""
        body = "/".join(self.pattern)
        return body if self.anchor is None else self.anchor.text().rstrip("/") + "/" + body


@lru_cache(maxsize=4096)
def component_regex(component: str) -> str:
    """Return the (Python) regular expression text of one component pattern (no ``**``), without anchors."""
    out: list[str] = []
    index = 0
    while index < len(component):
        char = component[index]
        if char == "*":
            out.append("[^/]*")
        elif char == "?":
            out.append("[^/]")
        elif char == "[":
            end = component.index("]", index + 2)
            out.append(_set_regex(component[index + 1 : end]))
            index = end
        else:
            out.append(quote_character(char))
        index += 1
    return "".join(out)


def quote_character(char: str) -> str:
    """Return a character as itself or, where a regular expression would read it, as a bracket class."""
    if char in ".*?+()[{}|$":
        return f"[{char}]"
    return "\\" + char if char in "\\^]" else char


def _set_regex(body: str) -> str:
    """Return the bracket class of a set; a name never holds ``/``, so no range of it may hold one either."""
    negated = body[0] in "!^"
    spans = _set_spans(body[1:] if negated else body)
    if negated:
        spans = _merge([*spans, ("/", "/")])
    else:
        spans = _without(spans, "/")
    # A bare `-`, `]`, `^` or backslash at the edge of a range would be read as syntax.
    singles = [char for char in "]-^\\" if any(low <= char <= high for low, high in spans)]
    for char in singles:
        spans = _without(spans, char)
    text = "".join(
        low if low == high else f"{low}{high}" if ord(high) - ord(low) == 1 else f"{low}-{high}" for low, high in spans
    )
    head = "]" if "]" in singles else ""
    tail = ("\\\\" if "\\" in singles else "") + ("\\^" if "^" in singles else "") + ("-" if "-" in singles else "")
    if not head + text + tail:
        return "[^\0-\U0010ffff]"  # only `/` was asked for
    return "[" + ("^" if negated else "") + head + text + tail + "]"


def _set_spans(members: str) -> list[tuple[str, str]]:
    spans: list[tuple[str, str]] = []
    index = 0
    while index < len(members):
        if members[index + 1 : index + 2] == "-" and index + 2 < len(members):
            spans.append((members[index], members[index + 2]))
            index += 3
        else:
            spans.append((members[index], members[index]))
            index += 1
    return _merge(spans)


def _merge(spans: list[tuple[str, str]]) -> list[tuple[str, str]]:
    merged: list[tuple[str, str]] = []
    for low, high in sorted(spans):
        if merged and ord(low) <= ord(merged[-1][1]) + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return merged


def _without(spans: list[tuple[str, str]], char: str) -> list[tuple[str, str]]:
    kept: list[tuple[str, str]] = []
    for low, high in spans:
        if not low <= char <= high:
            kept.append((low, high))
            continue
        if low < char:
            kept.append((low, chr(ord(char) - 1)))
        if char < high:
            kept.append((chr(ord(char) + 1), high))
    return kept


@lru_cache(maxsize=4096)
def component_test(component: str, fold: bool = False) -> Callable[[str], object]:
    """Return the question whether a name matches a component pattern (no ``**``), as a function of the name."""
    head, star, tail = component.partition("*")
    if star and not fold and not any(char in head + tail for char in "*?["):  # the form of nearly every pattern
        size = len(head) + len(tail)
        return lambda name: len(name) >= size and name.startswith(head) and name.endswith(tail)
    import re

    flags = re.DOTALL | (re.IGNORECASE if fold else 0)
    return re.compile(component_regex(component) + r"\Z", flags).match


def match_component(pattern: str, name: str, fold: bool = False) -> bool:
    """Return whether one name matches one component pattern."""
    if not any(char in pattern for char in "*?["):
        return pattern == name or (fold and pattern.casefold() == name.casefold())
    return bool(component_test(pattern, fold)(name))


def _step(pattern: tuple[str, ...], states: frozenset[int], name: str, fold: bool) -> frozenset[int]:
    after: set[int] = set()
    for state in states:
        if state >= len(pattern):
            continue
        if pattern[state] == ANY_DEPTH:
            after.add(state)
        elif match_component(pattern[state], name, fold):
            after.add(state + 1)
    return close(pattern, after)


def close(pattern: tuple[str, ...], states: Collection[int]) -> frozenset[int]:
    """Return the states reachable without reading a component (``**`` may stand for nothing)."""
    closed = set(states)
    for state in states:
        position = state
        while position < len(pattern) and pattern[position] == ANY_DEPTH:
            position += 1
            closed.add(position)
    return frozenset(closed)


def start(pattern: tuple[str, ...]) -> frozenset[int]:
    """Return the states of a pattern before any component was read."""
    return close(pattern, (0,))


def step(pattern: tuple[str, ...], states: frozenset[int], name: str, fold: bool = False) -> frozenset[int]:
    """Return the states after one more component; the pattern matches when ``len(pattern)`` is among them."""
    return _step(pattern, states, name, fold)


def match(pattern: tuple[str, ...], parts: tuple[str, ...], fold: bool = False) -> bool:
    """Return whether the components match the whole pattern."""
    states = start(pattern)
    for name in parts:
        states = _step(pattern, states, name, fold)
        if not states:
            return False
    return len(pattern) in states


def match_prefix(pattern: tuple[str, ...], parts: tuple[str, ...], fold: bool = False) -> bool:
    """Return whether the components, or a leading part of them, match the whole pattern."""
    states = start(pattern)
    if len(pattern) in states:
        return True
    for name in parts:
        states = _step(pattern, states, name, fold)
        if len(pattern) in states:
            return True
        if not states:
            return False
    return False


def parse_glob(
    text: str,
    within: str,
    flavour: str,
    parameters: Collection[str],
    excepts: tuple[str, ...] = (),
) -> tuple[Glob, ...] | PathProblem:
    """Return the brace-free patterns of a glob text (one for each alternative), or why it is refused.

    An anchored text starts at a root (``/``, ``~/``, ``${name}``, a drive); a floating one starts with
    ``**/`` and needs ``within``. The leading components without pattern characters become part of the anchor.
    """
    problem = _too_long(text) or _bad_character(text) or _bad_syntax(text)
    if problem:
        return problem
    floating = text.startswith("**/") or text == "**"
    if floating and not within:
        return PathProblem(
            "SBX331",
            "a pattern that starts with `**/` must say where it holds",
            "add `within: writable`",
            0,
            2,
        )
    if not floating and within:
        return PathProblem(
            "SBX332", "`within` goes with patterns that start with `**/`", "remove `within`", 0, len(text)
        )
    spared: list[tuple[str, ...]] = []
    for other in excepts:
        forms = parse_except(other, flavour)
        if isinstance(forms, PathProblem):
            return forms
        spared.extend(forms)
    found: list[Glob] = []
    for form in expand_braces(text):
        if floating:
            parts = _pattern_parts(form, text, flavour)
            if isinstance(parts, PathProblem):
                return parts
            found.append(Glob(None, parts, text, within, tuple(spared)))
            continue
        anchored = _anchor(form, text, flavour, parameters)
        if isinstance(anchored, PathProblem):
            return anchored
        anchor, parts = anchored
        found.append(Glob(anchor, parts, text, "", tuple(spared)))
    return tuple(found)


def parse_except(text: str, flavour: str) -> tuple[tuple[str, ...], ...] | PathProblem:
    """Return the patterns of an exception, each starting with ``**``, or why the text is refused.

    An exception has no root of its own: it holds wherever the glob that it belongs to holds.
    """
    problem = _too_long(text) or _bad_character(text) or _bad_syntax(text)
    if problem:
        return problem
    if text[0] in "/~" or text.startswith("${") or (flavour == WINDOWS and (text[0] == "\\" or text[1:2] == ":")):
        return PathProblem(
            "SBX335",
            "an exception has no root of its own",
            "start it with a name or with `**/`",
            0,
            len(text),
        )
    found: list[tuple[str, ...]] = []
    for form in expand_braces(text):
        parts = _pattern_parts(form, text, flavour)
        if isinstance(parts, PathProblem):
            return parts
        found.append(parts if parts[0] == ANY_DEPTH else (ANY_DEPTH, *parts))
    return tuple(found)


def _pattern_parts(form: str, text: str, flavour: str) -> tuple[str, ...] | PathProblem:
    """Return the component patterns of one alternative, with ``$$`` made one dollar."""
    body = form.replace("\\", "/") if flavour == WINDOWS else form
    parts: list[str] = []
    for name in body.split("/"):
        if not name or name == ".":
            continue
        if name == "..":
            return PathProblem("SBX321", "`..` cannot stand in a pattern", "write the path it means", 0, len(text))
        decoded = _decode(name, 0)
        if isinstance(decoded, PathProblem):
            at = max(text.find("$"), 0)
            return decoded._replace(offset=at, length=min(decoded.length, len(text) - at))
        problem = _bad_pattern_name(decoded, text, flavour)
        if problem:
            return problem
        if decoded != ANY_DEPTH or parts[-1:] != [ANY_DEPTH]:
            parts.append(decoded)
    if not parts:
        return PathProblem("SBX333", f"`{text}` holds no pattern", "use `path:` for a literal place", 0, len(text))
    if len(parts) > MAX_NAMES:
        return PathProblem("SBX322", f"the pattern has more than {MAX_NAMES} names", "shorten it", 0, len(text))
    return tuple(parts)


def _bad_pattern_name(name: str, text: str, flavour: str) -> PathProblem | None:
    if ANY_DEPTH in name and name != ANY_DEPTH:
        return PathProblem("SBX330", "`**` must be a whole name", "write `*` or `**/`", max(text.find("**"), 0), 2)
    if len(name.encode("utf-8", "surrogatepass")) > MAX_COMPONENT:
        return PathProblem(
            "SBX322", f"a name is longer than {MAX_COMPONENT} bytes", "no file can have it", 0, len(text)
        )
    if flavour == WINDOWS:
        for char in '<>:"|':
            if char in name:
                return PathProblem(
                    "SBX323",
                    f"`{char}` cannot stand in a Windows name",
                    "add `when: {os: [linux, macos]}`",
                    text.index(char),
                    1,
                )
    return None


def _anchor(
    form: str, text: str, flavour: str, parameters: Collection[str]
) -> tuple[Place, tuple[str, ...]] | PathProblem:
    """Return the literal head of one alternative as a place, and the pattern components behind it."""
    names = (form.replace("\\", "/") if flavour == WINDOWS else form).split("/")
    head: list[str] = []
    for name in names:
        if head and any(char in name for char in "*?["):
            break
        head.append(name)
    literal = "/".join(head)
    if any(char in literal.replace("${", "") for char in "*?["):
        return PathProblem(
            "SBX333",
            f"`{text}` must start at a root",
            "start it with `/`, `~/` or `${workspace}/`, or with `**/` and say `within: writable`",
            0,
            len(text),
        )
    spelled = parse_place(literal or "/", flavour, parameters)
    if not isinstance(spelled, Spelled):
        return spelled if form == text else spelled._replace(offset=0, length=len(text))
    if not any(name and name != "." for name in names[len(head) :]):
        if not spelled.place.parts:
            return PathProblem("SBX333", f"`{text}` holds no pattern", "use `path:` for a literal place", 0, len(text))
        return spelled.place.parent, (spelled.place.parts[-1],)
    tail = _pattern_parts("/".join(names[len(head) :]), text, flavour)
    return tail if isinstance(tail, PathProblem) else (spelled.place, tail)


def _too_long(text: str) -> PathProblem | None:
    if len(text) > MAX_PATH:
        return PathProblem(
            "SBX322", f"the pattern is longer than {MAX_PATH} characters", "split the entry", 0, len(text)
        )
    return None


def _bad_syntax(text: str) -> PathProblem | None:
    if not text:
        return PathProblem("SBX310", "the pattern is empty", "write a pattern, or remove the entry", 0, 0)
    depth = 0
    index = 0
    while index < len(text):
        char = text[index]
        if text.startswith("${", index):
            index = max(index + 2, text.find("}", index) + 1)
            continue
        if char == "[":
            end = text.find("]", index + 2)
            body = text[index + 1 : end]
            if end < 0 or "/" in body or "[" in body or body in ("!", "^"):
                return PathProblem("SBX330", "`[` is not closed in its name", "close the set with `]`", index, 1)
            problem = _bad_range(body, index)
            if problem:
                return problem
            index = end
        elif char == "{":
            depth += 1
            if depth > 1:
                return PathProblem("SBX330", "alternatives do not nest", "write the alternatives out", index, 1)
        elif char == "}":
            depth -= 1
            if depth < 0:
                return PathProblem("SBX330", "`}` closes nothing", "use `path:` for a literal brace", index, 1)
        elif char == "*" and text.startswith("**", index):
            before = text[index - 1] if index else "/"
            after = text[index + 2 : index + 3] or "/"
            if before not in "/{," or after not in "/},":
                return PathProblem("SBX330", "`**` must be a whole name", "write `*` or `**/`", index, 2)
            index += 1
        index += 1
    if depth:
        return PathProblem("SBX330", "`{` is not closed", "close the alternatives with `}`", text.index("{"), 1)
    # NUL, which no text holds, stands for the `**` that were written: two stars may not meet at a brace.
    forms = expand_braces(text.replace("**", "\0"))
    if any("**" in form for form in forms):
        return PathProblem(
            "SBX330", "`**` must be a whole name", "two `*` meet where alternatives are put in", 0, len(text)
        )
    if len(forms) > MAX_ALTERNATIVES:
        return PathProblem(
            "SBX334",
            f"the pattern has more than {MAX_ALTERNATIVES} alternatives",
            "split the entry",
            0,
            len(text),
        )
    return None


def _bad_range(body: str, index: int) -> PathProblem | None:
    members = body[1:] if body[0] in "!^" else body
    for position in range(1, len(members) - 1):
        if members[position] == "-" and members[position - 1] > members[position + 1]:
            return PathProblem("SBX330", "a range in `[` runs backwards", "swap its ends", index, 1)
    return None


def expand_braces(text: str) -> tuple[str, ...]:
    """Return the texts that ``{a,b}`` stands for, in the order written; ``${name}`` and sets are left alone.

    At most one text more than ``MAX_ALTERNATIVES`` is returned.
    """
    found = [""]
    for choices in _segments(text):
        found = [head + choice for head in found for choice in choices][: MAX_ALTERNATIVES + 1]
    return tuple(found)


def pattern_size(text: str) -> int:
    """Return how many names the alternatives of a text have together: what reading the pattern costs."""
    if len(text) > MAX_PATH:
        return 1  # refused unread
    count = 1
    for choices in _segments(text):
        count = min(count * len(choices), MAX_ALTERNATIVES)
    return count * (text.count("/") + 1)


def _segments(text: str) -> list[list[str]]:
    """Return the text cut at its braces: a list of one for what is literal, of several for alternatives."""
    segments: list[list[str]] = []
    literal = ""
    choices: list[str] | None = None
    index = 0
    while index < len(text):
        char = text[index]
        step = 1
        if text.startswith("${", index):
            step = max(2, text.find("}", index) + 1 - index)
        elif char == "[":
            step = max(1, text.find("]", index + 2) + 1 - index)
        if step == 1 and char == "{" and choices is None:
            segments.append([literal])
            choices, literal = [], ""
        elif step == 1 and char in ",}" and choices is not None:
            choices.append(literal)
            literal = ""
            if char == "}":
                segments.append(choices)
                choices = None
        else:
            literal += text[index : index + step]
        index += step
    segments.append([literal])
    return segments

"""Component patterns as Seatbelt regular expressions, and as atoms that the profile matches at load.

A regular expression sees bytes. It is built from bracket classes; a backslash stands only before ``[``, ``\\``
and ``^``, which no bracket class can hold in every dialect. Letters become classes where a volume folds case.
"""

from collections.abc import Iterator

from sandboxc.emitters.seatbelt.printer import form, string
from sandboxc.records import NamedTuple

_LAST = 0x10FFFF
_ESCAPED = "[\\^"
_BRACKETED = "$()*+.?]{|}"
#: Where a UTF-8 sequence grows by one byte, and the surrogates, which no text holds.
_BOUNDS = (0x7F, 0x7FF, 0xFFFF, _LAST)

#: The bytes that go on with a character, as a range of a bracket class.
_CONTINUATION = "\udc80-\udcbf"

Span = tuple[int, int]


class Token(NamedTuple):
    """One component pattern: the regular expression, and a literal key or the Scheme text of its atoms."""

    regex: str
    key: str | None
    atoms: str


def fold_name(name: str, fold: bool) -> str:
    """Return what is equal for names that a folding volume takes for one."""
    return name.casefold() if fold else name


def load_key(name: str, fold: bool) -> str:
    """Return the key under which the profile compares a name when it is loaded: ASCII letters in lower case."""
    return "".join(char.lower() if char.isascii() else char for char in name) if fold else name


def token(component: str, fold: bool) -> Token:
    """Return the two forms of one component pattern (``**`` is none)."""
    regex: list[str] = []
    atoms: list[str] = []
    wild = False
    index = 0
    while index < len(component):
        char = component[index]
        if char == "*":
            regex.append("[^/]*" if regex[-1:] != ["[^/]*"] else "")
            atoms.append("any")
        elif char == "?":
            regex.append(_negated(()))
            atoms.append("one")
        elif char == "[":
            end = component.index("]", index + 2)
            negated, spans = _set(component[index + 1 : end], fold)
            regex.append(_negated(spans) if negated else _positive(spans))
            bounds = " ".join(f"{low} {high}" for low, high in spans)
            atoms.append(f"({'out' if negated else 'in'} {bounds})")
            index = end
        else:
            regex.append(_literal(char, fold))
            atoms.append(_atom(char, fold))
            index += 1
            continue
        wild = True
        index += 1
    text = "".join(regex)
    if not wild:
        return Token(text, load_key(component, fold), "")
    return Token(text, None, "(" + " ".join(atoms) + ")")


def token_text(item: Token) -> str:
    """Return the Scheme expression of a token: a pair of its regular expression and its matcher."""
    return form("cons", string(item.regex), matcher_text(item))


def matcher_text(item: Token) -> str:
    """Return the Scheme expression of what a name is compared with: a text or quoted atoms."""
    return string(item.key) if item.key is not None else "'" + item.atoms


def literal_regex(name: str, fold: bool) -> str:
    """Return the regular expression of a literal name."""
    return "".join(_literal(char, fold) for char in name)


def _literal(char: str, fold: bool) -> str:
    if char in _ESCAPED:
        return "\\" + char
    if char in _BRACKETED:
        return f"[{char}]"
    if fold:
        other = char.swapcase()
        if other != char and len(other) == 1 and other.swapcase() == char:
            low, high = sorted((char, other), reverse=True)
            return f"[{low}{high}]" if char.isascii() else f"({low}|{high})"
    return char


def _atom(char: str, fold: bool) -> str:
    other = char.swapcase()
    if fold and not char.isascii() and len(other) == 1 and other != char:
        return f"(in {ord(char)} {ord(char)} {ord(other)} {ord(other)})"
    return str(ord(load_key(char, fold)))


def _set(body: str, fold: bool) -> tuple[bool, tuple[Span, ...]]:
    """Return whether a set is negated, and its members as sorted spans of code points without ``/``."""
    negated = body[0] in "!^"
    members = body[1:] if negated else body
    spans: list[Span] = []
    index = 0
    while index < len(members):
        low = high = members[index]
        if members[index + 1 : index + 2] == "-" and index + 2 < len(members):
            high = members[index + 2]
            index += 2
        index += 1
        spans.append((ord(low), ord(high)))
        if fold:
            spans += _other_case(ord(low), ord(high))
    return negated, tuple(_without(_merged(spans), ord("/")))


def _other_case(low: int, high: int) -> Iterator[Span]:
    for first, last, shift in ((0x41, 0x5A, 32), (0x61, 0x7A, -32)):
        start, end = max(low, first), min(high, last)
        if start <= end:
            yield (start + shift, end + shift)
    for point in range(max(low, 0x80), min(high, 0x24FF) + 1):
        other = chr(point).swapcase()
        if len(other) == 1 and ord(other) != point:
            yield (ord(other), ord(other))


def _merged(spans: list[Span]) -> list[Span]:
    found: list[Span] = []
    for low, high in sorted(spans):
        if found and low <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(high, found[-1][1]))
        else:
            found.append((low, high))
    return found


def _without(spans: list[Span], point: int) -> Iterator[Span]:
    for low, high in spans:
        if not low <= point <= high:
            yield (low, high)
            continue
        if low < point:
            yield (low, point - 1)
        if point < high:
            yield (point + 1, high)


def _negated(spans: tuple[Span, ...]) -> str:
    """Return an expression for one character that is neither ``/`` nor a member of the spans."""
    taken = _merged([*spans, (ord("/"), ord("/"))])
    parts = [part for span in taken for part in _apart(span)]
    if any(chr(edge) in "[\\" or edge > 0x7F for part in parts for edge in part):
        return _positive(tuple(_free(taken)))
    # A character is one byte, or a leading byte and the continuation bytes behind it.
    return _bracket(taken, "^", _CONTINUATION) + f"[{_CONTINUATION}]*"


def _free(taken: list[Span]) -> Iterator[Span]:
    start = 1
    for low, high in taken:
        if start < low:
            yield (start, low - 1)
        start = high + 1
    if start <= _LAST:
        yield (start, _LAST)


def _positive(spans: tuple[Span, ...]) -> str:
    choices: list[str] = []
    plain = [(low, min(high, 0x7F)) for low, high in spans if low <= 0x7F]
    if plain:
        inner = [part for span in plain for part in _outside(span)]
        if inner:
            choices.append(_bracket(inner))
        choices += [_literal(char, False) for char in _ESCAPED if any(a <= ord(char) <= b for a, b in plain)]
    for low, high in spans:
        choices += [_sequence(parts) for parts in _utf8(max(low, 0x80), high)]
    if not choices:
        return f"[^\x01-{_byte(0xFF)}]"  # only `/` was asked for: nothing matches
    return choices[0] if len(choices) == 1 else "(" + "|".join(choices) + ")"


def _outside(span: Span) -> list[Span]:
    """Return a span without the characters that a bracket class cannot hold."""
    found = [span]
    for char in _ESCAPED:
        found = [part for each in found for part in _without([each], ord(char))]
    return found


def _bracket(spans: list[Span], mark: str = "", more: str = "") -> str:
    """Return a bracket class of ASCII spans: ``]`` first, ``-`` last, ranges otherwise."""
    head = tail = body = ""
    for low, high in (part for span in spans for part in _apart(span)):
        first, last = chr(low), chr(high)
        if first == last == "]":
            head = "]"
        elif first == last == "-":
            tail = "-"
        elif low == high:
            body += first
        else:
            body += first + ("-" if high - low > 1 else "") + last
    return f"[{mark}{head}{body}{more}{tail}]"


def _apart(span: Span) -> list[Span]:
    """Return a span with ``]`` and ``-`` as parts of their own, as neither may end a range."""
    found = [span]
    for char in "]-":
        point = ord(char)
        parts: list[Span] = []
        for low, high in found:
            if low <= point <= high:
                parts += [(point, point), *_without([(low, high)], point)]
            else:
                parts.append((low, high))
        found = parts
    return found


def _utf8(low: int, high: int) -> Iterator[list[Span]]:
    """Yield byte ranges, one list a sequence, that together are the UTF-8 forms of a span."""
    if low > high:
        return
    if low <= 0xDFFF and high >= 0xD800:
        yield from _utf8(low, 0xD7FF)
        yield from _utf8(0xE000, high)
        return
    for bound in _BOUNDS:
        if low <= bound < high:
            yield from _utf8(low, bound)
            yield from _utf8(bound + 1, high)
            return
    for shift in (6, 12, 18):
        mask = (1 << shift) - 1
        if low >> shift != high >> shift:
            if low & mask:
                yield from _utf8(low, low | mask)
                yield from _utf8((low | mask) + 1, high)
                return
            if high & mask != mask:
                yield from _utf8(low, (high & ~mask) - 1)
                yield from _utf8(high & ~mask, high)
                return
    yield list(zip(chr(low).encode(), chr(high).encode(), strict=True))


def _sequence(parts: list[Span]) -> str:
    return "".join(_byte(a) if a == b else f"[{_byte(a)}-{_byte(b)}]" for a, b in parts)


def _byte(value: int) -> str:
    """Return a byte as a character: itself in ASCII, above it the lone surrogate that the printer escapes."""
    return chr(value) if value < 0x80 else chr(0xDC00 + value)

"""Printing SBPL: strings, symbols and forms. Nothing else in this package writes a quote or an escape."""

from collections.abc import Iterable

#: The readers known to embed TinyScheme refuse a string literal of more bytes.
MAX_LITERAL = 255


def string(text: str) -> str:
    """Return a text as an SBPL expression: one literal, or several joined at load where it is long.

    The double quote, the backslash and bytes that are no UTF-8 are escaped; all others stand for themselves.
    What is measured is the text with its escapes, the stricter of two readings of the limit.
    """
    pieces: list[str] = []
    piece, size = "", 0
    for char in text:
        if char in '"\\':
            shown = "\\" + char
        elif 0xDC80 <= ord(char) <= 0xDCFF:  # a byte that is no text by itself
            shown = f"\\x{ord(char) - 0xDC00:02x}"
        else:
            shown = char
        width = len(shown.encode())
        if size + width > MAX_LITERAL - 5:
            pieces.append(piece)
            piece, size = "", 0
        piece += shown
        size += width
    pieces.append(piece)
    quoted = [f'"{each}"' for each in pieces]
    return quoted[0] if len(quoted) == 1 else form("string-append", *quoted)


def form(head: str, *parts: str) -> str:
    """Return ``(head part ...)``."""
    return "(" + " ".join((head, *parts)) + ")"


def quoted_list(parts: Iterable[str]) -> str:
    """Return ``(list part ...)``, or the empty list."""
    items = tuple(parts)
    return form("list", *items) if items else "'()"


def filter_text(spec: object) -> str:
    """Return the SBPL of a filter written as data: ``["global-name", "x"]``, ``["target", {"symbol": "self"}]``.

    Raises ValueError for any other shape, which is a fault of the packaged data.
    """
    if isinstance(spec, str):
        return string(spec)
    if isinstance(spec, bool):
        raise ValueError(f"packaged filter {spec!r}")
    if isinstance(spec, int):
        return str(spec)
    if isinstance(spec, dict) and set(spec) == {"symbol"}:
        return str(spec["symbol"])
    if isinstance(spec, list) and spec and isinstance(spec[0], str):
        return form(spec[0], *(filter_text(part) for part in spec[1:]))
    raise ValueError(f"packaged filter {spec!r}")


def comment_word(text: str) -> str:
    """Return a text cut down to letters, digits and ``._-``, so that no comment carries anything else."""
    kept = "".join(char if char.isascii() and (char.isalnum() or char in "._-") else "-" for char in text)
    return kept[:64]

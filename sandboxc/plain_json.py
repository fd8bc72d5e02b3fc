"""JSON on the way of a confined run, without the standard library's package.

That package imports ``re``, which imports ``enum``: together as long as everything else that a run imports from the
standard library. What does its work are C functions that need neither; where an interpreter lacks them, the package
is used.
"""

from collections.abc import Callable

from sandboxc.records import Any

_scanner: Any
try:
    from _json import encode_basestring_ascii, make_scanner

    _scanner = make_scanner
except ImportError:  # not CPython
    from json import JSONDecoder
    from json.encoder import encode_basestring_ascii

    def _scanner(options: "_Options") -> Any:
        decoder: Any = JSONDecoder(object_pairs_hook=options.object_pairs_hook, parse_constant=options.parse_constant)
        return decoder.scan_once


_BLANKS = " \t\n\r"


class _Options:
    """The attributes that a scanner reads, as ``json.JSONDecoder`` has them."""

    strict = True
    object_hook = None
    parse_float = float
    parse_int = int

    def __init__(self, pairs: Callable[..., Any] | None, constant: Callable[[str], Any] | None) -> None:
        self.object_pairs_hook = pairs
        self.parse_constant = (
            constant or {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": -float("inf")}.get
        )


def decode(text: str, pairs: Callable[..., Any] | None = None, constant: Callable[[str], Any] | None = None) -> Any:
    """Return the value of a JSON text (RFC 8259).

    Args:
        text: the text; blanks around it are skipped.
        pairs: makes an object's value from the list of its (key, value) pairs; None makes a dictionary.
        constant: makes the value of ``NaN``, ``Infinity`` and ``-Infinity``; None makes the floating-point numbers.

    Raises:
        ValueError: it is not JSON.
        RecursionError: it is nested too deeply.
    """
    start = len(text) - len(text.lstrip(_BLANKS))
    try:
        try:
            value, end = _scanner(_Options(pairs, constant))(text, start)
        except SystemError:  # the scanner finds the class of its error in a module that has to be loaded
            import json.decoder  # noqa: F401

            value, end = _scanner(_Options(pairs, constant))(text, start)
    except StopIteration:
        raise ValueError("Expecting value") from None
    if text[end:].strip(_BLANKS):
        raise ValueError("Extra data")
    return value


def encode(value: str | int | list[Any] | tuple[Any, ...] | dict[str, Any]) -> str:
    """Return texts, integers, and arrays and objects of these as JSON on one line, in ASCII.

    Raises:
        TypeError: something else is in it.
    """
    if isinstance(value, str):
        return encode_basestring_ascii(value)
    if type(value) is int:
        return str(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(encode, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join([f"{encode_basestring_ascii(key)}: {encode(item)}" for key, item in value.items()]) + "}"
    raise TypeError(f"no JSON is written for {type(value).__name__}")

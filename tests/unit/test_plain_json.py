"""The JSON of a confined run: the same as the standard library's, without importing it."""

import json
import subprocess
import sys
from typing import Any

import pytest

from sandboxc.plain_json import decode, encode

GOOD = ('{"a": [1, -2.5e3, true, null, "\\u00e9\\udc80"]}', ' \t\r\n"x" \n', "[]", "{}", "12", "NaN")
BAD = ("", "[1,", '{"a" 1}', "[1] 2", "nope", "01", "'a'", "\ufeff1", '"\n"', '{"a": 1,}')


@pytest.mark.parametrize("text", GOOD)
def test_decodes_as_the_standard_library_does(text: str) -> None:
    """A good text has the value that ``json`` gives it."""
    assert repr(decode(text)) == repr(json.loads(text))


@pytest.mark.parametrize("text", BAD)
def test_refuses_what_the_standard_library_refuses(text: str) -> None:
    """A bad text is a ValueError, as for ``json``, in an interpreter that has not loaded that package too."""
    with pytest.raises(ValueError):
        json.loads(text)
    with pytest.raises(ValueError):
        decode(text)
    code = (
        "import sys\nfrom sandboxc.plain_json import decode\n"
        "try:\n    decode(sys.argv[1])\nexcept ValueError:\n    sys.exit(7)\n"
    )
    assert subprocess.run([sys.executable, "-c", code, text], check=False).returncode == 7


def test_hooks_see_pairs_and_constants() -> None:
    """The hooks get every pair of an object, repeated keys too, and the words that are no JSON numbers."""
    assert decode('{"a": 1, "a": 2}', list) == [("a", 1), ("a", 2)]
    assert decode("[-Infinity]", None, str) == ["-Infinity"]


def test_nesting_without_end_is_an_error() -> None:
    """A text that is nested too deeply raises RecursionError and breaks nothing."""
    with pytest.raises(RecursionError):
        decode("[" * 200_000)


def test_encodes_as_the_standard_library_does() -> None:
    """Texts (lone surrogates too), integers, arrays and objects are written as ``json`` writes them."""
    values: list[Any] = ['é\n"\udc80', 12, [1, ["a"]], {"a": "b", "c": {"d": [3]}}]
    for value in values:
        assert encode(value) == json.dumps(value)


@pytest.mark.parametrize("value", [True, 1.5, None])
def test_encodes_nothing_else(value: Any) -> None:
    """What the run time never writes is refused."""
    with pytest.raises(TypeError):
        encode(value)

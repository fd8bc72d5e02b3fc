"""Glob patterns: what they match, and which texts are refused."""

import re
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandboxc.globs import (
    MAX_ALTERNATIVES,
    Glob,
    component_regex,
    component_test,
    expand_braces,
    match,
    match_component,
    match_prefix,
    parse_except,
    parse_glob,
    start,
    step,
)
from sandboxc.places import BUILTIN_PARAMETERS, POSIX, WINDOWS, PathProblem, Place, posix


def globs(text: str, within: str = "", flavour: str = POSIX, excepts: tuple[str, ...] = ()) -> tuple[Glob, ...]:
    """Return the patterns of a text that is understood."""
    found = parse_glob(text, within, flavour, BUILTIN_PARAMETERS, excepts)
    assert not isinstance(found, PathProblem), found
    return found


def problem(text: str, within: str = "", flavour: str = POSIX) -> tuple[str, str, str]:
    """Return (code, message, text at fault) of a text that is refused."""
    found = parse_glob(text, within, flavour, BUILTIN_PARAMETERS)
    assert isinstance(found, PathProblem), found
    return found.code, found.message, text[found.offset : found.offset + found.length]


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("*", ["", "a", ".a", "a b", "\n"], []),
        ("*.key", [".key", "a.key"], ["key", "a.keys", "a.key\n"]),
        ("?", ["a", ".", "é", "\n"], ["", "ab"]),
        ("[abc]", ["a", "c"], ["d", "ab", ""]),
        ("[a-c]x", ["ax", "cx"], ["dx"]),
        ("[!a-c]", ["d", "-", "!"], ["a", "/"]),
        ("[^a-c]", ["d"], ["b", "/"]),
        ("[]]", ["]"], ["["]),
        ("[]a]", ["]", "a"], ["b"]),
        ("[a-]", ["a", "-"], ["b"]),
        ("[-a]", ["a", "-"], ["b"]),
        ("[a^]", ["a", "^"], ["b"]),
        ("[\\a]", ["\\", "a"], ["b"]),
        ("[+-9]", ["+", "-", ".", "0", "9"], ["/", "a"]),
        ("[&&]", ["&"], ["a"]),
        ("[~~||]", ["~", "|"], ["a"]),
        ("[--.]", ["-", "."], ["/", "a"]),
        ("[+--]", ["+", ",", "-"], ["."]),
        ("a.b", ["a.b"], ["axb"]),
        ("a+(b)|^$\\", ["a+(b)|^$\\"], ["aab"]),
        ("a**", ["a", "ab"], ["b"]),
    ],
)
def test_component(pattern: str, yes: list[str], no: list[str]) -> None:
    """A component pattern matches whole names only."""
    assert [name for name in yes if not match_component(pattern, name)] == []
    assert [name for name in no if match_component(pattern, name)] == []


def test_component_folds_case_only_when_asked() -> None:
    """Case is folded for literal and for pattern components alike, when the target folds it."""
    for pattern in ("env", "e*", "[e]nv"):
        assert match_component(pattern, "ENV", fold=True)
        assert not match_component(pattern, "ENV")


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="abyz-]^!\\&~|/.+09", min_size=1, max_size=6), st.characters(codec="utf-8"))
def test_set_agrees_with_a_plain_reading(body: str, char: str) -> None:
    """A set matches what a reading of its members one by one says, without a warning from ``re``."""
    text = f"/r/[{body}]"
    found = parse_glob(text, "", POSIX, ())
    if (
        isinstance(found, PathProblem)
        or "]" in body[1:]
        or "/" in body
        or len(found) != 1
        or found[0].pattern != (f"[{body}]",)
    ):
        return
    negated = body[0] in "!^"
    members = body[1:] if negated else body
    inside, index = False, 0
    while index < len(members):
        if members[index + 1 : index + 2] == "-" and index + 2 < len(members):
            inside |= members[index] <= char <= members[index + 2]
            index += 3
        else:
            inside |= members[index] == char
            index += 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert match_component(f"[{body}]", char) == (char != "/" and inside != negated)


def test_regex_never_crosses_a_separator() -> None:
    """The regular expression of a component never matches a slash, so that whole paths can be matched by it."""
    for pattern in ("*", "?", "[!a]", "[+-9]", "[ -~]", "[.-0]"):
        assert not re.fullmatch(component_regex(pattern), "/"), pattern


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("**/.env", [".env", "a/.env", "a/b/.env"], ["", ".env/a", "a"]),
        ("a/**", ["a", "a/b", "a/b/c"], ["", "b"]),
        ("a/**/b", ["a/b", "a/x/b", "a/x/y/b"], ["a", "b", "a/b/x"]),
        ("**", ["", "a", "a/b"], []),
        ("**/a/**/b/**", ["a/b", "x/a/y/b/z"], ["b/a", "a"]),
        ("*/b", ["a/b", ".x/b"], ["b", "a/a/b"]),
    ],
)
def test_whole_pattern(pattern: str, yes: list[str], no: list[str]) -> None:
    """``**`` stands for any number of names, zero included."""
    parts = tuple(pattern.split("/"))
    for texts, expected in ((yes, True), (no, False)):
        for text in texts:
            names = tuple(text.split("/")) if text else ()
            assert match(parts, names) is expected, text
            states = start(parts)
            for name in names:
                states = step(parts, states, name)
            assert (len(parts) in states) is expected, text


def test_match_prefix() -> None:
    """A leading part that matches is enough."""
    assert match_prefix(("a", "*"), ("a", "b", "c"))
    assert not match_prefix(("a", "*"), ("a",))
    assert match_prefix(("**",), ())


@pytest.mark.parametrize(
    ("text", "within", "expected"),
    [
        ("/etc/*.conf", "", [(posix("/etc"), ("*.conf",))]),
        ("~/.config/{gh,x}", "", [(Place("home", (".config",)), (name,)) for name in ("gh", "x")]),
        ("${workspace}/**/*.key", "", [(Place("workspace", ()), ("**", "*.key"))]),
        ("/a/../b/*", "", [(posix("/b"), ("*",))]),
        ("/a/*/./b//c", "", [(posix("/a"), ("*", "b", "c"))]),
        ("**/.env", "writable", [(None, ("**", ".env"))]),
        ("**/**/x", "everywhere", [(None, ("**", "x"))]),
        ("**", "everywhere", [(None, ("**",))]),
        ("/$$a/*$$b", "", [(posix("/$a"), ("*$b",))]),
        ("/x[{,}]y", "", [(posix("/"), ("x[{,}]y",))]),
        ("/{a,[,]}", "", [(posix("/"), ("a",)), (posix("/"), ("[,]",))]),
        ("/a{,b}", "", [(posix("/"), ("a",)), (posix("/"), ("ab",))]),
        ("/{a,b}/{c,d}*", "", [(posix(f"/{x}"), (f"{y}*",)) for x in "ab" for y in "cd"]),
    ],
)  # fmt: skip
def test_anchor_and_pattern(text: str, within: str, expected: list[tuple[Place | None, tuple[str, ...]]]) -> None:
    """The literal head becomes the anchor, the rest the pattern, one for each alternative."""
    found = globs(text, within)
    assert [(item.anchor, item.pattern) for item in found] == expected
    assert {item.text for item in found} == {text}


def test_windows_globs() -> None:
    """Both separators count on Windows, in floating patterns too."""
    assert [(g.anchor, g.pattern) for g in globs("C:\\Users\\*\\keys", flavour=WINDOWS)] == [
        (Place("C:", ("Users",)), ("*", "keys"))
    ]
    assert globs("**/a\\b", "writable", WINDOWS)[0].pattern == ("**", "a", "b")
    assert problem("C:/a/*:b", flavour=WINDOWS)[0] == "SBX323"
    assert problem("/a/*", flavour=WINDOWS)[0] == "SBX319"


@pytest.mark.parametrize(
    ("text", "within", "expected"),
    [
        ("", "", ("SBX310", "the pattern is empty", "")),
        ("/a\n*", "", ("SBX312", "the path contains the control character U+000A", "\n")),
        ("a/*", "", ("SBX313", "`a` is relative", "a")),
        ("~root/*", "", ("SBX314", "`~root` names another user's home", "~root")),
        ("${hmoe}/*", "", ("SBX315", "unknown parameter `hmoe`", "${hmoe}")),
        ("/*/$HOME", "", ("SBX316", "a `$` before a name has no braces", "$H")),
        ("**/${home}/x", "writable", ("SBX317", "a parameter may only stand at the start of a path", "${")),
        ("/a/*/../b", "", ("SBX321", "`..` cannot stand in a pattern", "/a/*/../b")),
        ("**/../b", "writable", ("SBX321", "`..` cannot stand in a pattern", "**/../b")),
        ("/[ab", "", ("SBX330", "`[` is not closed in its name", "[")),
        ("/[]", "", ("SBX330", "`[` is not closed in its name", "[")),
        ("/[!]]", "", ("SBX330", "`[` is not closed in its name", "[")),
        ("/[a/b]", "", ("SBX330", "`[` is not closed in its name", "[")),
        ("/[z-a]", "", ("SBX330", "a range in `[` runs backwards", "[")),
        ("/{a", "", ("SBX330", "`{` is not closed", "{")),
        ("/a}", "", ("SBX330", "`}` closes nothing", "}")),
        ("/{a,{b}}", "", ("SBX330", "alternatives do not nest", "{")),
        ("/a**", "", ("SBX330", "`**` must be a whole name", "**")),
        ("/x{**,a}", "", ("SBX330", "`**` must be a whole name", "**")),
        ("/{*,a}*", "", ("SBX330", "`**` must be a whole name", "/{*,a}*")),
        ("**/x", "", ("SBX331", "a pattern that starts with `**/` must say where it holds", "**")),
        ("/a/*", "writable", ("SBX332", "`within` goes with patterns that start with `**/`", "/a/*")),
        ("*.key", "", ("SBX333", "`*.key` must start at a root", "*.key")),
        ("~", "", ("SBX333", "`~` holds no pattern", "~")),
        ("/{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}", "",
         ("SBX334", "the pattern has more than 64 alternatives", "/{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}")),
    ],
)  # fmt: skip
def test_refusals(text: str, within: str, expected: tuple[str, str, str]) -> None:
    """Each refusal has its code, message, and the offset of what is wrong."""
    assert problem(text, within) == expected


def test_expansion_is_capped() -> None:
    """The number of alternatives is bounded whatever the text, and thousands of braces do not recurse."""
    assert len(expand_braces("{a,b}" * 2000)) == MAX_ALTERNATIVES + 1
    assert expand_braces("{a}" * 5000) == ("a" * 5000,)
    assert expand_braces("${x}{a,b}") == ("${x}a", "${x}b")


def test_exceptions() -> None:
    """An exception spares what it matches and everything below, wherever the glob holds."""
    (glob,) = globs("**/.env*", "writable", excepts=(".env.example", "**/fixtures/**", "{a,b}/x"))
    assert glob.matches((".env",))
    assert not glob.matches((".env.example",))
    assert not glob.matches(("sub", ".env.example"))
    assert not glob.matches(("fixtures", "deep", ".env"))
    assert len(glob.excepts) == 4


@pytest.mark.parametrize("text", ["/a", "~/a", "${home}/a", "~"])
def test_exceptions_have_no_root(text: str) -> None:
    """An exception with a root is refused, not read as if it had none."""
    found = parse_except(text, POSIX)
    assert isinstance(found, PathProblem)
    assert (found.code, found.message) == ("SBX335", "an exception has no root of its own")


def test_a_dollar_name_in_an_exception_is_refused() -> None:
    """The rules for dollars hold in exceptions too."""
    found = parse_except("$HOME", POSIX)
    assert isinstance(found, PathProblem)
    assert found.code == "SBX316"


def test_describe() -> None:
    """A pattern is described with its anchor."""
    assert [item.describe() for item in globs("/etc/*.conf")] == ["/etc/*.conf"]
    assert [item.describe() for item in globs("/*")] == ["/*"]
    assert globs("**/x", "writable")[0].at(posix("/w")).describe() == "/w/**/x"


@given(st.text("ab.*", min_size=1, max_size=5), st.text("ab.", max_size=6))
def test_one_star_is_tested_as_its_regular_expression_says(pattern: str, name: str) -> None:
    """The test that goes without a regular expression answers as the expression does."""
    expected = re.fullmatch(component_regex(pattern), name, re.DOTALL) is not None
    assert bool(component_test(pattern)(name)) is expected

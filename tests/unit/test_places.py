"""Path texts and what they name, in both flavours."""

import pytest

from sandboxc.places import (
    BUILTIN_PARAMETERS,
    POSIX,
    WINDOWS,
    PathProblem,
    Place,
    Spelled,
    edit_distance,
    nearest_help,
    parse_place,
    posix,
    problem_diagnostic,
)
from sandboxc.source import SourceFile, Span

NAMES = (*BUILTIN_PARAMETERS, "cache")


def place(text: str, flavour: str = POSIX, relative_to: Place | None = None) -> Place:
    """Return the place of a text that is understood."""
    found = parse_place(text, flavour, NAMES, relative_to)
    assert isinstance(found, Spelled), found
    return found.place


def problem(text: str, flavour: str = POSIX, relative_to: Place | None = None) -> tuple[str, str, str, str]:
    """Return (code, message, help, text at fault) of a text that is refused."""
    found = parse_place(text, flavour, NAMES, relative_to)
    assert isinstance(found, PathProblem), found
    return found.code, found.message, found.help, text[found.offset : found.offset + found.length]


@pytest.mark.parametrize(
    ("text", "root", "parts"),
    [
        ("/", "", ()),
        ("/a/b", "", ("a", "b")),
        ("/a//b/", "", ("a", "b")),
        ("/a/./b", "", ("a", "b")),
        ("/a/../b", "", ("b",)),
        ("//a", "", ("a",)),
        ("~", "home", ()),
        ("~/", "home", ()),
        ("~/x", "home", ("x",)),
        ("/~/x", "", ("~", "x")),
        ("${workspace}", "workspace", ()),
        ("${workspace}/x/..", "workspace", ()),
        ("${cache}/x", "cache", ("x",)),
        ("/a b/c\\d", "", ("a b", "c\\d")),
        ("/[a]*?{b}", "", ("[a]*?{b}",)),
        ("/$$HOME/$1/a$", "", ("$HOME", "$1", "a$")),
        ("$$x", None, ()),
        ("/...", "", ("...",)),
        ("/日本", "", ("日本",)),
        ("/" + "x" * 255, "", ("x" * 255,)),
    ],
)
def test_posix_text(text: str, root: str | None, parts: tuple[str, ...]) -> None:
    """Each POSIX text names the place that it says."""
    if root is None:
        assert problem(text)[0] == "SBX313"
    else:
        assert place(text) == Place(root, parts)


@pytest.mark.parametrize(
    ("text", "root", "parts"),
    [
        ("C:\\a\\b", "C:", ("a", "b")),
        ("c:/a/../b/", "C:", ("b",)),
        ("C:", "C:", ()),
        ("\\\\?\\C:\\a", "C:", ("a",)),
        ("\\\\Srv\\Share\\a", "//srv/share", ("a",)),
        ("~\\a", "home", ("a",)),
        ("${workspace}\\a/b", "workspace", ("a", "b")),
        ("C:/[a]", "C:", ("[a]",)),
    ],
)
def test_windows_text(text: str, root: str, parts: tuple[str, ...]) -> None:
    """Each Windows text names the place that it says; both separators count."""
    assert place(text, WINDOWS) == Place(root, parts)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ("SBX310", "the path is empty", "write `/` for the root, or remove the entry", "")),
        ("/a\0b", ("SBX311", "the path contains a NUL character", "remove it", "\0")),
        ("/a\nb", ("SBX312", "the path contains the control character U+000A", "remove it", "\n")),
        ("/a\x85b", ("SBX312", "the path contains the control character U+0085", "remove it", "\x85")),
        ("/a\udc80", ("SBX312", "the path contains a lone surrogate", "write the path in UTF-8", "\udc80")),
        ("a/b", ("SBX313", "`a/b` is relative",
                 "start it with `/`, `~/` or `${workspace}/`, or set `relative-to: ${workspace}`", "a/b")),
        ("~root/x", ("SBX314", "`~root` names another user's home", "write `~/` for the user's own home", "~root")),
        ("${hmoe}/x", ("SBX315", "unknown parameter `hmoe`", "did you mean `home`?", "${hmoe}")),
        ("${zzzzzz}", ("SBX315", "unknown parameter `zzzzzz`", "declare it under `parameters:`", "${zzzzzz}")),
        ("${}", ("SBX315", "unknown parameter ``", "declare it under `parameters:`", "${}")),
        ("${home", ("SBX316", "`${` is not closed", "write `${name}`, or `$$` for a dollar sign", "${")),
        ("$HOME/x", ("SBX316", "`$HOME` has no braces", "write `${home}`, or `$$` for a dollar sign", "$HOME")),
        ("/a/$b", ("SBX316", "a `$` before a name has no braces", "write `$$` for a dollar sign", "$b")),
        ("${home}x", ("SBX317", "text follows `${home}` without a separator", "write `${home}/...`", "x")),
        ("/a/${home}", ("SBX317", "a parameter may only stand at the start of a path",
                        "declare a parameter for the whole path, or write `$$` for a dollar sign", "${")),
        ("C:/a", ("SBX318", "a Windows path means nothing on Linux and macOS",
                  "add `when: {os: windows}` to the entry", "C:")),
        ("\\\\srv\\share", ("SBX318", "a Windows path means nothing on Linux and macOS",
                            "add `when: {os: windows}` to the entry", "\\\\")),
        ("/..", ("SBX321", "`..` leaves the root of the path", "write the path it means", "..")),
        ("/a/../..", ("SBX321", "`..` leaves the root of the path", "write the path it means", "..")),
        ("${home}/../x", ("SBX321", "`..` leaves the root of the path", "write the path it means", "..")),
        ("/" + "é" * 128, ("SBX322", "a name is longer than 255 bytes", "no file can have it", "é" * 128)),
    ],
)  # fmt: skip
def test_posix_refusals(text: str, expected: tuple[str, str, str, str]) -> None:
    """Each refusal has its code, message, help, and the offset of what is wrong."""
    assert problem(text) == expected


@pytest.mark.parametrize(
    ("text", "code", "fault"),
    [
        ("/a", "SBX319", "/"),
        ("\\a", "SBX319", "\\"),
        ("a\\b", "SBX313", "a\\b"),
        ("\\\\.\\pipe\\x", "SBX320", "\\\\.\\"),
        ("\\\\?\\Volume{x}\\y", "SBX320", "\\\\?\\"),
        ("\\\\srv", "SBX320", "\\\\"),
        ("\\\\..\\share", "SBX320", ".."),
        ("C:/a:b", "SBX323", ":"),
        ("C:/a*", "SBX323", "*"),
        ("C:/a/con", "SBX323", "con"),
        ("C:/a/NUL.txt/b", "SBX323", "NUL.txt"),
        ("C:/a./b", "SBX323", "a."),
        ("C:/a /b", "SBX323", "a "),
        ("C:/..", "SBX321", ".."),
        ("~root\\x", "SBX314", "~root"),
    ],
)
def test_windows_refusals(text: str, code: str, fault: str) -> None:
    """Names and roots that Windows reads differently are refused at the right offset."""
    assert (problem(text, WINDOWS)[0], problem(text, WINDOWS)[3]) == (code, fault)


def test_too_long() -> None:
    """A path of more than 4096 bytes is refused as a whole."""
    assert problem("/" + "a/" * 2100)[0] == "SBX322"
    assert problem("/" + "a/../" * 4000)[0] == "SBX322"
    assert place("/" + "a/../" * 3000) == posix("/")


def test_relative_to() -> None:
    """With a root for relative texts they hang from it and cannot leave it."""
    root = posix("/srv/app")
    assert place("a/./b", relative_to=root) == posix("/srv/app/a/b")
    assert place("a/../b", relative_to=root) == posix("/srv/app/b")
    assert place("/etc", relative_to=root) == posix("/etc")
    assert problem("../x", relative_to=root)[0] == "SBX321"
    assert problem("../x", relative_to=Place("workspace", ()))[0] == "SBX321"


def test_trailing_separator_says_directory() -> None:
    """A text that ends in a separator means a directory."""
    for text, expected in (("/a/", True), ("/a", False), ("~/", True), ("/a/.", False)):
        found = parse_place(text, POSIX, NAMES)
        assert isinstance(found, Spelled)
        assert found.directory is expected


def test_place_operations() -> None:
    """Parents, children, containment, binding and spellings."""
    spot = Place("workspace", ("a", "b"))
    assert spot.parent == Place("workspace", ("a",))
    assert Place("", ()).parent == Place("", ())
    assert spot.depth == 2
    assert spot.parent.contains(spot)
    assert not spot.contains(spot.parent)
    assert not Place("", ("a",)).contains(spot)
    assert Place("workspace", ("a",)).child("b") == spot
    assert spot.bind({"workspace": posix("/w")}) == posix("/w/a/b")
    assert spot.bind({}) is None
    assert posix("/x").bind({}) == posix("/x")
    assert [p.text() for p in (spot, posix("/"), Place("C:", ()), Place("C:", ("a",)))] == [
        "${workspace}/a/b", "/", "C:/", "C:/a",
    ]  # fmt: skip
    assert Place("C:", ("a",)).native() == "C:\\a"
    assert Place("//srv/share", ("a",)).native() == "\\\\srv\\share\\a"


@pytest.mark.parametrize(
    ("one", "other", "distance"),
    [("", "", 0), ("a", "", 1), ("abc", "abc", 0), ("abc", "acb", 1), ("abc", "abd", 1), ("kitten", "sitting", 3),
     ("ab", "ba", 1), ("workspace", "wrokspace", 1), ("entries", "entry", 3)],
)  # fmt: skip
def test_edit_distance(one: str, other: str, distance: int) -> None:
    """Insertions, deletions, substitutions and swaps count one each; the limit caps the answer."""
    assert edit_distance(one, other, 9) == distance
    assert edit_distance(other, one, 9) == distance
    assert edit_distance(one, other, 2) == min(distance, 2)


def test_nearest_has_a_cut_off() -> None:
    """Only words that are near get a suggestion; the nearest one wins."""
    assert nearest_help("netwrk", ("network", "name")) == "did you mean `network`?"
    assert nearest_help("zzz", ("network", "name")) == ""
    assert nearest_help("nam", ("names", "name")) == "did you mean `name`?"
    assert nearest_help("n" * 41, ("n" * 42,)) == ""


@pytest.mark.parametrize(
    ("written", "expected"),
    [("~root/x", "~root"), ('"~root/x"', "~root"), ("'~root/x'", "~root"), ('"~ro\\u006ft/x"', '"~ro\\u006ft/x"')],
)
def test_caret_under_the_fault(written: str, expected: str) -> None:
    """The caret is narrowed to the fault where the text is written as it is, behind a quote if there is one."""
    found = parse_place("~root/x", POSIX, NAMES)
    assert isinstance(found, PathProblem)
    item = problem_diagnostic(found, Span("p", 1, 4, 1, 4 + len(written)), "~root/x")
    assert item.span is not None
    assert SourceFile("p", f"a: {written}").snippet(item.span) == expected


def test_too_many_names() -> None:
    """A path or pattern of more names than every reader bears is refused, not met by an endless recursion."""
    from sandboxc.globs import parse_glob

    deep = "/".join("a" * 257)
    found = parse_place(f"/{deep}", POSIX, ())
    assert isinstance(found, PathProblem) and found.code == "SBX322"
    assert not isinstance(parse_place("/" + "/".join("a" * 256), POSIX, ()), PathProblem)
    pattern = parse_glob(f"**/{deep}", "writable", POSIX, ())
    assert isinstance(pattern, PathProblem) and pattern.code == "SBX322"

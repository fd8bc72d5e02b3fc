"""Places: paths as words over components, rooted at the file system's root or at a parameter.

Everything here is pure text work. Which flavour a text has (POSIX or Windows) is said by the caller,
because it is a property of the target; it is never guessed from the host or from the shape of a string.
"""

from collections.abc import Collection, Mapping

from sandboxc.diagnostics import Diagnostic, error
from sandboxc.records import NamedTuple
from sandboxc.source import Span

POSIX = "posix"
WINDOWS = "windows"

BUILTIN_PARAMETERS: dict[str, bool] = {
    # name -> required. An optional one that has no value takes its layers with it.
    "workspace": True,
    "home": True,
    "tmp": True,
    "user-config": True,
    "user-cache": True,
    "user-runtime": False,
    "ssh-auth-sock": False,
    "docker-sock": False,
    "policy": False,
    "profile": False,
}
#: Roots that only the compiler writes: the private temp directory of one run, and the base that holds
#: those of every run together with the run-time's own state.
RUN_TMP = "run-tmp"
RUN_BASE = "run-base"
INTERNAL_PARAMETERS = (RUN_TMP, RUN_BASE)

#: The codes of paths that make sense in the other path flavour only, or may.
OTHER_FLAVOUR = ("SBX318", "SBX319")
MAX_PATH = 4096
MAX_COMPONENT = 255
MAX_NAMES = 256  # components of one path: what every reader of an artefact is known to bear
MAX_SUGGESTED = 40  # longer words get no "did you mean"

_LOWER = frozenset("abcdefghijklmnopqrstuvwxyz")
_NAME = _LOWER | frozenset("0123456789")
_WINDOWS_DEVICES = frozenset(
    ("con", "prn", "aux", "nul", "conin$", "conout$", *(kind + n for kind in ("com", "lpt") for n in "0123456789¹²³"))
)


class Place(NamedTuple):
    """A node of the tree: the root that it hangs from, and the component names below that root.

    ``root`` is ``""`` for the POSIX root, ``"C:"`` (upper case) for a Windows drive, ``"//server/share"``
    for a UNC share, and otherwise the name of a parameter. A bound place has no parameter root.
    """

    root: str
    parts: tuple[str, ...]

    @property
    def is_bound(self) -> bool:
        """Return whether the place hangs from a real file-system root."""
        return not self.root or self.root.endswith(":") or self.root.startswith("//")

    @property
    def depth(self) -> int:
        """Return the number of components below the root."""
        return len(self.parts)

    @property
    def parent(self) -> "Place":
        """Return the directory that holds this place; a root is its own parent."""
        return Place(self.root, self.parts[:-1])

    def child(self, *names: str) -> "Place":
        """Return the place ``names`` below this one."""
        return Place(self.root, (*self.parts, *names))

    def contains(self, other: "Place") -> bool:
        """Return whether ``other`` is this place or lies below it (same root, exact spelling)."""
        return self.root == other.root and other.parts[: len(self.parts)] == self.parts

    def bind(self, values: Mapping[str, "Place"]) -> "Place | None":
        """Return the place with its parameter root replaced, or None when that parameter has no value."""
        if self.is_bound:
            return self
        base = values.get(self.root)
        return None if base is None else Place(base.root, base.parts + self.parts)

    def text(self) -> str:
        """Return the policy spelling: ``/etc/x``, ``${workspace}/x``, ``C:/x``, ``//srv/share/x``."""
        if not self.root:
            return "/" + "/".join(self.parts)
        base = self.root if self.is_bound else "${" + self.root + "}"
        if not self.parts:
            return base + "/" if base.endswith(":") else base
        return base + "/" + "/".join(self.parts)

    def native(self) -> str:
        """Return the spelling of the operating system: backslashes for drives and shares."""
        if self.root and self.is_bound:
            return self.text().replace("/", "\\")
        return self.text()


def is_parameter_name(name: str) -> bool:
    """Return whether a text is a parameter name: words of lower-case letters and digits, joined by ``-``."""
    return name[:1] in _LOWER and all(word and _NAME.issuperset(word) for word in name.split("-"))


def _has_drive(text: str) -> bool:
    """Return whether a text starts with a Windows drive such as ``C:``, alone or with a separator behind it."""
    return text[1:2] == ":" and text[0].isascii() and text[0].isalpha() and text[2:3] in ("", "/", "\\")


def posix(path: str) -> Place:
    """Return the bound place of an absolute, already clean POSIX path such as ``/a/b``."""
    return Place("", tuple(part for part in path.split("/") if part))


class PathProblem(NamedTuple):
    """Why a path text is refused: code, message, help and the offset and length of the fault in it."""

    code: str
    message: str
    help: str
    offset: int
    length: int


class Spelled(NamedTuple):
    """A path text that was understood."""

    place: Place
    directory: bool  # the text ends in a separator


def parse_place(
    text: str,
    flavour: str,
    parameters: Collection[str],
    relative_to: Place | None = None,
) -> Spelled | PathProblem:
    """Return the place that a literal path text names, or the reason why it names none.

    Args:
        text: the text of a ``path:``, ``socket:`` or parameter value.
        flavour: ``POSIX`` or ``WINDOWS``.
        parameters: names that may stand in ``${...}``.
        relative_to: the root for relative texts; None refuses them.
    """
    if len(text) > 4 * MAX_PATH:  # `..` may shorten a path, but not from there
        return PathProblem("SBX322", f"the path is longer than {MAX_PATH} bytes", "shorten it", 0, len(text))
    problem = _bad_character(text)
    if problem:
        return problem
    if not text:
        return PathProblem("SBX310", "the path is empty", "write `/` for the root, or remove the entry", 0, 0)
    head = _parse_head(text, flavour, parameters, relative_to)
    if isinstance(head, PathProblem):
        return head
    base, rest, offset = head
    return _fold(base, rest, offset, flavour, text)


def _bad_character(text: str) -> PathProblem | None:
    for offset, char in enumerate(text):
        if char == "\0":
            return PathProblem("SBX311", "the path contains a NUL character", "remove it", offset, 1)
        if ord(char) < 0x20 or 0x7F <= ord(char) < 0xA0:
            name = f"U+{ord(char):04X}"
            return PathProblem("SBX312", f"the path contains the control character {name}", "remove it", offset, 1)
        if 0xD800 <= ord(char) <= 0xDFFF:
            return PathProblem("SBX312", "the path contains a lone surrogate", "write the path in UTF-8", offset, 1)
    return None


def _parse_head(
    text: str, flavour: str, parameters: Collection[str], relative_to: Place | None
) -> tuple[Place, str, int] | PathProblem:
    """Return the root that the text starts at, the rest of the text, and the rest's offset."""
    separators = "/\\" if flavour == WINDOWS else "/"
    if text[0] == "~":
        if len(text) > 1 and text[1] not in separators:
            end = next((i for i, c in enumerate(text) if c in separators), len(text))
            return PathProblem(
                "SBX314",
                f"`{text[:end]}` names another user's home",
                "write `~/` for the user's own home",
                0,
                end,
            )
        return Place("home", ()), text[1:], 1
    if text[0] == "$" and not text.startswith("$$"):
        found = parse_reference(text, 0, parameters)
        if isinstance(found, PathProblem):
            return found
        if found is not None:
            name, end = found
            if end < len(text) and text[end] not in separators:
                return PathProblem(
                    "SBX317",
                    f"text follows `${{{name}}}` without a separator",
                    f"write `${{{name}}}/...`",
                    end,
                    1,
                )
            return Place(name, ()), text[end:], end
    if flavour == WINDOWS:
        absolute = _windows_head(text)
        if absolute is not None:
            return absolute
    elif text[0] == "/":
        return Place("", ()), text, 0
    if relative_to is None:
        return _relative(text, flavour)
    return relative_to, text, 0


def _relative(text: str, flavour: str) -> PathProblem:
    if flavour == WINDOWS and text[0] in "/\\":
        return PathProblem(
            "SBX319",
            "the path has no drive, so it means nothing on Windows",
            "add `when: {os: [linux, macos]}` to the entry, or write `C:/...`",
            0,
            1,
        )
    if flavour == POSIX and (_has_drive(text) or text.startswith("\\\\")):
        return PathProblem(
            "SBX318",
            "a Windows path means nothing on Linux and macOS",
            "add `when: {os: windows}` to the entry",
            0,
            min(2, len(text)),
        )
    return PathProblem(
        "SBX313",
        f"`{text}` is relative",
        "start it with `/`, `~/` or `${workspace}/`, or set `relative-to: ${workspace}`",
        0,
        len(text),
    )


def _windows_head(text: str) -> tuple[Place, str, int] | PathProblem | None:
    offset = 0
    body = text.replace("\\", "/")
    if body.startswith(("//./", "//?/")):
        if body.startswith("//./") or not _has_drive(body[4:]):
            return PathProblem("SBX320", "a device path is not a place", "write `C:/...`", 0, 4)
        offset, body = 4, body[4:]
    if _has_drive(body):
        return Place(body[0].upper() + ":", ()), text[offset + 2 :], offset + 2
    if text.startswith("\\\\"):
        names = body[2:].split("/", 2)
        if len(names) < 2 or not names[0] or not names[1]:
            return PathProblem("SBX320", "a share needs a server and a share name", "write `\\\\server\\share`", 0, 2)
        for name in names[:2]:
            at = text.index(name)
            if name in (".", "..") or _bad_component(name, at, len(name), WINDOWS):
                return PathProblem("SBX320", f"`{name}` cannot name a server or a share", "", at, len(name))
        used = 2 + len(names[0]) + 1 + len(names[1])
        return Place(f"//{names[0].lower()}/{names[1].lower()}", ()), text[used:], used
    return None


def parse_reference(text: str, offset: int, parameters: Collection[str]) -> tuple[str, int] | PathProblem | None:
    """Return (name, end offset) of the ``${name}`` at ``offset``; None where the ``$`` is ordinary."""
    following = text[offset + 1 : offset + 2]
    if following == "{":
        end = text.find("}", offset)
        if end < 0:
            return PathProblem("SBX316", "`${` is not closed", "write `${name}`, or `$$` for a dollar sign", offset, 2)
        name = text[offset + 2 : end]
        if name not in parameters:
            return PathProblem(
                "SBX315",
                f"unknown parameter `{name}`",
                nearest_help(name, parameters) or "declare it under `parameters:`",
                offset,
                end + 1 - offset,
            )
        return name, end + 1
    if following.isascii() and following.isalpha():
        end = offset + 1
        while end < len(text) and (text[end].isalnum() or text[end] in "_-"):
            end += 1
        return PathProblem(
            "SBX316",
            f"`{text[offset:end]}` has no braces",
            f"write `${{{text[offset + 1 : end].lower()}}}`, or `$$` for a dollar sign",
            offset,
            end - offset,
        )
    return None


def nearest_help(word: str, known: Collection[str]) -> str:
    """Return "did you mean `x`?" for the nearest known word within a small distance, else an empty text."""
    if len(word) > MAX_SUGGESTED:
        return ""
    best, limit = "", min(max(1, len(word) // 3), 3) + 1
    for candidate in sorted(known):
        distance = edit_distance(word, candidate, limit)
        if distance < limit:
            best, limit = candidate, distance
    return f"did you mean `{best}`?" if best else ""


def edit_distance(one: str, other: str, limit: int) -> int:
    """Return how many insertions, deletions, substitutions and swaps part two words, at most ``limit``."""
    if abs(len(one) - len(other)) >= limit:
        return limit
    while one and other and one[0] == other[0]:
        one, other = one[1:], other[1:]
    while one and other and one[-1] == other[-1]:
        one, other = one[:-1], other[:-1]
    before: list[int] = []
    last = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        row = [i] + [limit] * len(other)
        for j in range(max(1, i - limit), min(len(other), i + limit) + 1):
            b = other[j - 1]
            cost = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and one[i - 2] == b:
                cost = min(cost, before[j - 2] + 1)
            row[j] = cost
        if min(row) >= limit:
            return limit
        before, last = last, row
    return min(last[-1], limit)


def _fold(base: Place, rest: str, offset: int, flavour: str, text: str) -> Spelled | PathProblem:
    """Return the place with ``.``, ``..``, doubled and trailing separators folded and each name checked."""
    body = rest.replace("\\", "/") if flavour == WINDOWS else rest
    parts: list[str] = list(base.parts)
    floor = len(base.parts)
    position = offset
    for name in body.split("/"):
        if name == "..":
            if len(parts) <= floor:
                return PathProblem("SBX321", "`..` leaves the root of the path", "write the path it means", position, 2)
            parts.pop()
        elif name and name != ".":
            decoded = _decode(name, position)
            if isinstance(decoded, PathProblem):
                return decoded
            problem = _bad_component(decoded, position, len(name), flavour)
            if problem:
                return problem
            parts.append(decoded)
        position += len(name) + 1
    place = Place(base.root, tuple(parts))
    if len(parts) > MAX_NAMES:
        return PathProblem("SBX322", f"the path has more than {MAX_NAMES} names", "shorten it", 0, len(text))
    if len(place.text().encode()) > MAX_PATH:
        return PathProblem("SBX322", f"the path is longer than {MAX_PATH} bytes", "shorten it", 0, len(text))
    return Spelled(place, body.endswith("/"))


def _decode(name: str, position: int) -> str | PathProblem:
    """Return the component with ``$$`` made one dollar; a reference inside a path is refused."""
    if "$" not in name:
        return name
    out: list[str] = []
    index = 0
    while index < len(name):
        if name[index] != "$":
            out.append(name[index])
            index += 1
            continue
        following = name[index + 1 : index + 2]
        if following == "{":
            return PathProblem(
                "SBX317",
                "a parameter may only stand at the start of a path",
                "declare a parameter for the whole path, or write `$$` for a dollar sign",
                position + index,
                2,
            )
        if following.isascii() and following.isalpha():
            return PathProblem(
                "SBX316",
                "a `$` before a name has no braces",
                "write `$$` for a dollar sign",
                position + index,
                2,
            )
        out.append("$")
        index += 2 if following == "$" else 1
    return "".join(out)


def bad_component(name: str, flavour: str) -> PathProblem | None:
    """Return why no file can have a name (one component, not a path), or None."""
    return _bad_component(name, 0, len(name), flavour)


def _bad_component(name: str, position: int, length: int, flavour: str) -> PathProblem | None:
    if len(name.encode("utf-8", "surrogatepass")) > MAX_COMPONENT:
        return PathProblem(
            "SBX322", f"a name is longer than {MAX_COMPONENT} bytes", "no file can have it", position, length
        )
    if flavour != WINDOWS:
        return None
    for index, char in enumerate(name):
        if char in '<>:"|?*':
            return PathProblem(
                "SBX323",
                f"`{char}` cannot stand in a Windows name",
                "add `when: {os: [linux, macos]}`" if char != ":" else "alternate data streams are not places",
                position + index,
                1,
            )
    if name[-1] in ". ":
        return PathProblem("SBX323", "Windows drops a trailing dot or blank", "remove it", position, length)
    if name.partition(".")[0].lower() in _WINDOWS_DEVICES:
        return PathProblem("SBX323", f"`{name}` is a device name on Windows", "", position, length)
    return None


def problem_diagnostic(problem: PathProblem, span: Span | None, text: str) -> Diagnostic:
    """Return the diagnostic for a refused path text, its caret under the character at fault.

    ``span`` is the span of the text as written; where the scalar is written plainly on one line, the caret
    is narrowed to the faulty part, behind an opening quote if there is one.
    """
    if span is not None and span.line == span.end_line and problem.length:
        width = span.end_column - span.column
        quote = 1 if width == len(text) + 2 else 0
        if width == len(text) + 2 * quote:
            start = span.column + quote + problem.offset
            span = Span(span.file, span.line, start, span.line, start + problem.length)
    return error(problem.code, problem.message, span, problem.help)

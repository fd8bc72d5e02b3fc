"""Finding git directories and what a repository's configuration runs (see gitrepository-layout(5), git-config(1))."""

from collections.abc import Iterable, Iterator

from sandboxc.records import NamedTuple
from sandboxc.survey.look import DIRECTORY, FILE, Look, Walker

MAX_INCLUDES = 10  # git gives up at this depth too

_LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
_KEY = _LETTERS | frozenset("0123456789-")
_SECTION = _KEY | {"."}
_ESCAPES = {"n": "\n", "t": "\t", "b": "\b"}


class Repository(NamedTuple):
    """One repository that a survey met: its top directory (empty for a bare one) and its git directories.

    ``pointer`` is the ``.git`` file or link, where it is not a directory. ``directories`` holds the git directory
    itself and, for a linked worktree, the common one.
    """

    top: str
    directories: tuple[str, ...]
    pointer: str = ""


class Setting(NamedTuple):
    """One line of a git configuration: section and key in lower case, the value unquoted."""

    section: str
    key: str
    value: str


def is_bare(names: set[str]) -> bool:
    """Return whether a directory with these names is itself a git directory."""
    return {"HEAD", "objects", "refs"} <= names


def repository_at(top: str, look: Look, walker: Walker) -> Repository | None:
    """Return the repository whose working tree is ``top``, or None where ``top/.git`` leads nowhere."""
    dot = top.rstrip("/") + "/.git"
    node = walker.node(dot)
    if node is None:
        return None
    pointer = "" if node.kind == DIRECTORY else dot
    if node.kind == FILE:
        text = look.content(dot) or ""
        target = text.removeprefix("gitdir:").strip()
        if not text.startswith("gitdir:") or not target:
            return Repository(top, (), dot)
        walked = walker.walk(_join(top, target))
    else:
        walked = walker.walk(dot)
    if walked.node is None or walked.node.kind != DIRECTORY:
        return Repository(top, (), pointer)
    return Repository(top, _with_common(walked.path, look, walker), pointer)


def _with_common(directory: str, look: Look, walker: Walker) -> tuple[str, ...]:
    common = (look.content(directory + "/commondir") or "").strip()
    if not common:
        return (directory,)
    walked = walker.walk(_join(directory, common))
    if walked.node is None or walked.node.kind != DIRECTORY or walked.path == directory:
        return (directory,)
    return (directory, walked.path)


class Configured(NamedTuple):
    """What a configuration names: files that it includes, and directories that hooks are taken from.

    ``hooks`` may be relative: then they hang from the top of whichever repository they are used in.
    """

    includes: tuple[str, ...]
    hooks: tuple[str, ...]

    def paths(self, tops: Iterable[str]) -> Iterator[str]:
        """Yield the paths for repositories with these tops."""
        yield from self.includes
        for text in self.hooks:
            if text.startswith("/"):
                yield text
            else:
                for top in tops:
                    yield _join(top, text)


def configured(paths: Iterable[str], home: str, look: Look, walker: Walker) -> Configured:
    """Return what the configuration files at ``paths`` name, included files read too, whatever their conditions.

    Args:
        paths: configuration files; one that is not there names nothing.
        home: the home directory, for ``~/`` in values; empty where there is none.
        look: who answers.
        walker: who follows links; included files may be links.
    """
    includes: dict[str, None] = {}
    hooks: dict[str, None] = {}
    todo = [(path, 0) for path in paths]
    while todo:
        path, depth = todo.pop()
        for setting in settings(look.content(walker.walk(path).path) or ""):
            if not setting.value:
                continue
            value = home + setting.value[1:] if setting.value.startswith("~/") and home else setting.value
            if setting.section in ("include", "includeif") and setting.key == "path":
                named = _join(path.rpartition("/")[0], value)
                if named not in includes:
                    includes[named] = None
                    if depth < MAX_INCLUDES:
                        todo.append((named, depth + 1))
            elif setting.section == "core" and setting.key == "hookspath":
                hooks[value] = None
    return Configured(tuple(sorted(includes)), tuple(sorted(hooks)))


def settings(text: str) -> Iterator[Setting]:
    """Yield the settings of a git configuration that have a value (git-config(1), "Syntax")."""
    section = ""
    for line in _lines(text):
        line = line.lstrip()
        if line.startswith("["):
            heading = _heading(line)
            if not heading:
                continue
            section, line = heading[0], line[heading[1] :].lstrip()
        key, sign, value = line.partition("=")
        key = key.rstrip()
        if sign and key[:1] in _LETTERS and _KEY.issuperset(key):
            yield Setting(section, key.lower(), _value(value.lstrip()))


def _lines(text: str) -> Iterator[str]:
    """Yield the lines, a line that ends in a backslash (not an escaped one) joined with the next."""
    held = ""
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if number < len(lines) and (len(line) - len(line.rstrip("\\"))) % 2:
            held += line[:-1]
        else:
            yield held + line
            held = ""


def _heading(line: str) -> tuple[str, int] | None:
    """Return the section of a ``[section "subsection"]`` that a line starts with, and where it ends; or None."""
    start = index = len(line) - len(line[1:].lstrip())
    while line[index : index + 1] in _SECTION:
        index += 1
    name = line[start:index]
    rest = line[index:].lstrip()
    if rest.startswith('"') and line[index : index + 1] != '"':
        end = 1
        while rest[end : end + 1] not in ("", '"'):
            end += 2 if rest[end] == "\\" else 1
        rest = rest[end + 1 :].lstrip()
    return (name.lower(), len(line) - len(rest) + 1) if name and rest.startswith("]") else None


def _value(raw: str) -> str:
    """Return a value without its quotes, escapes, comment and blanks at the end."""
    out: list[str] = []
    quoted = False
    kept = 0  # how much of it stands inside quotes or is no blank
    index = 0
    while index < len(raw):
        char = raw[index]
        if char == "\\" and index + 1 < len(raw):
            index += 1
            out.append(_ESCAPES.get(raw[index], raw[index]))
            kept = len(out)
        elif char == '"':
            quoted = not quoted
            kept = max(kept, len(out))
        elif char in "#;" and not quoted:
            break
        else:
            out.append(char)
            if quoted or not char.isspace():
                kept = len(out)
        index += 1
    return "".join(out[:kept])


def _join(base: str, path: str) -> str:
    return path if path.startswith("/") else f"{base.rstrip('/')}/{path}"

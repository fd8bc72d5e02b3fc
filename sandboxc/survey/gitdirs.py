"""Finding git directories and what a repository's configuration runs (see gitrepository-layout(5), git-config(1))."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from sandboxc.survey.look import DIRECTORY, FILE, Look, Walker

_POINTER = re.compile(r"\Agitdir:\s*(.+?)\s*\Z", re.DOTALL)
_SECTION = re.compile(r'^\s*\[\s*([A-Za-z0-9.-]+)(?:\s+"((?:[^"\\]|\\.)*)")?\s*\]')
_SETTING = re.compile(r"^\s*([A-Za-z][A-Za-z0-9-]*)\s*=\s*(.*?)\s*$")


class Repository(NamedTuple):
    """One repository that a survey met: its top directory (empty for a bare one) and its git directories.

    ``pointer`` is the ``.git`` file or link, where it is not a directory. ``directories`` holds the git directory
    itself and, for a linked worktree, the common one.
    """

    top: str
    directories: tuple[str, ...]
    pointer: str = ""


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
        found = _POINTER.match(look.content(dot) or "")
        if not found:
            return Repository(top, (), dot)
        walked = walker.walk(_join(top, found.group(1)))
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
    if walked.node is None or walked.path == directory:
        return (directory,)
    return (directory, walked.path)


def configured_paths(directory: str, home: str, look: Look) -> Iterator[str]:
    """Yield the paths that a git directory's configuration includes or takes hooks from, as far as they are files' names."""
    for name in ("config", "config.worktree"):
        path = f"{directory}/{name}"
        text = look.content(path)
        if text:
            yield from _paths_in(text, path, directory, home)


def _paths_in(text: str, path: str, directory: str, home: str) -> Iterator[str]:
    section = ""
    for line in text.splitlines():
        heading = _SECTION.match(line)
        if heading:
            section = heading.group(1).lower()
            line = line[heading.end() :]
        setting = _SETTING.match(line)
        if not setting:
            continue
        key, value = setting.group(1).lower(), setting.group(2).strip('"')
        if not value:
            continue
        if section in ("include", "includeif") and key == "path":
            yield _join(path.rpartition("/")[0], _home(value, home))
        elif section == "core" and key == "hookspath":
            # relative to the directory where hooks run: the working tree, or the git directory of a bare one
            top = directory.removesuffix("/.git")
            yield _join(top, _home(value, home))


def _home(value: str, home: str) -> str:
    return home + value[1:] if value.startswith("~/") and home else value


def _join(base: str, path: str) -> str:
    return path if path.startswith("/") else f"{base.rstrip('/')}/{path}"

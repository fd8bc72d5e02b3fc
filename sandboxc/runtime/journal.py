"""What the record of a run says of the names that it occupies, and which records belong to live runs.

A record, ``runs/ID`` in the state directory, is a file of JSON lines, each an object with ``op``:

- ``node``: ``path``, ``kind`` (``file``, ``directory`` or ``temporary``), ``dev``, ``ino`` and ``content`` (of a file,
  each byte as the character of that number) of a node that the run made or adopted;
- ``announce``: the ``path`` that the run is about to make a node at, before the node can be named by its number.

A line is written by one write(2) to a file that its run alone appends to, so only the last one can be torn; a line that
cannot be understood says nothing. The protocol that gives the records their sense is in ``occupants``.
"""

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import suppress

from sandboxc.plain_json import decode, encode
from sandboxc.records import Any, NamedTuple

LOCK = ".lock"
"""What the name of a record's lock file ends with."""


class Entry(NamedTuple):
    """A node that a record names."""

    path: str
    kind: str
    dev: int
    ino: int
    content: bytes


class Record(NamedTuple):
    """A record: its name, whether its run is alive, the nodes that it names and the paths that it announced."""

    name: str
    alive: bool
    nodes: list[Entry]
    announced: list[str]


def try_lock(fd: int) -> bool:
    """Return whether the lock of an open file could be taken; it holds while any copy of the descriptor is open."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def note(record: int, entry: Entry) -> None:
    """Write a node to an open record.

    Raises:
        OSError: the line could not be written whole.
    """
    _write(
        record,
        op="node",
        path=entry.path,
        kind=entry.kind,
        dev=entry.dev,
        ino=entry.ino,
        content=entry.content.decode("latin-1"),
    )


def announce(record: int, path: str) -> None:
    """Write to an open record that a node is about to be made at ``path``.

    Raises:
        OSError: the line could not be written whole.
    """
    _write(record, op="announce", path=path)


def _write(record: int, **line: Any) -> None:
    data = encode(line).encode() + b"\n"
    if os.write(record, data) != len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "record of occupants")


def records(runs: int, skip: str = "") -> list[Record]:
    """Return every record in an open directory but ``skip``, where the caller holds the global lock.

    A record whose two locks are free is then a dead run's. One that cannot be opened is left out.
    """
    found = []
    for name in sorted(os.listdir(runs)):
        if name == skip or name.endswith(LOCK):
            continue
        try:
            fd = os.open(name, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=runs)
        except OSError:
            continue
        with os.fdopen(fd, "rb") as file:
            alive = not (try_lock(fd) and _is_free(runs, name + LOCK))
            nodes, announced = _parse(file.read())
        found.append(Record(name, alive, nodes, announced))
    return found


def _is_free(runs: int, name: str) -> bool:
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=runs)
    except FileNotFoundError:
        return True
    except PermissionError:  # its mode was changed through the sandbox's copy
        os.chmod(name, 0o600, dir_fd=runs)
        return _is_free(runs, name)
    try:
        return try_lock(fd)
    finally:
        os.close(fd)


def _parse(text: bytes) -> tuple[list[Entry], list[str]]:
    """Return the nodes that a record names and the paths that it announced; a torn last line is no line."""
    nodes: list[Entry] = []
    announced: list[str] = []
    for line in text.split(b"\n")[:-1]:
        try:
            item = decode(line.decode("utf-8"))
            if item["op"] == "announce":
                announced.append(str(item["path"]))
            else:
                content = str(item["content"]).encode("latin-1")
                dev, ino = int(item["dev"]), int(item["ino"])
                nodes.append(Entry(str(item["path"]), str(item["kind"]), dev, ino, content))
        except (ValueError, KeyError, TypeError):
            continue
    return nodes, announced


def journaled(state_dir: str) -> Iterator[tuple[str, str, int, int]]:
    """Yield the kind, path, device and inode number of what the records of all runs, alive or dead, name.

    Nothing is locked or changed; a record that cannot be read, or a directory that is not there, says nothing.
    """
    runs = os.path.join(state_dir, "runs")
    try:
        names = os.listdir(runs)
    except OSError:
        return
    for name in names:
        if name.endswith(LOCK):
            continue
        with suppress(OSError), open(os.path.join(runs, name), "rb") as file:
            nodes, _ = _parse(file.read())
            yield from ((node.kind, node.path, node.dev, node.ino) for node in nodes)

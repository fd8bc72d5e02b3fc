"""Names that are occupied for the life of a run, so that what is absent cannot be made by the sandbox.

A mount target cannot hold a name that does not exist. So the run puts an **occupant** there: an empty file,
an empty directory, or a file with a little content that is as good as absent (git's ``commondir`` holding
``.``). Several runs share one; the last to end removes it; after a kill -9 the next run, or ``clean``, does.

The protocol, in a state directory that its owner alone can write and that no sandbox can:

- ``lock`` is held with flock(2) over every step below. It is let go by a kill.
- Each run has a **record**, ``runs/ID`` (see ``journal``), flocked by the run, which passes it to nobody; and beside
  it an empty **lock**, ``runs/ID.lock``, flocked too, which the run passes to bubblewrap as ``--sync-fd``. Its
  lock lives as long as the sandbox. What runs inside can reach that descriptor through /proc/1/fd, write to the
  file and unlock it, so nothing is read from it, and a run is alive as long as either lock is held.
- A file is made without a name (O_TMPFILE), given its content, mode and the sentinel time, journaled (device,
  inode), and only then linked to its name. A directory, and a file where O_TMPFILE is not known, is announced
  in the record under an unguessable name, made under it, journaled, and renamed without replacing.
- A name that exists already is left alone; if it is an occupant of another record, alive or dead, it is
  journaled here too (adopted).
- A record is dead when both locks are free. What it names is removed when no live record names it, and device,
  inode, kind, sentinel time, size, content and link count are still what was journaled (inode numbers are
  reused at once; what a person made there meanwhile has another time, and stays).

A private temp directory can be journaled in the same way (``temporary``); it is removed with what it holds.
"""

import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from sandboxc.records import NamedTuple
from sandboxc.runtime import linux
from sandboxc.runtime.journal import LOCK, Entry, announce, note, records, try_lock

SENTINEL = 981173106
"""The modification time of every occupant: whole seconds, even, so that any file system keeps it."""

_FILE_MODE, _DIRECTORY_MODE, _TEMPORARY_MODE = 0o444, 0o555, 0o700


class Occupant(NamedTuple):
    """A name to occupy."""

    path: str
    """Absolute and physical: no symbolic link on the way."""
    kind: str = "file"
    """``file`` or ``directory``."""
    content: bytes = b""
    """What a file holds, at most 4096 bytes."""


class Held(NamedTuple):
    """What a run holds until ``release``."""

    record_fd: int
    """The flocked record, close-on-exec. No sandbox may get it: what it says is believed."""
    lock_fd: int
    """The flocked lock beside it, close-on-exec: pass a copy to bubblewrap as ``--sync-fd``."""
    record: str
    """The path of the record."""
    made: tuple[str, ...]
    """Paths that this run occupied."""
    adopted: tuple[str, ...]
    """Paths that an earlier run occupied and this one holds too."""
    present: tuple[str, ...]
    """Paths that turned out to exist as something else: what was planned on their absence is stale."""


class Cleaned(NamedTuple):
    """What a clean-up did: the paths that it removed, what it left, how many records belong to live runs."""

    removed: tuple[str, ...]
    kept: tuple[tuple[str, str], ...]
    """(path, reason) of what dead records name and is left: not ours any more, or not removable now."""
    live: int


# --- the state directory -----------------------------------------------------------------------------------


def _open_state(state_dir: str) -> int:
    os.makedirs(state_dir, mode=0o700, exist_ok=True)
    fd = os.open(state_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        status = os.fstat(fd)
        if status.st_uid != os.geteuid() or status.st_mode & 0o022:
            raise OSError(errno.EPERM, "the state directory must be its user's own, writable by no other", state_dir)
        with suppress(FileExistsError):
            os.mkdir("runs", 0o700, dir_fd=fd)
    except BaseException:
        os.close(fd)
        raise
    return fd


@contextmanager
def _locked(state_dir: str, timeout: float) -> Iterator[int]:
    """Yield a descriptor of ``state_dir/runs`` while holding the global lock."""
    state = _open_state(state_dir)
    lock = runs = -1
    try:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        lock = os.open("lock", flags, 0o600, dir_fd=state)
        end = time.monotonic() + timeout
        while not try_lock(lock):
            if time.monotonic() > end:
                raise OSError(errno.ETIMEDOUT, "another process holds the lock for too long", state_dir)
            time.sleep(0.002)
        runs = os.open("runs", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=state)
        yield runs
    finally:
        for fd in (runs, lock, state):
            if fd != -1:
                os.close(fd)


# --- occupying ---------------------------------------------------------------------------------------------


def occupy(state_dir: str, wanted: Sequence[Occupant], *, timeout: float = 10.0) -> Held:
    """Occupy names for one run, after removing what dead runs left, and return what the run holds.

    Args:
        state_dir: absolute; made with mode 0700 when absent. It must be out of reach of every sandbox.
        wanted: the names; each one's parent directory must exist.
        timeout: seconds to wait for another process that occupies or cleans.

    Raises:
        OSError: a parent is absent or not writable, or a call failed; nothing is held then.
        ValueError: a path that is not absolute, or an unknown kind.
    """
    items: dict[str, Occupant] = {}
    for item in wanted:
        if not item.path.startswith("/") or os.path.basename(item.path) in ("", ".", ".."):
            raise ValueError(f"no absolute path of a name: {item.path!r}")
        if item.kind not in ("file", "directory") or len(item.content) > 4096:
            raise ValueError(f"unknown kind or too much content for {item.path!r}")
        if items.setdefault(item.path, item) != item:
            raise ValueError(f"two different occupants for {item.path!r}")
    done: dict[str, list[str]] = {"made": [], "adopted": [], "present": []}
    with _locked(state_dir, timeout) as runs:
        name = f"{os.getpid()}-{os.urandom(8).hex()}"
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        record = os.open(name, flags, 0o600, dir_fd=runs)
        lock = -1
        try:
            fcntl.flock(record, fcntl.LOCK_EX)
            lock = os.open(name + LOCK, flags, 0o600, dir_fd=runs)
            fcntl.flock(lock, fcntl.LOCK_EX)
            others = [node for other in records(runs, skip=name) for node in other.nodes]
            for item in items.values():
                done[_take(record, item, others)].append(item.path)
            _sweep(runs)
        except BaseException:
            os.close(record)
            if lock != -1:
                os.close(lock)
            _sweep(runs)
            raise
    path = os.path.join(state_dir, "runs", name)
    return Held(record, lock, path, tuple(done["made"]), tuple(done["adopted"]), tuple(done["present"]))


def temporary(state_dir: str, held: Held, base: str, *, name: str = "", timeout: float = 10.0) -> str:
    """Return a new private directory (mode 0700) below ``base`` that goes, with all in it, with the run.

    ``name`` is its name, where the caller has told the policy of it already; empty takes a random one.

    Raises:
        OSError: ``base`` is absent or not writable, or a call failed.
    """
    with _locked(state_dir, timeout):
        parent = linux.open_no_follow(base, os.O_RDONLY | os.O_DIRECTORY)
        try:
            name = name or f"r{os.urandom(6).hex()}"
            path = os.path.join(base, name)
            announce(held.record_fd, path)
            os.mkdir(name, _TEMPORARY_MODE, dir_fd=parent)
            node = os.stat(name, dir_fd=parent, follow_symlinks=False)
            note(held.record_fd, Entry(path, "temporary", node.st_dev, node.st_ino, b""))
        finally:
            os.close(parent)
    return path


def _take(record: int, item: Occupant, others: Sequence[Entry]) -> str:
    """Return whether the name was ``made``, ``adopted``, or is ``present`` as something else."""
    parent = linux.open_no_follow(os.path.dirname(item.path), os.O_RDONLY | os.O_DIRECTORY)
    try:
        for _ in range(8):
            if _make(record, parent, item):
                return "made"
            with suppress(FileNotFoundError):  # removed by its owner between the two looks: make it
                return "adopted" if _adopt(record, parent, item, others) else "present"
        return "present"
    finally:
        os.close(parent)


def _make(record: int, parent: int, item: Occupant) -> bool:
    """Put the occupant at its name; return False when the name is taken."""
    name = os.path.basename(item.path)
    try:
        os.stat(name, dir_fd=parent, follow_symlinks=False)
        return False
    except FileNotFoundError:
        pass
    if item.kind == "file":
        try:
            return _make_unnamed(record, parent, name, item)
        except OSError as error:
            # O_TMPFILE is EISDIR or EOPNOTSUPP where it is not known; ENOENT when there is no /proc.
            if error.errno not in (errno.EISDIR, errno.EOPNOTSUPP, errno.ENOENT, errno.EINVAL):
                raise
    return _make_renamed(record, parent, name, item)


def _finish(fd: int, item: Occupant) -> Entry:
    if item.content:
        os.write(fd, item.content)
    os.fchmod(fd, _FILE_MODE if item.kind == "file" else _DIRECTORY_MODE)
    os.utime(fd, (SENTINEL, SENTINEL))
    node = os.fstat(fd)
    return Entry(item.path, item.kind, node.st_dev, node.st_ino, item.content)


def _make_unnamed(record: int, parent: int, name: str, item: Occupant) -> bool:
    fd = os.open(".", os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600, dir_fd=parent)
    try:
        note(record, _finish(fd, item))
        # Python passes AT_SYMLINK_FOLLOW, which makes this a link to the open file, only along with a dir_fd.
        os.link(f"/proc/self/fd/{fd}", name, src_dir_fd=parent, dst_dir_fd=parent, follow_symlinks=True)
    except FileExistsError:
        return False
    finally:
        os.close(fd)
    return True


def _make_renamed(record: int, parent: int, name: str, item: Occupant) -> bool:
    hidden = f".sandboxc-{os.urandom(8).hex()}"
    announce(record, os.path.join(os.path.dirname(item.path), hidden))
    if item.kind == "directory":
        os.mkdir(hidden, 0o700, dir_fd=parent)
        fd = os.open(hidden, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    else:
        fd = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=parent)
    try:
        note(record, _finish(fd, item))
        linux.rename_no_replace(hidden, name, old_dir=parent, new_dir=parent)
    except FileExistsError:
        _remove_name(parent, hidden, item.kind)
        return False
    except BaseException:
        _remove_name(parent, hidden, item.kind)
        raise
    finally:
        os.close(fd)
    return True


def _remove_name(parent: int, name: str, kind: str) -> None:
    if kind == "directory":
        os.rmdir(name, dir_fd=parent)
    else:
        os.unlink(name, dir_fd=parent)


def _adopt(record: int, parent: int, item: Occupant, others: Sequence[Entry]) -> bool:
    for entry in others:
        same = entry.path == item.path and entry.kind == item.kind and entry.content == item.content
        if same and not _differs(parent, entry):
            note(record, entry)
            return True
    return False


# --- releasing and cleaning --------------------------------------------------------------------------------


def release(state_dir: str, held: Held, *, timeout: float = 10.0) -> Cleaned:
    """End a run's hold, remove what it was the last to hold, and return what was removed.

    Call it when the sandbox is dead: as long as a process has a copy of the lock's descriptor, the record
    counts as alive, and a later clean-up does the work.
    """
    os.close(held.record_fd)
    os.close(held.lock_fd)
    return clean(state_dir, timeout=timeout)


def clean(state_dir: str, *, timeout: float = 10.0) -> Cleaned:
    """Remove what dead runs left behind, and return what was done.

    Raises:
        OSError: the state directory cannot be used, or its lock is not free within ``timeout`` seconds.
    """
    with _locked(state_dir, timeout) as runs:
        return _sweep(runs)


def _sweep(runs: int) -> Cleaned:
    removed: list[str] = []
    kept: list[tuple[str, str]] = []
    found = records(runs)
    held = {(node.path, node.dev, node.ino) for record in found if record.alive for node in record.nodes}
    for record in found:
        if record.alive:
            continue
        again = False
        for node in record.nodes:
            if (node.path, node.dev, node.ino) in held:
                continue
            again |= _remove(node.path, node, removed, kept)
        for path in record.announced:
            again |= _remove(path, None, removed, kept)
        if not again:
            os.unlink(record.name, dir_fd=runs)
            with suppress(FileNotFoundError):
                os.unlink(record.name + LOCK, dir_fd=runs)
    names = set(os.listdir(runs))
    for name in names:
        if name.endswith(LOCK) and name.removesuffix(LOCK) not in names:
            os.unlink(name, dir_fd=runs)
    ours = {*removed, *(path for path, _, _ in held)}  # the other node there is a later occupant
    left = tuple(item for item in kept if item[0] not in ours)
    return Cleaned(tuple(removed), left, sum(record.alive for record in found))


def _differs(parent: int, entry: Entry) -> str:
    """Return why the node at the entry's name is not the journaled one, or an empty string if it is."""
    name = os.path.basename(entry.path)
    node = os.stat(name, dir_fd=parent, follow_symlinks=False)
    kind = {stat.S_IFREG: "file", stat.S_IFDIR: "directory"}.get(stat.S_IFMT(node.st_mode), "other")
    wanted = "directory" if entry.kind == "temporary" else entry.kind
    if kind != wanted or (node.st_dev, node.st_ino) != (entry.dev, entry.ino):
        return "another node has the name"
    if entry.kind == "temporary":
        return "" if node.st_uid == os.geteuid() else "it has another owner"
    if int(node.st_mtime) != SENTINEL or node.st_mtime_ns != SENTINEL * 10**9:
        return "it was written to or replaced"
    if kind == "file":
        if node.st_nlink != 1:
            return "it has more than one name"
        if node.st_size != len(entry.content):
            return "its size has changed"
        if entry.content:
            fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=parent)
            try:
                if os.read(fd, len(entry.content) + 1) != entry.content:
                    return "its content has changed"
            finally:
                os.close(fd)
    return ""


def _remove(path: str, entry: Entry | None, removed: list[str], kept: list[tuple[str, str]]) -> bool:
    """Remove one journaled node if it is still that, or (``entry`` is None) what an announced name has.

    Returns whether to try again at the next clean-up.
    """
    name = os.path.basename(path)
    parent = -1
    try:
        parent = linux.open_no_follow(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
        reason = _differs(parent, entry) if entry else ""
        if (entry is None or entry.kind == "temporary") and not _made_up(name):
            reason = "no run makes such a name"
        if reason:
            kept.append((path, reason))
            return False
        if entry is None:
            _remove_announced(parent, name)
        elif entry.kind == "temporary":
            _remove_tree(parent, name, entry)
        else:
            _remove_name(parent, name, entry.kind)
        removed.append(path)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            return False
        kept.append((path, error.strerror or str(error)))
        return error.errno not in (errno.ENOTEMPTY, errno.EEXIST)
    finally:
        if parent != -1:
            os.close(parent)
    return False


def _made_up(name: str) -> bool:
    """Return whether a name is one that a run makes up: a record that names another was not written by a run."""
    digits = name.removeprefix(".sandboxc-") if name.startswith(".sandboxc-") else name.removeprefix("r")
    return digits != name and len(digits) in (12, 16) and set(digits) <= set("0123456789abcdef")


def _remove_announced(parent: int, name: str) -> None:
    """Remove what was made under an announced name: an empty directory or a small file, or it is not ours."""
    node = os.stat(name, dir_fd=parent, follow_symlinks=False)
    if stat.S_ISREG(node.st_mode) and node.st_size <= 4096 and node.st_nlink == 1:
        os.unlink(name, dir_fd=parent)
    else:
        os.rmdir(name, dir_fd=parent)


def _remove_tree(parent: int, name: str, entry: Entry) -> None:
    """Remove a directory and what it holds, following no link and staying on its file system.

    Directories found in it are moved up into it and emptied in turn, so that no depth of nesting, which the
    sandbox chose, costs descriptors or stack.
    """
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    top = os.open(name, flags, dir_fd=parent)
    try:
        status = os.fstat(top)
        if (status.st_dev, status.st_ino) != (entry.dev, entry.ino):
            raise OSError(errno.ESTALE, "another node has the name", entry.path)
        os.fchmod(top, 0o700)
        while inside := _unlink_files(top, entry.dev):
            for child in inside:
                fd = os.open(child, flags, dir_fd=top)
                try:
                    for below in _unlink_files(fd, entry.dev):
                        os.rename(below, os.urandom(12).hex(), src_dir_fd=fd, dst_dir_fd=top)
                finally:
                    os.close(fd)
                os.rmdir(child, dir_fd=top)
    finally:
        os.close(top)
    os.rmdir(name, dir_fd=parent)


def _unlink_files(directory: int, dev: int) -> list[str]:
    """Remove what is no directory, and return the names of the directories, made accessible first."""
    found = []
    for name in os.listdir(directory):
        node = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if not stat.S_ISDIR(node.st_mode):
            os.unlink(name, dir_fd=directory)
            continue
        if node.st_dev != dev:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), name)
        if node.st_mode & 0o700 != 0o700:
            os.chmod(name, 0o700, dir_fd=directory)
        found.append(name)
    return found

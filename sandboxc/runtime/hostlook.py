"""The survey's questions answered by this host's own file system."""

import os
import stat

from sandboxc.survey.look import DEVICE, DIRECTORY, FIFO, FILE, LINK, SOCKET, Mount, Name, Node

MAX_CONTENT = 1 << 20
_HEX = frozenset("0123456789ABCDEF")
#: A Name from a tuple, without the checks of its constructor: a look may make tens of thousands.
_new = tuple.__new__


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return DIRECTORY
    if stat.S_ISREG(mode):
        return FILE
    if stat.S_ISLNK(mode):
        return LINK
    if stat.S_ISSOCK(mode):
        return SOCKET
    return FIFO if stat.S_ISFIFO(mode) else DEVICE


class HostLook:
    """A ``survey.Look`` over the file system that this process sees. Nothing is followed, opened for
    writing, or remembered: every answer is asked for anew."""

    def node(self, path: str) -> Node | None:
        """Return the node at a path; None where there is none or this user may not see it."""
        try:
            found = os.lstat(path)
        except OSError:
            return None
        kind = _kind(found.st_mode)
        target = ""
        if kind == LINK:
            try:
                target = os.readlink(path)
            except OSError:
                return None
        return Node(kind, target, found.st_dev, found.st_ino, found.st_nlink)

    def names(self, path: str) -> tuple[Name, ...] | None:
        """Return the names in a directory, sorted; None where it cannot be listed and searched."""
        try:
            with os.scandir(path) as entries:
                found = tuple(sorted([_name(entry) for entry in entries]))
        except OSError:
            return None
        return found if not found or os.access(path, os.X_OK) else None

    def closed(self, path: str) -> str:
        """Return ``search``, ``list`` or an empty text, see ``survey.Look``."""
        try:
            found = os.lstat(path)
        except OSError:
            return ""
        if not stat.S_ISDIR(found.st_mode):
            return ""
        own, search = found.st_uid == os.geteuid(), os.access(path, os.X_OK)
        if own and not search:
            return "search"
        return "list" if search and not os.access(path, os.R_OK) else ""

    def content(self, path: str) -> str | None:
        """Return the text of a regular file of at most 1 MiB; None otherwise."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return None
            data = os.read(descriptor, MAX_CONTENT + 1)
            while len(data) <= MAX_CONTENT and (more := os.read(descriptor, MAX_CONTENT + 1 - len(data))):
                data += more
        except OSError:
            return None
        finally:
            os.close(descriptor)
        return data.decode("utf-8", "surrogateescape") if len(data) <= MAX_CONTENT else None

    def sockets(self) -> tuple[str, ...]:
        """Return the paths that Unix sockets are bound to, in every network namespace that shows (unix(7))."""
        found: set[str] = set()
        for table in _socket_tables():
            try:
                with open(table, encoding="utf-8", errors="surrogateescape", newline="\n") as file:
                    found.update(socket_paths(file.read()))
            except OSError:
                continue
        return tuple(path for path in sorted(found) if _is_socket(path))

    def mounts(self) -> tuple[Mount, ...]:
        """Return the mounts of this mount namespace (proc_pid_mountinfo(5)), kernel views left out."""
        try:
            with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape", newline="\n") as file:
                return mounts_in(file.read())
        except OSError:
            return ()


def _socket_tables() -> list[str]:
    """Return one /proc/PID/net/unix for each network namespace; the file is another node in each.

    A path leads to a socket whatever namespace it was bound in: that of a container, or of another run.
    """
    tables: dict[int, str] = {}
    for name in ("self", *filter(str.isdigit, os.listdir("/proc"))):
        table = f"/proc/{name}/net/unix"
        try:
            tables.setdefault(os.stat(table).st_ino, table)
        except OSError:
            continue
    return list(tables.values())


def socket_paths(text: str) -> tuple[str, ...]:
    """Return the absolute paths in the text of /proc/net/unix, sorted (proc_pid_net(5), unix(7))."""
    paths: list[str] = []
    for line in text.rstrip("\n").split("\n"):
        start = _path_start(line)
        if start >= 0:
            paths.append(line[start:])
        elif paths:  # a path may hold line feeds, so not every line feed ends a record
            paths[-1] += "\n" + line
    return tuple(sorted({path for path in paths if path.startswith("/")}))


def _path_start(line: str) -> int:
    """Return where the path stands in a line that starts a record of /proc/net/unix; -1 where none starts."""
    address, colon, rest = line.partition(": ")
    fields = rest[:34].split(" ")  # reference count, protocol, flags, type, state, and a blank behind them
    if not colon or address.split() != [address] or [len(field) for field in fields] != [8, 8, 8, 4, 2]:
        return -1
    if not all(map(_HEX.issuperset, fields)) or rest[34:35] != " ":
        return -1
    inode = rest[34:].lstrip(" ")
    behind = inode.lstrip("0123456789")
    return -1 if behind == inode else len(line) - len(behind.removeprefix(" "))


def mounts_in(text: str) -> tuple[Mount, ...]:
    """Return the mounts in the text of a mountinfo file, views of the kernel left out."""
    found: list[Mount] = []
    for line in text.split("\n"):
        fields = line.split(" ")
        if len(fields) < 7:
            continue
        root, point = map(unescaped, fields[3:5])
        if point.startswith("/") and point.split("/")[1] not in ("proc", "sys", "dev"):
            found.append(Mount(point, fields[2], root))
    return tuple(found)


def unescaped(field: str) -> str:
    """Return a path of a mountinfo file with its octal escapes such as ``\\040`` read (proc_pid_mountinfo(5))."""
    head, *rest = field.split("\\")
    return head + "".join([chr(int(part[:3], 8)) + part[3:] for part in rest])


def _name(entry: "os.DirEntry[str]") -> Name:
    if entry.is_file(follow_symlinks=False):
        kind = FILE
    elif entry.is_dir(follow_symlinks=False):
        kind = DIRECTORY
    else:
        kind = _entry_kind(entry)
    return _new(Name, (entry.name, kind, entry.inode()))


def _entry_kind(entry: "os.DirEntry[str]") -> str:
    if entry.is_symlink():
        return LINK
    try:
        return _kind(entry.stat(follow_symlinks=False).st_mode)
    except OSError:
        return DEVICE


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.lstat(path).st_mode)
    except OSError:
        return False

"""The survey's questions answered by this host's own file system."""

import os
import re
import stat

from sandboxc.survey.look import DEVICE, DIRECTORY, FIFO, FILE, LINK, SOCKET, Name, Node

MAX_CONTENT = 65_536
_OCTAL = re.compile(r"\\([0-7]{3})")


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
        """Return the names in a directory, sorted; None where it cannot be listed."""
        try:
            with os.scandir(path) as entries:
                return tuple(sorted(Name(entry.name, _entry_kind(entry), entry.inode()) for entry in entries))
        except OSError:
            return None

    def content(self, path: str) -> str | None:
        """Return the text of a regular file of at most 64 KiB; None otherwise."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return None
            data = os.read(descriptor, MAX_CONTENT + 1)
        except OSError:
            return None
        finally:
            os.close(descriptor)
        return data.decode("utf-8", "replace") if len(data) <= MAX_CONTENT else None

    def sockets(self) -> tuple[str, ...]:
        """Return the paths that Unix sockets of this network namespace are bound to (proc_net_unix, unix(7))."""
        try:
            with open("/proc/net/unix", encoding="utf-8", errors="surrogateescape") as file:
                lines = file.readlines()[1:]
        except OSError:
            return ()
        found = {fields[7] for line in lines if len(fields := line.rstrip("\n").split(" ", 7)) == 8}
        paths = {path.lstrip() for path in found}
        return tuple(sorted(path for path in paths if path.startswith("/") and _is_socket(path)))

    def mounts(self) -> tuple[str, ...]:
        """Return the mount points of this mount namespace (proc_pid_mountinfo(5)), kernel views left out."""
        try:
            with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
                lines = file.readlines()
        except OSError:
            return ()
        found: set[str] = set()
        for line in lines:
            fields = line.split(" ")
            if len(fields) > 4:
                path = _OCTAL.sub(lambda octal: chr(int(octal.group(1), 8)), fields[4])
                if path.partition("/")[0] == "" and path.split("/")[1] not in ("proc", "sys", "dev"):
                    found.add(path)
        return tuple(sorted(found))


def _entry_kind(entry: "os.DirEntry[str]") -> str:
    if entry.is_symlink():
        return LINK
    if entry.is_dir(follow_symlinks=False):
        return DIRECTORY
    if entry.is_file(follow_symlinks=False):
        return FILE
    try:
        return _kind(entry.stat(follow_symlinks=False).st_mode)
    except OSError:
        return DEVICE


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.lstat(path).st_mode)
    except OSError:
        return False

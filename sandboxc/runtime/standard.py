"""The standard descriptors of a command under bubblewrap.

A descriptor keeps the mount that it was opened through, whatever a sandbox mounts afterwards. So a file that the
caller redirected to standard input could be opened anew through /proc/self/fd/0 for writing, and its mode changed,
although the sandbox shows it read-only. A regular file that was opened for reading only is therefore handed over as
a copy: of its rest, sealed, with the file's own offset moved afterwards to where the command left off. A large one
goes through a pipe. A file that was opened for writing is the command's to write.
"""

import contextlib
import fcntl
import os
import stat

from sandboxc.records import NamedTuple, NoReturn
from sandboxc.runtime import linux

MAX_COPY = 64 << 20
"""Bytes up to which a file is copied into memory."""

_CHUNK = 1 << 20


class Sealed(NamedTuple):
    """What a command gets in place of this process's standard descriptors.

    ``stdio`` are the three descriptors; ``copies`` maps a standard number to the descriptor of its copy and the
    offset at which the copy began; ``pumps`` are the processes that fill pipes.
    """

    stdio: tuple[int, int, int]
    copies: dict[int, tuple[int, int]]
    pumps: tuple[int, ...]

    def end(self) -> None:
        """Move the offsets of what was copied to where the command left off, and close what was made."""
        for number, (fd, start) in self.copies.items():
            with contextlib.suppress(OSError):
                os.lseek(number, start + os.lseek(fd, 0, os.SEEK_CUR), os.SEEK_SET)
        for number, fd in enumerate(self.stdio):
            if fd != number:
                os.close(fd)
        for pid in self.pumps:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(pid, 9)
                os.waitpid(pid, 0)


def complete() -> str:
    """Open the null device where a standard descriptor is closed; return what is wrong with them, or an empty text."""
    for number in (0, 1, 2):
        try:
            kind = os.fstat(number).st_mode
        except OSError:
            os.dup2(os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC), number, inheritable=True)
            continue
        if stat.S_ISDIR(kind):
            return f"standard descriptor {number} is a directory"
    return ""


def seal(limit: int = MAX_COPY) -> Sealed:
    """Return what stands for the standard descriptors, which are open and no directories.

    Args:
        limit: bytes up to which a file is copied into memory.

    Raises:
        OSError: a file could not be read, or no copy or process could be made.
    """
    stdio = [0, 1, 2]
    copies: dict[int, tuple[int, int]] = {}
    pumps: list[int] = []
    try:
        for number in (0, 1, 2):
            found = os.fstat(number)
            if not stat.S_ISREG(found.st_mode) or fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY:
                continue
            start = os.lseek(number, 0, os.SEEK_CUR)
            if found.st_size - start > limit:
                stdio[number], pid = _pump(number, start)
                pumps.append(pid)
            else:
                stdio[number] = _copy(number, start)
                copies[number] = (stdio[number], start)
    except BaseException:
        Sealed((stdio[0], stdio[1], stdio[2]), {}, tuple(pumps)).end()
        raise
    return Sealed((stdio[0], stdio[1], stdio[2]), copies, tuple(pumps))


def _copy(number: int, start: int) -> int:
    """Return a read-only descriptor of a sealed copy of a file's rest."""
    made = os.memfd_create("stdin", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        while data := os.pread(number, _CHUNK, start):
            start += len(data)
            view = memoryview(data)
            while view:
                view = view[os.write(made, view) :]
        os.fchmod(made, 0o400)
        seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
        fcntl.fcntl(made, fcntl.F_ADD_SEALS, seals)
        return os.open(f"/proc/self/fd/{made}", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(made)


def _pump(number: int, start: int) -> tuple[int, int]:
    """Return the reading end of a pipe that a new process fills with a file's rest, and that process."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        _fill(number, start, write_end)
    os.close(write_end)
    return read_end, pid


def _fill(number: int, start: int, write_end: int) -> NoReturn:
    try:
        linux.close_others((number, write_end))
        while data := os.pread(number, _CHUNK, start):
            start += len(data)
            view = memoryview(data)
            while view:
                view = view[os.write(write_end, view) :]
    finally:
        os._exit(0)

"""Mounts that are made inside a bubblewrap sandbox after it is set up and before its command runs.

Bubblewrap re-reads the mount table for each bind, so thousands of masks take it seconds; it counts
arguments; it follows symbolic links; and it cannot pin one. A sandbox started with ``--info-fd`` and
``--block-fd`` waits between its set-up and the command. In that gap a forked helper enters its user and
mount name spaces and mounts what a list of steps says. The steps, in the order in which they are done:

- ``("private",)``: no mount that the host makes later arrives in the sandbox.
- ``("mask-file", path)``: an empty file that nobody may open, over a node that is no directory.
- ``("mask-dir", path)``: an empty directory that nobody may list or enter, over a directory.
- ``("pin-link", path)``: a symbolic link is bound onto itself: it still leads where it led, but cannot be
  removed, renamed or replaced (EBUSY).
- ``("pin-dir", path)``: a directory is bound onto itself, with the mounts below it: not renamed or removed.
- ``("read-only", path)``: a node is bound onto itself read-only, with the mounts below it.

A path is absolute and as the sandbox sees it; no symbolic link on the way to it is followed. After the path
two more members may give the device and the inode number that the node must have.

**Who dies how.** Bubblewrap's child runs the command when reading ``--block-fd`` returns, be it with data
or because the last writer is gone; and until then neither the death of bubblewrap nor of its parent ends it
(``--die-with-parent`` is not yet in force there). So a plain pipe runs the command without its masks when
the caller is killed in the gap, and killing bubblewrap alone does the same. Therefore ``blocking_pipe`` makes
a descriptor that never reports an end, a failure here kills the child itself, and ``Guard`` keeps a helper
that kills it when the caller is gone.

Facts: user_namespaces(7), mount_namespaces(7), ioctl_nsfs(2), open_tree(2), move_mount(2). A mount name
space is owned by one user name space, and with ``--dev`` or ``--disable-userns`` bubblewrap moves its
process into a further one below that, so the owner is asked for (NS_GET_USERNS) rather than taken from
the process. The kernel lets only a process with one thread change its user name space: hence the fork.
"""

import errno
import os
import select
import signal
import stat
import time
from collections.abc import Sequence
from contextlib import suppress

from sandboxc.plain_json import decode, encode
from sandboxc.records import NamedTuple, NoReturn
from sandboxc.runtime import linux

Step = tuple[str | int, ...]
"""One step: a verb and, but for ``private``, a path, and optionally a device and an inode number."""

VERBS: tuple[str, ...] = ("private", "mask-file", "mask-dir", "pin-link", "pin-dir", "read-only")
"""The verbs of steps."""

_HELD_BACK = {signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM}
"""What ends a caller and must not end the helper, which cleans up after it."""


class MountFailure(OSError):
    """A step, or the way into the sandbox, failed; the sandbox must be killed. ``errno`` and text say why."""


class _Plan(NamedTuple):
    verb: str
    path: str
    dev: int | None
    ino: int | None


def _plan(step: Step) -> _Plan:
    verb = step[0]
    if verb == "private" and len(step) == 1:
        return _Plan("private", "", None, None)
    if isinstance(verb, str) and verb in VERBS[1:] and len(step) in (2, 4) and isinstance(step[1], str):
        identity = step[2:] or (None, None)
        if all(part is None or isinstance(part, int) for part in identity):
            return _Plan(verb, step[1], identity[0], identity[1])  # type: ignore[arg-type]
    raise ValueError(f"no such mount step: {step!r}")


def wait_ready(pid: int, timeout: float = 10.0, *, control: int = -1) -> None:
    """Return when the process ``pid`` has given up all effective capabilities: its set-up is then complete.

    Bubblewrap writes ``--info-fd`` before it mounts anything, so its child's capabilities are the sign.

    Args:
        pid: the ``child-pid`` of ``--info-fd``, as this process sees it.
        timeout: seconds.
        control: a descriptor that, when it has something to read or is at its end, stops the waiting.

    Raises:
        MountFailure: ESRCH when the process is gone, ETIMEDOUT when the time is over, ECANCELED when
            ``control`` stopped it.
    """
    end = time.monotonic() + timeout
    pause = 0.0005
    while True:
        try:
            with open(f"/proc/{pid}/status", "rb") as file:
                fields = dict(line.split(b":", 1) for line in file.read().splitlines() if b":" in line)
        except (FileNotFoundError, ProcessLookupError):
            fields = {}
        if fields.get(b"State", b"X").strip()[:1] in (b"Z", b"X"):
            raise MountFailure(errno.ESRCH, "the sandbox ended before its mounts were made", str(pid))
        if int(fields.get(b"CapEff", b"1"), 16) == 0:
            return
        if time.monotonic() > end:
            raise MountFailure(errno.ETIMEDOUT, "the sandbox did not finish its set-up", str(pid))
        if select.select([control] if control != -1 else [], [], [], pause)[0]:
            raise MountFailure(errno.ECANCELED, "the caller of the sandbox is gone", str(pid))
        pause = min(pause * 1.03, 0.002)


def blocking_pipe() -> int:
    """Return a close-on-exec descriptor for ``--block-fd``: both ends of one pipe, so it has no end of file.

    A byte written to the caller's copy lets the command run; closing the copy does not.
    """
    read_end, write_end = os.pipe()
    try:
        return os.open(f"/proc/self/fd/{read_end}", os.O_RDWR | os.O_CLOEXEC)
    finally:
        os.close(read_end)
        os.close(write_end)


def late_mounts(pid: int, steps: Sequence[Step], *, timeout: float = 10.0) -> None:
    """Make the mounts of ``steps`` inside the sandbox of the blocked bubblewrap child ``pid``.

    When it returns, every step is done and the caller may write to ``--block-fd``. When it raises
    MountFailure the child has been killed; the caller kills and waits for bubblewrap. What happens when the
    caller is killed meanwhile is in the module's text: prefer Guard.

    Args:
        pid: the ``child-pid`` of ``--info-fd``.
        steps: see the module; an empty list only waits.
        timeout: seconds for all of it.

    Raises:
        ValueError: a step of another shape; nothing was done.
        MountFailure: anything else.
    """
    guard = Guard(steps, timeout=timeout, pid=pid)
    guard.started()
    guard.wait_mounted()
    guard._finish(b"leave")


class Guard:
    """A helper process that mounts, and that kills the sandbox unless it is told to let it run.

    Make one; start bubblewrap with ``--info-fd`` and ``--block-fd`` of its two descriptors (and
    ``--unshare-pid``, ``--cap-drop ALL``); call ``started``; then ``release``. When the process that holds
    the Guard dies before ``release``, in whatever way, the helper kills the sandbox.
    """

    def __init__(self, steps: Sequence[Step], *, timeout: float = 10.0, pid: int | None = None) -> None:
        """Fork the helper, from a process with one thread or one that takes care of its locks.

        Args:
            steps: see the module.
            timeout: seconds from now until all mounts are made.
            pid: the child, when it is known already and ``info_fd`` is not used.

        Raises:
            ValueError: a step of another shape.
            OSError: no pipe or process could be made.
        """
        plans = [_plan(step) for step in steps]
        linux.load()
        self._end = time.monotonic() + timeout
        self.block_fd = blocking_pipe()
        """Pass to bubblewrap as ``--block-fd``; -1 after ``started``."""
        info_read, self.info_fd = os.pipe()
        """Pass to bubblewrap as ``--info-fd``; -1 after ``started``."""
        control_read, self._control = os.pipe()
        self._answer, answer_write = os.pipe()
        self._mounted = False
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _HELD_BACK)  # the helper keeps it so
        self._helper = os.fork()
        if self._helper == 0:
            _child(pid, plans, (info_read, self.block_fd, control_read, answer_write), self._end)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for fd in (info_read, control_read, answer_write):
            os.close(fd)

    def started(self) -> None:
        """Close this process's copies of ``info_fd`` and ``block_fd``; bubblewrap has its own now."""
        for fd in (self.info_fd, self.block_fd):
            if fd != -1:
                os.close(fd)
        self.info_fd = self.block_fd = -1

    def wait_mounted(self) -> None:
        """Return when all steps are done. Raises MountFailure, with the sandbox killed, when they are not."""
        answer = b"done" if self._mounted else b""
        while answer != b"done":
            ready, _, _ = select.select([self._answer], [], [], max(0.0, self._end + 1 - time.monotonic()))
            data = os.read(self._answer, 65536) if ready else b""
            if not data:
                self._finish(b"")
                number, text = decode(answer.decode("utf-8")) if answer else (errno.EIO, "the mount helper died")
                raise MountFailure(number, text, "late mounts")
            answer += data
        self._mounted = True

    def release(self) -> None:
        """Wait for the mounts and let the command run. Raises MountFailure, with the sandbox killed."""
        self.started()
        self.wait_mounted()
        self._finish(b"run")

    def abort(self) -> None:
        """Kill the sandbox before its command has run; harmless after ``release``."""
        self.started()
        self._finish(b"")

    def _finish(self, word: bytes) -> None:
        helper, self._helper = self._helper, -1
        if helper == -1:
            return
        if word:
            os.write(self._control, word)
        os.close(self._control)
        os.close(self._answer)
        with suppress(ChildProcessError):  # a caller that ignores SIGCHLD has no children to wait for
            os.waitpid(helper, 0)


def _child(pid: int | None, plans: Sequence[_Plan], fds: tuple[int, int, int, int], end: float) -> NoReturn:
    """Be the helper: mount, report, and wait for a word; without one kill the sandbox."""
    info, block, control, answer = fds
    process = proc = -1
    word = b""
    try:
        os.setsid()  # a signal to the caller's process group must not end the one that cleans up after it
        # Only the sandbox and the caller may keep pipes of the caller open, or their ends are not seen.
        linux.close_others((*fds, 0, 1, 2))
        proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        if pid is None:
            pid = _child_pid(info, control, end)
        process = linux.pidfd_open(pid)
        wait_ready(pid, max(0.0, end - time.monotonic()), control=control)
        if plans:
            _enter(pid, process)
            _perform(plans)
        os.write(answer, b"done")
        word = os.read(control, 16)
        if word == b"run":
            os.write(block, b"x")
    except OSError as error:
        text = f"{error.strerror}: {error.filename}" if error.filename else str(error)
        os.write(answer, encode([error.errno or errno.EIO, text]).encode())
    except BaseException as error:
        os.write(answer, encode([errno.EIO, repr(error)]).encode())
    finally:
        try:
            if not word:
                if process != -1:
                    with suppress(OSError):
                        linux.pidfd_send_signal(process, 9)
                _kill_holders(proc, block)
        finally:
            os._exit(0 if word else 1)


def _kill_holders(proc: int, block: int) -> None:
    """Kill what else has the blocking pipe open: a child that bubblewrap made and died before telling of.

    Such a child waits for ever for its parent. A process that runs this program's own file is the caller, or
    a child of it that is about to become something else, and is left alone.
    """
    mine = os.readlink("self/exe", dir_fd=proc)
    pipe = f"pipe:[{os.fstat(block).st_ino}]"
    for name in filter(str.isdigit, os.listdir(proc)):
        try:
            process = linux.pidfd_open(int(name))
        except OSError:
            continue
        with suppress(OSError):
            listing = os.open(f"{name}/fd", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=proc)
            try:
                held = any(os.readlink(fd, dir_fd=listing) == pipe for fd in os.listdir(listing))
            finally:
                os.close(listing)
            if held and os.readlink(f"{name}/exe", dir_fd=proc) != mine:
                linux.pidfd_send_signal(process, 9)
        os.close(process)


def _child_pid(info: int, control: int, end: float) -> int:
    """Return the ``child-pid`` that bubblewrap writes, unless the caller is gone or the time is over."""
    text = b""
    while True:
        ready, _, _ = select.select([info, control], [], [], max(0.0, end - time.monotonic()))
        data = os.read(info, 4096) if info in ready else b""
        text += data
        if b"}" in text:
            return int(decode(text.decode("utf-8"))["child-pid"])
        if not data and info in ready:
            raise OSError(errno.ESRCH, "bubblewrap ended before it made a child")
        if not ready:
            raise OSError(errno.ETIMEDOUT, "bubblewrap did not say which child it made")
        if control in ready and info not in ready:
            # The caller is gone; bubblewrap may still be about to tell, and its child to be killed.
            control, end = info, min(end, time.monotonic() + 1)


def _enter(pid: int, process: int) -> None:
    """Move this process into the mount name space of ``pid`` and the user name space that owns it."""
    space = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    # The number could have passed to another process; the pidfd, opened before, would be readable then.
    ready, _, _ = select.select([process], [], [], 0)
    if ready:
        raise OSError(errno.ESRCH, os.strerror(errno.ESRCH), f"process {pid}")
    mine = os.stat("/proc/self/ns/mnt")
    if os.path.samestat(mine, os.fstat(space)):
        raise OSError(errno.EINVAL, "the process has no mount name space of its own", f"process {pid}")
    owner = linux.user_namespace_of(space)
    if not os.path.samestat(os.stat("/proc/self/ns/user"), os.fstat(owner)):
        linux.setns(owner, linux.CLONE_NEWUSER, f"user name space of {pid}")
    linux.setns(space, linux.CLONE_NEWNS, f"mount name space of {pid}")
    os.chdir("/")


def _perform(plans: Sequence[_Plan]) -> None:
    masks: dict[str, int] = {}
    source: int | None = None
    if any(plan.verb.startswith("mask-") for plan in plans):
        # A copy can be made only of a mount that is attached somewhere. On the root it is in nobody's way:
        # what resolves a path from the root does not cross to a mount that was put on it later.
        source = linux.new_tmpfs((("size", "65536"), ("mode", "0700"), ("nr_inodes", "8")))
        os.close(os.open("file", os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0, dir_fd=source))
        os.mkdir("dir", 0, dir_fd=source)
        os.chmod("file", 0, dir_fd=source)
        os.chmod("dir", 0, dir_fd=source)
        root = os.open("/", linux.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        linux.move_mount(source, root, "mask source")
        os.close(root)
        masks = {"mask-file": source, "mask-dir": source}
    try:
        for plan in plans:
            _one(plan, masks.get(plan.verb))
    finally:
        if source is not None:
            os.fchdir(source)
            linux.detach(".")
            os.close(source)


def _one(plan: _Plan, source: int | None) -> None:
    if plan.verb == "private":
        linux.make_private()
        return
    target = linux.open_no_follow(plan.path)
    try:
        status = os.fstat(target)
        _verify(plan, status)
        attributes = 0
        if source is not None:
            name = plan.verb.removeprefix("mask-")
            tree = linux.open_tree(source, name, linux.OPEN_TREE_CLONE)
            attributes = linux.MOUNT_ATTR_RDONLY | linux.MOUNT_ATTR_NOSUID
            attributes |= linux.MOUNT_ATTR_NODEV | linux.MOUNT_ATTR_NOEXEC
        else:
            flags = linux.OPEN_TREE_CLONE | linux.AT_EMPTY_PATH
            if stat.S_ISDIR(status.st_mode):
                flags |= linux.AT_RECURSIVE
            tree = linux.open_tree(target, "", flags)
            if plan.verb == "read-only":
                attributes = linux.MOUNT_ATTR_RDONLY
        try:
            if attributes:
                linux.mount_setattr(tree, attributes, recursive=source is None, what=plan.path)
            linux.move_mount(tree, target, f"{plan.verb} {plan.path}")
        finally:
            os.close(tree)
    finally:
        os.close(target)


def _verify(plan: _Plan, status: os.stat_result) -> None:
    directory, link = stat.S_ISDIR(status.st_mode), stat.S_ISLNK(status.st_mode)
    fits = {
        "mask-file": not directory and not link,
        "mask-dir": directory,
        "pin-link": link,
        "pin-dir": directory,
        "read-only": not link,
    }[plan.verb]
    if not fits:
        raise OSError(errno.ESTALE, "not the kind of node that the step is for", f"{plan.verb} {plan.path}")
    if (plan.dev is not None and plan.dev != status.st_dev) or (plan.ino is not None and plan.ino != status.st_ino):
        raise OSError(errno.ESTALE, "another node than the step is for", f"{plan.verb} {plan.path}")

"""Running one command under bubblewrap, from a plan of ``emitters.bwrap.finalise``.

Entry point::

    run_bwrap(runner, plan, command, env=..., state_dir=..., temp=...) -> Outcome

What happens, in order: names are occupied and the private temp directory is made (``occupants``); every bind
source is opened without following links and compared with what the survey saw; bwrap is started with those
descriptors and waits, set up, before its command; the mounts that it made are compared with the plan, the late
steps are made (``mounts``), the command is looked up inside; only then it may start. Whatever goes wrong before
ends with code 125 and a ``stage``; the command has not run then, and bwrap is dead.

``stage`` is one of: ``stale`` (what the survey saw has changed: survey again and make a new plan), ``owner``
(design rule 13: as root, without capabilities, a workspace of another owner is out of reach), ``occupy``,
``bind``, ``spawn``, ``setup``, ``confirm``, ``mounts``, ``cwd``; ``signal`` with 128 and the number of a signal that
ended the run before its command; or ``lookup`` and ``exec`` with the shell's codes 127 and 126. It is empty when the
command ran.
"""

import _signal  # type: ignore[import-not-found]  # `signal` is this and enumerations, which take long to make
import contextlib
import errno
import os
import select
import stat
import time
from collections.abc import Mapping, Sequence

from sandboxc import seccomp
from sandboxc.emitters.bwrap.plan import (
    BIND,
    MASK,
    MAX_WORDS,
    RO_BIND,
    SOCKET_MASK,
    TMPFS,
    VIEW,
    WORKSPACE,
    BwrapPlan,
    Op,
    groups,
)
from sandboxc.plain_json import decode
from sandboxc.records import NamedTuple
from sandboxc.runtime import linux, mounts, occupants, standard
from sandboxc.runtime.bwrap_runner import Runner, high, spawn, wait
from sandboxc.runtime.hostlook import unescaped

_IN_ROOT = 0x10  # RESOLVE_IN_ROOT, openat2(2)
_DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"
FORWARDED = (1, 2, 15)  # SIGHUP, SIGINT, SIGTERM
NOT_STARTED = 125
_OWN_WORDS = 64  # what starting bwrap adds


class Outcome(NamedTuple):
    """What became of one run.

    ``code`` is the exit code to pass on. ``started`` says whether the command ran. ``message`` is one line for a
    person where it did not. ``occupied`` are the names that were held, ``left`` those that could not be removed.
    """

    code: int
    started: bool
    stage: str = ""
    message: str = ""
    occupied: tuple[str, ...] = ()
    left: tuple[tuple[str, str], ...] = ()


class _Failed(Exception):
    def __init__(self, stage: str, message: str, code: int = NOT_STARTED) -> None:
        self.stage, self.message, self.code = stage, message, code
        super().__init__(message)


def run_bwrap(
    runner: Runner,
    plan: BwrapPlan,
    command: Sequence[str],
    *,
    env: Mapping[str, str],
    state_dir: str,
    temp: str = "",
) -> Outcome:
    """Run a command under a plan, wait for it and return what became of it.

    Args:
        runner: a program that ``find_runner`` returned.
        plan: a plan that confines, made from a survey of this moment; ``plan.cwd`` is where the command starts.
        command: the program, looked up in the PATH of ``env`` as the sandbox sees it, and its arguments.
        env: the whole environment of the command.
        state_dir: the directory of journals (``runtime.occupants``), out of the sandbox's reach.
        temp: the path of the private temp directory of the run, to be made; empty for none.
    """
    held: occupants.Held | None = None
    plan = _reachable(plan)
    run = _Run(runner, plan, command, env)
    try:
        run.check_standard()
        held = _hold(plan, state_dir, temp)
        outcome = run.go(held)
    except _Failed as failure:
        outcome = Outcome(failure.code, False, failure.stage, failure.message)
    finally:
        run.end()
        run.close()
        left = _let_go(state_dir, held)
    names = tuple(item.path for item in plan.occupants)
    return outcome._replace(occupied=names if held else (), left=left)


def _reachable(plan: BwrapPlan) -> BwrapPlan:
    """Return the plan without the occupants of directories where neither this user nor, so, the command can write."""
    out: set[str] = set()
    for item in plan.occupants:
        parent = item.path.rpartition("/")[0] or "/"
        try:
            mine = os.lstat(parent).st_uid == os.geteuid()
            sealed = bool(os.statvfs(parent).f_flag & os.ST_RDONLY)
        except OSError:
            continue  # occupying will say what is wrong
        if sealed or (not mine and not os.access(parent, os.W_OK | os.X_OK)):
            out.add(item.path)
    if not out:
        return plan
    return plan._replace(
        occupants=tuple(item for item in plan.occupants if item.path not in out),
        ops=tuple(op for op in plan.ops if op.path not in out),
    )


def _hold(plan: BwrapPlan, state_dir: str, temp: str) -> occupants.Held | None:
    if not plan.occupants and not temp:
        return None
    wanted = [
        occupants.Occupant(item.path, item.kind, item.content.encode("utf-8", "surrogateescape"))
        for item in plan.occupants
    ]
    try:
        held = occupants.occupy(state_dir, wanted)
    except (OSError, ValueError) as error:
        raise _Failed("occupy", f"a name could not be occupied: {error}") from None
    if held.present:
        _let_go(state_dir, held)
        raise _Failed("stale", f"`{held.present[0]}` has come into being since the survey")
    if temp:
        base, _, name = temp.rpartition("/")
        try:
            occupants.temporary(state_dir, held, base, name=name)
        except OSError as error:
            _let_go(state_dir, held)
            raise _Failed("occupy", f"the private temp directory could not be made: {error}") from None
    return held


def _let_go(state_dir: str, held: occupants.Held | None) -> tuple[tuple[str, str], ...]:
    """Remove what the run held; its record stays locked until the last process of the sandbox is gone."""
    if held is None:
        return ()
    left: list[tuple[str, str]] = []
    try:
        left += occupants.release(state_dir, held).kept
        end = time.monotonic() + 0.5
        while os.path.exists(held.record) and time.monotonic() < end:
            time.sleep(0.005)
            left += occupants.clean(state_dir).kept
    except OSError as error:
        left.append((held.record, str(error)))
    return tuple(dict.fromkeys(left))


class _Run:
    def __init__(self, runner: Runner, plan: BwrapPlan, command: Sequence[str], env: Mapping[str, str]) -> None:
        self.runner = runner
        self.plan = plan
        self.command = list(command)
        self.env = env
        self.opened: list[int] = []  # for bwrap
        self.pid = 0
        self.inner = 0  # the first process of the sandbox
        self.inner_fd = -1
        self.released = False

    def close(self) -> None:
        """Close the descriptors that are still open."""
        for fd in self.opened:
            os.close(fd)
        self.opened = []

    def end(self) -> None:
        """Return when nothing of the sandbox lives: a command could have kept bwrap's own process in it alive."""
        if self.inner_fd < 0:
            return
        with contextlib.suppress(ProcessLookupError):
            linux.pidfd_send_signal(self.inner_fd, 9)
        select.select([self.inner_fd], [], [], 5)
        os.close(self.inner_fd)
        self.inner_fd = -1

    def check_standard(self) -> None:
        """Refuse a directory among the standard descriptors: it would lead past every mask."""
        fault = standard.complete()
        if fault:
            raise _Failed("bind", fault)

    # -- sources -----------------------------------------------------------------------------------------

    def _open(self, op: Op) -> int:
        """Return a descriptor of the node that an operation speaks of, if it is the one that the survey saw."""
        try:
            fd = high(linux.open_no_follow(op.path))
        except OSError as error:
            stage = "stale" if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP) else "bind"
            raise _Failed(stage, f"`{op.path}` cannot be bound: {error.strerror}") from None
        self.opened.append(fd)
        status = os.fstat(fd)
        if stat.S_ISLNK(status.st_mode):
            raise _Failed("stale", f"`{op.path}` has become a symbolic link since the survey")
        if op.node is not None and (op.node.dev, op.node.ino) != (status.st_dev, status.st_ino):
            raise _Failed("stale", f"`{op.path}` has been replaced since the survey")
        if op.role == WORKSPACE:
            _check_owner(op.path, status)
        return fd

    def _source(self, op: Op) -> list[str]:
        if op.verb == MASK:
            self.opened.append(high(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)))
            return ["--ro-bind-data", str(self.opened[-1])]
        return [f"--{op.verb}-fd", str(self._open(op))]

    def _words(self) -> list[str]:
        gone = {op for op in self.plan.ops if op.role == SOCKET_MASK and not os.path.lexists(op.path)}
        self.plan = self.plan._replace(ops=tuple(op for op in self.plan.ops if op not in gone))
        for op in self.plan.ops:
            if op.verb in (MASK, TMPFS) and op.node is not None:
                self._open(op)  # bwrap would make a name that is gone
                os.close(self.opened.pop())
        return [word for group in groups(self.plan, self._source) for word in group]

    # -- the run -----------------------------------------------------------------------------------------

    def go(self, held: occupants.Held | None) -> Outcome:
        words = self._words()
        arch = os.uname().machine
        program = seccomp.bwrap_filter(arch, network=self.plan.network.mode) if self.plan.filtered else b""
        if held is not None:
            self.opened.append(high(os.dup(held.lock_fd)))
            words += ["--sync-fd", str(self.opened[-1])]
        if len(words) + len(self.command) > MAX_WORDS - _OWN_WORDS:
            raise _Failed(
                "spawn",
                f"bubblewrap takes {MAX_WORDS} words, and the sandbox has {len(words)}, the command "
                f"{len(self.command)}; pass its arguments in a file, or through xargs",
            )
        status, status_end = os.pipe()
        self.opened.append(high(status_end))
        status = high(status)
        words += ["--json-status-fd", str(self.opened[-1])]
        # The guard holds the command back: where this process dies before letting go, the guard ends the sandbox.
        guard = mounts.Guard([step.words() for step in self.plan.steps])
        words += ["--info-fd", str(guard.info_fd), "--block-fd", str(guard.block_fd)]
        signals = _Signals(self)
        sealed: standard.Sealed | None = None
        try:
            signals.install()
            try:
                sealed = standard.seal()
                self.pid = spawn(
                    self.runner,
                    words,
                    self.command,
                    self.env,
                    keep=(*self.opened, guard.info_fd, guard.block_fd),
                    stdio=sealed.stdio,
                    scope_abstract=self.plan.scope_abstract,
                    program=program,
                )
            except OSError as error:
                raise _Failed("spawn", f"bubblewrap could not be started: {error}") from None
            self.close()
            guard.started()
            return self._supervise(status, guard, signals)
        finally:
            signals.restore()
            guard.abort()
            os.close(status)
            if sealed is not None:
                sealed.end()

    def _supervise(self, status: int, guard: mounts.Guard, signals: "_Signals") -> Outcome:
        try:
            lines = self._first_line(status)
            self._prepare(guard)
            if signals.caught:
                raise _Failed("signal", "")
            self.released = True
            guard.release()
        except BaseException as error:
            self._kill()
            if signals.caught and isinstance(error, _Failed):  # bwrap may have got it too, and have ended
                raise _Failed("signal", "a signal came before the command started", 128 + signals.caught) from None
            raise
        code = wait(self.pid)
        self.pid = 0
        return self._judge(code, lines + _drain(status), signals.caught)

    def _judge(self, code: int, said: bytes, caught: int) -> Outcome:
        """Return the outcome: bwrap reports an exit code on its status descriptor only if the command ran."""
        for document in said.decode("utf-8", "replace").splitlines():
            if '"exit-code"' in document:
                return Outcome(int(decode(document)["exit-code"]), True)
        if code < 0:
            return Outcome(128 - code, True, "", "bubblewrap was killed")
        if caught:  # it came between the start of the sandbox and that of the command
            return Outcome(128 + caught, False, "signal", "a signal came before the command started")
        return Outcome(126, False, "exec", f"`{self.command[0]}` could not be executed in the sandbox")

    def _first_line(self, status: int) -> bytes:
        """Return what bwrap says first, which names the first process of the sandbox."""
        said = b""
        end = time.monotonic() + 20
        while b"\n" not in said:
            ready, _, _ = select.select([status], [], [], max(0.0, end - time.monotonic()))
            data = os.read(status, 4096) if ready else b""
            if not data:
                raise self._setup_failure("bubblewrap ended at once")
            said += data
        first, _, rest = said.partition(b"\n")
        self.inner = int(decode(first.decode("utf-8"))["child-pid"])
        try:
            self.inner_fd = linux.pidfd_open(self.inner)
        except OSError as error:
            raise self._setup_failure(error.strerror or str(error)) from None
        return rest

    def _prepare(self, guard: mounts.Guard) -> None:
        """Compare, mount and look up inside the sandbox, which waits."""
        try:
            guard.wait_mounted()
        except mounts.MountFailure as error:
            if error.errno in (errno.ESTALE, errno.ENOENT, errno.ELOOP):
                raise _Failed("stale", f"a mount in the sandbox failed: {error.strerror}") from None
            if not self.plan.steps or error.errno in (errno.ESRCH, errno.ETIMEDOUT):
                raise self._setup_failure(error.strerror or str(error)) from None
            raise _Failed("mounts", f"a mount in the sandbox failed: {error.strerror}") from None
        self._confirm()
        try:
            root = os.open(f"/proc/{self.inner}/root", linux.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise _Failed("setup", f"the sandbox cannot be seen: {error.strerror}") from None
        try:
            _look_up(root, self.command[0], self.plan.cwd or "/", self.env)
        finally:
            os.close(root)

    def _setup_failure(self, reason: str) -> _Failed:
        """Return why the sandbox did not come up: names that the plan mounts over may have gone meanwhile."""
        for op in self.plan.ops:
            if op.verb in (BIND, RO_BIND, MASK) and op.role != VIEW and not os.path.lexists(op.path):
                return _Failed("stale", f"`{op.path}` has gone since the survey")
        return _Failed("setup", f"bubblewrap could not set up the sandbox: {reason}")

    def _confirm(self) -> None:
        """Refuse a sandbox in which a mount of the plan lies elsewhere or may be written to."""
        try:
            with open(f"/proc/{self.inner}/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
                lines = file.readlines()
        except OSError as error:
            raise _Failed("confirm", f"the mounts of the sandbox cannot be read: {error.strerror}") from None
        found: dict[str, bool] = {}
        for line in lines:
            fields = line.split(" ")
            found[unescaped(fields[4])] = "ro" in fields[5].split(",")
        for path, closed in self.plan.bounds.items():
            raw = path.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")
            if raw not in found:
                raise _Failed("stale", f"the mount of `{path}` is not where the plan has it")
            if closed and not found[raw]:
                raise _Failed("confirm", f"`{path}` is not read-only in the sandbox")

    def _kill(self) -> None:
        if self.pid:
            os.kill(self.pid, 9)
            wait(self.pid)
            self.pid = 0

    def signal(self, number: int) -> None:
        """Pass a signal on to the command; before it runs, the sandbox is ended after the step at hand."""
        if not self.released or not self.pid:
            return
        target = _first_child(self.inner) or self.pid
        with contextlib.suppress(ProcessLookupError):
            os.kill(target, number)


def _check_owner(path: str, status: os.stat_result) -> None:
    """Refuse, as root, a workspace that only its other owner may write to (design rule 13).

    The sandbox's user namespace maps one user, so no capability in it would count for files of another; and one
    that did (CAP_DAC_OVERRIDE) would open the masks, which are files and directories of mode 0.
    """
    if os.geteuid() != 0 or status.st_uid == 0:
        return
    if status.st_mode & 0o002 or (status.st_gid == 0 and status.st_mode & 0o020):
        return
    raise _Failed(
        "owner",
        f"`{path}` belongs to user {status.st_uid}, and root without capabilities cannot write to it; run as that user",
    )


def _drain(fd: int) -> bytes:
    found = b""
    while data := os.read(fd, 4096):
        found += data
    return found


def _first_child(pid: int) -> int:
    """Return the first child of the sandbox's init, which is the command; 0 where it cannot be told."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as file:
            found = file.read().split()
    except OSError:
        return 0
    return int(found[0]) if found else 0


# -- looking a command up inside ------------------------------------------------------------------------------


def _inside(root: int, path: str, flags: int = linux.O_PATH) -> int:
    """Return a descriptor of an absolute path as a process in the sandbox would find it, links followed."""
    import struct

    how = struct.pack("=QQQ", flags | os.O_CLOEXEC, 0, _IN_ROOT)
    return linux.syscall("openat2", root, os.fsencode(path), how, 24, what=path)


def _look_up(root: int, program: str, cwd: str, env: Mapping[str, str]) -> None:
    """Raise with the shell's code where a program is not in the sandbox or not executable there."""
    try:
        os.close(_inside(root, cwd, linux.O_PATH | os.O_DIRECTORY))
    except OSError as error:
        if error.errno == errno.ENOSYS:
            return
        raise _Failed("cwd", f"`{cwd}` cannot be entered in the sandbox: {error.strerror}") from None
    if "/" in program:
        candidates = [os.path.join(cwd, program)]
    else:
        directories = env.get("PATH", _DEFAULT_PATH).split(":")
        candidates = [os.path.join(cwd, directory, program) for directory in directories]
    refused = ""
    for candidate in candidates:
        try:
            fd = _inside(root, candidate)
        except OSError:
            continue
        mode = os.fstat(fd).st_mode
        os.close(fd)
        if stat.S_ISREG(mode) and mode & 0o111:
            return
        refused = candidate
    if refused:
        raise _Failed("lookup", f"`{refused}` is not executable in the sandbox", 126)
    raise _Failed("lookup", f"`{program}` is not found in the sandbox", 127)


# -- signals ----------------------------------------------------------------------------------------------------


class _Signals:
    """Passes the signals of FORWARDED on while a run lasts, where this is the main thread."""

    def __init__(self, run: _Run) -> None:
        self._run = run
        self._before: dict[int, object] = {}
        self.caught = 0

    def install(self) -> None:
        for number in FORWARDED:
            try:
                if _signal.getsignal(number) != _signal.SIG_IGN:
                    self._before[number] = _signal.signal(number, self._handle)
            except ValueError:  # not the main thread: whoever owns the signals sends them on
                return

    def _handle(self, number: int, frame: object) -> None:
        self.caught = self.caught or number
        self._run.signal(number)

    def restore(self) -> None:
        for number, before in self._before.items():
            _signal.signal(number, before if before is not None else _signal.SIG_DFL)


__all__ = ["BIND", "RO_BIND", "Outcome", "run_bwrap"]

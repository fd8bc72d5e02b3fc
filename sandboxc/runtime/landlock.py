"""Running a command under Landlock: the functional probe, the run, and its exit code."""

import _signal as signal  # type: ignore[import-not-found]  # `signal` is this and enumerations, which take long to make
import contextlib
import os
import sys
from collections.abc import Mapping, Sequence
from types import FrameType

from sandboxc import landlock_abi, seccomp
from sandboxc.records import Any, NamedTuple
from sandboxc.runtime import landlock_exec, linux

SETUP_FAILED = 125
_CANNOT_EXECUTE, _NOT_FOUND = 126, 127
_ENOENT, _ENOTDIR, _EACCES = 2, 20, 13

#: Signals that are handed on to the command. The terminal sends its own to the command as well (it shares the
#: process group), so those are not handed on a second time; stops are left to the shell's job control.
FORWARDED = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGALRM,
    signal.SIGWINCH,
)
_SI_KERNEL = 0x80

_TRUE = ("/usr/bin/true", "/bin/true", "/run/current-system/sw/bin/true")


class Probe(NamedTuple):
    """Whether Landlock and its companion work on this host, and which ABI and errata the kernel reports.

    ``reason`` says in one line why not; it is empty where they work.
    """

    usable: bool
    abi: int
    errata: int
    reason: str


class Outcome(NamedTuple):
    """What became of a run.

    ``code`` is the exit code for the caller: the command's own, ``128 + n`` after signal n, 125 where it never
    ran, 126 or 127 where execve refused it. ``stage`` and ``message`` say what failed before it started (see
    ``landlock_exec``); ``skipped`` are paths whose rules were left out because their node had changed.
    """

    code: int
    started: bool
    stage: str
    message: str
    skipped: tuple[str, ...]


def machine() -> str:
    """Return this machine's architecture as ``sandboxc.seccomp`` names it, or an empty text where it knows none."""
    name = os.uname().machine
    return name if name in seccomp.ARCHES else ""


def probe(*, network: str = "deny") -> Probe:
    """Return whether a child of this process can really be confined.

    The child applies a rule set that grants reading only and the companion for ``network``, finds that a write
    and (unless the network is open) a socket are refused, and executes a program. Nothing is left behind.

    Args:
        network: the network mode that the run will use.
    """
    try:
        abi, errata = linux.landlock_abi(), linux.landlock_errata()
    except OSError as fault:
        return Probe(False, 0, 0, str(fault))
    arch = machine()
    if not abi:
        return Probe(False, 0, 0, "this kernel has no Landlock, or it is not enabled")
    if not arch:
        return Probe(False, abi, errata, f"there is no filter for {os.uname().machine}")
    known = min(abi, landlock_abi.LATEST)
    closed = network != "allow-all"
    ruleset: dict[str, Any] = {
        "abi": known,
        "handled_fs": landlock_abi.handled_fs(known),
        "handled_net": landlock_abi.handled_net(known) if closed else 0,
        "scoped": landlock_abi.scopes(known),
        "rules": [{"path": "/", "kind": "directory", "rights": landlock_abi.read_rights(known)}],
    }
    program = seccomp.landlock_filter(arch, network=network, abi=known)
    reason = _tried(ruleset, program, closed)
    return Probe(not reason, abi, errata, reason)


def _tried(ruleset: Mapping[str, Any], program: bytes, closed: bool) -> str:
    """Return why a child could not be confined and execute a program; an empty text if it could."""
    linux.load()
    command = next((path for path in _TRUE if os.path.exists(path)), "")
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            fault = _confined_child(ruleset, program, closed, write_end, command)
            os.write(write_end, fault.encode(errors="replace")[:4000])
        finally:
            os._exit(1)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        said = pipe.read().decode(errors="replace")
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if said or status:
        return said or f"the confined program ended with {status}"
    return ""


def _confined_child(ruleset: Mapping[str, Any], program: bytes, closed: bool, status: int, command: str) -> str:
    """Confine this process, try what must be refused, and become ``command``; return what went wrong."""
    import socket

    try:
        os.set_inheritable(status, False)
        landlock_exec.apply(ruleset, program, keep_fds=(status,))
        if not _refused(lambda: os.close(os.open("/dev/null", os.O_WRONLY))):
            return "a file could be opened for writing against the rules"
        if closed and not _refused(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close()):
            return "a socket could be made against the filter"
        if not command:
            os._exit(0)
        os.execve(command, [command], {})
    except Exception as fault:
        return f"{type(fault).__name__}: {fault}"


def _refused(operation: Any) -> bool:
    try:
        operation()
    except OSError as fault:
        return fault.errno == _EACCES
    return False


def run_landlock(
    ruleset: Mapping[str, Any] | None,
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: str,
    seccomp_program: bytes | None,
) -> int:
    """Run a command under a bound rule set and return its exit code; what kept it from starting goes to stderr.

    The arguments are those of ``execute``.
    """
    outcome = execute(ruleset, argv, env=env, cwd=cwd, seccomp_program=seccomp_program)
    if outcome.message:
        sys.stderr.write(f"sandboxc: {outcome.message}\n")
    return outcome.code


def execute(
    ruleset: Mapping[str, Any] | None,
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: str,
    seccomp_program: bytes | None,
    keep_fds: Sequence[int] = (),
    keep_capabilities: int = 0,
) -> Outcome:
    """Run a command under a bound rule set, hand signals on to it, wait for its end, and return the outcome.

    The command shares the standard descriptors, the terminal and the process group of the caller. It is killed
    when the calling thread ends. Call it from the main thread of a process that has no other.

    Args:
        ruleset: ``LandlockPlan.ruleset()``; None confines no files.
        argv: the command; a name without a slash is looked up in the PATH of ``env``.
        env: the whole environment of the command.
        cwd: the directory to start in; one that cannot be entered is a failure.
        seccomp_program: ``LandlockPlan.seccomp(machine())``, or None.
        keep_fds: descriptors that the command inherits besides the standard ones.
        keep_capabilities: mask of capabilities that the command keeps.
    """
    relay = _Relay()
    try:
        started = landlock_exec.spawn(
            argv,
            ruleset,
            seccomp_program,
            env,
            cwd,
            keep_fds=keep_fds,
            keep_capabilities=keep_capabilities,
            die_with_parent=True,
        )
        if started.outcome != "started":
            return Outcome(_failure_code(started), False, started.stage, started.message, started.skipped)
        code = relay.wait(started.pid)
        return Outcome(code, True, "", "", started.skipped)
    except (OSError, ValueError) as fault:
        return Outcome(SETUP_FAILED, False, "setup", str(fault), ())
    finally:
        relay.close()


def _failure_code(result: landlock_exec.SpawnResult) -> int:
    if result.outcome != "exec-failed":
        return SETUP_FAILED
    return _NOT_FOUND if result.errno in (_ENOENT, _ENOTDIR) else _CANNOT_EXECUTE


class _Relay:
    """Hands signals on to a command while it runs.

    Until the command runs, signals are remembered by handlers, which execve resets in the child; once it does,
    they are blocked and fetched one by one, because only then can be seen who sent them.
    """

    def __init__(self) -> None:
        self._early: list[int] = []
        self._before: dict[int, Any] = {}
        if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN:  # else the command could not be waited for
            self._before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._mask: set[int] | None = None
        for number in FORWARDED:
            known = signal.getsignal(number)
            if known not in (signal.SIG_IGN, None):
                self._before[number] = signal.signal(number, self._remember)

    def _remember(self, number: int, _frame: FrameType | None) -> None:
        self._early.append(number)

    def wait(self, pid: int) -> int:
        """Return the exit code of a command that was started as ``pid``."""
        taken = {*self._before, signal.SIGCHLD}
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, taken)
        process = linux.pidfd_open(pid)
        try:
            for number in self._early:
                self._send(process, number)
            self._early.clear()
            while True:
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    code = os.waitstatus_to_exitcode(status)
                    return 128 - code if code < 0 else code
                found = signal.sigwaitinfo(taken)
                if found.si_signo != signal.SIGCHLD and found.si_code != _SI_KERNEL:
                    self._send(process, found.si_signo)
        finally:
            os.close(process)

    def _send(self, process: int, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):  # it ended in the meantime
            linux.pidfd_send_signal(process, number)

    def close(self) -> None:
        """Give every signal back what it did before."""
        if self._mask is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
        for number, handler in self._before.items():
            signal.signal(number, handler)

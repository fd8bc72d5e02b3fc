"""The bubblewrap program of this host: finding it, starting it, asking whether it works.

Entry points::

    find_runner(path_env, access, euid) -> Runner            raises RunnerError
    probe(runner, network=..., directory=...) -> Probe       starts one throw-away sandbox
    spawn(runner, options, command, env, ...) -> int         the pid of a started bwrap

Facts: bwrap(1), memfd_create(2), prctl(2) PR_SET_PDEATHSIG. ``--die-with-parent`` follows the thread that
forks, so call from a thread that lives as long as the sandbox must.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence

from sandboxc import seccomp
from sandboxc.policy import ALLOW_ALL, DENY, WRITE, Network
from sandboxc.records import NamedTuple, NoReturn
from sandboxc.runtime import linux

NEEDED = ("--bind-fd", "--ro-bind-fd", "--args", "--json-status-fd", "--block-fd", "--ro-bind-data", "--perms")
_MAX_PROGRAM = 1 << 20  # no bwrap is nearly as long
#: Variables that make the loader or libc open files (ld.so(8), "secure-execution mode"): they reach the command
#: through ``--setenv``, because what they name may lie where an earlier run could write, and bwrap is not confined.
LOADER_VARIABLES = frozenset(
    (
        "GCONV_PATH",
        "GETCONF_DIR",
        "GLIBC_TUNABLES",
        "HOSTALIASES",
        "LOCALDOMAIN",
        "LOCPATH",
        "NIS_PATH",
        "NLSPATH",
        "RESOLV_HOST_CONF",
        "RES_OPTIONS",
        "TZDIR",
    )
)
#: Where a system's own programs lie, file-hierarchy(7), and the stores of those that keep them elsewhere.
_SYSTEM = ("/usr", "/bin", "/sbin", "/opt", "/nix/store", "/gnu/store", "/run/current-system")
LOADER_PREFIXES = ("LD_", "MALLOC_", "DYLD_")
SCOPE_ABSTRACT = 1  # LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET, linux/landlock.h


class RunnerError(Exception):
    """No bubblewrap of this host can be used; the text says why."""


class Runner(NamedTuple):
    """A bubblewrap program: its absolute physical path, the options that its ``--help`` names, whether it is
    installed set-user-ID."""

    path: str
    options: frozenset[str]
    setuid: bool = False


class Probe(NamedTuple):
    """Whether a runner works here for one network mode, and if not, why not.

    ``disable_userns`` says whether ``--disable-userns`` works too.
    """

    usable: bool
    reason: str = ""
    disable_userns: bool = False


def find_runner(path_env: str, access: Callable[[str], str], euid: int, planted: Iterable[str] = ()) -> Runner:
    """Return the first usable bwrap in a search path; one in a system directory before any other.

    What this policy makes writable is not all that a run could have written: an earlier one may have had another
    policy, and PATH often leads into a project. So whatever stands first in PATH, the system's program is taken if
    it can be used.

    Args:
        path_env: the value of PATH; entries that are not absolute are skipped.
        access: the policy's access at an absolute physical path (``Resolved.access``): a program that the sandbox
            could replace is not used, unless the policy makes the whole root writable.
        euid: the effective user; the program must be this user's or root's, and writable by nobody else.
        planted: absolute physical directories where runs write as a rule (workspace, temp), whatever this policy
            says of them; a program there is not used, system directories aside.

    Raises:
        RunnerError: there is none; the text says what was wrong with each that was found.
    """
    seen: list[str] = []
    spellings = [os.path.join(name, "bwrap") for name in path_env.split(":") if name.startswith("/")]
    found = [(spelled, os.path.realpath(spelled)) for spelled in spellings]
    roots = [root for root in planted if root != "/"]
    for spelled, path in sorted(found, key=lambda item: not _below(item[1], _SYSTEM)):
        fault = _fault(path, access, euid)
        if fault is None and _below(path, roots) and not _below(path, _SYSTEM):
            fault = "it lies where runs write, and an earlier one may have put it there"
        if fault is None:
            options = _options(path)
            missing = [name for name in NEEDED if name not in options]
            if not missing:
                return Runner(path, options, bool(os.stat(path).st_mode & stat.S_ISUID))
            fault = f"it does not know {', '.join(missing)}"
        if fault:
            seen.append(f"{spelled}: {fault}")
    raise RunnerError("; ".join(seen) if seen else "no bwrap in PATH")


def _below(path: str, roots: Iterable[str]) -> bool:
    return any(path.startswith(root.rstrip("/") + "/") for root in roots)


def _fault(path: str, access: Callable[[str], str], euid: int) -> str | None:
    """Return why a path is no program to trust, an empty text where there is nothing, None where it is fine."""
    try:
        found = os.stat(path)
    except OSError:
        return ""
    if not stat.S_ISREG(found.st_mode) or not os.access(path, os.X_OK):
        return "it is not a program"
    if found.st_uid not in (0, euid):
        return "it belongs to another user"
    if found.st_mode & 0o002:
        return "everybody may write to it"
    if access("/") != WRITE and WRITE in (access(path), access(os.path.dirname(path))):
        return "it lies in a directory that the policy makes writable"
    return None


def _options(path: str) -> frozenset[str]:
    """Return the option words of ``--help``, looked for first where that text is kept: in the program's own file.

    A word that is there and no option would not open anything: the start fails, and with it the run.
    """
    try:
        with open(path, "rb") as file:
            kept = file.read(_MAX_PROGRAM)
    except OSError:
        kept = b""
    words = frozenset(word for word in (*NEEDED, "--disable-userns") if f"\n    {word} ".encode() in kept)
    return words if words.issuperset(NEEDED) else _help(path)


def _help(path: str) -> frozenset[str]:
    """Return the option words of ``--help``."""
    read_end, write_end = os.pipe()
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    try:
        actions = [(os.POSIX_SPAWN_DUP2, null, 0), (os.POSIX_SPAWN_DUP2, write_end, 1)]
        actions.append((os.POSIX_SPAWN_DUP2, null, 2))
        pid = os.posix_spawn(path, [path, "--help"], {}, file_actions=actions)
    except OSError:
        os.close(read_end)
        return frozenset()
    finally:
        os.close(write_end)
        os.close(null)
    with os.fdopen(read_end, "rb") as pipe:
        words = pipe.read().decode("utf-8", "replace").split()
    wait(pid)
    return frozenset(word for word in words if word.startswith("--"))


def proc_covers() -> tuple[str, ...]:
    """Return the paths below /proc that root could write to without any capability, for ``Host.covers``.

    bwrap itself covers /proc/irq, bus and sysrq-trigger; the rest is the kernel's drivers and file systems.
    """
    if os.geteuid() != 0:
        return ()
    names = ("acpi", "driver", "fs", "mtrr", "scsi")
    return tuple(path for path in (f"/proc/{name}" for name in names) if os.path.exists(path))


# -- starting ---------------------------------------------------------------------------------------------------


def high(fd: int) -> int:
    """Return a descriptor of 3 or more for the same file; the given one is closed if it was lower."""
    if fd > 2:
        return fd
    import fcntl

    moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
    os.close(fd)
    return moved


def wait(pid: int) -> int:
    """Return the exit code of a child when it has ended, negative for a signal; 0 where nobody may know it.

    Where SIGCHLD is ignored, as a caller may have left it, the kernel keeps no code.
    """
    try:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    except ChildProcessError:
        return 0


def memory_file(name: str, data: bytes) -> int:
    """Return a close-on-exec descriptor of an anonymous file with the given content, at its start."""
    fd = high(os.memfd_create(name, os.MFD_CLOEXEC))
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def spawn(
    runner: Runner,
    options: Sequence[str],
    command: Sequence[str],
    env: Mapping[str, str],
    *,
    keep: Iterable[int] = (),
    stdio: tuple[int, int, int] = (0, 1, 2),
    scope_abstract: bool = False,
    program: bytes = b"",
) -> int:
    """Start bwrap and return its pid.

    The filter is loaded before bwrap, not by it: bwrap would load it for the command alone, and the command could
    have bwrap's own process in the sandbox, which it may trace, do what the filter refuses. A set-user-ID bwrap is
    left to load it itself, because loading needs no_new_privs, which takes that bit away.

    Args:
        runner: the program.
        options: bwrap's options, handed over through ``--args``; they never show in the list of processes.
        command: the command and its arguments.
        env: the whole environment of the command.
        keep: descriptors of 3 or more that ``options`` name; every other one is closed.
        stdio: descriptors that become 0, 1 and 2.
        scope_abstract: whether to confine bwrap, and so what runs in it, to its own abstract sockets.
        program: a seccomp filter; empty for none.

    Raises:
        OSError: the process could not be made, or something failed in it before bwrap ran.
    """
    linux.load()
    env, held_back = _for_bwrap(env)
    options = [*options, *(word for name in held_back for word in ("--setenv", name, held_back[name]))]
    own = [memory_file("seccomp", program)] if program and runner.setuid else []
    options = [*options, *(word for fd in own for word in ("--seccomp", str(fd)))]
    words = b"".join(os.fsencode(word) + b"\0" for word in options)
    arguments = memory_file("bwrap-args", words)
    own.append(arguments)
    early = b"" if runner.setuid else program
    read_end, write_end = os.pipe()
    read_end, write_end = high(read_end), high(write_end)
    pid = os.fork()
    if pid == 0:
        _become(runner, arguments, command, env, (*keep, *own), stdio, scope_abstract, early, write_end)
    for fd in own:
        os.close(fd)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        fault = pipe.read()
    if fault:
        wait(pid)
        number, _, what = fault.decode("utf-8", "replace").partition(" ")
        raise OSError(int(number), os.strerror(int(number)), what)
    return pid


def _for_bwrap(env: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the environment in two parts: what bwrap may see itself, and what only its command gets."""
    plain: dict[str, str] = {}
    held_back: dict[str, str] = {}
    for name, value in env.items():
        apart = name in LOADER_VARIABLES or name.startswith(LOADER_PREFIXES)
        (held_back if apart else plain)[name] = value
    return plain, held_back


def _become(
    runner: Runner,
    arguments: int,
    command: Sequence[str],
    env: Mapping[str, str],
    keep: tuple[int, ...],
    stdio: tuple[int, int, int],
    scope_abstract: bool,
    program: bytes,
    report: int,
) -> NoReturn:
    what = runner.path
    try:
        sources = [os.dup(fd) for fd in stdio] if stdio != (0, 1, 2) else []
        for number, fd in enumerate(sources):
            os.dup2(fd, number, inheritable=True)
        linux.close_others((0, 1, 2, report, *keep))
        for fd in keep:
            os.set_inheritable(fd, True)
        if scope_abstract:
            what = "landlock scope"
            linux.set_no_new_privs()
            linux.landlock_restrict_self(linux.landlock_create_ruleset(0, 0, SCOPE_ABSTRACT))
        linux.default_signals(13, 25, 17)  # bwrap waits for SIGCHLD, which is never sent where it is ignored
        if program:
            what = "seccomp"
            linux.set_no_new_privs()
            linux.install_seccomp(program)
        what = runner.path
        os.execve(runner.path, ["bwrap", "--args", str(arguments), "--", *command], dict(env))
    except OSError as error:
        os.write(report, f"{error.errno or errno.EIO} {what}".encode())
    except BaseException:
        os.write(report, f"{errno.EIO} {what}".encode())
    finally:
        os._exit(125)


# -- probing ----------------------------------------------------------------------------------------------------


def probe(
    runner: Runner,
    *,
    network: Network | None = None,
    directory: str = "/",
    scope_abstract: bool = False,
) -> Probe:
    """Return whether a sandbox with the namespaces and mounts of a real run can be started here.

    Args:
        runner: the program.
        network: the network of the run.
        directory: a directory that is bound writable by descriptor, as the workspace will be.
        scope_abstract: whether the run asks for the Landlock scope.
    """
    from sandboxc.emitters.bwrap.plan import BIND, DEV, PROC, RO_BIND, BwrapPlan, Op, groups

    network = network or Network(DENY)
    arch = os.uname().machine
    ops = [Op(RO_BIND, "/"), Op(PROC, "/proc"), Op(RO_BIND, "/proc/sys"), Op(DEV, "/dev")]
    if directory != "/":
        ops.append(Op(BIND, directory))
    reason = ""
    for disable in (True, False):
        if disable and "--disable-userns" not in runner.options:
            continue
        plan = BwrapPlan(True, network, tuple(ops), filtered=arch in seccomp.ARCHES, cwd="/", disable_userns=disable)
        opened: list[int] = []

        def source(op: Op, opened: list[int] = opened) -> list[str]:
            opened.append(high(linux.open_no_follow(op.path)))
            return [f"--{op.verb}-fd", str(opened[-1])]

        try:
            words = [word for group in groups(plan, source) for word in group]
            program = seccomp.bwrap_filter(arch, network=network.mode) if plan.filtered else b""
            reason = _try(runner, words, opened, scope_abstract and network.mode == ALLOW_ALL, program)
        except OSError as error:
            reason = str(error)
        finally:
            for fd in opened:
                os.close(fd)
        if not reason:
            return Probe(True, "", disable)
    return Probe(False, reason)


def _try(runner: Runner, words: Sequence[str], keep: Sequence[int], scope: bool, program: bytes) -> str:
    """Run the program itself, harmlessly, in a sandbox; return what it complained of, or an empty text."""
    read_end, write_end = os.pipe()
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    try:
        pid = spawn(
            runner,
            words,
            [runner.path, "--version"],
            {},
            keep=keep,
            stdio=(null, null, write_end),
            scope_abstract=scope,
            program=program,
        )
    except OSError:
        os.close(read_end)
        raise
    finally:
        os.close(write_end)
        os.close(null)
    with os.fdopen(read_end, "rb") as pipe:
        said = pipe.read(4096).decode("utf-8", "replace").strip()
    code = wait(pid)
    return "" if code == 0 else said or f"it ended with {code}"

"""Run a command under a bound Landlock rule set, and say reliably whether it started.

A **rule set** is plain data, as JSON gives it:

- ``abi``: the Landlock ABI that the rule set was made for; the kernel's must not be below it.
- ``handled_fs``, ``handled_net``, ``scoped``: names (``landlock_abi``); what is not handled stays allowed.
- ``restrict_flags``: names, optional.
- ``rules``: a list of ``{"path", "kind", "rights"}``. The path is absolute and physical: a symbolic link
  anywhere in it is a failure, never followed. ``kind`` is one of ``landlock_abi.KINDS``; ``rights`` are names
  that the kind can carry. Optional ``dev`` and ``ino`` name the very node. Optional ``optional: true`` lets
  the rule be skipped, which only narrows, when the path is gone or is another node by now; without it that
  is a failure.
- ``ports``: a list of ``{"port", "rights"}``, optional.

Rights may be given as an integer mask in place of a list of names.

The **status pipe** carries JSON lines from the child. ``{"stage": "ready", "skipped": [...]}`` comes when
everything is in force; then the end of the file, by close-on-exec, says that execve worked. Anything else,
with ``errno``, ``what`` and ``message``, says which stage failed: ``setup``, ``cwd`` or ``exec``. The end of
the file without a line says that the child died before.

Run as a program it confines itself and becomes the command (exit 125, 126 or 127 if it cannot)::

    python3 -m sandboxc.runtime.landlock_exec --ruleset FILE [--seccomp FILE] [--status-fd N]
        [--keep-fd N]... [--keep-capabilities MASK] [--cwd DIR] -- COMMAND...

where a FILE may also be ``fd:N``.
"""

import os
import stat
import sys
from collections.abc import Iterable, Mapping, Sequence

from sandboxc import landlock_abi
from sandboxc.plain_json import decode, encode
from sandboxc.records import Any, NamedTuple, NoReturn
from sandboxc.runtime import linux

_ENOENT, _ENOEXEC, _ENOTDIR, _ELOOP, _EOPNOTSUPP, _ESTALE = 2, 8, 20, 40, 95, 116
_GONE = (_ENOENT, _ENOTDIR, _ELOOP, _ESTALE)

_KIND_OF = {
    stat.S_IFDIR: "directory",
    stat.S_IFREG: "file",
    stat.S_IFLNK: "symlink",
    stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "char-device",
    stat.S_IFBLK: "block-device",
}


class SpawnResult(NamedTuple):
    """What became of a command that was to be started."""

    outcome: str
    """``started``; ``setup-failed`` (the command never ran); ``exec-failed`` (execve refused)."""
    pid: int
    """The child. When it did not start it has been waited for, and the number is history."""
    errno: int
    """The error number of the failure, 0 if there is none (or the child died without a word)."""
    stage: str
    """``setup``, ``cwd`` or ``exec``; empty when started."""
    message: str
    """One line for a person; empty when started."""
    skipped: tuple[str, ...]
    """Paths of optional rules that were left out because their node was gone or another."""


class RulesetError(ValueError):
    """A rule set that does not have the shape above."""


def _mask(names: object, table: Mapping[str, int], where: str) -> int:
    if isinstance(names, int) and not isinstance(names, bool) and names >= 0:
        return names
    if isinstance(names, (list, tuple)) and all(isinstance(name, str) for name in names):
        try:
            return landlock_abi.bits(names, table)
        except ValueError as error:
            raise RulesetError(f"{where}: {error}") from None
    raise RulesetError(f"{where}: expected a list of names")


def _number(value: object, where: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise RulesetError(f"{where}: expected a whole number")


def _items(value: object, where: str) -> Sequence[Mapping[str, Any]]:
    if isinstance(value, (list, tuple)) and all(isinstance(item, Mapping) for item in value):
        return value
    raise RulesetError(f"{where}: expected a list of objects")


def kind_of(mode: int) -> str:
    """Return the name in ``landlock_abi.KINDS`` for a ``st_mode``."""
    return _KIND_OF[stat.S_IFMT(mode)]


def open_node(path: str, kind: str, dev: int | None = None, ino: int | None = None) -> int:
    """Return an O_PATH descriptor of the node at ``path``, opened without following links.

    Raises:
        OSError: the node cannot be opened, or (ESTALE) is not of ``kind``, or is not the one that the device
            and inode number name.
    """
    fd = linux.open_no_follow(path)
    status = os.fstat(fd)
    found = kind_of(status.st_mode)
    reason = ""
    if found != kind:
        reason = f"{path} is a {found}, not the {kind} that the rule is for"
    elif (dev is not None and dev != status.st_dev) or (ino is not None and ino != status.st_ino):
        reason = f"{path} is another {kind} than the one that the rule is for"
    if reason:
        os.close(fd)
        raise OSError(_ESTALE, os.strerror(_ESTALE), reason)
    return fd


def build(ruleset: Mapping[str, Any]) -> tuple[int, tuple[str, ...]]:
    """Return the descriptor of a kernel rule set made from ``ruleset``, and the paths that were skipped.

    Raises:
        RulesetError: the shape is wrong, or a rule asks for rights that are not handled or that its kind of
            node cannot carry.
        OSError: EOPNOTSUPP when the kernel's ABI is below the rule set's; or a path or call that failed.
    """
    abi = _number(ruleset.get("abi"), "abi")
    handled_fs = _mask(ruleset.get("handled_fs", ()), landlock_abi.FS_BITS, "handled_fs")
    handled_net = _mask(ruleset.get("handled_net", ()), landlock_abi.NET_BITS, "handled_net")
    scoped = _mask(ruleset.get("scoped", ()), landlock_abi.SCOPE_BITS, "scoped")
    rules = _items(ruleset.get("rules", ()), "rules")
    ports = _items(ruleset.get("ports", ()), "ports")
    kernel = linux.landlock_abi()
    if kernel < abi or kernel == 0:
        what = f"Landlock ABI {abi} (this kernel has {kernel})"
        raise OSError(_EOPNOTSUPP, os.strerror(_EOPNOTSUPP), what)
    fd = linux.landlock_create_ruleset(handled_fs, handled_net, scoped)
    skipped: list[str] = []
    try:
        for rule in rules:
            _add_path(fd, rule, handled_fs, skipped)
        for port in ports:
            value = _number(port.get("port"), "port")
            rights = _mask(port.get("rights"), landlock_abi.NET_BITS, f"port {value}")
            if rights & ~handled_net:
                raise RulesetError(f"port {value}: rights that are not handled")
            linux.landlock_add_port(fd, rights, value)
    except BaseException:
        os.close(fd)
        raise
    return fd, tuple(skipped)


def _add_path(ruleset_fd: int, rule: Mapping[str, Any], handled: int, skipped: list[str]) -> None:
    path, kind = rule.get("path"), rule.get("kind")
    if not isinstance(path, str) or not path.startswith("/"):
        raise RulesetError(f"rule: {path!r} is no absolute path")
    if not isinstance(kind, str) or kind not in landlock_abi.KINDS:
        raise RulesetError(f"rule {path}: {kind!r} is no kind of node")
    rights = _mask(rule.get("rights"), landlock_abi.FS_BITS, f"rule {path}")
    if rights & ~handled or rights != landlock_abi.mask_for_kind(rights, kind):
        raise RulesetError(f"rule {path}: rights that are not handled or that a {kind} cannot carry")
    try:
        node = open_node(path, kind, rule.get("dev"), rule.get("ino"))
    except OSError as error:
        if rule.get("optional") is True and error.errno in _GONE:
            skipped.append(path)
            return
        raise
    try:
        linux.landlock_add_path(ruleset_fd, rights, node, what=path)
    finally:
        os.close(node)


def apply(
    ruleset: Mapping[str, Any] | None,
    seccomp_program: bytes | None = None,
    *,
    keep_fds: Iterable[int] = (),
    keep_capabilities: int = 0,
) -> tuple[str, ...]:
    """Confine the calling process for good, and return the paths of optional rules that were skipped.

    In this order: the rule set is made (paths are opened with the caller's privileges), no_new_privs set,
    capabilities given up, descriptors closed, the filter loaded, the rule set enforced. Threads other than
    the calling one are not confined: call it in a process that has none.

    Args:
        ruleset: see the module; None leaves Landlock out, for a host that confines by other means.
        seccomp_program: a filter of ``sandboxc.seccomp`` for this machine, or None.
        keep_fds: descriptors besides 0, 1 and 2 that stay open.
        keep_capabilities: mask of capabilities to keep.

    Raises:
        RulesetError, OSError: as ``build`` does; the process may then be confined in part and must exit.
    """
    keep = {0, 1, 2, *keep_fds}
    fd: int | None = None
    skipped: tuple[str, ...] = ()
    flags = 0
    if ruleset is not None:
        flags = _mask(ruleset.get("restrict_flags", ()), landlock_abi.RESTRICT_BITS, "restrict_flags")
        fd, skipped = build(ruleset)
        keep.add(fd)
    linux.set_no_new_privs()
    linux.drop_capabilities(keep_capabilities)
    linux.close_others(keep)
    if seccomp_program is not None:
        linux.install_seccomp(seccomp_program)
    if fd is not None:
        linux.landlock_restrict_self(fd, flags)
        os.close(fd)
    return skipped


def _execute(argv: Sequence[str], env: Mapping[str, str]) -> NoReturn:
    """Become the command, looked up in ``env``'s PATH from inside the confinement."""
    name = argv[0]
    if "/" in name:
        _execve(name, argv, env)
    refused: OSError | None = None
    for directory in env.get("PATH", os.defpath).split(":"):
        try:
            _execve(os.path.join(directory or ".", name), argv, env)
        except OSError as error:
            if error.errno not in (_ENOENT, _ENOTDIR) and refused is None:
                refused = error
    raise refused or OSError(_ENOENT, os.strerror(_ENOENT), name)


def _execve(path: str, argv: Sequence[str], env: Mapping[str, str]) -> None:
    """Become a program; what the kernel knows no format of is a script of the shell's, as for execvp(3)."""
    try:
        os.execve(path, list(argv), dict(env))
    except OSError as error:
        if error.errno != _ENOEXEC:
            raise
    os.execve("/bin/sh", ["/bin/sh", path, *argv[1:]], dict(env))


def _report(fd: int | None, line: Mapping[str, Any]) -> None:
    if fd is not None:
        os.write(fd, encode(dict(line)).encode() + b"\n")


def _failure(stage: str, error: BaseException) -> dict[str, Any]:
    number = error.errno if isinstance(error, OSError) and error.errno else 0
    return {"stage": stage, "errno": number, "message": f"{type(error).__name__}: {error}"}


def become(
    argv: Sequence[str],
    ruleset: Mapping[str, Any] | None,
    seccomp_program: bytes | None,
    env: Mapping[str, str],
    cwd: str | None = None,
    *,
    status_fd: int | None = None,
    keep_fds: Iterable[int] = (),
    keep_capabilities: int = 0,
) -> dict[str, Any]:
    """Confine this process and become ``argv``; return the failure line if that does not work.

    Args:
        argv: the command; a name without a slash is looked up in the PATH of ``env``, confined already.
        status_fd: where the status lines go; it is made close-on-exec.
        keep_fds: descriptors that the command inherits, besides the standard ones.

    The other arguments are those of ``apply``. After a failure the process may be confined in part; leave
    it with 125 (``setup``, ``cwd``), or 126 or 127 (``exec``).
    """
    stage = "setup"
    try:
        keep = list(keep_fds)
        for fd in keep:
            os.set_inheritable(fd, True)
        if status_fd is not None:
            os.set_inheritable(status_fd, False)
            keep.append(status_fd)
        skipped = apply(ruleset, seccomp_program, keep_fds=keep, keep_capabilities=keep_capabilities)
        stage = "cwd"
        if cwd is not None:
            os.chdir(cwd)
        _report(status_fd, {"stage": "ready", "skipped": list(skipped)})
        stage = "exec"
        linux.default_signals()
        _execute(argv, env)
    except Exception as error:
        line = _failure(stage, error)
        _report(status_fd, line)
        return line


def exit_code(line: Mapping[str, Any]) -> int:
    """Return the exit code for a failure line: 127 not found, 126 found but refused, 125 before execve."""
    if line["stage"] != "exec":
        return 125
    return 127 if line["errno"] in (_ENOENT, _ENOTDIR) else 126


def spawn(
    argv: Sequence[str],
    ruleset: Mapping[str, Any] | None,
    seccomp_program: bytes | None,
    env: Mapping[str, str],
    cwd: str | None = None,
    *,
    stdin: int = 0,
    stdout: int = 1,
    stderr: int = 2,
    keep_fds: Iterable[int] = (),
    keep_capabilities: int = 0,
    new_session: bool = False,
    die_with_parent: bool = False,
) -> SpawnResult:
    """Start ``argv`` confined in a forked child, wait until it has started or failed, and return which.

    Call it from a process with one thread. When the outcome is ``started`` the caller waits for the child.

    Args:
        stdin, stdout, stderr: descriptors that become the child's 0, 1 and 2.
        new_session: whether the child calls setsid(2).
        die_with_parent: whether the child is killed when the calling thread ends (prctl(2),
            PR_SET_PDEATHSIG). It holds for the command itself, not for what it starts.

    The other arguments are those of ``become``. ``keep_fds`` may not hold 0, 1 or 2.

    Raises:
        OSError: no pipe or no process could be made.
    """
    linux.load()
    kept = tuple(keep_fds)
    read_end, write_end = os.pipe()
    # The child's own end must survive the moves onto 0, 1 and 2, whatever the caller has closed.
    if write_end < 3:
        import fcntl

        moved = fcntl.fcntl(write_end, fcntl.F_DUPFD_CLOEXEC, 3)
        os.close(write_end)
        write_end = moved
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        code = 125
        try:
            if die_with_parent:
                linux.kill_with_parent(parent)
            _move_standard(stdin, stdout, stderr, write_end)
            if new_session:
                os.setsid()
            line = become(
                argv,
                ruleset,
                seccomp_program,
                env,
                cwd,
                status_fd=write_end,
                keep_fds=kept,
                keep_capabilities=keep_capabilities,
            )
            code = exit_code(line)
        except BaseException as error:
            _report(write_end, _failure("setup", error))
        finally:
            os._exit(code)
    os.close(write_end)
    try:
        with os.fdopen(read_end, "rb") as pipe:
            lines = [decode(text.decode("utf-8")) for text in pipe.read().splitlines()]
    except BaseException:
        linux.syscall("pidfd_send_signal", (own := linux.pidfd_open(pid)), 9, None, 0)
        os.close(own)
        os.waitpid(pid, 0)
        raise
    silent: dict[str, Any] = {"stage": "setup", "errno": 0, "message": "the child died before it was ready"}
    last = lines[-1] if lines else silent
    skipped = tuple(path for line in lines for path in line.get("skipped", ()))
    if last["stage"] == "ready":
        return SpawnResult("started", pid, 0, "", "", skipped)
    os.waitpid(pid, 0)
    outcome = "exec-failed" if last["stage"] == "exec" else "setup-failed"
    return SpawnResult(outcome, pid, last["errno"], last["stage"], last["message"], skipped)


def _move_standard(stdin: int, stdout: int, stderr: int, status: int) -> None:
    """Make three descriptors 0, 1 and 2, in whatever order they overlap."""
    sources = [stdin, stdout, stderr]
    for index, fd in enumerate(sources):
        if fd != index and fd < 3:
            import fcntl

            sources[index] = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
    for index, fd in enumerate(sources):
        if fd != index:
            os.dup2(fd, index, inheritable=True)
        else:
            os.set_inheritable(fd, True)


def _read(source: str) -> bytes:
    if source.startswith("fd:"):
        with os.fdopen(int(source[3:]), "rb") as file:
            return file.read()
    with open(source, "rb") as file:
        return file.read()


def main(words: Sequence[str]) -> int:
    """Confine this process as ``words`` (the command line without the program) say; return an exit code."""
    options: dict[str, str] = {}
    keep: list[int] = []
    rest = list(words)
    known = ("--ruleset", "--seccomp", "--status-fd", "--keep-fd", "--keep-capabilities", "--cwd")
    try:
        while rest and rest[0] != "--":
            name = rest.pop(0)
            if name not in known or not rest:
                raise RulesetError(f"unexpected argument `{name}`")
            value = rest.pop(0)
            if name == "--keep-fd":
                keep.append(int(value))
            else:
                options[name] = value
        command = rest[1:]
        if not command or "--ruleset" not in options:
            raise RulesetError("--ruleset and a command after -- are needed")
        ruleset = decode(_read(options["--ruleset"]).decode("utf-8"))
        if not isinstance(ruleset, dict):
            raise RulesetError("the rule set is no object")
        line = become(
            command,
            ruleset,
            _read(options["--seccomp"]) if "--seccomp" in options else None,
            os.environ,
            options.get("--cwd"),
            status_fd=int(options["--status-fd"]) if "--status-fd" in options else None,
            keep_fds=keep,
            keep_capabilities=int(options.get("--keep-capabilities", "0"), 0),
        )
    except (OSError, ValueError) as error:
        line = _failure("setup", error)
    sys.stderr.write(f"sandboxc: {line['message']}\n")
    return exit_code(line)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

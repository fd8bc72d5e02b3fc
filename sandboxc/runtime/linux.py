"""Linux system calls that the standard library does not offer, for the edge of the run time.

Every wrapper raises OSError with the errno and, as its ``filename``, the call and what it was about, so
that the text reads ``[Errno 13] Permission denied: 'landlock_add_rule /srv'``. Facts are from the manual
pages of the calls and the kernel's uapi headers. ctypes is imported on first use: a program that confines
nothing does not pay for it.
"""

import os
import struct
from collections.abc import Iterable

from sandboxc.records import Any, NamedTuple

# asm/unistd_64.h for x86_64; asm-generic/unistd.h for aarch64. From number 424 on both are the same.
_COMMON = {
    "pidfd_send_signal": 424,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "pidfd_open": 434,
    "close_range": 436,
    "openat2": 437,
    "mount_setattr": 442,
    "landlock_create_ruleset": 444,
    "landlock_add_rule": 445,
    "landlock_restrict_self": 446,
}
NUMBERS: dict[str, dict[str, int]] = {
    "x86_64": {
        **_COMMON,
        "capget": 125,
        "capset": 126,
        "prctl": 157,
        "mount": 165,
        "umount2": 166,
        "setns": 308,
        "renameat2": 316,
        "seccomp": 317,
    },
    "aarch64": {
        **_COMMON,
        "umount2": 39,
        "mount": 40,
        "capget": 90,
        "capset": 91,
        "prctl": 167,
        "setns": 268,
        "renameat2": 276,
        "seccomp": 277,
    },
}
"""Machine as ``os.uname().machine`` names it -> system call name -> number."""

AT_FDCWD = -100
AT_EMPTY_PATH = 0x1000
AT_RECURSIVE = 0x8000
O_PATH = 0o10000000
CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
OPEN_TREE_CLONE = 1
OPEN_TREE_CLOEXEC = os.O_CLOEXEC
MOVE_MOUNT_F_EMPTY_PATH = 0x04
MOVE_MOUNT_T_EMPTY_PATH = 0x40
MOUNT_ATTR_RDONLY = 0x01
MOUNT_ATTR_NOSUID = 0x02
MOUNT_ATTR_NODEV = 0x04
MOUNT_ATTR_NOEXEC = 0x08
MS_REC, MS_PRIVATE = 0x4000, 0x40000
MNT_DETACH = 2

_RENAME_NOREPLACE = 1
_RESOLVE_NO_MAGICLINKS, _RESOLVE_NO_SYMLINKS, _RESOLVE_BENEATH = 0x02, 0x04, 0x08
_NS_GET_USERNS = 0xB701
_ENOENT, _EPERM, _EAGAIN, _EINVAL, _ENOSYS, _EOPNOTSUPP = 2, 1, 11, 22, 38, 95


class _Library(NamedTuple):
    ctypes: Any
    call: Any
    numbers: dict[str, int]


_library: _Library | None = None


def load() -> _Library:
    """Return the cached C library; call it before fork, so that the child need not import anything.

    Raises:
        OSError: ENOSYS on a machine that NUMBERS does not list.
    """
    global _library
    if _library is None:
        import ctypes

        machine = os.uname().machine
        numbers = NUMBERS.get(machine)
        if numbers is None:
            raise OSError(_ENOSYS, os.strerror(_ENOSYS), f"system calls of {machine}")
        call = ctypes.CDLL(None, use_errno=True).syscall
        call.restype = ctypes.c_long
        _library = _Library(ctypes, call, numbers)
    return _library


def syscall(name: str, *arguments: int | bytes | None, what: str = "") -> int:
    """Return the result of the system call ``name``.

    Args:
        name: a key of NUMBERS.
        arguments: integers are passed as long; bytes as a pointer to them, for calls that only read there;
            None is a null pointer.
        what: what the call is about, for the error.
    """
    library = load()
    ctypes = library.ctypes
    words = [ctypes.c_long(library.numbers[name])]
    for argument in arguments:
        if isinstance(argument, int):
            words.append(ctypes.c_long(argument))
        else:
            words.append(ctypes.c_char_p(argument))
    result: int = library.call(*words)
    if result == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), f"{name} {what}".strip())
    return result


# --- Landlock (landlock_create_ruleset(2), landlock_add_rule(2), landlock_restrict_self(2)) ----------------


def landlock_abi() -> int:
    """Return the kernel's Landlock ABI version; 0 where it is not built in or not enabled."""
    return _landlock_query(1)


def landlock_errata() -> int:
    """Return the mask of errata that the kernel has fixed; 0 where it does not answer (below ABI 7)."""
    return _landlock_query(2)


def _landlock_query(flag: int) -> int:
    try:
        return syscall("landlock_create_ruleset", None, 0, flag)
    except OSError as error:
        if error.errno in (_ENOSYS, _EOPNOTSUPP, _EINVAL, _EPERM):
            return 0
        raise


def landlock_create_ruleset(handled_fs: int, handled_net: int = 0, scoped: int = 0) -> int:
    """Return a close-on-exec descriptor of a new rule set that handles the given masks.

    The attribute is sent no longer than its last member that is not zero, so that an older kernel takes it.
    """
    attribute = struct.pack("=QQQ", handled_fs, handled_net, scoped)
    size = 24 if scoped else 16 if handled_net else 8
    what = f"fs={handled_fs:#x} net={handled_net:#x} scoped={scoped:#x}"
    return syscall("landlock_create_ruleset", attribute, size, 0, what=what)


def landlock_add_path(ruleset_fd: int, rights: int, node_fd: int, what: str = "") -> None:
    """Grant ``rights`` on the node of ``node_fd`` (O_PATH is enough) and, if a directory, below it."""
    syscall("landlock_add_rule", ruleset_fd, 1, struct.pack("=Qi", rights, node_fd), 0, what=what)


def landlock_add_port(ruleset_fd: int, rights: int, port: int) -> None:
    """Grant network ``rights`` on one port (host order)."""
    syscall("landlock_add_rule", ruleset_fd, 2, struct.pack("=QQ", rights, port), 0, what=f"port {port}")


def landlock_restrict_self(ruleset_fd: int, flags: int = 0) -> None:
    """Confine the calling thread, and what it forks or executes from now on, by the rule set."""
    syscall("landlock_restrict_self", ruleset_fd, flags)


# --- privileges (prctl(2), capabilities(7), seccomp(2)) ----------------------------------------------------

_PR_SET_SECCOMP, _PR_CAPBSET_READ, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT = (
    22,
    23,
    24,
    38,
    47,
)
_CAP_AMBIENT_CLEAR_ALL = 4
_CAP_SETPCAP = 8
_CAP_VERSION_3 = 0x20080522


def set_no_new_privs() -> None:
    """Make every later execve of this thread and its children grant no privilege that it does not have."""
    syscall("prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, what="PR_SET_NO_NEW_PRIVS")


def capabilities() -> tuple[int, int, int]:
    """Return the effective, permitted and inheritable capability masks of the calling thread."""
    library = load()
    ctypes = library.ctypes
    header = struct.pack("=Ii", _CAP_VERSION_3, 0)
    data = ctypes.create_string_buffer(24)
    if library.call(ctypes.c_long(library.numbers["capget"]), ctypes.c_char_p(header), data) == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), "capget")
    words = struct.unpack("=6I", data.raw)
    return words[0] | words[3] << 32, words[1] | words[4] << 32, words[2] | words[5] << 32


def drop_capabilities(keep: int = 0) -> None:
    """Give up every capability but those of the mask ``keep``, in all five sets.

    The bounding set can be cut only by a holder of CAP_SETPCAP; without it the cut is left out, and
    no_new_privs, which must be set before, keeps execve from giving back what is dropped here.
    """
    effective, permitted, _ = capabilities()
    if effective >> _CAP_SETPCAP & 1:
        for number in range(64):
            if keep >> number & 1:
                continue
            try:
                syscall("prctl", _PR_CAPBSET_DROP, number, 0, 0, 0, what=f"PR_CAPBSET_DROP {number}")
            except OSError as error:
                if error.errno == _EINVAL:  # the first number that this kernel does not know
                    break
                raise
    try:
        syscall("prctl", _PR_CAP_AMBIENT, _CAP_AMBIENT_CLEAR_ALL, 0, 0, 0, what="PR_CAP_AMBIENT_CLEAR_ALL")
    except OSError as error:
        if error.errno != _EINVAL:
            raise
    kept = permitted & keep
    low, high = kept & 0xFFFFFFFF, kept >> 32
    header = struct.pack("=Ii", _CAP_VERSION_3, 0)
    syscall("capset", header, struct.pack("=6I", low, low, 0, high, high, 0))


def install_seccomp(program: bytes) -> None:
    """Load a filter (sock_filter structs, 8 bytes each) for the calling thread and its children.

    no_new_privs must be set before, or the caller hold CAP_SYS_ADMIN.
    """
    ctypes = load().ctypes
    buffer = ctypes.create_string_buffer(program, len(program))
    description = struct.pack("=H6xQ", len(program) // 8, ctypes.addressof(buffer))
    try:
        syscall("seccomp", 1, 0, description)
    except OSError as error:
        if error.errno != _ENOSYS:
            raise
        syscall("prctl", _PR_SET_SECCOMP, 2, description, 0, 0, what="PR_SET_SECCOMP")


def kill_with_parent(parent: int) -> None:
    """Have SIGKILL sent to this process when the thread that forked it, of process ``parent``, ends.

    Raises:
        OSError: ESRCH when that has happened already.
    """
    syscall("prctl", 1, 9, 0, 0, 0, what="PR_SET_PDEATHSIG")
    if os.getppid() != parent:
        raise OSError(3, os.strerror(3), "the parent is gone")


def default_signals(*numbers: int) -> None:
    """Give signals their default action again, before an execve; without numbers those that Python ignores,
    SIGPIPE and SIGXFSZ (13 and 25; SIGCHLD is 17: signal(7), x86 and ARM)."""
    ctypes = load().ctypes
    signal = ctypes.CDLL(None).signal
    signal.argtypes = (ctypes.c_int, ctypes.c_void_p)
    signal.restype = ctypes.c_void_p
    for number in numbers or (13, 25):
        signal(number, None)


# --- paths (openat2(2), rename(2)) -------------------------------------------------------------------------

_openat2_works = True


def open_no_follow(path: str | bytes, flags: int = O_PATH, *, root: int | None = None) -> int:
    """Return a close-on-exec descriptor of ``path`` with no symbolic link followed on the way to it.

    O_NOFOLLOW is added: with O_PATH a link in the last place is opened as itself (look at its type), with
    other flags it is ELOOP. Where openat2 is missing or a filter refuses it, every component is opened in
    turn, which holds the same.

    Args:
        path: absolute; or, with ``root``, relative to that directory, above which it cannot lead. ``..`` is
            refused with EINVAL.
        flags: as for open(2). The default opens nothing for input or output: FIFOs and devices do not block.
        root: a directory descriptor.

    Raises:
        OSError: ELOOP for a link in the middle (ENOTDIR from the walk), ENOENT, EACCES and the rest.
    """
    global _openat2_works
    name = os.fsencode(path)
    shown = os.fsdecode(path)
    parts = [part for part in name.split(b"/") if part not in (b"", b".")]
    absolute = name.startswith(b"/")
    if b".." in parts or not name or absolute != (root is None) or b"\0" in name:
        raise OSError(_EINVAL, os.strerror(_EINVAL), shown)
    flags |= os.O_NOFOLLOW | os.O_CLOEXEC
    if _openat2_works:
        resolve = _RESOLVE_NO_SYMLINKS | _RESOLVE_NO_MAGICLINKS | (0 if absolute else _RESOLVE_BENEATH)
        how = struct.pack("=QQQ", flags, 0, resolve)
        for _ in range(64):
            try:
                return syscall("openat2", AT_FDCWD if root is None else root, name, how, 24, what=shown)
            except OSError as error:
                if error.errno == _EAGAIN:  # a rename raced with RESOLVE_BENEATH
                    continue
                if error.errno in (_ENOSYS, _EPERM):
                    _openat2_works = error.errno == _EPERM
                    break
                raise
    return _walk(parts, flags, root, shown)


def _walk(parts: list[bytes], flags: int, root: int | None, shown: str) -> int:
    step = O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        if root is None:
            at = os.open("/", step if parts else flags)
        else:
            at = os.open(".", step if parts else flags, dir_fd=root)
        for index, part in enumerate(parts):
            try:
                below = os.open(part, flags if index == len(parts) - 1 else step, dir_fd=at)
            finally:
                os.close(at)
            at = below
    except OSError as error:
        raise OSError(error.errno, error.strerror, f"open {shown}") from None
    return at


def rename_no_replace(old: str | bytes, new: str | bytes, *, old_dir: int, new_dir: int) -> None:
    """Rename a name in one directory to a name in another, or raise EEXIST if that is taken."""
    what = f"{os.fsdecode(old)} {os.fsdecode(new)}"
    syscall("renameat2", old_dir, os.fsencode(old), new_dir, os.fsencode(new), _RENAME_NOREPLACE, what=what)


# --- mounts and name spaces (setns(2), open_tree(2), move_mount(2), fsopen(2), ioctl_nsfs(2)) --------------


def setns(fd: int, kind: int, what: str = "") -> None:
    """Enter the name space of ``fd``; ``kind`` is its CLONE_NEW* flag."""
    syscall("setns", fd, kind, what=what)


def user_namespace_of(fd: int) -> int:
    """Return a descriptor of the user name space that owns the name space of ``fd``."""
    import fcntl

    return fcntl.ioctl(fd, _NS_GET_USERNS)


def open_tree(directory_fd: int, path: str | bytes, flags: int) -> int:
    """Return a descriptor of a mount, or with OPEN_TREE_CLONE of a detached copy of the tree at ``path``."""
    return syscall("open_tree", directory_fd, os.fsencode(path), flags | OPEN_TREE_CLOEXEC, what=os.fsdecode(path))


def move_mount(mount_fd: int, target_fd: int, what: str = "") -> None:
    """Attach the mount of ``mount_fd`` at the node of ``target_fd``; both may be O_PATH descriptors."""
    flags = MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH
    syscall("move_mount", mount_fd, b"", target_fd, b"", flags, what=what)


def mount_setattr(mount_fd: int, attributes: int, *, recursive: bool = False, what: str = "") -> None:
    """Add MOUNT_ATTR_* to a mount and, if ``recursive``, to those below it."""
    flags = AT_EMPTY_PATH | (AT_RECURSIVE if recursive else 0)
    syscall("mount_setattr", mount_fd, b"", flags, struct.pack("=QQQQ", attributes, 0, 0, 0), 32, what=what)


def make_private() -> None:
    """Cut every mount of this mount name space from the propagation of others."""
    syscall("mount", None, b"/", None, MS_REC | MS_PRIVATE, None, what="MS_PRIVATE /")


def new_tmpfs(options: Iterable[tuple[str, str]]) -> int:
    """Return the descriptor of a new detached tmpfs with the given options (tmpfs(5))."""
    context = syscall("fsopen", b"tmpfs", 1, what="tmpfs")
    try:
        for key, value in options:
            syscall("fsconfig", context, 1, key.encode(), value.encode(), 0, what=f"tmpfs {key}={value}")
        syscall("fsconfig", context, 6, None, None, 0, what="tmpfs create")
        attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC
        return syscall("fsmount", context, 1, attributes, what="tmpfs")
    finally:
        os.close(context)


def detach(path: str | bytes) -> None:
    """Unmount what is mounted at ``path`` now, and free it when its last user is gone."""
    syscall("umount2", os.fsencode(path), MNT_DETACH, what=os.fsdecode(path))


# --- descriptors and processes (close_range(2), pidfd_open(2), pidfd_send_signal(2)) ------------------------


def close_range(first: int, last: int) -> None:
    """Close every open descriptor from ``first`` to ``last``, both included."""
    if first > last:
        return
    try:
        syscall("close_range", first, last, 0)
    except OSError as error:
        if error.errno != _ENOSYS:
            raise
        for name in os.listdir("/proc/self/fd"):
            if first <= int(name) <= last:
                try:
                    os.close(int(name))
                except OSError as closed:
                    if closed.errno != 9:  # the listing's own descriptor
                        raise


def close_others(keep: Iterable[int]) -> None:
    """Close every descriptor of this process that is not in ``keep``."""
    first = 0
    for fd in sorted(set(keep)):
        close_range(first, fd - 1)
        first = fd + 1
    close_range(first, 0x7FFFFFFF)


def pidfd_open(pid: int) -> int:
    """Return a close-on-exec descriptor of the process ``pid``, which a later process cannot take over."""
    return syscall("pidfd_open", pid, 0, what=str(pid))


def pidfd_send_signal(fd: int, signal: int) -> None:
    """Send a signal to the process of a pidfd."""
    syscall("pidfd_send_signal", fd, signal, None, 0, what=str(signal))

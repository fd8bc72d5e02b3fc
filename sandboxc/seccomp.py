"""The seccomp companions of the Landlock and bubblewrap targets, as bytes, and a reader of such bytes.

A program is an array of ``struct sock_filter`` (``u16 code, u8 jt, u8 jf, u32 k``; 8 bytes, little endian)
as seccomp(2), ``bwrap --seccomp`` and ``bwrap --add-seccomp-fd`` take it. It runs over ``struct
seccomp_data`` (``s32 nr, u32 arch, u64 instruction_pointer, u64 args[6]``; linux/seccomp.h). Nothing here
asks or changes the running system.

What every filter does: a system call of another architecture than the program's (``int 0x80`` on x86-64, a
32-bit process on aarch64) and, on x86-64, one with the x32 bit get ENOSYS; so do the three io_uring calls,
because IORING_OP_SOCKET makes sockets that no filter on socket(2) sees, and the three calls of the kernel's
keyrings, which follow the user and the session, not name spaces, and so hold what outside processes put
there; ioctl TIOCSTI and TIOCLINUX, which type into a terminal, get EPERM. Sockets are decided by ROWS.
Arguments that the kernel takes as int or unsigned int (all that are looked at here) are compared on their low
32 bits only, because the kernel drops the upper half: a filter that looked at 64 bits would be passed by
setting one of those.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from sandboxc.records import NamedTuple

AUDIT_ARCH: Mapping[str, int] = MappingProxyType(
    {"x86_64": 0xC000003E, "aarch64": 0xC00000B7, "i386": 0x40000003, "arm": 0x40000028}
)
"""Architecture name -> ``AUDIT_ARCH_*`` (linux/audit.h); programs exist for the first two."""

SYSCALLS: Mapping[str, Mapping[str, int]] = MappingProxyType(
    {
        "x86_64": MappingProxyType(
            {
                "ioctl": 16,
                "socket": 41,
                "sendto": 44,
                "sendmsg": 46,
                "socketpair": 53,
                "sendmmsg": 307,
                "io_uring_setup": 425,
                "io_uring_enter": 426,
                "io_uring_register": 427,
                "add_key": 248,
                "request_key": 249,
                "keyctl": 250,
                "prlimit64": 302,
            }
        ),
        "aarch64": MappingProxyType(
            {
                "ioctl": 29,
                "socket": 198,
                "socketpair": 199,
                "sendto": 206,
                "sendmsg": 211,
                "sendmmsg": 269,
                "io_uring_setup": 425,
                "io_uring_enter": 426,
                "io_uring_register": 427,
                "add_key": 217,
                "request_key": 218,
                "keyctl": 219,
                "prlimit64": 261,
            }
        ),
    }
)
"""Architecture -> system call name -> number (asm/unistd_64.h, asm-generic/unistd.h)."""

ARCHES: tuple[str, ...] = tuple(SYSCALLS)
"""The architectures that filters are made for, as ``os.uname().machine`` names them."""

NETWORKS: tuple[str, ...] = ("deny", "loopback", "allow-all")
"""The network modes of a policy."""

FAMILIES: Mapping[str, int] = MappingProxyType(
    {"unix": 1, "inet": 2, "inet6": 10, "netlink": 16, "packet": 17, "vsock": 40}
)
"""Socket family name -> ``AF_*`` (bits/socket.h)."""

SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_PACKET = 1, 2, 3, 10
IPPROTO_TCP = 6
NETLINK_ROUTE = 0
MSG_FASTOPEN = 0x20000000
TIOCSTI, TIOCLINUX = 0x5412, 0x541C
EPERM, EACCES, ENOSYS = 1, 13, 38
X32_BIT = 0x40000000

# The kernel keeps SOCK_NONBLOCK and SOCK_CLOEXEC above the type (SOCK_TYPE_MASK, linux/net.h).
_TYPE_MASK = 0xF


class Row(NamedTuple):
    """What one filter says about sockets; refused ones get EACCES, as Landlock's own connect does."""

    families: Mapping[str, str]
    """Family name -> what is allowed of it in socket(2): ``any``; ``stream`` (SOCK_STREAM of the default
    protocol or TCP, hence no UDP, raw or MPTCP); ``no-packet`` (any type but SOCK_PACKET, which the kernel
    turns into a packet socket); ``route`` (protocol 0 of netlink only); ``pair`` (nothing, but connected
    pairs from socketpair(2)); ``none``."""
    others: bool
    """Whether families that are not named are allowed in socket(2)."""
    pairs: str
    """What socketpair(2) may make: ``any``; ``unix`` (AF_UNIX only); ``connected`` (AF_UNIX only, and no
    SOCK_DGRAM or SOCK_RAW, whose ends can be sent or connected to any other address afterwards)."""
    fast_open: bool
    """Whether sendto, sendmsg and sendmmsg may carry MSG_FASTOPEN, which connects past Landlock's check."""
    limits: bool
    """Whether prlimit(2) may name another process; a limit on processor time ends one, which no Landlock scope
    sees. The caller's own limits, which have process number 0, may always be set."""


def _row(families: Mapping[str, str], *, others: bool, pairs: str, fast_open: bool = True, limits: bool = False) -> Row:
    return Row(MappingProxyType(dict(families)), others, pairs, fast_open, limits)


_OPEN = {"inet": "no-packet", "packet": "none", "vsock": "none"}

ROWS: Mapping[tuple[str, str], Row] = MappingProxyType(
    {
        ("landlock", "deny"): _row({"unix": "any", "netlink": "route"}, others=False, pairs="unix"),
        ("landlock", "loopback"): _row({"unix": "any", "netlink": "route"}, others=False, pairs="unix"),
        ("landlock", "tcp-ports"): _row(
            {"unix": "any", "netlink": "route", "inet": "stream", "inet6": "stream"},
            others=False,
            pairs="unix",
            fast_open=False,
        ),
        ("landlock", "allow-all"): _row(_OPEN, others=True, pairs="any"),
        ("bwrap", "deny"): _row(
            {"unix": "any", "netlink": "route", "inet": "no-packet", "inet6": "any"},
            others=False,
            pairs="unix",
            limits=True,
        ),
        ("bwrap", "loopback"): _row(
            {"unix": "any", "netlink": "route", "inet": "no-packet", "inet6": "any"},
            others=False,
            pairs="unix",
            limits=True,
        ),
        ("bwrap", "allow-all"): _row(_OPEN, others=True, pairs="any", limits=True),
    }
)
"""(target, network) -> the row, for a kernel that controls pathname sockets by itself. ``tcp-ports`` is what
``landlock_filter(..., network="loopback", tcp_ports=True)`` takes."""


def without_unix(row: Row) -> Row:
    """Return ``row`` with no socket of AF_UNIX but connected pairs: for Landlock below ABI 9."""
    families = {**row.families, "unix": "pair"}
    return row._replace(families=MappingProxyType(families), pairs="connected")


def landlock_row(*, network: str, abi: int, tcp_ports: bool = False, unix: bool | None = None) -> Row:
    """Return the row that ``landlock_filter`` compiles for these arguments, which are its own."""
    _known(network)
    row = ROWS["landlock", "tcp-ports" if tcp_ports and network == "loopback" else network]
    if unix is None:
        unix = abi >= 9 or network == "allow-all"
    return row if unix else without_unix(row)


def landlock_filter(arch: str, *, network: str, abi: int, tcp_ports: bool = False, unix: bool | None = None) -> bytes:
    """Return the program that stands beside a Landlock rule set.

    Besides what every filter does (see the module):

    - ``deny``: socket(2) makes AF_UNIX and netlink protocol 0 (routes: interface lists need it) only.
    - ``loopback``: the same as ``deny``. Landlock cannot tell addresses, so the sandbox gets no loopback
      rather than every host. With ``tcp_ports`` TCP stream sockets are allowed for rules on TCP ports to
      decide; UDP, raw, MPTCP and MSG_FASTOPEN stay refused. What then remains open: the ports that are
      granted, at every address, and listening on a port that the kernel picks without bind(2).
    - ``allow-all``: everything but AF_PACKET and AF_VSOCK.

    Args:
        arch: ``x86_64`` or ``aarch64``.
        network: one of NETWORKS.
        abi: the Landlock ABI that the rule set is for. Below 9 nothing else controls who connects to a
            pathname socket, so under ``deny`` and ``loopback`` AF_UNIX is left to socketpair(2), and of that
            to connected types.
        tcp_ports: see above; only ``loopback`` looks at it.
        unix: whether socket(AF_UNIX) is allowed, in place of what ``abi`` and ``network`` say.

    Raises:
        ValueError: an unknown architecture or network mode.
    """
    return _assemble(arch, landlock_row(network=network, abi=abi, tcp_ports=tcp_ports, unix=unix))


def bwrap_filter(arch: str, *, network: str) -> bytes:
    """Return the program that ``bwrap --add-seccomp-fd`` loads.

    Under ``deny`` and ``loopback`` bubblewrap's private network namespace holds AF_INET and AF_INET6, so the
    filter leaves them and AF_UNIX, keeps netlink to protocol 0 and refuses every other family (AF_VSOCK is
    outside of network namespaces). Under ``allow-all`` it refuses AF_PACKET and AF_VSOCK only.

    Raises:
        ValueError: an unknown architecture or network mode.
    """
    _known(network)
    return _assemble(arch, ROWS["bwrap", network])


def _known(network: str) -> None:
    if network not in NETWORKS:
        raise ValueError(f"unknown network mode `{network}`")


# Classic BPF opcodes (linux/bpf_common.h): load a word at an absolute offset, and with a constant, jumps on
# the accumulator, return a constant.
_LD, _AND, _JA, _JEQ, _JGT, _JGE, _JSET, _RET = 0x20, 0x54, 0x05, 0x15, 0x25, 0x35, 0x45, 0x06

_RET_ALLOW = 0x7FFF0000
_RET_ERRNO = 0x00050000
_NR, _ARCH = 0, 4


def _arg(index: int) -> int:
    """Return the offset of the low half of an argument."""
    return 16 + 8 * index


class _Line(NamedTuple):
    code: int
    k: int
    yes: str
    no: str


class _Assembler:
    """Lines with labels, resolved to forward jumps; an empty label means the next line."""

    def __init__(self) -> None:
        self._lines: list[_Line] = []
        self._labels: dict[str, int] = {}

    def load(self, offset: int) -> None:
        self._lines.append(_Line(_LD, offset, "", ""))

    def mask(self, k: int) -> None:
        self._lines.append(_Line(_AND, k, "", ""))

    def jump(self, code: int, k: int, *, yes: str = "", no: str = "") -> None:
        self._lines.append(_Line(code, k, yes, no))

    def ret(self, k: int) -> None:
        self._lines.append(_Line(_RET, k, "", ""))

    def label(self, name: str) -> None:
        self._labels[name] = len(self._lines)

    def bytes(self) -> bytes:
        def distance(at: int, label: str) -> int:
            return self._labels[label] - at - 1 if label else 0

        return b"".join(
            struct.pack("<HBBI", line.code, distance(at, line.yes), distance(at, line.no), line.k)
            for at, line in enumerate(self._lines)
        )


_ABSENT = ("io_uring_setup", "io_uring_enter", "io_uring_register", "add_key", "request_key", "keyctl")


def _assemble(arch: str, row: Row) -> bytes:
    if arch not in SYSCALLS:
        raise ValueError(f"no filter for architecture `{arch}`")
    numbers = SYSCALLS[arch]
    out = _Assembler()
    out.load(_ARCH)
    out.jump(_JEQ, AUDIT_ARCH[arch], no="nosys")
    out.load(_NR)
    if arch == "x86_64":
        out.jump(_JGE, X32_BIT, yes="nosys")
    for name in _ABSENT:
        out.jump(_JEQ, numbers[name], yes="nosys")
    out.jump(_JEQ, numbers["ioctl"], yes="ioctl")
    out.jump(_JEQ, numbers["socket"], yes="socket")
    if row.pairs != "any":
        out.jump(_JEQ, numbers["socketpair"], yes="socketpair")
    if not row.fast_open:
        out.jump(_JEQ, numbers["sendto"], yes="flags3")
        out.jump(_JEQ, numbers["sendmmsg"], yes="flags3")
        out.jump(_JEQ, numbers["sendmsg"], yes="flags2")
    if not row.limits:
        out.jump(_JEQ, numbers["prlimit64"], yes="limits")
    out.ret(_RET_ALLOW)

    if not row.limits:
        out.label("limits")
        out.load(_arg(0))
        out.jump(_JEQ, 0, yes="allow", no="perm")

    out.label("ioctl")
    out.load(_arg(1))
    out.jump(_JEQ, TIOCSTI, yes="perm")
    out.jump(_JEQ, TIOCLINUX, yes="perm", no="allow")

    out.label("socket")
    out.load(_arg(0))
    targets = {"any": "allow", "none": "refuse", "pair": "refuse"}
    used = set(row.families.values())
    for family, what in row.families.items():
        out.jump(_JEQ, FAMILIES[family], yes=targets.get(what, what))
    out.ret(_RET_ALLOW if row.others else _RET_ERRNO | EACCES)
    if "route" in used:
        out.label("route")
        out.load(_arg(2))
        out.jump(_JEQ, NETLINK_ROUTE, yes="allow", no="refuse")
    if "no-packet" in used:
        out.label("no-packet")
        out.load(_arg(1))
        out.mask(_TYPE_MASK)
        out.jump(_JEQ, SOCK_PACKET, yes="refuse", no="allow")
    if "stream" in used:
        out.label("stream")
        out.load(_arg(1))
        out.mask(_TYPE_MASK)
        out.jump(_JEQ, SOCK_STREAM, no="refuse")
        out.load(_arg(2))
        out.jump(_JEQ, 0, yes="allow")
        out.jump(_JEQ, IPPROTO_TCP, yes="allow", no="refuse")

    if row.pairs != "any":
        out.label("socketpair")
        out.load(_arg(0))
        out.jump(_JEQ, FAMILIES["unix"], yes="" if row.pairs == "connected" else "allow", no="refuse")
    if row.pairs == "connected":
        out.load(_arg(1))
        out.mask(_TYPE_MASK)
        out.jump(_JEQ, SOCK_DGRAM, yes="refuse")
        out.jump(_JEQ, SOCK_RAW, yes="refuse", no="allow")

    if not row.fast_open:
        out.label("flags3")
        out.load(_arg(3))
        out.jump(_JSET, MSG_FASTOPEN, yes="refuse", no="allow")
        out.label("flags2")
        out.load(_arg(2))
        out.jump(_JSET, MSG_FASTOPEN, yes="refuse", no="allow")

    for label, value in (
        ("allow", _RET_ALLOW),
        ("refuse", _RET_ERRNO | EACCES),
        ("perm", _RET_ERRNO | EPERM),
        ("nosys", _RET_ERRNO | ENOSYS),
    ):
        out.label(label)
        out.ret(value)
    return out.bytes()


class Verdict(NamedTuple):
    """What a filter answers to one system call."""

    action: str
    """``allow``, ``errno``, or ``other`` (kill, trap, trace, log: no filter of this module says these)."""
    errno: int
    """The error number that the caller sees; 0 unless ``action`` is ``errno``."""
    value: int
    """The raw 32-bit return value of the program."""


def number(arch: str, name: str) -> int:
    """Return the number of a system call that some filter looks at.

    Raises:
        ValueError: the architecture or the name is not in SYSCALLS.
    """
    try:
        return SYSCALLS[arch][name]
    except KeyError:
        raise ValueError(f"no system call `{name}` on architecture `{arch}`") from None


def evaluate(program: bytes, arch: str | int, nr: int, args: Sequence[int] = ()) -> Verdict:
    """Return what ``program`` answers to one system call, by running it as the kernel would.

    Args:
        program: sock_filter structs, 8 bytes each.
        arch: a name from AUDIT_ARCH, or a raw ``AUDIT_ARCH_*`` value.
        nr: the number in the register, as seccomp_data holds it (32 bits).
        args: up to six 64-bit arguments; missing ones are 0.

    Raises:
        ValueError: the program is no whole number of instructions, holds one that this module does not
            emit, loads from outside of seccomp_data, jumps out of itself or ends without a return.
    """
    if len(program) % 8 or not program:
        raise ValueError("a seccomp program is a whole number of 8-byte instructions")
    if len(args) > 6:
        raise ValueError("a system call has at most six arguments")
    audit = AUDIT_ARCH[arch] if isinstance(arch, str) else arch
    words = [value & 0xFFFFFFFFFFFFFFFF for value in (*args, 0, 0, 0, 0, 0, 0)[:6]]
    data = struct.pack("<IIQ6Q", nr & 0xFFFFFFFF, audit, 0, *words)
    lines = list(struct.iter_unpack("<HBBI", program))
    accumulator = at = 0
    while at < len(lines):
        code, yes, no, k = lines[at]
        at += 1
        if code == _RET:
            return _verdict(k)
        if code == _LD:
            if k % 4 or k + 4 > len(data):
                raise ValueError(f"load from offset {k} of seccomp_data")
            (accumulator,) = struct.unpack_from("<I", data, k)
        elif code == _AND:
            accumulator &= k
        elif code == _JA:
            at += k
        elif code in _TESTS:
            at += yes if _TESTS[code](accumulator, k) else no
        else:
            raise ValueError(f"unknown instruction {code:#x}")
    raise ValueError("the program ends without a return")


_TESTS: Mapping[int, Callable[[int, int], bool]] = {
    _JEQ: lambda a, k: a == k,
    _JGT: lambda a, k: a > k,
    _JGE: lambda a, k: a >= k,
    _JSET: lambda a, k: bool(a & k),
}


def _verdict(value: int) -> Verdict:
    action = value & 0xFFFF0000
    if action == _RET_ALLOW:
        return Verdict("allow", 0, value)
    if action == _RET_ERRNO:
        return Verdict("errno", value & 0xFFFF, value)
    return Verdict("other", 0, value)

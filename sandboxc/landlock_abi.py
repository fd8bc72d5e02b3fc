"""Landlock's rights, by ABI version: pure data and a few functions over it.

The facts come from the kernel's ``include/uapi/linux/landlock.h``, from
``Documentation/userspace-api/landlock.rst`` and from landlock(7). Names are those that the
landlockconfig project uses in its JSON (lower case, without the ``LANDLOCK_ACCESS_FS_`` prefix), so
that one vocabulary serves plans, exports and messages. Nothing here asks the running kernel.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from sandboxc.records import NamedTuple


class Abi(NamedTuple):
    """One Landlock ABI version: what it adds to the one before, and where that is written."""

    version: int
    """The number that ``landlock_create_ruleset(NULL, 0, LANDLOCK_CREATE_RULESET_VERSION)`` returns."""
    kernel: str
    """The mainline release that brought it. Vendors backport: decide by the reported ABI, never by this."""
    fs: tuple[str, ...]
    """File-system rights that this version adds, by name."""
    net: tuple[str, ...]
    """Network port rights that this version adds, by name."""
    scoped: tuple[str, ...]
    """Scopes that this version adds, by name."""
    restrict_flags: tuple[str, ...]
    """``landlock_restrict_self`` flags that this version adds, by name."""
    source: str
    """What the version brought, in words, and the place that says so."""


FS_BITS: Mapping[str, int] = MappingProxyType(
    {
        "execute": 1 << 0,
        "write_file": 1 << 1,
        "read_file": 1 << 2,
        "read_dir": 1 << 3,
        "remove_dir": 1 << 4,
        "remove_file": 1 << 5,
        "make_char": 1 << 6,
        "make_dir": 1 << 7,
        "make_reg": 1 << 8,
        "make_sock": 1 << 9,
        "make_fifo": 1 << 10,
        "make_block": 1 << 11,
        "make_sym": 1 << 12,
        "refer": 1 << 13,
        "truncate": 1 << 14,
        "ioctl_dev": 1 << 15,
        "resolve_unix": 1 << 16,
    }
)
"""File-system right name -> bit of ``handled_access_fs`` and ``allowed_access``."""

NET_BITS: Mapping[str, int] = MappingProxyType(
    {"bind_tcp": 1 << 0, "connect_tcp": 1 << 1, "bind_udp": 1 << 2, "connect_send_udp": 1 << 3}
)
"""Network right name -> bit of ``handled_access_net`` and of a port rule's ``allowed_access``."""

SCOPE_BITS: Mapping[str, int] = MappingProxyType({"abstract_unix_socket": 1 << 0, "signal": 1 << 1})
"""Scope name -> bit of ``scoped``."""

RESTRICT_BITS: Mapping[str, int] = MappingProxyType(
    {
        "log_same_exec_off": 1 << 0,
        "log_new_exec_on": 1 << 1,
        "log_subdomains_off": 1 << 2,
        "tsync": 1 << 3,
        "no_new_privs": 1 << 4,
    }
)
"""Flag name -> bit of ``landlock_restrict_self``'s flags."""

_RST = "landlock.rst, 'Previous limitations'"

ABIS: tuple[Abi, ...] = (
    Abi(
        1,
        "5.13",
        (
            "execute",
            "write_file",
            "read_file",
            "read_dir",
            "remove_dir",
            "remove_file",
            "make_char",
            "make_dir",
            "make_reg",
            "make_sock",
            "make_fifo",
            "make_block",
            "make_sym",
        ),
        (),
        (),
        (),
        "allow rules on file hierarchies; link and rename across directories always refused (landlock.h)",
    ),
    Abi(2, "5.19", ("refer",), (), (), (), f"link and rename across directories ({_RST})"),
    Abi(3, "6.2", ("truncate",), (), (), (), f"truncation ({_RST})"),
    Abi(4, "6.7", (), ("bind_tcp", "connect_tcp"), (), (), f"TCP bind and connect by port ({_RST})"),
    Abi(5, "6.10", ("ioctl_dev",), (), (), (), f"ioctl on devices opened after enforcement ({_RST})"),
    Abi(
        6,
        "6.12",
        (),
        (),
        ("abstract_unix_socket", "signal"),
        (),
        f"scopes for abstract Unix sockets and signals ({_RST})",
    ),
    Abi(
        7,
        "6.15",
        (),
        (),
        (),
        ("log_same_exec_off", "log_new_exec_on", "log_subdomains_off"),
        f"audit records and their flags; the errata query ({_RST}, landlock_restrict_self(2))",
    ),
    Abi(8, "7.0", (), (), (), ("tsync",), f"all threads of the process at once ({_RST})"),
    Abi(
        9,
        "7.1",
        ("resolve_unix",),
        (),
        (),
        (),
        f"connecting and sending to pathname Unix sockets made outside the domain ({_RST})",
    ),
    Abi(
        10,
        "7.2",
        (),
        ("bind_udp", "connect_send_udp"),
        (),
        (),
        f"UDP by port; rules whose denials are not logged ({_RST})",
    ),
    Abi(11, "7.3", (), (), (), ("no_new_privs",), "no_new_privs set by landlock_restrict_self (landlock.h)"),
)
"""Every ABI version known here, oldest first; ``ABIS[n - 1]`` is version n."""

LATEST = ABIS[-1].version
"""The newest ABI version that this table knows."""

# Only these may be asked for on a rule whose path is no directory; the kernel answers EINVAL to others
# (ACCESS_FILE in security/landlock/fs.c).
_FILE = ("execute", "write_file", "read_file", "truncate", "ioctl_dev", "resolve_unix")

_READ = ("execute", "read_file", "read_dir")

# A device node must not be made through a write layer, so make_char and make_block are in none; a device is
# opened to ioctl and a socket to connect by layers of their own.
_MODIFY = (
    "write_file",
    "remove_dir",
    "remove_file",
    "make_dir",
    "make_reg",
    "make_sock",
    "make_fifo",
    "make_sym",
    "refer",
    "truncate",
)

_DEVICE = ("read_file", "write_file", "truncate", "ioctl_dev")

KINDS: tuple[str, ...] = (
    "directory",
    "file",
    "symlink",
    "fifo",
    "socket",
    "char-device",
    "block-device",
)
"""Names of the kinds of node, as rule sets spell them."""


def bits(names: Iterable[str], table: Mapping[str, int] = FS_BITS) -> int:
    """Return the union of the bits that ``names`` stand for in ``table``.

    Raises:
        ValueError: a name is not in the table; the message holds it.
    """
    total = 0
    for name in names:
        bit = table.get(name)
        if bit is None:
            raise ValueError(f"unknown Landlock right `{name}`")
        total |= bit
    return total


def names(mask: int, table: Mapping[str, int] = FS_BITS) -> tuple[str, ...]:
    """Return the names of the bits set in ``mask``, lowest bit first.

    Raises:
        ValueError: a bit of the mask has no name in the table.
    """
    found = tuple(name for name, bit in table.items() if mask & bit)
    unknown = mask & ~bits(found, table)
    if unknown:
        raise ValueError(f"unknown Landlock bits {unknown:#x}")
    return found


def _check(abi: int) -> int:
    if abi < 0:
        raise ValueError(f"Landlock ABI {abi} is negative")
    return min(abi, LATEST)


def handled_fs(abi: int) -> int:
    """Return the mask of every file-system right that ``abi`` knows; 0 for ABI 0 (no Landlock).

    An ABI newer than the table counts as the newest one in it. A negative ABI raises ValueError, here and in
    the functions below.
    """
    return bits(name for row in ABIS[: _check(abi)] for name in row.fs)


def handled_net(abi: int) -> int:
    """Return the mask of every network port right that ``abi`` knows."""
    return bits((name for row in ABIS[: _check(abi)] for name in row.net), NET_BITS)


def scopes(abi: int) -> int:
    """Return the mask of every scope that ``abi`` knows."""
    return bits((name for row in ABIS[: _check(abi)] for name in row.scoped), SCOPE_BITS)


def restrict_flags(abi: int) -> int:
    """Return the mask of every ``landlock_restrict_self`` flag that ``abi`` knows."""
    return bits((name for row in ABIS[: _check(abi)] for name in row.restrict_flags), RESTRICT_BITS)


def file_rights(abi: int) -> int:
    """Return the rights that a rule on a node that is no directory may carry under ``abi``."""
    return bits(_FILE) & handled_fs(abi)


def read_rights(abi: int) -> int:
    """Return what the access ``read`` grants: read, list, execute."""
    return bits(_READ) & handled_fs(abi)


def modify_rights(abi: int) -> int:
    """Return what ``write`` grants beyond ``read``: create, modify, truncate, delete, rename, link.

    Making device nodes, ioctl on devices and connecting to sockets that exist are not in it.
    """
    return bits(_MODIFY) & handled_fs(abi)


def write_rights(abi: int) -> int:
    """Return what the access ``write`` grants: ``read_rights`` and ``modify_rights`` together."""
    return read_rights(abi) | modify_rights(abi)


def device_rights(abi: int) -> int:
    """Return what using a character device such as ``/dev/null`` or a terminal asks for."""
    return bits(_DEVICE) & handled_fs(abi)


def connect_rights(abi: int) -> int:
    """Return what connecting to a Unix socket that exists asks for; 0 where ``abi`` does not control it."""
    return FS_BITS["resolve_unix"] & handled_fs(abi)


def mask_for_kind(rights: int, kind: str) -> int:
    """Return the part of ``rights`` that a rule on a node of ``kind`` may carry.

    A directory takes all (they hold for what is below it); a symbolic link takes none, because no rule may
    be tied to one; every other kind takes the rights on files only.

    Raises:
        ValueError: ``kind`` is not one of KINDS.
    """
    if kind not in KINDS:
        raise ValueError(f"unknown kind of node `{kind}`")
    if kind == "directory":
        return rights
    if kind == "symlink":
        return 0
    return rights & bits(_FILE)


def minimum_abi(fs: int = 0, net: int = 0, scoped: int = 0) -> int:
    """Return the lowest ABI that knows every bit of the three masks; 0 when all are empty.

    Raises:
        ValueError: a bit is unknown to every ABI here.
    """
    for abi in range(LATEST + 1):
        if not (fs & ~handled_fs(abi) or net & ~handled_net(abi) or scoped & ~scopes(abi)):
            return abi
    raise ValueError(f"no Landlock ABI up to {LATEST} knows fs {fs:#x}, net {net:#x}, scopes {scoped:#x}")

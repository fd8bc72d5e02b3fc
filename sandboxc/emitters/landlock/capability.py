"""What Landlock can express, by ABI: the one table of this target.

Each feature has a row for the lowest ABI that it holds from; the newest row at or below the given ABI counts.
What the rights mean and which ABI brought them is in ``sandboxc.landlock_abi``.
"""

from sandboxc import capability
from sandboxc.capability import EXACT, Row
from sandboxc.facts import Facts
from sandboxc.losses import NARROWER, SNAPSHOT, UNENFORCED, WIDER
from sandboxc.records import NamedTuple

TARGET = "landlock"

#: Words that a waiver gives as the place of what is not one entry's.
AT_HIDDEN = "hidden"
AT_NETWORK = "network"
AT_TARGET = "landlock"

NO_LANDLOCK = "SBX450"
CARVE_OUT = "SBX451"
LISTING = "SBX452"
PROTECTED_OPEN = "SBX453"
LISTING_OPEN = "SBX454"
WRITE_ABSENT = "SBX455"
GLOB = "SBX456"
PRESET_GLOB = "SBX457"
TERMINALS = "SBX458"
REPARENT = "SBX459"
METADATA = "SBX460"
HOST_CHANGES = "SBX461"
TRUNCATE = "SBX462"
SOCKETS = "SBX463"
SCOPES = "SBX464"
SHARED = "SBX465"
NO_UNIX = "SBX466"
LOOPBACK = "SBX467"
PORTS_OPEN = "SBX468"
BASELINE_LINKS = "SBX469"


class _From(NamedTuple):
    """A row, and the lowest ABI that it holds from."""

    abi: int
    row: Row


def _exact(feature: str, reason: str, abi: int = 1) -> _From:
    return _From(abi, Row(feature, EXACT, reason))


def _row(
    feature: str,
    status: str,
    code: str,
    reason: str,
    abi: int = 1,
    *,
    standing: bool = False,
    preset: bool = False,
    conditional: bool = False,
) -> _From:
    return _From(abi, Row(feature, status, reason, code, standing, preset, conditional))


_NOTHING = "a kernel without Landlock enforces nothing"

ROWS: tuple[_From, ...] = (
    _row("read", UNENFORCED, NO_LANDLOCK, _NOTHING, 0),
    _row(
        "read",
        NARROWER,
        LISTING,
        "held, but rights only add up on the way down, so a directory above a denied one cannot be listed",
    ),
    _row("write", UNENFORCED, NO_LANDLOCK, _NOTHING, 0),
    _exact("write", "rights on the nodes that exist at binding and on what is below them"),
    _exact("boundary", "creating, removing and renaming are rights of the parent directory", 0),
    _exact("ancestor", "no right to rename or remove is granted in a directory above a stricter layer", 0),
    _row(
        "rename-across-pins",
        NARROWER,
        REPARENT,
        "below ABI 2 (Linux 5.19) no file may be renamed or linked to another directory",
        0,
        standing=True,
    ),
    _exact("rename-across-pins", "renames between directories with equal rights work", 2),
    _row(
        "deny-directory",
        WIDER,
        LISTING_OPEN,
        "held by withholding the listing of the directories above it; only where the policy waives this loss "
        "they can be listed, and the names in denied directories with them",
        0,
    ),
    _exact("deny-file", "no rule is made for a denied file or for another name of it", 0),
    _row(
        "carve-out",
        NARROWER,
        CARVE_OUT,
        "nothing can be made, removed or renamed directly in a directory above a carve-out",
        0,
    ),
    _row(
        "protected-names",
        WIDER,
        PROTECTED_OPEN,
        "held by withholding rights above them (SBX451); only where the policy waives this loss at a root, "
        "protected names below it are writable",
        0,
    ),
    _exact("views", "the devices of the view are granted one by one, and none that a line denies", 0),
    _exact("configured-names", "configuration is read at binding, and what it names is a protected name as others", 0),
    _exact("entry-absent", "nothing can be made in the directory that would hold the name", 0),
    _exact("preset-absent", "nothing can be made in the directory that would hold the name", 0),
    _row(
        "write-absent",
        NARROWER,
        WRITE_ABSENT,
        "a rule needs a node, so a write entry opens nothing until its path exists (`absent: create` makes it)",
        0,
        conditional=True,
    ),
    _row("glob", SNAPSHOT, GLOB, "a pattern holds for the names that exist at binding only", 0),
    _row(
        "preset-glob",
        SNAPSHOT,
        PRESET_GLOB,
        "a preset's pattern holds for the names that exist at binding only",
        0,
        preset=True,
    ),
    _row(
        "new-repositories",
        SNAPSHOT,
        PRESET_GLOB,
        "a repository made during the run has no protected names",
        0,
        preset=True,
    ),
    _exact("hard-links", "other names of a protected object are found at binding and get no rule", 0),
    _row(
        "baseline-links",
        UNENFORCED,
        BASELINE_LINKS,
        "a file in a writable root that has another name where only the baseline covers it can be written",
        0,
        standing=True,
    ),
    _exact("replaced-names", "a name that was replaced has no rule, and rights on its directory were withheld", 0),
    _row(
        "host-changes",
        UNENFORCED,
        HOST_CHANGES,
        "what outside processes make in a granted directory is granted, a hidden path that did not exist "
        "included; in a directory above a carve-out it is not, nor is what they replace there",
        0,
        standing=True,
    ),
    _row(
        "metadata",
        UNENFORCED,
        METADATA,
        "modes, owners, times and extended attributes can be changed as the host's own permissions allow",
        0,
        standing=True,
    ),
    _row(
        "existence",
        UNENFORCED,
        METADATA,
        "stat, access, readlink, chdir and file notification work on denied paths as the host's own permissions allow",
        0,
        standing=True,
    ),
    _row(
        "truncate",
        UNENFORCED,
        TRUNCATE,
        "below ABI 3 (Linux 6.2) truncate(2) empties files that are not writable",
        0,
        standing=True,
    ),
    _exact("truncate", "truncation is a right of its own", 3),
    _row(
        "sockets-existing",
        UNENFORCED,
        SOCKETS,
        "below ABI 9 (Linux 7.1) only the seccomp companion of `network: deny` and `loopback` keeps the "
        "sandbox from pathname sockets",
        0,
        standing=True,
    ),
    _exact("sockets-existing", "connecting to a socket from outside is a right of its own", 9),
    _row(
        "sockets-abstract",
        UNENFORCED,
        SCOPES,
        "below ABI 6 (Linux 6.12) only the seccomp companion of `network: deny` and `loopback` keeps the "
        "sandbox from abstract sockets",
        0,
        standing=True,
    ),
    _exact("sockets-abstract", "a scope of the rule set", 6),
    _row(
        "signals",
        UNENFORCED,
        SCOPES,
        "below ABI 6 (Linux 6.12) outside processes of the same user can be signalled; tracing is refused",
        0,
        standing=True,
    ),
    _exact("signals", "a scope of the rule set; tracing is refused by every rule set", 6),
    _row(
        "terminal",
        NARROWER,
        TERMINALS,
        "no injection, and /dev/tty works; new pseudo-terminals do not, because a rule on /dev/pts would reach "
        "every terminal of the user (a `write /dev/pts` entry asks for just that)",
        0,
        standing=True,
    ),
    _row(
        "brokers",
        UNENFORCED,
        SOCKETS,
        "below ABI 9, under `network: allow-all`, services that listen on a socket act for the sandbox",
        0,
        standing=True,
    ),
    _exact("brokers", "their sockets cannot be connected to", 9),
    _row(
        "network-deny",
        NARROWER,
        NO_UNIX,
        "closed by the seccomp companion; below ABI 9 that leaves no Unix sockets either, but connected pairs",
        0,
        standing=True,
    ),
    _exact("network-deny", "closed by the seccomp companion; Unix sockets of the run itself work", 9),
    _row(
        "network-loopback",
        NARROWER,
        LOOPBACK,
        "Landlock knows ports, not addresses, so the sandbox gets no loopback rather than every host",
        0,
    ),
    _row(
        "network-ports",
        WIDER,
        PORTS_OPEN,
        "not opened; only where the policy waives this loss the ports can be reached, at every address",
        4,
    ),
    _row("network-ports", NARROWER, LOOPBACK, "not opened: below ABI 4 there are no port rules", 0),
    _exact("private-temp", "the base of all runs is denied, the run's own directory granted", 0),
    _row(
        "shared-objects",
        UNENFORCED,
        SHARED,
        "System V and POSIX message objects and the scheduling of the user's other processes are shared with the "
        "host, and /proc names other processes and their command lines; /dev/shm is withheld unless an entry names it",
        0,
        standing=True,
    ),
)


def table(facts: Facts) -> capability.Table:
    """Return the capability table for ``facts.landlock_abi``; an ABI newer than is known counts as the newest."""
    best: dict[str, _From] = {}
    for item in ROWS:
        feature = item.row.feature
        if item.abi <= facts.landlock_abi and (feature not in best or item.abi > best[feature].abi):
            best[feature] = item
    return capability.Table(TARGET, tuple(best[name].row for name in capability.FEATURES if name in best))

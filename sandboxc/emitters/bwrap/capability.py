"""What bubblewrap can express: the one table of this target.

Facts: bwrap(1), mount_namespaces(7), user_namespaces(7), unix(7), landlock(7).
"""

from sandboxc.capability import EXACT, Row, Table
from sandboxc.facts import Facts
from sandboxc.losses import NARROWER, SNAPSHOT, UNENFORCED, WIDER
from sandboxc.seccomp import ARCHES

TARGET = "bwrap"

#: Words that a waiver gives as the place of what is not one entry's.
AT_HIDDEN = "hidden"
AT_NETWORK = "network"
AT_TARGET = "bwrap"

PINS = "SBX430"
GLOB = "SBX431"
PRESET_ABSENT = "SBX432"
ENTRY_ABSENT = "SBX433"
WRITE_ABSENT = "SBX434"
PRESET_GLOB = "SBX435"
NEW_REPOSITORIES = "SBX436"
REPLACED = "SBX437"
HOST_CHANGES = "SBX438"
NEW_SOCKETS = "SBX439"
BASELINE_LINKS = "SBX440"
PORTS = "SBX441"
ABSTRACT = "SBX442"
TERMINAL = "SBX443"
BROKERS = "SBX444"
EXISTENCE = "SBX445"
BUDGET = "SBX446"
HELD_DIRECTORY = "SBX447"
VIEWS = "SBX448"

LANDLOCK_SCOPES = 6  # the Landlock ABI that knows scopes


def table(facts: Facts) -> Table:
    """Return the capability table of bubblewrap on a host like ``facts``."""
    return Table(TARGET, (*_ROWS, _abstract(facts), _terminal(facts)))


def _abstract(facts: Facts) -> Row:
    if facts.landlock_abi >= LANDLOCK_SCOPES:
        return Row(
            "sockets-abstract",
            EXACT,
            "a network namespace of its own, or under `network: allow-all` the Landlock scope for abstract sockets",
        )
    reason = "under `network: allow-all` abstract sockets of outside processes can be connected to"
    return Row("sockets-abstract", WIDER, reason, ABSTRACT)


def _terminal(facts: Facts) -> Row:
    if facts.arch in ARCHES:
        return Row("terminal", EXACT, "the seccomp companion refuses TIOCSTI and TIOCLINUX")
    reason = f"there is no filter for {facts.arch}, so the command gets a session of its own and no /dev/tty"
    return Row("terminal", NARROWER, reason, TERMINAL, standing=True)


_ROWS: tuple[Row, ...] = (
    Row("read", EXACT, "each place is a mount of its own where its access differs from its surroundings"),
    Row("write", EXACT, "each place is a mount of its own where its access differs from its surroundings"),
    Row("boundary", EXACT, "a writable root is a mount point: it can be filled, not removed (EBUSY or EROFS)"),
    Row("ancestor", EXACT, "every directory between a writable root and a stricter place is a mount point (EBUSY)"),
    Row(
        "rename-across-pins",
        NARROWER,
        "renames and hard links across a directory that holds a stricter place fail (EXDEV)",
        PINS,
        standing=True,
    ),
    Row("deny-directory", EXACT, "an empty directory that cannot be listed, read-only, with the islands put back"),
    Row("deny-file", EXACT, "an empty file of mode 0000, read-only, in its place"),
    Row("carve-out", EXACT, "mounts subtract, so the directory above keeps its rights"),
    Row("protected-names", EXACT, "read-only binds of what exists at binding"),
    Row(
        "views",
        UNENFORCED,
        "/dev and /proc are made anew and look the same under every policy, so a line that narrows them says nothing",
        VIEWS,
    ),
    Row("configured-names", EXACT, "configuration is read at binding, and what it names gets read-only binds"),
    Row(
        "entry-absent",
        SNAPSHOT,
        "with `absent: report` a name that is absent at binding is not held when the run makes it; "
        "`absent: placeholder`, the default, occupies it",
        ENTRY_ABSENT,
        conditional=True,
    ),
    Row(
        "preset-absent",
        SNAPSHOT,
        "a preset's name that is absent at binding is not held when the run makes it",
        PRESET_ABSENT,
        preset=True,
        conditional=True,
    ),
    Row(
        "write-absent",
        NARROWER,
        "a write entry opens nothing until its path exists (`absent: create` makes it)",
        WRITE_ABSENT,
        conditional=True,
    ),
    Row("glob", SNAPSHOT, "a pattern holds for the names that exist at binding only", GLOB),
    Row(
        "preset-glob",
        SNAPSHOT,
        "a preset's pattern holds for the names that exist at binding only",
        PRESET_GLOB,
        preset=True,
    ),
    Row(
        "new-repositories",
        SNAPSHOT,
        "a repository made during the run has no protected names until the next binding",
        NEW_REPOSITORIES,
        preset=True,
    ),
    Row("hard-links", EXACT, "other names of a held object are found at binding and held alike"),
    Row(
        "baseline-links",
        UNENFORCED,
        "a file in a writable root that has another name where only the baseline covers it can be written",
        BASELINE_LINKS,
        standing=True,
    ),
    Row(
        "replaced-names",
        SNAPSHOT,
        "a held file or socket is no longer held when an outside process replaces or unlinks its name",
        REPLACED,
        standing=True,
    ),
    Row(
        "host-changes",
        SNAPSHOT,
        "what outside processes make later in a readable tree can be read",
        HOST_CHANGES,
        standing=True,
    ),
    Row("metadata", EXACT, "modes, owners, times and attributes change only below a writable mount"),
    Row(
        "existence",
        WIDER,
        "a denied path that exists at binding can be stat-ed (as an empty file or directory of mode 0000 or 0111)",
        EXISTENCE,
        standing=True,
    ),
    Row("truncate", EXACT, "truncating needs a writable mount"),
    Row(
        "sockets-existing",
        SNAPSHOT,
        "sockets that are bound at binding are masked; one that an outside process binds later in a readable "
        "place can be connected to",
        NEW_SOCKETS,
        standing=True,
    ),
    Row("signals", EXACT, "a process namespace of its own"),
    Row(
        "brokers",
        WIDER,
        "a FIFO that an outside process reads can be written to wherever it is readable",
        BROKERS,
        standing=True,
    ),
    Row("network-deny", EXACT, "a network namespace whose only interface is a loopback of its own"),
    Row("network-loopback", EXACT, "a network namespace whose only interface is a loopback of its own"),
    Row(
        "network-ports",
        NARROWER,
        "the private network has no way to the host's loopback ports",
        PORTS,
    ),
    Row("private-temp", EXACT, "a directory of its own for each run below a base that is masked for every run"),
    Row("shared-objects", EXACT, "shared memory, message queues and /dev/shm are the run's own"),
)

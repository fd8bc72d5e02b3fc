"""What Windows access control lists and a restricted token can hold: one row for each feature."""

from sandboxc.capability import EXACT, FEATURES, Row, Table
from sandboxc.losses import NARROWER, SNAPSHOT, UNENFORCED, WIDER

TARGET = "windows"

_READS = "a write-restricted token is checked again for writes only, so reads follow the user's own rights"

_ROWS = (
    Row("read", UNENFORCED, _READS, "SBX470", standing=True),
    Row("write", EXACT, "entries of a root's own SID open it; everything else fails the second check"),
    Row("boundary", EXACT, "a root's DELETE entry is inherit-only, and DELETE_CHILD is never granted"),
    Row("ancestor", EXACT, "directories above a stricter layer refuse DELETE to the guard SID"),
    Row("rename-across-pins", EXACT, "entries do not part a volume"),
    Row("deny-directory", UNENFORCED, f"writes are refused; {_READS}", "SBX470", standing=True),
    Row("deny-file", UNENFORCED, f"writes are refused; {_READS}", "SBX470", standing=True),
    Row("carve-out", EXACT, "an entry on the carve-out changes nothing beside it"),
    Row("protected-names", EXACT, "names that exist carry an explicit deny entry"),
    Row("views", EXACT, "there are no such views on Windows"),
    Row(
        "configured-names",
        WIDER,
        "no configuration is read, so what `core.hooksPath` or `include.path` names below a writable root is writable",
        "SBX484",
        preset=True,
    ),
    Row(
        "entry-absent",
        SNAPSHOT,
        "an access control list needs an object, so the name is open until something occupies it",
        "SBX476",
        conditional=True,
    ),
    Row(
        "preset-absent",
        SNAPSHOT,
        "names that do not exist carry no entry, so the run can make them",
        "SBX472",
        preset=True,
    ),
    Row(
        "write-absent",
        NARROWER,
        "a path that does not exist carries no entry, so it stays closed when it is made later",
        "SBX479",
        conditional=True,
    ),
    Row("glob", SNAPSHOT, "a pattern holds for the names that exist at binding", "SBX473"),
    Row("preset-glob", SNAPSHOT, "a pattern holds for the names that exist at binding", "SBX472", preset=True),
    Row(
        "new-repositories",
        SNAPSHOT,
        "repositories made during the run have no protected names",
        "SBX472",
        preset=True,
    ),
    Row(
        "hard-links",
        WIDER,
        "a file below a protected directory inherits from whichever of its names was visited last",
        "SBX482",
        standing=True,
    ),
    Row(
        "baseline-links",
        WIDER,
        "a file that has a second name in a writable root inherits that root's entry",
        "SBX482",
        standing=True,
    ),
    Row(
        "replaced-names",
        SNAPSHOT,
        "a file that an outside program replaces inherits from its directory and loses its own entry",
        "SBX482",
        standing=True,
    ),
    Row(
        "host-changes",
        NARROWER,
        "what an outside program moves in from elsewhere on the volume keeps its entries and stays closed",
        "SBX481",
        standing=True,
    ),
    Row(
        "metadata",
        NARROWER,
        "times and attributes follow the layers; owners and access control lists can be changed nowhere",
        "SBX481",
        standing=True,
    ),
    Row("existence", WIDER, _READS, "SBX470", standing=True),
    Row("truncate", EXACT, "truncating asks for FILE_WRITE_DATA"),
    Row(
        "sockets-existing",
        UNENFORCED,
        "named pipes and sockets answer to their own access control lists, which this plan does not touch",
        "SBX477",
        standing=True,
    ),
    Row(
        "sockets-abstract",
        UNENFORCED,
        "named pipes and sockets answer to their own access control lists, which this plan does not touch",
        "SBX477",
        standing=True,
    ),
    Row(
        "signals",
        WIDER,
        "other processes cannot be ended or written to, but those of the same user can be read",
        "SBX478",
        standing=True,
    ),
    Row(
        "terminal",
        UNENFORCED,
        "a process that shares a console can type into it; give the run its own",
        "SBX478",
        standing=True,
    ),
    Row(
        "brokers",
        UNENFORCED,
        "services, file servers and scheduled tasks act with the user's whole rights for whoever may ask them",
        "SBX478",
        standing=True,
    ),
    Row("network-deny", UNENFORCED, "a token cannot filter the network", "SBX475"),
    Row("network-loopback", UNENFORCED, "a token cannot filter the network", "SBX475"),
    Row("network-ports", UNENFORCED, "a token cannot filter the network", "SBX475"),
    Row(
        "private-temp",
        WIDER,
        "the private temp directory has its own SID for writes, but other runs of the same user can read it",
        "SBX470",
        standing=True,
    ),
    Row(
        "shared-objects",
        WIDER,
        "a program needs Everyone and its logon among the restricting SIDs, so what those may write stays open",
        "SBX471",
        standing=True,
    ),
)

_STRICT = "every right is checked twice, so reads need an entry for a SID of the plan"
_STRICT_ROWS = {
    "read": Row(
        "read",
        NARROWER,
        "under a readable baseline only the home directory and what every user may read are opened",
        "SBX483",
    ),
    "deny-directory": Row("deny-directory", EXACT, _STRICT),
    "deny-file": Row("deny-file", EXACT, _STRICT),
    "existence": Row("existence", WIDER, "the names in a readable directory are listed", "SBX481", standing=True),
    "private-temp": Row("private-temp", EXACT, _STRICT),
    "shared-objects": Row(
        "shared-objects",
        WIDER,
        "programs need Everyone and Users among the restricting SIDs, so what those may read or write stays open",
        "SBX471",
        standing=True,
    ),
}
_UNREAD = Row("read", UNENFORCED, f"a denied baseline cannot be held: {_READS}", "SBX474")


def windows_table(reads: str = "standard", baseline: str = "read") -> Table:
    """Return the capability table for ``reads`` (``standard`` or ``strict``) and a baseline access.

    Nothing in it depends on target facts: the rules of the access check have been the same on every Windows
    that still gets updates.
    """
    changed = dict(_STRICT_ROWS) if reads == "strict" else {}
    if reads == "strict" and baseline == "deny":
        changed["read"] = Row("read", EXACT, _STRICT)
    if reads != "strict" and baseline == "deny":
        changed["read"] = _UNREAD
    rows = {row.feature: changed.get(row.feature, row) for row in _ROWS}
    return Table(TARGET, tuple(rows[feature] for feature in FEATURES))

"""What Seatbelt can hold, as data. Sources: what tools of the field measured with sandbox-exec."""

from sandboxc.capability import EXACT, Row, Table
from sandboxc.facts import Facts
from sandboxc.losses import NARROWER, WIDER

_ROWS = (
    Row("read", EXACT, "rules name file-read*, process-exec* and file-map-executable together"),
    Row("write", EXACT, "rules name file-write*, file-link and file-clone together"),
    Row("boundary", EXACT, "making and removing an island's root is refused by its path"),
    Row("ancestor", EXACT, "making and removing a directory above a stricter layer is refused by its path"),
    Row("rename-across-pins", EXACT, "renames and links are judged by path, not by mount"),
    Row("deny-directory", EXACT, "the directory is refused by path, whatever is done to it"),
    Row("deny-file", EXACT, "the file is refused by path, whatever is done to it"),
    Row(
        "carve-out",
        NARROWER,
        "a directory above a stricter layer cannot be made while it is absent: mkdir looks like a rename",
        "SBX415",
        standing=True,
    ),
    Row("protected-names", EXACT, "writes are refused by path"),
    Row(
        "configured-names",
        WIDER,
        "no configuration is read, so what `core.hooksPath` or `include.path` names below a writable root is writable",
        "SBX421",
        preset=True,
    ),
    Row("entry-absent", EXACT, "rules hold for paths that do not exist yet"),
    Row("preset-absent", EXACT, "rules hold for paths that do not exist yet"),
    Row("write-absent", EXACT, "rules hold for paths that do not exist yet"),
    Row(
        "glob",
        NARROWER,
        "patterns of different access that meet below one another take the stricter one",
        "SBX420",
    ),
    Row("preset-glob", EXACT, "patterns are regular expressions over paths"),
    Row(
        "new-repositories",
        WIDER,
        "a repository made during a run can be moved to the private temp directory, changed there and moved back",
        "SBX414",
        preset=True,
    ),
    Row(
        "hard-links",
        WIDER,
        "Seatbelt judges paths: another name of a denied or protected file in a writable root is not held",
        "SBX416",
        conditional=True,
    ),
    Row(
        "baseline-links",
        WIDER,
        "Seatbelt judges paths: a hard link in a writable root to a file outside it is written through",
        "SBX417",
        standing=True,
    ),
    Row("replaced-names", EXACT, "rules name paths, not objects"),
    Row("host-changes", EXACT, "rules name paths, not objects"),
    Row("metadata", EXACT, "modes, owners, times and attributes are part of file-write*"),
    Row(
        "existence",
        WIDER,
        "whether a denied path exists can be told from the error, and its ancestors can be looked at",
        "SBX418",
        standing=True,
    ),
    Row("truncate", EXACT, "truncating is part of file-write*"),
    Row(
        "sockets-existing",
        WIDER,
        "a socket that an outside process bound in a writable root can be connected to",
        "SBX413",
        conditional=True,
    ),
    Row("sockets-abstract", EXACT, "macOS has none"),
    Row("signals", EXACT, "signals and task ports reach processes of this run only"),
    Row(
        "terminal",
        NARROWER,
        "`/dev/tty` is refused unless the policy names the `terminal` service",
        "SBX419",
        standing=True,
    ),
    Row(
        "brokers",
        WIDER,
        "under `macos: {base: open}` services outside the sandbox act for it",
        "SBX410",
    ),
    Row("network-deny", EXACT, "(deny default) covers every protocol"),
    Row(
        "network-loopback",
        WIDER,
        "the loopback is the machine's own: its servers are in reach, and what listens is in reach of its networks",
        "SBX411",
    ),
    Row(
        "network-ports",
        NARROWER,
        "the IPv4-mapped spelling `::ffff:127.0.0.1` of a loopback port is refused",
        "SBX412",
    ),
    Row("views", EXACT, "rules inside a view are ceilings of what the view gives"),
    Row("private-temp", EXACT, "the directory that holds those of every run is denied by path"),
    Row("shared-objects", EXACT, "rules do not look at owners or modes"),
)


def table(facts: Facts) -> Table:
    """Return the capability table of Seatbelt; it is the same for every macOS that the facts name."""
    del facts
    return Table("seatbelt", _ROWS)

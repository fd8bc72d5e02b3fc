"""What each target can express, as data: one table a target, one row a feature.

Lowering asks the table once and never drops anything by an ``if`` of its own; the support matrix and the loss
pages are generated from the same rows.
"""

from collections.abc import Mapping

from sandboxc.losses import Loss
from sandboxc.records import NamedTuple
from sandboxc.source import Span

EXACT = "exact"

#: Every feature that a row may speak of, in the order of the support matrix, with what it promises.
FEATURES: Mapping[str, str] = {
    "read": "reading, listing and executing follow the deepest layer",
    "write": "creating, modifying and deleting follow the deepest layer",
    "boundary": "the root of an island can be filled but not removed",
    "ancestor": "a directory above a stricter layer cannot be renamed or removed",
    "rename-across-pins": "renames and links between writable directories work",
    "deny-directory": "a denied directory is unreadable, unlistable and unwritable",
    "deny-file": "a denied file is unreadable and unwritable",
    "carve-out": "directories above a carve-out keep every right of their own",
    "protected-names": "protected names below writable roots stay as they are",
    "configured-names": "what a repository's configuration names stays as it is",
    "entry-absent": "a deny or read entry holds for a path that is made later",
    "preset-absent": "a preset's name holds when it is made later",
    "write-absent": "a write entry opens a path that is made later",
    "glob": "a pattern in an entry holds for names made later",
    "preset-glob": "a pattern in a preset holds for names made later",
    "new-repositories": "repositories made during a run get their protected names",
    "hard-links": "other names of a protected object are held alike",
    "baseline-links": "hard links to files that only the baseline covers",
    "replaced-names": "a held name stays held when an outside process replaces it",
    "host-changes": "files that outside processes make or mount later",
    "metadata": "changing modes, owners, times and attributes follows the layers",
    "existence": "whether a denied path exists cannot be told",
    "truncate": "truncating a file follows the layers",
    "sockets-existing": "sockets of outside processes cannot be connected to",
    "sockets-abstract": "abstract sockets of outside processes cannot be connected to",
    "signals": "outside processes cannot be signalled or traced",
    "terminal": "keystrokes cannot be pushed into the terminal, and /dev/tty works",
    "brokers": "services outside the sandbox do not act for it",
    "network-deny": "no network",
    "network-loopback": "the sandbox's own loopback only",
    "network-ports": "named host loopback ports",
    "views": "a deny or read entry inside /dev or /proc holds there",
    "private-temp": "a private temp directory that no other run can read",
    "shared-objects": "folders and objects that every user may write",
}


class Row(NamedTuple):
    """How a target holds one feature.

    ``status`` is ``exact`` or a kind of loss; ``code`` names the loss. ``standing`` marks a published limit,
    ``preset`` a loss of presets only, ``conditional`` one that depends on what binding finds.
    """

    feature: str
    status: str
    reason: str
    code: str = ""
    standing: bool = False
    preset: bool = False
    conditional: bool = False


class Table(NamedTuple):
    """The capability table of one target under given facts."""

    target: str
    rows: tuple[Row, ...]

    def row(self, feature: str) -> Row:
        """Return the row of a feature; a feature without a row is a fault of the table."""
        for row in self.rows:
            if row.feature == feature:
                return row
        raise KeyError(feature)

    def loss(self, feature: str, at: str, message: str = "", span: Span | None = None) -> Loss | None:
        """Return the loss of a feature at one place, or None where the target holds it exactly."""
        row = self.row(feature)
        if row.status == EXACT:
            return None
        return Loss(
            row.code,
            row.status,
            self.target,
            at,
            message or row.reason,
            span,
            row.preset,
            row.conditional,
            row.standing,
        )

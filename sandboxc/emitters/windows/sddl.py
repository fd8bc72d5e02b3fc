"""Access control entries as the Windows plan writes them: SDDL with hex masks, in canonical order.

Masks are those of ``FILE_*`` and the standard rights of the Windows SDK. Two of them are left out on purpose.
``DELETE_CHILD`` (0x40) is never granted: it lets a parent's entry remove a child whose own entry refuses it.
``FILE_GENERIC_WRITE`` is never refused: it holds READ_CONTROL and SYNCHRONIZE, without which plain reads fail.
"""

from sandboxc.records import NamedTuple

READ_DATA = 0x1
WRITE_DATA = 0x2
APPEND_DATA = 0x4
READ_EA = 0x8
WRITE_EA = 0x10
EXECUTE = 0x20
DELETE_CHILD = 0x40
READ_ATTRIBUTES = 0x80
WRITE_ATTRIBUTES = 0x100
DELETE = 0x10000
READ_CONTROL = 0x20000
WRITE_DAC = 0x40000
WRITE_OWNER = 0x80000
SYNCHRONIZE = 0x100000

#: What a write root grants on itself and everything below it.
GRANT_WRITE = WRITE_DATA | APPEND_DATA | WRITE_EA | WRITE_ATTRIBUTES | SYNCHRONIZE
#: What a read root grants under strict reads (FILE_GENERIC_READ | FILE_GENERIC_EXECUTE).
GRANT_READ = READ_DATA | READ_EA | EXECUTE | READ_ATTRIBUTES | READ_CONTROL | SYNCHRONIZE
#: What a read or deny layer refuses: every right that changes anything.
REFUSE_WRITE = WRITE_DATA | APPEND_DATA | WRITE_EA | DELETE_CHILD | WRITE_ATTRIBUTES | DELETE | WRITE_DAC | WRITE_OWNER
#: What a deny layer refuses besides under strict reads; READ_ATTRIBUTES stays, so that a path can be walked.
REFUSE_READ = READ_DATA | READ_EA | EXECUTE | READ_CONTROL

ALLOW = "A"
REFUSE = "D"
TREE = "OICI"  # this object, files and directories below
BELOW = "OICIIO"  # files and directories below only
ITSELF = ""


class Ace(NamedTuple):
    """One allow (``A``) or deny (``D``) entry; ``sid`` is a SID or a symbol such as ``${sid:workspace}``."""

    kind: str
    flags: str
    mask: int
    sid: str

    def text(self) -> str:
        """Return the SDDL text of the entry."""
        return f"({self.kind};{self.flags};0x{self.mask:x};;;{self.sid})"

    def on_file(self) -> "Ace | None":
        """Return the entry as a file carries it, or None where it only speaks of what is below."""
        return None if "IO" in self.flags else self._replace(flags=ITSELF)


def canonical(aces: tuple[Ace, ...]) -> tuple[Ace, ...]:
    """Return explicit entries of one object in canonical order: deny before allow, otherwise as they came."""
    return tuple(sorted(aces, key=lambda ace: ace.kind != REFUSE))

"""The SIDs that a plan works with, and how they are derived.

**One SID for each write root, made from its path.** The entry that opens a root names a SID that no account
has, so it means nothing to anyone whose token does not carry it, and the user's own access never changes. The
SID depends on the path alone. A second policy that opens the same root therefore finds the entry in place, and
the walk over the whole tree, which an inheritable entry costs, is paid once.

**One guard SID for each set of refusals.** Every deny entry names the guard, which each token of the plan carries.
Naming a root's SID instead would tie the refusals of all policies that share a root together: an entry left
by one would narrow another, and which root to name would depend on how parameters nest. The guard is made from the
refusals themselves, so two plans share it exactly when they refuse the same rights at the same places.

The form is ``S-1-4-a-b-c-d`` (a root) or ``S-1-4-a-b-c`` (a guard): authority 4 is the one set aside for
identifiers that are unique only by chance, accounts never have it, and resolving a name for it asks no domain
controller. A root keeps about 124 bits of SHA-256, so that nobody who chooses a path can choose another root's
SID; a guard opens nothing, and 93 bits keep chance away.

**The canonical path** is what is hashed: drive letter and colon, back slashes, none at the end but behind a bare
drive, no ``\\\\?\\`` prefix, ``A`` to ``Z`` for ``a`` to ``z`` and every other character as it is. Only ASCII letters
are folded, because tables of other letters differ between Unicode versions, between NTFS volumes and between
languages, and a SID must not. Within one plan both sides, entry and token, come from one text, so a spelling that
differs in other letters makes a second entry and never a missing one.
"""

from collections.abc import Iterable
from hashlib import sha256

from sandboxc.places import Place

EVERYONE = "S-1-1-0"
USERS = "S-1-5-32-545"
LOGON = "${sid:logon}"  # known only when the token is made

ROOT_RULE = "sandboxc-root-1"
GUARD_RULE = "sandboxc-guard-1"
_LOWER = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}
_MODULUS = 2**31 - 2  # keeps every part positive as a signed number, and never zero


def canonical_path(place: Place) -> str:
    """Return the text that a bound place's SID is made from."""
    return native(place).translate(_LOWER)


def derive_sid(canonical: str) -> str:
    """Return the SID of a write root; ``canonical`` is a text of ``canonical_path``."""
    return _sid(f"{ROOT_RULE}\0{canonical}", 4)


def derive_guard(refusals: Iterable[str]) -> str:
    """Return the guard SID of a set of refusals; each text says one mask and place, their order is no matter."""
    return _sid(GUARD_RULE + "\0" + "\0".join(sorted(set(refusals))), 3)


def _sid(text: str, count: int) -> str:
    digest = sha256(text.encode()).digest()
    parts = (int.from_bytes(digest[4 * at : 4 * at + 4], "little") % _MODULUS + 1 for at in range(count))
    return "S-1-4-" + "-".join(str(part) for part in parts)


def sid_name(place: Place) -> str:
    """Return the name of a place's SID in the plan: ``workspace``, ``home/.cache``, ``C:/out``."""
    return "/".join((place.root, *place.parts))


def root_sid(place: Place) -> str:
    """Return the SID of a bound place, or the symbol that stands for it until it is bound."""
    return derive_sid(canonical_path(place)) if place.is_bound else "${sid:" + sid_name(place) + "}"


def native(place: Place) -> str:
    """Return the path as Windows spells it, its parameter, if any, still in front."""
    base = place.root if place.is_bound else "${" + place.root + "}"
    if not place.parts:
        return base + "\\" if base.endswith(":") else base.replace("/", "\\")
    return "\\".join((base.replace("/", "\\"), *place.parts))

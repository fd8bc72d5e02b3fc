"""NTFS in small for the Windows judge: SDDL, objects with descriptors, inheritance."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

READ_DATA = LIST = 0x1
WRITE_DATA = ADD_FILE = 0x2
APPEND = ADD_DIRECTORY = 0x4
READ_EA, WRITE_EA, EXECUTE, DELETE_CHILD, READ_ATTRIBUTES, WRITE_ATTRIBUTES = (
    0x8,
    0x10,
    0x20,
    0x40,
    0x80,
    0x100,
)
DELETE, READ_CONTROL, WRITE_DAC, WRITE_OWNER, SYNCHRONIZE = 0x10000, 0x20000, 0x40000, 0x80000, 0x100000
GENERIC_READ, GENERIC_WRITE, GENERIC_EXECUTE, ALL = 0x120089, 0x120116, 0x1200A0, 0x1F01FF
# What WRITE_RESTRICTED checks a second time.
WRITE_BITS = WRITE_DATA | APPEND | WRITE_EA | DELETE_CHILD | WRITE_ATTRIBUTES | DELETE | WRITE_DAC | WRITE_OWNER
_GENERIC = {0x80000000: GENERIC_READ, 0x40000000: GENERIC_WRITE, 0x20000000: GENERIC_EXECUTE, 0x10000000: ALL}

_FLAGS = ("OI", "CI", "NP", "IO", "ID")
_ALIASES = {
    "WD": "S-1-1-0",
    "CO": "S-1-3-0",
    "CG": "S-1-3-1",
    "OW": "S-1-3-4",
    "NU": "S-1-5-2",
    "IU": "S-1-5-4",
    "AU": "S-1-5-11",
    "RC": "S-1-5-12",
    "SY": "S-1-5-18",
    "LS": "S-1-5-19",
    "NS": "S-1-5-20",
    "WR": "S-1-5-33",
    "BA": "S-1-5-32-544",
    "BU": "S-1-5-32-545",
    "AC": "S-1-15-2-1",
}
EVERYONE, CREATOR_OWNER, CREATOR_GROUP = _ALIASES["WD"], _ALIASES["CO"], _ALIASES["CG"]
_SID = re.compile(r"S-1-[0-9]+(-[0-9]+){1,15}\Z")
_ACE = re.compile(r"\((A|D);((?:OI|CI|NP|IO|ID)*);(0x[0-9A-Fa-f]{1,8});;;([A-Za-z0-9-]+)\)")
_SDDL = re.compile(r"(?:O:(?P<o>[A-Z0-9-]+?))?(?:G:(?P<g>[A-Z0-9-]+?))?D:(?P<f>(?:P|AI|AR)*)(?P<aces>(?:\(.*\))?)\Z")


class PlanError(Exception):
    """A descriptor, an ACE or a plan that Windows would refuse or would read otherwise."""


def sid(text: str) -> str:
    """Numeric form of a SID or of a two-letter alias."""
    numeric = _ALIASES.get(text, text)
    if not _SID.match(numeric):
        raise PlanError(f"not a SID: {text!r}")
    return numeric


class Ace(NamedTuple):
    """One allow or deny ACE; flags in the order of the SDDL specification."""

    kind: str
    flags: tuple[str, ...]
    mask: int
    sid: str

    def __str__(self) -> str:
        return f"({self.kind};{''.join(self.flags)};0x{self.mask:x};;;{self.sid})"

    @property
    def inherited(self) -> bool:
        """True for an ACE that came from a parent."""
        return "ID" in self.flags


def parse_ace(text: str) -> Ace:
    """ACE of one SDDL ACE string: hex mask, flags without blanks, each flag once."""
    match = _ACE.fullmatch(text)
    if match is None:
        raise PlanError(f"not an allow or deny ACE with a hex mask: {text!r}")
    kind, flags, mask, trustee = match.groups()
    names = [flags[at : at + 2] for at in range(0, len(flags), 2)]
    if len(set(names)) != len(names):
        raise PlanError(f"a flag twice in {text!r}")
    if ("IO" in names or "NP" in names) and not {"OI", "CI"} & set(names):
        raise PlanError(f"IO and NP mean nothing without OI or CI: {text!r}")
    if int(mask, 16) == 0:
        raise PlanError(f"empty mask: {text!r}")
    return Ace(kind, tuple(flag for flag in _FLAGS if flag in names), int(mask, 16), sid(trustee))


@dataclass(slots=True)
class Node:
    """A file or directory with its owner and DACL; ``protected`` stops inheritance."""

    path: str
    is_directory: bool
    owner: str
    group: str
    dacl: list[Ace]
    protected: bool = False

    @property
    def sddl(self) -> str:
        """Descriptor in SDDL, numeric SIDs and hex masks only."""
        flags = "P" if self.protected else ""
        return f"O:{self.owner}G:{self.group}D:{flags}{''.join(map(str, self.dacl))}"


def inherited_aces(parent: Node, is_directory: bool, owner: str, group: str) -> list[Ace]:
    """The ACEs that a child of this kind receives, in the parent's order."""
    result: list[Ace] = []
    for ace in parent.dacl:
        here = ("CI" if is_directory else "OI") in ace.flags
        passes_on = is_directory and "NP" not in ace.flags and bool({"OI", "CI"} & set(ace.flags))
        onward = tuple(flag for flag in ("OI", "CI") if passes_on and flag in ace.flags)
        if here:
            trustee = {CREATOR_OWNER: owner, CREATOR_GROUP: group}.get(ace.sid, ace.sid)
            effective = ace._replace(sid=trustee, mask=_mapped(ace.mask))
            if onward and (effective.sid, effective.mask) != (ace.sid, ace.mask):
                # A creator SID or a generic right becomes concrete here and stays as it is for what is below.
                result.append(effective._replace(flags=("ID",)))
                result.append(ace._replace(flags=(*onward, "IO", "ID")))
            else:
                result.append(effective._replace(flags=(*onward, "ID")))
        elif onward:
            result.append(ace._replace(flags=(*onward, "IO", "ID")))
    return result


def _mapped(mask: int) -> int:
    for bit, rights in _GENERIC.items():
        if mask & bit:
            mask = mask & ~bit | rights
    return mask


def key_of(path: str) -> str:
    parts = [part for part in path.replace("/", "\\").split("\\") if part]
    if not parts or any(part in (".", "..") for part in parts) or not re.fullmatch(r"[A-Za-z]:", parts[0]):
        raise PlanError(f"not an absolute Windows path: {path!r}")
    return "\\".join(parts).casefold()


class Tree:
    """Files and directories of one NTFS volume, each with a security descriptor."""

    def __init__(self, root: str, sddl: str) -> None:
        self.nodes: dict[str, Node] = {}
        self.nodes[key_of(root)] = self._described(root, True, sddl)

    def node(self, path: str) -> Node:
        """The node at a path (names compare without case); PlanError where there is none."""
        try:
            return self.nodes[key_of(path)]
        except KeyError:
            raise PlanError(f"no such object: {path}") from None

    def exists(self, path: str) -> bool:
        """True where the path names a node."""
        return key_of(path) in self.nodes

    def parent(self, path: str) -> Node | None:
        """The directory that holds a path, None for the root of the tree."""
        node = self.nodes.get(key_of(path).rpartition("\\")[0])
        if node is not None and not node.is_directory:
            raise PlanError(f"not a directory: {node.path}")
        return node

    def children(self, path: str) -> list[Node]:
        """The nodes directly below a path."""
        start = key_of(path) + "\\"
        return [node for key, node in self.nodes.items() if key.startswith(start) and "\\" not in key[len(start) :]]

    def add(self, path: str, *, directory: bool = False, sddl: str | None = None, owner: str | None = None) -> Node:
        """Place an object that exists before the run, with its own descriptor or inherited ACEs."""
        parent = self.parent(path)
        if parent is None or self.exists(path):
            raise PlanError(f"cannot be placed: {path}")
        if sddl is None:
            who = sid(owner) if owner else parent.owner
            node = Node(path, directory, who, parent.group, inherited_aces(parent, directory, who, parent.group))
        else:
            node = self._described(path, directory, sddl)
        self.nodes[key_of(path)] = node
        return node

    def create(self, path: str, *, owner: str, directory: bool = False, default_dacl: str = "") -> Node:
        """Make a new object as a process does; where nothing is inherited it gets the default DACL."""
        node = self.add(path, directory=directory, owner=owner)
        if not node.dacl and default_dacl:
            node.dacl = parse_aces(default_dacl)
        return node

    def remove(self, path: str) -> None:
        """Take away a file or an empty directory."""
        if self.children(path):
            raise PlanError(f"not empty: {path}")
        self.node(path)
        del self.nodes[key_of(path)]

    def move(self, path: str, to: str) -> None:
        """Rename within the volume: the object and all below keep the descriptors they have."""
        self.node(path)
        old, new = key_of(path), key_of(to)
        if self.parent(to) is None or (new + "\\").startswith(old + "\\"):
            raise PlanError(f"cannot be moved to {to}")
        if self.exists(to):
            self.remove(to)
        moving = [key for key in self.nodes if key == old or key.startswith(old + "\\")]
        for key in moving:
            node = self.nodes.pop(key)
            node.path = to + key[len(old) :]
            self.nodes[new + key[len(old) :]] = node

    def snapshot(self) -> dict[str, str]:
        """Path to descriptor, to compare two states."""
        return {key: node.sddl for key, node in sorted(self.nodes.items())}

    def add_ace(self, path: str, ace: Ace) -> bool:
        """Add an explicit ACE in its canonical place, renew what is below; False where it is there."""
        node = self.node(path)
        if ace.inherited:
            raise PlanError(f"an explicit ACE cannot carry ID: {ace}")
        if not node.is_directory and ace.flags:
            raise PlanError(f"a file passes nothing on: {ace}")
        if ace in node.dacl:
            return False
        explicit = [item for item in node.dacl if not item.inherited]
        rest = [item for item in node.dacl if item.inherited]
        explicit.append(ace)
        explicit.sort(key=lambda item: item.kind != "D")  # stable: deny first, otherwise in the order of coming
        node.dacl = explicit + rest
        self._renew(path)
        return True

    def remove_ace(self, path: str, ace: Ace) -> bool:
        """Take one explicit ACE away and renew what is below; False where it is not there."""
        node = self.node(path)
        if ace not in node.dacl:
            return False
        node.dacl.remove(ace)
        self._renew(path)
        return True

    def _renew(self, path: str) -> None:
        parent = self.node(path)
        for child in self.children(path):
            if not child.protected:
                explicit = [ace for ace in child.dacl if not ace.inherited]
                child.dacl = explicit + inherited_aces(parent, child.is_directory, child.owner, child.group)
                self._renew(child.path)

    @staticmethod
    def _described(path: str, directory: bool, sddl: str) -> Node:
        match = _SDDL.match(sddl)
        if match is None:
            raise PlanError(f"not a descriptor with a DACL: {sddl!r}")
        owner, group = sid(match["o"] or "SY"), sid(match["g"] or "SY")
        protected = "P" in match["f"].replace("AI", "").replace("AR", "")
        return Node(path, directory, owner, group, parse_aces(match["aces"]), protected)


def parse_aces(text: str) -> list[Ace]:
    parts = re.findall(r"\([^()]*\)", text)
    if "".join(parts) != text:
        raise PlanError(f"not a list of ACEs: {text!r}")
    return [parse_ace(part) for part in parts]

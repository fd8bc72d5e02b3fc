"""The host's file system as it would be without the occupants of other runs.

A name that another run holds (``occupants``) is absent as far as a policy is concerned. A survey that took it for
a file would mask it without holding it, and the mask would go when the run that made it removes it; seen as
absent, it is occupied by this run too.
"""

from collections.abc import Mapping

from sandboxc.records import NamedTuple
from sandboxc.runtime.hostlook import HostLook
from sandboxc.runtime.journal import journaled
from sandboxc.survey.look import Name, Node


class Standing(NamedTuple):
    """What the records of all runs say: the occupants (path -> device, inode number), and where their private temp
    directories lie."""

    occupied: dict[str, tuple[int, int]]
    bases: tuple[str, ...]


def standing(state_dir: str) -> Standing:
    """Return what the runs, alive or dead, that keep their journals in a directory hold."""
    occupied: dict[str, tuple[int, int]] = {}
    bases: dict[str, None] = {}
    for kind, path, dev, ino in journaled(state_dir):
        if kind == "temporary":
            bases[path.rpartition("/")[0]] = None
        else:
            occupied[path] = (dev, ino)
    return Standing(occupied, tuple(bases))


class UnoccupiedLook(HostLook):
    """A ``HostLook`` that does not see the given nodes: path -> (device, inode number)."""

    def __init__(self, occupied: Mapping[str, tuple[int, int]]) -> None:
        self._occupied = occupied
        self._parents = {path.rpartition("/")[0] or "/" for path in occupied}

    def node(self, path: str) -> Node | None:
        """Return the node at a path, or None where there is none but an occupant."""
        found = super().node(path)
        if found is not None and self._occupied.get(path) == (found.dev, found.ino):
            return None
        return found

    def names(self, path: str) -> tuple[Name, ...] | None:
        """Return the names in a directory but those of occupants."""
        found = super().names(path)
        if not found or path not in self._parents:
            return found
        base = path.rstrip("/")
        return tuple(name for name in found if self.node(f"{base}/{name.name}") is not None)

    def content(self, path: str) -> str | None:
        """Return the text of a small regular file that is no occupant."""
        return None if path in self._occupied and self.node(path) is None else super().content(path)

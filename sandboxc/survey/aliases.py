"""Other names of protected objects: hard links in writable trees, and second mounts of one file system."""

from collections.abc import Iterator, Mapping

from sandboxc.layers import Index, Layer, Layers
from sandboxc.places import Place, posix
from sandboxc.policy import DENY, READ, WRITE
from sandboxc.records import NamedTuple
from sandboxc.survey.look import DIRECTORY, FILE, Look, Mount, Name, Walker
from sandboxc.survey.walk import VIEWS, Found, inside

#: Names that one look below protected directories may read.
MAX_SUSPECTS = 100_000
#: Up to this many files in the writable roots each is asked for its link count, which mostly settles it.
FEW = 4_000


class Override(NamedTuple):
    """What another name of an object must not exceed, the layer that says so, and the name that it holds."""

    access: str
    layer: Layer
    of: str


def linked_names(
    stack: Layers, index: Index, look: Look, walker: Walker, found: Found
) -> tuple[dict[str, Override], tuple[str, ...]]:
    """Return the other names, in the trees that were walked, of files that a stricter layer holds.

    The second value says in words where the look had to stop.
    """
    return _Links(stack, index, look, walker, found).run()


def _protective(stack: Layers) -> Iterator[Layer]:
    """Yield the literal layers that hold something back: denials, and what lies in a writable tree."""
    writable = {
        layer.where.text() for layer in stack.layers if layer.access == WRITE and isinstance(layer.where, Place)
    }
    for layer in stack.layers:
        if layer.access != WRITE and isinstance(layer.where, Place):
            path = layer.where.text()
            if layer.access == DENY or any(inside(path, root) for root in writable):
                yield layer


class _Links:
    def __init__(self, stack: Layers, index: Index, look: Look, walker: Walker, found: Found) -> None:
        self.stack = stack
        self.index = index
        self.look = look
        self.walker = walker
        self.listing = found.listing
        self.left = MAX_SUSPECTS
        self.incomplete: list[str] = []
        self.places = {layer.where.text() for layer in stack.layers if isinstance(layer.where, Place)}

    def run(self) -> tuple[dict[str, Override], tuple[str, ...]]:
        overrides: dict[str, Override] = {}
        wanted = self._linked_here()
        if wanted is not None and not wanted:
            return overrides, ()
        suspects: dict[int, list[tuple[str, Layer]]] = {}
        for layer in _protective(self.stack):
            for ino, path in self._files(layer, wanted):
                suspects.setdefault(ino, []).append((path, layer))
        for directory, names in self.listing.items() if suspects else ():
            for name, kind, ino in names:
                if ino in suspects and kind == FILE:
                    path = f"{directory.rstrip('/')}/{name}"
                    override = self._confirmed(path, suspects[ino])
                    if override is not None:
                        overrides[path] = override
        return overrides, tuple(self.incomplete)

    def _linked_here(self) -> frozenset[int] | None:
        """Return the inode numbers of files with more than one name, or None where there are too many to ask."""
        files = 0
        for names in self.listing.values():
            files += sum(1 for name in names if name[1] == FILE)
            if files > FEW:
                return None
        found: set[int] = set()
        for directory, names in self.listing.items():
            base = directory.rstrip("/")
            for name, kind, ino in names:
                if kind == FILE and ino not in found:
                    node = self.look.node(f"{base}/{name}")
                    if node is not None and node.links > 1:
                        found.add(ino)
        return frozenset(found)

    def _files(self, layer: Layer, wanted: frozenset[int] | None) -> Iterator[tuple[int, str]]:
        """Yield the files at or below a layer's place, as far as it is this layer that holds them."""
        assert isinstance(layer.where, Place)
        root = layer.where.text()
        node = self.walker.node(root)
        if node is None:
            return
        if node.kind == FILE:
            if node.links > 1 and (wanted is None or node.ino in wanted):
                yield node.ino, root
            return
        stack = [root] if node.kind == DIRECTORY else []
        while stack:
            path = stack.pop()
            names = self._names(path)
            self.left -= len(names)
            if self.left < 0:
                self.incomplete.append(f"`{root}` holds too many names to look for hard links")
                return
            base = path.rstrip("/")
            for name, kind, ino in names:
                if kind == DIRECTORY:
                    below = f"{base}/{name}"
                    if below not in self.places and below not in VIEWS:
                        stack.append(below)
                elif kind == FILE and (wanted is None or ino in wanted):
                    below = f"{base}/{name}"
                    if below not in self.places:
                        yield ino, below

    def _names(self, path: str) -> tuple[Name, ...]:
        return self.listing.get(path) or self.look.names(path) or ()

    def _confirmed(self, path: str, suspects: list[tuple[str, Layer]]) -> Override | None:
        best: Override | None = None
        node = self.walker.node(path)
        for first, layer in suspects:
            other = self.walker.node(first)
            if first == path or node is None or other is None or (node.dev, node.ino) != (other.dev, other.ino):
                continue
            access = self.index.access(posix(first))
            if access != WRITE and (best is None or (access, best.access) == (DENY, READ)):
                best = Override(access, layer, first)
        return best


def mounted_names(stack: Layers, index: Index, mounts: tuple[Mount, ...]) -> dict[str, Override]:
    """Return the places where a second mount shows what a deny or read layer holds, or something inside it."""
    overrides: dict[str, Override] = {}
    by_device: dict[str, list[Mount]] = {}
    for mount in mounts:
        by_device.setdefault(mount.device, []).append(mount)
    if all(len(group) == 1 for group in by_device.values()):
        return overrides
    points = {mount.point: mount for mount in mounts}  # a later mount on one point hides the earlier
    for layer in _protective(stack):
        assert isinstance(layer.where, Place)
        path = layer.where.text()
        own = _mount_of(path, points)
        if own is None or len(by_device[own.device]) == 1:
            continue
        held = _joined(own.root, path, own.point)
        for mount in by_device[own.device]:
            if mount is own:
                continue
            if inside(mount.root, held):
                of, other = _joined(own.point, mount.root, own.root), mount.point
            elif inside(held, mount.root):
                of, other = path, _joined(mount.point, held, mount.root)
            else:
                continue
            access = index.access(posix(of))
            if other != of and access != WRITE and (other not in overrides or access == DENY):
                overrides[other] = Override(access, layer, of)
    return overrides


def _mount_of(path: str, points: Mapping[str, Mount]) -> Mount | None:
    while path not in points:
        if path == "/":
            return None
        path = path.rpartition("/")[0] or "/"
    return points[path]


def _joined(base: str, path: str, root: str) -> str:
    """Return where ``path``, which lies at or below ``root``, stands below ``base``."""
    rest = path[len(root.rstrip("/")) :]
    return (base.rstrip("/") + rest) or "/"

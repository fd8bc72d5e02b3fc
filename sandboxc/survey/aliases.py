"""Other names of protected objects: hard links in writable trees, and second mounts of one file system."""

from sandboxc.layers import Layer, Layers
from sandboxc.places import Place, posix
from sandboxc.policy import DENY, READ, WRITE
from sandboxc.survey.look import DIRECTORY, FILE, Look, Walker
from sandboxc.survey.walk import Found, walk

MAX_SUSPECTS = 20_000

#: Path of another name -> (access that it must not exceed, the layer that says so, the name that the layer holds).
Overrides = dict[str, tuple[str, Layer, str]]


class Aliases:
    """Collects the other names; ``incomplete`` says in words where it had to stop."""

    def __init__(self, look: Look, walker: Walker) -> None:
        self.look = look
        self.walker = walker
        self.overrides: Overrides = {}
        self.incomplete: list[str] = []

    def linked_objects(self, stack: Layers) -> dict[tuple[int, int], tuple[Layer, str]]:
        """Return the objects with more than one name that a deny or read layer holds: identity -> layer, path."""
        found: dict[tuple[int, int], tuple[Layer, str]] = {}
        for layer in stack.layers:
            if layer.access == WRITE or not isinstance(layer.where, Place):
                continue
            if layer.access == READ and not (layer.cap or layer.span):
                continue  # the system preset's reads are not protective
            path = layer.where.text()
            node = self.walker.node(path)
            if node is None:
                continue
            if node.kind == DIRECTORY:
                self._below(path, layer, found)
            elif node.links > 1:
                found.setdefault((node.dev, node.ino), (layer, path))
        return found

    def _below(self, root: str, layer: Layer, found: dict[tuple[int, int], tuple[Layer, str]]) -> None:
        left, stack = MAX_SUSPECTS, [root]
        while stack:
            path = stack.pop()
            for name in self.look.names(path) or ():
                below = f"{path.rstrip('/')}/{name.name}"
                left -= 1
                if left < 0:
                    self.incomplete.append(f"`{root}` holds too many names to look for hard links")
                    return
                if name.kind == DIRECTORY:
                    stack.append(below)
                elif name.kind == FILE:
                    node = self.walker.node(below)
                    if node is not None and node.links > 1:
                        found.setdefault((node.dev, node.ino), (layer, below))

    def find(
        self,
        roots: list[str],
        stack: Layers,
        found: Found,
        suspects: dict[tuple[int, int], tuple[Layer, str]],
    ) -> None:
        later = {key: value for key, value in self.linked_objects(stack).items() if key not in suspects}
        self._names(found, suspects)
        if later:  # objects that only globs and repositories brought in
            self._names(walk(self.look, roots, (), {ino for _, ino in later}), later)

    def _names(self, found: Found, suspects: dict[tuple[int, int], tuple[Layer, str]]) -> None:
        for (dev, ino), (layer, first) in suspects.items():
            for path in found.names.get(ino, ()):
                node = self.walker.node(path)
                if path != first and node is not None and node.dev == dev:
                    self.overrides[path] = (layer.access, layer, first)

    def find_mounted(self, stack: Layers) -> None:
        """Carry protective layers to the places where the same file system is mounted a second time."""
        mounted: dict[tuple[int, int], list[str]] = {}
        for point in self.look.mounts():
            node = self.walker.node(point)
            if node is not None and point != "/":
                mounted.setdefault((node.dev, node.ino), []).append(point)
        if not mounted:
            return
        for layer in stack.layers:
            if (
                layer.access == WRITE
                or not isinstance(layer.where, Place)
                or not (layer.cap or layer.access == DENY or layer.span)
            ):
                continue
            parts = layer.where.parts
            for depth in range(len(parts) + 1):
                ancestor = posix("/".join(parts[:depth])).text()
                node = self.walker.node(ancestor)
                if node is None:
                    break
                for point in mounted.get((node.dev, node.ino), ()):
                    if point != ancestor:
                        other = "/".join((point, *parts[depth:]))
                        self.overrides.setdefault(other, (layer.access, layer, layer.where.text()))

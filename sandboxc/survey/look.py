"""What a survey may ask about a file system, and an answerer that reads it from a JSON tree."""

from collections.abc import Iterable, Mapping

from sandboxc.records import Any, NamedTuple, Protocol

DIRECTORY = "directory"
FILE = "file"
LINK = "link"
SOCKET = "socket"
FIFO = "fifo"
DEVICE = "device"
ABSENT = "absent"
KINDS = (DIRECTORY, FILE, LINK, SOCKET, FIFO, DEVICE)

MAX_LINKS = 40  # path_resolution(7): ELOOP after 40 links


class Node(NamedTuple):
    """What lstat(2) says of one path: its kind, a link's target, and the identity of the object."""

    kind: str
    target: str = ""
    dev: int = 0
    ino: int = 0
    links: int = 1


class Name(NamedTuple):
    """One name in a directory, with the kind and inode number that reading the directory tells."""

    name: str
    kind: str
    ino: int = 0


class Mount(NamedTuple):
    """One mount: where it is, the file system, and which directory of that file system it shows.

    ``device`` is a name that mounts of one file system share; ``root`` is a path inside it.
    """

    point: str
    device: str
    root: str


class Look(Protocol):
    """Answers about one file system. Paths are absolute, POSIX, clean; nothing is followed."""

    def node(self, path: str) -> Node | None:
        """Return the node at a path, or None where there is none or it cannot be seen."""

    def names(self, path: str) -> tuple[Name, ...] | None:
        """Return the names in a directory, sorted, or None where it cannot be listed and searched."""

    def closed(self, path: str) -> str:
        """Return what of a directory this user may not do now, but the sandbox could open up or do blindly.

        ``search``: the directory is this user's own and may not be searched. ``list``: it can be searched, or is
        this user's own, and may not be listed. An empty text is everything else.
        """

    def content(self, path: str) -> str | None:
        """Return the text of a small regular file, or None."""

    def sockets(self) -> tuple[str, ...]:
        """Return the paths of Unix sockets that are known to be bound."""

    def mounts(self) -> tuple[Mount, ...]:
        """Return the mounts, in the order in which they were made."""


class TreeLook:
    """A ``Look`` over a described tree, as ``--tree FILE`` gives it.

    The description maps absolute paths to ``{"type": "directory|file|link|socket|fifo|device"}`` with
    ``target`` for links, ``content`` for files, ``inode`` where several names are one object. Parents are
    directories without being named. A mount is a path (a file system of its own), or ``{"point": P, "of": D}``:
    the directory D shown a second time at P.
    """

    def __init__(self, paths: Mapping[str, Mapping[str, Any]], mounts: Iterable[str | Mapping[str, str]] = ()) -> None:
        self._nodes: dict[str, Node] = {"/": Node(DIRECTORY, dev=1, ino=2, links=2)}
        self._content: dict[str, str] = {}
        self._names: dict[str, dict[str, None]] = {"/": {}}
        self._next = 3
        self._shown: dict[str, str] = {}
        found = [Mount("/", "tree", "/")]
        counts: dict[Any, int] = {}
        for spec in paths.values():
            counts[spec.get("inode")] = counts.get(spec.get("inode"), 0) + 1
        inodes: dict[Any, int] = {}
        for path in sorted(paths, key=lambda path: path.split("/")):
            if path != "/":
                self._add(path, paths[path], inodes, counts)
        for item in mounts:
            if isinstance(item, str):
                found.append(Mount(item, item, "/"))
            else:
                self._parents(item["point"])
                self._nodes.setdefault(item["point"], self._directory())
                self._shown[item["point"]] = item["of"]
                found.append(Mount(item["point"], "tree", item["of"]))
        self._mounts = tuple(found)

    def _add(self, path: str, spec: Mapping[str, Any], inodes: dict[Any, int], counts: Mapping[Any, int]) -> None:
        self._parents(path)
        mark = spec.get("inode")
        number = self._next if mark is None else inodes.setdefault(mark, self._next)
        self._next += 1
        kind = str(spec.get("type", FILE))
        if kind not in KINDS:
            raise ValueError(f"{path}: unknown type {kind!r}")
        self._nodes[path] = Node(kind, str(spec.get("target", "")), 1, number, 1 if mark is None else counts[mark])
        if kind == DIRECTORY:
            self._names.setdefault(path, {})
        self._content[path] = str(spec.get("content", ""))

    def _directory(self) -> Node:
        self._next += 1
        return Node(DIRECTORY, dev=1, ino=self._next - 1)

    def _parents(self, path: str) -> None:
        here = "/"
        for part in path.strip("/").split("/"):
            self._names.setdefault(here, {})[part] = None
            below = here.rstrip("/") + "/" + part
            if below != path and below not in self._nodes:
                self._nodes[below] = self._directory()
            here = below

    def _real(self, path: str) -> str:
        """Return the described path of what a path shows."""
        for point, of in self._shown.items():
            if path == point or path.startswith(point + "/"):
                return (of.rstrip("/") + path[len(point) :]) or "/"
        return path

    def node(self, path: str) -> Node | None:
        """Return the described node."""
        return self._nodes.get(self._real(path))

    def names(self, path: str) -> tuple[Name, ...] | None:
        """Return the described names of a directory."""
        path = self._real(path)
        found = self._nodes.get(path)
        if found is None or found.kind != DIRECTORY:
            return None
        base = path.rstrip("/")
        nodes = ((name, self._nodes[f"{base}/{name}"]) for name in sorted(self._names.get(path, {})))
        return tuple(Name(name, node.kind, node.ino) for name, node in nodes)

    def closed(self, path: str) -> str:
        """Return an empty text: every described directory can be read."""
        return ""

    def content(self, path: str) -> str | None:
        """Return the described content of a regular file."""
        path = self._real(path)
        found = self._nodes.get(path)
        return self._content.get(path) if found is not None and found.kind == FILE else None

    def sockets(self) -> tuple[str, ...]:
        """Return the described sockets."""
        return tuple(path for path, node in sorted(self._nodes.items()) if node.kind == SOCKET)

    def mounts(self) -> tuple[Mount, ...]:
        """Return the described mounts."""
        return self._mounts


class Walked(NamedTuple):
    """Where a path leads: the physical path, the node there (None: absent), and the links on the way.

    ``missing`` is the first component that is not there, as a path; empty where the node exists.
    """

    path: str
    node: Node | None
    links: tuple[str, ...] = ()
    missing: str = ""
    loop: bool = False


class Walker:
    """Follows paths through links one component at a time, remembering what it saw."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self._seen: dict[str, Node | None] = {}
        self._plain: set[str] = set()  # directories that are reached without a link
        self._walked: dict[tuple[str, bool], Walked] = {}

    def node(self, path: str) -> Node | None:
        """Return the node at a path without following a final link."""
        if path not in self._seen:
            self._seen[path] = self._look.node(path)
        return self._seen[path]

    def walk(self, path: str, follow: bool = True) -> Walked:
        """Return where a path leads; ``follow`` says whether a final link is followed too."""
        known = self._walked.get((path, follow))
        if known is None:
            known = self._walked[path, follow] = self._walk(path, follow)
        return known

    def _walk(self, path: str, follow: bool) -> Walked:
        parent, _, last = path.rpartition("/")
        if parent in self._plain and last not in ("", ".", ".."):
            node = self.node(path)
            if node is None:
                return Walked(path, None, (), path)
            if node.kind != LINK or not follow:
                return Walked(path, node)
        todo = [part for part in reversed(path.split("/")) if part]
        here = ""
        links: list[str] = []
        node = self.node("/")
        while todo:
            part = todo.pop()
            if part == ".":
                continue
            if part == "..":
                here = here.rpartition("/")[0]
                node = self.node(here or "/")
                continue
            below = f"{here}/{part}"
            node = self.node(below)
            if node is None:
                tail = "/".join(reversed(todo))
                return Walked(f"{below}/{tail}" if tail else below, None, tuple(links), below)
            if node.kind == LINK and (todo or follow):
                if len(links) >= MAX_LINKS:
                    return Walked(path, None, tuple(links), below, loop=True)
                links.append(below)
                todo += [name for name in reversed(node.target.split("/")) if name]
                if node.target.startswith("/"):
                    here = ""
                node = self.node(here or "/")
                continue
            if node.kind == DIRECTORY and not links:
                self._plain.add(below)
            here = below
        return Walked(here or "/", node, tuple(links))

"""The plan of one bubblewrap run, and the words that say it.

A plan is data: what to mount in which order, what to mount late, which names to occupy. ``groups`` turns it
into bwrap's options; sources of binds stay slots until a caller says how each is named, by descriptor for a
run (``--bind-fd``) or by path for a person (``--bind``).
"""

from collections.abc import Callable, Iterable, Mapping

from sandboxc.diagnostics import Diagnostic
from sandboxc.losses import Loss
from sandboxc.policy import ALLOW_ALL, Network
from sandboxc.records import Any, NamedTuple
from sandboxc.survey import Node

FORMAT_VERSION = 1
MAX_WORDS = 9000  # bwrap refuses more words than this, `--args` included

BIND, RO_BIND, TMPFS, DIR, SYMLINK, MASK, REMOUNT, PROC, DEV = (
    "bind",
    "ro-bind",
    "tmpfs",
    "dir",
    "symlink",
    "mask",
    "remount-ro",
    "proc",
    "dev",
)
#: What an operation is for, where that decides how it is treated.
PIN, VIEW, SOCKET, SOCKET_MASK, WORKSPACE = "pin", "view", "socket", "socket mask", "workspace"
HIDDEN_MODE, THROUGH_MODE, SHARED_MODE = "0000", "0111", "1777"


class Op(NamedTuple):
    """One mount operation; ``verb`` is one of the words above.

    ``path`` is where, absolute. ``mode`` is octal, of a tmpfs or directory. ``text`` is what a symlink holds.
    ``node`` identifies what a bind must find at ``path`` on the host. ``role`` is one of the words above, or empty.
    ``why`` names the layer, for people: it may be the policy's own text, so nothing may depend on it.
    """

    verb: str
    path: str
    mode: str = ""
    text: str = ""
    node: Node | None = None
    why: str = ""
    role: str = ""


class Occupied(NamedTuple):
    """A name to occupy for the run: ``file`` or ``directory``, and what a file holds."""

    path: str
    kind: str
    content: str = ""
    why: str = ""


class Step(NamedTuple):
    """A mount that is made after bwrap's own and before the command; ``runtime.mounts`` has the verbs."""

    verb: str
    path: str = ""
    node: Node | None = None

    def words(self) -> tuple[str | int, ...]:
        """Return the step as ``runtime.mounts`` takes it."""
        if not self.path:
            return (self.verb,)
        if self.node is None:
            return (self.verb, self.path)
        return (self.verb, self.path, self.node.dev, self.node.ino)


class BwrapPlan(NamedTuple):
    """Everything that one run needs.

    ``confines`` is False for ``danger-full-access``: nothing else in the plan counts then. ``ops`` are in the
    order in which they must happen, ``steps`` come after them. ``bounds`` are the places whose mounts must be
    found as planned before the command may start: path -> whether read-only. ``scope_abstract`` asks for the
    Landlock scope of abstract sockets around bwrap. ``losses`` are those that this world makes real;
    ``diagnostics`` say what else is wrong or worth knowing, errors included.
    """

    confines: bool
    network: Network
    ops: tuple[Op, ...] = ()
    steps: tuple[Step, ...] = ()
    occupants: tuple[Occupied, ...] = ()
    filtered: bool = True
    scope_abstract: bool = False
    cwd: str = ""
    disable_userns: bool = True
    losses: tuple[Loss, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()

    @property
    def bounds(self) -> Mapping[str, bool]:
        """Return each mount point that ``ops`` make and whether it is read-only in the end.

        Masks of sockets are not among them: they go when an outside process takes the socket away.
        """
        found: dict[str, bool] = {}
        for op in self.ops:
            if op.role == SOCKET_MASK:
                continue
            if op.verb in (BIND, TMPFS, DEV, PROC):
                found[op.path] = False
            elif op.verb in (RO_BIND, MASK, REMOUNT):
                found[op.path] = True
        return found


#: How a caller names the source of an operation: a list of words such as ["--bind-fd", "7"].
Source = Callable[[Op], list[str]]


def by_path(op: Op) -> list[str]:
    """Return the source words of an operation for a person or ``--args``: binds by path, which leaves a race open."""
    if op.verb == MASK:
        return ["--ro-bind-data", "${null-fd}"]
    return [f"--{op.verb}", op.path]


def setup_words(plan: BwrapPlan) -> list[list[str]]:
    """Return the options that are not mounts, in groups: namespaces, capabilities, session."""
    found = [[f"--unshare-{kind}"] for kind in ("user", "pid", "ipc", "uts", "cgroup")]
    if plan.network.mode != ALLOW_ALL:
        found.append(["--unshare-net"])
    found.append(["--cap-drop", "ALL"])
    if plan.disable_userns:
        found.append(["--disable-userns"])
    found.append(["--die-with-parent"])
    if not plan.filtered:
        found.append(["--new-session"])
    return found


def op_words(op: Op, source: Source) -> list[str]:
    """Return the words of one mount operation."""
    if op.verb in (BIND, RO_BIND):
        return [*source(op), op.path]
    if op.verb == MASK:
        return ["--perms", HIDDEN_MODE, *source(op), op.path]
    if op.verb == SYMLINK:
        return ["--symlink", op.text, op.path]
    words = [f"--{op.verb}", op.path]
    return ["--perms", op.mode, *words] if op.mode else words


def groups(plan: BwrapPlan, source: Source) -> list[list[str]]:
    """Return every option of a plan, in order, one group of words an option."""
    if not plan.confines:
        return [["--dev-bind", "/", "/"]]
    found = [*setup_words(plan), *(op_words(op, source) for op in plan.ops)]
    if plan.cwd:
        found.append(["--chdir", plan.cwd])
    return found


def count_words(plan: BwrapPlan) -> int:
    """Return how many words a run by descriptor takes, with those that the runner adds."""
    return sum(len(group) for group in groups(plan, by_path)) + RUNNER_WORDS


RUNNER_WORDS = 16  # --args, --seccomp, --sync-fd, --json-status-fd, --info-fd, --block-fd and their numbers, `--`


def render(data: Mapping[str, Any], lists: Iterable[str]) -> bytes:
    """Return JSON with one line for each item of the members that ``lists`` names, and one for each other member."""
    long = set(lists)
    lines: list[str] = []
    for key, value in data.items():
        if key in long and value:
            items = ",\n".join("    " + _compact(item) for item in value)
            lines.append(f"  {_compact(key)}: [\n{items}\n  ]")
        else:
            lines.append(f"  {_compact(key)}: {_compact(value)}")
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode("utf-8", "surrogateescape")


def _compact(value: Any) -> str:
    import json

    return json.dumps(value, ensure_ascii=False, separators=(", ", ": "))

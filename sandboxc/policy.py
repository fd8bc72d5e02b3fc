"""The policy as written: typed, symbolic, and every value knows where it stands.

A front end produces these values and nothing downstream can tell which front end it was. Path texts stay
texts here, because what they mean depends on the path flavour of a target.
"""

from sandboxc.records import NamedTuple
from sandboxc.source import Span

READ_ONLY = "read-only"
WORKSPACE_WRITE = "workspace-write"
DANGER_FULL_ACCESS = "danger-full-access"
MODES = (READ_ONLY, WORKSPACE_WRITE, DANGER_FULL_ACCESS)

DENY = "deny"
READ = "read"
WRITE = "write"
ACCESSES = (DENY, READ, WRITE)

CONNECT = "connect"
BIND = "bind"
SOCKET_ACCESSES = (DENY, CONNECT, BIND)

LOOPBACK = "loopback"
ALLOW_ALL = "allow-all"
NETWORK_MODES = (DENY, LOOPBACK, ALLOW_ALL)

TARGETS = ("seatbelt", "bwrap", "landlock", "windows")
OSES = ("linux", "macos", "windows")
TARGET_OS = {"seatbelt": "macos", "bwrap": "linux", "landlock": "linux", "windows": "windows"}

ABSENT_CHOICES = ("placeholder", "report", "create")
WITHIN_CHOICES = ("writable", "everywhere")
OPERATIONS = (
    "read", "list", "stat", "write", "create", "delete", "rename", "link", "chmod", "execute", "connect", "bind",
)  # fmt: skip
MACOS_BASES = ("closed", "open")
WINDOWS_READS = ("standard", "strict")
REQUIRE_CHOICES = ("partial", "full")


class Word(NamedTuple):
    """A text of the policy and where it stands."""

    value: str
    span: Span


class When(NamedTuple):
    """The condition under which an entry holds: the operating systems of the target."""

    os: tuple[str, ...]
    span: Span

    def holds(self, os: str) -> bool:
        """Return whether the condition holds for a target of this operating system."""
        return os in self.os


class Entry(NamedTuple):
    """One line of ``entries:``: a literal path, a glob or a socket, and an access.

    ``kind`` is ``path``, ``glob`` or ``socket``. ``span`` covers the whole line (the mapping).
    """

    kind: str
    text: Word
    access: Word
    span: Span
    within: str = ""
    excepts: tuple[Word, ...] = ()
    reason: str = ""
    locked: bool = False
    overridable: bool = False
    absent: str = ""
    when: When | None = None


class Parameter(NamedTuple):
    """A parameter that the policy declares; its value is a path."""

    name: str
    span: Span
    default: Word | None = None
    description: str = ""


class PresetChoice(NamedTuple):
    """The ``protected:`` or ``hidden:`` choice: a preset, and names added to or removed from it."""

    preset: str
    span: Span | None = None
    add: tuple[Word, ...] = ()
    remove: tuple[Word, ...] = ()
    reason: str = ""


class Network(NamedTuple):
    """The network mode and the host loopback ports that may be reached."""

    mode: str = DENY
    ports: tuple[int, ...] = ()
    span: Span | None = None


class Waiver(NamedTuple):
    """A line that accepts one loss on one target at one place."""

    loss: str
    target: str
    at: Word
    reason: str
    span: Span


class Expectation(NamedTuple):
    """A line of ``tests:``: an operation, where, and whether it must be allowed."""

    op: str
    path: Word
    expect: str
    span: Span
    to: Word | None = None


class Policy(NamedTuple):
    """A whole policy file.

    ``temp`` is None, ``"private"`` or a tuple of path texts. ``digest`` is the SHA-256 of the source text.
    """

    file: str
    digest: str
    span: Span
    mode: Word
    name: str = ""
    description: str = ""
    baseline: Word | None = None
    workspace: Word | None = None
    temp: str | tuple[Word, ...] | None = None
    network: Network = Network()
    hidden: PresetChoice = PresetChoice("standard")
    protected: PresetChoice = PresetChoice("standard")
    system: Word | None = None
    parameters: tuple[Parameter, ...] = ()
    entries: tuple[Entry, ...] = ()
    waivers: tuple[Waiver, ...] = ()
    tests: tuple[Expectation, ...] = ()
    targets: tuple[str, ...] = TARGETS
    relative_to: Word | None = None
    require: str = "partial"
    macos_base: Word | None = None
    macos_services: tuple[Word, ...] = ()
    windows_reads: Word | None = None
    overridable: tuple[Word, ...] = ()

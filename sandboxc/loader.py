"""The one place that reads policy files; everything behind it works on texts.

Nothing here looks at what a policy means. A file is read once, up to a size limit, and only when it is a
regular file, so that a fifo or a device cannot hold up or flood a compile.
"""

import os
import stat
import sys
from hashlib import sha256

from sandboxc.diagnostics import Diagnostic, error
from sandboxc.frontend.yaml_nodes import MAX_BYTES
from sandboxc.policy import Policy
from sandboxc.records import BinaryIO, NamedTuple
from sandboxc.source import SourceFile, Span

STDIN_NAME = "<stdin>"
#: Codes that mean "could not run" (exit 2) and not "the policy is wrong" (exit 1).
IO_CODES = frozenset({"SBX116", "SBX117"})


class Loaded(NamedTuple):
    """A source text with the SHA-256 of its bytes, or the reasons why there is none."""

    source: SourceFile | None
    digest: str
    diagnostics: tuple[Diagnostic, ...]


class LoadedPolicy(NamedTuple):
    """A decoded policy, or None, with every diagnostic and the source texts that spans point into."""

    policy: Policy | None
    diagnostics: tuple[Diagnostic, ...]
    sources: tuple[SourceFile, ...]


def load(path: str, stdin: BinaryIO | None = None) -> LoadedPolicy:
    """Return the policy that a file holds (``-`` is standard input), or every reason why there is none."""
    source, digest, diagnostics = read_source(path, stdin)
    return _decoded(source, digest, diagnostics)


def load_bytes(name: str, data: bytes) -> LoadedPolicy:
    """Return the policy that these bytes hold, as if they were read from a file of this name."""
    source, digest, diagnostics = source_of_bytes(name, data)
    return _decoded(source, digest, diagnostics)


def _decoded(source: SourceFile | None, digest: str, diagnostics: tuple[Diagnostic, ...]) -> LoadedPolicy:
    if source is None or diagnostics:
        return LoadedPolicy(None, diagnostics, (source,) if source else ())
    from sandboxc.frontend.decode import decode

    policy, found = decode(source, digest)
    return LoadedPolicy(policy, found, (source,))


def read_source(path: str, stdin: BinaryIO | None = None) -> Loaded:
    """Return the text of a policy file; ``-`` reads standard input (``stdin`` if given)."""
    name = STDIN_NAME if path == "-" else path.replace("\\", "/")
    try:
        if path == "-":
            data = (stdin or sys.stdin.buffer).read(MAX_BYTES + 1)
        else:
            found = _read_regular(path)
            if isinstance(found, str):
                return Loaded(None, "", (error("SBX116", f"`{name}` is {found}", None, "name a policy file"),))
            data = found
    except FileNotFoundError:
        return Loaded(None, "", (error("SBX117", f"`{name}` does not exist", None, "check the path"),))
    except (OSError, ValueError) as problem:
        reason = (getattr(problem, "strerror", None) or str(problem)).lower()
        return Loaded(None, "", (error("SBX117", f"`{name}` cannot be read: {reason}"),))
    return source_of_bytes(name, data)


def _read_regular(path: str) -> bytes | str:
    """Return the first bytes of a regular file, or what kind of thing the path is instead."""
    # O_NONBLOCK: opening a fifo without a writer would otherwise wait for ever.
    flags = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    if not stat.S_ISREG(kind := os.stat(path).st_mode):
        return _kind(kind)
    descriptor = os.open(path, flags)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(kind := os.fstat(descriptor).st_mode):
            return _kind(kind)
        return file.read(MAX_BYTES + 1)


def _kind(mode: int) -> str:
    names = (
        (stat.S_ISDIR, "a directory"),
        (stat.S_ISFIFO, "a fifo"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISCHR, "a device"),
        (stat.S_ISBLK, "a device"),
    )
    return next((name for test, name in names if test(mode)), "not a regular file")


def source_of_bytes(name: str, data: bytes) -> Loaded:
    """Return the text of these bytes: at most 1 MiB of UTF-8; a leading byte order mark is dropped."""
    start = Span(name, 1, 1, 1, 1)
    if len(data) > MAX_BYTES:
        return Loaded(None, "", (error("SBX106", "the document is larger than 1 MiB", start, "split the policy"),))
    digest = sha256(data).hexdigest()
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as problem:
        good = data[: problem.start].decode("utf-8")
        line = good.count("\n") + 1
        column = len(good) - (good.rfind("\n") + 1) + 1
        span = Span(name, line, column, line, column + 1)
        marks = (b"\xff\xfe", b"\xfe\xff")
        advice = "save it as UTF-8, it looks like UTF-16" if data[:2] in marks else "save it as UTF-8"
        message = f"byte {problem.start} (0x{data[problem.start]:02x}) is not UTF-8"
        source = SourceFile(name, data.decode("utf-8", "replace"))
        return Loaded(source, digest, (error("SBX112", message, span, advice),))
    return Loaded(SourceFile(name, text.removeprefix("\ufeff")), digest, ())

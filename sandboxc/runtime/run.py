"""``sandboxc run``: load, bind, survey, choose a backend, run, report.

Everything that goes wrong before the command starts ends with exit code 125; the command has not run then.
"""

import os
import sys
from collections.abc import Iterable, Mapping, Sequence

from sandboxc._version import REPORT_FORMAT
from sandboxc.diagnostics import Diagnostic, PolicyError, error
from sandboxc.exits import NOT_STARTED
from sandboxc.losses import Loss, enforcement
from sandboxc.policy import DANGER_FULL_ACCESS
from sandboxc.records import NamedTuple
from sandboxc.runtime.backends import BACKENDS, Backend, Ended, Refused, Stale, Unusable, check
from sandboxc.runtime.session import Session, prepare
from sandboxc.runtime.subject import Subject, from_policy, from_profile
from sandboxc.source import SourceFile

CHAIN = ("bwrap", "landlock")
TRIES = 4  # surveys, where something keeps changing what the last one saw
_REMEDY = "install bubblewrap with --bind-fd, allow unprivileged user namespaces, or use a kernel with Landlock"


class _Stop(Exception):
    """The run ends before its command; the diagnostics say why."""

    def __init__(self, diagnostics: Iterable[Diagnostic], sources: tuple[SourceFile, ...] = ()) -> None:
        self.diagnostics = tuple(diagnostics)
        self.sources = sources
        super().__init__()


class _Request(NamedTuple):
    source: str
    command: list[str]
    binds: dict[str, str]
    target: str
    cwd: str
    dry_run: bool


class _Result(NamedTuple):
    ended: Ended
    backend: Backend | None = None
    session: Session | None = None
    losses: tuple[Loss, ...] = ()


def run_command(
    source: str,
    command: list[str],
    binds: dict[str, str],
    target: str,
    cwd: str | None,
    dry_run: bool,
    report: str | None,
) -> int:
    """Run a command under a policy file or a profile directory and return the exit code to pass on.

    Args:
        source: a policy file, ``-`` for one on standard input, or a profile directory.
        command: the program and its arguments.
        binds: parameter values.
        target: ``auto``, ``bwrap`` or ``landlock``.
        cwd: the directory to run in; None is the current one.
        dry_run: print what would be spawned and stop.
        report: a file for the JSON record.
    """
    tried: list[tuple[str, str]] = []
    record = -1
    try:
        if report is not None:
            record = _open_record(report, (os.getcwd(), cwd, binds.get("workspace")))
        request = _Request(source, command, binds, target, _directory(cwd), dry_run)
        subject = _load(source)
        result = _run(request, subject, dict(os.environ), tried)
    except _Stop as stop:
        _complain(stop.diagnostics, stop.sources)
        if record >= 0:
            _write_record(record, report, _failed_record(source, command, stop.diagnostics, tried))
        return NOT_STARTED
    if result.ended.message:
        sys.stderr.write(f"sandboxc: {result.ended.message}\n")
    for path, reason in result.ended.left:
        sys.stderr.write(f"sandboxc: `{path}` is left: {reason}\n")
    if record >= 0:
        _write_record(record, report, _record(request, subject, result, tried))
    return result.ended.code


def _directory(cwd: str | None) -> str:
    try:
        here = os.path.realpath(cwd or os.getcwd(), strict=True)
        if not os.path.isdir(here):
            raise NotADirectoryError(20, "not a directory")
    except OSError as fault:
        raise _Stop([error("SBX725", f"cannot run in `{cwd or '.'}`: {(fault.strerror or '').lower()}")]) from None
    return here


def _load(source: str) -> Subject:
    try:
        if os.path.isdir(source):
            return from_profile(source)
    except PolicyError as fault:
        raise _Stop(fault.diagnostics) from None
    subject, problems, sources = from_policy(source)
    if subject is None:
        raise _Stop(problems, sources)
    return subject


def _run(request: _Request, subject: Subject, environ: dict[str, str], tried: list[tuple[str, str]]) -> _Result:
    if subject.stack.mode == DANGER_FULL_ACCESS:
        return _unconfined(request, environ)
    chain = _chain(request, subject)
    for target in chain:
        reason = ""
        for _ in range(TRIES):
            try:
                return _attempt(request, subject, environ, target)
            except Stale as change:
                reason = f"the file system kept changing: {change}"
            except Unusable as fault:
                reason = str(fault)
                break
            except Refused as fault:
                if len(chain) == 1:
                    raise _Stop(fault.diagnostics) from None
                reason = "; ".join(f"{item.code}: {item.message}" for item in fault.diagnostics)
                break
        tried.append((target, reason))
    lines = "; ".join(f"{target}: {reason}" for target, reason in tried)
    raise _Stop(
        [error("SBX726", f"SANDBOX_UNAVAILABLE: no backend can hold this policy here ({lines})", None, _REMEDY)]
    )


def _chain(request: _Request, subject: Subject) -> tuple[str, ...]:
    wanted = CHAIN if request.target == "auto" else (request.target,)
    found = tuple(target for target in wanted if target in subject.targets)
    if not found:
        known = ", ".join(subject.targets) or "none"
        raise _Stop(
            [error("SBX724", f"`{request.source}` is not for {' or '.join(wanted)}", None, f"it is for: {known}")]
        )
    return found


def _attempt(request: _Request, subject: Subject, environ: dict[str, str], target: str) -> _Result:
    session = _prepared(request, subject, environ)
    backend: Backend = BACKENDS[target](session, environ)
    losses = check(backend, session)
    if request.dry_run:
        sys.stdout.write("".join(word + "\n" for word in backend.words(request.command)))
        return _Result(Ended(0, False), backend, session, losses)
    return _Result(backend.run(request.command, _environment(environ, session)), backend, session, losses)


def _prepared(request: _Request, subject: Subject, environ: dict[str, str]) -> Session:
    from sandboxc.runtime.create import make_missing

    name = "r" + os.urandom(6).hex()
    try:
        session = prepare(subject, request.binds, environ, request.cwd, name)
        if not request.dry_run and make_missing(session.resolved):
            session = prepare(subject, request.binds, environ, request.cwd, name)
    except PolicyError as fault:
        raise _Stop(fault.diagnostics) from None
    except OSError as fault:
        raise _Stop([error("SBX727", f"cannot make `{fault.filename}`: {(fault.strerror or '').lower()}")]) from None
    return session


def _environment(environ: Mapping[str, str], session: Session) -> dict[str, str]:
    found = dict(environ)
    if session.temp:
        found |= {"TMPDIR": session.temp, "TMP": session.temp, "TEMP": session.temp}
    found["PWD"] = session.cwd
    return found


def _unconfined(request: _Request, environ: dict[str, str]) -> _Result:
    """Become the command, as a policy that asks for no confinement wants it."""
    sys.stderr.write("sandboxc: mode danger-full-access: the command runs without any confinement\n")
    if request.dry_run:
        sys.stdout.write("".join(word + "\n" for word in request.command))
        return _Result(Ended(0, False))
    try:
        os.chdir(request.cwd)
        os.execvpe(request.command[0], request.command, environ)
    except FileNotFoundError:
        return _Result(Ended(127, False, f"`{request.command[0]}` is not found"))
    except OSError as fault:
        return _Result(Ended(126, False, f"`{request.command[0]}` cannot be executed: {fault.strerror}"))


# -- what is said ---------------------------------------------------------------------------------------------


def _complain(diagnostics: Sequence[Diagnostic], sources: tuple[SourceFile, ...]) -> None:
    from sandboxc.console import report

    report(diagnostics, sources)


def _open_record(path: str, roots: Sequence[str | None]) -> int:
    """Return a descriptor of the record's file; below ``roots``, where an earlier run may have put links, without
    following any. What an existing file holds stays until the record is written."""
    from sandboxc.runtime import linux

    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    whole = os.path.normpath(os.path.join(os.getcwd(), path))
    try:
        if not any(root and (whole + "/").startswith(os.path.realpath(root).rstrip("/") + "/") for root in roots):
            return os.open(path, flags, 0o600)
        parent = linux.open_no_follow(os.path.dirname(whole), os.O_RDONLY | os.O_DIRECTORY)
        try:
            return os.open(os.path.basename(whole), flags, 0o600, dir_fd=parent)
        finally:
            os.close(parent)
    except OSError as fault:
        raise _Stop([error("SBX728", f"cannot write `{path}`: {(fault.strerror or '').lower()}")]) from None


def _write_record(descriptor: int, path: str | None, record: Mapping[str, object]) -> None:
    """Write the record; that it cannot be written does not change what became of the command."""
    import json
    import stat

    try:
        found = os.fstat(descriptor)
        if stat.S_ISREG(found.st_mode):
            os.ftruncate(descriptor, 0)  # the command may have written there
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
            json.dump(record, file, indent=2)
            file.write("\n")
        if path is None or not os.path.samestat(found, os.lstat(path)):
            sys.stderr.write(f"sandboxc: `{path}` is not the record: it was replaced during the run\n")
    except OSError as fault:
        sys.stderr.write(f"sandboxc: the record could not be written: {(fault.strerror or '').lower()}\n")


def _record(
    request: _Request, subject: Subject, result: _Result, tried: Sequence[tuple[str, str]]
) -> dict[str, object]:
    ended, backend, session = result.ended, result.backend, result.session
    applied: dict[str, object] = {"target": None, "enforcement": "none"}
    if backend is not None and session is not None:
        applied = {
            "target": backend.target,
            "enforcement": "partial" if session.resolved.incomplete else enforcement(result.losses),
            "network": session.resolved.network.mode,
            "values": dict(sorted(session.values.items())),
            "temp": session.temp or None,
            "losses": [_loss(loss) for loss in result.losses if not loss.standing],
            "limits": [_loss(loss) for loss in result.losses if loss.standing],
            "incomplete": list(session.resolved.incomplete),
            "notes": [f"{item.code}: {item.message}" for item in session.diagnostics],
            **backend.applied(),
        }
    return {
        "format_version": REPORT_FORMAT,
        "asked": {
            "source": request.source,
            "policy": subject.name,
            "sha256": subject.digest,
            "target": request.target,
            "binds": request.binds,
            "cwd": request.cwd,
            "command": request.command,
        },
        "applied": applied,
        "tried": [{"target": target, "reason": reason} for target, reason in tried],
        "confirmed": {
            "started": ended.started,
            "exit_code": ended.code,
            "message": ended.message or None,
            "left": [{"path": path, "reason": reason} for path, reason in ended.left],
        },
    }


def _failed_record(
    source: str, command: Sequence[str], diagnostics: Sequence[Diagnostic], tried: Sequence[tuple[str, str]]
) -> dict[str, object]:
    return {
        "format_version": REPORT_FORMAT,
        "asked": {"source": source, "command": list(command)},
        "applied": {"target": None, "enforcement": "none"},
        "tried": [{"target": target, "reason": reason} for target, reason in tried],
        "confirmed": {
            "started": False,
            "exit_code": NOT_STARTED,
            "message": "; ".join(f"{item.code}: {item.message}" for item in diagnostics),
            "left": [],
        },
    }


def _loss(loss: Loss) -> dict[str, object]:
    return {
        "code": loss.code,
        "kind": loss.kind,
        "at": loss.at,
        "message": loss.message,
        "preset": loss.preset,
        "waived": loss.waived or None,
    }

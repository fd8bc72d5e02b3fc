"""A scratch world of one user, and a way to run programs in it under bubblewrap by policy text."""

import contextlib
import json
import os
import re
import shutil
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sandboxc.emitters.artefact import Options
from sandboxc.emitters.bwrap import Host, finalise
from sandboxc.emitters.bwrap.plan import BwrapPlan
from sandboxc.facts import Facts
from sandboxc.layers import Index, Layers, bind
from sandboxc.loader import load_bytes
from sandboxc.lower import lower
from sandboxc.places import posix
from sandboxc.survey import Resolved, resolve

if sys.platform == "linux":
    from sandboxc.runtime import linux
    from sandboxc.runtime.bwrap import Outcome, run_bwrap
    from sandboxc.runtime.bwrap_runner import Runner, RunnerError, find_runner, probe, proc_covers
    from sandboxc.runtime.unoccupied import UnoccupiedLook, standing

    linux.load()  # a child that has become an ordinary user may not be able to read this interpreter's library

SEARCH = "/usr/bin:/bin:/usr/local/bin"
PYTHON = "/usr/bin/python3"
BWRAP = shutil.which("bwrap", path=SEARCH) if sys.platform == "linux" else None
USERS = [0, 1000] if hasattr(os, "geteuid") and os.geteuid() == 0 else [None]
ABI = linux.landlock_abi() if sys.platform == "linux" else 0

#: Tries what it is told and says what happened: "ok", or the name of the errno.
PROBE = r"""
import errno, json, os, socket, subprocess, sys
def attempt(op, path, *more):
    if op == "read":
        with open(path, "rb") as f: f.read(1)
    elif op == "list": os.listdir(path)
    elif op == "stat": os.lstat(path)
    elif op == "write": os.close(os.open(path, os.O_WRONLY | os.O_APPEND))
    elif op == "truncate": os.truncate(path, 0)
    elif op == "create":
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)); os.unlink(path)
    elif op == "plant":
        with open(path, "w") as f: f.write("planted")
    elif op == "mkdir": os.mkdir(path); os.rmdir(path)
    elif op == "rename":
        aside = os.path.join(os.path.dirname(path), "moved.tmp")
        os.rename(path, aside); os.rename(aside, path)
    elif op == "move": os.rename(path, more[0])
    elif op == "delete":
        os.rmdir(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)
    elif op == "chmod": os.chmod(path, os.lstat(path).st_mode & 0o7777 | 0o100)
    elif op == "link": os.link(path, more[0]); os.unlink(more[0])
    elif op == "symlink": os.symlink(more[0], path)
    elif op == "execute": subprocess.run([path], check=True, stdout=subprocess.DEVNULL)
    elif op == "connect":
        with socket.socket(socket.AF_UNIX) as s: s.settimeout(2); s.connect(path)
    elif op == "bind":
        with socket.socket(socket.AF_UNIX) as s, socket.socket(socket.AF_UNIX) as c:
            s.bind(path); s.listen(); c.connect(path)
        os.unlink(path)
    else: raise SystemExit(op)
out = []
for item in json.loads(sys.stdin.read() if sys.argv[1] == "-" else sys.argv[1]):
    try: attempt(*item); out.append("ok")
    except OSError as e: out.append(errno.errorcode.get(e.errno, str(e)))
    except subprocess.CalledProcessError as e: out.append("code %d" % e.returncode)
print(json.dumps(out))
"""


class Result(NamedTuple):
    """What a run gave: the outcome, and what the command wrote to standard output and error."""

    code: int
    started: bool
    stage: str
    message: str
    out: str
    err: str
    occupied: list[str]
    left: list[Any]
    losses: list[list[str]]


class Lab:
    """One user's scratch directory: ``w`` is the workspace, ``home`` the home, both below ``base``."""

    def __init__(self, base: Path, uid: int | None) -> None:
        self.uid = uid
        self.base = base
        self.w = base / "w"
        self.home = base / "home"
        self.state = base / "state"
        self.runs = base / "runs"
        self.temp = ""
        self.late = 48
        self.before: Callable[[BwrapPlan], None] | None = None  # called between plan and run
        for path in (self.w, self.home):
            path.mkdir()
        for path in (self.state, self.runs):
            path.mkdir(mode=0o700)
        self.own()

    def own(self) -> None:
        """Give everything in the world to its user."""
        if self.uid:
            for path in (self.base, *self.base.rglob("*")):
                os.chown(path, self.uid, self.uid, follow_symlinks=False)

    def make(self, *names: str) -> None:
        """Make files (with their own name as content), directories (``d/``), programs (``x!``), links (``a->b``)."""
        for name in names:
            name, arrow, target = name.partition("->")
            path = self.base / name.rstrip("/!")
            path.parent.mkdir(parents=True, exist_ok=True)
            if arrow:
                path.symlink_to(target)
            elif name.endswith("/"):
                path.mkdir(parents=True, exist_ok=True)
            elif name.endswith("!"):
                path.write_text("#!/bin/sh\nexit 0\n")
                path.chmod(0o755)
            else:
                path.write_text(name + "\n")
        self.own()

    def at(self, name: str) -> str:
        """Return the absolute path of a name in the world."""
        return str(self.base / name)

    def values(self) -> dict[str, str]:
        """Return the values of the parameters."""
        return {
            "workspace": str(self.w),
            "home": str(self.home),
            "tmp": self.at("tmp"),
            "user-config": self.at("home/.config"),
            "user-cache": self.at("home/.cache"),
            "run-base": str(self.runs),
            "run-tmp": self.at("runs/r00000000000a"),
        }

    def stack(self, policy: str) -> Layers:
        """Return the bound layers of a policy text; ``B`` stands for the base directory."""
        text = "sandboxc: 1\ntargets: [bwrap]\n" + re.sub(r"\bB/", f"{self.base}/", policy)
        loaded = load_bytes("policy.yaml", text.encode())
        assert loaded.policy is not None, loaded.diagnostics
        result = lower(loaded.policy, "linux")
        assert result.value is not None, result.diagnostics
        return bind(result.value.layers, {name: posix(path) for name, path in self.values().items()})

    def survey(self, stack: Layers) -> Resolved:
        """Return the survey of this moment."""
        return resolve(stack, UnoccupiedLook(standing(str(self.state)).occupied), str(self.home))

    def as_user(self, act: Callable[[], Any], **streams: int) -> Any:
        """Return what ``act`` returns, as JSON sees it, from a forked child of the world's user."""
        read_end, write_end = os.pipe()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                os.setsid()
                for number, fd in streams.items():
                    os.dup2(fd, {"stdin": 0, "stdout": 1, "stderr": 2}[number])
                if self.uid:
                    os.setgroups([])
                    os.setresgid(self.uid, self.uid, self.uid)
                    os.setresuid(self.uid, self.uid, self.uid)
                os.write(write_end, json.dumps(act()).encode())
                code = 0
            except BaseException:
                os.write(write_end, json.dumps({"raised": traceback.format_exc()}).encode())
            finally:
                os._exit(code)
        os.close(write_end)
        with os.fdopen(read_end, "rb") as pipe:
            answer = pipe.read()
        os.waitpid(pid, 0)
        found = json.loads(answer) if answer else {"raised": "no answer"}
        if isinstance(found, dict) and "raised" in found:
            raise AssertionError(found["raised"])
        return found

    def run(
        self,
        policy: str | Layers,
        command: Sequence[str],
        *,
        stdin: bytes = b"",
        cwd: str = "",
        env: Mapping[str, str] | None = None,
    ) -> Result:
        """Run a command under a policy as the world's user."""
        stack = self.stack(policy) if isinstance(policy, str) else policy
        out, err, given = (os.memfd_create(name) for name in ("out", "err", "in"))
        os.write(given, stdin)
        os.lseek(given, 0, os.SEEK_SET)

        def once() -> "tuple[Outcome, BwrapPlan]":
            resolved = self.survey(stack)
            assert not [d for d in resolved.diagnostics if d.is_error], resolved.diagnostics
            facts = Facts(landlock_abi=ABI, arch=os.uname().machine)
            plan = finalise(
                resolved, facts, Options(), Host(cwd or str(self.w), late_from=self.late, covers=proc_covers())
            )
            assert not [d for d in plan.diagnostics if d.is_error], plan.diagnostics
            if self.before is not None:
                self.before(plan)
            return run_bwrap(
                runner(resolved.access),
                plan,
                command,
                env={"PATH": SEARCH, "LC_ALL": "C", **(env or {})},
                state_dir=str(self.state),
                temp=self.temp,
            ), plan

        def act() -> Any:
            for _ in range(4):  # elsewhere on a busy machine sockets come and go
                outcome, plan = once()
                if outcome.stage != "stale" or self.before is not None:
                    break
            return [*_plain(outcome), [[loss.code, loss.at] for loss in plan.losses]]

        try:
            code, started, stage, message, occupied, left, losses = self.as_user(
                act, stdin=given, stdout=out, stderr=err
            )
            texts = [os.pread(fd, 1 << 20, 0).decode("utf-8", "replace") for fd in (out, err)]
        finally:
            for fd in (out, err, given):
                os.close(fd)
        return Result(code, started, stage, message, *texts, occupied, left, losses)

    def tries(self, policy: str | Layers, *attempts: tuple[str, ...], cwd: str = "") -> list[str]:
        """Return what each attempt came to inside: ``ok`` or the name of an errno."""
        result = self.run(policy, [PYTHON, "-c", PROBE, "-"], stdin=json.dumps(attempts).encode(), cwd=cwd)
        assert result.started and result.code == 0, result
        found: list[str] = json.loads(result.out)
        return found


def _plain(outcome: "Outcome") -> list[Any]:
    return [
        outcome.code,
        outcome.started,
        outcome.stage,
        outcome.message,
        list(outcome.occupied),
        list(outcome.left),
    ]


def runner(access: Callable[[str], str]) -> "Runner":
    """Return the runner of this host."""
    return find_runner(SEARCH, access, os.geteuid())


def usable() -> bool:
    """Return whether bubblewrap works here at all."""
    if not BWRAP:
        return False
    with contextlib.suppress(RunnerError):
        return probe(runner(lambda path: "read")).usable
    return False


def wait_for(path: str, seconds: float = 10.0) -> None:
    """Return when a path exists; fail when it does not come."""
    end = time.monotonic() + seconds
    while not os.path.lexists(path):
        assert time.monotonic() < end, path
        time.sleep(0.01)


def children(pid: int) -> list[int]:
    """Return the children of a process."""
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(word) for word in file.read().split()]


class Verdicts:
    """What the layers say of operations on the nodes of a world."""

    def __init__(self, stack: Layers, nodes: Sequence[str], above: str) -> None:
        self._index = Index(stack)
        self._above = above  # a directory that every writable root of the test lies below
        self._access = {path: self._index.access(posix(path)) for path in nodes}

    def access(self, path: str) -> str:
        return self._index.access(posix(path))

    def holds_stricter(self, path: str) -> bool:
        """Return whether something below a directory is stricter than its surroundings (design rule 7)."""
        rank = {"deny": 0, "read": 1, "write": 2}
        for other, access in self._access.items():
            inside = other.startswith(path + "/")
            if inside and rank[access] < rank[self.access(os.path.dirname(other))]:
                return True
        return False

    def expected(self, op: str, path: str) -> bool:
        """Return whether an operation of PROBE on an existing node must succeed."""
        access = self.access(path)
        if op in ("read", "list", "execute"):
            return access != "deny"
        if op in ("create", "mkdir", "write", "chmod"):
            return access == "write"
        if op == "rename":
            both = access == "write" and self.access(os.path.dirname(path)) == "write"
            return both and not self.holds_stricter(path)
        raise ValueError(op)

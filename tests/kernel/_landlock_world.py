"""Scratch worlds for Landlock: made for one user, planned for, and entered confined."""

import json
import os
import shutil
import socket
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from sandboxc import loader
from sandboxc.emitters import landlock
from sandboxc.emitters.artefact import Options
from sandboxc.facts import Facts
from sandboxc.layers import bind
from sandboxc.lower import lower
from sandboxc.places import posix
from sandboxc.runtime import landlock as runner
from sandboxc.runtime import landlock_exec, linux
from sandboxc.runtime.hostlook import HostLook
from sandboxc.survey import Resolved, resolve

PROBE = runner.probe() if sys.platform == "linux" else None
USABLE = PROBE is not None and PROBE.usable

HEAD = "sandboxc: 1\nname: t\ntargets: [landlock]\nmode: workspace-write\nhidden: {preset: none, reason: t}\n"
BARE = HEAD + "protected: {preset: none, reason: t}\n"
WAIVED = HEAD + 'waive:\n  - {loss: SBX453, target: landlock, at: "${workspace}", reason: t}\n'
GLOBS = 'waive:\n  - {loss: SBX456, target: landlock, at: "**/.env", reason: t}\n'
ABI = min(PROBE.abi, 11) if PROBE else 0

ORDINARY = 1000
USERS = [0, ORDINARY] if os.getuid() == 0 else [os.getuid()]

DIRECTORIES = (
    "w",
    "w/a",
    "w/a/deep",
    "w/a/deep/er",
    "w/b",
    "w/b/c",
    "w/.git",
    "w/.git/hooks",
    "w/.git/objects",
    "o",
    "o/d",
    "o/d/e",
    "o/d/e/g",
    "o/rw",
)


class World(NamedTuple):
    """A scratch tree that a user owns: a file of each kind in every directory, and a live socket in some."""

    root: str
    uid: int

    def path(self, name: str) -> str:
        """Return the absolute path of a name in the world."""
        return f"{self.root}/{name}"


def write(path: str, data: bytes = b"data\n", mode: int = 0o644) -> None:
    with open(path, "wb") as file:
        file.write(data)
    os.chmod(path, mode)


@pytest.fixture(name="world", params=USERS, ids=lambda uid: f"uid{uid}")
def landlock_world(request: pytest.FixtureRequest) -> Iterator[World]:
    """A world for each user that this host lets tests be."""
    root = os.path.realpath(tempfile.mkdtemp(prefix="sbxll", dir="/var/tmp"))
    listeners = []
    try:
        for name in DIRECTORIES:
            base = f"{root}/{name}"
            os.makedirs(base, exist_ok=True)
            for file in ("f", "delete", "rename", "truncate", ".env"):
                write(f"{base}/{file}")
            os.mkdir(f"{base}/rmdir")
            shutil.copy("/bin/true", f"{base}/x")
        for name in ("w/s", "o/s"):
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(f"{root}/{name}")
            listener.listen(1)
            listeners.append(listener)
        for base, directories, files in os.walk(root):
            for name in (".", *directories, *files):
                os.chown(f"{base}/{name}", request.param, request.param, follow_symlinks=False)
        os.chmod(root, 0o755)
        yield World(root, request.param)
    finally:
        for listener in listeners:
            listener.close()
        shutil.rmtree(root, ignore_errors=True)


def planned(world: World, text: str, abi: int = ABI) -> tuple[landlock.LandlockPlan, Resolved]:
    """Return the plan of a policy text on a world (paths in the text that start with `@/` are the world's)."""
    loaded = loader.load_bytes("policy.yaml", text.replace("@/", world.root + "/").encode())
    assert loaded.policy is not None, loaded.diagnostics
    lowered = lower(loaded.policy, "linux").value
    assert lowered is not None
    values = {
        "workspace": world.path("w"),
        "home": world.path("o"),
        "tmp": world.path("o"),
        "user-config": world.path("o/.config"),
        "user-cache": world.path("o/.cache"),
        "run-base": world.path("base"),
        "run-tmp": world.path("base/1"),
    }
    stack = bind(lowered.layers, {name: posix(path) for name, path in values.items()})
    look = HostLook()
    resolved = resolve(stack, look, values["home"])
    options = Options("t", "", waivers=loaded.policy.waivers)
    return landlock.finalise(resolved, look, Facts(landlock_abi=abi), options), resolved


def as_user(world: World, job: Callable[[], Any]) -> Any:
    """Return what ``job`` returns in a forked child that belongs to the world's user."""
    linux.load()
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.close(read_end)
            if world.uid != os.getuid():
                os.setgroups([])
                os.setresgid(world.uid, world.uid, world.uid)
                os.setresuid(world.uid, world.uid, world.uid)
            try:
                answer: Any = {"answer": job()}
            except BaseException as fault:
                answer = {"fault": f"{type(fault).__name__}: {fault}"}
            os.write(write_end, json.dumps(answer).encode())
            code = 0
        finally:
            os._exit(code)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        data = pipe.read()
    os.waitpid(pid, 0)
    answer = json.loads(data)
    assert "answer" in answer, answer
    return answer["answer"]


def inside(world: World, text: str, job: Callable[[], Any], keep: tuple[int, ...] = ()) -> Any:
    """Return what ``job`` returns in a child of the world's user that is confined by a policy text."""

    def confined() -> Any:
        plan, _ = planned(world, text)
        assert not plan.diagnostics
        landlock_exec.apply(plan.ruleset(), plan.seccomp(runner.machine()), keep_fds=(*keep, *pipes()))
        return job()

    return as_user(world, confined)


def pipes() -> list[int]:
    """Return the descriptors that are pipes: the one that the answer goes through among them."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            if stat.S_ISFIFO(os.fstat(int(name)).st_mode):
                found.append(int(name))
        except OSError:
            continue
    return found


def attempt(operation: Callable[[], Any]) -> str:
    """Return `ok`, or the name of the error that an operation ends in."""
    try:
        operation()
    except OSError as fault:
        import errno

        return errno.errorcode.get(fault.errno or 0, str(fault.errno))
    return "ok"


def spawn(path: str) -> None:
    pid = os.posix_spawn(path, [path], {})
    if os.waitpid(pid, 0)[1]:
        raise OSError(13, "refused")


def connect(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as end:
        end.connect(path)


def read(path: str) -> None:
    os.close(os.open(path, os.O_RDONLY))


def create(path: str) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))


def entries(*pairs: tuple[str, str]) -> str:
    """Return the `entries:` of a policy; a path of the world starts with `@/`."""
    return "entries:\n" + "".join(f'  - {{path: "@/{path}", access: {access}}}\n' for path, access in pairs)

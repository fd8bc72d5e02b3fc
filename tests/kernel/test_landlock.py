"""The kernel itself judges Landlock plans: real worlds, every operation, as root and as an ordinary user."""

import ctypes
import fcntl
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from sandboxc import loader, seccomp
from sandboxc.emitters import landlock
from sandboxc.emitters.artefact import Options
from sandboxc.facts import Facts
from sandboxc.layers import bind
from sandboxc.losses import NARROWER
from sandboxc.lower import lower
from sandboxc.places import posix
from sandboxc.policy import DENY, READ, WRITE
from sandboxc.runtime import landlock as runner
from sandboxc.runtime import landlock_exec, linux
from sandboxc.runtime.hostlook import HostLook
from sandboxc.survey import Resolved, resolve

PROBE = runner.probe() if sys.platform == "linux" else None
pytestmark = pytest.mark.skipif(PROBE is None or not PROBE.usable, reason="no usable Landlock on this host")

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
    "o/d/e/f",
    "o/rw",
)


class World(NamedTuple):
    """A scratch tree that a user owns: a file of each kind in every directory, and a live socket in some."""

    root: str
    uid: int

    def path(self, name: str) -> str:
        """Return the absolute path of a name in the world."""
        return f"{self.root}/{name}"


def _write(path: str, data: bytes = b"data\n", mode: int = 0o644) -> None:
    with open(path, "wb") as file:
        file.write(data)
    os.chmod(path, mode)


@pytest.fixture(params=USERS, ids=lambda uid: f"uid{uid}")
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """A world for each user that this host lets tests be."""
    root = os.path.realpath(tempfile.mkdtemp(prefix="sbxll", dir="/var/tmp"))
    listeners = []
    try:
        for name in DIRECTORIES:
            base = f"{root}/{name}"
            os.makedirs(base, exist_ok=True)
            for file in ("f", "delete", "rename", "truncate", ".env"):
                _write(f"{base}/{file}")
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


def planned(world: World, text: str) -> tuple[landlock.LandlockPlan, Resolved]:
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
    return landlock.finalise(resolved, look, Facts(landlock_abi=ABI), options), resolved


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
        landlock_exec.apply(plan.ruleset(), plan.seccomp(runner.machine()), keep_fds=(*keep, *_pipes()))
        return job()

    return as_user(world, confined)


def _pipes() -> list[int]:
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


def _spawn(path: str) -> None:
    pid = os.posix_spawn(path, [path], {})
    if os.waitpid(pid, 0)[1]:
        raise OSError(13, "refused")


def _connect(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as end:
        end.connect(path)


def _create(path: str) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))


OPERATIONS: dict[str, Callable[[str], Any]] = {
    "read": lambda base: os.close(os.open(f"{base}/f", os.O_RDONLY)),
    "list": os.listdir,
    "execute": lambda base: _spawn(f"{base}/x"),
    "write": lambda base: os.close(os.open(f"{base}/f", os.O_WRONLY)),
    "truncate": lambda base: os.truncate(f"{base}/truncate", 0),
    "create": lambda base: _create(f"{base}/new"),
    "mkdir": lambda base: os.mkdir(f"{base}/newdir"),
    "symlink": lambda base: os.symlink("f", f"{base}/newlink"),
    "mkfifo": lambda base: os.mkfifo(f"{base}/newfifo"),
    "delete": lambda base: os.unlink(f"{base}/delete"),
    "rename": lambda base: os.rename(f"{base}/rename", f"{base}/renamed"),
    "rmdir": lambda base: os.rmdir(f"{base}/rmdir"),
    "remove-itself": lambda base: os.rename(base, f"{base}-moved"),
}
TARGETS = {
    "read": "f", "list": "", "execute": "x", "write": "f", "truncate": "truncate", "create": "new", "mkdir": "newdir",
    "symlink": "newlink", "mkfifo": "newfifo", "delete": "delete", "rename": "rename", "rmdir": "rmdir",
    "remove-itself": "",
}  # fmt: skip


def wanted(resolved: Resolved, base: str, operation: str) -> bool:
    """Return whether the layers allow an operation of the table in a directory."""
    target = f"{base}/{TARGETS[operation]}".rstrip("/")
    access = resolved.access(target)
    if operation in ("read", "list", "execute"):
        return access != DENY
    if operation in ("write", "truncate"):
        return access == WRITE
    parent = target.rpartition("/")[0]
    allowed = access == WRITE and resolved.access(parent) == WRITE
    if operation == "rename":
        allowed = allowed and resolved.access(f"{base}/renamed") == WRITE
    if operation == "remove-itself":  # the ancestor rule, and room for the new name
        strict = any(s.path.startswith(base + "/") and s.access != WRITE for s in resolved.sites)
        allowed = allowed and not strict and resolved.access(base + "-moved") == WRITE
    return allowed


def excused(resolved: Resolved, plan: landlock.LandlockPlan, base: str, operation: str) -> bool:
    """Return whether a refusal is one that the plan declares as `narrower`."""
    codes = {loss.code for loss in plan.losses if loss.kind == NARROWER}
    parent = base.rpartition("/")[0] if operation == "remove-itself" else base
    strict = [site for site in resolved.sites if site.path.startswith(parent.rstrip("/") + "/")]
    if operation == "list":
        return "SBX452" in codes and any(s.access == DENY and s.kind == "directory" for s in strict)
    if operation in ("create", "mkdir", "symlink", "mkfifo", "delete", "rename", "rmdir", "remove-itself"):
        return "SBX451" in codes and any(s.access != WRITE for s in strict)
    return False


def entries(*pairs: tuple[str, str]) -> str:
    """Return the `entries:` of a policy; a path of the world starts with `@/`."""
    return "entries:\n" + "".join(f'  - {{path: "@/{path}", access: {access}}}\n' for path, access in pairs)


POLICIES = {
    "bare": BARE,
    "read-only": BARE.replace("workspace-write", "read-only"),
    "deny-directory": BARE + entries(("w/a/deep", DENY)),
    "deny-file": BARE + entries(("w/a/f", DENY), ("o/d/f", DENY)),
    "read-island": BARE + entries(("w/b", READ)),
    "read-file": BARE + entries(("w/f", READ)),
    "write-outside": BARE + entries(("o/rw", WRITE), ("o/d/e/f", WRITE)),
    "nest": BARE + entries(("w/a", DENY), ("w/a/deep", WRITE), ("w/a/deep/er", READ), ("w/b", READ), ("w/b/c", WRITE)),
    "deny-outside": BARE + entries(("o", DENY), ("o/d", READ), ("o/d/e", WRITE), ("o/d/e/f", DENY)),
    "absent": BARE + entries(("w/b/new", DENY), ("w/.env2", READ), ("o/new", DENY)),
    "write-file": BARE + entries(("o/f", WRITE), ("o/d/x", WRITE)),
    "glob": BARE + 'entries:\n  - {glob: "**/.env", access: deny, within: writable}\n' + GLOBS,
    "protected": HEAD,
    "protected-waived": WAIVED,
    "baseline-deny": BARE + "baseline: deny\n" + entries(("o/d", READ), ("o/d/e", DENY)),
    "write-all": BARE + 'entries:\n  - {path: /, access: write}\n  - {path: "@/o/d", access: read}\n',
    "hidden": "sandboxc: 1\nname: t\ntargets: [landlock]\nmode: workspace-write\n" + entries(("w/.git/hooks", DENY)),
}


@pytest.mark.parametrize("name", POLICIES)
def test_every_operation_in_every_region(world: World, name: str) -> None:
    """What the kernel allows equals the layers, or is stricter where the plan declares it; never wider."""

    def trial() -> list[Any]:
        plan, resolved = planned(world, POLICIES[name])
        assert not plan.diagnostics
        if name == "protected-waived":  # compare with the layers that the waiver leaves
            kept = tuple(site for site in resolved.sites if not site.layer.cap)
            resolved = resolved._replace(sites=kept)
        bases = [world.path(directory) for directory in reversed(DIRECTORIES)]
        expected = {
            (base, operation): (wanted(resolved, base, operation), excused(resolved, plan, base, operation))
            for base in bases
            for operation in OPERATIONS
        }
        landlock_exec.apply(plan.ruleset(), plan.seccomp(runner.machine()), keep_fds=_pipes())
        wrong = []
        for base in bases:
            for operation, run in OPERATIONS.items():
                got = attempt(lambda run=run, base=base: run(base))  # type: ignore[misc]
                want, excuse = expected[base, operation]
                if got == "ENOENT" or (got == "ok") == want or (want and excuse and got in ("EACCES", "EXDEV")):
                    if operation == "remove-itself" and got == "ok":
                        os.rename(f"{base}-moved", base)
                    continue
                wrong.append([base, operation, got, "allowed" if want else "refused"])
        return wrong

    assert as_user(world, trial) == []


@pytest.mark.parametrize("name", ["bare", "deny-directory", "baseline-deny"])
def test_existing_sockets_are_not_reached(world: World, name: str) -> None:
    """A socket of an outside process cannot be connected to, in the workspace or outside of it."""
    paths = [world.path("w/s"), world.path("o/s")]
    got = inside(world, POLICIES[name], lambda: [attempt(lambda p=path: _connect(p)) for path in paths])  # type: ignore[misc]
    assert set(got) <= {"EACCES"}


def test_s27_deny_below_an_allow(world: World) -> None:
    """A denied directory in a written tree stays closed, its neighbours open (S27)."""
    text = BARE + entries(("o/d", WRITE), ("o/d/e", DENY))
    e, f = world.path("o/d/e"), world.path("o/d/f")
    got = inside(
        world,
        text,
        lambda: [
            attempt(lambda: os.listdir(e)),
            attempt(lambda: open(f"{e}/f").read()),
            attempt(lambda: _create(f"{e}/n")),
            attempt(lambda: os.rename(e, world.path("w/stolen"))),
            attempt(lambda: _write(f, mode=0o644)),
        ],
    )
    assert got[:3] == ["EACCES"] * 3 and got[3] in ("EACCES", "EXDEV") and got[4] == "ok"


def test_s29_files_devices_and_fifos(world: World) -> None:
    """Entries on a file, a device and a FIFO make rules that the kernel takes, without opening the FIFO (S29)."""
    os.mkfifo(world.path("o/pipe"), 0o666)
    os.chown(world.path("o/pipe"), world.uid, world.uid)
    text = BARE + "baseline: deny\n" + entries(("o/f", READ), ("o/pipe", READ))
    text += "  - {path: /dev/null, access: write}\n"
    got = inside(
        world,
        text,
        lambda: [
            attempt(lambda: open(world.path("o/f")).read()),
            attempt(lambda: os.close(os.open("/dev/null", os.O_RDWR))),
            attempt(lambda: os.close(os.open(world.path("o/pipe"), os.O_RDONLY | os.O_NONBLOCK))),
            attempt(lambda: os.close(os.open(world.path("o/pipe"), os.O_RDWR | os.O_NONBLOCK))),
        ],
    )
    assert got == ["ok", "ok", "ok", "EACCES"]


def test_s31_moving_a_denied_thing(world: World) -> None:
    """The denied file and the directory above it cannot be renamed, also in two steps (S31)."""
    secret, a, b = world.path("w/a/f"), world.path("w/a"), world.path("w/b/c")
    text = BARE + entries(("w/a/f", DENY))

    def trial() -> list[str]:
        steps = [attempt(lambda: os.rename(secret, world.path("w/b/taken")))]
        steps.append(attempt(lambda: os.rename(a, world.path("w/b/moved"))))
        steps.append(attempt(lambda: os.rename(a, world.path("w/a2"))))
        steps.append(attempt(lambda: os.rename(b, world.path("w/b/d"))))
        found = (world.path("w/b/taken"), world.path("w/b/moved/f"), world.path("w/a2/f"), secret)
        return steps + [attempt(lambda path=path: open(path).read()) for path in found]  # type: ignore[misc]

    got = inside(world, text, trial)
    assert all(step in ("EACCES", "EXDEV") for step in got[:3]) and got[3] == "ok"
    assert "ok" not in got[4:]


def test_links_lead_nowhere_new(world: World) -> None:
    """Symbolic links, hard links and views of the root do not reach what is denied."""
    os.link(world.path("o/d/f"), world.path("w/old-link"))
    os.symlink(world.path("o/d"), world.path("w/escape"))
    text = BARE + entries(("o/d", DENY))

    def trial() -> list[str]:
        os_link = attempt(lambda: os.link(world.path("o/f"), world.path("w/b/hard")))
        attempt(lambda: os.symlink(world.path("o/d/f"), world.path("w/b/soft")))
        reads = ("w/old-link", "w/escape/f", "w/b/soft")
        views = ("/proc/self/root", "/proc/self/cwd/../../../../../../..", "/proc/thread-self/root")
        paths = [world.path(name) for name in reads] + [view + world.path("o/d/f") for view in views]
        return [os_link, *(attempt(lambda path=path: open(path).read()) for path in paths)]  # type: ignore[misc]

    got = inside(world, text, trial)
    assert "ok" not in got, got


def test_sockets_signals_and_traces(world: World) -> None:
    """With `network: deny` no family reaches out; outside processes cannot be signalled or traced."""
    outside = os.getpid()
    kinds = [
        (socket.AF_INET, socket.SOCK_STREAM, 0),
        (socket.AF_INET, socket.SOCK_DGRAM, 0),
        (socket.AF_INET, socket.SOCK_STREAM, 262),
        (socket.AF_INET, socket.SOCK_RAW, 1),
        (socket.AF_INET6, socket.SOCK_DGRAM, 0),
        (17, socket.SOCK_RAW, 768),
        (40, socket.SOCK_STREAM, 0),
        (socket.AF_UNIX, socket.SOCK_STREAM, 0),
        (16, socket.SOCK_RAW, 15),
    ]

    def trial() -> list[str]:
        got = [attempt(lambda k=kind: socket.socket(*k).close()) for kind in kinds]  # type: ignore[misc]
        if ABI >= 9:
            got[7] = "EACCES"
        libc = ctypes.CDLL(None, use_errno=True)

        def call(number: int, *arguments: int) -> None:
            if libc.syscall(number, *arguments) == -1:
                raise OSError(ctypes.get_errno(), "")

        ring = seccomp.number(runner.machine(), "io_uring_setup")
        got.append(attempt(lambda: call(ring, 1, 0)))
        got.append(attempt(lambda: os.kill(outside, 0)))
        trace = {"x86_64": 101, "aarch64": 117}[runner.machine()]
        got.append(attempt(lambda: call(trace, 16, outside, 0, 0)))
        got.append(attempt(lambda: os.close(os.open(f"/proc/{outside}/environ", os.O_RDONLY))))
        got.append(attempt(lambda: os.close(os.open(f"/proc/{outside}/mem", os.O_RDWR))))
        left, right = socket.socketpair()
        left.send(b"x")
        return [*got, right.recv(1).decode()]

    got = inside(world, BARE, trial)
    assert got[:9] == ["EACCES"] * 9
    assert got[9] == "ENOSYS"
    if ABI >= 6:
        assert got[10] == "EPERM"
    assert got[11] == "EPERM" and got[12:14] == ["EACCES", "EACCES"] and got[14] == "x"


def test_views_and_devices(world: World) -> None:
    """The devices of every mode work, others and /proc/sys do not, and `write /` does not change that."""
    for text in (BARE, BARE + "entries:\n  - {path: /, access: write}\n", BARE + "baseline: deny\n"):
        got = inside(
            world,
            text,
            lambda: [
                attempt(lambda: os.close(os.open("/dev/null", os.O_RDWR))),
                attempt(lambda: os.read(os.open("/dev/urandom", os.O_RDONLY), 1)),
                attempt(lambda: os.read(os.open("/proc/self/status", os.O_RDONLY), 1)),
                attempt(lambda: os.listdir("/dev")),
                attempt(lambda: os.close(os.open("/dev/kmsg", os.O_RDONLY))),
                attempt(lambda: os.close(os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY))),
                attempt(lambda: _create("/dev/new")),
                attempt(lambda: _create("/dev/shm/new")),
                attempt(lambda: os.mknod(world.path("w/node"), stat.S_IFBLK | 0o600, os.makedev(7, 0))),
            ],
        )
        assert got[:4] == ["ok"] * 4
        assert all(answer in ("EACCES", "EPERM", "ENOENT") for answer in got[4:]), got


def test_privileged_ways_out_are_shut(world: World) -> None:
    """Mounting, chroot and typing into a terminal are refused, as root too."""
    master, slave = os.openpty()

    def trial() -> list[str]:
        libc = ctypes.CDLL(None, use_errno=True)

        def mount() -> None:
            if libc.mount(b"none", world.path("w/a").encode(), b"tmpfs", 0, None) == -1:
                raise OSError(ctypes.get_errno(), "")

        return [
            attempt(mount),
            attempt(lambda: os.chroot(world.path("w"))),
            attempt(lambda: fcntl.ioctl(slave, 0x5412, b"x")),  # type: ignore[arg-type, return-value]
            attempt(lambda: os.close(os.open("/dev/pts/0", os.O_RDWR))),
        ]

    try:
        got = inside(world, BARE, trial, keep=(slave,))
    finally:
        os.close(master)
        os.close(slave)
    assert got[:3] == ["EPERM"] * 3 and got[3] in ("EACCES", "ENOENT")


def test_metadata_is_the_declared_limit(world: World) -> None:
    """chmod and stat of a denied file work, which is what the standing limit SBX460 says."""
    secret = world.path("w/a/f")
    text = BARE + entries(("w/a/f", DENY))
    got = inside(world, text, lambda: [attempt(lambda: os.chmod(secret, 0o600)), attempt(lambda: os.stat(secret))])
    assert got == ["ok", "ok"]
    loaded = loader.load_bytes("p", text.replace("@/", "/").encode())
    assert loaded.policy is not None
    lowered = lower(loaded.policy, "linux").value
    assert lowered is not None
    losses = landlock.emit(lowered.layers, Facts(landlock_abi=ABI), Options()).losses
    assert any(loss.code == "SBX460" and loss.standing for loss in losses)


def test_hooks_and_commits(world: World) -> None:
    """Without the waiver hooks hold against every way in; with it new names at the top work."""
    hook, git = world.path("w/.git/hooks/pre-commit"), world.path("w/.git")
    os.makedirs(world.path("w/.git/refs"))
    os.makedirs(world.path("w/b/fake/hooks"))
    os.chown(world.path("w/b/fake"), world.uid, world.uid)

    def trial() -> list[str]:
        return [
            attempt(lambda: _create(hook)),
            attempt(lambda: os.rename(git, world.path("w/git2"))),
            attempt(lambda: os.rename(world.path("w/.git/hooks"), world.path("w/b/hooks"))),
            attempt(lambda: os.rename(world.path("w/b/fake"), git)),
            attempt(lambda: _create(world.path("w/.git/objects/o"))),
        ]

    got = inside(world, HEAD, trial)
    assert "ok" not in got[:4] and got[4] == "ok"
    assert inside(world, WAIVED, lambda: attempt(lambda: _create(world.path("w/top")))) == "ok"


def test_a_replaced_sibling_is_left_out(world: World) -> None:
    """A name that was swapped for a link or another file after the look gets no rule, and the run says so."""
    text = BARE + entries(("w/a/deep", DENY))

    def trial() -> list[Any]:
        plan, _ = planned(world, text)
        victim = world.path("w/a/f")
        os.unlink(victim)
        os.symlink(world.path("w/a/deep/f"), victim)
        skipped = landlock_exec.apply(plan.ruleset(), plan.seccomp(runner.machine()), keep_fds=_pipes())
        return [list(skipped), attempt(lambda: open(victim).read()), attempt(lambda: open(world.path("w/a/x")).close())]

    got = as_user(world, trial)
    assert got[0] == [world.path("w/a/f")] and got[1:] == ["EACCES", "ok"]


# -- the runner -----------------------------------------------------------------------------------------------


def run(world: World, text: str, *argv: str, cwd: str = "") -> dict[str, Any]:
    """Return what `execute` says of a command, run as the world's user."""

    def trial() -> dict[str, Any]:
        plan, _ = planned(world, text)
        environment = {"PATH": "/usr/bin:/bin"}
        outcome = runner.execute(
            plan.ruleset(),
            argv,
            env=environment,
            cwd=cwd or world.path("w"),
            seccomp_program=plan.seccomp(runner.machine()),
        )
        return outcome._asdict()

    found: dict[str, Any] = as_user(world, trial)
    return found


def test_exit_codes(world: World) -> None:
    """The command's own code comes back, 128 + n for a signal, and 125, 126, 127 where it never ran."""
    assert run(world, BARE, "sh", "-c", "exit 7")["code"] == 7
    assert run(world, BARE, "true")["code"] == 0
    assert run(world, BARE, "sh", "-c", "kill -TERM $$")["code"] == 128 + 15
    missing = run(world, BARE, "no-such-program-here")
    assert (missing["code"], missing["started"]) == (127, False)
    plain = run(world, BARE, world.path("w/f"))
    assert (plain["code"], plain["started"]) == (126, False)
    nowhere = run(world, BARE, "true", cwd=world.path("absent"))
    assert (nowhere["code"], nowhere["stage"]) == (125, "cwd")
    denied = run(world, BARE + entries(("o/d", DENY)), world.path("o/d/x"))
    assert (denied["code"], denied["started"]) == (126, False)


def test_a_plan_that_does_not_fit_runs_nothing(world: World) -> None:
    """When a root is another node than the plan names, nothing runs and the code is 125."""

    def trial() -> dict[str, Any]:
        plan, _ = planned(world, BARE)
        os.rename(world.path("w"), world.path("w2"))
        os.mkdir(world.path("w"))
        ran = runner.execute(
            plan.ruleset(), ["touch", world.path("w/ran")], env={"PATH": "/usr/bin:/bin"}, cwd="/", seccomp_program=None
        )
        return {**ran._asdict(), "made": os.path.exists(world.path("w/ran"))}

    got = as_user(world, trial)
    assert (got["code"], got["started"], got["made"]) == (125, False, False)


def test_only_standard_descriptors_are_inherited(world: World) -> None:
    """A directory that the caller holds open is closed in the command."""
    script = f"ls /proc/self/fd > {world.path('w/fds')}"

    def trial() -> Any:
        held = os.open(world.path("o/d"), os.O_RDONLY | os.O_DIRECTORY)
        os.set_inheritable(held, True)
        plan, _ = planned(world, BARE + entries(("o/d", DENY)))
        program = plan.seccomp(runner.machine())
        env = {"PATH": "/usr/bin:/bin"}
        runner.execute(plan.ruleset(), ["sh", "-c", script], env=env, cwd="/", seccomp_program=program)
        with open(world.path("w/fds")) as file:
            return file.read().split()

    assert set(as_user(world, trial)) <= {"0", "1", "2", "3"}  # 3 is the directory that ls reads


def test_signals_are_handed_on(world: World) -> None:
    """A signal that the runner gets reaches the command, whose code comes back."""
    script = "trap 'exit 42' TERM; touch ready; while :; do sleep 0.02; done"

    def trial() -> Any:
        pid = os.fork()
        if pid == 0:
            plan, _ = planned(world, BARE)
            program = plan.seccomp(runner.machine())
            env = {"PATH": "/usr/bin:/bin"}
            code = runner.run_landlock(
                plan.ruleset(), ["sh", "-c", script], env=env, cwd=world.path("w"), seccomp_program=program
            )
            os._exit(code)
        _await(lambda: os.path.exists(world.path("w/ready")))
        os.kill(pid, signal.SIGTERM)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    assert as_user(world, trial) == 42


def test_the_command_dies_with_the_runner(world: World) -> None:
    """After `kill -9` of the runner the command is gone."""
    script = "echo $$ > pid; exec sleep 30"

    def trial() -> Any:
        pid = os.fork()
        if pid == 0:
            plan, _ = planned(world, BARE)
            env = {"PATH": "/usr/bin:/bin"}
            runner.run_landlock(
                plan.ruleset(), ["sh", "-c", script], env=env, cwd=world.path("w"), seccomp_program=None
            )
            os._exit(0)
        _await(lambda: os.path.exists(world.path("w/pid")) and os.path.getsize(world.path("w/pid")) > 1)
        with open(world.path("w/pid")) as file:
            command = int(file.read())
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        return _await(lambda: not _alive(command))

    assert as_user(world, trial)


def _alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def _await(done: Callable[[], bool], seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if done():
            return True
        time.sleep(0.01)
    return False


def test_probe_tells_abi_and_leaves_nothing(world: World) -> None:
    """The probe works for each user, reports the kernel's ABI, and leaves no child behind."""
    got = as_user(world, lambda: [runner.probe()._asdict(), attempt(lambda: os.waitpid(-1, os.WNOHANG))])
    assert got[0]["usable"] and got[0]["abi"] == linux.landlock_abi() and got[1] == "ECHILD"
    assert runner.probe(network="allow-all").usable


@pytest.mark.skipif(shutil.which("git") is None, reason="no git")
def test_git_commits_under_the_waiver(world: World) -> None:
    """With the waiver that shipped policies carry, git adds and commits in a real repository."""
    repository = world.path("w/repo")
    environment = {"PATH": "/usr/bin:/bin", "HOME": world.path("w")}
    as_user(world, lambda: subprocess.run(["git", "init", "-q", repository], env=environment, check=True).returncode)
    script = "echo x > file && git add file && git -c user.name=a -c user.email=a@b commit -qm one && git log --oneline"
    assert run(world, WAIVED, "sh", "-c", script, cwd=repository)["code"] == 0

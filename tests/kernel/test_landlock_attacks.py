"""Ways out of a Landlock sandbox that practitioners reported, tried on real worlds."""

import ctypes
import fcntl
import os
import socket
import stat
from typing import Any

import pytest

from sandboxc import loader, seccomp
from sandboxc.emitters import landlock
from sandboxc.emitters.artefact import Options
from sandboxc.facts import Facts
from sandboxc.lower import lower
from sandboxc.policy import DENY, READ, WRITE
from sandboxc.runtime import landlock as runner
from sandboxc.runtime import landlock_exec
from tests.kernel._landlock_world import (
    ABI,
    BARE,
    HEAD,
    USABLE,
    WAIVED,
    World,
    as_user,
    attempt,
    create,
    entries,
    inside,
    landlock_world,  # noqa: F401
    pipes,
    planned,
    read,
    write,
)

pytestmark = pytest.mark.skipif(not USABLE, reason="no usable Landlock on this host")


def test_s27_deny_below_an_allow(world: World) -> None:
    """A denied directory in a written tree stays closed, its neighbours open (S27)."""
    text = BARE + entries(("o/d", WRITE), ("o/d/e", DENY))
    e, f = world.path("o/d/e"), world.path("o/d/f")
    got = inside(
        world,
        text,
        lambda: [
            attempt(lambda: os.listdir(e)),
            attempt(lambda: read(f"{e}/f")),
            attempt(lambda: create(f"{e}/n")),
            attempt(lambda: os.rename(e, world.path("w/stolen"))),
            attempt(lambda: write(f, mode=0o644)),
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
            attempt(lambda: read(world.path("o/f"))),
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
        return steps + [attempt(lambda path=path: read(path)) for path in found]  # type: ignore[misc]

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
        return [os_link, *(attempt(lambda path=path: read(path)) for path in paths)]  # type: ignore[misc]

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
    stray = [f"{place}/{os.path.basename(world.root)}" for place in ("/dev", "/dev/shm")]
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
                attempt(lambda: create(stray[0])),
                attempt(lambda: create(stray[1])),
                attempt(lambda: os.mknod(world.path("w/node"), stat.S_IFBLK | 0o600, os.makedev(7, 0))),
            ],
        )
        for path in filter(os.path.exists, stray):
            os.unlink(path)
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

        def private_mount() -> None:
            if libc.unshare(0x10000000 | 0x20000) == 0:  # a user name space, and mounts of its own
                mount()
            raise OSError(1, "")

        return [
            attempt(mount),
            attempt(private_mount),
            attempt(lambda: os.chroot(world.path("w"))),
            attempt(lambda: fcntl.ioctl(slave, 0x5412, b"x")),  # type: ignore[arg-type, return-value]
            attempt(lambda: os.close(os.open("/dev/pts/0", os.O_RDWR))),
        ]

    try:
        got = inside(world, BARE, trial, keep=(slave,))
    finally:
        os.close(master)
        os.close(slave)
    assert got[:2] == ["EPERM"] * 2 and got[3] == "EPERM" and got[4] in ("EACCES", "ENOENT")
    assert got[2] in ("EPERM", "ok")  # a chroot in a user name space of one's own changes no object


@pytest.mark.parametrize("abi", range(1, ABI + 1))
def test_older_abis(world: World, abi: int) -> None:
    """A plan for an older ABI runs here and lets through what its table declares, and nothing else."""

    def trial() -> list[str]:
        plan, _ = planned(world, BARE + entries(("w/b", READ)), abi)
        assert not plan.diagnostics
        landlock_exec.apply(plan.ruleset(), plan.seccomp(runner.machine()), keep_fds=pipes())
        return [
            attempt(lambda: read(world.path("o/f"))),
            attempt(lambda: create(world.path("w/a/new"))),
            attempt(lambda: os.rename(world.path("w/a/f"), world.path("w/.git/f2"))),
            attempt(lambda: os.truncate(world.path("w/b/f"), 0)),
            attempt(lambda: create(world.path("w/b/new"))),
            attempt(lambda: os.close(os.open(world.path("o/f"), os.O_WRONLY))),
            attempt(lambda: os.unlink(world.path("w/b/delete"))),
        ]

    got = as_user(world, trial)
    table = landlock.table(Facts(landlock_abi=abi))
    assert got[:2] == ["ok", "ok"] and got[4:] == ["EACCES"] * 3
    assert (got[2] == "ok") == (table.row("rename-across-pins").status == "exact")
    assert (got[3] == "ok") == (table.row("truncate").status != "exact")


@pytest.mark.skipif(os.getuid() != 0, reason="needs root")
def test_root_in_a_workspace_of_another_owner(world: World) -> None:
    """Root reaches another owner's workspace with one capability, and a denied place not even with it."""
    os.chmod(world.path("w"), 0o700)
    os.chmod(world.path("o/d/f"), 0o600)
    script = f"echo x > made && ! cat {world.path('o/d/f')} && ! echo x > {world.path('o/f')}"
    plan, _ = planned(world, BARE + entries(("o/d", DENY)))
    needed = 0 if world.uid == 0 else 1 << 1  # CAP_DAC_OVERRIDE
    outcome = runner.execute(
        plan.ruleset(),
        ["sh", "-c", script],
        env={"PATH": "/usr/bin:/bin"},
        cwd=world.path("w"),
        seccomp_program=plan.seccomp(runner.machine()),
        keep_capabilities=needed,
    )
    assert outcome.code == 0 and os.path.exists(world.path("w/made"))


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
            attempt(lambda: create(hook)),
            attempt(lambda: os.rename(git, world.path("w/git2"))),
            attempt(lambda: os.rename(world.path("w/.git/hooks"), world.path("w/b/hooks"))),
            attempt(lambda: os.rename(world.path("w/b/fake"), git)),
            attempt(lambda: create(world.path("w/.git/objects/o"))),
        ]

    got = inside(world, HEAD, trial)
    assert "ok" not in got[:4] and got[4] == "ok"
    assert inside(world, WAIVED, lambda: attempt(lambda: create(world.path("w/top")))) == "ok"


def test_a_replaced_sibling_is_left_out(world: World) -> None:
    """A name that was swapped for a link or another file after the look gets no rule, and the run says so."""
    text = BARE + entries(("w/a/deep", DENY))

    def trial() -> list[Any]:
        plan, _ = planned(world, text)
        victim = world.path("w/a/f")
        os.unlink(victim)
        os.symlink(world.path("w/a/deep/f"), victim)
        skipped = landlock_exec.apply(plan.ruleset(), plan.seccomp(runner.machine()), keep_fds=pipes())
        return [list(skipped), attempt(lambda: read(victim)), attempt(lambda: read(world.path("w/a/x")))]

    got = as_user(world, trial)
    assert got[0] == [world.path("w/a/f")] and got[1:] == ["EACCES", "ok"]

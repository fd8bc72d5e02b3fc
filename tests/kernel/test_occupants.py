"""The placeholder protocol on a real file system, in child processes as root and as an ordinary user."""

import itertools
import json
import os
import random
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sandboxc.runtime import linux, occupants
from sandboxc.runtime.occupants import SENTINEL, Occupant
from tests.kernel._within import within

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux system calls")

if sys.platform == "linux":
    linux.load()  # an ordinary user in a child may not be able to read this interpreter's library

USERS = [0, 1000] if hasattr(os, "geteuid") and os.geteuid() == 0 else [None]


class World:
    """A workspace and a state directory of one user, and a way to run code as that user."""

    def __init__(self, base: Path, uid: int | None) -> None:
        self.uid = uid
        self.state = str(base / "state")
        self.work = base / "work"
        self.work.mkdir()
        if uid:
            os.chown(base, uid, uid)
            os.chown(self.work, uid, uid)

    def wanted(self) -> list[Occupant]:
        return [
            Occupant(str(self.work / ".env")),
            Occupant(str(self.work / "commondir"), "file", b"."),
            Occupant(str(self.work / "secrets"), "directory"),
        ]

    def child(self, act: Callable[[], None]) -> int:
        """Run ``act`` in a forked child as the user; return its pid."""
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                if self.uid:
                    os.setgroups([])
                    os.setresgid(self.uid, self.uid, self.uid)
                    os.setresuid(self.uid, self.uid, self.uid)
                act()
                code = 0
            except BaseException as error:
                os.write(2, f"{error!r}\n".encode())
            finally:
                os._exit(code)
        return pid

    def do(self, act: Callable[[], None]) -> None:
        """Run ``act`` as the user and require that it ends well."""
        assert os.waitpid(self.child(act), 0)[1] == 0

    def left(self) -> list[str]:
        return sorted(os.listdir(self.work))

    def records(self) -> list[str]:
        return os.listdir(os.path.join(self.state, "runs"))


@pytest.fixture(params=USERS, ids=lambda uid: f"uid-{uid}")
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A fresh world below a directory that every user can reach."""
    base = Path("/var/tmp") / f"sandboxc-test-{os.urandom(6).hex()}"
    base.mkdir(mode=0o755)
    yield World(base, request.param)
    subprocess.run(["chmod", "-R", "u+rwX", str(base)], check=True)
    subprocess.run(["rm", "-rf", str(base)], check=True)


def stay(world: World) -> tuple[int, dict[str, list[str]]]:
    """Start a run that occupies and then waits to be killed; return its pid and what it says it holds."""
    read_end, write_end = os.pipe()

    def act() -> None:
        held = occupants.occupy(world.state, world.wanted())
        os.write(write_end, json.dumps(held._asdict()).encode())
        os.close(write_end)
        time.sleep(60)

    pid = world.child(act)
    os.close(write_end)
    with os.fdopen(read_end) as pipe:
        held = json.loads(pipe.read())
    return pid, held


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def test_a_run_occupies_and_releases(world: World) -> None:
    """Files and directories appear as planned, with the sentinel time, and are gone after release."""

    def act() -> None:
        held = occupants.occupy(world.state, world.wanted())
        assert held.made == tuple(item.path for item in world.wanted())
        assert (held.adopted, held.present) == ((), ())
        assert not os.get_inheritable(held.record_fd)
        for item in world.wanted():
            node = os.lstat(item.path)
            assert stat.S_ISDIR(node.st_mode) == (item.kind == "directory")
            assert node.st_mtime_ns == SENTINEL * 10**9
            assert node.st_mode & 0o222 == 0
        assert (world.work / "commondir").read_bytes() == b"."
        assert (world.work / ".env").read_bytes() == b""
        cleaned = occupants.release(world.state, held)
        assert sorted(cleaned.removed) == sorted(held.made)
        assert (cleaned.kept, cleaned.live) == ((), 0)

    world.do(act)
    assert (world.left(), world.records()) == ([], [])


def test_the_umask_does_not_matter(world: World) -> None:
    """Modes are what the protocol says under any umask, and the state is private."""

    def act() -> None:
        os.umask(0o777)
        os.mkdir(world.state, 0o700)
        os.chmod(world.state, 0o700)
        os.umask(0o077)
        held = occupants.occupy(world.state, world.wanted())
        modes = [stat.S_IMODE(os.lstat(path).st_mode) for path in held.made]
        assert modes == [0o444, 0o444, 0o555]
        assert stat.S_IMODE(os.lstat(held.record).st_mode) & 0o077 == 0
        occupants.release(world.state, held)

    world.do(act)


def test_what_exists_is_left_alone(world: World) -> None:
    """A name that a person has is reported as present and never touched."""
    (world.work / ".env").write_text("TOKEN=1")
    (world.work / "secrets").symlink_to("/etc")

    def act() -> None:
        held = occupants.occupy(world.state, world.wanted())
        assert held.present == (str(world.work / ".env"), str(world.work / "secrets"))
        occupants.release(world.state, held)

    world.do(act)
    assert world.left() == [".env", "secrets"]
    assert (world.work / ".env").read_text() == "TOKEN=1"


def test_an_empty_file_with_the_sentinel_time_is_not_adopted_without_a_record(world: World) -> None:
    """Only what a record names is an occupant, whatever its time."""
    (world.work / ".env").touch()
    os.utime(world.work / ".env", (SENTINEL, SENTINEL))

    def act() -> None:
        held = occupants.occupy(world.state, world.wanted()[:1])
        assert held.present == (str(world.work / ".env"),)
        occupants.release(world.state, held)

    world.do(act)
    assert world.left() == [".env"]


def test_the_last_of_several_runs_removes(world: World) -> None:
    """A second run adopts what the first made; killing the first leaves it, ending the second removes it."""
    first, held = stay(world)
    second, adopted = stay(world)
    try:
        assert adopted["adopted"] == held["made"]
        kill(first)
        world.do(lambda: check(occupants.clean(world.state), live=1, removed=0))
        assert world.left() == [".env", "commondir", "secrets"]
    finally:
        kill(second)
    world.do(lambda: check(occupants.clean(world.state), live=0, removed=3))
    assert (world.left(), world.records()) == ([], [])


def sweep(world: World) -> None:
    occupants.clean(world.state)


def check(cleaned: occupants.Cleaned, *, live: int, removed: int) -> None:
    assert (cleaned.live, len(cleaned.removed)) == (live, removed)


def test_the_next_run_adopts_or_removes_what_a_killed_one_left(world: World) -> None:
    """After a kill -9 a run that wants the same adopts it, and removes what it does not want."""
    kill(stay(world)[0])

    def act() -> None:
        held = occupants.occupy(world.state, world.wanted()[:1])
        assert held.adopted == (str(world.work / ".env"),)
        assert os.listdir(world.work) == [".env"]
        assert len(world.records()) == 2  # a record and its lock
        occupants.release(world.state, held)

    world.do(act)
    assert world.left() == []


@pytest.mark.parametrize("act", ["write", "touch", "replace", "hardlink", "fill"])
def test_what_a_person_did_meanwhile_stays(world: World, act: str) -> None:
    """An occupant that was written to, touched, replaced, linked or filled is not ours any more."""
    pid, _ = stay(world)
    env, secrets = world.work / ".env", world.work / "secrets"
    os.chmod(env, 0o644)
    os.chmod(secrets, 0o755)
    if act == "write":
        env.write_text("KEY=1")
    elif act == "touch":
        os.utime(env)
    elif act == "replace":
        env.unlink()
        env.touch()
    elif act == "hardlink":
        os.link(env, world.work / "other")
    else:
        (secrets / "key").write_text("k")
    kill(pid)
    world.do(lambda: check(occupants.clean(world.state), live=0, removed=2))
    expected = {"hardlink": [".env", "other"], "fill": ["secrets"]}.get(act, [".env"])
    assert (world.left(), world.records()) == (expected, [])


def test_a_reused_inode_is_not_taken_for_ours(world: World) -> None:
    """A person's empty file at the same name and inode, with its own time, survives the clean-up."""
    pid, _ = stay(world)
    env = world.work / ".env"
    inode = env.stat().st_ino
    for _ in range(50):
        env.unlink()
        env.touch()
        if env.stat().st_ino == inode:
            break
    kill(pid)
    world.do(lambda: check(occupants.clean(world.state), live=0, removed=2))
    assert world.left() == [".env"]


def test_the_record_lives_as_long_as_the_last_holder(world: World) -> None:
    """A copy of the record's descriptor in another process keeps everything occupied."""

    def act() -> None:
        held = occupants.occupy(world.state, world.wanted())
        sandbox = subprocess.Popen(["sleep", "60"], pass_fds=(held.lock_fd,))
        cleaned = occupants.release(world.state, held)
        assert (cleaned.live, cleaned.removed) == (1, ())
        assert len(os.listdir(world.work)) == 3
        sandbox.kill()
        sandbox.wait()
        assert len(occupants.clean(world.state).removed) == 3

    world.do(act)
    assert world.left() == []


@pytest.mark.skipif(not os.path.exists("/usr/bin/bwrap"), reason="needs bubblewrap")
def test_a_killed_runner_and_its_sandbox_leave_nothing(world: World) -> None:
    """When a runner is killed its sandbox dies, the record with it, and a clean-up finds all of it."""
    ready_read, ready_write = os.pipe()

    def act() -> None:
        held = occupants.occupy(world.state, world.wanted())
        argv = ["/usr/bin/bwrap", "--ro-bind", "/", "/", "--unshare-all", "--die-with-parent"]
        argv += ["--sync-fd", str(held.lock_fd), "sh", "-c", f"ls /proc/self/fd/{held.lock_fd}; sleep 60"]
        sandbox = subprocess.Popen(argv, pass_fds=(held.lock_fd,), stdout=ready_write, stderr=ready_write)
        sandbox.wait()

    runner = world.child(act)
    said = b""
    while not said.endswith(b"\n"):
        said += os.read(ready_read, 200)
    assert b"No such file" in said  # it runs, and has no way to the record
    world.do(lambda: check(occupants.clean(world.state), live=1, removed=0))
    kill(runner)
    end = time.monotonic() + 5
    while world.left() and time.monotonic() < end:
        world.do(lambda: sweep(world))
    assert (world.left(), world.records()) == ([], [])
    os.close(ready_read)
    os.close(ready_write)


def test_a_failure_leaves_nothing(world: World) -> None:
    """When one name cannot be occupied none stays occupied, and no record."""

    def act() -> None:
        wanted = [*world.wanted(), Occupant(str(world.work / "absent" / "x"))]
        with pytest.raises(FileNotFoundError):
            occupants.occupy(world.state, wanted)

    world.do(act)
    assert (world.left(), world.records()) == ([], [])


def test_a_parent_that_is_a_link_is_refused(world: World) -> None:
    """No symbolic link on the way to a name is followed, when making and when removing."""
    (world.work / "real").mkdir()
    (world.work / "link").symlink_to("real")

    def act() -> None:
        with pytest.raises(NotADirectoryError):
            occupants.occupy(world.state, [Occupant(str(world.work / "link" / "x"))])

    world.do(act)
    assert os.listdir(world.work / "real") == []


def test_wrong_words_and_foreign_state_are_refused(world: World) -> None:
    """A relative path, an unknown kind, two meanings of one name, or a state that others can write."""

    def act() -> None:
        env = str(world.work / ".env")
        for wrong in (
            [Occupant("x")],
            [Occupant("/")],
            [Occupant("/x", "fifo")],
            [Occupant(env), Occupant(env, "directory")],
            [Occupant(env, "file", b"x" * 5000)],
        ):
            with pytest.raises(ValueError, match=r"path|kind|two"):
                occupants.occupy(world.state, wrong)
        os.makedirs(world.state, mode=0o700, exist_ok=True)
        os.chmod(world.state, 0o777)
        with pytest.raises(PermissionError):
            occupants.clean(world.state)

    world.do(act)


@pytest.mark.parametrize("code", [22, 95, 21])
def test_without_unnamed_files_names_are_made_by_renaming(
    world: World, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """A file system that does not know O_TMPFILE gets the same result by another way."""

    def refuse(*_: object) -> bool:
        raise OSError(code, "no O_TMPFILE")

    monkeypatch.setattr(occupants, "_make_unnamed", refuse)

    def act() -> None:
        held = occupants.occupy(world.state, world.wanted())
        assert len(held.made) == 3
        assert sorted(os.listdir(world.work)) == [".env", "commondir", "secrets"]
        assert (world.work / "commondir").read_bytes() == b"."
        occupants.release(world.state, held)

    world.do(act)
    assert world.left() == []


def test_a_temporary_directory_goes_with_all_it_holds(world: World) -> None:
    """A private directory is made 0700 and removed whole: deep nesting, links and unreadable directories."""

    def act() -> None:
        held = occupants.occupy(world.state, [])
        path = occupants.temporary(world.state, held, str(world.work))
        assert stat.S_IMODE(os.lstat(path).st_mode) == 0o700
        at = os.open(path, os.O_RDONLY)
        for _ in range(1500):
            os.mkdir("d" * 60, dir_fd=at)
            below = os.open("d" * 60, os.O_RDONLY, dir_fd=at)
            os.close(at)
            at = below
        os.close(at)
        os.symlink("/etc", os.path.join(path, "link"))
        os.mkdir(os.path.join(path, "shut"))
        Path(path, "shut", "f").touch()
        os.chmod(os.path.join(path, "shut"), 0)
        cleaned = occupants.release(world.state, held)
        assert cleaned.removed == (path,)

    world.do(act)
    assert (world.left(), world.records()) == ([], [])
    assert os.path.exists("/etc/passwd")


def test_runs_killed_at_any_moment_leave_nothing(world: World) -> None:
    """A hundred pairs of runs killed with -9, every other pair while it holds, leave no name and no record."""
    chance = random.Random(7)
    names = [Occupant(str(world.work / f"n{index}"), ("file", "directory")[index % 2]) for index in range(6)]
    wanted = [*world.wanted(), *names]

    def act(rounds: int, out: int) -> None:
        for done in itertools.count():
            held = occupants.occupy(world.state, wanted)
            if done == rounds:
                os.write(out, b"h")
                signal.pause()
            occupants.temporary(world.state, held, str(world.work))
            occupants.release(world.state, held)

    for index in range(100):
        read_end, write_end = os.pipe()
        rounds = chance.randrange(1, 4) if index % 2 else -1  # the others never stop by themselves
        pids = [world.child(lambda: act(rounds, write_end)) for _ in range(2)]  # noqa: B023
        os.close(write_end)
        if index % 2:
            with within(120):
                assert os.read(read_end, 1) == b"h"
        else:
            time.sleep(chance.uniform(0, 0.02))
        for pid in pids:
            kill(pid)
        os.close(read_end)
        if index % 2:
            assert world.left()  # caught holding, after rounds that ended well
    world.do(lambda: check_nothing_alive(occupants.clean(world.state)))
    assert (world.left(), world.records()) == ([], [])


def check_nothing_alive(cleaned: occupants.Cleaned) -> None:
    assert (cleaned.kept, cleaned.live) == ((), 0)


def test_many_runs_at_once_never_lose_the_name(world: World) -> None:
    """While any run holds a name it exists, although others come and go all the time."""

    def act() -> None:
        chance = random.Random(os.getpid())
        for _ in range(25):
            held = occupants.occupy(world.state, world.wanted())
            assert held.present == ()
            for item in world.wanted():
                os.lstat(item.path)
            time.sleep(chance.uniform(0, 0.002))
            for item in world.wanted():
                os.lstat(item.path)
            occupants.release(world.state, held)

    pids = [world.child(act) for _ in range(6)]
    assert [os.waitpid(pid, 0)[1] for pid in pids] == [0] * 6
    assert (world.left(), world.records()) == ([], [])


def test_a_lock_that_is_held_too_long_is_reported(world: World) -> None:
    """A stopped process that holds the lock makes others fail with a time-out, not hang."""

    def act() -> None:
        with occupants._locked(world.state, 1.0), pytest.raises(TimeoutError, match="lock"):
            occupants.clean(world.state, timeout=0.05)

    world.do(act)


def test_a_torn_last_line_is_ignored(world: World) -> None:
    """A record that ends in half a line, or holds lines of another shape, is read as far as it is whole."""

    def act() -> None:
        held = occupants.occupy(world.state, world.wanted())
        os.write(held.record_fd, b'{"op": "elsewhere"}\n[]\nnonsense\n{"op": "no')
        cleaned = occupants.release(world.state, held)
        assert len(cleaned.removed) == 3

    world.do(act)
    assert (world.left(), world.records()) == ([], [])


@pytest.mark.skipif(not os.path.exists("/usr/bin/git"), reason="needs git")
def test_git_works_with_its_commondir_occupied(world: World) -> None:
    """A `commondir` that holds a dot changes nothing for git."""

    def act() -> None:
        env = {"PATH": "/usr/bin:/bin", "HOME": str(world.work), "GIT_CONFIG_NOSYSTEM": "1"}
        git = ["git", "-c", "user.name=n", "-c", "user.email=e", "-C", str(world.work)]
        run = {"env": env, "check": True, "capture_output": True}
        subprocess.run([*git, "init", "-q"], **run)  # type: ignore[call-overload]
        held = occupants.occupy(world.state, [Occupant(str(world.work / ".git" / "commondir"), "file", b".")])
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], **run)  # type: ignore[call-overload]
        subprocess.run([*git, "status"], **run)  # type: ignore[call-overload]
        assert len(held.made) == 1
        occupants.release(world.state, held)
        subprocess.run([*git, "log"], **run)  # type: ignore[call-overload]

    world.do(act)

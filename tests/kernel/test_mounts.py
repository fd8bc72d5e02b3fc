"""Late mounts in a real bubblewrap, and the system call wrappers that they and others use."""

import errno
import json
import os
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

if sys.platform == "linux":
    from sandboxc.runtime import linux, mounts

    linux.load()  # an ordinary user in a child may not be able to read this interpreter's library

BWRAP = shutil.which("bwrap", path="/usr/bin:/bin:/usr/local/bin")
pytestmark = pytest.mark.skipif(sys.platform != "linux" or not BWRAP, reason="needs bubblewrap")

USERS = [0, 1000] if hasattr(os, "geteuid") and os.geteuid() == 0 else [None]
EXTRA = {
    "plain": [],
    "dev": ["--dev", "/dev"],
    "no-userns": ["--unshare-user", "--disable-userns"],
    "both": ["--dev", "/dev", "--unshare-user", "--disable-userns"],
}
TREE = ("file", "other", "dir", "dir/inside", "link", "way", "pin", "fifo", "hole")


class World:
    """A tree of one user, and a way to run a script in bubblewrap after late mounts."""

    def __init__(self, base: Path, uid: int | None) -> None:
        self.uid = uid
        self.base = base
        self.work = base / "work"
        self.work.mkdir()
        for name in ("dir", "pin", "hole"):
            (self.work / name).mkdir()
        for name in ("file", "other", "dir/inside", "pin/kept"):
            (self.work / name).write_text(f"content of {name}\n")
        (self.work / "link").symlink_to("other")
        (self.work / "way").symlink_to("dir")
        os.mkfifo(self.work / "fifo")
        if uid:
            for path in (base, self.work, *self.work.rglob("*")):
                os.chown(path, uid, uid, follow_symlinks=False)

    def at(self, name: str) -> str:
        return str(self.work / name)

    def as_user(self, act: Callable[[], Any]) -> Any:
        """Return what ``act`` returns, as JSON sees it, when a forked child of the user runs it."""
        read_end, write_end = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.close(read_end)
                if self.uid:
                    os.setgroups([])
                    os.setresgid(self.uid, self.uid, self.uid)
                    os.setresuid(self.uid, self.uid, self.uid)
                os.write(write_end, json.dumps(act()).encode())
            except BaseException as error:
                os.write(write_end, json.dumps({"raised": repr(error)}).encode())
            finally:
                os._exit(0)
        os.close(write_end)
        with os.fdopen(read_end, "rb") as pipe:
            answer = json.loads(pipe.read())
        os.waitpid(pid, 0)
        assert not (isinstance(answer, dict) and "raised" in answer), answer["raised"]
        return answer

    def run(
        self, steps: Sequence[mounts.Step], script: str, extra: Sequence[str] = (), *, host: str = ""
    ) -> tuple[str, int]:
        """Return what the script printed in the sandbox; or the failure of the steps, and its errno.

        ``host`` is a script that runs outside of the sandbox after the mounts and before the command.
        """

        def act() -> Any:
            guard = mounts.Guard(steps)
            process = self.start(["sh", "-c", script], extra, guard)
            try:
                guard.wait_mounted()
                if host:
                    subprocess.run(["sh", "-c", host], cwd=self.work, check=True)
                guard.release()
            except mounts.MountFailure as error:
                process.kill()
                return [f"{error} {process.communicate()[0].decode()}", error.errno]
            return [process.communicate()[0].decode(), 0]

        output, number = self.as_user(act)
        return output, number

    def start(self, command: list[str], extra: Sequence[str], guard: mounts.Guard) -> subprocess.Popen[bytes]:
        """Return a bubblewrap that waits for the guard."""
        argv = [str(BWRAP), "--ro-bind", "/", "/", "--bind", str(self.work), str(self.work)]
        argv += ["--unshare-all", "--die-with-parent", "--cap-drop", "ALL", "--proc", "/proc", *extra]
        argv += ["--chdir", str(self.work), "--info-fd", str(guard.info_fd)]
        argv += ["--block-fd", str(guard.block_fd), *command]
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=(guard.info_fd, guard.block_fd),
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
        )
        guard.started()
        return process


@pytest.fixture(params=USERS, ids=lambda uid: f"uid-{uid}")
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """A fresh tree below a directory that every user can reach."""
    base = Path("/var/tmp") / f"sandboxc-test-{os.urandom(6).hex()}"
    base.mkdir(mode=0o755)
    yield World(base, request.param)
    subprocess.run(["rm", "-rf", str(base)], check=True)


@pytest.mark.parametrize("extra", EXTRA.values(), ids=EXTRA)
def test_masks_and_pins_hold(world: World, extra: list[str]) -> None:
    """A masked file and directory, a pinned link and directory and a read-only node hold what they say."""
    steps: list[mounts.Step] = [
        ("private",),
        ("mask-file", world.at("file")),
        ("mask-dir", world.at("dir")),
        ("mask-file", world.at("fifo")),
        ("pin-link", world.at("link")),
        ("pin-dir", world.at("pin")),
        ("read-only", world.at("other")),
    ]
    script = """
        try() { if output=$("$@" 2>&1); then echo "$1 ok"; else echo "$1 no"; fi; }
        try cat file; try ls dir; try cat dir/inside; try cat link; try cat other
        try rm -f link; try mv link moved; try ln -sfn /etc link
        try mv pin moved; try touch pin/new; try mv pin/new pin/newer; try rm pin/newer
        try rm -f file; try mv other moved; try mv new-name file
        try chmod 600 file; try chmod 700 dir; try touch dir/new
        test -r file && echo readable; test -f file && echo regular
        try touch new; try rm new
        grep -c "$PWD" /proc/self/mountinfo
        readlink link; stat -c %a file dir
        try umount file; try unshare -Ur umount "$PWD/file"
    """
    output, number = world.run(steps, script, extra)
    assert number == 0, output
    assert output.split("\n") == [
        *("cat no", "ls no", "cat no", "cat ok", "cat ok"),
        *("rm no", "mv no", "ln no"),
        *("mv no", "touch ok", "mv ok", "rm ok"),
        *("rm no", "mv no", "mv no"),
        *("chmod no", "chmod no", "touch no"),
        "regular",
        *("touch ok", "rm ok"),
        "7",
        "other",
        *("0", "0"),
        *("umount no", "unshare no"),
        "",
    ]
    assert (world.work / "file").read_text() == "content of file\n"


def test_nothing_is_left_beside_the_mounts(world: World) -> None:
    """The place that masks come from is gone when the command runs, and the root looks as before."""
    steps: list[mounts.Step] = [("mask-file", world.at("file"))]
    output, _ = world.run(
        steps, "grep -c tmpfs.*nr_inodes=8 /proc/self/mountinfo; ls -d /usr; ls -A /.. | grep -cx usr"
    )
    assert output == "1\n/usr\n1\n"


@pytest.mark.skipif(USERS[0] != 0, reason="needs root")
@pytest.mark.parametrize("world", USERS[:1], indirect=True)
def test_later_mounts_of_the_host_do_not_arrive(world: World) -> None:
    """After `private` a mount that the host makes in the tree is not seen inside."""
    host = "mount -t tmpfs none hole && touch hole/arrived"
    try:
        output, number = world.run([("private",)], "ls hole", host=host)
    finally:
        subprocess.run(["umount", world.at("hole")], check=True)
    assert (output, number) == ("", 0)


@pytest.mark.parametrize(
    ("verb", "name", "number"),
    [
        ("mask-file", "absent", errno.ENOENT),
        ("mask-file", "dir", errno.ESTALE),
        ("mask-file", "link", errno.ESTALE),
        ("mask-file", "way/inside", errno.ELOOP),
        ("mask-dir", "file", errno.ESTALE),
        ("mask-dir", "way", errno.ESTALE),
        ("pin-link", "file", errno.ESTALE),
        ("pin-dir", "link", errno.ESTALE),
        ("read-only", "link", errno.ESTALE),
        ("mask-file", "../work/file", errno.EINVAL),
    ],
)
def test_a_node_that_is_not_what_was_planned_stops_the_run(world: World, verb: str, name: str, number: int) -> None:
    """A path that is absent, another kind of node, or behind a link is a failure that names it."""
    output, found = world.run([(verb, f"{world.work}/{name}")], "echo ran")
    assert found == number
    assert name in output


def test_the_very_node_can_be_asked_for(world: World) -> None:
    """A device and inode number are compared with the node's."""
    node = os.stat(world.at("file"))
    right: mounts.Step = ("mask-file", world.at("file"), node.st_dev, node.st_ino)
    assert world.run([right], "cat file 2>&1; echo ran")[0].endswith("denied\nran\n")
    wrong: mounts.Step = ("mask-file", world.at("file"), node.st_dev, node.st_ino + 1)
    assert world.run([wrong], "echo ran")[1] == errno.ESTALE


def test_many_masks_are_made_in_time(world: World) -> None:
    """Two thousand masks, far above what arguments allow, are made within the guard's own time-out, and all hold."""
    for index in range(2000):
        (world.work / "hole" / f"f{index}").write_text("secret\n")
    steps: list[mounts.Step] = [("mask-file", world.at(f"hole/f{index}")) for index in range(2000)]
    output, number = world.run(steps, "cat hole/* 2>&1 | grep -c secret$; ls hole | wc -l")
    assert (output.split(), number) == (["0", "2000"], 0)


def test_a_sandbox_that_is_gone_is_told(world: World) -> None:
    """A child that ended, or shares the caller's name space, is a failure and not a mount elsewhere."""

    def act() -> Any:
        numbers = []
        sleeper = subprocess.Popen(["sleep", "60"], env={"PATH": "/usr/bin:/bin"})
        for _ in range(2):
            try:
                mounts.late_mounts(sleeper.pid, [("mask-file", world.at("file"))], timeout=0.3)
            except mounts.MountFailure as error:
                numbers.append(error.errno)
            numbers.append(sleeper.wait())
        return numbers

    # Root keeps its capabilities, so it is waited for in vain; a user's process is in the same name space.
    first = errno.ETIMEDOUT if world.uid == 0 else errno.EINVAL
    assert world.as_user(act) == [first, -9, errno.ESRCH, -9]
    assert (world.work / "file").read_text() == "content of file\n"


def test_bubblewrap_that_cannot_start_is_told(world: World) -> None:
    """When bubblewrap ends before it makes a child, waiting for the mounts ends too."""

    def act() -> Any:
        guard = mounts.Guard([("private",)])
        process = world.start(["true"], ["--bind", "/no/such", "/no/such", "--no-such-option"], guard)
        process.communicate()
        try:
            guard.release()
        except mounts.MountFailure as error:
            return error.errno

    assert world.as_user(act) == errno.ESRCH


@pytest.mark.parametrize("when", ["abort", "failure"])
def test_no_command_runs_after_an_abort_or_a_failure(world: World, when: str) -> None:
    """Neither giving up nor a step that fails lets the command run, and no process is left."""

    def act() -> Any:
        steps: list[mounts.Step] = [("mask-file", world.at("absent"))] if when == "failure" else []
        guard = mounts.Guard(steps)
        process = world.start(["touch", world.at("ran")], [], guard)
        try:
            guard.wait_mounted()
            guard.abort()
            guard.abort()
        except mounts.MountFailure:
            pass
        process.communicate()  # returns when nothing holds the output any more
        return os.path.exists(world.at("ran"))

    assert world.as_user(act) is False


def sandboxes(world: World) -> list[str]:
    """Return the pids of the processes that have the world's path among their arguments."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if world.at("ran").encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
        except OSError:
            continue
    return found


def test_no_command_runs_when_the_caller_is_killed(world: World) -> None:
    """A caller that is killed with -9 before it releases leaves neither a run command nor a process."""
    for index in range(30):
        alive_read, alive_write = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.close(alive_read)
                if world.uid:
                    os.setgroups([])
                    os.setresgid(world.uid, world.uid, world.uid)
                    os.setresuid(world.uid, world.uid, world.uid)
                os.dup2(alive_write, 2)
                guard = mounts.Guard([("mask-file", world.at("file"))])
                process = world.start(["touch", world.at("ran")], [], guard)
                if index % 2:
                    guard.wait_mounted()
                os.kill(os.getpid(), 9)
                process.wait()
            finally:
                os._exit(0)
        os.close(alive_write)
        assert os.waitpid(pid, 0)[1] == 9
        with os.fdopen(alive_read, "rb") as pipe:
            pipe.read()  # the helper holds it until it is gone
    end = time.monotonic() + 5
    while left := sandboxes(world):
        assert time.monotonic() < end, left
        time.sleep(0.01)
    assert not os.path.exists(world.at("ran"))


def test_steps_of_another_shape_are_refused() -> None:
    """An unknown verb, a missing path or a half identity does nothing at all."""
    wrong: list[Any] = [("erase", "/x"), ("mask-file",), ("private", "/x"), ("mask-dir", "/x", 1), (1, "/x")]
    for step in (*wrong, ("mask-dir", "/x", "1", "2")):
        with pytest.raises(ValueError, match="no such mount step"):
            mounts.late_mounts(os.getpid(), [step])


def test_links_are_not_followed_by_either_way_of_opening(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """openat2 and the walk that replaces it agree on what they open, refuse and return for a last link."""
    (world.work / "f").touch()
    (world.work / "last").symlink_to("f")
    (world.work / "here").symlink_to(".")
    at = os.open(world.work, os.O_RDONLY)
    outcomes = []
    for works in (True, False):
        monkeypatch.setattr(linux, "_openat2_works", works)
        outcome: list[Any] = []
        for path, root in (
            (f"{world.work}/f", None),
            (f"{world.work}//./f", None),
            ("/", None),
            ("f", at),
            (".", at),
            (f"{world.work}/last", None),
            (f"{world.work}/here/f", None),
            ("here/f", at),
            ("../secret/f", at),
            ("/etc", at),
            ("f", None),
            ("", None),
            ("absent", at),
        ):
            try:
                fd = linux.open_no_follow(path, root=root)
                outcome.append(stat.S_IFMT(os.fstat(fd).st_mode))
                os.close(fd)
            except OSError as error:
                outcome.append(errno.ELOOP if error.errno == errno.ENOTDIR else error.errno)
        outcomes.append(outcome)
    os.close(at)
    file, directory, link = stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK
    refused = [errno.ELOOP, errno.ELOOP, errno.EINVAL, errno.EINVAL, errno.EINVAL, errno.EINVAL, errno.ENOENT]
    expected = [file, file, directory, file, directory, link, *refused]
    assert outcomes == [expected, expected]


def test_closing_leaves_what_is_named() -> None:
    """Every descriptor but the named ones is closed, in gaps and above."""
    pid = os.fork()
    if pid == 0:
        try:
            fds = [os.open("/", os.O_RDONLY) for _ in range(20)]
            kept = {0, 1, 2, fds[3], fds[11]}
            linux.close_others(kept)
            listing = os.open("/proc/self/fd", os.O_RDONLY)
            names = {int(name) for name in os.listdir(listing)}
            os._exit(0 if kept <= names and len(names) <= len(kept) + 2 else 1)
        except BaseException:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_process_is_signalled_through_its_descriptor() -> None:
    """A pidfd reaches its own process only; an unknown number is ESRCH."""
    child = subprocess.Popen(["sleep", "60"])
    fd = linux.pidfd_open(child.pid)
    linux.pidfd_send_signal(fd, 9)
    assert child.wait() == -9
    with pytest.raises(ProcessLookupError):
        linux.pidfd_send_signal(fd, 9)
    os.close(fd)


def test_errors_name_the_call_and_its_object() -> None:
    """A wrapper's error carries the errno, the call and what it was about."""
    with pytest.raises(OSError, match="landlock_add_rule port 80") as caught:
        linux.landlock_add_port(0, 1, 80)
    assert caught.value.errno in (errno.EBADFD, errno.EBADF)
    with pytest.raises(OSError, match=r"No such file.*/no/such"):
        linux.open_no_follow("/no/such")

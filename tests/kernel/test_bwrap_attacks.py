"""Ways around a bubblewrap sandbox, tried for real; each must fail, or be a limit that the table publishes."""

import fcntl
import json
import os
import signal
import subprocess
import tempfile
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import _bwrap_lab as lab
import pytest

pytestmark = pytest.mark.skipif(not lab.usable(), reason="needs a working bubblewrap")

BARE = """
mode: workspace-write
protected: {preset: none, reason: test}
hidden: {preset: none, reason: test}
"""
KEYS = BARE + 'entries:\n  - {path: "B/w/sub/keys", access: deny}\n  - {path: "B/w/sub/fixed", access: read}\n'
GIT = "mode: workspace-write\nhidden: {preset: none, reason: test}\n"


@pytest.fixture(params=lab.USERS, ids=lambda uid: f"uid{uid}" if uid is not None else "self")
def world(request: pytest.FixtureRequest) -> Iterator[lab.Lab]:
    """A scratch world for each user that this machine can test as."""
    with tempfile.TemporaryDirectory(prefix="sbx") as base:
        os.chmod(base, 0o755)
        yield lab.Lab(Path(os.path.realpath(base)), request.param)


def repository(world: lab.Lab) -> None:
    """Make the workspace a git repository with one commit."""
    env = {"HOME": str(world.home), "PATH": lab.SEARCH, "GIT_CONFIG_NOSYSTEM": "1"}
    script = (
        "git init -q && git config user.email a@example.org && git config user.name a"
        " && git commit -q --allow-empty -m one"
    )
    world.as_user(lambda: subprocess.run(["sh", "-c", script], cwd=world.w, env=env, check=True).returncode)


# -- moving things from under a rule ----------------------------------------------------------------------------


def test_ancestor_cannot_be_moved(world: lab.Lab) -> None:
    """A directory above a denied one cannot be renamed in one run so that the next would read it."""
    world.make("w/sub/keys/id", "w/sub/fixed", "w/free/f")
    found = world.tries(
        KEYS,
        ("move", world.at("w/sub"), world.at("w/gone")),
        ("move", world.at("w/sub/keys"), world.at("w/sub/gone")),
        ("move", world.at("w/free"), world.at("w/freed")),
    )
    assert found == ["EBUSY", "EBUSY", "ok"]
    assert world.tries(KEYS, ("read", world.at("w/sub/keys/id"))) == ["EACCES"]


def test_nothing_is_written_into_a_denied_directory(world: lab.Lab) -> None:
    """A denied directory takes no new names, gives no listing and keeps its mode."""
    world.make("w/sub/keys/id", "w/sub/fixed")
    keys = world.at("w/sub/keys")
    found = world.tries(
        KEYS, ("create", keys + "/new"), ("mkdir", keys + "/dir"), ("list", keys), ("chmod", keys), ("delete", keys)
    )
    assert found[0] in ("EACCES", "EROFS") and found[1] in ("EACCES", "EROFS")
    assert found[2:] == ["EACCES", "EROFS", "EBUSY"]


def test_hard_links(world: lab.Lab) -> None:
    """Another name of a denied file inside the workspace is denied too, and no new name can be made."""
    world.make("w/sub/keys/id", "w/sub/fixed", "w/secret")
    os.link(world.at("w/secret"), world.at("w/other-name"))
    policy = KEYS + '  - {path: "B/w/secret", access: deny}\n'
    found = world.tries(
        policy,
        ("read", world.at("w/other-name")),
        ("write", world.at("w/other-name")),
        ("link", world.at("w/secret"), world.at("w/third")),
        ("link", world.at("w/sub/fixed"), world.at("w/third")),
    )
    assert found == ["EACCES", "EACCES", "EXDEV", "EXDEV"]


def test_other_views_of_the_same_files(world: lab.Lab) -> None:
    """No path through /proc leads behind a mask."""
    world.make("w/sub/keys/id", "w/sub/fixed")
    keys = world.at("w/sub/keys/id")
    roots = ("/proc/self/root", "/proc/1/root", "/proc/self/cwd/../../../../../../..", "/proc/thread-self/root")
    found = world.tries(KEYS, *(("read", root + keys) for root in roots))
    assert "ok" not in found


def test_links_on_the_way_cannot_be_replaced(world: lab.Lab) -> None:
    """A link that a rule is spelled through is pinned: it still leads on, and cannot be unlinked or renamed."""
    world.make("w/real/keys/id", "w/way->real")
    policy = BARE + 'entries:\n  - {path: "B/w/way/keys", access: deny}\n'
    way = world.at("w/way")
    found = world.tries(
        policy, ("delete", way), ("rename", way), ("list", way), ("list", way + "/keys"), ("rename", world.at("w/real"))
    )
    assert found == ["EBUSY", "EBUSY", "ok", "EACCES", "EBUSY"]


# -- git ----------------------------------------------------------------------------------------------------


def test_commit_works_and_hooks_cannot_be_planted(world: lab.Lab) -> None:
    """Under the standard names git commits, and neither a hook nor a moved `.git` nor its configuration gets in."""
    repository(world)
    script = (
        "echo x > f && git add f && git -c gc.auto=0 commit -qm two && git log --oneline | wc -l;"
        "echo evil > .git/hooks/pre-commit; mv .git .git2; mkdir .git3; echo evil >> .git/config;"
        "echo /tmp > .git/commondir; git config x.y z"
    )
    result = world.run(GIT, ["sh", "-c", script], env={"HOME": str(world.home)})
    assert result.out.strip() == "2", result
    assert not os.path.exists(world.at("w/.git/hooks/pre-commit"))
    assert not os.path.exists(world.at("w/.git2")) and "evil" not in Path(world.at("w/.git/config")).read_text()
    assert result.occupied == [world.at("w/.git/commondir")]
    assert not os.path.exists(world.at("w/.git/commondir"))


# -- absent names -------------------------------------------------------------------------------------------


def test_absent_names_are_held_for_the_run(world: lab.Lab) -> None:
    """An absent name of an entry can be neither made nor moved into, and nothing is left of what held it."""
    world.make("w/free/f")
    policy = BARE + (
        'entries:\n  - {path: "B/w/new/deep/secret", access: deny}\n  - {path: "B/w/.env", access: deny}\n'
        '  - {path: "B/w/vendor/", access: read}\n  - {path: "B/home/elsewhere", access: deny}\n'
    )
    found = world.tries(
        policy,
        ("mkdir", world.at("w/new")),
        ("mkdir", world.at("w/new/deep")),
        ("move", world.at("w/free"), world.at("w/new")),
        ("plant", world.at("w/.env")),
        ("delete", world.at("w/.env")),
        ("create", world.at("w/vendor/x")),
        ("list", world.at("w/vendor")),
        ("mkdir", world.at("home/elsewhere")),
    )
    assert found == ["EEXIST", "EROFS", "EBUSY", "EROFS", "EBUSY", "EROFS", "ok", "EROFS"]
    assert sorted(os.listdir(world.w)) == ["free"] and os.listdir(world.home) == []


def test_reported_absence_is_a_loss(world: lab.Lab) -> None:
    """With `absent: report` nothing is made, and the plan says that the name is not held."""
    policy = BARE + 'entries:\n  - {path: "B/w/.env", access: deny, absent: report}\n'
    result = world.run(policy, ["true"])
    assert result.started and result.occupied == []
    assert result.losses == [["SBX433", world.at("w/.env")]]


@pytest.mark.parametrize("first_ends", [True, False], ids=["first-ends-first", "second-ends-first"])
def test_two_runs_share_an_occupant(world: lab.Lab, first_ends: bool) -> None:
    """Whichever of two runs ends first leaves the name held for the other; the last removes it."""
    policy = BARE + 'entries:\n  - {path: "B/w/.env", access: deny}\n'

    def start(name: str) -> tuple[int, int]:
        world.make(f"w/hold-{name}")
        script = (
            f"touch started-{name}; while [ -e hold-{name} ]; do sleep 0.02; done;"
            "rm -f .env; echo x > .env; [ $? = 0 ] && echo made; true"
        )
        read_end, write_end = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.write(write_end, json.dumps(list(world.run(policy, ["sh", "-c", script]))).encode())
            finally:
                os._exit(0)
        os.close(write_end)
        lab.wait_for(world.at(f"w/started-{name}"))
        return pid, read_end

    def finish(name: str, run: tuple[int, int]) -> None:
        os.unlink(world.at(f"w/hold-{name}"))
        with os.fdopen(run[1]) as pipe:
            result = lab.Result(*json.load(pipe))
        os.waitpid(run[0], 0)
        assert result.started and result.out == "" and result.occupied == [world.at("w/.env")], result

    runs = {name: start(name) for name in ("one", "two")}
    order = ("one", "two") if first_ends else ("two", "one")
    finish(order[0], runs[order[0]])
    assert os.path.exists(world.at("w/.env"))
    finish(order[1], runs[order[1]])
    assert not os.path.exists(world.at("w/.env"))


def test_kill_leaves_what_the_next_run_removes(world: lab.Lab) -> None:
    """After kill -9 of the runner the sandbox is dead, and the next run removes placeholder and temp directory."""
    policy = BARE + 'temp: private\nentries:\n  - {path: "B/w/.env", access: deny}\n'
    world.temp = world.at("runs/r00000000000a")
    pid = os.fork()
    if pid == 0:
        try:
            os.setpgid(0, 0)
            script = f"echo $$ > {world.at('w')}/pid; touch {world.temp}/x; touch started; sleep 60"
            world.run(policy, ["sh", "-c", script])
        finally:
            os._exit(0)
    lab.wait_for(world.at("w/started"))
    victims = lab.children(pid)  # the process that called run_bwrap
    for victim in victims:
        os.kill(victim, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert os.path.exists(world.at("w/.env"))
    time.sleep(0.3)
    world.temp = world.at("runs/r00000000000b")
    result = world.run(BARE, ["true"])
    assert result.started
    assert not os.path.exists(world.at("w/.env"))
    assert os.listdir(world.runs) == []


# -- races --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("late", [48, 1], ids=["words", "late"])
@pytest.mark.parametrize("what", ["w/sub", "w/sub/keys", "w/sub/fixed"])
def test_swapped_for_a_link_between_look_and_mount(world: lab.Lab, what: str, late: int) -> None:
    """A source that became a symbolic link since the survey starts nothing: the plan is stale."""
    world.make("w/sub/keys/id", "w/sub/fixed/f", "home/other/f")
    world.late = late

    def swap(plan: object) -> None:
        os.rename(world.at(what), world.at("home/moved"))
        os.symlink(world.at("home/other"), world.at(what))

    world.before = swap
    result = world.run(KEYS, ["touch", "ran"])
    assert (result.code, result.started, result.stage) == (125, False, "stale"), result
    assert not os.path.exists(world.at("w/ran")) and os.listdir(world.at("home/other")) == ["f"]


def test_replaced_between_look_and_mount(world: lab.Lab) -> None:
    """Another file under the same name since the survey starts nothing, and a vanished one is not made."""
    world.make("w/sub/keys/id", "w/sub/fixed", "w/other")
    world.before = lambda plan: os.replace(world.at("w/other"), world.at("w/sub/fixed"))
    assert world.run(KEYS, ["true"]).stage == "stale"
    policy = KEYS + '  - {path: "B/w/secret", access: deny}\n'
    world.make("w/secret")
    world.before = lambda plan: os.unlink(world.at("w/secret"))
    assert world.run(policy, ["true"]).stage == "stale"
    assert not os.path.exists(world.at("w/secret"))


def test_outside_process_replaces_a_masked_file(world: lab.Lab) -> None:
    """The published limit SBX437: a mask on a file ends when an outside process replaces the name."""
    world.make("w/secret", "home/fresh")
    policy = BARE + 'entries:\n  - {path: "B/w/secret", access: deny}\n'
    pid = os.fork()
    if pid == 0:
        try:
            lab.wait_for(world.at("w/started"))
            os.replace(world.at("home/fresh"), world.at("w/secret"))
            Path(world.at("w/go")).touch()
        finally:
            os._exit(0)
    script = "cat secret 2>/dev/null; touch started; while [ ! -e go ]; do sleep 0.02; done; cat secret"
    result = world.run(policy, ["sh", "-c", script])
    os.waitpid(pid, 0)
    assert result.out == "home/fresh\n"


# -- privileges ---------------------------------------------------------------------------------------------


def test_mounts_cannot_be_changed_from_inside(world: lab.Lab) -> None:
    """Remounting, unmounting, new namespaces and device nodes are refused, as root too."""
    world.make("w/sub/keys/id", "w/sub/fixed")
    keys = world.at("w/sub/keys")
    script = (
        f"mount -o remount,rw,bind {keys}; umount {keys}; umount -l {keys}; mount -t tmpfs x {keys};"
        f"unshare -rm sh -c 'umount -l {keys}; cat {keys}/id'; mknod null c 1 3; mknod {world.at('w')}/sda b 8 0;"
        f"cat {keys}/id; echo 1 > /proc/sys/kernel/core_pattern; echo x > /dev/foo; mkdir /dev/sub; echo done"
    )
    result = world.run(KEYS, ["sh", "-c", script])
    assert result.out == "done\n", result
    assert not os.path.exists(world.at("w/null")) and not os.path.exists(world.at("w/sda"))


def test_views(world: lab.Lab) -> None:
    """/dev has its usual nodes and takes no new ones, /dev/shm is private, /proc shows the run's own processes."""
    script = (
        "echo x > /dev/null && head -c 1 /dev/urandom | wc -c && echo y > /dev/shm/mine && ls /dev/shm;"
        "ls /proc | grep -c '^[0-9]'; [ -w /proc/sys/kernel/hostname ] || echo fixed"
    )
    result = world.run(BARE + 'entries:\n  - {path: "/", access: write}\n', ["sh", "-c", script])
    one, shm, processes, fixed = result.out.split()
    assert (one, shm, fixed) == ("1", "mine", "fixed") and int(processes) < 8
    assert not os.path.exists("/dev/shm/mine")


def test_terminal_injection_is_refused(world: lab.Lab) -> None:
    """TIOCSTI is refused by the filter (EPERM on anything), while other ioctls are asked of the device (ENOTTY)."""
    script = (
        "import fcntl, errno\nf = open('/dev/null')\nfor code in (0x5412, 0x541C, 0x5401):\n"
        "  try: fcntl.ioctl(f, code, b'x' * 64)\n  except OSError as e: print(errno.errorcode[e.errno])\n"
    )
    result = world.run(BARE, [lab.PYTHON, "-c", script])
    assert result.out.split() == ["EPERM", "EPERM", "ENOTTY"], result


def test_the_controlling_terminal(world: lab.Lab) -> None:
    """/dev/tty works, and nothing can be typed into it."""
    kept: list[int] = []

    def take(plan: object) -> None:
        master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
        kept.extend((master, slave))

    world.before = take
    script = (
        "import errno, fcntl\nwith open('/dev/tty', 'w') as f:\n  print(f.write('x'), f.isatty())\n"
        "  try: fcntl.ioctl(f, 0x5412, b'x')\n  except OSError as e: print(errno.errorcode[e.errno])\n"
    )
    result = world.run(BARE, [lab.PYTHON, "-c", script])
    assert result.out.split() == ["1", "True", "EPERM"], result


def test_no_descriptor_is_inherited(world: lab.Lab) -> None:
    """A directory descriptor of the runner does not reach the command, and one as standard input is refused."""
    world.make("w/sub/keys/id", "w/sub/fixed")
    leaked = os.open(world.at("w/sub/keys"), os.O_RDONLY)
    os.set_inheritable(leaked, True)
    try:
        result = world.run(KEYS, ["sh", "-c", "ls /proc/self/fd | wc -l; ls -l /proc/self/fd"])
        assert result.out.split()[0] == "4", result.out  # 0, 1, 2 and the listing itself

        def act() -> object:
            os.dup2(leaked, 0)
            return None

        world.before = lambda plan: act()
        assert world.run(KEYS, ["true"]).stage == "bind"
    finally:
        os.close(leaked)


def test_the_inner_bwrap_process_gives_nothing_away(world: lab.Lab) -> None:
    """bwrap's process in the sandbox is filtered too, and nothing is read from the descriptor that it holds."""
    world.make("home/precious/f")
    policy = BARE + 'entries:\n  - {path: "B/w/.env", access: deny}\n'
    victim = os.lstat(world.at("home/precious"))
    line = {
        "op": "node",
        "path": world.at("home/precious"),
        "kind": "temporary",
        "dev": victim.st_dev,
        "ino": victim.st_ino,
        "content": "",
    }
    script = (
        "import glob, os\n"
        "print([l.split()[1] for l in open('/proc/1/status') if l.startswith('Seccomp:')][0])\n"
        "for name in glob.glob('/proc/1/fd/*'):\n"
        "  if '/runs/' in os.readlink(name):\n"
        f"    fd = os.open(name, os.O_RDWR | os.O_APPEND); os.write(fd, {json.dumps(line).encode()!r} + b'\\n')\n"
        "    os.chmod(name, 0); print('held')\n"
    )
    result = world.run(policy, [lab.PYTHON, "-c", script])
    assert result.out.split() == ["2", "held"], result
    assert world.run(policy, ["true"]).started
    assert os.path.exists(world.at("home/precious/f"))
    assert not os.path.exists(world.at("w/.env")) and os.listdir(world.state / "runs") == []


def test_loader_variables_do_not_reach_bwrap(world: lab.Lab) -> None:
    """A library that the environment names is loaded by the command, not by bwrap, which is not confined."""
    result = world.run(BARE, ["true"], env={"LD_PRELOAD": world.at("w/planted.so")})
    assert result.code == 0 and result.err.count("planted.so") == 1, result.err
    assert world.run(BARE, ["sh", "-c", "echo $LD_PRELOAD"], env={"LD_PRELOAD": "x.so"}).out == "x.so\n"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root")
def test_an_absent_name_where_the_user_cannot_write_needs_no_occupant() -> None:
    """In a directory of another owner nothing can be occupied, and nothing can be made from inside either."""
    with tempfile.TemporaryDirectory(prefix="sbx") as base:
        os.chmod(base, 0o755)
        world = lab.Lab(Path(os.path.realpath(base)), 1000)
        world.make("w/theirs/")
        os.chown(world.at("w/theirs"), 0, 0)
        policy = BARE + 'entries:\n  - {path: "B/w/theirs/.env", access: deny}\n'
        result = world.run(policy, ["sh", "-c", "echo x > theirs/.env"])
        assert result.started and result.code != 0 and result.occupied == []


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root")
def test_root_and_a_workspace_of_another_owner() -> None:
    """As root, a workspace that only its other owner may write to is refused with the reason (design rule 13)."""
    with tempfile.TemporaryDirectory(prefix="sbx") as base:
        os.chmod(base, 0o755)
        world = lab.Lab(Path(os.path.realpath(base)), None)
        os.chown(world.w, 1000, 1000)
        result = world.run(BARE, ["true"])
        assert (result.code, result.stage) == (125, "owner") and "user 1000" in result.message

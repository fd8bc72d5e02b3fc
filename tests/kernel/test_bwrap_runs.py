"""Sockets, network, exit codes, signals and sizes of runs under bubblewrap."""

import os
import signal
import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import _bwrap_lab as lab
import pytest

from tests.kernel._within import within

pytestmark = pytest.mark.skipif(not lab.usable(), reason="needs a working bubblewrap")

BARE = """
mode: workspace-write
protected: {preset: none, reason: test}
hidden: {preset: none, reason: test}
"""


@pytest.fixture(params=lab.USERS, ids=lambda uid: f"uid{uid}" if uid is not None else "self")
def world(request: pytest.FixtureRequest) -> Iterator[lab.Lab]:
    """A scratch world for each user that this machine can test as."""
    with tempfile.TemporaryDirectory(prefix="sbx") as base:
        os.chmod(base, 0o755)
        yield lab.Lab(Path(os.path.realpath(base)), request.param)


# -- sockets and network ------------------------------------------------------------------------------------


def test_sockets(world: lab.Lab) -> None:
    """Sockets that exist cannot be connected to unless an entry opens them; new ones work in writable places."""
    names = ("w/live", "home/live", "home/shut/live", "home/shut/opened")
    world.make("home/shut/", "w/d/")
    servers = []
    for name in names:
        server = socket.socket(socket.AF_UNIX)
        server.bind(world.at(name))
        server.listen()
        os.chmod(world.at(name), 0o777)
        servers.append(server)
    world.own()
    policy = BARE + (
        'entries:\n  - {path: "B/home/shut", access: deny}\n  - {socket: "B/home/shut/opened", access: connect}\n'
    )
    try:
        found = world.tries(
            policy,
            *(("connect", world.at(name)) for name in names),
            ("bind", world.at("w/d/new")),
            ("bind", world.at("home/new")),
        )
    finally:
        for server in servers:
            server.close()
    assert found[:2] == ["EACCES", "EACCES"]
    assert found[2] in ("EACCES", "ENOENT") and found[3:] == ["ok", "ok", "EROFS"]


@pytest.mark.parametrize("mode", ["deny", "loopback", "allow-all"])
def test_network(world: lab.Lab, mode: str) -> None:
    """Host loopback and abstract sockets of outside processes are out of reach; the sandbox has its own loopback."""
    outer = socket.create_server(("127.0.0.1", 0))
    abstract = socket.socket(socket.AF_UNIX)
    name = f"\0sandboxc-test-{os.getpid()}"
    abstract.bind(name)
    abstract.listen()
    script = (
        "import socket, sys\n"
        "def reach(f, a):\n"
        "  s = socket.socket(f); s.settimeout(2)\n"
        "  try: s.connect(a); return 'ok'\n"
        "  except OSError as e: return 'no'\n"
        "own = socket.create_server(('127.0.0.1', 0))\n"
        f"mine = socket.socket(socket.AF_UNIX); mine.bind('\\0own'); mine.listen()\n"
        f"print(reach(socket.AF_INET, ('127.0.0.1', {outer.getsockname()[1]})), "
        "reach(socket.AF_INET, own.getsockname()),"
        f"reach(socket.AF_UNIX, {name!r}), reach(socket.AF_UNIX, '\\0own'))\n"
        "for family in (17, 40):\n"
        "  try: socket.socket(family, socket.SOCK_RAW); print('made')\n"
        "  except OSError: print('refused')\n"
    )
    try:
        result = world.run(BARE + f"network: {mode}\n", [lab.PYTHON, "-c", script])
    finally:
        outer.close()
        abstract.close()
    host = "ok" if mode == "allow-all" else "no"
    other = "ok" if mode == "allow-all" and lab.ABI < 6 else "no"  # without scopes a loss of the target
    assert result.out.split() == [host, "ok", other, "ok", "refused", "refused"], result


# -- how runs end -------------------------------------------------------------------------------------------


def test_exit_codes(world: lab.Lab) -> None:
    """The command's own code comes through; 127 and 126 as from a shell; 125 where nothing ran."""
    world.make("w/plain", "w/broken")
    Path(world.at("w/broken")).write_text("#!/no/such/interpreter\n")
    os.chmod(world.at("w/broken"), 0o755)
    codes = [
        world.run(BARE, command)[:3]
        for command in (
            ["sh", "-c", "exit 3"],
            ["no-such-program"],
            ["./plain"],
            ["./broken"],
            ["sh", "-c", "kill -9 $$"],
        )
    ]
    assert codes == [
        (3, True, ""),
        (127, False, "lookup"),
        (126, False, "lookup"),
        (126, False, "exec"),
        (137, True, ""),
    ]
    nowhere = world.run(BARE, ["true"], cwd=world.at("nowhere"))
    assert nowhere[:2] == (125, False) and nowhere.stage in ("cwd", "setup")


def test_ignored_child_signals(world: lab.Lab) -> None:
    """The exit code comes through where the caller has SIGCHLD ignored, so that waiting tells nothing."""

    def ignore(plan: object) -> None:  # in the process that runs the command
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)

    world.before = ignore
    assert world.run(BARE, ["sh", "-c", "exit 3"])[:2] == (3, True)


def test_signals_reach_the_command(world: lab.Lab) -> None:
    """SIGTERM to the runner is handled by the command, whose exit code comes through."""
    pid = os.fork()
    if pid == 0:
        try:
            lab.wait_for(world.at("w/started"))
            for child in lab.children(os.getppid()):
                if child != os.getpid():
                    os.kill(child, signal.SIGTERM)
        finally:
            os._exit(0)
    script = "trap 'exit 9' TERM; touch started; while :; do sleep 0.02; done"
    result = world.run(BARE, ["sh", "-c", script])
    os.waitpid(pid, 0)
    assert (result.code, result.started) == (9, True)


def test_nothing_outlives_the_run(world: lab.Lab) -> None:
    """What the command left running is dead when the run has ended."""
    script = "(setsid sh -c 'while :; do date +%s%N > alive; sleep 0.01; done' &) ; while [ ! -s alive ]; do :; done"
    assert world.run(BARE, ["sh", "-c", script]).code == 0
    before = Path(world.at("w/alive")).read_text()
    time.sleep(0.2)
    assert Path(world.at("w/alive")).read_text() == before


def test_private_temp(world: lab.Lab) -> None:
    """The private temp directory works, other runs' are out of sight, and it is gone afterwards."""
    world.make("runs/other/f")
    os.chmod(world.runs, 0o700)
    world.temp = world.at("runs/r00000000000a")
    found = world.tries(
        BARE + "temp: private\n",
        ("create", world.temp + "/x"),
        ("list", str(world.runs)),
        ("list", world.at("runs/other")),
        ("bind", world.temp + "/s"),
    )
    assert found[0] == "ok" and found[1] == "EACCES" and found[2] != "ok" and found[3] == "ok"
    assert os.listdir(world.runs) == ["other"]


def test_many_places(world: lab.Lab) -> None:
    """260 worktrees with three protected names each and 130 denied files start, quickly, and hold."""
    trees = [f"w/t{n}" for n in range(260)]
    for tree in trees:
        for name in (".git/hooks/", ".git/config", ".envrc"):
            path = Path(world.at(f"{tree}/{name}"))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.mkdir() if name.endswith("/") else path.write_text("x")
    denied = [f"home/{'x' * 60}/secret-{n:03}" for n in range(130)]
    world.make(*denied)
    entries = "".join(
        f'  - {{path: "B/{tree}/{name}", access: read}}\n'
        for tree in trees
        for name in (".git/hooks", ".git/config", ".envrc")
    )
    entries += "".join(f'  - {{path: "B/{path}", access: deny}}\n' for path in denied)
    with within(300):
        found = world.tries(
            BARE + "entries:\n" + entries,
            ("create", world.at("w/t7/.git/hooks/x")),
            ("rename", world.at("w/t259/.git")),
            ("write", world.at("w/t0/.envrc")),
            ("create", world.at("w/t0/.git/ok")),
            ("read", world.at(denied[77])),
        )
    assert found == ["EROFS", "EBUSY", "EROFS", "ok", "EACCES"]

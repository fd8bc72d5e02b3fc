"""`sandboxc run` from outside: odd environments, the record, odd command lines, sockets that come and go."""

import json
import os
import socket
import subprocess
from pathlib import Path

import pytest

from tests._run_world import LINUX, PYTHON, USERS, World

pytestmark = pytest.mark.skipif(not LINUX, reason="needs Linux and the system's Python")

POLICY = "workspace-write"


# -- odd environments -------------------------------------------------------------------------------------------------


def test_no_home(run_world: World) -> None:
    """Without HOME the account's home counts."""
    env = {name: value for name, value in run_world.environment().items() if name != "HOME"}
    ran = run_world.run("read-only", "true", env=env)
    assert ran.code == 0 or (ran.code == 125 and "SBX723" in ran.err), ran.err  # an account without a home


#: Root can write to the others, so for it they are homes of its own.
HOMES = [
    (uid, home) for uid in USERS for home in ("/nonexistent", "/", "/dev/null", "/proc")[: None if uid != 0 else 1]
]


@pytest.mark.parametrize(("uid", "home"), HOMES, indirect=["uid"])
def test_a_home_that_cannot_be_written(run_world: World, home: str) -> None:
    """Accounts of services and containers have no home of their own: a run works all the same, and cleans up."""
    env = run_world.environment(HOME=home)
    for policy in ("read-only", POLICY):
        assert run_world.ok(policy, "echo", "ran", env=env).out == "ran\n"
    run_world.ok(POLICY, "sh", "-c", 'echo x > "$TMPDIR/f" && echo y > made', env=env)
    assert not os.path.exists("/nonexistent")
    records = Path(f"/var/tmp/sandboxc-{os.getuid() if run_world.uid is None else run_world.uid}/runs")
    assert not records.exists() or not list(records.iterdir())


def test_relative_home_is_refused(run_world: World) -> None:
    """A HOME that is not absolute is an error with a code."""
    ran = run_world.run(POLICY, "true", env=run_world.environment(HOME="home"))
    assert ran.code == 125
    assert "SBX721" in ran.err


def test_workspace_is_the_home(run_world: World) -> None:
    """Running in the home directory is refused, since the whole home would be writable."""
    ran = run_world.run(POLICY, "true", cwd=run_world.home)
    assert ran.code == 125
    assert "SBX722" in ran.err


def test_tmpdir_is_the_home(run_world: World) -> None:
    """TMPDIR=HOME opens nothing under a private temp."""
    env = run_world.environment(TMPDIR=str(run_world.home))
    run_world.refused(POLICY, "sh", "-c", "echo x > ~/made", env=env)
    ran = run_world.ok(POLICY, "sh", "-c", "echo $TMPDIR", env=env)
    assert ran.out.strip() != str(run_world.home)


def test_no_path(run_world: World) -> None:
    """Without PATH, and with an empty one, commands of the system's directories are found, or named by path."""
    without = {name: value for name, value in run_world.environment().items() if name != "PATH"}
    for env in (without, {**without, "PATH": ""}):
        words = run_world.words(POLICY, ["/usr/bin/true"])
        if run_world.uid:
            words[0] = "/usr/bin/setpriv"
        done = subprocess.run(words, cwd=run_world.project, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def test_a_workspace_with_an_odd_name(run_world: World) -> None:
    """Blanks, quotes, brackets, a backslash, a newline-free control-free Unicode name: the run starts there."""
    name = "two  blanks 'quote\" [x] {y} $HOME \\n é – 日本"
    run_world.write(f"{name}/f", "content\n")
    ran = run_world.ok(POLICY, "sh", "-c", "cat f; pwd; echo x > g", cwd=run_world.base / name)
    assert ran.out == f"content\n{run_world.base / name}\n"


def test_a_directory_reached_through_a_link(run_world: World) -> None:
    """The workspace of a linked directory is the physical one."""
    (run_world.base / "link").symlink_to("project")
    ran = run_world.ok(POLICY, "sh", "-c", "echo x > made; pwd -P", options=("--cwd", str(run_world.base / "link")))
    assert ran.out.strip() == str(run_world.project)
    assert (run_world.project / "made").exists()


def test_a_directory_that_is_gone(run_world: World) -> None:
    """A current directory that was removed ends with 125 and a code."""
    gone = run_world.base / "gone"
    gone.mkdir()
    run_world.own()
    words = run_world.words(POLICY, ["true"])
    done = subprocess.run(
        ["sh", "-c", f'cd {gone} && rmdir {gone} && exec "$@"', "sh", *words],
        env=run_world.environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 125, done.stderr
    assert "Traceback" not in done.stderr


def test_cwd_below_the_workspace(run_world: World) -> None:
    """With a bound workspace a run may start below it, and above it where that is readable."""
    run_world.write("project/sub/f", "x\n")
    bind = ("--bind", f"workspace={run_world.project}")
    run_world.ok(POLICY, "sh", "-c", "echo y > ../made", options=bind, cwd=run_world.project / "sub")
    run_world.ok(POLICY, "sh", "-c", "echo y > project/other", options=bind, cwd=run_world.base)
    run_world.refused(POLICY, "sh", "-c", "echo y > made", options=bind, cwd=run_world.base)


def test_a_closed_current_directory(run_world: World) -> None:
    """A directory that the policy denies cannot be started in: 125, with what to do.

    Changing into one is a standing limit of Landlock (SBX460): there the command starts, and cannot list it.
    """
    if run_world.target == "landlock":
        ran = run_world.ok("log-investigation", "true", report=True)
        assert "SBX460" in json.dumps(ran.record)
        run_world.refused("log-investigation", "ls")
        return
    ran = run_world.run("log-investigation", "true")
    assert ran.code == 125
    assert "--cwd" in ran.err


def test_arguments_go_through_unchanged(run_world: World) -> None:
    """Empty words, blanks, dashes, another `--`, newlines and bytes that are no text reach the command."""
    words = ["", " ", "--", "--bind", "a\nb", "$HOME", "é", "\udcff"]
    ran = run_world.ok(POLICY, PYTHON, "-c", "import sys; print(ascii(sys.argv[1:]))", *words)
    assert ran.out == ascii(words) + "\n"


def test_the_environment_goes_through(run_world: World) -> None:
    """The command has the caller's environment, with TMPDIR and PWD of the run."""
    env = run_world.environment(MINE="a b\nc")
    code = "import os; print(repr(os.environ['MINE']), os.environ['PWD'], os.environ['TMPDIR'] == os.environ['TMP'])"
    ran = run_world.ok(POLICY, PYTHON, "-c", code, env=env)
    assert ran.out == f"'a b\\nc' {run_world.project} True\n"


# -- the record -------------------------------------------------------------------------------------------------------


def test_the_record(run_world: World) -> None:
    """The record holds what was asked, applied and confirmed, and is readable for its user only."""
    ran = run_world.ok("coding-agent", "true", report=True)
    record = ran.record
    assert record["asked"]["policy"] == "coding-agent"
    assert record["asked"]["command"] == ["true"]
    assert record["applied"]["target"] == run_world.target
    assert record["applied"]["values"]["workspace"] == str(run_world.project)
    assert record["applied"]["values"]["home"] == str(run_world.home)
    assert record["applied"]["network"] == "deny"
    assert record["applied"]["enforcement"] == "partial"
    assert record["confirmed"] == {"started": True, "exit_code": 0, "message": None, "left": []}
    assert (run_world.base / "record.json").stat().st_mode & 0o777 == 0o600


def test_the_record_of_a_run_that_did_not_start(run_world: World) -> None:
    """A refused run writes its record too, with the reason."""
    ran = run_world.run(POLICY, "true", options=("--bind", "nosuch=/x"), report=True)
    assert ran.code == 125
    assert ran.record["confirmed"]["started"] is False
    assert ran.record["confirmed"]["exit_code"] == 125
    assert "SBX702" in ran.record["confirmed"]["message"]


def test_a_record_is_out_of_the_commands_reach(run_world: World) -> None:
    """A record in the workspace is written after the command has ended, through the file opened before."""
    file = run_world.project / "record.json"
    ran = run_world.run(POLICY, "sh", "-c", "echo '{}' > record.json", options=("--report", str(file)))
    assert ran.code == 0, ran.err
    assert '"confirmed"' in file.read_text()


def test_a_record_that_cannot_be_written(run_world: World) -> None:
    """A full disk is reported and does not change the exit code of a command that has run."""
    ran = run_world.run(POLICY, "sh", "-c", "exit 7", options=("--report", "/dev/full"))
    assert ran.code == 7
    assert "record" in ran.err


def test_more_arguments_than_bubblewrap_takes(run_world: World) -> None:
    """A command of twenty thousand words runs, or is refused with the reason."""
    ran = run_world.run(POLICY, "sh", "-c", "echo $#", "sh", *map(str, range(20_000)))
    if run_world.target == "bwrap":
        assert ran.code == 125
        assert "9000 words" in ran.err
    else:
        assert ran.out == "20000\n"


def test_a_run_inside_a_run(run_world: World) -> None:
    """A sandbox cannot be made inside one: 125 with the reason, never an unconfined command."""
    inner = (PYTHON, "-m", "sandboxc", "run", str(run_world.shelf.profile(POLICY)), "--", "sh", "-c", "echo > inner")
    ran = run_world.run(POLICY, *inner)
    assert ran.code == 125, ran.err
    assert "Traceback" not in ran.err
    assert not (run_world.project / "inner").exists()


def test_few_descriptors(run_world: World) -> None:
    """With a low limit on open files a run works or ends with 125, without a traceback."""
    for limit in (8, 12, 16, 24, 40):
        words = run_world.words(POLICY, ["echo", "ran"])
        done = subprocess.run(
            ["sh", "-c", f'ulimit -n {limit}; exec "$@"', "sh", *words],
            cwd=run_world.project,
            env=run_world.environment(),
            capture_output=True,
            text=True,
        )
        assert (done.returncode, done.stdout) in ((0, "ran\n"), (125, "")), (limit, done)
        assert "Traceback" not in done.stderr


def test_dry_run_starts_nothing(run_world: World) -> None:
    """`--dry-run` prints the words, runs nothing and makes nothing."""
    before = sorted(run_world.base.rglob("*"))
    ran = run_world.ok("python-dev", "touch", "made", options=("--dry-run",))
    assert ran.out.splitlines()[-3:] == ["--", "touch", "made"]
    after = [path for path in run_world.base.rglob("*") if ".local" not in path.parts]
    assert sorted(after) == [path for path in before if ".local" not in path.parts]


# -- a world that changes ---------------------------------------------------------------------------------------------


def test_sockets_that_come_and_go(run_world: World) -> None:
    """Runs start while an outside process makes and removes sockets in a readable place all the time."""
    place = run_world.base / "sockets"
    place.mkdir()
    stop = run_world.base / "stop"
    code = (
        "import os, socket, sys, itertools\n"
        "for n in itertools.count():\n"
        "    if os.path.exists(sys.argv[2]): break\n"
        "    d = f'{sys.argv[1]}/d{n}'; os.mkdir(d)\n"
        "    s = socket.socket(socket.AF_UNIX); s.bind(d + '/s')\n"
        "    s.close(); os.unlink(d + '/s'); os.rmdir(d)\n"
    )
    churn = subprocess.Popen([PYTHON, "-c", code, str(place), str(stop)])
    try:
        for _ in range(8):
            run_world.ok(POLICY, "true")
    finally:
        stop.touch()
        churn.wait(20)


def test_a_socket_that_appears_is_no_hole(run_world: World) -> None:
    """A socket bound before the run, in a directory above the workspace, is refused."""
    path = run_world.base / "s"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        path.chmod(0o777)
        server.listen()
        code = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])"
        run_world.refused(POLICY, PYTHON, "-c", code, str(path))

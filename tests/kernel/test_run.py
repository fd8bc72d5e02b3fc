"""`sandboxc run` from outside: exit codes, standard streams, signals, leftovers."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests._run_world import LINUX, PYTHON, World

pytestmark = pytest.mark.skipif(not LINUX, reason="needs Linux and the system's Python")

POLICY = "workspace-write"


def start(
    world: World,
    *command: str,
    policy: str = POLICY,
    stdout: int = subprocess.DEVNULL,
    env: dict[str, str] | None = None,
) -> "subprocess.Popen[bytes]":
    """Start a run and return it while it lasts, in a process group of its own; `errors` has what it says."""
    with (world.base / "errors").open("ab") as errors:
        return subprocess.Popen(
            world.words(policy, command),
            cwd=world.project,
            env=env or world.environment(),
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=errors,
            start_new_session=True,
        )


def wait_for(what: Callable[[], bool], seconds: float = 20) -> None:
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it did not come to hold in time"
        time.sleep(0.01)


def processes(mark: str) -> list[int]:
    """Return the processes whose command line holds a mark."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                line = Path(f"/proc/{entry}/cmdline").read_bytes()
            except OSError:
                continue
            if mark.encode() in line:
                found.append(int(entry))
    return found


def waiting(mark: str) -> tuple[str, ...]:
    """Return a command that makes `ready`, holding the path of its private directory, and then waits."""
    code = (
        "import os, signal, time; signal.signal(2, signal.SIG_DFL); open('r', 'w').write(os.environ['TMPDIR']);"
        "os.rename('r', 'ready'); time.sleep(300)"
    )
    return (PYTHON, "-c", code, mark)


def own_runtime(world: World) -> tuple[Path, dict[str, str]]:
    """Return a run-time directory that no other run of this user is in, and the environment that names it."""
    runtime = world.base / "runtime"
    runtime.mkdir(mode=0o700)
    world.own()
    return runtime, world.environment(XDG_RUNTIME_DIR=str(runtime))


# -- exit codes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [0, 1, 3, 42, 124, 125, 126, 127, 128, 130, 143, 255])
def test_the_exit_code_is_the_commands(run_world: World, code: int) -> None:
    """The command's own exit code is passed on, those that have a meaning of their own too."""
    ran = run_world.run(POLICY, "sh", "-c", f"exit {code}", report=True)
    assert ran.code == code
    assert ran.record["confirmed"]["started"] is True
    assert ran.record["confirmed"]["exit_code"] == code


def test_a_command_that_is_not_there(run_world: World) -> None:
    """127 for a name that is not found, with the name in the message, and the record says that nothing started."""
    for name in ("no-such-program", "./no-such-program", "/no/such/program"):
        ran = run_world.run(POLICY, name, report=True)
        assert ran.code == 127, ran.err
        assert "no-such-program" in ran.err or "/no/such/program" in ran.err
        assert "Traceback" not in ran.err
        assert ran.record["confirmed"]["started"] is False


def test_a_command_that_cannot_be_executed(run_world: World) -> None:
    """126 for a file without an execute bit, and for a directory."""
    run_world.write("project/plain", "#!/bin/sh\n", 0o644)
    (run_world.project / "directory").mkdir()
    run_world.own()
    for name in ("./plain", "./directory"):
        ran = run_world.run(POLICY, name)
        assert ran.code == 126, (name, ran.code, ran.err)
        assert "Traceback" not in ran.err


def test_a_script_without_an_interpreter_line(run_world: World) -> None:
    """A text that names no interpreter is a script of the shell's, with its arguments, as in a shell."""
    run_world.write("project/script", 'echo "$1"; exit 5\n', 0o755)
    ran = run_world.run(POLICY, "./script", "a b")
    assert (ran.code, ran.out) == (5, "a b\n"), ran.err


def test_a_script_whose_interpreter_is_missing(run_world: World) -> None:
    """A missing interpreter is reported as a shell does, 126 or 127, and not as a sandbox that failed."""
    run_world.write("project/script", "#!/no/such/interpreter\n", 0o755)
    ran = run_world.run(POLICY, "./script")
    assert ran.code in (126, 127), ran.err


def test_a_command_killed_by_a_signal(run_world: World) -> None:
    """128 plus the signal for a command that a signal ends."""
    for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV):
        ran = run_world.run(POLICY, "sh", "-c", f"kill -{int(number)} $$")
        assert ran.code == 128 + number, ran.err


def test_what_goes_wrong_before_is_125(run_world: World, tmp_path: Path) -> None:
    """A policy that cannot be read, a directory that is not there, an unknown parameter: 125, a code, and no run."""
    marker = run_world.project / "ran"
    command = ("sh", "-c", f"touch {marker}")
    run_world.write("broken/manifest.json", "{")
    for source, options in (
        (str(run_world.base / "absent.yaml"), ()),
        (str(run_world.base / "broken"), ()),
        (POLICY, ("--cwd", "/no/such/directory")),
        (POLICY, ("--cwd", "/etc/passwd")),
        (POLICY, ("--bind", "nosuch=/x")),
        (POLICY, ("--bind", "workspace=relative")),
        (POLICY, ("--bind", "workspace")),
        (POLICY, ("--report", "/no/such/directory/record")),
        (POLICY, ("--no-such-option",)),
    ):
        ran = run_world.run(source, *command, options=options)
        assert ran.code == 125, (source, options, ran.code, ran.err)
        assert "SBX" in ran.err
        assert "Traceback" not in ran.err
    assert not marker.exists()


# -- streams ----------------------------------------------------------------------------------------------------------


def test_standard_input_goes_through(run_world: World) -> None:
    """What is piped in is read whole."""
    text = "line\n" * 100_000
    assert run_world.run(POLICY, "wc", "-c", input=text).out.strip() == str(len(text))


def test_big_output_comes_whole(run_world: World) -> None:
    """Forty megabytes of output arrive, and a reader that goes away ends the writer with SIGPIPE."""
    done = subprocess.run(
        run_world.words(POLICY, ["head", "-c", "40000000", "/dev/zero"]),
        cwd=run_world.project,
        env=run_world.environment(),
        capture_output=True,
    )
    assert done.returncode == 0
    assert len(done.stdout) == 40_000_000
    read_end, write_end = os.pipe()
    process = start(run_world, "yes", stdout=write_end)
    os.close(write_end)
    os.read(read_end, 10)
    os.close(read_end)
    assert process.wait(20) == 128 + signal.SIGPIPE


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_descriptors(run_world: World, closed: str) -> None:
    """A run works with standard descriptors closed, and what it opens never becomes one of them."""
    code = "import os; open('made', 'w').write(','.join(sorted(os.listdir('/proc/self/fd'))))"
    words = run_world.words(POLICY, [PYTHON, "-c", code])
    done = subprocess.run(
        ["sh", "-c", f'"$@" {closed}', "sh", *words],
        cwd=run_world.project,
        env=run_world.environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    found = (run_world.project / "made").read_text().split(",")
    assert len(found) <= 5, found  # the three, the file, the listed directory


def test_only_standard_descriptors_are_inherited(run_world: World) -> None:
    """An open directory of the caller's does not reach the command."""
    held = os.open("/", os.O_RDONLY)
    try:
        done = subprocess.run(
            run_world.words(POLICY, ["sh", "-c", "ls /proc/self/fd | wc -l"]),
            cwd=run_world.project,
            env=run_world.environment(),
            capture_output=True,
            text=True,
            pass_fds=[held],
        )
    finally:
        os.close(held)
    assert done.stdout.strip() == "4", done.stderr  # the three, and the listed directory


# -- signals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_to_the_runner_reaches_the_command(run_world: World, number: signal.Signals) -> None:
    """The command can handle a signal that the runner gets, and its exit code is passed on."""
    script = "trap 'echo caught > caught; exit 7' TERM INT HUP; echo > ready; while :; do sleep 0.05; done"
    process = start(run_world, "sh", "-c", script)
    wait_for((run_world.project / "ready").exists)
    os.kill(process.pid, number)
    assert process.wait(20) == 7
    assert (run_world.project / "caught").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_command_that_does_not_handle_it(run_world: World, number: signal.Signals) -> None:
    """A plain command ends, with nothing of it left running."""
    mark = f"{run_world.base.name}-mark"
    process = start(run_world, *waiting(mark))
    wait_for((run_world.project / "ready").exists)
    os.kill(process.pid, number)
    assert process.wait(20) == 128 + number
    wait_for(lambda: not processes(mark))


def test_ctrl_c_ends_the_run(run_world: World) -> None:
    """SIGINT to the whole process group, as a terminal sends it, ends the run with 130 and no traceback."""
    process = start(run_world, "sh", "-c", "echo > ready; sleep 300")
    wait_for((run_world.project / "ready").exists)
    time.sleep(0.3)  # a shell that gets the signal while it forks can lose it
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(20) == 130
    assert "Traceback" not in (run_world.base / "errors").read_text()


def test_stop_and_continue(run_world: World) -> None:
    """A run that is stopped and continued, as job control does, goes on and passes its exit code on."""
    process = start(run_world, PYTHON, "-c", "import time; open('ready', 'w'); time.sleep(1); raise SystemExit(9)")
    wait_for((run_world.project / "ready").exists)
    os.killpg(process.pid, signal.SIGSTOP)
    time.sleep(0.3)
    assert process.poll() is None
    os.killpg(process.pid, signal.SIGCONT)
    assert process.wait(20) == 9


def test_a_signal_before_the_command_starts(run_world: World) -> None:
    """A runner that is ended at any moment leaves no process, no private directory and no half-started command."""
    runtime, env = own_runtime(run_world)
    mark = f"{run_world.base.name}-early"
    for step in range(12):
        process = start(run_world, *waiting(mark), env=env)
        time.sleep(0.02 + step * 0.015)
        os.killpg(process.pid, signal.SIGTERM)
        code = process.wait(20)
        assert code in (-signal.SIGTERM, 128 + signal.SIGTERM), (code, (run_world.base / "errors").read_text())
        assert "Traceback" not in (run_world.base / "errors").read_text()
    wait_for(lambda: not processes(mark))
    run_world.ok(POLICY, "true", env=env)
    assert list((runtime / "sandboxc").iterdir()) == []


# -- leftovers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["workspace-write", "coding-agent"])
def test_kill_9_leaves_what_the_next_run_removes(run_world: World, policy: str) -> None:
    """After kill -9 of the runner the sandbox dies, and the next run removes all that it held."""
    run_world.ok(policy, "git", "init", "-q", ".")
    mark = f"{run_world.base.name}-killed"
    process = start(run_world, *waiting(mark), policy=policy)
    wait_for((run_world.project / "ready").exists)
    temp = Path((run_world.project / "ready").read_text())
    assert temp.is_dir()
    process.kill()
    process.wait()
    wait_for(lambda: not processes(mark))
    run_world.ok(policy, "true")
    assert not temp.exists()
    assert not (run_world.project / ".git/commondir").exists()
    records = list((run_world.home / ".local/state/sandboxc/runs").iterdir())
    assert records == []


def test_nothing_is_left_after_a_run(run_world: World) -> None:
    """The project, the home's visible part and the base of private directories are as they were."""
    runtime, env = own_runtime(run_world)
    run_world.ok("coding-agent", "git", "init", "-q", ".", env=env)
    before = sorted(str(path) for path in run_world.base.rglob("*") if "state" not in path.parts)
    script = "mkdir -p $TMPDIR/a/b && chmod 0 $TMPDIR/a/b && : > $TMPDIR/c && echo $TMPDIR"
    ran = run_world.ok("coding-agent", "sh", "-c", script, env=env)
    assert Path(ran.out.strip()).parent == runtime / "sandboxc"
    assert sorted(str(path) for path in run_world.base.rglob("*") if "state" not in path.parts) == before
    assert list((runtime / "sandboxc").iterdir()) == []


def test_many_runs_in_one_workspace(run_world: World) -> None:
    """Forty runs at a time, a hundred in all, share a workspace: each works, and nothing is left by them."""
    run_world.ok("coding-agent", "git", "init", "-q", ".")
    started: list[subprocess.Popen[bytes]] = []
    for number in range(100):
        started.append(start(run_world, "sh", "-c", f"echo {number} > $TMPDIR/f; cat $TMPDIR/f > out{number}"))
        while sum(process.poll() is None for process in started) >= 40:
            time.sleep(0.01)
    assert [process.wait(120) for process in started] == [0] * 100, (run_world.base / "errors").read_text()
    for number in range(100):
        assert (run_world.project / f"out{number}").read_text() == f"{number}\n"
    assert not (run_world.project / ".git/commondir").exists()
    assert list((run_world.home / ".local/state/sandboxc/runs").iterdir()) == []

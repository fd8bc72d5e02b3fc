"""Running commands under Landlock: exit codes, signals, descriptors, the probe."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from typing import Any

import pytest

from sandboxc.policy import DENY
from sandboxc.runtime import landlock as runner
from sandboxc.runtime import linux
from tests.kernel._landlock_world import (
    BARE,
    USABLE,
    WAIVED,
    World,
    as_user,
    attempt,
    entries,
    landlock_world,  # noqa: F401
    planned,
)

pytestmark = pytest.mark.skipif(not USABLE, reason="no usable Landlock on this host")


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

"""Ways out that lead through something besides the files of one run: an earlier run, another one that is alive, the
caller's own environment and descriptors, objects of the kernel that no name space holds."""

import ctypes
import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tests._run_world import LINUX, PYTHON, World

pytestmark = pytest.mark.skipif(not LINUX, reason="needs Linux and the system's Python")

POLICY = "coding-agent"
SECRET = "do not tell"
ANNOUNCED = {"op": "announce", "path": "/tmp/sandboxc-nothing"}
PLANTED = "import sys; sys.stderr.write('PLANTED')\n"
#: Listens at a path until it is ended, and tells when it does.
SERVER = """
import socket, sys
server = socket.socket(socket.AF_UNIX)
server.bind(sys.argv[1])
server.listen()
open(sys.argv[1] + ".up", "w").close()
while True:
    server.accept()[0].close()
"""
CLIENT = """
import socket, sys
socket.socket(socket.AF_UNIX).connect(sys.argv[1])
"""


def start(world: World, *command: str, target: str = "", **env: str) -> "subprocess.Popen[bytes]":
    """Start a run of the policy that goes on by itself, in the world's second project."""
    other = world.base / "other"
    other.mkdir(exist_ok=True)
    world.own()
    words = world.words(POLICY, command)
    words[words.index("--target") + 1] = target or world.target
    quiet = subprocess.DEVNULL
    environment = world.environment(**env)
    return subprocess.Popen(words, cwd=other, env=environment, stdin=quiet, stdout=quiet, stderr=quiet)


def wait_for(path: Path) -> None:
    """Wait until a file is there."""
    end = time.monotonic() + 20
    while not path.exists():
        assert time.monotonic() < end, f"{path} was not made in time"
        time.sleep(0.01)


def as_user(world: World, *command: str) -> None:
    """Do something on the host as the world's user."""
    first = ["setpriv", "--reuid", str(world.uid), "--regid", str(world.uid), "--clear-groups"] if world.uid else []
    subprocess.run([*first, *command], check=True)


# -- what one run leaves for the next ----------------------------------------------------------------------------


def test_a_directory_closed_by_one_run_hides_nothing_from_the_next(run_world: World) -> None:
    """A run that takes the right to list or search a directory away does not have what it holds taken for absent."""
    secret = run_world.write("project/app/.env", SECRET)
    for mode in ("000", "300", "600"):
        as_user(run_world, "chmod", mode, str(secret.parent))  # as a run may
        ran = run_world.run(POLICY, "sh", "-c", "chmod 755 app; cat app/.env")
        as_user(run_world, "sh", "-c", f"chmod 755 {run_world.project}/*")
        assert ran.code != 0 and SECRET not in ran.out, mode


def test_a_repository_closed_by_one_run_keeps_its_hooks_from_the_next(uid: int | None, shelf: object) -> None:
    """Nor are hooks and configuration taken for absent."""
    world = World(shelf, uid, "bwrap")  # type: ignore[arg-type]
    try:
        as_user(world, "git", "init", "-q", str(world.project))
        as_user(world, "chmod", "000", str(world.project / ".git"))
        script = "chmod 755 .git; echo evil > .git/hooks/pre-commit; echo evil >> .git/config"
        assert world.run(POLICY, "sh", "-c", script).code != 0
        as_user(world, "chmod", "755", str(world.project / ".git"))
        assert not (world.project / ".git/hooks/pre-commit").exists()
        assert "evil" not in (world.project / ".git/config").read_text()
    finally:
        world.remove()


def test_the_link_that_a_profile_is_read_through_stays(uid: int | None, shelf: object) -> None:
    """A profile that lies elsewhere and is spelled through a link in the workspace cannot be exchanged for the next
    run; nor can one that is spelled through a link to a directory above it."""
    world = World(shelf, uid, "bwrap")  # type: ignore[arg-type]
    try:
        (world.project / "profile").symlink_to(world.shelf.profile(POLICY))
        (world.project / "all").symlink_to(world.shelf.profile(POLICY).parent)
        world.own()
        for source, link in (("profile", "profile"), (f"./all/{POLICY}", "all"), (f"../project/all/{POLICY}", "all")):
            for script in ("rm $0", "mv $0 away", "ln -sfn /tmp $0", "mv -T . $0"):
                world.refused(source, "sh", "-c", script, link)
            assert (world.project / link).is_symlink()
    finally:
        world.remove()


def test_a_planted_runner_is_not_used_by_a_stricter_policy(run_world: World) -> None:
    """A bwrap in the project's own program directory, first in PATH, is not executed even where the policy at hand
    does not make the project writable: an earlier one may have."""
    mark = run_world.base / "planted"
    run_world.write("project/bin/bwrap", f'#!/bin/sh\ntouch {mark}\nexec /usr/bin/bwrap "$@"\n', 0o755)
    own = f"{run_world.project}/bin"
    os.symlink("/usr/bin/setpriv", f"{own}/setpriv")  # the test itself needs it
    run_world.ok("read-only", "/usr/bin/true", env=run_world.environment(PATH=f"{own}:/usr/bin:/bin"))
    run_world.ok("read-only", "/usr/bin/true", env=run_world.environment(PATH=f"{own}:/usr/bin:/bin"), cwd=Path("/usr"))
    alone = run_world.run("read-only", "/usr/bin/true", env=run_world.environment(PATH=own))
    assert alone.code == (125 if run_world.target == "bwrap" else 0), alone.err
    assert not mark.exists()


def test_planted_modules_are_not_imported(run_world: World) -> None:
    """Modules in the current directory are not imported by `python -m sandboxc`."""
    for name in ("json", "struct", "fcntl", "select", "pwd", "signal", "string", "errno"):
        run_world.write(f"project/{name}.py", PLANTED)
    ran = run_world.ok(POLICY, "true", report=True)
    assert "PLANTED" not in ran.err


def test_the_program_itself_is_read_only_for_its_runs(uid: int | None, shelf: object) -> None:
    """Where sandboxc lies in the workspace, as in a project's own environment, no run changes it for the next."""
    world = World(shelf, uid, "bwrap")  # type: ignore[arg-type]
    try:
        package = world.project / "lib/sandboxc"
        shutil.copytree(world.shelf.package / "sandboxc", package)
        world.own()
        env = world.environment(PYTHONPATH=str(package.parent))
        for script in (
            "echo evil >> lib/sandboxc/cli.py",
            "rm lib/sandboxc/cli.py",
            "mv lib away",
            "touch lib/sandboxc/x",
        ):
            world.refused(POLICY, "sh", "-c", script, env=env)
        world.ok(POLICY, "touch", "lib/other", env=env)
    finally:
        world.remove()


def test_the_record_is_not_led_elsewhere(run_world: World) -> None:
    """A link on the way to the record in the workspace is refused, and what was there stays."""
    run_world.write("victim/record.json", "mine")
    (run_world.project / "out").symlink_to("../victim")
    run_world.own()
    for options in (["--report", "out/record.json"], ["--report", str(run_world.project / "out/record.json")]):
        assert run_world.run(POLICY, "true", options=options).code == 125
    assert (run_world.base / "victim/record.json").read_text() == "mine"


def test_the_record_is_whole_or_said_not_to_be(run_world: World) -> None:
    """What the command writes to the record's file is gone from it; a file put in its place is reported."""
    options = ["--report", "record.json"]
    ran = run_world.run(POLICY, "sh", "-c", "head -c 100000 /dev/zero > record.json", options=options)
    text = (run_world.project / "record.json").read_text()
    assert ran.code == 0 and text.startswith("{") and text.endswith("}\n")
    ran = run_world.run(POLICY, "sh", "-c", "mv record.json old && echo forged > record.json", options=options)
    forged = (run_world.project / "record.json").read_text() == "forged\n"
    assert ("replaced during the run" in ran.err) == forged


def test_planted_journals_remove_nothing(run_world: World) -> None:
    """A directory for journals in the workspace is refused; a journal that names what no run makes is not followed."""
    victim = run_world.write("victim/kept", "mine").parent
    found = victim.stat()
    node = {
        "op": "node",
        "path": str(victim),
        "kind": "temporary",
        "dev": found.st_dev,
        "ino": found.st_ino,
        "content": "",
    }
    for place, code in (("project/state", 125), ("state", 0)):
        record = run_world.write(f"{place}/sandboxc/runs/1-aa", json.dumps(node) + "\n" + json.dumps(ANNOUNCED) + "\n")
        for directory in (record.parent, record.parent.parent):
            directory.chmod(0o700)
        env = run_world.environment(XDG_STATE_HOME=str(run_world.base / place))
        assert run_world.run(POLICY, "true", env=env).code == code
        assert (victim / "kept").read_text() == "mine"


# -- what another run has open -----------------------------------------------------------------------------------


def test_the_temp_directory_of_a_run_in_another_environment_is_closed(run_world: World) -> None:
    """Runs that keep their temp directories and journals elsewhere, as XDG_RUNTIME_DIR and XDG_STATE_HOME differ,
    cannot read each other's."""
    apart = run_world.base / "apart"
    apart.mkdir(mode=0o700)
    run_world.own()
    mark = run_world.base / "other/up"
    script = f"echo '{SECRET}' > $TMPDIR/x && echo $TMPDIR > {mark} && sleep 30"
    for env in ({"XDG_RUNTIME_DIR": str(apart)}, {}):
        other = start(run_world, "sh", "-c", script, **env)
        try:
            wait_for(mark)
            temp = mark.read_text().strip()
            mine = run_world.environment() if env else run_world.environment(XDG_RUNTIME_DIR=str(apart))
            ran = run_world.run(POLICY, "sh", "-c", f"cat {temp}/x {run_world.base}/home/.local/state/*/*/*", env=mine)
            assert ran.code not in (0, 125) and not ran.out
        finally:
            other.terminate()
            other.wait()
            mark.unlink()


def test_sockets_of_another_network_namespace_are_closed(run_world: World) -> None:
    """A socket that a process in a network of its own is bound to, another run's say, is a live peer outside too."""
    path = run_world.base / "other/s"
    other = start(run_world, PYTHON, "-c", SERVER, str(path), target="bwrap")
    try:
        wait_for(Path(f"{path}.up"))
        ran = run_world.refused(POLICY, PYTHON, "-c", CLIENT, str(path))
        assert "PermissionError" in ran.err
    finally:
        other.terminate()
        other.wait()


def test_a_directory_moved_by_a_live_run_is_not_masked_elsewhere(uid: int | None, shelf: object) -> None:
    """A mask lies on the file that the survey saw, or the run does not start, however the directory that holds the
    file and a decoy trade places meanwhile."""
    world = World(shelf, uid, "bwrap")  # type: ignore[arg-type]
    libc = ctypes.CDLL(None, use_errno=True)
    world.write("project/n/app/.env", SECRET)
    world.write("project/n/decoy/x", "")
    one, two = (str(world.project / "n" / name).encode() for name in ("app", "decoy"))
    look = "i=0; while [ $i -lt 20 ]; do cat n/app/.env n/decoy/.env; i=$((i+1)); done 2>/dev/null"
    try:
        for pause in (0.06, 0.07, 0.08, 0.09, 0.1, 0.11, 0.12, 0.13):
            run = subprocess.Popen(
                world.words(POLICY, ("sh", "-c", look)),
                cwd=world.project,
                env=world.environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            while run.poll() is None:
                time.sleep(pause)
                libc.renameat2(-100, one, -100, two, 2)
            out = run.communicate()[0]
            assert SECRET.encode() not in out, pause
            made = [path for path in (world.project / "n").glob("*/.env") if path.read_text() != SECRET]
            assert not made, "a name was made that the survey did not ask for"
    finally:
        world.remove()


# -- what the caller hands over ----------------------------------------------------------------------------------


def test_standard_input_does_not_lead_back_to_its_file(uid: int | None, shelf: object) -> None:
    """A file that the caller opened for reading cannot be opened anew for writing, nor its mode be changed."""
    world = World(shelf, uid, "bwrap")  # type: ignore[arg-type]
    try:
        notes = world.write("notes", "one\ntwo\nthree\n")
        scripts = (
            "import os; os.open('/proc/self/fd/0', os.O_WRONLY)",
            "import os; os.open('/dev/stdin', os.O_RDWR)",
            "import os; os.fchmod(0, 0o4777)",
            "import os; os.utime(0, (1, 1)); os.ftruncate(0, 0)",
            "import os; os.write(0, b'x')",
        )
        before = notes.stat()
        for script in scripts:
            with notes.open("rb") as file:
                words = world.words(POLICY, (PYTHON, "-c", script))
                subprocess.run(words, cwd=world.project, env=world.environment(), stdin=file, capture_output=True)
            after = notes.stat()
            assert notes.read_text() == "one\ntwo\nthree\n"
            assert (after.st_mode, after.st_mtime) == (before.st_mode, before.st_mtime), script
    finally:
        world.remove()


def test_standard_input_is_read_from_where_it_stands(uid: int | None, shelf: object) -> None:
    """The command reads a file from the caller's offset and leaves it where it stopped; large ones come whole."""
    world = World(shelf, uid, "bwrap")  # type: ignore[arg-type]
    try:
        notes = world.write("notes", "one\ntwo\nthree\n")
        with notes.open("rb", buffering=0) as file:
            file.read(4)
            words = world.words(POLICY, ("sh", "-c", "read -r line; echo $line"))
            done = subprocess.run(words, cwd=world.project, env=world.environment(), stdin=file, capture_output=True)
            assert (done.stdout, file.read()) == (b"two\n", b"three\n"), done.stderr
        large = world.write("large", "x" * 1024)
        os.truncate(large, 65 << 20)
        for script, out in (("wc -c", str(65 << 20)), ("head -c 3", "xxx"), ("exec <&-", "")):
            with large.open("rb") as file:
                words = world.words(POLICY, ("sh", "-c", script))
                done = subprocess.run(
                    words, cwd=world.project, env=world.environment(), stdin=file, capture_output=True, timeout=60
                )
            assert (done.returncode, done.stdout.decode().strip()) == (0, out), done.stderr
    finally:
        world.remove()


# -- objects that no name space holds ----------------------------------------------------------------------------

#: Keeps a key in a session keyring of its own and becomes a command that gets the key's number.
HOLDER = """
import ctypes, os, sys
call = ctypes.CDLL(None, use_errno=True).syscall
add, control = (248, 250) if os.uname().machine == "x86_64" else (217, 219)
call(control, 1, None)
key = call(add, b"user", b"sandboxc-test", b"do not tell", 11, ctypes.c_int(-3))
assert key > 0
os.execvp(sys.argv[1], [*sys.argv[1:], str(key)])
"""
#: Reads, changes and lists keys; prints what it got.
THIEF = """
import ctypes, os, sys
call = ctypes.CDLL(None, use_errno=True).syscall
add, request, control = (248, 249, 250) if os.uname().machine == "x86_64" else (217, 218, 219)
text = ctypes.create_string_buffer(50)
got = [call(control, 11, int(sys.argv[1]), text, 50), call(control, 2, int(sys.argv[1]), b"x", 1)]
got += [call(request, b"user", b"sandboxc-test", None, 0), call(add, b"user", b"b", b"c", 1, ctypes.c_int(-3))]
print(got, text.value)
"""


def test_keys_of_the_caller_are_out_of_reach(run_world: World) -> None:
    """Keyrings are inherited and belong to the user in every name space: no call of theirs works."""
    words = run_world.words(POLICY, (PYTHON, "-c", THIEF))
    at = words.index(PYTHON)
    words[at:at] = [PYTHON, "-c", HOLDER]
    done = subprocess.run(words, cwd=run_world.project, env=run_world.environment(), capture_output=True, text=True)
    assert done.stdout == "[-1, -1, -1, -1] b''\n", done.stderr


def test_limits_of_outside_processes_cannot_be_set(run_world: World) -> None:
    """A limit on the processor time of an outside process would end it; one's own limits can be set."""
    own = "import resource as r; r.setrlimit(r.RLIMIT_CPU, (9, 9)); r.prlimit(0, r.RLIMIT_CPU, (8, 8))"
    outer = "import resource as r, sys; r.prlimit(int(sys.argv[1]), r.RLIMIT_CPU, (1, 1))"
    first = ["setpriv", "--reuid", str(run_world.uid), "--clear-groups"] if run_world.uid else []
    outside = subprocess.Popen([*first, "sleep", "60"])
    try:
        run_world.ok(POLICY, PYTHON, "-c", own)
        run_world.refused(POLICY, PYTHON, "-c", outer, str(outside.pid))
        limits = Path(f"/proc/{outside.pid}/limits").read_text().splitlines()
        assert next(line for line in limits if line.startswith("Max cpu time")).split()[3] != "1"
    finally:
        outside.kill()
        outside.wait()

"""The Landlock launcher on the real kernel, as root and as an ordinary user."""

import errno
import json
import os
import platform
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from sandboxc import landlock_abi, seccomp
from tests.kernel._within import within

if sys.platform == "linux":
    from sandboxc.runtime import landlock_exec, linux

    linux.load()  # an ordinary user in a child may not be able to read this interpreter's library
    ABI = linux.landlock_abi()
else:
    ABI = 0

pytestmark = pytest.mark.skipif(ABI == 0, reason="needs Landlock")

ROOT = Path(__file__).resolve().parents[2]
USERS = [0, 1000] if hasattr(os, "geteuid") and os.geteuid() == 0 else [None]
PYTHON = "/usr/bin/python3"
ENV = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}
PLAN_ABI = min(ABI, 7)
READ = list(landlock_abi.names(landlock_abi.read_rights(PLAN_ABI)))
WRITE = list(landlock_abi.names(landlock_abi.write_rights(PLAN_ABI)))


def rule(path: str | Path, kind: str, rights: list[str], **more: Any) -> dict[str, Any]:
    """Return a rule that carries what its kind can."""
    mask = landlock_abi.mask_for_kind(landlock_abi.bits(rights), kind)
    return {"path": str(path), "kind": kind, "rights": list(landlock_abi.names(mask)), **more}


def ruleset(*rules: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Return a rule set that can run programs of the system, and the given rules."""
    system = [rule(path, "directory", READ) for path in ("/usr", "/etc", "/proc")]
    null = rule("/dev/null", "char-device", ["read_file", "write_file", "truncate"])
    return {
        "abi": PLAN_ABI,
        "handled_fs": list(landlock_abi.names(landlock_abi.handled_fs(PLAN_ABI))),
        "rules": [*system, null, *rules],
        **more,
    }


class World:
    """A directory of one user, and a way to spawn from a process of that user."""

    def __init__(self, base: Path, uid: int | None) -> None:
        self.uid = uid
        self.work = base / "work"
        self.secret = base / "secret"
        for path in (self.work, self.secret):
            path.mkdir()
            (path / "f").write_text(f"{path.name}\n")
            if uid:
                os.chown(path, uid, uid)
                os.chown(path / "f", uid, uid)

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
        self, argv: list[str], rules: Mapping[str, Any] | None, program: bytes | None = None, **options: Any
    ) -> tuple["landlock_exec.SpawnResult", int, str]:
        """Return the spawn result, the exit code (-1 if it did not start) and the output."""

        def act() -> Any:
            read_end, write_end = os.pipe()
            result = landlock_exec.spawn(
                argv,
                rules,
                program,
                ENV,
                options.pop("cwd", "/"),
                stdout=write_end,
                stderr=write_end,
                **options,
            )
            os.close(write_end)
            with os.fdopen(read_end, "rb") as pipe:
                output = pipe.read().decode()
            code = -1
            if result.outcome == "started":
                code = os.waitstatus_to_exitcode(os.waitpid(result.pid, 0)[1])
            return [list(result), code, output]

        fields, code, output = self.as_user(act)
        fields[5] = tuple(fields[5])
        return landlock_exec.SpawnResult(*fields), code, output


@pytest.fixture(params=USERS, ids=lambda uid: f"uid-{uid}")
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """A fresh world below a directory that every user can reach."""
    base = Path("/var/tmp") / f"sandboxc-test-{os.urandom(6).hex()}"
    base.mkdir(mode=0o755)
    yield World(base, request.param)
    subprocess.run(["rm", "-rf", str(base)], check=True)


def test_the_rule_set_holds_for_the_command(world: World) -> None:
    """What is granted works, what is not fails, and the exit code is the command's own."""
    script = f"cat f; echo new > g; cat g; cat {world.secret}/f; echo x > {world.secret}/g; exit 7"
    rules = ruleset(rule(world.work, "directory", WRITE))
    result, code, output = world.run(["sh", "-c", script], rules, cwd=str(world.work))
    assert (result.outcome, code) == ("started", 7)
    assert output.splitlines()[:2] == ["work", "new"]
    assert output.count("Permission denied") + output.count("cannot create") >= 2
    assert os.listdir(world.secret) == ["f"]


def test_the_command_has_no_privilege_and_no_descriptor(world: World) -> None:
    """Every capability set is empty, no_new_privs and the filter are on, and only 0, 1 and 2 are open."""
    leaked = os.open("/", os.O_RDONLY)
    os.set_inheritable(leaked, True)
    program = seccomp.landlock_filter(platform.machine(), network="deny", abi=PLAN_ABI)
    script = "grep -E '^(Cap|NoNew|Seccomp:)' /proc/self/status; ls /proc/self/fd | wc -l"
    result, code, output = world.run(["sh", "-c", script], ruleset(), program)
    os.close(leaked)
    assert (result.outcome, code) == ("started", 0)
    words = dict(line.split(":\t") for line in output.splitlines()[:-1])
    for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
        assert int(words[name], 16) == 0
    if world.uid == 0:
        assert int(words["CapBnd"], 16) == 0
    assert (words["NoNewPrivs"], words["Seccomp"]) == ("1", "2")
    assert output.splitlines()[-1].strip() == "4"  # 0, 1, 2 and the one that ls lists with


def test_named_descriptors_and_capabilities_are_kept(world: World) -> None:
    """A descriptor that the caller names is inherited, and a capability of the mask, if there, stays."""

    def act() -> Any:
        read_end, write_end = os.pipe()
        os.dup2(write_end, 9)
        argv = ["sh", "-c", "grep CapEff /proc/self/status >&9"]
        result = landlock_exec.spawn(argv, ruleset(), None, ENV, keep_fds=(9,), keep_capabilities=1 << 1)
        os.close(write_end)
        os.close(9)
        with os.fdopen(read_end) as pipe:
            text = pipe.read()
        os.waitpid(result.pid, 0)
        return text

    expected = 2 if world.uid == 0 else 0
    assert int(world.as_user(act).split()[1], 16) == expected


def test_standard_descriptors_may_be_any(world: World) -> None:
    """Descriptors are put in place also when they trade places, and with a new session."""

    def act() -> Any:
        one_read, one_write = os.pipe()
        two_read, two_write = os.pipe()
        os.dup2(one_write, 1)
        os.dup2(two_write, 2)
        argv = ["sh", "-c", "echo out; echo err >&2; ps -o sid= -p $$ >/dev/null"]
        result = landlock_exec.spawn(argv, ruleset(), None, ENV, stdout=2, stderr=1, new_session=True)
        sid = os.getsid(result.pid)
        os.waitpid(result.pid, 0)
        return [os.read(one_read, 99).decode(), os.read(two_read, 99).decode(), sid == result.pid]

    assert world.as_user(act) == ["err\n", "out\n", True]


@pytest.mark.parametrize(
    ("argv", "number", "code"),
    [
        (["no-such-command"], errno.ENOENT, 127),
        (["/no/such/command"], errno.ENOENT, 127),
        (["/etc/passwd"], errno.EACCES, 126),
        (["/root"], errno.EACCES, 126),
    ],
)
def test_a_command_that_cannot_be_executed_is_told(world: World, argv: list[str], number: int, code: int) -> None:
    """execve's own failure is told from set-up's, with its errno and the shell's exit code."""
    result, _, _ = world.run(argv, ruleset())
    assert (result.outcome, result.errno, result.stage) == ("exec-failed", number, "exec")
    assert landlock_exec.exit_code(result._asdict()) == code


def test_a_working_directory_that_is_absent_is_told(world: World) -> None:
    """The command does not run elsewhere when its directory cannot be entered."""
    result, _, _ = world.run(["true"], ruleset(), cwd="/no/such/directory")
    assert (result.outcome, result.errno, result.stage) == ("setup-failed", errno.ENOENT, "cwd")
    assert landlock_exec.exit_code(result._asdict()) == 125


@pytest.mark.parametrize("where", ["leaf", "parent"])
@pytest.mark.parametrize("optional", [False, True])
def test_a_path_that_became_a_link_never_widens(world: World, where: str, optional: bool) -> None:
    """A link in the place of a rule's path, or of a directory on the way, stops the run or drops the rule."""
    if where == "leaf":
        path = world.work / "sub"
        path.symlink_to(world.secret)
    else:
        (world.work / "way").symlink_to(world.secret.parent)
        path = world.work / "way" / "secret"
    rules = ruleset(rule(path, "directory", READ, optional=optional))
    result, code, output = world.run(["cat", f"{world.secret}/f"], rules)
    if optional:
        assert (result.outcome, result.skipped) == ("started", (str(path),))
        assert code == 1
    else:
        assert result.outcome == "setup-failed"
        assert result.errno in (errno.ESTALE, errno.ELOOP, errno.ENOTDIR)
    assert "secret\n" not in output


def test_a_path_that_is_swapped_all_the_time_never_widens(world: World) -> None:
    """In a hundred runs against a process that swaps the directory for a link, the secret is never read."""
    path, aside, link = world.work / "sub", world.work / "aside", world.work / "link"
    path.mkdir()
    link.symlink_to(world.secret)
    swapper = os.fork()
    if swapper == 0:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            os.rename(path, aside)
            os.rename(link, path)
            os.rename(path, link)
            os.rename(aside, path)
        os._exit(0)
    seen = set()
    try:
        rules = ruleset(rule(path, "directory", READ))
        for _ in range(100):
            result, _, output = world.run(["cat", f"{world.secret}/f"], rules)
            seen.add(result.outcome)
            assert "secret\n" not in output
    finally:
        os.kill(swapper, 9)
        os.waitpid(swapper, 0)
    assert seen == {"started", "setup-failed"}


def test_the_very_node_can_be_asked_for(world: World) -> None:
    """A device and inode number are compared, and so is the kind of node."""
    node = os.stat(world.secret)
    right = rule(world.secret, "directory", READ, dev=node.st_dev, ino=node.st_ino)
    assert world.run(["cat", f"{world.secret}/f"], ruleset(right))[2] == "secret\n"
    for wrong in (
        {**right, "ino": node.st_ino + 1},
        {**right, "dev": node.st_dev + 1},
        rule(world.secret, "file", READ),
    ):
        result, _, _ = world.run(["true"], ruleset(wrong))
        assert (result.outcome, result.errno) == ("setup-failed", errno.ESTALE)


def test_missing_paths_stop_or_are_skipped(world: World) -> None:
    """A path that is gone is a failure that names it, or is reported as skipped when its rule is optional."""
    gone = world.work / "gone"
    result, _, _ = world.run(["true"], ruleset(rule(gone, "file", READ)))
    assert (result.outcome, result.errno) == ("setup-failed", errno.ENOENT)
    assert str(gone) in result.message
    result, code, _ = world.run(["true"], ruleset(rule(gone, "file", READ, optional=True)))
    assert (result.outcome, result.skipped, code) == ("started", (str(gone),), 0)


def test_special_files_are_not_opened(world: World) -> None:
    """A rule on a FIFO, a socket or a device neither blocks nor wakes anybody."""
    fifo, bound = world.work / "fifo", world.work / "sock"
    os.mkfifo(fifo)
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(bound))
    rules = ruleset(
        rule(fifo, "fifo", ["read_file", "write_file"]),
        rule(bound, "socket", ["read_file"]),
        rule("/dev/tty", "char-device", ["read_file", "write_file"]),
    )
    with within(120):
        result, code, _ = world.run(["true"], rules)
    server.close()
    assert (result.outcome, code) == ("started", 0)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"abi": None}, "whole number"),
        ({"abi": 99}, "ABI 99"),
        ({"handled_fs": ["read_all"]}, "read_all"),
        ({"handled_fs": "execute"}, "list of names"),
        ({"rules": {}}, "list of objects"),
        ({"rules": [{"path": "usr", "kind": "directory", "rights": []}]}, "absolute"),
        ({"rules": [{"path": "/usr", "kind": "door", "rights": []}]}, "kind of node"),
        ({"rules": [{"path": "/etc/passwd", "kind": "file", "rights": ["read_dir"]}]}, "cannot carry"),
        ({"rules": [{"path": "/usr/../etc", "kind": "directory", "rights": ["execute"]}]}, "/usr/../etc"),
        ({"ports": [{"port": 80, "rights": ["connect_tcp"]}]}, "not handled"),
        ({"restrict_flags": ["loud"]}, "loud"),
    ],
)
def test_a_wrong_rule_set_stops_the_run(world: World, change: dict[str, Any], text: str) -> None:
    """A rule set of another shape, or with rights that would not take effect, runs nothing."""
    result, _, _ = world.run(["true"], {**ruleset(), **change})
    assert (result.outcome, result.stage) == ("setup-failed", "setup")
    assert text in result.message


def test_no_rule_set_leaves_the_file_system_alone(world: World) -> None:
    """With None in place of a rule set the other measures hold and files stay readable."""
    assert world.run(["cat", f"{world.secret}/f"], None)[2] == "secret\n"


def test_scopes_alone_are_a_rule_set(world: World) -> None:
    """A rule set with scopes only, for use inside another sandbox, keeps signals in; before ABI 6 nothing runs."""
    scoped = {"abi": 6, "scoped": ["signal", "abstract_unix_socket"]}
    script = "kill -0 $PPID 2>/dev/null && echo reached; cat /etc/hostname >/dev/null && echo readable"
    result, _, output = world.run(["sh", "-c", script], scoped)
    assert (result.outcome, output) == (("started", "readable\n") if ABI >= 6 else ("setup-failed", ""))


PROBE = """
import ctypes, json, os, sys
libc = ctypes.CDLL(None, use_errno=True)
out = []
for nr, *args in json.load(open(0)):
    buffer = ctypes.create_string_buffer(64)
    words = [ctypes.c_long(nr)] + [buffer if a == "buffer" else ctypes.c_long(a) for a in args]
    ctypes.set_errno(0)
    r = libc.syscall(*words)
    out.append(0 if r >= 0 else ctypes.get_errno())
    if r > 2 and args[0] != "keep":
        os.close(r)
print(json.dumps(out))
"""


@pytest.mark.skipif(not os.path.exists(PYTHON), reason="needs the system's Python")
@pytest.mark.skipif(platform.machine() not in seccomp.ARCHES, reason="no filter for this machine")
@pytest.mark.parametrize("network", ["deny", "loopback", "tcp-ports", "allow-all"])
def test_the_kernel_agrees_with_the_interpreter(world: World, network: str) -> None:
    """For many socket calls the loaded filter refuses exactly what `evaluate` says it refuses."""
    arch = platform.machine()
    mode, tcp = ("loopback", True) if network == "tcp-ports" else (network, False)
    program = seccomp.landlock_filter(arch, network=mode, abi=PLAN_ABI, tcp_ports=tcp)
    families = (1, 2, 10, 15, 16, 17, 31, 38, 40, 2 | 1 << 32)
    kinds = (1, 2, 3, 5, 10, 1 | 0o2000000, 2 | 1 << 32)
    make, pair = seccomp.number(arch, "socket"), seccomp.number(arch, "socketpair")
    calls: list[list[Any]] = [[make, f, k, p] for f in families for k in kinds for p in (0, 6, 17, 262)]
    calls += [[pair, family, kind, 0, "buffer"] for family in families for kind in kinds]
    calls += [[seccomp.number(arch, "io_uring_setup"), 1, "buffer"]]
    calls += [[seccomp.number(arch, "ioctl"), 0, cmd, "buffer"] for cmd in (0x5412, 0x541C, 0x5412 | 1 << 32)]
    read_end, write_end = os.pipe()
    os.write(write_end, json.dumps(calls).encode())
    os.close(write_end)
    _, code, output = world.run([PYTHON, "-c", PROBE], ruleset(), program, stdin=read_end)
    os.close(read_end)
    assert code == 0, output
    for (nr, *args), number in zip(calls, json.loads(output), strict=True):
        numbers = [0 if word == "buffer" else word for word in args]
        verdict = seccomp.evaluate(program, arch, nr, numbers)
        if verdict.action == "errno":
            assert number == verdict.errno, (nr, args)
        elif nr == seccomp.number(arch, "socket") and args[1] & 0xF in (1, 2) and args[2] == 0 and args[0] < 11:
            assert number == 0, (nr, args)


DATAGRAM = """
import socket, sys
try:
    a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    a.sendto(b"out", sys.argv[1])
    print("sent")
except OSError as error:
    print("refused", error.errno)
a, b = socket.socketpair()
try:
    a.connect(sys.argv[2])
    print("connected")
except OSError as error:
    print("refused", error.errno)
a.send(b"x")
print(b.recv(1))
"""


@pytest.mark.skipif(not os.path.exists(PYTHON), reason="needs the system's Python")
@pytest.mark.skipif(platform.machine() not in seccomp.ARCHES, reason="no filter for this machine")
def test_no_end_of_a_pair_reaches_an_outside_socket(world: World) -> None:
    """A pair can be used among its ends only: a datagram end sent elsewhere would reach a host's socket."""
    paths = [str(world.work / name) for name in ("datagram", "stream")]
    servers = [socket.socket(socket.AF_UNIX, kind) for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM)]
    for server, path in zip(servers, paths, strict=True):
        server.bind(path)
        os.chmod(path, 0o777)
    servers[1].listen()
    program = seccomp.landlock_filter(platform.machine(), network="deny", abi=8)
    _, _, output = world.run([PYTHON, "-c", DATAGRAM, *paths], ruleset(), program)
    for server in servers:
        server.close()
    assert output.splitlines() == [f"refused {errno.EACCES}", f"refused {errno.EISCONN}", "b'x'"]


FOREIGN = r"""
#include <stdio.h>
int main(void) {
    long r;
    __asm__ volatile("int $0x80" : "=a"(r) : "a"(359), "b"(2), "c"(1), "d"(0) : "memory");
    printf("%ld ", r);
    __asm__ volatile("syscall" : "=a"(r) : "a"(0x40000000L + 41), "D"(2L), "S"(1L), "d"(0L)
                     : "rcx", "r11", "memory");
    printf("%ld\n", r);
    return 0;
}
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="an x86-64 entry")
@pytest.mark.skipif(not os.path.exists("/usr/bin/gcc"), reason="needs a C compiler")
@pytest.mark.parametrize("network", ["deny", "allow-all"])
def test_other_entries_of_the_kernel_are_shut(world: World, network: str) -> None:
    """int 0x80 and x32 numbers answer ENOSYS."""
    binary = world.work / "foreign"
    subprocess.run(["/usr/bin/gcc", "-x", "c", "-", "-o", str(binary)], input=FOREIGN.encode(), check=True)
    program = seccomp.landlock_filter("x86_64", network=network, abi=PLAN_ABI)
    _, _, output = world.run([str(binary)], ruleset(rule(world.work, "directory", READ)), program)
    assert output == f"{-errno.ENOSYS} {-errno.ENOSYS}\n"


def test_as_a_program_it_becomes_the_command(tmp_path: Path) -> None:
    """The command line confines, executes, reports on its status descriptor, and has a shell's exit codes."""
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(ruleset()))
    base = [sys.executable, "-m", "sandboxc.runtime.landlock_exec", "--ruleset", str(plan)]
    env = {**ENV, "PYTHONPATH": str(ROOT)}

    def run(*words: str, **options: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*base, *words], env=env, capture_output=True, text=True, **options)

    assert run("--", "sh", "-c", "exit 7").returncode == 7
    assert run("--cwd", "/etc", "--", "pwd").stdout == "/etc\n"
    assert run("--", "cat", str(plan)).returncode == 1
    assert run("--", "/etc/passwd").returncode == 126
    assert run("--", "no-such-command").returncode == 127
    assert run("--seccomp", "/no/such", "--", "true").returncode == 125
    assert run("--").returncode == 125
    assert run("--loud", "1", "--", "true").stderr.startswith("sandboxc: ")
    read_end, write_end = os.pipe()
    run("--status-fd", str(write_end), "--", "true", pass_fds=(write_end,))
    os.close(write_end)
    with os.fdopen(read_end) as pipe:
        assert json.loads(pipe.read()) == {"stage": "ready", "skipped": []}


def test_importing_costs_little() -> None:
    """No module of the launcher imports ctypes, subprocess, logging or dataclasses before it is used."""
    code = (
        "import sys, sandboxc.runtime.landlock_exec, sandboxc.runtime.mounts, sandboxc.runtime.occupants;"
        "print([m for m in ('ctypes','subprocess','logging','dataclasses','pathlib') if m in sys.modules])"
    )
    env = {**ENV, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-S", "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_kernel_knows_what_the_table_says() -> None:
    """This kernel takes the full masks of its ABI and refuses one right more."""
    known = min(ABI, landlock_abi.LATEST)
    masks = landlock_abi.handled_fs(known), landlock_abi.handled_net(known), landlock_abi.scopes(known)
    os.close(linux.landlock_create_ruleset(*masks))
    if known < landlock_abi.LATEST:
        with pytest.raises(OSError, match="Invalid argument"):
            linux.landlock_create_ruleset(masks[0] | masks[0] + 1)
    assert linux.landlock_errata() >= 0

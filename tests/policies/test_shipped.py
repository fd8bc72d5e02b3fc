"""Each shipped policy does what it is for, on Linux, under bubblewrap and under Landlock, as root and as a user."""

import base64
import contextlib
import hashlib
import http.server
import io
import json
import shutil
import socket
import tarfile
import threading
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests._run_world import LINUX, NAMES, POLICIES, PYTHON, World

pytestmark = pytest.mark.skipif(not LINUX, reason="needs Linux and the system's Python")

WRITING = tuple(name for name in NAMES if name not in ("read-only", "log-investigation"))


def have(program: str) -> pytest.MarkDecorator:
    """Return a mark that skips a test where a program is not in the directories that every user has."""
    found = shutil.which(program, path="/usr/local/bin:/usr/bin:/bin")
    return pytest.mark.skipif(found is None, reason=f"needs {program}")


def start(world: World, policy: str) -> Path:
    """Return a directory that a command can start in: under a denied baseline the project is none."""
    return Path("/usr") if policy == "log-investigation" else world.project


def every_way_fails(world: World, policy: str, ways: Sequence[str], **more: Any) -> None:
    """Try shell commands in one run, and fail with those that succeed."""
    script = "".join(f"( {way} ) > /dev/null 2>&1 && echo 'worked: {number}'\n" for number, way in enumerate(ways))
    ran = world.ok(policy, "sh", "-c", script + "echo done", **more)
    assert ran.out == "done\n", [way for number, way in enumerate(ways) if f"worked: {number}\n" in ran.out]


def repository(world: World, policy: str) -> None:
    """Make a repository with one file, confined."""
    world.write("project/a.txt", "a\n")
    world.ok(policy, "git", "init", "-q", ".")
    world.ok(policy, "git", "add", "a.txt")


# -- git ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", WRITING)
def test_git_commits(run_world: World, policy: str) -> None:
    """Under every policy that writes, git init, add, commit and switch work confined."""
    repository(run_world, policy)
    run_world.ok(policy, "git", "commit", "-q", "-m", "first")
    run_world.write("project/sub/b.txt", "b\n")
    more = "git add -A && git commit -qm second && git branch topic && git switch -q topic && git log --format=%s"
    assert run_world.ok(policy, "sh", "-c", more).out == "second\nfirst\n"


@pytest.mark.parametrize("policy", WRITING)
def test_hooks_are_held_or_waived_by_name(run_world: World, policy: str) -> None:
    """bubblewrap refuses a planted hook on every way; Landlock says in the record that this was waived, and why."""
    repository(run_world, policy)
    if run_world.target == "bwrap":
        ways = (
            "echo evil > .git/hooks/pre-commit",
            "mv .git/hooks .git/old",
            "mv .git aside",
            "echo '[core] hooksPath = /tmp' >> .git/config",
            "git config core.hooksPath /tmp",
            "ln -f a.txt .git/hooks/pre-commit",
        )
        every_way_fails(run_world, policy, ways)
        assert not (run_world.project / ".git/hooks/pre-commit").exists()
        assert (run_world.project / ".git/config").is_file()
    else:
        ran = run_world.ok(policy, "true", report=True)
        waived = [loss for loss in ran.record["applied"]["losses"] if loss["code"] == "SBX453" and loss["waived"]]
        assert "${workspace}" in {loss["at"] for loss in waived}
        assert ran.record["applied"]["enforcement"] == "partial"


def test_the_waiver_has_its_reason_in_the_text() -> None:
    """Every waiver of every shipped policy gives a reason of more than a few words."""
    from sandboxc.loader import load

    for name in NAMES:
        policy = load(str(POLICIES / f"{name}.yaml")).policy
        assert policy is not None
        assert all(len(waiver.reason.split()) >= 6 for waiver in policy.waivers), name


# -- what every policy keeps closed --------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", NAMES)
def test_secrets_and_tools_stay_closed(run_world: World, policy: str) -> None:
    """Keys cannot be read and the user's tools and shell start files cannot be changed under any policy."""
    run_world.write("home/.ssh/id_ed25519", "key\n", 0o600)
    run_world.write("home/.aws/credentials", "key\n", 0o600)
    run_world.write("home/.local/bin/tool", "#!/bin/sh\n", 0o755)
    run_world.write("home/.profile", "# mine\n")
    ways = [f'cat "{run_world.home / path}"' for path in (".ssh/id_ed25519", ".aws/credentials")]
    names = (".local/bin/tool", ".local/bin/other", ".profile", ".bashrc", ".new")
    ways += [f'echo evil >> "{run_world.home / name}"' for name in names]
    every_way_fails(run_world, policy, ways, cwd=start(run_world, policy))
    assert (run_world.home / ".profile").read_text() == "# mine\n"
    assert not (run_world.home / ".bashrc").exists()


@pytest.mark.parametrize("policy", WRITING)
def test_a_private_temp_directory_comes_and_goes(run_world: World, policy: str) -> None:
    """TMPDIR is a directory of the run's own that is gone afterwards."""
    ran = run_world.ok(policy, "sh", "-c", 'echo x > "$TMPDIR/f" && cat "$TMPDIR/f" && echo "$TMPDIR"')
    first, path = ran.out.split()
    assert first == "x"
    assert not Path(path).exists()


def test_read_only_changes_nothing(run_world: World) -> None:
    """`read-only` reads the project and writes nowhere."""
    run_world.write("project/a.txt", "a\n")
    assert run_world.ok("read-only", "cat", "a.txt").out == "a\n"
    ways = [f'echo x > "{place}/made"' for place in (run_world.project, run_world.home, "/tmp", "/var/tmp")]
    ways += ["rm a.txt", "mv a.txt b.txt", "echo x >> a.txt"]
    every_way_fails(run_world, "read-only", ways)
    assert (run_world.project / "a.txt").read_text() == "a\n"


def test_coding_agent_cannot_read_dotenv(run_world: World) -> None:
    """`coding-agent` denies `.env` files at every depth, and commits still work beside them."""
    repository(run_world, "coding-agent")
    run_world.write("project/.env", "TOKEN=x\n")
    run_world.write("project/app/.env", "TOKEN=x\n")
    run_world.write("project/app/main.py", "print(1)\n")
    for path in (".env", "app/.env"):
        run_world.refused("coding-agent", "cat", path)
        run_world.refused("coding-agent", "sh", "-c", f"mv {path} seen && cat seen")
    assert run_world.ok("coding-agent", "cat", "app/main.py").out == "print(1)\n"
    run_world.ok("coding-agent", "sh", "-c", "echo 'print(2)' > app/main.py && git add app/main.py && git commit -qm x")
    assert (run_world.project / ".env").read_text() == "TOKEN=x\n"


def test_ci_runner_has_no_home(run_world: World) -> None:
    """`ci-runner` reads nothing of the home but a checkout inside it, and cannot change its own pipeline."""
    run_world.write("home/notes", "private\n")
    run_world.write(
        "home/work/repo/test_it.py", "import unittest\nclass T(unittest.TestCase):\n def test(self): pass\n"
    )
    run_world.write("home/work/repo/.github/workflows/ci.yml", "on: push\n")
    cwd = run_world.home / "work/repo"
    run_world.refused("ci-runner", "cat", str(run_world.home / "notes"), cwd=cwd)
    run_world.refused("ci-runner", "ls", str(run_world.home), cwd=cwd)
    ran = run_world.ok("ci-runner", PYTHON, "-B", "-m", "unittest", "-q", cwd=cwd)
    assert "OK" in ran.err
    run_world.ok("ci-runner", "sh", "-c", "mkdir -p build && echo done > build/out", cwd=cwd)
    pipeline = cwd / ".github/workflows/ci.yml"
    if run_world.target == "bwrap":
        run_world.refused("ci-runner", "sh", "-c", f'echo evil >> "{pipeline}"', cwd=cwd)
        run_world.refused("ci-runner", "mv", ".github", "other", cwd=cwd)
        assert pipeline.read_text() == "on: push\n"


# -- builds and test suites ------------------------------------------------------------------------------------------


def wheel() -> bytes:
    """Return a wheel of a package `calc` with one function, made by hand."""
    files = {
        "calc.py": b"def add(a, b):\n    return a + b\n",
        "calc-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: calc\nVersion: 1.0\n",
        "calc-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    lines = []
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(data)}\n")
    files["calc-1.0.dist-info/RECORD"] = "".join([*lines, "calc-1.0.dist-info/RECORD,,\n"]).encode()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return out.getvalue()


BACKEND = """
import io, os, zipfile
def build_wheel(directory, settings=None, metadata=None):
    name = "shapes-1.0-py3-none-any.whl"
    files = {
        "shapes.py": open("shapes.py").read(),
        "shapes-1.0.dist-info/METADATA": "Metadata-Version: 2.1\\nName: shapes\\nVersion: 1.0\\n",
        "shapes-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    }
    files["shapes-1.0.dist-info/RECORD"] = "".join(f"{name},,\\n" for name in files)
    with zipfile.ZipFile(os.path.join(directory, name), "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return name
"""


def sdist() -> bytes:
    """Return a source distribution of a package `shapes` that brings its own build backend."""
    files = {
        "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "own"\nbackend-path = ["."]\n'
        '[project]\nname = "shapes"\nversion = "1.0"\n',
        "own.py": BACKEND,
        "shapes.py": "SIDES = 4\n",
        "PKG-INFO": "Metadata-Version: 2.1\nName: shapes\nVersion: 1.0\n",
    }
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(f"shapes-1.0/{name}")
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    return out.getvalue()


TEST_SUITE = """\
import unittest
import calc
import shapes

class Calc(unittest.TestCase):
    def test_add(self):
        self.assertEqual(calc.add(2, 2), shapes.SIDES)
"""


def test_python_dev_makes_an_environment(run_world: World) -> None:
    """`python-dev` makes a venv, installs a wheel and a source distribution offline, and runs a test suite."""
    shelf = run_world.base / "wheels"
    shelf.mkdir()
    (shelf / "calc-1.0-py3-none-any.whl").write_bytes(wheel())
    (shelf / "shapes-1.0.tar.gz").write_bytes(sdist())
    run_world.write("project/test_calc.py", TEST_SUITE)
    run_world.write("home/.pypirc", "[pypi]\npassword = x\n", 0o600)
    run_world.write("home/.netrc", "machine pypi.org login x password y\n", 0o600)
    run_world.ok("python-dev", PYTHON, "-m", "venv", ".venv")
    install = ("-m", "pip", "install", "-q", "--no-index", "--find-links", str(shelf), "calc", "shapes")
    run_world.ok("python-dev", ".venv/bin/python", *install)
    ran = run_world.ok("python-dev", ".venv/bin/python", "-B", "-m", "unittest", "-q")
    assert "Ran 1 test" in ran.err
    cache = run_world.home / ".cache/pip"
    assert cache.is_dir()
    assert list(cache.rglob("*.whl")), "the wheel that pip built is not in its cache"
    run_world.refused("python-dev", "cat", str(run_world.home / ".pypirc"))
    run_world.refused("python-dev", PYTHON, "-m", "pip", "install", "--user", "--no-index", "-f", str(shelf), "calc")


@have("npm")
def test_node_dev_installs_and_tests(run_world: World) -> None:
    """`node-dev` installs a local directory and a packed tarball offline, and `npm test` passes."""
    run_world.write("project/lib/package.json", json.dumps({"name": "lib", "version": "1.0.0", "main": "index.js"}))
    run_world.write("project/lib/index.js", "exports.add = (a, b) => a + b;\n")
    run_world.write("other/package.json", json.dumps({"name": "other", "version": "2.0.0", "main": "index.js"}))
    run_world.write("other/index.js", "exports.two = 2;\n")
    app = {
        "name": "app",
        "version": "1.0.0",
        "dependencies": {"lib": "file:./lib", "other": "file:./other-2.0.0.tgz"},
        "scripts": {"test": "node --test"},
    }
    run_world.write("project/package.json", json.dumps(app))
    check = "const {two} = require('other');\ntest('adds', () => assert.equal(require('lib').add(two, 2), 4));\n"
    head = "const test = require('node:test'), assert = require('node:assert');\n"
    run_world.write("project/app.test.js", head + check)
    run_world.write("home/.npmrc", "//registry.example.invalid/:_authToken=x\n", 0o600)
    run_world.ok("node-dev", "npm", "pack", "--silent", str(run_world.base / "other"))
    run_world.ok("node-dev", "npm", "install", "--offline", "--no-audit", "--no-fund")
    ran = run_world.ok("node-dev", "npm", "test")
    assert "pass 1" in ran.out
    assert list((run_world.home / ".npm/_cacache").iterdir()), "npm could not use its cache"
    assert list((run_world.home / ".npm/_logs").iterdir()), "npm could not write its logs"
    run_world.refused("node-dev", "cat", str(run_world.home / ".npmrc"))
    run_world.refused("node-dev", "sh", "-c", "mkdir ~/.npm/_npx")


@have("gcc")
@have("make")
def test_rust_go_dev_builds_with_make(run_world: World) -> None:
    """`rust-go-dev` builds and runs a C program with make, as build scripts of crates and cgo do."""
    run_world.write("project/main.c", '#include <stdio.h>\nint main(void) { puts("built"); return 0; }\n')
    run_world.write("project/Makefile", "test: main\n\t./main\nmain: main.c\n\tgcc -o main main.c\n")
    assert run_world.ok("rust-go-dev", "make", "-s", "test").out == "built\n"


def test_rust_go_dev_builds_with_cargo(run_world: World) -> None:
    """`rust-go-dev` fetches a crate into cargo's cache and runs its test suite, offline."""
    cargo = _cargo(run_world)
    run_world.write("dep/Cargo.toml", '[package]\nname = "dep"\nversion = "0.1.0"\nedition = "2021"\n')
    run_world.write("dep/src/lib.rs", "pub fn add(a: i32, b: i32) -> i32 { a + b }\n")
    git = ("git", "-C", str(run_world.base / "dep"), "-c", "safe.directory=*")
    for words in (("init", "-q", "."), ("add", "."), ("commit", "-q", "-m", "x")):
        _unconfined(run_world, *git, *words)
    manifest = '[package]\nname = "app"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\n'
    run_world.write("project/Cargo.toml", f'{manifest}dep = {{git = "file://{run_world.base}/dep"}}\n')
    run_world.write("project/src/lib.rs", "#[test]\nfn adds() { assert_eq!(dep::add(2, 2), 4); }\n")
    run_world.write("home/.cargo/credentials.toml", '[registry]\ntoken = "x"\n', 0o600)
    run_world.write("home/.cargo/bin/tool", "#!/bin/sh\n", 0o755)
    env = run_world.environment(PATH=f"{cargo.parent}:/usr/bin:/bin")
    ran = run_world.ok("rust-go-dev", "cargo", "test", "-q", env=env)
    assert "1 passed" in ran.out
    run_world.refused("rust-go-dev", "sh", "-c", "echo evil > ~/.cargo/bin/tool")
    run_world.refused("rust-go-dev", "cat", str(run_world.home / ".cargo/credentials.toml"))


def _cargo(world: World) -> Path:
    """Return a cargo that the world's user can execute without rustup, or skip."""
    found = shutil.which("cargo", path="/usr/local/bin:/usr/bin:/bin")
    toolchains = sorted((Path.home() / ".rustup/toolchains").glob("stable-*/bin/cargo"))
    if not found and toolchains and not world.uid:
        found = str(toolchains[0])
    if not found:
        pytest.skip("needs a cargo that this user can execute")
    return Path(found)


@have("go")
def test_rust_go_dev_builds_with_go(run_world: World) -> None:
    """`rust-go-dev` runs a Go test suite, offline."""
    run_world.write("project/go.mod", "module example.invalid/app\n\ngo 1.18\n")
    body = 'package app\n\nimport "testing"\n\nfunc TestAdd(t *testing.T) { if 2+2 != 4 { t.Fail() } }\n'
    run_world.write("project/app_test.go", body)
    run_world.ok("rust-go-dev", "go", "test", "./...")


def _unconfined(world: World, *command: str) -> None:
    import subprocess

    words = list(command)
    if world.uid:
        words[:0] = ["setpriv", "--reuid", str(world.uid), "--regid", str(world.uid), "--clear-groups"]
    subprocess.run(words, env=world.environment(), check=True, capture_output=True)


# -- logs ------------------------------------------------------------------------------------------------------------


def test_log_investigation_reads_logs_and_nothing_else(run_world: World) -> None:
    """`log-investigation` greps, counts and computes over the bound directory; everything else is unreadable."""
    logs = run_world.base / "logs"
    run_world.write("logs/app/today.log", "ok 10\nerror 32\nerror 10\n")
    run_world.write("home/notes", "private\n")
    run_world.write("elsewhere/other.log", "error 1\n")
    run_world.write("project/source.py", "secret = 1\n")
    bind = (f"--bind=logs={logs}", f"--cwd={logs}")
    log = str(logs / "app/today.log")

    def ok(*command: str) -> str:
        out: str = run_world.ok("log-investigation", *command, options=bind).out
        return out

    assert ok("grep", "-c", "error", log) == "2\n"
    assert ok("awk", "/error/ {n += $2} END {print n}", log) == "42\n"
    assert ok("sh", "-c", f'sort "{log}" | uniq | head -n 1 | sed s/error/E/') == "E 10\n"
    assert ok(PYTHON, "-c", f"import re, json, datetime; print(len(open({log!r}).readlines()))") == "3\n"
    assert ok("find", str(logs), "-name", "*.log") == log + "\n"
    base = run_world.base
    unreadable = (f"{base}/home/notes", f"{base}/elsewhere/other.log", f"{base}/project/source.py", "/etc/shadow")
    ways = [f'cat "{path}"' for path in (*unreadable, "/var/log/dpkg.log")]
    ways += [f'ls "{path}"' for path in (run_world.home, base / "elsewhere")]
    ways += [f'echo x >> "{log}"', f'rm "{log}"', f'echo x > "{logs}/new"', "echo x > /tmp/new"]
    every_way_fails(run_world, "log-investigation", ways, options=bind)


# -- network ---------------------------------------------------------------------------------------------------------

LOOPBACK = """
import socket, sys, threading
for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
    server = socket.create_server((host, 0), family=family)
    threading.Thread(target=lambda s=server: s.accept()[0].sendall(b"hello"), daemon=True).start()
    with socket.create_connection(server.getsockname()[:2], 5) as client:
        print(client.recv(5).decode())
"""
REACH = "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1])), 2)"
DATAGRAM = "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 9))"


@contextlib.contextmanager
def host_server() -> Iterator[int]:
    """Give the port of a web server on the host's loopback."""
    server = http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def network(policy: str) -> str:
    """Return the network mode of a shipped policy."""
    from sandboxc.loader import load

    loaded = load(str(POLICIES / f"{policy}.yaml")).policy
    assert loaded is not None
    return loaded.network.mode


@pytest.mark.parametrize("policy", NAMES)
def test_the_network_is_what_the_policy_says(run_world: World, policy: str) -> None:
    """A server on the host is reached under `allow-all` only, by no protocol else."""
    with host_server() as port:
        ran = run_world.run(policy, PYTHON, "-c", REACH, str(port), cwd=start(run_world, policy))
    mode = network(policy)
    assert ran.code != 125, ran.err
    assert (ran.code == 0) == (mode == "allow-all"), ran.err
    if mode != "allow-all":
        run_world.refused(policy, PYTHON, "-c", DATAGRAM, cwd=start(run_world, policy))


def test_loopback_serves_itself(run_world: World) -> None:
    """Under bubblewrap a server and its client meet inside; Landlock has no network then, and the record says so."""
    ran = run_world.run("coding-agent-loopback", PYTHON, "-c", LOOPBACK, report=True)
    if run_world.target == "bwrap":
        assert ran.out == "hello\nhello\n", ran.err
    else:
        assert ran.code != 0
        assert "SBX467" in {loss["code"] for loss in ran.record["applied"]["losses"]}


def test_sockets_of_the_host_are_refused(run_world: World) -> None:
    """A Unix socket that was there before the run cannot be connected to under `coding-agent`."""
    path = run_world.project / "agent.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        path.chmod(0o777)
        server.listen()
        code = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])"
        run_world.refused("coding-agent", PYTHON, "-c", code, str(path))


def test_a_test_suite_in_processes(run_world: World) -> None:
    """Subprocesses, pipes and a process pool work under `coding-agent`, as test runners need them."""
    code = (
        "import subprocess, sys, concurrent.futures as f\n"
        "if __name__ == '__main__':\n"
        " print(subprocess.check_output(['echo', 'one'], text=True), end='')\n"
        " with f.ThreadPoolExecutor(2) as pool: print(list(pool.map(abs, [-1, 2])))\n"
    )
    run_world.write("project/many.py", code)
    assert run_world.ok("coding-agent", PYTHON, "many.py").out == "one\n[1, 2]\n"

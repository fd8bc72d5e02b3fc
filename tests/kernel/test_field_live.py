"""Field cases that only a kernel answers: S15 (absent denied path), S25 (loopback), S31 (moving what is denied)."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

if sys.platform != "linux":
    pytest.skip("needs Linux", allow_module_level=True)

from tests.kernel import _bwrap_lab as lab
from tests.kernel import _landlock_world as scratch

needs_bwrap = pytest.mark.skipif(not lab.usable(), reason="needs a working bubblewrap")
needs_landlock = pytest.mark.skipif(not scratch.USABLE, reason="no usable Landlock on this host")

BARE = "mode: workspace-write\nhidden: {preset: none, reason: t}\nprotected: {preset: none, reason: t}\n"

#: Serves on a loopback of its own and says which addresses reach it, and which addresses of the host are reached.
LOOPBACK = r"""
import json, socket, sys, threading
def reach(family, host, port):
    with socket.socket(family) as end:
        end.settimeout(2)
        try: end.connect((host, port))
        except OSError as fault: return type(fault).__name__
        return "ok"
out = {}
with socket.socket(socket.AF_INET6) as server:
    server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    server.bind(("::", 0))
    server.listen(8)
    port = server.getsockname()[1]
    six = socket.AF_INET6
    for family, host in ((socket.AF_INET, "127.0.0.1"), (six, "::1"), (six, "::ffff:127.0.0.1")):
        out[host] = reach(family, host, port)
out["host"] = reach(socket.AF_INET, "127.0.0.1", int(sys.argv[1]))
for host in ("10.0.0.5", "93.184.216.34"):
    out[host] = reach(socket.AF_INET, host, 80)
print(json.dumps(out))
"""


@pytest.fixture(params=lab.USERS, ids=lambda uid: f"uid{uid}")
def world(request: pytest.FixtureRequest) -> Iterator[lab.Lab]:
    """A scratch world for each user that this machine can test as."""
    with tempfile.TemporaryDirectory(prefix="sbxf", dir="/var/tmp") as base:
        os.chmod(base, 0o755)
        yield lab.Lab(Path(os.path.realpath(base)), request.param)


@needs_bwrap
def test_s15_absent_denied_path(world: lab.Lab) -> None:
    """S15: the run starts, the name cannot be made or filled where the parent is writable, and nothing stays behind."""
    policy = BARE + "entries:\n  - {path: ~/.aws, access: deny}\n"
    assert world.tries(policy, ("create", world.at("w/x"))) == ["ok"]
    policy += "  - {path: ~/, access: write}\n"
    aws = world.at("home/.aws")
    answers = world.tries(policy, ("mkdir", aws), ("create", aws), ("create", f"{aws}/credentials"), ("delete", aws))
    assert "ok" not in answers
    assert world.tries(policy, ("create", world.at("home/.other"))) == ["ok"]
    assert not os.path.lexists(aws)


@needs_bwrap
def test_s25_loopback_only(world: lab.Lab) -> None:
    """S25: three spellings of the sandbox's own loopback work; the host's servers and other hosts are out of reach."""
    with socket.socket() as outside:
        outside.bind(("127.0.0.1", 0))
        outside.listen(8)
        port = str(outside.getsockname()[1])
        result = world.run(BARE + "network: loopback\n", [lab.PYTHON, "-c", LOOPBACK, port])
    assert result.started and result.code == 0, result
    found = json.loads(result.out)
    assert [found.pop(host) for host in ("127.0.0.1", "::1", "::ffff:127.0.0.1")] == ["ok", "ok", "ok"]
    assert "ok" not in found.values(), found


@pytest.mark.parametrize("target", ["bwrap", "landlock"])
def test_a_parameter_that_a_run_could_have_redirected(target: str, tmp_path: Path) -> None:
    """A parameter whose default place was made a link by an earlier run opens nothing: the next run is refused."""
    for name in ("home/.cache", "w", "outside"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "outside" / "f").write_text("kept")
    (tmp_path / "home" / ".cache" / "tool").symlink_to(tmp_path / "outside")
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "sandboxc: 1\nmode: workspace-write\ntargets: [bwrap, landlock]\n"
        "parameters:\n  cache: {type: path, default: ~/.cache/tool}\n"
        "entries:\n  - {path: ~/.cache, access: write}\n"
        '  - {path: "${cache}", access: write}\n'
    )
    words = [
        sys.executable,
        "-m",
        "sandboxc",
        "run",
        str(policy),
        "--bind",
        f"home={tmp_path}/home",
        "--target",
        target,
    ]
    script = f"echo planted > {tmp_path}/outside/f"
    done = subprocess.run(
        [*words, "--", "/bin/sh", "-c", script],
        cwd=tmp_path / "w",
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 125 and "SBX712" in done.stderr, done
    assert (tmp_path / "outside" / "f").read_text() == "kept"


MOVES = (
    ("rename", "w/a/secret"),
    ("rename", "w/a"),
    ("rename", "w/b"),
    ("read", "w/a/secret"),
    ("read", "w/b/f"),
)


@needs_bwrap
def test_s31_moving_a_denied_thing_under_bubblewrap(world: lab.Lab) -> None:
    """S31: neither a denied file nor its directory can be moved to a readable name; another directory can."""
    world.make("w/a/secret", "w/a/f", "w/b/f")
    policy = BARE + 'entries:\n  - {path: "${workspace}/a/secret", access: deny}\n'
    answers = world.tries(policy, *((op, world.at(name)) for op, name in MOVES))
    assert [answer == "ok" for answer in answers] == [False, False, True, False, True]
    moved = world.tries(policy, ("move", world.at("w/b"), world.at("w/c")))
    assert moved == ["ok"] and (world.w / "c" / "f").exists()


@needs_landlock
@pytest.mark.parametrize("uid", scratch.USERS)
def test_s31_moving_a_denied_thing_under_landlock(uid: int) -> None:
    """S31: under Landlock the first two fail as well, and the third fails too: narrower, and declared."""
    with contextlib.ExitStack() as stack:
        root = os.path.realpath(stack.enter_context(tempfile.TemporaryDirectory(prefix="sbxf", dir="/var/tmp")))
        for name in ("w/a", "w/b", "o"):
            os.makedirs(f"{root}/{name}")
        for name in ("w/a/secret", "w/a/f", "w/b/f"):
            Path(root, name).write_text("x")
        for path in (Path(root), *Path(root).rglob("*")):
            os.chown(path, uid, uid)
        os.chmod(root, 0o755)
        box = scratch.World(root, uid)
        text = scratch.BARE + 'entries:\n  - {path: "${workspace}/a/secret", access: deny}\n'

        def job() -> Any:
            def rename(name: str) -> str:
                return scratch.attempt(lambda: os.rename(f"{root}/{name}", f"{root}/{name}-moved"))

            read = scratch.attempt(lambda: scratch.read(f"{root}/w/a/secret"))
            return [rename("w/a/secret"), rename("w/a"), rename("w/b"), read]

        answers = scratch.inside(box, text, job)
        assert "ok" not in answers
        plan, _ = scratch.planned(box, text)
        assert {loss.code for loss in plan.losses} >= {"SBX451"}

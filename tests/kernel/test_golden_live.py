"""The golden cases on this kernel: each world is built, each region tried, and the answers are the layers' own.

What bubblewrap and Landlock answer must equal what the layers say of the world as it stands, or be a loss that the
case declares. Afterwards the world is as it was.
"""

import contextlib
import json
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

if sys.platform != "linux":
    pytest.skip("needs Linux", allow_module_level=True)

from sandboxc.bound import bind_stack
from sandboxc.compile import compile_policy, options_of
from sandboxc.diagnostics import PolicyError, has_errors
from sandboxc.emitters import landlock
from sandboxc.evaluator import Evaluator
from sandboxc.facts import Facts
from sandboxc.globs import Glob
from sandboxc.layers import RANK, Layers
from sandboxc.places import posix
from sandboxc.policy import DENY, WRITE
from sandboxc.runtime import landlock as landlock_runner
from sandboxc.runtime import landlock_exec
from sandboxc.runtime.hostlook import HostLook
from sandboxc.survey import Resolved, Site, resolve
from tests.golden import golden
from tests.kernel import _bwrap_lab as lab
from tests.kernel import _landlock_world as scratch

#: Cases whose world is more than a scratch directory: a mount, and a pattern that looks at the whole machine.
UNBUILT = {"second-mount", "glob-everywhere"}
CASES = [name for name in golden.names() if golden.load_case(name).tree is not None and name not in UNBUILT]

#: Tries operations and says what each came to; runs by itself inside bubblewrap, and by ``exec`` under Landlock.
PROBE = r"""
import errno, json, os, socket, sys
def attempt(op, path):
    if op == "read":
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        os.read(fd, 1)
        os.close(fd)
    elif op == "list": os.listdir(path)
    elif op == "write": os.close(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK))
    elif op == "truncate": os.truncate(path, os.stat(path).st_size)
    elif op == "chmod": os.chmod(path, os.stat(path).st_mode & 0o7777)
    elif op == "create":
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
        os.unlink(path)
    elif op == "mkdir":
        os.mkdir(path)
        os.rmdir(path)
    elif op == "symlink":
        os.symlink("x", path)
        os.unlink(path)
    elif op == "rename":
        aside = os.path.join(os.path.dirname(path), "moved.tmp")
        os.rename(path, aside)
        os.rename(aside, path)
    elif op == "delete":
        os.rmdir(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)
    elif op == "execute":
        pid = os.posix_spawn(path, [path], {})
        if os.waitpid(pid, 0)[1]: raise OSError(errno.EACCES, "ended badly")
    elif op == "connect":
        with socket.socket(socket.AF_UNIX) as end:
            end.settimeout(2)
            end.connect(path)
    else: raise SystemExit(op)
def attempts(items):
    out = []
    for op, path in items:
        try:
            attempt(op, path)
            out.append("ok")
        except OSError as fault:
            out.append(errno.errorcode.get(fault.errno, str(fault)))
    return out
"""
MAIN = PROBE + "\nprint(json.dumps(attempts(json.load(sys.stdin))))\n"
SCRIPT = b"#!/bin/sh\nexit 0\n"


class Scene(NamedTuple):
    """A built world: whose it is, where it is, and the case bound to it."""

    uid: int | None
    base: Path
    case: golden.Case
    values: Mapping[str, str]
    stack: Layers
    nodes: Mapping[str, str]  # path -> kind

    def survey(self) -> Resolved:
        """Return the survey of this moment."""
        return resolve(self.stack, HostLook(), self.values["home"])


@contextlib.contextmanager
def built(case: golden.Case, uid: int | None) -> Iterator[Scene]:
    """Make a case's world in a scratch directory."""
    base = Path(os.path.realpath(tempfile.mkdtemp(prefix="sbxg", dir="/var/tmp")))
    values = {name: f"{base}{path}" for name, path in case.values("linux").items()}
    compilation = compile_policy(case.policy, ["bwrap", "landlock"], case.facts)
    lowered = compilation.lowered["linux"]
    declared = [parameter.name for parameter in case.policy.parameters]
    stack = bind_stack(lowered.layers, lowered.defaults, declared, values)[1]
    paths, _ = golden.world(case, "linux", values)
    servers: list[socket.socket] = []
    nodes: dict[str, str] = {}
    inodes: dict[Any, str] = {}
    try:
        for path in sorted(paths, key=lambda item: item.split("/")):
            kind = paths[path].get("type", "file")
            nodes[path] = kind
            _make(path, kind, paths[path], inodes, servers)
        for path in (base, *base.rglob("*")):
            if uid is not None:
                os.chown(path, uid, uid, follow_symlinks=False)
            if path.is_dir() and not path.is_symlink():
                nodes.setdefault(str(path), "directory")
        os.chmod(base, 0o755)
        yield Scene(uid, base, case, values, stack, nodes)
    finally:
        for server in servers:
            server.close()
        shutil.rmtree(base, ignore_errors=True)


def _make(path: str, kind: str, spec: Mapping[str, Any], inodes: dict[Any, str], servers: list[socket.socket]) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    mark = spec.get("inode")
    if mark in inodes:
        os.link(inodes[mark], path)
    elif kind == "directory":
        os.makedirs(path, exist_ok=True)
    elif kind == "link":
        os.symlink(spec["target"], path)
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "socket":
        server = socket.socket(socket.AF_UNIX)
        server.bind(path)
        server.listen(8)
        servers.append(server)
    else:
        Path(path).write_bytes(spec["content"].encode() if "content" in spec else SCRIPT)
        os.chmod(path, 0o755)
    if mark is not None:
        inodes.setdefault(mark, path)


def questions(scene: Scene, resolved: Resolved, chmod: bool) -> Iterator[tuple[str, str]]:
    """Yield what to try: every operation on every node, and new names in every directory."""
    given_up = any(waiver.loss == "SBX453" for waiver in scene.case.policy.waivers)  # there deleting works, by waiver
    contents = {path for path, spec in golden.world(scene.case, "linux", scene.values)[0].items() if "content" in spec}
    for path, kind in sorted(scene.nodes.items()):
        if kind == "directory":
            yield "list", path
            yield from ((op, f"{path}/new.tmp") for op in ("create", "mkdir", "symlink"))
        elif kind == "socket":
            yield "connect", path
        elif kind != "link":
            yield "read", path
            yield "write", path
            if kind == "file":
                yield "truncate", path
                if path not in contents:
                    yield "execute", path
        if chmod and kind not in ("link", "socket"):
            yield "chmod", path
        if path != str(scene.base):
            yield "rename", path
            if not expected(resolved, "rename", path) and resolved.access(path) != WRITE and not given_up:
                yield "delete", path
    for site in resolved.sites:
        if site.kind == "absent" and site.layer.span is not None and site.access != WRITE:
            yield "create", site.path
            yield "mkdir", site.path


def expected(resolved: Resolved, op: str, path: str) -> bool:
    """Return what the flattened layers say of an operation, pins, links and sockets of the world included."""
    access = resolved.access(path)
    if op in ("read", "list", "execute"):
        return access != DENY
    if op in ("write", "truncate", "chmod"):
        return access == WRITE
    if op == "connect":
        return path in resolved.connectable
    above = resolved.access(os.path.dirname(path))
    if op in ("create", "mkdir", "symlink"):
        return access == WRITE and above == WRITE
    return access == WRITE and above == WRITE and path not in resolved.links and not _pinned(resolved, path)


def _pinned(resolved: Resolved, path: str) -> bool:
    """Return whether something stricter, or a link that a layer needs, lies below a directory."""
    if any(site.blocker == path and RANK[site.access] < RANK[site.above] for site in resolved.sites):
        return True
    held = [site for site in resolved.sites if RANK[site.access] < RANK[site.above]]
    matched = {site.path: _reach(site) for site in held}
    depth = path.count("/")
    for below in (*resolved.links, *matched):
        if below.startswith(path + "/") and below.count("/") - depth <= matched.get(below, 1 << 20):
            return True
    return False


def _reach(site: Site) -> int:
    """Return how many directories above a site keep their names for it.

    The match of a pattern that starts with ``**/`` moves with its directory, but for those that the pattern names.
    """
    text = site.layer.text
    return text.count("/") - 1 if text.startswith("**/") and "**" not in text[3:] else 1 << 20


#: (operation, allowed) under Landlock -> the losses that may explain it.
LANDLOCK_LOSSES: Mapping[tuple[str, bool], frozenset[str]] = {
    ("list", False): frozenset({"SBX452"}),
    ("connect", False): frozenset({"SBX466"}),
    **{(op, False): frozenset({"SBX451"}) for op in ("create", "mkdir", "symlink", "rename")},
    **{
        (op, True): frozenset({"SBX453"})
        for op in ("write", "truncate", "create", "mkdir", "symlink", "rename", "delete")
    },
}


#: The same under bubblewrap. A read-only mount does not keep a fifo from being written to.
BWRAP_LOSSES: Mapping[tuple[str, bool], frozenset[str]] = {
    ("create", True): frozenset({"SBX433"}),
    ("mkdir", True): frozenset({"SBX433"}),
    ("rename", True): frozenset({"SBX432"}),  # a preset's absent names hold nothing, so they pin nothing
}


def state(base: Path) -> list[tuple[str, int, bytes]]:
    """Return every name below a directory with its kind and content."""
    found = []
    for path in sorted(base.rglob("*")):
        mode = path.lstat().st_mode
        found.append((str(path), mode, path.read_bytes() if path.is_file() and not path.is_symlink() else b""))
    return found


def differences(resolved: Resolved, asked: list[tuple[str, str]], answers: list[str]) -> list[tuple[str, str, str]]:
    """Return each question whose answer is not the expected one."""
    fine = {"ok", "ENXIO"}  # a fifo that nobody reads was opened as far as permissions go
    return [
        (op, path, answer)
        for (op, path), answer in zip(asked, answers, strict=True)
        if (answer in fine) != expected(resolved, op, path)
    ]


@cache
def runs(name: str, target: str) -> bool:
    """Return whether a case comes to a run: a refused one, also where only its world shows that, has nothing to try."""
    case = golden.load_case(name)
    compilation = compile_policy(case.policy, [target], case.facts)
    if not compilation.lowered:
        return False
    try:
        return not has_errors(golden.settled(case, compilation, target).diagnostics)
    except PolicyError:
        return False


def is_plain(name: str) -> bool:
    """Return whether a case's world holds no links, sockets, repositories or second names."""
    tree = golden.load_case(name).tree
    assert tree is not None
    odd = ("link", "socket")
    return not any(spec.get("type") in odd or "inode" in spec or "/.git" in path for path, spec in tree.paths.items())


ON_BWRAP = [name for name in CASES if runs(name, "bwrap")]
ON_LANDLOCK = [name for name in CASES if runs(name, "landlock")]
SURVEYED = [name for name in CASES if is_plain(name) and name in ON_BWRAP and name in ON_LANDLOCK]


def test_there_are_enough_cases() -> None:
    """Most cases come to a run, and many have a world that the layers alone describe."""
    assert len(ON_BWRAP) >= 45 and len(ON_LANDLOCK) >= 45 and len(SURVEYED) >= 25, (ON_BWRAP, ON_LANDLOCK, SURVEYED)


@pytest.mark.parametrize("name", SURVEYED)
def test_the_survey_says_what_the_layers_say(name: str) -> None:
    """Where the world holds no links, repositories or second names, survey and layers agree on every operation."""
    with built(golden.load_case(name), lab.USERS[0]) as scene:
        resolved = scene.survey()
        evaluator = Evaluator(scene.stack)
        globs = any(isinstance(layer.where, Glob) and layer.span for layer in scene.stack.layers)
        for op, path in questions(scene, resolved, True):
            if op in ("truncate", "mkdir", "symlink"):
                continue
            if op in ("create", "rename", "delete") and globs:
                continue  # a pattern also holds names that are not there yet, which no snapshot shows
            target = posix(f"{os.path.dirname(path)}/moved.tmp") if op == "rename" else None
            verdict = evaluator.decide(op, posix(path), target)
            assert verdict.allowed == expected(resolved, op, path), (op, path, verdict.reason)


@pytest.mark.skipif(not lab.usable(), reason="needs a working bubblewrap")
@pytest.mark.parametrize("uid", lab.USERS, ids=lambda uid: f"uid{uid}")
@pytest.mark.parametrize("name", ON_BWRAP)
def test_bubblewrap_does_what_the_layers_say(name: str, uid: int | None) -> None:
    """Under bubblewrap every operation in every region comes out as the layers have it, and nothing is left over."""
    case = golden.load_case(name)
    with built(case, uid) as scene, tempfile.TemporaryDirectory(prefix="sbxl") as own:
        os.chmod(own, 0o755)
        resolved = scene.survey()
        box = lab.Lab(Path(os.path.realpath(own)), uid)
        box.home = Path(scene.values["home"])
        asked = list(questions(scene, resolved, chmod=True))
        before = state(scene.base)
        result = box.run(
            scene.stack, [lab.PYTHON, "-c", MAIN], stdin=json.dumps(asked).encode(), cwd=scene.values["workspace"]
        )
        assert result.started and result.code == 0, result
        losses = {code for code, _ in result.losses}
        left = [
            item
            for item in differences(resolved, asked, json.loads(result.out))
            if not BWRAP_LOSSES.get((item[0], item[2] == "ok"), frozenset()) & losses
            and not (scene.nodes.get(item[1]) == "fifo" and item[0] == "write")
            and not (scene.nodes.get(item[1]) == "socket" and item[2] == "EBUSY")  # masked, so it stays
        ]
        assert left == []
        made = {site.path for site in resolved.sites if site.layer.absent == "create"}
        assert [item for item in state(scene.base) if item[0] not in made] == before


@pytest.mark.skipif(not scratch.USABLE, reason="no usable Landlock on this host")
@pytest.mark.parametrize("uid", lab.USERS, ids=lambda uid: f"uid{uid}")
@pytest.mark.parametrize("name", ON_LANDLOCK)
def test_landlock_does_what_the_layers_say(name: str, uid: int | None) -> None:
    """Under Landlock every operation comes out as the layers have it, or as a loss that the case declares."""
    case = golden.load_case(name)
    compilation = compile_policy(case.policy, ["landlock"], case.facts)
    options = options_of(case.policy, "policy.yaml")
    with built(case, uid) as scene:
        resolved = scene.survey()
        facts = Facts(landlock_abi=min(scratch.ABI, case.facts.landlock_abi), arch=os.uname().machine)
        asked = list(questions(scene, resolved, chmod=False))
        before = state(scene.base)

        def confined() -> Any:
            space: dict[str, Any] = {}
            exec(PROBE, space)
            seen = scene.survey()
            plan = landlock.finalise(seen, HostLook(), facts, options)
            assert not [item for item in plan.diagnostics if item.is_error], plan.diagnostics
            losses = sorted({loss.code for loss in plan.losses})
            filters = plan.seccomp(landlock_runner.machine())
            landlock_exec.apply(plan.ruleset(), filters, keep_fds=tuple(scratch.pipes()))
            return [space["attempts"](asked), losses]

        user = os.getuid() if uid is None else uid
        answers, losses = scratch.as_user(scratch.World(str(scene.base), user), confined)
        codes = {*losses, *(loss.code for loss in compilation.artefacts["landlock"].losses)}
        left = [
            item
            for item in differences(resolved, asked, answers)
            if not LANDLOCK_LOSSES.get((item[0], item[2] == "ok"), frozenset()) & codes
            and not (facts.landlock_abi < 3 and item[0] == "truncate" and "SBX462" in codes)
        ]
        assert left == []
        assert state(scene.base) == before

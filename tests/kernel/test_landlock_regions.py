"""The kernel judges Landlock plans: every operation in every region of real worlds."""

import os
from collections.abc import Callable
from typing import Any

import pytest

from sandboxc.emitters import landlock
from sandboxc.losses import NARROWER
from sandboxc.policy import DENY, READ, WRITE
from sandboxc.runtime import landlock as runner
from sandboxc.runtime import landlock_exec
from sandboxc.survey import Resolved
from tests.kernel._landlock_world import (
    BARE,
    DIRECTORIES,
    GLOBS,
    HEAD,
    USABLE,
    WAIVED,
    World,
    as_user,
    attempt,
    connect,
    create,
    entries,
    inside,
    landlock_world,  # noqa: F401
    pipes,
    planned,
    spawn,
)

pytestmark = pytest.mark.skipif(not USABLE, reason="no usable Landlock on this host")


OPERATIONS: dict[str, Callable[[str], Any]] = {
    "read": lambda base: os.close(os.open(f"{base}/f", os.O_RDONLY)),
    "list": os.listdir,
    "execute": lambda base: spawn(f"{base}/x"),
    "write": lambda base: os.close(os.open(f"{base}/f", os.O_WRONLY)),
    "truncate": lambda base: os.truncate(f"{base}/truncate", 0),
    "create": lambda base: create(f"{base}/new"),
    "mkdir": lambda base: os.mkdir(f"{base}/newdir"),
    "symlink": lambda base: os.symlink("f", f"{base}/newlink"),
    "mkfifo": lambda base: os.mkfifo(f"{base}/newfifo"),
    "delete": lambda base: os.unlink(f"{base}/delete"),
    "rename": lambda base: os.rename(f"{base}/rename", f"{base}/renamed"),
    "rmdir": lambda base: os.rmdir(f"{base}/rmdir"),
    "remove-itself": lambda base: os.rename(base, f"{base}-moved"),
}
TARGETS = {
    "read": "f", "list": "", "execute": "x", "write": "f", "truncate": "truncate", "create": "new", "mkdir": "newdir",
    "symlink": "newlink", "mkfifo": "newfifo", "delete": "delete", "rename": "rename", "rmdir": "rmdir",
    "remove-itself": "",
}  # fmt: skip


def wanted(resolved: Resolved, base: str, operation: str) -> bool:
    """Return whether the layers allow an operation of the table in a directory."""
    target = f"{base}/{TARGETS[operation]}".rstrip("/")
    access = resolved.access(target)
    if operation in ("read", "list", "execute"):
        return access != DENY
    if operation in ("write", "truncate"):
        return access == WRITE
    parent = target.rpartition("/")[0]
    allowed = access == WRITE and resolved.access(parent) == WRITE
    if operation == "rename":
        allowed = allowed and resolved.access(f"{base}/renamed") == WRITE
    if operation == "remove-itself":  # the ancestor rule, and room for the new name
        strict = any(s.path.startswith(base + "/") and s.access != WRITE for s in resolved.sites)
        allowed = allowed and not strict and resolved.access(base + "-moved") == WRITE
    return allowed


def excused(resolved: Resolved, plan: landlock.LandlockPlan, base: str, operation: str) -> bool:
    """Return whether a refusal is one that the plan declares as `narrower`."""
    codes = {loss.code for loss in plan.losses if loss.kind == NARROWER}
    parent = base.rpartition("/")[0] if operation == "remove-itself" else base
    strict = [site for site in resolved.sites if site.path.startswith(parent.rstrip("/") + "/")]
    if operation == "list":
        return "SBX452" in codes and any(s.access == DENY and s.kind == "directory" for s in strict)
    if operation in ("create", "mkdir", "symlink", "mkfifo", "delete", "rename", "rmdir", "remove-itself"):
        return "SBX451" in codes and any(s.access != WRITE for s in strict)
    return False


POLICIES = {
    "bare": BARE,
    "read-only": BARE.replace("workspace-write", "read-only"),
    "deny-directory": BARE + entries(("w/a/deep", DENY)),
    "deny-file": BARE + entries(("w/a/f", DENY), ("o/d/f", DENY)),
    "read-island": BARE + entries(("w/b", READ)),
    "read-file": BARE + entries(("w/f", READ)),
    "write-outside": BARE + entries(("o/rw", WRITE), ("o/d/e/f", WRITE)),
    "nest": BARE + entries(("w/a", DENY), ("w/a/deep", WRITE), ("w/a/deep/er", READ), ("w/b", READ), ("w/b/c", WRITE)),
    "deny-outside": BARE + entries(("o", DENY), ("o/d", READ), ("o/d/e", WRITE), ("o/d/e/g", DENY)),
    "absent": BARE + entries(("w/b/new", DENY), ("w/.env2", READ), ("o/new", DENY)),
    "write-file": BARE + entries(("o/f", WRITE), ("o/d/x", WRITE)),
    "glob": BARE + 'entries:\n  - {glob: "**/.env", access: deny, within: writable}\n' + GLOBS,
    "protected": HEAD,
    "protected-waived": WAIVED,
    "baseline-deny": BARE + "baseline: deny\n" + entries(("o/d", READ), ("o/d/e", DENY)),
    "write-all": BARE + 'entries:\n  - {path: /, access: write}\n  - {path: "@/o/d", access: read}\n',
    "hidden": "sandboxc: 1\nname: t\ntargets: [landlock]\nmode: workspace-write\n" + entries(("w/.git/hooks", DENY)),
}


@pytest.mark.parametrize("name", POLICIES)
def test_every_operation_in_every_region(world: World, name: str) -> None:
    """What the kernel allows equals the layers, or is stricter where the plan declares it; never wider."""

    def trial() -> list[Any]:
        plan, resolved = planned(world, POLICIES[name])
        assert not plan.diagnostics
        if name == "protected-waived":  # compare with the layers that the waiver leaves
            kept = tuple(site for site in resolved.sites if not site.layer.cap)
            resolved = resolved._replace(sites=kept)
        bases = [world.path(directory) for directory in reversed(DIRECTORIES)]
        expected = {
            (base, operation): (wanted(resolved, base, operation), excused(resolved, plan, base, operation))
            for base in bases
            for operation in OPERATIONS
        }
        landlock_exec.apply(plan.ruleset(), plan.seccomp(runner.machine()), keep_fds=pipes())
        wrong = []
        for base in bases:
            for operation, run in OPERATIONS.items():
                got = attempt(lambda run=run, base=base: run(base))  # type: ignore[misc]
                want, excuse = expected[base, operation]
                if got == "ENOENT" or (got == "ok") == want or (want and excuse and got in ("EACCES", "EXDEV")):
                    if operation == "remove-itself" and got == "ok":
                        os.rename(f"{base}-moved", base)
                    continue
                wrong.append([base, operation, got, "allowed" if want else "refused"])
        return wrong

    assert as_user(world, trial) == []


@pytest.mark.parametrize("name", ["bare", "deny-directory", "baseline-deny"])
def test_existing_sockets_are_not_reached(world: World, name: str) -> None:
    """A socket of an outside process cannot be connected to, in the workspace or outside of it."""
    paths = [world.path("w/s"), world.path("o/s")]
    got = inside(world, POLICIES[name], lambda: [attempt(lambda p=path: connect(p)) for path in paths])  # type: ignore[misc]
    assert set(got) <= {"EACCES"}

"""Described worlds for the Landlock emitter, and a reader of its rules."""

from collections.abc import Mapping
from typing import Any

from sandboxc import landlock_abi, loader
from sandboxc.emitters import landlock
from sandboxc.emitters.artefact import Artefact, Options
from sandboxc.emitters.landlock.finalise import VIEWS
from sandboxc.facts import Facts
from sandboxc.layers import Layers, bind
from sandboxc.lower import lower
from sandboxc.places import posix
from sandboxc.policy import Policy
from sandboxc.survey import Resolved, TreeLook, resolve

HEAD = "sandboxc: 1\nname: t\ntargets: [landlock]\nmode: workspace-write\nhidden: {preset: none, reason: t}\n"
BARE = HEAD + "protected: {preset: none, reason: t}\n"
HOME, WORKSPACE = "/home/u", "/home/u/w"
VALUES = {
    "workspace": WORKSPACE,
    "home": HOME,
    "tmp": "/tmp",
    "user-config": f"{HOME}/.config",
    "user-cache": f"{HOME}/.cache",
    "run-base": "/run/base",
    "run-tmp": "/run/base/1",
}
DEVICES = {path: {"type": "device"} for path in (*VIEWS, "/dev/sda")}
ALL_ABIS = range(1, landlock_abi.LATEST + 1)
BIT = landlock_abi.FS_BITS
MODIFY = ("write_file", "make_reg", "make_dir", "remove_file", "remove_dir")


def tree(*names: str, **special: Any) -> TreeLook:
    """Return a world with the given paths: a directory where a name ends in a slash, else a file."""
    paths: dict[str, Mapping[str, Any]] = {"/usr/bin/sh": {}, "/etc/passwd": {}, "/tmp/x": {}, "/proc/1/stat": {}}
    paths |= {"/sys/x": {}, "/run/base/1": {"type": "directory"}, WORKSPACE: {"type": "directory"}, **DEVICES}
    for name in names:
        paths[name.rstrip("/")] = {"type": "directory" if name.endswith("/") else "file"}
    mounts = special.pop("mounts", ())
    return TreeLook(paths | special, mounts)


def policy_of(text: str) -> Policy:
    """Return a policy that must be free of faults."""
    loaded = loader.load_bytes("policy.yaml", text.encode())
    assert loaded.policy is not None, loaded.diagnostics
    return loaded.policy


def stack_of(policy: Policy) -> Layers:
    """Return the layers of a policy for Linux."""
    result = lower(policy, "linux")
    assert result.value is not None, result.diagnostics
    return result.value.layers


def options_of(policy: Policy) -> Options:
    """Return what the emitter is told besides the layers."""
    return Options(policy.name, policy.digest, waivers=policy.waivers)


def emitted(text: str, abi: int = 7) -> Artefact:
    """Return the artefact of a policy text."""
    policy = policy_of(text)
    return landlock.emit(stack_of(policy), Facts(landlock_abi=abi), options_of(policy))


def bound(text: str, look: TreeLook, abi: int = 7) -> tuple[landlock.LandlockPlan, Resolved]:
    """Return the plan of a policy text on a world, and what the survey saw there."""
    policy = policy_of(text)
    values = {name: posix(path) for name, path in VALUES.items()}
    resolved = resolve(bind(stack_of(policy), values), look, HOME)
    return landlock.finalise(resolved, look, Facts(landlock_abi=abi), options_of(policy)), resolved


class Reader:
    """What the kernel would grant: rights add up over every object on the way down to a path."""

    def __init__(self, plan: landlock.LandlockPlan, look: TreeLook) -> None:
        self.look = look
        self.by_object: dict[tuple[int, int], int] = {}
        for rule in plan.rules:
            key = (rule.dev, rule.ino)
            self.by_object[key] = self.by_object.get(key, 0) | rule.rights

    def rights(self, path: str) -> int:
        """Return the rights that hold at a path."""
        total, here = 0, path
        while True:
            node = self.look.node(here)
            if node is not None:
                total |= self.by_object.get((node.dev, node.ino), 0)
            if here == "/":
                return total
            here = here.rpartition("/")[0] or "/"

    def has(self, path: str, *names: str) -> bool:
        """Return whether all the named rights hold at a path."""
        mask = landlock_abi.bits(names)
        return self.rights(path) & mask == mask

    def any(self, path: str, *names: str) -> bool:
        """Return whether one of the named rights holds at a path."""
        return bool(self.rights(path) & landlock_abi.bits(names))


def rule_paths(plan: landlock.LandlockPlan) -> set[str]:
    """Return the paths of all rules."""
    return {rule.path for rule in plan.rules}


def codes(plan: landlock.LandlockPlan) -> set[tuple[str, str]]:
    """Return (code, place) of what binding lost."""
    return {(loss.code, loss.at) for loss in plan.losses}

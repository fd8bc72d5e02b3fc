"""What the tests of the survey share: policies by their entries, surveyed in described trees."""

from collections.abc import Iterable, Mapping
from typing import Any

from sandboxc.layers import Layers, bind
from sandboxc.loader import load_bytes
from sandboxc.lower import lower
from sandboxc.places import posix
from sandboxc.survey import Resolved, TreeLook, resolve

VALUES = {
    "workspace": "/w",
    "home": "/home/u",
    "tmp": "/tmp",
    "user-config": "/home/u/.config",
    "user-cache": "/home/u/.cache",
    "run-base": "/run/sbx",
    "run-tmp": "/run/sbx/1",
}
HEAD = "sandboxc: 1\nmode: workspace-write\ntargets: [bwrap, landlock]\n"
BARE = HEAD + "hidden: {preset: none, reason: test}\nprotected: {preset: none, reason: test}\n"

Tree = Mapping[str, Mapping[str, Any]]
DIR = {"type": "directory"}
FILE = {"type": "file"}
SOCKET = {"type": "socket"}


def link(target: str) -> dict[str, str]:
    """Return the description of a symbolic link."""
    return {"type": "link", "target": target}


def stack_of(text: str, **values: str) -> Layers:
    """Return the bound linux layers of a policy text."""
    loaded = load_bytes("policy.yaml", text.encode())
    assert loaded.policy is not None, loaded.diagnostics
    lowered = lower(loaded.policy, "linux")
    assert lowered.value is not None, lowered.diagnostics
    bound = {name: posix(path) for name, path in {**VALUES, **values}.items()}
    return bind(lowered.value.layers, bound)


def survey(text: str, tree: Tree, mounts: Iterable[Any] = (), **values: str) -> Resolved:
    """Return what a survey of a policy in a described tree finds."""
    bound = {**VALUES, **values}
    return resolve(stack_of(text, **values), TreeLook({bound["workspace"]: DIR, **tree}, tuple(mounts)), bound["home"])


def entries(*lines: str, head: str = BARE) -> str:
    """Return a policy text with these entries."""
    return head + "entries:\n" + "".join(f"  - {line}\n" for line in lines)


def codes(found: Resolved) -> list[str]:
    """Return the codes of what a survey reported."""
    return [item.code for item in found.diagnostics]


def at(found: Resolved, path: str) -> str:
    """Return the access that a survey found at a path."""
    return found.access(path)


GIT_DIR = {"HEAD": FILE, "config": FILE, "hooks/x.sample": FILE, "objects": DIR, "refs": DIR}


def git_dir(path: str, **more: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the description of a git directory."""
    return {f"{path}/{name}": spec for name, spec in {**GIT_DIR, **more}.items()}

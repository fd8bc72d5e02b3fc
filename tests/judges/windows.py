"""Judge of Windows plans: a tree with NTFS inheritance, and Samba's own access check for every answer.

A plan is applied step by step as Windows' tools do it: explicit ACEs in canonical order, then the inherited
ones of all existing objects below are made anew. A question is asked as two checks, the second one with the
restricting SIDs only. Nothing of the product is imported.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import subprocess
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from . import _ntfs as ntfs
from ._ntfs import Ace, Node, PlanError, Tree, parse_ace, sid

__all__ = [
    "OPERATIONS",
    "Ace",
    "Applied",
    "JudgeUnavailable",
    "Node",
    "PlanError",
    "Token",
    "Tree",
    "access",
    "access_many",
    "apply_plan",
    "available",
    "can",
    "granted",
    "is_canonical",
    "ntfs",
    "parse_ace",
    "perform",
    "revert",
    "sid",
]


class JudgeUnavailable(Exception):
    """The interpreter with Samba cannot be started."""


# ---- plans ----


class Applied(NamedTuple):
    """One step as it was applied; ``added`` is False where the ACE was there already."""

    id: str
    path: str
    ace: Ace
    added: bool


def apply_plan(
    tree: Tree, plan: Mapping[str, Any], *, replace: Mapping[str, str] | None = None, missing: str = "error"
) -> list[Applied]:
    """Apply the steps of a plan in order and return the journal, which ``revert`` takes.

    ``replace`` gives values to symbolic text in paths and ACEs; ``missing="skip"`` passes absent ones.
    """
    journal: list[Applied] = []
    names: set[str] = set()
    for step in plan["steps"]:
        path, text = step["path"], step["ace"]
        for symbol, value in (replace or {}).items():
            path, text = path.replace(symbol, value), text.replace(symbol, value)
        if "${" in path + text:
            raise PlanError(f"step {step['id']} is still symbolic: {path} {text}")
        if step["object"] not in ("directory", "file"):
            raise PlanError(f"step {step['id']}: unknown object {step['object']!r}")
        name = str(step["id"])
        if name in names:
            raise PlanError(f"step {name} comes twice")
        names.add(name)
        ace = parse_ace(text)
        if missing == "skip" and not tree.exists(path):
            continue
        if tree.node(path).is_directory != (step["object"] == "directory"):
            raise PlanError(f"step {name}: {path} is not a {step['object']}")
        journal.append(Applied(name, path, ace, tree.add_ace(path, ace)))
    return journal


def revert(tree: Tree, journal: Sequence[Applied]) -> None:
    """Take back exactly what the journal says was added, last step first."""
    for step in reversed(journal):
        if step.added and tree.exists(step.path):
            tree.remove_ace(step.path, step.ace)


def is_canonical(node: Node) -> bool:
    """True where the DACL stands in canonical order: explicit deny, explicit allow, inherited."""
    order = [2 if ace.inherited else ace.kind != "D" for ace in node.dacl]
    return order == sorted(order)


# ---- access ----


class _Worker:
    """One Samba process, kept alive; answers are remembered."""

    interpreter = "/usr/bin/python3"

    def __init__(self) -> None:
        self.process: subprocess.Popen[str] | None = None
        self.known: dict[tuple[str, tuple[str, ...], int], bool] = {}
        self.lock = threading.Lock()

    def ask(self, questions: Iterable[tuple[str, tuple[str, ...], int]]) -> list[bool]:
        wanted = list(questions)
        with self.lock:
            new = [item for item in dict.fromkeys(wanted) if item not in self.known]
            if new:
                self.known.update(zip(new, self._send(new), strict=True))
            return [self.known[item] for item in wanted]

    def _send(self, questions: list[tuple[str, tuple[str, ...], int]]) -> list[bool]:
        descriptors = {text: at for at, text in enumerate(dict.fromkeys(item[0] for item in questions))}
        tokens = {sids: at for at, sids in enumerate(dict.fromkeys(item[1] for item in questions))}
        request = {
            "descriptors": list(descriptors),
            "tokens": [list(sids) for sids in tokens],
            "ask": [[descriptors[text], tokens[sids], mask] for text, sids, mask in questions],
        }
        if self.process is None or self.process.poll() is not None:
            self.close()
            self.process = self._start()
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            reply = self.process.stdout.readline()
        except BrokenPipeError:
            reply = ""
        if not reply:
            raise JudgeUnavailable(f"{self.interpreter} with samba gave no answer")
        answer = json.loads(reply)
        if "error" in answer:
            raise PlanError(answer["error"])
        answers: list[bool] = answer["answers"]
        return answers

    def _start(self) -> subprocess.Popen[str]:
        command = [self.interpreter, "-I", str(Path(__file__).with_name("_samba_worker.py"))]
        pipe = subprocess.PIPE
        try:
            return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)
        except OSError as error:
            raise JudgeUnavailable(str(error)) from None

    def close(self) -> None:
        """End the process; its pipes are closed whatever state it is in."""
        process, self.process = self.process, None
        if process is not None:
            with contextlib.suppress(BrokenPipeError), process:  # closes both pipes and waits
                assert process.stdin is not None
                process.stdin.close()


_WORKER = _Worker()
atexit.register(_WORKER.close)


def available() -> bool:
    """True where the interpreter of the worker has the samba package; what it answers is not looked at."""
    command = [_Worker.interpreter, "-I", "-c", "import samba.security"]
    try:
        return subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == 0
    except OSError:
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """Normal SIDs, the user first; restricting SIDs None means an unrestricted token."""

    normal: tuple[str, ...]
    restricting: tuple[str, ...] | None = None
    write_restricted: bool = True
    default_dacl: str = ""


def access_many(tree: Tree, questions: Iterable[tuple[str, int]], token: Token) -> list[bool]:
    """Answers for (path, mask) pairs, all asked in one exchange with the worker."""
    normal = tuple(map(sid, token.normal))
    restricting = None if token.restricting is None else tuple(map(sid, token.restricting))
    asks: list[tuple[str, tuple[str, ...], int]] = []
    slots: list[int] = []
    for path, mask in questions:
        if not 0 < mask <= 0x1FFFFF:
            raise ValueError(f"mask must name file rights only: {mask:#x}")
        sddl = tree.node(path).sddl
        pair = [(sddl, normal, mask)]
        second = mask & ntfs.WRITE_BITS if token.write_restricted else mask
        if restricting is not None and second:
            pair.append((sddl, restricting, second))
        asks += pair
        slots.append(len(pair))
    answers = iter(_WORKER.ask(asks))
    both = [[next(answers) for _ in range(count)] for count in slots]
    return [all(pair) for pair in both]


def access(
    tree: Tree,
    path: str,
    mask: int,
    normal_sids: Sequence[str],
    restricting_sids: Sequence[str] | None,
    write_restricted: bool = True,
) -> bool:
    """True where opening an object with a mask passes both checks of a restricted token."""
    restricting = None if restricting_sids is None else tuple(restricting_sids)
    token = Token(normal=tuple(normal_sids), restricting=restricting, write_restricted=write_restricted)
    return access_many(tree, [(path, mask)], token)[0]


def granted(tree: Tree, path: str, token: Token) -> int:
    """Every single right that the token gets on an object, each asked alone."""
    bits = [1 << bit for bit in range(21) if ntfs.ALL >> bit & 1]
    answers = access_many(tree, [(path, bit) for bit in bits], token)
    return sum(bit for bit, answer in zip(bits, answers, strict=True) if answer)


# ---- operations ----

# Operation -> the rights that it opens its object with. "-data" is the least that shows or changes content.
_ON_OBJECT = {
    "read": ntfs.GENERIC_READ,
    "read-data": ntfs.READ_DATA,
    "list": ntfs.LIST | ntfs.SYNCHRONIZE,
    "execute": ntfs.GENERIC_EXECUTE,
    "write": ntfs.GENERIC_WRITE,
    "write-data": ntfs.WRITE_DATA,
    "append": ntfs.APPEND,
    "attributes": ntfs.WRITE_ATTRIBUTES,
    "chmod": ntfs.WRITE_DAC,
    "chown": ntfs.WRITE_OWNER,
}
OPERATIONS = (*_ON_OBJECT, "stat", "create", "create-directory", "delete", "rename", "link")


def can(tree: Tree, op: str, path: str, token: Token, *, to: str | None = None) -> bool:
    """True where an operation is allowed; create takes the new path, rename and link take ``to``.

    Removing a name needs DELETE on the object or DELETE_CHILD on its parent; making one needs ADD_FILE or
    ADD_DIRECTORY on the parent; a target that exists is removed first.
    """

    def may(target: str, mask: int) -> bool:
        return access_many(tree, [(target, mask)], token)[0]

    def may_make(target: str, directory: bool) -> bool:
        parent = tree.parent(target)
        return parent is not None and may(parent.path, ntfs.ADD_DIRECTORY if directory else ntfs.ADD_FILE)

    def may_remove(target: str) -> bool:
        parent = tree.parent(target)
        return may(target, ntfs.DELETE) or (parent is not None and may(parent.path, ntfs.DELETE_CHILD))

    if op in ("create", "create-directory"):
        if tree.exists(path):
            raise PlanError(f"exists already: {path}")
        return may_make(path, op == "create-directory")
    node = tree.node(path)
    if op in _ON_OBJECT:
        return may(path, _ON_OBJECT[op])
    if op == "stat":
        parent = tree.parent(path)
        return may(path, ntfs.READ_ATTRIBUTES) or (parent is not None and may(parent.path, ntfs.LIST))
    if op == "delete":
        return may_remove(path)
    if op == "rename" and to is not None:
        over = ntfs.key_of(to) != ntfs.key_of(path) and tree.exists(to)
        return may_remove(path) and may_make(to, node.is_directory) and (not over or may_remove(to))
    if op == "link" and to is not None:
        return not node.is_directory and may(path, ntfs.WRITE_ATTRIBUTES) and may_make(to, False)
    raise ValueError(f"unknown operation {op!r}, or no target")


def perform(tree: Tree, op: str, path: str, token: Token, *, to: str | None = None) -> bool:
    """Ask ``can``, and where it says yes change the tree: create, create-directory, delete or rename."""
    if not can(tree, op, path, token, to=to):
        return False
    if op in ("create", "create-directory"):
        tree.create(path, owner=token.normal[0], directory=op == "create-directory", default_dacl=token.default_dacl)
    elif op == "delete":
        tree.remove(path)
    elif op == "rename" and to is not None:
        tree.move(path, to)
    else:
        raise ValueError(f"{op} does not change the tree")
    return True

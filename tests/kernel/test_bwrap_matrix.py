"""Every region of a set of policies, tried for real under bubblewrap, against what the layers say."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import _bwrap_lab as lab
import pytest

pytestmark = pytest.mark.skipif(not lab.usable(), reason="needs a working bubblewrap")


@pytest.fixture(params=lab.USERS, ids=lambda uid: f"uid{uid}" if uid is not None else "self")
def world(request: pytest.FixtureRequest) -> Iterator[lab.Lab]:
    """A scratch world for each user that this machine can test as."""
    with tempfile.TemporaryDirectory(prefix="sbx") as base:
        os.chmod(base, 0o755)
        yield lab.Lab(Path(os.path.realpath(base)), request.param)


#: name -> (policy, names to make, late_from). Every directory gets a file `f` and a program `prog` of its own.
CASES: dict[str, tuple[str, tuple[str, ...], int]] = {
    "nest-write-deny-write-read-write-deny": (
        """
mode: workspace-write
protected: {preset: none, reason: test}
hidden: {preset: none, reason: test}
entries:
  - {path: "B/w/a", access: deny}
  - {path: "B/w/a/x/b", access: write}
  - {path: "B/w/a/x/b/c", access: read}
  - {path: "B/w/a/x/b/c/d", access: write}
  - {path: "B/w/a/x/b/c/d/e", access: deny}
""",
        ("w/a/x/b/c/d/e/g/", "w/a/y/", "w/z/"),
        48,
    ),
    "texts-like-the-emitter's-own-words": (
        """
mode: workspace-write
protected: {preset: none, reason: test}
hidden: {preset: none, reason: test}
relative-to: "B/w"
entries:
  - {path: "pin:secret", access: deny}
  - {path: "pin:secret/island", access: write}
  - {path: "view", access: deny}
  - {path: "view/island", access: read}
  - {path: "socket", access: deny}
  - {path: "socket of an outside process", access: deny}
  - {path: "workspace", access: read}
  - {path: "baseline", access: deny}
""",
        (
            "w/pin:secret/island/",
            "w/view/island/",
            "w/socket/",
            "w/socket of an outside process/",
            "w/workspace/",
            "w/baseline/",
        ),
        48,
    ),
    "two-depths": (
        """
mode: workspace-write
protected: {preset: none, reason: test}
hidden: {preset: none, reason: test}
entries:
  - {path: "B/w/p/q/keep", access: read}
  - {path: "B/w/p/r/s/t/keep", access: deny}
  - {path: "B/w/p/file", access: deny}
  - {path: "B/w/p/fixed", access: read}
""",
        ("w/p/q/keep/", "w/p/q/free/", "w/p/r/s/t/keep/", "w/p/file", "w/p/fixed", "w/o/"),
        48,
    ),
    "deny-read-write-below": (
        """
mode: workspace-write
protected: {preset: none, reason: test}
hidden: {preset: none, reason: test}
workspace: "B/home/project"
entries:
  - {path: "B/home", access: deny}
  - {path: "B/home/project", access: read}
  - {path: "B/home/project/state", access: write}
  - {path: "B/home/project/state/keys", access: deny}
""",
        ("home/project/state/keys/", "home/other/"),
        48,
    ),
    "read-only": (
        """
mode: read-only
hidden: {preset: none, reason: test}
entries:
  - {path: "B/w/out", access: write}
  - {path: "B/w/out/no", access: deny}
  - {path: "B/w/secret", access: deny}
""",
        ("w/out/no/", "w/secret/"),
        48,
    ),
    "file-roots": (
        """
mode: read-only
hidden: {preset: none, reason: test}
entries:
  - {path: "B/w/one", access: write}
  - {path: "B/w/closed", access: deny}
  - {path: "B/w/closed/two", access: write}
  - {path: "B/w/closed/in/three", access: read}
""",
        ("w/one", "w/closed/two", "w/closed/in/three", "w/closed/four"),
        48,
    ),
    "baseline-deny": (
        """
mode: workspace-write
baseline: deny
protected: {preset: none, reason: test}
entries:
  - {path: "B/home/ref", access: read}
  - {path: "B/home/ref/no", access: deny}
  - {path: "B/w/ro", access: read}
""",
        ("home/ref/no/", "home/other/", "w/ro/", "w/rw/"),
        48,
    ),
    "write-root": (
        """
mode: workspace-write
protected: {preset: none, reason: test}
hidden: {preset: none, reason: test}
entries:
  - {path: "/", access: write}
  - {path: "B/home/keys", access: deny}
  - {path: "B/home/ref", access: read}
  - {path: "B/home/ref/rw", access: write}
""",
        ("home/keys/", "home/ref/rw/", "w/z/"),
        48,
    ),
    "odd-names": (
        """
mode: workspace-write
protected: {preset: none, reason: test}
hidden: {preset: none, reason: test}
entries:
  - {path: "B/w/it's here", access: deny}
  - {path: "B/w/two  spaces", access: read}
  - {path: "B/w/br[ac]k*et?", access: deny}
  - {path: "B/w/--dash", access: read}
  - {path: "B/w/é\\u00fc", access: deny}
  - {path: 'B/w/q"x', access: deny}
  - {path: 'B/w/I:\\', access: read}
""",
        (
            "w/it's here/",
            "w/two  spaces/",
            "w/br[ac]k*et?/",
            "w/--dash/",
            "w/é\u00fc/",
            'w/q"x/',
            "w/I:\\/",
            "w/" + "n" * 255 + "/",
        ),
        48,
    ),
}


def fill(world: lab.Lab) -> list[str]:
    """Put a file and a program into every directory of the world, and return every node below the two trees."""
    found: list[str] = []
    for top in (world.w, world.home):
        for path in [top, *(p for p in top.rglob("*") if p.is_dir() and not p.is_symlink())]:
            (path / "f").write_text("content\n")
            (path / "prog").write_text("#!/bin/sh\nexit 0\n")
            (path / "prog").chmod(0o755)
        found += [str(top), *(str(path) for path in sorted(top.rglob("*")))]
    world.own()
    return found


def attempts(nodes: list[str]) -> Iterator[tuple[str, str]]:
    """Yield every operation that fits each node."""
    for path in nodes:
        if os.path.isdir(path):
            yield from (("list", path), ("create", path), ("mkdir", path), ("chmod", path), ("rename", path))
        else:
            yield from (("read", path), ("write", path), ("chmod", path), ("rename", path))
            if os.path.basename(path) == "prog":
                yield ("execute", path)


@pytest.mark.parametrize("late", [48, 1], ids=["words", "late"])
@pytest.mark.parametrize("name", sorted(CASES))
def test_every_region(world: lab.Lab, name: str, late: int) -> None:
    """Reading, listing, executing, writing, creating, renaming and chmod come out as the layers say, everywhere."""
    policy, names, _ = CASES[name]
    world.make(*names)
    nodes = fill(world)
    world.late = late
    stack = world.stack(policy)
    verdicts = lab.Verdicts(stack, nodes, str(world.base))
    tried = [(op, path) for op, path in attempts(nodes)]
    real = [(op, path + "/new" if op in ("create", "mkdir") else path) for op, path in tried]
    found = world.tries(stack, *real, cwd=str(world.w) if name != "deny-read-write-below" else "/")
    wrong = [
        (op, path, result)
        for (op, path), result in zip(tried, found, strict=True)
        if (result == "ok") != verdicts.expected(op, path)
    ]
    assert not wrong, wrong[:20]

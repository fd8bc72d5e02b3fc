"""The host's own answers: real temporary trees, and the texts of the kernel's tables."""

import os
import socket
from pathlib import Path

import pytest

from sandboxc.layers import bind
from sandboxc.loader import load_bytes
from sandboxc.lower import lower
from sandboxc.places import posix
from sandboxc.runtime.hostlook import MAX_CONTENT, HostLook, mounts_in, socket_paths
from sandboxc.survey import resolve

LOOK = HostLook()


def test_nodes_of_each_kind(tmp_path: Path) -> None:
    """Every kind of node is told apart, links are not followed, and objects keep their identity."""
    (tmp_path / "d").mkdir()
    (tmp_path / "f").write_text("x")
    os.link(tmp_path / "f", tmp_path / "g")
    os.symlink("f", tmp_path / "l")
    os.mkfifo(tmp_path / "p")
    kinds = {name: node.kind for name in "dflp" if (node := LOOK.node(str(tmp_path / name)))}
    assert kinds == {"d": "directory", "f": "file", "l": "link", "p": "fifo"}
    first, second, link = (LOOK.node(str(tmp_path / name)) for name in "fgl")
    assert first is not None and second is not None and link is not None
    assert (first.dev, first.ino, first.links) == (second.dev, second.ino, 2)
    assert link.target == "f"
    device = LOOK.node("/dev/null")
    assert device is not None and device.kind == "device"


def test_nothing_at_an_absent_path(tmp_path: Path) -> None:
    """An absent path, and one below a file, is nothing."""
    (tmp_path / "f").write_text("")
    assert LOOK.node(str(tmp_path / "no")) is None
    assert LOOK.node(str(tmp_path / "f/x")) is None
    assert LOOK.names(str(tmp_path / "f")) is None


def test_names_are_sorted_and_typed(tmp_path: Path) -> None:
    """The names of a directory come sorted, each with its kind and inode number, odd bytes included."""
    for name in ("b", "a", "é"):
        (tmp_path / name).write_text("")
    os.close(os.open(os.fsencode(tmp_path) + b"/\xff.env", os.O_CREAT, 0o600))
    os.symlink("a", tmp_path / "l")
    os.mkfifo(tmp_path / "p")
    found = LOOK.names(str(tmp_path))
    assert found is not None
    assert [(item.name, item.kind) for item in found] == [
        ("a", "file"),
        ("b", "file"),
        ("l", "link"),
        ("p", "fifo"),
        ("é", "file"),
        ("\udcff.env", "file"),
    ]
    assert found[0].ino == os.stat(tmp_path / "a").st_ino


def test_content_of_regular_files_only(tmp_path: Path) -> None:
    """Contents are read from regular files up to a bound, never through a link or from a fifo."""
    (tmp_path / "f").write_bytes(b"gitdir: /x\xff\n")
    os.symlink("f", tmp_path / "l")
    os.mkfifo(tmp_path / "p")
    (tmp_path / "big").write_bytes(b"x" * (MAX_CONTENT + 1))
    (tmp_path / "full").write_bytes(b"x" * MAX_CONTENT)
    assert LOOK.content(str(tmp_path / "f")) == "gitdir: /x\udcff\n"
    assert [LOOK.content(str(tmp_path / name)) for name in ("l", "p", "big", "none")] == [None] * 4
    assert len(LOOK.content(str(tmp_path / "full")) or "") == MAX_CONTENT


def test_bound_sockets_are_found(tmp_path: Path) -> None:
    """A socket that a process has bound is found by its path, blanks and line feeds in it included."""
    names = ["s", " two  blanks ", "line\nfeed"]
    held = []
    for name in names:
        item = socket.socket(socket.AF_UNIX)
        item.bind(str(tmp_path / name))
        held.append(item)
    found = LOOK.sockets()
    for name in names:
        assert str(tmp_path / name) in found
    (tmp_path / "s").unlink()
    assert str(tmp_path / "s") not in LOOK.sockets()
    for item in held:
        item.close()


TABLE = """Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01    17 /run/short inode
0000000000000000: 00000003 00000000 00000000 0001 03  1644
0000000000000000: 00000002 00000000 00010000 0001 01 123456 @abstract
0000000000000000: 00000002 00000000 00010000 0005 01 123457 /run/a
b/c
0000000000000000: 00000002 00000000 00010000 0001 01 1234567 relative/s
"""


def test_socket_table_is_read_by_its_records() -> None:
    """Padded numbers, unnamed and abstract sockets and line feeds in paths are read as what they are."""
    assert socket_paths(TABLE) == ("/run/a\nb/c", "/run/short inode")
    assert socket_paths("") == ()


MOUNTS = r"""22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/root rw
40 27 254:0 /srv/a\040b /mnt/a\040b rw - ext4 /dev/root rw
41 27 0:40 / /run rw shared:5 - tmpfs tmpfs rw
"""


def test_mount_table_is_read() -> None:
    """Mounts keep their file system and what they show of it; octal escapes are undone, views left out."""
    found = mounts_in(MOUNTS)
    assert [(mount.point, mount.device, mount.root) for mount in found] == [
        ("/", "254:0", "/"),
        ("/mnt/a b", "254:0", "/srv/a b"),
        ("/run", "0:40", "/"),
    ]
    assert any(mount.point == "/" for mount in LOOK.mounts())


@pytest.mark.parametrize("files", [20, 5000])
def test_survey_of_a_real_tree(tmp_path: Path, files: int) -> None:
    """A survey of this host finds links, hard links, patterns and sockets of a small and of a larger tree."""
    work = tmp_path / "w"
    for number in range(files):
        place = work / f"d{number % 40}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"f{number}").touch()
    (work / "d1" / ".env").write_text("x")
    (tmp_path / "key").write_text("k")
    os.link(tmp_path / "key", work / "d2" / "copy")
    os.symlink(tmp_path / "key", work / "spelled")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(work / "s"))
        text = f"""
sandboxc: 1
mode: workspace-write
targets: [bwrap]
hidden: {{preset: none, reason: test}}
entries:
  - {{glob: "**/.env", access: deny, within: writable}}
  - {{path: "${{workspace}}/spelled", access: deny}}
  - {{path: "{tmp_path}/key", access: deny}}
"""
        policy = load_bytes("p.yaml", text.encode()).policy
        assert policy is not None
        lowered = lower(policy, "linux").value
        assert lowered is not None
        names = ("workspace", "home", "tmp", "user-config", "user-cache", "run-base", "run-tmp")
        values = {name: posix(str(tmp_path / ("w" if name == "workspace" else name))) for name in names}
        found = resolve(bind(lowered.layers, values), LOOK, str(tmp_path))
    assert found.diagnostics == ()
    assert [found.access(f"{work}/{name}") for name in ("d1/.env", "d2/copy", "d3/f3")] == ["deny", "deny", "write"]
    assert found.access(str(tmp_path / "key")) == "deny"
    assert found.links == (str(work / "spelled"),)
    assert found.sockets.count(str(work / "s")) == 1

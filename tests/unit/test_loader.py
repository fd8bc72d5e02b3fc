"""Reading policy files: sizes, encodings, and things that are not files."""

import io
import os
from hashlib import sha256
from pathlib import Path

import pytest

from sandboxc.loader import IO_CODES, load, load_bytes, read_source, source_of_bytes

MINIMAL = b"sandboxc: 1\nmode: read-only\n"


def test_load_returns_policy_and_digest(tmp_path: Path) -> None:
    """A file gives a policy that carries the SHA-256 of its bytes."""
    path = tmp_path / "p.yaml"
    path.write_bytes(MINIMAL)
    policy, found, sources = load(str(path))
    assert found == ()
    assert policy is not None
    assert policy.digest == sha256(MINIMAL).hexdigest()
    assert [source.text for source in sources] == [MINIMAL.decode()]


def test_names_are_as_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spans carry the path as the user wrote it, never an absolute one."""
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "p.yaml").write_bytes(b"mode: x\n")
    monkeypatch.chdir(tmp_path)
    found = load("d/p.yaml").diagnostics
    assert {item.span.file for item in found if item.span} == {"d/p.yaml"}


def test_standard_input() -> None:
    """`-` reads standard input under a name of its own."""
    policy, _, sources = load("-", io.BytesIO(MINIMAL))
    assert policy is not None
    assert policy.file == "<stdin>"
    assert sources[0].name == "<stdin>"


def test_standard_input_is_read_up_to_the_limit() -> None:
    """An endless standard input is refused after 1 MiB."""

    class Endless(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:
            assert size > 0
            return b"#" * size

    loaded = read_source("-", Endless())  # type: ignore[arg-type]
    assert [item.code for item in loaded.diagnostics] == ["SBX106"]


def test_byte_order_mark_is_dropped() -> None:
    """A UTF-8 byte order mark at the start changes the digest and nothing else."""
    loaded = source_of_bytes("p.yaml", b"\xef\xbb\xbf" + MINIMAL)
    assert loaded.source is not None
    assert loaded.source.text == MINIMAL.decode()
    assert loaded.digest == sha256(b"\xef\xbb\xbf" + MINIMAL).hexdigest()
    assert load_bytes("p.yaml", b"\xef\xbb\xbf" + MINIMAL).policy is not None


def test_not_utf_8() -> None:
    """A byte that is not UTF-8 is reported with its offset and place."""
    loaded = source_of_bytes("p.yaml", b"a: b\nc\xc3\xa9: \xff\n")
    (item,) = loaded.diagnostics
    assert (item.code, item.message) == ("SBX112", "byte 10 (0xff) is not UTF-8")
    assert item.span is not None
    assert (item.span.line, item.span.column) == (2, 5)
    assert item.help == "save it as UTF-8"


def test_utf_16_is_named() -> None:
    """A file saved as UTF-16 gets a help that says so."""
    (item,) = source_of_bytes("p.yaml", "sandboxc: 1".encode("utf-16")).diagnostics
    assert item.help == "save it as UTF-8, it looks like UTF-16"


def test_too_large(tmp_path: Path) -> None:
    """One byte over 1 MiB is refused; 1 MiB itself is read."""
    path = tmp_path / "p.yaml"
    path.write_bytes(MINIMAL + (b"#" * 99 + b"\n") * 10485 + b"#" * (76 - len(MINIMAL)))
    assert path.stat().st_size == 1 << 20
    assert load(str(path)).diagnostics == ()
    path.write_bytes(path.read_bytes() + b"\n")
    assert [item.code for item in load(str(path)).diagnostics] == ["SBX106"]


def test_not_a_file(tmp_path: Path) -> None:
    """A directory, a fifo and a device are refused without being read."""
    os.mkfifo(tmp_path / "fifo")
    for path, kind in ((tmp_path, "a directory"), (tmp_path / "fifo", "a fifo"), (Path(os.devnull), "a device")):
        (item,) = read_source(str(path)).diagnostics
        assert item.code == "SBX116"
        assert item.message == f"`{path}` is {kind}"
        assert item.code in IO_CODES


@pytest.mark.parametrize("name", ["missing.yaml", "p.yaml/x", "a\0b", "x" * 300])
def test_cannot_be_read(name: str, tmp_path: Path) -> None:
    """What cannot be opened is an I/O error with the path, not an exception."""
    (tmp_path / "p.yaml").write_bytes(MINIMAL)
    policy, found, sources = load(str(tmp_path / name))
    assert policy is None
    assert sources == ()
    assert [item.code for item in found] == ["SBX117"]
    assert found[0].code in IO_CODES

"""Malformed policies: refused with a coded diagnostic in two seconds of processor time, never with an exception."""

import importlib.util
import re
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandboxc.loader import load_bytes
from sandboxc.render.text import render


def _generator() -> ModuleType:
    path = Path(__file__).resolve().parents[1] / "fixtures" / "malformed" / "cases.py"
    spec = importlib.util.spec_from_file_location("malformed_cases", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GENERATOR = _generator()
CASES: list[tuple[str, bytes]] = list(GENERATOR.cases())
CODE = re.compile(r"SBX[123][0-9][0-9]\Z")
SECONDS = 2.0  # of processor time, so that a busy machine does not decide


def check(data: bytes) -> tuple[Any, ...]:
    """Read bytes as a policy; return the diagnostics after checking what holds for all of them."""
    start = time.process_time()
    policy, found, sources = load_bytes("p.yaml", data)
    text = render(found, sources)
    assert time.process_time() - start < SECONDS
    assert (policy is None) == any(item.is_error for item in found)
    for item in found:
        assert CODE.match(item.code)
        assert item.span is not None
        assert "\n" not in item.message
        assert not item.message.endswith(".")
        for source in sources:
            lines = source.text.split("\n")
            assert 1 <= item.span.line <= len(lines)
            assert 1 <= item.span.column <= len(lines[item.span.line - 1]) + 1
            source.snippet(item.span)
    assert all(char == "\n" or char.isprintable() for char in text)
    return found


def test_there_are_200_different_cases() -> None:
    """The generator makes at least 200 different texts."""
    assert len({data for _, data in CASES}) >= 200
    assert len({name for name, _ in CASES}) == len(CASES)


def test_the_seed_is_a_valid_policy() -> None:
    """What the cases are made from is well-formed itself."""
    assert check(GENERATOR.SEED) == ()


@pytest.mark.parametrize(("name", "data"), CASES, ids=[name.replace("\\", "/") for name, _ in CASES])
def test_malformed_policy_is_refused(name: str, data: bytes) -> None:
    """A malformed policy gives an error with a code in less than two seconds."""
    found = check(data)
    assert any(item.is_error for item in found), name


SEED_LINES = GENERATOR.SEED.split(b"\n")


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes(data: bytes) -> None:
    """Arbitrary bytes never raise."""
    check(data)


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="abc:-[]{}?&*!|>'\"%@`#,~$ \n\t/\\<=.0\u00e9", max_size=80))
def test_any_yaml_like_text(text: str) -> None:
    """Texts full of YAML syntax never raise."""
    check(text.encode())


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_mutated_policy(data: st.DataObject) -> None:
    """A policy with a few bytes replaced, doubled or dropped never raises."""
    text = bytearray(GENERATOR.SEED)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text) - 1))
        text[at : at + data.draw(st.integers(0, 3))] = data.draw(
            st.sampled_from([b"", b"{", b"}", b"[", b'"', b":", b": ", b"\n", b"  ", b"- ", b"*", b"&a", b"$", b"#"])
        )
    check(bytes(text))


@settings(max_examples=100, deadline=None)
@given(st.permutations(SEED_LINES), st.integers(0, len(SEED_LINES)))
def test_shuffled_lines(lines: list[bytes], count: int) -> None:
    """The lines of a policy in any order, some missing, never raise."""
    check(b"\n".join(lines[:count]))

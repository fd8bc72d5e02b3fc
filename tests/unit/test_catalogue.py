"""Every code has a page, every page a code, and the examples on the pages are true."""

import re
from pathlib import Path

import pytest

from sandboxc.catalogue import RANGES, all_codes, info
from sandboxc.loader import load_bytes
from sandboxc.lower import lower

ROOT = Path(__file__).resolve().parents[2]
CODE = re.compile(r"SBX[0-9]{3}")

#: First digits of the ranges whose authors still have to write their pages. Shrink this; never let it grow.
UNFINISHED_RANGES = frozenset("4")
#: 1xx to 3xx codes without a test that names them yet. Shrink this; never let it grow.
WITHOUT_TEST: frozenset[str] = frozenset()
#: Codes that lowering raises: their `bad` example decodes.
RAISED_LATER = frozenset({"SBX340", "SBX341", "SBX342", "SBX343", "SBX344", "SBX345"})


def raised_codes() -> dict[str, str]:
    """Return every code that stands in the package outside the catalogue, with one file that has it."""
    found: dict[str, str] = {}
    for path in sorted((ROOT / "sandboxc").rglob("*.py")):
        if "catalogue" in path.parts:
            continue
        for code in CODE.findall(path.read_text(encoding="utf-8")):
            found.setdefault(code, path.name)
    return found


def test_every_raised_code_has_a_page() -> None:
    """A code in the source has a row in the catalogue."""
    without = {code: name for code, name in raised_codes().items() if info(code) is None}
    assert {code: without[code] for code in without if code[3] not in UNFINISHED_RANGES} == {}


def test_every_page_has_a_code() -> None:
    """A row in the catalogue belongs to a code that something raises."""
    assert set(all_codes()) - set(raised_codes()) == set()


def test_codes_are_unique_and_in_their_range() -> None:
    """No code has two rows, and each stands in the module of its range."""
    codes = all_codes()
    assert len(codes) == len(set(codes))
    assert all(code[3] in RANGES for code in codes)
    assert info("SBX999") is None
    assert info("E203") is None
    assert info("sbx203") == info("SBX203")


@pytest.mark.parametrize("code", [code for code in all_codes() if code < "SBX400"])
def test_page(code: str) -> None:
    """The bad example gives the code and only it, the good one gives nothing; the wording keeps the style."""
    row = info(code)
    assert row is not None
    assert row.title and row.title[-1] != "."
    assert row.why.endswith((".", ";"))
    assert row.fix.endswith(".")
    if row.bad and code not in RAISED_LATER:
        assert {item.code for item in load_bytes("p.yaml", row.bad.encode()).diagnostics} == {code}
    if row.good:
        assert load_bytes("p.yaml", row.good.encode()).diagnostics == ()


@pytest.mark.parametrize("code", sorted(RAISED_LATER))
def test_page_of_lowering(code: str) -> None:
    """The bad example of a code that lowering raises gives that code there, and the good one does not."""
    row = info(code)
    assert row is not None
    for text, expected in ((row.bad, {code}), (row.good, set())):
        policy = load_bytes("p.yaml", text.encode()).policy
        assert policy is not None
        assert {item.code for item in lower(policy, "linux").diagnostics} == expected


def test_every_code_has_a_test() -> None:
    """Each 1xx to 3xx code is named by a test or a fixture besides its page."""
    here = Path(__file__)
    texts = [path.name for path in (ROOT / "tests" / "fixtures").rglob("*.yaml")]
    for path in (ROOT / "tests").rglob("*"):
        if path != here and path.is_file() and path.suffix in (".py", ".yaml", ".txt"):
            texts.append(path.read_text(encoding="utf-8", errors="replace"))  # noqa: PERF401
    tested = {code for text in texts for code in CODE.findall(text)} | RAISED_LATER
    codes = {code for code in all_codes() if code < "SBX400"}
    assert codes - tested - WITHOUT_TEST == set()

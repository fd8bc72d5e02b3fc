"""A target is whole: an emitter package, a row of the registry, golden files in every case, a column of the matrix."""

from pathlib import Path

import pytest

from sandboxc import policy
from sandboxc.capability import EXACT, FEATURES
from sandboxc.emitters.registry import TARGETS, emitter
from sandboxc.facts import Facts
from tests.golden import golden

ROOT = Path(__file__).resolve().parents[2]


def test_every_emitter_package_has_its_row() -> None:
    """The packages below ``emitters`` are the targets of the registry, and those that a policy can name."""
    packages = {path.parent.name for path in (ROOT / "sandboxc/emitters").glob("*/__init__.py")}
    assert packages == set(TARGETS) == set(policy.TARGETS) == set(policy.TARGET_OS)


@pytest.mark.parametrize("target", TARGETS)
def test_the_package_has_its_two_functions(target: str) -> None:
    """An emitter has ``emit`` and ``table``; a row stands for each feature, with a code where it is not exact."""
    module = emitter(target)
    assert callable(module.emit)
    table = module.table(Facts())
    assert table.target == target
    assert sorted(row.feature for row in table.rows) == sorted(FEATURES)
    assert [row.feature for row in table.rows if (row.status == EXACT) == bool(row.code)] == []


@pytest.mark.parametrize("name", golden.names())
def test_every_golden_case_speaks_of_every_target(name: str) -> None:
    """A case that compiles lists the losses of each target, and has its artefact unless something is refused."""
    assert set(golden.SUFFIX) == set(TARGETS)
    case = ROOT / "tests/golden" / name
    (report,) = case.glob("expect.diag.txt*")  # a long one is cut
    said = report.read_text(encoding="utf-8")
    whole = report.suffix == ".txt"
    loaded = golden.load_case(name).loaded.policy
    if loaded is None or (whole and "\n-- " not in f"\n{said}"):
        assert "error[" in said or "note[SBX404]" in said
        assert [path.name for path in case.glob("expect.*") if path.name.split(".")[1] in TARGETS] == []
        return
    for target in loaded.targets:
        assert f"-- {target}: " in said or not whole
        files = [path.name for path in case.glob(f"expect.{golden.SUFFIX[target]}*")]
        assert len(files) == 1 or (not files and "error[" in said)


@pytest.mark.parametrize("page", ["README.md", "docs/limits.md"])
def test_the_generated_matrix_has_every_target(page: str) -> None:
    """The support matrix has a column for each target, and its reasons name each code that stands in it."""
    text = (ROOT / page).read_text(encoding="utf-8")
    if page == "README.md":
        assert "| promise | " + " | ".join(TARGETS) + " |\n" in text
    for target in TARGETS:
        for row in emitter(target).table(Facts()).rows:
            assert row.code in text

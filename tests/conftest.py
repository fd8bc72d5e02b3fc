"""What every test module shares: the package's own directory on the import path, and the golden flag."""

import os
import sys
from collections.abc import Generator
from pathlib import Path
from typing import TypeVar

import pytest

pytest_plugins = ["pytester"]  # the golden flag is tested with a run of its own

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--update-golden``, which writes the golden files anew."""
    parser.addoption("--update-golden", action="store_true", help="write tests/golden/*/expect.* anew")


def pytest_configure(config: pytest.Config) -> None:
    """Refuse the golden flag where nobody would read the change."""
    if config.getoption("--update-golden") and os.environ.get("CI"):
        raise pytest.UsageError("--update-golden is refused in CI: run it on a workstation and review the change")


# -- nothing is skipped where everything has to run ------------------------------------------------------------

#: What these directories hold is the proof that artefacts mean what the layers say.
PROOFS = tuple(Path(__file__).parent / name for name in ("kernel", "judges", "golden"))
#: What a machine cannot be made to have: another user's rights, another processor.
ALLOWED = ("needs root", "no filter for this machine", "an x86-64 entry")


Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)


def _must_run(path: Path) -> bool:
    strict = os.environ.get("CI") or os.environ.get("SANDBOXC_REQUIRE_ALL")
    return bool(strict) and any(path.is_relative_to(folder) for folder in PROOFS)


def _failed_if_skipped(report: Report, path: Path) -> Report:
    if report.skipped and not hasattr(report, "wasxfail") and _must_run(path):
        why = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
        if why.removeprefix("Skipped: ") not in ALLOWED:
            report.outcome = "failed"
            report.longrepr = f"{why}: a skip is a failure with CI or SANDBOXC_REQUIRE_ALL set"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let a skipped test of the proofs fail where everything has to run."""
    return _failed_if_skipped((yield), item.path)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Do the same for a module that is skipped as a whole."""
    return _failed_if_skipped((yield), collector.path)

"""What every test module shares: the package's own directory on the import path, and the golden flag."""

import os
import sys
from pathlib import Path

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

"""The documentation is true: its commands run, its policies decode, and what is generated is up to date.

A block fenced as `sh run` is executed and has to succeed, one fenced as `sh fails` has to fail. The blocks of a page
share one scratch directory that has a copy of the shipped policies. A block fenced as `sh` or `text` is only shown. A
block fenced as `yaml` is a policy, or the part of one that comes after `sandboxc` and `mode`.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

from sandboxc.loader import load_bytes

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
FENCE = re.compile(r"^(```+)([^\n]*)\n(.*?)^\1$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#:]+)(#[^)]*)?\)")
ON_LINUX = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("bwrap") is None or shutil.which("git") is None,
    reason="the commands need Linux, git and bubblewrap",
)


class Block(NamedTuple):
    """A fenced block: what its fence says, its text, and where it begins."""

    page: Path
    line: int
    info: str
    text: str


def blocks(page: Path) -> Iterator[Block]:
    """Yield the fenced blocks of a page."""
    content = page.read_text(encoding="utf-8")
    for found in FENCE.finditer(content):
        line = content.count("\n", 0, found.start()) + 1
        yield Block(page, line, found.group(2).strip(), found.group(3))


def with_commands() -> list[Path]:
    """Return the pages that have a block to execute."""
    return [page for page in PAGES if any(block.info in ("sh run", "sh fails") for block in blocks(page))]


def generator() -> ModuleType:
    """Return the module `docs/generate.py`."""
    spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs/generate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_fences_are_of_a_known_kind() -> None:
    """Every fence says what its block is, so that none is left unchecked by a typing mistake."""
    for page in PAGES:
        for block in blocks(page):
            assert block.info in ("sh", "sh run", "sh fails", "text", "yaml"), (
                f"{page.name}:{block.line}: {block.info!r}"
            )


@ON_LINUX
@pytest.mark.parametrize("page", with_commands(), ids=lambda page: page.name)
def test_commands_run(page: Path, tmp_path: Path) -> None:
    """Every command block that is marked for it does what the page says."""
    work = tmp_path / "work"
    shutil.copytree(ROOT / "policies", work / "policies", ignore=shutil.ignore_patterns("profiles"))
    (tmp_path / "bin").mkdir()
    (tmp_path / "home").mkdir()
    program = tmp_path / "bin/sandboxc"
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m sandboxc "$@"\n')
    program.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if name in ("LANG", "TERM")}
    environment = {**kept, "HOME": str(tmp_path / "home"), "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}
    for block in blocks(page):
        if block.info not in ("sh run", "sh fails"):
            continue
        done = subprocess.run(
            ["sh", "-euc", block.text], cwd=work, env=environment, capture_output=True, text=True, timeout=120
        )
        where = f"{page.name}:{block.line}\n{done.stdout}{done.stderr}"
        assert (done.returncode == 0) == (block.info == "sh run"), where
        assert done.returncode < 126, where


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_policies_decode(page: Path) -> None:
    """Every policy that a page shows is a policy."""
    for block in blocks(page):
        if block.info == "yaml":
            head = "" if block.text.startswith("sandboxc:") else "sandboxc: 1\nmode: workspace-write\n"
            loaded = load_bytes(f"{page.name}:{block.line}", (head + block.text).encode())
            assert loaded.policy is not None, [f"{item.code}: {item.message}" for item in loaded.diagnostics]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """Every link to a file of the repository names one."""
    for found in LINK.finditer(page.read_text(encoding="utf-8")):
        assert (page.parent / found.group(1)).exists(), f"{page.name}: {found.group(1)}"


def test_what_is_generated_is_fresh() -> None:
    """The support matrix, the pages of codes and commands, and the shipped profiles are what they would be now."""
    assert generator().stale() == [], "run `python docs/generate.py write`"


def test_codes_that_pages_name_exist() -> None:
    """Every code that a page names has a page of its own."""
    from sandboxc import catalogue

    known = set(catalogue.all_codes())
    for page in PAGES:
        named = set(re.findall(r"SBX\d{3}", page.read_text(encoding="utf-8")))
        assert named <= known, f"{page.name}: {sorted(named - known)}"


def test_architecture_is_the_tree() -> None:
    """The table of the page on the architecture is the tiers that imports are held to, row by row."""
    from tests.unit.test_imports import EDGES, PACKAGE, TIERS

    def shown(name: str) -> str:
        return f"{name}/" if (PACKAGE / name.replace(".", "/")).is_dir() else name

    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    rows = [re.findall(r"`([^`]+)`", line.split("|")[1]) for line in text.splitlines() if line.startswith("| `")]
    assert rows == [[shown(name) for name in tier] for tier in TIERS]
    (edges,) = re.findall(r"^Files, the environment, .*?;", text, re.MULTILINE | re.DOTALL)
    assert set(re.findall(r"`([^`]+)`", edges)) == {shown(name) for name in EDGES}


def test_language_names_every_key() -> None:
    """The page on the language names every key that a policy may have at the top and in an entry."""
    import json

    schema = json.loads((ROOT / "schemas/policy.schema.json").read_text())
    text = (ROOT / "docs/language.md").read_text(encoding="utf-8")
    not_yet = {"extends", "groups", "name", "description"}
    for key in set(schema["properties"]) - not_yet:
        assert f"`{key}`" in text, key


@ON_LINUX
def test_the_tour_runs(tmp_path: Path) -> None:
    """`examples/tour.sh`, which the README starts with, runs through."""
    program = tmp_path / "sandboxc"
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m sandboxc "$@"\n')
    program.chmod(0o755)
    home = tmp_path / "home"
    home.mkdir()
    environment = {"HOME": str(home), "PATH": "/usr/local/bin:/usr/bin:/bin", "SANDBOXC": str(program)}
    done = subprocess.run(
        ["sh", str(ROOT / "examples/tour.sh")],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "NOT REFUSED" not in done.stdout
    assert done.stdout.count("refused:") >= 6

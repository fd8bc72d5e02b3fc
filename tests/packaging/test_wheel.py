"""The wheel and the source distribution: what they hold, and that an installed wheel works by itself."""

import importlib.util
import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(
    not all(importlib.util.find_spec(name) for name in ("build", "hatchling")), reason="needs build and hatchling"
)

#: Shipped folders: where they are in a checkout -> where they are in the package.
FOLDERS = {"schemas": "schemas", "policies": "policies"}


class Installed(NamedTuple):
    """An environment in which the wheel is installed, with a way to run its programs."""

    base: Path

    def run(self, *words: str, cwd: Path | None = None) -> str:
        """Return the standard output of a program of the environment, which has to succeed."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PIP_"))}
        program = self.base / "bin" / words[0]
        done = subprocess.run(
            [program, *words[1:]], cwd=cwd or self.base, env=environment, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def install(self, *words: str) -> None:
        """Install into the environment itself, also where the one behind it has the package already."""
        self.run("python", "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--ignore-installed", *words)


def environment(base: Path) -> Installed:
    """Return a fresh virtual environment that sees the packages of this one behind its own."""
    venv.create(base, with_pip=True, symlinks=True)
    purelib = Path(sysconfig.get_path("purelib", vars={"base": str(base), "platbase": str(base)}))
    (purelib / "behind.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return Installed(base)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the wheel (made from the source distribution, as an index would) and the source distribution."""
    out = tmp_path_factory.mktemp("dist")
    words = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    """An environment with the wheel installed."""
    made = environment(tmp_path_factory.mktemp("venv"))
    (wheel,) = built.glob("*.whl")
    made.install(str(wheel))
    yield made


def files_of(folder: Path) -> set[str]:
    """Return the files below a folder of the checkout that are not caches."""
    found = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(folder).as_posix() for path in found}


def test_the_wheel_holds_the_package_and_its_data(built: Path) -> None:
    """Every file of the package and of the shipped folders is in the wheel, and nothing besides but metadata."""
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
    expected = {f"sandboxc/{name}" for name in files_of(ROOT / "sandboxc")}
    for folder, place in FOLDERS.items():
        expected |= {f"sandboxc/{place}/{name}" for name in files_of(ROOT / folder)}
    code = {name for name in names if ".dist-info/" not in name}
    assert code == expected
    for wanted in ("py.typed", "data/protected.json", "data/hidden.json", "schemas/policy.schema.json"):
        assert f"sandboxc/{wanted}" in code
    assert any(name.startswith("sandboxc/templates/") and name.endswith(".j2") for name in code)
    assert "sandboxc/policies/coding-agent.yaml" in code
    metadata = {name.partition(".dist-info/")[2] for name in names - code}
    assert {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"} == metadata


def test_the_source_distribution_can_be_tested(built: Path) -> None:
    """The source distribution has the tests, docs, examples and everything that they read."""
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as file:
        names = {name.partition("/")[2] for name in file.getnames()}
    for wanted in (
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "tests/conftest.py",
        "docs/language.md",
        "examples/tour.sh",
    ):
        assert wanted in names, wanted
    assert not [name for name in names if "__pycache__" in name or name.startswith((".git/", ".venv/"))]


def test_the_version_is_one(installed: Installed) -> None:
    """The literal in the package, the project file and the installed metadata say the same version."""
    from sandboxc._version import VERSION

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == VERSION
    assert installed.run("sandboxc", "--version") == f"sandboxc {VERSION}\n"
    code = "import importlib.metadata as m; print(m.version('sandboxc'), m.metadata('sandboxc')['License-Expression'])"
    assert installed.run("python", "-c", code) == f"{VERSION} MIT\n"


def test_the_installed_wheel_compiles_its_policies(installed: Installed, tmp_path: Path) -> None:
    """Every shipped policy compiles from inside the installed package, to the bytes that the checkout gives."""
    where = installed.run("python", "-c", "import sandboxc, os; print(os.path.dirname(sandboxc.__file__))").strip()
    assert Path(where).is_relative_to(installed.base)
    policies = sorted(Path(where, "policies").glob("*.yaml"))
    assert [path.name for path in policies] == sorted(path.name for path in (ROOT / "policies").glob("*.yaml"))
    for policy in policies:
        installed.run("sandboxc", "compile", str(policy), "--target", "all", "-o", str(tmp_path / policy.stem))
        assert (tmp_path / policy.stem / "manifest.json").is_file()
    here = tmp_path / "here"
    words = [sys.executable, "-m", "sandboxc", "compile", str(ROOT / "policies/coding-agent.yaml"), "-o", str(here)]
    subprocess.run(words, check=True, cwd=ROOT, capture_output=True)
    for file in here.iterdir():
        assert file.read_bytes() == (tmp_path / "coding-agent" / file.name).read_bytes(), file.name


def test_the_installed_commands_find_their_data(installed: Installed, tmp_path: Path) -> None:
    """The schema, the presets, the matrix, the pages and a starter come out of the installed package."""
    schema = json.loads(installed.run("sandboxc", "schema"))
    assert schema["properties"]["sandboxc"]
    assert ".git" in installed.run("sandboxc", "protected")
    assert "seatbelt" in installed.run("sandboxc", "targets")
    assert "SBX431" in installed.run("sandboxc", "explain", "SBX431")
    installed.run("sandboxc", "init", str(tmp_path / "sandbox.yaml"))
    installed.run("sandboxc", "check", str(tmp_path / "sandbox.yaml"))


@pytest.mark.skipif(sys.platform != "linux", reason="running confined needs Linux")
def test_the_installed_wheel_runs_a_command(installed: Installed, tmp_path: Path) -> None:
    """`sandboxc run` of a packaged policy confines a command from the installed wheel."""
    where = installed.run("python", "-c", "import sandboxc, os; print(os.path.dirname(sandboxc.__file__))").strip()
    policy = str(Path(where, "policies/read-only.yaml"))
    assert installed.run("sandboxc", "run", policy, "--", "echo", "confined", cwd=tmp_path) == "confined\n"


def test_install_from_the_checkout(tmp_path: Path) -> None:
    """Installing the directory itself, as `pipx install .` does, gives a working program."""
    made = environment(tmp_path / "venv")
    made.install("--no-build-isolation", str(ROOT))
    assert made.run("sandboxc", "--version").startswith("sandboxc ")
    assert made.run("sandboxc", "--help").startswith("usage: sandboxc")

"""Which module may import which, what core modules may not do, and what each kind of start loads."""

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "sandboxc"

#: From the bottom up. A module imports from lower tiers, and from its own group only.
TIERS = (
    ("records",),
    ("_version", "exits", "digests", "source", "packaged", "plain_json", "landlock_abi"),
    ("diagnostics",),
    ("places", "policy"),
    ("globs", "facts", "losses", "canonical"),
    ("layers", "capability", "seccomp", "meets"),
    ("locks",),
    ("binding", "presets", "evaluator", "survey", "render", "frontend", "catalogue"),
    ("bound", "lower", "loader"),
    ("ask", "emitters.artefact"),
    ("emitters.registry", "emitters.seatbelt", "emitters.bwrap", "emitters.landlock", "emitters.windows"),
    ("compile",),
    ("profile",),
    ("api", "console"),
    ("runtime",),
    ("commands",),
    ("cli",),
    ("__main__",),
)
#: Groups that look at the world: files, the environment, the platform (records: the interpreter). Everything else is a
#: function of arguments.
EDGES = {"records", "packaged", "loader", "console", "runtime", "commands", "cli", "__main__", "api", "profile"}
#: In a group of edges, the modules that are pure all the same.
PURE = {"sandboxc.profile.codec", "sandboxc.profile.write", "sandboxc.profile.check"}
WORLDLY = {
    "os", "sys", "io", "time", "datetime", "random", "secrets", "socket", "subprocess", "platform", "logging", "shutil",
    "tempfile", "pathlib", "glob", "locale", "getpass", "pwd", "threading", "multiprocessing", "urllib", "http",
    "ctypes",
}  # fmt: skip
HEAVY = (
    "lark", "jinja2", "ruamel", "jsonschema", "rich", "dataclasses", "subprocess", "logging", "difflib", "argparse",
    "importlib.metadata", "importlib.resources", "asyncio", "hashlib", "pathlib", "inspect", "typing",
)  # fmt: skip


def modules() -> Iterator[tuple[str, ast.Module]]:
    """Yield the name and syntax tree of each module of the package."""
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        yield name, ast.parse(path.read_text(encoding="utf-8"))


def group(module: str) -> str:
    """Return the group of a module: its package below ``sandboxc``, each emitter by itself."""
    parts = module.split(".")[1:]
    return ".".join(parts[:2]) if parts[:1] == ["emitters"] else ".".join(parts[:1])


def imported(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield every module that a tree imports, anywhere in it, with the line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                place = ROOT.joinpath(*inner.split("."))
                known = place.is_dir() or place.with_suffix(".py").is_file()
                yield (inner if known and node.module.startswith("sandboxc") else node.module), node.lineno


def test_arrows_point_downward() -> None:
    """No module imports from a higher tier, nor from another group of its own tier."""
    rank = {name: number for number, tier in enumerate(TIERS) for name in tier}
    wrong: list[str] = []
    for module, tree in modules():
        own = group(module)
        if own in ("", "emitters"):
            continue  # the package's own door, and the emitters' empty one
        assert own in rank, f"{module} stands in no tier"
        for target, line in imported(tree):
            other = group(target)
            if not target.startswith("sandboxc.") or other in (own, "emitters"):
                continue
            if rank[other] >= rank[own]:
                wrong.append(f"{module}:{line} imports {target}")
    assert wrong == []


def test_core_modules_look_at_nothing() -> None:
    """Outside the edges nothing opens, prints, or imports a module that knows the host."""
    wrong: list[str] = []
    for module, tree in modules():
        if group(module) in EDGES and module not in PURE:
            continue
        wrong += [f"{module}:{line} imports {name}" for name, line in imported(tree) if name.split(".")[0] in WORLDLY]
        for node in ast.walk(tree):
            called = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
            if called in ("open", "print", "input", "exec", "eval", "breakpoint", "__import__"):
                wrong.append(f"{module}:{called}")
    assert wrong == []


def test_nothing_imports_typing() -> None:
    """``sandboxc.records`` stands in for ``typing``, which would cost a run a third of its start-up."""
    wrong = [f"{module}:{line}" for module, tree in modules() for name, line in imported(tree) if name == "typing"]
    assert [place for place in wrong if not place.startswith("sandboxc.records:")] == []


def test_every_module_and_public_function_is_described() -> None:
    """Modules, public functions, public classes and their public methods have a docstring."""
    without: list[str] = []
    for module, tree in modules():
        if ast.get_docstring(tree) is None:
            without.append(module)
        for node in tree.body:
            inner = node.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_") else []
            public = (
                item
                for item in (node, *inner)
                if isinstance(item, ast.FunctionDef | ast.ClassDef) and not item.name.startswith("_")
            )
            without += [f"{module}.{item.name}" for item in public if ast.get_docstring(item) is None]
    assert without == []


def test_tests_say_what_they_hold() -> None:
    """Every test function has a docstring."""
    without: list[str] = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        functions = (
            node
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
        )
        without += [f"{path.name}: {node.name}" for node in functions if not ast.get_docstring(node)]
    assert without == []


def test_files_stay_small() -> None:
    """No module of the package has more than 520 lines."""
    counts = {path.name: len(path.read_bytes().splitlines()) for path in PACKAGE.rglob("*.py")}
    assert {name: count for name, count in counts.items() if count > 520} == {}


def loaded(code: str, *arguments: str) -> set[str]:
    """Return the modules that are loaded after a piece of code ran in a fresh interpreter."""
    report = "\nimport sys; sys.stderr.write('MODULES ' + ' '.join(sorted(sys.modules)))"
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run(
        [sys.executable, "-c", code + report, *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment | {"PYTHONDONTWRITEBYTECODE": "1"},
        check=True,
    )
    return set(done.stderr.rpartition("MODULES ")[2].split())


def heavy(found: set[str], *allowed: str) -> set[str]:
    """Return the heavy modules among the loaded ones."""
    return {name for name in found if name.startswith(HEAVY) and not name.startswith(allowed or ("-",))}


COMMAND = "import sys; from sandboxc.cli import run_command_line; run_command_line(sys.argv[1:])"


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a profile directory for the Linux targets."""
    directory = tmp_path_factory.mktemp("profile")
    policy = directory / "p.yaml"
    policy.write_text("sandboxc: 1\nmode: workspace-write\ntargets: [bwrap, landlock]\n")
    subprocess.run([sys.executable, "-m", "sandboxc", "compile", policy, "-o", directory / "out"], cwd=ROOT, check=True)
    return str(directory / "out")


def test_version_loads_next_to_nothing() -> None:
    """`--version` and `--help` need neither a parser of arguments nor anything of a policy."""
    bare = loaded("pass")
    for option in ("--version", "--help"):
        found = loaded(COMMAND, option) - bare
        assert heavy(found) == set()
        assert {name for name in found if name.startswith("sandboxc")} <= {
            "sandboxc", "sandboxc._version", "sandboxc.cli", "sandboxc.commands", "sandboxc.exits",
        }  # fmt: skip
        assert not {"typing", "re", "json"} & found


def test_loading_a_profile_loads_no_front_end(profile: str) -> None:
    """A profile is loaded, bound and asked without a front end, an emitter or a compiler."""
    code = (
        "import sys, sandboxc\n"
        "bound = sandboxc.load_profile(sys.argv[1]).bind('linux', workspace='/w', home='/h', tmp='/tmp',"
        " user_config='/h/.config', user_cache='/h/.cache')\n"
    )
    found = loaded(code, profile) - loaded("pass")
    assert heavy(found) == set()
    ours = {name for name in found if name.startswith("sandboxc.")}
    banned = ("frontend", "loader", "lower", "presets", "compile", "render", "catalogue", "survey", "commands")
    assert not {name for name in ours if name.split(".")[1] in banned}
    assert {name for name in ours if name.startswith("sandboxc.emitters")} <= {
        "sandboxc.emitters", "sandboxc.emitters.artefact",
    }  # fmt: skip


@pytest.mark.skipif(sys.platform != "linux", reason="runs a Linux backend")
def test_run_loads_no_front_end(profile: str) -> None:
    """`run PROFILE` goes without argparse and everything that a compile needs."""
    found = loaded(COMMAND, "run", "--dry-run", profile, "--", "true") - loaded("pass")
    assert heavy(found) == set()
    banned = ("frontend", "loader", "lower", "presets", "compile", "render", "catalogue")
    assert not {name for name in found if name.startswith("sandboxc.") and name.split(".")[1] in banned}


def test_compile_for_linux_needs_no_templates() -> None:
    """`compile --target bwrap` of a YAML policy loads neither jsonschema, jinja2 nor lark, nor other emitters."""
    found = loaded(COMMAND, "compile", "--target", "bwrap", "policies/workspace-write.yaml")
    assert not {name for name in found if name.split(".")[0] in ("jsonschema", "jinja2", "lark")}
    emitters = {name.split(".")[2] for name in found if name.startswith("sandboxc.emitters.")}
    assert emitters <= {"artefact", "registry", "bwrap"}

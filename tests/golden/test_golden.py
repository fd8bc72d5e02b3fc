"""Every golden case: its files as they are checked in, and what must hold of any case."""

import difflib
import random
import shutil
from pathlib import Path

import pytest

from tests.golden import checks, golden
from tests.judges import windows as judge

CASES = golden.names()


def stale(folder: Path, made: dict[str, bytes]) -> list[str]:
    """Return what differs between a folder and the files that it should hold, as unified diffs."""
    there = {path.name: path.read_bytes() for path in folder.iterdir() if path.name not in golden.INPUTS}
    found: list[str] = []
    for name in sorted({*there, *made}):
        if name not in made:
            found.append(f"{folder.name}/{name} is expected nowhere (orphan)\n")
        elif there.get(name) != made[name]:
            old = there.get(name, b"").decode("utf-8", "replace").splitlines(keepends=True)
            new = made[name].decode("utf-8", "replace").splitlines(keepends=True)
            title = f"{folder.name}/{name}"
            lines = list(difflib.unified_diff(old, new, title + (" (missing)" if name not in there else ""), title))
            found.append("".join(lines[:200]))
    return found


def update(folder: Path, made: dict[str, bytes]) -> None:
    """Write the files of a case and take away what is no longer expected."""
    for path in folder.iterdir():
        if path.name not in golden.INPUTS and path.name not in made:
            path.unlink()
    for name, data in made.items():
        if not (folder / name).exists() or (folder / name).read_bytes() != data:
            (folder / name).write_bytes(data)


@pytest.mark.parametrize("name", CASES)
def test_golden_files(name: str, request: pytest.FixtureRequest) -> None:
    """The files of a case are what the compiler makes today; nothing is missing and nothing left over."""
    case = golden.load_case(name)
    made = golden.case_files(case)
    if request.config.getoption("--update-golden"):
        update(case.folder, made)
    found = stale(case.folder, made)
    assert not found, "\n".join([*found, golden.RERUN])


READ_BY = {"seatbelt": shutil.which("tinyscheme"), "windows": judge.available(), "bwrap": True, "landlock": True}


#: A refused policy has no artefact, and the plans of Linux are decided by the world.
JUDGED = [
    (name, target)
    for name in CASES
    for target in ("seatbelt", "windows", "bwrap", "landlock")
    if golden.expects(name, target) and (target in ("seatbelt", "windows") or golden.load_case(name).tree is not None)
]


@pytest.mark.parametrize(("name", "target"), JUDGED)
def test_judges_agree_with_the_layers(name: str, target: str) -> None:
    """A judge of its own reads each artefact; what it answers is what the layers say, or a declared loss."""
    if not READ_BY[target]:
        pytest.skip("the judge of this target is not installed")
    case = golden.load_case(name)
    made = golden.make(case)
    found = getattr(checks, target)(case, made)
    assert checks.unexplained(case, made, target, found) == []


@pytest.mark.parametrize("name", CASES)
def test_the_same_bytes_twice(name: str) -> None:
    """Compiling twice gives the same bytes."""
    case = golden.load_case(name)
    assert golden.case_files(case) == golden.case_files(case)


#: Of a refused policy, which line of a conflict is named depends on which came first.
ORDERED = [name for name in CASES if golden.expects(name, "bwrap")]


@pytest.mark.parametrize("name", ORDERED)
def test_bytes_do_not_depend_on_order(name: str) -> None:
    """Compiling with the entries in other orders gives the same bytes."""
    case = golden.load_case(name)
    first = golden.case_files(case)
    policy = case.policy
    rng = random.Random(name)
    entries = list(policy.entries)
    for _ in range(2):
        rng.shuffle(entries)
        other = golden.make(case, policy._replace(entries=tuple(entries), waivers=policy.waivers[::-1]))
        assert golden.case_files(case, other) == first


@pytest.mark.parametrize("name", CASES)
def test_every_report_is_sound(name: str) -> None:
    """Each diagnostic underlines a text of the source, and is worded as the house has it."""
    case = golden.load_case(name)
    made = golden.make(case)
    for item in made.diagnostics:
        for span in [item.span, *(label.span for label in item.labels)]:
            if span is not None:
                text = case.loaded.sources[0].snippet(span)
                assert text.strip() == text and text, item
                assert text in case.loaded.sources[0].text
        assert item.message[:1] == item.message[:1].lower() or not item.message[:1].isalpha()
        assert not item.message.endswith(".") and "\n" not in item.message


def test_there_are_enough_cases() -> None:
    """At least 40 cases, most of which have artefacts to judge, and no folder without a policy."""
    assert len(CASES) >= 40 and len(ORDERED) >= 40
    for target in golden.SUFFIX:
        assert len([name for name, judged in JUDGED if judged == target]) >= 40
    folders = {path.name for path in golden.HERE.iterdir() if path.is_dir() and not path.name.startswith("__")}
    assert folders == set(CASES)


# -- the harness itself ----------------------------------------------------------------------------------------


def test_a_changed_missing_or_orphan_file_is_shown(tmp_path: Path) -> None:
    """Each kind of staleness fails with a diff; updating mends all of them and touches nothing else."""
    (tmp_path / "policy.yaml").write_text("sandboxc: 1\n")
    (tmp_path / "expect.a").write_text("one\ntwo\n")
    (tmp_path / "expect.gone").write_text("x")
    made = {"expect.a": b"one\n2\n", "expect.new": b"n\n"}
    found = "".join(stale(tmp_path, made))
    for words in ("-two", "+2", "(missing)", "+n", "expect.gone is expected nowhere"):
        assert words in found
    update(tmp_path, made)
    assert stale(tmp_path, made) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["expect.a", "expect.new", "policy.yaml"]


@pytest.mark.parametrize(("reason", "marks"), [("no bwrap", "C"), ("needs root", "C"), ("no bwrap", "")])
def test_a_skipped_proof_fails_in_ci(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, reason: str, marks: str
) -> None:
    """With CI set a skipped test or module of the proofs fails, but for what no machine can be made to have."""
    pytester.makeconftest(Path(golden.HERE.parent, "conftest.py").read_text("utf-8"))
    test = f"import pytest\n@pytest.mark.skipif(True, reason={reason!r})\ndef test_it(): pass\n"
    whole = f"import pytest\npytest.skip({reason!r}, allow_module_level=True)\n"
    for folder in ("kernel", "unit"):
        pytester.mkdir(folder)
        for name, text in (("test_one", test), ("test_all", whole)):
            Path(folder, f"{name}_{folder}.py").write_text(text)
    monkeypatch.delenv("SANDBOXC_REQUIRE_ALL", raising=False)
    monkeypatch.setenv("CI", marks)
    done = pytester.runpytest_subprocess("-p", "no:cacheprovider", "--continue-on-collection-errors")
    strict = bool(marks) and reason != "needs root"
    done.assert_outcomes(errors=2 if strict else 0, skipped=2 if strict else 4)


def test_the_flag_is_refused_in_ci(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """With CI set the flag ends the run as a usage error; without it the flag is taken."""
    conftest = Path(golden.HERE.parent, "conftest.py").read_text("utf-8")
    pytester.makeconftest(conftest)
    pytester.makepyfile("def test_flag(request):\n    assert request.config.getoption('--update-golden')\n")
    monkeypatch.setenv("CI", "true")
    refused = pytester.runpytest_subprocess("--update-golden", "-p", "no:cacheprovider")
    assert refused.ret == pytest.ExitCode.USAGE_ERROR
    assert "refused in CI" in "".join((*refused.outlines, *refused.errlines))
    monkeypatch.delenv("CI")
    taken = pytester.runpytest_subprocess("--update-golden", "-p", "no:cacheprovider")
    taken.assert_outcomes(passed=1)

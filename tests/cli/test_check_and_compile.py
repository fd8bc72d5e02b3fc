"""`check` and `compile`: their exit codes, the shape of their output, and that nothing ends in a traceback."""

import json
import sys
from pathlib import Path

import pytest

from tests.cli._cli import GOOD, Result, Run

pytestmark = pytest.mark.usefixtures("surroundings")

# -- check ------------------------------------------------------------------------------------------------


def test_check_exit_codes(run: Run) -> None:
    """Clean 0, findings 1, unreadable 2; of several files the worst counts."""
    assert run("check", "good.yaml", "--target", "bwrap") == Result(0, "", "")
    assert run("check", "good.yaml").code == 0
    assert run("check", "bad.yaml").code == 1
    assert run("check", "lossy.yaml").code == 1
    assert run("check", "absent.yaml").code == 2
    assert run("check", ".").code == 2
    assert run("check", "good.yaml", "bad.yaml", "absent.yaml").code == 2
    assert run("check", "good.yaml", "--facts", "nowhere").code == 2


def test_check_reports_all_errors_of_a_file(run: Run) -> None:
    """Every error of one run is shown, with its code and place, on standard error."""
    result = run("check", "bad.yaml")
    assert result.out == "" and "bad.yaml:2:7" in result.err and "bad.yaml:4:" in result.err


def test_check_json(run: Run) -> None:
    """The JSON form lists files, diagnostics, and the losses of each target."""
    found = run("check", "--format", "json", "good.yaml", "bad.yaml").json()
    assert found["format_version"] == "1.0" and found["ok"] is False
    good, bad = found["policies"]
    assert good["ok"] and good["targets"].keys() == {"bwrap", "landlock"}
    assert good["targets"]["bwrap"]["enforcement"] in ("full", "partial")
    assert not bad["ok"] and {item["line"] for item in bad["diagnostics"]} == {2, 4}
    assert run("check", "--format", "json", "absent.yaml").json()["policies"][0]["diagnostics"][0]["code"] == "SBX117"


def test_check_profile(run: Run) -> None:
    """A fresh profile is clean by digests and by compiling; a changed policy, profile or file is found."""
    assert run("compile", "good.yaml", "-o", "p").code == 0
    assert run("check", "--profile", "p", "good.yaml") == Result(0, "", "")
    assert run("check", "--profile", "p", "--recompile", "good.yaml").code == 0
    Path("good.yaml").write_text(GOOD + "# changed\n")
    stale = run("check", "--profile", "p", "good.yaml")
    assert stale.code == 1 and "SBX739" in stale.err and "manifest.json" in stale.err
    assert (
        run("check", "--profile", "p", "good.yaml", "--format", "json").json()["policies"][0]["profile"]["fresh"]
        is False
    )
    Path("p/bwrap.json").write_text("{}")
    tampered = run("check", "--profile", "p", "good.yaml", "--format", "json")
    assert tampered.code == 1 and tampered.json()["diagnostics"][0]["code"] == "SBX736"
    assert run("check", "--profile", "nowhere", "good.yaml").code == 2
    assert run("check", "--profile", "p", "good.yaml", "lossy.yaml").code == 2


# -- compile ----------------------------------------------------------------------------------------------


def test_compile_writes_artefacts_to_standard_output(run: Run) -> None:
    """One target without -o is the native artefact, and only it, on standard output."""
    words = run("compile", "good.yaml", "--target", "bwrap")
    assert words.code == 0 and words.err == "" and "--unshare-user" in words.out.split("\n")
    assert run("compile", "good.yaml", "--target", "landlock").json()["target"] == "landlock"
    assert run("compile", "good.yaml", "--target", "bwrap", "-o", "words").out == ""
    assert Path("words").read_text() == words.out


def test_compile_writes_a_profile_directory(run: Run) -> None:
    """`--target all -o DIR` writes the profile, twice the same; a foreign directory is refused."""
    assert run("compile", "good.yaml", "--target", "all", "-o", "p").code == 0
    before = {path.name: path.read_bytes() for path in Path("p").iterdir()}
    assert {"manifest.json", "layers.json", "bwrap.json", "landlock.json"} <= before.keys()
    assert run("compile", "good.yaml", "--target", "all", "-o", "p").code == 0
    assert before == {path.name: path.read_bytes() for path in Path("p").iterdir()}
    assert run("compile", "good.yaml", "--target", "bwrap", "-o", "one/").code == 0
    assert Path("one/manifest.json").is_file()
    refused = run("compile", "good.yaml", "--target", "all", "-o", ".")
    assert refused.code == 2 and "SBX742" in refused.err


def test_compile_exit_codes(run: Run) -> None:
    """An invalid policy and an unwaived loss give 1 and no artefact, what cannot be read 2."""
    for name, code in (("bad.yaml", 1), ("lossy.yaml", 1), ("absent.yaml", 2)):
        result = run("compile", name, "--target", "bwrap")
        assert (result.code, result.out) == (code, "")
    assert run("compile", "lossy.yaml", "-o", "p").code == 1 and not Path("p").exists()
    assert run("compile", "good.yaml", "--target", "bwrap", "-o", "no/such/directory/file").code == 2
    Path("full.yaml").write_text("sandboxc: 1\nmode: danger-full-access\n")
    unconfined = run("compile", "full.yaml", "--target", "bwrap")
    assert unconfined.code == 1 and unconfined.out == "" and "SBX404" in unconfined.err


@pytest.mark.parametrize(
    "words",
    [
        ("good.yaml",),
        ("good.yaml", "--bind", "workspace=/w", "-o", "p"),
        ("good.yaml", "--host", "-o", "p"),
        ("good.yaml", "--target", "bwrap", "--format", "args0"),
        ("good.yaml", "--target", "bwrap", "--format", "landlockconfig", "--host"),
        ("good.yaml", "--target", "bwrap", "--host", "--tree", "t.json"),
        ("good.yaml", "--target", "bwrap", "--bind", "workspace"),
        ("good.yaml", "--target", "bwrap", "--bind", "workspace=/a", "--bind", "workspace=/b"),
        ("good.yaml", "--target", "bwrap", "--bind", "nobody=/a"),
        ("good.yaml", "--target", "plan9"),
        (),
    ],
)
def test_compile_usage_errors(run: Run, words: tuple[str, ...]) -> None:
    """Options that do not go together exit with 2 and leave nothing behind."""
    result = run("compile", *words)
    assert result.code == 2 and result.out == "" and "error[SBX" in result.err
    assert not Path("p").exists()


def test_compile_binds_some_parameters(run: Run) -> None:
    """A bound parameter is replaced, the others stay symbolic."""
    text = run("compile", "good.yaml", "--target", "landlock", "--bind", "workspace=/srv/work").out
    assert "/srv/work/vendor" in text and '"${workspace}/.git' not in text and "${home}/.ssh" in text
    assert run("compile", "good.yaml", "--target", "bwrap", "--bind", "workspace=relative").code == 1


def test_compile_for_a_described_tree(run: Run) -> None:
    """`--tree` gives a final artefact that depends on nothing of this host."""
    Path("tree.json").write_text('{"/w/vendor/x": {"type": "file"}, "/h": {"type": "directory"}}')
    values = {"workspace": "/w", "home": "/h", "tmp": "/tmp", "user-config": "/h/.config", "user-cache": "/h/.cache"}
    given = [word for name, value in values.items() for word in ("--bind", f"{name}={value}")]
    words = run("compile", "good.yaml", "--target", "bwrap", "--tree", "tree.json", "--format", "args0", *given)
    assert words.code == 0, words.err
    found = words.out.split("\0")
    assert found[-1] == "" and "${" not in words.out and "SBX753" in words.err
    assert found[found.index("/w/vendor") - 1] == "--ro-bind"
    config = run(
        "compile", "good.yaml", "--target", "landlock", "--tree", "tree.json", "--format", "landlockconfig", *given
    )
    assert config.code == 0 and "pathBeneath" in config.json()
    missing = run("compile", "good.yaml", "--target", "bwrap", "--tree", "tree.json", "--bind", "workspace=/w")
    assert missing.code == 1 and "SBX703" in missing.err and missing.out == ""


BARE = """\
sandboxc: 1
mode: workspace-write
hidden: {preset: none, reason: kept short}
protected: {preset: none, reason: kept short}
"""


@pytest.mark.parametrize("waived", [False, True])
def test_what_a_described_tree_makes_real_is_refused(run: Run, waived: bool) -> None:
    """A conditional loss that occurs in the tree ends the compile with 1, unless the policy waives it there."""
    posix = {"workspace": "/w", "home": "/h", "tmp": "/t", "user-config": "/h/c", "user-cache": "/h/k"}
    there = {"type": "file", "inode": 5}
    later = '{path: "${workspace}/l", access: deny, absent: report}'
    held = '{path: "${workspace}/f", access: deny}'
    for target, entry, tree, found in (
        ("windows", later, {"C:\\w\\f": {"type": "file"}}, {"SBX476": "${workspace}/l"}),
        ("seatbelt", held, {"/w/f": there, "/w/g": there}, {"SBX416": "${workspace}"}),
        ("seatbelt", held, {"/w/f": there, "/x/s": {"type": "socket"}}, {}),
        ("seatbelt", held, {"/w/f": there, "/w/s": {"type": "socket"}}, {"SBX413": "${workspace}"}),
    ):
        drive = "C:" if target == "windows" else ""
        waivers = {**({"SBX475": "network"} if drive else {}), **(found if waived else {})}
        lines = [f'  - {{loss: {code}, target: {target}, at: "{at}", reason: t}}\n' for code, at in waivers.items()]
        waive = "".join(["waive:\n", *lines]) if lines else ""
        Path("p.yaml").write_text(BARE + f"targets: [{target}]\n{waive}entries:\n  - {entry}\n")
        Path("tree.json").write_text(json.dumps(tree))
        given = [word for name, path in posix.items() for word in ("--bind", f"{name}={drive}{path}")]
        result = run("compile", "p.yaml", "--target", target, "--tree", "tree.json", *given)
        assert result.code == (1 if found and not waived else 0), result.err
        assert all((code in result.err) != waived for code in found) and bool(result.out) == (result.code == 0)


@pytest.mark.parametrize("text", ["[]", "{", '{"/x": 1}', '{"/x": {"type": 1}}', '{"paths": 1}', '{"/x": {"size": 3}}'])
def test_trees_that_describe_nothing(run: Run, text: str) -> None:
    """A `--tree` file of another shape is refused with its own code."""
    Path("tree.json").write_text(text)
    result = run("compile", "good.yaml", "--target", "bwrap", "--tree", "tree.json", "--bind", "workspace=/w")
    assert result.code in (1, 2) and ("SBX752" in result.err or "SBX703" in result.err) and result.out == ""


@pytest.mark.skipif(sys.platform != "linux", reason="looks at a Linux host")
def test_compile_for_this_host(run: Run) -> None:
    """`--host` needs no further values here and writes words without a parameter in them."""
    Path("vendor").mkdir()
    words = run("compile", "good.yaml", "--target", "bwrap", "--host")
    assert words.code == 0, words.err
    assert "${" not in words.out and str(Path.cwd()) in words.out.split("\n")


@pytest.mark.skipif(sys.platform != "linux", reason="looks at a Linux host")
def test_the_run_base_of_this_host_is_that_of_a_run(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--host` closes the directory that a run would use: XDG's if private, below the state if /tmp is open."""
    runtime, state = tmp_path / "runtime", tmp_path / "state"
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    bases = (runtime / "sandboxc", state / "sandboxc/t")
    for base in bases:
        base.mkdir(parents=True)
    text = BARE + "temp: private\ntargets: [bwrap]\n"
    for mode, entries, closed in (
        (0o700, "", bases[:1]),
        (0o700, "entries:\n  - {path: /tmp, access: write}\n", bases[:1]),
        (0o755, "entries:\n  - {path: /tmp, access: write}\n", bases[1:]),
        (0o755, "", ()),
    ):
        runtime.chmod(mode)
        Path("p.yaml").write_text(text + entries)
        made = run("compile", "p.yaml", "--target", "bwrap", "--host", "--format", "args0")  # /tmp has any name
        assert made.code == 0, made.err
        assert tuple(base for base in bases if str(base) in made.out.split("\0")) == closed


def test_facts_by_name_and_by_file(run: Run) -> None:
    """Facts come from a preset or a file; a wrong file is a coded error."""
    old = run("compile", "good.yaml", "--target", "landlock", "--facts", "linux-5.15").json()
    assert old["facts"]["landlock_abi"] == 1
    Path("facts.json").write_text('{"landlock_abi": 3}')
    assert (
        run("compile", "good.yaml", "--target", "landlock", "--facts", "facts.json").json()["facts"]["landlock_abi"]
        == 3
    )
    for text in ('{"landlock": 3}', '{"landlock_abi": "3"}', "3", "{"):
        Path("facts.json").write_text(text)
        result = run("compile", "good.yaml", "--target", "landlock", "--facts", "facts.json")
        assert result.code == 2 and "SBX701" in result.err

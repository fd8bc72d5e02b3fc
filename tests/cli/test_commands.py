"""Every command: its exit codes, the shape of its output, and that nothing ends in a traceback."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from sandboxc import cli
from sandboxc._version import VERSION
from sandboxc.commands.run import Wrong, parse

ROOT = Path(__file__).resolve().parents[2]

GOOD = """\
sandboxc: 1
name: good
mode: workspace-write
targets: [bwrap, landlock]
entries:
  - {path: "${workspace}/vendor", access: read, reason: kept as it is}
"""
BAD = "sandboxc: 1\nmode: workspce-write\nentries:\n  - {path: relative, access: ro}\n"
LOSSY = GOOD + '  - {glob: "**/.env", access: deny, within: writable}\n'


class Result(NamedTuple):
    """What a command line did."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """Return the decoded standard output."""
        return json.loads(self.out)


Run = Callable[..., Result]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs a command line in this process."""

    def call(*words: str | Path) -> Result:
        code = cli.run_command_line([str(word) for word in words])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return Result(code, captured.out, captured.err)

    return call


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a directory of one's own, without colours or a debug switch from outside."""
    (tmp_path / "good.yaml").write_text(GOOD)
    (tmp_path / "bad.yaml").write_text(BAD)
    (tmp_path / "lossy.yaml").write_text(LOSSY)
    monkeypatch.chdir(tmp_path)
    for name in ("NO_COLOR", "FORCE_COLOR", "SANDBOXC_DEBUG", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)


# -- the program ------------------------------------------------------------------------------------------


def test_version_and_help(run: Run) -> None:
    """Both are clean; no command at all is a usage error that shows the help."""
    assert run("--version") == Result(0, f"sandboxc {VERSION}\n", "")
    shown = run("--help")
    assert shown.code == 0 and all(name in shown.out for name in cli.COMMANDS)
    assert run("help", "why").out == run("why", "--help").out
    assert run() == Result(2, "", shown.out)


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_help_of_each_command_shows_an_example(run: Run, name: str) -> None:
    """The help names the command, its options and an example."""
    shown = run(name, "--help")
    assert shown.code == 0 and "example:" in shown.out and f"sandboxc {name}" in shown.out.split("example:")[1]


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_unknown_options_are_usage_errors(run: Run, name: str) -> None:
    """An option that nobody knows is reported, coded, with exit code 2 (125 for `run`)."""
    result = run(name, "--wibble")
    assert result.code == (125 if name == "run" else 2)
    assert result.out == "" and "error[SBX750]" in result.err and "--wibble" in result.err


def test_near_misses_are_named(run: Run) -> None:
    """A misspelled command or option comes with the one that was meant."""
    assert "did you mean `compile`?" in run("complie").err
    assert "did you mean `--target`?" in run("compile", "--taget", "bwrap", "good.yaml").err
    assert "did you mean `--bind`?" in run("run", "good.yaml", "--bnd", "a=b", "--", "true").err
    assert run("complie").code == 2


def test_a_bug_of_ours_is_no_traceback(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """What nobody thought of exits with 3 and asks for a report; under `run` nothing was started."""
    monkeypatch.setattr("sandboxc.loader.load", lambda path: 1 / 0)
    result = run("check", "good.yaml")
    assert result.code == 3 and "SBX799" in result.err and "report" in result.err and "ZeroDivisionError" in result.err
    monkeypatch.setattr("sandboxc.runtime.run.run_command", lambda *words: 1 / 0)
    assert run("run", "good.yaml", "--", "true").code == 125
    monkeypatch.setenv("SANDBOXC_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        cli.run_command_line(["check", "good.yaml"])


def test_interrupts_end_quietly(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Control-C ends with 130 and without a traceback."""

    def stop(path: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sandboxc.loader.load", stop)
    assert run("check", "good.yaml").code == 130


def test_a_closed_pipe_is_quiet() -> None:
    """A reader that goes away causes no traceback and no complaint at exit."""
    command = [sys.executable, "-m", "sandboxc", "explain"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT)
    assert child.stdout is not None and child.stderr is not None
    child.stdout.close()
    error = child.stderr.read()
    child.stderr.close()
    assert child.wait() == 2
    assert error == b""


def test_module_and_standard_input() -> None:
    """`python -m sandboxc` works, and `-` reads the policy from standard input."""
    command = [sys.executable, "-m", "sandboxc", "check", "-"]
    for text, code in ((GOOD, 0), (BAD, 1)):
        done = subprocess.run(command, input=text.encode(), capture_output=True, cwd=ROOT, check=False)
        assert done.returncode == code, done.stderr
        assert b"Traceback" not in done.stderr
    assert b"<stdin>:2" in done.stderr


def test_colours(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Off where nobody looks, on by force, and NO_COLOR wins over FORCE_COLOR but not over the option."""
    assert "\x1b[" not in run("check", "bad.yaml").err
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" in run("check", "bad.yaml").err
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in run("check", "bad.yaml").err
    assert "\x1b[" in run("check", "--color", "always", "bad.yaml").err


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
        made = run("compile", "p.yaml", "--target", "bwrap", "--host")
        assert made.code == 0, made.err
        assert tuple(base for base in bases if str(base) in made.out.split("\n")) == closed


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


# -- why --------------------------------------------------------------------------------------------------


def test_why_json(run: Run) -> None:
    """The answer has the shape of design section 9."""
    found = run("why", "vendor/x", "good.yaml", "--op", "write", "--format", "json", "--os", "linux").json()
    assert found["path"] == str(Path.cwd() / "vendor/x") and found["op"] == "write"
    assert found["allowed"] is False and found["access"] == "read"
    by = found["decided_by"]
    assert (by["file"], by["line"], by["column"], by["text"]) == ("good.yaml", 6, 5, "${workspace}/vendor")
    assert [layer["access"] for layer in found["beat"]] == ["write"]
    assert found["targets"].keys() == {"bwrap", "landlock"}
    assert all(row.keys() == {"allowed", "loss"} for row in found["targets"].values())


def test_why_text_names_the_line_and_the_reason(run: Run) -> None:
    """People get the verdict, the deciding line, what it beat, and the reason that was written."""
    shown = run("why", "vendor/x", "good.yaml", "--op", "write", "--os", "linux")
    assert shown.code == 0 and shown.out.startswith("write ") and ": denied (" in shown.out
    assert "good.yaml:6:5" in shown.out and "kept as it is" in shown.out
    assert "the baseline" in run("why", "/srv", "good.yaml", "--os", "linux").out


def test_why_asks_profiles_too(run: Run) -> None:
    """A profile gives the answers of its policy."""
    run("compile", "good.yaml", "-o", "p")
    for path, op in (("vendor/x", "write"), ("x", "create"), ("~/.ssh/id", "read"), (".git/config", "write")):
        answers = [
            run("why", path, source, "--op", op, "--format", "json", "--os", "linux").json()
            for source in ("good.yaml", "p")
        ]
        assert answers[0]["allowed"] == answers[1]["allowed"]
        assert answers[0]["targets"] == answers[1]["targets"]


def test_why_binds(run: Run) -> None:
    """`--bind` moves the workspace away from the current directory."""
    words = ("why", "/srv/w/x", "good.yaml", "--op", "write", "--format", "json", "--os", "linux")
    assert run(*words).json()["allowed"] is False
    assert run(*words, "--bind", "workspace=/srv/w").json()["allowed"] is True


def test_why_exit_codes(run: Run) -> None:
    """An answer is clean whatever it is; a broken policy gives 1; a wrong question 2."""
    assert run("why", "/etc/shadow", "good.yaml", "--os", "linux").code == 0
    assert run("why", "/x", "bad.yaml").code == 1
    assert run("why", "/x", "absent.yaml").code == 2
    assert run("why", "/x", "good.yaml", "--op", "rename").code == 2
    assert run("why", "/x", "good.yaml", "--to", "/y").code == 2
    assert run("why", "/x", "good.yaml", "--new-socket").code == 2
    assert run("why", "/x", "good.yaml", "--target", "windows", "--os", "linux").code == 2
    assert run("why", "~root/x", "good.yaml", "--os", "linux").code == 1
    broken = run("why", "/x", "bad.yaml", "--format", "json")
    assert broken.code == 1 and broken.json()["diagnostics"]


def test_why_other_systems(run: Run) -> None:
    """A policy can be asked about a system that this host is not."""
    Path("all.yaml").write_text(GOOD.replace("targets: [bwrap, landlock]\n", "targets: [seatbelt, windows]\n"))
    found = run("why", "C:/Users/user/.ssh/x", "all.yaml", "--target", "windows", "--format", "json")
    assert found.code in (0, 1)
    if found.code == 0:
        assert found.json()["allowed"] is False


# -- run --------------------------------------------------------------------------------------------------


def test_run_parses_its_table() -> None:
    """Options may stand before and after the source; everything behind `--` is the command."""
    request = parse(
        ["p", "--bind", "a=1", "--bind=b=2=3", "--target", "bwrap", "--cwd=/x", "--dry-run", "--", "sh", "--", "-c"]
    )
    assert request == ("p", ["sh", "--", "-c"], {"a": "1", "b": "2=3"}, "bwrap", "/x", True, None)
    assert parse(["--report", "r.json", "-", "--", "true"]) == ("-", ["true"], {}, "auto", None, False, "r.json")
    assert parse(["-h"]) is None


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["p"],
        ["p", "--"],
        ["--", "true"],
        ["p", "true"],
        ["p", "q", "--", "true"],
        ["p", "--bind", "--", "true"],
        ["p", "--bind", "x", "--", "true"],
        ["p", "--bind=x=1", "--bind=x=2", "--", "true"],
        ["p", "--target", "windows", "--", "true"],
        ["p", "--dry-run=yes", "--", "true"],
        ["p", "--cwd", "a", "--cwd", "b", "--", "true"],
        ["p", "-x", "--", "true"],
    ],
)
def test_run_usage_errors(run: Run, words: list[str]) -> None:
    """A command line that cannot be followed starts nothing: exit 125."""
    with pytest.raises(Wrong):
        parse(words)
    result = run("run", *words)
    assert result.code == 125 and "error[SBX750]" in result.err


def test_run_hands_over_what_was_parsed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run time gets the parsed words, and its exit code is passed on."""
    seen: list[Any] = []

    def stand_in(*words: Any) -> int:
        seen.append(words)
        return 42

    monkeypatch.setattr("sandboxc.runtime.run.run_command", stand_in)
    assert run("run", "good.yaml", "--dry-run", "--", "make", "test").code == 42
    assert seen == [("good.yaml", ["make", "test"], {}, "auto", None, True, None)]


def test_run_refuses_broken_sources(run: Run) -> None:
    """An invalid policy, a missing one and a tampered profile start nothing."""
    for source in ("bad.yaml", "absent.yaml", "."):
        assert run("run", source, "--", "true").code == 125


# -- the rest ---------------------------------------------------------------------------------------------


def test_explain(run: Run) -> None:
    """A code has its page in both forms, an unknown one is a usage error, none lists them all."""
    assert run("explain", "SBX739").out.startswith("SBX739: ")
    assert run("explain", "sbx739", "--format", "json").json()["code"] == "SBX739"
    assert run("explain", "SBX998").code == 2
    assert len(run("explain").out.splitlines()) == len(run("explain", "--format", "json").json())


def test_schema(run: Run) -> None:
    """The bundled schema is printed as it is."""
    assert run("schema").json()["$schema"].startswith("http://json-schema.org/draft-07")
    assert Path(run("schema", "--path").out.strip()).is_file()


def test_protected(run: Run) -> None:
    """Names and hidden paths are listed with reasons, for a preset or for one policy."""
    assert any(row.startswith(".git/hooks ") for row in run("protected", "--os", "linux").out.splitlines())
    seed = run("protected", "--preset", "seed", "--format", "json", "--os", "linux").json()
    assert {row["path"] for row in seed["protected"]} == {".git", ".hg", ".svn", ".ssh", ".aws", ".npmrc", ".netrc"}
    hidden = run("protected", "--hidden", "--format", "json", "--os", "linux").json()["hidden"]
    assert "~/.ssh" in {row["path"] for row in hidden} and all(row["why"] for row in hidden)
    Path("more.yaml").write_text(GOOD + "protected: {add: [.envrc.local], remove: [.vscode], reason: test}\n")
    mine = {
        row["path"] for row in run("protected", "more.yaml", "--format", "json", "--os", "linux").json()["protected"]
    }
    assert ".envrc.local" in mine and ".vscode" not in mine
    assert run("protected", "bad.yaml").code == 1
    assert run("protected", "good.yaml", "--preset", "seed").code == 2


def test_targets(run: Run) -> None:
    """The support matrix has a cell for each promise and target, in three forms."""
    found = run("targets", "--format", "json").json()
    assert all(row["targets"].keys() == {"seatbelt", "bwrap", "landlock", "windows"} for row in found["features"])
    table = run("targets", "--format", "markdown").out
    assert table.startswith("| promise | seatbelt | bwrap | landlock | windows |")
    assert len([line for line in table.splitlines() if line.startswith("|")]) == len(found["features"]) + 2
    assert run("targets", "--facts", "linux-5.15").out != run("targets", "--facts", "linux-7.3").out


def test_init_writes_a_policy_that_checks(run: Run) -> None:
    """The starter is valid, names its schema, and is never written over another file."""
    assert run("init").code == 0
    text = Path("sandbox.yaml").read_text()
    assert text.startswith("# yaml-language-server: $schema=")
    assert run("check", "sandbox.yaml", "--target", "bwrap").code == 0
    assert run("init").code == 2 and Path("sandbox.yaml").read_text() == text
    for mode in ("read-only", "workspace-write"):
        odd = 'a "quoted" \u00fc name'
        assert run("init", "--mode", mode, "--name", odd, f"{mode}.yaml").code == 0
        assert run("check", f"{mode}.yaml", "--target", "bwrap").code == 0
    assert run("init", "-").out.startswith("# yaml-language-server")
    assert run("init", "no/such/directory/x.yaml").code == 2


@pytest.mark.skipif(sys.platform != "linux", reason="probes Linux backends")
def test_doctor(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Backends are listed with a reason where they do not work; cleaning up says what it did."""
    found = run("doctor", "--format", "json")
    assert [row["backend"] for row in found.json()["backends"]] == ["bwrap", "landlock"]
    assert found.code == (0 if found.json()["chosen"] else 1)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    cleaned = run("doctor", "--clean", "--format", "json")
    assert cleaned.code == 0 and cleaned.json()["removed"] == []
    monkeypatch.setenv("PATH", "/nowhere")
    assert "no bwrap" in run("doctor").out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "powershell"])
def test_completion(run: Run, shell: str) -> None:
    """Each script names every command; those whose shell is here are read by it."""
    script = run("completion", shell)
    assert script.code == 0 and all(name in script.out for name in cli.COMMANDS)
    assert "--dry-run" in script.out or "dry-run" in script.out
    if shell == "bash":
        line = "source /dev/stdin; COMP_WORDS=(sandboxc compile --target ''); COMP_CWORD=3; _sandboxc"
        line += "; echo ${COMPREPLY[*]}"
        done = subprocess.run(["bash", "-c", line], input=script.out, capture_output=True, text=True, check=False)
        assert done.stdout.split() == ["seatbelt", "bwrap", "landlock", "windows", "all"], done.stderr


def test_completion_of_an_unknown_shell(run: Run) -> None:
    """There are four shells."""
    assert run("completion", "tcsh").code == 2


def test_output_that_cannot_be_written(run: Run) -> None:
    """A full device is reported, not raised."""
    if not os.path.exists("/dev/full"):
        pytest.skip("needs /dev/full")
    result = run("compile", "good.yaml", "--target", "bwrap", "-o", "/dev/full")
    assert result.code == 2 and "SBX751" in result.err

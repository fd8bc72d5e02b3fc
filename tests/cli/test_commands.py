"""The program and every command but `check` and `compile`: exit codes, the shape of the output, no traceback."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sandboxc import cli
from sandboxc._version import VERSION
from sandboxc.commands.run import Wrong, parse
from tests.cli._cli import BAD, GOOD, Result, Run

pytestmark = pytest.mark.usefixtures("surroundings")

ROOT = Path(__file__).resolve().parents[2]

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

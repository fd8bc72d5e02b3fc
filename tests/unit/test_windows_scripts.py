"""The PowerShell renderings of a Windows plan: quoting, what they promise, and what rendering imports."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from sandboxc.emitters.artefact import Options
from sandboxc.emitters.windows import emit
from sandboxc.emitters.windows.render import quoted
from sandboxc.layers import Layer, ordered
from sandboxc.places import Place
from tests.unit.test_windows import FACTS, HEAD, plan_of, stack_of

ROOT = Path(__file__).resolve().parents[2]

NASTY = (
    "it's",
    "\u2018x\u2019",
    "$(calc)",
    "`n",
    "a;b",
    "\u00e9",
    "\U0001f600",
    "@{}",
    "x #>",
    "  two",
    "{{ x }}",
    "{% y %}",
)


@pytest.mark.parametrize("text", [*NASTY, ""])
def test_quoting_round_trips(text: str) -> None:
    """A quoted text is ASCII, and read by PowerShell's rules it is the text again."""
    expression = quoted(text)
    assert expression.isascii()
    out: list[int] = []
    for plain, unit in re.findall(r"'((?:[^']|'')*)'|\[string\]\[char\]0x([0-9a-f]{4})", expression):
        out += [int(unit, 16)] if unit else list(plain.replace("''", "'").encode("utf-16-le")[::2])
    assert b"".join(value.to_bytes(2, "little") for value in out).decode("utf-16-le") == text
    assert len(expression) < 3 or expression[0] in "('"


def test_no_policy_text_outside_quotes() -> None:
    """Names and reasons of a policy reach the scripts as quoted values only, never as text or comments."""
    stack = stack_of(HEAD + "description: MARK\n")
    nasty = [Layer(Place("workspace", (name,)), "read", "entry", text=name, reason="MARK") for name in NASTY]
    stack = stack._replace(layers=ordered((*stack.layers, *nasty)))
    artefact = emit(stack, FACTS, Options(name="MARK'"))
    for name in ("windows-apply.ps1", "windows-undo.ps1"):
        script = artefact.files[name].decode("ascii")
        assert "MARK" not in script
        bare = re.sub(r"'(?:[^']|'')*'", "", re.sub(r"(?m)^\s*#.*$", "", script.split("#>", 1)[1]))
        assert "calc" not in bare and "a;b" not in bare and "{%" not in script.replace("'${workspace}\\{% y %}'", "")


def test_scripts_keep_their_promises() -> None:
    """Strict mode, stop on error, the journal before the change, no shares, and no way to run a text."""
    files = emit(stack_of("sandboxc: 1\nmode: workspace-write\n"), FACTS, Options()).files
    apply, undo = (files[f"windows-{name}.ps1"].decode() for name in ("apply", "undo"))
    for script in (apply, undo):
        assert "Set-StrictMode -Version Latest" in script and "$ErrorActionPreference = 'Stop'" in script
        assert not re.search(r"(?i)invoke-expression|\biex\b|scriptblock\]::create|add-type|icacls", script)
        assert "cannot take part in the plan" in script and "not proven on a real Windows" in script
    body = apply[apply.index("function Invoke-Step") :]
    assert body.index("Write-Journal") < body.index("Save-Raw")
    assert apply.count("(New-Step ") == len(
        plan_of(emit(stack_of("sandboxc: 1\nmode: workspace-write\n"), FACTS, Options()))["steps"]
    )


def test_jinja2_is_imported_only_to_render_scripts() -> None:
    """A bound plan without scripts needs no template engine."""
    code = (
        "import sys\nfrom sandboxc.emitters.windows import finalise\n"
        "from sandboxc.emitters.windows.settle import DescribedTree\n"
        "from sandboxc.emitters.artefact import Options\n"
        "from sandboxc.facts import Facts\nfrom sandboxc.layers import Layers\n"
        "finalise(Layers('windows','read-only','read'),Facts(),Options(),DescribedTree({}),with_scripts=False)\n"
        "print(sorted(set(sys.modules) & {'jinja2','lark','ruamel','jsonschema','subprocess','logging'}))"
    )
    environment = {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_sizes_stay_small() -> None:
    """The presets with two roots fit well below what a reviewer's tools handle, at a bounded size a step."""
    text = "sandboxc: 1\nmode: workspace-write\ntemp: private\nentries:\n  - {path: ~/cache/, access: write}\n"
    artefact = emit(stack_of(text), FACTS, Options())
    steps = len(plan_of(artefact)["steps"])
    assert steps < 300 and len(artefact.native) < 650 * steps and len(artefact.files["windows-apply.ps1"]) < 400 * steps


def test_a_writable_root_below_a_lock_is_refused() -> None:
    """What a lock closes is listed, and the script refuses values that bring a writable root below it."""
    locked = "entries:\n  - {path: ~/s, access: deny, locked: true}\n"
    locked += '  - {path: "${workspace}/w", access: write, locked: true}\n'
    artefact = emit(stack_of(HEAD + locked), FACTS, Options())
    assert plan_of(artefact)["locks"] == ["${home}\\s"]
    script = artefact.files["windows-apply.ps1"].decode("ascii")
    assert "$Locks = @('${home}\\s')" in script
    assert script.index("which the policy locks") < script.index("Open-Journal $journalPath")

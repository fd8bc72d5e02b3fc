"""The Windows emitter: the plan's form, its SIDs, losses, scripts and what it finds in a tree."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sandboxc.capability import FEATURES
from sandboxc.diagnostics import PolicyError
from sandboxc.emitters.artefact import Artefact, Options
from sandboxc.emitters.windows import emit, finalise, table
from sandboxc.emitters.windows.capability import windows_table
from sandboxc.emitters.windows.settle import DescribedTree
from sandboxc.emitters.windows.sids import canonical_path, derive_guard, derive_sid, native
from sandboxc.facts import Facts
from sandboxc.layers import Layer, Layers, bind, restrict
from sandboxc.loader import load_bytes
from sandboxc.losses import Loss, apply_waivers
from sandboxc.lower import lower
from sandboxc.places import WINDOWS, Place, Spelled, parse_place

ROOT = Path(__file__).resolve().parents[2]
FACTS = Facts()
HEAD = (
    "sandboxc: 1\ntargets: [windows]\nmode: workspace-write\n"
    "hidden: {preset: none, reason: x}\nprotected: {preset: none, reason: x}\n"
)
VALUES = {
    "workspace": "C:\\w",
    "home": "C:\\Users\\u",
    "tmp": "C:\\t",
    "run-base": "C:\\run",
    "run-tmp": "C:\\run\\1",
}


def place(path: str) -> Place:
    """The bound place of a native path."""
    spelled = parse_place(path, WINDOWS, ())
    assert isinstance(spelled, Spelled)
    return spelled.place


def stack_of(text: str) -> Layers:
    """The Windows layers of a policy text."""
    loaded = load_bytes("p.yaml", text.encode())
    assert loaded.policy is not None, loaded.diagnostics
    lowered = lower(loaded.policy, "windows")
    assert lowered.value is not None, lowered.diagnostics
    return lowered.value.layers


def bound(text: str, **values: str) -> Layers:
    """The same with every parameter bound."""
    given = VALUES | {name.replace("_", "-"): value for name, value in values.items()}
    return bind(stack_of(text), {name: place(path) for name, path in given.items()})


def plan_of(artefact: Artefact) -> dict[str, Any]:
    """The plan as a reader of the file gets it."""
    found: dict[str, Any] = json.loads(artefact.native)
    return found


def tree(*paths: str, **special: dict[str, str]) -> DescribedTree:
    """A tree of these native paths; one that ends in a back slash is a directory."""
    kinds = {path.rstrip("\\"): {"type": "directory" if path.endswith("\\") else "file"} for path in paths}
    return DescribedTree(kinds | special)


def rows(plan: dict[str, Any]) -> list[tuple[str, str]]:
    """Path and entry of each step, the guard SID shortened."""
    guard = plan["sids"].get("guard", {"sid": "no guard"})["sid"]
    return [(step["path"], step["ace"].replace(guard, "G")) for step in plan["steps"]]


def found_losses(text: str, reads: str = "standard") -> set[tuple[str, str]]:
    """Code and place of each loss that is no standing limit."""
    losses = emit(stack_of(text), FACTS, Options(windows_reads=reads)).losses
    return {(loss.code, loss.at) for loss in losses if not loss.standing}


# ---- form ----


def test_every_feature_has_one_row() -> None:
    """The table speaks of each feature once, under every kind of reads, and each loss has a code."""
    for found in (
        table(FACTS),
        windows_table("strict"),
        windows_table("strict", "deny"),
        windows_table("standard", "deny"),
    ):
        assert [row.feature for row in found.rows] == list(FEATURES)
        assert all(bool(row.code) == (row.status != "exact") for row in found.rows)


def test_the_plan_has_the_fixed_form() -> None:
    """The keys of the plan and of its steps are those that readers rely on."""
    plan = plan_of(emit(stack_of(HEAD), FACTS, Options()))
    assert list(plan) == [
        "format_version", "facts", "token", "sids", "steps", "locks", "optional", "unexpanded", "environment", "losses",
    ]  # fmt: skip
    for step in plan["steps"]:
        assert list(step)[:7] == ["id", "path", "object", "ace", "inherit", "why", "undo"]
        assert step["object"] in ("directory", "file")
        assert step["undo"]["remove_ace"] == step["ace"] and step["undo"]["sid"] in step["ace"]
    assert [step["id"] for step in plan["steps"]] == [f"s{n:04d}" for n in range(1, len(plan["steps"]) + 1)]


def test_the_same_bytes_every_time() -> None:
    """Another process with another hash seed and locale writes the same three files."""
    code = (
        "import hashlib,sys\nfrom tests.unit.test_windows import *\n"
        "a=emit(stack_of('sandboxc: 1\\nmode: workspace-write\\ntemp: private\\n'),FACTS,Options())\n"
        "print(hashlib.sha256(b''.join(a.files[n] for n in sorted(a.files))).hexdigest())"
    )
    seen = set()
    for seed in ("1", "2"):
        environment = {"PYTHONHASHSEED": seed, "LC_ALL": "C", "HOME": f"/h{seed}", "PYTHONPATH": str(ROOT)}
        seen.add(subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True).stdout)
    assert len(seen) == 1 and seen != {b""}


def test_the_json_ends_in_a_newline_and_is_the_native_text() -> None:
    """What one target prints is the file of the profile."""
    artefact = emit(stack_of(HEAD), FACTS, Options())
    assert artefact.native.endswith("}\n") and artefact.files["windows.json"] == artefact.native.encode()
    assert sorted(artefact.files) == ["windows-apply.ps1", "windows-undo.ps1", "windows.json"]


def test_denies_come_first_and_children_last() -> None:
    """Refusals stand before grants, and each group goes from the top down."""
    text = (
        HEAD
        + 'entries:\n  - {path: "${workspace}/a/b", access: read}\n  - {path: "${workspace}/a/b/c", access: write}\n'
    )
    plan = plan_of(emit(bound(text), FACTS, Options()))
    root, inner = derive_sid("C:\\W"), derive_sid("C:\\W\\A\\B\\C")
    assert rows(plan) == [
        ("C:\\w\\a", "(D;;0x10000;;;G)"),
        ("C:\\w\\a\\b", "(D;OICI;0xd0156;;;G)"),
        ("C:\\w", f"(A;OICI;0x100116;;;{root})"),
        ("C:\\w", f"(A;OICIIO;0x10000;;;{root})"),
        ("C:\\w\\a\\b\\c", f"(A;OICI;0x100116;;;{inner})"),
        ("C:\\w\\a\\b\\c", f"(A;OICIIO;0x10000;;;{inner})"),
    ]


def test_delete_child_is_never_granted() -> None:
    """No allow entry holds DELETE_CHILD, WRITE_DAC or WRITE_OWNER, under either kind of reads."""
    for reads in ("standard", "strict"):
        plan = plan_of(emit(stack_of("sandboxc: 1\nmode: workspace-write\n"), FACTS, Options(windows_reads=reads)))
        for step in plan["steps"]:
            kind, _, mask = step["ace"][1:].split(";")[:3]
            assert kind == "D" or int(mask, 16) & (0x40 | 0x40000 | 0x80000) == 0


# ---- SIDs and token ----


def test_sids_are_pinned() -> None:
    """A root's SID is what earlier versions derived: standing entries depend on it."""
    assert derive_sid("C:\\WORK") == "S-1-4-550096339-279891282-1071157418-111137930"
    assert derive_guard(["b", "a", "a"]) == derive_guard(["a", "b"])
    assert len(derive_sid("x").split("-")) == 7 and len(derive_guard(["x"]).split("-")) == 6


def test_one_path_has_one_sid() -> None:
    """Case, separators, dots and the extended form give one canonical path; other letters are left alone."""
    spellings = ("C:\\Work\\a", "c:/work/A", "\\\\?\\C:\\work\\a", "C:\\work\\.\\x\\..\\a\\")
    assert {canonical_path(place(text)) for text in spellings} == {"C:\\WORK\\A"}
    assert canonical_path(place("C:/\u00e9\u00df\u0131")) == "C:\\\u00e9\u00df\u0131"
    assert canonical_path(place("D:/")) == "D:\\" and native(Place("workspace", ("a",))) == "${workspace}\\a"


def test_the_token() -> None:
    """The token is write-restricted to the logon, Everyone, the roots and the guard, never to the user."""
    plan = plan_of(emit(bound(HEAD + "temp: private\n"), FACTS, Options()))
    temp, root = derive_sid("C:\\RUN\\1"), derive_sid("C:\\W")
    assert plan["token"] == {
        "flags": ["DISABLE_MAX_PRIVILEGE", "LUA_TOKEN", "WRITE_RESTRICTED"],
        "restricting_sids": ["${sid:logon}", "S-1-1-0", temp, root],
        "default_dacl": [f"(A;;0x1f01ff;;;{temp})"],
    }
    assert plan["environment"] == {"TEMP": "C:\\run\\1", "TMP": "C:\\run\\1"}
    read_only = plan_of(emit(stack_of(HEAD.replace("workspace-write", "read-only")), FACTS, Options()))
    assert read_only["token"]["restricting_sids"] == ["${sid:logon}", "S-1-1-0"] and not read_only["steps"]
    strict = plan_of(emit(stack_of(HEAD), FACTS, Options(windows_reads="strict")))
    assert "WRITE_RESTRICTED" not in strict["token"]["flags"]
    assert "S-1-5-32-545" in strict["token"]["restricting_sids"]


def test_full_access_has_no_token() -> None:
    """Without confinement there is nothing to restrict and nothing to apply."""
    plan = plan_of(emit(Layers("windows", "danger-full-access", "read"), FACTS, Options()))
    assert plan["token"]["flags"] == [] and plan["steps"] == [] and plan["losses"] == []


def test_symbolic_sids_say_how_they_are_derived() -> None:
    """An open root has no SID yet, but its path and the rule; a bound one has it."""
    plan = plan_of(emit(stack_of(HEAD + "entries:\n  - {path: D:/out, access: write}\n"), FACTS, Options()))
    assert plan["sids"]["workspace"]["sid"] is None and plan["sids"]["workspace"]["path"] == "${workspace}"
    assert plan["sids"]["D:/out"]["sid"] == derive_sid("D:\\OUT")
    assert "(A;OICI;0x100116;;;${sid:workspace})" in [step["ace"] for step in plan["steps"]]


def test_the_guard_stands_for_the_refusals() -> None:
    """Two plans share a guard exactly when they refuse the same at the same places."""
    read = HEAD + 'entries:\n  - {path: "${workspace}/a", access: read}\n'
    one, same = (plan_of(emit(bound(text), FACTS, Options())) for text in (read, "# note\n" + read))
    other = plan_of(emit(bound(read.replace("/a", "/b")), FACTS, Options()))
    assert one["sids"]["guard"] == same["sids"]["guard"] != other["sids"]["guard"]


# ---- symbolic plans ----


def test_conditions_name_the_roots_that_may_contain_the_path() -> None:
    """A refusal outside its own writable root depends on where parameters lie; pins of unknown length form a chain."""
    plan = plan_of(emit(stack_of(HEAD + "entries:\n  - {path: ~/.ssh/, access: deny}\n"), FACTS, Options()))
    steps = {(step["path"], step["ace"].split(";")[2], step.get("chain", False)): step for step in plan["steps"]}
    guard = steps["${home}\\.ssh", "0xd0156", False]
    assert guard["below"] == ["${workspace}"] and guard["strictly"] is False
    assert steps["${home}", "0x10000", False]["strictly"] is True
    assert steps["${home}", "0x10000", True]["below"] == ["${workspace}"]


def test_assumed_kinds_carry_both_entries() -> None:
    """A symbolic step says what it does should the object be of the other kind."""
    plan = plan_of(emit(stack_of(HEAD + 'entries:\n  - {path: "${workspace}/x", access: read}\n'), FACTS, Options()))
    guard = next(step for step in plan["steps"] if step["path"] == "${workspace}\\x")
    assert guard["assumed"] and guard["otherwise"].startswith("(D;;0xd0156;") and guard["ace"].startswith("(D;OICI;")
    delete = next(step for step in plan["steps"] if "OICIIO" in step["ace"])
    assert delete["otherwise"] is None


def test_restrictions_beside_open_roots_need_binding() -> None:
    """A second stack whose places may nest otherwise is a condition for the manifest."""
    stack = stack_of(HEAD)
    assert emit(stack, FACTS, Options()).constraints == ()
    narrowed = restrict(stack, "read", [Layer(Place("home", ()), "deny", "entry")])
    assert emit(narrowed, FACTS, Options()).constraints == ("layer-tree",)
    closed = bind(narrowed, {name: place(path) for name, path in VALUES.items()})
    assert emit(closed, FACTS, Options()).constraints == ()


# ---- losses ----


def test_shipped_defaults_only_lose_the_network() -> None:
    """With the presets, what stops a compile is the network alone."""
    losses = emit(stack_of("sandboxc: 1\nmode: workspace-write\ntemp: private\n"), FACTS, Options()).losses
    assert {(loss.code, loss.at) for loss in losses if loss.stops} == {("SBX475", "network")}
    assert {loss.at for loss in losses if loss.preset} == {"${workspace}", "hidden"}


@pytest.mark.parametrize(
    ("tail", "loss"),
    [
        ("network: deny\n", ("SBX475", "network")),
        ("network: loopback\n", ("SBX475", "network")),
        ('entries:\n  - {glob: "**/.env", access: deny, within: writable}\n', ("SBX473", "**/.env")),
        ('entries:\n  - {path: "${workspace}/a", access: read, absent: report}\n', ("SBX476", "${workspace}/a")),
        ("entries:\n  - {path: ~/c, access: write}\n", ("SBX479", "~/c")),
        ("baseline: deny\n", ("SBX474", "baseline")),
    ],
)
def test_each_loss_has_its_code_and_place(tail: str, loss: tuple[str, str]) -> None:
    """What the target cannot hold is listed under the place that a waiver names."""
    assert loss in found_losses(HEAD + tail)


def test_no_loss_where_nothing_is_lost() -> None:
    """An open network, present names and strict reads under a denied baseline lose nothing that stops."""
    assert found_losses(HEAD + "network: allow-all\n") == set()
    text = HEAD + "network: allow-all\nbaseline: deny\n"
    assert not [code for code, _ in found_losses(text, "strict") if code in ("SBX470", "SBX474", "SBX483")]
    assert ("SBX483", "baseline") in found_losses(HEAD + "network: allow-all\n", "strict")


def test_read_denies_are_a_standing_limit() -> None:
    """A deny under ordinary reads is listed and does not stop; its writes are refused all the same."""
    losses = emit(stack_of(HEAD + "entries:\n  - {path: ~/.ssh, access: deny}\n"), FACTS, Options()).losses
    mine = [loss for loss in losses if loss.at == "~/.ssh"]
    assert [(loss.code, loss.standing, loss.stops) for loss in mine] == [("SBX470", True, False)]


def test_a_look_settles_what_depends_on_binding() -> None:
    """A reported absent path is a loss exactly when it is absent."""
    text = HEAD + 'network: allow-all\nentries:\n  - {path: "${workspace}/a", access: read, absent: report}\n'

    def settled(*paths: str) -> list[Loss]:
        artefact = finalise(bound(text), FACTS, Options(), tree("C:\\w\\", *paths))
        return [loss for loss in artefact.losses if loss.code == "SBX476"]

    assert [loss.stops for loss in settled()] == [True] and settled("C:\\w\\a") == []
    assert [loss.conditional for loss in emit(stack_of(text), FACTS, Options()).losses if loss.code == "SBX476"] == [
        True
    ]


def test_waivers_show_in_the_plan() -> None:
    """The losses that the policy accepts are marked with its reason."""
    text = HEAD + "waive:\n  - {loss: SBX475, target: windows, at: network, reason: firewall}\n"
    policy = load_bytes("p.yaml", text.encode()).policy
    assert policy is not None
    artefact = emit(stack_of(text), FACTS, Options(waivers=policy.waivers))
    assert [item.get("waived") for item in plan_of(artefact)["losses"] if item["code"] == "SBX475"] == ["firewall"]
    assert not apply_waivers(artefact.losses, policy.waivers, "windows").diagnostics


@pytest.mark.parametrize("path", ["\\\\srv\\share\\x", "\\\\srv\\share"])
def test_shares_are_refused(path: str) -> None:
    """A layer on a share is refused with its own code, written or bound."""
    with pytest.raises(PolicyError, match="SBX480"):
        emit(stack_of(HEAD + f"entries:\n  - {{path: '{path}', access: read}}\n"), FACTS, Options())
    with pytest.raises(PolicyError, match="SBX480"):
        emit(bound(HEAD, workspace=path), FACTS, Options())


# ---- field cases ----


def test_s33_undo_flags_and_repetition() -> None:
    """S33: undo by SID for each step, the same plan twice, and large trees flagged with root and reason."""
    text = HEAD.replace("protected: {preset: none, reason: x}", "protected: seed")
    text += "entries:\n  - {path: ~/, access: read}\n"
    first, second = (emit(bound(text), FACTS, Options()) for _ in range(2))
    assert first == second
    plan = plan_of(first)
    assert all(step["undo"]["sid"].startswith("S-1-4-") for step in plan["steps"])
    flagged = [step for step in plan["steps"] if "propagates" in step]
    stores = {"C:\\w\\.git", "C:\\w\\.hg", "C:\\w\\.svn"}
    assert {step["propagates"]["root"] for step in flagged} == {"C:\\w", *stores}
    assert all(step["propagates"]["reason"] and "CI" in step["ace"] for step in flagged)
    assert "C:\\w\\.git" in [step["path"] for step in plan["steps"]]


@pytest.mark.parametrize("home", ["C:\\Users\\u", "c:\\users\\U", "\\\\?\\C:\\Users\\u"])
def test_s35_spellings_of_one_place(home: str) -> None:
    """S35: a differently cased or extended spelling is the same place, absent or not."""
    text = HEAD + "entries:\n  - {path: 'C:\\USERS\\U\\.SSH\\', access: deny}\n  - {path: ~/, access: write}\n"
    plan = plan_of(finalise(bound(text, home=home), FACTS, Options(), tree("C:\\Users\\u\\", "C:\\w\\")))
    assert [path.casefold() for path, ace in rows(plan) if ace == "(D;OICI;0xd0156;;;G)"] == ["c:\\users\\u\\.ssh"]
    made = next(step["absent"] for step in plan["steps"] if "absent" in step)
    assert made == {"make": "directory", "content": "", "when": "occupy"}


# ---- a look at the tree ----


def test_kinds_are_as_seen() -> None:
    """Files get entries without flags, absent preset names no step, and nothing is assumed."""
    text = HEAD.replace("protected: {preset: none, reason: x}", "protected: seed")
    plan = plan_of(finalise(bound(text), FACTS, Options(), tree("C:\\w\\", "C:\\w\\.npmrc", "C:\\w\\.git\\")))
    assert [row for row in rows(plan) if row[1].startswith("(D")] == [
        ("C:\\w\\.git", "(D;OICI;0xd0156;;;G)"),
        ("C:\\w\\.npmrc", "(D;;0xd0156;;;G)"),
    ]
    assert not [step for step in plan["steps"] if "assumed" in step]


def test_a_single_writable_file() -> None:
    """A write root that is a file is opened itself, cannot be deleted, and has no protected children."""
    text = HEAD.replace("protected: {preset: none, reason: x}", "protected: seed").replace(
        "workspace-write", "read-only"
    )
    plan = plan_of(
        finalise(bound(text + "entries:\n  - {path: C:/f, access: write}\n"), FACTS, Options(), tree("C:\\f"))
    )
    sid = derive_sid("C:\\F")
    assert rows(plan) == [("C:\\f", f"(A;;0x100116;;;{sid})")]


def test_links_are_followed_and_held() -> None:
    """A layer through a junction holds where it leads, and the junction cannot be swapped."""
    text = HEAD + 'entries:\n  - {path: "${workspace}/in/x", access: read}\n'
    described = DescribedTree(
        {
            "C:\\w\\in": {"type": "link", "target": "C:\\w\\real"},
            "C:\\w\\real\\x": {"type": "file"},
        }
    )
    plan = plan_of(finalise(bound(text), FACTS, Options(), described))
    steps = {step["path"]: step for step in plan["steps"] if step["ace"].startswith("(D")}
    assert steps["C:\\w\\real\\x"]["object"] == "file" and steps["C:\\w\\in"]["link"] is True
    assert "C:\\w\\real" in steps and "C:\\w\\in\\x" not in steps


def test_a_planted_link_opens_nothing() -> None:
    """A write layer through a link in a writable directory is refused, and so is a loop."""
    text = HEAD + 'entries:\n  - {path: "${workspace}/cache", access: write}\n'
    planted = DescribedTree({"C:\\w\\cache": {"type": "link", "target": "C:\\Users\\u"}, "C:\\Users\\u\\f": {}})
    with pytest.raises(PolicyError, match="SBX712"):
        finalise(bound(text), FACTS, Options(), planted)
    loop = DescribedTree({"C:\\w\\cache": {"type": "link", "target": "cache"}})
    with pytest.raises(PolicyError, match="SBX711"):
        finalise(bound(text), FACTS, Options(), loop)


def test_repositories_below_a_root_are_found() -> None:
    """Nested git directories, and those behind a `.git` file, get the git part of the protected names."""
    text = "sandboxc: 1\nmode: workspace-write\nhidden: {preset: none, reason: x}\n"
    described = DescribedTree(
        {
            "C:\\w\\sub\\.git\\hooks": {"type": "directory"},
            "C:\\w\\sub\\.git\\modules\\m\\config": {"type": "file"},
            "C:\\w\\tree\\.git": {"type": "file", "content": "gitdir: ../main/.git/worktrees/x\n"},
            "C:\\w\\main\\.git\\worktrees\\x\\commondir": {"type": "file", "content": "../..\n"},
            "C:\\w\\main\\.git\\config": {"type": "file"},
        }
    )
    plan = plan_of(finalise(bound(text), FACTS, Options(), described))
    held = [step["path"] for step in plan["steps"] if "0xd0156" in step["ace"] and "absent" not in step]
    assert held == [
        "C:\\w\\tree\\.git",
        "C:\\w\\main\\.git\\config",
        "C:\\w\\sub\\.git\\hooks",
        "C:\\w\\main\\.git\\worktrees\\x\\commondir",
        "C:\\w\\sub\\.git\\modules\\m\\config",
    ]
    occupied = {step["path"] for step in plan["steps"] if step.get("absent")}
    assert occupied == {"C:\\w\\main\\.git\\commondir", "C:\\w\\sub\\.git\\commondir"}


def test_open_parameters_cannot_be_settled() -> None:
    """A look at a tree needs every parameter."""
    with pytest.raises(PolicyError, match="SBX703"):
        finalise(stack_of(HEAD), FACTS, Options(), tree())


def test_entries_everywhere_reach_every_drive() -> None:
    """A pattern that holds everywhere is expanded below the writable roots of each drive."""
    text = HEAD + 'entries:\n  - {glob: "**/k", access: read, within: everywhere}\n  - {path: D:/d, access: write}\n'
    plan = plan_of(finalise(bound(text), FACTS, Options(), tree("C:\\w\\x\\k", "D:\\d\\k", "C:\\other\\k")))
    assert [path for path, ace in rows(plan) if ace.startswith("(D")] == ["D:\\d\\k", "C:\\w\\x\\k"]
    assert plan["unexpanded"] == [] and plan_of(emit(stack_of(text), FACTS, Options()))["unexpanded"] == ["**/k"]

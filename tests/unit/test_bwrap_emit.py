"""The bubblewrap emitter: which mounts, in which order, for described worlds."""

import json
import re
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from sandboxc.capability import EXACT, FEATURES
from sandboxc.emitters.artefact import Options
from sandboxc.emitters.bwrap import Host, emit, finalise, table, to_create
from sandboxc.emitters.bwrap.plan import BwrapPlan, by_path, groups
from sandboxc.facts import NAMED, Facts
from sandboxc.layers import Layers, bind
from sandboxc.loader import load_bytes
from sandboxc.lower import lower
from sandboxc.places import posix
from sandboxc.survey import TreeLook, resolve

BARE = """
mode: workspace-write
protected: {preset: none, reason: test}
hidden: {preset: none, reason: test}
"""
GIT = "mode: workspace-write\nhidden: {preset: none, reason: test}\n"
VALUES = {
    "workspace": "/w",
    "home": "/h",
    "tmp": "/t",
    "user-config": "/h/.config",
    "user-cache": "/h/.cache",
    "run-base": "/r",
    "run-tmp": "/r/1",
}
DIRECTORY, FILE, SOCKET = {"type": "directory"}, {"type": "file"}, {"type": "socket"}


def stack_of(policy: str) -> Layers:
    """Return the unbound layers of a policy text."""
    loaded = load_bytes("policy.yaml", ("sandboxc: 1\ntargets: [bwrap]\n" + policy).encode())
    assert loaded.policy is not None, loaded.diagnostics
    result = lower(loaded.policy, "linux")
    assert result.value is not None, result.diagnostics
    return result.value.layers


def plan_of(policy: str, *names: str, host: Host | None = None, facts: Facts | None = None) -> BwrapPlan:
    """Return the plan in a world with these names: ``d/``, ``file``, ``socket=``, ``link->target``."""
    tree: dict[str, Mapping[str, Any]] = {"/w": DIRECTORY, "/h": DIRECTORY, "/r": DIRECTORY}
    for name in names:
        path, arrow, target = name.partition("->")
        if arrow:
            tree[path] = {"type": "link", "target": target}
        else:
            tree[path.rstrip("/=")] = {"/": DIRECTORY, "=": SOCKET}.get(path[-1], FILE)
    bound = bind(stack_of(policy), {name: posix(path) for name, path in VALUES.items()})
    resolved = resolve(bound, TreeLook(tree), "/h")
    assert not [item for item in resolved.diagnostics if item.is_error], resolved.diagnostics
    return finalise(resolved, facts or Facts(), Options(), host or Host())


def words_of(plan: BwrapPlan) -> list[str]:
    """Return the mount options of a plan as lines, without the fixed views."""
    fixed = {"--proc /proc", "--ro-bind /proc/sys /proc/sys", "--dev /dev", "--perms 1777 --tmpfs /dev/shm"}
    lines = [" ".join(group) for group in groups(plan, by_path)]
    start = next(i for i, line in enumerate(lines) if line.endswith(" /") and not line.startswith("--unshare"))
    return [line for line in lines[start:] if line not in fixed and line != "--remount-ro /dev"]


def test_table_has_one_row_for_every_feature() -> None:
    """Each feature has exactly one row under any facts, and every row that is not exact has a code of this target."""
    for facts in (*NAMED.values(), Facts(arch="riscv64")):
        rows = table(facts).rows
        assert sorted(row.feature for row in rows) == sorted(FEATURES)
        for row in rows:
            assert row.status == EXACT or re.fullmatch(r"SBX4[34]\d", row.code), row


def test_five_levels_come_shallow_to_deep() -> None:
    """A nest is mounted outside in, its masks let islands through, and they are closed last, deepest first."""
    policy = BARE + (
        "entries:\n  - {path: /w/a, access: deny}\n  - {path: /w/a/x/b, access: write}\n"
        "  - {path: /w/a/x/b/c, access: read}\n  - {path: /w/a/x/b/c/d, access: write}\n"
        "  - {path: /w/a/x/b/c/d/e, access: deny}\n"
    )
    assert words_of(plan_of(policy, "/w/a/x/b/c/d/e/")) == [
        "--ro-bind / /",
        "--perms 0000 --tmpfs /r",
        "--bind /w /w",
        "--perms 0111 --tmpfs /w/a",
        "--perms 0111 --dir /w/a/x",
        "--bind /w/a/x/b /w/a/x/b",
        "--ro-bind /w/a/x/b/c /w/a/x/b/c",
        "--bind /w/a/x/b/c/d /w/a/x/b/c/d",
        "--perms 0000 --tmpfs /w/a/x/b/c/d/e",
        "--remount-ro /w/a/x/b/c/d/e",
        "--remount-ro /w/a",
        "--remount-ro /r",
    ]


def test_views_come_after_the_root() -> None:
    """/proc and /dev are made fresh after whatever is bound at the root, and /sys is read-only below `write /`."""
    lines = [" ".join(group) for group in groups(plan_of(BARE + "entries: [{path: /, access: write}]\n"), by_path)]
    root = lines.index("--bind / /")
    assert lines[root + 1 : root + 5] == [
        "--proc /proc",
        "--ro-bind /proc/sys /proc/sys",
        "--dev /dev",
        "--perms 1777 --tmpfs /dev/shm",
    ]
    assert "--ro-bind /sys /sys" in lines[root:] and lines[-1] != "--bind / /"
    assert lines.index("--remount-ro /dev") > lines.index("--ro-bind /sys /sys")


def test_setup_words() -> None:
    """Every namespace is private, no capability is kept, and the network is cut for `deny` and `loopback`."""
    for mode, cut in (("deny", True), ("loopback", True), ("allow-all", False)):
        plan = plan_of(BARE + f"network: {mode}\n")
        words = [word for group in groups(plan, by_path) for word in group]
        for word in ("user", "pid", "ipc", "uts", "cgroup"):
            assert f"--unshare-{word}" in words
        assert ("--unshare-net" in words) == cut
        assert words[words.index("--cap-drop") + 1] == "ALL"
        assert "--die-with-parent" in words and "--disable-userns" in words and "--new-session" not in words
        assert plan.scope_abstract is not cut


def test_new_session_only_without_a_filter() -> None:
    """Where no filter exists for the architecture, a session of its own keeps keystrokes out, at a loss."""
    plan = plan_of(BARE, facts=Facts(arch="riscv64"))
    assert ["--new-session"] in groups(plan, by_path)
    losses = emit(stack_of(BARE), Facts(arch="riscv64"), Options()).losses
    assert "SBX443" in {loss.code for loss in losses}


def test_pins() -> None:
    """Every directory between a writable root and a stricter place is bound onto itself, and no other."""
    policy = BARE + "entries:\n  - {path: /w/a/b/keys, access: deny}\n  - {path: /w/c, access: read}\n"
    lines = words_of(plan_of(policy, "/w/a/b/keys/", "/w/c/", "/w/d/e/"))
    assert [line for line in lines if line.startswith("--bind")] == [
        "--bind /w /w",
        "--bind /w/a /w/a",
        "--bind /w/a/b /w/a/b",
    ]


def test_floating_patterns_pin_what_precedes_them() -> None:
    """A match of `**/.env` moves with its directory; one of `**/x/keys` keeps the `x` above it in place."""
    policy = BARE + (
        'entries:\n  - {glob: "**/.env", access: deny, within: writable}\n'
        '  - {glob: "**/x/keys", access: deny, within: writable}\n'
    )
    lines = words_of(plan_of(policy, "/w/a/.env", "/w/b/x/keys"))
    assert lines[2:] == [
        "--bind /w /w",
        "--perms 0000 --ro-bind-data ${null-fd} /w/a/.env",
        "--bind /w/b/x /w/b/x",
        "--perms 0000 --ro-bind-data ${null-fd} /w/b/x/keys",
        "--remount-ro /r",
    ]


def test_literal_stars_pin_everything() -> None:
    """A path that has a component named `**` is no pattern, so every directory above it is pinned."""
    policy = BARE + "relative-to: ${workspace}\nentries:\n  - {path: '**/.env', access: deny}\n"
    assert "--bind /w/** /w/**" in words_of(plan_of(policy, "/w/**/.env"))


def test_file_roots_and_file_masks() -> None:
    """A writable file is bound as itself; a denied file, socket or FIFO is covered by an empty file of mode 0000."""
    policy = (
        BARE
        + "mode: read-only\nentries:\n".replace("mode: read-only\n", "")
        + ("  - {path: /h/one, access: write}\n  - {path: /h/two, access: deny}\n")
    )
    lines = words_of(plan_of(policy, "/h/one", "/h/two"))
    assert "--bind /h/one /h/one" in lines
    assert "--perms 0000 --ro-bind-data ${null-fd} /h/two" in lines


def test_redundant_sites_need_nothing() -> None:
    """An entry that says what its surroundings say makes no mount."""
    policy = BARE + "entries:\n  - {path: /h/ref, access: read}\n  - {path: /w/sub, access: write}\n"
    assert words_of(plan_of(policy, "/h/ref/", "/w/sub/"))[2:] == ["--bind /w /w", "--remount-ro /r"]


@pytest.mark.parametrize(
    ("entry", "held"),
    [
        ("{path: /w/.env, access: deny}", [("/w/.env", "file")]),
        ("{path: /w/vendor/, access: read}", [("/w/vendor", "directory")]),
        ("{path: /w/new/deep/key, access: deny}", [("/w/new", "directory")]),
        ("{path: /w/.env, access: deny, absent: report}", []),
        ("{path: /h/.aws, access: deny}", []),
        ("{path: /w/out, access: write}", []),
    ],
)
def test_absent_entries(entry: str, held: list[tuple[str, str]]) -> None:
    """What a person wrote is occupied where the run could make it, read-only as itself, and nothing else is."""
    plan = plan_of(BARE + f"entries:\n  - {entry}\n")
    assert [(item.path, item.kind) for item in plan.occupants] == held
    assert [op.path for op in plan.ops if op.verb == "ro-bind" and op.path.startswith("/w")] == [p for p, _ in held]


def test_absent_losses() -> None:
    """`absent: report`, an absent write entry and absent preset names are named as losses when they occur."""
    policy = GIT + ("entries:\n  - {path: /w/.env, access: deny, absent: report}\n  - {path: /h/out, access: write}\n")
    plan = plan_of(policy, "/w/.git/config")
    assert {(loss.code, loss.at, loss.conditional) for loss in plan.losses} == {
        ("SBX433", "/w/.env", False),
        ("SBX434", "/h/out", False),
        ("SBX432", "${workspace}", False),
    }
    assert [(item.path, item.content) for item in plan.occupants] == [("/w/.git/commondir", ".")]


def test_nothing_is_occupied_below_a_missing_repository() -> None:
    """Without a git directory no name of it is occupied: that would make one."""
    assert plan_of(GIT).occupants == ()


def test_to_create() -> None:
    """`absent: create` names directories to make before the survey that counts."""
    bound = bind(
        stack_of(BARE + "entries: [{path: /h/cache, access: write, absent: create}]\n"),
        {name: posix(path) for name, path in VALUES.items()},
    )
    made = to_create(resolve(bound, TreeLook({"/w": DIRECTORY, "/h": DIRECTORY}), "/h"))
    assert [(item.path, item.kind) for item in made] == [("/h/cache", "directory")]


def test_baseline_deny() -> None:
    """Only what is granted is there, below directories that can be passed but not listed, with the links recreated."""
    policy = (
        "mode: workspace-write\nbaseline: deny\nprotected: {preset: none, reason: test}\n"
        "entries:\n  - {path: /h/ref, access: read}\n  - {path: /h/ref/no, access: deny}\n"
    )
    lines = words_of(plan_of(policy, "/usr/bin/", "/bin->usr/bin", "/h/ref/no/", "/h/other/", "/r/1/"))
    assert lines == [
        "--perms 0111 --tmpfs /",
        "--symlink usr/bin /bin",
        "--perms 0111 --dir /h",
        "--ro-bind /sys /sys",
        "--ro-bind /usr /usr",
        "--bind /w /w",
        "--ro-bind /h/ref /h/ref",
        "--perms 0000 --tmpfs /h/ref/no",
        "--remount-ro /h/ref/no",
        "--remount-ro /",
    ]


def test_private_temp() -> None:
    """The private temp directory is put back below its masked base, whether or not it exists yet."""
    lines = words_of(plan_of(BARE + "temp: private\n"))
    assert lines[1:] == [
        "--perms 0111 --tmpfs /r",
        "--bind /w /w",
        "--bind /r/1 /r/1",
        "--remount-ro /r",
    ]


def test_sockets() -> None:
    """Sockets that exist are masked, those in denied places need none, and an opened one is put back there."""
    policy = BARE + (
        "entries:\n  - {path: /h/shut, access: deny}\n  - {socket: /h/shut/ours, access: connect}\n"
        "  - {socket: /h/ok, access: connect}\n"
    )
    lines = words_of(plan_of(policy, "/h/shut/other=", "/h/shut/ours=", "/h/ok=", "/h/live=", "/w/live="))
    assert "--perms 0000 --ro-bind-data ${null-fd} /h/live" in lines
    assert "--perms 0000 --ro-bind-data ${null-fd} /w/live" in lines
    assert "--ro-bind /h/shut/ours /h/shut/ours" in lines and "--perms 0111 --tmpfs /h/shut" in lines
    assert not [line for line in lines if "/h/ok" in line or "/h/shut/other" in line]


def test_links_are_pinned_late() -> None:
    """A link that a rule was spelled through is pinned by a step after bwrap's own mounts."""
    plan = plan_of(BARE + "entries: [{path: /w/way/keys, access: deny}]\n", "/w/way->real", "/w/real/keys/")
    assert [step.words()[:2] for step in plan.steps] == [("private",), ("pin-link", "/w/way")]
    assert "--bind /w/real /w/real" in words_of(plan)


def test_many_leaves_are_mounted_late() -> None:
    """From a number of mounts on, what nothing lies below moves into steps; pins above bwrap's own mounts stay."""
    names = [f"/w/d{n}/keys/" for n in range(60)]
    entries = "".join(f"  - {{path: /w/d{n}/keys, access: deny}}\n" for n in range(60))
    policy = BARE + "entries:\n" + entries + "  - {path: /w/d0/keys/island, access: write}\n"
    plan = plan_of(policy, *names, "/w/d0/keys/island/")
    assert [step.verb for step in plan.steps] == ["private", *["pin-dir"] * 59, *["mask-dir"] * 60]
    assert words_of(plan)[1:] == [
        "--bind /w /w",
        "--bind /w/d0 /w/d0",
        "--perms 0111 --tmpfs /w/d0/keys",
        "--bind /w/d0/keys/island /w/d0/keys/island",
        "--remount-ro /w/d0/keys",
    ]


def test_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """More words than bwrap takes are refused with their number, not handed over."""
    monkeypatch.setattr(sys.modules["sandboxc.emitters.bwrap.finalise"], "MAX_WORDS", 300)
    names = [f"/w/d{n}/" for n in range(100)]
    entries = "".join(f"  - {{path: /w/d{n}, access: read}}\n" for n in range(100))
    plan = plan_of(BARE + "entries:\n" + entries, *names, host=Host(late_from=0))
    assert [(item.code, item.is_error) for item in plan.diagnostics] == [("SBX446", True)]
    assert "needs 35" in plan.diagnostics[0].message and "takes 300" in plan.diagnostics[0].message
    assert not plan_of(BARE + "entries:\n" + entries, *names).diagnostics


def test_entries_below_views_are_noted() -> None:
    """An entry at a view changes nothing and is said to, while a deny below /proc is mounted."""
    policy = BARE + "entries:\n  - {path: /dev/kvm, access: write}\n  - {path: /proc/cpuinfo, access: deny}\n"
    plan = plan_of(policy, "/dev/kvm", "/proc/cpuinfo")
    assert [item.code for item in plan.diagnostics] == ["SBX448"]
    assert "--perms 0000 --ro-bind-data ${null-fd} /proc/cpuinfo" in words_of(plan)


def test_full_access_confines_nothing() -> None:
    """`danger-full-access` says plainly that nothing is confined."""
    made = emit(stack_of("mode: danger-full-access\n"), Facts(), Options())
    assert json.loads(made.files["bwrap.json"])["confines"] is False
    assert made.native == "--dev-bind\n/\n/\n" and made.losses == ()
    assert not plan_of("mode: danger-full-access\n").confines


def test_symbolic_plan() -> None:
    """A compile leaves parameters symbolic, says what it assumed, and comes out the same every time."""
    policy = (
        GIT
        + "temp: private\nentries:\n  - {path: ~/.ssh, access: deny}\n"
        + '  - {glob: "**/.env", access: deny, within: writable}\n'
    )
    made = emit(stack_of(policy), Facts(), Options("x"))
    assert made == emit(stack_of(policy), Facts(), Options("x"))
    assert sorted(made.files) == ["bwrap.json", "seccomp-aarch64.bpf", "seccomp-x86_64.bpf"]
    data = json.loads(made.files["bwrap.json"])
    assert ["--bind", "${workspace}", "${workspace}"] in data["words"]
    assert ["--bind", "${run-tmp}", "${run-tmp}"] in data["words"]
    assert ["--perms", "0111", "--tmpfs", "${run-base}"] in data["words"]
    assert ["--perms", "0000", "--tmpfs", "${home}/.ssh"] in data["words"]
    assert made.native == "".join(word + "\n" for group in data["words"] for word in group)
    assert {"${workspace}/.git/hooks"} <= {path for item in data["depends"] for path in item.get("paths", ())}
    assert "${workspace}/**/.env" in {item.get("glob") for item in data["depends"]}


def test_losses_of_a_stack() -> None:
    """What a policy asks beyond bubblewrap is named with its place; presets and limits are marked as such."""
    policy = GIT + (
        'network: {mode: loopback, ports: [3128]}\nentries:\n  - {glob: "**/.env", access: deny, within: writable}\n'
    )
    losses = {(loss.code, loss.at): loss for loss in emit(stack_of(policy), Facts(), Options()).losses}
    assert losses["SBX431", "**/.env"].stops and not losses["SBX431", "**/.env"].conditional
    assert losses["SBX441", "network"].kind == "narrower"
    assert losses["SBX432", "${workspace}"].preset and losses["SBX436", "${workspace}"].preset
    assert losses["SBX440", "${workspace}"].standing
    assert [loss.code for loss in losses.values() if loss.stops] == ["SBX431"]


def test_abstract_sockets_need_landlock() -> None:
    """With the host's network and no Landlock scope, abstract sockets are a loss that stops."""
    policy = BARE + "network: allow-all\n"
    old = emit(stack_of(policy), NAMED["linux-6.8"], Options()).losses
    assert [loss.at for loss in old if loss.code == "SBX442" and loss.stops] == ["network"]
    assert "SBX442" not in {loss.code for loss in emit(stack_of(policy), NAMED["linux-6.12"], Options()).losses}

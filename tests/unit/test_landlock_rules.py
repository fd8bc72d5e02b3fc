"""The Landlock emitter: the rules bound on described worlds, and what binding declares lost."""

import json
import random
from importlib import import_module
from typing import Any

import pytest

from sandboxc import landlock_abi
from sandboxc.emitters import landlock
from sandboxc.emitters.landlock.finalise import VIEWS
from sandboxc.losses import NARROWER
from sandboxc.policy import DENY, READ, WRITE
from sandboxc.runtime import landlock_exec
from sandboxc.survey import TreeLook
from tests.unit._landlock import (
    ALL_ABIS,
    BARE,
    HEAD,
    HOME,
    MODIFY,
    WORKSPACE,
    Reader,
    bound,
    codes,
    emitted,
    rule_paths,
    tree,
)

# -- rules on described worlds --------------------------------------------------------------------------------


@pytest.mark.parametrize("abi", ALL_ABIS)
def test_rules_carry_only_what_the_abi_and_kind_know(abi: int) -> None:
    """No mask is empty, unhandled, or more than the node's kind can carry, under any ABI."""
    look = tree(f"{WORKSPACE}/a/secret", f"{WORKSPACE}/one.txt", f"{WORKSPACE}/b/")
    plan, _ = bound(HEAD + 'entries:\n  - {path: "${workspace}/a/secret", access: deny}\n', look, abi)
    handled = landlock_abi.handled_fs(abi)
    assert plan.rules
    for rule in plan.rules:
        assert rule.rights and not rule.rights & ~handled, rule
        assert rule.rights == landlock_abi.mask_for_kind(rule.rights, rule.kind)
        assert rule.dev and rule.ino
    ruleset = plan.ruleset()
    assert ruleset is not None and ruleset["handled_fs"] == handled
    assert plan.scoped == landlock_abi.scopes(abi)


def test_workspace_write_bare() -> None:
    """Reads hold everywhere but at devices, writes in the workspace, and the workspace's own root stays."""
    look = tree(f"{WORKSPACE}/a/f", "/opt/x/y")
    plan, _ = bound(BARE, look)
    reader = Reader(plan, look)
    for path in ("/opt/x/y", "/etc/passwd", "/proc/1/stat", "/sys/x", f"{HOME}/anything"):
        assert reader.has(path, "read_file", "execute") and not reader.any(path, *MODIFY)
    assert reader.has(f"{WORKSPACE}/a/f", "write_file", "truncate", "refer")
    assert reader.has(WORKSPACE, "make_reg", "remove_dir")
    assert not reader.any(HOME, *MODIFY)
    assert not reader.any("/dev/sda", "read_file", "write_file", "ioctl_dev")
    assert not reader.any(WORKSPACE, "make_char", "make_block", "ioctl_dev")


def test_views_of_devices() -> None:
    """The devices of every mode are usable, others are not, and a layer at one of them can only say less."""
    look = tree()
    reader = Reader(bound(BARE, look)[0], look)
    for path, access in VIEWS.items():
        assert reader.has(path, "read_file")
        assert reader.has(path, "write_file", "ioctl_dev") == (access == WRITE)
    denied = BARE + "entries:\n  - {path: /dev/tty, access: deny}\n"
    reader = Reader(bound(denied, look)[0], look)
    assert not reader.any("/dev/tty", "read_file", "write_file", "ioctl_dev")
    assert reader.has("/dev/null", "write_file")


def test_write_root_reaches_no_device_and_no_kernel_view() -> None:
    """`write /` writes everywhere but in /dev, /proc and /sys, at the cost of making names directly in `/`."""
    look = tree("/opt/x", f"{HOME}/f")
    plan, _ = bound(BARE + "entries:\n  - {path: /, access: write}\n", look)
    reader = Reader(plan, look)
    for path in ("/opt/x", "/etc/passwd", f"{HOME}/f", "/usr/bin/sh"):
        assert reader.has(path, "write_file", "truncate")
    for path in ("/dev", "/dev/sda", "/proc/1/stat", "/proc", "/sys/x", "/"):
        assert not reader.any(path, *MODIFY), path
    assert ("SBX451", "/") in codes(plan)


def test_s27_deny_below_an_allow() -> None:
    """A deny in a written tree gets no rule, nor does what holds it; its siblings keep their rights (S27)."""
    share = f"{HOME}/.local/share"
    look = tree(f"{share}/keyrings/login", f"{share}/app/data", f"{HOME}/.local/bin/tool", f"{share}/note")
    entries = "entries:\n  - {path: ~/.local, access: write}\n  - {path: ~/.local/share/keyrings, access: deny}\n"
    plan, _ = bound(BARE + entries, look)
    reader = Reader(plan, look)
    assert not any("keyrings" in path for path in rule_paths(plan))
    assert reader.rights(f"{share}/keyrings/login") == 0 and reader.rights(f"{share}/keyrings") == 0
    assert reader.has(f"{share}/app/data", "write_file", "read_file") and reader.has(f"{share}/app", "make_reg")
    assert reader.has(f"{share}/note", "write_file") and reader.has(f"{HOME}/.local/bin/tool", "write_file")
    for directory in (share, f"{HOME}/.local"):
        assert not reader.any(directory, *MODIFY, "read_dir")
    assert {("SBX451", "~/.local/share/keyrings"), ("SBX452", "~/.local/share/keyrings")} <= codes(plan)
    assert all(loss.kind == NARROWER for loss in plan.losses)


def test_s29_rights_by_kind() -> None:
    """Rules on a file, a device and a FIFO carry file rights only, and record the kind (S29)."""
    look = tree(f"{WORKSPACE}/one.txt", **{f"{WORKSPACE}/pipe": {"type": "fifo"}})
    entries = """entries:
  - {path: "${workspace}/one.txt", access: read}
  - {path: /dev/null, access: write}
  - {path: "${workspace}/pipe", access: read}
"""
    plan, _ = bound(BARE.replace("workspace-write", "read-only") + "baseline: deny\n" + entries, look)
    rules = {rule.path: rule for rule in plan.rules}
    kinds = {path: rules[path].kind for path in (f"{WORKSPACE}/one.txt", "/dev/null", f"{WORKSPACE}/pipe")}
    assert list(kinds.values()) == ["file", "char-device", "fifo"]
    for path in kinds:
        assert not rules[path].rights & ~landlock_abi.file_rights(7)
    assert landlock_abi.names(rules[f"{WORKSPACE}/pipe"].rights) == ("execute", "read_file")
    assert "ioctl_dev" in landlock_abi.names(rules["/dev/null"].rights)
    assert "type_differs" in json.loads(emitted(BARE + entries).native)


def test_s31_nothing_moves_above_a_carve_out() -> None:
    """Directories from the root to a denied file lose the rights to rename and remove; siblings keep theirs (S31)."""
    look = tree(f"{WORKSPACE}/a/secret", f"{WORKSPACE}/b/f", f"{WORKSPACE}/c/")
    plan, _ = bound(BARE + 'entries:\n  - {path: "${workspace}/a/secret", access: deny}\n', look)
    reader = Reader(plan, look)
    assert reader.rights(f"{WORKSPACE}/a/secret") & landlock_abi.bits(("read_file", *MODIFY)) == 0
    for directory in (WORKSPACE, f"{WORKSPACE}/a"):
        assert not reader.any(directory, "remove_dir", "remove_file", "make_dir", "refer")
        assert reader.has(directory, "read_dir")  # nothing denied below is a directory
    assert reader.has(f"{WORKSPACE}/b", "remove_file", "refer") and reader.has(f"{WORKSPACE}/c", "make_reg", "refer")


def test_too_many_rules_stop_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule set beyond the limit is refused with a code of its own, which is no loss that a policy can waive."""
    look = tree(*(f"{WORKSPACE}/{number}" for number in range(20)))
    policy = BARE + 'entries:\n  - {path: "${workspace}/3", access: read}\n'
    assert bound(policy, look)[0].diagnostics == ()
    monkeypatch.setattr(import_module("sandboxc.emitters.landlock.finalise"), "MAX_RULES", 10)
    (problem,) = bound(policy, look)[0].diagnostics
    assert (problem.code, problem.is_error) == ("SBX405", True)


def test_five_levels() -> None:
    """A nest of deny, write, read and write follows the deepest layer for reads and in-place writes."""
    base = f"{WORKSPACE}/d"
    look = tree(f"{base}/w/r/w2/x/f", f"{base}/w/r/f", f"{base}/w/f", f"{base}/f", f"{base}/w/r/w2/f")
    entries = "entries:\n" + "".join(
        f'  - {{path: "${{workspace}}/{path}", access: {access}}}\n'
        for path, access in (("d", DENY), ("d/w", WRITE), ("d/w/r", READ), ("d/w/r/w2", WRITE), ("d/w/r/w2/x", DENY))
    )
    plan, _ = bound(BARE + entries, look)
    reader = Reader(plan, look)
    want = {"f": DENY, "w/f": WRITE, "w/r/f": READ, "w/r/w2/f": WRITE, "w/r/w2/x/f": DENY}
    for path, access in want.items():
        assert reader.any(f"{base}/{path}", "read_file") == (access != DENY), path
        assert reader.any(f"{base}/{path}", "write_file") == (access == WRITE), path


def test_absent_deny_is_held_by_its_directory() -> None:
    """A deny on a path that is not there keeps anything from being made where it could appear."""
    text = BARE + 'entries:\n  - {path: "${workspace}/new/deep", access: deny}\n'
    plan, _ = bound(text, look := tree(f"{WORKSPACE}/a/f"))
    reader = Reader(plan, look)
    assert not reader.any(WORKSPACE, *MODIFY) and reader.has(f"{WORKSPACE}/a", "make_reg")
    assert reader.has(WORKSPACE, "read_file", "read_dir")
    outside = BARE + "entries:\n  - {path: /opt/absent, access: deny}\n"
    plan, _ = bound(outside, look)
    assert not any(code == "SBX451" for code, _ in codes(plan))


def test_absent_write_entry_is_narrower() -> None:
    """A write entry on an absent path makes no rule and is reported once it occurs."""
    text = BARE + "entries:\n  - {path: /opt/cache, access: write}\n"
    conditional = [loss for loss in emitted(text).losses if loss.code == "SBX455"]
    assert [(loss.at, loss.conditional) for loss in conditional] == [("/opt/cache", True)]
    plan, _ = bound(text, tree())
    assert ("SBX455", "/opt/cache") in codes(plan) and "/opt/cache" not in rule_paths(plan)
    plan, _ = bound(text, tree("/opt/cache/"))
    assert ("SBX455", "/opt/cache") not in codes(plan) and "/opt/cache" in rule_paths(plan)


def test_protected_names_expand_or_are_waived() -> None:
    """Without the waiver hooks hold and the root makes nothing; with it the root keeps full rights."""
    look = tree(
        f"{WORKSPACE}/.git/hooks/x", f"{WORKSPACE}/.git/objects/", f"{WORKSPACE}/.git/config", f"{WORKSPACE}/src/f"
    )
    reader = Reader(bound(HEAD, look)[0], look)
    assert not reader.any(f"{WORKSPACE}/.git/hooks/x", *MODIFY) and reader.has(f"{WORKSPACE}/.git/objects", "make_reg")
    assert not reader.any(WORKSPACE, *MODIFY) and not reader.any(f"{WORKSPACE}/.git", *MODIFY)
    waive = 'waive:\n  - {loss: SBX453, target: landlock, at: "${workspace}", reason: r}\n'
    plan, _ = bound(HEAD + waive, look)
    reader = Reader(plan, look)
    assert reader.has(WORKSPACE, "make_reg", "refer") and ("SBX453", "${workspace}") in codes(plan)
    deny = HEAD + 'entries:\n  - {path: "${workspace}/.git/hooks", access: deny}\n' + waive
    reader = Reader(bound(deny, look)[0], look)
    assert not reader.any(f"{WORKSPACE}/.git/hooks/x", *MODIFY, "read_file")


def test_listing_waiver() -> None:
    """Listing above a denied directory is withheld; a waiver at the entry gives it back and nothing else."""
    look = tree("/opt/d/secret", "/opt/f")
    text = BARE + "entries:\n  - {path: /opt/d, access: deny}\n"
    reader = Reader(bound(text, look)[0], look)
    assert not reader.any("/opt", "read_dir") and reader.has("/opt/f", "read_file")
    waive = "waive:\n  - {loss: SBX454, target: landlock, at: /opt/d, reason: r}\n"
    plan, _ = bound(text + waive, look)
    reader = Reader(plan, look)
    assert reader.has("/opt", "read_dir") and not reader.any("/opt/d/secret", "read_file", "execute")
    assert ("SBX454", "/opt/d") in codes(plan)
    assert "SBX454" in {loss.code for loss in emitted(text + waive).losses}


def test_baseline_deny_grants_only_what_layers_say() -> None:
    """Under baseline deny nothing but the layers and the views has rights, and no deny layer is needed."""
    look = tree(f"{WORKSPACE}/f", "/opt/x")
    plan, _ = bound(BARE + "baseline: deny\nsystem: none\n", look)
    reader = Reader(plan, look)
    assert reader.has(f"{WORKSPACE}/f", "write_file") and reader.has("/proc/1/stat", "read_file")
    assert not reader.rights("/opt/x") and not reader.rights("/etc/passwd") and not reader.rights("/")
    plan, _ = bound(BARE + "baseline: deny\n", look)
    assert Reader(plan, look).has("/usr/bin/sh", "execute")


def test_hidden_preset_opens_siblings() -> None:
    """Hidden paths get no rule and their neighbours in the home do."""
    look = tree(f"{HOME}/.ssh/id", f"{HOME}/.config/gh/hosts.yml", f"{HOME}/.config/other/f", f"{HOME}/doc")
    plan, _ = bound("sandboxc: 1\nname: t\nmode: workspace-write\n", look)
    reader = Reader(plan, look)
    for path in (f"{HOME}/.ssh", f"{HOME}/.ssh/id", f"{HOME}/.config/gh/hosts.yml"):
        assert reader.rights(path) == 0
    assert reader.has(f"{HOME}/doc", "read_file") and reader.has(f"{HOME}/.config/other/f", "read_file")
    assert ("SBX452", "hidden") in codes(plan)


def test_private_temp() -> None:
    """The run's own temp directory is writable and the base of all runs has no right."""
    look = tree(**{"/run/base/2/f": {"type": "file"}})
    plan, _ = bound(BARE + "temp: private\n", look)
    reader = Reader(plan, look)
    assert reader.has("/run/base/1", "make_reg", "write_file")
    assert reader.rights("/run/base/2/f") == 0 and reader.rights("/run/base") == 0


def test_hard_links_of_denied_files_get_no_rule() -> None:
    """Another name of a denied file, found or met as a sibling, is never granted: rules hold objects."""
    one = {"type": "file", "inode": "k"}
    look = tree(f"{WORKSPACE}/f", **{f"{HOME}/key": one, f"{WORKSPACE}/alias": one, f"{HOME}/other": one})
    plan, _ = bound(BARE + "entries:\n  - {path: ~/key, access: deny}\n", look)
    reader = Reader(plan, look)
    for path in (f"{HOME}/key", f"{WORKSPACE}/alias", f"{HOME}/other"):
        assert not reader.any(path, "read_file", "write_file"), path
        assert path not in rule_paths(plan)
    assert reader.has(f"{WORKSPACE}/f", "write_file")


def test_links_to_layers_are_kept() -> None:
    """A link in a writable root that a deny was reached through cannot be replaced."""
    look = tree("/opt/real/s", **{f"{WORKSPACE}/link": {"type": "link", "target": "/opt/real"}})
    plan, _ = bound(BARE + 'entries:\n  - {path: "${workspace}/link", access: deny}\n', look)
    reader = Reader(plan, look)
    assert not reader.any(WORKSPACE, *MODIFY) and reader.rights("/opt/real/s") == 0


def test_links_to_protected_names() -> None:
    """A `.git` that is a link is pinned, let go by the waiver, and pinned again where an entry runs through it."""
    look = tree("/opt/git/hooks/h", **{f"{WORKSPACE}/.git": {"type": "link", "target": "/opt/git"}})
    waive = 'waive:\n  - {loss: SBX453, target: landlock, at: "${workspace}", reason: r}\n'
    entry = 'entries:\n  - {path: "${workspace}/.git/hooks", access: deny}\n'
    for text, kept in ((HEAD, False), (HEAD + waive, True), (HEAD + entry + waive, False)):
        plan, _ = bound(text, look)
        assert Reader(plan, look).has(WORKSPACE, "make_reg", "remove_file") == kept, text


def test_nesting_that_binding_decides_is_conditional() -> None:
    """A stricter entry under another root than the workspace may cost rights there: listed, and not reported yet."""
    found = [
        loss for loss in emitted(BARE + "entries:\n  - {path: /opt/x, access: read}\n").losses if loss.code == "SBX451"
    ]
    assert [(loss.at, loss.conditional) for loss in found] == [("/opt/x", True)]


def test_sockets_from_abi_9() -> None:
    """From ABI 9 on only a socket that an entry opens may be connected to, by its own rule."""
    sockets = {"/run/a.sock": {"type": "socket"}, "/run/b.sock": {"type": "socket"}}
    text = BARE + "entries:\n  - {socket: /run/a.sock, access: connect}\n"
    look = tree(**sockets)
    reader = Reader(bound(text, look, 9)[0], look)
    assert reader.has("/run/a.sock", "resolve_unix") and not reader.any("/run/b.sock", "resolve_unix")
    plan, _ = bound(text, look, 8)
    assert ("SBX466", "/run/a.sock") in codes(plan) and "/run/a.sock" not in rule_paths(plan)


def test_danger_full_access_confines_nothing() -> None:
    """The mode without confinement has no rule set and no filter."""
    text = "sandboxc: 1\nname: t\nmode: danger-full-access\n"
    plan, _ = bound(text, tree())
    assert plan.ruleset() is None and plan.seccomp("x86_64") is None
    assert set(emitted(text).files) == {"landlock.json"}


def test_rule_set_shape_is_what_the_runner_takes() -> None:
    """The rule set names kinds and optional rules as the runner's own checks expect them."""
    look = tree(f"{WORKSPACE}/a/secret", f"{WORKSPACE}/b")
    plan, _ = bound(BARE + 'entries:\n  - {path: "${workspace}/a/secret", access: deny}\n', look)
    ruleset = plan.ruleset()
    assert ruleset is not None
    assert all(rule["kind"] in landlock_abi.KINDS for rule in ruleset["rules"])
    optional = {rule["path"]: rule["optional"] for rule in ruleset["rules"]}
    assert optional[f"{WORKSPACE}/b"] is True
    assert landlock_exec.RulesetError is not None
    assert json.loads(plan.text())["rules"][0]["rights"]


def test_landlockconfig_export() -> None:
    """The export names every rule under its rights, doubles dollars, and refuses rights that the format lacks."""
    look = tree("/opt/$x/f")
    plan, _ = bound(BARE + "entries:\n  - {path: /opt/$$x, access: write}\n", look)
    data = json.loads(landlock.landlockconfig(plan))
    assert data["abi"] == 7 and set(data) == {"abi", "ruleset", "pathBeneath"}
    parents = [path for item in data["pathBeneath"] for path in item["parent"]]
    assert len(parents) == len(plan.rules) and "/opt/$$x" in parents
    assert data["ruleset"][0]["handledAccessFs"] == list(landlock_abi.names(plan.handled_fs))
    with pytest.raises(ValueError, match="ABI 8"):
        landlock.landlockconfig(bound(BARE, look, 9)[0])


def test_names_that_are_not_utf8() -> None:
    """A sibling whose name is not UTF-8 has its rule, a plan that JSON can carry, and no place in the export."""
    odd = f"{WORKSPACE}/a/\udcff"
    plan, _ = bound(
        BARE + 'entries:\n  - {path: "${workspace}/a/secret", access: deny}\n', tree(f"{WORKSPACE}/a/secret", odd)
    )
    assert odd in rule_paths(plan)
    assert odd in [rule["path"] for rule in json.loads(plan.text().encode())["rules"]]
    assert "udcff" not in landlock.landlockconfig(plan)
    landlock.landlockconfig(plan).encode()


# -- nothing is wider than the layers, on random worlds -------------------------------------------------------


def _random_world(rng: random.Random) -> tuple[str, TreeLook, list[str]]:
    names = ("a", "b", "c")
    files: dict[str, Any] = {}
    paths: set[str] = set()
    for _ in range(rng.randint(3, 12)):
        path = WORKSPACE if rng.random() < 0.7 else "/opt"
        for _ in range(rng.randint(1, 3)):
            path += "/" + rng.choice(names)
            paths.add(path)
    leaves = [path for path in sorted(paths) if not any(other.startswith(path + "/") for other in paths)]
    for path in leaves:
        files[path] = {"type": rng.choice(("file", "file", "directory", "fifo"))}
        if files[path]["type"] == "file" and rng.random() < 0.2:
            files[path]["inode"] = rng.choice(("i", "j"))
    chosen: dict[str, str] = {}
    for _ in range(rng.randint(1, 5)):
        base = rng.choice(("/home/u/w", "/opt"))
        chosen[base + "".join("/" + rng.choice(names) for _ in range(rng.randint(1, 3)))] = rng.choice(
            (DENY, READ, WRITE)
        )
    lines = "".join(f"  - {{path: {path}, access: {access}}}\n" for path, access in sorted(chosen.items()))
    return BARE + "entries:\n" + lines, tree(**files), sorted(paths | set(chosen))


@pytest.mark.parametrize("seed", range(150))
def test_random_worlds_are_never_wider(seed: int) -> None:
    """On random worlds no right exceeds the layers, what exists has all it may, and the rest is declared."""
    rng = random.Random(seed)
    text, look, paths = _random_world(rng)
    plan, resolved = bound(text, look)
    assert not plan.diagnostics
    reader = Reader(plan, look)
    for path in paths:
        node, access = look.node(path), resolved.access(path)
        if node is None:
            continue
        rights = reader.rights(path)
        if access == DENY:
            kind = node.kind if node.kind in landlock_abi.KINDS else "file"
            assert not landlock_abi.mask_for_kind(rights, kind), (text, path)
            continue
        if access == READ:
            assert not rights & landlock_abi.modify_rights(7), (text, path)
        if node.kind in ("file", "fifo") and node.links == 1:
            assert reader.has(path, "read_file", "execute"), (text, path)
            assert reader.any(path, "write_file") == (access == WRITE), (text, path)
        if node.kind == "directory" and access == WRITE:
            below = [p for p in (*paths, *(s.path for s in resolved.sites)) if p.startswith(path + "/")]
            strict = any(resolved.access(p) != WRITE for p in below)
            assert reader.has(path, "make_reg", "remove_file") == (not strict), (text, path)
            assert not strict or not reader.any(path, *MODIFY), (text, path)
            assert not strict or "SBX451" in {loss.code for loss in plan.losses}, (text, path)
    for site in resolved.sites:  # an absent name is held by what holds it
        if site.node is None and site.access != WRITE and site.above == WRITE:
            parent = site.missing.rpartition("/")[0] or "/"
            assert not reader.any(parent, "make_reg", "make_dir"), (text, site)

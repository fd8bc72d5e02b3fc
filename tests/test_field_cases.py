"""What practitioners reported, as tests: each case stands for a kind of fault, with the right answer stated."""

import itertools
import json
from collections.abc import Iterable

import pytest

from sandboxc.compile import compile_policy, options_of
from sandboxc.emitters import bwrap, landlock, seatbelt, windows
from sandboxc.emitters.bwrap.plan import MAX_WORDS, count_words
from sandboxc.evaluator import Evaluator
from sandboxc.facts import Facts
from sandboxc.loader import load_bytes
from sandboxc.places import WINDOWS, Place, Spelled, parse_place, posix
from sandboxc.policy import DENY, READ, WRITE
from tests._field import (
    BARE,
    DIR,
    FILE,
    HEAD,
    WAIVED,
    access,
    bound,
    codes,
    compiled,
    entries,
    needs_samba,
    needs_scheme,
    profile_of,
    rules_of,
    says,
    surveyed,
    words_of,
)
from tests.golden import golden
from tests.judges import windows as judge
from tests.judges.seatbelt import Endpoint, decide_all
from tests.property import windows_world

# -- S01 -----------------------------------------------------------------------------------------------------------

S01 = ("{path: ~/, access: deny}", "{path: ~/project, access: read}", "{path: ~/project/state, access: write}")
S01_RIGHT = {"x": DENY, "project/a": READ, "project/state/a": WRITE}
S01_TREE = {f"/home/u/{name}": FILE for name in (*S01_RIGHT, "project/state/keys/k")}


@needs_scheme
@pytest.mark.parametrize("fourth", [(), ("{path: ~/project/state/keys, access: deny}",)], ids=["three", "four"])
def test_s01_nested_carve_outs_in_every_order(fourth: tuple[str, ...]) -> None:
    """S01: the deepest line decides in all orders, on every target, and mounts come shallow to deep."""
    right = S01_RIGHT | ({"project/state/keys/k": DENY} if fourth else {})
    seen: set[tuple[str, ...]] = set()
    for order in list(itertools.permutations((*S01, *fourth)))[:: 3 if fourth else 1]:
        found = compiled(entries(*order))
        stack, _ = bound(found, "linux", workspace="/home/u/project")
        words, _ = words_of(found, S01_TREE, workspace="/home/u/project")
        plan = rules_of(found, S01_TREE, workspace="/home/u/project")
        text = [line for line in found.artefacts["seatbelt"].native.splitlines() if not line.startswith("; policy")]
        seen.add((*words, *map(str, plan.rules), *text))
        for name, expected in right.items():
            assert Evaluator(stack).index.access(posix(f"/home/u/{name}")) == expected
    assert len(seen) == 1
    mounts = [words[at + 1] for at, word in enumerate(words) if word in ("--bind", "--ro-bind", "--tmpfs")]
    inside = [path for path in mounts if path.startswith("/home/u")]
    assert inside == sorted(inside, key=lambda path: path.count("/"))
    profile = profile_of(found, workspace="/Users/u/project")
    for name, expected in right.items():
        assert access(profile, f"/Users/u/{name}") == expected


# -- S04 -----------------------------------------------------------------------------------------------------------


@needs_scheme
def test_s04_lifting_a_deny_keeps_the_read_only() -> None:
    """S04: a readable folder below a denied home is readable and not writable; its siblings stay denied."""
    found = compiled(entries("{path: ~/, access: deny}", "{path: ~/Documents, access: read}"), "seatbelt", "bwrap")
    values = {"workspace": "/home/u/w"}
    words, _ = words_of(found, {"/home/u/Documents/a": FILE, "/home/u/other": FILE}, **values)
    at = words.index("/home/u/Documents")
    assert words[at - 1] == "--ro-bind"
    profile = profile_of(found)
    assert access(profile, "/Users/u/Documents/a") == READ
    assert access(profile, "/Users/u/other") == DENY


# -- S08 -----------------------------------------------------------------------------------------------------------


@needs_scheme
def test_s08_link_chains_and_their_parents() -> None:
    """S08: spelled path, hops and target are all granted; ancestors can be stat-ed and not listed."""
    head = HEAD + "baseline: deny\nsystem: none\nprotected: {preset: none, reason: t}\ntargets: [bwrap, landlock]\n"
    found = compiled(entries("{path: /etc/resolv.conf, access: read}", head=head, waive=""))
    tree = {
        "/etc": {"type": "link", "target": "private/etc"},
        "/private/etc/resolv.conf": {"type": "link", "target": "../var/run/resolv.conf"},
        "/private/var/run/resolv.conf": FILE,
        "/private/etc/shadow": FILE,
    }
    words, _ = words_of(found, tree)
    text = " ".join(words)
    assert "--ro-bind /private/var/run/resolv.conf /private/var/run/resolv.conf" in text
    assert "--symlink private/etc /etc" in text
    assert "--symlink ../var/run/resolv.conf /private/etc/resolv.conf" in text
    rules = {rule.path for rule in rules_of(found, tree).rules}
    assert "/private/var/run/resolv.conf" in rules and "/private/etc/shadow" not in rules

    mac = compiled(
        entries(
            "{path: ~/, access: deny}",
            "{path: ~/tools/ruby, access: read}",
            "{path: /etc/hosts, access: read, when: {os: macos}}",
        ),
        "seatbelt",
    )
    profile = profile_of(mac)
    assert says(profile, "file-read-data", "/Users/u/tools/ruby/bin")
    for above in ("/Users/u", "/Users/u/tools"):
        assert says(profile, "file-read-metadata", above, vnode="DIRECTORY")
        assert not says(profile, "file-read-data", above, vnode="DIRECTORY")
    assert says(profile, "file-read-data", "/private/etc/hosts") and says(profile, "file-read-metadata", "/etc")


# -- S14 -----------------------------------------------------------------------------------------------------------


def test_s14_denies_together_with_full_access() -> None:
    """S14: full access with entries is an error for each of them; `write /` holds them on the targets that can."""
    lines = ("{path: ~/keys, access: deny}", "{path: ~/keep, access: read}")
    full = "sandboxc: 1\nmode: danger-full-access\n"
    assert codes(entries(*lines, head=full, waive="")) == ["SBX301", "SBX301"]
    head = BARE + "targets: [seatbelt, bwrap, landlock]\n"
    found = compiled(entries("{path: /, access: write}", *lines, head=head, waive=""))
    evaluator = Evaluator(bound(found, "linux")[0])
    right = {"/home/u/keys/k": DENY, "/home/u/keep/k": READ, "/home/u/x": WRITE, "/srv": WRITE}
    assert {path: evaluator.index.access(posix(path)) for path in right} == right


# -- S15 -----------------------------------------------------------------------------------------------------------


@needs_scheme
def test_s15_denied_path_that_is_not_there() -> None:
    """S15: it compiles; Seatbelt keeps the rule; bubblewrap occupies the name where its parent is writable."""
    line = "{path: ~/.aws, access: deny}"
    found = compiled(entries(line))
    words, plan = words_of(found, {})
    assert not [word for word in words if ".aws" in word] and not plan.occupants
    assert not [item for item in plan.diagnostics if item.is_error]
    assert access(profile_of(found), "/Users/u/.aws/credentials") == DENY
    writable = compiled(entries(line, "{path: ~/, access: write}"))
    _, plan = words_of(writable, {})
    assert [(item.path, item.kind) for item in plan.occupants] == [("/home/u/.aws", "file")]
    assert access(profile_of(writable), "/Users/u/.aws") == DENY


# -- S18 -----------------------------------------------------------------------------------------------------------


def test_s18_git_is_a_file() -> None:
    """S18: nothing is mounted below a `.git` file; it is read-only, and the real directories keep their protection."""
    head = HEAD + "hidden: {preset: none, reason: t}\n"
    tree = {
        "/home/u/w/.git": {"type": "file", "content": "gitdir: /home/u/main/.git/worktrees/x\n"},
        **{f"/home/u/main/.git/{name}": FILE for name in ("HEAD", "config", "hooks/x", "objects/o", "refs/r")},
        "/home/u/main/.git/worktrees/x/commondir": {"type": "file", "content": "../..\n"},
    }
    for lines in ((), ("{path: ~/main/.git, access: write}",)):
        text = entries(*lines, head=head) if lines else head + WAIVED
        found = compiled(text)
        words, _ = words_of(found, tree)
        assert not [word for word in words if word.startswith("/home/u/w/.git/")]
        at = words.index("/home/u/w/.git")
        assert words[at - 1] == "--ro-bind"
        resolved, _ = surveyed(found, tree)
        assert resolved.access("/home/u/main/.git/hooks/x") == READ
        assert resolved.access("/home/u/main/.git/config") == READ
        assert resolved.access("/home/u/main/.git/objects/o") == (WRITE if lines else READ)


# -- S19 -----------------------------------------------------------------------------------------------------------


def test_s19_explicit_grant_versus_built_in_protection() -> None:
    """S19: a line at a protected place wins there, but hooks and configuration must be named themselves."""
    base = ("{path: ~/, access: read}",)
    own = '{path: "${workspace}/.git", access: write}'

    def at(preset: str, *lines: str) -> dict[str, tuple[str, str]]:
        head = HEAD + f"hidden: {{preset: none, reason: t}}\nprotected: {preset}\n"
        evaluator = Evaluator(bound(compiled(entries(*base, *lines, head=head)), "linux")[0])
        found = {}
        for name in (".git/index", ".git/hooks/x", ".git/config"):
            decision = evaluator.index.decide(posix(f"/home/u/w/{name}"))
            assert decision.layer is not None
            found[name] = (decision.access, decision.layer.describe())
        return found

    assert {name: access for name, (access, _) in at("seed").items()} == dict.fromkeys(at("seed"), READ)
    opened = at("seed", own)
    assert opened[".git/index"] == (WRITE, "${workspace}/.git")
    standard = at("standard", own)
    assert standard[".git/index"] == (WRITE, "${workspace}/.git")
    assert standard[".git/hooks/x"] == (READ, "protected:.git/hooks")
    assert standard[".git/config"] == (READ, "protected:.git/config")
    named = at("standard", own, '{path: "${workspace}/.git/hooks", access: write}')
    assert named[".git/hooks/x"] == (WRITE, "${workspace}/.git/hooks")


# -- S21 -----------------------------------------------------------------------------------------------------------

S21 = ["Fonts (Removed)", "it's here", "I:\\", 'q"x', "two  spaces", "!down"]


@needs_scheme
def test_s21_odd_but_legal_characters() -> None:
    """S21: odd names compile, only quote and backslash are escaped, and reading the text back gives the same paths."""
    lines = ["{path: " + json.dumps("~/" + name) + ", access: deny, when: {os: [linux, macos]}}" for name in S21]
    found = compiled(entries(*lines))
    profile = profile_of(found)
    for name in S21:
        assert access(profile, f"/Users/u/{name}/x") == DENY
        assert access(profile, f"/Users/u/{name}x") == READ
    text = found.artefacts["seatbelt"].native
    assert '"q\\"x"' in text and '"I:\\\\"' in text and '"it\'s here"' in text
    words, _ = words_of(found, {f"/home/u/{name}/f": FILE for name in S21})
    assert all(f"/home/u/{name}" in words for name in S21)
    assert codes(entries('{path: "~/new\\nline", access: deny}')) == ["SBX312"]
    assert codes(entries('{path: "~/nul\\0", access: deny}')) in (["SBX311"], ["SBX110"])


# -- S23 -----------------------------------------------------------------------------------------------------------


def test_s23_argument_size() -> None:
    """S23: 260 worktrees and 130 deep denies stay below every cap, and nothing is mounted twice."""
    case = golden.load_case("size-260-worktrees")
    found = compile_policy(case.policy)
    assert found.ok
    layers = found.lowered["linux"].layers.layers
    tree = {
        layer.where.text().replace("${home}", "/home/u"): DIR
        for layer in layers
        if layer.span and isinstance(layer.where, Place) and layer.where.root == "home"
    }
    resolved, _ = surveyed(found, tree)
    for late in (0, 48):
        plan = bwrap.finalise(resolved, Facts(), options_of(found.policy, "p"), bwrap.Host(late_from=late))
        words = bwrap.by_path_words(plan)
        assert not [item for item in plan.diagnostics if item.is_error]
        assert count_words(plan) < MAX_WORDS
        assert max(len(word.encode()) for word in words) < 128 * 1024
        assert sum(len(word.encode()) + 1 for word in words) < 1024 * 1024
        binds = [words[at + 2] for at, word in enumerate(words) if word in ("--bind", "--ro-bind")]
        assert len(binds) == len(set(binds))
    assert len(found.artefacts["seatbelt"].native.encode()) < 200_000


def test_s23_beyond_the_cap_is_refused_with_sizes() -> None:
    """S23: a policy that needs more words than bubblewrap takes is refused, and the message says how many."""
    lines = [f'{{path: "${{workspace}}/d{number}/x", access: read}}' for number in range(2600)]
    loaded = load_bytes("policy.yaml", entries(*lines, head=BARE + "targets: [bwrap]\n", waive="").encode())
    assert loaded.policy is not None
    found = compile_policy(loaded.policy)
    resolved, _ = surveyed(found, {f"/home/u/w/d{number}/x": FILE for number in range(2600)})
    plan = bwrap.finalise(resolved, Facts(), options_of(found.policy, "p"), bwrap.Host(late_from=0))
    (problem,) = [item for item in plan.diagnostics if item.is_error]
    assert str(MAX_WORDS) in problem.message and any(char.isdigit() for char in problem.message)
    many = [f"{{path: ~/d{number}, access: deny}}" for number in range(3100)]
    assert "SBX428" in codes(entries(*many, head=BARE + "targets: [seatbelt]\n", waive=""))


# -- S25 -----------------------------------------------------------------------------------------------------------


@needs_scheme
def test_s25_loopback_only() -> None:
    """S25: the loopback is open and nothing else; where it is another's, table and losses say so."""
    assert codes(BARE + "network: loopback\n" + WAIVED) == ["SBX411"]
    waive = WAIVED + "  - {loss: SBX411, target: seatbelt, at: network, reason: t}\n"
    found = compiled(BARE + "network: loopback\n" + waive)
    profile = profile_of(found)

    def reaches(host: str) -> bool:
        remote = Endpoint(host=host, port=8080)
        answers = set(decide_all(profile, "network-outbound", None, remote=remote).values())
        assert len(answers) == 1
        return answers.pop()

    assert [reaches(host) for host in ("127.0.0.1", "::1", "10.0.0.5", "93.184.216.34")] == [True, True, False, False]
    words, _ = words_of(found, {})
    assert "--unshare-net" in words  # a loopback of its own, where all three spellings work
    facts = Facts()
    tables = {"seatbelt": seatbelt.table(facts), "bwrap": bwrap.table(facts), "landlock": landlock.table(facts)}
    statuses = {target: table.row("network-loopback").status for target, table in tables.items()}
    assert statuses == {"seatbelt": "wider", "bwrap": "exact", "landlock": "narrower"}
    assert {loss.code for loss in found.artefacts["landlock"].losses} >= {"SBX467"}


# -- S27, S29 ------------------------------------------------------------------------------------------------------


def test_s27_deny_below_an_allow_on_landlock() -> None:
    """S27: the parent is split into its other names and that is a loss; never a rule for the denied path."""
    lines = ("{path: ~/.local, access: write}", "{path: ~/.local/share/keyrings, access: deny}")
    found = compiled(entries(*lines))
    names = ("bin/tool", "share/app/data", "share/keyrings/login", "state")
    plan = rules_of(found, {f"/home/u/.local/{name}": FILE for name in names})
    rules = {rule.path: rule for rule in plan.rules}
    denied = "/home/u/.local/share/keyrings"
    assert all(rule.rights for rule in plan.rules)
    for path, rule in rules.items():
        assert not denied.startswith(path + "/") or not {"read_file", "write_file"} & _rights(rule.rights), path
        assert path != denied and not path.startswith(denied + "/")
    assert "make_reg" in _rights(rules["/home/u/.local/bin"].rights)
    assert "read_file" in _rights(rules["/home/u/.local/share/app"].rights)
    lost = {(loss.code, loss.at) for loss in found.artefacts["landlock"].losses}
    assert {("SBX451", "~/.local/share/keyrings"), ("SBX452", "~/.local/share/keyrings")} <= lost


def _rights(mask: int) -> set[str]:
    from sandboxc import landlock_abi

    return set(landlock_abi.names(mask))


def test_s29_rights_by_file_type_on_landlock() -> None:
    """S29: a rule for something that is no directory holds only file rights, and the plan says what it took it for."""
    lines = (
        '{path: "${workspace}/one.txt", access: read}',
        '{path: "${workspace}/pipe", access: read}',
        "{path: /dev/null, access: write, when: {os: linux}}",
    )
    tree = {
        "/home/u/w/one.txt": FILE,
        "/home/u/w/pipe": {"type": "fifo"},
        "/dev/null": {"type": "device"},
        "/dev/zero": {"type": "device"},
        "/home/u/w/d/x": FILE,
    }
    plan = rules_of(compiled(entries(*lines)), tree)
    rules = {rule.path: rule for rule in plan.rules}
    file_rights = {"execute", "write_file", "read_file", "truncate", "ioctl_dev"}
    for path in ("/dev/null", "/dev/zero"):
        assert _rights(rules[path].rights) <= file_rights
    for rule in plan.rules:
        assert rule.kind and (rule.kind == "directory" or _rights(rule.rights) <= file_rights), rule
    assert "write_file" in _rights(rules["/dev/null"].rights)
    for path in ("/home/u/w/one.txt", "/home/u/w/pipe"):
        assert path not in rules or "write_file" not in _rights(rules[path].rights)


# -- S31 -----------------------------------------------------------------------------------------------------------


@needs_scheme
def test_s31_moving_a_denied_thing_to_an_allowed_place() -> None:
    """S31: neither the file nor its parent moves; unrelated directories do."""
    found = compiled(entries('{path: "${workspace}/a/secret", access: deny}'))
    evaluator = Evaluator(bound(found, "linux")[0])

    def moves(source: str, to: str) -> bool:
        return evaluator.decide("rename", posix(f"/home/u/w/{source}"), posix(f"/home/u/w/{to}")).allowed

    assert [moves("a/secret", "plain"), moves("a", "moved"), moves("b", "c")] == [False, False, True]
    assert not moves("b", "a")  # nor is anything moved into the place of what holds it
    profile = profile_of(found)
    for path, right in (("a/secret", False), ("a", False), ("b", True), ("a/other", True)):
        assert says(profile, "file-write-unlink", f"/Users/u/w/{path}", vnode="DIRECTORY") is right
    words, _ = words_of(found, {"/home/u/w/a/secret": FILE, "/home/u/w/b/x": FILE})
    text = " ".join(words)
    assert "--bind /home/u/w/a /home/u/w/a" in text and "/home/u/w/b" not in text


# -- S33, S35 ------------------------------------------------------------------------------------------------------


@needs_samba
def test_s33_windows_changes_can_be_taken_back() -> None:
    """S33: each step says how to undo it by SID, a second run changes nothing, and what propagates is flagged."""
    head = HEAD + "hidden: {preset: none, reason: t}\nprotected: seed\n"
    found = compiled(entries("{path: ~/, access: read}", head=head), "windows")
    assert compiled(entries("{path: ~/, access: read}", head=head), "windows").artefacts == found.artefacts
    stack, _ = bound(found, "windows")
    kinds = {"C:\\Users": "directory", "C:\\Users\\u": "directory", "C:\\Users\\u\\w": "directory"}
    kinds |= {
        "C:\\Users\\u\\w\\.git": "directory",
        "C:\\Users\\u\\w\\.git\\config": "file",
        "C:\\Users\\u\\w\\f": "file",
    }
    tree = windows_world.judge_tree(kinds)
    options = options_of(found.policy, "policy.yaml")
    plan = windows_world.plan_of(windows.finalise(stack, Facts(), options, windows_world.look(tree)))
    before = tree.snapshot()
    journal = judge.apply_plan(tree, plan)
    assert not any(item.added for item in judge.apply_plan(tree, plan))
    for step in plan["steps"]:
        sid = judge.parse_ace(step["ace"]).sid
        assert step["undo"]["sid"] == sid and step["undo"]["remove_ace"] == step["ace"]
        if "CI" in step["ace"] and "absent" not in step:  # what is made empty passes nothing on
            assert step["propagates"]["root"] == step["path"] and step["propagates"]["reason"]
    box = windows_world.token(plan)
    assert judge.can(tree, "write", "C:\\Users\\u\\w\\f", box)
    assert not judge.can(tree, "write", "C:\\Users\\u\\w\\.git\\config", box)
    judge.revert(tree, journal)
    assert tree.snapshot() == before


@needs_scheme
def test_s35_case_insensitive_volumes_and_spellings() -> None:
    """S35: other cases and the extended-length spelling are denied, absent or not; SBPL spells case as classes."""
    found = compiled(entries("{path: ~/.ssh, access: deny}", "{path: ~/, access: write}"))
    stack, _ = bound(found, "windows")
    evaluator = Evaluator(stack, fold=True)
    for text in (r"c:\users\U\.SSH\authorized_keys", r"\\?\C:\Users\u\.ssh\authorized_keys"):
        spelled = parse_place(text, WINDOWS, ())
        assert isinstance(spelled, Spelled)
        assert evaluator.index.access(spelled.place) == DENY, text
    globbed = compiled(
        entries('{glob: "**/.env", access: deny, within: writable}', head=BARE + "targets: [seatbelt]\n", waive="")
    )
    profile = profile_of(globbed)
    for name in (".env", ".ENV", ".Env", "deep/.eNV"):
        assert access(profile, f"/Users/u/w/{name}", fold_case=True) == DENY, name
    assert access(profile, "/Users/u/w/x.env", fold_case=True) == WRITE
    text = globbed.artefacts["seatbelt"].native
    assert "(?" not in text and "[eE][nN][vV]" in text
    exact = compiled(
        entries('{glob: "**/.env", access: deny, within: writable}', head=BARE + "targets: [seatbelt]\n", waive=""),
        facts=Facts(fold_case=False),
    )
    assert access(profile_of(exact), "/Users/u/w/.ENV") == WRITE


def test_every_case_of_the_issue_is_here() -> None:
    """The cases that the issue names are all in this module."""
    wanted = {f"s{number:02}" for number in (1, 4, 8, 14, 15, 18, 19, 21, 23, 25, 27, 29, 31, 33, 35)}
    there: Iterable[str] = (name.split("_")[1] for name in globals() if name.startswith("test_s"))
    assert wanted <= set(there)

"""The decoder: values and their places, and a code, message, help and underline for each mistake."""

import subprocess
import sys

import pytest

from sandboxc.diagnostics import Diagnostic
from sandboxc.frontend.decode import decode
from sandboxc.policy import TARGETS, Network, Policy
from sandboxc.source import SourceFile

HEAD = "sandboxc: 1\nmode: read-only\n"
FULL = "sandboxc: 1\nmode: danger-full-access\n"


def policy_of(text: str) -> tuple[Policy, SourceFile]:
    """Return the policy of a valid text and its source."""
    source = SourceFile("p.yaml", text)
    policy, found = decode(source, "d")
    assert found == ()
    assert policy is not None
    return policy, source


def faults(text: str) -> list[tuple[str, str, str, str]]:
    """Return (code, message, help, underlined text) of each error."""
    source = SourceFile("p.yaml", text)
    policy, found = decode(source, "d")
    assert policy is None
    return [(item.code, item.message, item.help, under(source, item)) for item in found]


def under(source: SourceFile, item: Diagnostic) -> str:
    """Return the text that a diagnostic underlines."""
    assert item.span is not None
    return source.snippet(item.span)


def entry(line: str) -> str:
    """Return a policy with one entry."""
    return HEAD + f"entries:\n  - {line}\n"


def test_defaults() -> None:
    """A minimal policy has the documented defaults."""
    policy, source = policy_of(HEAD)
    assert policy.mode.value == "read-only"
    assert source.snippet(policy.mode.span) == "read-only"
    assert policy.network == Network("deny", (), None)
    assert (policy.hidden.preset, policy.protected.preset) == ("standard", "standard")
    assert policy.targets == TARGETS
    assert policy.require == "partial"
    assert policy.temp is None
    assert policy.baseline is None
    assert (policy.entries, policy.waivers, policy.tests, policy.parameters) == ((), (), (), ())
    assert policy.digest == "d"


def test_entry_values_and_spans() -> None:
    """Each part of an entry is read and knows its place."""
    text = (
        '{glob: "**/.env*", access: deny, within: writable, except: [.env.example], reason: secrets, '
        "locked: true, overridable: true, when: {os: [linux, macos]}}"
    )
    policy, source = policy_of(entry(text))
    (item,) = policy.entries
    assert item.kind == "glob"
    assert item.text.value == "**/.env*"
    assert source.snippet(item.text.span) == '"**/.env*"'
    assert source.snippet(item.access.span) == "deny"
    assert source.snippet(item.span) == text
    assert [word.value for word in item.excepts] == [".env.example"]
    assert (item.within, item.reason, item.locked, item.overridable) == ("writable", "secrets", True, True)
    assert item.when is not None
    assert item.when.os == ("linux", "macos")
    assert source.snippet(item.when.span) == "{os: [linux, macos]}"


def test_full_access_has_an_open_network() -> None:
    """The default of the network in full access is open, since nothing limits it there."""
    assert policy_of(FULL)[0].network == Network("allow-all", (), None)


def test_words_of_yaml_1_1_stay_text() -> None:
    """`no` and `on` are ordinary words."""
    policy, _ = policy_of(HEAD + "name: no\ndescription: on\n")
    assert (policy.name, policy.description) == ("no", "on")


def test_tests_and_waivers() -> None:
    """Expectations and waivers are read with their places."""
    policy, source = policy_of(
        HEAD
        + "waive:\n  - {loss: SBX431, target: bwrap, at: '**/.env', reason: none made}\n"
        + "tests:\n  - {op: rename, path: ~/x, to: ~/y, expect: deny}\n"
    )
    (waiver,) = policy.waivers
    assert (waiver.loss, waiver.target, waiver.at.value) == ("SBX431", "bwrap", "**/.env")
    assert source.snippet(waiver.span).startswith("{loss:")
    (test,) = policy.tests
    assert test.to is not None
    assert (test.op, test.path.value, test.to.value, test.expect) == ("rename", "~/x", "~/y", "deny")


@pytest.mark.parametrize(
    ("word", "meant"),
    [("none", "deny"), ("ro", "read"), ("readonly", "read"), ("read-only", "read"), ("rw", "write"),
     ("readwrite", "write"), ("RO", "read"), ("dney", "deny"), ("Deny", "deny")],
)  # fmt: skip
def test_access_words_of_other_systems(word: str, meant: str) -> None:
    """Access words of other systems and slips get the right word as help."""
    found = faults(entry(f"{{path: ~/x, access: {word}}}"))
    code, message, advice, underlined = found[0]
    assert (code, message, underlined) == ("SBX203", f"unknown access `{word}`", word)
    assert advice in (f"write `{meant}`", f"did you mean `{meant}`?")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (HEAD + "netwrk: deny\n",
         ("SBX201", "unknown key `netwrk` in the policy", "did you mean `network`?", "netwrk")),
        (HEAD + "network: {mode: deny, prts: []}\n",
         ("SBX201", "unknown key `prts` in `network`", "did you mean `ports`?", "prts")),
        (HEAD + "entries: {a: b}\n", ("SBX202", "`entries` must be a list, not a mapping", "", "{a: b}")),
        (HEAD + "name: 5\n", ("SBX202", "`name` must be text, not a number", 'write `"5"` where text is meant', "5")),
        (HEAD + "name: true\n",
         ("SBX202", "`name` must be text, not a boolean", 'write `"true"` where text is meant', "true")),
        (HEAD + "name:\n", ("SBX202", "`name` must be text, not nothing", "write a value or remove the key", "")),
        ("- a\n", ("SBX202", "the policy must be a mapping, not a list", "", "- a")),
        (entry("{path: ~, access: deny}"),
         ("SBX202", "`path` must be text, not nothing",
          "write `${home}` for the home directory, a lone `~` means nothing in YAML", "~")),
        (entry("{path: ~/x, access: deny, locked: yes}"),
         ("SBX202", "`locked` must be `true` or `false`, not text", "write `true` or `false`, without quotes", "yes")),
        ("sandboxc: 1\nmode: rw\n", ("SBX203", "unknown mode `rw`", "write `workspace-write`", "rw")),
        (HEAD + "network: none\n", ("SBX203", "unknown network mode `none`", "write `deny`", "none")),
        (HEAD + "network: zzz\n",
         ("SBX203", "unknown network mode `zzz`", "write one of `deny`, `loopback`, `allow-all`", "zzz")),
        (HEAD + "targets: [bubblewrap]\n", ("SBX203", "unknown target `bubblewrap`", "write `bwrap`", "bubblewrap")),
        (entry("{socket: ~/s, access: write}"),
         ("SBX203", "unknown socket access `write`", "write `connect`", "write")),
        (HEAD + "macos: {services: [keychian]}\n",
         ("SBX203", "unknown service `keychian`", "did you mean `keychain`?", "keychian")),
        ("mode: read-only\n", ("SBX204", "the policy has no `sandboxc`", "add `sandboxc: ...`", "mode")),
        (entry("{path: ~/x}"), ("SBX204", "the entry has no `access`", "add `access: ...`", "{path: ~/x}")),
        (HEAD + "tests:\n  - {op: link, path: ~/x, expect: deny}\n",
         ("SBX204", "a `link` test has no `to`", "add `to: ...`", "{op: link, path: ~/x, expect: deny}")),
        ("sandboxc: 2\nmode: read-only\n",
         ("SBX205", "schema version `2` is not supported", "write `sandboxc: 1`", "2")),
        (HEAD + "extends: [a]\n",
         ("SBX206", "`extends` is not supported yet", "write the entries of the base into this policy", "extends")),
        (HEAD + "groups: {}\n",
         ("SBX207", "`groups` is not supported yet", "write the entries of the group out", "groups")),
        (entry("{path: ~/x, access: deny, use: keys}"),
         ("SBX208", "`use` is not supported yet", "write the entry out", "use")),
        (entry("{path: ~/x, access: deny, when: {os: linux, arch: arm64}}"),
         ("SBX209", "`arch` is not supported yet", "only `os` can be asked for", "arch")),
        (entry("{access: deny}"),
         ("SBX210", "the entry names no place", "add one of `path`, `glob` and `socket`", "{access: deny}")),
        (entry('{path: ~/x, glob: "~/*", access: deny}'),
         ("SBX210", "the entry has both `path` and `glob`", "write two entries", "glob")),
        (entry("{path: ~/x, access: deny, within: writable}"),
         ("SBX211", "`within` goes with `glob` only", "remove `within`", "within")),
        (entry("{path: ~/x, access: deny, except: [a]}"),
         ("SBX211", "`except` goes with `glob` only", "remove `except`", "except")),
        (entry('{glob: "~/*", access: deny, absent: report}'),
         ("SBX211", "`absent` goes with `path` only", "remove `absent`", "absent")),
        (entry("{path: ~/x, access: deny, absent: create}"),
         ("SBX211", "`absent: create` goes with `access: write` only", "write `absent: report`", "create")),
        (entry("{path: ~/x, access: write, absent: placeholder}"),
         ("SBX211", "`absent: placeholder` cannot hold a place that is to be written", "write `absent: create`",
          "placeholder")),
        (HEAD + "network: {mode: deny, ports: [80]}\n",
         ("SBX211", "`ports` means nothing with `mode: deny`", "write `mode: loopback`, or remove `ports`", "ports")),
        (HEAD + "system: none\n",
         ("SBX211", "`system` goes with `baseline: deny` only", "remove `system`", "system")),
        (HEAD + "hidden: none\n",
         ("SBX212", "`hidden: none` needs a reason", "write `hidden: {preset: none, reason: ...}`", "none")),
        (HEAD + "protected: {remove: [.vscode]}\n",
         ("SBX212", "`remove` needs a reason", "add `reason: ...`", "remove")),
        (HEAD + "waive:\n  - {loss: SBX431, target: bwrap, at: x}\n",
         ("SBX212", "a waiver needs a reason", "add `reason: ...`", "{loss: SBX431, target: bwrap, at: x}")),
        (HEAD + "network: {mode: loopback, ports: [70000]}\n",
         ("SBX213", "`70000` is not a port", "ports are 1 to 65535", "70000")),
        (HEAD + "parameters: {a_b: {type: path}}\n",
         ("SBX214", "`a_b` is not a parameter name",
          "use lower-case words of letters and digits, joined by `-`", "a_b")),
        (HEAD + "parameters: {tmp: {type: path}}\n",
         ("SBX215", "the parameter `tmp` exists already", "choose another name", "tmp")),
        (HEAD + 'name: " "\n', ("SBX216", "`name` is empty", "write a text or remove the key", '" "')),
        (HEAD + 'name: "a\\u202eb\\x07"\n',
         ("SBX216", "`name` contains the control character U+0007", "remove it", '"a\\u202eb\\x07"')),
        (HEAD + "targets: [bwrap, bwrap]\n",
         ("SBX217", "the target `bwrap` is listed twice", "remove one", "bwrap")),
        (HEAD + "targets: []\n", ("SBX218", "`targets` lists nothing", "name a target or remove the key", "[]")),
        (HEAD + "relative-to: ${home}/x\n",
         ("SBX219", "`${home}/x` is not a root", "write `${home}`, or an absolute path", "${home}/x")),
        (HEAD + "waive:\n  - {loss: SBX203, target: bwrap, at: x, reason: y}\n",
         ("SBX220", "`SBX203` is not the code of a loss", "loss codes are `SBX400` to `SBX499`", "SBX203")),
        (HEAD + "targets: [bwrap]\nwaive:\n  - {loss: SBX431, target: windows, at: x, reason: y}\n",
         ("SBX221", "the policy is not for `windows`", "add it to `targets`, or remove the waiver", "windows")),
        (entry("{path: ~root/x, access: deny}"),
         ("SBX314", "`~root` names another user's home", "write `~/` for the user's own home", "~root")),
        (entry('{path: "${wrokspace}/x", access: deny}'),
         ("SBX315", "unknown parameter `wrokspace`", "did you mean `workspace`?", "${wrokspace}")),
        (entry("{path: $HOME/x, access: deny}"),
         ("SBX316", "`$HOME` has no braces", "write `${home}`, or `$$` for a dollar sign", "$HOME")),
        (entry("{path: /etc/x, access: deny}"),
         ("SBX319", "the path has no drive, so it means nothing on Windows",
          "add `when: {os: [linux, macos]}` to the entry, or write `C:/...`", "/")),
        (entry("{path: 'C:/x', access: deny}"),
         ("SBX318", "a Windows path means nothing on Linux and macOS", "add `when: {os: windows}` to the entry",
          "C:")),
        (entry('{glob: "**/x", access: deny}'),
         ("SBX331", "a pattern that starts with `**/` must say where it holds", "add `within: writable`", "**")),
    ],
)  # fmt: skip
def test_one_mistake(text: str, expected: tuple[str, str, str, str]) -> None:
    """Each mistake has its code, message and help, and underlines the text at fault."""
    assert faults(text) == [expected]


def test_full_access_with_entries_names_both_lines() -> None:
    """S14: full access with entries is refused, with the entry and the mode underlined."""
    text = FULL + "entries:\n  - {path: ~/keys, access: deny}\n  - {path: ~/keep, access: read}\n"
    source = SourceFile("p.yaml", text)
    policy, found = decode(source, "d")
    assert policy is None
    assert [(item.code, under(source, item)) for item in found] == [("SBX301", "~/keys"), ("SBX301", "~/keep")]
    assert [item.span.line for item in found if item.span] == [4, 5]
    assert {source.snippet(label.span) for item in found for label in item.labels} == {"danger-full-access"}
    assert "workspace-write" in found[0].help


def test_full_access_with_a_limited_network() -> None:
    """S14: a written network below allow-all is refused under full access, as are other restrictions."""
    assert [item[0] for item in faults(FULL + "network: deny\n")] == ["SBX302"]
    assert [item[0] for item in faults(FULL + "network: {mode: loopback}\n")] == ["SBX302"]
    assert [item[0] for item in faults(FULL + "baseline: deny\nhidden: standard\n")] == ["SBX303", "SBX303"]


def test_odd_names_are_ordinary() -> None:
    """S21: brackets, quotes, backslashes and blanks are ordinary in a literal path on POSIX targets."""
    names = ["Fonts (Removed)", "it's here", "I:\\", 'q"x', "two  spaces", "!down"]
    lines = "".join(f"  - {{path: '~/{name.replace(chr(39), chr(39) * 2)}', access: deny}}\n" for name in names)
    policy, _ = policy_of(HEAD + "targets: [bwrap, seatbelt]\nentries:\n" + lines)
    assert [item.text.value for item in policy.entries] == [f"~/{name}" for name in names]


@pytest.mark.parametrize(("escape", "code"), [("\\n", "SBX312"), ("\\0", "SBX311"), ("\\t", "SBX312")])
def test_invisible_characters_in_a_path_are_refused(escape: str, code: str) -> None:
    """S21: a line break or NUL in a path is refused."""
    found = faults(entry(f'{{path: "~/a{escape}b", access: deny}}'))
    assert [(item[0], item[3]) for item in found] == [(code, f'"~/a{escape}b"')]


def test_flow_and_block_spelling_are_equal() -> None:
    """S37: the same policy in flow and in block style gives the same values."""
    flow, _ = policy_of(HEAD + "network: {mode: loopback, ports: [80]}\nentries: [{path: ~/x, access: deny}]\n")
    block, _ = policy_of(
        HEAD + "network:\n  mode: loopback\n  ports:\n    - 80\nentries:\n  - path: ~/x\n    access: deny\n"
    )
    assert flow.network[:2] == block.network[:2]
    assert [(item.kind, item.text.value, item.access.value) for item in flow.entries] == [
        (item.kind, item.text.value, item.access.value) for item in block.entries
    ]


def test_path_flavours_follow_targets_and_conditions() -> None:
    """A text is read in the flavours of the targets that its condition admits."""
    policy_of(HEAD + "targets: [bwrap]\nentries:\n  - {path: /etc/x, access: deny}\n")
    policy_of(HEAD + "targets: [windows]\nentries:\n  - {path: 'C:/x', access: deny}\n")
    policy_of(entry("{path: /etc/x, access: deny, when: {os: [linux, macos]}}"))
    policy_of(entry("{socket: /run/docker.sock, access: deny}"))
    assert [item[0] for item in faults(entry("{socket: /x, access: deny, when: {os: windows}}"))] == ["SBX319"]


def test_unmatched_mistakes_of_one_policy_are_sorted() -> None:
    """All mistakes of a policy come in one run, by line and column."""
    found = faults(entry("{path: x, access: none, within: all}") + "bogus: 1\nwaive: 5\n")
    assert [item[0] for item in found] == ["SBX313", "SBX203", "SBX211", "SBX203", "SBX201", "SBX202"]


def test_errors_are_capped() -> None:
    """After 100 errors the rest is left unread, and the report says so."""
    found = faults(HEAD + "entries:\n" + "  - {path: x, access: ro}\n" * 500)
    assert len(found) == 101
    assert [item[0] for item in found].count("SBX290") == 1


def test_parameters_may_be_used_before_they_are_written() -> None:
    """The order of top-level keys has no meaning."""
    policy, _ = policy_of(
        'entries: [{path: "${cache}/x", access: deny}]\n'
        "parameters: {cache: {type: path}}\nmode: read-only\nsandboxc: 1\n"
    )
    assert policy.parameters[0].name == "cache"


def test_reading_a_policy_imports_no_heavy_library() -> None:
    """Decoding imports neither jsonschema, lark, jinja2 nor the catalogue."""
    code = (
        "import sys; from sandboxc.loader import load_bytes; load_bytes('p', b'sandboxc: 1\\nmode: x\\n'); "
        "print([m for m in ('jsonschema', 'lark', 'jinja2', 'difflib', 'sandboxc.catalogue') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

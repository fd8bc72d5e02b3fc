"""Names that a policy adds to presets and removes from them."""

from __future__ import annotations

import pytest

from sandboxc.loader import load_bytes
from sandboxc.lower import lower
from sandboxc.places import Place
from sandboxc.policy import OSES, PresetChoice
from sandboxc.presets import protected_names

HEAD = "sandboxc: 1\nmode: read-only\n"


def problems(text: str, *systems: str) -> list[str]:
    """The codes that a policy text gives, lowered for these systems."""
    loaded = load_bytes("p.yaml", (HEAD + text).encode())
    found = [item.code for item in loaded.diagnostics]
    if loaded.policy is not None:
        found += [item.code for os in systems for item in lower(loaded.policy, os).diagnostics]
    return found


@pytest.mark.parametrize("name", ["~/Library/Keychains", "~/.ssh", "~/.gnupg/"])
def test_a_hidden_path_of_one_system_can_be_removed(name: str) -> None:
    """A name that some system's preset knows is removed there and says nothing elsewhere."""
    text = f'hidden: {{remove: ["{name}"], reason: test}}\n'
    assert problems(text, *OSES) == []
    assert problems(text.replace(name, "~/.sshh"), *OSES) == ["SBX343"] * 3


def test_an_unknown_protected_name_is_no_name_anywhere() -> None:
    """Removing asks for a name that a preset has."""
    assert problems("protected: {remove: [.git/hooks], reason: test}\n", *OSES) == []
    assert problems("protected: {remove: [.nope], reason: test}\n", "linux") == ["SBX341"]


def test_hidden_paths_take_parameters_and_the_root_of_relative_paths() -> None:
    """An added path is read as every other path of the policy."""
    text = "parameters: {keys: {type: path, default: ~/k}}\nrelative-to: ${workspace}\n"
    text += 'hidden: {add: ["${keys}/private", "secret/"]}\n'
    loaded = load_bytes("p.yaml", (HEAD + text).encode())
    assert loaded.policy is not None, loaded.diagnostics
    for os in OSES:
        lowered = lower(loaded.policy, os).value
        assert lowered is not None
        hidden = {layer.where: layer.kind for layer in lowered.layers.layers if layer.access == "deny"}
        assert Place("keys", ("private",)) in hidden
        assert hidden[Place("workspace", ("secret",))] == "directory"


def test_a_hidden_path_of_the_other_path_flavour() -> None:
    """A POSIX path hides nothing on Windows; one that no target can read is an error with a caret."""
    assert problems("hidden: {add: [/opt/x]}\n", *OSES) == []
    assert problems("targets: [windows]\nhidden: {add: [/opt/x]}\n", "windows") == ["SBX319"]
    assert problems('targets: [bwrap]\nhidden: {add: ["C:/x"]}\n', "linux") == ["SBX318"]
    assert problems('hidden: {add: ["${nope}/x"]}\n', "linux") == ["SBX315"]


def test_adding_a_name_that_the_preset_has_weakens_nothing() -> None:
    """The kind, the occupant and the git directory of a preset's name stay."""
    word = load_bytes("p.yaml", (HEAD + "protected: {add: [.git/commondir, .envrc, a//b]}\n").encode()).policy
    assert word is not None
    plain, _ = protected_names(PresetChoice("standard"), "linux")
    found, wrong = protected_names(word.protected, "linux")
    assert wrong == () and found[: len(plain)] == plain
    assert [name.path for name in found[len(plain) :]] == [("a", "b")]


@pytest.mark.parametrize("name", ["a:b", "con", "x ", "x."])
def test_a_name_that_windows_cannot_have(name: str) -> None:
    """A protected name must be one that a file can have on the system."""
    text = f'protected: {{add: ["{name}"]}}\n'
    assert problems(text, "windows") == ["SBX342"]
    assert problems(text, "linux", "macos") == []


def test_a_name_that_is_too_long() -> None:
    """No file system has names of more than 255 bytes."""
    assert problems(f"protected: {{add: [{'n' * 256}]}}\n", "linux") == ["SBX342"]


def test_a_waiver_is_written_once() -> None:
    """The second of two waivers of one loss is named as that, not as a waiver of nothing."""
    line = '  - {loss: SBX431, target: bwrap, at: "**/.env", reason: a}\n'
    assert problems("waive:\n" + line + line) == ["SBX217"]


@pytest.mark.parametrize("key", ["temp: [/x]", "workspace: /x", "parameters: {p: {type: path, default: /x}}"])
def test_help_for_a_path_without_a_condition(key: str) -> None:
    """Where no `when` can stand, the help does not ask for one."""
    loaded = load_bytes("p.yaml", (HEAD + key + "\n").encode())
    assert [item.code for item in loaded.diagnostics] == ["SBX319"]
    assert "targets" in loaded.diagnostics[0].help and "when" not in loaded.diagnostics[0].help

"""Profile directories: the same bytes everywhere, every tampering refused, stale ones found."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import sandboxc
from sandboxc import compile as compiler
from sandboxc.api import host_system
from sandboxc.compile import Compilation, compile_policy
from sandboxc.diagnostics import PolicyError
from sandboxc.digests import sha256_hex
from sandboxc.emitters.artefact import Artefact, Options
from sandboxc.facts import Facts
from sandboxc.layers import Layers
from sandboxc.loader import load, load_bytes
from sandboxc.losses import Loss
from sandboxc.places import Place
from sandboxc.policy import Policy
from sandboxc.profile.check import compare, looks_fresh
from sandboxc.profile.codec import Malformed, decode_stack, encode_stack
from sandboxc.profile.load import MAX_FILE, StoredProfile, decode_manifest, load_profile
from sandboxc.profile.save import save_profile
from sandboxc.profile.write import profile_files

POLICY = """\
sandboxc: 1
name: sample
mode: workspace-write
temp: private
network: {mode: loopback, ports: [3128]}
parameters:
  cache: {type: path, default: ~/.cache/tool, description: build cache}
entries:
  - {path: "${workspace}/vendor", access: read, reason: "third party, \\u00fcber"}
  - {path: "${cache}", access: write, absent: create}
  - {glob: "**/.env", access: deny, within: writable, except: ["examples/**"]}
  - {glob: "/data/{a,b}/[x-z]*", access: deny, locked: true, when: {os: linux}}
  - {socket: "${tmp}/x.sock", access: connect}
waive:
  - {loss: SBX431, target: bwrap, at: "**/.env", reason: none are generated}
"""
VALUES = {
    "workspace": "/w",
    "home": "/h",
    "tmp": "/tmp",
    "user-config": "/h/.config",
    "user-cache": "/h/.cache",
}


def fake_emitter(target: str) -> Any:
    """Return a stand-in for an emitter, so that these tests do not depend on any target."""

    def emit(stack: Layers, facts: Facts, options: Options) -> Artefact:
        glob = next(layer for layer in stack.layers if layer.text == "**/.env")
        losses = (
            Loss("SBX431", "snapshot", target, "**/.env", "only what exists", glob.span)
            if target == "bwrap"
            else Loss("SBX499", "narrower", target, "network", "a port too much"),
            Loss("SBX498", "wider", target, "metadata", "a limit", None, standing=True),
        )
        files = {f"{target}.json": json.dumps([options.digest, facts.name]).encode() + b"\n"}
        return Artefact(target, "native\n", files, losses, ("workspace inside home",) if target == "seatbelt" else ())

    return SimpleNamespace(emit=emit)


@pytest.fixture(autouse=True)
def fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put stand-ins in the place of the emitters."""
    monkeypatch.setattr(compiler, "emitter", fake_emitter)


def policy_of(text: str = POLICY, name: str = "policies/sample.yaml") -> Policy:
    """Return the policy of a text."""
    loaded = load_bytes(name, text.encode())
    assert loaded.policy is not None, loaded.diagnostics
    return loaded.policy


def compiled(text: str = POLICY, name: str = "policies/sample.yaml") -> Compilation:
    """Return a compilation without errors."""
    found = compile_policy(policy_of(text, name))
    assert found.ok, found.diagnostics
    return found


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Return a freshly written profile directory."""
    path = tmp_path / "sample"
    save_profile(str(path), profile_files(compiled()))
    return path


def codes(fault: pytest.ExceptionInfo[PolicyError]) -> set[str]:
    """Return the codes of a refusal."""
    return {item.code for item in fault.value.diagnostics}


def resign(directory: Path, change: Callable[[dict[str, Any]], None], name: str = "manifest.json") -> None:
    """Change a JSON file of a profile, and its digest in the manifest where it has one."""
    path = directory / name
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))
    if name != "manifest.json":
        digest = sha256_hex(path.read_bytes())
        resign(directory, lambda manifest: manifest["files"].update({name: digest}))


def test_layers_survive_the_round_trip(directory: Path) -> None:
    """What is loaded is what was lowered, layer for layer, with spans, for each system."""
    made = compiled()
    profile = load_profile(str(directory))
    assert set(profile.systems) == {"linux", "macos", "windows"}
    for os_name, lowered in made.lowered.items():
        stored = profile.layers_for(os_name)
        assert stored.layers == lowered.layers
        assert stored.defaults == lowered.defaults
    assert profile.name == "sample"


def test_manifest_says_what_took_part(directory: Path) -> None:
    """Versions, digests, parameters, facts, limits, losses and waivers are in the manifest."""
    manifest = load_profile(str(directory)).manifest
    assert manifest.sources == {"sample.yaml": sha256_hex(POLICY.encode())}
    assert manifest.compiler == sandboxc.__version__
    assert manifest.presets.keys() == {"hidden", "protected", "system"}
    assert manifest.facts["name"] == "default"
    assert manifest.parameters["workspace"].required and not manifest.parameters["workspace"].declared
    assert manifest.parameters["cache"] == ("cache", True, False, "build cache")
    assert not manifest.parameters["ssh-auth-sock"].required
    bwrap = manifest.targets["bwrap"]
    assert bwrap.enforcement == "partial"
    assert {(loss.code, loss.waived, loss.standing) for loss in bwrap.losses} == {
        ("SBX431", "none are generated", False),
        ("SBX498", "", True),
    }
    assert manifest.targets["seatbelt"].constraints == ("workspace inside home",)
    assert [(w.loss, w.target, w.at.value) for w in manifest.options.waivers] == [("SBX431", "bwrap", "**/.env")]
    assert manifest.for_targets == ("seatbelt", "bwrap", "landlock", "windows")


def test_bytes_do_not_depend_on_where_the_policy_lies() -> None:
    """Another directory, another way to name it: the same files, without a trace of either."""
    here = profile_files(compiled(name="policies/sample.yaml"))
    there = profile_files(compiled(name="/home/somebody/else/sample.yaml"))
    assert here == there
    assert not any(b"somebody" in data or b"policies/" in data for data in here.values())
    for name, data in here.items():
        assert data.endswith(b"\n") and b"\r" not in data, name
        data.decode("ascii")


def test_diagnostics_keep_the_name_as_loaded() -> None:
    """A loss is reported in the file that the user named, though artefacts name it relatively."""
    text = POLICY.replace('waive:\n  - {loss: SBX431, target: bwrap, at: "**/.env", reason: none are generated}\n', "")
    found = compile_policy(policy_of(text, "/some/where/sample.yaml"))
    assert not found.ok and not found.artefacts and not found.lowered
    loss = next(item for item in found.diagnostics if item.code == "SBX431")
    assert loss.span is not None and loss.span.file == "/some/where/sample.yaml"


def test_any_error_means_no_artefact() -> None:
    """A loss on one target leaves the others without an artefact too."""
    found = compile_policy(policy_of(POLICY.replace('at: "**/.env"', "at: elsewhere")))
    assert {item.code for item in found.diagnostics if item.is_error} == {"SBX431", "SBX402"}
    assert found.artefacts == {}


def test_full_enforcement_can_be_required() -> None:
    """`require: full` stops at a standing limit, naming it."""
    found = compile_policy(policy_of(POLICY + "require: full\n"), ("landlock",))
    short = [item for item in found.diagnostics if item.code == "SBX403"]
    assert len(short) == 1 and "SBX498" in short[0].help


def test_no_confinement_has_no_artefact() -> None:
    """`danger-full-access` compiles to nothing and says so."""
    found = compile_policy(policy_of("sandboxc: 1\nmode: danger-full-access\n"))
    assert found.ok and found.artefacts == {}
    assert {item.code for item in found.diagnostics} == {"SBX404"}


def test_writing_again_changes_nothing(directory: Path) -> None:
    """A second save of the same files writes none; of others it leaves exactly those."""
    assert not save_profile(str(directory), profile_files(compiled()))
    fewer = compile_policy(policy_of(), ("bwrap",))
    assert save_profile(str(directory), profile_files(fewer))
    assert sorted(os.listdir(directory)) == ["bwrap.json", "layers.json", "manifest.json"]
    load_profile(str(directory))


def test_profiles_of_other_versions_are_replaced(directory: Path) -> None:
    """The remedy for an old profile works: compiling over it replaces what its manifest names."""
    (directory / "old.sb").write_text("")
    resign(directory, lambda manifest: (manifest.update(format_version=0), manifest["files"].update({"old.sb": ""})))
    assert save_profile(str(directory), profile_files(compiled()))
    assert not (directory / "old.sb").exists()
    load_profile(str(directory))


def test_foreign_directories_are_left_alone(tmp_path: Path) -> None:
    """A directory that holds anything else, and a file, are not written over."""
    (tmp_path / "notes.txt").write_text("mine")
    for path in (tmp_path, tmp_path / "notes.txt"):
        with pytest.raises(PolicyError) as fault:
            save_profile(str(path), profile_files(compiled()))
        assert codes(fault) == {"SBX742"}
    assert os.listdir(tmp_path) == ["notes.txt"]


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    """When a file cannot be written, no directory appears."""
    files: dict[str, Any] = {**profile_files(compiled()), "z.json": "not bytes"}
    with pytest.raises(TypeError):
        save_profile(str(tmp_path / "p"), files)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["bwrap.json", "layers.json", "windows.json"])
def test_changed_files_are_refused(directory: Path, name: str) -> None:
    """One changed byte is found."""
    path = directory / name
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(PolicyError) as fault:
        load_profile(str(directory))
    assert codes(fault) == {"SBX736"}


def test_missing_and_extra_files_are_refused(directory: Path) -> None:
    """A profile holds what its manifest names, and every difference is reported in one run."""
    (directory / "bwrap.json").unlink()
    (directory / "extra.sb").write_text("")
    with pytest.raises(PolicyError) as fault:
        load_profile(str(directory))
    assert codes(fault) == {"SBX732", "SBX733"}


def test_links_fifos_and_directories_are_refused(directory: Path, tmp_path: Path) -> None:
    """Nothing but regular files is opened; a fifo does not hold up the load."""
    for name, make in (
        ("bwrap.json", lambda path: path.symlink_to(tmp_path / "copy")),
        ("landlock.json", os.mkfifo),
        ("windows.json", os.mkdir),
    ):
        (tmp_path / "copy").write_bytes((directory / name).read_bytes())
        (directory / name).unlink()
        make(directory / name)
    with pytest.raises(PolicyError) as fault:
        load_profile(str(directory))
    assert codes(fault) == {"SBX734"} and len(fault.value.diagnostics) == 3


def test_huge_files_are_refused(directory: Path) -> None:
    """A file past the limit is not read to its end."""
    with open(directory / "bwrap.json", "ab") as file:
        file.truncate(MAX_FILE + 2)
    with pytest.raises(PolicyError) as fault:
        load_profile(str(directory))
    assert codes(fault) == {"SBX735"}


def test_unknown_format_versions_come_with_a_remedy(directory: Path) -> None:
    """Newer and older forms are refused, and the help says what to do."""
    resign(directory, lambda manifest: manifest.update(format_version=99, surprise=1))
    with pytest.raises(PolicyError) as fault:
        load_profile(str(directory))
    assert codes(fault) == {"SBX731"}
    assert "upgrade" in fault.value.diagnostics[0].help


def test_what_is_no_profile_is_refused(tmp_path: Path) -> None:
    """A missing directory, a file and an empty directory each have their code."""
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    for name, code in (("absent", "SBX730"), ("file", "SBX730"), ("empty", "SBX732"), ("nul\0", "SBX730")):
        with pytest.raises(PolicyError) as fault:
            load_profile(str(tmp_path / name))
        assert codes(fault) == {code}


BAD_MANIFESTS: list[Callable[[dict[str, Any]], Any]] = [
    lambda m: m.pop("files"),
    lambda m: m.update(more=1),
    lambda m: m.update(format_version="1"),
    lambda m: m["files"].update({"../x": "0" * 64}),
    lambda m: m["files"].update({"manifest.json": "0" * 64}),
    lambda m: m["files"].update({"x": "0" * 63}),
    lambda m: m["files"].update({"x": 5}),
    lambda m: m["files"].pop("layers.json"),
    lambda m: m["targets"].update(plan9={}),
    lambda m: m["targets"]["bwrap"].update(enforcement="most"),
    lambda m: m["targets"]["bwrap"].update(files=["nowhere"]),
    lambda m: m["targets"]["bwrap"]["losses"][0].update(kind="small"),
    lambda m: m["targets"]["bwrap"]["losses"][0].update(span=[7, 1, 1, 1, 1]),
    lambda m: m["targets"]["bwrap"]["losses"][0].update(standing="yes"),
    lambda m: m["parameters"].update({"Bad Name": {}}),
    lambda m: m["parameters"]["home"].update(required=0),
    lambda m: m.update(sources="all"),
    lambda m: m.update(waivers=[{"loss": "SBX431"}]),
    lambda m: m["presets"].update(hidden=1.5),
    lambda m: m["options"].update(macos_base="ajar"),
    lambda m: m["policy"].update(name=None),
]


@pytest.mark.parametrize("change", BAD_MANIFESTS)
def test_malformed_manifests_are_refused(directory: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Each field is checked; the message names the way to it."""
    resign(directory, change)
    with pytest.raises(PolicyError) as fault:
        load_profile(str(directory))
    assert codes(fault) == {"SBX737"}


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"[]", b"\xff", b'{"format_version": 1, "format_version": 1}', b"[" * 100_000, b'{"a": NaN}', b"1e999"],
)
def test_bytes_that_are_no_manifest(text: bytes) -> None:
    """Truncated, binary, deep and doubled JSON is malformed, never a crash."""
    with pytest.raises(Malformed):
        decode_manifest(text)


BAD_STACKS: list[Callable[[dict[str, Any]], Any]] = [
    lambda s: s.pop("layers"),
    lambda s: s.update(os="macos"),
    lambda s: s.update(mode="anything-goes"),
    lambda s: s.update(baseline="write"),
    lambda s: s["network"].update(mode="open"),
    lambda s: s["network"].update(ports=[0]),
    lambda s: s["layers"][0].update(access="none"),
    lambda s: s["layers"][0].update(access=None),
    lambda s: s["layers"][0].update(origin="me"),
    lambda s: s["layers"][0].update(cap=1),
    lambda s: s["layers"][0].update(kind="fifo"),
    lambda s: s["layers"][0].update(unknown=1),
    lambda s: s["layers"][0].update(where=[]),
    lambda s: s["layers"][0].update(where=["", "a/b"]),
    lambda s: s["layers"][0].update(where=["", ".."]),
    lambda s: s["layers"][0].update(where=["", ""]),
    lambda s: s["layers"][0].update(where=["", "a\0"]),
    lambda s: s["layers"][0].update(where=["", "\ud800"]),
    lambda s: s["layers"][0].update(where=["", "\u00e9" * 200]),
    lambda s: s["layers"][0].update(where=["nobody"]),
    lambda s: s["layers"][0].update(where=["//a"]),
    lambda s: s["layers"][0].update(where=["c:"]),
    lambda s: s["layers"][0].update(where="/etc"),
    lambda s: s["layers"][0].update(where={"pattern": ["[a"], "text": "x"}),
    lambda s: s["layers"][0].update(where={"pattern": ["[b-a]"], "text": "x"}),
    lambda s: s["layers"][0].update(where={"pattern": ["a**"], "text": "x"}),
    lambda s: s["layers"][0].update(where={"pattern": [], "text": "x"}),
    lambda s: s["layers"][0].update(where={"pattern": ["a"], "text": "x", "within": "here"}),
    lambda s: s["layers"][0].update(span=[0, 1, 1, 1]),
    lambda s: s["layers"][0].update(span=[0, True, 1, 1, 1]),
    lambda s: s["sockets"][0].update(access="read"),
    lambda s: s["protected"][0].update(path=[]),
    lambda s: s["protected"][0].update(git="yes"),
    lambda s: s.update(ceilings=[{"baseline": "read"}]),
    lambda s: s.update(defaults={"nobody": [""]}),
]


@pytest.mark.parametrize("change", BAD_STACKS)
def test_malformed_layers_are_refused(directory: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Layers are untrusted input even where their digest fits."""
    resign(directory, lambda data: change(data["stacks"]["linux"]), "layers.json")
    profile = load_profile(str(directory))
    with pytest.raises(PolicyError) as fault:
        profile.layers_for("linux")
    assert codes(fault) == {"SBX737"}


def test_every_field_of_a_layer_is_stored() -> None:
    """Ceilings, occupants that are empty, and shares survive, which no policy of these tests has."""
    stack = next(iter(compiled().lowered.values())).layers
    layer = stack.layers[0]._replace(occupant="", where=Place("//srv/share", ("x",)), private=True)
    from sandboxc.layers import restrict

    narrowed = restrict(stack._replace(layers=(layer,)), "deny", [layer._replace(access="read")])
    data = json.loads(json.dumps(encode_stack(narrowed, {}, ["sample.yaml"])))
    roots = {"workspace", "home", "tmp", "cache", "run-base", "run-tmp"}
    assert decode_stack(data, "", narrowed.os, roots, ["sample.yaml"]).layers == narrowed


def test_binding_checks_values(directory: Path) -> None:
    """Values are strings under the rules of paths; what is missing or unknown is named."""
    profile = sandboxc.load_profile(str(directory))
    assert isinstance(profile.stored, StoredProfile)
    bound = profile.bind("linux", **{name.replace("-", "_"): value for name, value in VALUES.items()})
    assert bound.values["cache"].text() == "/h/.cache/tool"
    assert bound.decide("write", "/h/.cache/tool/x").allowed
    assert not bound.decide("read", "${workspace}/sub/.env").allowed
    assert bound.decide("read", "~/notes").allowed
    for values, code in (
        ({**VALUES, "nobody": "/x"}, "SBX702"),
        ({**VALUES, "workspace": "here"}, "SBX313"),
        ({**VALUES, "workspace": "/../x"}, "SBX321"),
        ({"home": "/h"}, "SBX703"),
    ):
        with pytest.raises(PolicyError) as fault:
            profile.bind("linux", **values)
        assert codes(fault) == {code}


def test_binding_looks_at_locks_again(directory: Path) -> None:
    """A lock that only binding brings above a wider layer stops it."""
    values = {**VALUES, "workspace": "/data/a/xylem"}
    with pytest.raises(PolicyError) as fault:
        sandboxc.load_profile(str(directory)).bind("linux", **values)
    assert codes(fault) == {"SBX345"}


def test_binding_needs_layers_for_the_system(tmp_path: Path) -> None:
    """A profile for Linux targets has nothing to say about Windows."""
    save_profile(str(tmp_path / "p"), profile_files(compile_policy(policy_of(), ("bwrap",))))
    with pytest.raises(PolicyError) as fault:
        sandboxc.load_profile(str(tmp_path / "p")).bind("windows")
    assert codes(fault) == {"SBX738"}


def test_artefacts_are_handed_out_by_target(directory: Path) -> None:
    """A file is asked for by target and name; what is not there is a coded refusal."""
    profile = load_profile(str(directory))
    assert json.loads(profile.artefact("bwrap", "bwrap.json"))[1] == "default"
    with pytest.raises(PolicyError) as fault:
        profile.artefact("bwrap", "seatbelt.json")
    assert codes(fault) == {"SBX738"}


def test_fresh_and_stale_profiles(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A changed policy, preset or compiler makes a profile stale, and the report names the files."""
    profile = load_profile(str(directory))
    assert looks_fresh(profile, {"sample.yaml": sha256_hex(POLICY.encode())})
    assert not looks_fresh(profile, {"sample.yaml": "0" * 64})
    assert compare(profile, policy_of()).fresh
    changed = policy_of(POLICY + "# a comment\n")
    result = compare(profile, changed)
    assert not result.fresh
    assert "manifest.json" in result.diagnostics[-1].message and "layers.json" not in result.diagnostics[-1].message
    monkeypatch.setattr("sandboxc.presets.versions", lambda: {"hidden": 2, "protected": 1, "system": 1})
    assert not looks_fresh(profile, {"sample.yaml": sha256_hex(POLICY.encode())})


def test_python_interface(tmp_path: Path) -> None:
    """The names of design section 9 exist and raise coded errors."""
    path = tmp_path / "p.yaml"
    path.write_text(POLICY, encoding="utf-8")
    policy = sandboxc.load_policy(str(path))
    assert sandboxc.compile_policy(policy, "bwrap").native == "native\n"
    with pytest.raises(ValueError, match="unknown target"):
        sandboxc.compile_policy(policy, "plan9")
    assert sandboxc.decide(policy, "write", "${workspace}/a").allowed
    assert not sandboxc.decide(policy, "write", "${workspace}/.git/config").allowed
    assert sandboxc.decide(policy, "read", "C:/x", os="windows").allowed
    with pytest.raises(PolicyError) as fault:
        sandboxc.decide(policy, "read", "relative")
    assert codes(fault) == {"SBX313"}
    path.write_text("sandboxc: 1\nmode: none\n", encoding="utf-8")
    with pytest.raises(PolicyError):
        sandboxc.load_policy(str(path))
    assert load(str(path)).policy is None
    assert host_system() in ("linux", "macos", "windows")

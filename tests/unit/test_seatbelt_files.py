"""The Seatbelt emitter: what its profiles let a process do with files, by path, pattern and parameter."""

from __future__ import annotations

import shutil

import pytest

from sandboxc.emitters.seatbelt.patterns import token
from sandboxc.emitters.seatbelt.printer import string
from sandboxc.facts import Facts
from sandboxc.globs import match_component
from tests.judges.seatbelt import SbplError, compile_regex, read_profile
from tests.unit._seatbelt import BARE, H, W, ask, compiled, profile

pytestmark = pytest.mark.skipif(shutil.which("tinyscheme") is None, reason="needs tinyscheme")


def test_standard_policy() -> None:
    """The default policy reads the host, writes the workspace, and keeps hidden and protected places."""
    found = profile("sandboxc: 1\nmode: workspace-write\ntemp: private\n")
    for operation, path, expected in (
        ("file-read-data", "/etc/hosts", True),
        ("file-read-data", f"{H}/.ssh/id_ed25519", False),
        ("process-exec*", "/bin/sh", True),
        ("process-exec*", f"{H}/.ssh/tool", False),
        ("file-map-executable", f"{H}/.ssh/lib", False),
        ("file-write-data", f"{W}/src/a.py", True),
        ("file-write-create", f"{W}/src/a.py", True),
        ("file-write-data", f"{H}/a.py", False),
        ("file-write-data", f"{W}/.git/index", True),
        ("file-write-data", f"{W}/.git/hooks/pre-commit", False),
        ("file-write-create", f"{W}/.git/hooks", False),
        ("file-link", f"{W}/.git/config", False),
        ("file-clone", f"{H}/a.py", False),
        ("file-link", f"{W}/src/a.py", True),
        ("file-write-unlink", f"{W}/.git", False),
        ("file-write-unlink", f"{W}/src", True),
        ("file-write-unlink", W, False),
        ("file-write-mode", W, True),
        ("file-write-create", "/private/tmp/sbx/r1/x", True),
        ("file-read-data", "/private/tmp/sbx/r2/x", False),
        ("file-write-create", "/private/tmp/x", False),
        ("network-outbound", "/private/var/run/docker.sock", False),
        ("network-outbound", f"{W}/run.sock", True),
        ("network-bind", f"{W}/run.sock", True),
        ("network-outbound", f"{W}/.git/hooks/x.sock", False),
    ):
        assert ask(found, operation, path) is expected, (operation, path)


def test_repositories_made_later() -> None:
    """A repository below the workspace has its hooks and configuration protected, whenever it is made."""
    found = profile("sandboxc: 1\nmode: workspace-write\ntemp: private\n")
    assert not ask(found, "file-write-data", f"{W}/sub/dir/.git/hooks/x")
    assert not ask(found, "file-write-create", f"{W}/sub/.git/config")
    assert not ask(found, "file-write-unlink", f"{W}/sub/.git", "DIRECTORY")
    assert not ask(found, "file-write-data", f"{W}/.git/modules/a/b/hooks/x")
    assert not ask(found, "file-write-unlink", f"{W}/.git/modules/a", "DIRECTORY")
    assert ask(found, "file-write-data", f"{W}/sub/.git/index")
    assert ask(found, "file-write-unlink", f"{W}/sub", "DIRECTORY")
    assert ask(found, "file-write-data", "/private/tmp/sbx/r1/clone/.git/hooks/x")


def test_git_as_a_file_or_a_link() -> None:
    """`.git` cannot be written where it is a file or a link; a directory of that name can be filled."""
    found = profile("sandboxc: 1\nmode: workspace-write\n")
    for at in (f"{W}/.git", f"{W}/tree/.git"):
        assert not ask(found, "file-write-data", at, "REGULAR-FILE")
        assert not ask(found, "file-write-mode", at, "SYMLINK")
        assert ask(found, "file-write-mode", at, "DIRECTORY")
    opened = profile('sandboxc: 1\nmode: workspace-write\nentries: [{path: "${workspace}/.git", access: write}]\n')
    assert ask(opened, "file-write-data", f"{W}/.git", "REGULAR-FILE")
    assert not ask(opened, "file-write-data", f"{W}/.git/hooks/x")


def test_boundary_and_pins() -> None:
    """An island's root can be filled but not removed; a directory above a stricter layer stays; others move."""
    found = profile(
        BARE + 'entries:\n  - {path: ~/box, access: write}\n  - {path: "${workspace}/a/secret", access: deny}\n'
    )
    assert ask(found, "file-write-create", f"{H}/box/x")
    assert not ask(found, "file-write-unlink", f"{H}/box")
    assert not ask(found, "file-write-unlink", f"{W}/a", "DIRECTORY")
    assert not ask(found, "file-write-unlink", f"{W}/a/secret")
    assert ask(found, "file-write-unlink", f"{W}/b", "DIRECTORY")
    assert ask(found, "file-write-create", f"{W}/c", "DIRECTORY")


def test_pattern_directories_stay_below_an_anchor() -> None:
    """Below `a/**/key` no directory leaves the pattern's reach by being moved; making directories is free."""
    found = profile(BARE + 'entries:\n  - {glob: "${workspace}/a/**/key", access: deny}\n')
    assert not ask(found, "file-write-unlink", f"{W}/a/x/y", "DIRECTORY")
    assert ask(found, "file-write-create", f"{W}/a/x/y", "DIRECTORY")
    assert not ask(found, "file-write-create", f"{W}/a/x/key", "DIRECTORY")
    assert ask(found, "file-write-unlink", f"{W}/a/x/y", "REGULAR-FILE")
    assert ask(found, "file-write-unlink", f"{W}/b/x", "DIRECTORY")


def test_globs() -> None:
    """A floating pattern holds below each write root, anchored there, in any case, and spares a literal layer."""
    found = profile(
        BARE
        + 'entries:\n  - {glob: "**/.env", access: deny, within: writable}\n'
        + '  - {path: "${workspace}/ok/.env", access: write}\n'
    )
    for path, readable in (
        (f"{W}/.env", False),
        (f"{W}/deep/er/.env", False),
        (f"{W}/deep/.env/x", False),
        (f"{W}/x/.ENV", False),
        (f"{W}/ok/.env", True),
        (f"{W}/deep/x.env", True),
        (f"{W}/deep/.envrc", True),
        (f"{H}/.env", True),
    ):
        assert ask(found, "file-read-data", path) is readable, path
    text = compiled(BARE + 'entries: [{glob: "**/.env", access: deny, within: writable}]\n').native
    assert "[.][eE][nN][vV]" in text and "(?" not in text
    exact = compiled(
        BARE + 'entries: [{glob: "**/.env", access: deny, within: writable}]\n', Facts(fold_case=False)
    ).native
    assert '"[.]env"' in exact


def test_regex_is_anchored_at_its_root() -> None:
    """A root whose path holds a match, or regex characters, is no match itself."""
    root = "/Users/me/.env/w+(x)[1]^$"
    found = profile(BARE + 'entries: [{glob: "**/.env", access: deny, within: writable}]\n', {"WORKSPACE": root})
    assert ask(found, "file-read-data", f"{root}/a")
    assert not ask(found, "file-read-data", f"{root}/a/.env")


def test_exceptions() -> None:
    """What an exception matches is left alone, but nothing below a match is."""
    found = profile(
        BARE + 'entries:\n  - {glob: "**/.env", access: deny, within: writable, except: ["**/example/**"]}\n'
    )
    assert ask(found, "file-read-data", f"{W}/example/a/.env")
    assert not ask(found, "file-read-data", f"{W}/a/.env")
    assert not ask(found, "file-read-data", f"{W}/.env/example/x")


def test_alternating_patterns_are_a_loss() -> None:
    """Where patterns meet, the stricter access holds and the policy is told so."""
    text = (
        BARE
        + 'entries:\n  - {glob: "${workspace}/**/keys/**", access: deny}\n'
        + '  - {glob: "${workspace}/**/*.pub", access: read}\n'
    )
    assert [(loss.code, loss.at) for loss in compiled(text).losses if loss.code == "SBX420"] == [
        ("SBX420", "${workspace}/**/*.pub")
    ]
    found = profile(text)
    assert not ask(found, "file-read-data", f"{W}/keys/a.pub") and not ask(found, "file-write-data", f"{W}/a.pub")
    apart = text.replace("**/*.pub", "out").replace("**/keys/**", "out/keys")
    assert not [loss for loss in compiled(apart).losses if loss.code == "SBX420"]


PATTERNS = r"* ? a*b [abc] [!abc] [a-c]x []] [!]] [a-] [^] [!A-z] [é-ü] [!é] é? a.b+c \ x[\-^]"
NAMES = r"a b c d A ab axb AXB é ü z ö ] [ - ^ \ x\ x^ x] éx éé a.b+c aéb _ B cx Cx"


@pytest.mark.parametrize("component", PATTERNS.split())
@pytest.mark.parametrize("fold", [False, True])
def test_component_patterns(component: str, fold: bool) -> None:
    """A component pattern's expression matches exactly the names that the pattern does."""
    found = compile_regex("^" + read_back(token(component, fold).regex) + "$")
    for name in NAMES.split():
        expected = match_component(component, name, fold)
        assert (found.search(name.encode()) is not None) == expected, (component, name, token(component, fold))


def read_back(text: str) -> str:
    """The text that the reader sees for a printed string."""
    rule = read_profile(f"(version 1)(allow file-read* (regex {string(text)}))").rules[0]
    assert rule.filter is not None
    return str(rule.filter[1])


NESTINGS = [
    {"WORKSPACE": "/Users/me/w", "HOME": "/Users/me", "CACHE": "/Users/me/w/c"},
    {"WORKSPACE": "/Users/me", "HOME": "/Users/me/h", "CACHE": "/Users/me/h"},
    {"WORKSPACE": "/Users/me", "HOME": "/Users/me", "CACHE": "/Users/me"},
    {"WORKSPACE": "/", "HOME": "/Users/me", "CACHE": "/private/c"},
    {"WORKSPACE": "/a", "HOME": "/b", "CACHE": "/a/keys"},
]


@pytest.mark.parametrize("values", NESTINGS)
def test_nesting_is_decided_at_load(values: dict[str, str]) -> None:
    """One text is right for each way in which its parameters lie in one another."""
    text = (
        BARE + "parameters: {cache: {type: path}}\nentries:\n"
        '  - {path: "${cache}", access: write}\n  - {path: "${workspace}/keys", access: deny}\n'
        "  - {path: ~/keys/pub, access: read}\n"
    )
    found = profile(text, values)
    w, h, c = (values[name].rstrip("/") for name in ("WORKSPACE", "HOME", "CACHE"))
    layers = [(w or "/", "write"), (c, "write"), (f"{w}/keys", "deny"), (f"{h}/keys/pub", "read")]
    for base in (w, h, c):
        for rest in ("/x", "/keys/x", "/keys/pub/x"):
            path = base + rest
            holding = [(place, access) for place, access in layers if (path + "/").startswith(place.rstrip("/") + "/")]
            depth = max((place.rstrip("/").count("/") for place, _ in holding), default=-1)
            here = [access for place, access in holding if place.rstrip("/").count("/") == depth] or ["read"]
            # `${cache}` at the place of `${workspace}/keys`: entry against entry, the stricter.
            access = min(here, key=("deny", "read", "write").index)
            assert ask(found, "file-read-data", path) is (access != "deny"), (path, access)
            assert ask(found, "file-write-data", path) is (access == "write"), (path, access)


def test_missing_parameters() -> None:
    """A profile without a required parameter does not load; an optional one takes its layers with it."""
    text = compiled("sandboxc: 1\nmode: read-only\n").native
    with pytest.raises(SbplError):
        read_profile(text, {"RUN_BASE": "/private/tmp/sbx"})
    for bad in ("relative", "", "/a/../b"):
        with pytest.raises(SbplError):
            read_profile(text, {"RUN_BASE": "/private/tmp/sbx", "HOME": bad})
    values = {"RUN_BASE": "/private/tmp/sbx", "HOME": H}
    agent = "/private/tmp/agent.1"
    assert ask(read_profile(text, values), "file-read-data", agent)
    assert not ask(read_profile(text, values | {"SSH_AUTH_SOCK": agent}), "file-read-data", agent)


def test_root_links() -> None:
    """A layer or a parameter spelled through a root link governs the physical place, and the link can be looked at."""
    found = profile(
        BARE.replace("workspace-write", "read-only") + "baseline: deny\nsystem: none\nentries:\n"
        "  - {path: /tmp/x, access: write}\n  - {path: /System/Volumes/Data/Users/z, access: read}\n"
        '  - {path: "${tmp}", access: read}\n  - {path: /home/q, access: read}\n',
        {"TMP": "/var/folders/t"},
    )
    assert ask(found, "file-write-data", "/private/tmp/x/y")
    assert ask(found, "file-read-data", "/Users/z/y")
    assert ask(found, "file-read-data", "/private/var/folders/t/y")
    assert ask(found, "file-read-data", "/System/Volumes/Data/home/q/y")
    assert ask(found, "file-read-metadata", "/tmp") and ask(found, "file-read-metadata", "/private/tmp")
    assert not ask(found, "file-read-data", "/private/tmp")


def test_metadata_of_ancestors() -> None:
    """A denied directory above something readable can be looked at but not listed; nothing else can."""
    found = profile(BARE + "entries:\n  - {path: ~/, access: deny}\n  - {path: ~/tools/ruby, access: read}\n")
    for path in (H, f"{H}/tools"):
        assert ask(found, "file-read-metadata", path)
        assert not ask(found, "file-read-data", path)
    assert ask(found, "file-read-data", f"{H}/tools/ruby/x")
    assert not ask(found, "file-read-metadata", f"{H}/other")
    assert not ask(found, "file-read-metadata", f"{H}/tools/perl")


def test_views() -> None:
    """Under `write /` too, /dev gives its listed devices and refuses the rest; terminals only with their extension."""
    found = profile(BARE + "entries: [{path: /, access: write}]\n")
    assert ask(found, "file-write-data", "/dev/null") and ask(found, "file-read-data", "/dev/urandom")
    assert not ask(found, "file-write-data", "/dev/urandom")
    assert not ask(found, "file-write-create", "/dev/x") and not ask(found, "file-read-data", "/dev/disk0")
    assert ask(found, "file-read-metadata", "/dev/disk0") and ask(found, "file-read-data", "/dev")
    assert not ask(found, "file-write-data", "/dev/tty")
    pty = "com.apple.sandbox.pty"
    assert ask(found, "file-write-data", "/dev/ttys003", facts={"extension": pty})
    assert not ask(found, "file-write-data", "/dev/ttys003")
    assert ask(found, "file-write-data", "/anything/else")


def test_baseline_deny() -> None:
    """Under baseline deny the base opens what a process needs, and an entry closes it again."""
    text = BARE + "baseline: deny\nsystem: none\n"
    found = profile(text)
    assert ask(found, "file-read-data", "/") and ask(found, "file-read-data", "/usr/lib/dyld")
    assert not ask(found, "file-read-data", "/usr/bin/ls") and not ask(found, "file-write-data", "/usr/lib/dyld")
    assert not ask(found, "file-read-data", f"{H}/x") and ask(found, "file-read-data", f"{W}/x")
    closed = profile(text + "entries: [{path: /usr/lib, access: deny}, {path: /private, access: deny}]\n")
    assert not ask(closed, "file-read-data", "/usr/lib/dyld")
    assert not ask(closed, "file-read-metadata", "/private/etc")

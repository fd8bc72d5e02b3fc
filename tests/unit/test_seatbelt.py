"""The Seatbelt emitter: sockets, network, bases and services; what its profiles are as texts; its losses' table."""

from __future__ import annotations

import re
import shutil

import pytest

from sandboxc import capability, losses
from sandboxc.catalogue.losses_seatbelt import SEATBELT_ROWS
from sandboxc.diagnostics import PolicyError
from sandboxc.emitters.artefact import Options
from sandboxc.emitters.seatbelt import definitions, emit, parameters, table
from sandboxc.emitters.seatbelt.emit import MAX_FILTERS
from sandboxc.emitters.seatbelt.printer import comment_word
from sandboxc.facts import Facts
from sandboxc.layers import ENTRY, MODE, Layer, Layers, bind, ordered
from sandboxc.loader import load_bytes
from sandboxc.lower import lower
from sandboxc.places import Place, posix
from tests.judges.seatbelt import Endpoint, read_profile
from tests.unit._seatbelt import BARE, VALUES, H, W, ask, compiled, profile

pytestmark = pytest.mark.skipif(shutil.which("tinyscheme") is None, reason="needs tinyscheme")


def test_sockets() -> None:
    """A socket is reached where writing is allowed, unless denied; elsewhere only by a connect entry."""
    found = profile(
        BARE + 'entries:\n  - {socket: "${workspace}/d/a.sock", access: deny}\n'
        "  - {socket: /var/run/x.sock, access: connect}\n  - {socket: ~/bound.sock, access: bind}\n"
        "  - {path: ~/locked, access: deny, locked: true}\n"
    )
    assert not ask(found, "network-outbound", f"{W}/d/a.sock", "SOCKET")
    assert not ask(found, "file-write-unlink", f"{W}/d", "DIRECTORY")
    assert not ask(found, "file-write-unlink", f"{W}/d/a.sock")
    assert ask(found, "network-outbound", f"{W}/d/b.sock", "SOCKET")
    assert ask(found, "network-outbound", "/private/var/run/x.sock", "SOCKET")
    assert not ask(found, "network-outbound", "/private/var/run/z.sock", "SOCKET")
    assert ask(found, "network-bind", f"{H}/bound.sock") and not ask(found, "network-bind", f"{H}/other.sock")
    assert not ask(found, "network-outbound", f"{H}/locked/y.sock", "SOCKET")


@pytest.mark.parametrize("base", ["closed", "open"])
@pytest.mark.parametrize(
    ("network", "host", "port", "expected"),
    [
        ("deny", "127.0.0.1", 80, False),
        ("deny", "192.0.2.1", 80, False),
        ("loopback", "127.0.0.1", 80, True),
        ("loopback", "::1", 80, True),
        ("loopback", "192.0.2.1", 80, False),
        ("{mode: loopback, ports: [3128]}", "127.0.0.1", 3128, True),
        ("allow-all", "192.0.2.1", 443, True),
    ],
)
def test_network(base: str, network: str, host: str, port: int, expected: bool) -> None:
    """Each mode lets through what it says, under the closed and under the open base."""
    found = profile(BARE + f"network: {network}\nmacos: {{base: {base}}}\n")
    answer = ask(found, "network-outbound", None, remote=Endpoint(host=host, port=port))
    assert answer is expected


def test_loopback_listens() -> None:
    """With `loopback` a server can bind and listen; with `deny` it cannot."""
    end = Endpoint(host="127.0.0.1", port=8000)
    for network, expected in (("loopback", True), ("deny", False)):
        found = profile(BARE + f"network: {network}\n")
        assert ask(found, "network-bind", None, local=end) is expected
        assert ask(found, "network-inbound", None, local=end) is expected


def test_open_base_keeps_the_layers() -> None:
    """Under the open base files, links and sockets follow the layers all the same, and the loss is reported."""
    text = BARE + "macos: {base: open}\nentries: [{path: ~/k, access: deny}]\n"
    found = profile(text)
    assert ask(found, "mach-lookup", None, facts={"global-name": "anything"})
    for operation in ("file-read-data", "file-write-data", "file-link", "process-exec*", "network-outbound"):
        assert not ask(found, operation, f"{H}/k/x"), operation
    assert not ask(found, "network-outbound", "/private/var/run/docker.sock")
    assert ask(found, "network-outbound", f"{W}/x.sock")
    assert [(loss.code, loss.kind, loss.at) for loss in compiled(text).losses if loss.code == "SBX410"] == [
        ("SBX410", "wider", "macos.base")
    ]


def test_services() -> None:
    """A named service adds its rules and opens its hidden places; the base alone does not."""
    text = "sandboxc: 1\nmode: workspace-write\n"
    plain, keychain = profile(text), profile(text + "macos: {services: [keychain]}\n")
    server = {"global-name": "com.apple.SecurityServer"}
    assert not ask(plain, "mach-lookup", None, facts=server) and ask(keychain, "mach-lookup", None, facts=server)
    path = f"{H}/Library/Keychains/login.keychain-db"
    assert not ask(plain, "file-read-data", path) and ask(keychain, "file-write-data", path)
    denied = "entries: [{path: ~/Library/Keychains, access: deny}]\n"
    assert not ask(profile(text + "macos: {services: [keychain]}\n" + denied), "file-read-data", path)
    locked = denied.replace("/Keychains, access: deny", ", access: deny, locked: true")
    with pytest.raises(PolicyError, match="SBX429"):
        compiled(text + "macos: {services: [keychain]}\n" + locked)
    with pytest.raises(PolicyError, match="SBX427"):
        compiled(text, macos_services=("keychains",))
    assert any(loss.code == "SBX410" for loss in compiled(text, macos_services=("open-urls",)).losses)


ODD = [
    'q"x',
    "I:\\",
    "it's here",
    "two  spaces",
    "!down",
    "Fonts (Removed)",
    "[a]*?",
    "-x",
    "ü\u00e9",
    "n" * 255,
    '"' * 200,
    ";#|",
]


@pytest.mark.parametrize("name", ODD)
def test_odd_names(name: str) -> None:
    """Odd but legal names read back as themselves, as literal places and below a pattern."""
    layers = [
        Layer(Place("home", (name,)), "deny", ENTRY),
        Layer(Place("workspace", (name, "k")), "write", ENTRY),
    ]
    text = emit(Layers("macos", "workspace-write", "read", ordered(layers)), Facts(), Options()).native
    found = read_profile(text, VALUES)
    assert not ask(found, "file-read-data", f"{H}/{name}/x") and ask(found, "file-read-data", f"{H}/{name}x")
    assert ask(found, "file-write-data", f"{W}/{name}/k/x")
    for literal in re.findall(r'"((?:[^"\\]|\\.)*)"', text):
        assert len(literal.encode()) <= 255


def test_comments_carry_no_policy_text() -> None:
    """A policy name cannot leave its comment."""
    artefact = compiled(BARE, name='x\n(allow default) ; "', digest="abc\n(allow default)")
    assert "(allow default)" not in artefact.native
    assert comment_word("a\nb(c)") == "a-b-c-"


def test_bulk() -> None:
    """260 worktrees with 3 protected paths each and 130 denies of 80 characters make one readable profile."""
    layers = [Layer(Place("workspace", ()), "write", MODE)]
    for index in range(260):
        tree = Place("workspace", ("trees", f"branch-{index:03}"))
        layers += [Layer(tree.child(name), "read", ENTRY) for name in (".git", ".hg", "vendor")]
    deep = tuple(f"d{index}" for index in range(11))
    layers += [Layer(Place("home", (*deep, f"{index:03}" + "x" * 40)), "deny", ENTRY) for index in range(130)]
    artefact = emit(Layers("macos", "workspace-write", "read", ordered(layers)), Facts(), Options())
    assert len(artefact.files["seatbelt.sb"]) < 128 * 1024
    found = read_profile(artefact.native, VALUES)
    assert not ask(found, "file-write-data", f"{W}/trees/branch-259/vendor/x")
    assert ask(found, "file-write-data", f"{W}/trees/branch-259/src/x")
    assert not ask(found, "file-read-data", f"{H}/{'/'.join(deep)}/129{'x' * 40}/key")


def test_too_large() -> None:
    """A profile that a compiler of macOS might not take is refused with its size."""
    layers = [Layer(Place("home", (str(index),)), "deny", ENTRY) for index in range(MAX_FILTERS // 2 + 1)]
    with pytest.raises(PolicyError, match="SBX428"):
        emit(Layers("macos", "read-only", "read", ordered(layers)), Facts(), Options())


def test_no_confinement() -> None:
    """`danger-full-access` without an entry is a profile that allows everything."""
    text = emit(Layers("macos", "danger-full-access", "read"), Facts(), Options()).native
    assert ask(read_profile(text, {}), "file-write-data", "/x")


def test_parameters_and_definitions() -> None:
    """The names that a profile reads are listed, and a bound stack reads none."""
    policy = load_bytes("p.yaml", b"sandboxc: 1\nmode: workspace-write\n").policy
    assert policy is not None
    lowered = lower(policy, "macos").value
    assert lowered is not None
    names = parameters(lowered.layers)
    assert {"DOCKER_SOCK", "HOME", "RUN_BASE", "SSH_AUTH_SOCK", "WORKSPACE"} <= set(names) and "RUN_TMP" not in names
    text = emit(lowered.layers, Facts(), Options()).native
    assert set(re.findall(r'sbx-root "([A-Z_]+)"', text)) == set(names)
    places = {"home": posix(H), "workspace": posix(W), "run-base": posix("/private/tmp/sbx")}
    assert definitions(lowered.layers, places) == (
        "-D", f"HOME={H}", "-D", "RUN_BASE=/private/tmp/sbx", "-D", f"WORKSPACE={W}",
    )  # fmt: skip
    bound = bind(lowered.layers, places)
    assert parameters(bound) == ()
    found = read_profile(emit(bound, Facts(), Options()).native, {})
    assert ask(found, "file-write-data", f"{W}/x") and not ask(found, "file-read-data", f"{H}/.ssh/x")


def test_table_and_catalogue() -> None:
    """Each feature has one row, each row that is a loss a code with a page, and losses come from rows."""
    rows = table(Facts()).rows
    assert [row.feature for row in rows] == sorted((row.feature for row in rows), key=list(capability.FEATURES).index)
    assert {row.feature for row in rows} == set(capability.FEATURES) and len(rows) == len(capability.FEATURES)
    pages = {row.code for row in SEATBELT_ROWS}
    for row in rows:
        assert (row.status == capability.EXACT) == (row.code == ""), row
        assert row.status in (capability.EXACT, *losses.KINDS)
        assert not row.code or row.code in pages, row


def test_same_bytes() -> None:
    """Two compiles of one policy give the same bytes."""
    text = "sandboxc: 1\nmode: workspace-write\ntemp: private\n"
    assert compiled(text).files == compiled(text).files

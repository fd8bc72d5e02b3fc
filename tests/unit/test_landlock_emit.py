"""The Landlock emitter: the capability table, the symbolic plan, and what it declares lost."""

import json

import pytest

from sandboxc import capability, landlock_abi, seccomp
from sandboxc.emitters import landlock
from sandboxc.facts import Facts
from sandboxc.losses import apply_waivers
from tests.unit._landlock import (
    ALL_ABIS,
    BARE,
    HEAD,
    bound,
    emitted,
    policy_of,
    tree,
)

# -- the capability table -------------------------------------------------------------------------------------


@pytest.mark.parametrize("abi", [0, *ALL_ABIS, 64])
def test_table_has_one_row_a_feature(abi: int) -> None:
    """Every feature of the support matrix has exactly one row under every ABI."""
    rows = landlock.table(Facts(landlock_abi=abi)).rows
    assert [row.feature for row in rows] == list(capability.FEATURES)
    assert all(bool(row.code) != (row.status == capability.EXACT) for row in rows)


def test_table_follows_the_abi() -> None:
    """Standing limits end with the ABI that brings the right or scope."""
    ends = {"truncate": 3, "sockets-existing": 9, "sockets-abstract": 6, "signals": 6, "rename-across-pins": 2}
    for feature, abi in ends.items():
        assert landlock.table(Facts(landlock_abi=abi - 1)).row(feature).status != capability.EXACT
        assert landlock.table(Facts(landlock_abi=abi)).row(feature).status == capability.EXACT


def test_every_code_has_a_page() -> None:
    """Each loss code of the table has its row in the catalogue of this target, and no row is left over."""
    from sandboxc.catalogue.losses_landlock import LANDLOCK_ROWS
    from sandboxc.emitters.landlock.capability import ROWS

    used = {item.row.code for item in ROWS if item.row.code}
    assert [row.code for row in LANDLOCK_ROWS] == sorted(used)


# -- the symbolic plan ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("abi", ALL_ABIS)
def test_emission_is_stable_and_symbolic(abi: int) -> None:
    """Two emissions are equal, the plan is sorted JSON with a final newline, and parameters stay symbolic."""
    text = HEAD + "entries:\n  - {path: ~/keys, access: deny}\n"
    first, second = emitted(text, abi), emitted(text, abi)
    assert first == second
    assert first.native.endswith("}\n") and not first.native.endswith("\n\n")
    data = json.loads(first.native)
    assert json.dumps(data, indent=1, sort_keys=True, ensure_ascii=False) + "\n" == first.native
    assert data["layers"]["places"]["write"] == ["${workspace}"]
    assert "${home}/keys" in data["layers"]["places"]["deny"]
    assert data["abi"] == abi and data["handled_fs"] == list(landlock_abi.names(landlock_abi.handled_fs(abi)))
    assert set(first.files) == {"landlock.json", *(f"landlock-seccomp-{arch}.bpf" for arch in seccomp.ARCHES)}
    assert first.files["landlock.json"] == first.native.encode()


def test_companion_filters_follow_network_and_abi() -> None:
    """The filter files are those of the policy's network mode; below ABI 9 they leave no Unix sockets."""
    for abi in (6, 9):
        for mode in ("deny", "loopback", "allow-all"):
            files = emitted(HEAD + f"network: {mode}\n", abi).files
            for arch in seccomp.ARCHES:
                want = seccomp.landlock_filter(arch, network=mode, abi=abi)
                assert files[f"landlock-seccomp-{arch}.bpf"] == want
                answer = seccomp.evaluate(want, arch, seccomp.number(arch, "socket"), [1, 1, 0])
                assert answer.action == ("allow" if abi == 9 or mode == "allow-all" else "errno")


def test_losses_of_a_plain_policy_do_not_stop() -> None:
    """A policy without globs and entries compiles with standing limits and narrower losses only."""
    for abi in ALL_ABIS:
        assert not any(loss.stops for loss in emitted(HEAD, abi).losses)


def test_a_kernel_without_landlock_stops() -> None:
    """ABI 0 is one `unenforced` loss that stops, and finalising refuses."""
    losses = emitted(HEAD, 0).losses
    assert [loss.code for loss in losses if loss.stops] == ["SBX450"]
    plan, _ = bound(HEAD, tree(), 0)
    assert [item.code for item in plan.diagnostics] == ["SBX450"] and not plan.rules


def test_written_globs_are_snapshots() -> None:
    """A glob that a person wrote is an unconditional snapshot loss at its text; a waiver there is matched."""
    glob = 'entries:\n  - {glob: "**/.env", access: deny, within: writable}\n'
    losses = emitted(BARE + glob).losses
    assert {(loss.code, loss.at) for loss in losses if loss.stops} == {("SBX456", "**/.env")}
    waive = 'waive:\n  - {loss: SBX456, target: landlock, at: "**/.env", reason: r}\n'
    policy = policy_of(BARE + glob + waive)
    assert not apply_waivers(emitted(BARE + glob + waive).losses, policy.waivers, "landlock").diagnostics[1:]


def test_waived_protected_names_are_declared_wider() -> None:
    """With the waiver the protected names of the root are one wider loss, and without it the narrower one."""
    waive = 'waive:\n  - {loss: SBX453, target: landlock, at: "${workspace}", reason: r}\n'
    plain = {(loss.code, loss.kind) for loss in emitted(HEAD).losses if loss.at == "${workspace}"}
    waived = {(loss.code, loss.kind) for loss in emitted(HEAD + waive).losses if loss.at == "${workspace}"}
    assert ("SBX451", "narrower") in plain and ("SBX453", "wider") not in plain
    assert waived == {("SBX453", "wider")}
    assert json.loads(emitted(HEAD + waive).native)["not_expanded"] == ["${workspace}"]


def test_network_losses() -> None:
    """Loopback and ports are narrower losses; a waived port list opens TCP ports from ABI 4 on."""
    loop = HEAD + "network: {mode: loopback, ports: [3128, 80]}\n"
    assert {loss.code for loss in emitted(loop).losses if loss.at == "network"} == {"SBX466", "SBX467"}
    waive = loop + "waive:\n  - {loss: SBX468, target: landlock, at: network, reason: r}\n"
    assert "SBX468" in {loss.code for loss in emitted(waive).losses}
    connect = landlock_abi.NET_BITS["connect_tcp"]
    assert bound(waive, tree(), 7)[0].ports == ((80, connect), (3128, connect))
    assert bound(loop, tree(), 7)[0].ports == ()
    assert bound(waive, tree(), 3)[0].ports == ()
    assert "SBX468" not in {loss.code for loss in emitted(waive, 3).losses}
    assert bound(HEAD + "network: allow-all\n", tree(), 11)[0].handled_net == 0
    assert bound(HEAD, tree(), 11)[0].handled_net == landlock_abi.handled_net(11)


def test_a_socket_deny_that_nothing_holds_stops() -> None:
    """Below ABI 9 with an open network a written socket deny is unenforced and stops; from ABI 9 on it holds."""
    text = HEAD + "network: allow-all\nentries:\n  - {socket: /run/d.sock, access: deny}\n"
    assert {loss.at for loss in emitted(text, 8).losses if loss.stops} == {"/run/d.sock"}
    assert not any(loss.stops for loss in emitted(text, 9).losses)

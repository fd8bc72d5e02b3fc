import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandboxc import seccomp
from sandboxc.seccomp import FAMILIES, NETWORKS, SYSCALLS, evaluate, number

ARCHES = ("x86_64", "aarch64")
ALLOW = ("allow", 0)
ACCES = ("errno", 13)
PERM = ("errno", 1)
NOSYS = ("errno", 38)
STREAM, DGRAM, RAW, SEQPACKET, PACKET = 1, 2, 3, 5, 10
FLAGS = 0o2004000  # SOCK_CLOEXEC | SOCK_NONBLOCK


def every_program(arch: str) -> list[bytes]:
    """Return each program that can be made for an architecture."""
    made = [seccomp.bwrap_filter(arch, network=network) for network in NETWORKS]
    made += [
        seccomp.landlock_filter(arch, network=network, abi=abi, tcp_ports=tcp, unix=unix)
        for abi in (1, 7, 8, 9, 11)
        for network in NETWORKS
        for tcp in (False, True)
        for unix in (None, False, True)
    ]
    return made


def ask(program: bytes, arch: str, name: str, *args: int) -> tuple[str, int]:
    verdict = evaluate(program, arch, number(arch, name), args)
    return verdict.action, verdict.errno


@pytest.mark.parametrize("arch", ARCHES)
def test_every_program_is_whole_short_and_total(arch: str) -> None:
    """Programs are 8-byte structs, of a length that the kernel takes, and answer every number."""
    for program in every_program(arch):
        assert len(program) % 8 == 0
        assert len(program) // 8 <= 64
        for nr in (*range(470), 0x3FFFFFFF, 0xFFFFFFFF, -1):
            evaluate(program, arch, nr)


@pytest.mark.parametrize("arch", ARCHES)
def test_programs_are_bytes_that_do_not_change(arch: str) -> None:
    """Making a program twice gives the same bytes."""
    assert every_program(arch) == every_program(arch)


@pytest.mark.parametrize("arch", ARCHES)
def test_foreign_call_abis_do_not_exist(arch: str) -> None:
    """A call through another architecture's entry, harmless or not, is ENOSYS."""
    for program in every_program(arch):
        for other in ("x86_64", "aarch64", "i386", "arm", 0, 0xFFFFFFFF):
            if other != arch:
                for nr in (0, 1, 41, 198, 359, 425):
                    assert evaluate(program, other, nr)[:2] == NOSYS


def test_x32_does_not_exist() -> None:
    """A number with the x32 bit is ENOSYS on x86-64."""
    for program in every_program("x86_64"):
        for nr in (0x40000000, 0x40000000 | 41, 0x40000000 | 1, 0xFFFFFFFF):
            assert evaluate(program, "x86_64", nr)[:2] == NOSYS


@pytest.mark.parametrize("arch", ARCHES)
def test_io_uring_does_not_exist(arch: str) -> None:
    """The three io_uring calls are ENOSYS under every mode."""
    for program in every_program(arch):
        for name in ("io_uring_setup", "io_uring_enter", "io_uring_register"):
            assert ask(program, arch, name, 1, 2, 3) == NOSYS


@pytest.mark.parametrize("arch", ARCHES)
def test_terminal_injection_is_refused_whatever_the_upper_half_says(arch: str) -> None:
    """TIOCSTI and TIOCLINUX are EPERM also with bits above the 32 that the kernel looks at."""
    for program in every_program(arch):
        for upper in (0, 1 << 32, 0xFFFFFFFF << 32):
            assert ask(program, arch, "ioctl", 0, upper | 0x5412) == PERM
            assert ask(program, arch, "ioctl", 0, upper | 0x541C) == PERM
            assert ask(program, arch, "ioctl", 0, upper | 0x5413) == ALLOW
        assert ask(program, arch, "ioctl", 0x5412, 0x5401, 0x5412) == ALLOW


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("network", ["deny", "loopback"])
def test_landlock_deny_leaves_no_network_socket(arch: str, network: str) -> None:
    """Under deny, and under loopback without ports, only Unix and route sockets are made."""
    program = seccomp.landlock_filter(arch, network=network, abi=9)
    for family in range(50):
        for kind in (STREAM, DGRAM | FLAGS, RAW, SEQPACKET, PACKET):
            for protocol in (0, 6, 17, 262):
                allowed = family == FAMILIES["unix"] or (family == FAMILIES["netlink"] and protocol == 0)
                expected = ALLOW if allowed else ACCES
                assert expected == ask(program, arch, "socket", family, kind, protocol)


@pytest.mark.parametrize("arch", ARCHES)
def test_below_abi_9_unix_sockets_come_in_connected_pairs_only(arch: str) -> None:
    """Nothing but a pair of a connected type is made of AF_UNIX, as a datagram end could be sent anywhere."""
    for network in ("deny", "loopback"):
        program = seccomp.landlock_filter(arch, network=network, abi=8)
        assert ask(program, arch, "socket", 1, STREAM, 0) == ACCES
        assert ask(program, arch, "socket", 1, DGRAM | FLAGS, 0) == ACCES
        assert ask(program, arch, "socketpair", 1, STREAM | FLAGS, 0) == ALLOW
        assert ask(program, arch, "socketpair", 1, SEQPACKET, 0) == ALLOW
        assert ask(program, arch, "socketpair", 1, DGRAM, 0) == ACCES
        assert ask(program, arch, "socketpair", 1, DGRAM | FLAGS, 0) == ACCES
        assert ask(program, arch, "socketpair", 1, RAW, 0) == ACCES
        assert ask(program, arch, "socketpair", 30, STREAM, 0) == ACCES
    program = seccomp.landlock_filter(arch, network="deny", abi=9)
    assert ask(program, arch, "socketpair", 1, DGRAM, 0) == ALLOW
    assert ask(program, arch, "socketpair", 2, STREAM, 0) == ACCES


@pytest.mark.parametrize("arch", ARCHES)
def test_unix_sockets_can_be_decided_by_the_caller(arch: str) -> None:
    """`unix` goes before what the ABI and the mode say, both ways."""
    open_ = seccomp.landlock_filter(arch, network="deny", abi=7, unix=True)
    shut = seccomp.landlock_filter(arch, network="allow-all", abi=11, unix=False)
    assert ask(open_, arch, "socket", 1, STREAM, 0) == ALLOW
    assert ask(shut, arch, "socket", 1, STREAM, 0) == ACCES
    assert ask(shut, arch, "socket", 2, STREAM, 0) == ALLOW
    assert ask(shut, arch, "socketpair", 1, STREAM, 0) == ALLOW


@pytest.mark.parametrize("arch", ARCHES)
def test_loopback_with_ports_is_tcp_streams_only(arch: str) -> None:
    """TCP of both versions is left to port rules; UDP, MPTCP, raw and fast open are not."""
    program = seccomp.landlock_filter(arch, network="loopback", abi=9, tcp_ports=True)
    for family in (2, 10):
        assert ask(program, arch, "socket", family, STREAM | FLAGS, 0) == ALLOW
        assert ask(program, arch, "socket", family, STREAM, 6) == ALLOW
        assert ask(program, arch, "socket", family, STREAM, 262) == ACCES
        assert ask(program, arch, "socket", family, DGRAM, 0) == ACCES
        assert ask(program, arch, "socket", family, RAW, 6) == ACCES
        assert ask(program, arch, "socket", family, PACKET, 0) == ACCES
    assert ask(program, arch, "sendto", 3, 0, 9, 0x20000000 | 0x4000, 0, 0) == ACCES
    assert ask(program, arch, "sendmmsg", 3, 0, 1, 0x20000000) == ACCES
    assert ask(program, arch, "sendmsg", 3, 0, 0x20000000) == ACCES
    assert ask(program, arch, "sendmsg", 3, 0, 0x4000, 0x20000000) == ALLOW
    assert ask(program, arch, "sendto", 3, 0, 0x20000000, 0x4000) == ALLOW


@pytest.mark.parametrize("arch", ARCHES)
def test_bwrap_leaves_the_name_space_its_families(arch: str) -> None:
    """Unix, inet, inet6 and route sockets work in the private network; vsock, packet and others do not."""
    for network in ("deny", "loopback"):
        program = seccomp.bwrap_filter(arch, network=network)
        for family in range(50):
            expected = ALLOW if family in (1, 2, 10, 16) else ACCES
            assert expected == ask(program, arch, "socket", family, STREAM, 0)
        assert ask(program, arch, "socket", 16, RAW, 12) == ACCES
        assert ask(program, arch, "socket", 2, PACKET | FLAGS, 0) == ACCES
        assert ask(program, arch, "socketpair", 1, DGRAM, 0) == ALLOW


@pytest.mark.parametrize("arch", ARCHES)
def test_allow_all_still_refuses_packet_and_vsock(arch: str) -> None:
    """Under allow-all everything but packet sockets, by either spelling, and vsock is made."""
    for program in (
        seccomp.bwrap_filter(arch, network="allow-all"),
        seccomp.landlock_filter(arch, network="allow-all", abi=7),
    ):
        for family in range(50):
            expected = ACCES if family in (17, 40) else ALLOW
            assert expected == ask(program, arch, "socket", family, DGRAM, 0)
        assert ask(program, arch, "socket", 2, PACKET, 0) == ACCES
        assert ask(program, arch, "socketpair", 30, STREAM, 0) == ALLOW


@pytest.mark.parametrize("arch", ARCHES)
@given(args=st.lists(st.integers(0, 2**64 - 1), max_size=6), data=st.data())
def test_upper_halves_never_change_an_answer(arch: str, args: list[int], data: st.DataObject) -> None:
    """A filter answers the same with the upper half of any argument set or cleared."""
    name = data.draw(st.sampled_from(sorted(SYSCALLS[arch])))
    for program in every_program(arch)[:4]:
        low = [value & 0xFFFFFFFF for value in args]
        assert ask(program, arch, name, *low) == ask(program, arch, name, *args)


@pytest.mark.parametrize("arch", ARCHES)
@given(nr=st.integers(0, 0x3FFFFFFF), args=st.lists(st.integers(0, 2**64 - 1), max_size=6))
def test_calls_that_no_filter_names_pass(arch: str, nr: int, args: list[int]) -> None:
    """What a filter does not look at it allows."""
    if nr not in SYSCALLS[arch].values():
        for program in every_program(arch)[:4]:
            assert evaluate(program, arch, nr, args)[:2] == ALLOW


def test_rows_say_what_the_programs_do() -> None:
    """The table as data and the compiled filter agree on socket(2) for every family and type."""
    for network in NETWORKS:
        rows = [
            (seccomp.ROWS["bwrap", network], seccomp.bwrap_filter("x86_64", network=network)),
            (
                seccomp.landlock_row(network=network, abi=7),
                seccomp.landlock_filter("x86_64", network=network, abi=7),
            ),
            (
                seccomp.landlock_row(network=network, abi=9, tcp_ports=True),
                seccomp.landlock_filter("x86_64", network=network, abi=9, tcp_ports=True),
            ),
        ]
        for row, program in rows:
            by_number = {FAMILIES[name]: what for name, what in row.families.items()}
            for family in range(50):
                for kind in (STREAM, DGRAM, RAW, PACKET):
                    for protocol in (0, 6, 9):
                        what = by_number.get(family, "any" if row.others else "none")
                        allowed = {
                            "any": True,
                            "none": False,
                            "pair": False,
                            "route": protocol == 0,
                            "no-packet": kind != PACKET,
                            "stream": kind == STREAM and protocol in (0, 6),
                        }[what]
                        expected = ALLOW if allowed else ACCES
                        assert expected == ask(program, "x86_64", "socket", family, kind, protocol)


def test_unknown_words_are_errors() -> None:
    """An architecture, network mode or call that is not known is refused."""
    with pytest.raises(ValueError, match="riscv64"):
        seccomp.bwrap_filter("riscv64", network="deny")
    with pytest.raises(ValueError, match="some"):
        seccomp.bwrap_filter("x86_64", network="some")
    with pytest.raises(ValueError, match="some"):
        seccomp.landlock_filter("x86_64", network="some", abi=7)
    with pytest.raises(ValueError, match="open"):
        number("x86_64", "open")


@pytest.mark.parametrize(
    ("program", "text"),
    [
        (b"", "whole number"),
        (b"123", "whole number"),
        (struct.pack("<HBBI", 0x20, 0, 0, 64), "load from"),
        (struct.pack("<HBBI", 0x20, 0, 0, 2), "load from"),
        (struct.pack("<HBBI", 0x20, 0, 0, 0), "without a return"),
        (struct.pack("<HBBI", 0x15, 9, 9, 0), "without a return"),
        (struct.pack("<HBBI", 0x99, 0, 0, 0), "unknown instruction"),
    ],
)
def test_broken_programs_are_errors(program: bytes, text: str) -> None:
    """The interpreter refuses what the kernel's checker would refuse."""
    with pytest.raises(ValueError, match=text):
        evaluate(program, "x86_64", 0)


def test_other_actions_are_told_apart() -> None:
    """A return value that is neither allow nor errno is `other`, with its raw value."""
    program = struct.pack("<HBBI", 0x06, 0, 0, 0x80000000)
    assert evaluate(program, "x86_64", 0) == ("other", 0, 0x80000000)
    with pytest.raises(ValueError, match="six"):
        evaluate(program, "x86_64", 0, range(7))

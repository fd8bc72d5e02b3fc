import re

import pytest

from sandboxc import landlock_abi as abi


def test_versions_are_numbered_in_order() -> None:
    """Version n is the n-th row, and every row says where it is written."""
    assert list(range(1, abi.LATEST + 1)) == [row.version for row in abi.ABIS]
    assert all(row.source and re.fullmatch(r"\d+\.\d+", row.kernel) for row in abi.ABIS)


def test_kernel_releases_ascend() -> None:
    """A later ABI never came with an earlier kernel."""
    releases = [tuple(int(part) for part in row.kernel.split(".")) for row in abi.ABIS]
    assert sorted(set(releases)) == releases


@pytest.mark.parametrize(
    ("rows", "table"),
    [
        ([name for row in abi.ABIS for name in row.fs], abi.FS_BITS),
        ([name for row in abi.ABIS for name in row.net], abi.NET_BITS),
        ([name for row in abi.ABIS for name in row.scoped], abi.SCOPE_BITS),
        ([name for row in abi.ABIS for name in row.restrict_flags], abi.RESTRICT_BITS),
    ],
)
def test_rows_and_bits_hold_the_same_names(rows: list[str], table: dict[str, int]) -> None:
    """Every name of a table is added by exactly one version, in the order of its bits, with no gap."""
    assert list(table) == rows
    assert [1 << index for index in range(len(table))] == list(table.values())


@pytest.mark.parametrize(
    ("version", "mask"),
    [
        (0, 0),
        (1, 0x1FFF),
        (2, 0x3FFF),
        (3, 0x7FFF),
        (4, 0x7FFF),
        (5, 0xFFFF),
        (8, 0xFFFF),
        (9, 0x1FFFF),
        (11, 0x1FFFF),
    ],
)
def test_handled_fs_is_the_kernels_mask(version: int, mask: int) -> None:
    """The full mask of each ABI is LANDLOCK_MASK_ACCESS_FS of the kernel that has it."""
    assert mask == abi.handled_fs(version)


def test_other_masks_grow_at_their_versions() -> None:
    """Network rights, scopes and flags appear exactly where the table says."""
    assert [abi.handled_net(n) for n in range(1, 12)] == [0, 0, 0, 3, 3, 3, 3, 3, 3, 15, 15]
    assert [abi.scopes(n) for n in range(1, 12)] == [0, 0, 0, 0, 0, 3, 3, 3, 3, 3, 3]
    assert [abi.restrict_flags(n) for n in range(1, 12)] == [0, 0, 0, 0, 0, 0, 7, 15, 15, 15, 31]


def test_a_newer_abi_counts_as_the_newest_known() -> None:
    """A kernel from the future is used as far as the table goes; a negative number is an error."""
    assert abi.handled_fs(abi.LATEST) == abi.handled_fs(99)
    with pytest.raises(ValueError, match="-1"):
        abi.handled_fs(-1)


@pytest.mark.parametrize("version", range(abi.LATEST + 1))
def test_access_masks_stay_inside_the_abi(version: int) -> None:
    """No access asks for a right that its ABI does not know, and write holds read."""
    everything = abi.handled_fs(version)
    for mask in (
        abi.file_rights(version),
        abi.read_rights(version),
        abi.write_rights(version),
        abi.device_rights(version),
        abi.connect_rights(version),
    ):
        assert mask & ~everything == 0
    assert abi.read_rights(version) == abi.read_rights(version) & abi.write_rights(version)
    assert abi.read_rights(version) & abi.modify_rights(version) == 0


def test_write_makes_no_device_and_connects_to_nothing() -> None:
    """Device nodes, device ioctl and sockets that exist are not part of the access `write`."""
    assert {"make_char", "make_block", "ioctl_dev", "resolve_unix"} == set(
        abi.names(abi.handled_fs(11) & ~abi.write_rights(11))
    )


def test_names_and_bits_are_inverse() -> None:
    """Names give bits and bits give the same names back, in bit order."""
    assert abi.names(abi.bits(["read_dir", "execute"])) == ("execute", "read_dir")
    assert abi.bits(abi.NET_BITS, abi.NET_BITS) == 0xF


def test_unknown_names_and_bits_are_errors() -> None:
    """A name or a bit that no ABI has is refused and named."""
    with pytest.raises(ValueError, match="read_everything"):
        abi.bits(["read_everything"])
    with pytest.raises(ValueError, match="0x20000"):
        abi.names(1 << 17)
    with pytest.raises(ValueError, match="door"):
        abi.mask_for_kind(1, "door")


def test_kinds_limit_rights() -> None:
    """A directory carries everything, a link nothing, other nodes the rights on files."""
    everything = abi.handled_fs(11)
    assert everything == abi.mask_for_kind(everything, "directory")
    assert abi.mask_for_kind(everything, "symlink") == 0
    for kind in ("file", "fifo", "socket", "char-device", "block-device"):
        assert abi.file_rights(11) == abi.mask_for_kind(everything, kind)


def test_minimum_abi_is_the_first_that_knows_all() -> None:
    """The lowest sufficient version is found; a bit that none knows is an error."""
    assert abi.minimum_abi() == 0
    assert abi.minimum_abi(abi.bits(["truncate"])) == 3
    assert abi.minimum_abi(abi.bits(["execute"]), abi.bits(["bind_udp"], abi.NET_BITS)) == 10
    assert abi.minimum_abi(scoped=1) == 6
    with pytest.raises(ValueError, match="knows"):
        abi.minimum_abi(1 << 40)

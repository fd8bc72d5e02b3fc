"""The survey: symbolic links, other names of objects, and sockets."""

from collections.abc import Mapping
from typing import Any

import pytest

from sandboxc.policy import DENY, READ, WRITE
from sandboxc.survey import TreeLook, resolve
from tests.unit._survey import BARE, DIR, FILE, HEAD, SOCKET, at, codes, entries, link, stack_of, survey

# -- links -------------------------------------------------------------------------------------------------


def test_link_chain_governs_the_target() -> None:
    """A layer spelled through a chain of links stands where the chain ends, and each hop is remembered."""
    tree = {"/w/a": link("b"), "/w/b": link("/w/d/c"), "/w/d/c": FILE}
    found = survey(entries('{path: "${workspace}/a", access: deny}'), tree)
    assert at(found, "/w/d/c") == DENY
    assert at(found, "/w/d") == WRITE
    assert found.links == ("/w/a", "/w/b")


def test_link_of_a_parent_is_followed() -> None:
    """A link in the middle of a path is followed too, `..` in its text included."""
    tree = {"/w/x/l": link("../y"), "/w/y/secret": FILE}
    found = survey(entries('{path: "${workspace}/x/l/secret", access: deny}'), tree)
    assert at(found, "/w/y/secret") == DENY
    assert found.links == ("/w/x/l",)


def test_absent_place_behind_a_link() -> None:
    """A place that is absent behind a link is the place where it would appear."""
    tree = {"/w/l": link("d"), "/w/d": DIR}
    found = survey(entries('{path: "${workspace}/l/new/x", access: deny}'), tree)
    (site,) = [site for site in found.sites if site.access == DENY and site.path.startswith("/w")]
    assert (site.path, site.kind, site.missing) == ("/w/d/new/x", "absent", "/w/d/new")


def test_loop_of_links_is_an_error() -> None:
    """An entry that runs in circles is refused with its line."""
    tree = {"/w/a": link("b"), "/w/b": link("a")}
    found = survey(entries('{path: "${workspace}/a/x", access: deny}'), tree)
    assert codes(found) == ["SBX711"]
    assert found.diagnostics[0].span is not None


def test_loop_below_a_preset_name_is_no_error() -> None:
    """A looping link at a protected name, which a run might have planted, does not stop the next run."""
    found = survey(HEAD, {"/w/.npmrc": link(".npmrc")})
    assert codes(found) == []
    assert at(found, "/w/.npmrc") == READ


def test_workspace_reached_through_a_link() -> None:
    """A workspace spelled through a link outside writable directories is simply its target."""
    tree = {"/home/u/ws": link("/data/ws"), "/data/ws": DIR, "/data/ws/keep": FILE}
    text = entries('{path: "${workspace}/keep", access: read}')
    found = resolve(stack_of(text, workspace="/home/u/ws"), TreeLook(tree), "/home/u")
    assert codes(found) == []
    assert (at(found, "/data/ws/x"), at(found, "/data/ws/keep"), at(found, "/data")) == (WRITE, READ, READ)
    assert found.links == ()


@pytest.mark.parametrize("access", ["read", "write"])
def test_grant_through_a_link_in_a_writable_directory_is_refused(access: str) -> None:
    """What a run could have planted for the next one opens nothing: a grant through such a link is an error."""
    head = BARE + "baseline: deny\n"
    tree = {"/w/out": link("/etc"), "/etc/passwd": FILE}
    found = survey(entries(f'{{path: "${{workspace}}/out", access: {access}}}', head=head), tree)
    assert codes(found) == ["SBX712"]
    assert "/w/out" in found.diagnostics[0].message


def test_link_made_writable_by_another_line() -> None:
    """The directory of the link may be writable by another entry: the grant is refused all the same."""
    tree = {"/data/l": link("/etc/app"), "/etc/app": DIR}
    lines = ("{path: /data, access: write}", "{path: /data/l/conf, access: write}")
    assert codes(survey(entries(*lines), tree)) == ["SBX712"]
    assert codes(survey(entries(lines[1]), tree)) == []


def test_two_planted_links_do_not_vouch_for_each_other() -> None:
    """Two entries that reach one place through links that a run could plant are both refused."""
    tree = {"/w/a": link("/etc/app"), "/w/b": link("/etc/app"), "/etc/app": DIR}
    lines = ('{path: "${workspace}/a", access: write}', '{path: "${workspace}/b", access: write}')
    assert codes(survey(entries(*lines), tree)) == ["SBX712", "SBX712"]


def test_grant_through_a_link_that_adds_nothing_is_fine() -> None:
    """A link inside the workspace that leads to another part of it grants nothing new."""
    tree = {"/w/a": link("b"), "/w/b": DIR}
    assert codes(survey(entries('{path: "${workspace}/a", access: write}'), tree)) == []


def test_granting_pattern_behind_a_planted_link_is_refused() -> None:
    """A pattern whose literal head runs through a replaceable link grants nothing through it."""
    tree = {"/w/l": link("/etc"), "/etc/a.conf": FILE}
    found = survey(entries('{glob: "${workspace}/l/*.conf", access: write}'), tree)
    assert codes(found) == ["SBX712"]


def test_denial_through_a_planted_link_holds() -> None:
    """A denial through a link in a writable directory covers the target and keeps the link."""
    tree = {"/w/l": link("/data/s"), "/data/s": FILE}
    found = survey(entries('{path: "${workspace}/l", access: deny}'), tree)
    assert (at(found, "/data/s"), found.links, codes(found)) == (DENY, ("/w/l",), [])


def test_hops_of_what_is_opened() -> None:
    """The links that an opened place was spelled through are listed with their texts; those of denials are not."""
    head = BARE + "baseline: deny\nsystem: none\n"
    tree = {"/etc/resolv.conf": link("../run/r"), "/run/r": FILE, "/etc/s": link("t"), "/etc/t": FILE}
    lines = ("{path: /etc/resolv.conf, access: read}", "{path: /etc/s, access: deny}")
    found = survey(entries(*lines, head=head), tree)
    assert found.hops == (("/etc/resolv.conf", "../run/r"),)
    assert at(found, "/run/r") == READ


def test_places_that_meet_only_at_binding() -> None:
    """Two entries that become one place through a link take the stricter access, and that is reported."""
    tree = {"/data/a": link("b"), "/data/b": DIR}
    found = survey(entries("{path: /data/a, access: write}", "{path: /data/b, access: deny}"), tree)
    assert at(found, "/data/b") == DENY
    assert codes(found) == ["SBX715"]


# -- aliases -----------------------------------------------------------------------------------------------


def test_other_hard_links_of_a_denied_file() -> None:
    """The other names of a denied file inside writable roots are denied as well."""
    tree = {"/home/u/key": {"inode": "k"}, "/w/a/copy": {"inode": "k"}, "/w/b": FILE}
    found = survey(entries("{path: ~/key, access: deny}"), tree)
    assert (at(found, "/w/a/copy"), at(found, "/w/b")) == (DENY, WRITE)
    (site,) = [site for site in found.sites if site.alias_of]
    assert (site.path, site.alias_of) == ("/w/a/copy", "/home/u/key")


def test_hard_links_of_files_below_a_denied_directory() -> None:
    """Files anywhere below a denied directory count; an island that is open again does not."""
    tree = {
        "/home/u/d/x/key": {"inode": "k"},
        "/w/copy": {"inode": "k"},
        "/home/u/d/open/f": {"inode": "o"},
        "/w/fine": {"inode": "o"},
    }
    found = survey(entries("{path: ~/d, access: deny}", "{path: ~/d/open, access: read}"), tree)
    assert (at(found, "/w/copy"), at(found, "/w/fine")) == (DENY, WRITE)


def test_hard_links_of_protected_names() -> None:
    """A second name of a hook is read-only, also where the hook belongs to a nested repository."""
    tree = {
        "/w/n/.git/hooks/pre-commit": {"inode": "h"},
        "/w/n/.git/HEAD": FILE,
        "/w/n/tool.sh": {"inode": "h"},
    }
    found = survey(HEAD, tree)
    assert (at(found, "/w/n/tool.sh"), at(found, "/w/n/.git/hooks")) == (READ, READ)


def test_hard_links_of_what_a_pattern_denies() -> None:
    """What a pattern matched has its other names looked for too."""
    tree = {"/w/p/.env": {"inode": "e"}, "/w/q": {"inode": "e"}}
    found = survey(entries('{glob: "**/.env", access: deny, within: writable}'), tree)
    assert at(found, "/w/q") == DENY


def test_many_files_and_a_hard_link() -> None:
    """In a large tree the same other names are found, by another route."""
    tree: dict[str, Mapping[str, Any]] = {f"/w/d{i % 50}/f{i}": FILE for i in range(4200)}
    tree |= {"/home/u/key": {"inode": "k"}, "/w/d3/copy": {"inode": "k"}, "/w/d3/own": {"inode": "z"}}
    tree |= {"/w/d4/own": {"inode": "z"}}
    found = survey(entries("{path: ~/key, access: deny}"), tree)
    assert (at(found, "/w/d3/copy"), at(found, "/w/d3/own")) == (DENY, WRITE)


def test_hard_links_to_readable_files_stay() -> None:
    """A link to a file that only the baseline covers is a published limit, and left alone."""
    tree = {"/usr/lib/x": {"inode": "x"}, "/w/x": {"inode": "x"}}
    assert at(survey(entries("{path: /usr, access: read}"), tree), "/w/x") == WRITE


def test_second_mount_above_a_denied_place() -> None:
    """Where a second mount shows a directory above a denied place, the place is denied there too."""
    tree = {"/data/secret/k": FILE, "/data/x": FILE}
    found = survey(entries("{path: /data/secret, access: deny}"), tree, [{"point": "/mnt/d", "of": "/data"}])
    assert (at(found, "/mnt/d/secret/k"), at(found, "/mnt/d/x")) == (DENY, READ)


def test_second_mount_of_something_inside_a_denied_place() -> None:
    """Where a second mount shows a part of a denied directory, the whole mount is denied."""
    tree = {"/data/secret/sub/k": FILE}
    found = survey(entries("{path: /data/secret, access: deny}"), tree, [{"point": "/mnt/s", "of": "/data/secret/sub"}])
    assert at(found, "/mnt/s/k") == DENY


def test_second_mount_of_an_island() -> None:
    """A second mount of a writable island below a denied directory shows what is open anyway."""
    tree = {"/home/u/w/f": FILE}
    text = entries("{path: ~/, access: deny}")
    found = survey(text, tree, [{"point": "/w", "of": "/home/u/w"}], workspace="/home/u/w")
    assert (at(found, "/w/f"), at(found, "/home/u/w/f"), at(found, "/home/u/x")) == (READ, WRITE, DENY)


def test_other_file_systems_are_no_aliases() -> None:
    """A mount of a file system of its own is nobody's second name."""
    tree = {"/data/secret/k": FILE, "/mnt/d/secret/k": FILE}
    found = survey(entries("{path: /data/secret, access: deny}"), tree, ["/mnt/d"])
    assert at(found, "/mnt/d/secret/k") == READ


# -- sockets -----------------------------------------------------------------------------------------------


def test_existing_sockets() -> None:
    """Sockets that exist may not be connected to, in write roots too; denied places hide theirs anyway."""
    tree = {"/run/d.sock": SOCKET, "/w/t/s": SOCKET, "/home/u/k/a": SOCKET}
    found = survey(entries("{path: ~/k, access: deny}"), tree)
    assert found.sockets == ("/run/d.sock", "/w/t/s")


def test_socket_lines() -> None:
    """A `connect` line opens one socket, below a denied directory too; `bind` and `deny` open none."""
    tree = {"/home/u/k/a": SOCKET, "/run/b": SOCKET, "/run/c": SOCKET}
    lines = (
        "{path: ~/k, access: deny}",
        "{socket: ~/k/a, access: connect}",
        "{socket: /run/b, access: bind}",
        "{socket: /run/c, access: deny}",
    )
    found = survey(entries(*lines), tree)
    assert (found.connectable, found.sockets) == (("/home/u/k/a",), ("/run/b", "/run/c"))


def test_socket_line_through_links() -> None:
    """A socket line follows links; where two lines meet the stricter holds; a planted link opens nothing."""
    tree = {"/var/run": link("/run"), "/run/d.sock": SOCKET, "/w/s": link("/run/d.sock")}
    assert survey(entries("{socket: /var/run/d.sock, access: connect}"), tree).connectable == ("/run/d.sock",)
    both = entries("{socket: /var/run/d.sock, access: connect}", "{socket: /run/d.sock, access: deny}")
    assert survey(both, tree).connectable == ()
    found = survey(entries('{socket: "${workspace}/s", access: connect}'), tree)
    assert codes(found) == ["SBX712"]

"""The survey: bound layers on described trees become sites: patterns, absent places, locks, restrictions."""

import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandboxc.layers import Index, Layers, restrict
from sandboxc.loader import load_bytes
from sandboxc.lower import lower
from sandboxc.places import posix
from sandboxc.policy import DENY, READ, WRITE
from sandboxc.survey import TreeLook, resolve
from sandboxc.survey.look import Walker
from sandboxc.survey.walk import walk
from tests.unit._survey import BARE, DIR, FILE, HEAD, SOCKET, at, codes, entries, git_dir, link, stack_of, survey

# -- patterns ----------------------------------------------------------------------------------------------


def test_literal_beats_pattern() -> None:
    """At one node a literal line beats a pattern of the same origin; below it the pattern holds again."""
    tree = {"/w/a/.env": FILE, "/w/b/.env": FILE}
    lines = ('{glob: "**/.env", access: deny, within: writable}', '{path: "${workspace}/a/.env", access: write}')
    found = survey(entries(*lines), tree)
    assert (at(found, "/w/a/.env"), at(found, "/w/b/.env")) == (WRITE, DENY)


def test_pattern_exceptions() -> None:
    """What an exception matches is left alone, with everything below it."""
    tree = {"/w/a/.env": FILE, "/w/t/fix/.env": FILE, "/w/t/fix/deep/.env": FILE}
    found = survey(entries('{glob: "**/.env", access: deny, within: writable, except: ["t/fix"]}'), tree)
    assert [at(found, f"/w/{name}/.env") for name in ("a", "t/fix", "t/fix/deep")] == [DENY, WRITE, WRITE]


def test_pattern_match_that_is_a_link() -> None:
    """A denying match that is a link covers what it leads to; a granting one does so only where no run planted it."""
    tree = {"/w/.env": link("real"), "/w/real": FILE, "/srv/a/c.pem": link("/k/c.pem"), "/k/c.pem": FILE}
    found = survey(entries('{glob: "**/.env", access: deny, within: writable}'), tree)
    assert (at(found, "/w/.env"), at(found, "/w/real"), found.links) == (DENY, DENY, ("/w/.env",))
    head = BARE + "baseline: deny\nsystem: none\n"
    assert at(survey(entries("{glob: /srv/*/*.pem, access: read}", head=head), tree), "/k/c.pem") == READ
    lines = ("{glob: /srv/*/*.pem, access: read}", "{path: /srv/a, access: write}")
    assert at(survey(entries(*lines, head=head), tree), "/k/c.pem") == DENY


def test_reading_match_that_is_a_link() -> None:
    """A pattern that makes matches read-only covers the target of a link as well."""
    tree = {"/w/x.lock": link("real"), "/w/real": FILE}
    found = survey(entries('{glob: "**/*.lock", access: read, within: writable}'), tree)
    assert (at(found, "/w/x.lock"), at(found, "/w/real")) == (READ, READ)


def test_pattern_through_a_directory_link() -> None:
    """A component that matches a link to a directory goes on behind it; `**` does not."""
    tree = {"/srv/p/l": link("/data/q"), "/data/q/.env": FILE, "/data/q/x/.env": FILE}
    found = survey(entries("{glob: /srv/p/*/.env, access: deny}"), tree)
    assert (at(found, "/data/q/.env"), at(found, "/data/q/x/.env")) == (DENY, READ)
    found = survey(entries("{glob: /srv/**/.env, access: deny}"), tree)
    assert at(found, "/data/q/.env") == READ


def test_pattern_outside_writable_roots() -> None:
    """An anchored pattern is looked for outside the writable roots too, and an absent anchor is nothing."""
    tree = {"/srv/a/k.pem": FILE, "/srv/b/x": FILE}
    found = survey(entries("{glob: /srv/*/*.pem, access: deny}", "{glob: /opt/x/*.pem, access: deny}"), tree)
    assert (at(found, "/srv/a/k.pem"), at(found, "/srv/b/x"), found.incomplete) == (DENY, READ, ())


def test_pattern_everywhere() -> None:
    """A pattern that holds everywhere is looked for in the whole tree."""
    tree = {"/srv/a/.env": FILE, "/w/.env": FILE, "/proc/1/.env": FILE}
    found = survey(entries('{glob: "**/.env", access: deny, within: everywhere}'), tree)
    assert [at(found, path) for path in ("/srv/a/.env", "/w/.env", "/proc/1/.env")] == [DENY, DENY, READ]


def test_pattern_that_covers_its_anchor() -> None:
    """`dir/**` holds at the directory itself, so nothing can be made in it either."""
    found = survey(entries('{glob: "${workspace}/gen/**", access: deny}'), {"/w/gen/a/b": FILE})
    assert [at(found, path) for path in ("/w/gen", "/w/gen/new", "/w/gen/a/b", "/w/x")] == [DENY, DENY, DENY, WRITE]


def test_pattern_that_covers_everything_stays_small() -> None:
    """A pattern with `**` at its end makes one site, not one for each file, and more only around other layers."""
    tree = {f"/w/gen/d{i}/f{j}": FILE for i in range(20) for j in range(20)}
    lines = ('{glob: "${workspace}/gen/**", access: read}', '{path: "${workspace}/gen/d3", access: write}')
    found = survey(entries(*lines), tree)
    stack = Index(stack_of(entries(*lines)))
    for path in ("/w/gen", "/w/gen/d3", "/w/gen/d3/f1", "/w/gen/d4/f1"):
        assert at(found, path) == stack.access(posix(path)), path
    assert len(found.sites) < 40


def test_pattern_at_the_workspace_itself() -> None:
    """A pattern that matches a writable root itself decides there by the same rules as a literal line."""
    found = survey(entries("{glob: /srv/*, access: read}"), {"/srv/ws/a": FILE}, workspace="/srv/ws")
    assert at(found, "/srv/ws/a") == READ


def test_a_writable_root_of_everything() -> None:
    """With `/` writable the other roots are looked through, `/` itself is not, and that is said."""
    tree = {**git_dir("/w/.git"), **git_dir("/srv/r/.git"), "/srv/.env": FILE}
    lines = ("{path: /, access: write}", '{glob: "**/.env", access: deny, within: writable}')
    found = survey(entries(*lines, head=HEAD), tree)
    assert [item.top for item in found.repositories] == ["/w"]
    assert at(found, "/srv/.env") == DENY
    assert any("`/` is writable" in words for words in found.incomplete)


def test_roots_that_only_a_pattern_brings() -> None:
    """A directory made writable by a pattern is looked through like any root: sockets, repositories, patterns."""
    tree = {"/srv/a/build/s.sock": SOCKET, "/srv/a/build/n/.git/HEAD": FILE, "/srv/a/build/n/.git/hooks": DIR}
    found = survey(entries("{glob: /srv/*/build, access: write}", head=HEAD), tree)
    assert found.sockets == ("/srv/a/build/s.sock",)
    assert at(found, "/srv/a/build/n/.git/hooks") == READ


def test_odd_names_in_patterns() -> None:
    """Names with pattern characters on the way to an anchor are read literally."""
    tree = {"/w/a[1]*/x.env": FILE, "/w/a1b/x.env": FILE}
    found = survey(entries('{glob: "${workspace}/*.env", access: deny}'), tree, workspace="/w/a[1]*")
    assert at(found, "/w/a[1]*/x.env") == DENY
    look = TreeLook(tree)
    (layer,) = [layer for layer in stack_of(entries('{glob: "/w/a1b/*.env", access: deny}')).layers if layer.span][1:]
    assert [match.path for match in walk(look, ["/w"], [layer]).matches] == ["/w/a1b/x.env"]


def test_walk_bound() -> None:
    """A walk that reaches its bound says so, and stops a policy whose own patterns need it."""
    look = TreeLook({f"/w/d{i}/f{j}": FILE for i in range(30) for j in range(30)})
    assert walk(look, ["/w"], (), bound=100).exhausted
    assert not walk(look, ["/w"], (), bound=2000).exhausted


def test_exhausted_walk_refuses_written_patterns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pattern that a person wrote is never half looked for; presets are noted as incomplete."""
    monkeypatch.setattr(sys.modules["sandboxc.survey.resolve"], "walk", lambda *a, **k: walk(*a, **{**k, "bound": 3}))
    tree = {f"/w/d{i}/f": FILE for i in range(10)}
    found = survey(entries('{glob: "**/.env", access: deny, within: writable}', head=HEAD), tree)
    assert set(codes(found)) == {"SBX713"}
    assert any("more names" in words for words in found.incomplete)
    assert codes(survey(HEAD, tree)) == []


# -- absent places, file roots, hidden paths ---------------------------------------------------------------


def test_absent_places_say_what_is_missing() -> None:
    """An absent place names the first component that is not there."""
    found = survey(entries('{path: "${workspace}/a/b/c", access: deny}'), {"/w/a": DIR})
    (site,) = [site for site in found.sites if site.access == DENY and site.path.startswith("/w")]
    assert (site.kind, site.missing, site.above, site.node) == ("absent", "/w/a/b", WRITE, None)


def test_file_root_has_no_protected_children() -> None:
    """A writable file is a root of its own without protected names below it."""
    found = survey(entries("{path: /srv/log.txt, access: write}", head=HEAD), {"/srv/log.txt": FILE})
    assert [site.path for site in found.sites if site.path.startswith("/srv")] == ["/srv/log.txt"]
    assert {site.path for site in found.write_roots} == {"/w", "/srv/log.txt"}


def test_workspace_inside_a_hidden_path() -> None:
    """A workspace inside a hidden path stays reachable and that is said; under baseline deny it is nothing special."""
    found = survey(HEAD, {"/home/u/.ssh/w": DIR}, workspace="/home/u/.ssh/w")
    assert codes(found) == ["SBX714"]
    assert (at(found, "/home/u/.ssh/w/x"), at(found, "/home/u/.ssh/id")) == (WRITE, DENY)
    assert codes(survey(HEAD + "baseline: deny\n", {})) == []


def test_write_roots_are_every_boundary() -> None:
    """Write roots are the writable places whose surroundings are not writable, islands below read layers included."""
    lines = (
        '{path: "${workspace}/v", access: read}',
        '{path: "${workspace}/v/out", access: write}',
        '{path: "${workspace}/same", access: write}',
    )
    found = survey(entries(*lines), {"/w/v/out": DIR, "/w/same": DIR})
    assert [site.path for site in found.write_roots] == ["/w", "/w/v/out"]


# -- locks -------------------------------------------------------------------------------------------------


def test_lock_that_shows_only_at_binding() -> None:
    """A workspace bound below a locked denial is an error with both lines."""
    text = entries("{path: ~/keys, access: deny, locked: true}")
    assert codes(survey(text, {})) == []
    found = survey(text, {}, workspace="/home/u/keys/w")
    assert codes(found) == ["SBX345", "SBX714"]
    assert found.diagnostics[0].labels


def test_lock_reached_through_a_link() -> None:
    """A lock holds at the place that its links lead to."""
    tree = {"/home/u/k": link("/data/k"), "/data/k": DIR}
    lines = ("{path: ~/k, access: deny, locked: true}", "{path: /data/k/open, access: read}")
    assert codes(survey(entries(*lines), tree)) == ["SBX345"]


def test_locked_pattern() -> None:
    """A locked pattern is a ceiling at each of its matches."""
    lines = (
        '{glob: "/srv/*/secret", access: deny, locked: true}',
        "{path: /srv/a/secret/x, access: read}",
    )
    assert codes(survey(entries(lines[0]), {"/srv/a/secret": DIR})) == []
    loaded = load_bytes("p.yaml", entries(*lines).encode()).policy
    assert loaded is not None
    assert [item.code for item in lower(loaded, "linux").diagnostics] == ["SBX345"]


def test_lock_and_a_granting_pattern() -> None:
    """A pattern that could grant below a lock is refused before binding, whether or not anything matches yet."""
    lines = ("{path: /srv/a, access: read, locked: true}", "{glob: /srv/*/out, access: write}")
    policy = load_bytes("p.yaml", entries(*lines).encode()).policy
    assert policy is not None
    assert [item.code for item in lower(policy, "linux").diagnostics] == ["SBX345"]


# -- flattening --------------------------------------------------------------------------------------------

NAMES = ("a", "b", "c")
PLACES = st.lists(st.sampled_from(NAMES), max_size=4).map(lambda parts: "/" + "/".join(("w", *parts)))
LINES = st.lists(st.tuples(PLACES, st.sampled_from([DENY, READ, WRITE])), max_size=6, unique_by=lambda item: item[0])


@settings(max_examples=60, deadline=None)
@given(LINES, LINES, st.sampled_from([READ, DENY]), st.booleans())
def test_sites_agree_with_the_layers(own: Any, asked: Any, baseline: str, narrowed: bool) -> None:
    """In a tree without links the sites say at every path just what the stack and its ceilings say."""
    head = BARE.replace("workspace-write", "read-only") + "baseline: read\n"

    def made(lines: Any) -> Layers:
        return stack_of(entries(*(f"{{path: {p}, access: {a}}}" for p, a in lines), head=head) if lines else head)

    stack = made(own)
    if narrowed:
        other = made(asked)
        stack = restrict(stack, baseline, other.layers)
    found = resolve(stack, TreeLook({}), "/home/u")
    index = Index(stack)
    paths = {"/", "/w", "/home", "/run/sbx/x"} | {
        "/w/" + "/".join(parts) for parts in [(x, y, z) for x in NAMES for y in NAMES for z in NAMES]
    }
    for path in sorted(paths | {path for path, _ in (*own, *asked)}):
        for shown in (path, path.rstrip("/") + "/zz"):
            assert found.access(shown) == index.access(posix(shown)), shown


def test_restriction_with_a_denying_baseline() -> None:
    """A restriction whose baseline denies closes everything that it does not name."""
    stack = restrict(stack_of(BARE), DENY, [layer for layer in stack_of(BARE).layers if layer.source == "workspace"])
    found = resolve(stack, TreeLook({"/w": DIR}), "")
    assert (found.baseline, at(found, "/etc"), at(found, "/w/x")) == (DENY, DENY, WRITE)
    empty = resolve(restrict(stack_of(BARE), DENY, ()), TreeLook({"/w": DIR}), "")
    assert (at(empty, "/w"), at(empty, "/w/x")) == (DENY, DENY)


def test_pattern_in_a_restriction() -> None:
    """A restriction's floating pattern holds below the writable roots that it narrows."""
    asked = stack_of(entries('{glob: "**/.env", access: deny, within: writable}'))
    floating = [layer for layer in asked.layers if layer.text == "**/.env" and layer.where.anchor is None]  # type: ignore[union-attr]
    stack = restrict(stack_of(BARE), WRITE, floating)
    assert Index(stack).access(posix("/w/a/.env")) == DENY
    found = resolve(stack, TreeLook({"/w/a/.env": FILE}), "")
    assert at(found, "/w/a/.env") == DENY


# -- answers about trees -----------------------------------------------------------------------------------


def test_walker_follows_odd_targets() -> None:
    """Links with dots, doubled separators and trailing separators lead where the kernel would go."""
    look = TreeLook({"/a/l": link("..//b/./c/"), "/b/c/f": FILE, "/up": link("../../b")})
    walker = Walker(look)
    assert walker.walk("/a/l/f").path == "/b/c/f"
    assert walker.walk("/up/c").path == "/b/c"
    assert walker.walk("/a/l", follow=False).path == "/a/l"
    assert walker.walk("/a/..").path == "/"
    assert walker.walk("/b/c/f/x").missing == "/b/c/f/x"


def test_tree_look_understands_the_root() -> None:
    """A description may name the root itself; numbers of objects stay distinct."""
    look = TreeLook({"/": DIR, "/a": FILE, "/b/c": FILE})
    assert [name.name for name in look.names("/") or ()] == ["a", "b"]
    found = [look.node(path) for path in ("/", "/a", "/b", "/b/c")]
    assert len({node.ino for node in found if node}) == 4
    with pytest.raises(ValueError, match="unknown type"):
        TreeLook({"/a": {"type": "door"}})


def test_surveys_are_repeatable() -> None:
    """The same tree gives the same sites in the same order, whatever the order of its description."""
    tree = {**git_dir("/w/.git"), "/w/b/.env": FILE, "/w/a/.env": FILE, "/w/l": link("a")}
    text = entries('{glob: "**/.env", access: deny, within: writable}', head=HEAD)
    assert survey(text, tree) == survey(text, dict(reversed(list(tree.items()))))

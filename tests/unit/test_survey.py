"""The survey: bound layers on described trees become sites, whatever links, mounts and repositories are there."""

import sys
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandboxc.layers import Index, Layers, bind, restrict
from sandboxc.loader import load_bytes
from sandboxc.lower import lower
from sandboxc.places import posix
from sandboxc.policy import DENY, READ, WRITE
from sandboxc.survey import Resolved, TreeLook, resolve
from sandboxc.survey.look import Walker
from sandboxc.survey.walk import walk

VALUES = {
    "workspace": "/w",
    "home": "/home/u",
    "tmp": "/tmp",
    "user-config": "/home/u/.config",
    "user-cache": "/home/u/.cache",
    "run-base": "/run/sbx",
    "run-tmp": "/run/sbx/1",
}
HEAD = "sandboxc: 1\nmode: workspace-write\ntargets: [bwrap, landlock]\n"
BARE = HEAD + "hidden: {preset: none, reason: test}\nprotected: {preset: none, reason: test}\n"

Tree = Mapping[str, Mapping[str, Any]]
DIR = {"type": "directory"}
FILE = {"type": "file"}
SOCKET = {"type": "socket"}


def link(target: str) -> dict[str, str]:
    """Return the description of a symbolic link."""
    return {"type": "link", "target": target}


def stack_of(text: str, **values: str) -> Layers:
    """Return the bound linux layers of a policy text."""
    loaded = load_bytes("policy.yaml", text.encode())
    assert loaded.policy is not None, loaded.diagnostics
    lowered = lower(loaded.policy, "linux")
    assert lowered.value is not None, lowered.diagnostics
    bound = {name: posix(path) for name, path in {**VALUES, **values}.items()}
    return bind(lowered.value.layers, bound)


def survey(text: str, tree: Tree, mounts: Iterable[Any] = (), **values: str) -> Resolved:
    """Return what a survey of a policy in a described tree finds."""
    bound = {**VALUES, **values}
    return resolve(stack_of(text, **values), TreeLook({bound["workspace"]: DIR, **tree}, tuple(mounts)), bound["home"])


def entries(*lines: str, head: str = BARE) -> str:
    """Return a policy text with these entries."""
    return head + "entries:\n" + "".join(f"  - {line}\n" for line in lines)


def codes(found: Resolved) -> list[str]:
    """Return the codes of what a survey reported."""
    return [item.code for item in found.diagnostics]


def at(found: Resolved, path: str) -> str:
    """Return the access that a survey found at a path."""
    return found.access(path)


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


# -- repositories ------------------------------------------------------------------------------------------

GIT_DIR = {"HEAD": FILE, "config": FILE, "hooks/x.sample": FILE, "objects": DIR, "refs": DIR}


def git_dir(path: str, **more: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the description of a git directory."""
    return {f"{path}/{name}": spec for name, spec in {**GIT_DIR, **more}.items()}


def test_nested_repository() -> None:
    """A repository inside the workspace has its hooks, configuration and direct names protected."""
    found = survey(HEAD, {**git_dir("/w/.git"), **git_dir("/w/sub/n/.git"), "/w/sub/n/.envrc": FILE})
    for name in (".git/hooks", ".git/config", "sub/n/.git/hooks", "sub/n/.git/config", "sub/n/.envrc"):
        assert at(found, f"/w/{name}") == READ, name
    assert at(found, "/w/sub/n/.git/index") == WRITE
    assert [item.top for item in found.repositories] == ["/w", "/w/sub/n"]


def test_linked_worktree() -> None:
    """A `.git` file is read-only, nothing is said below it, and the real directories are protected."""
    tree = {
        "/w/.git": {"content": "gitdir: /m/.git/worktrees/x\n"},
        **git_dir("/m/.git"),
        "/m/.git/worktrees/x/commondir": {"content": "../..\n"},
        "/m/.git/worktrees/x/HEAD": FILE,
        "/m/.git/worktrees/x/gitdir": FILE,
    }
    found = survey(entries("{path: /m/.git, access: write}", head=HEAD), tree)
    assert at(found, "/w/.git") == READ
    assert not [site.path for site in found.sites if site.path.startswith("/w/.git/")]
    for name in ("hooks", "config", "worktrees/x/commondir", "worktrees/x/gitdir"):
        assert at(found, f"/m/.git/{name}") == READ, name
    assert at(found, "/m/.git/objects/x") == WRITE


def test_granted_git_directory_alone() -> None:
    """A git directory that is itself a writable root has its hooks and configuration protected."""
    found = survey(entries("{path: /m/.git, access: write}", head=HEAD), git_dir("/m/.git"))
    assert (at(found, "/m/.git/hooks"), at(found, "/m/.git/config"), at(found, "/m/.git/x")) == (READ, READ, WRITE)


def test_submodule_and_bare_repository() -> None:
    """The git directories of submodules and bare repositories are protected wherever they lie."""
    tree = {
        **git_dir("/w/.git"),
        "/w/lib/.git": {"content": "gitdir: ../.git/modules/lib\n"},
        **git_dir("/w/.git/modules/lib"),
        **git_dir("/w/mirror.git"),
    }
    found = survey(HEAD, tree)
    for name in ("lib/.git", ".git/modules/lib/hooks", ".git/modules/lib/config", "mirror.git/hooks"):
        assert at(found, f"/w/{name}") == READ, name
    assert at(found, "/w/mirror.git/objects") == WRITE


def test_git_directory_behind_a_link() -> None:
    """Where `.git` is a link it cannot be replaced, and what it leads to is protected."""
    found = survey(HEAD, {"/w/.git": link("real"), **git_dir("/w/real")})
    assert (at(found, "/w/.git"), at(found, "/w/real/hooks"), at(found, "/w/real/objects")) == (READ, READ, WRITE)


def test_hooks_behind_a_link() -> None:
    """Where a nested repository's hooks are a link, both the link and what it leads to are protected."""
    tree = {**git_dir("/w/n/.git"), "/w/shared/pre-commit": FILE}
    del tree["/w/n/.git/hooks/x.sample"]
    found = survey(HEAD, {**tree, "/w/n/.git/hooks": link("../../shared")})
    assert (at(found, "/w/n/.git/hooks"), at(found, "/w/shared/pre-commit")) == (READ, READ)


CONFIG = """
[core]
\tbare = false
[include]
\tpath = ../shared.inc ; ours
[includeIf "gitdir:~/x/"]
\tpath = "~/in home.inc"
"""


def test_what_configuration_names() -> None:
    """Included files, files that those include, and hooks paths are protected, comments and quotes understood."""
    tree = {
        **git_dir("/w/.git"),
        "/w/.git/config": {"content": CONFIG},
        "/w/shared.inc": {"content": '[core]\n\thooksPath = "my \\"hooks\\"" # yes\n[include]\n\tpath = deep.inc\n'},
        "/w/deep.inc": FILE,
        '/w/my "hooks"/pre-commit': FILE,
        "/home/u/in home.inc": FILE,
    }
    found = survey(entries("{path: ~/, access: write}", head=HEAD + "hidden: {preset: none, reason: t}\n"), tree)
    for path in ("/w/shared.inc", "/w/deep.inc", '/w/my "hooks"', "/home/u/in home.inc"):
        assert at(found, path) == READ, path


def test_hooks_path_of_the_global_configuration() -> None:
    """A relative hooks path in the user's own configuration is protected in every working tree."""
    tree = {
        "/home/u/.gitconfig": {"content": "[core]\nhooksPath = .githooks\n"},
        **git_dir("/w/.git"),
        **git_dir("/w/n/.git"),
    }
    found = survey(HEAD, tree)
    assert (at(found, "/w/.githooks"), at(found, "/w/n/.githooks")) == (READ, READ)


def test_hooks_path_of_a_worktree() -> None:
    """A relative hooks path of the common configuration is protected in the worktree that uses it."""
    tree = {
        "/w/.git": {"content": "gitdir: /m/.git/worktrees/x\n"},
        **git_dir("/m/.git"),
        "/m/.git/config": {"content": "[core]\nhooksPath = hk\n"},
        "/m/.git/worktrees/x/commondir": {"content": "../..\n"},
    }
    assert at(survey(HEAD, tree), "/w/hk") == READ


def test_removed_presets_protect_nothing() -> None:
    """Without protected names a repository is an ordinary directory."""
    found = survey(BARE, git_dir("/w/.git"))
    assert (at(found, "/w/.git/hooks"), found.repositories) == (WRITE, ())


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
    """A grant that a pattern makes below a lock is an error once something matches there."""
    lines = ("{path: /srv/a, access: read, locked: true}", "{glob: /srv/*/out, access: write}")
    assert codes(survey(entries(*lines), {"/srv/b/out": DIR, "/srv/a": DIR})) == []
    assert codes(survey(entries(*lines), {"/srv/a/out": DIR})) == ["SBX345"]


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

"""The survey: repositories wherever their git directories are, and what their configuration names."""

from sandboxc.policy import READ, WRITE
from tests.unit._survey import BARE, FILE, HEAD, at, entries, git_dir, link, survey

# -- repositories ------------------------------------------------------------------------------------------


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

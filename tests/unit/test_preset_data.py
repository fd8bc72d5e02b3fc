"""Structure of the preset data files: shapes, ids, paths and the rules that the emitters rely on."""

import json
import re
from pathlib import Path

import pytest

DATA = Path(__file__).resolve().parents[2] / "sandboxc" / "data"
FILES = ("protected.json", "hidden.json", "system.json", "macos_base.json", "macos_services.json")
SYSTEMS = ("linux", "macos", "windows")
PARAMETERS = {
    "user-config",
    "user-cache",
    "user-runtime",
    "ssh-auth-sock",
    "docker-sock",
}
OPTIONAL_PARAMETERS = {"user-runtime", "ssh-auth-sock", "docker-sock"}

OPERATIONS = """
process-exec process-exec* process-fork process-info* process-info-pidinfo process-info-setcontrol signal
sysctl-read sysctl-write mach-lookup mach-register mach-priv-task-port mach-per-user-lookup mach-task-name
ipc-posix-shm ipc-posix-shm-read-data ipc-posix-shm-write-data ipc-posix-shm-write-create ipc-posix-sem
ipc-sysv-sem file-read* file-read-data file-read-metadata file-read-xattr file-map-executable file-ioctl
file-issue-extension network-outbound network-inbound network-bind system-socket system-fsctl system-info
pseudo-tty iokit-open iokit-open-user-client iokit-get-properties user-preference-read lsopen
device-microphone distributed-notification-post
"""
FILTERS = """
literal subpath prefix regex vnode-type extension extension-class global-name global-name-prefix
global-name-regex local-name sysctl-name sysctl-name-prefix ipc-posix-name iokit-user-client-class
iokit-registry-entry-class preference-domain target socket-domain socket-type socket-protocol
fsctl-command local remote unix-socket require-all require-any require-not
"""
SEED_PROTECTED = [".git", ".hg", ".svn", ".ssh", ".aws", ".npmrc", ".netrc"]
SEED_HIDDEN = [
    "~/.ssh",
    "~/.aws",
    "~/.gnupg",
    "~/.kube",
    "~/.docker",
    "~/.config/gh",
    "~/.config/gcloud",
    "~/.npmrc",
    "~/.netrc",
    "~/.git-credentials",
    "/var/run/docker.sock",
    "/run/docker.sock",
    "/var/run/podman/podman.sock",
    "/run/podman/podman.sock",
    "/run/containerd/containerd.sock",
    "/var/run/dbus",
    "${ssh-auth-sock}",
    "${docker-sock}",
]


def load(name):
    """The parsed content of one data file, refusing duplicate keys."""

    def pairs(items):
        keys = [key for key, _ in items]
        assert len(keys) == len(set(keys)), f"{name}: duplicate key in {keys}"
        return dict(items)

    return json.loads((DATA / name).read_text(encoding="ascii"), object_pairs_hook=pairs)


def walk(value):
    """Every dict inside a JSON value, the value itself included."""
    if isinstance(value, dict):
        yield value
        for child in value.values():
            yield from walk(child)
    elif isinstance(value, list):
        for child in value:
            yield from walk(child)


def unique(names):
    """Whether no name comes twice."""
    names = list(names)
    return len(names) == len(set(names))


def spelled(item):
    """The id of an item that names a place: its path or its glob."""
    assert ("path" in item) != ("glob" in item), item
    return item.get("path", item.get("glob"))


def base_rows():
    """All rows of the Seatbelt base, network included."""
    base = load("macos_base.json")
    groups = list(base["sections"].values()) + list(base["network"].values())
    return [row for group in groups for row in group]


def service_rows():
    """All rows of all services."""
    return [row for service in load("macos_services.json")["services"].values() for row in service["rows"]]


def assert_relative(name):
    """A name below a root: no anchor, no dots, no odd slashes."""
    assert name and not name.startswith(("/", "~", "$")) and not name.endswith("/")
    assert all(part not in ("", ".", "..") for part in name.split("/")), name
    assert "\\" not in name and "$" not in name


def assert_place(item):
    """A path or glob in policy syntax, spelled the one way that the resolver takes."""
    place = spelled(item)
    match = re.match(r"(~|\$\{([a-z-]+)\}|[A-Z]:|)(/.*)?$", place)
    assert match and place, place
    head, parameter, rest = match.groups()
    assert parameter is None or parameter in PARAMETERS, place
    assert rest or parameter or place == "/", place
    assert "$" not in place[len(head) :] and "\\" not in place, place
    assert place == "/" or not place.endswith("/"), place
    assert all(part not in ("", ".", "..") for part in (rest or "/x")[1:].split("/")) or place == "/", place
    assert place.isprintable() and place == place.strip()
    if "path" in item:
        assert not set(place.replace("${", "").replace("}", "")) & set("*?[]{}"), place
    else:
        assert set(place) & set("*?[{"), place
    if "os" in item:
        assert item["os"] and unique(item["os"]) and set(item["os"]) <= set(SYSTEMS), item


def assert_filter(form):
    """A filter form: known names, strings, small numbers, wrapped symbols, right arity for require-not."""
    assert isinstance(form, list) and form and form[0] in FILTERS.split(), form
    if form[0] in ("require-all", "require-any", "require-not"):
        assert all(isinstance(child, list) for child in form[1:]), form
        assert len(form) == 2 if form[0] == "require-not" else len(form) > 2, form
        for child in form[1:]:
            assert_filter(child)
        return
    assert len(form) >= 2, form
    for argument in form[1:]:
        if isinstance(argument, dict):
            assert list(argument) == ["symbol"] and re.fullmatch(r"[A-Za-z_-]+", argument["symbol"]), form
        else:
            assert isinstance(argument, str | int) and not isinstance(argument, bool) and argument != "", form
            assert not isinstance(argument, str) or ("\\" not in argument and '"' not in argument), form


@pytest.mark.parametrize("name", FILES)
def test_header_and_layout(name):
    """Each file has an integer version and a title, is ASCII, and keeps one item on a line."""
    data = load(name)
    assert type(data["version"]) is int and data["version"] >= 1
    assert data["title"].strip()
    text = (DATA / name).read_text(encoding="ascii")
    assert text.endswith("\n") and "\t" not in text and not re.search(r" +$", text, re.MULTILINE)
    for line in text.splitlines():
        assert line.count('"why":') <= 1, line


@pytest.mark.parametrize("name", FILES)
def test_every_item_says_why(name):
    """Whatever has an id, a name, a path, a glob or a pattern explains itself in one short line."""
    for item in walk(load(name)):
        if {"id", "name", "path", "glob", "regex"} & set(item):
            assert isinstance(item.get("why"), str) and 3 <= len(item["why"]) <= 160, item
            assert "source" not in item or item["source"].strip(), item


def test_files_are_all_known():
    """No data file escapes these tests."""
    assert sorted(path.name for path in DATA.glob("*.json")) == sorted(FILES)


@pytest.mark.parametrize("preset", ["standard", "seed"])
def test_protected_shape(preset):
    """Protected names are unique, relative, of a known kind, and repository names are direct names."""
    data = load("protected.json")
    assert sorted(data["presets"]) == ["seed", "standard"]
    part = data["presets"][preset]
    assert sorted(part) == ["computed", "direct", "git", "repository", "title"]
    names = [item["name"] for item in part["direct"]]
    assert unique(names) and unique(item["path"] for item in part["git"])
    assert unique(item["id"] for item in part["computed"])
    for item in part["direct"]:
        assert set(item) <= {"name", "kind", "why", "os", "source"}, item
        assert item["kind"] in ("file", "directory", "any"), item
        assert_relative(item["name"])
        assert not set(item["name"]) & set("*?[]{}"), item
        assert "os" not in item or (item["os"] and set(item["os"]) < set(SYSTEMS)), item
    assert unique(part["repository"]) and set(part["repository"]) <= set(names)


def test_protected_direct_names_do_not_nest():
    """No protected name lies below another one, so removing a name by id removes all of it."""
    names = {item["name"] for item in load("protected.json")["presets"]["standard"]["direct"]}
    for name in names:
        parts = name.split("/")
        assert not {"/".join(parts[:count]) for count in range(1, len(parts))} & names, name


def test_protected_git_part():
    """The git part repeats every place below modules, and only a literal place has an occupant."""
    items = {item["path"]: item for item in load("protected.json")["presets"]["standard"]["git"]}
    own = {path for path in items if not path.startswith("modules/")}
    needed = {"hooks", "config", "config.worktree", "commondir"}
    needed |= {f"worktrees/*/{name}" for name in ("commondir", "gitdir", "config.worktree")}
    assert own == needed
    assert set(items) - own == {f"modules/**/{path}" for path in own}
    for path, item in items.items():
        assert_relative(path)
        assert item["kind"] in ("file", "directory")
        assert ("occupant" in item) == (path == "commondir"), item
    assert items["commondir"]["occupant"] == "."


def test_protected_standard_keeps_the_documented_names():
    """The names that the design lists are there, and .git as a whole is not among them."""
    part = load("protected.json")["presets"]["standard"]
    names = {item["name"] for item in part["direct"]}
    assert {".ssh", ".aws", ".gnupg", ".kube", ".docker", ".npmrc", ".netrc", ".pypirc"} <= names
    assert {".git-credentials", ".envrc", ".hg", ".svn", ".vscode"} <= names
    assert {".mcp.json", ".claude", ".codex", ".cursor", ".agents"} <= names
    assert {".bashrc", ".bash_profile", ".profile", ".zshrc", ".zshenv", ".zprofile", ".zlogin"} <= names
    assert ".git" not in names and set(part["repository"]) == names


def test_protected_seed_is_exact():
    """The seed preset is the seven names of the followed systems and nothing else."""
    part = load("protected.json")["presets"]["seed"]
    assert [item["name"] for item in part["direct"]] == SEED_PROTECTED
    assert part["git"] == part["computed"] == part["repository"] == []


@pytest.mark.parametrize("preset", ["standard", "seed"])
def test_hidden_shape(preset):
    """Hidden items are unique, well spelled, of a known kind, and say where they hold."""
    data = load("hidden.json")
    assert sorted(data["presets"]) == ["seed", "standard"]
    items = data["presets"][preset]["items"]
    assert unique(spelled(item) for item in items)
    for item in items:
        assert set(item) <= {"path", "glob", "kind", "os", "why", "source", "optional"}, item
        assert item["kind"] in ("file", "directory", "socket"), item
        assert item["os"], item
        assert_place(item)
        if "windows" in item["os"]:
            assert spelled(item).startswith("~/"), item


def test_hidden_parameters_are_optional():
    """An item that needs a parameter beyond home never makes that parameter required."""
    for preset in load("hidden.json")["presets"].values():
        for item in preset["items"]:
            assert ("${" in spelled(item)) == (item.get("optional") is True), item


def test_hidden_covers_each_system():
    """Each system hides keys, browser profiles, a password store and shell history, in moderate number."""
    items = load("hidden.json")["presets"]["standard"]["items"]
    wanted = {
        "linux": ("~/.ssh", "~/.mozilla", "~/.local/share/keyrings", "~/.bash_history", "/run/dbus"),
        "macos": ("~/.ssh", "~/Library/Safari", "~/Library/Keychains", "~/.zsh_history"),
        "windows": ("~/.ssh", "~/AppData/Roaming/Mozilla/Firefox", "~/AppData/Roaming/Microsoft/Protect"),
    }
    for system, places in wanted.items():
        here = {spelled(item) for item in items if system in item["os"]}
        assert set(places) <= here
        assert 20 <= len(here) <= 100, (system, len(here))


def test_hidden_holds_every_seed_secret_but_breaks_no_build():
    """Standard hides at least what seed hides, and none of what git and builds read."""
    presets = load("hidden.json")["presets"]
    standard = [spelled(item) for item in presets["standard"]["items"]]
    for place in SEED_HIDDEN:
        covered = any(place == other or place.startswith(other + "/") for other in standard)
        # On Linux /var/run is a link to /run, and the layer holds for the place that it resolves to.
        assert covered or place.replace("/var/run/", "/run/") in standard, place
    for place in (
        "~/.gitconfig",
        "~/.config/git",
        "~/.config",
        "~/.cache",
        "~/.m2",
        "~/.cargo",
        "/run",
        "/tmp",
    ):
        assert place not in standard


def test_hidden_seed_is_exact():
    """The seed preset is the list of the followed systems and nothing else."""
    items = load("hidden.json")["presets"]["seed"]["items"]
    assert [spelled(item) for item in items] == SEED_HIDDEN


@pytest.mark.parametrize("name", ["protected.json", "hidden.json"])
def test_left_out_is_left_out(name):
    """Nothing that the file says it leaves out is in its standard preset."""
    data = load(name)
    standard = data["presets"]["standard"]
    present = {item.get("name") or spelled(item) for item in standard.get("direct", standard.get("items"))}
    left = [item.get("name") or item.get("path") for item in data["left_out"]]
    assert left and unique(left) and not set(left) & present


@pytest.mark.parametrize("system", SYSTEMS)
def test_system_reads(system):
    """What baseline deny gets is read-only, unique, well spelled, and free of private keys."""
    items = load("system.json")[system]
    assert items and unique(spelled(item) for item in items)
    for item in items:
        assert set(item) <= {"path", "glob", "access", "kind", "why", "source"}, item
        assert item["access"] == "read" and item["kind"] in ("file", "directory", "any"), item
        assert_place(item)
        assert spelled(item).startswith("C:/") == (system == "windows" and not spelled(item).startswith("~/"))
        assert spelled(item) not in ("/", "/etc", "/private/etc", "/etc/ssl", "/etc/pki", "/etc/ssh", "/home")


def test_system_views():
    """Views exist per system; nothing but device nodes and descriptors is writable in them."""
    views = load("system.json")["views"]
    assert sorted(views) == sorted(SYSTEMS)
    for system, items in views.items():
        assert unique(item["path"] for item in items)
        for item in items:
            assert set(item) <= {"path", "access", "why", "conditional", "pattern"}, item
            assert item["access"] in ("read", "write"), item
            if system != "windows":
                assert re.match(r"/(dev|proc|sys)(/|$)", item["path"]), item
                assert item["access"] == "read" or item["path"].startswith("/dev/"), item
    linux = {item["path"]: item["access"] for item in views["linux"]}
    assert all(f"/dev/{name}" in linux for name in ("null", "zero", "full", "random", "urandom", "fd", "shm"))
    assert linux["/dev"] == linux["/proc"] == linux["/proc/sys"] == "read"


def test_rows_use_known_words():
    """Rows of base and services have unique ids, known operations and well formed filters."""
    rows = base_rows() + service_rows()
    assert unique(row["id"] for row in rows)
    for row in rows:
        assert set(row) == {"id", "ops", "filter", "why", "source"}, row
        assert re.fullmatch(r"[a-z-]+\.[a-z0-9_-]+", row["id"]), row
        assert row["ops"] and unique(row["ops"]) and set(row["ops"]) <= set(OPERATIONS.split()), row
        if row["filter"] is not None:
            assert_filter(row["filter"])


def test_no_row_writes_files():
    """Neither base nor services write files by a row: writes go through layers, devices are listed apart."""
    for row in base_rows() + service_rows():
        for operation in row["ops"]:
            assert not operation.startswith(("file-write", "user-preference-write", "process-exec")), row
            assert operation != "default", row


def test_rows_read_no_file_content():
    """Rows give away no content and no listing: only that single named directories and links exist."""
    for row in base_rows() + service_rows():
        if any(operation.startswith("file-read") for operation in row["ops"]):
            assert row["ops"] == ["file-read-metadata"] and row["filter"][0] == "literal", row


def test_no_unfiltered_row_beside_filtered_ones():
    """One operation is either always filtered or never, over the base and all services together."""
    filtered, bare = set(), set()
    for row in base_rows() + service_rows():
        (bare if row["filter"] is None else filtered).update(row["ops"])
    assert not filtered & bare


def test_base_network_modes():
    """Deny adds nothing, loopback names localhost only, and name look-up comes with allow-all alone."""
    base = load("macos_base.json")
    network = base["network"]
    assert sorted(network) == ["allow-all", "deny", "loopback"] and network["deny"] == []
    assert all(row["filter"][-1] == "localhost:*" for row in network["loopback"])
    for part in (base["sections"], network["loopback"]):
        text = json.dumps(part)
        assert "dnssd" not in text and "mDNSResponder" not in text
    assert '"network-' not in json.dumps(base["sections"])
    assert "mDNSResponder" in json.dumps(network["allow-all"])


def assert_devices(devices):
    """A device table: three lists, nodes below /dev, anchored patterns."""
    assert sorted(devices) == ["ioctl", "ro", "rw"]
    for items in devices.values():
        assert unique(item.get("path", item.get("regex")) for item in items)
        for item in items:
            assert set(item) <= {"path", "regex", "kind", "extension", "why", "source"}, item
            assert ("path" in item) != ("regex" in item) and item["kind"] in ("file", "subtree"), item
            if "path" in item:
                assert re.fullmatch(r"/dev/[a-z_]+", item["path"]), item
            else:
                assert item["regex"].startswith("^/dev/") and item["regex"].endswith("$"), item
    writable, readable = ({item.get("path") for item in devices[key]} for key in ("rw", "ro"))
    assert not writable & readable - {None}


def test_base_devices_stay_within_the_views():
    """Writable devices of the base are views, and a terminal of another window needs its extension."""
    base = load("macos_base.json")
    assert_devices(base["devices"])
    views = {item["path"] for item in load("system.json")["views"]["macos"] if item["access"] == "write"}
    for item in base["devices"]["rw"]:
        assert item.get("path", "/dev/ttys*") in views - {"/dev/tty"}, item
    for items in base["devices"].values():
        assert all("extension" in item for item in items if "regex" in item)


def test_base_reads_are_covered_by_system():
    """The floor of reads is part of what the standard system gives on macOS; nodes are no layers."""
    base = load("macos_base.json")
    system = [spelled(item) for item in load("system.json")["macos"]]
    assert unique(item["path"] for item in base["reads"])
    for item in base["reads"]:
        assert item["kind"] in ("subtree", "file", "node"), item
        assert_place(item)
        if item["kind"] != "node":
            path = item["path"]
            assert any(path == other or path.startswith(other + "/") for other in system), item
            assert not path.startswith(("/private/tmp", "/private/var/folders", "~")), item


def test_base_follows():
    """Executing and mapping follow the regions that may be read."""
    follows = load("macos_base.json")["follows"]
    assert {operation: item["access"] for item in follows for operation in item["ops"]} == {
        "process-exec*": "read",
        "file-map-executable": "read",
    }
    used = {operation for row in base_rows() + service_rows() for operation in row["ops"]}
    assert not used & {operation for item in follows for operation in item["ops"]}


def test_services_shape():
    """Each service says why and what it risks, and its ids start with its name."""
    services = load("macos_services.json")["services"]
    assert {"keychain", "gui", "java", "clipboard", "open-urls", "spotlight"} <= set(services)
    for name, service in services.items():
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", name)
        assert set(service) - {"devices"} == {"why", "risk", "rows", "reads", "writes"}, name
        assert service["why"].strip() and service["risk"].strip()
        assert service["rows"] or service["reads"] or "devices" in service
        assert all(row["id"].startswith(name + ".") for row in service["rows"])
        for item in service["reads"] + service["writes"]:
            assert set(item) <= {"path", "kind", "why", "source"}, item
            assert item["kind"] in ("subtree", "file"), item
            assert_place(item)
        assert unique(item["path"] for item in service["reads"] + service["writes"])
        if "devices" in service:
            assert_devices(service["devices"])


def test_parameters_are_built_in():
    """Data files use built-in parameters only, and the optional ones for sockets are in use."""
    text = "".join((DATA / name).read_text(encoding="ascii") for name in FILES)
    used = set(re.findall(r"\$\{([^}]*)\}", text))
    assert used <= PARAMETERS and used >= OPTIONAL_PARAMETERS

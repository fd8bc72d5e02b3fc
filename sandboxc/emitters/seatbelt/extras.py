"""What the profile adds to the layers of a policy: the views, the base, named services, later repositories."""

from collections.abc import Iterable, Iterator, Mapping

from sandboxc import packaged
from sandboxc.diagnostics import Diagnostic, error
from sandboxc.emitters.artefact import Options
from sandboxc.emitters.seatbelt.printer import filter_text, form, string
from sandboxc.emitters.seatbelt.tree import NONE, Forest, Scores, score
from sandboxc.globs import ANY_DEPTH, Glob
from sandboxc.layers import ENTRY, MODE, PROTECTED, Layer, Layers, ordered
from sandboxc.locks import lock_conflicts
from sandboxc.places import POSIX, Place, Spelled, parse_place
from sandboxc.policy import DENY, READ, WRITE
from sandboxc.records import Any, NamedTuple

#: Services that let something outside the sandbox act for whoever is inside.
BROKERS = ("open-urls", "process-tools", "terminal")
_WITHIN = "writable"
DEVICES = '(sbx-tree-of "/dev")'


class Row(NamedTuple):
    """One rule of the base or of a service: its operations, and its filter's SBPL or nothing."""

    operations: tuple[str, ...]
    filter: str


class Extras(NamedTuple):
    """Everything that the base and the named services add besides places."""

    rows: tuple[Row, ...]
    follow_read: tuple[str, ...]
    devices: tuple[str, ...]  # filters of devices that no path names
    ioctl: tuple[str, ...]
    looks: tuple[str, ...]  # literal paths that may be looked at


def with_repositories(stack: Layers) -> Layers:
    """Return the stack with the git part of the protected names in every repository made later as well."""
    names = [name for name in stack.protected if name.git]
    made: list[Layer] = []
    for root in git_roots(stack.layers) if names else ():
        for name in names:
            pattern = (ANY_DEPTH, ".git", *name.path)
            where = root.where
            if isinstance(where, Place):
                glob = Glob(where, pattern, "", _WITHIN)
            else:
                glob = Glob(where.anchor, where.pattern + pattern, "", _WITHIN)
            made.append(Layer(glob, READ, PROTECTED, "protected:**/" + "/".join(pattern[1:]), cap=True))
    return stack._replace(layers=ordered((*stack.layers, *made)))


def git_roots(layers: Iterable[Layer]) -> Iterator[Layer]:
    """Yield the writable roots that get protected git names."""
    for layer in layers:
        where = layer.where
        if layer.access != WRITE or layer.private or layer.kind == "file":
            continue
        if isinstance(where, Place):
            if ".git" not in where.parts:
                yield layer
        elif where.anchor is not None:
            yield layer


def unknown_services(options: Options) -> tuple[Diagnostic, ...]:
    """Return an error for each service that a policy names and the data do not know."""
    known = packaged.data("macos_services")["services"]
    return tuple(
        error(
            "SBX427",
            f"unknown macOS service `{name}`",
            help=f"known: {', '.join(f'`{each}`' for each in sorted(known))}",
        )
        for name in options.macos_services
        if name not in known
    )


def risk(service: str) -> str:
    """Return what a named service puts at risk, as one sentence without a period."""
    text = str(packaged.data("macos_services")["services"][service]["risk"]).rstrip(".")
    return text[0].lower() + text[1:]


def collect(stack: Layers, options: Options) -> Extras:
    """Return the rules that the base and the services add; the base rules only where everything else is closed."""
    base = packaged.data("macos_base")
    closed = options.macos_base != "open"
    rows: list[Row] = []
    looks: list[str] = []
    if closed:
        for section in ("process", "sysctl", "mach", "ipc"):
            rows += [_row(item) for item in base["sections"][section]]
        for item in base["sections"]["metadata"]:
            if item["filter"][0] != "literal" or item["ops"] != ["file-read-metadata"]:
                raise ValueError(f"packaged metadata row {item['id']}")
            looks.append(item["filter"][1])
        for service in _services(options):
            rows += [_row(item) for item in service["rows"]]
        rows += [_row(item) for item in base["network"][stack.network.mode]]
        if stack.network.mode == DENY:  # the other modes have every loopback port
            rows += [
                Row(("network-outbound",), form("remote", "ip", string(f"localhost:{port}")))
                for port in sorted(set(stack.network.ports))
            ]
    devices: list[str] = []
    ioctl: list[str] = []
    for source in _device_sources(options):
        devices += [_device_filter(item) for item in source["rw"] if "path" not in item]
        ioctl += [_device_filter(item) for item in source["ioctl"]]
    return Extras(
        tuple(dict.fromkeys(rows)),
        tuple(op for item in base["follows"] if item["access"] == READ for op in item["ops"]),
        tuple(dict.fromkeys(devices)),
        tuple(dict.fromkeys(ioctl)) if closed else (),
        tuple(looks),
    )


def plant(forest: Forest, stack: Layers, options: Options, extras: Extras, ceiling: bool) -> None:
    """Note the places of the views, and (in the stack itself, not in a ceiling) of the base and the services.

    A read that the base or a service adds says nothing about writing. What the base reads stays a mark, because the
    profile opens it only where no layer above it denies.
    """
    base = packaged.data("macos_base")
    view = score(MODE, DENY, True)
    forest.place(Place("", ("dev",)), Scores(view, view), "stat-below")
    for source in _device_sources(options):
        for access, key in ((WRITE, "rw"), (READ, "ro")):
            value = score(MODE, access, True)
            for item in source[key]:
                if "path" in item:
                    forest.place(_place(item), Scores(value, value))
    for path in extras.looks:
        forest.place(_parsed(path), Scores(NONE, NONE), "stat")
    if ceiling:
        return
    for item in base["reads"] if options.macos_base != "open" else ():
        if item["kind"] == "node":
            forest.place(_place(item), Scores(NONE, NONE), "node")
        elif stack.baseline == DENY:
            forest.place(_place(item), Scores(NONE, NONE), "base")
    for service in _services(options):
        for item in service["reads"]:
            forest.place(_place(item), Scores(score(ENTRY, READ, True), NONE))
        for item in service["writes"]:
            value = score(ENTRY, WRITE, True)
            forest.place(_place(item), Scores(value, value))


def lock_errors(stack: Layers, options: Options) -> tuple[Diagnostic, ...]:
    """Return an error for each place of a named service that a locked entry forbids."""
    found: list[Diagnostic] = []
    for name, service in zip(options.macos_services, _services(options), strict=True):
        for access, key in ((READ, "reads"), (WRITE, "writes")):
            for item in service[key]:
                layer = Layer(_place(item), access, ENTRY, f"service {name}")
                tried = stack._replace(layers=(*stack.layers, layer))
                found += [
                    error(
                        "SBX429",
                        f"the service `{name}` opens `{item['path']}`, which is locked at `{lock.access}`",
                        lock.span,
                        "remove the service, or the lock",
                    )
                    for lock, wider in lock_conflicts(tried)
                    if wider is layer
                ]
    return tuple(found)


def service_roots(options: Options) -> set[str]:
    """Return the parameters that the places of the named services hang from."""
    return {
        _place(item).root for service in _services(options) for key in ("reads", "writes") for item in service[key]
    } - {""}


def _services(options: Options) -> list[Mapping[str, Any]]:
    known = packaged.data("macos_services")["services"]
    return [known[name] for name in options.macos_services]


def opens_devices(layer: Layer) -> bool:
    """Return whether a written line may make something in `/dev` writable, which is a view for every policy."""
    where = layer.where if isinstance(layer.where, Place) else layer.where.anchor
    if layer.access != WRITE or where is None or where.root:
        return False
    inside = where.parts[:1] and where.parts[0].casefold() == "dev"
    return bool(inside) or (isinstance(layer.where, Glob) and not where.parts)


def written_devices(options: Options, extras: Extras) -> str:
    """Return the filter of the devices that can be written under every policy."""
    found = [_device_filter(item) for source in _device_sources(options) for item in source["rw"] if "path" in item]
    return form("sbx-any-of", form("list", *dict.fromkeys(found), *extras.devices))


def _device_sources(options: Options) -> list[Mapping[str, Any]]:
    named = [service["devices"] for service in _services(options) if "devices" in service]
    return [packaged.data("macos_base")["devices"], *named]


def _device_filter(item: Mapping[str, Any]) -> str:
    if "path" in item:
        return form("subpath" if item["kind"] == "subtree" else "literal", string(item["path"]))
    found = form("regex", string(item["regex"]))
    if "extension" in item:
        found = form("require-all", found, form("extension", string(item["extension"])))
    return found


def _row(item: Mapping[str, Any]) -> Row:
    return Row(tuple(item["ops"]), "" if item["filter"] is None else filter_text(item["filter"]))


def _place(item: Mapping[str, Any]) -> Place:
    return _parsed(item["path"])


def _parsed(path: str) -> Place:
    spelled = parse_place(path, POSIX, ("home",))
    if not isinstance(spelled, Spelled):
        raise ValueError(f"packaged path {path!r}: {spelled.message}")
    return spelled.place

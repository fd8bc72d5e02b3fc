"""Layers, losses and facts as plain JSON values, and back.

What is decoded comes from a directory that anyone may have edited, so every field is checked and nothing is
guessed: a value of the wrong type, an unknown key, a name with a slash or an access nobody knows raises
``Malformed`` with the way to the value. Encoding leaves defaults out, so that reviews see what matters.

A place is an array: its root (``""``, ``"C:"``, ``"//server/share"`` or a parameter's name), then its components.
A span is an array: the number of its source file in the list of sources, then line, column, end line, end column.
"""

from collections.abc import Callable, Collection, Mapping, Sequence

from sandboxc.globs import Glob
from sandboxc.layers import ORIGINS, Ceiling, Layer, Layers, ProtectedName, SocketRule
from sandboxc.losses import KINDS, Loss
from sandboxc.places import MAX_COMPONENT, MAX_PATH, Place
from sandboxc.policy import (
    ACCESSES,
    MODES,
    NETWORK_MODES,
    OSES,
    SOCKET_ACCESSES,
    TARGETS,
    Network,
    Waiver,
    Word,
)
from sandboxc.records import Any, NamedTuple, TypeVar
from sandboxc.source import Span

#: The newest form that this code reads and the one that it writes.
FORMAT_VERSION = 1
#: The files of a profile that every one has.
MANIFEST = "manifest.json"
LAYERS = "layers.json"
MAX_ITEMS = 100_000
MAX_TEXT = 65_536

T = TypeVar("T")


class Malformed(ValueError):
    """A decoded value is not what this form allows; ``where`` is the way to it, such as ``layers/3/access``."""

    def __init__(self, where: str, what: str) -> None:
        self.where = where
        self.what = what
        super().__init__(f"{where}: {what}")


class Stored(NamedTuple):
    """What ``layers.json`` holds for one operating system."""

    layers: Layers
    defaults: dict[str, Place]


# -- encoding --------------------------------------------------------------------------------------------


def encode_place(place: Place) -> list[str]:
    """Return a place as an array."""
    return [place.root, *place.parts]


def encode_span(span: Span | None, sources: Sequence[str]) -> list[int] | None:
    """Return a span as an array; its file must be one of ``sources``."""
    if span is None:
        return None
    return [sources.index(span.file), span.line, span.column, span.end_line, span.end_column]


def _present(**fields: Any) -> dict[str, Any]:
    """Return the fields that do not have their default (none, empty or false)."""
    return {
        key: value
        for key, value in fields.items()
        if value is not None and value is not False and value != "" and value != [] and value != {}
    }


def encode_layer(layer: Layer, sources: Sequence[str]) -> dict[str, Any]:
    """Return one layer as an object."""
    where = layer.where
    spelled: list[str] | dict[str, Any]
    if isinstance(where, Place):
        spelled = encode_place(where)
    else:
        spelled = _present(
            anchor=None if where.anchor is None else encode_place(where.anchor),
            pattern=list(where.pattern),
            text=where.text,
            within=where.within,
            excepts=[list(form) for form in where.excepts],
        )
    found = _present(
        access=layer.access,
        origin=layer.origin,
        source=layer.source,
        cap=layer.cap,
        locked=layer.locked,
        kind=layer.kind,
        absent=layer.absent,
        private=layer.private,
        text=layer.text,
        reason=layer.reason,
        span=encode_span(layer.span, sources),
    )
    if layer.occupant is not None:  # an empty one is not none
        found["occupant"] = layer.occupant
    return {"where": spelled, **found}


def encode_stack(stack: Layers, defaults: Mapping[str, Place], sources: Sequence[str]) -> dict[str, Any]:
    """Return a stack, and the default places of declared parameters, as an object."""
    return {
        "os": stack.os,
        "mode": stack.mode,
        "baseline": stack.baseline,
        "network": _present(
            mode=stack.network.mode,
            ports=list(stack.network.ports),
            span=encode_span(stack.network.span, sources),
        ),
        "layers": [encode_layer(layer, sources) for layer in stack.layers],
        "sockets": [
            {
                "where": encode_place(rule.where),
                **_present(
                    access=rule.access,
                    origin=rule.origin,
                    text=rule.text,
                    span=encode_span(rule.span, sources),
                ),
            }
            for rule in stack.sockets
        ],
        "protected": [
            {
                **_present(path=list(name.path), kind=name.kind, git=name.git),
                **({} if name.occupant is None else {"occupant": name.occupant}),
            }
            for name in stack.protected
        ],
        "ceilings": [
            {"baseline": c.baseline, "layers": [encode_layer(layer, sources) for layer in c.layers]}
            for c in stack.ceilings
        ],
        "defaults": {name: encode_place(place) for name, place in sorted(defaults.items())},
    }


def encode_loss(loss: Loss, sources: Sequence[str]) -> dict[str, Any]:
    """Return one loss as an object; its target is said where it stands."""
    return _present(
        code=loss.code,
        kind=loss.kind,
        at=loss.at,
        message=loss.message,
        span=encode_span(loss.span, sources),
        preset=loss.preset,
        conditional=loss.conditional,
        standing=loss.standing,
        waived=loss.waived,
    )


def encode_waiver(waiver: Waiver, sources: Sequence[str]) -> dict[str, Any]:
    """Return one waiver as an object."""
    return {
        "loss": waiver.loss,
        "target": waiver.target,
        "at": waiver.at.value,
        "reason": waiver.reason,
        "span": encode_span(waiver.span, sources),
    }


# -- decoding --------------------------------------------------------------------------------------------


def fields(value: object, where: str, required: Collection[str], optional: Collection[str] = ()) -> dict[str, Any]:
    """Return an object after checking its keys."""
    if type(value) is not dict:
        raise Malformed(where, "must be an object")
    for key in required:
        if key not in value:
            raise Malformed(where, f"`{key}` is missing")
    if len(value) > len(required):
        for key in value:
            if key not in required and key not in optional:
                raise Malformed(where, f"unknown key `{key}`")
    return value


def items(value: object, where: str, limit: int = MAX_ITEMS) -> list[Any]:
    """Return an array after checking its length."""
    if type(value) is not list:
        raise Malformed(where, "must be an array")
    if len(value) > limit:
        raise Malformed(where, f"holds more than {limit} items")
    return value


def text(value: object, where: str, limit: int = MAX_TEXT) -> str:
    """Return a text after checking its length."""
    if type(value) is not str:
        raise Malformed(where, "must be a text")
    if len(value) > limit:
        raise Malformed(where, f"is longer than {limit} characters")
    return value


def word(value: object, where: str, known: Collection[str]) -> str:
    """Return a text that must be one of the known words."""
    if type(value) is not str or value not in known:
        raise Malformed(where, f"must be one of {', '.join(w or 'an empty text' for w in known)}")
    return value


def number(value: object, where: str, low: int = 0, high: int = 2**31 - 1) -> int:
    """Return an integer within bounds."""
    if type(value) is not int or not low <= value <= high:
        raise Malformed(where, f"must be an integer from {low} to {high}")
    return value


def flag(value: object, where: str) -> bool:
    """Return a boolean."""
    if type(value) is not bool:
        raise Malformed(where, "must be true or false")
    return value


def each(value: object, where: str, decode: Callable[[object, str], T]) -> tuple[T, ...]:
    """Return every item of an array, decoded."""
    return tuple([decode(item, f"{where}/{i}") for i, item in enumerate(items(value, where))])


def decode_component(value: object, where: str) -> str:
    """Return one path component (or component pattern), which no separator or control character may be in."""
    name = text(value, where, MAX_COMPONENT)
    if not name or name in (".", "..") or "/" in name:
        raise Malformed(where, f"`{name}` is no file name")
    if not (name.isascii() and name.isprintable()):
        if any(ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0 or 0xD800 <= ord(c) <= 0xDFFF for c in name):
            raise Malformed(where, "holds a control character")
        if len(name.encode()) > MAX_COMPONENT:
            raise Malformed(where, f"is longer than {MAX_COMPONENT} bytes")
    return name


def decode_place(value: object, where: str, roots: Collection[str]) -> Place:
    """Return a place; ``roots`` are the parameter names that it may hang from."""
    parts = items(value, where, MAX_PATH)
    if not parts:
        raise Malformed(where, "must start with a root")
    root = text(parts[0], where, MAX_COMPONENT * 2)
    if root and root not in roots and not _is_windows_root(root):
        raise Malformed(where, f"unknown root `{root}`")
    return Place(root, tuple([decode_component(part, where) for part in parts[1:]]))


def _is_windows_root(root: str) -> bool:
    if len(root) == 2 and root[1] == ":":
        return root[0].isascii() and root[0].isupper()
    names = root[2:].split("/")
    return root.startswith("//") and len(names) == 2 and all(n not in ("", ".", "..") for n in names)


def decode_span(value: object, where: str, sources: Sequence[str]) -> Span:
    """Return a span."""
    parts = items(value, where, 5)
    if len(parts) != 5:
        raise Malformed(where, "must hold five integers")
    index, line, column, end_line, end_column = [number(part, where) for part in parts]
    if index >= len(sources):
        raise Malformed(where, "names no source file")
    return Span(sources[index], line, column, end_line, end_column)


def _decode_where(value: object, where: str, roots: Collection[str]) -> Place | Glob:
    if type(value) is list:
        return decode_place(value, where, roots)
    found = fields(value, where, ("pattern", "text"), ("anchor", "within", "excepts"))
    anchor = found.get("anchor")
    return Glob(
        None if anchor is None else decode_place(anchor, where + "/anchor", roots),
        _decode_pattern(found["pattern"], where + "/pattern"),
        text(found["text"], where + "/text"),
        word(found.get("within", ""), where + "/within", ("", "writable", "everywhere")),
        each(found.get("excepts", []), where + "/excepts", _decode_pattern),
    )


def _decode_pattern(value: object, where: str) -> tuple[str, ...]:
    found = each(value, where, decode_component)
    if not found:
        raise Malformed(where, "holds no component")
    for name in found:
        if ("**" in name and name != "**") or _open_set(name):
            raise Malformed(where, f"`{name}` is no pattern")
    return found


def _open_set(name: str) -> bool:
    """Return whether a ``[`` of a component pattern is not closed, or its set cannot be read."""
    index = name.find("[")
    while index >= 0:
        end = name.find("]", index + 2)
        body = name[index + 1 : end]
        if end < 0 or "[" in body or body in ("!", "^"):
            return True
        members = body[1:] if body[0] in "!^" else body
        if any(members[i] == "-" and members[i - 1] > members[i + 1] for i in range(1, len(members) - 1)):
            return True
        index = name.find("[", end + 1)
    return False


_LAYER_OPTIONAL = (
    "source", "cap", "locked", "kind", "absent", "occupant", "private", "text", "reason", "span",
)  # fmt: skip
_KINDS = ("", "file", "directory")
_ABSENT = ("", "placeholder", "report", "create")


def decode_layer(value: object, where: str, roots: Collection[str], sources: Sequence[str]) -> Layer:
    """Return one layer."""
    found = fields(value, where, ("where", "access", "origin"), _LAYER_OPTIONAL)
    get = found.get
    occupant = get("occupant")
    span = get("span")
    return Layer(
        _decode_where(found["where"], where + "/where", roots),
        word(found["access"], where + "/access", ACCESSES),
        word(found["origin"], where + "/origin", ORIGINS),
        text(get("source", ""), where + "/source"),
        flag(get("cap", False), where + "/cap"),
        flag(get("locked", False), where + "/locked"),
        word(get("kind", ""), where + "/kind", _KINDS),
        word(get("absent", ""), where + "/absent", _ABSENT),
        None if occupant is None else text(occupant, where + "/occupant", 4096),
        flag(get("private", False), where + "/private"),
        text(get("text", ""), where + "/text"),
        text(get("reason", ""), where + "/reason"),
        None if span is None else decode_span(span, where + "/span", sources),
    )


def decode_stack(value: object, where: str, os: str, roots: Collection[str], sources: Sequence[str]) -> Stored:
    """Return the stack of one operating system.

    Args:
        value: the decoded JSON value.
        where: the way to it, for messages.
        os: the operating system that it must be for.
        roots: the parameter names that places may hang from.
        sources: the names of the source files that spans may point into.

    Raises:
        Malformed: some field is not what it must be.
    """
    keys = ("os", "mode", "baseline", "network", "layers", "sockets", "protected", "ceilings", "defaults")
    found = fields(value, where, keys)

    def layer(item: object, at: str) -> Layer:
        return decode_layer(item, at, roots, sources)

    def ceiling(item: object, at: str) -> Ceiling:
        parts = fields(item, at, ("baseline", "layers"))
        baseline = word(parts["baseline"], at + "/baseline", ACCESSES)
        return Ceiling(baseline, each(parts["layers"], at + "/layers", layer))

    def socket(item: object, at: str) -> SocketRule:
        parts = fields(item, at, ("where", "access", "origin"), ("text", "span"))
        span = parts.get("span")
        return SocketRule(
            decode_place(parts["where"], at + "/where", roots),
            word(parts["access"], at + "/access", SOCKET_ACCESSES),
            word(parts["origin"], at + "/origin", ORIGINS),
            text(parts.get("text", ""), at + "/text"),
            None if span is None else decode_span(span, at + "/span", sources),
        )

    if found["os"] != os or os not in OSES:
        raise Malformed(where + "/os", f"must be `{os}`")
    defaults = fields(found["defaults"], where + "/defaults", (), roots)
    stack = Layers(
        os,
        word(found["mode"], where + "/mode", MODES),
        word(found["baseline"], where + "/baseline", ("read", "deny")),
        each(found["layers"], where + "/layers", layer),
        each(found["sockets"], where + "/sockets", socket),
        _decode_network(found["network"], where + "/network", sources),
        each(found["protected"], where + "/protected", _decode_protected),
        each(found["ceilings"], where + "/ceilings", ceiling),
    )
    return Stored(
        stack,
        {name: decode_place(place, f"{where}/defaults/{name}", roots) for name, place in defaults.items()},
    )


def _decode_network(value: object, where: str, sources: Sequence[str]) -> Network:
    found = fields(value, where, ("mode",), ("ports", "span"))
    span = found.get("span")
    return Network(
        word(found["mode"], where + "/mode", NETWORK_MODES),
        each(found.get("ports", []), where + "/ports", lambda item, at: number(item, at, 1, 65535)),
        None if span is None else decode_span(span, where + "/span", sources),
    )


def _decode_protected(value: object, where: str) -> ProtectedName:
    found = fields(value, where, ("path",), ("kind", "git", "occupant"))
    path = each(found["path"], where + "/path", decode_component)
    if not path:
        raise Malformed(where, "holds no component")
    occupant = found.get("occupant")
    return ProtectedName(
        path,
        word(found.get("kind", ""), where + "/kind", _KINDS),
        flag(found.get("git", False), where + "/git"),
        None if occupant is None else text(occupant, where + "/occupant", 4096),
    )


def decode_loss(value: object, where: str, target: str, sources: Sequence[str]) -> Loss:
    """Return one loss of a target."""
    optional = ("span", "preset", "conditional", "standing", "waived", "at", "message")
    found = fields(value, where, ("code", "kind"), optional)
    span = found.get("span")
    return Loss(
        text(found["code"], where + "/code", 16),
        word(found["kind"], where + "/kind", KINDS),
        target,
        text(found.get("at", ""), where + "/at"),
        text(found.get("message", ""), where + "/message"),
        None if span is None else decode_span(span, where + "/span", sources),
        flag(found.get("preset", False), where + "/preset"),
        flag(found.get("conditional", False), where + "/conditional"),
        flag(found.get("standing", False), where + "/standing"),
        text(found.get("waived", ""), where + "/waived"),
    )


def decode_waiver(value: object, where: str, sources: Sequence[str]) -> Waiver:
    """Return one waiver."""
    found = fields(value, where, ("loss", "target", "at", "reason", "span"))
    span = decode_span(found["span"], where + "/span", sources)
    return Waiver(
        text(found["loss"], where + "/loss", 16),
        word(found["target"], where + "/target", TARGETS),
        Word(text(found["at"], where + "/at"), span),
        text(found["reason"], where + "/reason"),
        span,
    )

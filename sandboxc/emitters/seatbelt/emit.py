"""Seatbelt: grant layers as a profile.

The profile holds the places of each root as data and decides, when it is loaded, how the roots lie in one another
and so which region each layer governs. What is allowed for reading and for writing becomes one filter each; every
operation gets that filter in its allow rule and the rest of the tree in its deny rule, so no rule order matters.
"""

from collections.abc import Iterable, Mapping

from sandboxc import packaged
from sandboxc._version import VERSION
from sandboxc.binding import used_parameters
from sandboxc.capability import Table
from sandboxc.diagnostics import Diagnostic, PolicyError, error, has_errors
from sandboxc.emitters.artefact import Artefact, Options
from sandboxc.emitters.seatbelt import extras as more
from sandboxc.emitters.seatbelt.capability import table
from sandboxc.emitters.seatbelt.overlap import alternating
from sandboxc.emitters.seatbelt.patterns import literal_regex
from sandboxc.emitters.seatbelt.printer import comment_word, form, string
from sandboxc.emitters.seatbelt.tree import Forest, Patterns, TreeText, forms, group_text, hang, scores, spellings
from sandboxc.facts import Facts
from sandboxc.globs import Glob
from sandboxc.layers import Layer, Layers, SocketRule
from sandboxc.losses import Loss
from sandboxc.places import BUILTIN_PARAMETERS, Place
from sandboxc.policy import ALLOW_ALL, CONNECT, DENY, LOOPBACK, WRITE

TARGET = "seatbelt"
FILE = "seatbelt.sb"
#: More than this, and the compilers of macOS are known or feared to refuse the profile.
MAX_FILTERS = 3000
MAX_BYTES = 900_000

_PLAIN = Options()
_EVERYTHING = '(subpath "/")'
_WRITE = ("file-write*", "file-write-setugid", "file-link", "file-clone")
_NAMES = ("file-write-create", "file-write-unlink")


def parameters(stack: Layers, options: Options = _PLAIN) -> tuple[str, ...]:
    """Return the ``-D`` names that the profile of a stack reads, sorted; optional ones included."""
    return tuple(_upper(name) for name in _roots(stack, options))


def definitions(stack: Layers, values: Mapping[str, Place], options: Options = _PLAIN) -> tuple[str, ...]:
    """Return the ``-D NAME=PATH`` words of a profile for these values, which must be physical paths.

    A parameter without a value is left out: an optional one takes its layers with it, a required one makes the
    profile fail at load.
    """
    found: list[str] = []
    for name in _roots(stack, options):
        if name in values:
            found += ["-D", f"{_upper(name)}={values[name].text()}"]
    return tuple(found)


def emit(stack: Layers, facts: Facts, options: Options) -> Artefact:
    """Return the profile of a stack of macOS layers, with or without bound parameters.

    Raises PolicyError where no profile can be made: an unknown service, a service against a lock, a profile larger
    than the compilers of macOS take.
    """
    problems = [*more.unknown_services(options)]
    if not has_errors(problems):
        problems += more.lock_errors(stack, options)
    if has_errors(problems):
        raise PolicyError(problems)
    if not stack.confines:
        text = _header(options) + "(version 1)\n(allow default)\n"
        return Artefact(TARGET, text, {FILE: text.encode()}, ())
    text, filters = _Profile(stack, facts, options).text()
    data = text.encode()
    too_large = _too_large(filters, len(data))
    if too_large:
        raise PolicyError([too_large])
    return Artefact(TARGET, text, {FILE: data}, tuple(_losses(stack, table(facts), options)))


def _too_large(filters: int, size: int) -> Diagnostic | None:
    if filters <= MAX_FILTERS and size <= MAX_BYTES:
        return None
    return error(
        "SBX428",
        f"the Seatbelt profile would hold {filters} path filters in {size} bytes; "
        f"macOS is not known to take more than {MAX_FILTERS} filters or {MAX_BYTES} bytes",
        help="name fewer writable roots or places, for example one directory above them",
    )


def _upper(name: str) -> str:
    return name.upper().replace("-", "_")


def _roots(stack: Layers, options: Options) -> tuple[str, ...]:
    return tuple(sorted({*used_parameters(stack), *more.service_roots(options)}))


def _header(options: Options) -> str:
    name = comment_word(options.name)
    lines = [f"; Seatbelt profile{' ' + name if name else ''}, compiled by sandboxc {comment_word(VERSION)}"]
    if options.digest:
        lines.append(f"; policy {comment_word(options.digest)}")
    return "\n".join(lines) + "\n"


class _Profile:
    """One profile in the making."""

    def __init__(self, stack: Layers, facts: Facts, options: Options) -> None:
        self.stack = more.with_repositories(stack)
        self.options = options
        self.fold = facts.fold_case
        self.closed = options.macos_base != "open"
        self.extras = more.collect(stack, options)
        self.roots = _roots(stack, options)
        self.groups: list[Patterns] = []
        own = self._forest(self.stack.layers, ceiling=False)
        self.forests = [(stack.baseline, own)]
        self.forests += [(c.baseline, self._forest(c.layers, ceiling=True)) for c in stack.ceilings]

    def text(self) -> tuple[str, int]:
        """Return the profile, and how many path filters its largest rule holds."""
        blocks = [
            _header(self.options) + "(version 1)",
            "(deny default)" if self.closed else "(allow default)",
            "\n".join(self._rows()),
            f"(define sbx-fold {'#t' if self.fold else '#f'})",
            packaged.text("emitters", "seatbelt", "library.scm").rstrip("\n"),
            self._places(),
            self._read_rules(),
            self._write_rules(),
        ]
        filters = sum(2 * forest.sites() for _, forest in self.forests)
        return "\n\n".join(block for block in blocks if block) + "\n", filters

    def _forest(self, layers: Iterable[Layer], ceiling: bool) -> Forest:
        forest = Forest(self.fold)
        layers = tuple(layers)
        for layer in layers:
            if isinstance(layer.where, Place):
                forest.place(layer.where, scores(layer))
        hang(forest, layers, self.groups)
        more.plant(forest, self.stack, self.options, self.extras, ceiling)
        if not ceiling:
            if any(name.git for name in self.stack.protected):
                for root in more.git_roots(layers):
                    if isinstance(root.where, Place):
                        forest.place(root.where, scores(root), "git")
            for rule in self.stack.sockets:
                if rule.access == DENY:
                    for node in forest.nodes(rule.where):
                        node.marks.append("pin")
        return forest

    def _rows(self) -> list[str]:
        rows = [form("allow", *row.operations, *([row.filter] if row.filter else [])) for row in self.extras.rows]
        rows += [form("allow", "file-ioctl", item) for item in self.extras.ioctl]
        if not self.closed:
            rows += _open_network(self.stack.network.mode, self.stack.network.ports)
        return rows

    def _places(self) -> str:
        lines = [
            "; ---- the places of this policy: (name (kind mark ...) child ...) ----",
            f"(define sbx-git {string(literal_regex('.git', self.fold))})",
        ]
        names = []
        for index, group in enumerate(self.groups):
            lines.append(form("define", f"sbx-group-{index}", group_text(group, self.fold)))
            names.append(f"sbx-group-{index}")
        lines.append(form("define", "sbx-groups", form("list", *names)))
        for name in self.roots:
            required = "#t" if BUILTIN_PARAMETERS.get(name, True) else "#f"
            lines.append(form("define", f"sbx-at-{name}", form("sbx-root", string(_upper(name)), required)))
        printer = TreeText(self.fold)
        trees: list[str] = []
        for index, (_, forest) in enumerate(self.forests):
            trees.append(form("define", f"sbx-tree-{index}", printer.expression(forest.roots[""])))
            for name in sorted(set(forest.roots) - {""}):
                sub = printer.expression(forest.roots[name])
                graft = form("sbx-graft", f"sbx-tree-{index}", f"sbx-at-{name}", sub)
                trees.append(form("set!", f"sbx-tree-{index}", graft))
        kinds = [f"({name} {found.read} {found.write})" for name, found in sorted(printer.kinds.items())]
        lines.append("(define sbx-kinds '(" + "\n  ".join(kinds) + "))")
        return "\n".join([*lines, *printer.parts, *trees])

    def _region(self, writing: bool) -> list[str]:
        """Return the definition of what all stacks allow: ``sbx-read`` and ``sbx-look``, or ``sbx-write``."""
        name = "write" if writing else "read"
        parts: list[str] = []
        lines: list[str] = []
        looks: list[str] = []
        for index, (baseline, _) in enumerate(self.forests):
            base = baseline == WRITE if writing else baseline != DENY
            switches = f"{'#t' if writing else '#f'} {'#t' if base else '#f'}"
            lines.append(f"(define sbx-{name}-{index} (sbx-allowed {switches} sbx-tree-{index} sbx-extra))")
            if not writing:
                lines += [f"(define sbx-look-{index} (sbx-any-of sbx-seen))", "(set! sbx-seen '())"]
            parts.append(f"sbx-{name}-{index}")
            looks.append(f"(sbx-any sbx-read-{index} sbx-look-{index})")
        if len(parts) == 1:
            looks = ["sbx-look-0"]
        lines.append(form("define", f"sbx-{name}", _all(parts)))
        ceiling = _filters("sbx-trees", self._unsure_locks(writing))
        if ceiling != "#f":
            lines.append(f"(set! sbx-{name} (sbx-but sbx-{name} {ceiling}))")
        if writing and any(more.opens_devices(layer) for layer in self.stack.layers):
            rest = f"(sbx-but {more.DEVICES} {more.written_devices(self.options, self.extras)})"
            lines.append(f"(set! sbx-write (sbx-but sbx-write {rest}))")
        if not writing:
            lines.append(form("define", "sbx-look", _all(looks)))
        return lines

    def _read_rules(self) -> str:
        read = " ".join(("file-read*", *self.extras.follow_read))
        extra = "#f"
        if self.extras.devices:
            extra = form("sbx-any-of", form("list", *self.extras.devices))
        lines = [
            "; ---- reading, and looking at directories above what may be read ----",
            f"(define sbx-extra {extra})",
            *self._region(False),
            f"(if sbx-read (allow {read} sbx-read))",
            f"(deny {read} (sbx-but {_EVERYTHING} sbx-read))",
            f"(if sbx-look (allow file-read-metadata (require-all {_EVERYTHING} sbx-look)))",
            *(f"(set! sbx-{name}-{index} #f)" for index in range(len(self.forests)) for name in ("read", "look")),
            "(set! sbx-read #f)",
            "(set! sbx-look #f)",
        ]
        return "\n".join(lines)

    def _write_rules(self) -> str:
        write = " ".join(_WRITE)
        names = " ".join(_NAMES)
        lines = [
            "; ---- writing; the roots of writable islands and directories above stricter layers stay ----",
            *self._region(True),
            f"(if sbx-write (allow {write} sbx-write))",
            f"(deny {write} (sbx-but {_EVERYTHING} sbx-write))",
            "(define sbx-pinned (sbx-literals sbx-pins))",
            f"(if sbx-pinned (deny {names} sbx-pinned))",
            "(define sbx-pinned (sbx-all sbx-write (sbx-any-of sbx-pin-filters)))",
            f"(if sbx-pinned (deny {names} sbx-pinned))",
            "(define sbx-staying (sbx-all sbx-write (sbx-any-of sbx-stays)))",
            "(if sbx-staying (deny file-write-unlink sbx-staying))",
            "",
            "; ---- Unix sockets ----",
            form("define", "sbx-shut", self._sockets(DENY)),
            form("define", "sbx-connect", self._sockets(CONNECT)),
            form("define", "sbx-bind", self._sockets("bind")),
            f"(define sbx-locked {self._locked()})",
            "(define sbx-out (sbx-any (sbx-but sbx-write sbx-shut) (sbx-but sbx-connect sbx-locked)))",
            "(if sbx-out (allow network-outbound sbx-out))",
            *([] if self.closed else [f"(deny network-outbound (sbx-but {_EVERYTHING} sbx-out))"]),
            "(define sbx-in (sbx-any (sbx-but sbx-write sbx-shut) (sbx-but sbx-bind sbx-locked)))",
            "(if sbx-in (allow network-bind sbx-in))",
            *([] if self.closed else [f"(deny network-bind (sbx-but {_EVERYTHING} sbx-in))"]),
        ]
        return "\n".join(lines)

    def _unsure_locks(self, writing: bool) -> Iterable[Place]:
        """Yield the locked places below which another root may turn out to lie when the profile is loaded.

        Binding by this package refuses such values; a profile that is loaded without it opens nothing there.
        """
        wide = [layer for layer in self.stack.layers if not layer.cap and layer.access != DENY]
        for lock in self.stack.layers:
            if not lock.locked or not isinstance(lock.where, Place) or (lock.access != DENY and not writing):
                continue
            for layer in wide:
                other = layer.where if isinstance(layer.where, Place) else layer.where.anchor
                unsure = (
                    other is not None and other.root != lock.where.root and not (other.is_bound and lock.where.is_bound)
                )
                if unsure and (layer.access == WRITE or not writing):
                    yield lock.where
                    break

    def _sockets(self, access: str) -> str:
        rules: list[SocketRule] = [rule for rule in self.stack.sockets if rule.access == access]
        return _filters("sbx-nodes", [rule.where for rule in rules])

    def _locked(self) -> str:
        """Return the filter of what no socket entry opens: places locked at ``deny``."""
        places = [
            layer.where
            for layer in self.stack.layers
            if layer.locked and layer.access == DENY and isinstance(layer.where, Place)
        ]
        return _filters("sbx-trees", places)


def _filters(function: str, places: Iterable[Place]) -> str:
    """Return the expression of any of these places, in chunks that no reader finds too large."""
    found: list[str] = []
    for place in dict.fromkeys(places):
        root = f"sbx-at-{place.root}" if place.root else "'(())"
        spelt = [each for form_ in forms(place.parts) for each in ((form_,) if place.root else spellings(form_))]
        found += [form(function, root, form("list", *(string(part) for part in parts))) for parts in spelt]
    if not found:
        return "#f"
    joined = found[0]
    for part in found[1:]:
        joined = form("sbx-any", joined, part)
    return joined


def _all(parts: list[str]) -> str:
    joined = parts[0]
    for part in parts[1:]:
        joined = form("sbx-all", joined, part)
    return joined


def _open_network(mode: str, ports: tuple[int, ...]) -> list[str]:
    """Return what closes IP under ``(allow default)``; each rule leaves out what the mode lets through."""
    if mode == ALLOW_ALL:
        return []
    spared = ["localhost:*"] if mode == LOOPBACK else [f"localhost:{port}" for port in sorted(set(ports))]
    lines: list[str] = []
    for operation, end in (("network-outbound", "remote"), ("network-inbound", "local"), ("network-bind", "local")):
        shut = form(end, "ip", '"*:*"')
        kept = spared if end == "remote" or mode == LOOPBACK else []
        if kept:
            openings = form("require-any", *(form(end, "ip", string(each)) for each in kept))
            shut = form("require-all", shut, form("require-not", openings))
        lines.append(form("deny", operation, shut))
    return lines


def _losses(stack: Layers, capabilities: Table, options: Options) -> Iterable[Loss]:
    """Yield what the profile says otherwise than the layers; every kind comes from the capability table."""
    roots = dict.fromkeys(layer.spelled() for layer in stack.layers if layer.access == WRITE and not layer.private)
    found: list[Loss | None] = []
    if options.macos_base == "open":
        found.append(capabilities.loss("brokers", "macos.base"))
    found += [
        capabilities.loss("brokers", f"macos.services.{name}", f"the service `{name}`: {more.risk(name)}")
        for name in options.macos_services
        if name in more.BROKERS
    ]
    if stack.network.mode == LOOPBACK:
        found.append(capabilities.loss("network-loopback", "network", span=stack.network.span))
    if stack.network.ports:
        found.append(capabilities.loss("network-ports", "network", span=stack.network.span))
    for root in roots:
        found += [capabilities.loss(feature, root) for feature in ("sockets-existing", "hard-links")]
    if roots:
        found += [capabilities.loss("baseline-links", "hard links"), capabilities.loss("carve-out", "mkdir")]
    if any(name.git for name in stack.protected):
        found += [capabilities.loss("configured-names", root) for root in roots]
        if any(layer.private for layer in stack.layers):
            found += [capabilities.loss("new-repositories", root) for root in roots]
    if "terminal" not in options.macos_services:
        found.append(capabilities.loss("terminal", "/dev/tty"))
    for layer in alternating(stack):
        assert isinstance(layer.where, Glob)
        found.append(capabilities.loss("glob", layer.text or layer.where.text, span=layer.span))
    yield from dict.fromkeys(loss for loss in found if loss is not None)

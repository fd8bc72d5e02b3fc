"""Source tree -> ``Policy``, or every reason why the text is none, in one run."""

from sandboxc.diagnostics import Diagnostic, Label, has_errors, ordered
from sandboxc.frontend.entries import EntryReader
from sandboxc.frontend.reader import Enough, Field, Fields, Reader, caret
from sandboxc.frontend.yaml_nodes import Mapping, Node, Scalar, Sequence, parse
from sandboxc.places import POSIX, Place, Spelled, parse_place, problem_diagnostic
from sandboxc.policy import (
    ALLOW_ALL,
    DANGER_FULL_ACCESS,
    DENY,
    LOOPBACK,
    MACOS_BASES,
    MODES,
    NETWORK_MODES,
    READ,
    REQUIRE_CHOICES,
    TARGETS,
    WINDOWS_READS,
    Network,
    Policy,
    PresetChoice,
    Word,
)
from sandboxc.source import SourceFile, Span

SCHEMA_VERSION = 1
KEYS = (
    "sandboxc", "name", "description", "mode", "baseline", "workspace", "temp", "network", "hidden",
    "protected", "system", "parameters", "entries", "waive", "tests", "targets", "relative-to", "require",
    "macos", "windows", "overridable",
)  # fmt: skip
LATER_KEYS = {
    "extends": ("SBX206", "write the entries of the base into this policy"),
    "groups": ("SBX207", "write the entries of the group out"),
}
BASELINES = (READ, DENY)
PRESETS = ("standard", "seed", "none")
SYSTEM_CHOICES = ("standard", "none")
OVERRIDABLE_KEYS = ("mode", "baseline", "network", "temp", "hidden", "protected")
MAX_PORTS = 1024


def decode(source: SourceFile, digest: str) -> tuple[Policy | None, tuple[Diagnostic, ...]]:
    """Return the policy that a text holds, or None if there is any error, and the diagnostics."""
    tree = parse(source)
    if tree.root is None:
        return None, tree.diagnostics
    reader = Reader()
    try:
        policy = _Decoder(reader, source.name, digest).policy(tree.root)
    except Enough:
        policy = None
    found = ordered(reader.diagnostics)
    return (None if has_errors(found) else policy), found


class _Decoder:
    """Reads the top level of a policy."""

    def __init__(self, reader: Reader, file: str, digest: str) -> None:
        self.reader = reader
        self.file = file
        self.digest = digest

    def policy(self, root: Node) -> Policy | None:
        reader = self.reader
        fields = reader.fields(root, "the policy", KEYS, LATER_KEYS)
        if fields is None or not isinstance(root, Mapping):
            return None
        start = root.pairs[0][0].span if root.pairs else root.span
        self._version(fields.get("sandboxc"))
        reader.require(fields, ("sandboxc", "mode"), "the policy", start)
        mode = reader.choice(fields.get("mode"), "mode", MODES)
        targets = self._targets(fields.get("targets"))
        entries = EntryReader(reader, targets)
        entries.read_parameters(fields.get("parameters"))
        entries.relative_to, relative_to = self._relative_to(fields.get("relative-to"), entries)
        entries.check_defaults()
        baseline = reader.choice(fields.get("baseline"), "baseline", BASELINES)
        policy = Policy(
            file=self.file,
            digest=self.digest,
            span=root.span,
            mode=mode or Word("", start),
            name=_value(reader.text(fields.get("name"), "`name`")),
            description=_value(reader.text(fields.get("description"), "`description`", one_line=False)),
            baseline=baseline,
            workspace=entries.rooted(fields.get("workspace"), "`workspace`"),
            temp=self._temp(fields.get("temp"), entries),
            network=self._network(fields.get("network"), mode),
            hidden=self._hidden(fields.get("hidden"), entries),
            protected=self._preset(fields.get("protected")),
            system=self._system(fields.get("system"), baseline),
            parameters=entries.parameters,
            entries=entries.read_entries(fields.get("entries")),
            waivers=entries.read_waivers(fields.get("waive")),
            tests=entries.read_tests(fields.get("tests")),
            targets=targets,
            relative_to=relative_to,
            require=_value(reader.choice(fields.get("require"), "requirement", REQUIRE_CHOICES)) or "partial",
            overridable=reader.choices(fields.get("overridable"), "overridable key", OVERRIDABLE_KEYS),
        )
        policy = self._per_system(fields, policy)
        if mode is not None and mode.value == DANGER_FULL_ACCESS:
            self._unconfined(fields, policy)
        return policy

    def _version(self, field: Field | None) -> None:
        if field is None:
            return
        number = self.reader.integer(field.node, "the schema version")
        if number is not None and number != SCHEMA_VERSION:
            self.reader.report(
                "SBX205",
                f"schema version `{number}` is not supported",
                caret(field.node),
                "write `sandboxc: 1`",
            )

    def _targets(self, field: Field | None) -> tuple[str, ...]:
        if field is None:
            return TARGETS
        found = self.reader.choices(field, "target", TARGETS)
        if isinstance(field.node, Sequence) and not field.node.items:
            self.reader.report("SBX218", "`targets` lists nothing", field.node.span, "name a target or remove the key")
        return tuple(word.value for word in found)

    def _relative_to(self, field: Field | None, entries: EntryReader) -> tuple[Place | None, Word | None]:
        """Return the root of relative paths, as a place for checks and as it is written."""
        if field is None:
            return None, None
        word = self.reader.path_node(field.node, "`relative-to`")
        if word is None:
            return None, None
        if not entries.check_path(word, entries.flavours(None), None):
            return Place("workspace", ()), None
        flavour = entries.flavours(None)[:1] or (POSIX,)
        spelled = parse_place(word.value, flavour[0], entries.names)
        if isinstance(spelled, Spelled):
            if not spelled.place.is_bound and spelled.place.parts:
                self.reader.report(
                    "SBX219",
                    f"`{word.value}` is not a root",
                    word.span,
                    f"write `${{{spelled.place.root}}}`, or an absolute path",
                )
            return spelled.place, word
        self.reader.add(problem_diagnostic(spelled, word.span, word.value))
        return None, None

    def _temp(self, field: Field | None, entries: EntryReader) -> str | tuple[Word, ...] | None:
        if field is None:
            return None
        if isinstance(field.node, Scalar):
            found = self.reader.choice(field, "temp", ("private", "none"))
            return "private" if found and found.value == "private" else None
        words = [self.reader.path_node(item, "a temp root") for item in self.reader.items(field)]
        roots = self.reader.distinct(filter(None, words), "temp root")
        if isinstance(field.node, Sequence) and not field.node.items:
            self.reader.report("SBX218", "`temp` lists nothing", field.node.span, "write `temp: none`")
        return tuple(root for root in roots if entries.check_rooted(root))

    def _network(self, field: Field | None, mode: Word | None) -> Network:
        if field is None:
            return Network(ALLOW_ALL if mode and mode.value == DANGER_FULL_ACCESS else DENY)
        if isinstance(field.node, Scalar):
            word = self.reader.choice(field, "network mode", NETWORK_MODES)
            return Network(word.value if word else DENY, (), field.node.span)
        parts = self.reader.fields(field.node, "`network`", ("mode", "ports"))
        if parts is None:
            return Network()
        span = caret(field.node)
        self.reader.require(parts, ("mode",), "`network`", span)
        word = self.reader.choice(parts.get("mode"), "network mode", NETWORK_MODES)
        ports = self._ports(parts.get("ports"))
        if "ports" in parts and word is not None and word.value != LOOPBACK:
            self.reader.report(
                "SBX211",
                f"`ports` means nothing with `mode: {word.value}`",
                parts["ports"].key.span,
                "write `mode: loopback`, or remove `ports`",
                (Label(word.span, "the mode is written here"),),
            )
        return Network(word.value if word else DENY, ports, span)

    def _ports(self, field: Field | None) -> tuple[int, ...]:
        words: list[Word] = []
        for item in self.reader.items(field)[: MAX_PORTS + 1]:
            number = self.reader.integer(item, "a port")
            if number is None:
                continue
            if not 1 <= number <= 65535:
                self.reader.report("SBX213", f"`{number}` is not a port", caret(item), "ports are 1 to 65535")
            else:
                words.append(Word(str(number), caret(item)))
        if len(words) > MAX_PORTS and field is not None:
            self.reader.report("SBX213", f"more than {MAX_PORTS} ports", field.key.span, "write `allow-all`")
        return tuple(int(word.value) for word in self.reader.distinct(words, "port"))

    def _preset(self, field: Field | None) -> PresetChoice:
        """Return the ``hidden:`` or ``protected:`` choice."""
        if field is None:
            return PresetChoice("standard")
        key = field.key.text
        if isinstance(field.node, Scalar):
            word = self.reader.choice(field, "preset", PRESETS)
            if word is not None and word.value == "none":
                self._needs_reason(f"`{key}: none`", word.span, f"write `{key}: {{preset: none, reason: ...}}`")
            return PresetChoice(word.value if word else "standard", field.node.span)
        parts = self.reader.fields(field.node, f"`{key}`", ("preset", "add", "remove", "reason"))
        if parts is None:
            return PresetChoice("standard")
        word = self.reader.choice(parts.get("preset"), "preset", PRESETS)
        add = self.reader.texts(parts.get("add"), "name")
        remove = self.reader.texts(parts.get("remove"), "name")
        for name in add:
            twin = next((other for other in remove if other.value == name.value), None)
            if twin is not None:
                label = (Label(twin.span, "removed here"),)
                self.reader.report("SBX217", f"the name `{name.value}` is added and removed", name.span, "", label)
        reason = self.reader.text(parts.get("reason"), "`reason`", one_line=False)
        if "reason" not in parts:
            if word is not None and word.value == "none":
                self._needs_reason("`preset: none`", word.span, "add `reason: ...`")
            if "remove" in parts:
                self._needs_reason("`remove`", parts["remove"].key.span, "add `reason: ...`")
        if word is not None and word.value == "none" and "remove" in parts:
            self.reader.report(
                "SBX211", "`remove` means nothing with `preset: none`", parts["remove"].key.span, "remove it"
            )
        return PresetChoice(word.value if word else "standard", caret(field.node), add, remove, _value(reason))

    def _hidden(self, field: Field | None, entries: EntryReader) -> PresetChoice:
        """Return the ``hidden:`` choice; a path that it adds makes sense on at least one of the targets."""
        choice = self._preset(field)
        for word in choice.add:
            entries.check_somewhere(word)
        return choice

    def _needs_reason(self, what: str, span: Span, advice: str) -> None:
        self.reader.report("SBX212", f"{what} needs a reason", span, advice)

    def _system(self, field: Field | None, baseline: Word | None) -> Word | None:
        if field is None:
            return None
        word = self.reader.choice(field, "system choice", SYSTEM_CHOICES)
        if baseline is None or baseline.value != DENY:
            labels = (Label(baseline.span, "the baseline is written here"),) if baseline else ()
            self.reader.report(
                "SBX211",
                "`system` goes with `baseline: deny` only",
                field.key.span,
                "remove `system`",
                labels,
            )
        return word

    def _per_system(self, fields: Fields, policy: Policy) -> Policy:
        reader = self.reader
        if "macos" in fields:
            parts = reader.fields(fields["macos"].node, "`macos`", ("base", "services")) or {}
            policy = policy._replace(
                macos_base=reader.choice(parts.get("base"), "macOS base", MACOS_BASES),
                macos_services=self._services(parts.get("services")),
            )
        if "windows" in fields:
            parts = reader.fields(fields["windows"].node, "`windows`", ("reads",)) or {}
            reads = reader.choice(parts.get("reads"), "reads choice", WINDOWS_READS)
            policy = policy._replace(windows_reads=reads)
        return policy

    def _services(self, field: Field | None) -> tuple[Word, ...]:
        if field is None:
            return ()
        from sandboxc.packaged import data

        return self.reader.choices(field, "service", sorted(data("macos_services")["services"]))

    def _unconfined(self, fields: Fields, policy: Policy) -> None:
        """Report what cannot stand beside full access, where it would be dropped without a word."""
        label = (Label(policy.mode.span, "no confinement is asked for here"),)
        advice = "write `mode: workspace-write` with `{path: /, access: write}`"
        for entry in policy.entries:
            self.reader.report(
                "SBX301",
                f"the entry for `{entry.text.value}` would have no effect under `{DANGER_FULL_ACCESS}`",
                entry.text.span,
                advice,
                label,
            )
        if policy.network.mode != ALLOW_ALL and "network" in fields and policy.network.span is not None:
            self.reader.report(
                "SBX302",
                f"`network: {policy.network.mode}` would have no effect under `{DANGER_FULL_ACCESS}`",
                policy.network.span,
                advice + " and this network",
                label,
            )
        for key, harmless in _RESTRICTING.items():
            field = fields.get(key)
            if field is None or (isinstance(field.node, Scalar) and field.node.text in harmless):
                continue
            if isinstance(field.node, Mapping) and key in ("hidden", "protected"):
                choice = policy.hidden if key == "hidden" else policy.protected
                if choice.preset == "none" and not choice.add:
                    continue
            self.reader.report(
                "SBX303",
                f"`{key}` would have no effect under `{DANGER_FULL_ACCESS}`",
                field.key.span,
                advice,
                label,
            )


#: Keys that ask for a restriction -> their values that ask for none.
_RESTRICTING: dict[str, tuple[str, ...]] = {
    "baseline": (READ,),
    "hidden": ("none",),
    "protected": ("none",),
    "temp": ("none",),
}


def _value(word: Word | None) -> str:
    return word.value if word else ""


__all__ = ["BASELINES", "KEYS", "LATER_KEYS", "OVERRIDABLE_KEYS", "PRESETS", "SCHEMA_VERSION", "decode"]

"""The lists of a policy: parameters, entries, waivers and tests, with the checks of their path texts."""

import re
from collections.abc import Iterable

from sandboxc.diagnostics import Label
from sandboxc.frontend.reader import Field, Fields, Reader, caret
from sandboxc.frontend.yaml_nodes import Mapping, Node, Sequence
from sandboxc.globs import parse_except, parse_glob, pattern_size
from sandboxc.places import (
    BUILTIN_PARAMETERS,
    INTERNAL_PARAMETERS,
    OTHER_FLAVOUR,
    POSIX,
    WINDOWS,
    PathProblem,
    Place,
    is_parameter_name,
    parse_place,
    problem_diagnostic,
)
from sandboxc.policy import (
    ABSENT_CHOICES,
    ACCESSES,
    OPERATIONS,
    OSES,
    SOCKET_ACCESSES,
    TARGET_OS,
    TARGETS,
    WITHIN_CHOICES,
    WRITE,
    Entry,
    Expectation,
    Parameter,
    Waiver,
    When,
    Word,
)

ENTRY_KINDS = ("path", "glob", "socket")
ENTRY_KEYS = (*ENTRY_KINDS, "access", "within", "except", "reason", "locked", "overridable", "absent", "when")
LATER_ENTRY_KEYS = dict.fromkeys(("use", "group", "groups", "expires"), ("SBX208", "write the entry out"))
LATER_WHEN_KEYS = dict.fromkeys(
    ("arch", "distro", "facts", "target", "parameters"), ("SBX209", "only `os` can be asked for")
)
LATER_PARAMETER_KEYS = dict.fromkeys(("enum", "values", "pattern"), ("SBX209", "only paths can be parameters"))
PARAMETER_KEYS = ("type", "default", "description")
PARAMETER_TYPES = ("path",)
WAIVER_KEYS = ("loss", "target", "at", "reason")
TEST_KEYS = ("op", "path", "expect", "to")
EXPECTATIONS = ("allow", "deny")
MAX_PARAMETERS = 64
MAX_NAME = 64
#: How many names all patterns of a policy may have together, each alternative counted.
MAX_PATTERN_NAMES = 50_000

#: What helps where a path has no condition of its own and means nothing on some target.
_NO_CONDITION = "start it with `~/` or a parameter, or name the `targets` that the policy is for"

_LOSS = re.compile(r"SBX4[0-9][0-9]\Z")


class EntryReader:
    """Reads the lists of a policy for its targets."""

    def __init__(self, reader: Reader, targets: tuple[str, ...]) -> None:
        self.reader = reader
        self.targets = targets
        self.names: set[str] = set(BUILTIN_PARAMETERS)
        self.parameters: tuple[Parameter, ...] = ()
        self.relative_to: Place | None = None
        self.pattern_names = 0

    def flavours(self, when: When | None) -> tuple[str, ...]:
        """Return the path flavours that a text under this condition must make sense in."""
        systems = {TARGET_OS[target] for target in self.targets}
        if when is not None:
            systems &= set(when.os)
        posix = (POSIX,) if systems & {"linux", "macos"} else ()
        return posix + ((WINDOWS,) if "windows" in systems else ())

    def check_path(self, word: Word, flavours: tuple[str, ...], relative_to: Place | None) -> bool:
        """Return whether a path text makes sense in every flavour; the first problem is reported."""
        return self._all_well(word, (parse_place(word.value, flavour, self.names, relative_to) for flavour in flavours))

    def check_rooted(self, word: Word) -> bool:
        """Return whether a path outside the entries, which has no condition of its own, makes sense."""
        flavours = self.flavours(None)
        results = [parse_place(word.value, flavour, self.names, self.relative_to) for flavour in flavours]
        return self._all_well(word, results, _NO_CONDITION)

    def _all_well(self, word: Word, results: Iterable[object], other_flavour: str = "") -> bool:
        """Return whether all results are well; ``other_flavour`` is the help for a path of the other flavour."""
        for result in results:
            if isinstance(result, PathProblem):
                if other_flavour and result.code in OTHER_FLAVOUR:
                    result = result._replace(help=other_flavour)
                self.reader.add(problem_diagnostic(result, word.span, word.value))
                return False
        return True

    def rooted(self, field: Field | None, what: str) -> Word | None:
        """Return the text of a key whose value is a path."""
        word = None if field is None else self.reader.path_node(field.node, what)
        return word if word is not None and self.check_rooted(word) else None

    # Parameters.

    def read_parameters(self, field: Field | None) -> None:
        """Set ``parameters`` and ``names`` from ``parameters:``."""
        if field is None:
            return
        if not isinstance(field.node, Mapping):
            self.reader.wrong_type(field.node, "`parameters`", "a mapping")
            return
        if len(field.node.pairs) > MAX_PARAMETERS:
            self.reader.report("SBX214", f"more than {MAX_PARAMETERS} parameters", field.key.span, "use fewer")
            return
        found: list[Parameter] = []
        for key, node in field.node.pairs:
            name = key.text
            if name in BUILTIN_PARAMETERS or name in INTERNAL_PARAMETERS:
                self.reader.report("SBX215", f"the parameter `{name}` exists already", key.span, "choose another name")
            elif len(name) > MAX_NAME or not is_parameter_name(name):
                self.reader.report(
                    "SBX214",
                    f"`{name[:MAX_NAME]}` is not a parameter name",
                    key.span,
                    "use lower-case words of letters and digits, joined by `-`",
                )
            self.names.add(name)
            found.append(self._parameter(Word(name, key.span), node))
        self.parameters = tuple(found)

    def check_defaults(self) -> None:
        """Check the default of each parameter, once all names and the root of relative paths are known."""
        for parameter in self.parameters:
            if parameter.default is not None:
                self.check_rooted(parameter.default)

    def _parameter(self, key: Word, node: Node) -> Parameter:
        reader = self.reader
        parts = reader.fields(node, "a parameter", PARAMETER_KEYS, LATER_PARAMETER_KEYS) or {}
        if isinstance(node, Mapping):
            reader.require(parts, ("type",), "the parameter", key.span)
        reader.choice(parts.get("type"), "parameter type", PARAMETER_TYPES)
        default: Word | None = None
        if "default" in parts:
            default = reader.path_node(parts["default"].node, "`default`")
        description = reader.text(parts.get("description"), "`description`", one_line=False)
        return Parameter(key.value, key.span, default, description.value if description else "")

    # Entries.

    def read_entries(self, field: Field | None) -> tuple[Entry, ...]:
        """Return the entries of ``entries:`` that could be read."""
        return tuple(filter(None, [self._entry(item) for item in self.reader.items(field)]))

    def _entry(self, node: Node) -> Entry | None:
        reader = self.reader
        parts = reader.fields(node, "an entry", ENTRY_KEYS, LATER_ENTRY_KEYS)
        if parts is None:
            return None
        kinds = [kind for kind in ENTRY_KINDS if kind in parts]
        if len(kinds) != 1:
            self._one_kind(node, parts, kinds)
        reader.require(parts, ("access",), "the entry", caret(node))
        kind = kinds[0] if kinds else "path"
        words = SOCKET_ACCESSES if kind == "socket" else ACCESSES
        access = reader.choice(parts.get("access"), "socket access" if kind == "socket" else "access", words)
        when = self._when(parts.get("when"))
        within = reader.choice(parts.get("within"), "reach", WITHIN_CHOICES)
        absent = reader.choice(parts.get("absent"), "absent choice", ABSENT_CHOICES)
        if len(kinds) == 1:
            self._fitting(parts, kind, access, absent)
        text = reader.path_node(parts[kind].node, f"`{kind}`") if kinds else None
        excepts = self._excepts(parts.get("except"), when)
        if text is not None and len(kinds) == 1:
            self._place(text, kind, within.value if within else "", when, "within" in parts)
        reason = reader.text(parts.get("reason"), "`reason`", one_line=False)
        locked, overridable = reader.flag(parts.get("locked")), reader.flag(parts.get("overridable"))
        if text is None or access is None:
            return None
        return Entry(
            kind=kind,
            text=text,
            access=access,
            span=node.span,
            within=within.value if within else "",
            excepts=excepts,
            reason=reason.value if reason else "",
            locked=locked,
            overridable=overridable,
            absent=absent.value if absent else "",
            when=when,
        )

    def _one_kind(self, node: Node, parts: Fields, kinds: list[str]) -> None:
        if not kinds:
            self.reader.report(
                "SBX210", "the entry names no place", caret(node), "add one of `path`, `glob` and `socket`"
            )
            return
        first, *others = kinds
        label = (Label(parts[first].key.span, "the first place is named here"),)
        for other in others:
            self.reader.report(
                "SBX210",
                f"the entry has both `{first}` and `{other}`",
                parts[other].key.span,
                "write two entries",
                label,
            )

    def _fitting(self, parts: Fields, kind: str, access: Word | None, absent: Word | None) -> None:
        """Report keys that mean nothing for this kind of entry."""
        owners = {"within": "glob", "except": "glob", "absent": "path"}
        for key, owner in owners.items():
            if key in parts and kind != owner:
                self.reader.report(
                    "SBX211", f"`{key}` goes with `{owner}` only", parts[key].key.span, f"remove `{key}`"
                )
        if kind != "path" or access is None or absent is None:
            return
        label = (Label(access.span, "the access is written here"),)
        if absent.value == "create" and access.value != WRITE:
            self.reader.report(
                "SBX211",
                "`absent: create` goes with `access: write` only",
                absent.span,
                "write `absent: report`",
                label,
            )
        if absent.value == "placeholder" and access.value == WRITE:
            self.reader.report(
                "SBX211",
                "`absent: placeholder` cannot hold a place that is to be written",
                absent.span,
                "write `absent: create`",
                label,
            )

    def _when(self, field: Field | None) -> When | None:
        if field is None:
            return None
        parts = self.reader.fields(field.node, "`when`", ("os",), LATER_WHEN_KEYS)
        if parts is None:
            return None
        if isinstance(field.node, Mapping) and not field.node.pairs:
            self.reader.report("SBX204", "`when` has no `os`", field.node.span, "write `when: {os: linux}`")
        if "os" not in parts:
            return None
        node = parts["os"].node
        if not isinstance(node, Sequence):
            word = self.reader.choice_node(node, "operating system", OSES)
            return When((word.value,), caret(field.node)) if word else None
        if not node.items:
            self.reader.report("SBX218", "`os` lists nothing", node.span, "name a system or remove `when`")
        found = self.reader.choices(parts["os"], "operating system", OSES)
        return When(tuple(word.value for word in found), caret(field.node)) if found else None

    def _place(self, text: Word, kind: str, within: str, when: When | None, has_within: bool) -> None:
        """Check the text of an entry under every path flavour that it will be read in."""
        flavours = self.flavours(when)
        if kind == "path":
            self.check_path(text, flavours, self.relative_to)
        elif kind == "socket":
            # Unix sockets live below POSIX roots; a drive is asked for only where nothing else is meant.
            self.check_path(text, flavours[:1], self.relative_to)
        else:
            if not self._affordable(text):
                return
            if has_within and not within:
                within = WITHIN_CHOICES[0] if text.value.startswith("**") else ""
            self._all_well(text, [parse_glob(text.value, within, flavour, self.names) for flavour in flavours])

    def _affordable(self, text: Word) -> bool:
        """Return whether the patterns up to this one are few enough to be read; the first too many is reported."""
        before, self.pattern_names = self.pattern_names, self.pattern_names + pattern_size(text.value)
        if before <= MAX_PATTERN_NAMES < self.pattern_names:
            self.reader.report(
                "SBX334",
                f"the patterns of the policy have more than {MAX_PATTERN_NAMES} names together",
                text.span,
                "use sets such as `[a-e]`, or fewer alternatives",
            )
        return self.pattern_names <= MAX_PATTERN_NAMES

    def _excepts(self, field: Field | None, when: When | None) -> tuple[Word, ...]:
        if field is None:
            return ()
        words = [self.reader.path_node(item, "an exception") for item in self.reader.items(field)]
        found = self.reader.distinct(filter(None, words), "exception")
        for word in filter(self._affordable, found):
            self._all_well(word, (parse_except(word.value, flavour) for flavour in self.flavours(when)))
        return found

    # Waivers and tests.

    def read_waivers(self, field: Field | None) -> tuple[Waiver, ...]:
        """Return the waivers of ``waive:`` that could be read; a repetition is reported."""
        found = tuple(filter(None, [self._waiver(item) for item in self.reader.items(field)]))
        first: dict[tuple[str, str, str], Waiver] = {}
        for waiver in found:
            earlier = first.setdefault((waiver.loss, waiver.target, waiver.at.value), waiver)
            if earlier is not waiver:
                message = f"the waiver of `{waiver.loss}` on {waiver.target} at `{waiver.at.value}` is listed twice"
                label = Label(earlier.at.span, "first written here")
                self.reader.report("SBX217", message, waiver.at.span, "remove one", (label,))
        return found

    def _waiver(self, node: Node) -> Waiver | None:
        reader = self.reader
        parts = reader.fields(node, "a waiver", WAIVER_KEYS)
        if parts is None:
            return None
        complete = reader.require(parts, ("loss", "target", "at"), "the waiver", caret(node))
        if "reason" not in parts:
            reader.report("SBX212", "a waiver needs a reason", caret(node), "add `reason: ...`")
        loss = reader.text(parts.get("loss"), "`loss`")
        if loss is not None and not _LOSS.match(loss.value):
            reader.report(
                "SBX220",
                f"`{loss.value}` is not the code of a loss",
                loss.span,
                "loss codes are `SBX400` to `SBX499`",
            )
        target = reader.choice(parts.get("target"), "target", TARGETS)
        if target is not None and target.value not in self.targets:
            reader.report(
                "SBX221",
                f"the policy is not for `{target.value}`",
                target.span,
                "add it to `targets`, or remove the waiver",
            )
        at = reader.text(parts.get("at"), "`at`")
        reason = reader.text(parts.get("reason"), "`reason`", one_line=False)
        if not complete or loss is None or target is None or at is None or reason is None:
            return None
        return Waiver(loss.value, target.value, at, reason.value, node.span)

    def read_tests(self, field: Field | None) -> tuple[Expectation, ...]:
        """Return the expectations of ``tests:`` that could be read."""
        return tuple(filter(None, [self._test(item) for item in self.reader.items(field)]))

    def _test(self, node: Node) -> Expectation | None:
        reader = self.reader
        parts = reader.fields(node, "a test", TEST_KEYS)
        if parts is None:
            return None
        reader.require(parts, ("op", "path", "expect"), "the test", caret(node))
        op = reader.choice(parts.get("op"), "operation", OPERATIONS)
        path = self._tested(parts.get("path"))
        to = self._tested(parts.get("to"))
        expect = reader.choice(parts.get("expect"), "expectation", EXPECTATIONS)
        if op is not None and op.value in ("rename", "link"):
            if "to" not in parts:
                reader.report("SBX204", f"a `{op.value}` test has no `to`", caret(node), "add `to: ...`")
        elif op is not None and "to" in parts:
            reader.report("SBX211", "`to` goes with `rename` and `link` only", parts["to"].key.span, "remove `to`")
        if op is None or path is None or expect is None:
            return None
        return Expectation(op.value, path, expect.value, node.span, to)

    def _tested(self, field: Field | None) -> Word | None:
        """Return a path that makes sense on at least one of the policy's targets."""
        word = None if field is None else self.reader.path_node(field.node, f"`{field.key.text}`")
        if word is not None:
            self.check_somewhere(word)
        return word

    def check_somewhere(self, word: Word) -> None:
        """Report a path that makes sense on none of the policy's targets."""
        results: list[object] = [
            parse_place(word.value, flavour, self.names, self.relative_to) for flavour in self.flavours(None)
        ]
        if results and all(isinstance(result, PathProblem) for result in results):
            self._all_well(word, results[:1], _NO_CONDITION)

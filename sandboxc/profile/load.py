"""Reading a profile directory back, trusting nothing in it.

This is on the way of every confined run, so it imports little: no front end, no emitter, no template engine. The
names and digests of the manifest must be exactly what the directory holds; a file is opened once, without
following links, and what was verified is what is used.
"""

import os
import stat

from sandboxc._version import VERSION
from sandboxc.diagnostics import Diagnostic, PolicyError, error
from sandboxc.digests import sha256_hex
from sandboxc.emitters.artefact import Options
from sandboxc.losses import Loss
from sandboxc.places import BUILTIN_PARAMETERS, INTERNAL_PARAMETERS, is_parameter_name
from sandboxc.plain_json import decode
from sandboxc.policy import MACOS_BASES, OSES, TARGETS, WINDOWS_READS
from sandboxc.profile import codec
from sandboxc.profile.codec import FORMAT_VERSION, LAYERS, MANIFEST, Malformed, Stored
from sandboxc.records import Any, NamedTuple

MAX_FILE = 16 * 1024 * 1024
MAX_FILES = 64
#: Codes that mean "could not run" (exit 2) and not "the profile is wrong" (exit 1).
IO_CODES = frozenset({"SBX730"})
_HEX = frozenset("0123456789abcdef")
_RECOMPILE = "compile the policy again with `sandboxc compile POLICY --target all -o DIR`"


class Parameter(NamedTuple):
    """A parameter of a profile: whether the policy declares it, and whether it must be given a value."""

    name: str
    declared: bool
    required: bool
    description: str


class TargetRecord(NamedTuple):
    """What a manifest says of one target: its losses, standing limits included, constraints and files."""

    target: str
    enforcement: str
    losses: tuple[Loss, ...]
    constraints: tuple[str, ...]
    files: tuple[str, ...]


class Manifest(NamedTuple):
    """A checked manifest. ``files`` and ``sources`` map names to SHA-256 digests in hex.

    ``for_targets`` are the targets that the policy is for, ``targets`` those that were compiled.
    """

    compiler: str
    policy: dict[str, str]
    sources: dict[str, str]
    presets: dict[str, int]
    parameters: dict[str, Parameter]
    facts: dict[str, object]
    options: Options
    for_targets: tuple[str, ...]
    targets: dict[str, TargetRecord]
    files: dict[str, str]


class StoredProfile:
    """A verified profile directory.

    ``path`` is where it was read from, ``manifest`` what it promises, ``manifest_bytes`` the same as it was read,
    ``files`` maps each other file's name to its bytes. Layers are decoded on first use.
    """

    __slots__ = ("_decoded", "_layers", "_sources", "files", "manifest", "manifest_bytes", "path")

    def __init__(self, path: str, manifest: Manifest, manifest_bytes: bytes, files: dict[str, bytes]) -> None:
        self.path = path
        self.manifest = manifest
        self.manifest_bytes = manifest_bytes
        self.files = files
        self._decoded: dict[str, Stored] = {}
        self._layers: dict[str, Any] | None = None
        self._sources: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Return the name of the policy; empty where it has none."""
        return self.manifest.policy["name"]

    @property
    def systems(self) -> tuple[str, ...]:
        """Return the operating systems that the profile holds layers for."""
        return tuple(self._stacks())

    def layers_for(self, os: str) -> Stored:
        """Return the layers for an operating system and the defaults of declared parameters.

        Raises:
            PolicyError: the profile holds none for it, or they are malformed.
        """
        if os not in self._decoded:
            stacks = self._stacks()
            if os not in stacks:
                raise PolicyError([_bad("SBX738", f"`{self.path}` has no layers for {os}", _RECOMPILE)])
            roots = {*BUILTIN_PARAMETERS, *INTERNAL_PARAMETERS, *self.manifest.parameters}
            try:
                found = codec.decode_stack(stacks[os], f"stacks/{os}", os, roots, self._sources)
            except Malformed as fault:
                raise PolicyError([_malformed(LAYERS, fault)]) from None
            self._decoded[os] = found
        return self._decoded[os]

    def artefact(self, target: str, name: str) -> bytes:
        """Return one of the files of a target.

        Raises:
            PolicyError: the profile was not compiled for that target, or has no such file.
        """
        record = self.manifest.targets.get(target)
        if record is None or name not in record.files:
            known = ", ".join(self.manifest.targets) or "none"
            raise PolicyError([_bad("SBX738", f"`{self.path}` holds no {name} for {target}", f"compiled for: {known}")])
        return self.files[name]

    def _stacks(self) -> dict[str, Any]:
        if self._layers is None:
            try:
                found = codec.fields(
                    decode_json(self.files[LAYERS], LAYERS), LAYERS, ("format_version", "sources", "stacks")
                )
                _version(found, LAYERS)
                self._sources = codec.each(found["sources"], "sources", codec.text)
                self._layers = codec.fields(found["stacks"], "stacks", (), OSES)
            except Malformed as fault:
                raise PolicyError([_malformed(LAYERS, fault)]) from None
        return self._layers


def load_profile(path: str) -> StoredProfile:
    """Return the profile in a directory after verifying every digest.

    Raises:
        PolicyError: it cannot be read, is of a form that this version does not know, or is not what its manifest
            says; every reason is in the exception, and nothing of it may be used.
    """
    shown = path.replace("\\", "/")
    names, descriptor = _open(path, shown)
    try:
        raw, problem = _read(path, MANIFEST, descriptor)
        if raw is None:
            raise PolicyError([problem or _bad("SBX732", f"`{shown}` has no {MANIFEST}", _RECOMPILE)])
        try:
            manifest = decode_manifest(raw)
        except Malformed as fault:
            raise PolicyError([_malformed(MANIFEST, fault)]) from None
        files: dict[str, bytes] = {}
        problems = [
            _bad("SBX733", f"`{shown}/{name}` is not named in the manifest", "remove it")
            for name in sorted(names - manifest.files.keys() - {MANIFEST})
        ]
        for name, digest in manifest.files.items():
            data, problem = _read(path, name, descriptor) if name in names else (None, None)
            if data is None:
                problems.append(problem or _bad("SBX732", f"`{shown}/{name}` is missing", _RECOMPILE))
            elif sha256_hex(data) != digest:
                problems.append(_bad("SBX736", f"`{shown}/{name}` was changed after it was compiled", _RECOMPILE))
            else:
                files[name] = data
    finally:
        if descriptor is not None:
            os.close(descriptor)
    if problems:
        raise PolicyError(problems)
    return StoredProfile(path, manifest, raw, files)


def is_profile(path: str) -> bool:
    """Return whether a path is a directory, as profiles are and policies are not."""
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False


def _open(path: str, shown: str) -> tuple[set[str], int | None]:
    """Return the names in the directory and, where the system has that, a descriptor to read them through."""
    try:
        if os.open not in os.supports_dir_fd:  # Windows
            return set(os.listdir(path)), None
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            return set(os.listdir(descriptor)), descriptor
        except OSError:
            os.close(descriptor)
            raise
    except (OSError, ValueError) as fault:
        reason = (getattr(fault, "strerror", None) or str(fault)).lower()
        raise PolicyError(
            [_bad("SBX730", f"`{shown}` cannot be read as a profile: {reason}", "name a profile directory")]
        ) from None


def _read(path: str, name: str, directory: int | None) -> tuple[bytes | None, Diagnostic | None]:
    """Return a file's bytes, or why it is refused; neither where it is not there."""
    shown = f"{path}/{name}".replace("\\", "/")
    flags = os.O_RDONLY
    for extra in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"):
        flags |= getattr(os, extra, 0)
    place = name if directory is not None else os.path.join(path, name)
    try:
        # INVARIANT: nothing but a regular file is opened, so no device or fifo sees an open of ours.
        found = os.stat(place, dir_fd=directory, follow_symlinks=False)
        if not stat.S_ISREG(found.st_mode):
            return None, _bad("SBX734", f"`{shown}` is not a regular file", "a profile holds plain files only")
        descriptor = os.open(place, flags, dir_fd=directory)
    except FileNotFoundError:
        return None, None
    except OSError as fault:
        return None, _bad("SBX730", f"`{shown}` cannot be read: {(fault.strerror or '').lower()}", "")
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None, _bad("SBX734", f"`{shown}` is not a regular file", "a profile holds plain files only")
        chunks: list[bytes] = []
        left = MAX_FILE + 1
        while left > 0 and (chunk := os.read(descriptor, left)):
            chunks.append(chunk)
            left -= len(chunk)
    except OSError as fault:
        return None, _bad("SBX730", f"`{shown}` cannot be read: {(fault.strerror or '').lower()}", "")
    finally:
        os.close(descriptor)
    if left <= 0:
        return None, _bad("SBX735", f"`{shown}` is larger than {MAX_FILE >> 20} MiB", _RECOMPILE)
    return b"".join(chunks), None


def decode_json(data: bytes, name: str) -> object:
    """Return a JSON value; duplicate keys, NaN and too deep a nesting raise ``Malformed``."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise Malformed(name, "an object has the same key twice")
        return found

    def refuse(word: str) -> object:
        raise Malformed(name, f"`{word}` is no JSON number")

    try:
        value: object = decode(data.decode("utf-8"), once, refuse)
    except Malformed:
        raise
    except RecursionError:
        raise Malformed(name, "is nested too deeply") from None
    except ValueError as fault:
        raise Malformed(name, f"is not JSON ({str(fault).partition(':')[0].lower()})") from None
    return value


_MANIFEST_KEYS = (
    "format_version", "compiler", "policy", "sources", "presets", "parameters", "facts", "options",
    "targets", "waivers", "files",
)  # fmt: skip
_POLICY_KEYS = ("name", "description", "sha256", "mode", "baseline", "network", "temp", "require")
_OPTION_KEYS = ("macos_base", "macos_services", "windows_reads", "targets")
_PARAMETER_KEYS = ("type", "declared", "required", "default", "description")
_TARGET_KEYS = ("enforcement", "constraints", "limits", "losses", "files")


def decode_manifest(raw: bytes) -> Manifest:
    """Return the manifest that these bytes hold.

    Raises:
        Malformed: some field is not what it must be.
        PolicyError: its form is one that this version does not read.
    """
    value = decode_json(raw, MANIFEST)
    if type(value) is not dict:
        raise Malformed(MANIFEST, "must be an object")
    _version(value, MANIFEST)
    found = codec.fields(value, MANIFEST, _MANIFEST_KEYS)
    compiler = codec.fields(found["compiler"], "compiler", ("name", "version"))
    policy = codec.fields(found["policy"], "policy", _POLICY_KEYS)
    options = codec.fields(found["options"], "options", _OPTION_KEYS)
    sources: dict[str, str] = {}
    for index, item in enumerate(codec.items(found["sources"], "sources", 1024)):
        row = codec.fields(item, f"sources/{index}", ("name", "sha256"))
        name = codec.text(row["name"], f"sources/{index}/name", 4096)
        sources[name] = _digest(row["sha256"], f"sources/{index}")
    names = tuple(sources)
    files = codec.fields(found["files"], "files", (LAYERS,), found["files"])
    if len(files) > MAX_FILES:
        raise Malformed("files", f"names more than {MAX_FILES} files")
    digests = {_file_name(name): _digest(digest, f"files/{name}") for name, digest in files.items()}
    targets = codec.fields(found["targets"], "targets", (), TARGETS)
    parameters = codec.items(
        list(codec.fields(found["parameters"], "parameters", (), found["parameters"])), "parameters"
    )
    presets = codec.fields(found["presets"], "presets", (), found["presets"])
    facts = codec.fields(found["facts"], "facts", (), found["facts"])
    return Manifest(
        codec.text(compiler["version"], "compiler/version", 64),
        {key: codec.text(policy[key], f"policy/{key}") for key in _POLICY_KEYS},
        sources,
        {key: codec.number(item, f"presets/{key}") for key, item in presets.items()},
        {name: _parameter(name, found["parameters"][name]) for name in parameters},
        facts,
        Options(
            codec.text(policy["name"], "policy/name"),
            codec.text(policy["sha256"], "policy/sha256"),
            codec.word(options["macos_base"], "options/macos_base", MACOS_BASES),
            codec.each(options["macos_services"], "options/macos_services", codec.text),
            codec.word(options["windows_reads"], "options/windows_reads", WINDOWS_READS),
            codec.each(found["waivers"], "waivers", lambda item, at: codec.decode_waiver(item, at, names)),
        ),
        codec.each(options["targets"], "options/targets", lambda item, at: codec.word(item, at, TARGETS)),
        {target: _target(target, item, names, digests) for target, item in targets.items()},
        digests,
    )


def _version(found: dict[str, Any], name: str) -> None:
    version = found.get("format_version")
    if type(version) is not int:
        raise Malformed(name, "`format_version` must be an integer")
    if version != FORMAT_VERSION:
        newer = version > FORMAT_VERSION
        advice = f"it was written by a newer sandboxc than {VERSION}: upgrade, or " if newer else ""
        message = f"{name} has format version {version}, and this sandboxc reads {FORMAT_VERSION}"
        raise PolicyError([_bad("SBX731", message, advice + _RECOMPILE)])


def _parameter(name: str, value: object) -> Parameter:
    where = f"parameters/{name}"
    if not is_parameter_name(name):
        raise Malformed(where, f"`{name}` is no parameter name")
    found = codec.fields(value, where, _PARAMETER_KEYS)
    codec.word(found["type"], where + "/type", ("path",))
    codec.fields(found["default"], where + "/default", (), OSES)
    return Parameter(
        name,
        codec.flag(found["declared"], where + "/declared"),
        codec.flag(found["required"], where + "/required"),
        codec.text(found["description"], where + "/description"),
    )


def _target(target: str, value: object, sources: tuple[str, ...], digests: dict[str, str]) -> TargetRecord:
    where = f"targets/{target}"
    found = codec.fields(value, where, _TARGET_KEYS)

    def loss(item: object, at: str) -> Loss:
        return codec.decode_loss(item, at, target, sources)

    files = codec.each(found["files"], where + "/files", codec.text)
    for name in files:
        if name not in digests:
            raise Malformed(where + "/files", f"`{name}` is not among the files")
    return TargetRecord(
        target,
        codec.word(found["enforcement"], where + "/enforcement", ("full", "partial")),
        codec.each(found["losses"], where + "/losses", loss) + codec.each(found["limits"], where + "/limits", loss),
        codec.each(found["constraints"], where + "/constraints", codec.text),
        files,
    )


def _digest(value: object, where: str) -> str:
    found = codec.text(value, where, 64)
    if len(found) != 64 or not _HEX.issuperset(found):
        raise Malformed(where, "is no SHA-256 digest in lower-case hex")
    return found


def _file_name(name: str) -> str:
    good = name.isascii() and name.isprintable() and not any(char in name for char in '/\\:*?"<>|')
    if not good or name.startswith(".") or name == MANIFEST or len(name) > 128:
        raise Malformed("files", f"`{name}` is not the name of a profile's file")
    return name


def _bad(code: str, message: str, help: str) -> Diagnostic:
    return error(code, message, None, help)


def _malformed(name: str, fault: Malformed) -> Diagnostic:
    place = "" if fault.where == name else f" at `{fault.where}`"
    return _bad("SBX737", f"{name} is malformed{place}: {fault.what}", _RECOMPILE)

"""Putting the files of a profile into a directory, so that a reader never takes half of one for a whole."""

import os
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress

from sandboxc.diagnostics import PolicyError, error
from sandboxc.profile.codec import MANIFEST, Malformed
from sandboxc.profile.load import decode_json


def save_profile(path: str, files: Mapping[str, bytes]) -> bool:
    """Write the files as the whole content of a directory, and return whether anything changed.

    A new directory appears at once. In an existing one the manifest goes first and comes back last, so that what
    a crash leaves is refused by ``load_profile``. Files that the old manifest names and the new profile does not
    have are removed.

    Raises:
        PolicyError: the directory exists and is not a profile, or holds other files.
        OSError: it cannot be written.
    """
    path = os.path.normpath(path)
    if os.path.lexists(path):
        return _update(path, files)
    parent = os.path.dirname(path) or "."
    os.makedirs(parent, exist_ok=True)
    fresh = tempfile.mkdtemp(prefix=".sandboxc-", dir=parent)
    try:
        for name, data in files.items():
            _write(os.path.join(fresh, name), data)
        os.chmod(fresh, 0o777 & ~_umask())
        os.rename(fresh, path)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    return True


def _update(path: str, files: Mapping[str, bytes]) -> bool:
    old = _old_names(path)
    present = set(os.listdir(path))
    foreign = sorted(present - old - files.keys())
    if foreign or (present and MANIFEST not in present):
        what = f"holds `{foreign[0]}`, which is no part of a profile" if foreign else "is no profile"
        raise PolicyError(
            [error("SBX742", f"`{path}` exists and {what}", None, "name a new directory, or remove that one")]
        )
    if present == files.keys() and all(_holds(os.path.join(path, name), files[name]) for name in files):
        return False
    with suppress(FileNotFoundError):
        os.unlink(os.path.join(path, MANIFEST))
    for name, data in files.items():
        if name != MANIFEST:
            _replace(path, name, data)
    for name in present - files.keys():
        os.unlink(os.path.join(path, name))
    _replace(path, MANIFEST, files[MANIFEST])
    return True


def _old_names(path: str) -> set[str]:
    """Return the names that an existing profile directory may hold; empty where its manifest cannot be read."""
    place = os.path.join(path, MANIFEST)
    if not os.path.isdir(path):
        raise PolicyError([error("SBX742", f"`{path}` exists and is no directory", None, "name a directory")])
    if not os.path.isfile(place) or os.path.islink(place):
        return set()
    with open(place, "rb") as file:
        raw = file.read()
    try:
        found = decode_json(raw, MANIFEST)
    except Malformed:
        return {MANIFEST}
    # One of another format version may be replaced as well, so only the names are read here.
    names = found.get("files") if isinstance(found, dict) else None
    return {MANIFEST, *(names if isinstance(names, dict) else ())}


def _holds(path: str, data: bytes) -> bool:
    if os.path.islink(path) or not os.path.isfile(path) or os.path.getsize(path) != len(data):
        return False
    with open(path, "rb") as file:
        return file.read() == data


def replace_file(path: str, data: bytes) -> None:
    """Write one file, whole or not at all; what is no regular file (a pipe, a terminal) is written to as it is."""
    if os.path.lexists(path) and not os.path.isfile(path):
        with open(path, "wb") as file:
            file.write(data)
        return
    place = os.path.realpath(path)
    _replace(os.path.dirname(place), os.path.basename(place), data)


def _replace(directory: str, name: str, data: bytes) -> None:
    """Write one file of a directory under another name first, and move it over."""
    try:
        descriptor, fresh = tempfile.mkstemp(prefix=".sandboxc-", dir=directory)  # short: a name may have 255 bytes
    except OSError as fault:
        fault.filename = os.path.join(directory, name)  # the path that was asked for, not the one that was tried
        raise
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        os.chmod(fresh, 0o666 & ~_umask())
        os.replace(fresh, os.path.join(directory, name))
    except BaseException:
        with suppress(OSError):
            os.unlink(fresh)
        raise


def _write(path: str, data: bytes) -> None:
    with open(path, "xb") as file:
        file.write(data)


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask

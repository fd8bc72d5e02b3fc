"""SHA-256 without OpenSSL: the interpreter's own module starts ten times faster than ``hashlib``."""

from collections.abc import Callable

from sandboxc.records import Any

_new: Callable[[bytes], Any]
try:
    from _sha2 import sha256 as _new  # type: ignore[no-redef,import-not-found,unused-ignore]
except ImportError:
    try:
        from _sha256 import sha256 as _new  # type: ignore[no-redef,import-not-found,unused-ignore]
    except ImportError:
        from hashlib import sha256 as _new


def sha256_hex(data: bytes) -> str:
    """Return the SHA-256 of some bytes in lower-case hex."""
    digest: str = _new(data).hexdigest()
    return digest

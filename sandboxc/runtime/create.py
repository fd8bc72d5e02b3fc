"""Making the directories that ``absent: create`` entries ask for (design rule 9)."""

import contextlib
import os

from sandboxc.policy import WRITE
from sandboxc.runtime import linux
from sandboxc.survey import Resolved
from sandboxc.survey.look import ABSENT


def make_missing(resolved: Resolved) -> bool:
    """Make what write entries with ``absent: create`` name, and return whether anything was made.

    A path is made component by component below the deepest directory that is there, without following links.

    Raises:
        OSError: one cannot be made; ``filename`` is its path.
    """
    made = False
    for site in resolved.sites:
        if site.kind == ABSENT and site.access == WRITE and site.layer.absent == "create":
            _make(site.path, site.missing or site.path)
            made = True
    return made


def _make(path: str, missing: str) -> None:
    base = missing.rpartition("/")[0] or "/"
    try:
        here = linux.open_no_follow(base, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as fault:
        raise OSError(fault.errno, fault.strerror, path) from None
    try:
        for name in path[len(base) :].strip("/").split("/"):
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, 0o755, dir_fd=here)
            below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
            os.close(here)
            here = below
    except OSError as fault:
        raise OSError(fault.errno, fault.strerror, path) from None
    finally:
        os.close(here)

"""A time-out for a part of a test, so that what never ends fails instead of hanging."""

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType


@contextlib.contextmanager
def within(seconds: int) -> Iterator[None]:
    """Fail what takes longer than any machine needs; nothing is measured."""

    def late(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"still not done after {seconds} seconds")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)

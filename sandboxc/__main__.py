"""The command ``sandboxc`` (also ``python -m sandboxc``)."""

import os
import sys


def main() -> int:
    """Return the exit code of the command line in ``sys.argv``; see ``sandboxc.cli``."""
    _open_standard()
    from sandboxc.cli import run_command_line

    return run_command_line(sys.argv[1:])


def _open_standard() -> None:
    """Put the null device where a standard descriptor is closed, lest a file that is opened later becomes one."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, number, inheritable=True)
            if null != number:
                os.close(null)
            stream = open(number, "w" if number else "r", encoding="utf-8", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)


if __name__ == "__main__":
    sys.exit(main())

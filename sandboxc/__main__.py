"""The command ``sandboxc`` (also ``python -m sandboxc``)."""

import gc
import os
import sys


def main() -> None:
    """End the process with the exit code of the command line in ``sys.argv``; see ``sandboxc.cli``.

    A command is short: collecting its few cycles, and taking the interpreter apart at the end, would take as long as
    starting it did. Nothing here leaves work for the end but what the standard streams still hold.
    """
    gc.set_threshold(100_000, 50, 50)
    _open_standard()
    from sandboxc.cli import run_command_line

    code = run_command_line(sys.argv[1:])
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):  # nobody reads it any more; the code says what became of the command
            continue
    os._exit(code)


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
    # `python -m` looks for modules in the current directory first, and a run may have put some there.
    if not sys.flags.safe_path:
        del sys.path[0]
    main()

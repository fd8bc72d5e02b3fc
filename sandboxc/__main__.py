"""The command ``sandboxc`` (also ``python -m sandboxc``)."""

import sys


def main() -> int:
    """Return the exit code of the command line in ``sys.argv``; see ``sandboxc.cli``."""
    from sandboxc.cli import run_command_line

    return run_command_line(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())

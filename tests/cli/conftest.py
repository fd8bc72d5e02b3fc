"""The command line in this process, and the directory that it works in."""

from tests.cli._cli import run, surroundings

__all__ = ["run", "surroundings"]

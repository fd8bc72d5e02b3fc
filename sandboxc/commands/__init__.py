"""The commands, one module each: ``add_parser`` declares its options, ``run`` does the work and returns the exit code.

What a command needs is imported inside it, so that no command pays for another.
"""

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

#: Every command, in the order of the help, with what it does. Each is a module of ``sandboxc.commands``.
COMMANDS = {
    "init": "write a commented policy to start from",
    "check": "report what is wrong with a policy, or that a profile is stale",
    "compile": "compile a policy to the dialect of a target, or to a profile directory",
    "run": "run a command under a policy or a profile",
    "why": "say what is allowed on a path, and which line decided",
    "explain": "print the page of a diagnostic's code",
    "protected": "list the protected names and hidden paths of the presets",
    "targets": "print what each target can hold",
    "schema": "print the JSON schema of policy files",
    "doctor": "say which backends work on this host, and clean up after killed runs",
    "completion": "print a completion script for a shell",
}


def command(name: str) -> "ModuleType":
    """Return the module of a command: it has ``add_parser`` and ``run``."""
    return import_module(f"sandboxc.commands.{name}")

"""What several commands read: policies, facts, parameter values, described trees."""

import os
import sys
from collections.abc import Iterable

from sandboxc import facts as facts_module
from sandboxc.console import Usage
from sandboxc.diagnostics import Diagnostic, PolicyError, error
from sandboxc.facts import Facts
from sandboxc.places import nearest_help
from sandboxc.policy import TARGETS
from sandboxc.records import Any

MAX_JSON = 64 * 1024 * 1024


def targets(word: str, named: Iterable[str]) -> tuple[str, ...]:
    """Return the targets that ``--target`` means; ``all`` means those that the policy names."""
    return tuple(named) if word == "all" else (word,)


TARGET_WORDS = (*TARGETS, "all")


def facts(word: str | None) -> Facts:
    """Return the target facts that ``--facts`` names.

    Raises:
        Usage: there is no such preset and no such file.
        PolicyError: the file holds no target facts.
    """
    if word is None:
        return Facts()
    if word in facts_module.NAMED:
        return facts_module.NAMED[word]
    if word != "-" and not os.path.exists(word):
        known = ", ".join(facts_module.NAMED)
        advice = nearest_help(word, facts_module.NAMED) or f"known: {known}; or name a JSON file"
        raise Usage(f"there are no facts named `{word}`, and no such file", advice)
    found = facts_module.from_data(read_json(word, "SBX701"))
    if isinstance(found, Diagnostic):
        raise PolicyError([found])
    return found


def read_json(path: str, code: str) -> Any:
    """Return the decoded JSON of a file (``-`` is standard input).

    Raises:
        PolicyError: the file is no JSON, or too large; ``code`` says what it should have been.
        OSError: it cannot be read.
    """
    import json

    if path == "-":
        data = sys.stdin.buffer.read(MAX_JSON + 1)
    else:
        with open(path, "rb") as file:
            data = file.read(MAX_JSON + 1)
    if len(data) > MAX_JSON:
        raise PolicyError([error(code, f"`{path}` is larger than {MAX_JSON >> 20} MiB")])
    try:
        return json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError):
        raise PolicyError([error(code, f"`{path}` is not JSON in UTF-8")]) from None


def binds(words: Iterable[str]) -> dict[str, str]:
    """Return the values of ``--bind NAME=VALUE``.

    Raises:
        Usage: a word has no ``=``, or one name is given twice.
    """
    found: dict[str, str] = {}
    for word in words:
        name, sign, value = word.partition("=")
        if not sign or not name:
            raise Usage(f"`--bind {word}` gives no value", "write `--bind NAME=/absolute/path`")
        if name in found:
            raise Usage(f"`--bind {name}=` is given twice", "keep one of the two")
        found[name] = value
    return found


def host_values() -> dict[str, str]:
    """Return the value of each built-in parameter on this host, as a policy would write it (``$$`` for a dollar sign).

    Empty where this host has no POSIX paths.
    """
    if not hasattr(os, "getuid"):
        return {}
    from sandboxc.runtime.host import surroundings

    found = surroundings(os.environ, os.getcwd()).values
    return {name: path.replace("$", "$$") for name, path in found.items()}

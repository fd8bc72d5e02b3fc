"""The data files that ship inside the package, read by path relative to this module."""

import json
import os
from functools import cache

from sandboxc.records import Any

_HERE = os.path.dirname(os.path.abspath(__file__))


def path(*names: str) -> str:
    """Return the file-system path of a packaged file."""
    return os.path.join(_HERE, *names)


def folder(name: str) -> str:
    """Return the directory of the shipped ``schemas`` or ``policies``: in the package, or beside it in a checkout."""
    inside = path(name)
    return inside if os.path.isdir(inside) else os.path.join(os.path.dirname(_HERE), name)


@cache
def text(*names: str) -> str:
    """Return the content of a packaged text file."""
    with open(path(*names), encoding="utf-8") as file:
        return file.read()


@cache
def data(name: str) -> Any:
    """Return the decoded content of ``data/NAME.json``; callers must not change it."""
    return json.loads(text("data", name + ".json"))

"""Named tuples and the few names of ``typing`` that run-time code needs, without importing ``typing``.

Importing ``typing`` and making a class with its ``NamedTuple`` cost a confined run a third of its start-up. A type
checker sees the real names; a running program gets stand-ins: ``NamedTuple`` makes the same kind of class (fields,
defaults, ``_replace``, ``_asdict``, ``_fields``, equality and hash of a tuple), the others do nothing.
"""

import sys

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any as Any
    from typing import BinaryIO as BinaryIO
    from typing import NamedTuple as NamedTuple
    from typing import NoReturn as NoReturn
    from typing import Protocol as Protocol
    from typing import TypeVar as TypeVar
elif sys.version_info >= (3, 14):  # annotations no longer stand in the class body (PEP 649)
    from typing import Any, BinaryIO, NamedTuple, NoReturn, Protocol, TypeVar
else:
    from _collections import _tuplegetter

    Any = BinaryIO = object
    NoReturn = None

    def TypeVar(name, **bounds):
        """Return a stand-in for a type variable."""
        return object

    class Protocol:
        """A base class without meaning at run time."""

        __slots__ = ()

    def _replace(self, /, **changes):
        """Return a copy with some fields changed."""
        made = tuple.__new__(type(self), map(changes.pop, self._fields, self))
        if changes:
            wrong = TypeError if sys.version_info >= (3, 13) else ValueError
            raise wrong(f"Got unexpected field names: {list(changes)!r}")
        return made

    def _asdict(self):
        """Return the fields as a dictionary."""
        return dict(zip(self._fields, self, strict=True))

    def _repr(self):
        inner = ", ".join(f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
        return f"{type(self).__name__}({inner})"

    def _getnewargs(self):
        return tuple(self)

    @classmethod
    def _make(cls, values):
        """Return an instance from the values of all fields."""
        made = tuple.__new__(cls, values)
        if len(made) != len(cls._fields):
            raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(made)}")
        return made

    _MISSING = object()

    def _constructor(fields, defaults):
        """Return a ``__new__`` with the fields as its arguments (no text is compiled, as ``collections`` does)."""
        size = len(fields)
        required = size - len(defaults)
        ends = dict(zip(fields[required:], defaults, strict=True))
        build = tuple.__new__

        def new(cls, /, *values, **named):
            if not named:
                given = len(values)
                if given == size:
                    return build(cls, values)
                if required <= given < size:
                    return build(cls, values + defaults[given - required :])
            elif len(values) < size:
                rest = [
                    named.pop(field) if field in named else ends.get(field, _MISSING) for field in fields[len(values) :]
                ]
                if not named and _MISSING not in rest:
                    return build(cls, (*values, *rest))
            raise TypeError(f"{cls.__name__} takes {', '.join(fields)}; got {len(values)} values and not all the rest")

        new.__name__ = "__new__"
        return new

    class _Meta(type):
        def __new__(meta, name, bases, body):
            if not bases:
                return type.__new__(meta, name, bases, body)
            fields = tuple(body.get("__annotations__", ()))
            defaults = tuple([body.pop(field) for field in fields if field in body])
            if any(field.startswith("_") for field in fields):
                raise ValueError("field names cannot start with an underscore")
            body.update({field: _tuplegetter(index, None) for index, field in enumerate(fields)})
            body.update(
                __slots__=(),
                _fields=fields,
                _field_defaults=dict(zip(fields[len(fields) - len(defaults) :], defaults, strict=True)),
                __match_args__=fields,
                __new__=_constructor(fields, defaults),
                __getnewargs__=_getnewargs,
                _replace=_replace,
                _asdict=_asdict,
                _make=_make,
            )
            body.setdefault("__repr__", _repr)
            return type.__new__(type, name, (tuple,), body)

    class NamedTuple(metaclass=_Meta):
        """The base that a class names to become a named tuple."""

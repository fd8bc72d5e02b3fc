"""The stand-in for ``typing.NamedTuple`` makes the same kind of class."""

import copy
import pickle
import typing

import pytest

from sandboxc.records import NamedTuple


class Ours(NamedTuple):
    """Made with the stand-in."""

    one: int
    two: str = "b"
    three: tuple[int, ...] = ()

    @property
    def both(self) -> str:
        """Return two fields."""
        return f"{self.one}{self.two}"


class Theirs(typing.NamedTuple):
    """The same, made with the real one."""

    one: int
    two: str = "b"
    three: tuple[int, ...] = ()


class Empty(NamedTuple):
    """A class without fields."""


def test_behaves_as_the_real_one() -> None:
    """Construction, defaults, fields, equality, hash, order, text and copies are those of a named tuple."""
    mine, real = Ours(1, three=(2,)), Theirs(1, three=(2,))
    assert mine == real == (1, "b", (2,)) and hash(mine) == hash(real)
    assert isinstance(mine, tuple) and Ours._fields == Theirs._fields
    assert Ours._field_defaults == Theirs._field_defaults
    assert mine._asdict() == real._asdict()
    assert mine._replace(two="c") == Ours(1, "c", (2,)) and type(mine._replace(one=3)) is Ours
    assert Ours._make([1, "x", ()]) == Ours(1, "x")
    assert repr(mine) == repr(real).replace("Theirs", "Ours")
    assert mine.both == "1b" and Ours(1) < Ours(2)
    assert copy.copy(mine) == mine and pickle.loads(pickle.dumps(mine)) == mine
    assert Empty() == () and not hasattr(mine, "__dict__")
    match mine:
        case Ours(one, two):
            assert (one, two) == (1, "b")


@pytest.mark.parametrize(
    "wrong",
    [
        lambda kind: kind(),
        lambda kind: kind(1, 2, 3, 4),
        lambda kind: kind(1, four=2),
        lambda kind: kind(1)._replace(four=2),
        lambda kind: kind._make([1]),
        lambda kind: setattr(kind(1), "one", 2),
        lambda kind: setattr(kind(1), "four", 2),
    ],
)
def test_fails_as_the_real_one(wrong: typing.Callable[[typing.Any], object]) -> None:
    """What is an error with the real one is the same error here."""
    with pytest.raises(Exception) as real:
        wrong(Theirs)
    with pytest.raises(type(real.value)):
        wrong(Ours)

"""Our dataclasses and those of the standard library are held against each other."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import re
from collections.abc import Callable, Sequence
from dataclasses import FrozenInstanceError, asdict, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import ANY

import pytest
from mcutrain_host.dataclass import dataclass

ROOT = Path(__file__).parents[2]
Decorator = Any


def _points(made: Decorator) -> type[Any]:
    @made(frozen=True)
    class Point:
        """Names that the compiled function must not take for its own."""

        x: int
        self_: int = 3
        put: list[int] = field(default_factory=list)
        kind: ClassVar[str] = "point"

        @cached_property
        def double(self) -> int:
            return 2 * self.x

    return Point  # type: ignore[no-any-return]


def _derived(made: Decorator) -> type[Any]:
    @made(frozen=True, kw_only=True)
    class Named(_points(made)):  # type: ignore[misc]
        """Keywords behind positions, a field that is not compared, one that is not shown."""

        name: str
        note: str = field(default="", compare=False)
        long: tuple[int, ...] = field(default=(1, 2), repr=False)

        def __post_init__(self) -> None:
            if not self.name:
                raise ValueError("no name")

    return Named


def _derived_twice(made: Decorator) -> type[Any]:
    @made(frozen=True)
    class Last(_derived(made)):  # type: ignore[misc]
        """What is checked of the class above is checked here."""

        x: int = 5

    return Last


def _own_methods(made: Decorator) -> type[Any]:
    @made(frozen=True)
    class Own:
        """What a class has of its own stays, but that `__eq__` takes the hash away."""

        x: int

        def __repr__(self) -> str:
            return "own"

        def __eq__(self, other: object) -> bool:
            return isinstance(other, int)

    return Own  # type: ignore[no-any-return]


def _changing(made: Decorator) -> type[Any]:
    @made
    class Changing:
        """Fields that are no parameters; no hash."""

        x: int
        later: int = field(init=False)
        own: list[int] = field(init=False, default_factory=list)

        def __post_init__(self) -> None:
            self.later = self.x

    return Changing  # type: ignore[no-any-return]


def _by_identity(made: Decorator) -> type[Any]:
    @made(frozen=True, eq=False, repr=False)
    class Bare:
        """Values of which each is equal to itself."""

        x: int = 0

    return Bare  # type: ignore[no-any-return]


def _empty(made: Decorator) -> type[Any]:
    @made(frozen=True)
    class Empty:
        """No fields."""

    return Empty  # type: ignore[no-any-return]


CLASSES = [_points, _derived, _derived_twice, _own_methods, _changing, _by_identity, _empty]
VALUES: Sequence[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((), {}),
    ((1,), {}),
    ((1, 4), {}),
    ((2,), {"put": [7]}),
    ((2, 4, [7]), {"name": "a"}),
    ((2, 4, [7]), {"name": "a", "note": "b"}),
    ((2, 4, (7,)), {"name": "a", "long": ()}),
    ((2,), {"name": ""}),
    ((1, 2, [3], "a"), {}),
]


def outcome(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """What comes of a call, an error by its class and sentence."""
    try:
        return function(*arguments, **named)
    except Exception as error:
        return type(error), str(error)


def told(cls: type[Any]) -> list[Any]:
    """What is to be equal of two classes, of their values, and of each two of these."""
    made = [outcome(cls, *positional, **named) for positional, named in VALUES]
    values = [value for value in made if isinstance(value, cls)]
    assert values
    shown: list[Any] = [value for value in made if not isinstance(value, cls)]
    for value in values:
        shown += [outcome(replace, value, x=9) == value, outcome(asdict, value), vars(value).copy()]
        shown += [value == other for other in [*values, copy.copy(value), 1, ANY]]
        if cls.__eq__ is not object.__eq__:
            shown += [repr(value), outcome(hash, value), getattr(value, "double", None)]
        shown += [outcome(setattr, value, "x", 5), outcome(delattr, value, "x"), list(vars(value))]
    kept = [(f.name, f.type, f.compare, f.repr, f.kw_only) for f in fields(cls)]
    return [shown, str(inspect.signature(cls)), cls.__match_args__, kept]


@pytest.mark.parametrize("of", CLASSES)
def test_both_say_and_do_the_same(of: Callable[[Decorator], type[Any]]) -> None:
    assert told(of(dataclass)) == told(of(dataclasses.dataclass))


def test_an_init_is_compiled_once_when_it_is_called() -> None:
    cls = _points(dataclass)
    assert not inspect.isfunction(vars(cls)["__init__"])
    assert cls(1) == cls(1)
    assert inspect.isfunction(vars(cls)["__init__"])
    assert cls.__init__ is vars(cls)["__init__"]
    assert cls(1).put is not cls(1).put


def test_the_first_value_may_be_of_a_class_below() -> None:
    cls = _derived(dataclass)

    @dataclass(frozen=True)
    class Below(cls):  # type: ignore[misc, valid-type]
        """It makes its values itself."""

        more: int = 0

        def __init__(self, x: int) -> None:
            super().__init__(x, name="below")

    assert (Below(3).x, Below(3).name) == (3, "below")
    assert "more" not in vars(Below(3)) | vars(cls(3, name="below"))
    assert Below(3) != cls(3, name="below")
    with pytest.raises(FrozenInstanceError):
        Below(3).x = 4


@pytest.mark.parametrize("below", [dataclass, dataclasses.dataclass])
def test_either_decorator_goes_below_ours(below: Decorator) -> None:
    base = _points(dataclass)

    @below(frozen=True)
    class Below(base):  # type: ignore[misc, valid-type]
        """As a user's operator is below one of ours."""

        more: int = 0

    assert repr(Below(3, more=2)).endswith("Below(x=3, self_=3, put=[], more=2)")
    assert hash(replace(Below(3, put=()), x=4)) == hash(Below(4, put=()))
    with pytest.raises(FrozenInstanceError):
        Below(3).x = 4
    for made in (base, Below):
        params = vars(made)["__dataclass_params__"]
        assert (params.init, params.repr, params.eq, params.frozen) == (True, True, True, True)
    with pytest.raises(TypeError, match="frozen"):
        below()(type("Changing", (base,), {}))


@dataclass(frozen=True)
class Kept:
    """A class that a pickle finds."""

    x: tuple[int, ...]
    inner: Kept | None = None


def test_values_are_pickled_and_shown_inside_each_other() -> None:
    value = Kept((1,), Kept(()))
    assert pickle.loads(pickle.dumps(value)) == value
    assert repr(value) == "Kept(x=(1,), inner=Kept(x=(), inner=None))"


def test_a_value_that_holds_itself_can_be_shown() -> None:
    cls = _changing(dataclass)
    value = cls(1)
    value.later = value
    assert repr(value).endswith("Changing(x=1, later=..., own=[])")


def test_no_module_takes_the_decorator_of_the_standard_library() -> None:
    """It takes six times as long to import."""
    files = [*(ROOT / "mcutrain").rglob("*.py"), *(ROOT / "host").rglob("*.py")]
    taken = re.compile(r"^from dataclasses import .*\bdataclass\b|^import dataclasses", re.M)
    found = {f.name for f in files if taken.search(f.read_text(encoding="utf-8"))}
    assert found == {"dataclass.py"}

"""The dataclasses of this project: those of the standard library, with methods that cost less.

The standard library compiles six methods of every dataclass when a module is imported, called or
not: a third of a second of a command that imports 400. Here `__init__` is compiled when the first
value is made, and the others are functions that need no compiling. They mean the same; type
checkers see the standard library's decorator. Either decorator can make what inherits from it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import MISSING, FrozenInstanceError, fields
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, NoReturn

__all__ = ["dataclass"]


def _dataclass(
    cls: type[Any] | None = None,
    /,
    *,
    frozen: bool = False,
    eq: bool = True,
    repr: bool = True,
    kw_only: bool = False,
) -> Any:
    """Return the class with the methods of a dataclass, save those that it has of its own."""
    if cls is None:
        return lambda cls: _dataclass(cls, frozen=frozen, eq=eq, repr=repr, kw_only=kw_only)
    own = {name for name, value in vars(cls).items() if value is not None}
    with _as_changing(cls.__mro__[1:] if frozen else ()):
        dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=kw_only)(cls)
    made = cls.__dataclass_params__
    made.init, made.repr, made.eq, made.frozen = True, repr, eq, frozen
    methods: dict[str, Any] = {"__init__": _Init(cls)}
    if repr:
        methods["__repr__"] = _repr_of(cls)
    if eq:
        values = _values_of(cls)
        methods["__eq__"] = _eq_by(values)
        methods["__hash__"] = (lambda self: hash(values(self))) if frozen else None
    if frozen:
        methods |= {"__setattr__": _refuse_to_set, "__delattr__": _refuse_to_delete}
    for name, method in methods.items():
        if name not in own:
            setattr(cls, name, method)
    return cls


if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    dataclass = _dataclass


@contextmanager
def _as_changing(classes: Iterable[type[Any]]) -> Iterator[None]:
    """Say of frozen classes that they are not, so that what inherits gets no compiled methods."""
    known = {id(made): made for c in classes if (made := getattr(c, "__dataclass_params__", None))}
    frozen = [made for made in known.values() if made.frozen]
    for made in frozen:
        made.frozen = False
    try:
        yield
    finally:
        for made in frozen:
            made.frozen = True


class _Init:
    """An `__init__` that is compiled when somebody asks the class, or a value of it, for it."""

    __slots__ = ("_cls",)

    def __init__(self, cls: type[Any]) -> None:
        self._cls = cls

    def __get__(self, value: object, owner: type[Any] | None = None) -> Any:
        function = _compiled_init(self._cls)
        type.__setattr__(self._cls, "__init__", function)
        return function if value is None else function.__get__(value)


class _Factory:
    """What stands for a default that is made for each value."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()


def _compiled_init(cls: type[Any]) -> Any:
    """Return a function that sets all fields. Its own names begin as no field's does."""
    known: dict[str, Any] = {"__set": object.__setattr__, "__factory": _FACTORY}
    positional: list[str] = []
    named: list[str] = []
    body: list[str] = []
    for field in fields(cls):
        name, usual, value = field.name, f"__usual_{field.name}", field.name
        default = ""
        if field.default is not MISSING:
            known[usual], default = field.default, f"={usual}"
        elif field.default_factory is not MISSING:
            known[usual], default = field.default_factory, "=__factory"
            value = f"{usual}() if {name} is __factory else {name}" if field.init else f"{usual}()"
        if field.init:
            (named if field.kw_only else positional).append(name + default)
        elif field.default_factory is MISSING:
            continue
        body.append(f"__set(self, {name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    parameters = ", ".join(["self", *positional, *(["*", *named] if named else [])])
    exec(f"def __init__({parameters}):\n  " + "\n  ".join(body or ["pass"]), known)
    function = known["__init__"]
    function.__qualname__, function.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    function.__annotations__ = {**{f.name: f.type for f in fields(cls)}, "return": None}
    return function


def _repr_of(cls: type[Any]) -> Callable[[Any], str]:
    @recursive_repr()
    def shown(self: Any) -> str:
        every = (f"{f.name}={getattr(self, f.name)!r}" for f in fields(cls) if f.repr)
        return f"{type(self).__qualname__}({', '.join(every)})"

    return shown


def _values_of(cls: type[Any]) -> Callable[[Any], Any]:
    """Return what two equal values have in common: the fields, as a tuple."""
    names = [f.name for f in fields(cls) if f.compare]
    if len(names) > 1:
        return attrgetter(*names)
    return lambda self: tuple(getattr(self, name) for name in names)


def _eq_by(values: Callable[[Any], Any]) -> Callable[[Any, object], Any]:
    def is_equal(self: Any, other: object) -> Any:
        return values(self) == values(other) if type(self) is type(other) else NotImplemented

    return is_equal


def _refuse_to_set(self: object, name: str, value: object) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: object, name: str) -> NoReturn:
    raise FrozenInstanceError(f"cannot delete field {name!r}")

"""Arguments of the public functions, checked against their annotations before work begins."""

from __future__ import annotations

import inspect
import math
import os
import re
import types
import warnings
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import cache, wraps
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Literal,
    ParamSpec,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from mcutrain_host.dataclass import dataclass
from mcutrain_host.errors import HostError

from mcutrain.errors import ArgumentError, BuildError, McutrainError

P = ParamSpec("P")
T = TypeVar("T")
PathLike = str | os.PathLike[str]
WORDS: dict[Any, str] = {
    int: "an integer",
    float: "a number",
    bool: "True or False",
    str: "a text",
    os.PathLike: "a path",
    Path: "a path",
    Sequence: "a list or tuple",
    type(None): "None",
    Callable: "a function",
}
LONGEST = 60


@dataclass(frozen=True)
class Within:
    """A number's limits, both included, unless it is_above the lower one."""

    low: float
    high: float = math.inf
    is_above: bool = False

    def why_not(self, value: float) -> str:
        """Say what is wrong with a number outside; empty for others."""
        too_low = value <= self.low if self.is_above else value < self.low
        is_finite = -math.inf < value < math.inf  # also of integers that no float holds
        if not too_low and value <= self.high and is_finite:
            return ""
        above = "above" if self.is_above else "at least"
        finite = "" if is_finite else " and finite"
        most = finite if math.isinf(self.high) else f" and at most {self.high:,.12g}"
        return f"is {value}: it must be {above} {self.low:g}{most}"

    def check(self, name: str, value: float) -> None:
        """Raise ArgumentError for a number outside."""
        if why := self.why_not(value):
            raise ArgumentError(f"{name} {why}")


Count = Annotated[int, Within(1)]
Seed = Annotated[int, Within(0, 2**31 - 2)]
Positive = Annotated[float, Within(0, is_above=True)]
EPOCHS = 4
"""Passes over the training samples, by default."""


def checked(function: Callable[P, T]) -> Callable[P, T]:
    """The function, with McutrainError for all that a caller can give or a computer can lack.

    Arguments are compared with their annotations: plain types, Literal, lists of them, and numbers
    Annotated with Within. Missing and unknown arguments stay Python's TypeError.
    """
    signature = inspect.signature(function)

    @cache
    def hints() -> dict[str, Any]:
        return get_type_hints(function, include_extras=True)

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        for name, value in signature.bind(*args, **kwargs).arguments.items():
            _check(name, value, hints()[name])
        try:
            return function(*args, **kwargs)
        except HostError as error:
            raise BuildError(str(error)) from error
        except OSError as error:
            raise McutrainError(f"{error.filename or 'a file'}: {error.strerror or error}") from (
                error
            )

    return call


def check_fields(value: Any) -> None:
    """Raise ArgumentError if a field of a dataclass is not as annotated."""
    kind: Any = type(value)
    hints = _hints_of(kind)
    for field in fields(value):
        _check(field.name, getattr(value, field.name), hints[field.name])


@cache
def _hints_of(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


def warn(note: str) -> None:
    """A Python warning, at the line that called mcutrain."""
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "mcutrain":
        level, frame = level + 1, frame.f_back
    warnings.warn(note, stacklevel=level)


def _check(name: str, value: Any, hint: Any) -> None:
    """Raise ArgumentError if the value is not as annotated."""
    hint, limits = _limits(hint)
    kinds = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    fitting = [kind for kind in kinds if _fits(value, kind)]
    if not fitting:
        words = list(dict.fromkeys(_words(kind) for kind in kinds))
        raise ArgumentError(f"{name} is {_short(value)}, but it must be {_either(words)}")
    kind, more = _limits(fitting[0])
    for limit in (*more, *limits):
        if value is not None:
            limit.check(name, value)
    if get_origin(kind) is Sequence:
        for i, inner in enumerate(value):
            _check(f"{name}[{i}]", inner, get_args(kind)[0])


def _limits(hint: Any) -> tuple[Any, list[Within]]:
    """Return the type that stands in an Annotated one, and the limits beside it."""
    if get_origin(hint) is not Annotated:
        return hint, []
    return get_args(hint)[0], [each for each in hint.__metadata__ if isinstance(each, Within)]


def _fits(value: Any, kind: Any) -> bool:
    """Return whether the value is of the kind, not what it holds."""
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if kind is Any:
        return True
    if get_origin(kind) is Literal:
        return any(value == word and type(value) is type(word) for word in get_args(kind))
    plain = get_origin(kind) or kind
    if plain in (int, float):
        if isinstance(value, bool):
            return False
        return hasattr(value, "__index__") or (plain is float and isinstance(value, float))
    if plain is Sequence and isinstance(value, str):
        return False
    if plain is Callable or not isinstance(plain, type):
        return callable(value)
    return isinstance(value, plain)


def _words(kind: Any) -> str:
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) is Literal:
        return _either([repr(word) for word in get_args(kind)])
    plain = get_origin(kind) or kind
    name = getattr(plain, "__name__", str(plain))
    return WORDS.get(plain, f"a {name}")


def _either(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _short(value: Any) -> str:
    """A value for a sentence, of arrays their shape."""
    shape = getattr(value, "shape", None)
    if shape is not None and shape != ():
        return f"an array of shape {shape}"
    text = " ".join(repr(value).split())
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


UNITS = {"": 1, "K": 1024, "KIB": 1024, "KB": 1000, "M": 1024**2, "MIB": 1024**2, "MB": 1000**2}


def number_of_bytes(text: str) -> int:
    """Read bytes: 256K is 262144; K and M are 1024 and 1024², kB and MB 1000 and 1000².

    Raises ArgumentError.
    """
    match = re.fullmatch(r"(\d{1,15}(?:\.\d{1,15})?)\s*([A-Za-z]*)", text.strip())
    if match is None or match[2].upper() not in UNITS:
        raise ArgumentError(f"{text!r} is no number of bytes such as 262144, 256K or 250kB")
    return int(float(match[1]) * UNITS[match[2].upper()])

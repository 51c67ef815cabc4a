"""What is typed becomes values here, and a sentence where it cannot.

typer asks pydantic, which takes longer to import than most commands take to run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from inspect import Parameter
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import typer
from mcutrain_host.dataclass import dataclass
from typer.models import ParameterInfo

from mcutrain.arguments import Within
from mcutrain.errors import did_you_mean

NUMBERS: Mapping[Any, str] = {int: "an integer", float: "a number"}


@dataclass(frozen=True)
class ValueReader:
    """Makes a value of a text. kind: one of str, Path, int, float or a Literal."""

    kind: Any
    info: ParameterInfo

    def __call__(self, text: str) -> Any:
        """Read it. Raises typer.BadParameter."""
        if self.info.parser is not None:
            return self._parsed(text)
        if self.kind is Path and not text.strip():
            raise typer.BadParameter("the name is empty: give that of a file or folder")
        if get_origin(self.kind) is Literal:
            return _word(text, get_args(self.kind))
        if self.kind in NUMBERS:
            return self._number(text)
        return self.kind(text)

    def _parsed(self, text: str) -> Any:
        assert self.info.parser is not None
        try:
            return self.info.parser(text)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from error

    def _number(self, text: str) -> Any:
        try:
            value = self.kind(text)
        except ValueError as error:
            raise typer.BadParameter(f"{text!r} is not {NUMBERS[self.kind]}") from error
        low, high = self.info.min, self.info.max
        limits = Within(-math.inf if low is None else low, math.inf if high is None else high)
        if (low, high) != (None, None) and (why := limits.why_not(value)):
            raise typer.BadParameter(why)
        return value


def reader_of(parameter: Parameter) -> ValueReader | None:
    """Return what reads the texts of a command's parameter; None for a switch."""
    kind, *about = get_args(parameter.annotation) or (bool,)
    if get_origin(kind) in (Union, UnionType):
        kind = next(each for each in get_args(kind) if each is not type(None))
    if get_origin(kind) is list:
        (kind,) = get_args(kind)
    return None if kind is bool else ValueReader(kind, about[0])


def read_by(readers: Mapping[str, ValueReader], parameters: Sequence[Any]) -> None:
    """Have parameters of a command, as typer has made them, read by these."""
    for parameter in parameters:
        by_typer = partial(type(parameter).process_value, parameter)  # not that of a copy
        reader = readers.get(parameter.name)
        parameter.process_value = partial(_processed, reader, parameter, by_typer)


def _processed(
    reader: ValueReader | None,
    parameter: Any,
    by_typer: Callable[..., Any],
    context: Any,
    value: Any,
) -> Any:
    """Return what a line says, or the default; typer says what is missing."""
    is_many = parameter.multiple or parameter.nargs != 1
    if value in (None, ()) and parameter.required:
        return by_typer(context, value)
    if value is None:
        found: Any = () if is_many else None
    elif reader is not None and isinstance(value, str | list | tuple):
        try:
            found = reader(value) if isinstance(value, str) else tuple(map(reader, value))
        except typer.BadParameter as error:
            error.ctx, error.param = context, parameter
            raise
    elif isinstance(value, bool | int | float | Path):
        found = value
    else:
        return by_typer(context, value)
    return found if parameter.callback is None else parameter.callback(context, parameter, found)


def _word(text: str, words: tuple[str, ...]) -> str:
    if text not in words:
        known = ", ".join(map(repr, words))
        raise typer.BadParameter(f"{text!r} is not one of {known}{did_you_mean(text, words)}")
    return text

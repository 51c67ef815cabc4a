"""Flags that belong together are one class; typer sees a command that takes each by itself."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import wraps
from inspect import Parameter
from typing import Any, get_type_hints

import typer

from mcutrain.cli.panels import flag_of, in_panels


def spelled_out(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the fields of a class of flags in the place of each parameter of its type.

    A class of flags is a dataclass whose fields are annotated as a command's parameters are.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    flags: list[Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name in groups:
            flags += _flags_of(groups[name])
        else:
            flags.append(parameter.replace(kind=Parameter.KEYWORD_ONLY, annotation=hints[name]))

    @wraps(command)
    def run(**values: Any) -> None:
        for name, kind in groups.items():
            values[name] = kind(**{field.name: values.pop(field.name) for field in fields(kind)})
        command(**values)

    run.__signature__ = inspect.Signature(in_panels(flags))  # type: ignore[attr-defined]
    run.__annotations__ = {}  # as text, typer would compile those of all commands at each start
    return run


def given(*groups: Any) -> list[str]:
    """The flags that are not as they are by default. groups: values of classes of flags."""
    return [
        flag_of(field.name, get_type_hints(type(group), include_extras=True)[field.name])
        for group in groups
        for field in fields(group)
        if getattr(group, field.name) != field.default
    ]


def given_by_hand(context: typer.Context) -> list[str]:
    """The flags that stand on a command's line, also if they are as they are by default."""
    sources = {p.name: context.get_parameter_source(p.name or "") for p in context.command.params}
    return [
        parameter.opts[0]
        for parameter in context.command.params
        if (source := sources[parameter.name]) is not None
        and source.name == "COMMANDLINE"
        and parameter.opts[0].startswith("--")
    ]


def _flags_of(kind: Any) -> list[Parameter]:
    hints = get_type_hints(kind, include_extras=True)
    return [
        Parameter(
            field.name,
            Parameter.KEYWORD_ONLY,
            default=_default_of(field),
            annotation=hints[field.name],
        )
        for field in fields(kind)
    ]


def _default_of(field: Field[Any]) -> object:
    return Parameter.empty if field.default is MISSING else field.default

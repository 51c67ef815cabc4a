"""Flags that belong together are one class; typer sees a command that takes each by itself."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import wraps
from inspect import Parameter
from typing import Annotated, Any, get_type_hints

import typer

from mcutrain.cli.panels import flag_of, in_panels, option_of

MODEL_OUTPUT = "model_output"
OUTPUT = "--output"


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

    has_model = "model" in hints
    if has_model:
        taken = {flag_of(flag.name, flag.annotation) for flag in flags if option_of(flag)}
        flags.append(_model_output(OUTPUT not in taken))

    @wraps(command)
    def run(**values: Any) -> None:
        if has_model:
            from mcutrain.formats.outputs import choosing  # slow to import

            with choosing(values.pop(MODEL_OUTPUT)):
                call(values)
        else:
            call(values)

    def call(values: dict[str, Any]) -> None:
        for name, kind in groups.items():
            values[name] = kind(**{field.name: values.pop(field.name) for field in fields(kind)})
        command(**values)

    run.__signature__ = inspect.Signature(in_panels(flags))  # type: ignore[attr-defined]
    run.__annotations__ = {}  # as text, typer would compile those of all commands at each start
    return run


def _model_output(is_short: bool) -> Parameter:
    """The flag of every command that reads a model. is_short: --output is no file there."""
    names = ("--model-output", *([OUTPUT] if is_short else []))
    help_text = "Which output of the model is meant, if it has several."
    option = typer.Option(*names, metavar="NAME", help=help_text, show_default=False)
    annotation = Annotated[str | None, option]
    return Parameter(MODEL_OUTPUT, Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


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
    found = []
    for parameter in context.command.params:
        source, flag = context.get_parameter_source(parameter.name or ""), parameter.opts[0]
        if source is not None and source.name == "COMMANDLINE" and flag.startswith("--"):
            found.append(flag)
    return found


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

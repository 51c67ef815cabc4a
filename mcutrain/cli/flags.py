"""Flags that belong together are one class; typer sees a command that takes each by itself.

A class of flags is a dataclass: one of mcutrain.functions.options, whose fields are keywords of
functions, too, or one whose fields are annotated as a command's parameters are.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from inspect import Parameter
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import typer
from mcutrain_host.dataclass import dataclass

from mcutrain.arguments import Within
from mcutrain.cli.needed import check_packages
from mcutrain.cli.panels import flag_of, in_panels, option_of
from mcutrain.cli.reading import reader_of
from mcutrain.errors import ArgumentError, OptionError
from mcutrain.functions.keywords import Flag

MODEL_OUTPUT = "model_output"
OUTPUT = "--output"


def spelled_out(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the fields of a class of flags in the place of a parameter of its type."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    flags: list[_Flagged] = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name in groups:
            flags += _flags_of(groups[name])
        else:
            flags.append(_Flagged(name, hints[name], parameter.default))

    parameters = [flag.parameter for flag in flags]
    named = {p.name: flag_of(p.name, p.annotation) for p in parameters if option_of(p)}
    has_model = "model" in hints
    if has_model:
        parameters.append(_model_output(OUTPUT not in named.values()))

    @wraps(command)
    def run(**typed: Any) -> None:
        if has_model:
            from mcutrain.formats.outputs import choosing  # slow to import

            with choosing(typed.pop(MODEL_OUTPUT)):
                call(typed)
        else:
            call(typed)

    def call(typed: dict[str, Any]) -> None:
        values = {flag.name: flag.value(typed[flag.name]) for flag in flags}
        check_packages(command.__name__, values)
        try:
            for flag in flags:
                flag.check(values[flag.name])
            for name, kind in groups.items():
                values[name] = kind(**{f.name: values.pop(f.name) for f in fields(kind)})
            command(**values)
        except OptionError as error:
            raise typer.BadParameter(error.why, param_hint=named[error.option]) from error

    readers = {p.name: reader for p in parameters if (reader := reader_of(p)) is not None}
    run.readers = readers  # type: ignore[attr-defined]
    run.__signature__ = inspect.Signature(in_panels(parameters))  # type: ignore[attr-defined]
    run.__annotations__ = {}  # as text, typer would compile those of all commands at each start
    return run


def _model_output(is_short: bool) -> Parameter:
    """The flag of every command that reads a model. is_short: --output is no file there."""
    names = ("--model-output", *([OUTPUT] if is_short else []))
    help_text = "Which output of the model is meant, if it has several; or several."
    option = typer.Option(*names, metavar="NAME,…", help=help_text, show_default=False)
    annotation = Annotated[str | None, option]
    return Parameter(MODEL_OUTPUT, Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def given_by_hand(context: typer.Context) -> list[str]:
    """The flags that stand on a command's line, also if they are as they are by default."""
    found = []
    for parameter in context.command.params:
        source, flag = context.get_parameter_source(parameter.name or ""), parameter.opts[0]
        if source is not None and source.name == "COMMANDLINE" and flag.startswith("--"):
            found.append(flag)
    return found


def _flags_of(kind: Any) -> list[_Flagged]:
    hints = get_type_hints(kind, include_extras=True)
    empty = Parameter.empty
    return [
        _Flagged(f.name, hints[f.name], empty if f.default is MISSING else f.default)
        for f in fields(kind)
    ]


@dataclass(frozen=True)
class _Flagged:
    """A parameter of a command, or a field of its flags. hint: with a Flag, or as typer has it."""

    name: str
    hint: Any
    default: Any

    @property
    def flag(self) -> Flag | None:
        """Return what the command line is to know of it; None if typer knows it already."""
        about = getattr(self.hint, "__metadata__", ())
        return next((each for each in about if isinstance(each, Flag)), None)

    @property
    def parameter(self) -> Parameter:
        """Return it as typer takes it."""
        hint, default, flag = self.hint, self.default, self.flag
        if flag is not None:
            plain = get_args(hint)[0]
            hint = Annotated[flag.kind or _typed(plain), self._option(flag), flag]
            default = self._typed_default(flag)
        return Parameter(self.name, Parameter.KEYWORD_ONLY, default=default, annotation=hint)

    def value(self, typed: Any) -> Any:
        """Return its value from what typer read."""
        if self.flag is None:
            return typed
        if self.default is True:
            return not typed
        if typed is None:
            return self.default
        return tuple(typed) if isinstance(typed, list) else typed

    def check(self, value: Any) -> None:
        """Raise OptionError for a number outside its limits."""
        for limit in getattr(self.hint, "__metadata__", ()):
            if isinstance(limit, Within) and value is not None and (why := limit.why_not(value)):
                raise OptionError(self.name, why)

    def _typed_default(self, flag: Flag) -> Any:
        """Return the default as typer takes it: of what is parsed, the text."""
        if isinstance(flag.shown, str):
            return flag.shown
        if self.default is True:
            return False
        return None if self.default in ("", ()) else self.default

    def _option(self, flag: Flag) -> Any:
        """Return what typer is to know of a flag; its limits are checked later, in a sentence."""
        return typer.Option(
            flag_of(self.name, self.hint),
            *([flag.short] if flag.short else []),
            help=flag.help,
            metavar=flag.metavar,
            show_default=flag.shown is not False,
            parser=_parser(flag),
            autocompletion=flag.complete,
        )


def _typed(plain: Any) -> Any:
    """Return a type as typer knows it; what is not given is None."""
    if get_origin(plain) is Literal:
        words = get_args(plain)
        return Literal[tuple(w for w in words if w)] | None if "" in words else plain
    if get_origin(plain) is Sequence:
        return list[get_args(plain)[0]] | None  # type: ignore[misc]
    if get_origin(plain) in (Union, UnionType):
        kinds = (get_args(k)[0] if get_origin(k) is Annotated else k for k in get_args(plain))
        return Union[tuple(kinds)]  # noqa: UP007
    return plain


def _parser(flag: Flag) -> Callable[[str], Any] | None:
    """Return what reads a text, with typer's error for one that cannot be read."""
    parse = flag.parse
    if parse is None:
        return None

    @wraps(parse)
    def read(text: str) -> Any:
        try:
            return parse(text)
        except ArgumentError as error:
            raise typer.BadParameter(str(error)) from error

    return read

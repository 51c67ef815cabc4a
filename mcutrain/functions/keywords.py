"""Options as dataclasses: a field is a keyword of functions and a flag of commands, said once.

A class of options is a frozen dataclass below Keywords. Each field has its type, its limits and its
default, and a Flag that says how the command line calls and explains it. `with_keywords` gives a
function the fields as keywords; mcutrain.cli.flags makes them flags of a command.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from functools import wraps
from inspect import Parameter
from textwrap import fill, indent
from typing import Any, TypeVar, get_type_hints

from mcutrain_host.dataclass import dataclass

from mcutrain.arguments import check_fields
from mcutrain.errors import ArgumentError, OptionError

T = TypeVar("T")
NETWORK = "The network, and what is learnt"
MEMORY = "Memory and time"
NOT_WORTH_IT = "Experiments that did not pay (docs/commands.md says when they might)"
BOARD = "The board"
COMPUTER = "On this computer"
READING = "Reading the data"
FILES = "Files"
"""Boxes of a command's help."""


@dataclass(frozen=True)
class Flag:
    """How the command line calls an option, and what its help says.

    name: by default the field's; that of a field which is True by default turns it off. box: of the
    help. kind: what the command line reads, where the field's own type is more than text can say.
    parse: makes the value of a text, and raises ArgumentError for one that it cannot read. shown:
    how the help prints the default; False leaves it out. complete: for a shell, the values that
    begin with a text. short: a letter for the flag, such as -O.
    """

    help: str
    name: str = ""
    metavar: str | None = None
    box: str = ""
    kind: Any = None
    parse: Callable[[str], Any] | None = None
    shown: str | bool = True
    complete: Callable[[str], list[str]] | None = None
    short: str = ""


@dataclass(frozen=True, kw_only=True)
class Keywords:
    """Options that belong together. Raises OptionError for a field that is not as annotated."""

    def __post_init__(self) -> None:
        try:
            check_fields(self)
        except ArgumentError as error:
            name, _, why = str(error).partition(" ")
            raise (OptionError(name, why) if name.isidentifier() else error) from None


def with_keywords(function: Callable[..., T]) -> Callable[..., T]:
    """The function, which also takes the fields of its options as keywords.

    Its options are its parameters that are annotated with a class below Keywords. A keyword changes
    one field of them.
    """
    plain = inspect.signature(function)
    hints = get_type_hints(function)
    groups = {n: p.default for n, p in plain.parameters.items() if _is_options(hints[n])}

    @wraps(function)
    def call(*args: Any, **given: Any) -> T:
        for name, usual in groups.items():
            own = {f.name: given.pop(f.name) for f in fields(usual) if f.name in given}
            if own:
                given[name] = replace(given.get(name, usual), **own)
        return function(*args, **given)

    spelled_out = [p for usual in groups.values() for p in _parameters_of(usual)]
    call.__signature__ = _Readable(  # type: ignore[attr-defined]
        [*_with_short_types(plain, hints), *spelled_out], return_annotation=plain.return_annotation
    )
    call.__doc__ = f"{(function.__doc__ or '').rstrip()}\n\n{_explained(groups.values())}".rstrip()
    return call


def _with_short_types(plain: inspect.Signature, hints: dict[str, Any]) -> list[Parameter]:
    """Return the parameters; of a type with limits and help the type alone."""
    return [
        p.replace(annotation=hints[n]) if "Annotated[" in str(p.annotation) else p
        for n, p in plain.parameters.items()
    ]


class _Readable(inspect.Signature):
    """A signature that `help` shows with a line for each parameter."""

    __slots__ = ()

    def __str__(self) -> str:
        lines, has_star = [], False
        for parameter in self.parameters.values():
            if parameter.kind is parameter.KEYWORD_ONLY and not has_star:
                lines.append("*")
                has_star = True
            lines.append(_as_text(parameter))
        inside = "".join(f"\n    {line}," for line in lines)
        return f"({inside}\n) -> {_type_text(self.return_annotation)}"


def _as_text(parameter: Parameter) -> str:
    kind, usual = parameter.annotation, parameter.default
    text = parameter.name if kind is parameter.empty else f"{parameter.name}: {_type_text(kind)}"
    if usual is parameter.empty:
        return text
    if isinstance(usual, Keywords):
        changed = ", ".join(f"{name}={getattr(usual, name)!r}" for name in given_of(usual))
        return f"{text} = {type(usual).__name__}({changed})"
    shown = repr(usual)
    return f"{text} = {'...' if ' object at 0x' in shown else shown}"


def _type_text(kind: Any) -> str:
    return kind if isinstance(kind, str) else inspect.formatannotation(kind).replace("typing.", "")


def _explained(groups: Iterable[Keywords]) -> str:
    """The fields of options with their help, for whoever reads the docstring."""
    parts = []
    for usual in groups:
        flags = _flags_in(type(usual))
        lines = [
            fill(f"{n}: {f.help}", 88, subsequent_indent="    ", break_on_hyphens=False)
            for n, f in flags.items()
        ]
        if lines:
            head = f"{type(usual).__name__}\n"
            parts.append(indent(head + indent("\n".join(lines), "    "), "    "))
    return "    Keywords:\n\n" + "\n\n".join(parts) + "\n    " if parts else ""


def _is_options(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Keywords)


def _parameters_of(usual: Keywords) -> list[Parameter]:
    """Return the fields as parameters, by their types alone. usual: what they are by default."""
    hints = get_type_hints(type(usual))
    return [
        Parameter(
            field.name,
            Parameter.KEYWORD_ONLY,
            default=getattr(usual, field.name),
            annotation=hints[field.name],
        )
        for field in fields(usual)
    ]


def flags_of(kind: type[Keywords]) -> dict[str, Flag]:
    """Return the flags of a class of options, by field."""
    hints = get_type_hints(kind, include_extras=True)
    return {
        field.name: next(each for each in hints[field.name].__metadata__ if isinstance(each, Flag))
        for field in fields(kind)
    }


def _flags_in(kind: type[Keywords]) -> dict[str, Flag]:
    """Return the flags of those fields that the command line has, too."""
    hints = get_type_hints(kind, include_extras=True)
    found = ((f.name, getattr(hints[f.name], "__metadata__", ())) for f in fields(kind))
    flags = ((name, [each for each in more if isinstance(each, Flag)]) for name, more in found)
    return {name: each[0] for name, each in flags if each}


def flag_name(field: str, flag: Flag) -> str:
    """Return what the command line calls an option."""
    return flag.name or f"--{field.replace('_', '-')}"


def given_of(options: Keywords) -> list[str]:
    """Return the names of the fields that are not as by default."""
    return [f.name for f in fields(options) if getattr(options, f.name) != f.default]

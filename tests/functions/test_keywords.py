"""Keywords are said once: a field is a keyword of a function, and a flag of a command."""

from __future__ import annotations

import inspect
import pydoc
import re
from collections.abc import Callable, Sequence
from dataclasses import fields
from types import ModuleType
from typing import Annotated, Any, Literal

import pytest
import typer
from mcutrain_host.dataclass import dataclass
from typer.testing import CliRunner

import mcutrain
from mcutrain.arguments import Within
from mcutrain.cli.commands import app
from mcutrain.cli.flags import spelled_out
from mcutrain.errors import ArgumentError, OptionError
from mcutrain.functions import board_options, options, quantize_options, run_options
from mcutrain.functions.keywords import (
    Flag,
    Keywords,
    flag_name,
    flags_of,
    given_of,
    with_keywords,
)
from mcutrain.functions.options import number
from mcutrain.functions.run_options import SelectOptions


def all_options(module: ModuleType) -> list[type[Keywords]]:
    """The classes of options that a module declares."""
    kinds = (kind for kind in vars(module).values() if isinstance(kind, type))
    return [k for k in kinds if issubclass(k, Keywords) and k.__module__ == module.__name__]


@dataclass(frozen=True, kw_only=True)
class Paint(Keywords):
    coats: Annotated[int, Within(1, 9), Flag("How often.", "--layers")] = 2
    kind: Annotated[Literal["", "oil", "lime"], Flag("Of paint.", shown=False)] = ""
    colours: Annotated[Sequence[str], Flag("To mix.", "--colour", shown=False)] = ()
    is_dried: Annotated[bool, Flag("Do not wait.", "--wet")] = True
    share: Annotated[
        Annotated[float, Within(0, 1)] | None, Flag("Of water.", kind=str, parse=number)
    ] = None


@with_keywords
def painted(wall: str, width: int = 1, *, paint: Paint = Paint(coats=3)) -> tuple[Any, ...]:
    """Paint a wall."""
    if paint.kind == "oil" and paint.share:
        raise OptionError("share", "is of lime: leave it out")
    return wall, width, paint


def test_help_has_a_line_for_each_parameter_and_explains_the_fields() -> None:
    shown = pydoc.render_doc(painted, renderer=pydoc.plaintext)
    lines = "\n".join(line.rstrip() for line in shown.rstrip().splitlines())
    assert lines.replace("Optional[float]", "float | None").endswith("""
painted(
    wall: str,
    width: int = 1,
    *,
    paint: Paint = Paint(coats=3),
    coats: int = 3,
    kind: Literal['', 'oil', 'lime'] = '',
    colours: collections.abc.Sequence[str] = (),
    is_dried: bool = True,
    share: float | None = None,
) -> tuple[Any, ...]
    Paint a wall.

    Keywords:

    Paint
        coats: How often.
        kind: Of paint.
        colours: To mix.
        is_dried: Do not wait.
        share: Of water.""")


@pytest.mark.parametrize("name", [n for n in mcutrain.__all__ if n.islower() and n[0] != "_"])
def test_help_shows_no_annotation_as_a_whole(name: str) -> None:
    function = getattr(mcutrain, name)
    if type(inspect.signature(function)) is inspect.Signature:
        return  # it has no options
    shown = pydoc.render_doc(function, renderer=pydoc.plaintext)
    assert not re.search(r"Flag\(|Annotated\[|Within\(| object at 0x", shown)
    assert max(map(len, shown.splitlines())) <= 120


def test_fields_are_keywords_and_change_only_themselves() -> None:
    assert painted("north") == ("north", 1, Paint(coats=3))
    assert painted("north", 2, kind="oil") == ("north", 2, Paint(coats=3, kind="oil"))
    given = Paint(kind="lime", colours=["red"])
    assert painted("north", paint=given, coats=1)[2] == Paint(kind="lime", colours=["red"], coats=1)
    with pytest.raises(TypeError, match="colour"):
        painted("north", colour="red")


def test_the_signature_shows_all_keywords_with_their_defaults() -> None:
    shown = inspect.signature(painted).parameters
    assert list(shown) == ["wall", "width", "paint", *(f.name for f in fields(Paint))]
    assert shown["coats"].default == 3


@pytest.mark.parametrize(
    ("name", "value"),
    [("coats", 0), ("coats", "2"), ("kind", "tar"), ("share", 2.0), ("colours", "red")],
)
def test_a_field_that_is_not_as_annotated_is_a_sentence(name: str, value: object) -> None:
    with pytest.raises(ArgumentError, match=f"^{name} is "):
        painted("north", **{name: value})


def test_given_fields_are_those_that_are_not_as_by_default() -> None:
    assert given_of(Paint(kind="oil", is_dried=False)) == ["kind", "is_dried"]


def run(*arguments: str) -> tuple[int, list[object], str]:
    """Exit code, what the command got, and what was printed."""
    got: list[object] = []

    def paint(wall: Annotated[str, typer.Argument()], *, how: Paint) -> None:
        got.append(painted(wall, paint=how))

    command = typer.Typer()
    command.command()(spelled_out(paint))
    result = CliRunner().invoke(command, arguments)
    return result.exit_code, got, result.output


def test_fields_are_flags() -> None:
    assert run("north")[1] == [("north", 1, Paint())]
    flags = ("--layers", "4", "--kind", "oil", "--colour", "red", "--colour", "blue", "--wet")
    expected = Paint(coats=4, kind="oil", colours=("red", "blue"), is_dried=False)
    assert run("north", *flags)[1] == [("north", 1, expected)]
    assert run("north", "--share", "1/4")[1] == [("north", 1, Paint(share=0.25))]


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--layers", "0"), "--layers"),
        (("--kind", "tar"), "--kind"),
        (("--share", "much"), "no number and no fraction"),
        (("--share", "1/4", "--kind", "oil"), "Invalid value for --share: is of lime"),
    ],
)
def test_what_cannot_be_is_said_of_its_flag(flags: tuple[str, ...], says: str) -> None:
    code, got, printed = run("north", *flags)
    assert (code, got) == (2, [])
    assert says in " ".join(printed.replace("│", " ").split())


FUNCTIONS = (
    *("plan", "generate", "profile", "simulate", "compare", "export", "analyze", "select"),
    *("quantize", "train_board", "select_for_budgets", "select_by_training", "simulate_episodes"),
    *("augment", "build", "flash", "imprint", "latents", "make_proxies", "pull", "verify"),
    "virtual_board",
)
COMMANDS = {
    "train_board": "train",
    "select_for_budgets": "select",
    "select_by_training": "select",
    "simulate_episodes": "simulate",
    "make_proxies": "proxies",
    "virtual_board": "board",
    "describe_data": "data",
}
"""Commands that are not called as their functions are."""
NOT_OPTIONS = 8
"""Parameters beside model, data and options, at most: output, scheme, classes and so on."""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_option_of_a_function_is_a_flag_of_its_command(name: str) -> None:
    command = typer.main.get_command(app).commands[COMMANDS.get(name, name)]
    flags = {flag for p in command.params for flag in p.opts}
    for kind in options_of(getattr(mcutrain, name)):
        for field, flag in flags_of(kind).items():
            assert flag_name(field, flag) in flags, (kind, field)


@pytest.mark.parametrize("name", [*FUNCTIONS, "prepare", "auto_scheme", "train"])
def test_a_function_has_few_parameters_beside_its_options(name: str) -> None:
    function = getattr(mcutrain, name)
    names = inspect.signature(function.__wrapped__).parameters
    own = set(names) - {"model", "data", "calibration", "step"}
    assert len(own) - len(options_of(function)) <= NOT_OPTIONS


def options_of(function: Callable[..., object]) -> list[type[Keywords]]:
    parameters = inspect.signature(function).parameters.values()
    return [type(p.default) for p in parameters if isinstance(p.default, Keywords)]


def test_a_literal_may_be_a_number() -> None:
    assert SelectOptions(bias_bits=32).bias_bits == 32
    assert SelectOptions(bias_bits="any").bias_bits == "any"
    with pytest.raises(ArgumentError, match=r"^bias_bits is 8"):
        SelectOptions(bias_bits=8)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match=r"^bias_bits is '32'"):
        SelectOptions(bias_bits="32")  # type: ignore[arg-type]


MODULES = (board_options, options, quantize_options, run_options)


@pytest.mark.parametrize("kind", [kind for module in MODULES for kind in all_options(module)])
def test_what_reads_a_flag_is_a_function_and_makes_the_default(kind: type[Keywords]) -> None:
    for name, flag in flags_of(kind).items():
        if flag.parse is not None:
            assert inspect.isfunction(flag.parse), name
            if isinstance(flag.shown, str):
                assert flag.parse(flag.shown) == getattr(kind(), name), name

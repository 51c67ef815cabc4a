"""Flags that belong together are a class in Python and single flags on the command line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import pytest
import typer
from mcutrain_host.dataclass import dataclass
from typer.testing import CliRunner

from mcutrain.cli.fit import fit
from mcutrain.cli.flags import spelled_out
from mcutrain.cli.simulate import simulate


@dataclass(frozen=True)
class Paint:
    name: Annotated[str, typer.Option(help="Of the colour.")]
    coats: Annotated[int, typer.Option("--layers", min=1)] = 2


@dataclass(frozen=True)
class Varnish(Paint):
    is_matt: Annotated[bool, typer.Option("--matt")] = False


def run(*arguments: str) -> tuple[int, list[object], str]:
    """Exit code, what the command got, and what was printed."""
    got: list[object] = []

    def cover(
        wall: Annotated[str, typer.Argument()],
        width: int = 1,
        *,
        paint: Varnish,
        hurry: bool = False,
    ) -> None:
        got.extend((wall, width, paint, hurry))

    app = typer.Typer()
    app.command()(spelled_out(cover))
    result = CliRunner().invoke(app, arguments)
    return result.exit_code, got, result.output


def test_a_class_of_flags_arrives_filled() -> None:
    flags = ("--name", "red", "--layers", "3", "--matt", "--hurry")
    assert run("wall", *flags) == (0, ["wall", 1, Varnish("red", 3, True), True], "")


def test_a_field_without_a_default_must_be_given_and_others_need_not() -> None:
    assert run("wall", "--width", "4", "--name", "red")[1] == ["wall", 4, Varnish("red"), False]
    code, got, printed = run("wall")
    assert (code, got) == (2, [])
    assert "--name" in printed


def test_limits_of_a_field_are_kept() -> None:
    code, got, printed = run("wall", "--name", "red", "--layers", "0")
    assert (code, got) == (2, [])
    assert "--layers" in printed


def test_the_help_shows_flags_in_the_order_of_the_fields() -> None:
    printed = run("--help")[2]
    places = [
        printed.index(flag) for flag in ("--width", "--name", "--layers", "--matt", "--hurry")
    ]
    assert places == sorted(places)
    assert "Of the colour." in printed


@pytest.mark.parametrize(
    ("command", "flag", "number", "sentence"),
    [
        (fit, "--epochs", "0", "is 0: it must be at least 1"),
        (fit, "--minutes", "0", "is 0.0: it must be above 0"),
        (simulate, "--seed", "-1", "is -1: it must be at least 0 and at most 2,147,483,646"),
    ],
)
def test_limits_of_keywords_are_said_in_a_sentence(
    command: Callable[..., None], flag: str, number: str, sentence: str
) -> None:
    app = typer.Typer()
    app.command()(spelled_out(command))
    data = ("--data", "y") if command is simulate else ("y",)
    result = CliRunner().invoke(app, ("x.onnx", *data, flag, number))
    said = " ".join(word for word in result.output.split() if word != "│")
    assert result.exit_code == 2
    assert f"{flag}: {sentence}" in said

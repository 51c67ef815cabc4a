"""What is typed becomes a value, or a sentence of ours, without typer's own conversion."""

from __future__ import annotations

import math
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from mcutrain.arguments import Within, number_of_bytes
from mcutrain.cli.reading import ValueReader, reader_of
from mcutrain.demo import MODEL
from mcutrain.errors import ArgumentError
from tests.cli.conftest import Run


def reader(kind: Any, info: Any = None) -> ValueReader:
    annotation = Annotated[kind, typer.Option() if info is None else info]
    found = reader_of(Parameter("x", Parameter.KEYWORD_ONLY, annotation=annotation))
    assert found is not None
    return found


@given(st.integers())
def test_integers_are_read_as_python_prints_them(number: int) -> None:
    assert reader(int | None)(str(number)) == number


@given(st.floats(allow_nan=False))
def test_numbers_are_read_as_python_prints_them(number: float) -> None:
    assert reader(float)(repr(number)) == number


@given(st.integers(-9, 9), st.integers(-9, 9), st.integers(0, 9))
def test_limits_are_included(number: int, low: int, more: int) -> None:
    limited = reader(int, typer.Option(min=low, max=low + more))
    if low <= number <= low + more:
        assert limited(str(number)) == number
    else:
        with pytest.raises(typer.BadParameter, match=f"is {number}: it must be at least {low}"):
            limited(str(number))


@pytest.mark.parametrize("text", ["", "  "])
def test_a_file_has_a_name(text: str) -> None:
    """Of a shell's variable without a value comes none; Python takes that for the folder here."""
    with pytest.raises(typer.BadParameter, match="the name is empty: give that of a file"):
        reader(Path | None)(text)
    assert reader(str)(text) == text
    assert reader(Path)(".") == Path()


@pytest.mark.parametrize("text", ["nan", "inf", "0.05"])
def test_a_number_with_a_least_value_is_finite(text: str) -> None:
    with pytest.raises(typer.BadParameter, match=r"it must be at least 0\.1"):
        reader(float, typer.Option(min=0.1))(text)
    assert math.isnan(reader(float)("nan"))  # where nothing limits it, who takes it decides


def test_integers_of_any_length_are_compared_with_limits() -> None:
    """Python's floats end at 10^308, and its integers, read, at 4,300 digits."""
    long = "1" * 400
    assert reader(int, typer.Option(min=1))(long) == int(long)
    with pytest.raises(typer.BadParameter, match="it must be at least 1 and at most 9"):
        reader(int, typer.Option(min=1, max=9))(long)
    with pytest.raises(typer.BadParameter, match="is not an integer"):
        reader(int)("1" * 5000)
    for text in (long, f"{long}K", "1" * 16, f"0.{long}"):
        with pytest.raises(ArgumentError, match="is no number of bytes"):
            number_of_bytes(text)
    assert number_of_bytes("123456789012345") == 123456789012345
    assert Within(0).why_not(math.inf) == "is inf: it must be at least 0 and finite"


def test_texts_paths_and_words_are_read() -> None:
    assert reader(str)("") == ""
    assert reader(Path | None)("a/b") == Path("a/b")
    assert reader(list[Path])("a") == Path("a")
    assert reader(Literal["on", "off"] | None)("off") == "off"
    assert reader(str, typer.Option(parser=lambda text: f"<{text}>"))("a") == "<a>"
    for kind in (bool, bool | None):
        annotation = Annotated[kind, typer.Option("--x")]
        assert reader_of(Parameter("x", Parameter.KEYWORD_ONLY, annotation=annotation)) is None
    assert reader_of(Parameter("x", Parameter.KEYWORD_ONLY)) is None


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (("verify", MODEL, "--samples", "0"), "'--samples': is 0: it must be at least 1"),
        (("verify", MODEL, "--samples", "1.5"), "'--samples': '1.5' is not an integer"),
        (
            ("plan", MODEL, "--stream", "leas"),
            "'leas' is not one of 'auto', 'least', 'off', 'max'; did you mean 'least'?",
        ),
        (("plan", MODEL, "--classes", "ten"), "'--classes': 'ten' is neither a number of classes"),
        (("average", "a", "b", "--seed", "-1"), "'--seed': is -1: it must be at least 0"),
        (("monitor", "--every", "fast"), "'--every': 'fast' is not a number"),
        (
            ("select", MODEL, "--analysis", "a", "--finalists", "1"),
            "'--finalists': is 1: it must be at least 2 and at most 20",
        ),
        (("verify",), "Missing argument 'MODEL'"),
    ],
)
def test_what_cannot_be_read_is_said_of_its_flag(
    line: tuple[object, ...], said: str, run: Run
) -> None:
    outcome = run(*line)
    assert outcome.code == 2
    assert said in " ".join(outcome.err.replace("│", " ").split())

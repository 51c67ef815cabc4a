"""Values that the model's input cannot hold are said, or refused."""

import numpy as np
import pytest

from mcutrain.cli.listening import OnScreen
from mcutrain.data import Dataset, ModelInput, Normalization, Split, input_notes
from mcutrain.data.ranges import FEW_STEPS, Clipping
from mcutrain.errors import DataError
from mcutrain.functions.chosen import samples_for
from mcutrain.functions.run_options import DataOptions

UNIT = ModelInput((8,), 1 / 255, -128)
"""Takes 0 to 1."""
SIGNED = ModelInput((8,), 1 / 127.5, -1)
"""Takes about -1 to 1."""
SYMMETRIC = ModelInput((8,), 1 / 127, 0)
SLIGHTLY = ModelInput((8,), 1 / 190, -66)
"""Takes about -0.33 to 1.02: less than a quarter of it is below 0."""


def drawn(kind: str) -> np.ndarray:
    rng = np.random.default_rng(0)
    uniform = rng.uniform(0, 1, (400, 8))
    normal = rng.normal(0, 1, (400, 8))
    return {
        "0..1": uniform,
        "0..1.5": 1.5 * uniform,
        "-1..1": 2 * uniform - 1,
        "0..255": 255 * uniform,
        "digits": np.where(rng.random((400, 8)) < 0.5, 0, rng.integers(1, 17, (400, 8))),
        "normal": normal,
        "outlier": np.where(np.arange(3200).reshape(400, 8) == 7, 1e6, uniform),
        "0..0.02": 0.02 * uniform,
    }[kind].astype(np.float32)


def notes(kind: str, model: ModelInput, normalization="auto", dtype=np.float32) -> tuple[str, ...]:
    x = drawn(kind).astype(dtype)
    part = Dataset(x, np.zeros(len(x), np.int64), ("a",))
    return input_notes(Split(part, part.part(0, 200)), model, normalization)


@pytest.mark.parametrize(
    ("kind", "model"),
    [
        ("0..1", UNIT),
        ("-1..1", SIGNED),
        ("0..1", SYMMETRIC),
        ("0..1", SLIGHTLY),
        ("outlier", UNIT),
    ],
)
def test_what_fits_but_for_an_outlier_is_not_mentioned(kind: str, model: ModelInput) -> None:
    assert notes(kind, model) == ()


@pytest.mark.parametrize(("kind", "model"), [("0..1.5", UNIT), ("normal", SIGNED)])
def test_clipped_values_are_said_with_both_ranges(kind: str, model: ModelInput) -> None:
    found = notes(kind, model)
    assert len(found) == 2, "both parts"
    low, high = drawn(kind).min(), drawn(kind).max()
    assert f"the training samples go from {low:.4g} to {high:.4g}" in found[0]
    assert f"the model's input from {model.low:.4g} to {model.high:.4g}: 3" in found[0]
    assert "% of the values are clipped; if that is more than outliers, scale them" in found[0]


@pytest.mark.parametrize(
    ("kind", "model"), [("digits", UNIT), ("-1..1", UNIT), ("0..255", SIGNED), ("normal", UNIT)]
)
def test_values_that_the_model_cannot_have_been_trained_on_are_refused(
    kind: str, model: ModelInput
) -> None:
    with pytest.raises(DataError, match="% of the values are clipped; scale them as the model's"):
        notes(kind, model)


def test_values_that_few_steps_hold_are_said() -> None:
    assert notes("0..0.02", ModelInput((8,), 1.0, -128))[0].endswith("give --mean and --std")
    assert "take 6 of its 256 values" in notes("0..0.02", UNIT)[0]
    assert FEW_STEPS > 0.02 * 255


def test_values_without_a_negative_one_for_an_input_with_many_are_said() -> None:
    found = notes("0..1", SIGNED)
    assert "and the model's input from -0.99" in found[0]
    assert "no value is below 0, as some were in the model's training; scale them" in found[0]
    pixels = {"normalization": Normalization((0.0,), (1.0,)), "dtype": np.uint8}
    assert notes("0..255", SIGNED, **pixels)[0].endswith("that the model was trained with")


def test_pixels_are_judged_after_their_normalization() -> None:
    pixels = {"normalization": Normalization((0.5,), (0.5,)), "dtype": np.uint8}
    assert notes("0..255", UNIT, dtype=np.uint8) == ()
    assert notes("0..255", SIGNED, **pixels) == ()
    with pytest.raises(DataError, match="give the --mean and --std that the model was trained"):
        notes("0..255", UNIT, **pixels)
    assert notes("0..255", UNIT, dtype=np.int8) == ()


def test_up_to_a_step_outside_is_rounding_more_is_clipped() -> None:
    for steps, share in ((0.9, 0.0), (1.1, 0.5)):
        x = np.array([[0.0, 1 + steps / 255]], np.float32)
        assert Clipping.of(x, UNIT).share == share


def test_a_command_says_it_on_stderr(tmp_path, capsys) -> None:
    x = drawn("0..1.5")
    np.savez(tmp_path / "set.npz", x=x, y=np.arange(len(x)) % 2)
    reading = DataOptions(test_share=0.5)
    samples_for(UNIT, tmp_path / "set.npz", reading, 0, OnScreen(), is_partial=False)
    printed = capsys.readouterr()
    assert printed.err.count("mcutrain: note: the training samples go from") == 1
    assert printed.out == ""

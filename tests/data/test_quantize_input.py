"""Samples become the model's int8 input by the model's own parameters."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcutrain.data import Normalization, quantize_input
from mcutrain.errors import DataError

PIXELS = np.arange(256, dtype=np.uint8).reshape(1, 16, 16, 1)


@pytest.mark.parametrize(
    ("scale", "zero_point"),
    [(1 / 127.5, 0), (1 / 127.5, -1), (1 / 128, 0), (1 / 255, -128), (1.0, -128)],
)
def test_auto_maps_each_pixel_to_itself_minus_128(scale: float, zero_point: int) -> None:
    code = quantize_input(PIXELS, scale=scale, zero_point=zero_point)
    assert code.dtype == np.int8
    assert (code == PIXELS.astype(int) - 128).all()


@pytest.mark.parametrize(
    ("real", "scale", "zero_point"),
    [
        (lambda p: p / 127.5 - 1, 1 / 127.5, 0),
        (lambda p: p / 255, 1 / 255, -128),
        (lambda p: p, 1.0, -128),
    ],
)
def test_auto_is_within_half_a_code_of_the_convention_it_stands_for(
    real: object, scale: float, zero_point: int
) -> None:
    exact = real(np.arange(256)) / scale + zero_point  # type: ignore[operator]
    code = quantize_input(PIXELS, scale=scale, zero_point=zero_point).reshape(-1)
    assert np.abs(code - exact).max() <= 0.5 + 1e-9  # float64 rounding of the convention


@pytest.mark.parametrize(
    ("scale", "zero_point"),
    [(0.0186, -14), (1 / 127.5, -128), (1 / 255, 0), (1.0, 0), (1.02, -128)],
)
def test_auto_refuses_a_model_of_no_convention(scale: float, zero_point: int) -> None:
    with pytest.raises(DataError, match="give the mean and std"):
        quantize_input(PIXELS, scale=scale, zero_point=zero_point)


@given(st.floats(0, 1), st.floats(0.1, 2), st.integers(-128, 127))
def test_a_normalization_rounds_half_to_even_and_saturates(
    mean: float, std: float, zero_point: int
) -> None:
    norm = Normalization((mean,), (std,))
    code = quantize_input(PIXELS, scale=0.02, zero_point=zero_point, normalization=norm)
    for pixel, value in enumerate(code.reshape(-1).tolist()):
        real = (pixel / 255 - mean) / std / 0.02
        assert value == min(max(round(real) + zero_point, -128), 127)


def test_each_channel_has_its_own_normalization() -> None:
    x = np.repeat(PIXELS, 2, axis=3)
    norm = Normalization((0.0, 0.5), (1.0, 0.25))
    code = quantize_input(x, scale=0.03, zero_point=3, normalization=norm)
    for i in range(2):
        alone = Normalization((norm.mean[i],), (norm.std[i],))
        expected = quantize_input(PIXELS, scale=0.03, zero_point=3, normalization=alone)
        assert (code[..., i : i + 1] == expected).all()


def test_means_that_do_not_fit_the_channels_are_refused() -> None:
    norm = Normalization((0.1, 0.2), (1.0, 1.0))
    with pytest.raises(DataError, match="2 means but the images have 1 channels"):
        quantize_input(PIXELS, scale=0.03, zero_point=3, normalization=norm)


@pytest.mark.parametrize(
    ("mean", "std"), [((), ()), ((0.1,), ()), ((0.1,), (0.0,)), ((float("nan"),), (1.0,))]
)
def test_a_normalization_that_cannot_be_is_refused(
    mean: tuple[float, ...], std: tuple[float, ...]
) -> None:
    with pytest.raises(DataError):
        Normalization(mean, std)


def test_int8_is_taken_as_it_is() -> None:
    x = np.array([[-128, 0, 127]], dtype=np.int8)
    assert quantize_input(x, scale=0.3, zero_point=83) is x


@given(
    st.lists(st.floats(-200, 200, width=32), min_size=1, max_size=20),
    st.sampled_from([0.5, 0.25, 0.3910152316093445, 1.0]),
    st.integers(-128, 127),
)
def test_real_values_are_rounded_half_away_and_saturate(
    values: list[float], scale: float, zero_point: int
) -> None:
    x = np.array([values], dtype=np.float32)
    code = quantize_input(x, scale=scale, zero_point=zero_point)
    for value, result in zip(x[0], code[0].tolist(), strict=True):
        quotient = Fraction(float(value / np.float32(scale)))
        away = int(abs(quotient) + Fraction(1, 2)) * (1 if quotient >= 0 else -1)
        assert result == min(max(away + zero_point, -128), 127)


def test_halves_go_away_from_zero() -> None:
    x = np.array([[0.5, -0.5, 1.5, -2.5, 0.49999997, 1e38, -1e38]], dtype=np.float32)
    assert quantize_input(x, scale=1.0, zero_point=0).tolist() == [[1, -1, 2, -3, 0, 127, -128]]
    small = quantize_input(x, scale=1e-9, zero_point=0)
    assert small.tolist() == [[127, -128, 127, -128, 127, 127, -128]]


@pytest.mark.parametrize(
    ("scale", "zero_point"), [(0.0, 0), (-1.0, 0), (float("nan"), 0), (1.0, 128)]
)
def test_parameters_that_are_no_quantization_are_refused(scale: float, zero_point: int) -> None:
    with pytest.raises(DataError, match="no int8 quantization"):
        quantize_input(PIXELS, scale=scale, zero_point=zero_point)


def test_nan_and_other_types_are_refused() -> None:
    with pytest.raises(DataError, match="NaN"):
        quantize_input(np.full((1, 2), np.nan, np.float32), scale=1.0, zero_point=0)
    with pytest.raises(DataError, match="float64"):
        quantize_input(np.zeros((1, 2)), scale=1.0, zero_point=0)

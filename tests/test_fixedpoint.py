"""The integer arithmetic: Python and C with ==, both against exact real arithmetic."""

from __future__ import annotations

import ctypes
import math
import subprocess
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import mcutrain_firmware
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mcutrain import fixedpoint
from mcutrain.errors import McutrainError
from mcutrain.ops.gradients import fitted_sums, narrow_sum
from mcutrain.simulation.build import WARNINGS
from mcutrain.simulation.rates import LearningRate, Schedule
from tests.compiled import that_differ

Array = npt.NDArray[Any]

RUNTIME = Path(mcutrain_firmware.__file__).parent / "runtime"
LOW, HIGH = -(2**31), 2**31 - 1

UNIFORM_CELLS = 64
UNIFORM_DRAWS = 64 * 4096
CHI_SQUARE_LIMIT = 110.0
"""For 63 degrees of freedom: a uniform generator exceeds it once in 4,000 keys; keys are fixed."""
BIAS_LIMIT = 4.0
"""Standard deviations of a mean of stochastic rounding; seen once in 16,000 by chance."""
COSINE_TOLERANCE = 2.0**-20
"""Relative to the base rate: the polynomial is good to 2**-27, its square and the multiplier to
about 2**-26."""

WRAPPERS = """
#include "mct_fixedpoint.h"
#include "mct_gradient.h"
#include "mct_schedule.h"
#include "mct_state.h"

int32_t high_mul(int32_t a, int32_t b);
int32_t high_mul(int32_t a, int32_t b) { return mct_high_mul(a, b); }
int32_t rounding_shift(int32_t x, int32_t bits);
int32_t rounding_shift(int32_t x, int32_t bits) { return mct_rounding_shift(x, bits); }
int32_t requantize(int32_t x, int32_t mult, int32_t shift);
int32_t requantize(int32_t x, int32_t mult, int32_t shift) {
    return mct_requantize_q31(x, mult, shift);
}
int32_t requantize_once(int32_t x, int32_t mult, int32_t shift);
int32_t requantize_once(int32_t x, int32_t mult, int32_t shift) {
    return mct_requantize_once_q31(x, mult, shift);
}
uint32_t hash32(uint32_t x);
uint32_t hash32(uint32_t x) { return mct_hash32(x); }
int32_t random16(uint32_t key, uint32_t index);
int32_t random16(uint32_t key, uint32_t index) { return mct_random16(key, index); }
uint32_t node_key(uint32_t key, uint32_t salt);
uint32_t node_key(uint32_t key, uint32_t salt) { return mct_node_key(key, salt); }
uint32_t xorshift32(uint32_t state);
uint32_t xorshift32(uint32_t state) { return mct_xorshift32(state); }
int64_t scaled(int32_t x, int32_t mult, int32_t shift);
int64_t scaled(int32_t x, int32_t mult, int32_t shift) {
    return mct_scale_to_fraction(x, mult, mct_shift_right(shift));
}
int64_t fitted(int64_t sum);
int64_t fitted(int64_t sum) {
    const mct_fitted_sum found = mct_fit_sum_s16(sum);
    return (int64_t)found.value * 16 + found.kept_bits;
}
int64_t reaching(int32_t x, int32_t mult, int32_t shift, int32_t finer);
int64_t reaching(int32_t x, int32_t mult, int32_t shift, int32_t finer) {
    return mct_scale_reaching(x, mult, shift, finer);
}
int32_t bit_length(uint64_t x);
int32_t bit_length(uint64_t x) { return mct_bit_length64(x); }
int32_t clamp(int32_t x, int32_t low, int32_t high);
int32_t clamp(int32_t x, int32_t low, int32_t high) { return mct_clamp(x, low, high); }
int64_t shift_right(int64_t x, int32_t bits);
int64_t shift_right(int64_t x, int32_t bits) { return x >> bits; }
void exponent(int8_t *e, uint32_t update, uint32_t sample, uint64_t seen, int32_t bits);
void exponent(int8_t *e, uint32_t update, uint32_t sample, uint64_t seen, int32_t bits) {
    mct_exponent value = {e[0], e[1], e[2]};
    const mct_step step = {.update = update, .sample = sample};
    mct_exponent_begin(&value, &step);
    mct_exponent_observe(&value, seen, bits);
    e[0] = value.now;
    e[1] = value.recent;
    e[2] = value.older;
}
void cosine(int32_t *rate, uint32_t step, uint32_t warmup, uint32_t total);
void cosine(int32_t *rate, uint32_t step, uint32_t warmup, uint32_t total) {
    const mct_learning_rate base = {rate[0], rate[1]};
    const mct_learning_rate found = mct_schedule_cosine(base, step, warmup, total);
    rate[0] = found.mult_q31;
    rate[1] = found.shift;
}
"""


@pytest.fixture(scope="module")
def libraries(
    c_compilers: list[tuple[str, ...]], tmp_path_factory: pytest.TempPathFactory
) -> list[ctypes.CDLL]:
    """The inline functions as compiled by every compiler."""
    folder = tmp_path_factory.mktemp("fixedpoint")
    (folder / "wrappers.c").write_text(WRAPPERS, encoding="utf-8")
    sources = [str(RUNTIME / f"mct_{n}.c") for n in ("gradient", "schedule", "state")]
    loaded = []
    for i, command in enumerate(that_differ(c_compilers)):
        target = folder / f"{i}.so"
        flags = ["-std=c11", "-O2", *WARNINGS, f"-I{RUNTIME}", "-shared", "-fPIC"]
        arguments = [*flags, "-o", str(target), str(folder / "wrappers.c"), *sources]
        done = subprocess.run([*command, *arguments], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        loaded.append(ctypes.CDLL(str(target)))
    return loaded


int32s = st.one_of(
    st.integers(LOW, HIGH), st.integers(-300, 300), st.sampled_from([LOW, LOW + 1, HIGH, HIGH - 1])
)
multipliers = st.one_of(st.integers(2**30, HIGH), st.sampled_from([0, 2**30, HIGH]))
words = st.integers(0, 2**32 - 1)


def call(library: ctypes.CDLL, name: str, result: Any, *values: int) -> int:
    function = getattr(library, name)
    function.restype = result
    return int(function(*(_argument(name, v) for v in values)))


def _argument(name: str, value: int) -> Any:
    wide = name in ("bit_length", "shift_right") and not 0 <= value < 64
    if name == "bit_length":
        return ctypes.c_uint64(value)
    return ctypes.c_int64(value) if wide else ctypes.c_int32(value)


def rounded_half_away(value: Fraction) -> int:
    return int(math.copysign(math.floor(abs(value) + Fraction(1, 2)), value))


@given(x=int32s, mult=multipliers, shift=st.integers(-31, 0))
@example(x=LOW, mult=HIGH, shift=0)
@example(x=LOW, mult=HIGH, shift=-31)
def test_requantization_is_the_same_in_c(
    libraries: list[ctypes.CDLL], x: int, mult: int, shift: int
) -> None:
    twice = int(fixedpoint.multiply_by_quantized_multiplier(np.int64(x), mult, shift))
    for library in libraries:
        assert call(library, "requantize", ctypes.c_int32, x, mult, shift) == twice


@given(x=st.integers(-(2**20), 2**20), mult=multipliers, shift=st.integers(1, 10))
def test_requantization_with_a_left_shift_is_the_same_in_c(
    libraries: list[ctypes.CDLL], x: int, mult: int, shift: int
) -> None:
    twice = int(fixedpoint.multiply_by_quantized_multiplier(np.int64(x), mult, shift))
    for library in libraries:
        assert call(library, "requantize", ctypes.c_int32, x, mult, shift) == twice


@given(x=int32s, mult=multipliers, shift=st.integers(-31, 0))
def test_rounding_once_is_the_nearest_integer_in_python_and_c(
    libraries: list[ctypes.CDLL], x: int, mult: int, shift: int
) -> None:
    exact = rounded_half_away(Fraction(x * mult) * Fraction(2) ** (shift - 31))
    assert int(fixedpoint.multiply_rounding_once(np.int64(x), mult, shift)) == exact
    for library in libraries:
        assert call(library, "requantize_once", ctypes.c_int32, x, mult, shift) == exact


@given(x=int32s, mult=multipliers, shift=st.integers(-31, 0))
def test_rounding_twice_is_off_the_nearest_integer_by_less_than_one(
    x: int, mult: int, shift: int
) -> None:
    exact = Fraction(x * mult) * Fraction(2) ** (shift - 31)
    twice = int(fixedpoint.multiply_by_quantized_multiplier(np.int64(x), mult, shift))
    assert abs(twice - exact) <= 1


@given(a=int32s, b=int32s, bits=st.integers(0, 31))
def test_high_multiplication_and_rounding_shift_are_the_same_in_c(
    libraries: list[ctypes.CDLL], a: int, b: int, bits: int
) -> None:
    for library in libraries:
        if (a, b) != (LOW, LOW):
            high = (a * b + 2**30) >> 31
            assert call(library, "high_mul", ctypes.c_int32, a, b) == high
        shifted = rounded_half_away(Fraction(a, 2**bits))
        assert call(library, "rounding_shift", ctypes.c_int32, a, bits) == shifted


@given(x=int32s, mult=st.integers(0, HIGH), shift=st.integers(-300, 300))
def test_scaling_to_a_fraction_is_the_same_in_c(
    libraries: list[ctypes.CDLL], x: int, mult: int, shift: int
) -> None:
    expected = int(fixedpoint.scale_to_fraction(np.array(x), np.array(mult), np.array(shift)))
    for library in libraries:
        assert call(library, "scaled", ctypes.c_int64, x, mult, shift) == expected
    if -31 <= shift <= 15:
        assert expected == (x * mult << 16) >> (31 - shift)


@given(x=int32s, mult=multipliers, shift=st.integers(-300, 300), finer=st.sampled_from([0, 8]))
@example(1, 2**30, 16, 8)
@example(-1, 2**30, 300, 0)
def test_a_factor_that_is_too_large_for_int16_makes_more_than_int16_holds(
    libraries: list[ctypes.CDLL], x: int, mult: int, shift: int, finer: int
) -> None:
    """So the exponent grows; and the sum of two such terms and random bits fits int64."""
    values = (np.array(v) for v in (x, mult, shift, finer))
    expected = int(fixedpoint.scale_reaching(*values))
    for library in libraries:
        assert call(library, "reaching", ctypes.c_int64, x, mult, shift, finer) == expected
    if -31 - finer <= shift <= 15:
        assert expected == (x * mult << 16) >> (31 - shift)
    if shift > 15:
        assert abs(expected) >= 2**31 or x == 0 or mult == 0
    assert abs(expected) < 2**62
    assert expected * x >= 0 or shift <= 15


@given(x=words, y=words)
def test_hashes_keys_and_random_bits_are_the_same_in_c(
    libraries: list[ctypes.CDLL], x: int, y: int
) -> None:
    for library in libraries:
        with np.errstate(over="ignore"):
            assert call(library, "hash32", ctypes.c_uint32, x) == int(
                fixedpoint.hash32(np.array([x], np.uint32))[0]
            )
        drawn = int(fixedpoint.random16(x, np.array([y]))[0])
        assert call(library, "random16", ctypes.c_int32, x, y) == drawn
        assert 0 <= drawn < 2**16
        assert call(library, "node_key", ctypes.c_uint32, x, y) == fixedpoint.node_key(x, y)
        if x:
            following = fixedpoint.xorshift32(x)
            assert call(library, "xorshift32", ctypes.c_uint32, x) == following != 0


@given(value=st.integers(-(2**63) + 1, 2**63 - 1), bits=st.integers(0, 62))
def test_shifting_a_negative_number_right_rounds_down_in_c(
    libraries: list[ctypes.CDLL], value: int, bits: int
) -> None:
    for library in libraries:
        function = library.shift_right
        function.restype = ctypes.c_int64
        assert function(ctypes.c_int64(value), ctypes.c_int32(bits)) == value >> bits
        if value >= 0:
            length = call(library, "bit_length", ctypes.c_int32, value)
            assert length == value.bit_length()


exponents = st.tuples(*[st.integers(-128, 127)] * 3)


@given(
    history=exponents,
    update=st.integers(0, 70),
    sample=st.integers(0, 2),
    fraction=st.integers(-(2**46), 2**46),
    bits=st.sampled_from([7, 15]),
)
@example(history=(-127, -128, -128), update=1, sample=1, fraction=1, bits=15)
def test_exponents_are_chosen_and_observed_alike_in_c(
    libraries: list[ctypes.CDLL],
    history: tuple[int, int, int],
    update: int,
    sample: int,
    fraction: int,
    bits: int,
) -> None:
    expected = fixedpoint.begin_exponent(np.array(history, np.int8), update, sample)
    needed = fixedpoint.magnitude_bits(np.array([fraction]))
    if needed > -fixedpoint.FRACTION_BITS:
        expected = fixedpoint.observe_exponent(expected, int(expected[0]) + needed - bits)
    seen = fraction ^ (fraction >> 63)
    for library in libraries:
        found = np.array(history, np.int8)
        library.exponent(
            ctypes.c_void_p(found.ctypes.data),
            ctypes.c_uint32(update),
            ctypes.c_uint32(sample),
            ctypes.c_uint64(seen),
            ctypes.c_int32(bits),
        )
        assert found.tolist() == expected.tolist()


@given(st.one_of(st.integers(-(2**62), 2**62), st.integers(2**39 - 300, 2**39 + 300)))
@example(-(2**39) - 129)
def test_sums_of_wide_gradients_saturate_alike_in_c(
    libraries: list[ctypes.CDLL], value: int
) -> None:
    expected = int(narrow_sum(np.array([value]), "int16")[0])
    assert expected == min(max((value + 128) // 256, LOW), HIGH)
    for library in libraries:
        assert library.mct_narrow_sum_s16(ctypes.c_int64(value)) == expected


@given(st.one_of(st.integers(-(2**62), 2**62), st.integers(-(2**33), 2**33)))
@example(HIGH)
@example(HIGH + 1)
@example(LOW)
@example(LOW - 1)
def test_sums_of_wide_gradients_are_exact_where_they_fit_in_c_as_well(
    libraries: list[ctypes.CDLL], value: int
) -> None:
    found = fitted_sums(np.array([value]), "int16")
    expected = int(found.value[0]) * 16 + int(np.asarray(found.kept_bits)[0])
    for library in libraries:
        library.fitted.restype = ctypes.c_int64
        assert library.fitted(ctypes.c_int64(value)) == expected


def test_an_exponent_is_the_largest_of_the_last_16_to_31_updates() -> None:
    rng = np.random.default_rng(0)
    needed = rng.integers(-30, 10, 200).tolist()
    exponent = np.array([-40, fixedpoint.NO_EXPONENT, fixedpoint.NO_EXPONENT], np.int8)
    for update, value in enumerate(needed):
        exponent = fixedpoint.begin_exponent(exponent, update, 0)
        window = [max(needed[max(update - n, 0) : update], default=-40) for n in range(16, 33)]
        assert int(exponent[0]) in window
        exponent = fixedpoint.observe_exponent(exponent, value)


# ------------------------------------------------------------------------------------ conversions


@given(real=st.floats(2.0**-31, 2.0**30))
def test_a_quantized_multiplier_is_the_real_number_to_31_bits(real: float) -> None:
    mult, shift = fixedpoint.quantize_multiplier(real)
    assert 2**30 <= mult <= HIGH
    assert abs(fixedpoint.multiplier_value(mult, shift) / real - 1) <= 2.0**-31


@given(real=st.floats(2.0**-120, 2.0**120))
def test_a_normalized_multiplier_is_the_real_number_to_30_bits(real: float) -> None:
    mult, shift = fixedpoint.normalized_multiplier(real)
    assert 2**30 <= mult <= HIGH
    assert -128 <= shift <= 127
    assert abs(fixedpoint.multiplier_value(mult, shift) / real - 1) <= 2.0**-30


@pytest.mark.parametrize("real", [-1.0, math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    "convert", [fixedpoint.quantize_multiplier, fixedpoint.normalized_multiplier]
)
def test_what_is_no_multiplier_is_refused(convert: Callable[[float], Any], real: float) -> None:
    with pytest.raises(ValueError, match="finite and not negative"):
        convert(real)


def test_zero_and_vanishing_multipliers_are_zero() -> None:
    assert fixedpoint.quantize_multiplier(0.0) == fixedpoint.quantize_multiplier(1e-30) == (0, 0)
    assert fixedpoint.normalized_multiplier(0.0) == (0, 0)
    with pytest.raises(ValueError, match="outside"):
        fixedpoint.normalized_multiplier(1e-60)


# ----------------------------------------------------------------------------------------- random


@pytest.mark.parametrize("salt", range(12))
def test_random_bits_are_uniform_over_indices_and_over_keys(salt: int) -> None:
    over_indices = fixedpoint.random16(fixedpoint.node_key(12345, salt), np.arange(UNIFORM_DRAWS))
    state, keys = 1, []
    for _ in range(UNIFORM_DRAWS // 64):
        state = fixedpoint.xorshift32(state)
        keys.append(fixedpoint.node_key(state, salt))
    over_keys = np.array([fixedpoint.random16(key, np.arange(4)) for key in keys]).ravel()
    for drawn in (over_indices, over_keys):
        counts = np.bincount(drawn * UNIFORM_CELLS >> 16, minlength=UNIFORM_CELLS)
        expected = drawn.size / UNIFORM_CELLS
        assert ((counts - expected) ** 2 / expected).sum() < CHI_SQUARE_LIMIT


@pytest.mark.parametrize("part", [0.0, 0.001, 0.25, 0.5, 0.77, 0.999])
@pytest.mark.parametrize("whole", [-3, 0, 5])
def test_stochastic_rounding_is_right_in_the_mean(whole: int, part: float) -> None:
    count = 2**16
    fraction = np.full(count, whole * 2**16 + int(part * 2**16))
    rounded = fixedpoint.round_stochastic(fraction, fixedpoint.node_key(99, 7), np.arange(count))
    assert set(np.unique(rounded)) <= {whole, whole + 1}
    exact = fraction[0] / 2**16
    deviation = math.sqrt(part * (1 - part) / count)
    assert abs(rounded.mean() - exact) <= BIAS_LIMIT * deviation


# --------------------------------------------------------------------------------------- schedule


def float_cosine(rate: float, step: int, warmup: int, total: int) -> float:
    if step < warmup:
        return rate * (step + 1) / warmup
    t = min((step - warmup) / max(total - warmup, 1), 1.0)
    return rate * (1 + math.cos(math.pi * t)) / 2


rates = st.one_of(st.just(0.0), st.floats(1e-6, 1000.0))
lengths = st.one_of(st.integers(1, 300), st.integers(1, 2**31 - 1))


@settings(max_examples=300)
@given(rate=rates, total=lengths, parts=st.tuples(st.floats(0, 1), st.floats(0, 1.5)))
def test_a_cosine_schedule_is_that_of_real_numbers_and_the_same_in_c(
    libraries: list[ctypes.CDLL], rate: float, total: int, parts: tuple[float, float]
) -> None:
    warmup, step = int(parts[0] * total), int(parts[1] * total)
    schedule = Schedule(LearningRate.of(rate), "cosine", warmup, total)
    found = schedule.at(step)
    assert abs(found.value - float_cosine(rate, step, warmup, total)) <= COSINE_TOLERANCE * rate
    assert found.mult_q31 == 0 or 2**30 <= found.mult_q31 <= HIGH
    for library in libraries:
        words = np.array([schedule.base.mult_q31, schedule.base.shift], np.int32)
        library.cosine(
            ctypes.c_void_p(words.ctypes.data),
            ctypes.c_uint32(step),
            ctypes.c_uint32(warmup),
            ctypes.c_uint32(total),
        )
        assert words.tolist() == [found.mult_q31, found.shift]


def test_a_cosine_schedule_starts_at_the_base_ends_at_zero_and_never_rises() -> None:
    schedule = Schedule(LearningRate.of(0.125), "cosine", 10, 200)
    values = [schedule.at(i).value for i in range(260)]
    assert values[:10] == sorted(values[:10])
    assert abs(values[9] - 0.125) < COSINE_TOLERANCE
    assert values[10:] == sorted(values[10:], reverse=True)
    assert set(values[200:]) == {0.0}


def test_a_constant_schedule_never_changes() -> None:
    base = LearningRate.of(0.3)
    assert {Schedule(base, "constant", 5, 10).at(i) for i in (0, 4, 9, 10, 10**9)} == {base}


@pytest.mark.parametrize("rate", [-0.1, math.nan, math.inf, 2.0**31])
def test_what_is_no_learning_rate_is_refused_in_a_sentence(rate: float) -> None:
    with pytest.raises(McutrainError, match="is not a number from 0 to 2\\*\\*31"):
        LearningRate.of(rate)


# ----------------------------------------------------------------------------------------- state


@given(data=st.binary(max_size=64), start=words)
def test_the_checksum_is_that_of_zlib(
    libraries: list[ctypes.CDLL], data: bytes, start: int
) -> None:
    import zlib

    for library in libraries:
        library.mct_crc32.restype = ctypes.c_uint32
        found = library.mct_crc32(ctypes.c_uint32(start), data, ctypes.c_size_t(len(data)))
        assert found == zlib.crc32(data, start)


def test_a_factor_that_rounds_up_to_a_power_of_two_fits_31_bits() -> None:
    """Of a training's factor the largest mantissa below it, since its shift may not grow."""
    below = math.nextafter(1.0, 0.0)
    assert fixedpoint.quantize_multiplier(below) == (2**30, 1)
    assert fixedpoint.normalized_multiplier(below) == (2**31 - 1, 0)
    assert fixedpoint.signed_multiplier(-below) == (1 - 2**31, 0)


def test_what_was_observed_is_never_taken_for_nothing_observed() -> None:
    nothing = np.array([-40, fixedpoint.NO_EXPONENT, fixedpoint.NO_EXPONENT], np.int8)
    least = fixedpoint.observe_exponent(nothing, -1000)
    assert least.tolist() == [-40, -127, fixedpoint.NO_EXPONENT]
    assert fixedpoint.begin_exponent(least, 1, 0)[0] == -127
    assert fixedpoint.begin_exponent(nothing, 1, 0)[0] == -40
    assert fixedpoint.observe_exponent(nothing, 1000)[1] == 127

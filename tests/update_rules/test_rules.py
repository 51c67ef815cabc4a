"""What rules of updates compute, against the real numbers that they stand for."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcutrain.errors import SchemeError
from mcutrain.ops.gradients import FittedSums
from mcutrain.ops.updating import AdaptedUpdate, UpdateRule
from mcutrain.simulation.rates import LearningRate
from mcutrain.sparse import UpdateScheme, parse_scheme
from mcutrain.update_rules import RULES, AdaptingRule, ChannelGradients, rule_of
from mcutrain.update_rules.momentum import DECAY_Q15, SUM_BITS, Momentum
from mcutrain.update_rules.rmsprop import WINDOW_BITS, RMSProp

Array = npt.NDArray[np.int64]

CHANNELS, COUNT = 6, 40
ROUNDING = 2.0**-20
"""Of a direction, relative to its largest: it has 29 bits or more, and adds two rounded numbers."""
V_ROUNDING = 2.0**-9
"""Of v, relative: its mean has 15 bits and half of its last one is lost at each of 128 updates."""
UNBIASED = 4.0
"""Standard errors that a mean of random roundings may be from 0."""


def gradients(sums: Array, exponent: int = -12, key: int = 5, update: int = 0) -> ChannelGradients:
    return ChannelGradients(sums, exponent, np.arange(sums.size).reshape(sums.shape), key, update)


def first(
    rule: AdaptingRule, shape: tuple[int, int] = (CHANNELS, COUNT)
) -> tuple[npt.NDArray[np.int8], ...]:
    return tuple(slot.value for slot in rule.slots(*shape))


def random_sums(seed: int, bits: int = 14) -> Array:
    """Channels of different sizes."""
    rng = np.random.default_rng(seed)
    sizes = 2.0 ** rng.uniform(0, bits, (CHANNELS, 1))
    return np.rint(rng.normal(0, 1, (CHANNELS, COUNT)) * sizes).astype(np.int64)


def bytes_of(rule: AdaptingRule, channels: int, count: int) -> int:
    return sum(slot.value.nbytes for slot in rule.slots(channels, count))


def test_momentum_takes_a_byte_for_each_weight_and_each_channel() -> None:
    assert bytes_of(Momentum(), 5, 7) == 5 * 7 + 5


def test_momentum_adds_nine_tenths_of_what_is_stored() -> None:
    """Exactly but for the last bits, and what is stored is within one unit of its direction."""
    slots = first(Momentum())
    for t in range(30):
        sums, exponent = random_sums(t), -12 - t % 5
        old = slots[0].reshape(CHANNELS, COUNT) * np.exp2(slots[1].astype(float))[:, None]
        found, slots = Momentum().direct(gradients(sums, exponent, key=t), slots)
        unit = np.exp2(found.exponent.astype(float))[:, None]
        exact = DECAY_Q15 / 2**15 * old + sums * 2.0**exponent
        largest = np.abs(exact).max(axis=1, keepdims=True)
        assert (np.abs(found.sums * unit - exact) <= ROUNDING * largest + 2 * unit).all()
        stored = slots[0].reshape(CHANNELS, COUNT) * np.exp2(slots[1].astype(float))[:, None]
        one = np.exp2(slots[1].astype(float))[:, None]
        assert (np.abs(stored - found.sums * unit) <= one).all()
        assert (np.abs(slots[0].reshape(CHANNELS, COUNT)).max(axis=1) >= 32).all(), (
            "7 bits are used"
        )


def test_the_decay_of_momentum_is_nine_tenths() -> None:
    assert abs(DECAY_Q15 / 2**15 - 0.9) < 2.0**-16


def test_the_rounding_of_momentum_is_right_in_the_mean() -> None:
    sums = random_sums(1)
    errors = []
    for key in range(200):
        found, (stored, exponent) = Momentum().direct(gradients(sums, key=key), first(Momentum()))
        one = np.exp2(exponent.astype(float))[:, None]
        real = found.sums * np.exp2(found.exponent.astype(float))[:, None]
        errors.append((stored.reshape(CHANNELS, COUNT) * one - real) / one)
    mean = np.mean(errors)
    assert abs(mean) < UNBIASED * np.std(errors) / np.sqrt(np.size(errors))
    assert np.std(errors) > 0.1


def test_the_first_step_of_momentum_is_that_of_sgd_bit_for_bit() -> None:
    sums, rates = random_sums(3), tuple(2.0**-k for k in range(CHANNELS))
    rate = LearningRate.of(0.03)
    step = np.array([77, 0, 0, rate.mult_q31, rate.shift])
    ours, _ = AdaptedUpdate(rates, 4, 9, Momentum()).updated(
        step, FittedSums(sums), -3, 0, first(Momentum())
    )
    sgd, _ = UpdateRule(rates, 4, 9).updated(step, FittedSums(sums), -3, 0, ())
    np.testing.assert_array_equal(ours, sgd)
    assert np.unique(sgd).size > 10


@given(
    exponents=st.lists(st.integers(-128, 127), min_size=1, max_size=4),
    bits=st.integers(0, 31),
    seed=st.integers(0, 99),
)
def test_a_direction_of_momentum_fits_whatever_came_before(
    exponents: list[int], bits: int, seed: int
) -> None:
    slots = first(Momentum())
    for t, exponent in enumerate(exponents):
        limit = 2**bits
        sums = np.random.default_rng(seed + t).integers(-limit, limit, (CHANNELS, COUNT))
        found, slots = Momentum().direct(gradients(sums, exponent, key=t), slots)
        assert (np.abs(found.sums) < 2**SUM_BITS).all()
        assert (np.abs(slots[0].astype(int)) <= 127).all()


def test_rmsprop_takes_four_bytes_for_each_channel() -> None:
    assert bytes_of(RMSProp(), 5, 7) == 4 * 5


def test_v_is_the_mean_of_squares_and_a_direction_its_root() -> None:
    """v is a plain mean at first, in groups that double, then one over 2**WINDOW_BITS updates."""
    slots, v = first(RMSProp()), np.zeros(CHANNELS)
    for t in range(300):
        sums, exponent = random_sums(t, bits=10), -5 + t % 3
        found, slots = RMSProp().direct(gradients(sums, exponent, update=t), slots)
        weight = 2.0 ** -min((t + 1).bit_length() - 1, WINDOW_BITS)
        v += weight * ((sums * 2.0**exponent) ** 2).sum(axis=1) - weight * v
        stored = slots[0] * np.exp2(slots[1].astype(float))
        np.testing.assert_allclose(stored, v, rtol=V_ROUNDING)
        root = found.root_q31 * 2.0**-31 * np.exp2(found.exponent.astype(float) - exponent)
        np.testing.assert_allclose(root, 1 / np.sqrt(stored), rtol=2.0**-20)


@given(shift=st.integers(-60, 60), seed=st.integers(0, 99))
def test_directions_of_rmsprop_have_no_unit(shift: int, seed: int) -> None:
    """Gradients times a power of two give the same steps, bit for bit."""
    step = np.array([77, 0, 0, 2**30, -9])
    results = []
    for exponent in (-20, -20 + shift):
        rule, slots = AdaptedUpdate((3.0,), 4, 9, RMSProp()), first(RMSProp())
        for t in range(3):
            step[1] = t
            delta, slots = rule.updated(step, FittedSums(random_sums(seed + t)), exponent, 0, slots)
            results.append(delta)
    for now, then in zip(results[:3], results[3:], strict=True):
        np.testing.assert_array_equal(now, then)


@pytest.mark.parametrize("rule", [r for r in RULES.values() if r], ids=lambda r: r.name)
def test_channels_know_nothing_of_each_other(rule: AdaptingRule) -> None:
    """A channel's direction is what it is where it is alone, whatever its neighbours are."""
    sums = random_sums(4)
    together, _ = rule.direct(gradients(sums), first(rule))
    for c in range(CHANNELS):
        alone, _ = rule.direct(gradients(sums[c : c + 1]), first(rule, (1, COUNT)))
        np.testing.assert_array_equal(alone.sums[0], together.sums[c])
        assert alone.exponent[0] == together.exponent[c]


def test_an_unknown_rule_is_a_sentence_that_names_the_others() -> None:
    with pytest.raises(SchemeError, match="momentum"):
        rule_of("momentun")
    with pytest.raises(SchemeError, match="adam") as caught:
        UpdateScheme(update_rule="adam")
    assert all(name in str(caught.value) for name in RULES)


def test_a_scheme_keeps_its_rule_in_its_file(tmp_path) -> None:
    scheme = UpdateScheme("mine", 2, update_rule="rmsprop")
    file = tmp_path / "mine.toml"
    file.write_text(scheme.to_toml())
    assert parse_scheme(file) == scheme
    assert "update_rule" not in UpdateScheme("mine", 2).to_toml()

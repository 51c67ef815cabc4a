"""The learning rate that is found by trials: which one, from what samples, and where it is kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from mcutrain_host import cache
from mcutrain_host.errors import CacheError

from mcutrain.data import Dataset, Split
from mcutrain.errors import BuildError, DataError
from mcutrain.simulation import RunSettings, Samples, Search, bad_sign, loss_sign, warning
from mcutrain.simulation.range_test import (
    AFFORDABLE_MACS,
    FEW_SAMPLES,
    FIRST,
    MOST_HELD_OUT,
    MOST_STEPS,
    RATES,
    TOO_LARGE,
    TRIAL_STEPS,
    FoundRate,
    OutOfTime,
    Trials,
    cautious,
    fewer_steps,
    find_rate,
    step_macs,
)
from mcutrain.simulation.rates import LearningRate

Array = npt.NDArray[Any]
NAMES = tuple("abcd")
FIRST_IS_NUMBER = 2
"""A sample is its number in the data set, in two int8, and something else."""


class Hill:
    """Learns one number: every step takes it `steepness` · rate nearer to 0, or past it.

    What is left, squared, is the loss, and some noise that grows with the rate: as networks learn.
    """

    def __init__(self, steepness: float, begin: float = 1.0) -> None:
        self.steepness, self.left, self.noise = steepness, begin, 0.0
        self.seen: list[Array] = []
        self.held: list[Array] = []

    def train(self, x: Array, labels: Array, rates: list[LearningRate]) -> tuple[Array, Array]:
        losses = []
        for rate in rates:
            losses.append(min(self.left**2 + self.noise, 1e4) * 65536)
            self.left = float(np.clip(self.left * (1 - self.steepness * rate.value), -1e6, 1e6))
            self.noise = max(self.noise, self.steepness * rate.value * 0.1)
        (self.held if all(rate.mult_q31 == 0 for rate in rates) else self.seen).append(x)
        return np.array(losses, np.int64), np.zeros(len(x), np.int32)

    def infer(self, x: Array) -> Array:
        raise AssertionError("the loss tells enough")

    def save(self) -> bytes:
        return np.array([self.left, self.noise]).tobytes()

    def load(self, saved: bytes) -> None:
        self.left, self.noise = np.frombuffer(saved).tolist()


def numbered(count: int, first: int = 0) -> Dataset:
    """Samples that say which one they are."""
    number = np.arange(first, first + count)
    x = np.stack([number // 100, number % 100], axis=1).astype(np.int8)
    return Dataset(x, number % len(NAMES), NAMES)


def search(
    simulator: Callable[[], Any],
    count: int = 100,
    settings: RunSettings | None = None,
    validation: int = 0,
) -> Search:
    judges = numbered(validation, first=5_000) if validation else None
    split = Split(numbered(count), numbered(20, first=10_000), judges)
    samples = Samples.prepare(split, (FIRST_IS_NUMBER,), 1.0, 0, RunSettings())
    return Search(samples, settings or RunSettings(epochs=3), "0123456789abcdef", "", 1, simulator)


def numbers(parts: list[Array]) -> set[int]:
    return {int(a) * 100 + int(b) for part in parts for a, b in part}


@pytest.mark.parametrize("steepness", [3e-4, 1.0, 300.0, 4e4])
def test_the_rate_is_nearly_the_best_of_all(steepness: float) -> None:
    """From far too small to far too large a first guess."""
    few = search(lambda: Hill(steepness), 20)
    found = find_rate(few).rate
    trials = Trials(few)
    assert (trials.first_steps, trials.longer_steps(36, 5)) == (36, 0)
    losses = {rate: trials.outcome(rate, 36).loss for rate in RATES}
    least = min(losses.values())
    assert losses[found] <= 1.02 * least
    assert found <= min(rate for rate, loss in losses.items() if loss == least)


def ending(trials: int) -> Callable[[int, int], None]:
    """Return a report whose time is over after so many trials."""

    def report(done: int, of: int) -> None:
        if done >= trials:
            raise OutOfTime

    return report


@pytest.mark.slow
def test_time_ends_trials_with_what_the_longest_of_all_rates_say(fresh_cache: Path) -> None:
    run = replace(search(lambda: Hill(1.0), 700, RunSettings(epochs=6)), macs=10**6)
    whole = find_rate(run)
    found = [find_rate(run, ending(1))]
    while found[-1].is_cut:
        found.append(find_rate(run, ending(len(found) + 1)))
    assert found[-1] == whole
    assert len(found) > 10
    lengths = [one.steps for one in found]
    longer = fewer_steps(TRIAL_STEPS, Trials(run).whole_steps)
    assert found[0].rate == RATES[FIRST - longer]  # where there is time for one: the usual rate's
    assert lengths == sorted(lengths)
    assert lengths[:6] == [TRIAL_STEPS] * 6  # and these are of a few rates only
    whole_steps = Trials(run).whole_steps
    assert set(lengths) == {min(TRIAL_STEPS * 4**i, whole_steps) for i in range(3)}
    settled = {RATES.index(one.rate) for one in found[6:]}
    assert max(settled) - min(settled) <= 2
    assert run.found(ending(3)).is_cut
    given = replace(run, settings=RunSettings(epochs=6, learning_rate=500.0))
    doubt = "the learning rate 500 may be too large: all is lost"
    assert warning(given, "all is lost", ending(3)) == doubt  # names no rate
    assert run.found() == whole  # nothing that time has cut is kept
    assert run.found(ending(1)) == whole


# ------------------------------------------------------------------------------------ long runs


@pytest.mark.slow
def test_trials_get_as_long_as_the_run_where_that_is_affordable() -> None:
    """A fifth of the run's steps are, or what its multiply-accumulates allow."""
    run = search(lambda: Hill(1.0), 2000, RunSettings(epochs=10))
    longest = [find_rate(replace(run, macs=macs)).steps for macs in (0, 10**7, 10**6)]
    assert longest == [500, 8000, 16000]
    small = replace(run, macs=1)
    assert small.affordable_steps == MOST_STEPS
    assert replace(run, macs=10**7).affordable_steps == AFFORDABLE_MACS // 10**7
    assert run.affordable_steps == run.steps / 5 == 4000


def test_what_is_affordable_is_not_exceeded() -> None:
    made = Hill(1.0)
    run = replace(search(lambda: made, 2000, RunSettings(epochs=10)), macs=2 * 10**7)
    find_rate(run)
    taken = sum(map(len, made.seen + made.held))
    assert run.affordable_steps / 4 < taken <= run.affordable_steps


def test_latents_make_more_steps_affordable_unless_samples_vary() -> None:
    assert step_macs(100, 80, RunSettings()) == 20
    assert step_macs(100, 80, RunSettings(flip=True)) == 100
    assert step_macs(100, 80, RunSettings(flip=True, versions=2)) == 20


class Marathon(Hill):
    """What it learns at a step is noise that only a smaller rate averages out."""

    def train(self, x: Array, labels: Array, rates: list[LearningRate]) -> tuple[Array, Array]:
        values = [rate.value for rate in rates]
        losses, found = super().train(x, labels, rates)
        self.noise = 0.0 if max(values) == 0 else 100 * max(values) ** 2
        return losses, found


@pytest.mark.slow
def test_a_longer_run_finds_a_smaller_rate() -> None:
    def found(epochs: int, macs: int) -> float:
        run = search(lambda: Marathon(1.0), 1000, RunSettings(epochs=epochs, schedule="constant"))
        return find_rate(replace(run, macs=macs)).rate

    assert found(1, 10**6) > found(20, 10**6)
    assert found(20, 0) < found(1, 0)  # too long for trials: by the root of the length


class Turning(Hill):
    """Ends best with one rate after few steps, and with another after many."""

    MANY = 5000

    def __init__(self, few: float = 0.01, many: float = 0.0005) -> None:
        super().__init__(1.0, begin=2.0)
        self.few, self.many = few, many
        self.steps, self.highest, self.taken = 0.0, 0.0, 0

    def train(self, x: Array, labels: Array, rates: list[LearningRate]) -> tuple[Array, Array]:
        values = [rate.value for rate in rates]
        self.taken += len(x)
        self.steps += sum(value > 0 for value in values)
        self.highest = max(self.highest, *values)
        best = self.few if self.steps < self.MANY else self.many
        loss = 1 + abs(np.log10(self.highest / best)) if self.highest else 10.0
        return np.full(len(x), loss * 65536), np.zeros(len(x), np.int32)

    def save(self) -> bytes:
        return np.array([self.steps, self.highest]).tobytes()

    def load(self, saved: bytes) -> None:
        self.steps, self.highest = np.frombuffer(saved).tolist()


@pytest.mark.parametrize(
    ("few", "many"), [(0.01, 0.0005), (0.0005, 0.01), (0.01, RATES[0]), (0.01, RATES[-1])]
)
def test_rates_beyond_those_left_are_tried_where_the_last_one_ends_best(
    few: float, many: float
) -> None:
    run = search(lambda: Turning(few, many), 2000, RunSettings(epochs=5))
    assert find_rate(replace(run, macs=10**6)).rate == many


@pytest.mark.slow
@pytest.mark.parametrize(("few", "many"), [(0.01, 0.0005), (0.0005, 0.01)])
def test_rates_beyond_are_tried_as_far_as_is_affordable(few: float, many: float) -> None:
    found = []
    for budget in (40_000, 50_000, 60_000, 100_000):
        made = Turning(few, many)
        macs = AFFORDABLE_MACS // budget
        run = replace(search(lambda made=made: made, 2000, RunSettings(epochs=5)), macs=macs)
        found.append(find_rate(run).rate)
        assert made.taken <= run.affordable_steps
    assert found == sorted(found, reverse=many < few)
    assert found[0] != found[-1] == many


class Known(Hill):
    """Ends with a loss that its rate has; all others end with 2."""

    def __init__(self) -> None:
        super().__init__(1.0, begin=2.0)
        self.losses = {0.01: 1.0, 0.005: 1.01}

    def train(self, x: Array, labels: Array, rates: list[LearningRate]) -> tuple[Array, Array]:
        highest = max(rate.value for rate in rates)
        if highest > 0:
            near = (loss for rate, loss in self.losses.items() if abs(highest / rate - 1) < 0.01)
            self.left = next(near, 2.0) ** 0.5
        return np.full(len(x), self.left**2 * 65536), np.zeros(len(x), np.int32)


@pytest.mark.parametrize(("epochs", "expected"), [(1, 0.005), (4, 0.005), (25, 0.002)])
def test_a_smaller_rate_that_is_as_good_is_the_caution_for_a_longer_run(
    epochs: int, expected: float
) -> None:
    """The two are one reason: a run of four times the steps takes half the rate, not a quarter."""
    settings = RunSettings(epochs=epochs, schedule="constant", warmup=0)
    assert find_rate(search(Known, 700, settings)).rate == expected


def test_rates_fall_with_the_root_of_the_length() -> None:
    assert [fewer_steps(500, n) for n in (500, 2000, 8000, 50_000, 500_000)] == [0, 1, 2, 3, 4]
    rates = [RATES[20 - fewer_steps(500, n)] for n in (500, 50_000, 5_000_000)]
    assert rates[0] / rates[1] == pytest.approx(10)
    assert rates[0] / rates[2] == pytest.approx(100)


class Knower(Hill):
    """Names the right class of every third sample."""

    def train(self, x: Array, labels: Array, rates: list[LearningRate]) -> tuple[Array, Array]:
        losses, _ = super().train(x, labels, rates)
        number = x[:, 0].astype(int) * 100 + x[:, 1]
        return losses, np.where(number % 3 == 0, labels, labels + 1).astype(np.int32)


def test_the_accuracy_is_that_of_samples_held_out() -> None:
    run = search(lambda: Knower(1.0), 600, RunSettings(epochs=2), validation=300)
    found = find_rate(run)
    assert (found.accuracy, found.judged) == (pytest.approx(1 / 3), 300)
    assert found.steps == 500
    few = search(lambda: Knower(1.0), 50, RunSettings(epochs=2))
    assert find_rate(few).judged == FEW_SAMPLES / 50 * 50 * 0.4


class Master(Hill):
    """Has nothing left to learn."""

    def __init__(self) -> None:
        super().__init__(1.0, begin=0.0)


def test_trials_that_lower_no_loss_are_said() -> None:
    learnt, known = (find_rate(search(made, 20)) for made in (lambda: Hill(1.0), Master))
    assert (learnt.lowers_loss, learnt.doubt) == (True, "")
    assert not known.lowers_loss
    assert "hardly lowered the loss of samples that they had not seen: the model may know " in (
        known.doubt
    )


def test_a_rate_at_the_lower_end_of_what_is_tried_is_said() -> None:
    steep = find_rate(search(lambda: Hill(3e6), 20))
    assert (steep.rate, steep.lowers_loss) == (RATES[0], True)
    assert steep.doubt == "it is the smallest that is tried: a smaller one may do better"
    nothing, little = (FoundRate(rate, lowers_loss=False).doubt for rate in RATES[:2])
    assert "learning rate, the smallest of all, hardly lowered" in nothing
    assert "layers before the trained ones that never learnt" in nothing
    assert little.endswith(
        "hardly lowered the loss of samples that they had not seen: the model "
        "may know such samples already, or there are too few to learn from"
    )


def test_a_rate_that_is_too_large_is_said_where_a_run_ended_badly() -> None:
    def said(rate: float | None, sign: str) -> str:
        run = search(lambda: Hill(1.0), 20, RunSettings(epochs=3, learning_rate=rate))
        return warning(run, sign)

    found = find_rate(search(lambda: Hill(1.0), 20)).rate
    assert said(100 * found, "all is lost") == (
        f"the learning rate {100 * found:g} is too large: all is lost; "
        f"short trials find --lr {found:g}"
    )
    assert said(TOO_LARGE * found, "all is lost")
    assert said(0.99 * TOO_LARGE * found, "all is lost") == ""  # something else is the reason
    assert said(None, "all is lost") == said(100 * found, "") == ""


def test_a_loss_is_bad_above_the_usual_one() -> None:
    assert loss_sign(2.3, 2.3, "guessing") == ""
    sign = "the loss ended at 45.2, above the 2.3 of guessing"
    assert loss_sign(45.23, 2.3026, "guessing") == sign


def test_a_run_is_bad_that_forgot_or_learnt_nothing() -> None:
    fell = "the test accuracy fell from 80.0 to 12.5 %"
    assert bad_sign(9.0, log(10), before=0.8, after=0.125) == fell
    assert bad_sign(1.0, log(10), before=0.8, after=0.125) == fell
    assert (
        bad_sign(9.0, log(10), before=0.1, after=0.1) == loss_sign(9.0, log(10), "guessing") != ""
    )
    assert bad_sign(9.0, log(10), before=None, after=None) == loss_sign(9.0, log(10), "guessing")
    assert bad_sign(2.3, log(10), before=0.1, after=0.1) == ""


@pytest.mark.parametrize("error", [BuildError("no"), CacheError("c", "full"), DataError("no")])
def test_a_run_that_is_over_is_not_lost_where_no_trial_can_be_made(error: Exception) -> None:
    def fails() -> Any:
        raise error

    run = search(fails, 23, RunSettings(epochs=3, learning_rate=500.0))
    assert warning(run, "all is lost") == "the learning rate 500 may be too large: all is lost"


def test_of_rates_that_are_as_good_a_smaller_one_is_taken() -> None:
    assert cautious({3: 9.0, 4: 1.01, 5: 1.005, 6: 1.0, 7: 1.5}, 6) == 4
    assert cautious({3: 1.0, 4: 1.03, 5: 1.005, 6: 1.0}, 6) == 5
    assert cautious({6: 1.0, 7: 1.0}, 6) == 6


def test_only_training_samples_are_looked_at_and_those_held_out_train_nothing() -> None:
    hill = Hill(1.0)
    find_rate(search(lambda: hill))
    trained, held = numbers(hill.seen), numbers(hill.held)
    assert trained | held == set(range(100))  # those of the test begin at 10,000
    once = Hill(1.0)
    part = replace(search(lambda: once, 300), settings=RunSettings(epochs=1))
    find_rate(part)
    assert not numbers(once.seen) & numbers(once.held)
    for label in range(len(NAMES)):
        share = sum(n % len(NAMES) == label for n in numbers(once.held)) / 75
        assert share == pytest.approx(0.4)


def test_a_short_trial_learns_as_many_samples_as_it_has_steps() -> None:
    hill = Hill(1.0)
    find_rate(search(lambda: hill, 2600, RunSettings(epochs=1)))
    assert (len(numbers(hill.seen)), len(numbers(hill.held))) == (500, MOST_HELD_OUT)
    assert not numbers(hill.seen) & numbers(hill.held)
    assert max(len(part) for part in hill.seen) == 64  # so that Ctrl-C need not wait


@pytest.mark.parametrize(("count", "validation"), [(100, 30), (1000, 300), (700, 600), (1, 1)])
def test_a_validation_part_tells_the_loss_and_all_training_samples_train(
    count: int, validation: int
) -> None:
    hill = Hill(1.0)
    find_rate(search(lambda: hill, count, RunSettings(epochs=50), validation))
    trained, held = numbers(hill.seen), numbers(hill.held)
    assert trained <= set(range(count))
    assert held <= set(range(5_000, 5_000 + validation))  # those of the test begin at 10,000
    assert (len(trained), len(held)) == (min(count, 500), min(validation, MOST_HELD_OUT))
    for part in (trained, held):
        assert np.ptp(np.bincount([n % len(NAMES) for n in part], minlength=len(NAMES))) <= 1


def test_a_validation_part_is_made_to_fit_as_the_others() -> None:
    images = [
        Dataset(np.full((4, size, size, 3), size, np.uint8), np.arange(4), NAMES)
        for size in (4, 6, 8)
    ]
    samples = Samples.prepare(Split(*images), (2, 2, 3), 1.0, 0, RunSettings())
    assert samples.split.validation is not None
    assert samples.split.validation.x.tolist() == np.full((4, 2, 2, 3), 8).tolist()


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_very_few_samples_are_enough(count: int) -> None:
    assert find_rate(search(lambda: Hill(1.0), count)).rate in RATES


def test_the_simulator_is_left_as_it_was() -> None:
    hill = Hill(1.0)
    find_rate(search(lambda: hill))
    assert (hill.left, hill.noise) == (1.0, 0.0)


def test_a_rate_is_searched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCUTRAIN_CACHE", str(tmp_path))

    def never() -> Hill:
        raise AssertionError("it was searched before")

    told: list[tuple[int, int]] = []
    found = search(lambda: Hill(1.0)).found(lambda done, of: told.append((done, of)))
    assert all(done < of or done <= 6 for done, of in told)
    assert [done for done, _ in told] == list(range(1, len(told) + 1))
    assert search(never).found() == found
    given = replace(search(never), settings=RunSettings(epochs=3, learning_rate=0.5))
    assert given.found() == found  # a rate that is there already does not matter


DAMAGED = (
    b"",
    b"{",
    b"[]",
    b"\xff\xfe",
    b'{"rate": 0.03, "lowers_loss": true}',
    b'{"rate": "1", "lowers_loss": true}',
    b'{"rate": 1e400, "lowers_loss": true}',
    b'{"rate": 0.01}',
    b'{"rate": 0.01, "lowers_loss": 1}',
    b'{"rate": 0.01, "lowers_loss": true, "steps": "5"}',
    b'{"rate": 0.01, "lowers_loss": true, "taste": 1}',
)


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_file_of_the_cache_is_made_anew(
    damage: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCUTRAIN_CACHE", str(tmp_path))
    found = search(lambda: Hill(1.0)).found()
    (file,) = (tmp_path / "rates").iterdir()
    whole = file.read_bytes()
    cache.write(file, damage)
    assert search(lambda: Hill(1.0)).found() == found
    assert file.read_bytes() == whole


def test_all_that_matters_is_in_the_key() -> None:
    one = search(lambda: Hill(1.0))
    others = [
        search(lambda: Hill(1.0), 99),
        replace(one, model_hash="f"),
        replace(one, start="0"),
        replace(one, accumulate=2),
        replace(one, settings=RunSettings(epochs=4)),
        replace(one, settings=RunSettings(epochs=3, seed=1)),
        replace(one, settings=RunSettings(epochs=3, schedule="constant")),
    ]
    assert len({search.key for search in (one, *others)}) == 1 + len(others)
    judged = [search(lambda: Hill(1.0), validation=count).key for count in (0, 7, 8)]
    assert len(set(judged)) == 3
    tests = Split(one.samples.split.train, numbered(7))
    assert replace(one, samples=replace(one.samples, split=tests)).key == one.key

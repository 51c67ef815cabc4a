"""Schemes against each other in short runs: who goes on, for how long, and when nobody runs."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest

from mcutrain.data import Split, of_arrays
from mcutrain.errors import DataError
from mcutrain.experiments import contest as module
from mcutrain.experiments.contest import Contest, contest
from mcutrain.pipeline import TrainingStep, prepare
from mcutrain.runs.sample_reading import samples_of
from mcutrain.simulation import RunSettings, Search
from mcutrain.simulation.range_test import FIRST, RATES, OutOfTime, TrialOutcome, Trials
from tests.simulation.networks import residual_network
from tests.simulation.networks import samples as drawn_samples

CLASSES = 4
NAMES = ("head", "last:1", "last:2", "full")


@pytest.fixture(scope="module")
def steps() -> dict[str, TrainingStep]:
    graph = residual_network(classes=CLASSES)
    return {name: prepare(graph, name) for name in NAMES}


@pytest.fixture(scope="module")
def split() -> Split:
    x, y = drawn_samples(residual_network(classes=CLASSES), 60, CLASSES, seed=5)
    return of_arrays(((x[:40], y[:40]), (x[40:], y[40:])))


class Judge:
    """Says what trials end with, in the place of running them.

    losses: by length; of each scheme at its best rate, three times as much per step of RATES away.
    best: index of that rate by length.
    """

    def __init__(self, steps: dict[str, TrainingStep]) -> None:
        self.names = {step.project.model_hash: name for name, step in steps.items()}
        self.losses: dict[str, tuple[float, ...]] = {}
        self.best: dict[str, tuple[int, ...]] = {}
        self.lengths = [8, 32, 100]
        self.asked: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))

    def outcome(self, trials: Trials, rate: float | None, steps: int) -> TrialOutcome:
        assert rate is not None
        trials.spent += trials.round_steps(steps, 1)
        name = self.names[trials._search.model_hash]
        round_ = self.lengths.index(steps)
        i = RATES.index(rate)
        self.asked[round_][name].append(i)
        distance = abs(i - self.best[name][round_])
        return TrialOutcome(self.losses[name][round_] * 3.0**distance, 0.0)


@pytest.fixture
def judge(steps: dict[str, TrainingStep], monkeypatch: pytest.MonkeyPatch) -> Judge:
    made = Judge(steps)
    monkeypatch.setattr(Trials, "outcome", lambda trials, rate, n: made.outcome(trials, rate, n))
    monkeypatch.setattr(Trials, "first_steps", made.lengths[0])
    monkeypatch.setattr(Trials, "whole_steps", made.lengths[-1])
    return made


def test_the_better_half_goes_on_at_lower_rates_and_the_last_round_decides(
    steps: dict[str, TrainingStep], split: Split, judge: Judge
) -> None:
    judge.losses = {
        "head": (1.0, 0.9, 0.1),
        "last:1": (0.5, 0.3, 0.2),
        "last:2": (0.9, 0.2, 0.1),
        "full": (0.8, 0.4, 0.3),
    }
    judge.best = dict.fromkeys(NAMES, (FIRST - 2, FIRST - 3, FIRST - 4))
    told: list[tuple[int, int]] = []
    found = contest(steps, split, report=lambda done, of: told.append((done, of)))
    assert found == Contest("last:1", 100)  # last:2 was third of four after the first round
    assert set(judge.asked[0]) == set(NAMES)
    assert set(judge.asked[1]) == set(judge.asked[2]) == {"last:1", "full"}
    assert all(FIRST - 2 in tried for tried in judge.asked[0].values())
    first = [FIRST - 2, FIRST - 3, FIRST - 4]
    assert judge.asked[1]["full"] == first
    assert judge.asked[2]["full"] == [i - 1 for i in first]
    assert told == sorted(told)
    assert {done for done, _ in told} == set(range(8))
    assert {of for _, of in told} == {8}


@pytest.mark.slow
def test_time_ends_it_with_what_rounds_before_have_found(
    steps: dict[str, TrainingStep], split: Split, judge: Judge
) -> None:
    judge.losses = {"head": (1.0, 9, 9), "last:1": (0.9, 9, 9)}
    judge.losses |= {"last:2": (0.8, 0.2, 0.3), "full": (0.5, 0.6, 0.1)}
    judge.best = dict.fromkeys(NAMES, (FIRST, FIRST, FIRST))
    found = []
    while not found or found[-1].is_cut:
        left = len(found)

        def told(done: int, of: int) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise OutOfTime

        found.append(contest(steps, split, report=told))
    ends = list(dict.fromkeys((one.best, one.steps) for one in found[:-1]))
    assert ends == [("head", 0), ("last:1", 0), ("last:2", 0), ("full", 8), ("last:2", 32)]
    assert found[-1] == Contest("full", 100)
    judge.asked.clear()
    assert contest(steps, split) == found[-1]
    trials = sum(len(i) for asked in judge.asked.values() for i in asked.values())
    assert len(found) == 1 + len(NAMES) + trials  # it is asked after each compilation, too


def test_of_equal_ones_the_last_is_taken(
    steps: dict[str, TrainingStep], split: Split, judge: Judge
) -> None:
    judge.losses = dict.fromkeys(NAMES, (0.5, 0.5, 0.5))
    judge.best = dict.fromkeys(NAMES, (FIRST, FIRST, FIRST))
    assert contest(steps, split) == Contest("full", 100)
    assert set(judge.asked[1]) == {"last:2", "full"}


def test_its_runs_may_be_as_long_as_the_run_that_it_is_for(
    steps: dict[str, TrainingStep], split: Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths = []

    def begun(search: Search) -> Trials:
        lengths.append(Trials(search).whole_steps)
        raise DataError("enough")

    monkeypatch.setattr(module, "Trials", begun)
    for more in ({}, {"epochs": 4}, {"epochs": 12}):
        with pytest.raises(DataError, match="enough"):
            contest(steps, split, **more)
    assert lengths[1:] == [lengths[0], 3 * lengths[0]]


def test_no_rate_below_the_least_is_tried(
    steps: dict[str, TrainingStep], split: Split, judge: Judge
) -> None:
    judge.losses = dict.fromkeys(NAMES, (0.5, 0.5, 0.5))
    judge.best = dict.fromkeys(NAMES, (0, 0, 0))
    assert contest(steps, split) == Contest("full", 100)
    assert set(judge.asked[1]["full"]) == {0, 1}


def test_what_takes_too_long_is_not_begun_or_ends_after_two_rounds(
    steps: dict[str, TrainingStep], split: Split, judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge.losses = dict.fromkeys(NAMES, (0.5, 0.5, 0.5))
    judge.best = dict.fromkeys(NAMES, (FIRST, FIRST, FIRST))
    macs = {name: step.plan.training.forward.macs() for name, step in steps.items()}
    held = 16  # of 40, which judge in each of four repeats
    repeats = 4
    front = {}
    settings = RunSettings()
    for name, step in steps.items():
        samples = samples_of(step, split, settings)
        front[name] = module._search(step, split, samples, settings).macs
        assert 0 < front[name] <= macs[name]
    steps_of_one = sum(front.values()) * repeats * (8 + held)
    first, really = module.USUAL_TRIALS * steps_of_one, 3 * steps_of_one
    dear = sum(sorted(front.values())[-2:]) * len(module.LOWER) * repeats
    least = first + dear * (32 + held)
    monkeypatch.setattr(module, "AFFORDABLE_MACS", least - 1)
    assert contest(steps, split) is None
    assert not judge.asked
    whole = dear * (32 + held) + dear * (100 + held)
    monkeypatch.setattr(module, "AFFORDABLE_MACS", max(least, really + whole - 1))
    assert contest(steps, split) == Contest("full", 32)
    judge.asked.clear()
    monkeypatch.setattr(module, "AFFORDABLE_MACS", really + whole)
    judge.best = dict.fromkeys(NAMES, (FIRST, FIRST - 1, FIRST - 2))
    assert contest(steps, split) == Contest("full", 100)
    judge.best = dict.fromkeys(NAMES, (FIRST, FIRST - 1, FIRST + 3))
    assert contest(steps, split) == Contest("full", 100)
    assert max(judge.asked[2]["full"]) == FIRST - 1  # higher ones are not affordable


def test_where_the_highest_rate_that_is_left_ends_best_higher_ones_follow(
    steps: dict[str, TrainingStep], split: Split, judge: Judge
) -> None:
    judge.losses = {"head": (1, 1, 1), "last:1": (9, 9, 9), "last:2": (0.8, 0.3, 0.2)}
    judge.losses["full"] = (0.8, 0.4, 0.1)
    judge.best = dict.fromkeys(NAMES, (FIRST, FIRST - 1, FIRST - 1))
    judge.best["full"] = (FIRST, FIRST, FIRST + 3)  # else 27 times the loss
    assert contest(steps, split) == Contest("full", 100)
    assert max(judge.asked[2]["full"]) == FIRST + 4


def test_samples_of_one_class_say_nothing(steps: dict[str, TrainingStep], split: Split) -> None:
    one = replace(split, train=replace(split.train, y=np.zeros_like(split.train.y)))
    assert contest(steps, one) is None


def test_the_same_samples_end_the_same_way_whatever_the_test_samples_are(
    steps: dict[str, TrainingStep], split: Split
) -> None:
    found = contest(steps, split)
    assert found is not None
    other = replace(split, test=replace(split.test, y=np.roll(split.test.y, 1)))
    assert contest(steps, other) == found

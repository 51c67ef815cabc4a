"""Many runs at once: how far they are, which rate each gets, which checkpoints and samples stay."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import joblib.externals.loky
import numpy as np
import pytest

from mcutrain.data import Dataset, Split
from mcutrain.demo import MODEL
from mcutrain.experiments import parallel
from mcutrain.experiments.parallel import KEPT_SECONDS, Lesson, Standing, Trial, train_all
from mcutrain.pipeline import StepOptions
from mcutrain.simulation import RunSettings
from mcutrain.sparse import parse_scheme
from tests.in_process import Here

SCHEMES = tuple(map(parse_scheme, ("head", "bias:2")))


def dataset(count: int, first: int = 0) -> Dataset:
    x = np.arange(first, first + count, dtype=np.int8).reshape(count, 1, 1, 1)
    return Dataset(x, np.arange(count) % 2, ("no", "yes"))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setattr(parallel, "cache_folder", lambda: tmp_path / "cache")
    (tmp_path / "cache" / "runs").mkdir(parents=True)
    return tmp_path / "cache" / "runs"


@pytest.mark.parametrize("replay", [0, 2])
def test_a_scheme_is_trained_at_the_rate_of_its_first_trial(
    monkeypatch: pytest.MonkeyPatch, replay: int
) -> None:
    """And all steps are counted, those of replayed samples, too."""
    asked: list[int] = []
    monkeypatch.setattr(joblib.externals.loky, "ProcessPoolExecutor", Here)
    monkeypatch.setattr(parallel, "_find_rate", lambda o: asked.append(o.seed) or o.seed / 100)
    monkeypatch.setattr(parallel, "_work", lambda order: order)
    lesson = Lesson(
        MODEL,
        SCHEMES,
        StepOptions(),
        Split(dataset(6), dataset(2)),
        RunSettings(epochs=3, replay=replay),
    )
    trials = [Trial(0, 5), Trial(1, 7), Trial(0, 6), Trial(1, 8)]
    standings: list[Standing] = []
    found: list[Any] = train_all(lesson, trials, 1, standings.append)
    assert sorted(asked) == [5, 7]
    rates = [order.settings.learning_rate for order in found]
    assert rates == [0.05, 0.07, 0.05, 0.07]
    assert [(order.scheme["name"], order.seed) for order in found] == [
        (SCHEMES[trial.scheme].name, trial.seed) for trial in trials
    ]
    assert {standing.total for standing in standings} == {4 * 3 * 6 * (1 + replay)}
    assert [trial for s in standings for trial, _ in s.finished] == trials


def test_the_steps_of_all_runs_are_added_up(tmp_path: Path) -> None:
    """A run that has not begun, or writes right now, has none so far."""
    assert parallel._steps(tmp_path, 4) == 0
    for run, text in enumerate(("12", "", "30")):
        (tmp_path / f"steps-{run}").write_text(text)
    assert parallel._steps(tmp_path, 4) == 42


def test_only_checkpoints_that_nobody_has_continued_for_long_are_forgotten(cache: Path) -> None:
    now = time.time()
    ages = {"old": KEPT_SECONDS + 60, "young": KEPT_SECONDS - 60, "new": 0}
    for name, age in ages.items():
        path = cache / f"{name}.npz"
        path.write_bytes(b"")
        os.utime(path, (now - age, now - age))
    parallel._forget_old()
    assert sorted(path.stem for path in cache.iterdir()) == ["new", "young"]


@pytest.mark.parametrize("validation", [None, dataset(2, 20)])
def test_processes_see_every_part_of_the_data(tmp_path: Path, validation: Dataset | None) -> None:
    whole = Split(dataset(6), dataset(4, 10), validation)
    parallel._save(whole, tmp_path)
    found = parallel._split(tmp_path)
    parts = zip(
        (whole.train, whole.test, whole.validation),
        (found.train, found.test, found.validation),
        strict=True,
    )
    for part, other in parts:
        assert (part is None) == (other is None)
        if part is not None and other is not None:
            np.testing.assert_array_equal(part.x, other.x)
            np.testing.assert_array_equal(part.y, other.y)
            assert part.names == other.names


def test_a_way_of_training_is_of_its_scheme_alone() -> None:
    settings = RunSettings(epochs=1)
    lesson = Lesson(MODEL, SCHEMES, StepOptions(), Split(dataset(6), dataset(2)), settings)
    lesson = replace(
        lesson,
        ways={
            0: parallel.SchemeWay(elastic=parallel.Elastic(0.5, 40)),
            1: parallel.SchemeWay(resampling=parallel.Resampling("drawn", 30)),
        },
    )
    assert lesson.settings_of(0) == replace(settings, elastic=0.5, every=40)
    assert lesson.settings_of(1) == replace(settings, swap="drawn", every=30)
    assert lesson.settings_of(2) == settings

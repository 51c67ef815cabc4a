"""--ways, --shots: few-shot episodes, the same by all ways to compute."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import mcutrain
from mcutrain.data import Episodes, Split, episode
from mcutrain.errors import ArgumentError
from mcutrain.experiments.parallel import Lesson, Trial, train_all
from mcutrain.experiments.rows import PlannedRow
from mcutrain.functions.simulating import learn_all
from mcutrain.pipeline import StepOptions, load
from mcutrain.report.learning import interval_of
from mcutrain.runs.sample_reading import load_data
from mcutrain.simulation import RunSettings
from mcutrain.sparse import parse_scheme
from tests.cli.conftest import Run

LEARNING = ("--epochs", 2, "--lr", "0.03", "--test-samples", 30)
FEW = (*LEARNING, "--ways", 3, "--shots", 4, "--episodes", 2)
SCHEME = ("--scheme", "last:2")


@pytest.mark.slow
def test_all_ways_to_compute_learn_the_same_episodes(run: Run, model: Path, images: Path) -> None:
    def facts(*way: object) -> Any:
        return run("simulate", model, "--data", images, *FEW, *SCHEME, *way, "--json").json

    found = facts()
    assert (found["ways"], found["shots"]) == (3, 4)
    for way in (("--reference",), ("--portable", "--latent", "off")):
        others = facts(*way)
        for one, other in zip(found["episodes"], others["episodes"], strict=True):
            assert one["state_sha256"] == other["state_sha256"], way
            assert one["accuracy"] == other["accuracy"], way
    whole = load_data(load(model), images, test_samples=30)
    for seed, one in enumerate(found["episodes"]):
        drawn = episode(whole, 3, 4, seed)
        assert one["class_names"] == list(drawn.names)
        counts = (one["classes"], one["training_samples"], one["test_samples"])
        assert counts == (3, 12, len(drawn.test))
        result = mcutrain.simulate(
            model, drawn, "last:2", classes=3, epochs=2, learning_rate=0.03, seed=seed
        )
        assert one["state_sha256"] == result.to_dict()["state_sha256"]
    accuracies = [one["accuracy"] for one in found["episodes"]]
    assert found["accuracy"] == sum(accuracies) / 2
    assert found["interval"] == interval_of(accuracies)
    assert len({one["state_sha256"] for one in found["episodes"]}) == 2
    learning: dict[str, Any] = {"epochs": 2, "learning_rate": 0.03, "test_samples": 30}
    few: dict[str, Any] = {"ways": 3, "shots": 4, "episodes": 2}
    told = mcutrain.simulate_episodes(model, images, "last:2", **few, **learning).to_dict()
    states = [one.pop("state_sha256") for one in told.pop("episodes")]
    assert states == [one["state_sha256"] for one in found["episodes"]]
    assert told == {name: value for name, value in found.items() if name != "episodes"}
    with pytest.raises(ArgumentError, match="ways and shots say what an episode is"):
        mcutrain.simulate_episodes(model, images, "last:2", **learning)


def test_what_they_reached_is_told(run: Run, model: Path, images: Path) -> None:
    outcome = run("simulate", model, "--data", images, *FEW, *SCHEME, "--seed", 7)
    lines = outcome.out.splitlines()
    assert [line[:9] for line in lines] == [
        *("episode 7", "episode 8", "test accu", "SRAM     ", "used     "),
    ]
    drawn = episode(load_data(load(model), images, seed=7, test_samples=30), 3, 4, 7)
    assert lines[0].endswith(" after: " + ", ".join(drawn.names))
    assert " %, the mean of 2 episodes and its 95 % confidence interval" in lines[2]


@pytest.mark.slow
def test_a_comparison_has_the_same_episodes(
    run: Run, model: Path, images: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in ("experiments.planner", "functions.comparing"):
        monkeypatch.setattr(
            f"mcutrain.{place}.usual", lambda *_: [PlannedRow("mine", parse_scheme("last:2"))]
        )
    flags = ("--data", images, *FEW)
    simulated = run("simulate", model, *flags, *SCHEME, "--json").json
    outcome = run("compare", model, *flags, "--jobs", 1, "--elastic", 0.95, "--every", 6)
    assert "Accuracy: the mean of the episodes, and its 95 % confidence interval" in outcome.out
    assert "elastic 0.95 of mine episode 1: " in outcome.err
    called = mcutrain.compare(
        model,
        images,
        ways=3,
        shots=4,
        episodes=2,
        epochs=2,
        learning_rate=0.03,
        test_samples=30,
        jobs=1,
    )
    (row,) = called.rows
    assert list(row.accuracies) == [one["accuracy"] for one in simulated["episodes"]]
    assert (row.ways, row.shots, row.interval) == (3, 4, simulated["interval"])
    printed = run("compare", model, *flags, "--jobs", 1, "--json").json
    assert printed["rows"][0]["accuracies"] == list(row.accuracies)
    assert printed["rows"][0]["interval"] == row.interval
    assert (printed["seeds"], printed["episodes"]) == (None, {"ways": 3, "shots": 4, "count": 2})
    split = load_data(load(model), images, test_samples=30)
    settings = RunSettings(epochs=2, learning_rate=0.03)
    options, episodes = StepOptions(classes=3), Episodes(3, 4)
    lesson = Lesson(model, (parse_scheme("last:2"),), options, split, settings, episodes=episodes)
    (result,) = train_all(lesson, [Trial(0, 1)], 1)
    expected = simulated["episodes"][1]["state_sha256"]
    assert result.to_dict()["state_sha256"] == expected
    with pytest.raises(ArgumentError, match="episodes take the place of seeds"):
        mcutrain.compare(model, images, ways=3, shots=4, seeds=2)


def test_one_episode_can_be_interrupted_and_kept(
    run: Run, model: Path, images: Path, tmp_path: Path
) -> None:
    flags = ("simulate", model, "--data", images, *LEARNING, "--ways", 2, "--shots", 2)
    kept = ("--episodes", 1, "--checkpoint", "run.npz", "--save-state", "state.bin", "--json")
    found = run(*flags, *kept).json
    assert found["interval"] is None
    assert found["accuracy"] == found["episodes"][0]["accuracy"]
    assert (tmp_path / "state.bin").stat().st_size > 0
    again = run(*flags, *kept).json
    assert again["episodes"][0]["state_sha256"] == found["episodes"][0]["state_sha256"]
    assert "belongs to another" in run(*flags, *kept, "--seed", 1).sentence


def test_the_rate_of_the_first_episode_is_that_of_all(model: Path, images: Path) -> None:
    whole = load_data(load(model), images, test_samples=30)
    asked: list[tuple[int, float | None, tuple[str, ...]]] = []

    def learn(split: Split, settings: RunSettings) -> Any:
        asked.append((settings.seed, settings.learning_rate, split.names))
        found = replace(settings, learning_rate=settings.learning_rate or 0.5)
        return SimpleNamespace(run=SimpleNamespace(settings=found))

    learn_all(Episodes(3, 2, 3), whole, RunSettings(seed=4), learn)
    names = [episode(whole, 3, 2, seed).names for seed in (4, 5, 6)]
    assert asked == [(4, None, names[0]), (5, 0.5, names[1]), (6, 0.5, names[2])]


BOTH = [
    (("--ways", 1), "ways = 1: an episode tells classes apart, give 2 or more"),
    (("--ways", 11), "of 11 classes is asked for, but the data has 10: give 2 to 10"),
    (("--shots", 0), "shots = 0: an episode learns, give 1 sample or more"),
    (("--shots", 99999), "takes 99999 training samples of each class, but there are fewer of 'T-"),
    (("--classes", 3), "has an output for each of its 3 classes: leave out classes (3)"),
    (("--classes", "keep"), "leave out classes (keep)"),
    (("--episodes", 0), "0 episodes: give 1 to 1,000"),
    (("--test-samples", 3), "which episodes may be of: give more test samples"),
]
SIMULATED = [
    (("--checkpoint", "a"), "--checkpoint is for one run, but these are 2 episodes: leave it out"),
    (("--save-state", "a"), "--save-state is for one run"),
    (("--log", "a"), "--log is for one run"),
    (("--tensorboard", "a"), "--tensorboard is for one run"),
    (("--after", "a", "--episodes", 1), "--after goes on with a run's classifier"),
    (("--add-class", "owl"), "--add-class keeps the model's classifier"),
    (("--loss", "mse"), "which --loss mse does not: leave it out"),
]


@pytest.mark.parametrize(
    ("command", "flags", "says"),
    [
        *(("simulate", *case) for case in (*BOTH, *SIMULATED)),
        *(("compare", *case) for case in BOTH),
        ("compare", ("--seeds", 2), "episodes take the place of seeds: leave these out"),
    ],
)
def test_what_cannot_be_is_a_sentence(
    run: Run,
    model: Path,
    images: Path,
    command: str,
    flags: tuple[object, ...],
    says: str,
    tmp_path: Path,
) -> None:
    if "--tensorboard" in flags:
        pytest.importorskip("tensorboard")
    assert says in run(command, model, "--data", images, *FEW, *flags).sentence
    assert not list(tmp_path.iterdir())


def test_half_of_an_episode_and_data_without_labels_are_sentences(
    run: Run, model: Path, images: Path, tmp_path: Path
) -> None:
    for given in (("--ways", 3), ("--shots", 3), ("--episodes", 3)):
        sentence = run("simulate", model, "--data", images, *LEARNING, *given).sentence
        assert "give both, such as 5 and 5" in sentence
    with np.load(images) as file:
        np.savez(tmp_path / "bare.npz", x=file["x_test"][:40])
    few = ("--ways", 2, "--shots", 1)
    assert "no labels" in run("simulate", model, "--data", "bare.npz", *few).sentence

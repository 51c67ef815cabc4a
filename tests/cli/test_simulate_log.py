"""`simulate` logs as `train` does and tests as often as it is told to; neither changes a bit."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mcutrain.demo import IMAGES, MODEL
from mcutrain.errors import DataError
from mcutrain.functions.models import inputs_of
from mcutrain.pipeline import prepare
from mcutrain.report.board_log import read_log
from mcutrain.runs import log as logs
from mcutrain.runs import training
from mcutrain.runs.sample_reading import load_data
from mcutrain.simulation import Run as TrainingRun
from mcutrain.simulation import RunSettings
from tests.cli.conftest import Run

COUNT, EPOCHS = 40, 3
SETTINGS = RunSettings(EPOCHS, 0.03)
FEW = ("--data", IMAGES, "--samples", COUNT, "--test-samples", 10, "--epochs", EPOCHS, "--lr", 0.03)
COMMAND = ("simulate", MODEL, "--scheme", "head", *FEW, "--json")


@pytest.fixture(scope="module")
def split() -> Any:
    whole = load_data(prepare(MODEL).graph, IMAGES)
    return replace(whole, train=whole.train.subset(COUNT), test=whole.test.subset(10))


def events(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize(("every", "tested"), [(2, [2, 3]), (0, [3])])
def test_tests_come_as_often_as_told_and_change_no_bit(
    run: Run, every: int, tested: list[int]
) -> None:
    usual = run(*COMMAND).json
    found = run(*COMMAND, "--test-every", every).json
    assert found["state_sha256"] == usual["state_sha256"]
    assert found["accuracy"] == usual["accuracy"]
    assert [e["epoch"] for e in usual["epochs"] if "test_accuracy" in e] == [1, 2, 3]
    assert [e["epoch"] for e in found["epochs"] if "test_accuracy" in e] == tested
    assert [e["train_accuracy"] for e in found["epochs"]] == [
        e["train_accuracy"] for e in usual["epochs"]
    ]


def test_an_epoch_without_test_is_told_without_one(run: Run) -> None:
    lines = run(*COMMAND[:-1], "--test-every", 0).err.splitlines()
    first, _, last = (line for line in lines if " epoch " in line and "loss" in line)
    assert "training" in first
    assert "test" not in first
    assert "test" in last


def test_a_checkpoint_goes_on_with_fewer_or_more_tests(split: Any, tmp_path: Path) -> None:
    step = prepare(MODEL)
    runs = {every: new_run(step, split, every) for every in (1, 0, 2)}
    assert len({run.course.digest for run in runs.values()}) == 1
    expected = runs[1].train()
    stop_after(runs[0], COUNT + 8, tmp_path / "run.npz")
    runs[2].resume(tmp_path / "run.npz")
    found = runs[2].train()
    assert found.saved == expected.saved
    assert [e.test_accuracy is not None for e in found.epochs] == [False, True, True]
    other = new_run(step, split, 2, seed=1)
    assert other.course.digest != runs[1].course.digest
    with pytest.raises(DataError, match="test_every = -1"):
        new_run(step, split, -1)


def new_run(step: Any, split: Any, every: int, seed: int = 0) -> TrainingRun:
    return training.prepare_run(step, split, replace(SETTINGS, test_every=every, seed=seed))


class Stopped(Exception):  # noqa: N818  # as Ctrl-C
    """For a test that must not end with Ctrl-C's own exception."""


def stop_after(run: TrainingRun, steps: int, checkpoint: Path) -> None:
    run.chunk = 8

    def stop(progress: Any) -> None:
        if progress.trained >= steps:
            raise Stopped

    with pytest.raises(Stopped):
        run.train(stop)
    run.save(checkpoint)


def test_every_step_and_test_is_a_line(run: Run, tmp_path: Path) -> None:
    expected = run(*COMMAND).json
    found = run(*COMMAND, "--log", "run.jsonl", "--tensorboard", "events").json
    assert found["state_sha256"] == expected["state_sha256"]
    lines = events(tmp_path / "run.jsonl")
    assert (lines[0]["event"], lines[-1]["event"]) == ("connected", "finished")
    assert (lines[0]["board"], lines[0]["total"]) == ("this computer", COUNT * EPOCHS)
    assert lines[0]["settings"]["test_every"] == 1
    steps = [line for line in lines if line["event"] == "step"]
    assert [line["position"] for line in steps] == list(range(1, COUNT * EPOCHS + 1))
    for epoch, result in enumerate(expected["epochs"]):
        part = steps[epoch * COUNT : (epoch + 1) * COUNT]
        assert sum(line["loss_q16"] for line in part) / 65536 / COUNT == result["loss"]
        assert sum(line["is_right"] for line in part) / COUNT == result["train_accuracy"]
    assert all(line["is_right"] == (line["label"] == line["prediction"]) for line in steps)
    tests = [(line["position"], line["accuracy"]) for line in lines if line["event"] == "evaluated"]
    of_epochs = [(e["epoch"] * COUNT, e["test_accuracy"]) for e in expected["epochs"]]
    assert tests == [(0, expected["accuracy_before"]), *of_epochs]
    assert lines[-1]["steps"] == COUNT * EPOCHS
    order = [line["position"] for line in lines]
    assert order == sorted(order)
    curve = read_log(tmp_path / "run.jsonl")  # as `mcutrain report` does
    assert curve is not None
    assert curve.name == "on this computer"
    (file,) = (tmp_path / "events").iterdir()
    assert all(tag in file.read_bytes() for tag in (b"training/loss", b"test/accuracy"))


def test_an_interrupted_run_goes_on_in_its_log(split: Any, tmp_path: Path) -> None:
    step, log = prepare(MODEL), tmp_path / "run.jsonl"
    first, second = new_run(step, split, 1), new_run(step, split, 1)
    first.chunk = 8

    def interrupted() -> None:
        with logs.logged(step, first, log, None) as watch:
            first.train(lambda p: stop(p, watch))

    def stop(progress: Any, watch: Any) -> None:
        watch.training(progress)
        if progress.trained == COUNT:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    first.save(tmp_path / "run.npz")
    second.resume(tmp_path / "run.npz")
    with logs.logged(step, second, log, None) as watch:
        second.train(watch.training)
    lines = events(log)
    ends = [(line["event"], line["position"]) for line in lines if "steps" in line]
    assert ends == [("interrupted", COUNT), ("finished", COUNT * EPOCHS)]
    steps = [line["position"] for line in lines if line["event"] == "step"]
    assert steps == list(range(1, COUNT * EPOCHS + 1))
    tests = [line["position"] for line in lines if line["event"] == "evaluated"]
    assert tests == [0, COUNT, 2 * COUNT, 3 * COUNT]


def test_a_log_that_cannot_be_written_is_found_before_the_data_is_read(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("simulate", MODEL, "--data", "nowhere")
    assert "cannot write" in run(*command, "--log", "no/such/folder/x.jsonl").sentence
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    assert "mcutrain[tensorboard]" in run(*command, "--tensorboard", "events").sentence


def test_verify_compares_on_real_samples(run: Run) -> None:
    pytest.importorskip("ai_edge_litert")
    flags = ("--data", IMAGES, "--samples", 12, "--reference-samples", 2)
    facts = run("verify", MODEL, *flags, "--json").json
    assert facts["is_right"]
    assert facts["data"] == str(IMAGES)
    assert [c["samples"] for c in facts["comparisons"]] == [2, 12, 12]
    drawn = run("verify", MODEL, *flags[2:], "--json").json
    assert drawn["data"] is None


def test_verify_takes_the_inputs_that_training_would_take() -> None:
    import numpy as np

    step = prepare(MODEL)
    whole = load_data(step.graph, IMAGES)
    by_class = whole.test.take(np.argsort(whole.test.y, kind="stable"))
    split = replace(whole, test=by_class)
    for seed in (0, 1):
        x = inputs_of(step.graph, split, None, 50, seed)
        test = by_class.drawn(50, seed)
        made = training.prepare_run(step, replace(whole, test=test), SETTINGS).samples
        expected = [one.tobytes() for one in made.test(0, 50)]
        assert sorted(one.tobytes() for one in x) == sorted(expected)
        labels = dict(zip(expected, test.y.tolist(), strict=True))
        assert len({labels[one.tobytes()] for one in x[:20]}) > 5  # those that numpy computes
    assert len(inputs_of(step.graph, split, None, 10**6, 0)) == len(by_class)

"""What is said where the head alone does better than the scheme that is trained."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from mcutrain import data, prepare
from mcutrain.ir.graph import Graph
from mcutrain.pipeline import StepOptions, TrainingStep
from mcutrain.pipeline import prepare as prepare_step
from mcutrain.runs import head_alone
from mcutrain.runs.head_alone import head_alone_warning
from mcutrain.runs.training import fastest_simulator, prepare_run
from mcutrain.simulation import FoundRate, Run, RunSettings
from mcutrain.simulation.range_test import Trials
from mcutrain.sparse import UpdateScheme, parse_scheme
from tests.simulation.networks import residual_network, samples

CLASSES = 3


pytestmark = pytest.mark.usefixtures("fresh_cache")


def prepared(
    scheme: str | UpdateScheme, **options: object
) -> tuple[TrainingStep, data.Split, Run, FoundRate]:
    """A run that has not begun; the classes are the signs of the samples' means."""
    graph = residual_network()
    x, _ = samples(graph, 80, CLASSES, seed=3)
    order = x.reshape(len(x), -1).mean(axis=1).argsort().argsort()
    y = (order * CLASSES // len(x)).astype(np.int64)
    names = tuple("abc") + tuple(options.get("added", ()))  # type: ignore[arg-type]
    split = data.Split(data.Dataset(x[:60], y[:60], names), data.Dataset(x[60:], y[60:], names))
    classes = None if options else CLASSES
    step = prepare(graph, scheme, classes=classes, **options)  # type: ignore[arg-type]
    settings = RunSettings(epochs=2, learning_rate=None)
    rates: list[FoundRate] = []
    run = prepare_run(
        step,
        split,
        settings,
        simulator=lambda: fastest_simulator(step, split, settings),
        found=rates.append,
    )
    return step, split, run, rates[0]


def test_a_scheme_that_is_worse_than_its_head_is_said() -> None:
    step, split, run, found = prepared("last:2")
    nothing = replace(found, accuracy=0.0, loss=math.inf)
    said = head_alone_warning(step, split, run, nothing)
    start = f"in trials of {found.steps:,} steps the head alone named "
    assert said.startswith(start)
    assert said.endswith(
        f" % of {found.judged:,} samples that were held out, the scheme last:2 0.0 %: take "
        "--scheme head, which needs less memory, or give the scheme more samples or epochs"
    )
    alone = float(said.removeprefix(start).split()[0]) / 100
    assert (
        head_alone_warning(step, split, run, replace(found, accuracy=alone + 0.001, loss=math.inf))
        == ""
    )
    assert head_alone_warning(step, split, run, replace(nothing, accuracy=alone - 0.001)) == (
        said.replace(" 0.0 %", f" {100 * (alone - 0.001):.1f} %")
    )


def test_a_head_that_ends_with_more_loss_is_no_better() -> None:
    """Schemes are chosen by loss: of few samples some more that are named are chance."""
    step, split, run, found = prepared("last:2")
    search = head_alone._search(prepared("head")[0], split, run)
    least = head_alone._tried(Trials(search), found, lambda *_: None).loss
    assert found.loss > 0
    for loss, is_said in ((least * 1.001, True), (least, False), (least / 2, False)):
        said = head_alone_warning(step, split, run, replace(found, accuracy=0.0, loss=loss))
        assert bool(said) is is_said


def test_the_head_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    step, split, run, found = prepared("full")
    worse = replace(found, accuracy=0.0, loss=math.inf)
    told: list[tuple[int, int]] = []
    said = head_alone_warning(step, split, run, worse, lambda *counts: told.append(counts))
    assert told == [(i, 3) for i in range(4)]

    def never(*_: object) -> float:
        raise AssertionError("it was tried before")

    monkeypatch.setattr(head_alone, "_tried", never)
    assert head_alone_warning(step, split, run, worse) == said != ""


def test_the_head_learns_by_the_rule_of_the_scheme(monkeypatch: pytest.MonkeyPatch) -> None:
    by_momentum = replace(parse_scheme("last:2"), update_rule="momentum")
    step, split, run, found = prepared(by_momentum)
    tried: list[str] = []

    def keep(graph: Graph, scheme: UpdateScheme, options: StepOptions) -> TrainingStep:
        tried.append(scheme.update_rule)
        return prepare_step(graph, scheme, options)

    monkeypatch.setattr(head_alone, "prepare", keep)
    assert head_alone_warning(step, split, run, replace(found, accuracy=0.0, loss=math.inf))
    assert tried == ["momentum"]


def test_the_run_goes_on_as_if_nothing_had_been_compared() -> None:
    step, split, run, found = prepared("last:2")
    expected = run.train().saved
    step, split, run, found = prepared("last:2")
    head_alone_warning(step, split, run, replace(found, accuracy=0.0, loss=math.inf))
    assert run.train().saved == expected


@pytest.mark.parametrize(("scheme", "options"), [("head", {}), ("last:2", {"added": ["d"]})])
def test_what_is_no_other_step_is_not_compared(scheme: str, options: dict[str, object]) -> None:
    """A head is itself; with classes that are added there is no trial that shows what is lost."""
    step, split, run, found = prepared(scheme, **options)
    assert head_alone_warning(step, split, run, replace(found, accuracy=0.0, loss=math.inf)) == ""


def test_a_rate_that_no_trial_found_is_not_compared() -> None:
    step, split, run, _ = prepared("last:2")
    assert head_alone_warning(step, split, run, FoundRate(0.01, True, is_blind=True)) == ""

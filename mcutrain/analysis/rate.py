"""The learning rate of an analysis, where none is given: one for all candidates."""

from __future__ import annotations

from collections.abc import Callable

from mcutrain import data
from mcutrain.analysis.problem import Problem
from mcutrain.pipeline import prepare
from mcutrain.runs.sample_reading import input_type
from mcutrain.runs.training import fastest_simulator, prepare_run
from mcutrain.simulation import FoundRate, RunSettings


def found_rate(
    problem: Problem,
    epochs: int,
    seed: int,
    report: Callable[[int, int], None] = lambda done, of: None,
) -> FoundRate:
    """The rate of the last half of the layers: it trains more than most candidates, less than all.

    Of the samples that the analysis trains on; those that it tests on are not looked at.
    """
    scheme = f"last:{max(len(problem.layers) // 2, 1)}" if problem.layers else "head"
    step = prepare(problem.model, scheme, problem.options, head_seed=seed)
    names = tuple(map(str, range(problem.outputs)))
    shape = (-1, *input_type(problem.model).shape[1:])
    train, test = (
        data.Dataset(x.reshape(shape), y, names)
        for x, y in ((problem.train_x, problem.train_y), (problem.test_x, problem.test_y))
    )
    settings = RunSettings(epochs, seed=seed)
    found: list[FoundRate] = []
    split = data.Split(train, test)
    prepare_run(
        step,
        split,
        settings,
        simulator=lambda: fastest_simulator(step, split, settings),
        report=report,
        found=found.append,
    )
    return found[0]

"""How far one update may move a weight or a bias: what a limit costs, and what it saves.

    .venv/bin/python benchmarks/update_limit.py --seeds 3

The demo's task: its network learns from a sensor that turns and dims the images, at the demo's rate
(--rate another). Printed is the test accuracy of every seed for limits in steps of a weight; that
of a bias is 128 times as many. Then the same network, trained for one epoch, after 100 steps at a
rate of 1 and 2,000 at 0.03, on 500 test images: whether an absurd rate ruins it for good.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from rich.console import Console
from rich.table import Table

from mcutrain import data, demo
from mcutrain.codegen import Project
from mcutrain.pipeline import TrainingStep
from mcutrain.runs.training import prepare_run
from mcutrain.simulation import CompiledSimulator, Run, RunSettings
from mcutrain.simulation.rates import LearningRate

HEADER = "src/mct_update.h"
FREE = ("(1 << 14)", "MCT_BIAS_LIMIT")  # what no update reaches
LIMITS = {
    "4": ("4", "(128 * 4)"),
    "8": ("8", "(128 * 8)"),
    "16": ("16", "(128 * 16)"),
    "none": FREE,
    "8, biases only": (FREE[0], "(128 * 8)"),
    "8, weights only": ("8", FREE[1]),
}
"""Limit of a weight, limit of a bias, as C."""
ABSURD, USUAL = (100, 1.0), (2000, 0.03)  # steps, rate
RUINED_TESTS = 500
CHUNK = 50


def main() -> None:
    """Print the table, a row at a time."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rate", type=float, default=demo.SETTINGS.learning_rate)
    arguments = parser.parse_args()
    console, seeds = Console(), range(arguments.seeds)
    split = demo.deployed(demo.upright(demo.Size()))
    steps = {scheme: demo.training_step(demo.network(), scheme) for scheme in demo.SCHEMES}
    table = Table("limit", *(f"{scheme} %" for scheme in demo.SCHEMES), "after an absurd rate %")
    for name in LIMITS:
        cells = [
            text([trained(step, split, name, arguments.rate, seed) for seed in seeds])
            for step in steps.values()
        ]
        cells.append(text([ruined(steps["fashion-sparse"], split, name, seed) for seed in seeds]))
        console.print(f"{name}: {'; '.join(cells)}")
        table.add_row(name, *cells)
    console.print(table)


def text(accuracies: Sequence[float]) -> str:
    """All in percent, their mean and its standard error."""
    percent = 100 * np.array(accuracies)
    each = " ".join(f"{a:.1f}" for a in percent)
    if len(percent) == 1:
        return each
    return f"{each}: {percent.mean():.2f} ± {percent.std(ddof=1) / np.sqrt(len(percent)):.2f}"


def limited(project: Project, limit: str) -> Project:
    """The project with other limits."""
    text = project.files[HEADER]
    for name, value in zip(("MCT_STEP_LIMIT", "MCT_BIAS_STEP_LIMIT"), LIMITS[limit], strict=True):
        text, count = re.subn(rf"#define {name} .*", f"#define {name} {value}", text)
        assert count == 1, f"{HEADER} defines {name}"
    return replace(project, files={**project.files, HEADER: text})


def run_of(step: TrainingStep, split: data.Split, limit: str, settings: RunSettings) -> Run:
    """A run of the C with a limit that has not begun."""
    project = limited(step.project, limit)

    def simulator() -> CompiledSimulator:
        return CompiledSimulator(step.plan, step.scheme.name, settings.seed + 1, project=project)

    return prepare_run(step, split, settings, simulator=simulator)


def trained(step: TrainingStep, split: data.Split, limit: str, rate: float, seed: int) -> float:
    """Test accuracy after the demo's epochs."""
    settings = replace(demo.SETTINGS, learning_rate=rate, seed=seed, test_every=0)
    return run_of(step, split, limit, settings).train().epochs[-1].test_accuracy


def ruined(step: TrainingStep, split: data.Split, limit: str, seed: int) -> float:
    """Test accuracy after an epoch, steps at an absurd rate, and steps at a usual one."""
    run = run_of(step, split, limit, replace(demo.SETTINGS, epochs=1, seed=seed, test_every=0))
    run.train()
    at, y = 0, split.train.y
    for steps, rate in (ABSURD, USUAL):
        for first in range(at, at + steps, CHUNK):
            index = np.arange(first, first + CHUNK) % len(y)
            x = run.samples.train(index, 0, seed)
            run.simulator.train(x, y[index], [LearningRate.of(rate)] * CHUNK)
        at += steps
    classes = run.simulator.infer(run.samples.test(0, RUINED_TESTS)).argmax(axis=1)
    return float((classes == split.test.y[:RUINED_TESTS]).mean())


if __name__ == "__main__":
    main()

"""The learning rate that `--lr auto` finds, against the best of a grid.

    .venv/bin/python benchmarks/learning_rate.py --shared ../shared --seeds 2

Networks: the demo's under the turned and dimmed images of its sensor; kws_ref_model with a new head
of 12 classes on half of kws01.npz; mcunet-5fps with a new head on CIFAR-10; and, if seglearn is
installed (see motion.py), 1-D convolutions with random weights. Every rate of the grid trains as
`mcutrain simulate` does, in the device's integers. The grid's best is the one with the best mean
accuracy over the seeds on the test samples, which `--lr auto` never sees: that favours the grid.
--only takes the problems whose name contains a text.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from mcutrain import data, demo, prepare
from mcutrain.pipeline import TrainingStep
from mcutrain.runs.training import prepare_run
from mcutrain.simulation import RunSettings

GRID = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)


@dataclass(frozen=True)
class Problem:
    """step: of a seed."""

    name: str
    step: Callable[[int], TrainingStep]
    split: data.Split
    epochs: int


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shared", default=os.environ.get("MCUTRAIN_SHARED", "../shared"))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--only", default="", help="part of a problem's name")
    arguments = parser.parse_args()
    console = Console()
    table = Table("problem", "found", "accuracy %", "best of the grid", "accuracy %", "seconds")
    for problem in problems(Path(arguments.shared)):
        if arguments.only in problem.name:
            row, by_rate = compared(problem, range(arguments.seeds))
            grid = ", ".join(
                f"{rate:g}: {text(accuracies)}" for rate, accuracies in by_rate.items()
            )
            console.print(f"{problem.name}: {', '.join(row)}; grid {grid}")
            table.add_row(problem.name, *row)
    console.print(table)


def compared(problem: Problem, seeds: range) -> tuple[list[str], dict[float, list[float]]]:
    """A row of the table, and the accuracies of each rate of the grid. seconds: of a search."""
    started = time.monotonic()
    found = [rate_of(problem, seed) for seed in seeds]
    seconds = (time.monotonic() - started) / len(seeds)
    by_rate = {rate: [accuracy(problem, rate, seed) for seed in seeds] for rate in GRID}
    own = [
        by_rate[rate][i] if rate in by_rate else accuracy(problem, rate, seed)
        for i, (rate, seed) in enumerate(zip(found, seeds, strict=True))
    ]
    best = max(by_rate, key=lambda rate: float(np.mean(by_rate[rate])))
    rates = ", ".join(f"{rate:g}" for rate in sorted(set(found)))
    return [rates, text(own), f"{best:g}", text(by_rate[best]), f"{seconds:.1f}"], by_rate


def text(accuracies: list[float]) -> str:
    """The mean in percent."""
    return f"{100 * float(np.mean(accuracies)):.1f}"


def rate_of(problem: Problem, seed: int) -> float:
    """What --lr auto takes."""
    run = prepare_run(problem.step(seed), problem.split, RunSettings(problem.epochs, seed=seed))
    rate = run.settings.learning_rate
    assert rate is not None, "prepare_run finds one"
    return rate


def accuracy(problem: Problem, rate: float, seed: int) -> float:
    """After a run."""
    settings = RunSettings(problem.epochs, rate, seed=seed, test_every=0)
    run = prepare_run(problem.step(seed), problem.split, settings)
    run.train()
    return run.state.epochs[-1].test_accuracy


def problems(shared: Path) -> Iterator[Problem]:
    """All that there is data for."""
    sensor = demo.deployed(demo.upright(demo.Size(train=3000)))
    for scheme in ("head", "fashion-sparse"):
        yield Problem(f"demo, {scheme}", of(demo.MODEL, scheme, None), sensor, 2)
    if (shared / "data").is_dir():
        words = data.load(shared / "data/kws01.npz", test_share=0.5)
        for scheme in ("head", "7:0.5,8:1,bias:4"):
            model = shared / "models/kws_ref_model.tflite"
            yield Problem(f"kws01, {scheme}", of(model, scheme, 12), words, 6)
        images = data.load(shared / "data/cifar10_10k2k.npz")
        few = data.Split(images.train.subset(1200), images.test)
        for scheme in ("head", "mcunet-5fps-49kb"):
            model = shared / "models/mcunet-5fps.int8.tflite"
            yield Problem(f"cifar10, {scheme}", of(model, scheme, 10), few, 2)
    if importlib.util.find_spec("seglearn") is not None:
        yield from motion_problems()


def of(model: Path, scheme: str, classes: int | None) -> Callable[[int], TrainingStep]:
    """A step whose new head, if there is one, follows the seed."""
    return lambda seed: prepare(model, scheme, classes=classes, head_seed=seed)


def motion_problems() -> Iterator[Problem]:
    """Exercises of all people but one, for the test other windows of the same people."""
    import motion

    recorded = motion.load_watch()
    names = tuple(str(name) for name in recorded["y_labels"])
    others, _ = motion.split(recorded, min(recorded["subject"]), names)
    train, test = data.stratified(others.train.y, 0.25, 0)
    split = data.Split(others.train.take(train), others.train.take(test))
    graph = motion.random_network(split.train.x, len(names), seed=0)
    yield Problem("motion, full", lambda _: prepare(graph, "full"), split, 4)


if __name__ == "__main__":
    main()

"""The learning rate that `--lr auto` finds, against the best of a grid.

    .venv/bin/python benchmarks/learning_rate.py --shared ../shared --seeds 2

Networks: the demo's under the turned and dimmed images of its sensor; kws_ref_model with a new head
of 12 classes on half of kws01.npz; mcunet-5fps with a new head on CIFAR-10; and, if seglearn is
installed (see motion.py), 1-D convolutions with random weights. Every rate of the grid trains as
`mcutrain simulate` does, in the device's integers. The grid's best is the one with the best mean
accuracy over the seeds on the test samples, which `--lr auto` never sees: that favours the grid.
--only takes the problems whose name contains a text. --data: also mcunet-5fps on further data sets
(an .npz file or a folder), --epochs long, with --schemes. --factors: the grid is of rates and of
these factors on a new head's rate, the default's among them; `--lr auto` keeps the default.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from mcutrain import data, demo, prepare
from mcutrain.pipeline import TrainingStep
from mcutrain.runs.training import fastest_simulator, prepare_run
from mcutrain.simulation import Run, RunSettings
from mcutrain.sparse import parse_scheme
from mcutrain.sparse.scheme import NEW_HEAD_RATE

GRID = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
DATA_SCHEMES = ("head", "mcunet-5fps-49kb", "mcunet-5fps-100kb")


@dataclass(frozen=True)
class Problem:
    """step: of a seed and a factor on a new head's rate, if there is one."""

    name: str
    step: Callable[[int, float], TrainingStep]
    split: data.Split
    epochs: int


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shared", default=os.environ.get("MCUTRAIN_SHARED", "../shared"))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--only", default="", help="part of a problem's name")
    parser.add_argument("--rates", type=float, nargs="+", default=GRID)
    parser.add_argument("--factors", type=float, nargs="+", default=[NEW_HEAD_RATE])
    parser.add_argument("--data", type=Path, nargs="+", default=[])
    parser.add_argument("--schemes", nargs="+", default=DATA_SCHEMES)
    parser.add_argument("--epochs", type=int, default=4)
    arguments = parser.parse_args()
    console = Console()
    table = Table("problem", "found", "accuracy %", "best of the grid", "accuracy %", "seconds")
    grid_of = list(product(arguments.rates, arguments.factors))
    for problem in problems(Path(arguments.shared), arguments):
        if arguments.only in problem.name:
            row, by_rate = compared(problem, range(arguments.seeds), grid_of)
            grid = ", ".join(f"{name(*at)}: {text(found)}" for at, found in by_rate.items())
            console.print(f"{problem.name}: {', '.join(row)}; grid {grid}")
            table.add_row(problem.name, *row)
    console.print(table)


def compared(
    problem: Problem, seeds: range, grid: list[tuple[float, float]]
) -> tuple[list[str], dict[tuple[float, float], list[float]]]:
    """A row of the table, and the accuracies of each rate and factor. seconds: of a search."""
    started = time.monotonic()
    found = [rate_of(problem, seed) for seed in seeds]
    seconds = (time.monotonic() - started) / len(seeds)
    by_rate = {at: [accuracy(problem, at, seed) for seed in seeds] for at in grid}
    usual = [(rate, NEW_HEAD_RATE) for rate in found]
    own = [
        by_rate[at][i] if at in by_rate else accuracy(problem, at, seed)
        for i, (at, seed) in enumerate(zip(usual, seeds, strict=True))
    ]
    best = max(by_rate, key=lambda at: float(np.mean(by_rate[at])))
    rates = ", ".join(f"{rate:g}" for rate in sorted(set(found)))
    return [rates, text(own), name(*best), text(by_rate[best]), f"{seconds:.1f}"], by_rate


def name(rate: float, factor: float) -> str:
    """Name a cell of the grid."""
    return f"{rate:g}" if factor == NEW_HEAD_RATE else f"{rate:g} x {factor:g}"


def text(accuracies: list[float]) -> str:
    """The mean in percent, and its standard error."""
    percent = 100 * np.array(accuracies)
    if len(percent) == 1:
        return f"{percent[0]:.1f}"
    return f"{percent.mean():.1f} ± {percent.std(ddof=1) / len(percent) ** 0.5:.1f}"


def rate_of(problem: Problem, seed: int) -> float:
    """What --lr auto takes."""
    step = problem.step(seed, NEW_HEAD_RATE)
    rate = prepared(problem, step, RunSettings(problem.epochs, seed=seed)).settings.learning_rate
    assert rate is not None, "prepare_run finds one"
    return rate


def accuracy(problem: Problem, at: tuple[float, float], seed: int) -> float:
    """After a run. at: learning rate and factor."""
    settings = RunSettings(problem.epochs, at[0], seed=seed, test_every=0)
    run = prepared(problem, problem.step(seed, at[1]), settings)
    run.train()
    return run.state.epochs[-1].test_accuracy


def prepared(problem: Problem, step: TrainingStep, settings: RunSettings) -> Run:
    """What the frozen layers make of a sample is kept: the same bits, sooner."""
    split = problem.split
    return prepare_run(
        step, split, settings, simulator=lambda: fastest_simulator(step, split, settings)
    )


def problems(shared: Path, arguments: argparse.Namespace) -> Iterator[Problem]:
    """All that there is data for."""
    model = shared / "models/mcunet-5fps.int8.tflite"
    for path, scheme in product(arguments.data, arguments.schemes):
        split = data.load(path)
        step = of(model, scheme, len(split.train.names))
        yield Problem(f"{path.stem}, {scheme}", step, split, arguments.epochs)
    sensor = demo.deployed(demo.upright(demo.Size(train=3000)))
    for scheme in ("head", "fashion-sparse"):
        yield Problem(f"demo, {scheme}", of(demo.MODEL, scheme, None), sensor, 2)
    if (shared / "data").is_dir():
        words = data.load(shared / "data/kws01.npz", test_share=0.5)
        for scheme in ("head", "7:0.5,8:1,bias:4"):
            keyword = shared / "models/kws_ref_model.tflite"
            yield Problem(f"kws01, {scheme}", of(keyword, scheme, 12), words, 6)
        images = data.load(shared / "data/cifar10_10k2k.npz")
        few = data.Split(images.train.subset(1200), images.test)
        for scheme in ("head", "mcunet-5fps-49kb"):
            yield Problem(f"cifar10, {scheme}", of(model, scheme, 10), few, 2)
    if importlib.util.find_spec("seglearn") is not None:
        yield from motion_problems()


def of(model: Path, scheme: str, classes: int | None) -> Callable[[int, float], TrainingStep]:
    """A step whose new head, if there is one, follows the seed."""
    parsed = parse_scheme(scheme)

    def step(seed: int, factor: float) -> TrainingStep:
        of_factor = parsed if classes is None else replace(parsed, head_rate=factor)
        return prepare(model, of_factor, classes=classes, head_seed=seed)

    return step


def motion_problems() -> Iterator[Problem]:
    """Exercises of all people but one, for the test other windows of the same people."""
    import motion

    recorded = motion.load_watch()
    names = tuple(str(name) for name in recorded["y_labels"])
    others, _ = motion.split(recorded, min(recorded["subject"]), names)
    train, test = data.stratified(others.train.y, 0.25, 0)
    split = data.Split(others.train.take(train), others.train.take(test))
    graph = motion.random_network(split.train.x, len(names), seed=0)
    yield Problem("motion, full", lambda *_: prepare(graph, "full"), split, 4)


if __name__ == "__main__":
    main()

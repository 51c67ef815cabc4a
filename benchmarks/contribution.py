"""How well gradients rank what training finds: rank correlations and times.

    .venv/bin/python benchmarks/contribution.py
    .venv/bin/python benchmarks/contribution.py --model mcunet-5fps --shared ../shared

demo: its network and its sensor's images. mcunet-5fps: a new 10-class head, images of
cifar10_10k2k.npz. Spearman's correlation of each measure by gradient with each measure by training:
layers at all of their weights; layers at all shares; bias depths. "reliability" compares training
with training: the same analysis with another seed, which is the best that any estimate can reach.
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table
from scipy.stats import spearmanr

from mcutrain import data, demo, pipeline
from mcutrain.analysis.gradient import GradientSettings, by_gradient
from mcutrain.analysis.problem import Problem
from mcutrain.analysis.progress import TrialsDone
from mcutrain.analysis.training import TrainingSettings, by_training
from mcutrain.analysis.workers import Execution
from mcutrain.selection.contribution import Contributions, Gains, read_contributions

MODEL = "models/mcunet-5fps.int8.tflite"
DATA = "data/cifar10_10k2k.npz"


@dataclass(frozen=True)
class Case:
    """A problem, and how it is analysed."""

    problem: Problem
    epochs: int
    learning_rate: float


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=("demo", "mcunet-5fps"), default="demo")
    parser.add_argument("--shared", default=os.environ.get("MCUTRAIN_SHARED", "../shared"))
    parser.add_argument("--samples", type=int, help="400 of the demo, 1000 of mcunet-5fps")
    parser.add_argument("--test-samples", type=int, help="1000 of the demo, 2000 of mcunet-5fps")
    parser.add_argument("--epochs", type=int, help="2 of the demo, 4 of mcunet-5fps")
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--analysis", type=Path, help="by training: this one instead of a new one")
    parser.add_argument("--reliability", action="store_true", help="train with a second seed too")
    arguments = parser.parse_args()
    case = prepared(arguments)
    console = Console(width=110)
    execution = Execution(arguments.jobs)
    started = time.monotonic()
    if arguments.analysis:
        trained = read_contributions(arguments.analysis, case.problem.model)
    else:
        trained = training(case, 0, execution, console)
    middle = time.monotonic()
    settings = GradientSettings(learning_rate=case.learning_rate, epochs=case.epochs)
    estimated = by_gradient(case.problem, settings)
    ended = time.monotonic()
    title = f"{arguments.model}, {len(case.problem.train_y)} samples, {case.epochs} epochs"
    console.print(correlations(title, estimated, trained))
    by = "reading" if arguments.analysis else "by training"
    console.print(f"{by} {middle - started:.0f} s, by gradient {ended - middle:.0f} s")
    seconds = trained.settings["seconds"]
    console.print("where the time went (s, all processes): ", seconds)
    if arguments.reliability:
        again = training(case, 1, execution, console)
        console.print(correlations("training with another seed", again, trained))


def prepared(arguments: argparse.Namespace) -> Case:
    """The problem that is asked for."""
    if arguments.model == "demo":
        split = demo.deployed(demo.upright(demo.Size()))
        split = _first(split, arguments.samples or 400, arguments.test_samples or 1000)
        problem = Problem.of(demo.network(), split)
        return Case(problem, arguments.epochs or 2, demo.SETTINGS.learning_rate)
    shared = Path(arguments.shared)
    split = data.load(shared / DATA)
    split = _first(split, arguments.samples or 1000, arguments.test_samples or 2000)
    problem = Problem.of(pipeline.load(shared / MODEL), split, classes=10)
    return Case(problem, arguments.epochs or 4, TrainingSettings().learning_rate)


def _first(split: data.Split, train: int, test: int) -> data.Split:
    return data.Split(split.train.subset(train), split.test.subset(test))


def training(case: Case, seed: int, execution: Execution, console: Console) -> Contributions:
    """The analysis by training, with its progress on the console."""

    def report(progress: TrialsDone) -> None:
        if progress.remaining_seconds is not None and progress.done % 20 == 0:
            left = f"{progress.remaining_seconds:.0f} s left"
            console.print(f"{progress.done} of {progress.total} candidates, {left}")

    settings = TrainingSettings(case.epochs, case.learning_rate, seed)
    return by_training(case.problem, settings, execution, report)


def correlations(title: str, found: Contributions, reference: Contributions) -> Table:
    """Each measure of `found` against each of the reference."""
    table = Table("measure", "by training", "layers", "shares", "bias depths", title=title)
    for name, gains in found.gains.items():
        for against, expected in reference.gains.items():
            row = (
                _rank(_layers(gains), _layers(expected)),
                _rank(_shares(gains), _shares(expected)),
                _rank(list(gains.bias), list(expected.bias)),
            )
            table.add_row(name, against, *(f"{value:.2f}" for value in row))
    return table


def _rank(a: list[float], b: list[float]) -> float:
    return float(spearmanr(a, b).statistic)


def _layers(gains: Gains) -> list[float]:
    """Gains of training all weights of each layer."""
    return [by_share[1.0] for _, by_share in sorted(gains.weights.items())]


def _shares(gains: Gains) -> list[float]:
    """Gains of every share of each layer."""
    return [gain for _, by_share in sorted(gains.weights.items()) for gain in by_share.values()]


if __name__ == "__main__":
    main()

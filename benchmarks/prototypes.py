"""A new classifier from class means: without any step, and as the start of a training.

    .venv/bin/python benchmarks/prototypes.py few-shot --shared ../shared
    .venv/bin/python benchmarks/prototypes.py start --shared ../shared --seeds 2
    .venv/bin/python benchmarks/prototypes.py start --model M.tflite --data D.npz --schemes head

few-shot: episodes of 5 classes with 5 samples of each, tested on all others of these classes: class
means without a step, and classifiers that are trained for 20 epochs from random weights, zeros and
class means, at each of --rates. start: the same classifiers at the begin of a training on a whole
data set. All in the device's integers, batch 1. A rate is per sample; `x 8` is the rate of the
classifier among trained layers (--head-rate 8).
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from mcutrain import data, pipeline, prepare
from mcutrain.ir.graph import Graph
from mcutrain.runs.head_start import STARTS, Start, head_start_of
from mcutrain.runs.sample_reading import load_data
from mcutrain.runs.training import fastest_simulator, prepare_run
from mcutrain.simulation import RunSettings
from mcutrain.sparse import UpdateScheme, parse_scheme

MCUNET, CIFAR = "models/mcunet-5fps.int8.tflite", "data/cifar10_10k2k.npz"

FEW_SHOT_EPOCHS = 20


@dataclass(frozen=True)
class Task:
    """A model and a data set."""

    model: Graph
    split: data.Split

    @staticmethod
    def of(model: Path, file: Path, samples: int | None) -> Task:
        """From files; half of a data set without a test part is for the test."""
        graph = pipeline.load(model)
        return Task(graph, load_data(graph, file, 0.5, samples=samples))

    def accuracies(
        self, scheme: UpdateScheme, start: Start, settings: RunSettings
    ) -> tuple[float, float]:
        """On the test samples, before the first step and after the last."""
        classes, seed = len(self.split.names), settings.seed
        first = head_start_of(start, self.model, self.split, classes, seed=seed)
        step = prepare(self.model, scheme, classes=classes, head_seed=seed, head_start=first)
        run = prepare_run(
            step,
            self.split,
            settings,
            simulator=lambda: fastest_simulator(step, self.split, settings),
        )
        state = run.train()
        assert state.before is not None
        after = state.epochs[-1].test_accuracy if state.epochs else state.before
        assert after is not None
        return state.before, after


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("few-shot", "start"))
    parser.add_argument("--shared", default=os.environ.get("MCUTRAIN_SHARED", "../shared"))
    parser.add_argument("--model", help="of --shared's by default: mcunet-5fps")
    parser.add_argument("--data", help="of --shared's by default: CIFAR-10")
    parser.add_argument("--samples", type=int, help="training samples; all by default")
    parser.add_argument("--schemes", nargs="+", default=["head", "mcunet-5fps-49kb"])
    parser.add_argument("--rates", nargs="+", default=["0.1/256", "0.3/256", "1/256", "3/256"])
    parser.add_argument("--starts", nargs="+", choices=STARTS, default=STARTS)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--episodes", type=int, default=20)
    arguments = parser.parse_args()
    shared = Path(arguments.shared)
    model = Path(arguments.model) if arguments.model else shared / MCUNET
    file = Path(arguments.data) if arguments.data else shared / CIFAR
    task = Task.of(model, file, arguments.samples)
    rates = [_number(text) for text in arguments.rates]
    if arguments.what == "few-shot":
        few_shot(task, arguments.starts, rates, arguments.episodes)
        return
    plan = Plan(arguments.starts, rates, arguments.epochs, arguments.seeds)
    for name in arguments.schemes:
        starts(task, name, plan)


def few_shot(task: Task, names: Sequence[Start], rates: Sequence[float], count: int) -> None:
    """Episodes of 5 classes and 5 samples."""
    table = Table("classifier", "rate", "accuracy % ± 95 %")
    tasks = [replace(task, split=data.episode(task.split, 5, 5, seed)) for seed in range(count)]

    def row(name: str, start: Start, epochs: int, rate: float) -> None:
        scheme = UpdateScheme(head_rate=1.0)
        found = [
            one.accuracies(scheme, start, RunSettings(epochs, rate, seed=seed))[1]
            for seed, one in enumerate(tasks)
        ]
        error = 1.96 * np.std(found, ddof=1) / np.sqrt(len(found)) if count > 1 else 0
        shown = f"{256 * rate:g}/256" if epochs else ""
        table.add_row(name, shown, f"{100 * np.mean(found):.1f} ± {100 * error:.1f}")

    row("class means, no step", "prototypes", 0, 0)
    for start in names:
        for rate in rates:
            row(f"trained from {start}", start, FEW_SHOT_EPOCHS, rate)
    Console().print(table)


@dataclass(frozen=True)
class Plan:
    """What is compared."""

    starts: Sequence[Start]
    rates: Sequence[float]
    epochs: int
    seeds: int


def starts(task: Task, name: str, plan: Plan) -> None:
    """Each start at each rate."""
    table = Table("scheme", "rate", "head", *(f"{s} %" for s in plan.starts), "before, last %")
    for scheme, factor in _schemes(name):
        for rate in plan.rates:
            found = np.zeros((len(plan.starts), plan.seeds, 2))
            for i, start in enumerate(plan.starts):
                for seed in range(plan.seeds):
                    settings = RunSettings(plan.epochs, rate, seed=seed, test_every=0)
                    found[i, seed] = task.accuracies(scheme, start, settings)
            after, before = found[:, :, 1], found[-1, :, 0]
            shown = (", ".join(f"{100 * a:.1f}" for a in row) for row in after)
            rates = f"{256 * rate:g}/256", f"x {factor:g}"
            table.add_row(scheme.name, *rates, *shown, f"{100 * before.mean():.1f}")
    Console().print(table)


def _schemes(name: str) -> Iterator[tuple[UpdateScheme, float]]:
    """With one rate for all; where layers are trained, also with the classifier 8 times as fast."""
    scheme = replace(parse_scheme(name), head_rate=1.0)
    yield scheme, 1.0
    if name != "head":
        yield replace(scheme, head_rate=8.0), 8.0


def _number(text: str) -> float:
    above, _, below = text.partition("/")
    return float(above) / float(below or 1)


if __name__ == "__main__":
    main()

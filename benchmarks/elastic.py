"""Elastic training against static schemes: accuracy, and instructions of the mean step.

    .venv/bin/python benchmarks/elastic.py --shared ../shared
    .venv/bin/python benchmarks/elastic.py --full
    .venv/bin/python benchmarks/elastic.py --demo

mcunet-5fps on CIFAR-10, or the demo's network, as benchmarks/accuracy.py trains it: 4 epochs,
flips, cosine with 10 % warm-up. `helped`: `simulate --elastic`, by the importance of two windows.
`squares`: the same with --importance squares, ElasticTrainer's cheap form.
`drawn`: tensors drawn anew at random in every period. Instructions are those of the model for a
Cortex-M7, with the steps in which everything is trained; they are the same share for all three.
--full: shares of the step that trains everything, and as many of the last layers as take such a
share. --rates: each row at the one of these that is best with seed 0 on the last quarter of the
training images, when it is trained on the others.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev

import numpy as np
from joblib import Parallel, delayed
from rich.console import Console
from rich.table import Table

from mcutrain import data, demo, prepare
from mcutrain.cost.elastic import estimated_times
from mcutrain.cost.instructions import USUAL_ISA
from mcutrain.features.elastic.selector import MOVES, SQUARES, Decision, Periods, TensorSelector
from mcutrain.pipeline import TrainingStep, load
from mcutrain.simulation import Run, RunSettings, Samples
from mcutrain.sparse.elastic import choose


@dataclass(frozen=True)
class Row:
    """A scheme, and which share of its step is trained in which way; all of it if none is said."""

    scheme: str
    share: float = 1.0
    way: str = "static"


MCUNET = (
    Row("mcunet-5fps-100kb"),
    Row("mcunet-5fps-49kb"),
    Row("bias:12"),
    *(
        Row("mcunet-5fps-100kb", share, way)
        for share in (0.88, 0.75)
        for way in ("helped", "squares", "drawn")
    ),
    Row("full"),
    *(Row("full", 0.5, way) for way in ("helped", "squares", "drawn")),
)
FULL = (
    Row("full"),
    *(
        row
        for share in (0.7, 0.5)
        for row in (
            Row("last:{}", share),
            Row("full", share, "helped"),
            Row("full", share, "squares"),
        )
    ),
    Row("last:32", 0.71, "helped"),
    Row("last:32", 0.71, "squares"),
)
"""{}: as many layers as a step of that share of the instructions has. The last two: the layers
that a share of 0.7 has, in the time of those that 0.5 has."""
DEMO = (
    Row("full"),
    Row("last:10"),
    Row("last:4"),
    *(Row("full", share, way) for share in (0.7, 0.5) for way in ("helped", "squares", "drawn")),
)


def main() -> None:
    """Print a line for each run, then the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shared", default=os.environ.get("MCUTRAIN_SHARED", "../shared"))
    parser.add_argument("--demo", action="store_true")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--samples", type=int, default=4000)
    parser.add_argument("--rates", type=float, nargs="+", help="0.1/256, of the demo 0.01")
    parser.add_argument("--rows", type=int, nargs="+", help="only these, counted from 0")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    shared, console = Path(options.shared), Console()
    setting = Setting.of_demo() if options.demo else Setting.of_mcunet(shared, options.samples)
    rows = DEMO if options.demo else FULL if options.full else MCUNET
    rows = [setting.sized(row) for n, row in enumerate(rows) if n in (options.rows or range(99))]
    rates = options.rates or [0.01 if options.demo else 0.1 / 256]
    jobs = Parallel(n_jobs=options.jobs, return_as="generator")
    best = dict.fromkeys(rows, rates[0])
    if len(rates) > 1:
        searches = [(row, rate) for row in rows for rate in rates]
        found = jobs(delayed(setting.train)(row, rate, 0, True) for row, rate in searches)
        held_out = {}
        for (row, rate), accuracy in zip(searches, found, strict=True):
            held_out[row, rate] = accuracy
            console.print(f"{row}, rate {256 * rate:g}/256: {accuracy:.2f} % held out")
        best = {row: max(rates, key=lambda rate: held_out[row, rate]) for row in rows}
    runs = [(row, seed) for row in rows for seed in range(options.seeds)]
    found = jobs(delayed(setting.train)(row, best[row], seed) for row, seed in runs)
    accuracies: dict[Row, list[float]] = {row: [] for row in rows}
    for (row, seed), accuracy in zip(runs, found, strict=True):
        accuracies[row].append(accuracy)
        console.print(f"{row}, rate {256 * best[row]:g}/256, seed {seed}: {accuracy:.2f} %")
    table = Table(
        "scheme",
        "way",
        "share ρ",
        "M instructions",
        "SRAM",
        "256 · rate",
        "top-1 %",
        "± of the mean",
    )
    for row, values in accuracies.items():
        error = stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0
        work, sram_bytes = setting.cost(row)
        table.add_row(
            row.scheme,
            row.way,
            f"{row.share:g}",
            f"{work / 1e6:.1f}",
            f"{sram_bytes:,}",
            f"{256 * best[row]:g}",
            f"{mean(values):.2f}",
            f"{error:.2f}",
        )
    console.print(table)


@dataclass(frozen=True)
class Setting:
    """A network and images. classes: None if it keeps its classifier."""

    model: Path
    data: Path
    classes: int | None
    samples: int

    @classmethod
    def of_demo(cls) -> Setting:
        """All its images."""
        return cls(demo.MODEL, demo.IMAGES, None, 10**9)

    @classmethod
    def of_mcunet(cls, shared: Path, samples: int) -> Setting:
        """CIFAR-10."""
        files = ("models/mcunet-5fps.int8.tflite", "data/cifar10_10k2k.npz")
        return cls(shared / files[0], shared / files[1], 10, samples)

    def step(self, scheme: str, seed: int = 0, elastic: bool = True) -> TrainingStep:
        """Everything about it."""
        return prepare(
            load(self.model), scheme, classes=self.classes, head_seed=seed, elastic=elastic
        )

    def sized(self, row: Row) -> Row:
        """With as many layers as take the row's share of the full step."""
        if "{}" not in row.scheme:
            return row
        limit = row.share * instructions(self.step("full"))
        layers = 1
        while instructions(self.step(row.scheme.format(layers + 1))) <= limit:
            layers += 1
        return Row(row.scheme.format(layers))

    def cost(self, row: Row) -> tuple[float, int]:
        """Instructions of the mean step, and SRAM."""
        step = self.step(row.scheme, elastic=row.way != "static")
        return row.share * instructions(self.step(row.scheme)), step.plan.sram_bytes

    def train(self, row: Row, rate: float, seed: int, is_search: bool = False) -> float:
        """Accuracy in percent. is_search: on training images alone."""
        split = data.load(self.data)
        images = split.train.subset(min(self.samples, len(split.train)))
        split = data.Split(images, split.test)
        if is_search:
            first = 3 * len(images) // 4
            split = data.Split(images.subset(first), images.take(range(first, len(images))))
        step = self.step(row.scheme, seed, row.way != "static")
        settings = RunSettings(4, rate, seed=seed, flip=True, test_every=0)
        x = step.input_type
        prepared = Samples.prepare(split, x.shape[1:], x.scale, x.zero_point, settings)
        selector = None
        if row.way != "static":
            times = estimated_times(step.plan, USUAL_ISA)
            periods = Periods(round(row.share * 65536), len(split.train))
            kind = Drawn if row.way == "drawn" else TensorSelector
            measure = SQUARES if row.way == "squares" else MOVES
            selector = kind(step.plan, times, periods, measure)
        state = Run(step.simulator(seed=seed + 1), prepared, settings, turns=[selector]).train()
        return 100 * (state.epochs[-1].test_accuracy or 0.0)


def instructions(step: TrainingStep) -> float:
    """Estimate the instructions of a step that trains everything."""
    times = estimated_times(step.plan, USUAL_ISA)
    return times.forward + times.problem.backward_time


class Drawn(TensorSelector):
    """By chance."""

    def choose(self, step: int, states: Sequence[bytes]) -> Decision:
        """Uniform importances."""
        count = len(self.plan.training.elastic)
        return _decided(self, step, np.random.default_rng(step).random(count).tolist())


def _decided(selector: TensorSelector, step: int, values: Sequence[float]) -> Decision:
    importance = tuple(max(int(v / max(sum(values), 1e-30) * 2**30), 1) for v in values)
    times = selector.times
    budget = selector.periods.budget(times.forward, times.problem.backward_time)
    return Decision(step, choose(times.problem, importance, budget), importance)


if __name__ == "__main__":
    main()

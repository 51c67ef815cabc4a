"""Elastic training against static schemes: accuracy, and instructions of the mean step.

    .venv/bin/python benchmarks/elastic.py --shared ../shared
    .venv/bin/python benchmarks/elastic.py --demo

mcunet-5fps on CIFAR-10, or the demo's network, as benchmarks/accuracy.py trains it: 4 epochs,
flips, cosine with 10 % warm-up. `helped`: `simulate --elastic`, by the importance of two windows.
`squares`: the same with --importance squares, ElasticTrainer's cheap form.
`drawn`: tensors drawn anew at random in every period. Instructions are those of the model for a
Cortex-M7, with the steps in which everything is trained; they are the same share for all three.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from mcutrain import data, demo
from mcutrain.cost.elastic import estimated_times
from mcutrain.cost.instructions import USUAL_ISA
from mcutrain.pipeline import load, prepare
from mcutrain.simulation import Run, RunSettings, Samples
from mcutrain.simulation.elastic import MOVES, SQUARES, Decision, Periods, TensorSelector
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
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--samples", type=int, default=4000)
    parser.add_argument("--rate", type=float, help="per sample; 0.1/256, of the demo 0.01")
    parser.add_argument("--rows", type=int, nargs="+", help="only these, counted from 0")
    options = parser.parse_args()
    shared, console = Path(options.shared), Console()
    rows = DEMO if options.demo else MCUNET
    model = demo.MODEL if options.demo else shared / "models/mcunet-5fps.int8.tflite"
    split = data.load(demo.IMAGES if options.demo else shared / "data/cifar10_10k2k.npz")
    split = data.Split(split.train.subset(min(options.samples, len(split.train))), split.test)
    rate = options.rate or (0.01 if options.demo else 0.1 / 256)
    classes = None if options.demo else 10
    table = Table("scheme", "way", "share ρ", "M instructions", "SRAM", "top-1 %", "± of the mean")
    for number, row in enumerate(rows):
        if options.rows and number not in options.rows:
            continue
        found = []
        for seed in range(options.seeds):
            accuracy, instructions, sram = train(model, split, row, classes, rate, seed)
            found.append(100 * accuracy)
            console.print(f"{row}, seed {seed}: {found[-1]:.2f} %")
        error = np.std(found, ddof=1) / len(found) ** 0.5 if len(found) > 1 else 0.0
        texts = (f"{instructions / 1e6:.1f}", f"{sram:,}", f"{np.mean(found):.2f}", f"{error:.2f}")
        table.add_row(row.scheme, row.way, f"{row.share:g}", *texts)
    console.print(table)


def train(
    model: Path, split: data.Split, row: Row, classes: int | None, rate: float, seed: int
) -> tuple[float, float, int]:
    """Final accuracy, instructions of the mean step, and SRAM."""
    step = prepare(load(model), row.scheme, classes=classes, head_seed=seed, elastic=True)
    times = estimated_times(step.plan, USUAL_ISA)
    whole = times.forward + times.problem.backward_time
    settings = RunSettings(4, rate, seed=seed, flip=True, test_every=0)
    x = step.input_type
    prepared = Samples.prepare(split, x.shape[1:], x.scale, x.zero_point, settings)
    selector = None
    if row.way != "static":
        periods = Periods(round(row.share * 65536), len(split.train))
        kind = Drawn if row.way == "drawn" else TensorSelector
        measure = SQUARES if row.way == "squares" else MOVES
        selector = kind(step.plan, times, periods, measure)
    run = Run(step.simulator(seed=seed + 1), prepared, settings, selector=selector)
    state = run.train()
    return state.epochs[-1].test_accuracy, row.share * whole, step.plan.sram_bytes


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

"""Accuracy by bytes of state: bits of biases and residual bits of weights.

    .venv/bin/python benchmarks/state_bytes.py --shared ../shared --seeds 3 --keep rows.json

The demo (its network under fashion-sparse, its data, rate and epochs), and CIFAR-10 as in
benchmarks/accuracy.py (mcunet-5fps under its 49 KB scheme), --epochs of it. The head keeps its 8
residual bits and a bias of 32. Every row has the seeds of the others; means with the standard error
of the mean, and of the differences to the first row, which is the default. --keep: what a run ended
with, so that the table is continued.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from accuracy import DATA, MODEL
from rich.console import Console
from rich.table import Table

from mcutrain import data, demo, pipeline
from mcutrain.ir.graph import Graph
from mcutrain.memplan.training_plan import state_parts
from mcutrain.pipeline import TrainingStep
from mcutrain.simulation import Run, RunSettings, Samples
from mcutrain.sparse import parse_scheme

BITS = tuple((bias, residual) for bias in (32, 16) for residual in (4, 0, 2, 8))
"""Of biases, of weights; the default first."""


@dataclass(frozen=True)
class Case:
    """What is trained on what. classes: of a new head."""

    name: str
    model: Graph
    scheme: str
    split: data.Split
    settings: RunSettings
    classes: int | None = None

    def step(self, bits: tuple[int, int], seed: int) -> TrainingStep:
        """The planned step."""
        bias, residual = bits
        scheme = replace(parse_scheme(self.scheme), bias_bits=bias, residual_bits=residual)
        return pipeline.prepare(self.model, scheme, classes=self.classes, head_seed=seed)

    def accuracy(self, bits: tuple[int, int], seed: int) -> float:
        """In percent, after training."""
        step = self.step(bits, seed)
        settings = replace(self.settings, seed=seed)
        x = step.graph.tensors[step.graph.inputs[0]].type
        samples = Samples.prepare(self.split, x.shape[1:], x.scale, x.zero_point, settings)
        state = Run(step.simulator(seed=seed + 1), samples, settings).train()
        found = state.epochs[-1].test_accuracy
        assert found is not None
        return 100 * found


def main() -> None:
    """Train, seed by seed, and print a table for each case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shared", default=os.environ.get("MCUTRAIN_SHARED", "../shared"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=4, help="of CIFAR-10")
    parser.add_argument("--cases", nargs="+", default=["demo", "cifar"])
    parser.add_argument("--keep", type=Path)
    arguments = parser.parse_args()
    cases = [
        demo_case() if name == "demo" else cifar_case(Path(arguments.shared), arguments.epochs)
        for name in arguments.cases
    ]
    kept = Kept(arguments.keep)
    for seed in range(arguments.seeds):
        for case in cases:
            for bits in BITS:
                kept.add(case, bits, seed)
    for case in cases:
        Console(width=120).print(table_of(case, kept, range(arguments.seeds)))


class Kept:
    """Accuracies by case, bits and seed."""

    def __init__(self, file: Path | None) -> None:
        self.file = file
        self.found: dict[str, float] = {}
        if file is not None and file.is_file():
            self.found = json.loads(file.read_text(encoding="utf-8"))

    @staticmethod
    def key(case: Case, bits: tuple[int, int], seed: int) -> str:
        return f"{case.name}, {case.settings.epochs} epochs, {bits}, seed {seed}"

    def add(self, case: Case, bits: tuple[int, int], seed: int) -> None:
        """Train, unless that was done."""
        key = self.key(case, bits, seed)
        if key not in self.found:
            self.found[key] = case.accuracy(bits, seed)
            print(f"{key}: {self.found[key]:.2f} %", flush=True)
            if self.file is not None:
                self.file.write_text(json.dumps(self.found, indent=1), encoding="utf-8")

    def row(self, case: Case, bits: tuple[int, int], seeds: Sequence[int]) -> np.ndarray:
        return np.array([self.found[self.key(case, bits, seed)] for seed in seeds])


def demo_case() -> Case:
    """As `mcutrain demo` trains it."""
    size = demo.Size()
    split = demo.deployed(demo.upright(size))
    return Case("demo", demo.network(), "fashion-sparse", split, demo.SETTINGS)


def cifar_case(shared: Path, epochs: int) -> Case:
    """As benchmarks/accuracy.py trains it."""
    split = data.load(shared / DATA)
    split = data.Split(split.train.subset(4000), split.test)
    settings = RunSettings(epochs, 0.1 / 256, flip=True)
    return Case("cifar", pipeline.load(shared / MODEL), "mcunet-5fps-49kb", split, settings, 10)


def table_of(case: Case, kept: Kept, seeds: Sequence[int]) -> Table:
    """Of all rows."""
    table = Table(
        "bits of biases", "residual bits", "state", "arena", "both", "top-1 %", "to the first",
        title=f"{case.name}: {case.scheme}, {case.settings.epochs} epochs, {len(seeds)} seeds",
    )  # fmt: skip
    first = kept.row(case, BITS[0], seeds)
    for bits in BITS:
        plan = case.step(bits, 0).plan
        found = kept.row(case, bits, seeds)
        parts = state_parts(plan)
        table.add_row(
            f"{bits[0]} ({parts['biases']:,} B)",
            f"{bits[1]} ({parts['residual_bits']:,} B)",
            f"{plan.state_bytes:,}",
            f"{plan.arena_bytes:,}",
            f"{plan.sram_bytes:,}",
            _with_error(found),
            "" if bits == BITS[0] else _with_error(found - first, "+"),
        )
    return table


def _with_error(values: np.ndarray, sign: str = "") -> str:
    if len(values) < 2:
        return f"{values.mean():{sign}.2f}"
    return f"{values.mean():{sign}.2f} ± {values.std(ddof=1) / len(values) ** 0.5:.2f}"


if __name__ == "__main__":
    main()

"""Accuracy under the device's rule: schemes and seeds on CIFAR-10, in the generated C.

    .venv/bin/python benchmarks/accuracy.py --shared ../shared --seeds 3

mcunet-5fps, a new 10-class head, batch 1, the first 4,000 training images and all 2,000 test images
of cifar10_10k2k.npz, bilinear to 128x128, random flips, 4 epochs, cosine with 10 % warm-up,
learning rate 0.1/256 per sample. Beside them: a float emulation of the same (DESIGN.md).
"""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from mcutrain import data, prepare
from mcutrain.simulation import Run, RunSettings, Samples

MODEL = "models/mcunet-5fps.int8.tflite"
DATA = "data/cifar10_10k2k.npz"
RATE = 0.1 / 256


@dataclass(frozen=True)
class Case:
    """One row: a scheme, and what a float emulation reached with it."""

    name: str
    scheme: str
    qas: bool
    emulated: str
    repeated: bool = False


CASES = (
    Case("100 KB", "mcunet-5fps-100kb", True, "81.3", repeated=True),
    Case("head only", "head", True, "69.4"),
    Case("22 biases + head", "bias:22", True, "78.0"),
    Case("last 6", "last:6", True, "78.9"),
    Case("100 KB without QAS", "mcunet-5fps-100kb", False, "69.4"),
)


def main() -> None:
    """Print the table, a row at a time."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shared", default=os.environ.get("MCUTRAIN_SHARED", "../shared"))
    parser.add_argument("--seeds", type=int, default=3, help="for the 100 KB scheme")
    parser.add_argument("--samples", type=int, default=4000)
    arguments = parser.parse_args()
    shared = Path(arguments.shared)
    table = Table("scheme", "seed", "top-1 %", "float emulation", "SRAM", "ms per step")
    console = Console()
    for case in CASES:
        for seed in range(arguments.seeds if case.repeated else 1):
            accuracy, sram_bytes, step_ms = train(shared, case, seed, arguments.samples)
            row = (case.name, str(seed), f"{100 * accuracy:.1f}", case.emulated)
            table.add_row(*row, f"{sram_bytes:,}", f"{step_ms:.2f}")
            console.print(f"{case.name}, seed {seed}: {100 * accuracy:.1f} %")
    console.print(table)


def train(
    shared: Path, case: Case, seed: int, samples: int, rate: float = RATE
) -> tuple[float, int, float]:
    """Final accuracy, planned SRAM, and milliseconds per training step, evaluation left out."""
    step = prepare(shared / MODEL, case.scheme, classes=10, head_seed=seed, qas=case.qas)
    split = data.load(shared / DATA)
    split = data.Split(split.train.subset(samples), split.test)
    settings = RunSettings(4, rate, seed=seed, flip=True)
    x = step.graph.tensors[step.graph.inputs[0]].type
    prepared = Samples.prepare(split, x.shape[1:], x.scale, x.zero_point, settings)
    run = Run(step.simulator(seed=seed + 1), prepared, settings)
    state = run.train()
    step_ms = 1000 * sum(epoch.seconds for epoch in state.epochs) / run.total
    return state.epochs[-1].test_accuracy, step.plan.sram_bytes, step_ms


if __name__ == "__main__":
    main()

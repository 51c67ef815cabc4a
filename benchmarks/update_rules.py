"""What an update rule gains beside more trained columns: accuracy and SRAM, on CIFAR-10.

    .venv/bin/python benchmarks/update_rules.py --shared ../shared --seeds 3

Each row is a scheme of mcunet-5fps and a rule, at one learning rate (times 1/256). SRAM is arena
and state. It trains on --samples of cifar10_10k2k.npz for --epochs, one sample an update.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import mcutrain
from mcutrain.sparse import parse_scheme

ROWS = (
    ("mcunet-5fps-49kb", "sgd", 0.2),
    ("mcunet-5fps-49kb", "momentum", 0.02),
    ("mcunet-5fps-49kb", "rmsprop", 0.025),
    ("mcunet-5fps-74kb", "sgd", 0.2),
)
"""Scheme, rule, learning rate."""


def main() -> None:
    """Train, print each run as it ends, and the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shared", type=Path, default=Path("../shared"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--samples", type=int, default=2500)
    parser.add_argument("--test-samples", type=int, default=1500)
    parser.add_argument("--epochs", type=int, default=2)
    options = parser.parse_args()
    table = Table("scheme", "rule", "rate", "SRAM", "top-1 %", "seeds")
    for scheme, rule, rate in ROWS:
        results = [accuracy(scheme, rule, rate, seed, options) for seed in range(options.seeds)]
        percent = [100 * found for found, _ in results]
        error = np.std(percent, ddof=1) / np.sqrt(len(percent)) if len(percent) > 1 else 0.0
        each = ", ".join(f"{p:.1f}" for p in percent)
        mean = f"{np.mean(percent):.2f} ± {error:.2f}"
        table.add_row(scheme, rule, f"{rate}/256", f"{results[0][1]:,}", mean, each)
    Console(width=120).print(table)


def accuracy(
    scheme: str, rule: str, rate: float, seed: int, options: argparse.Namespace
) -> tuple[float, int]:
    """Train once. Return the accuracy, and the bytes of arena and state."""
    result = mcutrain.simulate(
        options.shared / "models" / "mcunet-5fps.int8.tflite",
        options.shared / "data" / "cifar10_10k2k.npz",
        replace(parse_scheme(scheme), update_rule=rule),
        epochs=options.epochs,
        learning_rate=rate / 256,
        seed=seed,
        samples=options.samples,
        test_samples=options.test_samples,
    )
    print(f"{scheme} {rule} seed {seed}: {100 * result.accuracy:.2f} %", flush=True)
    return result.accuracy, result.sram_bytes


if __name__ == "__main__":
    main()

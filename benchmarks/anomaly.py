"""An autoencoder learns a machine's normal sound on the device; its loss tells anomalies.

    .venv/bin/python benchmarks/anomaly.py --shared ../shared [--data sounds.npz]

ad01_int8 (640 log-mel features in and out) learns without labels, by mean squared error in the
device's integers, batch 1. --data: x_train (normal), x_test, y_test (1 = anomaly) as the model
takes them, such as the features of ToyADMOS. Without it the data is SYNTHETIC: spectra of 128 mel
bands by 5 frames with a few harmonics of drifting strength, on another noise floor than the model
was trained with; in an anomaly one harmonic lies some bands beside its place. That shows that
training works, not how good the model is.

Printed are the mean loss of all test samples (squared steps of the input) and the AUC, before and
after, for training the last layer, one sparse scheme, and everything.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

from mcutrain import data, pipeline, prepare
from mcutrain.ir.graph import TensorType
from mcutrain.runs.training import prepare_run
from mcutrain.simulation import RunSettings

MODEL = "models/ad01_int8.tflite"
SCHEMES = ("head", "6:1,7:1,8:1,bias:4", "full")
BANDS, FRAMES = 128, 5
HARMONICS = 4
SHIFT_BANDS = 8
TRAINING, TESTS = 1000, 300


def main() -> None:
    """Print the table, a row at a time."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shared", default=os.environ.get("MCUTRAIN_SHARED", "../shared"))
    parser.add_argument("--data", type=Path, help="an .npz file; synthetic spectra without")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--lr", type=float, default=0.1 / 256, help="per sample")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    graph = pipeline.load(Path(arguments.shared) / MODEL)
    console = Console()
    if arguments.data is None:
        console.print("Synthetic data; --data FILE takes real features.")
        split = synthetic(graph.tensors[graph.inputs[0]].type, arguments.seed)
    else:
        split = data.load(arguments.data)
    settings = RunSettings(arguments.epochs, arguments.lr, seed=arguments.seed)
    columns = ("scheme", "loss before", "loss after", "AUC before", "AUC after", "SRAM", "ms")
    table = Table(*columns)
    for scheme in SCHEMES:
        step = prepare(graph, scheme, loss="mse")
        run = prepare_run(step, split, settings)
        run.train()
        last = run.state.epochs[-1]
        numbers = (run.state.loss_before, last.test_loss, run.state.auc_before, last.test_auc)
        loss_before, loss, auc_before, auc = (0.0 if n is None else n for n in numbers)
        step_ms = 1000 * run.state.seconds / run.total
        row = (scheme, f"{loss_before:.1f}", f"{loss:.1f}", f"{auc_before:.3f}", f"{auc:.3f}")
        table.add_row(*row, f"{step.plan.sram_bytes:,}", f"{step_ms:.2f}")
        console.print(f"{scheme}: loss {loss:.1f}, AUC {auc:.3f}")
    console.print(table)


def synthetic(x: TensorType, seed: int) -> data.Split:
    """Normal spectra to learn from, normal ones and anomalies to test on, as int8."""
    rng = np.random.default_rng(seed)
    machine = rng.uniform(5, 115, HARMONICS)
    normal = spectra(rng, machine, TRAINING + TESTS)
    moved = machine + np.where(np.arange(HARMONICS) == 1, SHIFT_BANDS, 0)
    strange = spectra(rng, moved, TESTS)
    test = np.concatenate((normal[TRAINING:], strange))
    parts = [np.rint(p / x.scale) + x.zero_point for p in (normal[:TRAINING], test)]
    first, second = (np.clip(p, -128, 127).astype(np.int8) for p in parts)
    labels = np.repeat(np.arange(2), TESTS)
    labelled = data.Dataset(second, labels, ("normal", "anomaly"))
    return data.Split(data.Dataset(first, np.zeros(TRAINING, int), labelled.names), labelled)


def spectra(
    rng: np.random.Generator, peaks: npt.NDArray[np.float64], count: int
) -> npt.NDArray[np.float64]:
    """[count, frames * bands] in dB: harmonics of drifting strength above a sloping noise floor."""
    band = np.arange(BANDS)
    shapes = np.exp(-0.5 * ((band - peaks[:, None]) / 3) ** 2)
    strength = rng.uniform(8, 20, (count, 1, len(peaks))) + rng.normal(0, 1.5, (count, FRAMES, 1))
    floor = -45 - 0.1 * band + rng.normal(0, 2, (count, FRAMES, BANDS))
    found: npt.NDArray[np.float64] = (floor + strength @ shapes).reshape(count, -1)
    return found


if __name__ == "__main__":
    main()

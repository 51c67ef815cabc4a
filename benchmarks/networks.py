"""What all commands make of float model files, from the file to the trained export: a line each.

    .venv/bin/python benchmarks/networks.py nets/*.onnx

Files of benchmarks/export_networks.py, or any others. Calibrated with noise (--samples), which
tells whether a network is read and how long it takes, not how well it would do. snr: of the int8
outputs, in dB. Written as .tflite; with * as .onnx, where the other has no such operators.
differing: outputs other than those of TFLite's reference kernels, or of onnxruntime, of --verify
inputs, and the largest difference in steps. KB of arena + trainable state by scheme. Ten steps of
--scheme (full where there are fewer layers) are simulated and exported; trained: outputs of that
file that differ. s and MB of quantize, of plan with the last scheme, of simulate with building and
testing.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from rich.console import Console
from rich.table import Table

from mcutrain.errors import McutrainError
from mcutrain.formats import load, read_float
from mcutrain.sparse import find_head
from mcutrain.sparse.layers import layers_of

T = TypeVar("T")

SCHEMES = ("head", "bias:8", "last:4", "full")
STEPS = 10
RATE = 0.01


@dataclass(frozen=True)
class Run:
    """One command. megabytes: its largest resident memory."""

    status: int
    output: str
    error: str
    seconds: float
    megabytes: float

    def json(self) -> Any:
        """What it printed."""
        return json.loads(self.output)


def run(*arguments: object) -> Run:
    """`mcutrain ARGUMENTS --json`, measured."""
    command = [sys.executable, "-m", "mcutrain.cli", *map(str, arguments), "--json"]
    began = time.monotonic()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(command, stdout=out, stderr=err)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.monotonic() - began
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode("utf-8", "replace"))
    return Run(process.returncode, *texts, seconds, usage.ru_maxrss / 1024)


def main() -> None:
    """Print the table; refusals under it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--verify", type=int, default=1)
    parser.add_argument("--scheme", default="last:4")
    parser.add_argument("--keep", type=Path, help="a folder for the int8 models")
    options = parser.parse_args()
    table = Table("network", "layers", "parameters", "snr", "differing", *SCHEMES, "trained",
                  "quantize", "plan", "simulate")  # fmt: skip
    refused = []
    for i, path in enumerate(options.models):
        print(f"{i + 1} of {len(options.models)}: {path.name}", file=sys.stderr)
        with tempfile.TemporaryDirectory() as folder:
            try:
                cells = row(options, path, Path(folder))
            except McutrainError as error:
                refused.append(f"{path.name}: {error}")
            else:
                print(*cells, sep=" | ", file=sys.stderr)
                table.add_row(*cells)
    Console(width=200).print(table)
    print(*refused, sep="\n")


def row(options: argparse.Namespace, path: Path, folder: Path) -> Sequence[str]:
    """The cells of a network. Raises McutrainError where a command refuses the model."""
    data = folder / "noise.npz"
    shape = elsewhere(input_shape, path)
    x = np.random.default_rng(0).normal(0, 1, (options.samples, *shape))
    np.savez(data, x=x.astype(np.float32), y=np.arange(options.samples))
    quantized, int8 = quantize(options, path, data, folder)
    layers, parameters, classes = elsewhere(counts, int8)
    plans = [run("plan", int8, "--scheme", scheme) for scheme in SCHEMES]
    sizes = [f"{p.json()['sram_bytes'] / 1000:,.0f}" if not p.status else "—" for p in plans]
    x = np.random.default_rng(1).normal(0, 1, (STEPS + 1, *shape))
    course, state = folder / "course.npz", folder / "state.mcts"
    parts = np.array(["train"] * STEPS + ["test"])
    np.savez(course, x=x.astype(np.float32), y=np.arange(STEPS + 1) % classes, split=parts)
    scheme = "full" if run("plan", int8, "--scheme", options.scheme).status else options.scheme
    flags = ("--scheme", scheme, "--classes", "keep", "--epochs", 1)
    rate = ("--lr", RATE, "--save-state", state)
    simulated = accepted("simulate", int8, "--data", course, *flags, *rate)
    trained = folder / f"trained{int8.suffix}"
    exported = accepted("export", int8, "--state", state, "--scheme", scheme, "-o", trained)
    assert exported.json()["changed"], f"{path}: nothing was trained"
    return (
        path.stem + "*" * (int8.suffix == ".onnx"),
        str(layers),
        f"{parameters:,}",
        f"{quantized.json()['chosen']['snr_db']:.1f}",
        differing(options, int8),
        *sizes,
        differing(options, trained),
        *(f"{r.seconds:.1f} s {r.megabytes:,.0f} MB" for r in (quantized, plans[-1], simulated)),
    )


def elsewhere(function: Callable[[Path], T], path: Path) -> T:
    """What a function returns, called in a process of its own.

    What a process holds when it starts a command counts as the command's memory.
    """
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(function, path).result()


def input_shape(path: Path) -> tuple[int, ...]:
    """Shape of a float model's sample."""
    return read_float(path).network.input_shape[1:]


def counts(int8: Path) -> tuple[int, int, int]:
    """Layers, parameters and classes of an int8 model."""
    graph = load(int8)
    parameters = sum(t.type.elements for t in graph.tensors.values() if t.is_constant)
    classes = graph.tensors[graph.outputs[0]].type.shape[-1]
    return 1 + len(layers_of(graph, find_head(graph))), parameters, classes


def quantize(options: argparse.Namespace, path: Path, data: Path, folder: Path) -> tuple[Run, Path]:
    """The model in int8, as .tflite if that has its operators."""
    folder = options.keep or folder
    folder.mkdir(parents=True, exist_ok=True)
    flags = ("--calibration", data, "--samples", options.samples, "-o")
    written = folder / f"{path.stem}.int8.tflite"
    if not (found := run("quantize", path, *flags, written)).status:
        return found, written
    written = written.with_suffix(".onnx")
    return accepted("quantize", path, *flags, written), written


def differing(options: argparse.Namespace, model: Path) -> str:
    """Outputs of the generated C that are not a runtime's."""
    found = accepted("verify", model, "--samples", options.verify, "--reference-samples", 0).json()
    ours = next(c for c in found["comparisons"] if c["of"] == "host C")
    return f"{ours['differing']:,} of {ours['outputs']:,}, {ours['largest']}"


def accepted(*arguments: object) -> Run:
    """A command that ends well. Raises McutrainError with its sentence otherwise."""
    found = run(*arguments)
    if found.status not in (0, 1):  # verify: outputs differ
        raise McutrainError(f"{arguments[0]}: {found.error[-400:].strip()}")
    return found


if __name__ == "__main__":
    main()

"""What quantize, verify and plan make of float model files: one line for each.

    .venv/bin/python benchmarks/networks.py nets/*.onnx

Files of benchmarks/export_networks.py, or any others. Calibrated with noise (--samples), which
tells whether a network is read and how long it takes, not how well it would do. snr: of the int8
outputs, in dB. differing: outputs other than onnxruntime's, not optimized, of --verify inputs, and
the largest difference in steps; 0 where a .tflite is verified. KB of arena + trainable state by
scheme; s and MB of quantize, of plan with the last scheme.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from mcutrain.errors import McutrainError
from mcutrain.formats import load, read_float
from mcutrain.sparse import find_head
from mcutrain.sparse.layers import layers_of

SCHEMES = ("head", "bias:8", "last:4", "full")


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
    options = parser.parse_args()
    table = Table("network", "layers", "parameters", "snr", "differing", *SCHEMES, "quantize",
                  "plan")  # fmt: skip
    refused = []
    with tempfile.TemporaryDirectory() as folder:
        for i, path in enumerate(options.models):
            print(f"{i + 1} of {len(options.models)}: {path.name}", file=sys.stderr)
            try:
                table.add_row(path.stem, *row(path, Path(folder), options.samples, options.verify))
            except McutrainError as error:
                refused.append(f"{path.name}: {error}")
    Console(width=150).print(table)
    print(*refused, sep="\n")


def row(path: Path, folder: Path, samples: int, verified: int) -> Sequence[str]:
    """The cells behind the name. Raises McutrainError where the model is refused."""
    data, int8 = folder / "noise.npz", folder / f"{path.stem}.int8.onnx"
    network = read_float(path).network
    x = np.random.default_rng(0).normal(0, 1, (samples, *network.input_shape[1:]))
    np.savez(data, x=x.astype(np.float32), y=np.zeros(samples, np.int64))
    quantized = run("quantize", path, "--calibration", data, "--samples", samples, "-o", int8)
    if quantized.status:
        raise McutrainError(quantized.error.splitlines()[-1])
    graph = load(int8)
    weights = [t for t in graph.tensors.values() if t.is_constant]
    found = run("verify", int8, "--samples", verified).json()
    (ours,) = [
        c for c in found["comparisons"] if (c["of"], c["against"]) == ("host C", "onnxruntime")
    ]
    plans = [run("plan", int8, "--scheme", scheme) for scheme in SCHEMES]
    sizes = [f"{p.json()['sram_bytes'] / 1000:,.0f}" if not p.status else "—" for p in plans]
    return (
        str(1 + len(layers_of(graph, find_head(graph)))),
        f"{sum(t.type.elements for t in weights):,}",
        f"{quantized.json()['chosen']['snr_db']:.1f}",
        f"{ours['differing']:,} of {ours['outputs']:,}, {ours['largest']}",
        *sizes,
        *(f"{r.seconds:.1f} s {r.megabytes:,.0f} MB" for r in (quantized, plans[-1])),
    )


if __name__ == "__main__":
    main()

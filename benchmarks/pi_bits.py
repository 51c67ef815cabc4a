"""Ten training steps of int8 models in the Raspberry Pi's program, and whether the bits agree.

    .venv/bin/python benchmarks/pi_bits.py nets/*.int8.onnx --scheme last:4 --threads 1 2 4

The program runs in qemu-aarch64, with each number of threads, and learns what the simulation here
learns: noise, with classes in turn. same: the states, bit for bit. moved: bytes of the state that
training changed, so that equal states mean something. s: of the last run, the emulator's.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from mcutrain_host.build import build
from mcutrain_host.client import Device, Patience
from mcutrain_host.link import SerialLink
from mcutrain_host.protocol import Rate
from rich.console import Console
from rich.table import Table

from mcutrain import pipeline
from mcutrain.errors import McutrainError
from mcutrain.simulation.rates import LearningRate
from mcutrain.target import load_target

SEED = 1  # what programs start from
BOARD = "raspberry-pi"
PATIENCE = Patience(answer_seconds=120.0, work_seconds=3600.0)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--scheme", default="last:4")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--rate", type=float, default=0.01)
    parser.add_argument("--emulator", default="qemu-aarch64 -cpu cortex-a72")
    options = parser.parse_args()
    table = Table("network", "scheme", "state", "moved", *map(str, options.threads), "s")
    console = Console(width=100)
    for path in options.models:
        try:
            cells = [path.name.split(".")[0], options.scheme, *row(options, path)]
            console.print(", ".join(cells))  # networks take minutes each
            table.add_row(*cells)
        except McutrainError as error:
            console.print(f"{path.name}: {error}")
    console.print(table)


def row(options: argparse.Namespace, path: Path) -> Sequence[str]:
    """The cells behind the scheme."""
    step = pipeline.prepare(path, options.scheme)
    classes = int(np.prod(step.graph.tensors[step.graph.outputs[0]].type.shape))
    shape = (options.steps, *step.input_type.shape[1:])
    x = np.random.default_rng(0).integers(-128, 128, shape).astype(np.int8)
    y = np.arange(options.steps) % classes
    rate = LearningRate.of(options.rate)
    simulator = step.simulator(SEED)
    before = np.frombuffer(simulator.save(), np.uint8)
    simulator.train(x, y, [rate] * len(y))
    after = simulator.save()
    moved = int(np.count_nonzero(before != np.frombuffer(after, np.uint8)))
    cells = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        step.firmware(load_target(BOARD)).write(folder)
        build(folder, None, "-O3")
        for threads in options.threads:
            began = time.monotonic()
            state = trained(options, folder, threads, x, y, rate)
            cells.append("same" if state == after else "OTHER")
            seconds = time.monotonic() - began
    return (f"{len(after):,}", f"{moved:,}", *cells, f"{seconds:.0f}")


def trained(
    options: argparse.Namespace, folder: Path, threads: int, x: Any, y: Any, rate: LearningRate
) -> bytes:
    """The state of the program after learning the samples."""
    command = [*options.emulator.split(), "build/firmware", "--port", "tcp:0", "--state", "slots"]
    command += ["--threads", str(threads)]
    (folder / "slots").unlink(missing_ok=True)
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as program:
        try:
            assert program.stdout is not None
            port = program.stdout.readline().split()[1].rstrip(",;:")
            with SerialLink(port) as link:
                device = Device(link, PATIENCE)
                device.reset(SEED)
                for position, (sample, label) in enumerate(zip(x, y, strict=True)):
                    device.send_sample(sample.tobytes())
                    device.train(int(label), position, Rate(rate.mult_q31, rate.shift))
                return device.read_state()
        finally:
            program.kill()


if __name__ == "__main__":
    main()

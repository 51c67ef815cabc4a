"""Instructions per inference and per training step on emulated chips, by kind of operator.

    .venv/bin/python benchmarks/device_instructions.py --model mcunet-5fps.int8.tflite \
        --scheme mcunet-5fps-49kb --classes 10

Executed instructions of the firmware's own ELF file on the virtual board, counted exactly; they do
not depend on this machine. A Cortex-M55 runs in QEMU, with a plugin that counts. The third step is
counted: in the first ones the gradients' exponents have not settled. Without --model the demo's
network. In brackets, of functions that multiply: MACs for each instruction.

--as-library counts a library, too, built by its own Makefile for the board's processor: with `all`
the compiler chooses the kernels, `portable` are those that a library had before it could choose.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
from as_library import build_as_library
from mcutrain_host.build import build
from mcutrain_host.client import Device
from mcutrain_host.protocol import Rate
from mcutrain_host.virtual.board import DirectLink, load_machine
from mcutrain_host.virtual.link import LoopbackLink
from mcutrain_host.virtual.machine import Machine
from qemu_instructions import counted_board

from mcutrain import demo, prepare
from mcutrain.ir.graph import Graph
from mcutrain.memplan.calls import kernel_call
from mcutrain.pipeline import load
from mcutrain.target import load_target

BOARDS = ("stm32f746g-disco", "mps2-an386", "rpi-pico", "mps3-an547")
RATE = Rate(1 << 30, -4)
SETTLING_STEPS = 2
OWN = "calls and bookkeeping"


def main() -> None:
    """Print a table for inference and one for the training step."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, default=demo.MODEL)
    parser.add_argument("--scheme", default="fashion-sparse")
    parser.add_argument("--classes", type=int)
    parser.add_argument("--gradient-bits", type=int, choices=(8, 16), default=8)
    parser.add_argument("--boards", nargs="+", default=BOARDS)
    parser.add_argument("--compiler", help="gcc or zig; the board's gcc if it is installed")
    parser.add_argument("--optimize", default="-O3")
    parser.add_argument("--as-library", nargs="+", default=(), metavar="ISA", help="all portable")
    options = parser.parse_args()
    step = prepare(
        load(options.model),
        options.scheme,
        classes=options.classes,
        gradient_dtype=f"int{options.gradient_bits}",
    )
    counts = {board: measure(step, board, options) for board in options.boards}
    for board in options.boards:
        for isa in options.as_library:
            counts[f"{board}, {isa}"] = measure(step, board, options, isa)
    training = step.plan.training
    graphs = {"inference": training.forward, "training step": training.graph}
    for kind, (title, graph) in enumerate(graphs.items()):
        print_table(title, {board: both[kind] for board, both in counts.items()}, macs(graph))


def measure(step, board: str, options, isa: str = "") -> tuple[Counter[str], Counter[str]]:
    """Instructions by function, of one inference and of one training step.

    isa: of a library, as `mcutrain generate --isa` takes it; by default it is the firmware.
    """
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "project"
        if isa:
            build_as_library(step, board, folder, options.optimize, isa)
        else:
            step.firmware(load_target(board)).write(folder)
            build(folder, options.compiler, options.optimize)
        if not load_target(board).emulation.unicorn:
            with counted_board(folder) as qemu:
                return counts_of(qemu.device, qemu.counted)
        machine = load_machine(folder, LoopbackLink())
    return counts_of(Device(DirectLink(machine)), partial(counted, machine))


def counts_of(
    device: Device, count: Callable[[Callable[[], object]], Counter[str]]
) -> tuple[Counter[str], Counter[str]]:
    """Count instructions on a board that has just started.

    count: returns what the model's calls took during an action.
    """
    inference, training = (count(action) for _, action in settled(device))
    return inference, training


def settled(device: Device) -> Iterator[tuple[str, Callable[[], object]]]:
    """Train until exponents have settled; then yield an inference and a step, each with its name.

    Both begin with a sample that is sent, since what computes row by row begins with its rows.
    """
    size = device.identify().input_bytes
    random = np.random.default_rng(0)

    def send() -> None:
        device.send_sample(random.integers(-128, 128, size).astype(np.int8).tobytes())

    for position in range(SETTLING_STEPS):
        send()
        device.train(position, position, RATE)
    yield "inference", lambda: (send(), device.infer())
    yield "step", lambda: (send(), device.train(0, SETTLING_STEPS, RATE))


def counted(machine: Machine, action) -> Counter[str]:
    """What the model's calls took while `action` ran."""
    before = totals(machine)
    action()
    return totals(machine) - before


def totals(machine: Machine) -> Counter[str]:
    """By the function that the model's code called."""
    found: Counter[str] = Counter()
    for row in machine.operators():
        if row.root in ("mct_feed", "mct_infer", "mct_train") or row.root.startswith("segment_"):
            found[row.function if row.index else OWN] += row.instructions
    return found


def macs(graph: Graph) -> Counter[str]:
    """Products by the function that a node calls."""
    found: Counter[str] = Counter()
    for node in graph.nodes:
        if not node.op.is_view:
            types, results = graph.types(node.inputs), graph.types(node.outputs)
            found[kernel_call(node.op, types, results).function] += node.op.macs(types, results)
    return found


def print_table(title: str, counts: dict[str, Counter[str]], products: Counter[str]) -> None:
    """Largest first, in millions."""

    def cell(function: str, count: int) -> str:
        each = f" ({products[function] / count:.2f})" if count and products[function] else " " * 7
        return f"{count / 1e6:20.3f}{each}"

    functions = sorted(
        {f for c in counts.values() for f in c}, key=lambda f: (-_most(counts, f), f)
    )
    print(f"\n{title}, millions of instructions")
    print(f"{'':42}" + "".join(f"{board:>27}" for board in counts))
    for function in functions:
        print(f"{function:42}" + "".join(cell(function, c[function]) for c in counts.values()))
    print(f"{'all':42}" + "".join(cell("", sum(c.values())) for c in counts.values()))


def _most(counts: dict[str, Counter[str]], function: str) -> int:
    return max(c[function] for c in counts.values())


if __name__ == "__main__":
    main()

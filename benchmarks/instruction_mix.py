"""What the instructions of a board's convolutions are, by kind of layer.

    .venv/bin/python benchmarks/instruction_mix.py --model mcunet-5fps.int8.tflite \
        --scheme mcunet-5fps-49kb --classes 10

The firmware keeps images as a whole, so that a layer is one call. Unicorn executes a settled
inference and step; every block that it enters counts for the call that has begun last, and is
disassembled. unpack: sxtb16, pkhbt and their kin. Without --model the demo's network.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from device_instructions import settled
from mcutrain_host.build import build
from mcutrain_host.client import Device
from mcutrain_host.virtual.board import DirectLink, load_machine
from mcutrain_host.virtual.link import LoopbackLink
from mcutrain_host.virtual.machine import Machine
from rich.console import Console
from rich.table import Table
from unicorn import UC_HOOK_BLOCK

from mcutrain import demo, prepare
from mcutrain.ir.graph import Graph, Node
from mcutrain.memplan.calls import kernel_call
from mcutrain.ops.conv_2d import Conv2D, Conv2DGradInput
from mcutrain.ops.depthwise_conv_2d import DepthwiseConv2D
from mcutrain.pipeline import load
from mcutrain.target import load_target

SORTS = {
    "multiply": ("smla", "smua", "smul", "smmul", "smml", "smusd", "smlsd", "mul", "mla", "mls"),
    "load": ("ldr", "ldm", "pop", "vldr"),
    "unpack": ("sxtb16", "uxtb16", "sxtab16", "uxtab16", "pkh"),
    "store": ("str", "stm", "push", "vstr"),
}
"""By how the instruction's name begins; the others are the rest."""
MOST_CHANNELS = {16: "1×1, up to 16 channels in", 48: "1×1, 17 to 48", 144: "1×1, 49 to 144"}
Blocks = Counter[tuple[int, int]]


def main() -> None:
    """Print a row for each kind."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, default=demo.MODEL)
    parser.add_argument("--scheme", default="fashion-sparse")
    parser.add_argument("--classes", type=int)
    parser.add_argument("--board", default="mps2-an500")
    options = parser.parse_args()
    step = prepare(load(options.model), options.scheme, classes=options.classes, stream="off")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        step.firmware(load_target(options.board)).write(folder)
        build(folder)
        names = instruction_names(folder)
        machine = load_machine(folder, LoopbackLink())
    training = step.plan.training
    kinds: dict[str, tuple[int, Blocks]] = {}
    runs = settled(Device(DirectLink(machine)))
    for (_, action), graph, wanted in zip(
        runs, (training.forward, training.graph), (forward_kind, backward_kind), strict=True
    ):
        for node, blocks in calls(machine, graph, action):
            kind = wanted(node, graph)
            if kind:
                macs, before = kinds.get(kind, (0, Counter()))
                types, results = graph.types(node.inputs), graph.types(node.outputs)
                kinds[kind] = macs + node.op.macs(types, results), before + blocks
    print_table(names, kinds)


def calls(
    machine: Machine, graph: Graph, action: Callable[[], object]
) -> Iterator[tuple[Node, Blocks]]:
    """Each node that is a call, and the blocks from its beginning to the next one's."""
    nodes = [node for node in graph.nodes if not node.op.is_view]
    names = [
        kernel_call(node.op, graph.types(node.inputs), graph.types(node.outputs)).function
        for node in nodes
    ]
    starts = {f.address & ~1: f.name for f in machine.cpu.counter.functions if f.name in set(names)}
    found: list[tuple[str, Blocks]] = []

    def on_block(_, address: int, length: int, __) -> None:
        if address in starts:
            found.append((starts[address], Counter()))
        if found:
            found[-1][1][address, length] += 1

    hook = machine.cpu.engine.hook_add(UC_HOOK_BLOCK, on_block)
    machine.cpu.engine.ctl_flush_tb()
    action()
    machine.cpu.engine.hook_del(hook)
    assert [name for name, _ in found] == names, "each node is a call"
    yield from zip(nodes, (blocks for _, blocks in found), strict=True)


def forward_kind(node: Node, graph: Graph) -> str:
    """What the row of a layer is called; "" if it has none."""
    if not isinstance(node.op, Conv2D | DepthwiseConv2D):
        return ""
    (height, width), (stride, _) = node.op.window.kernel, node.op.window.stride
    name = f"{height}×{width}, stride {stride}"
    if isinstance(node.op, DepthwiseConv2D):
        return f"depthwise {name}"
    _, rows, columns, channels = graph.types(node.inputs)[0].shape
    if (height, width) != (1, 1):
        return name
    if (rows, columns) == (1, 1):
        return ""
    most = sorted(MOST_CHANNELS)
    at = bisect_left(most, channels)
    return MOST_CHANNELS[most[at]] if at < len(most) else "1×1, more"


def backward_kind(node: Node, graph: Graph) -> str:
    """The same of the backward pass."""
    is_wanted = isinstance(node.op, Conv2DGradInput) and node.op.window.kernel == (1, 1)
    return "input gradients of 1×1" if is_wanted else ""


def instruction_names(folder: Path) -> dict[int, str]:
    """By address, as objdump prints them."""
    (elf,) = folder.rglob("*.elf")
    command = ["arm-none-eabi-objdump", "--disassemble", "--wide", str(elf)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = (line.split("\t") for line in done.stdout.splitlines())
    return {int(line[0].strip(" :"), 16): line[2] for line in lines if len(line) > 2}


def print_table(names: dict[int, str], kinds: dict[str, tuple[int, Blocks]]) -> None:
    """MACs, instructions in millions, and their sorts in percent."""
    table = Table("layers", "MACs", "instructions", "MACs each", *SORTS, "rest")
    for kind, (macs, blocks) in sorted(kinds.items()):
        sorts: Counter[str] = Counter()
        for (address, length), times in blocks.items():
            for at in range(address, address + length, 2):
                if at in names:
                    sorts[sort_of(names[at])] += times
        total = sum(sorts.values())
        cells = (f"{macs / 1e6:.2f}", f"{total / 1e6:.2f}", f"{macs / total:.2f}")
        shares = (f"{100 * sorts[sort] / total:.0f}" for sort in (*SORTS, "rest"))
        table.add_row(kind, *cells, *shares)
    Console(width=110).print(table)


def sort_of(name: str) -> str:
    """Which column an instruction counts in."""
    return next((sort for sort, begins in SORTS.items() if name.startswith(begins)), "rest")


if __name__ == "__main__":
    main()

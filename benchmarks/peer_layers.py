"""Layers of a network with their values, and a core that executes a program and counts."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from counting_core import thumb_counter
from elftools.elf.elffile import ELFFile
from unicorn import UC_ARCH_ARM, UC_MODE_MCLASS, UC_MODE_THUMB, Uc
from unicorn.arm_const import UC_ARM_REG_LR, UC_ARM_REG_R0, UC_ARM_REG_SP

from mcutrain.ir.graph import Graph, Node
from mcutrain.ir.interpret import interpret
from mcutrain.ops.add import Add
from mcutrain.ops.conv_2d import Conv2D
from mcutrain.ops.depthwise_conv_2d import DepthwiseConv2D
from mcutrain.ops.pooling import AveragePool2D

Array = npt.NDArray[np.generic]

ORIGIN, MEMORY_BYTES = 0x10000, 64 << 20
RETURN = ORIGIN + MEMORY_BYTES - 0x1000
"""Where functions that are called return to; the stack lies below."""
COMPARED = (Add, AveragePool2D, Conv2D, DepthwiseConv2D)


@dataclass(frozen=True)
class Layer:
    """A node of the network, what it gets, and what it should give."""

    node: Node
    kind: str
    macs: int
    inputs: tuple[Array, ...]
    output: Array


class Core:
    """A Cortex-M with a program, that counts."""

    def __init__(self, elf: Path) -> None:
        with elf.open("rb") as file:
            program = ELFFile(file)
            symbols = program.get_section_by_name(".symtab").iter_symbols()
            self.addresses = {symbol.name: symbol["st_value"] for symbol in symbols}
            parts = [(s["p_vaddr"], s.data()) for s in program.iter_segments("PT_LOAD")]
        self.engine = Uc(UC_ARCH_ARM, UC_MODE_THUMB | UC_MODE_MCLASS)
        self.engine.mem_map(ORIGIN, MEMORY_BYTES)
        for address, data in parts:
            self.engine.mem_write(address, data)
        self.counter = thumb_counter(self.engine, ORIGIN, ORIGIN + MEMORY_BYTES)

    def call(self, function: str) -> int:
        """The instructions of a call."""
        self.counter.face.count = 0
        self.engine.reg_write(UC_ARM_REG_SP, RETURN)
        self.engine.reg_write(UC_ARM_REG_LR, RETURN | 1)
        self.engine.emu_start(self.addresses[function] | 1, RETURN)
        assert self.engine.reg_read(UC_ARM_REG_R0) == 0, f"{function} was not computed"
        return self.counter.face.count

    def write(self, variable: str, data: Array) -> None:
        """Into a variable of the program."""
        self.engine.mem_write(self.addresses[variable], data.tobytes())

    def read(self, variable: str, size_bytes: int) -> Array:
        """Read a variable of the program."""
        data = self.engine.mem_read(self.addresses[variable], size_bytes)
        return np.frombuffer(bytes(data), np.int8)


def layers_of(graph: Graph) -> list[Layer]:
    """What is compared, on a sample of noise."""
    (name,) = graph.inputs
    shape = graph.tensors[name].type.shape
    sample = np.random.default_rng(0).integers(-128, 128, shape).astype(np.int8)
    nodes = [node for node in graph.nodes if isinstance(node.op, COMPARED)]
    wanted = [output for node in graph.nodes for output in node.outputs]  # a view's, too
    values = {name: sample, **interpret(graph, {name: sample}, wanted)}
    values |= {n: t.data for n, t in graph.tensors.items() if t.data is not None}
    found = []
    for node in nodes:
        types, results = graph.types(node.inputs), graph.types(node.outputs)
        x = tuple(values[n] for n in node.inputs)
        macs = node.op.macs(types, results)
        found.append(Layer(node, kind_of(node, x), macs, x, values[node.outputs[0]]))
    return found


def kind_of(node: Node, x: Sequence[Array]) -> str:
    """What a row of the table is called."""
    op = node.op
    if isinstance(op, Add):
        return "addition"
    if isinstance(op, AveragePool2D):
        return "average pooling"
    (height, width), (stride, _) = op.window.kernel, op.window.stride
    if isinstance(op, Conv2D) and height * width == 1:
        return "fully connected" if x[0].shape[1:3] == (1, 1) else "convolution 1×1"
    name = "convolution" if isinstance(op, Conv2D) else "depthwise"
    return f"{name} {height}×{width}, stride {stride}"


def variables(layer: Layer) -> Iterator[tuple[str, Array]]:
    """What a layer reads."""
    yield "x", layer.inputs[0]
    if isinstance(layer.node.op, Add):
        yield "other", layer.inputs[1]
    elif isinstance(layer.node.op, Conv2D | DepthwiseConv2D):
        scales, channels = layer.node.op.requantize, layer.output.shape[-1:]
        yield "weight", layer.inputs[1]
        yield "bias", layer.inputs[2].astype(np.int32)
        yield "multiplier", np.broadcast_to(np.array(scales.mult_q31, np.int32), channels)
        yield "shift", np.broadcast_to(np.array(scales.shift, np.int32), channels)


def linked(
    command: Sequence[str],
    sources: Sequence[Path],
    functions: Sequence[str],
    libraries: Sequence[str],
    scratch: Path,
) -> Path:
    """A program with these functions. command: of the compiler, without -c."""
    objects = [scratch / f"{n}.o" for n in range(len(sources))]

    def compile_one(pair: tuple[Path, Path]) -> None:
        subprocess.run([*command, "-c", str(pair[0]), "-o", str(pair[1])], check=True)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(compile_one, zip(sources, objects, strict=True)))
    elf = scratch / "program"
    kept = [f"-Wl,-u,{function}" for function in functions]
    link = ["-nostdlib", f"-Wl,-Ttext={ORIGIN:#x}", "-Wl,--gc-sections,-e,main", *kept]
    subprocess.run([*command, *link, *map(str, objects), *libraries, "-o", str(elf)], check=True)
    return elf

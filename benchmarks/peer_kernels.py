"""MACs for each instruction by kind of layer, beside the kernels of CMSIS-NN.

    git clone https://github.com/ARM-software/CMSIS-NN
    .venv/bin/python benchmarks/peer_kernels.py --cmsis-nn CMSIS-NN \
        --model mcunet-5fps.int8.tflite

Both compute the model's own layers, with its weights, on values that the layer before has computed.
CMSIS-NN's wrappers choose its kernels. arm-none-eabi-gcc compiles them for a Cortex-M7, Unicorn
executes them, and every instruction counts. Each output is compared with the definition in numpy,
since a layer that is called wrongly would count wrongly. Ours are counted in a board's firmware
that keeps images as a whole, so that a layer is one call in both; the last layer is trained there.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from elftools.elf.elffile import ELFFile
from mcutrain_host.build import build
from mcutrain_host.client import Device
from mcutrain_host.virtual.board import DirectLink, load_machine
from mcutrain_host.virtual.link import LoopbackLink
from rich.console import Console
from rich.table import Table
from unicorn import UC_ARCH_ARM, UC_HOOK_BLOCK, UC_MODE_MCLASS, UC_MODE_THUMB, Uc
from unicorn.arm_const import UC_ARM_REG_LR, UC_ARM_REG_R0, UC_ARM_REG_SP

from mcutrain import demo, prepare
from mcutrain.ir.graph import Graph, Node
from mcutrain.ir.interpret import interpret
from mcutrain.ops.add import Add
from mcutrain.ops.conv_2d import Conv2D
from mcutrain.ops.depthwise_conv_2d import DepthwiseConv2D
from mcutrain.ops.pooling import AveragePool2D
from mcutrain.pipeline import load
from mcutrain.target import FIRMWARE, load_target

Array = npt.NDArray[np.generic]

CHIP = FIRMWARE / "chips" / "cortex_m"
ORIGIN, MEMORY_BYTES = 0x10000, 64 << 20
RETURN = ORIGIN + MEMORY_BYTES - 0x1000
"""Where functions that are called return to; the stack lies below."""
LONG = 0b11101
"""The five highest bits of an instruction of four bytes are this or more."""
FOLDERS = (
    *("BasicMathFunctions", "ConvolutionFunctions", "FullyConnectedFunctions"),
    *("NNSupportFunctions", "PoolingFunctions"),
)
COMPARED = (Add, AveragePool2D, Conv2D, DepthwiseConv2D)
CALLED = (
    *("mct_add_s8", "mct_average_pool_2d_s8", "mct_conv_2d_s8", "mct_depthwise_conv_2d_s8"),
    *("mct_conv_2d_s32", "mct_scale_sums_s8"),
)
"""What computes them here; the last two are the trained head."""
SCRATCH_BYTES = 1 << 18
PROGRAM = """
#include "arm_nnfunctions.h"

int8_t x[INPUT_BYTES], other[INPUT_BYTES], y[OUTPUT_BYTES], weight[WEIGHT_BYTES];
int32_t bias[CHANNELS], multiplier[CHANNELS], shift[CHANNELS];
static int8_t scratch[SCRATCH_BYTES] __attribute__((aligned(16)));
static const cmsis_nn_context context = {scratch, SCRATCH_BYTES};
static const cmsis_nn_per_channel_quant_params scales = {multiplier, shift};

int main(void) { return 0; }
"""
CONV = """
__attribute__((used)) int layer_{number}(void)
{{
    const cmsis_nn_{kind}_params params = {{
        {x_offset}, {y_offset}, {multiples}{{{stride_w}, {stride_h}}}, {{{pad_w}, {pad_h}}},
        {{1, 1}}, {{{low}, {high}}}}};
    const cmsis_nn_dims x_dims = {{1, {x_h}, {x_w}, {x_c}}}, y_dims = {{1, {y_h}, {y_w}, {y_c}}};
    const cmsis_nn_dims w_dims = {{{w_n}, {k_h}, {k_w}, {w_c}}}, b_dims = {{1, 1, 1, {y_c}}};
    if ({function}_get_buffer_size(&params, &x_dims, &w_dims, &y_dims) > SCRATCH_BYTES) {{
        return 1;
    }}
    return {function}(&context, &params, &scales, &x_dims, x, &w_dims, weight, &b_dims, bias,
                      &y_dims, y);
}}
"""
POOL = """
__attribute__((used)) int layer_{number}(void)
{{
    const cmsis_nn_pool_params params = {{{{{stride_w}, {stride_h}}}, {{{pad_w}, {pad_h}}},
                                          {{{low}, {high}}}}};
    const cmsis_nn_dims x_dims = {{1, {x_h}, {x_w}, {x_c}}}, y_dims = {{1, {y_h}, {y_w}, {y_c}}};
    const cmsis_nn_dims k_dims = {{1, {k_h}, {k_w}, 1}};
    return arm_avgpool_s8(&context, &params, &x_dims, x, &k_dims, &y_dims, y);
}}
"""
ADD = """
__attribute__((used)) int layer_{number}(void)
{{
    return arm_elementwise_add_s8(x, other, {a}, {b}, {left_shift}, y, {y}, {low}, {high}, {count});
}}
"""


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
        self.engine, self.count = Uc(UC_ARCH_ARM, UC_MODE_THUMB | UC_MODE_MCLASS), 0
        self.blocks: dict[tuple[int, int], int] = {}
        self.engine.mem_map(ORIGIN, MEMORY_BYTES)
        for address, data in parts:
            self.engine.mem_write(address, data)
        self.engine.hook_add(UC_HOOK_BLOCK, self._entered)

    def call(self, function: str) -> int:
        """The instructions of a call."""
        self.count = 0
        self.engine.reg_write(UC_ARM_REG_SP, RETURN)
        self.engine.reg_write(UC_ARM_REG_LR, RETURN | 1)
        self.engine.emu_start(self.addresses[function] | 1, RETURN)
        assert self.engine.reg_read(UC_ARM_REG_R0) == 0, f"{function} was not computed"
        return self.count

    def write(self, variable: str, data: Array) -> None:
        """Into a variable of the program."""
        self.engine.mem_write(self.addresses[variable], data.tobytes())

    def read(self, variable: str, size_bytes: int) -> Array:
        """Read a variable of the program."""
        data = self.engine.mem_read(self.addresses[variable], size_bytes)
        return np.frombuffer(bytes(data), np.int8)

    def _entered(self, engine: Uc, address: int, size_bytes: int, _: object) -> None:
        if (address, size_bytes) not in self.blocks:
            code, at, count = engine.mem_read(address, size_bytes), 0, 0
            while at < size_bytes:
                at += 4 if code[at + 1] >> 3 >= LONG else 2
                count += 1
            self.blocks[address, size_bytes] = count
        self.count += self.blocks[address, size_bytes]


def main() -> int:
    """Print the table; 1 if a layer of CMSIS-NN computes something else."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cmsis-nn", type=Path, required=True, metavar="DIR")
    parser.add_argument("--model", type=Path, default=demo.MODEL)
    parser.add_argument("--board", default="mps2-an500")
    parser.add_argument("--optimize", default="-O3", help="of CMSIS-NN")
    options = parser.parse_args()
    layers = layers_of(load(options.model))
    ours = our_counts(load(options.model), options.board, layers)
    theirs, wrong = cmsis_counts(options.cmsis_nn, layers, options.optimize)
    title = f"{options.model.stem}, {options.board}: millions of instructions (MACs for each)"
    print_table(title, layers, {"ours": ours, f"CMSIS-NN, {options.optimize}": theirs})
    print(f"{wrong} numbers of CMSIS-NN's outputs are not the definition's")
    return int(wrong > 0)


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


def our_counts(graph: Graph, board: str, layers: Sequence[Layer]) -> list[int]:
    """Instructions of each layer in the board's firmware."""
    step = prepare(graph, "head", stream="off")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        step.firmware(load_target(board)).write(folder)
        build(folder)
        machine = load_machine(folder, LoopbackLink())
    device = Device(DirectLink(machine))
    device.send_sample(layers[0].inputs[0].tobytes())
    device.infer()
    rows = [r for r in machine.operators() if r.root == "mct_infer" and r.index]
    rows = sorted((r for r in rows if r.function in CALLED), key=lambda row: row.index)
    counts = [row.instructions for row in rows]
    last = len(layers) - 1
    assert len(counts) == last + 2, "each layer is a call, the trained head two"
    return [*counts[:last], sum(counts[last:])]


def cmsis_counts(folder: Path, layers: Sequence[Layer], level: str) -> tuple[list[int], int]:
    """Instructions of each layer, and how many numbers of outputs are wrong."""
    with tempfile.TemporaryDirectory() as scratch:
        core = Core(compiled(folder, layers, level, Path(scratch)))
    counts, wrong = [], 0
    for number, layer in enumerate(layers):
        for variable, data in variables(layer):
            core.write(variable, data)
        counts.append(core.call(f"layer_{number}"))
        found = core.read("y", layer.output.size).reshape(layer.output.shape)
        wrong += np.count_nonzero(found != layer.output)
    return counts, wrong


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


def compiled(folder: Path, layers: Sequence[Layer], level: str, scratch: Path) -> Path:
    """A program with a function for each layer."""
    sizes = {
        "INPUT_BYTES": max(layer.inputs[0].size for layer in layers),
        "OUTPUT_BYTES": max(layer.output.size for layer in layers),
        "WEIGHT_BYTES": max(layer.inputs[1].size for layer in layers if len(layer.inputs) > 1),
        "CHANNELS": max(layer.output.shape[-1] for layer in layers),
        "SCRATCH_BYTES": SCRATCH_BYTES,
    }
    names = "".join(f"#define {name} {value}\n" for name, value in sizes.items())
    functions = "".join(function_of(n, layer) for n, layer in enumerate(layers))
    main_file = scratch / "main.c"
    main_file.write_text(names + PROGRAM + functions, encoding="utf-8")
    names_of = [f"Source/{name}/arm_*{dtype}*.c" for name in FOLDERS for dtype in ("s8", "q7")]
    sources = sorted({path for name in names_of for path in folder.glob(name)})
    sources += [main_file, CHIP / "mct_libc.c"]
    command = ["arm-none-eabi-gcc", "-mcpu=cortex-m7", "-mthumb", "-mfloat-abi=soft", level]
    command += ["-std=gnu11", "-ffunction-sections", "-fdata-sections"]
    command += ["-ffreestanding", "-fbuiltin"]  # without a C library, but short copies are moves
    command += [f"-I{path}" for path in (folder / "Include", CHIP / "include")]
    objects = [scratch / f"{n}.o" for n in range(len(sources))]

    def compile_one(pair: tuple[Path, Path]) -> None:
        subprocess.run([*command, "-c", str(pair[0]), "-o", str(pair[1])], check=True)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(compile_one, zip(sources, objects, strict=True)))
    elf = scratch / "program"
    kept = [f"-Wl,-u,layer_{n}" for n in range(len(layers))]
    link = ["-nostdlib", f"-Wl,-Ttext={ORIGIN:#x}", "-Wl,--gc-sections,-e,main", *kept]
    subprocess.run([*command, *link, *map(str, objects), "-lgcc", "-o", str(elf)], check=True)
    return elf


def function_of(number: int, layer: Layer) -> str:
    """Its C."""
    op, x, y = layer.node.op, layer.inputs[0], layer.output
    if isinstance(op, Add):
        a, b, sum_ = (
            f"{-s.zero_point if sign else s.zero_point}, {s.mult_q31}, {s.shift}"
            for s, sign in ((op.a, True), (op.b, True), (op.y, False))
        )
        return ADD.format(
            number=number, a=a, b=b, y=sum_, left_shift=op.left_shift,
            low=op.low, high=op.high, count=y.size,
        )  # fmt: skip
    assert isinstance(op, Conv2D | DepthwiseConv2D | AveragePool2D), layer.kind
    top, _, left, _ = op.window.padding
    places = {
        "number": number,
        **dict(zip(("x_h", "x_w", "x_c"), x.shape[1:], strict=True)),
        **dict(zip(("y_h", "y_w", "y_c"), y.shape[1:], strict=True)),
        **dict(zip(("k_h", "k_w"), op.window.kernel, strict=True)),
        **dict(zip(("stride_h", "stride_w"), op.window.stride, strict=True)),
        "pad_h": top,
        "pad_w": left,
    }
    if isinstance(op, AveragePool2D):
        return POOL.format(**places, low=op.low, high=op.high)
    is_depthwise = isinstance(op, DepthwiseConv2D)
    weight, scales = layer.inputs[1], op.requantize
    return CONV.format(
        **places,
        kind="dw_conv" if is_depthwise else "conv",
        function="arm_depthwise_conv_wrapper_s8" if is_depthwise else "arm_convolve_wrapper_s8",
        multiples="1, " if is_depthwise else "",
        x_offset=-op.x_zero_point,
        y_offset=scales.zero_point,
        low=scales.low,
        high=scales.high,
        w_n=weight.shape[0],
        w_c=weight.shape[-1],
    )


def print_table(title: str, layers: Sequence[Layer], columns: dict[str, list[int]]) -> None:
    """A row for each kind of layer. columns: instructions of each layer."""
    table = Table("layers", "number", "MACs, M", *columns, title=title)
    kinds: dict[str, list[int]] = {}
    for number, layer in enumerate(layers):
        kinds.setdefault(layer.kind, []).append(number)
    macs = {kind: sum(layers[n].macs for n in numbers) for kind, numbers in kinds.items()}
    kinds, macs = kinds | {"all": [*range(len(layers))]}, macs | {"all": sum(macs.values())}
    for kind in sorted(kinds, key=lambda kind: (kind == "all", -macs[kind], kind)):
        cells = []
        for counts in columns.values():
            count = sum(counts[n] for n in kinds[kind])
            each = f" ({macs[kind] / count:.2f})" if macs[kind] else ""
            cells.append(f"{count / 1e6:.3f}{each}")
        table.add_row(kind, str(len(kinds[kind])), f"{macs[kind] / 1e6:.2f}", *cells)
    Console(width=110).print(table)


if __name__ == "__main__":
    sys.exit(main())

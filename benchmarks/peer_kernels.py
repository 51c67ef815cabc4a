"""MACs for each instruction by kind of layer, beside the kernels of CMSIS-NN and TinyEngine.

    git clone https://github.com/ARM-software/CMSIS-NN
    git clone --recursive https://github.com/mit-han-lab/tinyengine
    .venv/bin/python benchmarks/peer_kernels.py --cmsis-nn CMSIS-NN --tinyengine tinyengine \
        --model mcunet-5fps.int8.tflite --scheme mcunet-5fps-49kb --classes 10

All compute the model's own layers, with its weights, on values that the layer before has computed.
CMSIS-NN's wrappers choose its kernels, TinyEngine's are those that its code generator chooses.
arm-none-eabi-gcc compiles them for a Cortex-M7, Unicorn executes them, and every instruction
counts. Each output is compared with the definition in numpy, since a layer that is called wrongly
would count wrongly. Ours are counted in a board's firmware that keeps images as a whole, so that a
layer is one call in all; the last layer is trained there. With --scheme, the gradients of a
training step are counted beside those of TinyEngine, which are of float, on small integers.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from device_instructions import counted, settled
from mcutrain_host.build import build
from mcutrain_host.client import Device
from mcutrain_host.virtual.board import DirectLink, load_machine
from mcutrain_host.virtual.link import LoopbackLink
from peer_layers import Core, Layer, layers_of, linked, variables
from peer_tinyengine import forward_counts, gradient_counts, gradients_of
from rich.console import Console
from rich.table import Table

from mcutrain import demo, prepare
from mcutrain.ir.graph import Graph
from mcutrain.ops.add import Add
from mcutrain.ops.conv_2d import Conv2D
from mcutrain.ops.depthwise_conv_2d import DepthwiseConv2D
from mcutrain.ops.pooling import AveragePool2D
from mcutrain.pipeline import TrainingStep, load
from mcutrain.target import FIRMWARE, load_target

CHIP = FIRMWARE / "chips" / "cortex_m"
FOLDERS = (
    *("BasicMathFunctions", "ConvolutionFunctions", "FullyConnectedFunctions"),
    *("NNSupportFunctions", "PoolingFunctions"),
)
CALLED = (
    *("mct_add_s8", "mct_average_pool_2d_s8", "mct_conv_2d_s8", "mct_depthwise_conv_2d_s8"),
    *("mct_conv_2d_s32", "mct_scale_sums_s8"),
)
"""What computes them here; the last two are the trained head."""
GRADIENTS = {
    "input gradient of a convolution": "mct_conv_2d_grad_input_s8",
    "input gradient of a depthwise one": "mct_depthwise_conv_2d_grad_input_s8",
    "update of a convolution's weights": "mct_conv_2d_update_weight_s8",
}
"""What computes a kind of node here."""
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


def main() -> int:
    """Print the tables; 1 if a layer of CMSIS-NN computes something else."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cmsis-nn", type=Path, metavar="DIR")
    parser.add_argument("--tinyengine", type=Path, metavar="DIR", help="with its submodule CMSIS")
    parser.add_argument("--model", type=Path, default=demo.MODEL)
    parser.add_argument("--scheme", help="whose gradients are compared with TinyEngine's")
    parser.add_argument("--classes", type=int, help="of the scheme's new head")
    parser.add_argument("--board", default="mps2-an500")
    parser.add_argument("--optimize", default="-O3", help="of CMSIS-NN")
    parser.add_argument("--optimize-tinyengine", default="-Ofast")
    options = parser.parse_args()
    graph = load(options.model)
    layers = layers_of(graph)
    columns: dict[str, Sequence[int | None]] = {"ours": our_counts(graph, options.board, layers)}
    wrong = 0
    if options.cmsis_nn:
        counts, wrong = cmsis_counts(options.cmsis_nn, layers, options.optimize)
        columns[f"CMSIS-NN, {options.optimize}"] = counts
        print(f"{wrong} numbers of CMSIS-NN's outputs are not the definition's")
    if options.tinyengine:
        columns |= tinyengine_columns(options.tinyengine, layers, options.optimize_tinyengine)
    title = f"{options.model.stem}, {options.board}: millions of instructions (MACs for each)"
    print_table(title, [Row(layer.kind, layer.macs) for layer in layers], columns)
    if options.tinyengine and options.scheme:
        print_gradients(options, graph)
    return int(wrong > 0)


def tinyengine_columns(
    folder: Path, layers: Sequence[Layer], level: str
) -> dict[str, Sequence[int | None]]:
    """Instructions of each layer with both kinds of scales."""
    columns: dict[str, Sequence[int | None]] = {}
    for is_float, scales in ((False, "int"), (True, "float")):
        with tempfile.TemporaryDirectory() as scratch:
            counts, wrong = forward_counts(folder, layers, level, is_float, Path(scratch))
        columns[f"TinyEngine, {scales} scales, {level}"] = counts
        print(f"{wrong} numbers of TinyEngine's with {scales} scales are not the definition's")
    return columns


def print_gradients(options: argparse.Namespace, graph: Graph) -> None:
    """The scheme's gradients and updates beside those of TinyEngine, by kind."""
    step = prepare(graph, options.scheme, classes=options.classes, stream="off")
    nodes = gradients_of(step.plan.training.graph)
    level = options.optimize_tinyengine
    with tempfile.TemporaryDirectory() as scratch:
        theirs, wrong = gradient_counts(options.tinyengine, nodes, level, Path(scratch))
    print(f"{wrong} numbers of TinyEngine's gradients and updates are not the definition's")
    totals = step_counts(step, options.board)
    rows = {kind: [n for n, node in enumerate(nodes) if node.kind == kind] for kind in GRADIENTS}
    table = Table("nodes", "number", "MACs, M", "ours", f"TinyEngine, float, {level}")
    for kind, numbers in rows.items():
        macs = sum(nodes[n].macs for n in numbers)
        cells = (cell([totals[GRADIENTS[kind]]], macs), cell([theirs[n] for n in numbers], macs))
        table.add_row(kind, str(len(numbers)), f"{macs / 1e6:.2f}", *cells)
    Console(width=110).print(table)


def step_counts(step: TrainingStep, board: str) -> Counter[str]:
    """Instructions of a settled training step in the board's firmware, by function."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        step.firmware(load_target(board)).write(folder)
        build(folder)
        machine = load_machine(folder, LoopbackLink())
    *_, (_, train) = settled(Device(DirectLink(machine)))
    return counted(machine, train)


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
    text = "".join(function_of(n, layer) for n, layer in enumerate(layers))
    main_file = scratch / "main.c"
    main_file.write_text(names + PROGRAM + text, encoding="utf-8")
    names_of = [f"Source/{name}/arm_*{dtype}*.c" for name in FOLDERS for dtype in ("s8", "q7")]
    sources = sorted({path for name in names_of for path in folder.glob(name)})
    sources += [main_file, CHIP / "mct_libc.c"]
    command = ["arm-none-eabi-gcc", "-mcpu=cortex-m7", "-mthumb", "-mfloat-abi=soft", level]
    command += ["-std=gnu11", "-ffunction-sections", "-fdata-sections"]
    command += ["-ffreestanding", "-fbuiltin"]  # without a C library, but short copies are moves
    command += [f"-I{path}" for path in (folder / "Include", CHIP / "include")]
    functions = [f"layer_{n}" for n in range(len(layers))]
    return linked(command, sources, functions, ("-lgcc",), scratch)


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


@dataclass(frozen=True)
class Row:
    """What the table says of a layer."""

    kind: str
    macs: int


def print_table(
    title: str, layers: Sequence[Row], columns: dict[str, Sequence[int | None]]
) -> None:
    """A row for each kind of layer. columns: instructions of each layer, None without a kernel."""
    table = Table("layers", "number", "MACs, M", *columns, title=title)
    kinds: dict[str, list[int]] = {}
    for number, layer in enumerate(layers):
        kinds.setdefault(layer.kind, []).append(number)
    macs = {kind: sum(layers[n].macs for n in numbers) for kind, numbers in kinds.items()}
    kinds, macs = kinds | {"all": [*range(len(layers))]}, macs | {"all": sum(macs.values())}
    for kind in sorted(kinds, key=lambda kind: (kind == "all", -macs[kind], kind)):
        cells = [cell([counts[n] for n in kinds[kind]], macs[kind]) for counts in columns.values()]
        table.add_row(kind, str(len(kinds[kind])), f"{macs[kind] / 1e6:.2f}", *cells)
    Console(width=130).print(table)


def cell(counts: Sequence[int | None], macs: int) -> str:
    """Millions, and MACs for each instruction."""
    known = [count for count in counts if count is not None]
    if len(known) < len(counts):
        return f"no kernel for {len(counts) - len(known)}"
    count = sum(known)
    return f"{count / 1e6:.3f}" + (f" ({macs / count:.2f})" if macs else "")


if __name__ == "__main__":
    sys.exit(main())

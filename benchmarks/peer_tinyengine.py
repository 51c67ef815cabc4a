"""Layers and gradients by the kernels of TinyEngine, on an emulated Cortex-M7.

`peer_kernels.py --tinyengine DIR` prints them; DIR is a clone with its submodule CMSIS. Kernels are
those that its code generator names for a layer, which also writes its depthwise kernels: with
scales of integers, and of float, its default. They are compiled as it recommends, for a core with a
floating point unit. Its gradients are of float.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from peer_layers import Array, Core, Layer, linked, variables

from mcutrain.ir.graph import Graph
from mcutrain.ops.add import Add
from mcutrain.ops.conv_2d import Conv2D, Conv2DGradInput, Conv2DGradWeight
from mcutrain.ops.depthwise_conv_2d import DepthwiseConv2D, DepthwiseConv2DGradInput
from mcutrain.ops.pooling import AveragePool2D

KERNELS = (
    *("int_forward_op/add.c", "int_forward_op/avgpooling.c", "int_forward_op/convolve_1x1_s8*.c"),
    *("int_forward_op/convolve_s8_kernel3_inputch3_stride2_pad1.c", "fp_requantize_op/*.c"),
    *("int_forward_op/arm_nn_mat_mult_kernel3_input3_s8_s16.c", "fp_backward_op/*conv*.c"),
    "int_forward_op/mat_mult_kernels.c",
)
CMSIS = Path("TinyEngine/third_party/CMSIS/CMSIS")
MULTIPLY = CMSIS / "NN/Source/ConvolutionFunctions/arm_nn_mat_mult_kernel_s8_s16_reordered.c"
INCLUDED = (
    "TinyEngine/include",
    CMSIS / "NN/Include",
    CMSIS / "DSP/Include",
    CMSIS / "Core/Include",
)
TEMPLATE = Path("code_generator/codetemplate/depthwiseTemplate.py")
COMPILER = (
    *("arm-none-eabi-gcc", "-mcpu=cortex-m7", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv5-sp-d16"),
    *("-std=gnu11", "-w", "-ffunction-sections", "-fdata-sections", "-DARM_MATH_DSP"),
)
UNROLLED = (8, 16, 24, 48)
"""Input channels of a 1x1 convolution for which there is a kernel of its own."""
BUFFER_BYTES = 1 << 18
RATE = 2.0**-8
"""Of updates: a power of two, so that nothing is rounded before weights are truncated."""
PROGRAM = """
#include "nnfunctions_fp.h"
#include "tinyengine_function.h"
#include "tinyengine_function_fp.h"
#include <float.h>

int8_t x[INPUT_BYTES], other[INPUT_BYTES], y[OUTPUT_BYTES], weight[WEIGHT_BYTES];
int32_t bias[CHANNELS], none[CHANNELS], multiplier[CHANNELS], shift[CHANNELS];
float scales[CHANNELS], gradient[GRADIENTS], given[GRADIENTS];
static int16_t buffer[BUFFER_BYTES / 2], weights[BUFFER_BYTES / 2];

int main(void) { return 0; }
"""
FUNCTION = """
__attribute__((used)) int {name}(void)
{{
    {call};
    return 0;
}}
"""


@dataclass(frozen=True)
class Call:
    """A statement in C that computes a layer, and where the output is then."""

    statement: str
    output: str = "y"


def forward_counts(
    folder: Path, layers: Sequence[Layer], level: str, is_float: bool, scratch: Path
) -> tuple[list[int | None], int]:
    """Instructions of each layer, None where there is no kernel, and how many numbers are wrong.

    is_float: scales are of float. level: of the compiler's optimization.
    """
    calls = {f"layer_{n}": call_of(layer, is_float) for n, layer in enumerate(layers)}
    known = {name: call for name, call in calls.items() if call is not None}
    depthwise = [layer for layer in layers if isinstance(layer.node.op, DepthwiseConv2D)]
    statements = {name: call.statement for name, call in known.items()}
    sizes = {
        "INPUT_BYTES": max(layer.inputs[0].size for layer in layers),
        "OUTPUT_BYTES": max(layer.output.size for layer in layers),
        "WEIGHT_BYTES": max(layer.inputs[1].size for layer in layers if len(layer.inputs) > 1),
        "CHANNELS": max(layer.output.shape[-1] for layer in layers),
        "GRADIENTS": 1,
    }
    core = Core(compiled(folder, sizes, statements, depthwise, level, is_float, scratch))
    counts, wrong = [], 0
    for (name, call), layer in zip(calls.items(), layers, strict=True):
        if call is None:
            counts.append(None)
            continue
        for variable, data in given_to(layer):
            if variable in core.addresses:  # without those that no kernel reads
                core.write(variable, data)
        counts.append(core.call(name))
        found = core.read(call.output, layer.output.size).reshape(layer.output.shape)
        wrong += np.count_nonzero(found != layer.output)
    return counts, wrong


def call_of(layer: Layer, is_float: bool) -> Call | None:
    """How its code generator computes a layer."""
    op, x, y = layer.node.op, layer.inputs[0], layer.output
    if isinstance(op, Add):
        return Call(float_addition(op, y.size) if is_float else addition(op, y.size))
    if isinstance(op, AveragePool2D):
        sizes = ", ".join(map(str, (*x.shape[1:], *op.window.kernel, *y.shape[1:3])))
        return Call(f"avg_pooling(x, {sizes}, {op.low}, {op.high}, y)")
    assert isinstance(op, Conv2D | DepthwiseConv2D), layer.kind
    ending = "_fpreq" if is_float else ""
    requantize = op.requantize
    (_, x_h, x_w, x_c), (_, y_h, y_w, y_c) = x.shape, y.shape
    scales = "scales" if is_float else "shift, multiplier"
    limits = f"{requantize.zero_point}, {-op.x_zero_point}, {requantize.low}, {requantize.high}"
    of_x, of_y = f"x, {x_w}, {x_h}, {x_c}, weight, bias", f"{y_w}, {y_h}, {y_c}, buffer"
    if isinstance(op, DepthwiseConv2D):
        name = depthwise_of(op, is_float)
        arguments = f"{of_x}, none, {scales}, {limits}, x, {of_y}, {op.x_zero_point}"
        return Call(f"{name}({arguments})", output="x")
    if op.window.kernel == (1, 1) and op.window.stride == (1, 1) and y_c % 2 == 0:
        channels = f"_ch{x_c}" if x_c in UNROLLED else ""
        name = f"convolve_1x1_s8{channels}{ending}"
        return Call(f"{name}({of_x}, {scales}, {limits}, y, {of_y})")
    if op.window.kernel == (3, 3) and op.window.stride == (2, 2) and x_c == 3:
        name = f"convolve_s8_kernel3_inputch3_stride2_pad1{ending}"
        more = f"weights, {op.x_zero_point}"
        return Call(f"{name}({of_x}, {scales}, {limits}, y, {of_y}, {more})")
    return None


def depthwise_of(op: DepthwiseConv2D, is_float: bool) -> str:
    """The name of the kernel that its code generator writes."""
    (height, width), (stride, _) = op.window.kernel, op.window.stride
    ending = "_fpreq" if is_float else ""
    return f"depthwise_kernel{height}x{width}_stride{stride}_inplace_CHW{ending}"


def addition(op: Add, elements: int) -> str:
    """Its addition with integers."""
    fields = {"left_shift": op.left_shift, "output_offset": op.y.zero_point}
    fields |= {"quantized_activation_max": op.high, "quantized_activation_min": op.low}
    for name, scaled in (("input1", op.a), ("input2", op.b), ("output", op.y)):
        fields |= {f"{name}_multiplier": scaled.mult_q31, f"{name}_shift": scaled.shift}
    fields |= {"input1_offset": -op.a.zero_point, "input2_offset": -op.b.zero_point}
    given = ", ".join(f".{name} = {value}" for name, value in fields.items())
    return f"ADD_params parameters = {{{given}}}; add({elements}, &parameters, x, other, y)"


def float_addition(op: Add, elements: int) -> str:
    """Its addition with float."""
    a, b = (s.factor * op.y.factor * 2.0**op.left_shift for s in (op.a, op.b))
    return (
        f"add_fpreq({elements}, x, {a}f, {op.a.zero_point}, other, {b}f, {op.b.zero_point}, "
        f"1.0f, {op.y.zero_point}, y)"
    )


def given_to(layer: Layer) -> Iterator[tuple[str, Array]]:
    """What a layer reads, in its layout."""
    for variable, data in variables(layer):
        if isinstance(layer.node.op, DepthwiseConv2D) and variable == "weight":
            yield "weight", np.ascontiguousarray(data[0].transpose(2, 0, 1))
        elif isinstance(layer.node.op, DepthwiseConv2D) and variable == "bias":
            sums = layer.inputs[1].sum((0, 1, 2), dtype=np.int32)
            yield "bias", (data - layer.node.op.x_zero_point * sums).astype(np.int32)
        else:
            yield variable, data
    if isinstance(layer.node.op, Conv2D | DepthwiseConv2D):
        factors = np.array(layer.node.op.requantize.factors, np.float32)
        yield "scales", np.broadcast_to(factors, layer.output.shape[-1:]).copy()


def compiled(
    folder: Path,
    sizes: dict[str, int],
    statements: dict[str, str],
    depthwise: Sequence[Layer],
    level: str,
    is_float: bool,
    scratch: Path,
) -> Path:
    """A program with a function for each statement."""
    template = load_template(folder)
    (scratch / "genInclude.h").write_text('#include "arm_nnsupportfunctions.h"\n', encoding="utf-8")
    for layer in depthwise:
        (height, width), (stride, _) = layer.node.op.window.kernel, layer.node.op.window.stride
        places = (height, width, height // 2, width // 2, stride, "CHW", is_float)
        template.depthwiseInplace(*places).genFile(str(scratch))
    names = {**sizes, "BUFFER_BYTES": BUFFER_BYTES}
    text = "".join(f"#define {name} {value}\n" for name, value in names.items()) + PROGRAM
    text += "".join(FUNCTION.format(name=n, call=call) for n, call in statements.items())
    (scratch / "main.c").write_text(text, encoding="utf-8")
    kernels = folder / "TinyEngine/src/kernels"
    sources = sorted({path for name in KERNELS for path in kernels.glob(name)})
    sources += [folder / MULTIPLY, *sorted(scratch.glob("*.c"))]
    command = [*COMPILER, level, f"-I{scratch}", *(f"-I{folder / name}" for name in INCLUDED)]
    return linked(command, sources, list(statements), ("-lm", "-lc", "-lgcc"), scratch)


def load_template(folder: Path) -> Any:
    """The part of its code generator that writes depthwise kernels."""
    specification = importlib.util.spec_from_file_location("template", folder / TEMPLATE)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@dataclass(frozen=True)
class Gradient:
    """A node of the backward pass: its statement in C, None without a kernel, and its values."""

    kind: str
    macs: int
    statement: str | None
    output: str
    variables: dict[str, Array]
    expected: Array


def gradient_counts(
    folder: Path, nodes: Sequence[Gradient], level: str, scratch: Path
) -> tuple[list[int | None], int]:
    """Instructions of each node, None where there is no kernel, and how many numbers are wrong."""
    known = {n: node for n, node in enumerate(nodes) if node.statement}
    largest = max(data.size for node in nodes for data in (*node.variables.values(), node.expected))
    sizes = dict.fromkeys(("INPUT_BYTES", "OUTPUT_BYTES", "WEIGHT_BYTES", "GRADIENTS"), largest)
    sizes["CHANNELS"] = max(node.variables["scales"].size for node in nodes)
    statements = {f"gradient_{n}": str(node.statement) for n, node in known.items()}
    core = Core(compiled(folder, sizes, statements, (), level, False, scratch))
    counts: list[int | None] = [None] * len(nodes)
    wrong = 0
    for n, node in known.items():
        for variable, data in node.variables.items():
            core.write(variable, data)
        counts[n] = core.call(f"gradient_{n}")
        found = core.read(node.output, node.expected.nbytes).view(node.expected.dtype)
        wrong += np.count_nonzero(found.reshape(node.expected.shape) != node.expected)
    return counts, wrong


def gradients_of(graph: Graph) -> list[Gradient]:
    """The convolutions of a backward pass, on small integers, which float adds exactly."""
    random = np.random.default_rng(0)
    found = []
    for node in graph.nodes:
        op, types = node.op, graph.types(node.inputs)
        if not isinstance(op, Conv2DGradInput | Conv2DGradWeight | DepthwiseConv2DGradInput):
            continue
        macs = op.macs(types, graph.types(node.outputs))
        dy, own = (random.integers(-4, 5, types[n].shape).astype(np.int8) for n in (1, 3))
        given = {"given": dy.astype(np.float32), "scales": np.ones(dy.shape[-1], np.float32)}
        if isinstance(op, Conv2DGradWeight):
            weight = random.integers(-64, 65, op.trained).astype(np.int8)
            sums = dy.reshape(-1, dy.shape[-1]).T.astype(int) @ own.reshape(-1, own.shape[-1])
            expected = np.trunc(weight - sums.reshape(op.trained) * RATE).astype(np.int8)
            given |= {"gradient": own.astype(np.float32), "weight": weight}
            kind, output = "update of a convolution's weights", "weight"
            statement = update(dy.shape, own.shape)
        else:
            whole = replace(op, trained=()) if isinstance(op, Conv2DGradInput) else op
            expected = whole.sums(dy, own).reshape(op.shape).astype(np.float32)
            given["weight"] = own
            is_depthwise = isinstance(op, DepthwiseConv2DGradInput)
            kind = f"input gradient of a {'depthwise one' if is_depthwise else 'convolution'}"
            compute = depthwise_input_gradient if is_depthwise else input_gradient
            statement, output = compute(op, dy.shape)
        found.append(Gradient(kind, macs, statement, output, given, expected))
    return found


def input_gradient(op: Conv2DGradInput, dy: tuple[int, ...]) -> tuple[str | None, str]:
    """Of a 1x1 convolution, with all of its weights in one place; and where it is then."""
    (_, height, width, channels), (_, _, _, dx_channels) = dy, op.shape
    if op.window.kernel != (1, 1) or dx_channels % 8:
        return None, ""
    form = "1row10col_10inputdepth" if (height, width, channels) == (1, 1, 10) else "4row4col"
    if form == "4row4col" and (height * width % 4 or channels % 4):
        return None, ""
    arguments = (
        f"given, {height}, {width}, {channels}, weight, 0, gradient, {height}, {width}, "
        f"{dx_channels}, -FLT_MAX, FLT_MAX, (float *)buffer, 1"
    )
    return f"pointwise_conv_fp_{form}_IOHW_int8weight({arguments})", "gradient"


def depthwise_input_gradient(
    op: DepthwiseConv2DGradInput, dy: tuple[int, ...]
) -> tuple[str | None, str]:
    """In place with stride 1; and where it is then."""
    (_, height, width, channels), (_, dx_height, dx_width, _) = dy, op.shape
    (kernel, _), (stride, _) = op.window.kernel, op.window.stride
    if kernel not in (3, 5, 7) or stride not in (1, 2):
        return None, ""
    name = f"kernel{kernel}_stride{stride}_inpad{kernel // 2}_outpad{stride - 1}_IOHW_int8weight"
    arguments = (
        f"given, {height}, {width}, {channels}, weight, 0, gradient, {dx_height}, {dx_width}, "
        f"{channels}, -FLT_MAX, FLT_MAX, (float *)buffer, 1, 0"
    )
    output = "given" if stride == 1 else "gradient"
    return f"transpose_depthwise_conv_fp_{name}({arguments})", output


def update(dy: tuple[int, ...], x: tuple[int, ...]) -> str | None:
    """Of a 1x1 convolution's weights, in place; it has kernels for images of 1, 4 and 8 pixels."""
    (_, height, width, out), channels = dy, x[-1]
    arguments = (
        f"gradient, {height}, {width}, {channels}, given, 0, weight, 1, 1, {out * channels}, "
        f"-FLT_MAX, FLT_MAX, (float *)buffer, 1, {channels}, scales, {RATE}f"
    )
    if (height, width, out) == (1, 1, 10):
        return f"group_pointwise_conv_fp_in1x1_out1x1_1row10col_uniweight_inplace({arguments})"
    if height != width or height not in (4, 8) or out % 8 or channels % 4:
        return None
    size = f"{height}x{width}"
    form = (
        f"kernel{height}_stride1_pad0_in{size}_out1x1_uniweight_4row{16 if out % 16 == 0 else 8}col"
    )
    return f"group_conv_fp_{form}_inplace({arguments})"

"""Strategies as in tflite_models: products, sums with constants, tables, joins, reorderings."""

import itertools

import numpy as np
from hypothesis import strategies as st

from tests.formats.tflite_builder import TfliteBuilder
from tests.formats.tflite_models import activations, int8, scales, seeds, zero_points


@st.composite
def binary_operations(draw):
    """ADD, SUB, MUL of equal shapes, or of numbers per channel or one number, on either side."""
    rng = np.random.default_rng(draw(seeds))
    name = draw(st.sampled_from(("ADD", "SUB", "MUL")))
    c = draw(st.integers(1, 6))
    image = (1, draw(st.integers(1, 4)), draw(st.integers(1, 4)), c)
    other = draw(st.sampled_from((image, (1, 1, 1, c), (c,), (1,), ())))
    constant = draw(st.booleans()) if other in (image, (1, 1, 1, c)) else True
    b = TfliteBuilder()
    x = b.tensor("a", image, scale=draw(scales), zero_point=draw(zero_points))
    second = {"scale": draw(scales), "zero_point": draw(zero_points)}
    data = int8(rng, other)
    z = b.constant("b", data, **second) if constant else b.tensor("b", other, **second)
    operands = [x, z] if draw(st.booleans()) else [z, x]
    y = b.tensor("y", image, scale=draw(scales), zero_point=draw(zero_points))
    table = f"{name.capitalize()}Options"
    b.operator(name, operands, y, table=table, FusedActivationFunction=draw(activations))
    return b.content([x] if constant else [x, z], [y])


OPTIONS = {"HARD_SWISH": "HardSwishOptions", "GELU": "GeluOptions"}


@st.composite
def tables(draw):
    """HARD_SWISH, LOGISTIC, TANH, GELU of all 256 integers."""
    name = draw(st.sampled_from(("HARD_SWISH", "LOGISTIC", "TANH", "GELU")))
    x_scale, y_scale, y_zero_point = draw(st.floats(2**-9, 0.5, width=32)), draw(scales), None
    if name == "HARD_SWISH":  # its kernel refuses an output that is finer by more than 128
        y_scale = max(y_scale, float(np.float32(x_scale / 64)))
    if name in ("LOGISTIC", "TANH"):  # their kernels know one output only
        y_scale, y_zero_point = (1 / 256, -128) if name == "LOGISTIC" else (1 / 128, 0)
    b = TfliteBuilder()
    q = np.arange(-128, 128).astype(np.int8)[None]
    zero_point = draw(zero_points)
    x = b.tensor("x", q.shape, scale=x_scale, zero_point=zero_point)
    y_zero_point = draw(zero_points) if y_zero_point is None else y_zero_point
    y = b.tensor("y", q.shape, scale=y_scale, zero_point=y_zero_point)
    b.operator(name, [x], y, table=OPTIONS.get(name, ""))
    return b.content([x], [y])


@st.composite
def concatenations(draw):
    """CONCATENATION along any axis, of up to eleven tensors."""
    count, axis = draw(st.sampled_from((1, 2, 2, 3, 11))), draw(st.integers(1, 3))
    shape = [1, *(draw(st.integers(1, 3)) for _ in "hwc")]
    quantization = {"scale": draw(scales), "zero_point": draw(zero_points)}
    b = TfliteBuilder()
    xs, total = [], 0
    for i in range(count):
        shape[axis] = draw(st.integers(1, 4))
        total += shape[axis]
        xs.append(b.tensor(f"x{i}", tuple(shape), **quantization))
    shape[axis] = total
    y = b.tensor("y", tuple(shape), **quantization)
    written = draw(st.sampled_from((axis, axis - 4)))
    b.operator("CONCATENATION", xs, y, table="ConcatenationOptions", Axis=written)
    return b.content(xs, [y])


@st.composite
def transposes(draw):
    """TRANSPOSE of up to four axes."""
    rank = draw(st.integers(2, 4))
    shape = [1, *(draw(st.integers(1, 4)) for _ in range(rank - 1))]
    perm = draw(st.sampled_from(list(itertools.permutations(range(rank)))))
    quantization = {"scale": draw(scales), "zero_point": draw(zero_points)}
    b = TfliteBuilder()
    x = b.tensor("x", tuple(shape), **quantization)
    y = b.tensor("y", tuple(shape[i] for i in perm), **quantization)
    b.operator(
        "TRANSPOSE", [x, b.constant("perm", np.array(perm, np.int32))], y, table="TransposeOptions"
    )
    return b.content([x], [y])


@st.composite
def sequences(draw):
    """A convolution over a sequence as Keras writes it, and the mean over what is left of it."""
    rng = np.random.default_rng(draw(seeds))
    length, c, out = draw(st.integers(3, 9)), draw(st.integers(1, 4)), draw(st.integers(1, 5))
    kernel, stride = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    rest = (length - kernel) // stride + 1
    like = {"scale": draw(scales), "zero_point": draw(zero_points)}
    after = {"scale": draw(scales), "zero_point": draw(zero_points)}
    b = TfliteBuilder()
    x = b.tensor("x", (1, length, c), **like)
    wide = b.tensor("wide", (1, 1, length, c), **like)
    axis = b.constant("axis", np.array(1, np.int32))
    b.operator("EXPAND_DIMS", [x, axis], wide, table="ExpandDimsOptions")
    w = b.constant("w", int8(rng, (out, 1, kernel, c)), scale=0.01)
    bias = b.constant("b", rng.integers(-500, 500, out).astype(np.int32), scale=1e-4)
    conv = b.tensor("conv", (1, 1, rest, out), **after)
    options = {"Padding": 1, "StrideH": 1, "StrideW": stride}
    b.operator("CONV_2D", [wide, w, bias], conv, table="Conv2DOptions", **options)
    flat = b.tensor("flat", (1, rest, out), **after)
    dims = np.array([1], np.int32)
    b.operator("SQUEEZE", [conv], flat, table="SqueezeOptions", SqueezeDims=dims)
    y = b.tensor("y", (1, out), scale=draw(scales), zero_point=draw(zero_points))
    axes = b.constant("axes", np.array(draw(st.sampled_from(([1], [-2]))), np.int32))
    b.operator("MEAN", [flat, axes], y, table="ReducerOptions", KeepDims=False)
    return b.content([x], [y])


ELEMENTWISE_AND_SHAPES = {
    "binary": binary_operations(),
    "table": tables(),
    "concatenation": concatenations(),
    "transpose": transposes(),
    "sequence": sequences(),
}

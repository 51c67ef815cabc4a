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
    """HARD_SWISH, LOGISTIC, TANH, both GELU of all 256 integers."""
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
    attributes = {"Approximate": draw(st.booleans())} if name == "GELU" else {}
    b.operator(name, [x], y, table=OPTIONS.get(name, ""), **attributes)
    return b.content([x], [y])


@st.composite
def products(draw):
    """BATCH_MATMUL of two inputs, stored in either order, or of one with itself."""
    before = draw(st.sampled_from(((1,), (1, 3), (1, 2, 2))))
    m, k, n = (draw(st.integers(1, 6)) for _ in "mkn")
    adjoint = {"AdjX": draw(st.booleans()), "AdjY": draw(st.booleans())}
    is_one = draw(st.booleans())
    if is_one:
        adjoint["AdjY"], n = not adjoint["AdjX"], m
    b = TfliteBuilder()
    first, second = ({"scale": draw(scales), "zero_point": draw(zero_points)} for _ in "ab")
    a_shape, b_shape = (
        ((k, m) if adjoint["AdjX"] else (m, k)),
        (n, k) if adjoint["AdjY"] else (k, n),
    )
    operands = [b.tensor("a", (*before, *a_shape), **first)]
    if not is_one:
        operands.append(b.tensor("b", (*before, *b_shape), **second))
    y_scale = first["scale"] * (first if is_one else second)["scale"] * draw(st.floats(0.5, 2000))
    y = b.tensor(
        "y", (*before, m, n), scale=float(np.float32(y_scale)), zero_point=draw(zero_points)
    )
    b.operator("BATCH_MATMUL", operands * (1 + is_one), y, "BatchMatMulOptions", **adjoint)
    return b.content(operands, [y])


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


@st.composite
def slices(draw):
    """SLICE and STRIDED_SLICE of two to four axes, said in every way that numpy's slices know."""
    rank = draw(st.integers(2, 4))
    shape = (1, *(draw(st.integers(1, 6)) for _ in range(rank - 1)))
    strided = draw(st.booleans())
    places, sizes, masks = [range(1)], [1], {"BeginMask": 0, "EndMask": 0, "ShrinkAxisMask": 0}
    for axis, size in enumerate(shape[1:], 1):
        first = draw(st.integers(0, size - 1))
        step = draw(st.integers(1, 3)) if strided else 1
        places.append(range(first, draw(st.integers(first + 1, size)), step))
        sizes.append(len(places[-1]))
        for name, full in (("BeginMask", first == 0), ("EndMask", places[-1].stop == size)):
            masks[name] |= (full and draw(st.booleans())) << axis
        if len(places[-1]) == 1 and not (masks["BeginMask"] | masks["EndMask"]) >> axis & 1:
            masks["ShrinkAxisMask"] |= draw(st.booleans()) << axis
    back = [draw(st.sampled_from((0, n))) for n in shape]
    begin = [one.start - n for one, n in zip(places, back, strict=True)]
    quantization = {"scale": draw(scales), "zero_point": draw(zero_points)}
    b = TfliteBuilder()
    x = b.tensor("x", shape, **quantization)
    if not strided:
        left = [-1 if one.stop == n else len(one) for one, n in zip(places, shape, strict=True)]
        numbers = ([one.start for one in places], left)
        y = b.tensor("y", tuple(sizes), **quantization)
        given = [b.constant(f"n{i}", np.array(n, np.int32)) for i, n in enumerate(numbers)]
        b.operator("SLICE", [x, *given], y, table="SliceOptions")
        return b.content([x], [y])
    numbers = (begin, [one.stop for one in places], [one.step for one in places])
    given = [b.constant(f"n{i}", np.array(n, np.int32)) for i, n in enumerate(numbers)]
    kept = [n for axis, n in enumerate(sizes) if not masks["ShrinkAxisMask"] >> axis & 1]
    y = b.tensor("y", tuple(kept), **quantization)
    b.operator("STRIDED_SLICE", [x, *given], y, table="StridedSliceOptions", **masks)
    return b.content([x], [y])


@st.composite
def splits(draw):
    """SPLIT and SPLIT_V, whose parts are joined again, the last one first."""
    rank, count = draw(st.integers(2, 4)), draw(st.integers(2, 4))
    axis, even = draw(st.integers(1, rank - 1)), draw(st.booleans())
    sizes = [draw(st.integers(1, 3)) for _ in range(count)]
    if even:
        sizes = sizes[:1] * count
    shape = [1, *(draw(st.integers(1, 4)) for _ in range(rank - 1))]
    shape[axis] = sum(sizes)
    quantization = {"scale": draw(scales), "zero_point": draw(zero_points)}
    b = TfliteBuilder()
    x, y = (b.tensor(name, tuple(shape), **quantization) for name in "xy")
    parts = [
        b.tensor(f"part{i}", (*shape[:axis], n, *shape[axis + 1 :]), **quantization)
        for i, n in enumerate(sizes)
    ]
    at = b.constant("axis", np.array(draw(st.sampled_from((axis, axis - rank))), np.int32))
    if even:
        b.operator("SPLIT", [at, x], parts, table="SplitOptions", NumSplits=count)
    else:
        if draw(st.booleans()):
            sizes[draw(st.integers(0, count - 1))] = -1
        known = b.constant("sizes", np.array(sizes, np.int32))
        b.operator("SPLIT_V", [x, known, at], parts, table="SplitVOptions", NumSplits=count)
    b.operator("CONCATENATION", parts[::-1], y, table="ConcatenationOptions", Axis=axis)
    return b.content([x], [y])


ELEMENTWISE_AND_SHAPES = {
    "binary": binary_operations(),
    "table": tables(),
    "product": products(),
    "concatenation": concatenations(),
    "transpose": transposes(),
    "sequence": sequences(),
    "slice": slices(),
    "split": splits(),
}

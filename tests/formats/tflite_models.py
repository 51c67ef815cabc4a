"""Hypothesis strategies that draw .tflite models of one operator, with all its options."""

import math

import numpy as np
from hypothesis import strategies as st

from tests.formats.tflite_builder import NO_TENSOR, TfliteBuilder

SAME, VALID = 0, 1
ACTIVATIONS = (0, 1, 2, 3)  # NONE, RELU, RELU_N1_TO_1, RELU6

scales = st.floats(2**-8, 2**-3, width=32)
zero_points = st.integers(-128, 127)
seeds = st.integers(0, 2**32 - 1)
activations = st.sampled_from(ACTIVATIONS)


def int8(rng, shape):
    return rng.integers(-128, 128, shape).astype(np.int8)


@st.composite
def convolutions(draw, depthwise=False, grouped=False):
    """CONV_2D or DEPTHWISE_CONV_2D: padding, stride, dilation, bias or not, one scale or many.

    grouped: a CONV_2D of two groups or more.
    """
    rng = np.random.default_rng(draw(seeds))
    size = st.integers(1, 7)
    h, w, channels = draw(size), draw(size), draw(st.integers(1, 5))
    groups = draw(st.integers(2, 4)) if grouped else 1
    channels *= groups
    kh, kw = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    padding = draw(st.sampled_from((SAME, VALID)))
    # TFLite's depthwise kernel takes only equal strides
    stride = [draw(st.integers(1, 3))] * 2 if depthwise else [draw(st.integers(1, 3)) for _ in "hw"]
    dilation = [draw(st.integers(1, 3)), draw(st.integers(1, 3))]
    multiplier = draw(st.integers(1, 3))
    out = channels * multiplier if depthwise else groups * draw(st.integers(1, 6))
    spans = [(k - 1) * d + 1 for k, d in zip((kh, kw), dilation, strict=True)]
    if padding == VALID:
        h, w = max(h, spans[0]), max(w, spans[1])
    sizes = [
        -(-n // s) if padding == SAME else (n - k) // s + 1
        for n, k, s in zip((h, w), spans, stride, strict=True)
    ]
    per_channel = draw(st.booleans())
    x_scale, y_scale = draw(scales), draw(scales)
    w_scales = tuple(
        float(np.float32(s)) for s in rng.uniform(2**-9, 2**-5, out if per_channel else 1)
    )
    b = TfliteBuilder()
    x = b.tensor("x", (1, h, w, channels), scale=x_scale, zero_point=draw(zero_points))
    shape = (1, kh, kw, out) if depthwise else (out, kh, kw, channels // groups)
    weight = b.constant("w", int8(rng, shape), scale=w_scales, axis=3 if depthwise else 0)
    inputs = [x, weight]
    if draw(st.booleans()) or not depthwise:  # TFLite's CONV_2D insists on a bias
        values = rng.integers(-5000, 5000, out).astype(np.int32)
        b_scales = tuple(float(np.float32(x_scale) * np.float32(s)) for s in w_scales)
        inputs.append(b.constant("b", values, scale=b_scales))
    y = b.tensor("y", (1, *sizes, out), scale=y_scale, zero_point=draw(zero_points))
    options = {
        "Padding": padding,
        "StrideH": stride[0],
        "StrideW": stride[1],
        "DilationHFactor": dilation[0],
        "DilationWFactor": dilation[1],
        "FusedActivationFunction": draw(activations),
    }
    if depthwise:
        options |= {"table": "DepthwiseConv2DOptions", "DepthMultiplier": multiplier}
        b.operator("DEPTHWISE_CONV_2D", inputs, y, **options)
    else:
        b.operator("CONV_2D", inputs, y, table="Conv2DOptions", **options)
    return b.content([x], [y])


@st.composite
def transposed_convolutions(draw):
    """TRANSPOSE_CONV: padding, strides up to the kernel, bias or not, one scale or many."""
    rng = np.random.default_rng(draw(seeds))
    sizes = [draw(st.integers(1, 5)) for _ in "hw"]
    channels, out = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    kernel = [draw(st.integers(1, 5)) for _ in "hw"]
    stride = [draw(st.integers(1, min(k, 4))) for k in kernel]
    padding = draw(st.sampled_from((SAME, VALID)))
    new = [
        n * s - draw(st.integers(0, s - 1)) if padding == SAME else (n - 1) * s + k
        for n, s, k in zip(sizes, stride, kernel, strict=True)
    ]
    x_scale, y_scale = draw(scales), draw(scales)
    count = out if draw(st.booleans()) else 1
    w_scales = tuple(float(np.float32(s)) for s in rng.uniform(2**-9, 2**-5, count))
    b = TfliteBuilder()
    x = b.tensor("x", (1, *sizes, channels), scale=x_scale, zero_point=draw(zero_points))
    shape = (1, *new, out)
    weight = b.constant("w", int8(rng, (out, *kernel, channels)), scale=w_scales)
    inputs = [b.constant("shape", np.array(shape, np.int32)), weight, x]
    if draw(st.booleans()):
        values = rng.integers(-5000, 5000, out).astype(np.int32)
        b_scales = tuple(float(np.float32(x_scale) * np.float32(s)) for s in w_scales)
        inputs.append(b.constant("b", values, scale=b_scales))
    y = b.tensor("y", shape, scale=y_scale, zero_point=draw(zero_points))
    options = {"Padding": padding, "StrideH": stride[0], "StrideW": stride[1]}
    options["FusedActivationFunction"] = draw(activations)
    b.operator("TRANSPOSE_CONV", inputs, y, table="TransposeConvOptions", **options)
    return b.content([x], [y])


@st.composite
def fully_connected(draw, per_channel=False):
    """FULLY_CONNECTED of one or more rows."""
    rng = np.random.default_rng(draw(seeds))
    rows, features, units = (
        draw(st.integers(1, 3)),
        draw(st.integers(1, 9)),
        draw(st.integers(1, 7)),
    )
    keep = draw(st.booleans())
    shape = (1, features) if rows == 1 else (1, rows, features)
    x_scale, y_scale = draw(scales), draw(scales)
    w_scales = tuple(
        float(np.float32(s)) for s in rng.uniform(2**-9, 2**-5, units if per_channel else 1)
    )
    b = TfliteBuilder()
    x = b.tensor("x", shape, scale=x_scale, zero_point=draw(zero_points), dynamic_batch=True)
    weight = b.constant("w", int8(rng, (units, features)), scale=w_scales)
    inputs = [x, weight, NO_TENSOR]
    if draw(st.booleans()):
        values = rng.integers(-5000, 5000, units).astype(np.int32)
        b_scales = tuple(float(np.float32(x_scale) * np.float32(s)) for s in w_scales)
        inputs[2] = b.constant("b", values, scale=b_scales)
    y_shape = (*shape[:-1], units) if keep else (rows, units)
    y = b.tensor("y", y_shape, scale=y_scale, zero_point=draw(zero_points))
    b.operator(
        "FULLY_CONNECTED",
        inputs,
        y,
        table="FullyConnectedOptions",
        KeepNumDims=keep,
        FusedActivationFunction=draw(activations),
    )
    return b.content([x], [y])


@st.composite
def additions(draw):
    """ADD of two tensors, or of a tensor and a constant."""
    rng = np.random.default_rng(draw(seeds))
    shape = (1, *draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)))
    b = TfliteBuilder()
    x = b.tensor("a", shape, scale=draw(scales), zero_point=draw(zero_points))
    second = {"scale": draw(scales), "zero_point": draw(zero_points)}
    is_constant = draw(st.booleans())
    other = (
        b.constant("b", int8(rng, shape), **second)
        if is_constant
        else b.tensor("b", shape, **second)
    )
    y = b.tensor("y", shape, scale=draw(scales), zero_point=draw(zero_points))
    b.operator("ADD", [x, other], y, table="AddOptions", FusedActivationFunction=draw(activations))
    return b.content([x] if is_constant else [x, other], [y])


@st.composite
def pools(draw):
    """AVERAGE_POOL_2D and MAX_POOL_2D."""
    kind = draw(st.sampled_from(("AVERAGE_POOL_2D", "MAX_POOL_2D")))
    kernel, stride = (
        [draw(st.integers(1, 4)) for _ in "hw"],
        [draw(st.integers(1, 3)) for _ in "hw"],
    )
    padding = draw(st.sampled_from((SAME, VALID)))
    size = [draw(st.integers(1, 7)) for _ in "hw"]
    if padding == VALID:
        size = [max(n, k) for n, k in zip(size, kernel, strict=True)]
    sizes = [
        -(-n // s) if padding == SAME else (n - k) // s + 1
        for n, k, s in zip(size, kernel, stride, strict=True)
    ]
    channels = draw(st.integers(1, 5))
    quantization = {"scale": draw(scales), "zero_point": draw(zero_points)}
    b = TfliteBuilder()
    x = b.tensor("x", (1, *size, channels), **quantization)
    y = b.tensor("y", (1, *sizes, channels), **quantization)
    b.operator(
        kind,
        [x],
        y,
        table="Pool2DOptions",
        Padding=padding,
        FilterHeight=kernel[0],
        FilterWidth=kernel[1],
        StrideH=stride[0],
        StrideW=stride[1],
        FusedActivationFunction=draw(activations),
    )
    return b.content([x], [y])


@st.composite
def means(draw):
    """MEAN over height and width, axes in either order or counted from the end."""
    h, w, channels = draw(st.integers(1, 9)), draw(st.integers(1, 9)), draw(st.integers(1, 5))
    keep = draw(st.booleans())
    x_scale, x_zero_point = draw(scales), draw(zero_points)
    alike = draw(st.booleans())
    b = TfliteBuilder()
    x = b.tensor("x", (1, h, w, channels), scale=x_scale, zero_point=x_zero_point)
    axes = draw(st.sampled_from(([1, 2], [2, 1], [-3, -2], [1, -2])))
    axis = b.constant("axes", np.array(axes, np.int32))
    y = b.tensor(
        "y",
        (1, 1, 1, channels) if keep else (1, channels),
        scale=x_scale if alike else draw(scales),
        zero_point=x_zero_point if alike else draw(zero_points),
    )
    b.operator("MEAN", [x, axis], y, table="ReducerOptions", KeepDims=keep)
    return b.content([x], [y])


@st.composite
def means_over_axes(draw):
    """MEAN over any axes but the batch, of up to four."""
    shape = (1, *draw(st.lists(st.integers(1, 6), min_size=1, max_size=3)))
    rank = len(shape)
    axes = draw(st.lists(st.integers(1, rank - 1), min_size=1, unique=True))
    keep = draw(st.booleans()) or len(axes) == rank - 1
    kept = [d for i, d in enumerate(shape) if keep or i not in axes]
    y_shape = [1 if i in axes else d for i, d in enumerate(shape)] if keep else kept
    alike = draw(st.booleans())
    x_quantization = {"scale": draw(scales), "zero_point": draw(zero_points)}
    y_quantization = {"scale": draw(scales), "zero_point": draw(zero_points)}
    b = TfliteBuilder()
    x = b.tensor("x", shape, **x_quantization)
    written = [axis - rank * draw(st.integers(0, 1)) for axis in axes]
    axis = b.constant("axes", np.array(written, np.int32))
    y = b.tensor("y", tuple(y_shape), **(x_quantization if alike else y_quantization))
    b.operator("MEAN", [x, axis], y, table="ReducerOptions", KeepDims=keep)
    return b.content([x], [y])


@st.composite
def sums_over_axes(draw):
    """SUM of which no output is beyond int8, where TFLite's wrap around."""
    shape = (1, *draw(st.lists(st.integers(1, 6), min_size=1, max_size=3)))
    rank = len(shape)
    axes = draw(st.lists(st.integers(1, rank - 1), min_size=1, unique=True))
    keep = draw(st.booleans()) or len(axes) == rank - 1
    kept = [d for i, d in enumerate(shape) if keep or i not in axes]
    y_shape = [1 if i in axes else d for i, d in enumerate(shape)] if keep else kept
    count = math.prod(shape[axis] for axis in axes)
    scale, zero_point = draw(scales), draw(zero_points)
    b = TfliteBuilder()
    x = b.tensor("x", shape, scale=scale, zero_point=zero_point)
    written = [axis - rank * draw(st.integers(0, 1)) for axis in axes]
    axis = b.constant("axes", np.array(written, np.int32))
    larger = 2.0 ** (count.bit_length() + draw(st.integers(0, 2)))  # exact in float32
    y = b.tensor("y", tuple(y_shape), scale=scale * larger, zero_point=zero_point)
    b.operator("SUM", [x, axis], y, table="ReducerOptions", KeepDims=keep)
    return b.content([x], [y])


@st.composite
def pads(draw):
    """PAD and PADV2 of an image, or of a sequence; of its channels, too."""
    is_image = draw(st.booleans())
    shape = [draw(st.integers(1, 5)) for _ in "hwc"]
    top, bottom, left, right = (draw(st.integers(0, 3)) for _ in range(4))
    channels = draw(st.sampled_from(([0, 0], [2, 0], [1, 3])))
    quantization = {"scale": draw(scales), "zero_point": draw(zero_points)}
    b = TfliteBuilder()
    table = np.array([[0, 0], [top, bottom], [left, right], channels], np.int32)
    if not is_image:
        shape, table = shape[1:], table[[0, 2, 3]]
    x = b.tensor("x", (1, *shape), **quantization)
    inputs = [x, b.constant("paddings", table)]
    padded = tuple(np.array([1, *shape]) + table.sum(axis=1))
    y = b.tensor("y", padded, **quantization)
    if draw(st.booleans()):
        b.operator("PAD", inputs, y, table="PadOptions")
    else:
        value = np.array([draw(zero_points)], np.int8)
        b.operator(
            "PADV2", [*inputs, b.constant("v", value, **quantization)], y, table="PadV2Options"
        )
    return b.content([x], [y])


@st.composite
def resizes(draw):
    """RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR, to any size or by a whole factor."""
    name = draw(st.sampled_from(("Bilinear", "NearestNeighbor")))
    corners = draw(st.sampled_from(((False, False), (True, False), (False, True))))
    size = [draw(st.integers(1, 9)) for _ in "hw"]
    if draw(st.booleans()):
        new = [n * draw(st.integers(1, 4)) for n in size]
    else:
        new = [draw(st.integers(1, 13)) for _ in "hw"]
    channels = draw(st.integers(1, 5))
    quantization = {"scale": draw(scales), "zero_point": draw(zero_points)}
    b = TfliteBuilder()
    x = b.tensor("x", (1, *size, channels), **quantization)
    y = b.tensor("y", (1, *new, channels), **quantization)
    b.operator(
        "RESIZE_BILINEAR" if name == "Bilinear" else "RESIZE_NEAREST_NEIGHBOR",
        [x, b.constant("size", np.array(new, np.int32))],
        y,
        table=f"Resize{name}Options",
        AlignCorners=corners[0],
        HalfPixelCenters=corners[1],
    )
    return b.content([x], [y])


@st.composite
def reshapes(draw):
    """RESHAPE, SQUEEZE, EXPAND_DIMS."""
    h, w, c = (draw(st.integers(1, 4)) for _ in "hwc")
    quantization = {"scale": draw(scales), "zero_point": draw(zero_points)}
    b = TfliteBuilder()
    name = draw(st.sampled_from(("RESHAPE", "SQUEEZE", "EXPAND_DIMS")))
    before = {"RESHAPE": (1, h, w, c), "SQUEEZE": (1, h, 1, c), "EXPAND_DIMS": (1, h, c)}[name]
    after = {"RESHAPE": (1, h * w * c), "SQUEEZE": (1, h, c), "EXPAND_DIMS": (1, h, 1, c)}[name]
    x = b.tensor("x", before, **quantization)
    y = b.tensor("y", after, **quantization)
    if name == "RESHAPE":
        shape = b.constant("shape", np.array(after, np.int32))
        b.operator(name, [x, shape], y, table="ReshapeOptions", NewShape=np.array(after, np.int32))
    elif name == "SQUEEZE":
        b.operator(name, [x], y, table="SqueezeOptions", SqueezeDims=np.array([2], np.int32))
    else:
        b.operator(
            name, [x, b.constant("axis", np.array([2], np.int32))], y, table="ExpandDimsOptions"
        )
    return b.content([x], [y])


@st.composite
def softmaxes(draw):
    """SOFTMAX over vectors and images."""
    shape = (1, *draw(st.lists(st.integers(1, 4), max_size=2)), draw(st.integers(1, 12)))
    b = TfliteBuilder()
    x = b.tensor(
        "x", shape, scale=draw(st.floats(2**-9, 1.0, width=32)), zero_point=draw(zero_points)
    )
    y = b.tensor("y", shape, scale=1 / 256, zero_point=-128)
    beta = draw(st.sampled_from((1.0, 0.5, 2.0)))
    b.operator("SOFTMAX", [x], y, table="SoftmaxOptions", Beta=beta)
    return b.content([x], [y])


@st.composite
def leaky_relus(draw):
    """LEAKY_RELU with and without another scale."""
    shape = (1, draw(st.integers(1, 6)), draw(st.integers(1, 50)))
    b = TfliteBuilder()
    x = b.tensor("x", shape, scale=draw(scales), zero_point=draw(zero_points))
    y = b.tensor("y", shape, scale=draw(scales), zero_point=draw(zero_points))
    alpha = draw(st.sampled_from((0.0, 0.01, 0.1, 0.3, 1.0)))
    b.operator("LEAKY_RELU", [x], y, table="LeakyReluOptions", Alpha=alpha)
    return b.content([x], [y])


@st.composite
def prelus(draw):
    """PRELU with one slope, one per channel, or one per element; slopes may be negative."""
    rng = np.random.default_rng(draw(seeds))
    h, w, c = (draw(st.integers(1, 4)) for _ in "hwc")
    slopes = draw(st.sampled_from(((1,), (1, 1, 1), (1, 1, c), (c,), (h, w, c), (h, 1, c))))
    b = TfliteBuilder()
    x = b.tensor("x", (1, h, w, c), scale=draw(scales), zero_point=draw(zero_points))
    alpha = {"scale": draw(scales), "zero_point": draw(zero_points)}
    y = b.tensor("y", (1, h, w, c), scale=draw(scales), zero_point=draw(zero_points))
    b.operator("PRELU", [x, b.constant("alpha", int8(rng, slopes), **alpha)], y)
    return b.content([x], [y])


@st.composite
def activations_alone(draw):
    """RELU, RELU6, RELU_N1_TO_1 with and without another scale, and QUANTIZE int8 to int8."""
    name = draw(st.sampled_from(("RELU", "RELU6", "RELU_N1_TO_1", "QUANTIZE")))
    shape = (1, draw(st.integers(1, 6)), draw(st.integers(1, 50)))
    x_quantization = {"scale": draw(scales), "zero_point": draw(zero_points)}
    y_quantization = {"scale": draw(scales), "zero_point": draw(zero_points)}
    b = TfliteBuilder()
    x = b.tensor("x", shape, **x_quantization)
    alike = draw(st.booleans())
    y = b.tensor("y", shape, **(x_quantization if alike else y_quantization))
    b.operator(name, [x], y, table="QuantizeOptions" if name == "QUANTIZE" else "")
    return b.content([x], [y])


SINGLE_OPERATORS = {
    "conv_2d": convolutions(),
    "depthwise_conv_2d": convolutions(depthwise=True),
    "grouped_conv_2d": convolutions(grouped=True),
    "transpose_conv": transposed_convolutions(),
    "fully_connected": fully_connected(),
    "fully_connected_per_channel": fully_connected(per_channel=True),
    "add": additions(),
    "pool": pools(),
    "mean": means(),
    "mean_over_axes": means_over_axes(),
    "pad": pads(),
    "resize": resizes(),
    "reshape": reshapes(),
    "leaky_relu": leaky_relus(),
    "prelu": prelus(),
    "softmax": softmaxes(),
    "activation": activations_alone(),
}

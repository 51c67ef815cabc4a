"""Small drawn QDQ models: our integers against onnxruntime's float."""

from dataclasses import replace

import numpy as np
import onnx
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx import helper

from mcutrain.formats.onnx.read import load_onnx
from mcutrain.ir.interpret import interpret
from mcutrain.ops.conv_2d import Convolution
from mcutrain.oracle.onnxruntime import onnxruntime_outputs
from tests.formats.onnx_builder import QdqModel

pytestmark = pytest.mark.oracle

# Both round the same real number, we in fixed point: beside a tie the result may be the neighbour.
STEP = 1
# Of the elements of a sum of products that is rounded once: a float bias that became an integer is
# off by up to a fiftieth of an output step here. More would be a rule that differs.
RARELY = 0.03
SAMPLES = 4
FEW = settings(max_examples=25)
SEEDS = st.integers(0, 2**31)
OPSETS = st.sampled_from([13, 17, 19, 21])
onnxruntime = pytest.importorskip("onnxruntime")
MIDDLES_ARE_TIES = tuple(map(int, onnxruntime.__version__.split(".")[:2])) >= (1, 27)


def compare(model, output, tmp_path_factory, rarely=1.0):
    """Ours equals onnxruntime's but for rounding, in the same shape."""
    path = model.save(tmp_path_factory.mktemp("onnx") / "model.onnx", output)
    graph = load_onnx(path)
    shape = graph.tensors[graph.inputs[0]].type.shape[1:]
    x = np.random.default_rng(1).integers(-128, 128, (SAMPLES, *shape)).astype(np.int8)
    ours = run(graph, x)
    theirs = onnxruntime_outputs(path, x, graph, optimize=False)
    assert ours.shape == theirs.shape
    assert np.abs(ours.astype(int) - theirs).max(initial=0) <= STEP
    once = run(rounded_once(graph), x)
    assert (once != theirs).sum() <= 2 + rarely * theirs.size
    return graph


def run(graph, inputs):
    (x,), (y,) = graph.inputs, graph.outputs
    return np.concatenate([interpret(graph, {x: one[None]})[y] for one in inputs])


def rounded_once(graph):
    """The graph with convolutions that round as float does; TFLite's round twice."""

    def once(op):
        if not isinstance(op, Convolution):
            return op
        return replace(op, requantize=replace(op.requantize, rounds_once=True))

    return replace(graph, nodes=tuple(replace(n, op=once(n.op)) for n in graph.nodes))


def scale_for(rng, products, x_scale, w_scale):
    """An output scale that uses most of the int8 range."""
    spread = 60 * 40 * np.sqrt(products) * x_scale * np.max(w_scale)
    return float(np.float32(spread / 100 * rng.uniform(0.7, 1.4)))


@st.composite
def convolutions(draw):
    depthwise = draw(st.booleans())
    channels, out = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    groups = 1 if depthwise else draw(st.sampled_from([1, 1, 2, 3]))
    multiplier = draw(st.integers(1, 2))
    kernel = draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    pads = [draw(st.integers(0, k - 1)) for k in (*kernel, *kernel)]
    auto = draw(st.sampled_from(["NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"]))
    return {
        "weight": (channels * multiplier, 1, *kernel)
        if depthwise
        else (
            groups * out,
            channels,
            *kernel,
        ),
        "channels": channels * groups,
        "group": channels if depthwise else groups,
        "size": draw(st.tuples(st.integers(5, 9), st.integers(5, 9))),
        "attributes": {
            "strides": [draw(st.integers(1, 3)), draw(st.integers(1, 3))],
            "dilations": [1, 1] if auto != "NOTSET" else [draw(st.integers(1, 2)), 1],
            **({"pads": pads} if auto == "NOTSET" else {"auto_pad": auto}),
        },
        "bias": draw(st.sampled_from(["none", "int32", "float", "other scale"])),
        "activation": draw(st.sampled_from(["none", "Relu", "Clip"])),
        "per_channel": draw(st.booleans()),
        "dtype": draw(st.sampled_from([np.int8, np.uint8])),
        "opset": draw(OPSETS),
        "seed": draw(SEEDS),
    }


@FEW
@given(case=convolutions())
def test_a_convolution_is_within_one_step_of_onnxruntime(case, tmp_path_factory):
    rng = np.random.default_rng(case["seed"])
    x_scale = float(np.float32(rng.uniform(0.01, 0.1)))
    zero_point = 131 if case["dtype"] == np.uint8 else 3
    shape = (1, case["channels"], *case["size"])
    model = QdqModel(shape, x_scale, zero_point, case["opset"], case["dtype"])
    out = case["weight"][0]
    count = out if case["per_channel"] else ()
    w_scales = rng.uniform(0.002, 0.01, count).astype(np.float32)
    w = rng.integers(-127, 128, case["weight"]).astype(np.int8)
    inputs = [model.x, model.dequantized(w, w_scales)]
    b = rng.integers(-3000, 3000, out).astype(np.int32)
    if case["bias"] == "int32":
        inputs.append(model.dequantized(b, np.float32(x_scale) * w_scales))
    elif case["bias"] == "other scale":
        inputs.append(model.dequantized(b, np.float32(1.5e-4)))
    elif case["bias"] == "float":
        inputs.append(model.constant((b * 1.3e-4).astype(np.float32)))
    y = model.op("Conv", *inputs, group=case["group"], **case["attributes"])
    y_scale = scale_for(rng, np.prod(case["weight"][1:]), x_scale, w_scales)
    if case["activation"] == "Relu":
        y = model.op("Relu", y)
    elif case["activation"] == "Clip":
        limits = (model.constant(np.float32(0)), model.constant(np.float32(50 * y_scale)))
        y = model.op("Clip", y, *limits)
    graph = compare(model, model.requantize(y, y_scale, zero_point - 20), tmp_path_factory, RARELY)
    assert len(graph.nodes) == 1


@FEW
@given(
    size=st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 4)),
    transposed=st.booleans(),
    alpha=st.sampled_from([1.0, 0.5]),
    how=st.sampled_from(["Flatten", "Reshape", "Squeeze"]),
    opset=OPSETS,
    seed=SEEDS,
)
def test_gemm_after_flatten_sees_the_channels_in_its_own_order(
    size, transposed, alpha, how, opset, seed, tmp_path_factory
):
    height, width, channels = size if how != "Squeeze" else (1, 1, size[2])
    rng = np.random.default_rng(seed)
    model = QdqModel((1, channels, height, width), opset=opset)
    count, out = channels * height * width, 4
    shape = (out, count) if transposed else (count, out)
    w_scales = rng.uniform(0.002, 0.01, out).astype(np.float32)
    w = rng.integers(-127, 128, shape).astype(np.int8)
    weight = model.dequantized(w, w_scales, axis=0 if transposed else 1)
    x = model.x
    if how == "Flatten":
        x = model.op("Flatten", x)
    elif how == "Reshape":
        x = model.op("Reshape", x, model.constant(np.array([0, -1], np.int64)))
    else:
        x = model.op("Squeeze", x, model.constant(np.array([2, 3], np.int64)))
    bias = model.constant(rng.normal(0, 0.1, out).astype(np.float32))
    y = model.op("Gemm", x, weight, bias, transB=int(transposed), alpha=alpha, beta=0.5)
    y_scale = scale_for(rng, count, 0.05, w_scales) * alpha
    compare(model, model.requantize(y, y_scale, -7), tmp_path_factory, RARELY)


@FEW
@given(opset=OPSETS, seed=SEEDS, float_weight=st.booleans())
def test_matmul_with_a_bias_added_is_one_layer(opset, seed, float_weight, tmp_path_factory):
    rng = np.random.default_rng(seed)
    model = QdqModel((1, 12), opset=opset)
    w = rng.integers(-127, 128, (12, 5)).astype(np.int8)
    if float_weight:
        real = model.constant((w * np.float32(0.01)).astype(np.float32))
        weight = model.requantize(real, 0.01, 0)
    else:
        weight = model.dequantized(w, 0.01)
    y = model.op("MatMul", model.x, weight)
    y = model.op("Add", y, model.constant(rng.normal(0, 0.1, 5).astype(np.float32)))
    y = model.requantize(model.op("Relu", y), scale_for(rng, 12, 0.05, 0.01), -128)
    graph = compare(model, y, tmp_path_factory, RARELY)
    assert [type(n.op).__name__ for n in graph.nodes if not n.op.is_view] == ["Conv2D"]


@FEW
@given(opset=OPSETS, seed=SEEDS, activation=st.booleans())
def test_an_addition_is_within_one_step_of_onnxruntime(opset, seed, activation, tmp_path_factory):
    rng = np.random.default_rng(seed)
    model = QdqModel((1, 3, 4, 5), float(rng.uniform(0.01, 0.1)), 5, opset)
    w = model.dequantized(100 * np.eye(3, dtype=np.int8)[:, :, None, None], 0.01)
    other = model.requantize(model.op("Conv", model.x, w), float(rng.uniform(0.01, 0.1)), -9)
    y = model.op("Add", model.x, other)
    y = model.op("Relu", y) if activation else y
    compare(model, model.requantize(y, float(rng.uniform(0.1, 0.3)), -20), tmp_path_factory, RARELY)


@FEW
@given(scale=st.floats(0.01, 0.3), activation=st.booleans(), opset=OPSETS)
def test_a_change_of_scale_is_within_one_step_of_onnxruntime(
    scale, activation, opset, tmp_path_factory
):
    model = QdqModel((1, 3, 4, 5), opset=opset)
    y = model.op("Relu", model.x) if activation else model.x
    compare(model, model.requantize(y, scale, -9), tmp_path_factory)


@st.composite
def pools(draw):
    kernel = draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    pads = [draw(st.integers(0, k - 1)) for k in (*kernel, *kernel)]
    attributes = {
        "kernel_shape": kernel,
        "strides": [draw(st.integers(1, 3)), draw(st.integers(1, 3))],
        "pads": pads,
        "ceil_mode": draw(st.integers(0, 1)),
    }
    if draw(st.booleans()):
        attributes.pop("pads")
        # onnxruntime fails with SAME where the stride exceeds the kernel.
        attributes["strides"] = [1, 1]
        attributes["auto_pad"] = draw(st.sampled_from(["SAME_UPPER", "SAME_LOWER", "VALID"]))
    return attributes


@FEW
@given(
    attributes=pools(),
    kind=st.sampled_from(["MaxPool", "AveragePool"]),
    counts_padding=st.integers(0, 1),
    same_scale=st.booleans(),
    activation=st.booleans(),
    opset=OPSETS,
)
def test_a_pool_is_within_a_step_per_rounding(
    attributes, kind, counts_padding, same_scale, activation, opset, tmp_path_factory
):
    if kind == "AveragePool":
        attributes = {**attributes, "count_include_pad": counts_padding}
    model = QdqModel((1, 3, 7, 6), 0.05, 3, opset)
    y = model.op(kind, model.x, **attributes)
    y = model.op("Relu", y) if activation else y
    # A larger scale: the second rounding then cannot make the first one's half step two.
    y = model.requantize(y, *((0.05, 3) if same_scale else (0.11, -4)))
    compare(model, y, tmp_path_factory)


@FEW
@given(
    kind=st.sampled_from(["GlobalAveragePool", "ReduceMean", "ReduceMean flat"]),
    size=st.tuples(st.integers(1, 6), st.integers(1, 6)),
    same_scale=st.booleans(),
    opset=OPSETS,
)
def test_a_mean_is_within_one_step_of_onnxruntime(kind, size, same_scale, opset, tmp_path_factory):
    model = QdqModel((1, 5, *size), 0.05, 3, opset)
    if kind == "GlobalAveragePool":
        y = model.op(kind, model.x)
    else:
        keep = 0 if "flat" in kind else 1
        if opset < 18:
            y = model.op("ReduceMean", model.x, axes=[2, -1], keepdims=keep)
        else:
            axes = model.constant(np.array([2, -1], np.int64))
            y = model.op("ReduceMean", model.x, axes, keepdims=keep)
    y = model.requantize(y, *((0.05, 3) if same_scale else (0.021, -4)))
    compare(model, y, tmp_path_factory)


@FEW
@given(
    pads=st.tuples(*[st.integers(0, 2)] * 4),
    channels=st.sampled_from([(0, 0), (2, 1), (0, 3)]),
    value=st.sampled_from([None, 0.0, 1.5]),
    opset=OPSETS,
)
def test_a_pad_equals_onnxruntime(pads, channels, value, opset, tmp_path_factory):
    model = QdqModel((1, 2, 3, 4), opset=opset)
    top, bottom, left, right = pads
    first, last = channels
    amounts = model.constant(np.array([0, first, top, left, 0, last, bottom, right], np.int64))
    more = [] if value is None else [model.constant(np.float32(value))]
    y = model.requantize(model.op("Pad", model.x, amounts, *more), 0.05, 3)
    compare(model, y, tmp_path_factory, 0.0)


@FEW
@given(
    shape=st.sampled_from([(1, 10), (1, 10, 1, 1), (1, 4, 2, 3)]),
    quantized=st.sampled_from([None, (1 / 256, -128), (0.01, -128)]),
    scale=st.floats(0.01, 0.3),
    opset=OPSETS,
)
def test_a_softmax_is_within_one_step_of_onnxruntime(
    shape, quantized, scale, opset, tmp_path_factory
):
    model = QdqModel(shape, scale, 3, opset)
    y = model.op("Softmax", model.x, axis=1)
    compare(model, model.requantize(y, *quantized) if quantized else y, tmp_path_factory)


@FEW
@given(
    kind=st.sampled_from(["nearest", "linear"]),
    coordinates=st.sampled_from(
        ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric"]
    ),
    rounding=st.sampled_from(["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"]),
    size=st.tuples(st.integers(1, 7), st.integers(1, 7)),
    factors=st.tuples(*[st.sampled_from([0.5, 1.0, 1.1, 1.5, 2.0, 3.0, 4.0, 0.7])] * 2),
    by_size=st.booleans(),
    same_scale=st.booleans(),
)
def test_a_resize_is_within_a_step_per_rounding(
    kind, coordinates, rounding, size, factors, by_size, same_scale, tmp_path_factory
):
    model = QdqModel((1, 3, *size), 0.05, 3, 19)
    if kind == "nearest":
        assume(MIDDLES_ARE_TIES or not rounding.startswith("round_"))
    attributes = {"mode": kind, "coordinate_transformation_mode": coordinates}
    if kind == "nearest":
        attributes["nearest_mode"] = rounding
    factors = [max(f, np.float32(1 / n)) for f, n in zip(factors, size, strict=True)]
    if by_size:
        new = [int(np.floor(np.float32(n * f))) for n, f in zip(size, factors, strict=True)]
        sizes = model.constant(np.array([1, 3, *new], np.int64))
        y = model.op("Resize", model.x, "", "", sizes, **attributes)
    else:
        scales = model.constant(np.array([1, 1, *factors], np.float32))
        y = model.op("Resize", model.x, "", scales, **attributes)
    y = model.requantize(y, *((0.05, 3) if same_scale else (0.11, -4)))
    compare(model, y, tmp_path_factory, 0.0 if kind == "nearest" and same_scale else 1.0)


@pytest.mark.parametrize("factors", [(1, 2, 1.5, 1), (1, 2, 1)])
def test_a_resize_may_have_its_channels_last(factors, tmp_path_factory):
    model = QdqModel((1, 6, 5, 3)[: len(factors)], 0.05, 3, 19)
    scales = model.constant(np.array(factors, np.float32))
    y = model.op("Resize", model.x, "", scales, mode="nearest")
    compare(model, model.requantize(y, 0.05, 3), tmp_path_factory, 0.0)


@pytest.mark.skipif(not MIDDLES_ARE_TIES, reason="onnxruntime before 1.27 has other ties")
@pytest.mark.parametrize("rounding", ["round_prefer_floor", "round_prefer_ceil"])
@pytest.mark.parametrize(
    ("coordinates", "size", "new"),
    [
        ("asymmetric", 7, 4),
        ("asymmetric", 7, 38),
        ("half_pixel", 14, 19),
        ("half_pixel", 14, 39),
        ("half_pixel_symmetric", 14, 31),
        ("tf_half_pixel_for_nn", 7, 1),
    ],
)
def test_a_middle_that_float32_misses_is_a_tie(coordinates, size, new, rounding, tmp_path_factory):
    model = QdqModel((1, 3, size, 1), 0.05, 3, 19)
    sizes = model.constant(np.array([1, 3, new, 1], np.int64))
    attributes = {"mode": "nearest", "nearest_mode": rounding}
    attributes["coordinate_transformation_mode"] = coordinates
    y = model.requantize(model.op("Resize", model.x, "", "", sizes, **attributes), 0.05, 3)
    compare(model, y, tmp_path_factory, 0.0)


@pytest.mark.skipif(not MIDDLES_ARE_TIES, reason="onnxruntime before 1.27 has other ties")
@pytest.mark.parametrize("steps_of_float32", range(6))
def test_a_tie_is_as_wide_as_in_onnxruntime(steps_of_float32, tmp_path_factory):
    """A millionth of a pixel to either side of 3.5."""
    factor = np.float32(2 / 3.5)
    for _ in range(steps_of_float32):
        factor = np.nextafter(factor, np.float32(1))
    model = QdqModel((1, 3, 14, 1), 0.05, 3, 19)
    scales = model.constant(np.array([1, 1, factor, 1], np.float32))
    attributes = {"mode": "nearest", "nearest_mode": "round_prefer_ceil"}
    attributes["coordinate_transformation_mode"] = "asymmetric"
    y = model.requantize(model.op("Resize", model.x, "", scales, **attributes), 0.05, 3)
    compare(model, y, tmp_path_factory, 0.0)


@pytest.mark.draws(4)
@pytest.mark.parametrize("rounding", ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
@pytest.mark.parametrize("coordinates", ["half_pixel_symmetric", "half_pixel", "asymmetric"])
def test_a_resize_of_any_size_finds_the_pixels_of_onnxruntime(
    coordinates, rounding, tmp_path_factory
):
    """Also beside a tie, and copied where the size stays."""
    if not MIDDLES_ARE_TIES and rounding.startswith("round_"):
        pytest.skip("onnxruntime before 1.27 has other ties")
    for size in (1, 2, 3, 5, 8, 13):
        for factor in (0.3, 0.7, 1.1, 1.25, 1.5, 2.2, 3.7):
            if size * factor < 1:
                continue
            model = QdqModel((1, 3, size, 1), 0.05, 3, 19)
            scales = model.constant(np.array([1, 1, factor, 1], np.float32))
            attributes = {"mode": "nearest", "nearest_mode": rounding}
            attributes["coordinate_transformation_mode"] = coordinates
            y = model.requantize(model.op("Resize", model.x, "", scales, **attributes), 0.05, 3)
            compare(model, y, tmp_path_factory, 0.0)


def test_reshapes_computed_from_the_batch_and_trivial_nodes_are_seen_through(tmp_path_factory):
    model = QdqModel((1, 6, 1, 1), opset=13)
    batch = model.op("Gather", model.op("Shape", model.x), model.constant(np.array(0, np.int64)))
    batch = model.op("Unsqueeze", batch, model.constant(np.array([0], np.int64)))
    rest = model.constant(np.array([-1], np.int64))
    target = model.op("Concat", batch, rest, axis=0)
    x = model.op("Dropout", model.op("Identity", model.op("Reshape", model.x, target)))
    w = np.arange(18).reshape(3, 6).astype(np.int8)
    weight = model.op("Transpose", model.dequantized(w, [0.01, 0.02, 0.03]), perm=[1, 0])
    y = model.requantize(model.op("MatMul", x, weight), 0.1, 0)
    compare(model, model.op("Relu", y), tmp_path_factory)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_integer_inputs_and_outputs_need_no_quantization_nodes_at_the_edges(
    dtype, tmp_path_factory
):
    model = QdqModel((1, 3, 4, 5), 0.05, 7, dtype=dtype)
    y = model.quantize(model.op("MaxPool", model.x, kernel_shape=[2, 2]), 0.05, 7)
    proto = model.proto(y)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    proto.graph.input[0].type.tensor_type.elem_type = kind
    proto.graph.output[0].type.tensor_type.elem_type = kind
    proto.graph.node[1].input[0] = "input"
    del proto.graph.node[0]
    path = tmp_path_factory.mktemp("onnx") / "model.onnx"
    onnx.save(proto, path)
    graph = load_onnx(path)
    x = np.random.default_rng(1).integers(-128, 128, (2, 4, 5, 3)).astype(np.int8)
    theirs = onnxruntime_outputs(path, x, graph, optimize=False)
    assert theirs.dtype == np.int8
    assert np.array_equal(run(graph, x), theirs)

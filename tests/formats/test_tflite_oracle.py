"""Loaded graphs against the TFLite interpreter's reference kernels."""

import itertools

import flatbuffers
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcutrain.errors import McutrainError, UnsupportedError
from mcutrain.formats import load
from mcutrain.ir.interpret import interpret
from mcutrain.oracle.tflite import find_interpreter
from tests.formats.oracle import (
    PACKAGE,
    ROUNDS_ONCE,
    as_installed,
    needs_interpreter,
    run_reference,
)
from tests.formats.tflite_builder import TfliteBuilder
from tests.formats.tflite_elementwise_models import ELEMENTWISE_AND_SHAPES
from tests.formats.tflite_models import (
    SINGLE_OPERATORS,
    int8,
    scales,
    seeds,
    sums_over_axes,
    zero_points,
)

pytestmark = [pytest.mark.oracle, needs_interpreter]

OPERATORS = SINGLE_OPERATORS | ELEMENTWISE_AND_SHAPES
RUNS = 4
UINT8_OFFSET = 128
MODELS = (
    "ad01_int8",
    "kws_ref_model",
    "mbv2-w0.35.int8",
    "mcunet-5fps.int8",
    "pretrainedResnet_large_int8",
    "pretrainedResnet_quant",
    "proxyless-w0.3.int8",
    "str_ww_ref_model",
    "vww_96_int8",
)


def load_bytes(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("model") / "model.tflite"
    path.write_bytes(content)
    return load(path)


def assert_equals_reference(graph, model, inputs):
    graph = as_installed(graph)
    for values, expected in zip(inputs, run_reference(model, inputs), strict=True):
        found = interpret(graph, dict(zip(graph.inputs, values, strict=True)))
        for name, y in zip(graph.outputs, expected, strict=True):
            assert found[name].shape == y.shape
            assert (found[name] == y).all()


def draw_inputs(graph, seed):
    """Uniform noise, the extremes, and something smoother."""
    rng = np.random.default_rng(seed)
    shapes = [graph.tensors[n].type.shape for n in graph.inputs]
    smooth = [np.clip(rng.normal(0, 30, s), -128, 127).astype(np.int8) for s in shapes]
    ends = [np.where(rng.random(s) < 0.5, -128, 127).astype(np.int8) for s in shapes]
    return [[int8(rng, s) for s in shapes] for _ in range(RUNS)] + [smooth, ends]


@pytest.mark.draws(10)
@pytest.mark.parametrize("operator", OPERATORS)
@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(data=st.data(), seed=seeds)
def test_a_loaded_operator_equals_the_reference_kernel(tmp_path_factory, operator, data, seed):
    if operator == "fully_connected_per_channel" and not ROUNDS_ONCE:
        pytest.skip(f"{PACKAGE} does not know scales per channel here")
    content = data.draw(OPERATORS[operator])
    graph = load_bytes(tmp_path_factory, content)
    assert_equals_reference(graph, content, draw_inputs(graph, seed))


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(data=st.data(), seed=seeds)
def test_a_sum_equals_the_kernel_that_adds_int8(tmp_path_factory, data, seed):
    """The reference kernel takes int8 for uint8: with that the rest of this file compares."""
    content = data.draw(sums_over_axes())
    graph = load_bytes(tmp_path_factory, content)
    module = find_interpreter().module
    kernels = module.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    loaded = module.Interpreter(model_content=content, experimental_op_resolver_type=kernels)
    loaded.allocate_tensors()
    (x,), (y,) = loaded.get_input_details(), loaded.get_output_details()
    for (values,) in draw_inputs(graph, seed):
        loaded.set_tensor(x["index"], values)
        loaded.invoke()
        found = interpret(graph, {graph.inputs[0]: values})[graph.outputs[0]]
        assert (found == loaded.get_tensor(y["index"])).all()


def as_old_file(content):
    """Codes of operators where they were once, and tensors without names."""
    schema = pytest.importorskip("ai_edge_litert.schema_py_generated")
    tables = schema.ModelT.InitFromObj(schema.Model.GetRootAs(content, 0))
    for code in tables.operatorCodes:
        code.deprecatedBuiltinCode, code.builtinCode = code.builtinCode, 0
    for tensor in tables.subgraphs[0].tensors:
        tensor.name = None
    builder = flatbuffers.Builder(len(content))
    builder.Finish(tables.Pack(builder), b"TFL3")
    return bytes(builder.Output())


@pytest.mark.parametrize("is_old", [False, True])
def test_a_network_with_a_sum_is_compared_in_single_precision(tmp_path_factory, is_old):
    """What does not fit int8 saturates. An interpreter that cannot is not asked."""
    b = TfliteBuilder()
    x = b.tensor("x", (1, 3, 5, 4), scale=0.3, zero_point=-7)
    axes = b.constant("axes", np.array([1, 2], np.int32))
    total = b.tensor("sum", (1, 4), scale=0.77, zero_point=5)
    b.operator("SUM", [x, axes], total, table="ReducerOptions", KeepDims=False)
    y = b.tensor("y", (1, 4), scale=0.6, zero_point=-1)
    b.operator("QUANTIZE", [total], y, table="QuantizeOptions")
    content = b.content([x], [y])
    content = as_old_file(content) if is_old else content
    graph = load_bytes(tmp_path_factory, content)
    inputs = draw_inputs(graph, 0)
    if PACKAGE == "tflite_runtime":
        with pytest.raises(McutrainError, match="install ai-edge-litert to compare"):
            run_reference(content, inputs)
        return
    assert any(np.abs((v.astype(int) + 7).sum(axis=(1, 2)) * 0.3).max() > 99 for (v,) in inputs)
    assert_equals_reference(graph, content, inputs)


@pytest.mark.draws(4)
@pytest.mark.shared
@pytest.mark.parametrize("name", MODELS)
def test_a_real_model_equals_the_reference_kernels(shared, name):
    path = shared / "models" / f"{name}.tflite"
    graph = load(path)
    assert_equals_reference(graph, path, draw_inputs(graph, 7))


@pytest.mark.draws(3)
@pytest.mark.parametrize("corners", ["", "AlignCorners", "HalfPixelCenters"])
@pytest.mark.parametrize("kind", ["Bilinear", "NearestNeighbor"])
def test_an_image_is_resized_to_every_size_as_by_the_reference_kernel(
    tmp_path_factory, kind, corners
):
    rng = np.random.default_rng(0)
    name = "RESIZE_BILINEAR" if kind == "Bilinear" else "RESIZE_NEAREST_NEIGHBOR"
    for height, rows in itertools.product((1, 2, 3, 5, 7, 8), range(1, 14)):
        b = TfliteBuilder()
        x = b.tensor("x", (1, height, 9, 2), scale=0.1, zero_point=3)
        y = b.tensor("y", (1, rows, 17, 2), scale=0.1, zero_point=3)
        size = b.constant("size", np.array([rows, 17], np.int32))
        options = {corners: True} if corners else {}
        b.operator(name, [x, size], y, table=f"Resize{kind}Options", **options)
        content = b.content([x], [y])
        graph = load_bytes(tmp_path_factory, content)
        assert_equals_reference(graph, content, [[int8(rng, (1, height, 9, 2))]])


@pytest.mark.parametrize(("slope", "operators"), [(64, ["LeakyRelu"]), (-64, 4), (90, 4)])
def test_one_slope_is_a_leaky_relu_where_that_gives_the_same_integers(
    tmp_path_factory, slope, operators
):
    b, like = TfliteBuilder(), {"scale": 0.03, "zero_point": 3}
    x = b.tensor("x", (1, 256), **like)
    alpha = b.constant("alpha", np.array([slope], np.int8), scale=1 / 128)
    y = b.tensor("y", (1, 256), scale=0.013, zero_point=-10)
    b.operator("PRELU", [x, alpha], y)
    content = b.content([x], [y])
    graph = load_bytes(tmp_path_factory, content)
    found = [type(node.op).__name__ for node in graph.nodes]
    assert operators in (found, len(found))
    assert_equals_reference(graph, content, [[np.arange(-128, 128, dtype=np.int8)[None]]])


def test_slopes_that_are_computed_are_refused(tmp_path_factory):
    b, like = TfliteBuilder(), {"scale": 0.1, "zero_point": 3}
    x, alpha, y = (b.tensor(name, (1, 4), **like) for name in ("x", "alpha", "y"))
    b.operator("PRELU", [x, alpha], y)
    with pytest.raises(UnsupportedError, match="computes its slopes; supported are constant"):
        load_bytes(tmp_path_factory, b.content([x, alpha], [y]))


def test_parts_of_a_split_may_be_outputs_in_any_order(tmp_path_factory):
    b, like = TfliteBuilder(), {"scale": 0.1, "zero_point": 3}
    x = b.tensor("x", (1, 4, 5, 6), **like)
    parts = [b.tensor(f"part{i}", (1, 4, 5, 2), **like) for i in range(3)]
    axis = b.constant("axis", np.array(-1, np.int32))
    b.operator("SPLIT", [axis, x], parts, table="SplitOptions", NumSplits=3)
    content = b.content([x], [parts[2], parts[0]])
    graph = load_bytes(tmp_path_factory, content)
    assert (graph.outputs, len(graph.nodes)) == (("part2", "part0"), 2)
    assert_equals_reference(graph, content, draw_inputs(graph, 1))


def residual_block():
    """PAD, CONV_2D, RELU6, a second branch, ADD, RELU, MEAN, FULLY_CONNECTED, SOFTMAX."""
    rng = np.random.default_rng(3)
    b = TfliteBuilder()
    image, like = (1, 6, 6, 4), {"scale": 0.05, "zero_point": -10}
    x = b.tensor("x", image, scale=0.04, zero_point=5)
    padded = b.tensor("padded", (1, 8, 8, 4), scale=0.04, zero_point=5)
    table = np.array([[0, 0], [1, 1], [1, 1], [0, 0]], np.int32)
    b.operator("PAD", [x, b.constant("paddings", table)], padded, table="PadOptions")
    conv = b.tensor("conv", image, **like)
    w = b.constant("w", int8(rng, (4, 3, 3, 4)), scale=(0.01, 0.02, 0.015, 0.003))
    options = {"Padding": 1, "StrideH": 1, "StrideW": 1}
    bias = b.constant("bias", np.array([500, -300, 0, 90], np.int32), scale=(1e-4,) * 4)
    b.operator("CONV_2D", [padded, w, bias], conv, table="Conv2DOptions", **options)
    relu6 = b.operator("RELU6", [conv], b.tensor("relu6", image, **like))
    total = b.tensor("total", image, scale=0.09, zero_point=-20)
    b.operator("ADD", [relu6, x], total, table="AddOptions")
    relu = b.operator("RELU", [total], b.tensor("relu", image, scale=0.09, zero_point=-20))
    mean = b.tensor("mean", (1, 4), scale=0.05, zero_point=-128)
    axes = b.constant("axes", np.array([1, 2], np.int32))
    b.operator("MEAN", [relu, axes], mean, table="ReducerOptions", KeepDims=False)
    logits = b.tensor("logits", (1, 5), scale=0.1, zero_point=3)
    dense = b.constant("dense", int8(rng, (5, 4)), scale=0.02)
    b.operator("FULLY_CONNECTED", [mean, dense, -1], logits, table="FullyConnectedOptions")
    y = b.tensor("y", (1, 5), scale=1 / 256, zero_point=-128)
    b.operator("SOFTMAX", [logits], y, table="SoftmaxOptions", Beta=1.0)
    return b.content([x], [y])


def test_canonical_passes_keep_every_bit(tmp_path_factory):
    content = residual_block()
    graph = load_bytes(tmp_path_factory, content)
    assert [type(n.op).__name__ for n in graph.nodes] == [
        "Conv2D",
        "Add",
        "Mean",
        "Conv2D",
        "Reshape",
        "Softmax",
    ]
    assert_equals_reference(graph, content, draw_inputs(graph, 1))


@settings(max_examples=20, suppress_health_check=list(HealthCheck))
@given(x_scale=scales, x_zero=zero_points, y_scale=scales, y_zero=zero_points, seed=seeds)
def test_uint8_edges_are_the_int8_tensors_shifted_by_128(
    tmp_path_factory, x_scale, x_zero, y_scale, y_zero, seed
):
    b = TfliteBuilder()
    x = b.tensor("x", (1, 40), "uint8", scale=x_scale, zero_point=x_zero + UINT8_OFFSET)
    inner = b.tensor("inner", (1, 40), scale=x_scale, zero_point=x_zero)
    scaled = b.tensor("scaled", (1, 40), scale=y_scale, zero_point=y_zero)
    y = b.tensor("y", (1, 40), "uint8", scale=y_scale, zero_point=y_zero + UINT8_OFFSET)
    b.operator("QUANTIZE", [x], inner, table="QuantizeOptions")
    b.operator("QUANTIZE", [inner], scaled, table="QuantizeOptions")
    b.operator("QUANTIZE", [scaled], y, table="QuantizeOptions")
    content = b.content([x], [y])
    graph = load_bytes(tmp_path_factory, content)
    assert len(graph.nodes) <= 1
    value = int8(np.random.default_rng(seed), (1, 40))
    stored = (value.astype(np.int16) + UINT8_OFFSET).astype(np.uint8)
    ((expected,),) = run_reference(content, [[stored]])
    found = interpret(graph, {graph.inputs[0]: value})[graph.outputs[0]]
    assert (found.astype(np.int16) + UINT8_OFFSET == expected).all()


def test_float_edges_are_the_int8_tensors_inside(tmp_path_factory):
    b = TfliteBuilder()
    x = b.tensor("x", (1, 30), "float32")
    inner = b.tensor("inner", (1, 30), scale=0.5, zero_point=7)
    relu = b.tensor("relu", (1, 30), scale=0.25, zero_point=-3)
    y = b.tensor("y", (1, 30), "float32")
    b.operator("QUANTIZE", [x], inner, table="QuantizeOptions")
    b.operator("RELU", [inner], relu)
    b.operator("DEQUANTIZE", [relu], y, table="DequantizeOptions")
    content = b.content([x], [y])
    graph = load_bytes(tmp_path_factory, content)
    assert (graph.inputs, graph.outputs) == (("inner",), ("relu",))
    value = int8(np.random.default_rng(0), (1, 30))
    real = ((value.astype(np.float32) - 7) * 0.5).astype(np.float32)
    ((expected,),) = run_reference(content, [[real]])
    found = interpret(graph, {"inner": value})["relu"]
    assert ((found.astype(np.float32) + 3) * 0.25 == expected).all()

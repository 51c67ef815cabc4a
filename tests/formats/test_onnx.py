"""What load_onnx refuses, and that broken files never do harm."""

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from mcutrain.errors import McutrainError, ModelError, UnsupportedError
from mcutrain.formats.onnx.read import load_onnx
from mcutrain.ir.graph import Graph
from mcutrain.ir.interpret import interpret
from tests.formats.onnx_builder import QdqModel


def small_model(opset=17):
    """Conv, Relu, pool, residual Add, Gemm: a bit of everything."""
    model = QdqModel((1, 2, 6, 6), opset=opset)
    w = np.arange(-18, 18).reshape(2, 2, 3, 3).astype(np.int8)
    inputs = (
        model.x,
        model.dequantized(w, [0.01, 0.02]),
        model.dequantized(np.array([5, -7], np.int32), [0.05 * 0.01, 0.05 * 0.02]),
    )
    y = model.op("Conv", *inputs, pads=[1, 1, 1, 1])
    y = model.requantize(model.op("Relu", y), 0.06, -128)
    y = model.requantize(model.op("Add", y, model.x), 0.1, 2)
    y = model.requantize(model.op("MaxPool", y, kernel_shape=[2, 2], strides=[2, 2]), 0.1, 2)
    w = np.arange(54).reshape(3, 18).astype(np.int8)
    y = model.op("Gemm", model.op("Flatten", y), model.dequantized(w, 0.01), transB=1)
    return model, model.requantize(y, 0.3, 0)


def refusal(model, output, tmp_path, error=UnsupportedError):
    path = model.save(tmp_path / "model.onnx", output)
    with pytest.raises(error) as caught:
        load_onnx(path)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_the_input_is_channels_last_with_the_models_own_quantization(tmp_path):
    model, output = small_model()
    graph = load_onnx(model.save(tmp_path / "model.onnx", output))
    kind = graph.tensors["input"].type
    assert kind.layout() == ((1, 6, 6, 2), "int8")
    assert (kind.scale, kind.zero_point) == (float(np.float32(0.05)), 3)
    assert graph.tensors[graph.outputs[0]].type.layout() == ((1, 3), "int8")


def test_uint8_activations_are_int8_smaller_by_128(tmp_path):
    model = QdqModel((1, 2, 6, 6), 0.05, 128, dtype=np.uint8)
    y = model.requantize(model.op("MaxPool", model.x, kernel_shape=[2, 2]), 0.05, 128)
    graph = load_onnx(model.save(tmp_path / "model.onnx", y))
    assert graph.tensors["input"].type.zero_point == 0


def test_weights_are_output_channel_first_and_channels_last(tmp_path):
    model = QdqModel((1, 2, 6, 6))
    w = np.arange(36).reshape(2, 2, 3, 3).astype(np.int8)
    y = model.requantize(model.op("Conv", model.x, model.dequantized(w, 0.01)), 0.1, 0)
    graph = load_onnx(model.save(tmp_path / "model.onnx", y))
    stored = graph.tensors[graph.nodes[0].inputs[1]].data
    assert (stored == w.transpose(0, 2, 3, 1)).all()


def test_an_int32_bias_of_the_products_scale_keeps_its_integers(tmp_path):
    model, output = small_model()
    graph = load_onnx(model.save(tmp_path / "model.onnx", output))
    assert graph.tensors[graph.nodes[0].inputs[2]].data.tolist() == [5, -7]


def test_a_pool_of_another_scale_is_followed_by_a_rescale(tmp_path):
    model = QdqModel((1, 2, 6, 6))
    y = model.requantize(model.op("MaxPool", model.x, kernel_shape=[2, 2]), 0.1, 0)
    graph = load_onnx(model.save(tmp_path / "model.onnx", y))
    assert [type(n.op).__name__ for n in graph.nodes] == ["MaxPool2D", "Rescale"]


def test_a_float_model_is_called_float(tmp_path):
    node = helper.make_node("Relu", ["x"], ["y"])
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 4]) for n in "xy"]
    graph = helper.make_graph([node], "g", values[:1], values[1:])
    onnx.save(helper.make_model(graph), tmp_path / "m.onnx")
    with pytest.raises(UnsupportedError, match="the model is float"):
        load_onnx(tmp_path / "m.onnx")


def test_an_unknown_operator_is_refused_with_its_name_node_and_the_known_ones(tmp_path):
    model = QdqModel((1, 2, 6, 6))
    text = refusal(model, model.op("Sin", model.x), tmp_path)
    assert "Sin (node 'Sin_" in text
    assert "Conv" in text


def test_an_operator_of_float_models_is_refused_with_the_reason(tmp_path):
    model = QdqModel((1, 2, 6, 6))
    numbers = [model.constant(np.ones(2, np.float32)) for _ in range(4)]
    text = refusal(model, model.op("BatchNormalization", model.x, *numbers), tmp_path)
    assert text.endswith("is not supported; quantizing folds it into the layer before it")


@pytest.mark.parametrize(
    ("op_type", "attributes", "expected"),
    [
        ("MaxPool", {"kernel_shape": [2, 2], "count_include_pad": 1}, "count_include_pad"),
        ("AveragePool", {"kernel_shape": [2, 2], "storage_order": 1}, "storage_order"),
        ("MaxPool", {"kernel_shape": [2]}, "over 2 dimensions"),
        ("MaxPool", {"kernel_shape": [2, 2], "pads": [2, 2, 2, 2]}, "padding"),
        ("MaxPool", {"kernel_shape": [2, 2], "colour": 1}, "colour"),
    ],
)  # fmt: skip
def test_an_attribute_without_equal_is_refused_by_name(op_type, attributes, expected, tmp_path):
    model = QdqModel((1, 2, 6, 6))
    y = model.requantize(model.op(op_type, model.x, **attributes), 0.05, 3)
    assert expected in refusal(model, y, tmp_path)


@pytest.mark.parametrize(
    ("kernel", "stride", "count_include_pad", "ceil_mode"), [(2, 2, 1, 0), (2, 2, 0, 1)]
)
def test_attributes_that_change_nothing_are_accepted(
    kernel, stride, count_include_pad, ceil_mode, tmp_path
):
    model = QdqModel((1, 2, 6, 6))
    y = model.op(
        "AveragePool", model.x, kernel_shape=[kernel] * 2, strides=[stride] * 2,
        count_include_pad=count_include_pad, ceil_mode=ceil_mode,
    )  # fmt: skip
    load_onnx(model.save(tmp_path / "model.onnx", model.requantize(y, 0.05, 3)))


@pytest.mark.parametrize(("weight", "group"), [((4, 2, 1, 1), 3), ((5, 2, 1, 1), 2)])
def test_groups_that_do_not_fit_are_refused(weight, group, tmp_path):
    model = QdqModel((1, 4, 6, 6))
    w = model.dequantized(np.ones(weight, np.int8), 0.01)
    y = model.requantize(model.op("Conv", model.x, w, group=group), 0.1, 0)
    assert "does not fit input (1, 4, 6, 6)" in refusal(model, y, tmp_path, ModelError)


@pytest.mark.parametrize("zero_point", [3, [3, 5]])
def test_weights_with_a_zero_point_are_their_integers_minus_it(tmp_path, zero_point):
    model = QdqModel((1, 2, 6, 6))
    w = np.arange(4).reshape(2, 2, 1, 1).astype(np.int8)
    zero_points = np.array(zero_point, np.int8)
    names = [model.constant(a) for a in (w, np.full(zero_points.shape, 0.01, np.float32))]
    axis = {"axis": 0} if zero_points.ndim else {}
    weight = model.op("DequantizeLinear", *names, model.constant(zero_points), **axis)
    y = model.requantize(model.op("Conv", model.x, weight), 0.1, 0)
    graph = load_onnx(model.save(tmp_path / "m.onnx", y))
    kind = graph.tensors[graph.nodes[0].inputs[1]]
    expected = w.reshape(2, 2) - np.broadcast_to(zero_points.reshape(-1, 1), (2, 2))
    assert (kind.data.reshape(2, 2) == expected).all()


def test_weights_of_more_than_8_bits_are_refused(tmp_path):
    model = QdqModel((1, 2, 6, 6))
    names = [model.constant(a) for a in (np.full((2, 2, 1, 1), 256, np.int32), np.float32(0.01))]
    y = model.op("Conv", model.x, model.op("DequantizeLinear", *names))
    assert "of int32 is not" in refusal(model, model.requantize(y, 0.1, 0), tmp_path)


def test_a_float_weight_is_refused(tmp_path):
    model = QdqModel((1, 2, 6, 6))
    w = model.constant(np.ones((2, 2, 1, 1), np.float32))
    y = model.requantize(model.op("Conv", model.x, w), 0.1, 0)
    assert "float weight" in refusal(model, y, tmp_path)


def test_two_operators_without_quantization_between_are_refused(tmp_path):
    model = QdqModel((1, 2, 6, 6))
    y = model.op("Add", model.x, model.x)
    y = model.requantize(model.op("MaxPool", y, kernel_shape=[2, 2]), 0.1, 0)
    assert "QuantizeLinear" in refusal(model, y, tmp_path)


@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, np.inf, 1e-42])
def test_scales_that_are_no_scales_are_refused(scale, tmp_path):
    model = QdqModel((1, 2, 6, 6), scale)
    y = model.requantize(model.op("Relu", model.x), 0.05, 3)
    assert "scale" in refusal(model, y, tmp_path, ModelError)


def test_an_image_that_is_flattened_for_the_output_is_moved_channels_first(tmp_path):
    model = QdqModel((1, 2, 6, 6))
    graph = load_onnx(model.save(tmp_path / "model.onnx", model.op("Flatten", model.x)))
    x = np.arange(72).astype(np.int8).reshape(1, 2, 6, 6)
    ours = interpret(graph, {graph.inputs[0]: x.transpose(0, 2, 3, 1)})[graph.outputs[0]]
    assert np.array_equal(ours, x.reshape(1, 72))


def _huge_dims(proto):
    proto.graph.initializer[3].dims[:] = [2**40, 2**40]


def _negative_dims(proto):
    proto.graph.initializer[3].dims[:] = [-1, -36]


def _huge_input(proto):
    proto.graph.input[0].type.tensor_type.shape.dim[2].dim_value = 2**50


def _cycle(proto):
    proto.graph.node[0].input[0] = proto.graph.node[-1].output[0]


def _missing(proto):
    del proto.graph.initializer[0]


def _twice(proto):
    proto.graph.initializer.add().CopyFrom(proto.graph.initializer[0])


def _huge_pads(proto):
    conv = next(n for n in proto.graph.node if n.op_type == "Conv")
    conv.attribute[0].ints[:] = [2**62] * 4


def _large_pads(proto):
    conv = next(n for n in proto.graph.node if n.op_type == "Conv")
    conv.attribute[0].ints[:] = [2**14] * 4


def _no_output(proto):
    del proto.graph.output[:]


def _no_inputs_of_a_node(proto):
    del proto.graph.node[-1].input[:]


def _wrong_attribute_type(proto):
    conv = next(n for n in proto.graph.node if n.op_type == "Conv")
    conv.attribute[0].CopyFrom(helper.make_attribute("pads", "wide"))


HOSTILE = [
    _huge_dims, _negative_dims, _huge_input, _cycle, _missing, _twice, _huge_pads, _large_pads,
    _no_output, _no_inputs_of_a_node, _wrong_attribute_type,
]  # fmt: skip


@pytest.mark.parametrize("change", HOSTILE, ids=lambda f: f.__name__.strip("_"))
def test_a_hostile_file_is_a_model_error(change, tmp_path):
    model, output = small_model()
    proto = model.proto(output)
    change(proto)
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    with pytest.raises(ModelError):
        load_onnx(tmp_path / "m.onnx")


def test_constants_that_multiply_are_refused(tmp_path):
    model = QdqModel((1, 2, 6, 6))
    y = model.constant(np.arange(8))
    for _ in range(40):
        y = model.op("Concat", y, y, axis=0)
    assert "too long" in refusal(model, y, tmp_path, ModelError)


def test_dimensions_that_multiply_are_refused(tmp_path):
    model = QdqModel((1, 2, 6, 6))
    axes = model.constant(np.arange(12))
    y = model.op("Unsqueeze", model.op("Unsqueeze", model.x, axes), axes)
    assert "dimensions" in refusal(model, y, tmp_path, ModelError)


def test_names_that_are_no_text_are_refused(tmp_path):
    model = QdqModel((1, 2, 6, 6))
    y = model.requantize(model.op("Relu", model.x), 0.05, 3)
    model.nodes[0].name = "two\nlines"
    assert "readable text" in refusal(model, y, tmp_path, ModelError)


def test_a_damaged_scale_that_saturates_everything_is_refused(tmp_path):
    model = QdqModel((1, 2, 6, 6))
    y = model.requantize(model.op("Relu", model.x), 1e-20, 3)
    assert "multiplies by" in refusal(model, y, tmp_path, ModelError)


def test_what_is_no_file_is_a_model_error(tmp_path):
    with pytest.raises(ModelError, match="not a file"):
        load_onnx(tmp_path)


MODEL_BYTES = small_model()[0].proto(small_model()[1]).SerializeToString()


def graph_or_error(data, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "mutated.onnx"
    path.write_bytes(data)
    try:
        result = load_onnx(path)
    except McutrainError as error:
        result = str(error)
    assert isinstance(result, Graph) or "\n" not in result


@settings(max_examples=150)
@given(length=st.integers(0, len(MODEL_BYTES)))
def test_a_truncated_file_gives_a_graph_or_a_model_error(length, tmp_path_factory):
    graph_or_error(MODEL_BYTES[:length], tmp_path_factory)


@pytest.mark.slow
@settings(max_examples=400)
@given(
    changes=st.lists(
        st.tuples(st.integers(0, len(MODEL_BYTES) - 1), st.integers(0, 255)), min_size=1, max_size=6
    )
)
def test_a_mutated_file_gives_a_graph_or_a_model_error(changes, tmp_path_factory):
    data = bytearray(MODEL_BYTES)
    for position, byte in changes:
        data[position] = byte
    graph_or_error(bytes(data), tmp_path_factory)


def modern_model():
    """Curves, a product per channel, a difference, a join, reorderings."""
    model = QdqModel((1, 2, 6, 6))
    x = model.requantize(model.op("HardSwish", model.x), 0.05, 3)
    gate = model.requantize(model.op("GlobalAveragePool", x), 0.05, 3)
    gate = model.requantize(model.op("Sigmoid", gate), 1 / 256, -128)
    y = model.requantize(model.op("Mul", x, gate), 0.05, 3)
    y = model.op("Sub", y, model.constant(np.float32([[[0.5]], [[0.25]]])))
    y = model.requantize(y, 0.05, 3)
    y = model.requantize(model.op("Concat", x, y, axis=1), 0.05, 3)
    y = model.op("Transpose", y, perm=[0, 3, 1, 2])
    return model, model.requantize(model.op("Mul", y, model.constant(np.float32(0.5))), 0.05, 3)


@pytest.mark.slow
@settings(max_examples=500)
@given(data=st.data())
def test_a_rewired_graph_gives_a_graph_or_a_model_error(data, tmp_path_factory):
    model, output = data.draw(st.sampled_from((small_model, modern_model)))()
    proto = model.proto(output)
    names = [n.name for n in proto.graph.initializer]
    names += [o for node in proto.graph.node for o in node.output]
    for _ in range(data.draw(st.integers(1, 3))):
        node = data.draw(st.sampled_from(list(proto.graph.node)))
        if data.draw(st.booleans()):
            position = data.draw(st.integers(0, len(node.input) - 1))
            node.input[position] = data.draw(st.sampled_from([*names, "", "input"]))
        else:
            node.op_type = data.draw(st.sampled_from(sorted({n.op_type for n in proto.graph.node}
                | {"Pad", "Softmax", "ReduceMean", "Reshape", "Squeeze", "Unsqueeze", "Clip",
                   "MatMul", "Transpose", "Gather", "Concat", "Shape", "Constant", "Dropout",
                   "GlobalAveragePool", "AveragePool", "Identity", "Mul", "Sub", "Div",
                   "Sigmoid", "Tanh", "HardSwish", "HardSigmoid", "Elu",
                   "LeakyRelu", "Add", "Neg", "Cast", "Slice", "Pow", "Range", "Max", "PRelu",
                   "Gelu", "MaxPool", "GlobalMaxPool"})))  # fmt: skip
    graph_or_error(proto.SerializeToString(), tmp_path_factory)

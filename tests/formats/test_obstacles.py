"""A refusal names all that is in the way of a file: grouped, counted, with the likely reason."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

from mcutrain.errors import ITEM, ModelError, UnsupportedError
from mcutrain.formats import load, read_float
from mcutrain.formats.obstacles import MOST_ITEMS, Obstacles, Place, unknown
from tests.formats.onnx_builder import QdqModel
from tests.formats.tflite_builder import TfliteBuilder
from tests.quant.networks import OnnxNetwork

SEQUENCE = [1, 16, 8]
LIKE = {"scale": 0.1, "zero_point": 3}


def told(read, path: Path, error: type[ModelError] = UnsupportedError) -> list[str]:
    """Head and items of the refusal."""
    with pytest.raises(error) as caught:
        read(path)
    text = str(caught.value)
    assert "\n" not in text
    return text.split(ITEM)


def begins(items: list[str], start: str) -> str:
    """The one item that begins so."""
    (found,) = (item for item in items if item.startswith(start))
    return found


def normalized(net: OnnxNetwork, x: str) -> str:
    """By other functions than a layer normalization has."""
    d = net.op("Sub", x, net.op("ReduceMean", x, axes=[-1]))
    squared = net.op("Cosh", x)
    mean = net.op("Add", net.op("ReduceMean", squared, axes=[-1]), net.real(1e-5))
    return net.op("Div", d, net.op("Sinh", mean))


def attention(net: OnnxNetwork, x: str) -> str:
    """One head behind a normalization; its residual."""
    y = normalized(net, x)
    q, k, v = (net.op("MatMul", y, net.real(net.rng.normal(0, 1, (8, 8)))) for _ in "qkv")
    weights = net.op("Softmax", net.op("MatMul", q, net.op("Transpose", k, perm=[0, 2, 1])))
    return net.op("Add", x, net.op("MatMul", weights, v))


def wave(net: OnnxNetwork, x: str) -> str:
    e = net.op("Sin", net.op("Div", x, net.real(1.4142)))
    return net.op("Mul", x, net.op("Add", e, net.real(1.0)))


def test_all_that_a_transformer_has_is_named_once_and_counted(tmp_path):
    net = OnnxNetwork(SEQUENCE)
    x = "input"
    for _ in range(3):
        x = wave(net, attention(net, x))
    head, *items = told(read_float, net.save(tmp_path / "m.onnx", x), ModelError)
    assert "the model has 3 obstacles, in 9 nodes" in head
    assert begins(items, "Cosh (").startswith("Cosh (3 nodes, the first '/Cosh_")
    assert begins(items, "Sinh (").startswith("Sinh (3 nodes")
    assert begins(items, "Sin (").startswith("Sin (3 nodes")


def test_an_open_length_does_not_hide_the_operators(tmp_path):
    net = OnnxNetwork(["batch", "time", 8])
    path = net.save(tmp_path / "m.onnx", wave(net, attention(net, "input")))
    _, first, *items = told(read_float, path)
    assert first.startswith("input 'input' has open lengths on the axes [1]")
    assert begins(items, "Sin (").startswith("Sin (node '/Sin_")
    assert begins(items, "Sinh (").startswith("Sinh (node '/Sinh_")


def test_two_inputs_do_not_hide_the_operators(tmp_path):
    net = OnnxNetwork(SEQUENCE)
    proto = net.proto(net.op("Sin", "input"))
    proto.graph.input.add().CopyFrom(proto.graph.input[0])
    proto.graph.input[1].name = "mask"
    proto.graph.input[1].type.tensor_type.elem_type = onnx.TensorProto.INT64
    onnx.save(proto, tmp_path / "m.onnx")
    _, first, second = told(read_float, tmp_path / "m.onnx")
    assert first.startswith("the model has 2 inputs ('input', 'mask')")
    assert second.startswith("Sin (")


def test_a_node_is_named_by_what_is_wrong_with_it_not_by_what_it_reads(tmp_path):
    net = OnnxNetwork([1, 4, 8, 8])
    x = net.op("Relu", net.op("Sin", "input"))
    y = net.op("Gather", "input", net.constant(np.array([0, 2, 9])), axis=1)
    _, *items = told(read_float, net.save(tmp_path / "m.onnx", x, net.op("Relu", y)))
    assert [item.split(" ")[0] for item in items] == ["Sin", "Gather"]


@pytest.mark.parametrize("batch", [1, "batch"])
def test_a_float_model_is_read_on_where_the_file_says_a_shape(tmp_path, batch):
    net = OnnxNetwork([1, 4, 8, 8])
    x = net.op("Sin", "input")
    y = net.op("Conv", x, net.real(np.ones((3, 4, 1, 1))), kind=1)
    proto = net.proto(y)
    onnx.save(proto, tmp_path / "without.onnx")
    assert "Conv (node" not in told(read_float, tmp_path / "without.onnx")[0]
    shape = onnx.helper.make_tensor_value_info(x, onnx.TensorProto.FLOAT, [batch, 4, 8, 8])
    proto.graph.value_info.add().CopyFrom(shape)
    onnx.save(proto, tmp_path / "with.onnx")
    _, first, second = told(read_float, tmp_path / "with.onnx")
    assert first.startswith("Sin (")
    assert second.startswith(f"Conv (node '/{y}'): the attribute kind")


@pytest.mark.parametrize(
    "shape", [None, [], [1], [2, 4, 8, 8], [1, 4, 0, 8], [1, 4, -8, -8], [1] * 9, [1, 2**40, 8, 8]]
)
def test_a_shape_that_no_model_has_is_not_read_on_with(tmp_path, shape):
    net = OnnxNetwork([1, 4, 8, 8])
    x = net.op("Sin", "input")
    proto = net.proto(net.op("Relu", x, kind=1))
    info = onnx.helper.make_tensor_value_info(x, onnx.TensorProto.FLOAT, shape)
    proto.graph.value_info.add().CopyFrom(info)
    onnx.save(proto, tmp_path / "m.onnx")
    assert len(told(read_float, tmp_path / "m.onnx")) == 1


def test_type_and_shape_of_an_input_are_two_obstacles(tmp_path):
    net = OnnxNetwork(["batch", 4, "height", "width"])
    proto = net.proto(net.op("Relu", "input"))
    proto.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.INT8
    onnx.save(proto, tmp_path / "m.onnx")
    head, *items = told(read_float, tmp_path / "m.onnx")
    assert head.startswith(f"{tmp_path / 'm.onnx'}: the model has 2 obstacles (")
    assert [item.split(";")[0] for item in items] == [
        "input 'input' is int8",
        "input 'input' has open lengths on the axes [2, 3]",
    ]


def test_one_operator_with_two_faults_is_two_obstacles(tmp_path):
    net = OnnxNetwork([1, 4, 8, 8])
    w = net.real(np.ones((4, 4, 1, 1)))
    x = [net.op("Conv", "input", w, kind=i) for i in (1, 2)]
    y = [net.op("Conv", "input", w, auto_pad="SIDEWAYS")]
    _, *items = told(read_float, net.save(tmp_path / "m.onnx", *x, *y))
    assert len(items) == 2
    assert items[0].startswith("Conv (2 nodes, the first '/Conv_2'): the attribute kind")
    assert items[1].startswith("Conv (node '/Conv_4')")


def test_one_obstacle_keeps_its_sentence(tmp_path):
    net = OnnxNetwork([1, 4, 8, 8])
    (text,) = told(read_float, net.save(tmp_path / "m.onnx", net.op("Sin", "input")))
    assert "Sin (node '/Sin_1') is not supported; supported are Abs, " in text
    assert text.endswith("Where")


def test_one_kind_of_obstacle_keeps_its_sentence_with_a_count(tmp_path):
    net = OnnxNetwork([1, 4, 8, 8])
    outputs = [net.op("Sin", "input") for _ in range(3)]
    (text,) = told(read_float, net.save(tmp_path / "m.onnx", *outputs))
    assert "Sin (node '/Sin_1' and 2 more) is not supported; supported are Abs, " in text


def test_a_recurrent_layer_is_called_so(tmp_path):
    net = OnnxNetwork(SEQUENCE)
    w, r = (net.real(np.ones((1, 32, 8))) for _ in "wr")
    y = net.op("Sin", net.op("RNN", "input", w, r, hidden_size=8))
    _, *items = told(read_float, net.save(tmp_path / "m.onnx", y))
    assert [item.split(" ")[0] for item in items] == ["RNN", "Sin", "likely"]
    assert "recurrent" in items[-1]


def test_a_detectors_end_is_told_to_be_cut_off(tmp_path):
    net = OnnxNetwork([1, 4, 8, 8])
    y = net.op("NonMaxSuppression", net.op("Relu", "input"), "input")
    (text,) = told(read_float, net.save(tmp_path / "m.onnx", y))
    assert "likely post-processing of detections; end the model before it" in text


def test_as_many_kinds_as_a_screen_holds_are_listed(tmp_path):
    net = OnnxNetwork([1, 4, 8, 8])
    outputs = [net.op(f"Unheard{i:02}", "input") for i in range(MOST_ITEMS)]
    _, *items = told(read_float, net.save(tmp_path / "m.onnx", *outputs))
    assert [item.split(" ")[0] for item in items] == [f"Unheard{i:02}" for i in range(MOST_ITEMS)]


def test_more_kinds_than_a_screen_holds_are_counted(tmp_path):
    net = OnnxNetwork([1, 4, 8, 8])
    outputs = [net.op(f"Unheard{i:02}", "input") for i in range(MOST_ITEMS + 5)]
    _, *items = told(read_float, net.save(tmp_path / "m.onnx", *outputs))
    assert len(items) == MOST_ITEMS + 1
    assert items[-1].startswith("and 5 more: Unheard12, Unheard13, ")


def test_int8_models_are_read_on_too(tmp_path):
    model = QdqModel((1, 2, 6, 6))
    a = model.requantize(model.op("Sin", model.x), 0.1, 0)
    b = model.requantize(model.op("Relu", model.x, kind=1), 0.1, 0)
    y = model.op("Gemm", a, model.requantize(model.op("Relu", a), 0.1, 0))
    y = model.requantize(model.op("Add", model.requantize(y, 0.1, 0), b), 0.1, 0)
    _, *items = told(load, model.save(tmp_path / "m.onnx", y))
    assert [item.split(" ")[0] for item in items] == ["Sin", "Relu", "Gemm"]
    assert "an input 1 that is computed is not" in items[2]


def test_what_is_broken_before_any_obstacle_keeps_its_sentence(tmp_path):
    net = OnnxNetwork([1, 4, 8, 8])
    y = net.op("Relu", "nowhere")
    (text,) = told(read_float, net.save(tmp_path / "m.onnx", y), ModelError)
    assert "reads 'nowhere', which nothing before it computes" in text


def test_constants_beyond_the_limit_end_the_reading(tmp_path, monkeypatch):
    monkeypatch.setattr("mcutrain.formats.onnx.node.MAX_CONSTANT_BYTES", 5000)
    net = OnnxNetwork([1, 4, 8, 8])
    net.op("Exp", net.real(np.ones(1000)))
    y = net.op("Relu", "input", kind=1)
    (text,) = told(read_float, net.save(tmp_path / "m.onnx", y), ModelError)
    assert "the model's constants exceed" in text


# ------------------------------------------------------------------------------------------- tflite


def streaming(b: TfliteBuilder, dtype: str, **like: object) -> tuple[int, int]:
    """Variables between calls, a recurrent layer and a Relu; the model's input and output."""
    x = b.tensor("x", (1, 8), dtype, **like)
    state = b.operator("VAR_HANDLE", [], b.tensor("state", (), "int32"))
    old = [
        b.operator("READ_VARIABLE", [state], b.tensor(f"old{i}", (1, 8), dtype, **like))
        for i in range(2)
    ]
    lstm = b.tensor("lstm", (1, 8), dtype, **like)
    b.operator("UNIDIRECTIONAL_SEQUENCE_RNN", [x, *old], lstm)
    return x, b.operator("RELU", [lstm], b.tensor("y", (1, 8), dtype, **like))


@pytest.mark.parametrize(
    ("read", "dtype", "like"), [(load, "int8", LIKE), (read_float, "float32", {})]
)
def test_a_streaming_model_is_called_so(tmp_path, read, dtype, like):
    b = TfliteBuilder()
    x, y = streaming(b, dtype, **like)
    (tmp_path / "m.tflite").write_bytes(b.content([x], [y], subgraphs=2))
    _, first, *items = told(read, tmp_path / "m.tflite")
    assert first == "the model has 2 subgraphs; supported is one"
    assert begins(items, "UNIDIRECTIONAL") == (
        "UNIDIRECTIONAL_SEQUENCE_RNN (node 'lstm') is not supported"
    )
    assert begins(items, "READ_VARIABLE (2 nodes, the first 'old0')").endswith("not supported")
    assert ["recurrent" in items[-2], "streaming" in items[-1]] == [True, True]


def test_a_tflite_model_is_read_on_behind_what_is_unknown(tmp_path):
    b = TfliteBuilder()
    x = b.tensor("x", (1, 4, 4, 2), **LIKE)
    sine = b.operator("SIN", [x], b.tensor("sine", (1, 4, 4, 2), **LIKE))
    w = b.constant("w", np.ones((2, 1, 1, 2), np.int8), scale=0.1, zero_point=5)
    y = b.tensor("y", (1, 4, 4, 2), **LIKE)
    b.operator("CONV_2D", [sine, w], y, "Conv2DOptions", Padding=1, StrideH=1, StrideW=1)
    (tmp_path / "m.tflite").write_bytes(b.content([x], [y]))
    _, *items = told(load, tmp_path / "m.tflite")
    assert items[0] == "SIN (node 'sine') is not supported"
    assert items[1].startswith("CONV_2D (node 'y'): weight 'w' must have zero point 0")


def test_an_output_that_is_unknown_for_an_operators_sake_is_no_obstacle(tmp_path):
    b = TfliteBuilder()
    x = b.tensor("x", (1, 4), **LIKE)
    relu = b.operator("RELU", [x], b.tensor("relu", (1, 4), **LIKE))
    y = b.operator("ARG_MAX", [relu], b.tensor("y", (1,), "int32"))
    (tmp_path / "m.tflite").write_bytes(b.content([x], [y]))
    (text,) = told(load, tmp_path / "m.tflite")
    assert "operator ARG_MAX (node 'y') is not supported; end the model before it, and" in text


def test_an_int8_model_is_only_told_that_quantizing_is_not_needed(tmp_path):
    b = TfliteBuilder()
    x, y = streaming(b, "int8", **LIKE)
    (tmp_path / "m.tflite").write_bytes(b.content([x], [y]))
    (text,) = told(read_float, tmp_path / "m.tflite")
    assert "supported are float models" in text


# ---------------------------------------------------------------------------------- the collection


def refusals(*sentences: tuple[str, str]) -> str:
    """What is told of operators and causes."""

    def read(obstacles: Obstacles) -> None:
        for i, (operator, cause) in enumerate(sentences):
            place = Place(i, operator, f"n{i}", f"{operator} (node 'n{i}')")
            with obstacles.noted(place):
                raise UnsupportedError(f"{place.where}{cause}")

    with pytest.raises(UnsupportedError) as caught:
        reading(read, *(operator for operator, _ in sentences))
    return str(caught.value)


def reading(read: Callable[[Obstacles], None], *operators: str) -> None:
    """Call it as a reader is called."""
    obstacles = Obstacles(operators)
    with obstacles.told(list):
        read(obstacles)


def failing(error: Exception) -> Callable[[Obstacles], None]:
    """A reader that goes on behind an obstacle, and then meets an error."""

    def read(obstacles: Obstacles) -> None:
        with obstacles.noted():
            raise UnsupportedError("first")
        raise error

    return read


@pytest.mark.parametrize(
    ("operator", "word"),
    [
        ("LSTM", "recurrent network in a form that is not read; LSTM and GRU of .onnx and float"),
        ("GroupNormalization", "those of instances and groups in .onnx"),
        ("UNIDIRECTIONAL_SEQUENCE_RNN", "recurrent"),
        ("WHILE", "recurrent"),
        ("Scan", "recurrent"),
        ("INSTANCE_NORM", "batch and layer normalization"),
        ("SkipLayerNormalization", "batch and layer normalization"),
        ("MultiHeadAttention", "attention"),
        ("ASSIGN_VARIABLE", "streaming"),
        ("CALL_ONCE", "streaming"),
        ("NON_MAX_SUPPRESSION_V5", "detections"),
        ("TOPK_V2", "detections"),
        ("TopK", "detections"),
        ("CUSTOM (TFLite_Detection_PostProcess)", "detections"),
        ("CUSTOM (FlexSin)", "TensorFlow's own"),
    ],
)
def test_an_operator_tells_the_likely_reason(operator, word):
    text = refusals((operator, " is not supported; supported are ADD"))
    assert text.count("; likely ") == 1
    assert word in text.partition("; likely ")[2]


@pytest.mark.parametrize(
    "operator",
    ["Sin", "CUSTOM (Mine)", "Conv", "LayerNormalization", "Scanner", "MatMul", "Softmax"],
)
def test_other_operators_tell_none(operator):
    assert "likely" not in refusals((operator, ": an input that is 3 is not; 4 is supported"))


@pytest.mark.parametrize(
    ("operator", "word"),
    [
        ("LessOrEqual", "write it as Max, Min, Clip or Relu"),
        ("operator GREATER_EQUAL", "write it as Max, Min, Clip or Relu"),
        ("operator LOGICAL_AND", "write it as Max, Min, Clip or Relu"),
        ("If", "without control flow"),
        ("ArgMax", "end the model before it"),
        ("DynamicQuantizeLinear", "quantize statically"),
        ("RandomNormalLike", "for inference"),
        ("LRN", "batch normalization"),
        ("Sin", "supported are Add, Conv"),
        ("Ifs", "supported are Add, Conv"),
        ("Where", "of the float model"),
    ],
)
def test_operators_without_a_rule_have_a_way_out(operator, word):
    reason = "of the float model" if operator == "Where" else ""
    text = str(unknown(f"{operator} (node 'n')", ("Conv", "Add"), reason))
    assert text.startswith(f"{operator} (node 'n') is not supported; ")
    assert word in text


def test_a_product_without_softmax_is_not_called_attention():
    product = ("BATCH_MATMUL", ": matrices (1, 2, 3) and (1, 1, 3, 2) are multiplied")
    assert "likely" not in refusals(product)
    assert "likely attention" in refusals(product, ("SOFTMAX", ": beta is not; 1 is supported"))


def test_what_differs_in_names_and_numbers_only_is_one_obstacle():
    text = refusals(
        ("Pad", ": pads (1, 2) of 'a' by -3.5 is not"),
        ("Pad", ": pads (1, 2, 3) of 'b' by 4 is not"),
        ("Pad", ": sideways is not"),
    )
    assert text.split(ITEM)[1:] == [
        "Pad (2 nodes, the first 'n0'): pads (1, 2) of 'a' by -3.5 is not",
        "Pad (node 'n2'): sideways is not",
    ]


def test_long_names_and_causes_are_cut():
    text = refusals(("A" * 500, ": is " + "b" * 500), ("C", ": no"))
    assert len(text.split(ITEM)[1]) < 300


def test_what_fails_behind_an_obstacle_is_not_told():
    with pytest.raises(UnsupportedError, match=r"^first$"):
        reading(failing(LookupError("a consequence")))


def test_what_fails_before_any_obstacle_passes():
    def read(obstacles: Obstacles) -> None:
        raise LookupError("a bug")

    with pytest.raises(LookupError):
        reading(read)


def test_no_memory_is_told_even_behind_an_obstacle():
    with pytest.raises(MemoryError):
        reading(failing(MemoryError()))

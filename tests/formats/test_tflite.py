"""What `load` makes of sound, unsupported, damaged and hostile .tflite files."""

import struct
import time

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcutrain.errors import ModelError, UnsupportedError
from mcutrain.formats import load
from mcutrain.formats.tflite.file import unique_names
from mcutrain.ir.graph import Graph
from mcutrain.ir.interpret import interpret
from mcutrain.ir.text import dump
from tests.formats.tflite_builder import NO_TENSOR, TfliteBuilder
from tests.formats.tflite_elementwise_models import ELEMENTWISE_AND_SHAPES
from tests.formats.tflite_models import SINGLE_OPERATORS

IMAGE = (1, 4, 4, 2)
LIKE = {"scale": 0.1, "zero_point": 3}
CONV = {"table": "Conv2DOptions", "Padding": 1, "StrideH": 1, "StrideW": 1}
MANY_SECONDS = 5  # a damaged file of a few KB is refused in milliseconds


@pytest.fixture
def load_bytes(tmp_path):
    def load_content(content, name="model.tflite"):
        path = tmp_path / name
        path.write_bytes(content)
        return load(path)

    return load_content


def one(name, x, y, *constants, **options):
    """A model of one operator; x, y: (shape, quantization); constants: (array, quantization)."""
    b = TfliteBuilder()
    inputs = [b.tensor("x", x[0], **x[1])]
    inputs += [b.constant(f"c{i}", data, **more) for i, (data, more) in enumerate(constants)]
    output = b.tensor("y", y[0], **y[1])
    b.operator(name, inputs, output, **options)
    return b.content([inputs[0]], [output])


def conv(w=None, w_quantization=None, y_shape=IMAGE, x=(IMAGE, LIKE), bias=None, **options):
    """A CONV_2D from which one thing at a time can be made wrong."""
    w = np.ones((2, 1, 1, 2), np.int8) if w is None else w
    constants = [(w, {"scale": 0.01} if w_quantization is None else w_quantization)]
    if bias is not None:
        constants.append((bias, {"scale": 0.001}))
    return one("CONV_2D", x, (y_shape, LIKE), *constants, **(CONV | options))


# --------------------------------------------------------------------------------- what is loaded


def test_a_missing_bias_is_zeros(load_bytes):
    graph = load_bytes(conv())
    assert (graph.tensors[graph.nodes[0].inputs[2]].data == 0).all()


def test_a_bias_is_quantized_by_input_scale_times_weight_scale(load_bytes):
    w_scales = (0.01, 0.02)
    graph = load_bytes(conv(w_quantization={"scale": w_scales}))
    x, w, b = graph.types(graph.nodes[0].inputs)
    assert w.scales == tuple(float(np.float32(s)) for s in w_scales)
    assert b.scales == tuple(x.scale * s for s in w.scales)


def test_the_same_file_gives_the_same_text(load_bytes):
    content = conv()
    assert dump(load_bytes(content)) == dump(load_bytes(content))


def test_equal_names_are_told_apart():
    assert unique_names(["a", "a", "a_2", "a"]) == ("a", "a_2", "a_2_2", "a_3")


def test_names_in_a_file_become_unique_and_printable(load_bytes):
    b = TfliteBuilder()
    x = b.tensor("t", (1, 4), **LIKE)
    middle = b.operator("RELU", [x], b.tensor("t", (1, 4), scale=0.2))
    y = b.operator("RELU", [middle], b.tensor("evil */\n", (1, 4), scale=0.3))
    graph = load_bytes(b.content([x], [y]))
    assert graph.inputs == ("t",)
    assert graph.outputs == ("evil */?",)
    assert len({n.name for n in graph.nodes}) == 2


def test_a_pad_of_another_value_than_the_zero_point_is_not_folded(load_bytes):
    b = TfliteBuilder()
    x = b.tensor("x", IMAGE, **LIKE)
    padded = b.tensor("padded", (1, 6, 6, 2), **LIKE)
    table = np.array([[0, 0], [1, 1], [1, 1], [0, 0]], np.int32)
    value = b.constant("value", np.array([-7], np.int8), **LIKE)
    b.operator("PADV2", [x, b.constant("table", table), value], padded, table="PadV2Options")
    w = b.constant("w", np.ones((2, 3, 3, 2), np.int8), scale=0.01)
    y = b.operator("CONV_2D", [padded, w], b.tensor("y", IMAGE, **LIKE), **CONV)
    graph = load_bytes(b.content([x], [y]))
    assert [type(n.op).__name__ for n in graph.nodes] == ["Pad", "Conv2D"]


def test_a_pad_that_two_operators_read_is_not_folded(load_bytes):
    b = TfliteBuilder()
    x = b.tensor("x", IMAGE, **LIKE)
    padded = b.tensor("padded", (1, 6, 6, 2), **LIKE)
    table = np.array([[0, 0], [1, 1], [1, 1], [0, 0]], np.int32)
    b.operator("PAD", [x, b.constant("table", table)], padded, table="PadOptions")
    w = b.constant("w", np.ones((2, 3, 3, 2), np.int8), scale=0.01)
    y = b.operator("CONV_2D", [padded, w], b.tensor("y", IMAGE, **LIKE), **CONV)
    z = b.operator("RELU", [padded], b.tensor("z", (1, 6, 6, 2), scale=0.2))
    graph = load_bytes(b.content([x], [y, z]))
    assert [type(n.op).__name__ for n in graph.nodes] == ["Pad", "Conv2D", "Rescale"]


def test_an_activation_is_not_folded_into_a_tensor_that_another_operator_reads(load_bytes):
    b = TfliteBuilder()
    x = b.tensor("x", IMAGE, **LIKE)
    w = b.constant("w", np.ones((2, 1, 1, 2), np.int8), scale=0.01)
    conv_y = b.operator("CONV_2D", [x, w], b.tensor("conv", IMAGE, **LIKE), **CONV)
    relu = b.operator("RELU", [conv_y], b.tensor("relu", IMAGE, **LIKE))
    y = b.operator("ADD", [conv_y, relu], b.tensor("y", IMAGE, **LIKE), table="AddOptions")
    graph = load_bytes(b.content([x], [y]))
    assert [type(n.op).__name__ for n in graph.nodes] == ["Conv2D", "Rescale", "Add"]


def test_operators_that_no_output_needs_are_dropped(load_bytes):
    b = TfliteBuilder()
    x = b.tensor("x", (1, 4), **LIKE)
    y = b.operator("RELU", [x], b.tensor("y", (1, 4), scale=0.2))
    b.operator("RELU6", [x], b.tensor("unused", (1, 4), scale=0.2))
    graph = load_bytes(b.content([x], [y]))
    assert [n.outputs for n in graph.nodes] == [("y",)]


def test_a_model_that_only_reshapes_keeps_its_input_and_output(load_bytes):
    graph = load_bytes(one("RESHAPE", ((1, 4), LIKE), ((1, 2, 2), LIKE)))
    value = np.arange(4, dtype=np.int8)[None]
    assert (interpret(graph, {"x": value})["y"] == value.reshape(1, 2, 2)).all()


def test_a_saturated_bias_is_moved_away_from_the_end_of_int32_without_effect(load_bytes):
    w = np.full((2, 1, 1, 2), 127, np.int8)
    bias = np.array([-(2**31) + 5, 40], np.int32)
    graph = load_bytes(
        conv(
            w=w,
            bias=bias,
            w_quantization={"scale": (1e-9, 0.01)},
            FusedActivationFunction=1,
            x=(IMAGE, {"scale": 0.1, "zero_point": 3}),
        )
    )
    kept = graph.tensors[graph.nodes[0].inputs[2]].data
    assert kept[1] == 40
    assert int(kept[0]) - 255 * 127 * 2 > -(2**31)


# -------------------------------------------------------------------------------- what is refused


def test_an_unknown_operator_is_refused_by_name_with_the_list_of_supported_ones(load_bytes):
    content = one("COS", ((1, 4), LIKE), ((1, 4), LIKE))
    with pytest.raises(UnsupportedError, match=r"operator COS \(node 'y'\).*CONV_2D.*SOFTMAX"):
        load_bytes(content)


def test_a_float_model_is_refused_with_advice(load_bytes):
    content = one("RELU", ((1, 4), {"dtype": "float32"}), ((1, 4), {"dtype": "float32"}))
    with pytest.raises(UnsupportedError, match="this is a float model; quantize it to int8 first"):
        load_bytes(content)


FLOAT = {"dtype": "float32"}
UINT8 = {"dtype": "uint8", "scale": 0.1, "zero_point": 131}
W = np.ones((2, 1, 1, 2), np.int8)
PADDINGS = np.array([[0, 0], [1, 1], [1, 1], [0, 0]], np.int32)
POOL = {"table": "Pool2DOptions", "FilterHeight": 2, "FilterWidth": 2, "StrideH": 1, "StrideW": 1}

REFUSALS = {
    "a fused TANH": (conv(FusedActivationFunction=4), UnsupportedError, "fused activation 4"),
    "an unknown padding": (conv(Padding=7), ModelError, "unknown padding 7"),
    "a stride of zero": (conv(StrideH=0), ModelError, r"stride \(0, 1\).*must be positive"),
    "a negative dilation": (conv(DilationHFactor=-1), ModelError, "must be positive"),
    "a huge dilation": (
        conv(w=np.ones((2, 3, 3, 2), np.int8), Padding=0, DilationHFactor=2**30),
        UnsupportedError,
        "pads by",
    ),
    "a wrong output shape": (conv(y_shape=(1, 4, 3, 2)), ModelError, "is declared"),
    "groups of no size": (
        conv(w=np.ones((2, 1, 1, 3), np.int8)),
        ModelError,
        r"2 input channels and a weight \(2, 1, 1, 3\) make no groups",
    ),
    "a batch of two": (
        conv(x=((2, 4, 4, 2), LIKE), y_shape=(2, 4, 4, 2)),
        UnsupportedError,
        r"supported is \[1,h,w,c\]",
    ),
    "a batch of two vectors": (
        one("RELU", ((2, 4), LIKE), ((2, 4), LIKE)),
        UnsupportedError,
        "supported is batch 1",
    ),
    "asymmetric weights": (
        conv(w_quantization={"scale": 0.01, "zero_point": 4}),
        UnsupportedError,
        "zero point 0",
    ),
    "weights without scale": (conv(w_quantization={"scale": ()}), UnsupportedError, "needs one"),
    "weights with scales of inputs": (
        conv(w_quantization={"scale": (0.1, 0.2), "axis": 3}),
        UnsupportedError,
        "one per output channel",
    ),
    "float weights": (conv(w=W.astype(np.float32)), UnsupportedError, "must be constant and int8"),
    "a float bias": (conv(bias=np.ones(2, np.float32)), UnsupportedError, "constant and int32"),
    "a bias of another length": (conv(bias=np.ones(3, np.int32)), ModelError, "3 elements, not 2"),
    "a scale of zero": (conv(w_quantization={"scale": 0.0}), ModelError, "positive and finite"),
    "a scale that is no number": (
        conv(w_quantization={"scale": float("nan")}),
        ModelError,
        "positive and finite",
    ),
    "a negative scale": (conv(w_quantization={"scale": -1.0}), ModelError, "positive and finite"),
    "scales that overflow": (
        conv(w_quantization={"scale": 1e30}),
        ModelError,
        "overflow 32 bits",
    ),
    "a zero point beyond int8": (
        conv(x=(IMAGE, {"scale": 0.1, "zero_point": 200})),
        ModelError,
        "impossible zero point 200",
    ),
    "an activation without scale": (conv(x=(IMAGE, {})), UnsupportedError, "has 0 scales"),
    "more scales than channels": (
        conv(w_quantization={"scale": (0.1, 0.2, 0.3)}),
        ModelError,
        "3 scales on axis 0",
    ),
    "a negative dimension": (
        conv(x=((1, -4, 4, 2), LIKE)),
        ModelError,
        "impossible shape",
    ),
    "an enormous tensor": (
        conv(x=((1, 2**20, 2**20, 2), LIKE)),
        ModelError,
        "impossible shape",
    ),
    "missing options": (
        one("CONV_2D", (IMAGE, LIKE), (IMAGE, LIKE), (W, {"scale": 0.01})),
        ModelError,
        "lacks its Conv2DOptions",
    ),
    "options of another operator": (
        one("CONV_2D", (IMAGE, LIKE), (IMAGE, LIKE), (W, {"scale": 0.01}), table="AddOptions"),
        ModelError,
        "lacks its Conv2DOptions",
    ),
    "a missing weight": (
        one("CONV_2D", (IMAGE, LIKE), (IMAGE, LIKE), **CONV),
        ModelError,
        "has no input 1",
    ),
    "broadcasting": (
        one(
            "ADD",
            (IMAGE, LIKE),
            (IMAGE, LIKE),
            (np.ones((1, 3, 1, 2), np.int8), LIKE),
            table="AddOptions",
        ),
        ModelError,
        "do not fit each other",
    ),
    "a pool that rescales": (
        one("MAX_POOL_2D", (IMAGE, LIKE), ((1, 4, 4, 2), {"scale": 0.2, "zero_point": 3}), **POOL),
        ModelError,
        "quantized alike",
    ),
    "a pool larger than its input": (
        one(
            "MAX_POOL_2D",
            (IMAGE, LIKE),
            (IMAGE, LIKE),
            **(POOL | {"Padding": 1, "FilterHeight": 9}),
        ),
        ModelError,
        "does not fit an input of 4x4",
    ),
    "a mean over the batch": (
        one(
            "MEAN",
            (IMAGE, LIKE),
            (IMAGE[1:], LIKE),
            (np.array([0, 2], np.int32), {}),
            table="ReducerOptions",
        ),
        UnsupportedError,
        r"reduces \(1, 4, 4, 2\) over the axes \[0, 2\]; supported are all but the first",
    ),
    "a sum modulo 256": (
        one(
            "SUM",
            (IMAGE, LIKE),
            ((1, IMAGE[-1]), LIKE),
            (np.array([1, 2], np.int32), {}),
            table="ReducerOptions",
        ),
        UnsupportedError,
        "quantized as its input, of which TFLite adds the integers modulo 256",
    ),
    "a part of another scale": (
        one(
            "SLICE",
            (IMAGE, LIKE),
            ((1, 4, 4, 1), {"scale": 0.7, "zero_point": 3}),
            (np.array([0, 0, 0, 0], np.int32), {}),
            (np.array([1, 4, 4, 1], np.int32), {}),
            table="SliceOptions",
        ),
        ModelError,
        "of a part must be quantized alike",
    ),
    "a pad of the batch": (
        one(
            "PAD",
            (IMAGE, LIKE),
            ((1, 4, 4, 4), LIKE),
            (PADDINGS[::-1][[1, 0, 0, 1]], {}),
            table="PadOptions",
        ),
        UnsupportedError,
        "supported are height, width and channels",
    ),
    "a softmax of another scale": (
        one("SOFTMAX", ((1, 4), LIKE), ((1, 4), LIKE), table="SoftmaxOptions", Beta=1.0),
        ModelError,
        "scale 1/256 and zero point -128",
    ),
    "a reshape that loses elements": (
        one("RESHAPE", ((1, 4), LIKE), ((1, 5), LIKE)),
        ModelError,
        r"cannot become \(1, 5\)",
    ),
    "int16 arithmetic": (
        one("RELU", ((1, 4), {"dtype": "int16", "scale": 0.1}), ((1, 4), LIKE)),
        UnsupportedError,
        "is int16; supported is int8",
    ),
    "dequantization in the middle": (
        one("RELU", ((1, 4), FLOAT), ((1, 4), LIKE)),
        UnsupportedError,
        "is float32; supported is int8",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_model_is_refused_in_one_sentence(load_bytes, case):
    content, error, sentence = REFUSALS[case]
    with pytest.raises(error, match=sentence) as caught:
        load_bytes(content)
    assert "\n" not in str(caught.value)


def test_several_subgraphs_are_refused(load_bytes):
    b = TfliteBuilder()
    x = b.tensor("x", (1, 4), **LIKE)
    y = b.operator("RELU", [x], b.tensor("y", (1, 4), **LIKE))
    with pytest.raises(UnsupportedError, match="2 subgraphs; supported is one"):
        load_bytes(b.content([x], [y], subgraphs=2))


def test_operators_out_of_order_are_refused(load_bytes):
    b = TfliteBuilder()
    x, middle, y = (b.tensor(n, (1, 4), scale=s) for n, s in (("x", 0.1), ("m", 0.2), ("y", 0.3)))
    b.operator("RELU", [middle], y)
    b.operator("RELU", [x], middle)
    with pytest.raises(ModelError, match="reads 'm' before it is computed"):
        load_bytes(b.content([x], [y]))


def test_a_cycle_is_refused(load_bytes):
    b = TfliteBuilder()
    x, y = b.tensor("x", (1, 4), **LIKE), b.tensor("y", (1, 4), **LIKE)
    b.operator("ADD", [x, y], y, table="AddOptions")
    with pytest.raises(ModelError, match="reads 'y' before it is computed"):
        load_bytes(b.content([x], [y]))


def test_a_tensor_index_out_of_range_is_refused(load_bytes):
    b = TfliteBuilder()
    x, y = b.tensor("x", (1, 4), **LIKE), b.tensor("y", (1, 4), **LIKE)
    b.operator("RELU", [99], y)
    with pytest.raises(ModelError, match="name tensor 99 of 2"):
        load_bytes(b.content([x], [y]))


def test_a_missing_required_input_is_refused(load_bytes):
    b = TfliteBuilder()
    x, y = b.tensor("x", (1, 4), **LIKE), b.tensor("y", (1, 4), **LIKE)
    b.operator("RELU", [NO_TENSOR], y)
    with pytest.raises(ModelError, match="has no input 0"):
        load_bytes(b.content([x], [y]))


def test_a_buffer_of_the_wrong_length_is_refused(load_bytes):
    b = TfliteBuilder()
    x = b.tensor("x", IMAGE, **LIKE)
    w = b.constant("w", W, scale=0.01)
    b.buffers[-1].fields["Data"] = np.zeros(3, np.uint8)
    y = b.operator("CONV_2D", [x, w], b.tensor("y", IMAGE, **LIKE), **CONV)
    with pytest.raises(ModelError, match="needs 4 bytes, its buffer holds 3"):
        load_bytes(b.content([x], [y]))


def test_a_buffer_index_out_of_range_is_refused(load_bytes):
    b = TfliteBuilder()
    x = b.tensor("x", (1, 4), **LIKE)
    b.tensors[x].fields["Buffer"] = 77
    y = b.operator("RELU", [x], b.tensor("y", (1, 4), **LIKE))
    with pytest.raises(ModelError, match="names buffer 77 of 1"):
        load_bytes(b.content([x], [y]))


def test_an_operator_code_out_of_range_is_refused(load_bytes):
    b = TfliteBuilder()
    x = b.tensor("x", (1, 4), **LIKE)
    y = b.operator("RELU", [x], b.tensor("y", (1, 4), **LIKE))
    b.operators[0].fields["OpcodeIndex"] = 5
    with pytest.raises(ModelError, match="names code 5 of 1"):
        load_bytes(b.content([x], [y]))


def test_a_file_that_is_no_model_is_refused(load_bytes, tmp_path):
    with pytest.raises(ModelError, match=r"neither a \.tflite nor an \.onnx file"):
        load_bytes(b"hello, world", "notes.txt")
    with pytest.raises(ModelError, match="identifier TFL3 is missing"):
        load_bytes(b"hello, world", "model.tflite")
    with pytest.raises(ModelError, match=r"model\.tflite is empty"):
        load_bytes(b"", "model.tflite")
    with pytest.raises(ModelError, match=r"cannot read .*No such file"):
        load(tmp_path / "absent.tflite")
    with pytest.raises(ModelError, match="is a folder"):
        load(tmp_path)


def test_a_file_beyond_the_limit_is_refused_without_reading_it(tmp_path):
    path = tmp_path / "model.tflite"
    path.write_bytes(conv()[:8])
    with path.open("r+b") as file:
        file.truncate(513 * 2**20)  # sparse: takes no space
    with pytest.raises(ModelError, match="larger than 512 MiB"):
        load(path)


# ------------------------------------------------------------------------------------ damaged files


@st.composite
def damaged(draw):
    """A sound model with bytes flipped, overwritten, inserted, or cut off."""
    operators = SINGLE_OPERATORS | ELEMENTWISE_AND_SHAPES
    operator = draw(st.sampled_from(sorted(operators)))
    content = bytearray(draw(operators[operator]))
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(8, max(8, len(content) - 4)))
        kind = draw(st.sampled_from(("flip", "word", "insert", "cut")))
        if kind == "flip":
            content[at : at + 1] = bytes([draw(st.integers(0, 255))])
        elif kind == "word":
            word = draw(st.sampled_from((0, -1, 1, 2**31 - 1, -(2**31), 2**16, 2**24)))
            content[at : at + 4] = struct.pack("<i", word)
        elif kind == "insert":
            content[at:at] = draw(st.binary(min_size=1, max_size=8))
        else:
            del content[at:]
    return bytes(content)


@pytest.mark.slow
@settings(max_examples=400, suppress_health_check=list(HealthCheck))
@given(content=damaged())
def test_a_damaged_file_gives_a_graph_or_a_sentence(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "damaged.tflite"
    path.write_bytes(content)
    start = time.monotonic()
    sentence = refusal(path)
    assert time.monotonic() - start < MANY_SECONDS
    assert sentence is None or (sentence and "\n" not in sentence)


def refusal(path):
    """Why the file is refused; None if it is loaded."""
    try:
        assert isinstance(load(path), Graph)
    except ModelError as error:
        return str(error)
    return None


@settings(max_examples=100, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_truncated_file_gives_a_sentence(tmp_path_factory, data):
    content = conv(bias=np.ones(2, np.int32))
    path = tmp_path_factory.getbasetemp() / "truncated.tflite"
    path.write_bytes(content[: data.draw(st.integers(0, len(content) // 2))])
    with pytest.raises(ModelError):
        load(path)


def test_scales_that_make_no_table_get_a_sentence(tmp_path):
    """1 / scale is no number of single precision, and 0 of it is none at all."""
    b = TfliteBuilder()
    x = b.tensor("x", (1, 4), scale=0.5, zero_point=0)
    y = b.operator("TANH", [x], b.tensor("y", (1, 4), scale=1.401298464324817e-45, zero_point=0))
    (tmp_path / "m.tflite").write_bytes(b.content([x], [y]))
    with pytest.raises(ModelError, match="make no table of int8"):
        load(tmp_path / "m.tflite")

"""Models in operator form, of onnxruntime's quantizer and by hand, against onnxruntime."""

from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mcutrain import formats, prepare
from mcutrain.errors import ModelError, UnsupportedError
from mcutrain.formats.onnx.qoperator import FORMS, with_qdq
from mcutrain.formats.onnx.read import load_onnx, rounding_of_weights
from mcutrain.ir.interpret import interpret
from mcutrain.ops.rescale import Rescale
from mcutrain.oracle.onnxruntime import onnxruntime_outputs
from mcutrain.simulation import PlannedReference
from mcutrain.simulation.rates import LearningRate
from mcutrain.sparse import find_head
from tests.formats.qoperator_models import (
    NETWORKS,
    exported,
    plain,
    probabilities,
    product,
    quantized,
)
from tests.formats.test_onnx_oracle import rounded_once
from tests.trained.training import RATE, train

# Both round the same real numbers, ours in fixed point: beside a tie the result is the neighbour.
STEP = 1
# Of the logits, where convolutions round once as onnxruntime's do: a neighbour in a layer in the
# middle is carried on to most logits of its sample, at times of two samples of six.
RARELY = 0.3
# Weights of which some channels were rounded to int8: what that adds to the logits.
ROUNDED_STEPS = 4
SAMPLES = 6
CONTRIBUTED = "com.microsoft"


@pytest.fixture(autouse=True)
def _needs_onnxruntime():
    pytest.importorskip("onnxruntime")


def both(path, samples=SAMPLES, change=lambda graph: graph):
    """Our outputs and onnxruntime's."""
    graph = change(load_onnx(path))
    shape = graph.tensors[graph.inputs[0]].type.shape[1:]
    x = np.random.default_rng(1).integers(-128, 128, (samples, *shape)).astype(np.int8)
    (name,), (y, *_) = graph.inputs, graph.outputs
    ours = np.concatenate([interpret(graph, {name: one[None]})[y] for one in x])
    return ours.astype(int), onnxruntime_outputs(path, x, graph, optimize=False).astype(int)


@pytest.mark.draws(8)
@pytest.mark.oracle
@pytest.mark.parametrize(
    ("activations", "per_channel"), [("Int8", True), ("UInt8", False)], ids=["s8s8", "u8s8"]
)
@pytest.mark.parametrize("name", NETWORKS)
def test_what_the_quantizer_writes_computes_as_onnxruntime(
    tmp_path, name, activations, per_channel
):
    path = tmp_path / "model.onnx"
    quantized(NETWORKS[name](), path, "QOperator", activations, "Int8", per_channel)
    assert any("QLinear" in n.op_type or n.op_type == "QGemm" for n in onnx.load(path).graph.node)
    ours, theirs = both(path)
    assert np.abs(ours - theirs).max() <= STEP
    once, _ = both(path, change=rounded_once)
    assert np.mean(once != theirs) <= RARELY


@pytest.mark.oracle
@pytest.mark.parametrize("form", ["QOperator", "QDQ"])
@pytest.mark.parametrize("name", ["plain", "depthwise", "product"])
def test_weights_of_uint8_are_fitted_to_int8(tmp_path, name, form):
    path = tmp_path / "model.onnx"
    quantized(NETWORKS[name](), path, form, "UInt8", "UInt8")
    ours, theirs = both(path)
    assert np.abs(ours - theirs).max() <= ROUNDED_STEPS
    assert "channels of its weights do not fit int8" in rounding_of_weights(path)
    assert formats.rounding_of(path) == rounding_of_weights(path)


def test_zero_points_in_constant_nodes_are_said_to_be_rounded(tmp_path):
    path = quantized(plain(), tmp_path / "model.onnx", "QOperator", "UInt8", "UInt8")
    said = rounding_of_weights(path)
    model = onnx.load(path)
    kept = [t for t in model.graph.initializer if not t.name.endswith(("zero_point", "quantized"))]
    nodes = [
        helper.make_node("Constant", [], [t.name], value=t)
        for t in model.graph.initializer
        if t not in kept
    ]
    assert len(nodes) > 4
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    for node in reversed(nodes):
        model.graph.node.insert(0, node)
    onnx.save(model, path)
    assert said
    assert rounding_of_weights(path) == said


def test_what_is_trained_comes_out_in_qdq_form(tmp_path):
    path, out = tmp_path / "model.onnx", tmp_path / "trained.onnx"
    quantized(plain(), path, "QOperator", "Int8", "Int8", per_channel=True)
    graph = formats.load(path)
    head = find_head(graph)
    names = (head.weight, head.bias)
    moved = {
        name: replace(t, data=(t.data // 2).astype(t.data.dtype))
        for name, t in graph.tensors.items()
        if name in names
    }
    assert len(moved) == 2
    trained = replace(graph, tensors={**graph.tensors, **moved})
    assert formats.patch(path, graph, trained, out) == ""
    assert {n.op_type for n in onnx.load(out).graph.node}.isdisjoint(n for _, n in FORMS)
    ours, theirs = both(out)
    assert np.abs(ours - theirs).max() <= STEP


@pytest.mark.parametrize("classes", [None, 7])
def test_probabilities_in_a_scale_of_their_own_leave_a_head_to_train(tmp_path, classes):
    """QDQ form gives a softmax 1/255, and mcutrain's has 1/256: a rescale follows it."""
    path, out = tmp_path / "model.onnx", tmp_path / "trained.onnx"
    quantized(probabilities(), path, "QDQ", "Int8", "Int8")
    graph = formats.load(path)
    assert [type(n.op) for n in graph.nodes if n.op.is_rescale] == [Rescale]
    assert graph.gives_probabilities
    made = train(graph, "full", classes=classes)
    assert made.step.plan.training.output_exponent is not None  # logits may grow
    wanted = [interpret(made.graph, {"x": x[None]})[made.graph.outputs[0]][0] for x in made.x]
    assert all(max(y) == y[best] for y, best in zip(wanted, made.outputs.argmax(-1), strict=True))
    if classes is None:  # a new head gives logits
        np.testing.assert_array_equal(made.outputs, wanted)
        assert formats.patch(path, graph, made.graph, out) == ""
        ours, theirs = both(out)
        assert np.abs(ours - theirs).max() <= STEP


def test_a_step_before_rescaled_probabilities_is_the_definitions(tmp_path):
    graph = formats.load(quantized(probabilities(), tmp_path / "m.onnx", "QDQ", "Int8", "Int8"))
    step = prepare(graph, "full")
    reference, simulator = PlannedReference(step.plan, 7), step.simulator(seed=7)
    x = np.random.default_rng(2).integers(-128, 128, (6, 8, 8, 3)).astype(np.int8)
    labels, rates = np.arange(6, dtype=np.int32) % 4, [LearningRate.of(RATE)] * 6
    reference.train(x, labels, rates)
    simulator.train(x, labels, rates)
    assert reference.save() == simulator.save()


@pytest.mark.parametrize(("top", "is_head"), [(0.5, True), (0.49, False)])
def test_only_a_scale_that_leaves_the_largest_probability_the_largest_is_passed(
    tmp_path, top, is_head
):
    """Below a half, several probabilities could be cut to the same number."""
    graph = formats.load(quantized(probabilities(), tmp_path / "m.onnx", "QDQ", "Int8", "Int8"))
    kind = replace(graph.tensors[graph.outputs[0]].type, scales=(top / 255,))
    (name,) = (n.outputs[0] for n in graph.nodes if n.op.is_rescale)
    tensors = dict(graph.tensors)
    for tensor in (name, graph.outputs[0]):
        tensors[tensor] = replace(
            tensors[tensor], type=replace(kind, shape=tensors[tensor].type.shape)
        )
    assert replace(graph, tensors=tensors).gives_probabilities == is_head


@pytest.mark.parametrize("form", ["QDQ", "QOperator"])
def test_what_the_quantizer_got_unprepared_is_told_and_read_when_it_is_prepared(tmp_path, form):
    kind = (tmp_path / "m.onnx", form, "Int8", "Int8", True, 14)
    with pytest.raises(UnsupportedError, match=r"likely a float model .* quant_pre_process"):
        formats.load(quantized(exported(), *kind))
    graph = formats.load(quantized(exported(), *kind, prepares=True))
    assert find_head(graph).index == 3
    (path, *_), key = kind, "onnx.quant.pre_process"
    prepared = onnx.load(quantized(exported(), *kind))
    helper.set_model_props(prepared, {key: "onnxruntime.quant"})
    onnx.save(prepared, path)
    with pytest.raises(UnsupportedError, match="BatchNormalization ") as caught:
        formats.load(path)
    assert "likely" not in str(caught.value)


def test_an_operator_that_no_preparation_changes_is_told_without_a_reason(tmp_path):
    unknown = exported()
    unknown.nodes[-3].op_type = "Sin"
    unknown.nodes[3].op_type, unknown.nodes[3].input[1:] = "Relu", []
    with pytest.raises(UnsupportedError, match="Sin ") as caught:
        formats.load(quantized(unknown, tmp_path / "m.onnx", "QDQ", "Int8", "Int8"))
    assert "likely" not in str(caught.value)


@pytest.mark.parametrize("form", ["QDQ", "QOperator"])
def test_a_bias_in_a_node_of_its_own_is_no_head_and_the_sentence_says_how_it_becomes_one(
    tmp_path, form
):
    graph = formats.load(quantized(product(), tmp_path / "m.onnx", form, "Int8", "Int8"))
    with pytest.raises(UnsupportedError, match=r"has its bias in a node of its own, 'node4.*join"):
        find_head(graph)


def test_a_model_that_is_not_trained_is_written_as_it_is(tmp_path):
    path, out = tmp_path / "model.onnx", tmp_path / "same.onnx"
    quantized(plain(), path, "QOperator", "Int8", "Int8")
    graph = formats.load(path)
    assert formats.patch(path, graph, graph, out) == ""
    assert out.read_bytes() == path.read_bytes()


def test_a_qdq_model_is_left_alone(tmp_path):
    path = quantized(plain(), tmp_path / "model.onnx", "QDQ", "Int8", "Int8")
    model = onnx.load(path)
    assert with_qdq(model) is model


# ------------------------------------------------------------------------------------------ by hand


class Hand:
    """A model of integers, node by node. x: its input's integers."""

    def __init__(self, shape, dtype=np.int8, opset=13):
        self.shape, self.opset, self.dtype = shape, opset, dtype
        self.nodes, self.constants = [], []
        self.scale = self.quantization(0.05, 3)
        self.x = self.op("QuantizeLinear", "input", *self.scale)

    def constant(self, array, name=None):
        name = name or f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def quantization(self, scale, zero_point, dtype=None):
        return (
            self.constant(np.asarray(scale, np.float32)),
            self.constant(np.asarray(zero_point, dtype or self.dtype)),
        )

    def op(self, op_type, *inputs, domain="", name=None, **attributes):
        output = f"t{len(self.nodes)}"
        node = helper.make_node(op_type, inputs, [output], name=name, domain=domain, **attributes)
        self.nodes.append(node)
        return output

    def save(self, path, output, kind=TensorProto.FLOAT):
        value = helper.make_tensor_value_info
        graph = helper.make_graph(
            self.nodes,
            "hand",
            [value("input", TensorProto.FLOAT, self.shape)],
            [value(output, kind, None)],
            self.constants,
        )
        sets = [helper.make_opsetid("", self.opset), helper.make_opsetid(CONTRIBUTED, 1)]
        model = helper.make_model(graph, opset_imports=sets)
        model.ir_version = 8
        onnx.save(model, path)
        return path


RNG = np.random.default_rng(5)


def weights(*shape):
    return RNG.integers(-127, 128, shape).astype(np.int8)


def gemm(transposed, alpha=1.0, per_channel=True, bias=True, is_real=False, opset=13):
    model = Hand((1, 6), opset=opset)
    w = weights(4, 6) if transposed else weights(6, 4)
    scales = np.array([0.01, 0.02, 0.015, 0.012]) if per_channel else np.float32(0.01)
    w_scale = model.quantization(scales, np.zeros(np.shape(scales)))
    inputs = [model.x, *model.scale, model.constant(w), *w_scale]
    inputs.append(model.constant(np.array([9, -50, 400, 0], np.int32)) if bias else "")
    attributes = {"transB": int(transposed), "alpha": alpha}
    if not is_real:
        y_scale = model.quantization(0.06, -4)
        integers = model.op("QGemm", *inputs, *y_scale, domain=CONTRIBUTED, **attributes)
        return model, model.op("DequantizeLinear", integers, *y_scale)
    real = model.op("QGemm", *inputs, domain=CONTRIBUTED, **attributes)
    y_scale = model.quantization(0.06, -4)
    return model, model.op("DequantizeLinear", model.op("QuantizeLinear", real, *y_scale), *y_scale)


@pytest.mark.oracle
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("alpha", [1.0, 0.5])
@pytest.mark.parametrize("is_real", [False, True])
@pytest.mark.parametrize("per_channel", [False, True])
def test_qgemm_in_all_its_forms(tmp_path, transposed, alpha, is_real, per_channel):
    model, y = gemm(transposed, alpha, per_channel, is_real=is_real)
    ours, theirs = both(model.save(tmp_path / "m.onnx", y), 40)
    assert np.abs(ours - theirs).max() <= STEP
    assert np.mean(ours != theirs) < 0.05


@pytest.mark.oracle
@pytest.mark.parametrize("bias", [False, True])
def test_operators_of_integers_between_get_the_scale_of_what_they_read(tmp_path, bias):
    model = Hand((1, 2, 6, 6))
    w_scale = model.quantization([0.01, 0.02, 0.03], [0, 0, 0])
    y_scale = model.quantization(0.1, -20)
    given = [model.x, *model.scale, model.constant(weights(3, 2, 3, 3)), *w_scale, *y_scale]
    given += [model.constant(np.array([5, -300, 1000], np.int32))] * bias
    x = model.op("QLinearConv", *given)
    pads = model.constant(np.array([0, 0, 1, 1, 0, 0, 1, 1]))
    x = model.op("Pad", x, pads, model.constant(np.array(-7, np.int8)))
    x = model.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    y = model.op("DequantizeLinear", x, *y_scale)
    ours, theirs = both(model.save(tmp_path / "m.onnx", y))
    assert np.abs(ours - theirs).max() <= STEP
    assert np.mean(ours != theirs) < 0.05


def between(dtype, *inputs, op_type, opset=14, **attributes):
    """A model of one operator on integers between two whose zero point is not 0."""
    model = Hand((1, 2, 6, 6), dtype, opset)
    y_scale = model.quantization(0.03, 20)
    more = [model.constant(data) for data in inputs]
    x = model.op("QLinearLeakyRelu", model.x, *model.scale, *y_scale, domain=CONTRIBUTED, alpha=0.5)
    x = model.op(op_type, x, *more, **attributes)
    return model, model.op("DequantizeLinear", x, *y_scale)


PADS = np.array([0, 0, 1, 1, 0, 0, 2, 1])


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("how", [{}, {"mode": "constant"}])
def test_a_bare_pad_fills_in_the_integer_zero(tmp_path, dtype, how):
    model, y = between(dtype, PADS, op_type="Pad", **how)
    ours, theirs = both(model.save(tmp_path / "m.onnx", y))
    assert (ours == theirs).mean() > 0.95
    assert np.abs(ours - theirs).max() <= STEP


def test_a_bare_pad_that_mirrors_fills_in_nothing(tmp_path):
    model, y = between(np.int8, PADS, op_type="Pad", mode="reflect")
    (pad,) = (
        n
        for n in with_qdq(onnx.load(model.save(tmp_path / "m.onnx", y))).graph.node
        if n.op_type == "Pad"
    )
    assert len(pad.input) == 2


@pytest.mark.oracle
def test_a_bare_relu_cuts_at_the_integer_zero(tmp_path):
    model, y = between(np.int8, op_type="Relu")
    ours, theirs = both(model.save(tmp_path / "m.onnx", y))
    assert np.abs(ours - theirs).max() <= STEP
    assert theirs.min() == ours.min() == 0


def test_a_bare_relu_of_uint8_keeps_all(tmp_path):
    of_relu, y = between(np.uint8, op_type="Relu")
    plain_one, z = between(np.uint8, op_type="Identity")
    graphs = [load_onnx(m.save(tmp_path / "m.onnx", o)) for m, o in ((of_relu, y), (plain_one, z))]
    x = np.random.default_rng(1).integers(-128, 128, (1, 6, 6, 2)).astype(np.int8)
    ours, kept = (interpret(g, {g.inputs[0]: x})[g.outputs[0]] for g in graphs)
    assert (ours == kept).all()


@pytest.mark.oracle
def test_quantizers_of_the_other_domain_and_means_and_outputs_of_integers(tmp_path):
    model = Hand((1, 4, 5, 5), np.uint8)
    y_scale = model.quantization(0.03, 120)
    x = model.op("DequantizeLinear", model.x, *model.scale, domain=CONTRIBUTED)
    x = model.op("QuantizeLinear", model.op("Relu", x), *model.scale, domain=CONTRIBUTED)
    y = model.op(
        "QLinearGlobalAveragePool", x, *model.scale, *y_scale, domain=CONTRIBUTED, channels_last=0
    )
    ours, theirs = both(model.save(tmp_path / "m.onnx", y, TensorProto.UINT8))
    assert (ours == theirs).all()


def conv(opset=13, scales=(0.01, 0.02, 0.03), **scale):
    model = Hand((1, 2, 6, 6), opset=opset)
    w_scale = model.quantization(np.array(scales), np.zeros(len(scales)))
    w_scale = (scale.get("w", w_scale[0]), w_scale[1])
    y_scale = model.quantization(0.1, -20)
    x = model.op(
        "QLinearConv",
        *(model.x, *model.scale, model.constant(weights(3, 2, 3, 3)), *w_scale, *y_scale),
        model.constant(np.zeros(3, np.int32)),
        name="first",
    )
    return model, model.op("DequantizeLinear", x, *y_scale)


def scales_of_both():
    model = Hand((1, 2, 6, 6))
    a, b = (model.quantization(np.ones(n), np.zeros(n)) for n in (2, 3))
    given = [model.x, *a, model.constant(weights(4, 2, 3, 3)), *b, *model.scale]
    x = model.op("QLinearConv", *given, model.constant(np.zeros(4, np.int32)), name="first")
    return model, model.op("DequantizeLinear", x, *model.scale)


def huge_scales():
    model = Hand((1, 2, 6, 6))
    huge = model.quantization(1e30, 0)
    given = [model.x, *huge, model.constant(weights(4, 2, 3, 3)), *huge, *model.scale]
    x = model.op("QLinearConv", *given, model.constant(np.zeros(4, np.int32)), name="first")
    return model, model.op("DequantizeLinear", x, *model.scale)


def softmax(opset):
    model = Hand((1, 8))
    y_scale = model.quantization(1 / 256, -128)
    y = model.op(
        *("QLinearSoftmax", model.x, *model.scale, *y_scale),
        domain=CONTRIBUTED,
        opset=opset,
        axis=-1,
    )
    return model, model.op("DequantizeLinear", y, *y_scale)


def channels_last():
    model = Hand((1, 6, 6, 4))
    y = model.op(
        *("QLinearGlobalAveragePool", model.x, *model.scale, *model.scale),
        domain=CONTRIBUTED,
        channels_last=1,
    )
    return model, y


def dynamic():
    model = Hand((1, 6))
    y = model.op("MatMulInteger", model.x, model.constant(weights(6, 4)))
    return model, y


def unknown():
    model = Hand((1, 6))
    return model, model.op("QAttention", model.x, *model.scale, domain=CONTRIBUTED)


@pytest.mark.parametrize(
    ("made", "error", "said"),
    [
        (conv(opset=11), UnsupportedError, "scales per channel in opset 11 are not supported"),
        (conv(w=""), ModelError, "QLinearConv (node 'first'): an input is missing"),
        (conv(w="t0"), UnsupportedError, "the scale 't0' is computed"),
        (scales_of_both(), UnsupportedError, "scales of the shapes (2,) and (3,) are not"),
        (huge_scales(), ModelError, "must be positive and finite"),
        (softmax(11), UnsupportedError, "the rules of opset 11 in a model of opset 13"),
        (channels_last(), UnsupportedError, "channels_last is not supported"),
        (dynamic(), UnsupportedError, "quantized dynamically"),
        (unknown(), UnsupportedError, "com.microsoft"),
    ],
)
def test_what_is_refused_says_why(tmp_path, made, error, said):
    model, y = made
    path = model.save(tmp_path / "m.onnx", y)
    with pytest.raises(error) as found:
        load_onnx(path)
    assert said in str(found.value)


def test_activations_of_16_bits_are_refused_with_the_way_out(tmp_path):
    path = quantized(plain(), tmp_path / "model.onnx", "QDQ", "Int16", "Int8")
    with pytest.raises(UnsupportedError, match="int16 activations are not supported") as found:
        load_onnx(path)
    assert "activation_type QInt8 or QUInt8" in str(found.value)


def test_two_inputs_are_refused_with_the_way_out(tmp_path):
    path = quantized(plain(), tmp_path / "model.onnx", "QOperator", "Int8", "Int8")
    model = onnx.load(path)
    second = helper.make_tensor_value_info("other", TensorProto.FLOAT, (1, 4))
    model.graph.input.append(second)
    onnx.save(model, path)
    with pytest.raises(UnsupportedError, match=r"2 inputs \('x', 'other'\); one is supported"):
        load_onnx(path)

"""Einsum of two operands in ONNX, as JAX' attention has it: float and int8 models."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcutrain.errors import McutrainError
from mcutrain.formats import read_float
from mcutrain.formats.onnx.read import load_onnx
from mcutrain.ir.interpret import interpret
from mcutrain.ops.batch_matmul import BatchMatMul
from mcutrain.ops.transpose import Transpose
from mcutrain.oracle.onnxruntime import onnxruntime_outputs
from mcutrain.quant.fake import snr_db
from mcutrain.quant.float_matmul import FloatBatchMatMul
from mcutrain.quant.float_shapes import FloatTranspose
from mcutrain.quant.float_sums import Conv
from tests.formats.onnx_builder import QdqModel
from tests.quant.networks import OnnxNetwork

FEW = settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow], deadline=None)
LENGTHS = {"q": 3, "k": 5, "h": 2, "d": 4, "r": 1, "g": 3}
SCORES, VALUES = "...qhd,...khd->...hqk", "...hqk,...khd->...qhd"
"""Those of Flax' dot_product_attention."""
LEAST_DB = 100.0  # float32 sums in another order


def shape_of(term):
    return (1, *(LENGTHS[c] for c in term.replace("...", "")))


@st.composite
def equations(draw):
    """Axes of a batch, of rows, of columns and summed ones, each term in any order."""
    batch, rows, columns, summed = (draw(st.sampled_from(c)) for c in ("hr", "q", "k", "dg"))
    if draw(st.booleans()):
        batch = ""
    summed += draw(st.sampled_from(["", "r"])) if "r" not in batch else ""
    terms = [draw(st.permutations(t)) for t in (batch + rows + summed, batch + summed + columns)]
    a, b, result = ("".join(t) for t in (*terms, draw(st.permutations(batch + rows + columns))))
    return f"...{a},...{b}->...{result}"


def parts(net, equation):
    """The operands: two parts of one input."""
    first, operands = 0, []
    for term in equation.split("->")[0].split(","):
        shape = shape_of(term)
        end = first + math.prod(shape)
        limits = (net.constant(np.array([v], np.int64)) for v in (first, end, 1))
        x = net.op("Slice", net.x if isinstance(net, QdqModel) else "input", *limits)
        operands.append(net.op("Reshape", x, net.constant(np.array(shape, np.int64))))
        first = end
    return operands


def size_of(equation):
    return sum(math.prod(shape_of(t)) for t in equation.split("->")[0].split(","))


def ran(path, shape):
    """What onnxruntime and the float graph say, in dB."""
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    x = np.random.default_rng(0).normal(0, 1, shape).astype(np.float32)
    (wanted,) = session.run(None, {"input": x})
    graph = read_float(path).network
    (found,) = graph.run(x.transpose(np.argsort(graph.file_axes[graph.input])))
    stored = found.reshape([1, *graph.shapes[graph.outputs[0]][1:]])
    return graph, snr_db(wanted, stored.transpose(graph.file_axes[graph.outputs[0]]))


@pytest.mark.oracle
@FEW
@given(equation=equations())
@pytest.mark.parametrize("has_dots", [True, False])
def test_a_float_product_is_that_of_onnxruntime(has_dots, equation, tmp_path_factory):
    net = OnnxNetwork([1, size_of(equation)])
    written = equation if has_dots else equation.replace("...", "n")
    y = net.op("Einsum", *parts(net, equation), equation=written)
    y = net.op("Reshape", y, net.constant(np.array([1, -1], np.int64)))
    path = net.save(tmp_path_factory.mktemp("onnx") / "m.onnx", y)
    graph, db = ran(path, (1, size_of(equation)))
    assert db > LEAST_DB
    assert [type(node.op) for node in graph.nodes].count(FloatBatchMatMul) == 1


@pytest.mark.oracle
@FEW
@given(equation=equations(), seed=st.integers(0, 99))
def test_an_int8_product_is_within_one_step_of_onnxruntime(equation, seed, tmp_path_factory):
    pytest.importorskip("onnxruntime")
    model = QdqModel((1, size_of(equation)), 0.05, 3)
    y = model.op("Einsum", *parts(model, equation), equation=equation)
    y = model.op("Reshape", y, model.constant(np.array([1, -1], np.int64)))
    path = model.save(tmp_path_factory.mktemp("onnx") / "m.onnx", model.requantize(y, 0.2, -5))
    graph = load_onnx(path)
    x = np.random.default_rng(seed).integers(-128, 128, (1, size_of(equation))).astype(np.int8)
    (name,) = graph.inputs
    ours = interpret(graph, {name: x})[graph.outputs[0]].astype(int)
    theirs = onnxruntime_outputs(path, x, graph, optimize=False)
    assert np.abs(ours - theirs.reshape(ours.shape)).max() <= 1


@pytest.mark.parametrize(("equation", "moves"), [(SCORES, 2), (VALUES, 1)])
def test_attention_moves_each_operand_at_most_once(equation, moves, tmp_path):
    model = QdqModel((1, size_of(equation)), 0.05, 3)
    y = model.op("Einsum", *parts(model, equation), equation=equation)
    y = model.op("Reshape", y, model.constant(np.array([1, -1], np.int64)))
    graph = load_onnx(model.save(tmp_path / "m.onnx", model.requantize(y, 0.2, -5)))
    assert [type(node.op) for node in graph.nodes].count(BatchMatMul) == 1
    turned = [node for node in graph.nodes if isinstance(node.op, Transpose)]
    assert len(turned) <= moves + (equation == VALUES)


@pytest.mark.oracle
@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("equation", ["bqd,dhg->bqhg", "bqhd,hdk->bqk", "bqd,kd->bkq", "aqd,dk"])
def test_a_product_with_a_constant_is_a_layer(equation, is_first, tmp_path):
    """Without an arrow the result's axes are in the order of their letters."""
    terms, arrow, result = equation.partition("->")
    x, w = terms.split(",")
    shape = (1, *(LENGTHS[c] for c in x[1:]))
    net = OnnxNetwork([1, math.prod(shape)])
    operands = [
        net.op("Reshape", "input", net.constant(np.array(shape, np.int64))),
        net.real(np.random.default_rng(1).normal(0, 1, [LENGTHS[c] for c in w])),
    ]
    written = f"{w},{x}{arrow}{result}" if is_first else equation
    y = net.op("Einsum", *(operands[::-1] if is_first else operands), equation=written)
    y = net.op("Reshape", y, net.constant(np.array([1, -1], np.int64)))
    graph, db = ran(net.save(tmp_path / "m.onnx", y), (1, math.prod(shape)))
    assert db > LEAST_DB
    kinds = [type(node.op) for node in graph.nodes]
    assert kinds.count(Conv) == 1
    assert kinds.count(FloatTranspose) <= 1


@pytest.mark.parametrize(
    ("equation", "words"),
    [
        ("bqd,bkd->bq", r"the equation 'bqd,bkd->bq' is not supported; a product of matrices"),
        ("bqq,bkd->bqkd", "is not supported; a product of matrices"),
        ("bqd,bkd->bqkz", "is not supported; a product of matrices"),
        ("bqd,bdk->bqk", "axes of one label have equal lengths"),
        ("bqd->bdq", "is not supported; one of two operands is"),
        ("qd,kd->qk", "does not fit operands"),
        ("b..d,bkd->bk", "is none"),
        ("", "is none|one of two"),
    ],
)
def test_another_equation_is_refused(equation, words, tmp_path):
    net = OnnxNetwork([1, size_of(SCORES)])
    a, b = parts(net, "...qd,...kd->")
    y = net.op("Einsum", a, b, equation=equation)
    with pytest.raises(McutrainError, match=words):
        read_float(net.save(tmp_path / "m.onnx", y))


def test_an_int8_constant_is_refused(tmp_path):
    model = QdqModel((1, 3, 4), 0.05, 3)
    w = model.dequantized(np.ones((4, 5), np.int8), 0.01)
    y = model.op("Einsum", model.x, w, equation="bqd,dk->bqk")
    with pytest.raises(
        McutrainError, match="with a constant is not supported; of computed tensors is"
    ):
        load_onnx(model.save(tmp_path / "m.onnx", model.requantize(y, 0.2, -5)))

"""MatMul of two computed tensors in ONNX, and attention made of it: float and int8 models."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcutrain.errors import McutrainError
from mcutrain.formats import read_float
from mcutrain.formats.onnx.read import load_onnx
from mcutrain.formats.onnx.read_float import read_onnx
from mcutrain.ir.interpret import interpret
from mcutrain.ops.batch_matmul import BatchMatMul
from mcutrain.ops.depthwise_conv_2d import DepthwiseConv2D
from mcutrain.ops.softmax import Softmax
from mcutrain.ops.transpose import Transpose
from mcutrain.oracle.onnxruntime import onnxruntime_outputs
from mcutrain.quant.float_matmul import FloatBatchMatMul
from tests.formats.onnx_builder import QdqModel
from tests.quant.networks import OnnxNetwork

FEW = settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
LIKE = (0.05, 3)
TOKENS, HEADS, EACH = 6, 2, 4
WIDE = HEADS * EACH


def integers(net, *values):
    return net.constant(np.array(values, np.int64))


# --------------------------------------------------------------------------------------------- int8


@st.composite
def products(draw):
    """Shapes of two parts of one input, and in which order each is seen before the MatMul."""
    m, k, n = (draw(st.integers(1, 6)) for _ in range(3))
    before = draw(st.sampled_from(((1,), (1, 2), (1, 1, 3))))
    return before, (m, k, n), draw(st.booleans()), draw(st.booleans())


@pytest.mark.oracle
@FEW
@given(case=products(), relu=st.booleans(), seed=st.integers(0, 99))
def test_an_int8_product_is_within_one_step_of_onnxruntime(case, relu, seed, tmp_path_factory):
    pytest.importorskip("onnxruntime")
    before, (m, k, n), *turned = case
    count = math.prod(before)
    model = QdqModel((1, count * (m * k + k * n)), *LIKE)
    operands, first = [], 0
    for (rows, columns), is_turned in zip(((m, k), (k, n)), turned, strict=True):
        end = first + count * rows * columns
        x = model.op("Slice", model.x, *(integers(model, i) for i in (first, end, 1)))
        shape = (*before, columns, rows) if is_turned else (*before, rows, columns)
        x = model.op("Reshape", x, integers(model, *shape))
        axes = len(shape)
        perm = [*range(axes - 2), axes - 1, axes - 2]
        operands.append(model.op("Transpose", x, perm=perm) if is_turned else x)
        first = end
    y = model.op("MatMul", *operands)
    y = model.op("Relu", y) if relu else y
    y = model.op("Reshape", y, integers(model, 1, -1))
    scale = float(np.float32(0.05 * 0.05 * 74 * math.sqrt(k) / 2))
    path = model.save(tmp_path_factory.mktemp("onnx") / "m.onnx", model.requantize(y, scale, -5))
    graph = load_onnx(path)
    assert [type(node.op) for node in graph.nodes].count(BatchMatMul) == 1
    assert not any(isinstance(node.op, Transpose) for node in graph.nodes)
    x = np.random.default_rng(seed).integers(-128, 128, (1, count * (m * k + k * n)))
    (name,) = graph.inputs
    ours = interpret(graph, {name: x.astype(np.int8)})[graph.outputs[0]].astype(int)
    theirs = onnxruntime_outputs(path, x.astype(np.int8), graph, optimize=False)
    assert ours.shape == theirs.shape
    assert np.abs(ours - theirs).max() <= 1


@pytest.mark.oracle
@pytest.mark.parametrize("factor", [None, "Mul", "Div"])
@pytest.mark.parametrize("axis", [1, 2, 3, -1])
def test_an_int8_softmax_over_any_axis_is_within_one_step_of_onnxruntime(axis, factor, tmp_path):
    pytest.importorskip("onnxruntime")
    model = QdqModel((1, 3, 4, 5), *LIKE)
    x = model.x if factor is None else model.op(factor, model.x, model.constant(np.float32(0.3)))
    y = model.requantize(model.op("Softmax", x, axis=axis), 1 / 256, -128)
    path = model.save(tmp_path / "m.onnx", y)
    graph = load_onnx(path)
    assert {type(node.op) for node in graph.nodes} <= {Softmax, Transpose}
    shape = graph.tensors[graph.inputs[0]].type.shape
    x = np.random.default_rng(0).integers(-128, 128, shape).astype(np.int8)
    ours = interpret(graph, {graph.inputs[0]: x})[graph.outputs[0]].astype(int)
    theirs = onnxruntime_outputs(path, x, graph, optimize=False)
    assert np.abs(ours - theirs).max() <= 1


# -------------------------------------------------------------------------------------------- float


def dense(net, x, features, out):
    w = net.rng.normal(0, math.sqrt(1 / features), (features, out))
    y = net.op("MatMul", x, net.real(w))
    return net.op("Add", y, net.real(net.rng.normal(0, 0.1, out)))


def by_heads(net, x, is_turned=False):
    """[1, tokens, heads * each] as [1, heads, tokens, each], or its last two axes turned."""
    x = net.op("Reshape", x, integers(net, 1, TOKENS, HEADS, EACH))
    return net.op("Transpose", x, perm=[0, 2, 3, 1] if is_turned else [0, 2, 1, 3])


def divided(net, x, number):
    return net.op("Div", x, net.real(number))


def times(net, x, number):
    return net.op("Mul", x, net.real(number))


def queries_keys_values(net, x, is_shared):
    """Three layers, or one of which three parts are taken."""
    if not is_shared:
        return [dense(net, x, WIDE, WIDE) for _ in "qkv"]
    all_three = dense(net, x, WIDE, 3 * WIDE)
    ends = [i * WIDE for i in range(4)]
    return [
        net.op("Slice", all_three, *(integers(net, n) for n in (first, end, 2)))
        for first, end in itertools.pairwise(ends)
    ]


ROOT = math.sqrt(EACH)
FACTORS = {
    "none": lambda net, q, k: net.op("MatMul", q, k),
    "queries": lambda net, q, k: net.op("MatMul", times(net, q, 1 / ROOT), k),
    "both": lambda net, q, k: net.op(
        "MatMul", times(net, q, ROOT**-0.5), times(net, k, ROOT**-0.5)
    ),
    "scores": lambda net, q, k: divided(net, net.op("MatMul", q, k), ROOT),
    "queries and scores": lambda net, q, k: divided(
        net, net.op("MatMul", times(net, q, 2.0), k), 2 * ROOT
    ),
}


def attention(net, factors="both", is_shared=True):
    """Of the pixels of an image, a residual connection around it, and a classifier."""
    x = net.conv("input", 4, WIDE)
    x = net.op("Transpose", net.op("Reshape", x, integers(net, 1, WIDE, TOKENS)), perm=[0, 2, 1])
    q, k, v = queries_keys_values(net, x, is_shared)
    scores = FACTORS[factors](net, by_heads(net, q), by_heads(net, k, True))
    y = net.op("MatMul", net.op("Softmax", scores, axis=-1), by_heads(net, v))
    y = net.op("Transpose", y, perm=[0, 2, 1, 3])
    y = net.op("Reshape", y, integers(net, 1, TOKENS, WIDE))
    y = net.op("Add", x, dense(net, y, WIDE, WIDE))
    y = net.op("ReduceMean", y, axes=[1], keepdims=0)
    return net.gemm(y, WIDE, 3)


def outer_product(net):
    """Of a column and a row of an image."""
    x = net.conv("input", 4, 5)
    column, row = (net.op("Slice", x, *(integers(net, n) for n in (1, 2, axis))) for axis in (3, 2))
    return net.conv(net.op("MatMul", column, row), 5, 2)


def with_itself(net):
    """A Gram matrix of channels."""
    x = net.op("Reshape", net.conv("input", 4, 5), integers(net, 1, 5, TOKENS))
    return net.op("MatMul", x, net.op("Transpose", x, perm=[0, 2, 1]))


MADE = {f"attention, factor of {f}": lambda net, f=f: attention(net, f) for f in FACTORS} | {
    "attention of layers of their own": lambda net: attention(net, is_shared=False),
    "outer product": outer_product,
    "with itself": with_itself,
}


def saved(make, folder, opset=17):
    net = OnnxNetwork([1, 4, 2, 3], opset)
    return net.save(folder / "model.onnx", make(net))


@pytest.mark.oracle
@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
def test_float_networks_with_products_are_onnxruntimes(make, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    path = saved(make, tmp_path)
    x = np.random.default_rng(0).normal(0, 1, (1, 4, 2, 3)).astype(np.float32)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (wanted,) = session.run(None, {"input": x})
    for graph in (read_onnx(path), read_float(path).network):
        assert any(isinstance(node.op, FloatBatchMatMul) for node in graph.nodes)
        (found,) = graph.run(x.transpose(np.argsort(graph.file_axes[graph.input])))
        found = found.transpose(graph.file_axes.get(graph.outputs[0], range(found.ndim)))
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def samples(count=64):
    return np.random.default_rng(0).normal(0, 1, (count, 2, 3, 4)).astype(np.float32)


@pytest.mark.parametrize("is_shared", [True, False])
@pytest.mark.parametrize("factors", FACTORS)
def test_a_factor_of_scores_costs_nothing(factors, is_shared, tmp_path):
    """It goes into weights, or where several read them, into the Softmax."""
    model = read_float(saved(lambda net: attention(net, factors, is_shared), tmp_path))
    graph = model.quantize(samples()).graph
    kinds = [type(node.op) for node in graph.nodes]
    assert kinds.count(BatchMatMul) == 2
    assert DepthwiseConv2D not in kinds
    (softmax,) = (node for node in graph.nodes if isinstance(node.op, Softmax))
    scale = graph.tensors[softmax.inputs[0]].type.scale
    is_plain = factors == "none" or not is_shared
    assert (softmax.op == Softmax.from_scale(scale)) == is_plain
    beta = softmax.op.mult_q31 * 2.0 ** (softmax.op.left_shift - 31) / (scale * 2**26)
    assert beta == pytest.approx(1 if is_plain else 1 / ROOT, 1e-6)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda net: net.op(
                "MatMul",
                "input",
                net.op("Slice", "input", *(integers(net, n) for n in (0, 1, 1))),
            ),
            r"a product of \(1, 4, 2, 3\) and \(1, 1, 2, 3\) is not supported; of computed tensors",
        ),
        (lambda net: net.op("MatMul", "input", "input"), "do not fit each other"),
        (lambda net: net.op("MatMul", net.real(np.ones((2, 2))), "input"), "a constant as input 0"),
    ],
)
def test_what_is_not_supported_is_named(make, words, tmp_path):
    with pytest.raises(McutrainError, match=words):
        read_onnx(saved(make, tmp_path))

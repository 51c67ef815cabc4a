"""Operators of .onnx that become others: curves, largest numbers, blocks, repeats, quotients."""

from __future__ import annotations

import numpy as np
import pytest

from mcutrain.errors import McutrainError
from mcutrain.formats import read_float
from mcutrain.formats.onnx.read import load_onnx
from mcutrain.ir.interpret import interpret
from mcutrain.oracle.onnxruntime import onnxruntime_outputs
from mcutrain.quant.fake import snr_db
from tests.formats.onnx_builder import QdqModel
from tests.quant.networks import OnnxNetwork

LEAST_DB = 100.0  # float32 sums in another order
SHAPE = (1, 8, 4, 6)


def listed(net, *values):
    return net.constant(np.array(values, np.int64))


CASES = {
    **{
        name.lower(): lambda net, x, name=name: net.op(name, x)
        for name in ("Abs", "Exp", "Softsign")
    },
    "logarithm": lambda net, x: net.op("Log", net.op("Exp", x)),
    "root": lambda net, x: net.op("Sqrt", net.op("Exp", x)),
    "larger": lambda net, x: net.op("Max", half(net, x, 0), half(net, x, 4)),
    "smaller": lambda net, x: net.op("Min", half(net, x, 0), half(net, x, 4), half(net, x, 2)),
    "softplus": lambda net, x: net.op("Softplus", x),
    "selu": lambda net, x: net.op("Selu", x),
    "mish in parts": lambda net, x: net.op("Mul", x, net.op("Tanh", net.op("Softplus", x))),
    "elu": lambda net, x: net.op("Elu", x, alpha=1.7),
    "largest of channels": lambda net, x: net.op("ReduceMax", x, axes=[1], keepdims=1),
    "largest of a row": lambda net, x: net.op("ReduceMax", x, axes=[-1], keepdims=0),
    "largest of the image": lambda net, x: net.op("ReduceMax", x, axes=[2, 3], keepdims=0),
    "depth first": lambda net, x: net.op("DepthToSpace", x, blocksize=2),
    "columns first": lambda net, x: net.op("DepthToSpace", x, blocksize=2, mode="CRD"),
    "to depth": lambda net, x: net.op("SpaceToDepth", x, blocksize=2),
    "tiles": lambda net, x: net.op("Tile", x, listed(net, 1, 2, 1, 3)),
    "expanded": lambda net, x: net.op(
        "Expand", net.op("ReduceMax", x, axes=[1], keepdims=1), listed(net, 1, 5, 4, 6)
    ),
}


def half(net, x, first):
    """Four channels of the eight."""
    places = [listed(net, n) for n in (first, first + 4, 1)]
    return net.op("Slice", x, *places)


def causal(net, x, fill):
    """A mask above the diagonal, before a softmax."""
    above = net.constant(~np.tri(4, 6, dtype=bool))
    scores = net.op("Where", above, net.constant(np.array(fill, np.float32)), x)
    return net.op("Softmax", scores, axis=-1)


def root_mean_square(net, x, axis):
    mean = net.op("ReduceMean", net.op("Mul", x, x), axes=[axis], keepdims=1)
    root = net.op("Sqrt", net.op("Add", mean, net.constant(np.array(1e-5, np.float32))))
    return net.op("Div", x, root)


def lengths(net, x, axis):
    length = net.op("ReduceL2", x, axes=[axis], keepdims=1)
    return net.op("Div", x, net.op("Clip", length, net.constant(np.array(1e-12, np.float32))))


FLOAT_CASES = {
    "powers": lambda net, x: net.op("Pow", x, net.constant(np.array(3.0, np.float32))),
    "celu": lambda net, x: net.op("Celu", x, alpha=0.4),
    "least of rows": lambda net, x: net.op("ReduceMin", x, axes=[3], keepdims=1),
    "broadcast maxima": lambda net, x: net.op(
        "Max", x, net.op("ReduceMean", x, axes=[1, 2], keepdims=1)
    ),
    "masked": lambda net, x: causal(net, x, -np.inf),
    "masked by a number": lambda net, x: causal(net, x, -1e9),
    "filled": lambda net, x: causal(net, x, 0.75),
    "a choice": lambda net, x: net.op(
        "Where", net.constant(np.tri(4, 6, dtype=bool)), x, net.op("Relu", x)
    ),
    "root mean square": lambda net, x: root_mean_square(net, x, -1),
    "root mean square of channels": lambda net, x: root_mean_square(net, x, 1),
    "lengths": lambda net, x: lengths(net, x, 1),
    "windows as a batch": lambda net, x: net.op(
        "MatMul",
        net.op("Reshape", x, listed(net, 8, 4, 6)),
        net.op("Transpose", net.op("Reshape", x, listed(net, 8, 4, 6)), perm=[0, 2, 1]),
    ),
    "normalized windows": lambda net, x: net.op(
        "LayerNormalization",
        net.op("Reshape", x, listed(net, 8, 4, 6)),
        net.constant(np.ones(6, np.float32)),
    ),
    "any places": lambda net, x: net.op("Gather", x, listed(net, 3, 0, 1, 2, 1), axis=2),
    "overlapping places": lambda net, x: net.op(
        "Gather", x, net.constant(np.array([[0, 1, 2], [2, 3, 4]], np.int64)), axis=3
    ),
    "logarithms of shares": lambda net, x: net.op("LogSoftmax", x, axis=1),
}


def flat(net, y):
    return net.op("Reshape", y, listed(net, 1, -1))


def ran(path, x):
    """What onnxruntime and the float graph compute."""
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (wanted,) = session.run(None, {"input": x})
    graph = read_float(path).network
    (found,) = graph.run(x.transpose(np.argsort(graph.file_axes[graph.input])))
    return wanted, found.reshape(wanted.shape)


@pytest.mark.oracle
@pytest.mark.parametrize("case", [*CASES, *FLOAT_CASES])
def test_a_float_result_is_that_of_onnxruntime(case, tmp_path):
    net = OnnxNetwork(list(SHAPE))
    path = net.save(tmp_path / "m.onnx", flat(net, {**CASES, **FLOAT_CASES}[case](net, "input")))
    wanted, found = ran(path, net.rng.normal(0, 2, SHAPE).astype(np.float32))
    assert snr_db(wanted, found) > LEAST_DB


@pytest.mark.oracle
@pytest.mark.parametrize("case", CASES)
def test_an_int8_result_is_that_of_onnxruntime(case, tmp_path):
    pytest.importorskip("onnxruntime")
    model = QdqModel(SHAPE, 0.03, 3)
    y = model.requantize(CASES[case](model, model.x), 0.03, 3)
    path = model.save(tmp_path / "m.onnx", flat(model, y))
    graph = load_onnx(path)
    x = np.random.default_rng(1).integers(-128, 128, SHAPE).astype(np.int8)
    (name,) = graph.inputs
    stored = x.transpose(0, 2, 3, 1) if graph.tensors[name].type.shape != SHAPE else x
    ours = interpret(graph, {name: stored})[graph.outputs[0]].astype(int)
    theirs = onnxruntime_outputs(path, stored, graph, optimize=False)
    assert (ours == theirs.reshape(ours.shape)).all()


@pytest.mark.oracle
@pytest.mark.parametrize("first", [True, False])
def test_a_quotient_is_a_product_with_the_reciprocal(first, tmp_path):
    net = OnnxNetwork([1, 8, 4, 6])
    total = net.op("ReduceMean", "input", axes=[1], keepdims=1)
    y = net.op("Div", "input" if first else net.real(2.0), total)
    path = net.save(tmp_path / "m.onnx", flat(net, y))
    wanted, found = ran(path, net.rng.uniform(0.5, 2, SHAPE).astype(np.float32))
    assert snr_db(wanted, found) > LEAST_DB


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda net: net.op("DepthToSpace", "input", blocksize=3), "blocks of 3 do not fit"),
        (lambda net: net.op("SpaceToDepth", "input", blocksize=4), "blocks of 4 do not fit"),
        (lambda net: net.op("Tile", "input", listed(net, 2, 1, 1, 1)), "along the batch"),
        (lambda net: net.op("Tile", "input", listed(net, 1, 2)), "do not fit"),
        (
            lambda net: net.op("Tile", "input", listed(net, 1, 1, 2**40, 1)),
            "has more than 4,194,304",
        ),
        (lambda net: net.op("Expand", "input", listed(net, 2**40, 1, 8, 4, 6)), "along the batch"),
        (
            lambda net: net.op(
                "Expand", net.op("ReduceMean", "input", axes=[2]), listed(net, 1, 8, 2**40, 6)
            ),
            "repeated to .* has more than 4,194,304 numbers",
        ),
        (lambda net: net.op("Selu", "input", alpha=2.0), "the usual ones are"),
    ],
)
def test_what_is_refused_gets_a_sentence(make, words, tmp_path):
    net = OnnxNetwork(list(SHAPE))
    path = net.save(tmp_path / "m.onnx", make(net))
    with pytest.raises(McutrainError, match=words):
        read_float(path)

"""What exporters compute beside the network: constants of constants, parts by index."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from mcutrain.errors import ModelError
from mcutrain.formats import load, read_float, write
from mcutrain.formats.onnx.read_float import read_onnx
from mcutrain.ir.difference import difference
from mcutrain.oracle.forward import compare
from mcutrain.quant.float_shapes import FloatReshape, FloatSlice
from tests.quant.networks import OnnxNetwork

TOKENS, HEADS, DEPTH = 5, 2, 3
SEQUENCE = [1, TOKENS, 3 * HEADS * DEPTH]
RNG = np.random.default_rng(9)


def integers(net: OnnxNetwork, *values: int) -> str:
    return net.constant(np.array(values, np.int64))


def heads(net: OnnxNetwork, place: int) -> str:
    """The queries, keys or values of attention, as timm writes them: [1, heads, tokens, depth]."""
    x = net.op("Reshape", "input", integers(net, 1, TOKENS, 3, HEADS, DEPTH))
    x = net.op("Transpose", x, perm=[2, 0, 3, 1, 4])
    return net.op("Gather", x, net.constant(np.array(place, np.int64)), axis=0)


def expanded(net: OnnxNetwork) -> str:
    """A shape whose -1 are replaced, as PyTorch's exporter writes `expand`; and a wave."""
    shape = integers(net, 1, -1, SEQUENCE[2])
    one = helper.make_tensor("one", TensorProto.INT64, [1], [1])
    ones = net.op("ConstantOfShape", integers(net, 3), value=one)
    unknown = net.op("Equal", shape, net.op("Mul", ones, integers(net, -1)))
    found = net.op("Where", unknown, integers(net, 1, TOKENS, 1), shape)
    row = net.op("Sin", net.real(np.arange(SEQUENCE[2])))
    return net.op("Mul", "input", net.op("Slice", net.op("Expand", row, found), *ends(net)))


def ends(net: OnnxNetwork) -> list[str]:
    """Of a Slice that keeps the first row."""
    return [integers(net, *n) for n in ((0,), (1,), (1,))]


def tiled(net: OnnxNetwork) -> str:
    third = net.real(RNG.normal(0, 1, SEQUENCE[2] // 3))
    return net.op("Mul", "input", net.op("Tile", net.op("Abs", third), integers(net, 3)))


def looked_up(net: OnnxNetwork) -> str:
    """Rows of a table by index, in an order of their own."""
    table = net.real(RNG.normal(0, 1, (4, SEQUENCE[2])))
    rows = net.op("Gather", table, integers(net, 2), axis=0)
    turned = net.constant(np.arange(SEQUENCE[2])[None, ::-1].astype(np.int64))
    rows = net.op("GatherElements", rows, turned, axis=1)
    return net.op("Add", "input", net.op("ReduceSum", rows, integers(net, 0), keepdims=0))


def chosen(net: OnnxNetwork) -> str:
    """Each number by an index of its own, from the end too, of more rows and places than are."""
    table = net.real(RNG.normal(0, 1, (3, 200)))
    places = net.constant(RNG.integers(-200, 200, (2, SEQUENCE[2])))
    rows = net.op("GatherElements", table, places, axis=-1)
    column = net.real(RNG.normal(0, 1, (40, 1)))
    first = net.op("GatherElements", column, net.constant(np.full((40, 1), 7)), axis=0)
    numbers = [net.op("ReduceSum", v, integers(net, 0), keepdims=0) for v in (rows, first)]
    return net.op("Add", "input", net.op("Add", *numbers))


def batch_of_tokens(net: OnnxNetwork) -> str:
    """Through shapes without an axis of 1, and with it elsewhere."""
    x = net.op("Transpose", "input", perm=[1, 0, 2])
    x = net.op("Relu", net.op("Reshape", x, integers(net, TOKENS, SEQUENCE[2])))
    a = net.op("Add", x, net.op("Tanh", x))
    b = net.op("Concat", a, x, axis=1)
    return net.op("Reshape", b, integers(net, 1, TOKENS, -1))


def embedded(net: OnnxNetwork) -> str:
    """A row in front, as a class token, and a number of its own for each element."""
    token = net.real(RNG.normal(0, 1, (1, 1, SEQUENCE[2])))
    x = net.op("Concat", token, "input", token, axis=1)
    places = net.real(RNG.normal(0, 1, (1, TOKENS + 2, SEQUENCE[2])))
    return net.op("Sub", places, net.op("Add", net.op("Sub", x, places), places))


MAKERS = {
    "embedded": embedded,
    "query": lambda net: heads(net, 0),
    "value": lambda net: heads(net, -1),
    "expanded": expanded,
    "tiled": tiled,
    "looked up": looked_up,
    "chosen": chosen,
    "batch of tokens": batch_of_tokens,
}


@pytest.mark.oracle
@pytest.mark.parametrize("name", MAKERS)
def test_what_is_computed_beside_the_network_is_onnxruntimes(name, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    net = OnnxNetwork(SEQUENCE)
    path = net.save(tmp_path / "m.onnx", MAKERS[name](net))
    x = RNG.normal(0, 1, SEQUENCE).astype(np.float32)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    (wanted,) = session.run(None, {"input": x})
    graph = read_onnx(path)
    (found,) = graph.run(x.transpose(graph_order(graph)))
    found = found.transpose(graph.file_axes[graph.outputs[0]]).reshape(wanted.shape)
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)


def graph_order(graph) -> list[int]:
    """The file's axes in the order of ours."""
    return np.argsort(graph.file_axes[graph.input]).tolist()


@pytest.mark.oracle
@pytest.mark.parametrize("suffix", [".onnx", ".tflite"])
def test_constants_beside_what_is_computed_are_in_the_int8_file(suffix, tmp_path):
    """A class token and positions; read back they give the same graph, and the runtime's bits."""
    runtime = {".onnx": "onnxruntime", ".tflite": "ai_edge_litert"}[suffix]
    pytest.importorskip(runtime)
    net = OnnxNetwork([1, 4, 6, 6])
    x = net.op("Reshape", net.conv("input", 4, 8), integers(net, 1, 8, 36))
    x = net.op("Transpose", x, perm=[0, 2, 1])
    x = net.op("Concat", net.real(RNG.normal(0, 3, (1, 1, 8))), x, axis=1)
    x = net.op("Relu", net.op("Add", net.real(RNG.normal(0, 1, (1, 37, 8))), x))
    path = net.save(tmp_path / "m.onnx", net.op("MatMul", x, net.real(RNG.normal(0, 1, (8, 3)))))
    samples = RNG.normal(0, 1, (32, 6, 6, 4)).astype(np.float32)
    made = read_float(path).quantize(samples)
    assert made.chosen.snr_db > 25
    written = tmp_path / f"int8{suffix}"
    write(made.graph, written)
    assert difference(made.graph, load(written)) == ""
    verdict = compare(written, samples=8)
    assert verdict.is_right, verdict
    ours = [c for c in verdict.comparisons if c.of != c.against and "optim" not in c.against + c.of]
    assert {"numpy reference", "host C"} <= {c.of for c in ours}
    assert all(c.largest <= 1 for c in ours)
    assert all(c.differing <= c.outputs // 100 for c in ours)


def test_heads_are_cut_where_they_lie(tmp_path):
    """Nothing but views and a slice: the axes of five dimensions only say how it is seen."""
    net = OnnxNetwork(SEQUENCE)
    graph = read_onnx(net.save(tmp_path / "m.onnx", net.op("Relu", heads(net, 1))))
    moving = [type(n.op).__name__ for n in graph.nodes if not isinstance(n.op, FloatReshape)]
    assert moving == ["FloatSlice", "Clamp"]
    (cut,) = (n.op for n in graph.nodes if isinstance(n.op, FloatSlice))
    assert cut.part.sizes == (1, TOKENS, 1, HEADS * DEPTH)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda n: n.op("Expand", n.real([1.0]), integers(n, 2**20, 2**10)), "1,073,741,824 num"),
        (lambda n: n.op("Tile", n.real([1.0]), integers(n, 2**31)), "2,147,483,648 numbers"),
        (lambda n: n.op("Expand", n.real([1.0, 2.0]), integers(n, 3)), "broadcast"),
        (lambda n: n.op("Mod", n.real([1.0, 2.0])), "it cannot be computed"),
        (lambda n: n.op("Gather", n.real([1.0, 2.0]), integers(n, 5)), "cannot be computed"),
        (lambda n: n.op("GatherElements", n.real([1.0, 2.0]), integers(n, 2)), "none of the 2 al"),
        (lambda n: n.op("GatherElements", n.real([1.0]), n.real([0.0])), "none of the 1 along"),
        (
            lambda n: n.op("GatherElements", n.real([[1.0]]), integers(n, 0)),
            r"\(1,\) along axis 0 of",
        ),
        (
            lambda n: n.op("GatherElements", n.real([1.0]), integers(n, 0), axis=1),
            "along axis 1 of",
        ),
        (
            lambda n: n.op("GatherElements", n.real([[1.0]]), n.constant(np.zeros((1, 2), int))),
            "alo",
        ),
        (lambda n: n.op("GatherElements", n.real([1.0])), "has 1 inputs; 2 are"),
        (lambda n: n.op("Gather", "input", integers(n, *([1, 0] * 65)), axis=1), "runs of places"),
        (lambda n: n.op("Gather", "input", integers(n, 5), axis=1), r"indices \[5\] of 5 places"),
        (lambda n: n.op("Gather", "input", n.real([1.0]), axis=1), "indices are float32"),
    ],
)
def test_what_is_impossible_is_a_sentence(make, words, tmp_path):
    net = OnnxNetwork(SEQUENCE)
    path = net.save(tmp_path / "m.onnx", net.op("Add", "input", make(net)))
    with pytest.raises(ModelError, match=words):
        read_onnx(path)

"""LayerNormalization of .onnx: whole, in parts, float and int8, read, written and refused."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from mcutrain.errors import McutrainError, UnsupportedError
from mcutrain.formats import format_of_quantized, load, read_float, write
from mcutrain.formats.onnx.write import write_onnx
from mcutrain.ir.difference import difference
from mcutrain.ir.graph import Graph, Node, Tensor, TensorType
from mcutrain.ir.interpret import interpret
from mcutrain.ops.layer_norm import Factors, LayerNorm, factors_scale
from mcutrain.ops.reshape import Reshape
from mcutrain.oracle.onnxruntime import onnxruntime_outputs
from mcutrain.quant.fake import snr_db
from mcutrain.quant.float_graph import FloatGraph
from mcutrain.quant.float_norm import FloatLayerNorm
from tests.formats.onnx_builder import QdqModel
from tests.quant.networks import OnnxNetwork

SEQUENCE, IMAGE = (1, 7, 6), (1, 6, 5, 4)
LEAST_DB = 100.0  # float32 sums in another order
EPSILON = 1e-3
RNG = np.random.default_rng(0)
GAMMA, BETA = RNG.normal(0, 1, (2, 6))

AROUND = ("FloatReshape", "FloatTranspose", "FloatAdd")  # a sequence is stored channels last
Form = Callable[[OnnxNetwork, str], str]


class Parts:
    """A normalization of the sequence in parts, growing."""

    def __init__(self, net: OnnxNetwork, x: str, axis: int = -1) -> None:
        self.net, self.x, self.axis = net, x, axis
        self.mean = self.mean_of(x)
        self.d = net.op("Sub", x, self.mean)

    def mean_of(self, x: str) -> str:
        if self.net.opset < 18:
            return self.net.op("ReduceMean", x, axes=[self.axis], keepdims=1)
        return self.net.op("ReduceMean", x, self.net.constant(np.array([self.axis])), keepdims=1)

    def deviation(self, squared: str, first: bool = False) -> str:
        given = [self.mean_of(squared), self.net.real(EPSILON)]
        return self.net.op("Sqrt", self.net.op("Add", *(given[::-1] if first else given)))

    def power(self, d: str = "") -> str:
        return self.net.op("Pow", d or self.d, self.net.real(2.0))

    def scaled(self, y: str, last: bool = False) -> str:
        shape = (6,) + (1,) * (0 if self.axis in (-1, len(self.net.shape) - 1) else 2)
        gamma, beta = (self.net.real(v.reshape(shape)) for v in (GAMMA, BETA))
        pairs = ((gamma, y), (beta,)) if last else ((y, gamma), (beta,))
        return self.net.op("Add", self.net.op("Mul", *pairs[0]), *pairs[1])


def as_torch(net: OnnxNetwork, x: str, axis: int = -1) -> str:
    parts = Parts(net, x, axis)
    return parts.scaled(net.op("Div", parts.d, parts.deviation(parts.power())))


def of_twins(net: OnnxNetwork, x: str) -> str:
    """ConvNeXt's own: the mean is subtracted twice, the square a product."""
    parts = Parts(net, x)
    other = net.op("Sub", x, parts.mean)
    root = parts.deviation(net.op("Mul", other, other), first=True)
    return parts.scaled(net.op("Div", parts.d, root), last=True)


def of_reciprocal(net: OnnxNetwork, x: str) -> str:
    parts = Parts(net, x)
    factor = net.op("Reciprocal", parts.deviation(parts.power()))
    return parts.scaled(net.op("Mul", factor, parts.d))


def of_quotient(net: OnnxNetwork, x: str) -> str:
    parts = Parts(net, x)
    factor = net.op("Div", net.real(1.0), parts.deviation(parts.power()))
    return net.op("Mul", parts.d, net.op("Mul", factor, net.real(GAMMA)))


def as_tensorflow(net: OnnxNetwork, x: str) -> str:
    """x * factor + (beta - mean * factor)."""
    parts = Parts(net, x)
    factor = net.op("Reciprocal", parts.deviation(net.op("Mul", parts.d, parts.d)))
    factor = net.op("Mul", factor, net.real(GAMMA))
    shift = net.op("Sub", net.real(BETA), net.op("Mul", factor, parts.mean))
    return net.op("Add", net.op("Mul", x, factor), shift)


def of_means(parts: Parts, not_negative: str = "Max") -> str:
    """The variance as JAX' Flax has it, from the means of x and of its squares."""
    net = parts.net
    of_squares = parts.mean_of(net.op("Mul", parts.x, parts.x))
    variance = net.op("Sub", of_squares, net.op("Mul", parts.mean, parts.mean))
    if not_negative:
        zero = [net.real(0.0)] if not_negative == "Max" else []
        variance = net.op(not_negative, variance, *zero)
    return net.op("Sqrt", net.op("Add", variance, net.real(EPSILON)))


def as_flax(net: OnnxNetwork, x: str, not_negative: str = "Max") -> str:
    parts = Parts(net, x)
    return parts.scaled(net.op("Div", parts.d, of_means(parts, not_negative)))


def alone(net: OnnxNetwork, x: str) -> str:
    """What follows is no gamma and no beta, but read all the same."""
    parts = Parts(net, x)
    y = net.op("Div", parts.d, parts.deviation(parts.power()))
    return net.op("Relu", net.op("Mul", y, net.real(0.5)))


def twice(net: OnnxNetwork, x: str) -> str:
    return net.op("Add", as_torch(net, as_torch(net, x)), x)


FORMS: dict[str, tuple[Form, int]] = {
    "torch": (as_torch, 1),
    "axis 2": (lambda net, x: as_torch(net, x, 2), 1),
    "twins": (of_twins, 1),
    "reciprocal": (of_reciprocal, 1),
    "quotient": (of_quotient, 1),
    "tensorflow": (as_tensorflow, 1),
    "flax": (as_flax, 1),
    "flax, Relu": (lambda net, x: as_flax(net, x, "Relu"), 1),
    "flax, no limit": (lambda net, x: as_flax(net, x, ""), 1),
    "alone": (alone, 1),
    "twice": (twice, 2),
}
"""And how many there are."""


def ran(path: Path, shape: tuple[int, ...]) -> float:
    """The agreement of the float graph and of onnxruntime, in dB."""
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    x = RNG.normal(0.5, 2, shape).astype(np.float32)
    (wanted,) = session.run(None, {"input": x})
    graph = read_float(path).network
    order = np.argsort(graph.file_axes[graph.input])
    (found,) = graph.run(x.transpose(order))
    return snr_db(wanted, found.transpose(graph.file_axes[graph.outputs[0]]))


def kinds(graph: FloatGraph) -> list[str]:
    return [type(node.op).__name__ for node in graph.nodes]


# ------------------------------------------------------------------------------------------- parts


@pytest.mark.oracle
@pytest.mark.parametrize("opset", [13, 18])
@pytest.mark.parametrize("form", FORMS)
def test_parts_are_read_as_one(form, opset, tmp_path):
    grow, count = FORMS[form]
    net = OnnxNetwork(list(SEQUENCE), opset)
    path = net.save(tmp_path / "m.onnx", grow(net, "input"))
    graph = read_float(path).network
    assert kinds(graph).count("FloatLayerNorm") == count
    assert set(kinds(graph)) <= {"FloatLayerNorm", *AROUND}
    assert ran(path, SEQUENCE) > LEAST_DB


@pytest.mark.oracle
@pytest.mark.parametrize("axis", [1, -3])
def test_channels_of_images_in_parts_move_no_data(axis, tmp_path):
    net = OnnxNetwork(list(IMAGE), 13)
    path = net.save(tmp_path / "m.onnx", as_torch(net, "input", axis))
    assert set(kinds(read_float(path).network)) <= {"FloatLayerNorm", "FloatReshape"}
    assert ran(path, IMAGE) > LEAST_DB


def test_constants_may_be_nodes_and_their_copies(tmp_path):
    net = OnnxNetwork(list(SEQUENCE), 13)
    y = as_torch(net, "input")
    proto = net.proto(y)
    nodes = []
    for tensor in list(proto.graph.initializer):
        value = onnx.TensorProto.FromString(tensor.SerializeToString())
        nodes.append(onnx.helper.make_node("Constant", [], [f"{tensor.name}/c"], value=value))
        nodes.append(onnx.helper.make_node("Identity", [f"{tensor.name}/c"], [tensor.name]))
    del proto.graph.initializer[:]
    nodes += list(proto.graph.node)
    del proto.graph.node[:]
    proto.graph.node.extend(nodes)
    onnx.save(proto, tmp_path / "m.onnx")
    assert kinds(read_float(tmp_path / "m.onnx").network).count("FloatLayerNorm") == 1


def test_what_is_added_per_position_is_no_beta(tmp_path):
    net = OnnxNetwork(list(SEQUENCE), 13)
    parts = Parts(net, "input")
    y = net.op("Div", parts.d, parts.deviation(parts.power()))
    y = net.op("Add", y, net.real(RNG.normal(0, 1, SEQUENCE)))
    graph = read_float(net.save(tmp_path / "m.onnx", y)).network
    assert {"FloatLayerNorm"} < set(kinds(graph)) - {"FloatReshape"}


def test_a_normalization_that_is_read_twice_keeps_what_follows(tmp_path):
    """Its gamma belongs to one reader only."""
    net = OnnxNetwork(list(SEQUENCE), 13)
    parts = Parts(net, "input")
    y = net.op("Div", parts.d, parts.deviation(parts.power()))
    y = net.op("Add", y, net.op("Mul", y, net.real(GAMMA)))
    path = net.save(tmp_path / "m.onnx", y)
    graph = read_float(path).network
    (norm,) = (n.op for n in graph.nodes if isinstance(n.op, FloatLayerNorm))
    assert (norm.gamma == 1).all()
    pytest.importorskip("onnxruntime")
    assert ran(path, SEQUENCE) > LEAST_DB


def other_mean(net: OnnxNetwork) -> str:
    parts = Parts(net, "input")
    parts.axis = 1
    return net.op("Div", parts.d, parts.deviation(parts.power()))


def without_mean(net: OnnxNetwork) -> str:
    parts = Parts(net, "input")
    return net.op("Div", parts.d, parts.deviation(parts.power("input")))


def other_power(net: OnnxNetwork) -> str:
    parts = Parts(net, "input")
    return net.op("Div", parts.d, parts.deviation(net.op("Pow", parts.d, net.real(3.0))))


def computed_epsilon(net: OnnxNetwork) -> str:
    parts = Parts(net, "input")
    epsilon = net.op("Sigmoid", parts.mean)
    root = net.op("Sqrt", net.op("Add", parts.mean_of(parts.power()), epsilon))
    return net.op("Div", parts.d, root)


def other_square(net: OnnxNetwork) -> str:
    parts = Parts(net, "input")
    parts.mean = parts.mean_of(net.op("Sigmoid", "input"))
    return net.op("Div", parts.d, of_means(parts))


def other_limit(net: OnnxNetwork) -> str:
    parts = Parts(net, "input")
    of_squares = parts.mean_of(net.op("Mul", parts.x, parts.x))
    variance = net.op("Sub", of_squares, net.op("Mul", parts.mean, parts.mean))
    variance = net.op("Max", variance, net.real(0.1))
    return net.op("Div", parts.d, net.op("Sqrt", net.op("Add", variance, net.real(EPSILON))))


def limited_by_another(net: OnnxNetwork) -> str:
    parts = Parts(net, "input")
    variance = net.op("Max", parts.mean_of(parts.power()), parts.mean)
    return net.op("Div", parts.d, net.op("Sqrt", net.op("Add", variance, net.real(EPSILON))))


LOOK_ALIKE = (
    *(other_mean, without_mean, other_power, computed_epsilon),
    *(other_square, other_limit, limited_by_another),
)


@pytest.mark.parametrize("parts", LOOK_ALIKE)
def test_what_only_looks_like_it_stays_in_parts(parts, tmp_path):
    net = OnnxNetwork(list(SEQUENCE), 13)
    nodes = read_float(net.save(tmp_path / "m.onnx", parts(net))).network.nodes
    assert not any(isinstance(n.op, FloatLayerNorm) and n.op.is_centred for n in nodes)


# ----------------------------------------------------------------------------------------- refusals


def norm(net: OnnxNetwork, *inputs: str, **attributes: object) -> str:
    return net.op("LayerNormalization", *inputs, **attributes)


@pytest.mark.parametrize(
    ("grow", "text"),
    [
        (lambda net: norm(net, "input", net.real(np.ones(5))), r"input 1 of \(5,\) is not"),
        (lambda net: norm(net, "input", net.op("Relu", "input")), "input 1 that is computed"),
        (lambda net: norm(net, "input", net.real(GAMMA), axis=3), "do not fit 3 dimensions"),
        (lambda net: norm(net, "input", net.real(GAMMA * np.nan)), "infinity or NaN"),
        (lambda net: norm(net, "input", net.real(GAMMA), epsilon=-1.0), "epsilon"),
    ],
)
def test_what_cannot_be_read_is_named(grow, text, tmp_path):
    net = OnnxNetwork(list(SEQUENCE))
    with pytest.raises(McutrainError, match=text):
        read_float(net.save(tmp_path / "m.onnx", grow(net)))


def test_a_mean_that_is_an_output_is_refused(tmp_path):
    model = QdqModel(SEQUENCE)
    y = model.op("LayerNormalization", model.x, model.constant(GAMMA.astype(np.float32)), outputs=2)
    with pytest.raises(UnsupportedError, match="mean or deviation is an output"):
        load(model.save(tmp_path / "m.onnx", model.requantize(y, 0.03, 5)))


# -------------------------------------------------------------------------------------------- int8


def graph_of(shape: tuple[int, ...], seed: int, low: int = -128) -> Graph:
    """One normalization of the last axis."""
    rng = np.random.default_rng(seed)
    x_scale, y_scale = (float(np.float32(v)) for v in rng.uniform(0.01, 0.05, 2))
    gamma, beta = rng.normal(0, 1, (2, shape[-1]))
    op = LayerNorm.from_real(shape[-1], 1e-5, x_scale, 3)
    types = [TensorType(shape, "int8", (s,), z) for s, z in ((x_scale, -4), (y_scale, 3))]
    tensors = {name: Tensor(name, t) for name, t in zip("xy", types, strict=True)}
    kind = TensorType(shape[-1:], "int32", (factors_scale(y_scale),))
    factors = Factors.of(gamma, beta, y_scale)._asdict()
    tensors |= {name: Tensor(name, kind, data) for name, data in factors.items()}
    node = Node("norm", op.with_channel_limits(low, 127), ("x", *factors), ("y",))
    if len(shape) != 3:
        return Graph("one", tensors, (node,), ("x",), ("y",))
    kind = replace(types[0], shape=(1, *shape))
    tensors |= {"image": Tensor("image", kind)}
    view = Node("view", Reshape(shape), ("image",), ("x",))
    return Graph("one", tensors, (view, node), ("image",), ("y",))


SHAPES = ((1, 6), (1, 9, 6), (1, 5, 4, 6), (1, 1, 1, 200), (1, 3, 2, 96))


@pytest.mark.parametrize("low", [-128, 3])
@pytest.mark.parametrize("shape", SHAPES)
def test_it_comes_back_from_an_onnx_file(shape, low, tmp_path):
    graph = graph_of(shape, len(shape), low)
    assert write_onnx(graph, tmp_path / "m.onnx") == ""
    assert difference(graph, load(tmp_path / "m.onnx")) == ""


@pytest.mark.slow
@pytest.mark.oracle
def test_onnxruntime_agrees_but_beside_ties(tmp_path):
    """docs/operators.md says in how many."""
    pytest.importorskip("onnxruntime")
    rng, off, total = np.random.default_rng(0), 0, 0
    for shape, seed in itertools.product(SHAPES, range(10)):
        graph = graph_of(shape, seed)
        write_onnx(graph, tmp_path / "m.onnx")
        (name,) = graph.inputs
        x = rng.integers(-128, 128, (200, *graph.tensors[name].type.shape[1:])).astype(np.int8)
        theirs = onnxruntime_outputs(tmp_path / "m.onnx", x, graph, optimize=seed % 2 == 1)
        ours = np.concatenate([interpret(graph, {name: one[None]})["y"] for one in x])
        apart = np.abs(theirs.reshape(ours.shape).astype(int) - ours)
        assert apart.max() <= 1
        off, total = off + int(apart.sum()), total + ours.size
    assert (off, total) <= (20, 1_912_000), f"{off:,} of {total:,}"
    print(f"{off:,} of {total:,}")


def test_gamma_in_int8_is_read_as_onnxruntimes_quantizer_writes_it(tmp_path):
    model = QdqModel((1, 6))
    gamma = model.dequantized(RNG.integers(-127, 128, 6).astype(np.int8), 0.01)
    beta = model.dequantized(RNG.integers(-999, 999, 6).astype(np.int32), 0.001)
    y = model.op("LayerNormalization", model.x, gamma, beta, axis=-1)
    path = model.save(tmp_path / "m.onnx", model.requantize(y, 0.03, 5))
    graph = load(path)
    assert [type(n.op) for n in graph.nodes].count(LayerNorm) == 1
    pytest.importorskip("onnxruntime")
    (name,), (out,) = graph.inputs, graph.outputs
    x = RNG.integers(-128, 128, (50, *graph.tensors[name].type.shape[1:])).astype(np.int8)
    theirs = onnxruntime_outputs(path, x, graph, optimize=False)
    ours = np.concatenate([interpret(graph, {name: one[None]})[out] for one in x])
    assert np.abs(theirs.reshape(ours.shape).astype(int) - ours).max() <= 1


def test_scales_far_apart_are_no_error_since_it_normalizes(tmp_path):
    """A convolution whose output's scale is 5,000 times smaller than its input's is refused."""
    model = QdqModel(SEQUENCE, scale=100.0)
    y = model.op("LayerNormalization", model.x, model.constant(GAMMA.astype(np.float32)))
    graph = load(model.save(tmp_path / "m.onnx", model.requantize(y, 0.02, 0)))
    assert LayerNorm in {type(n.op) for n in graph.nodes}


# ------------------------------------------------------------------------- as one operator around 0


RMS_OPSET = 23  # the first with RMSNormalization


@pytest.mark.oracle
@pytest.mark.parametrize(("shape", "axis"), [(SEQUENCE, -1), (SEQUENCE, 1), (IMAGE, 2)])
def test_rms_normalization_in_float_is_onnxruntimes(shape, axis, tmp_path):
    net = OnnxNetwork(list(shape), RMS_OPSET)
    gamma = net.real(RNG.normal(0, 1, shape[axis:]))
    y = net.op("RMSNormalization", "input", gamma, axis=axis, epsilon=0.5)
    path = net.save(tmp_path / "m.onnx", y)
    (norm,) = (n.op for n in read_float(path).network.nodes if isinstance(n.op, FloatLayerNorm))
    assert not norm.is_centred
    assert ran(path, shape) > LEAST_DB


def rms_in_parts(net: QdqModel, gamma: str) -> str:
    """x / sqrt(mean of squares + epsilon) * gamma."""
    of_squares = net.op("ReduceMean", net.op("Mul", net.x, net.x), axes=[-1], keepdims=1)
    above_0 = net.op("Add", of_squares, net.constant(np.float32(EPSILON)))
    return net.op("Mul", net.op("Div", net.x, net.op("Sqrt", above_0)), gamma)


@pytest.mark.oracle
@pytest.mark.parametrize("shape", [SEQUENCE, (1, 3, 200)])
def test_rms_normalization_in_int8_is_onnxruntimes_and_that_in_parts(shape, tmp_path):
    pytest.importorskip("onnxruntime")
    gamma = RNG.normal(0, 1, shape[-1]).astype(np.float32)
    graphs = []
    for opset in (RMS_OPSET, 17):
        model = QdqModel(shape, opset=opset)
        factors = model.constant(gamma)
        y = (
            model.op("RMSNormalization", model.x, factors, axis=-1, epsilon=EPSILON)
            if opset == RMS_OPSET
            else rms_in_parts(model, factors)
        )
        path = model.save(tmp_path / f"{opset}.onnx", model.requantize(y, 0.03, 5))
        graphs.append(load(path))
    graph = graphs[0]
    (norm,), (other,) = ([n.op for n in g.nodes if isinstance(n.op, LayerNorm)] for g in graphs)
    assert norm == other
    (name,), (out,) = graph.inputs, graph.outputs
    x = RNG.integers(-128, 128, (100, *graph.tensors[name].type.shape[1:])).astype(np.int8)
    theirs = onnxruntime_outputs(tmp_path / f"{RMS_OPSET}.onnx", x, graph, optimize=False)
    ours = np.concatenate([interpret(graph, {name: one[None]})[out] for one in x])
    apart = np.abs(theirs.reshape(ours.shape).astype(int) - ours)
    assert apart.max() <= 1
    assert apart.mean() < 1e-3  # beside ties


# ---------------------------------------------------------------------------------- other formats


def test_a_tflite_file_has_none_which_is_said_before_the_work(tmp_path):
    graph = graph_of((1, 6), 0)
    with pytest.raises(UnsupportedError, match=r"LayerNorm has no operator in \.tflite.*\.onnx"):
        write(graph, tmp_path / "m.tflite")
    net = OnnxNetwork([1, 3, 4, 4])
    y = net.op("LayerNormalization", net.conv("input", 3, 4), net.real(np.ones((4, 4, 4))), axis=1)
    network = read_float(net.save(tmp_path / "f.onnx", y)).network
    assert format_of_quantized(network, None) == ".onnx"
    assert format_of_quantized(network, Path("a.onnx")) == ".onnx"
    with pytest.raises(UnsupportedError, match=r"have no layer normalization; write .*a\.onnx"):
        format_of_quantized(network, Path("a.tflite"))


def test_factors_behind_it_are_its_own(tmp_path):
    net = OnnxNetwork(list(SEQUENCE))
    y = norm(net, "input", net.real(GAMMA), net.real(BETA))
    for op, number in itertools.product(("Mul", "Add"), (0.25, -3.0)):
        y = net.op(op, y, net.real(number))
    y = net.op("Relu", y)
    path = net.save(tmp_path / "m.onnx", y)
    graph = read_float(path).network
    assert set(kinds(graph)) <= {"FloatLayerNorm", *AROUND[:2]}
    pytest.importorskip("onnxruntime")
    assert ran(path, SEQUENCE) > LEAST_DB

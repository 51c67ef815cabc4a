"""Gamma and beta, trained as biases are: which, to which bits, and in which files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from mcutrain import prepare
from mcutrain.analysis.gradient import _factors, _joined
from mcutrain.errors import SchemeError
from mcutrain.formats import load, read_float
from mcutrain.formats.onnx.write import write_onnx
from mcutrain.ir.difference import difference
from mcutrain.ir.graph import Graph
from mcutrain.ops.layer_norm import LayerNorm
from mcutrain.sparse import find_head, layers_of, parse_scheme, resolve
from mcutrain.sparse.layers import normalizations_of
from mcutrain.sparse.scheme import UpdateScheme
from mcutrain.trained import export
from mcutrain.update_rules import RULES, SGD
from tests.quant.networks import OnnxNetwork
from tests.simulation.networks import Network, same
from tests.simulation.test_training_steps import assert_same_bits
from tests.trained.test_trained import run
from tests.trained.training import Trained, train

CLASSES = 3


def network() -> Graph:
    """A normalization before all layers, two behind the first, one behind the last."""
    net = Network((6, 5, 4), 7)
    y = net.layer_norm(net.layer_norm(net.conv(net.layer_norm(net.x), 8, same(3))))
    y = net.mean(net.layer_norm(net.conv(y, 6, relu=True), is_centred=False))
    return net.graph(net.conv(y, CLASSES, rounds_once=True), "normalized")


def trained_by(text: str, graph: Graph) -> set[str]:
    """The gammas that a scheme trains; the betas are the same."""
    names = set(resolve(parse_scheme(text), graph))
    gammas = {name for name in names if name.startswith("gamma")}
    assert gammas == {f"gamma{n[4:]}" for n in names if n.startswith("beta")}
    return gammas


def test_they_go_with_the_bias_of_the_layer_before_them() -> None:
    graph = network()
    norms = normalizations_of(graph, find_head(graph))
    first, second, third, last = (norm.parameters[0] for norm in norms)
    assert trained_by("head", graph) == set()
    assert trained_by("bias:1", graph) == {last}
    assert trained_by("bias:2", graph) == {second, third, last}
    assert trained_by("full", graph) == {second, third, last}
    assert trained_by("linear-bias:2", graph) == set()
    assert trained_by("norm:1", graph) == {last}
    assert trained_by("norm:4", graph) == {first, second, third, last}
    assert trained_by("norm:0,bias:2", graph) == set()
    assert trained_by("norm:1,bias:2", graph) == {last}
    assert len(layers_of(graph, find_head(graph))) == 2  # they are no layers with numbers


def test_an_analysis_gives_each_bias_what_is_trained_with_it() -> None:
    """So that the gain of a depth is of all that the depth trains."""
    graph, head = network(), find_head(network())
    factors = _factors(graph)
    for depth in range(3):
        biases = [layer.bias for layer in layers_of(graph, head)[2 - depth :]]
        together = {name for bias in biases for name in (bias, *factors[bias])}
        trained = set(resolve(parse_scheme(f"bias:{depth}"), graph))
        assert trained == together | {head.weight, head.bias}
    ones = {name: np.ones(2) for bias, also in factors.items() for name in (bias, *also)}
    joined = _joined(ones, factors)
    assert {bias: len(g) for bias, g in joined.items()} == {
        bias: 2 + 2 * len(also) for bias, also in factors.items()
    }


def test_more_than_there_are_is_refused_with_their_number() -> None:
    with pytest.raises(SchemeError, match=r"trains the last 5 normalizations; 'normalized' has 4"):
        resolve(parse_scheme("norm:5"), network())


def test_a_scheme_of_normalizations_survives_its_toml(tmp_path: Path) -> None:
    scheme = parse_scheme("norm:3,bias:1")
    assert scheme == UpdateScheme("norm:3,bias:1", 1, norm_depth=3)
    (tmp_path / "s.toml").write_text(scheme.to_toml(), encoding="utf-8")
    assert parse_scheme(tmp_path / "s.toml") == scheme


def test_what_has_no_parameters_of_its_own_is_not_trained() -> None:
    graph = network()
    nodes = [
        replace(n, op=replace(n.op, is_affine=False)) if isinstance(n.op, LayerNorm) else n
        for n in graph.nodes
    ]
    assert normalizations_of(graph.with_nodes(nodes), find_head(graph)) == ()


@pytest.mark.draws(3)
@pytest.mark.parametrize("accumulate", [1, 3])
@pytest.mark.parametrize("bias_bits", [32, 16])
@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_c_and_numpy_hold_the_same_bits(dtype: str, bias_bits: int, accumulate: int) -> None:
    scheme = replace(parse_scheme("norm:4,last:1"), bias_bits=bias_bits)
    step = prepare(network(), scheme, gradient_dtype=dtype, accumulate=accumulate)
    reference = assert_same_bits(step.plan.training, 12 * accumulate, 0.5, portable=bias_bits == 32)
    assert_moved(step.plan.training.state, reference.state)


@pytest.mark.parametrize("bias_bits", [32, 16])
@pytest.mark.parametrize("rule", [name for name in RULES if name != SGD])
def test_c_and_numpy_hold_the_same_bits_by_a_rule(rule: str, bias_bits: int) -> None:
    scheme = replace(parse_scheme("norm:4"), bias_bits=bias_bits, update_rule=rule)
    step = prepare(network(), scheme)
    reference = assert_same_bits(step.plan.training, 24, 0.1)
    assert_moved(step.plan.training.state, reference.state)


def assert_moved(before: Any, after: Any) -> None:
    """Most of them; those of a normalization that another follows hardly have a gradient."""
    names = [n for n in before if n.removesuffix(".difference").isalnum()]
    names = [n for n in names if n.startswith(("gamma", "beta"))]
    assert len(names) == 8
    moved = {n for n in names if not np.array_equal(before[n], after[n])}
    assert len(moved) >= 3
    assert {name[0] for name in moved} == {"g", "b"}


# ------------------------------------------------------------------------------------------- files


RNG = np.random.default_rng(4)


def block(path: Path, op_type: str, is_plain: bool = False, **attributes: Any) -> Path:
    """A convolution, a normalization with a gamma and a beta, or without, a head."""
    net = OnnxNetwork([1, 3, 6, 6], opset=21)
    y = net.conv("input", 3, 8)
    of_channels = op_type != "LayerNormalization"
    if not of_channels:
        y = net.op("Transpose", y, perm=[0, 2, 3, 1])
    gamma, beta = RNG.uniform(0.5, 1.5, 8), RNG.normal(0, 0.2, 8)
    factors = (np.ones(8),) if is_plain else (gamma, beta)
    y = net.op(op_type, y, *map(net.real, factors), **attributes)
    if not of_channels:
        y = net.op("Transpose", y, perm=[0, 3, 1, 2])
    y = net.op("Flatten", net.op("GlobalAveragePool", net.op("Relu", y)))
    return net.save(path, net.gemm(y, 8, CLASSES))


def quantized(path: Path) -> Graph:
    """In int8, in a file beside it."""
    model = read_float(path)
    x = RNG.uniform(-2, 2, (16, *model.network.input_shape[1:]))
    graph = model.quantize(x).graph
    assert write_onnx(graph, path.with_name("int8.onnx")) == ""
    assert difference(graph, load(path.with_name("int8.onnx"))) == ""
    return graph


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = block(tmp_path_factory.mktemp("norm") / "float.onnx", "LayerNormalization")
    quantized(path)
    return path.with_name("int8.onnx")


def exported(source: Path, folder: Path, scheme: str, **how: Any) -> Trained:
    original = load(source)
    trained = train(original, scheme, **how)
    done = export(source, original, trained.graph, folder / "trained.onnx")
    assert not done.other_bits
    assert np.array_equal(run(load(folder / "trained.onnx"), trained.x), trained.outputs)
    return trained


@pytest.mark.parametrize("bias_bits", [32, 16])
def test_a_trained_file_computes_the_bits_of_the_device(
    source: Path, bias_bits: int, tmp_path: Path
) -> None:
    """All but gamma, beta and the head is what it was."""
    exported(source, tmp_path, "norm:1", bias_bits=bias_bits)
    before, after = (onnx.load(p) for p in (source, tmp_path / "trained.onnx"))
    assert [n.name for n in before.graph.node] == [n.name for n in after.graph.node]
    known, now = ({t.name: t for t in m.graph.initializer} for m in (before, after))
    changed = {name for name in known.keys() & now.keys() if known[name] != now[name]}
    assert {name.rpartition("/")[2] for name in changed if "Gemm" not in name} == {"gamma", "beta"}


def test_a_file_without_parameters_comes_back_without(tmp_path: Path) -> None:
    graph = quantized(block(tmp_path / "float.onnx", "LayerNormalization", is_plain=True))
    for found in (graph, load(tmp_path / "int8.onnx")):
        assert [n.op.is_affine for n in found.nodes if isinstance(n.op, LayerNorm)] == [False]
        assert normalizations_of(found, find_head(found)) == ()


@pytest.mark.parametrize("name", ["InstanceNormalization", "GroupNormalization"])
def test_factors_of_channels_are_a_layer_or_in_the_next_one(name: str, tmp_path: Path) -> None:
    """A ReLU behind them keeps them apart: they are the weights and biases of a depthwise layer."""
    groups = {"num_groups": 4} if name == "GroupNormalization" else {}
    graph = quantized(block(tmp_path / "float.onnx", name, **groups))
    assert normalizations_of(graph, find_head(graph)) == ()
    layer = layers_of(graph, find_head(graph))[-1]
    assert type(layer.node.op).__name__ == "DepthwiseConv2D"
    exported(tmp_path / "int8.onnx", tmp_path, "last:1")

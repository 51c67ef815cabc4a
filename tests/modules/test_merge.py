"""Modules folded into their layers: the numbers that follow, and how far outputs move."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mcutrain.errors import SchemeError
from mcutrain.formats import load, write
from mcutrain.ir.difference import difference
from mcutrain.ir.graph import Graph
from mcutrain.ir.interpret import interpret
from mcutrain.modules import merged
from mcutrain.oracle.tflite import tflite_outputs
from mcutrain.sparse.modules import LORA, added_columns, modules_of
from tests.formats.oracle import needs_interpreter
from tests.modules.graphs import augmented, even_network, learnt, single_precision
from tests.simulation.networks import Network, residual_network, samples
from tests.trained.networks import classifier

MERGED = ("lora:2", "lora-fa:2", "gain", "gain,lora:2")


def outputs(graph: Graph, x: np.ndarray) -> np.ndarray:
    (name,), (y,) = graph.inputs, graph.outputs
    return np.concatenate([interpret(graph, {name: one[None]})[y] for one in x]).astype(int)


def real(graph: Graph, name: str) -> np.ndarray:
    """A constant's real numbers."""
    kind, data = graph.tensors[name].type, graph.tensors[name].data
    assert data is not None
    shape = [-1 if i == kind.axis % data.ndim else 1 for i in range(data.ndim)]
    return data * np.reshape(kind.scales, shape if len(kind.scales) > 1 else [1] * data.ndim)


def dense_network() -> Graph:
    """Fully connected layers alone, which round once."""
    net = Network((1, 1, 12), 4)
    y = net.conv(net.x, 9, relu=True, rounds_once=True)
    y = net.conv(y, 7, relu=True, rounds_once=True)
    return net.graph(net.conv(y, 3, rounds_once=True))


@pytest.fixture
def source(tmp_path: Path) -> Graph:
    """A network as a file has it, in single precision."""
    path = tmp_path / "plain.tflite"
    path.write_bytes(classifier())
    return load(path)


@pytest.mark.parametrize("text", MERGED)
def test_modules_that_have_learnt_nothing_leave_the_layers_as_they_were(
    source: Graph, text: str
) -> None:
    found = merged(augmented(source, text).graph)
    assert found.changed == 0
    assert found.left == ()
    assert difference(source, found.graph) == ""


@pytest.mark.parametrize("text", MERGED)
@pytest.mark.parametrize("make", [residual_network, dense_network, even_network])
def test_outputs_stay_close(make: Callable[[], Graph], text: str) -> None:
    plain = single_precision(make())
    graph = learnt(augmented(plain, text).graph, spread=20.0 if text == "gain" else 3.0)
    found = merged(graph)
    x, _ = samples(plain, 20, 2)
    before, after, without = (outputs(g, x) for g in (graph, found.graph, plain))
    moved = np.abs(before - without).mean()
    assert moved > 0.3
    assert np.abs(before - after).mean() < 0.5 * moved
    assert not modules_of(found.graph)
    assert len(found.graph.nodes) == len(plain.nodes)


@pytest.mark.parametrize("text", ["lora:2", "lora-fa:3"])
def test_weights_are_the_sum_of_both_products(source: Graph, text: str) -> None:
    graph = learnt(augmented(source, text).graph, spread=60.0)
    found = merged(graph).graph
    grown = 0
    for module in modules_of(graph):
        assert module.part.kind in LORA
        a, shift = real(graph, module.layer.weight), real(graph, module.layer.bias)
        host = next(n for n in graph.nodes if n.name == module.part.place)
        weight, bias = host.inputs[1:]
        rank = added_columns(graph)[weight]
        w, b = real(graph, weight), real(graph, bias)
        columns = w[:, 0, 0, -rank:]
        expected = w[:, 0, 0, :-rank] + columns @ a[:, 0, 0]
        steps = np.array(found.tensors[weight].type.scales)
        assert (np.abs(real(found, weight)[:, 0, 0] - expected) <= 0.501 * steps[:, None]).all()
        sums = np.array(found.tensors[bias].type.scales)
        x = graph.tensors[module.layer.node.inputs[0]].type
        assert found.tensors[host.inputs[1]].type.shape[-1] == x.shape[-1]
        assert (np.abs(real(found, bias) - (b + columns @ shift)) <= 0.51 * sums).all()
        grown += int((steps > 1.001 * np.array(graph.tensors[weight].type.scales)).sum())
    assert grown > 0  # rows that did not fit their scale


def test_gains_are_in_the_scales() -> None:
    plain = single_precision(even_network())
    graph = learnt(augmented(plain, "gain").graph, seed=2, spread=30.0)
    found = merged(graph).graph
    for module in modules_of(graph):
        host = next(n for n in plain.nodes if n.name == module.part.place)
        g = real(graph, module.layer.weight).ravel()
        old, new = (q.tensors[host.inputs[1]] for q in (plain, found))
        np.testing.assert_allclose(new.type.scales, np.array(old.type.scales) * g, rtol=1e-6)
        np.testing.assert_array_equal(new.data, old.data)


def test_negative_gains_turn_rows_where_nothing_is_cut_off() -> None:
    plain = single_precision(even_network())
    graph = augmented(plain, "gain,at=0+2").graph  # a convolution without ReLU, and one with
    for module in modules_of(graph):
        graph.tensors[module.layer.weight].data[...] = [*[-32] * 3, *[0] * 3, 64, 64][
            : graph.tensors[module.layer.weight].data.size
        ]
    found = merged(graph)
    (left,) = found.left
    assert left.startswith("node2/")
    old, new = (g.tensors["w0"].data for g in (plain, found.graph))
    np.testing.assert_array_equal(new[:3], -old[:3])
    assert not new[3:].any()
    x, _ = samples(plain, 10, 2)
    assert np.abs(outputs(graph, x) - outputs(found.graph, x)).mean() < 1


def test_gains_of_a_single_scale_stay() -> None:
    """Layers with one multiplier for all channels have no place for them."""
    plain = single_precision(even_network())
    node = plain.nodes[0]
    stage = node.op.requantize
    one = type(stage)(stage.mult_q31[:1], stage.shift[:1], stage.zero_point)
    object.__setattr__(node.op, "requantize", one)
    graph = augmented(plain, "gain,at=0+1").graph
    assert [name.split("/")[0] for name in merged(graph).left] == ["node0"]


def test_a_gain_that_learnt_a_bias_stays() -> None:
    """The bias comes behind the layer's own requantization, where its weights cannot hold it."""
    graph = augmented(single_precision(even_network()), "gain,at=0+1").graph
    bias = next(m.layer.bias for m in modules_of(graph) if m.part.place == "node0")
    graph.tensors[bias].data[0] = 1
    assert [name.split("/")[0] for name in merged(graph).left] == ["node0"]


def test_what_cannot_be_merged_is_said() -> None:
    for text in ("adapter:2", "lite:3"):
        with pytest.raises(SchemeError, match="has no modules that can be merged"):
            merged(augmented(even_network(), text).graph)
    with pytest.raises(SchemeError, match="has no modules that can be merged"):
        merged(even_network())
    both = merged(augmented(even_network(), "adapter:2,gain").graph)
    assert all("adapter" in name or "gain" in name for name in both.left)


@pytest.mark.oracle
@needs_interpreter
@pytest.mark.parametrize("text", MERGED)
def test_merged_files_are_ordinary_files(source: Graph, tmp_path: Path, text: str) -> None:
    graph = merged(learnt(augmented(source, text).graph, spread=10.0)).graph
    x, _ = samples(graph, 6, 2)
    for suffix in (".tflite", ".onnx"):
        write(graph, tmp_path / f"merged{suffix}")
        assert difference(graph, load(tmp_path / f"merged{suffix}")) == ""
    found = tflite_outputs(tmp_path / "merged.tflite", x, graph)
    np.testing.assert_array_equal(found, outputs(graph, x))

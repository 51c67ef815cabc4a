"""Modules as candidates of an analysis, by gradient and by training."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from mcutrain import pipeline
from mcutrain.analysis import candidates
from mcutrain.analysis.candidates import bias_candidate, module_candidate
from mcutrain.analysis.front import cut_at
from mcutrain.analysis.gradient import by_gradient, parameter_moments, per_channel
from mcutrain.analysis.module_parts import module_parts
from mcutrain.analysis.problem import Problem
from mcutrain.analysis.progress import Times
from mcutrain.analysis.training import _Analysis, by_training
from mcutrain.analysis.workers import Execution
from mcutrain.ir.graph import Graph
from mcutrain.selection.contribution import read_contributions
from mcutrain.sparse import UpdateScheme
from mcutrain.sparse.leaving_out import without_modules
from mcutrain.sparse.modules import whole_modules
from tests.analysis.conftest import SETTINGS, problem, two_layers
from tests.analysis.test_gradient import SETTINGS as GRADIENT
from tests.analysis.test_training import accuracy
from tests.autodiff.measure import cosine, float_derivatives
from tests.modules.graphs import augmented, even_network
from tests.simulation.networks import Network, residual_network, same

KINDS = "gain,adapter:4,lora-fa:4,lite:3"
LEAST_COSINE = 0.99
"""Of squared gradients of int16 against those of the float model; measured: 0.997."""


def of_three_classes(graph: Graph) -> Problem:
    found = problem(graph, train=16)
    return dataclasses.replace(found, train_y=found.train_y % 3, test_y=found.test_y % 3)


def with_modules(text: str = KINDS) -> Problem:
    return of_three_classes(augmented(even_network(), text).graph)


def test_parts_are_what_has_a_gradient_before_anything_is_learnt() -> None:
    graph = with_modules().trunk()
    parts = {m.name: m for m in module_parts(graph)}
    assert parts.keys() == whole_modules(graph).keys()
    for name, part in parts.items():
        kind = name.split("@")[0]
        data = graph.tensors[part.weight].data
        assert data is not None
        zero = data[..., part.first :] - (64 if kind == "gain" else 0)
        assert not zero.any()
        assert part.counts == ((0,) if kind == "gain" else (1, 2) if kind == "lite" else (1, 2, 4))
        last = list(whole_modules(graph)[name].parts.values())[-1]
        assert part.biases == ((last.bias,) if kind in ("adapter", "lite") else ())
        groups = part.groups(graph)[name]
        assert np.concatenate(groups).tolist() == list(range(zero.shape[-1]))
        assert [sum(map(len, groups[: i + 1])) for i in range(len(groups))] == [
            n or zero.shape[-1] for n in part.counts
        ]
    plain, places = without_modules(graph)
    order = [n.inputs[1] for n in plain.nodes if len(n.inputs) == 3]
    for place in places:
        part = parts[place.module.name]
        made = plain.producer(place.beside)
        assert made is not None
        if made.inputs[1] in order:  # it stands at a layer
            assert part.anchor == order.index(made.inputs[1])


@pytest.mark.slow
def test_what_modules_gain_by_gradient_is_from_the_float_models() -> None:
    found_in = with_modules()
    graph, index = found_in.trunk(), np.arange(12)
    moments = parameter_moments(graph, found_in, index, GRADIENT)
    parts = module_parts(graph)
    wanted = {p.weight for p in parts} | {b for p in parts for b in p.biases}
    squares: dict[str, np.ndarray] = {}
    for i in index.tolist():
        x, label = found_in.train_x[i : i + 1], int(found_in.train_y[i])
        for name, derivative in float_derivatives(graph, x, label).items():
            if name in wanted:
                scales = np.array(graph.tensors[name].type.scales)
                axis = graph.tensors[name].type.axis % derivative.ndim
                along = [-1 if a == axis else 1 for a in range(derivative.ndim)]
                g = derivative / (scales.reshape(along) if len(scales) > 1 else scales)
                squares[name] = squares.get(name, np.zeros(1)) + per_channel(g**2)
    assert squares.keys() == wanted
    for name, expected in squares.items():
        value = moments[name].squares
        assert cosine(value, expected) > LEAST_COSINE, name
        assert value.sum() == pytest.approx(expected.sum(), rel=0.1), name


def test_gains_by_gradient_are_of_the_channels_that_stay() -> None:
    found_in = with_modules()
    found = by_gradient(found_in, dataclasses.replace(GRADIENT, samples=8))
    for measure in found.gains:
        gains = found.gain(measure).modules
        assert gains.keys() == whole_modules(found_in.model).keys()
    fisher = found.gain("fisher").modules
    for name, by in fisher.items():
        values = [by[count] for count in sorted(by)]
        assert np.all(np.diff(values) >= 0), name
    assert len(found.layers) == 7
    own = [la.index for la in found_in.layers]
    plain, _ = without_modules(found_in.model)
    for layer, channels in found.channels.items():
        assert layer in own
        weight = found_in.layers[layer].weight
        assert len(channels) == plain.tensors[weight].type.shape[-1]


@pytest.mark.slow
def test_a_rate_of_modules_multiplies_what_they_gain_by_gradient() -> None:
    """In the inner products of the gradients, that is: and nothing of what layers gain."""
    found_in, settings = with_modules(), dataclasses.replace(GRADIENT, samples=8)
    at = {
        rate: by_gradient(found_in, dataclasses.replace(settings, module_rate=rate))
        for rate in (None, 1.0, 0.25)
    }
    assert {rate: found.module_rate for rate, found in at.items()} == {r: r for r in at}
    plain, slower, usual = (at[rate].kernels for rate in (1.0, 0.25, None))
    assert plain is not None
    assert slower is not None
    assert usual is not None
    for name, by in plain.modules.items():
        own = 1.0 if name.startswith("gain") else 0.1
        for count, products in by.items():
            np.testing.assert_allclose(slower.modules[name][count], 0.25 * products, rtol=1e-5)
            np.testing.assert_allclose(usual.modules[name][count], own * products, rtol=1e-5)
    for one in (slower, usual):
        assert all(
            map(np.array_equal, (*one.biases, *_all(one.weights)),
                (*plain.biases, *_all(plain.weights)))
        )  # fmt: skip
    for measure in at[1.0].gains:
        one, other = (at[rate].gain(measure) for rate in (1.0, 0.25))
        assert (one.bias, one.weights) == (other.bias, other.weights)
        if measure in ("fisher", "first_order"):
            for name, gains in one.modules.items():
                assert other.modules[name] == pytest.approx({c: g / 4 for c, g in gains.items()})
        else:
            assert one.modules != other.modules


def _all(by: Mapping[int, Mapping[float, np.ndarray]]) -> list[np.ndarray]:
    return [products for own in by.values() for products in own.values()]


def test_layers_gain_what_they_gain_without_modules() -> None:
    """But for the noise of integers: other nodes draw other random numbers."""
    settings = dataclasses.replace(GRADIENT, samples=12)
    both = [by_gradient(p, settings) for p in (with_modules(), of_three_classes(even_network()))]
    for measure in ("fisher", "dimension"):
        one, other = (np.array(found.gain(measure).bias) for found in both)
        np.testing.assert_allclose(one, other, rtol=0.15)


@pytest.mark.slow
def test_gains_by_training_are_differences_of_accuracies(tmp_path: Path) -> None:
    graph = augmented(two_layers(), "lora:2,gain").graph
    found_in = problem(graph)
    found = by_training(found_in, SETTINGS, Execution(jobs=1))
    gains = found.gain("accuracy")
    assert gains.modules.keys() == whole_modules(graph).keys()
    faster = dataclasses.replace(SETTINGS, module_rate=30.0)
    at_a_rate = by_training(found_in, faster, Execution(jobs=1))
    for name, count, depth in (("lora@node1", 2, 1), ("lora@node1", 1, 1), ("gain@node0", 0, 2)):
        depth = max(depth, int(found.settings["base_depth"]))
        module = UpdateScheme("m", depth, modules=True, module_channels={name: count})
        base = accuracy(found_in, UpdateScheme(bias_depth=depth))
        assert gains.modules[name][count] == pytest.approx(accuracy(found_in, module) - base)
        module = dataclasses.replace(module, module_rate=30.0)
        own = at_a_rate.gain("accuracy").modules[name][count]
        assert own == pytest.approx(accuracy(found_in, module) - base)
    assert at_a_rate.gain("loss").modules != found.gain("loss").modules
    assert (at_a_rate.module_rate, found.module_rate) == (30.0, None)
    path = found.write(tmp_path / "analysis.json")
    assert read_contributions(path, graph).gains == found.gains
    plain = by_training(problem(two_layers()), SETTINGS, Execution(jobs=1))
    for measure in plain.gains:
        assert plain.gain(measure).bias == found.gain(measure).bias
        assert plain.gain(measure).weights == found.gain(measure).weights
    assert found.settings["seconds"]["wall"] > 0


def test_the_front_ends_before_what_a_lite_residual_reads() -> None:
    """It stands beside the end of a block that no addition skips, and reads what the block does."""
    net = Network((8, 8, 3), 1)
    y = net.conv(net.conv(net.x, 6, same(3, 2), relu=True), 6)
    y = net.conv(net.depthwise(net.conv(y, 8, relu=True), same(3, 2), relu=True), 6)
    graph = augmented(net.graph(net.conv(net.mean(y), 3)), "lite:3").graph
    analysis = _Analysis(of_three_classes(graph), SETTINGS, lambda _: None, Times())
    (module,) = analysis.modules
    candidate = module_candidate(len(analysis.problem.layers), module, module.counts[-1])
    plain, (place,) = without_modules(analysis.problem.trunk())
    assert place.reads != plain.nodes[-3].inputs[0]
    assert analysis._position(candidate) == cut_at(plain, place.reads).position
    alone = bias_candidate(candidate.bias_depth)
    assert analysis._position(alone) > analysis._position(candidate)


@pytest.mark.slow
def test_a_lite_residual_is_trained_from_the_input_of_its_block(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The front ends before what it reads, not before the last layer, beside which it stands."""
    monkeypatch.setattr(candidates, "SHARES", (0.25, 1.0))  # what layers gain is no matter
    graph = augmented(residual_network(classes=4), "lite:1").graph
    found_in = problem(graph, train=12, test=8)
    found = by_training(found_in, dataclasses.replace(SETTINGS, head_epochs=1), Execution(jobs=1))
    (name,) = whole_modules(graph)
    (count,) = found.gain("accuracy").modules[name]
    depth = max(1, int(found.settings["base_depth"]))
    anchor = next(m.anchor for m in module_parts(found_in.trunk()))
    depth = max(depth, len(found.layers) - anchor)
    scheme = UpdateScheme("m", depth, modules=True, module_channels={name: count})
    assert pipeline.prepare(graph, scheme).left_out == ()
    assert np.isfinite(found.gain("loss").modules[name][count])

"""Modules beside layers in the integer program: what they cost, and that the best is found."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from itertools import product

import numpy as np
import pytest

from mcutrain.cost.schemes import cost_model, scheme_cost
from mcutrain.errors import AnalysisError
from mcutrain.ir.graph import Graph
from mcutrain.selection.choices import Choices
from mcutrain.selection.contribution import Contributions, Gains
from mcutrain.selection.cost import UNNAMED, CostModel, Limits
from mcutrain.selection.option import OWN_BITS
from mcutrain.selection.result import Selection
from mcutrain.selection.select import Selector
from mcutrain.selection.timeline import Timeline
from mcutrain.selection.units import Structure, kept_channels
from mcutrain.sparse import UpdateScheme
from mcutrain.target import load_target
from tests.modules.graphs import augmented, even_network
from tests.selection.networks import BOARD, contributions
from tests.simulation.networks import Network, residual_network, same

BITS = (0, 2, 4, 8)
RATIO = 1e-9


def inverted(seed: int = 3) -> Graph:
    """One inverted residual block between two layers."""
    net = Network((6, 6, 3), seed)
    y = net.conv(net.x, 4, same(3, 2), relu=True)
    expanded = net.conv(y, 8, relu=True)
    y = net.add(net.conv(net.depthwise(expanded, same(3), relu=True), 4), y)
    return net.graph(net.conv(net.mean(y), 3))


def analysis_of(
    graph: Graph, rng: np.random.Generator, shares: tuple[float, ...], factors: dict[int, float]
) -> Contributions:
    """Made up, of layers and of modules."""
    found = contributions(graph, rng, shares, factors)
    structure = Structure.of(graph)
    modules = {
        m.name: {
            kept_channels(m, s): round(float(rng.normal(0.05, 0.05) * s**0.5), 6)
            for s in (shares if m.channels else (1.0,))
        }
        for m in structure.modules
    }
    gains = {n: Gains(g.bias, g.weights, modules) for n, g in found.gains.items()}
    return replace(found, gains=gains)


@pytest.mark.slow
@pytest.mark.draws(4)
@pytest.mark.parametrize("per_layer", [False, True])
@pytest.mark.parametrize(
    ("network", "text"),
    [
        (residual_network, "adapter:2"),
        (residual_network, "lora:2"),
        (residual_network, "gain,adapter:2,lora-fa:2,lite:3"),
        (even_network, "lite:3"),
        (even_network, "gain,lora:4,lite:1"),
        (inverted, "gain,adapter:4,lora-fa:2,lite:3"),
    ],
)
def test_sums_are_never_more_than_the_truth(network: object, text: str, per_layer: bool) -> None:
    graph = augmented(network(), text).graph  # type: ignore[operator]
    structure, rng = Structure.of(graph), np.random.default_rng(1)
    count = structure.count
    gains = Gains(
        (0.0,) * (count + 1),
        {i: dict.fromkeys((0.5, 1.0), 1.0) for i in range(count)},
        {m.name: dict.fromkeys({kept_channels(m, s) for s in (0.5, 1.0)}, 1.0)
         for m in structure.modules},
    )  # fmt: skip
    cost = scheme_cost(graph, "dsp")
    choices = Choices(graph, gains, dict.fromkeys(BITS, 1.0), cost, per_layer=per_layer)
    assert choices.is_bound
    named = [i for i, step in enumerate(choices.steps) if not step.startswith(UNNAMED)]
    slack = []
    for _ in range(40):
        depth = choices.depths[rng.integers(len(choices.depths))]
        some = rng.choice([0.2, 0.6, 1.0])
        chosen = [u[rng.integers(len(u))] for u in depth.units if rng.random() < some]
        column = OWN_BITS if per_layer else int(rng.choice(BITS))
        shares = tuple(sorted(pair for option in chosen for pair in option.shares))
        scheme = structure.scheme(depth.depth, shares, max(column, 4 * per_layer))
        if per_layer:
            own = {i: b for o in chosen for (i, _), b in zip(o.shares, o.bits, strict=True)}
            layer_bits = {str(i): b for i, b in own.items() if i < count}
            scheme = replace(scheme, layer_residual_bits=layer_bits)
        real = cost(scheme)
        arena = depth.memory + sum(option.memory for option in chosen)
        truth = Timeline([real.steps]).memory(real)
        assert arena[named].max() <= truth.max(), (scheme.to_toml(), depth.depth)
        if choices.book.timeline.holds(real.steps):
            by_step = choices.book.timeline.memory(real)
            assert (arena <= by_step)[named].all(), (scheme.to_toml(), depth.depth)
        state = depth.state_bytes + sum(option.state[column] for option in chosen)
        assert state <= sum(real.state.values())
        work = depth.instructions + sum(option.instructions[column] for option in chosen)
        assert work <= real.instructions
        flash = depth.flash_bytes + sum(option.flash[column] for option in chosen)
        assert flash <= sum(part.size_bytes for part in real.flash.values())
        slack.append(1 - (arena.max() + state) / (truth.max() + sum(real.state.values())))
    assert np.median(slack) < 0.02  # near enough to be of use


@lru_cache(maxsize=4)
def device(text: str, on_board: bool) -> tuple[Graph, CostModel]:
    """A network with modules, and its costs, each made once."""
    graph = augmented(inverted(), text).graph
    return graph, cost_model(graph, load_target(BOARD) if on_board else None)


@pytest.mark.slow
@pytest.mark.draws(2)
@pytest.mark.parametrize(
    ("text", "on_board"),
    [("adapter:2", True), ("lora-fa:2,at=last:2", False), ("gain,at=last:1,lite:3", True)],
)
def test_selection_is_as_good_as_trying_every_scheme(text: str, on_board: bool) -> None:
    graph, costs = device(text, on_board)
    rng, structure, factors = np.random.default_rng(7), Structure.of(graph), {0: 0.7, 4: 1.0}
    places, every = range(len(structure.names)), []
    for depth, bits in product(range(structure.count + 1), factors):
        may = [i for i in places if structure.least_depth(i) <= depth]
        for taken in product((False, True), repeat=len(may)):
            shares = tuple((i, 1.0) for i, is_taken in zip(may, taken, strict=True) if is_taken)
            every.append((depth, shares, bits))
    needs = [costs.plan(structure.scheme(*e)) for e in every]
    with_modules = 0
    for _ in range(12):
        found = analysis_of(graph, rng, (1.0,), factors)
        limits = Limits(needs[rng.integers(len(needs))].sram_bytes)
        gains = [
            gain_of(found, structure, *e)
            for e, need in zip(every, needs, strict=True)
            if need.sram_bytes <= (limits.sram_bytes or 0)
        ]
        selection = Selector(graph, found, costs).select(limits, with_next=False)
        assert selection.gain == pytest.approx(max(gains), rel=0, abs=RATIO)
        assert selection.optimal
        planned = costs.plan(selection.scheme)
        assert planned.sram_bytes <= (limits.sram_bytes or 0)
        _check_parts(selection, found)
        with_modules += bool(selection.modules)
    assert with_modules > 3


def gain_of(
    found: Contributions, structure: Structure, depth: int, shares: object, bits: int
) -> float:
    """By the formula of the analysis; of a layer and its low-rank update the larger counts."""
    gains, total = found.gain(), found.gain().bias[depth]
    layers, modules = {}, {}
    for i, share in dict(shares).items():  # type: ignore[call-overload]
        module = structure.module(i)
        if module is None:
            layers[i] = gains.weights[i][share]
        else:
            modules[i] = gains.modules[module.name][kept_channels(module, share)]
    for i, gain in modules.items():
        host, kind = structure.anchor[i], structure.names[i].partition("@")[0]
        beside = layers.pop(host, 0.0) if kind.startswith("lora") else 0.0
        total += max(gain, beside)
    return total + found.residual_factor[bits] * sum(layers.values())


def _check_parts(selection: Selection, found: Contributions) -> None:
    gains = found.gain()
    for module in selection.modules:
        assert module.gain == gains.modules[module.name][module.channels]
        assert selection.scheme.module_channels[module.name] == module.channels
        assert module.state_bytes > 0
    assert selection.to_dict()["modules"] == [
        {
            "name": m.name,
            "channels": m.channels,
            "gain": m.gain,
            "state_bytes": m.state_bytes,
        }
        for m in selection.modules
    ]


@pytest.mark.parametrize("rate", [None, 0.03])
def test_a_selected_scheme_has_the_rate_that_its_modules_were_measured_at(
    rate: float | None,
) -> None:
    graph, costs = device("adapter:2", True)
    found = analysis_of(graph, np.random.default_rng(7), (1.0,), {4: 1.0})
    selector = Selector(graph, replace(found, module_rate=rate), costs)
    chosen = selector.select(Limits(2**20), with_next=False).scheme
    assert chosen.modules
    assert chosen.module_rate == rate
    least = costs.plan(UpdateScheme()).sram_bytes
    alone = selector.select(Limits(least), with_next=False).scheme
    assert (alone.modules, alone.module_rate) == (False, None)


def test_smaller_modules_are_chosen_where_memory_is_short() -> None:
    graph, costs = device("adapter:2", True)
    found = analysis_of(graph, np.random.default_rng(0), (0.5, 1.0), {4: 1.0})
    name = next(iter(found.gain().modules))
    only = Gains((0.0,) * (len(found.layers) + 1), {}, {name: {1: 1.0, 2: 1.01}})
    found = replace(found, gains={"accuracy": only})
    depth = Selector(graph, found, costs).select(Limits(), with_next=False).scheme.bias_depth
    small, large = (
        costs.plan(UpdateScheme("s", depth, modules=True, module_channels={name: n})).sram_bytes
        for n in (1, 2)
    )
    assert small < large
    for limit, channels in ((large, 2), (large - 1, 1)):
        chosen = Selector(graph, found, costs).select(Limits(limit), with_next=False)
        assert chosen.scheme.module_channels == {name: channels}
    grown = Selector(graph, found, costs).select(Limits(large - 1)).next
    assert grown is not None
    assert grown.changes[-1] == f"{name} of 2 channels instead of 1"


@pytest.mark.parametrize(
    ("modules", "says"),
    [
        ({"adapter@elsewhere": {2: 1.0}}, "of 2 channels, the model none of that name; analyse"),
        ({"adapter@node4": {1: 1.0, 3: 1.0}}, "of 3 channels, the model one of 2; analyse this"),
    ],
)
def test_gains_of_other_modules_are_refused(
    modules: dict[str, dict[int, float]], says: str
) -> None:
    """They were silently not chosen."""
    graph, costs = device("adapter:2", True)
    found = analysis_of(graph, np.random.default_rng(0), (1.0,), {4: 1.0})
    gains = Gains(found.gain().bias, found.gain().weights, modules)
    with pytest.raises(AnalysisError, match=says):
        Selector(graph, replace(found, gains={"accuracy": gains}), costs)

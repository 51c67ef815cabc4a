"""Elastic steps: what is left out keeps its bits, and so does all that is not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcutrain_host.saved import HEADER_BYTES

from mcutrain.autodiff import TrainGraph
from mcutrain.autodiff.elastic import ElasticTensor, importance_of
from mcutrain.codegen import Interface, generate
from mcutrain.cost.elastic import elastic_times
from mcutrain.cost.instructions import estimate
from mcutrain.features.elastic.selector import (
    MOVES,
    SQUARES,
    Decision,
    Periods,
    TensorSelector,
    doubt,
    importance,
)
from mcutrain.ir.graph import Graph
from mcutrain.memplan import TrainingPlan, plan_training
from mcutrain.pipeline import StepOptions
from mcutrain.simulation import CompiledSimulator, PlannedReference
from mcutrain.sparse import UpdateScheme, resolve
from mcutrain.sparse.elastic import ElasticTimes, selection_of, words
from tests.ops.drawing import Source, drawn
from tests.simulation import networks
from tests.simulation.test_training_steps import QUICK, draw_training

ELASTIC = StepOptions(elastic=True)
Selections = tuple[tuple[int, ...], ...]


def draw_elastic(s: Source) -> tuple[TrainGraph, Selections]:
    training = draw_training(s, elastic=True)
    count = len(training.elastic)
    return training, tuple(s.subset(count) for _ in range(4))


def simulators(plan: TrainingPlan) -> tuple[PlannedReference, CompiledSimulator]:
    return PlannedReference(plan, 7), CompiledSimulator(plan, seed=7, extra_flags=QUICK)


def assert_same_bits(plan: TrainingPlan, selections: Selections) -> None:
    """Of all selections, one after the other, each for an update or two."""
    reference, compiled = simulators(plan)
    each = 2 * plan.training.accumulate
    steps = each * len(selections)
    x, labels = networks.samples(plan.training.forward, steps, plan.training.classes)
    rates = networks.rates(steps)
    for i, chosen in enumerate(selections):
        for simulator in (reference, compiled):
            simulator.select(chosen)
        here = slice(each * i, each * (i + 1))
        expected = reference.train(x[here], labels[here], rates[here])
        found = compiled.train(x[here], labels[here], rates[here])
        assert [list(v) for v in found] == [list(v) for v in expected]
        assert compiled.save() == reference.save()
        assert compiled.selected == reference.selected
    again = PlannedReference(plan)
    again.load(compiled.save())
    assert again.selected == reference.selected


@pytest.mark.slow
@settings(max_examples=8)
@given(case=drawn(draw_elastic))
def test_c_and_numpy_leave_out_the_same_of_drawn_networks(
    case: tuple[TrainGraph, Selections],
) -> None:
    training, selections = case
    assert_same_bits(plan_training(training, align_bytes=8), selections)


def test_the_gate_leaves_the_selection() -> None:
    options = StepOptions(gate=1, elastic=True)
    plan = plan_training(networks.training_graph(networks.modern_network(), None, options), 8)
    count = len(plan.training.elastic)
    assert_same_bits(plan, (range(3), range(count), (count - 1,), (0, 2, 5)))


@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize(
    "network", [networks.residual_network, networks.modern_network, networks.shortcuts_network]
)
def test_each_tensor_alone_learns_what_it_learns_with_all(network: Any, accumulate: int) -> None:
    """The rest of the state stays, but for the exponents on the way, and the loss's."""
    options = StepOptions("int8", accumulate, elastic=True)
    training = networks.training_graph(network(), None, options)
    plain = networks.training_graph(network(), None, replace(options, elastic=False))
    x, labels = networks.samples(training.forward, accumulate, training.classes)
    rates = networks.rates(accumulate)
    full = PlannedReference(plan_training(plain, 8), 7)
    full.train(x, labels, rates)
    plan = plan_training(training, 8)
    assert [t.is_always_trained for t in training.elastic[:3]] == [True, True, False]
    for i, tensor in enumerate(training.elastic):
        alone = PlannedReference(plan, 7)
        alone.select([i])
        assert alone.selected == tuple(sorted({0, 1, i}))
        alone.train(x, labels, rates)
        trained = [training.elastic[k] for k in alone.selected]
        names = {n for t in trained for n in (t.name, t.residual, _sum(t.name)) if n is not None}
        for name, value in training.state.items():
            if name in names:
                np.testing.assert_array_equal(alone.state[name], full.state[name], tensor.name)
            elif "exponent" not in name:
                np.testing.assert_array_equal(alone.state[name], value, tensor.name)
            else:
                same = [np.array_equal(alone.state[name], v) for v in (value, full.state[name])]
                assert any(same), (tensor.name, name)


def _sum(name: str) -> str:
    """Of accumulated gradients."""
    return f"{name.removesuffix('.difference')}.sum"


def test_a_tensor_near_the_loss_runs_few_nodes() -> None:
    training = networks.training_graph(networks.residual_network(), None, ELASTIC)
    needed = [
        {n for n, tensors in training.served.items() if i in tensors}
        for i in range(len(training.elastic))
    ]
    assert len(needed[0]) == len(needed[1]) == 1  # the head's: an update each
    assert all(len(a) <= len(b) for a, b in zip(needed[2::2], needed[4::2], strict=False))
    last = {n.name for n in training.graph.nodes[training.loss_step + 1 :]}
    others = {name for n in needed for name in n if ".update" in name}
    passed_on = {n for n in last - others if "weight" not in n}
    assert needed[-1] >= passed_on


def test_an_elastic_step_with_all_tensors_is_the_plain_one() -> None:
    network = networks.modern_network()
    plans = [
        plan_training(networks.training_graph(network, None, StepOptions(elastic=e)), 8)
        for e in (False, True)
    ]
    assert plans[0].arena.offsets == plans[1].arena.offsets
    assert plans[1].state_bytes == plans[0].state_bytes + 4
    x, labels = networks.samples(network, 6, 4)
    states = []
    for plan in plans:
        compiled = simulators(plan)[1]
        compiled.train(x, labels, networks.rates(6))
        states.append(compiled.state)
    assert networks.states_differ(*states) == []


@given(st.sets(st.integers(0, 69)))
def test_words_say_the_selection(chosen: set[int]) -> None:
    found = words(chosen, 70)
    assert len(found) == 3
    assert selection_of(found) == tuple(sorted(chosen))
    assert words(range(70), 70) == (2**32 - 1, 2**32 - 1, 63)


def residual() -> Graph:
    """Large enough to select in its arena."""
    return networks.residual_network(size=24)


def branches() -> Graph:
    """Two ways with weights, so that neither needs the other one's gradient."""
    net = networks.Network((20, 20, 3), 2)
    first = net.conv(net.x, 6, networks.same(3, 2), relu=True)
    long = net.conv(net.depthwise(net.conv(first, 8, relu=True), networks.same(3)), 6)
    y = net.add(long, net.conv(net.conv(first, 6, relu=True), 6))
    y = net.mean(y)
    return net.graph(net.reshape(net.conv(y, 4, rounds_once=True), (1, 4)))


def times_of(plan: TrainingPlan) -> ElasticTimes:
    """Of the instruction model."""
    return elastic_times(plan.training, estimate(plan.training, "dsp", plan.segments))


def selecting(plan: TrainingPlan, seed: int = 7) -> CompiledSimulator:
    """A program that selects by itself, too."""
    project = generate(plan, "", interface=Interface(elastic=times_of(plan)))
    return CompiledSimulator(plan, seed=seed, project=project, extra_flags=QUICK)


def reselect(
    simulator: CompiledSimulator,
    share_q16: int,
    every: int,
    before: bytes,
    between: bytes | None = None,
) -> int:
    """mct_reselect."""
    found: int = simulator._library.mct_reselect(share_q16, every, before, between)
    return found


@pytest.mark.draws(6)
@pytest.mark.parametrize(
    "options",
    [
        ELASTIC,
        StepOptions("int16", 2, elastic=True),
        StepOptions(gate=0.5, elastic=True),
    ],
    ids=["int8", "int16, 2 samples", "gate"],
)
@pytest.mark.parametrize("network", [residual, branches])
@pytest.mark.parametrize(("share", "measure"), [(0.75, MOVES), (0.9, MOVES), (0.8, SQUARES)])
def test_c_and_python_select_the_same(
    network: Any, options: StepOptions, share: float, measure: str
) -> None:
    plan = plan_training(networks.training_graph(network(), None, options), 8)
    times, group = times_of(plan), options.accumulate
    periods = Periods(round(share * 65536), 120 * group, group)
    selector = TensorSelector(plan, times, periods, measure)
    look = 6 * group
    assert periods.look == look
    x, labels = networks.samples(plan.training.forward, 2, plan.training.classes)
    x, labels = np.concatenate([x] * look), np.tile(labels, look)
    rates = networks.rates(2 * look)
    reference, compiled = PlannedReference(plan, 7), selecting(plan)
    for _ in range(4 // group):  # the gradients' exponents settle
        compiled.train(x, labels, rates)
    reference.load(compiled.save())
    states = []
    for first in (0, look):
        here = slice(first, first + look)
        states.append(reference.save())
        assert compiled.save() == states[-1]
        for simulator in (reference, compiled):
            simulator.train(x[here], labels[here], rates[here])
    if measure == SQUARES:
        states = [states[0]]
    assert len(states) == len(selector.looks)
    found = selector.choose(2 * look, (*states, reference.save()))
    reference.select(found.tensors)
    assert 2 < len(found.tensors) < len(plan.training.elastic)
    assert sum(found.importance) > 2**25
    assert reselect(compiled, periods.share_q16, periods.every, *states) == 0
    assert compiled.save() == reference.save()
    before = compiled.save()
    assert reselect(compiled, 6554, periods.every, *states) != 0
    assert reselect(compiled, periods.share_q16, 2 * group, *states) != 0
    assert compiled.save() == before


@pytest.mark.parametrize(("bias_bits", "measure"), [(32, MOVES), (16, MOVES), (16, SQUARES)])
def test_importance_is_what_real_numbers_say(bias_bits: int, measure: str) -> None:
    """Σ Δw · Δw' / rate, of weights with residual bits, of columns, of biases and differences.

    Or Σ Δw² / rate, from the first state to the last.
    """
    graph = residual()
    scheme = UpdateScheme("some", None, {"3": 0.5}, None, residual_bits=4, bias_bits=bias_bits)
    training = networks.training_graph(graph, scheme, ELASTIC)
    plan = plan_training(training, 8)
    compiled = CompiledSimulator(plan, seed=3, extra_flags=QUICK)
    x, labels = networks.samples(training.forward, 2, 4)
    x, labels = np.concatenate([x] * 30), np.tile(labels, 30)
    saved = []
    for _ in range(3):
        saved.append(compiled.save())
        compiled.train(x, labels, networks.rates(60))
    saved = saved if measure == MOVES else [saved[0], saved[2]]
    found = np.array(importance(plan, saved), float)
    states = [plan.state.unpack(raw[HEADER_BYTES:]) for raw in saved]
    updates = resolve(scheme, graph)
    expected = []
    for tensor in training.elastic:
        name = tensor.name.removesuffix(".trained").removesuffix(".difference")
        update = updates[name]
        real = [_real(state, tensor) for state in states]
        product = (real[1] - real[0]) * (real[-1] - real[-2])
        rate = np.array(update.rate)
        if product.ndim == 4 and len(rate) > 1:
            is_depthwise = product.shape[0] == 1
            rate = rate if is_depthwise else rate[:, np.newaxis, np.newaxis, np.newaxis]
        expected.append(max((product / rate).sum(), 0))
    share = np.array(expected) / sum(expected)
    np.testing.assert_allclose(found / found.sum(), share, rtol=2e-3, atol=1e-5)
    assert (share > 0.01).sum() > 3


def _real(state: Any, tensor: Any) -> Any:
    """Numbers in steps of the int8 weight, or in units of the bias."""
    value = state[tensor.name].astype(float)
    if tensor.residual is not None:
        packed = state[tensor.residual]
        if tensor.bits == 4:
            packed = np.stack([packed & 15, packed >> 4], axis=1).ravel()
        value = value + packed[: value.size].reshape(value.shape) / 2.0**tensor.bits
    return value * 2.0**-tensor.bits if tensor.name.endswith(".difference") else value


def decision(helped: int, count: int) -> Decision:
    return Decision(10, (0,), (5,) * helped + (1,) * (count - helped))


@given(st.lists(st.integers(1, 40), min_size=1, max_size=5), st.data())
def test_windows_are_doubted_that_show_no_more_than_a_coin(counts: list[int], data: Any) -> None:
    """Half of all and two of its standard deviations, over all decisions."""
    helped = [data.draw(st.integers(0, count)) for count in counts]
    found = doubt([decision(*one) for one in zip(helped, counts, strict=True)], 7)
    deviation = sum(counts) ** 0.5 / 2
    assert bool(found) == (sum(helped) < sum(counts) / 2 + 2 * deviation)
    assert not found or f"windows of 7 steps each, {sum(helped)} of {sum(counts)} tensors" in found
    assert doubt([], 7) == ""


@pytest.mark.parametrize(
    ("importance", "is_lone"),
    [
        ((10_000, 2, 2, 2, 2), True),
        ((2, 2, 2, 2, 960), True),
        ((2, 2, 2, 2, 160), True),  # 95.2 % of all
        ((2, 2, 2, 2, 150), False),  # 94.9 %
        ((10_000, 2, 2, 2), True),
        ((10_000, 2, 2), False),  # of so few one may well be worth the others
        ((500, 500, 500, 500, 500), False),
    ],
)
def test_a_tensor_that_stands_out_alone_is_doubted(
    importance: tuple[int, ...], is_lone: bool
) -> None:
    others = decision(5, 5)
    found = doubt([others, Decision(40, (0,), importance), others], 2)
    assert bool(found) == is_lone
    share = max(importance) / sum(importance)
    sentence = (
        "in 1 of 3 selections one tensor alone seems to have helped, first from step 41 on, with "
        f"{share:.0%} of what helped: in windows of 2 steps that is mostly chance; take longer "
        "periods (--every; a window is a twentieth of one)"
    )
    assert found in ("", sentence)


@given(st.integers(1, 2**31), st.lists(st.floats(1e-12, 1e12), min_size=1, max_size=4))
def test_no_sum_of_an_importance_overflows(count: int, rates: list[float]) -> None:
    channels = len(rates)
    tensor = ElasticTensor("w", None, tuple(rates), -1, 8, False)
    found = importance_of(tensor, (-(-count // channels), channels))
    assert max(found.factors) < 2**16
    assert max(found.factors) >= 2**15
    product = 32767**2 * found.count >> found.dropped_bits
    assert (product + channels) * max(found.factors) < 2**63
    assert found.dropped_bits == 0 or found.count > 2**16
    for factor, rate in zip(found.factors, rates, strict=True):
        exact = factor * 2.0 ** (found.exponent - found.dropped_bits - 16)
        assert abs(exact - 4.0**-8 / rate) <= 4.0**-8 / min(rates) / 2**15

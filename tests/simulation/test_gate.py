"""The gate: skipped samples change no weight, and numpy and C agree which they are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcutrain import prepare
from mcutrain.autodiff import Gate, TrainGraph, TrainOptions
from mcutrain.codegen import Interface, generate
from mcutrain.memplan import TrainingPlan, find_latent, plan_training
from mcutrain.simulation import (
    CompiledSimulator,
    LatentReference,
    LatentSimulator,
    PlannedReference,
)
from mcutrain.sparse import UpdateScheme, find_head
from tests.ops.drawing import drawn
from tests.simulation import autoencoders, networks
from tests.simulation.test_training_steps import QUICK, draw_training

STEPS = 36
USUAL = Gate.of(1)
LAST = UpdateScheme("last", 1, {}, 1)


def gated(training: TrainGraph, gate: Gate = USUAL) -> TrainingPlan:
    return plan_training(replace(training, gate=gate), align_bytes=8)


def assert_same_bits(
    plan: TrainingPlan, reference: PlannedReference, compiled: CompiledSimulator, steps: int = STEPS
) -> int:
    """Loss, prediction and the whole saved state after each step. Returns the skipped ones."""
    x, labels = inputs_of(plan, steps)
    if isinstance(compiled, LatentSimulator):
        x = compiled.front(x)
    for i, rate in enumerate(networks.rates(steps)):
        here = slice(i, i + 1)
        expected = reference.train(x[here], labels[here], [rate])
        found = compiled.train(x[here], labels[here], [rate])
        assert [list(v) for v in found] == [list(v) for v in expected], f"step {i}"
        assert compiled.save() == reference.save(), f"step {i}"
    np.testing.assert_array_equal(compiled.infer(x[:3]), reference.infer(x[:3]))
    assert compiled.gate == (reference.mean_q19, reference.skipped)
    again = PlannedReference(plan)
    again.load(compiled.save())
    assert (again.mean_q19, again.skipped) == compiled.gate
    return reference.skipped


def inputs_of(plan: TrainingPlan, steps: int) -> tuple[Any, Any]:
    """Samples of a few kinds, so that some become easy."""
    training = plan.training
    x, labels = networks.samples(training.forward, 5, training.classes)
    return np.concatenate([x] * (steps // 5 + 1))[:steps], np.tile(labels, steps)[:steps]


def simulators(plan: TrainingPlan) -> tuple[PlannedReference, CompiledSimulator]:
    return PlannedReference(plan, 7), CompiledSimulator(plan, seed=7, extra_flags=QUICK)


@settings(max_examples=6)
@given(training=drawn(draw_training), alpha=st.sampled_from([0.0, 0.5, 0.8, 1.0, 1.5]))
def test_c_and_numpy_skip_the_same_samples_of_drawn_networks(
    training: TrainGraph, alpha: float
) -> None:
    plan = gated(training, Gate.of(alpha))
    assert_same_bits(plan, *simulators(plan), 12)


@pytest.mark.parametrize("options", [TrainOptions(), TrainOptions("int16", 3)], ids=str)
def test_some_samples_are_skipped_and_some_are_not(options: TrainOptions) -> None:
    plan = gated(networks.training_graph(networks.modern_network(), LAST, options))
    assert 3 < assert_same_bits(plan, *simulators(plan)) < STEPS - 3


@pytest.mark.parametrize("accumulate", [1, 3])
def test_networks_that_reproduce_their_input_have_a_gate_too(accumulate: int) -> None:
    options = TrainOptions("int8", accumulate)
    plan = gated(autoencoders.training_graph(autoencoders.dense(), None, options))
    assert 0 < assert_same_bits(plan, *simulators(plan)) < STEPS


def test_steps_from_the_latent_have_the_gate_too() -> None:
    plan = gated(networks.training_graph(networks.modern_network(), LAST))
    latent = find_latent(plan)
    project = generate(plan, "", interface=Interface(latent=latent.tensor))
    compiled = LatentSimulator(plan, latent, project, 7, extra_flags=QUICK)
    assert assert_same_bits(plan, LatentReference(plan, latent, 7), compiled) > 0
    whole = PlannedReference(plan, 7)
    x, labels = inputs_of(plan, STEPS)
    whole.train(x, labels, networks.rates(STEPS))
    assert compiled.save() == whole.save()


def test_a_tail_has_the_gate_of_the_whole() -> None:
    plans = [
        prepare(networks.modern_network(), LAST, part=part, gate=1).plan
        for part in ("whole", "tail")
    ]
    whole, x = PlannedReference(plans[0], 7), inputs_of(plans[0], STEPS)[0]
    tail, compiled = simulators(plans[1])
    latents = LatentReference(plans[0], find_latent(plans[0])).front(x)
    labels, rates = inputs_of(plans[0], STEPS)[1], networks.rates(STEPS)
    whole.train(x, labels, rates)
    for made in (tail, compiled):
        made.train(latents, labels, rates)
        np.testing.assert_array_equal(made.infer(latents), whole.infer(x))
    assert compiled.save() == tail.save()
    assert compiled.gate == (whole.mean_q19, whole.skipped)
    assert whole.skipped > 3


@pytest.mark.parametrize("accumulate", [1, 3])
@pytest.mark.parametrize("has_labels", [True, False])
def test_what_is_learnt_is_as_if_the_skipped_samples_had_not_been(
    accumulate: int, has_labels: bool
) -> None:
    """But for the outputs' exponent, which follows all of them."""
    options = TrainOptions("int8", accumulate)
    training = (
        networks.training_graph(networks.modern_network(), LAST, options)
        if has_labels
        else autoencoders.training_graph(autoencoders.dense(), None, options)
    )
    plan = gated(training)
    reference, plain = PlannedReference(plan, 7), PlannedReference(plan_training(training, 8), 7)
    x, labels = inputs_of(plan, STEPS)
    for i, rate in enumerate(networks.rates(STEPS)):
        skipped, here = reference.skipped, slice(i, i + 1)
        plain.key = reference.key
        results = reference.train(x[here], labels[here], [rate])
        if reference.skipped == skipped:
            np.testing.assert_array_equal(plain.train(x[here], labels[here], [rate]), results)
        differing = networks.states_differ(plain.state, reference.state)
        assert set(differing) <= {training.output_exponent}, f"step {i}"
    assert 3 < reference.skipped < STEPS - 3
    assert reference.update * accumulate + reference.sample == STEPS


def test_outputs_follow_skipped_samples_too() -> None:
    """With a gate that nothing passes the classifier learns nothing, but its outputs have room."""
    training = networks.training_graph(networks.modern_network(), LAST)
    assert training.output_exponent is not None
    plan = gated(training, Gate.of(16))
    reference, compiled = simulators(plan)
    reference.mean_q19 = 2**31 - 1
    bias = find_head(networks.modern_network()).node.inputs[2]
    reference.state[bias] = reference.state[bias] + np.arange(4, dtype=np.int32) * 2**20
    compiled.load(reference.save())
    before = dict(reference.state)
    assert assert_same_bits(plan, reference, compiled, 4) == 4
    assert networks.states_differ(before, reference.state) == [training.output_exponent]
    assert reference.state[training.output_exponent][0] > 0


def test_what_outputs_needed_is_forgotten_by_the_number_of_all_samples() -> None:
    """Not once more with each sample that is skipped at the end of their window."""
    plan = gated(networks.training_graph(networks.modern_network(), LAST), Gate.of(16))
    reference, compiled = simulators(plan)
    name = plan.training.output_exponent
    assert name is not None
    reference.update, reference.mean_q19 = 1024, 2**31 - 1
    reference.state[name] = np.array([9, 9, 0], np.int8)
    compiled.load(reference.save())
    assert assert_same_bits(plan, reference, compiled, 4) == 4
    now, recent, older = reference.state[name].tolist()
    assert (now, older) == (9, 9)
    assert recent < 9


def test_a_step_without_a_gate_has_neither_its_words_nor_its_code() -> None:
    training = networks.training_graph(networks.modern_network(), LAST)
    plain, plan = networks.planned(training), gated(training)
    assert plan.state_bytes == plain.state_bytes + 8
    assert plan.state_offsets == plain.state_offsets
    assert plan.arena == plain.arena
    files, others = generate(plain, "").files, generate(plan, "").files
    assert others.keys() - files.keys() == {"src/mct_gate.h"}
    assert not any("gate" in text for text in files.values())
    hashes = {generate(p, "").model_hash for p in (plain, plan, gated(training, Gate.of(0.8)))}
    assert len(hashes) == 3

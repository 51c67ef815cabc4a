"""A ladder of fronts: numpy and C choose the same front, and learn the same bits from it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mcutrain.autodiff import Gate, TrainOptions
from mcutrain.codegen import Interface, Project, generate
from mcutrain.errors import McutrainError
from mcutrain.ir.graph import Graph
from mcutrain.memplan import Stream, TrainingPlan, find_latent, latents, lay_out, plan_training
from mcutrain.simulation import CompiledSimulator, LadderReference, LatentSimulator
from mcutrain.sparse import UpdateScheme
from tests.memplan.fronts import draw_front
from tests.memplan.ladders import ladder_of, with_ladder
from tests.memplan.test_stream import mobile_network
from tests.ops.drawing import drawn
from tests.simulation import networks
from tests.simulation.test_training_steps import QUICK

STEPS = 12
LAST = UpdateScheme("last", 1, {}, 1)


def assert_same_bits(plan: TrainingPlan, steps: int = STEPS) -> list[int]:
    """Of C and numpy, step by step. Returns how often each front was taken."""
    x, labels = networks.samples(plan.training.forward, steps, plan.training.classes)
    reference = LadderReference(plan, 7)
    compiled = CompiledSimulator(plan, seed=7, extra_flags=QUICK)
    for i, rate in enumerate(networks.rates(steps)):
        here = slice(i, i + 1)
        expected = reference.train(x[here], labels[here], [rate])
        found = compiled.train(x[here], labels[here], [rate])
        assert [list(v) for v in found] == [list(v) for v in expected], f"step {i}"
        assert compiled.save() == reference.save(), f"step {i}"
    np.testing.assert_array_equal(compiled.infer(x), reference.infer(x))
    assert compiled.level_samples == tuple(reference.level_samples)
    again = LadderReference(plan)
    again.load(compiled.save())
    assert again.level_samples == reference.level_samples
    assert sum(reference.level_samples) == steps
    return reference.level_samples


@pytest.mark.parametrize("stream", ["auto", "off", "max"])
@pytest.mark.parametrize("gate", [None, Gate.of(1)], ids=["all", "gate"])
def test_three_levels_hold_the_same_bits(stream: Stream, gate: Gate | None) -> None:
    training = replace(networks.training_graph(mobile_network(), LAST), gate=gate)
    assert all(assert_same_bits(with_ladder(training, stream=stream)))


@settings(max_examples=10)
@given(
    graph=drawn(draw_front),
    stream=st.sampled_from(["auto", "off", "max"]),
    options=st.sampled_from([TrainOptions(), TrainOptions("int16", 3)]),
    levels=st.integers(2, 4),
    which=st.integers(0, 100),
)
def test_drawn_ladders_of_drawn_networks_hold_the_same_bits(
    graph: Graph, stream: Stream, options: TrainOptions, levels: int, which: int
) -> None:
    training = networks.training_graph(graph, LAST, options)
    found = latents(lay_out(training, 8, "off"))
    assume(found)
    latent = found[which % len(found)].tensor
    assert_same_bits(with_ladder(training, ladder_of(training, levels, which, latent), stream), 6)


@pytest.fixture(scope="module")
def plan() -> TrainingPlan:
    return with_ladder(networks.training_graph(mobile_network(), LAST))


MUTATIONS = {
    "the wrong front": ("fronts[level]();", "fronts[(level + 1) % MCT_LEVELS]();"),
    "the whole front always": ("fronts[level]();", "fronts[0]();"),
    "the least score": ("scores[i] > scores[best]", "scores[i] < scores[best]"),
    "two levels of three": ("i < levels", "i + 1 < levels"),
    "a latent of elsewhere": (
        "memmove(arena.bytes + 1728, arena",
        "memmove(arena.bytes + 0, arena",
    ),
    "no count": ("[level]++;", "[level];"),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_wrong_front_changes_the_bits(plan: TrainingPlan, name: str) -> None:
    """Of the state, or of the latents: what these tests compare tells all of them apart."""
    before, after = MUTATIONS[name]
    project = generate(plan, "")
    files = {place: text.replace(before, after) for place, text in project.files.items()}
    assert files != project.files
    x, labels = networks.samples(plan.training.forward, STEPS, 4)
    reference = LadderReference(plan, 7)
    flags = (*QUICK, "-Wno-unused-value")
    wrong = CompiledSimulator(plan, seed=7, extra_flags=flags, project=Project(files))
    for made in (reference, wrong):
        made.train(x, labels, networks.rates(STEPS))
    assert wrong.save() != reference.save()


def test_of_equal_scores_the_lowest_level_is_taken(plan: TrainingPlan) -> None:
    training = networks.training_graph(mobile_network(), LAST)
    ladder = ladder_of(training)
    tensors = {
        name: tensor if tensor.data is None else replace(tensor, data=np.zeros_like(tensor.data))
        for name, tensor in ladder.policy.tensors.items()
    }
    equal = replace(ladder, policy=replace(ladder.policy, tensors=tensors))
    assert assert_same_bits(with_ladder(training, equal), 3) == [3, 0, 0]


def test_latents_of_the_fronts_are_taken_and_those_of_elsewhere_are_not_counted(
    plan: TrainingPlan,
) -> None:
    reference = LadderReference(plan, 7)
    assert plan.ladder is not None
    latent = find_latent(plan, plan.ladder.latent)
    compiled = LatentSimulator(plan, latent, generate(plan, ""), 7, extra_flags=QUICK)
    x, labels = networks.samples(plan.training.forward, STEPS, 4)
    found = compiled.front(x)
    np.testing.assert_array_equal(found, reference.front(x))
    results = compiled.train(found, labels, networks.rates(STEPS))
    for a, b in zip(results, reference.train(x, labels, networks.rates(STEPS)), strict=True):
        np.testing.assert_array_equal(a, b)
    assert compiled.level_samples == (0, 0, 0)
    assert all(reference.level_samples)


def test_a_step_without_a_ladder_has_neither_its_words_nor_its_code(plan: TrainingPlan) -> None:
    plain = plan_training(networks.training_graph(mobile_network(), LAST), 8)
    files, others = generate(plain, "").files, generate(plan, "").files
    assert "src/mct_ladder.h" in others.keys() - files.keys()
    assert not any("ladder" in text or "level" in text for text in files.values())
    assert generate(plain, "").model_hash != generate(plan, "").model_hash


def test_steps_cannot_begin_with_another_latent_than_that_of_the_ladder(
    plan: TrainingPlan,
) -> None:
    other = latents(plan)[0].tensor
    with pytest.raises(McutrainError, match="the fronts of the ladder make"):
        generate(plan, "", interface=Interface(latent=other))

"""A ladder of fronts: numpy and C choose the same front, and learn the same bits from it."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mcutrain.autodiff import Gate, TrainOptions
from mcutrain.codegen import Interface, Project, generate
from mcutrain.codegen.program import Program
from mcutrain.errors import McutrainError, StateError
from mcutrain.features.policy_feedback.policy import STEPS as STEPS_OF_OFFSET
from mcutrain.features.policy_feedback.policy import Drift
from mcutrain.ir.graph import Graph
from mcutrain.memplan import (
    Stream,
    TrainingPlan,
    find_latent,
    front,
    latents,
    lay_out,
    plan_training,
)
from mcutrain.simulation import (
    CompiledSimulator,
    LadderReference,
    LatentSimulator,
)
from mcutrain.simulation.rates import LearningRate
from mcutrain.sparse import UpdateScheme
from tests.memplan.fronts import draw_front
from tests.memplan.ladders import ladder_of, with_ladder
from tests.memplan.test_stream import mobile_network
from tests.ops.drawing import drawn
from tests.simulation import networks
from tests.simulation.test_training_steps import QUICK

STEPS = 12
LAST = UpdateScheme("last", 1, {}, 1)


class Rate(ctypes.Structure):
    """mct_learning_rate."""

    _fields_ = (("mult_q31", ctypes.c_int32), ("shift", ctypes.c_int32))


def counted(reference: LadderReference) -> dict[str, list[int]]:
    """What features keep, by kind of section."""
    return {kind: numbers.tolist() for kind, numbers in reference.words.items()}


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
    assert compiled.save() == reference.save(), "inference changes nothing"
    assert compiled.level_samples == tuple(reference.level_samples)
    assert Drift.of(compiled.words()) == Drift.of(reference.words)
    again = LadderReference(plan)
    again.load(compiled.save())
    assert counted(again) == counted(reference)
    compiled.reset(7)
    assert compiled.save() == LadderReference(plan, 7).save()
    assert sum(reference.level_samples) == steps
    return reference.level_samples


@pytest.mark.draws(4)
@pytest.mark.parametrize("stream", ["auto", "off", "max"])
@pytest.mark.parametrize("gate", [None, Gate.of(1)], ids=["all", "gate"])
@pytest.mark.parametrize("drifts", [False, True], ids=["policy", "drift"])
def test_three_levels_hold_the_same_bits(stream: Stream, gate: Gate | None, drifts: bool) -> None:
    training = replace(networks.training_graph(mobile_network(), LAST), gate=gate)
    plan = with_ladder(training, stream=stream, drifts=drifts)
    assert all(assert_same_bits(plan, 3 * STEPS if drifts else STEPS))


@pytest.mark.slow
@settings(max_examples=10)
@given(
    graph=drawn(draw_front),
    stream=st.sampled_from(["auto", "off", "max"]),
    options=st.sampled_from([TrainOptions(), TrainOptions("int16", 3)]),
    levels=st.integers(2, 4),
    which=st.integers(0, 100),
    drifts=st.booleans(),
)
def test_drawn_ladders_of_drawn_networks_hold_the_same_bits(
    graph: Graph, stream: Stream, options: TrainOptions, levels: int, which: int, drifts: bool
) -> None:
    training = networks.training_graph(graph, LAST, options)
    found = latents(lay_out(training, 8, "off"))
    assume(found)
    latent = found[which % len(found)].tensor
    ladder = ladder_of(training, levels, which, latent)
    assert_same_bits(with_ladder(training, ladder, stream, drifts), 18 if drifts else 6)


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


@pytest.mark.slow
@pytest.mark.draws(2)
@pytest.mark.parametrize("name", MUTATIONS)
def test_a_wrong_front_changes_the_bits(plan: TrainingPlan, name: str) -> None:
    """Of the state, or of the latents: what these tests compare tells all of them apart."""
    assert_other_bits(plan, MUTATIONS[name], STEPS)


DRIFT_MUTATIONS = {
    "no probes": ("is_learnt & mct_drift_probes(", "0 & mct_drift_probes("),
    "no drift": ("mct_drift_follow(STATE", "(void)sizeof(STATE"),
    "of a front that nobody wanted": (", wanted, is_probe,", ", level, is_probe,"),
    "as if there were no probes": (", wanted, is_probe,", ", wanted, 0,"),
    "the policy's own choice": ("(int32_t)i * offset", "(int32_t)i * 0"),
}


@pytest.mark.draws(2)
@pytest.mark.parametrize("name", DRIFT_MUTATIONS)
def test_a_wrong_drift_changes_the_bits(name: str) -> None:
    drifting = with_ladder(networks.training_graph(mobile_network(), LAST), drifts=True)
    assert_other_bits(drifting, DRIFT_MUTATIONS[name], 6 * STEPS)


def assert_other_bits(plan: TrainingPlan, mutation: tuple[str, str], steps: int) -> None:
    """Of C with other text than the generator's."""
    before, after = mutation
    project = generate(plan, "")
    files = {place: text.replace(before, after) for place, text in project.files.items()}
    assert files != project.files
    x, labels = networks.samples(plan.training.forward, steps, 4)
    reference = LadderReference(plan, 7)
    flags = (*QUICK, "-Wno-unused-value", "-Wno-unused-variable", "-Wno-unused-parameter")
    wrong = CompiledSimulator(plan, seed=7, extra_flags=flags, project=Project(files))
    for made in (reference, wrong):
        made.train(x, labels, networks.rates(steps))
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


def test_a_latent_that_is_trained_behind_its_front_counts_as_its_sample_does() -> None:
    """A step in two calls has the bits of one call, probes and drift among them."""
    plan = with_ladder(networks.training_graph(mobile_network(), LAST), drifts=True)
    reference = LadderReference(plan, 7)
    compiled = CompiledSimulator(plan, seed=7, extra_flags=QUICK)
    library = compiled._library
    for call in (library.mct_front, library.mct_latent):
        call.restype = ctypes.c_void_p
    x, labels = networks.samples(plan.training.forward, 40, 4)
    for i, rate in enumerate(networks.rates(40)):
        reference.train(x[i : i + 1], labels[i : i + 1], [rate])
        library.mct_feed(0, x[i].ctypes.data_as(ctypes.c_void_p), compiled.input_bytes)
        latent, result = ctypes.c_void_p(library.mct_front()), (ctypes.c_int32 * 2)()
        given = Rate(rate.mult_q31, rate.shift)
        assert library.mct_train_latent(latent, int(labels[i]), given, result) == 0
        assert compiled.save() == reference.save(), f"step {i}"
    before = compiled.save()
    elsewhere = ctypes.c_void_p(library.mct_latent())
    assert library.mct_train_latent(elsewhere, int(labels[0]), given, result) == 0
    again = LadderReference(plan)
    again.load(compiled.save())
    assert again.level_samples == reference.level_samples
    assert Drift.of(again.words) == Drift.of(reference.words)
    assert compiled.save() != before


def test_the_choice_drifts_from_a_broken_front_and_to_a_perfect_one() -> None:
    """Of two ladders with one policy, which sees nothing of the two classes but noise."""
    count, rate = 3000, LearningRate.of(0.03)
    training = networks.training_graph(networks.modern_network(), LAST)
    noise, _ = networks.samples(training.forward, count, 4)
    labels = np.random.default_rng(0).permutation(np.arange(count) % 2)
    x = np.where(labels, 60, -60).reshape(-1, 1, 1, 1).astype(np.int8) * np.ones_like(noise)
    x[:, :4, :4] = noise[:, :4, :4]
    ladder = ladder_of(training, 2)
    whole = front(training, find_latent(lay_out(training, 8, "off"), ladder.latent))
    taken, offsets = {}, {}
    for name, proxy in (("broken", blind(whole)), ("perfect", whole)):
        for drifts in (False, True):
            plan = with_ladder(training, replace(ladder, proxies=(proxy,)), drifts=drifts)
            run = CompiledSimulator(plan, seed=7, extra_flags=QUICK)
            run.train(x[:2000], labels[:2000], [rate] * 2000)
            before = run.level_samples[1]
            run.train(x[2000:], labels[2000:], [rate] * 1000)
            taken[name, drifts] = run.level_samples[1] - before
            offsets[name, drifts] = Drift.of(run.words()).offset
    own = taken["broken", False]
    assert taken["perfect", False] == own
    assert (offsets["broken", False], offsets["perfect", False]) == (0, 0)
    assert taken["broken", True] < own / 2
    assert offsets["broken", True] < -10 * STEPS_OF_OFFSET
    assert taken["perfect", True] > 1.5 * own
    assert offsets["perfect", True] > 10 * STEPS_OF_OFFSET


def blind(graph: Graph) -> Graph:
    """With weights of 0: the same latent for every sample."""
    tensors = {
        name: tensor
        if tensor.data is None or tensor.type.dtype != "int8"
        else replace(tensor, data=np.zeros_like(tensor.data))
        for name, tensor in graph.tensors.items()
    }
    return replace(graph, tensors=tensors)


def test_states_of_other_ladders_are_refused(plan: TrainingPlan) -> None:
    training = networks.training_graph(mobile_network(), LAST)
    others = [
        with_ladder(training, drifts=True),
        with_ladder(training, ladder_of(training, 3, seed=1)),
        with_ladder(training, ladder_of(training, 2)),
    ]
    own = Program(plan).model_hash
    assert Program(with_ladder(training)).model_hash == own
    assert len({own, *(Program(other).model_hash for other in others)}) == 4
    with pytest.raises(StateError, match="of another model"):
        LadderReference(others[1]).load(LadderReference(plan).save())


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
    with pytest.raises(McutrainError, match="the fronts of the cascade make"):
        generate(plan, "", interface=Interface(latent=other))

"""Resampling: other columns are trained, all keep what they have learnt, and C and numpy agree."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcutrain_host.saved import HEADER_BYTES

from mcutrain import data, prepare
from mcutrain.autodiff import TrainGraph
from mcutrain.errors import ArgumentError, SchemeError, StateError
from mcutrain.memplan import TrainingPlan, check_board, find_latent, plan_training, tail
from mcutrain.ops.updating import pack_residual
from mcutrain.pipeline import StepOptions, TrainingStep
from mcutrain.runs.training import prepare_run
from mcutrain.simulation import CompiledSimulator, PlannedReference, RunSettings
from mcutrain.sparse import UpdateScheme
from mcutrain.sparse.columns import RULES, UNKNOWN, USUAL, level_of, scored
from mcutrain.sparse.columns import drawn as drawn_columns
from mcutrain.target import load_target
from mcutrain.trained.graph import trained_graph
from tests.ops.drawing import Source, drawn
from tests.simulation import networks
from tests.simulation.test_tail import latents_of
from tests.simulation.test_training_steps import QUICK

SHARES = UpdateScheme("shares", 4, {"0": 0.5, "2": 0.5, "3": 0.4, "4": 0.5, "5": 0.6})
"""Layers 2, 3 and 5 are pointwise, 1 and 4 depthwise, and 0 reads the samples."""
BITS = (0, 2, 4, 8)
UNDEFINED = ("-fsanitize=undefined", "-fno-sanitize-recover=all", "-O1")
GUARD = 0xA5


def draw_resampling(s: Source) -> TrainGraph:
    scheme = replace(
        SHARES,
        residual_bits=s.choice(BITS),
        layer_residual_bits={"3": s.choice(BITS), "5": s.choice(BITS)},
    )
    gate = 1 if s.boolean() else None
    kind, group = s.choice(("int8", "int16")), s.choice((1, 1, 3))
    options = StepOptions(kind, group, gate=gate, elastic=s.boolean(), swap=s.choice(RULES))
    return networks.training_graph(networks.residual_network(), scheme, options)


def assert_same_bits(training: TrainGraph, draws: int = 3, **choices: Any) -> CompiledSimulator:
    """Through some draws, with a few updates behind each."""
    plan = plan_training(training, align_bytes=8)
    reference = PlannedReference(plan, 7)
    compiled = CompiledSimulator(plan, seed=7, **choices)
    each = 3 * training.accumulate
    x, labels = networks.samples(training.forward, each * draws, training.classes)
    rates = [networks.LearningRate.of(0.3)] * each
    assert compiled.save() == reference.save()
    for i in range(draws):
        for simulator in (reference, compiled):
            simulator.resample()
        assert compiled.save() == reference.save()
        here = slice(each * i, each * (i + 1))
        expected = reference.train(x[here], labels[here], rates)
        found = compiled.train(x[here], labels[here], rates)
        assert [list(v) for v in found] == [list(v) for v in expected]
        assert compiled.save() == reference.save()
        np.testing.assert_array_equal(compiled.infer(x[:2]), reference.infer(x[:2]))
        again = PlannedReference(plan)
        again.load(compiled.save())
        assert again.save() == compiled.save()
    return compiled


@pytest.mark.slow
@settings(max_examples=6)
@given(training=drawn(draw_resampling), portable=st.booleans())
def test_c_and_numpy_draw_the_same_columns(training: TrainGraph, portable: bool) -> None:
    assert_same_bits(training, portable=portable, extra_flags=QUICK)


def test_no_draw_is_undefined_behaviour() -> None:
    options = StepOptions(swap="fisher")
    training = networks.training_graph(networks.residual_network(), SHARES, options)
    assert_same_bits(training, portable=True, extra_flags=UNDEFINED)


def test_a_column_that_stayed_while_all_others_went_to_their_ends_has_the_least_score() -> None:
    """0 would be less than a channel can have that was ever trained."""
    plan, compiled = scoring(8)
    reference = PlannedReference(plan, 7)
    for weight in plan.training.resampled:
        here = plan.training.backing[weight.backing][..., reference.state[weight.columns]]
        far = np.where(here > 0, -127, 127).astype(np.int8)
        far[..., 0] = here[..., 0]
        reference.state[weight.trained] = far
        reference.state[weight.scores][:] = UNKNOWN
    compiled.load(reference.save())
    reference.resample()
    compiled.resample()
    assert compiled.save() == reference.save()
    assert min(reference.state[w.backing_scores].min() for w in plan.training.resampled) == 1


@lru_cache(maxsize=4)
def scoring(bits: int) -> tuple[TrainingPlan, CompiledSimulator]:
    scheme = replace(SHARES, residual_bits=bits)
    options = StepOptions(swap="fisher")
    plan = plan_training(networks.training_graph(networks.residual_network(), scheme, options))
    return plan, CompiledSimulator(plan, seed=7, portable=True, extra_flags=QUICK)


@settings(max_examples=40)
@given(
    bits=st.sampled_from((0, 4, 8)),
    seed=st.integers(0, 2**32 - 1),
    farthest=st.sampled_from((1, 3, 20, 255)),
    known=st.sampled_from((0.0, 0.3, 1.0)),
)
def test_columns_that_moved_far_and_little_have_the_scores_of_numpy(
    bits: int, seed: int, farthest: int, known: float
) -> None:
    """Whatever a state holds: trained weights, residual bits, and scores that are known or not."""
    plan, compiled = scoring(bits)
    reference, rng = PlannedReference(plan, 7), np.random.default_rng(seed)
    for weight in plan.training.resampled:
        columns = reference.state[weight.columns]
        scale = rng.random(len(columns)) ** 3  # of columns, so that scores differ
        still = rng.random(len(columns)) < 0.2
        scale[still] = 0
        here = plan.training.backing[weight.backing][..., columns].astype(int)
        moves = np.rint(rng.uniform(-farthest, farthest, here.shape) * scale).astype(int)
        reference.state[weight.trained] = np.clip(here + moves, -128, 127).astype(np.int8)
        if weight.residual:
            parts = rng.integers(0, 2**bits, here.shape)
            parts[..., still] = 2 ** (bits - 1)
            reference.state[weight.residual] = pack_residual(parts.ravel(), bits)
        for name in (weight.scores, weight.backing_scores):
            scores = reference.state[name]
            drawn_scores = rng.integers(1, UNKNOWN, scores.size).astype(np.uint8)
            is_known = rng.random(scores.size) < known
            reference.state[name] = np.where(is_known, drawn_scores, UNKNOWN).astype(np.uint8)
    compiled.load(reference.save())
    for _ in range(2):
        reference.resample()
        compiled.resample()
        assert compiled.save() == reference.save()
        reference.state[plan.training.resampled[0].scores][:] = UNKNOWN
        compiled.load(reference.save())


@given(
    key=st.integers(1, 2**32 - 1), number=st.integers(0, 99), channels=st.integers(1, 300),
    share=st.floats(0.01, 1),
)  # fmt: skip
def test_columns_are_drawn_once_each_and_in_order(
    key: int, number: int, channels: int, share: float
) -> None:
    count = max(1, int(share * channels))
    found = drawn_columns(key, number, count, np.zeros(channels)).tolist()
    assert len(found) == count
    assert found[0] >= 0
    assert found[-1] < channels
    assert all(a < b for a, b in pairwise(found))


def test_all_columns_are_drawn_equally_often() -> None:
    """Of 40 columns 10, a thousand times: each about 250 times, with a deviation of 14."""
    counts = np.zeros(40, int)
    for key in range(1, 1001):
        counts[drawn_columns(key, 0, 10, np.zeros(40))] += 1
    assert counts.sum() == 10_000
    assert abs(counts - 250).max() < 5 * 14
    other = [drawn_columns(9, number, 10, np.zeros(40)).tolist() for number in range(3)]
    assert other[0] != other[1] != other[2] != other[0]


@given(scores=st.lists(st.integers(0, 255), min_size=1, max_size=60), data=st.data())
def test_columns_of_the_largest_scores_are_taken(scores: list[int], data: st.DataObject) -> None:
    count = data.draw(st.integers(1, len(scores)))
    key = data.draw(st.integers(1, 2**32 - 1))
    found = drawn_columns(key, 0, count, np.array(scores))
    assert sorted(scores[i] for i in found) == sorted(scores)[-count:]
    assert all(a < b for a, b in pairwise(found.tolist()))


def test_scores_say_who_moved_further() -> None:
    """In quarters of an octave of the squares; who has a score keeps it."""
    moves = np.array([[[[1, 2, 4, 0, 100]]]] * 9)
    unknown = np.full(5, UNKNOWN, np.uint8)
    found = scored(unknown, moves)
    assert found[:3].tolist() == sorted(found[:3].tolist())
    assert found[2] - found[1] == 8  # twice as far, so four times the square
    assert found[3] < found[0]
    assert max(found) == found[4] < UNKNOWN
    kept = scored(np.array([7, UNKNOWN, 9, UNKNOWN, 0], np.uint8), moves)
    assert kept[[0, 2, 4]].tolist() == [7, 9, 0]
    assert kept[1] == USUAL + level_of(36) - level_of(18)  # of the two, the mean
    assert scored(np.array([3], np.uint8), moves[..., :1]).tolist() == [3]
    levels = [level_of(v) for v in (*range(40), 2**40)]
    assert levels == sorted(levels)
    assert [level_of(2**k) for k in range(2, 20)] == list(range(4, 76, 4))


def test_each_column_has_its_turn_and_then_the_best_are_trained() -> None:
    step = prepare(networks.residual_network(), SHARES, swap="fisher")
    simulator = step.simulator(7)
    teach(simulator, step, 24, 0.01)
    weights, turns = step.plan.training.resampled, []
    for _ in range(5):
        turns.append({w.backing: set(simulator.state[w.columns].tolist()) for w in weights})
        simulator.resample()
        teach(simulator, step, 4, 2.0)
    state = simulator.state
    turns.append({w.backing: set(state[w.columns].tolist()) for w in weights})
    for w in weights:
        channels, count = step.plan.training.backing[w.backing].shape[-1], len(state[w.columns])
        needed = -(-channels // count)
        assert set().union(*(turn[w.backing] for turn in turns[:needed])) == set(range(channels))
        scores = state[w.backing_scores]
        assert UNKNOWN not in scores
        last = sorted(scores[sorted(turns[-1][w.backing])])
        assert last == sorted(scores)[-count:]


@lru_cache(maxsize=1)
def resampling() -> TrainingStep:
    return prepare(networks.residual_network(), SHARES, swap="drawn")


@pytest.fixture
def step() -> TrainingStep:
    return resampling()


def settled(step: TrainingStep) -> CompiledSimulator:
    """Whose gradients have found their exponents, so that each step counts."""
    simulator = step.simulator(7)
    teach(simulator, step, 24, 0.01)
    return simulator


def teach(simulator: CompiledSimulator, step: TrainingStep, steps: int, rate: float) -> None:
    x, labels = networks.samples(step.graph, steps, 4)
    simulator.train(x, labels, [networks.LearningRate.of(rate)] * steps)


@lru_cache(maxsize=1)
def taught() -> CompiledSimulator:
    """After some draws."""
    simulator = settled(resampling())
    for _ in range(4):
        simulator.resample()
        teach(simulator, resampling(), 4, 0.5)
    return simulator


def weights(plan: TrainingPlan, saved: bytes) -> dict[str, np.ndarray]:
    state = plan.state.unpack(saved[HEADER_BYTES:])
    return {weight.backing: state[weight.backing] for weight in plan.training.resampled}


def test_columns_keep_what_they_learnt_when_others_are_trained(step: TrainingStep) -> None:
    """Weights change in the trained columns only, and draws change none; many have changed then."""
    simulator, plan = settled(step), step.plan
    changed = {name: set() for name in weights(plan, simulator.save())}
    for _ in range(6):
        before = weights(plan, simulator.save())
        simulator.resample()
        swapped = simulator.save()
        assert_equal(weights(plan, swapped), before)
        teach(simulator, step, 8, 5.0)
        after = weights(plan, simulator.save())
        columns = plan.state.unpack(swapped[HEADER_BYTES:])
        for weight in plan.training.resampled:
            moved = after[weight.backing] != before[weight.backing]
            found = set(np.flatnonzero(moved.reshape(-1, moved.shape[-1]).any(axis=0)))
            assert found <= set(columns[weight.columns].tolist())
            changed[weight.backing] |= found
    counts = {w.backing: len(plan.training.state[w.columns]) for w in plan.training.resampled}
    assert any(len(found) > counts[name] for name, found in changed.items())


def assert_equal(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value)


def test_residual_bits_of_a_column_come_back_with_it(step: TrainingStep) -> None:
    """A step so small that no weight moves by a whole; later it counts, wherever it was kept."""
    simulator, plan = settled(step), step.plan
    simulator.resample()
    teach(simulator, step, 4, 0.02)
    state = plan.state.unpack(simulator.save()[HEADER_BYTES:])
    assert any(
        (state[w.backing_residual] != plan.training.backing[w.backing_residual]).any()
        for w in plan.training.resampled
    )
    simulator.resample()
    again = plan.state.unpack(simulator.save()[HEADER_BYTES:])
    for weight in plan.training.resampled:
        np.testing.assert_array_equal(
            again[weight.backing_residual], state[weight.backing_residual]
        )


@settings(max_examples=60)
@given(case=st.data())
def test_any_piece_of_a_saved_state_is_that_of_the_whole(
    case: st.DataObject,
) -> None:
    """Also where it ends within a row, or begins within the header, and not a byte more."""
    simulator = taught()
    saved = simulator.save()
    offset = case.draw(st.integers(0, len(saved) - 1))
    count = case.draw(st.integers(0, min(300, len(saved) - offset)))
    piece = ctypes.create_string_buffer(bytes([GUARD]) * (count + 8), count + 8)
    simulator._library.mct_state_read(offset, count, piece)
    assert piece.raw == saved[offset : offset + count] + bytes([GUARD]) * 8


def test_each_byte_of_a_saved_state_is_that_of_the_whole() -> None:
    """Also the last of residual bits that do not fill it."""
    graph = networks.residual_network()
    step = prepare(graph, replace(SHARES, residual_bits=2), swap="drawn")
    sizes = [
        w.bits * step.plan.training.backing[w.backing].size for w in step.plan.training.resampled
    ]
    assert any(size % 8 for size in sizes)
    simulator = settled(step)
    simulator.resample()
    teach(simulator, step, 4, 2.0)
    saved, byte = simulator.save(), ctypes.create_string_buffer(1)
    for offset in range(len(saved)):
        simulator._library.mct_state_read(offset, 1, byte)
        assert byte.raw == saved[offset : offset + 1]


def test_a_draw_happens_once_at_a_position(step: TrainingStep) -> None:
    for simulator in (step.simulator(7), step.reference(7)):
        simulator.resample()
        saved = simulator.save()
        simulator.resample()
        assert simulator.save() == saved


def test_the_trained_model_has_the_columns_of_all_draws(step: TrainingStep) -> None:
    simulator = taught()
    graph = trained_graph(step, simulator.save(), step.graph)
    x, _ = networks.samples(step.graph, 8, 4)
    frozen = prepare(graph, "head")
    np.testing.assert_array_equal(frozen.reference().infer(x), simulator.infer(x))


def test_columns_that_are_none_are_no_state(step: TrainingStep) -> None:
    """Neither for the C nor for numpy: too large, twice the same, negative."""
    reference, simulator = step.reference(7), step.simulator(7)
    weight = step.plan.training.resampled[0]
    good, saved = reference.state[weight.columns].copy(), simulator.save()
    channels = step.plan.training.backing[weight.backing].shape[-1]
    for bad in ([*good[:-1], channels], [good[0], good[0], *good[2:]], [-1, *good[1:]]):
        reference.state[weight.columns] = np.array(bad, np.int16)
        raw = bytearray(saved)
        offset = HEADER_BYTES + step.plan.state_offsets[weight.columns]
        raw[offset : offset + 2 * len(bad)] = np.array(bad, "<i2").tobytes()
        content = bytes(raw[HEADER_BYTES:])
        sealed = reference._header(content) + content
        for one in (simulator, step.reference(7)):
            with pytest.raises(StateError, match="trained columns are none"):
                one.load(sealed)
    assert simulator.save() == saved


def test_a_run_that_goes_on_resamples_where_the_whole_run_does(step: TrainingStep) -> None:
    x, labels = networks.samples(step.graph, 12, 4)
    part = data.Dataset(x, labels, ("a", "b", "c", "d"))
    split = data.Split(part, part)
    run_settings = RunSettings(2, 0.3, swap="drawn", every=5, test_every=0)

    def run() -> Any:
        return prepare_run(step, split, run_settings)

    whole = run().train()
    for steps in (1, 5, 9):
        begun, states = run(), []
        begun.chunk = steps

        def interrupt(_: Any, begun: Any = begun, states: list[Any] = states) -> None:
            states.append(begun.state)
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            begun.train(interrupt)
        rest = run()
        rest.state = states[0]
        assert rest.train().saved == whole.saved


@pytest.mark.parametrize("rule", RULES)
def test_a_tail_resamples_the_columns_that_the_whole_network_does(rule: str) -> None:
    scheme = replace(SHARES, bias_depth=2, weights={"5": 0.6})
    options = StepOptions(swap=rule)
    training = networks.training_graph(networks.residual_network(), scheme, options)
    plan = plan_training(training, align_bytes=8)
    assert plan.training.resampled
    latent = find_latent(plan)
    assert latent is not None
    behind = plan_training(tail(plan.training, latent), align_bytes=8)
    x, labels = networks.samples(training.forward, 16, 4)
    begin = latents_of(plan, latent, x)
    rates = [networks.LearningRate.of(0.3)] * 4
    whole = PlannedReference(plan, 7)
    compiled = CompiledSimulator(behind, seed=7, extra_flags=QUICK)
    tails = (PlannedReference(behind, 7), compiled)
    for i in range(0, 16, 4):
        here = slice(i, i + 4)
        whole.resample()
        whole.train(x[here], labels[here], rates)
        for one in tails:
            one.resample()
            one.train(begin[here], labels[here], rates)
            assert one.save()[HEADER_BYTES:] == whole.save()[HEADER_BYTES:]


def test_the_backing_takes_no_sram(step: TrainingStep) -> None:
    """But a pointer on a chip, four bytes in the state, and two for each column."""
    fixed = prepare(networks.residual_network(), SHARES)
    columns = sum(len(step.plan.training.state[w.columns]) for w in step.plan.training.resampled)
    more = step.plan.state_bytes - fixed.plan.state_bytes
    assert 2 * columns + 4 <= more <= 2 * columns + 8
    assert step.plan.arena_bytes == fixed.plan.arena_bytes
    assert step.plan.kept_bytes == step.plan.state_bytes + step.plan.backing_bytes
    check_board(step.plan, load_target("rpi-pico"))


def test_what_cannot_be_resampled_is_a_sentence(step: TrainingStep) -> None:
    for scheme in ("last:2", "1:0.5"):  # whole layers, and a depthwise one
        with pytest.raises(SchemeError, match="trains no layer in part"):
            prepare(networks.residual_network(), scheme, swap="drawn")
    assert RunSettings(swap="drawn", every=6).resample_every(50, 3) == 6
    assert RunSettings(swap="drawn").resample_every(50, 3) == 51
    with pytest.raises(ArgumentError, match="a multiple of the 3 samples"):
        RunSettings(swap="drawn", every=7).resample_every(50, 3)


def test_slots_are_as_large_as_the_backing_needs() -> None:
    board = load_target("rpi-pico")
    assert board.with_slots_for(board.slot_bytes // 2) is board
    larger = board.with_slots_for(2 * board.slot_bytes)
    assert larger.can_save(2 * board.slot_bytes)
    assert larger.flash.size_bytes < board.flash.size_bytes
    assert board.with_slots_for(2**22) is board  # nothing is so large

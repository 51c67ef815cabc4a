"""Counts of a state at the end of their 32 bits: numpy and C go on alike (docs/numerics.md)."""

from __future__ import annotations

import ctypes
import subprocess
from dataclasses import replace
from pathlib import Path

import mcutrain_firmware
import numpy as np
import pytest

from mcutrain.autodiff import Gate, TrainGraph, TrainOptions
from mcutrain.codegen import Interface
from mcutrain.memplan import TrainingPlan, plan_training
from mcutrain.pipeline import StepOptions, prepare
from mcutrain.simulation import CompiledSimulator, LadderReference, PlannedReference
from mcutrain.simulation.build import WARNINGS
from mcutrain.simulation.replay import (
    MOST_OFFERED,
    NOWHERE,
    Earlier,
    slots_of_offers,
    slots_of_replays,
    with_replays,
)
from mcutrain.sparse import UpdateScheme
from tests.memplan.ladders import with_ladder
from tests.memplan.test_stream import mobile_network
from tests.simulation import networks
from tests.simulation.test_resampling import SHARES
from tests.simulation.test_training_steps import QUICK

END = 2**32
LAST = UpdateScheme("last", 1, {}, 1)
RUNTIME = Path(mcutrain_firmware.__file__).parent / "runtime"


def training_of(accumulate: int, gate: Gate | None) -> TrainGraph:
    options = TrainOptions("int8", accumulate)
    made = networks.training_graph(networks.modern_network(), LAST, options)
    return replace(made, gate=gate)


def place(reference: PlannedReference, position: int) -> None:
    """As if so many samples had been seen."""
    reference.update, reference.sample = divmod(position, reference.training.accumulate)


def assert_same_bits(
    plan: TrainingPlan, reference: PlannedReference, steps: int, swap: bool = False
) -> CompiledSimulator:
    """From the reference's state on, step by step."""
    compiled = CompiledSimulator(plan, seed=7, extra_flags=QUICK)
    compiled.load(reference.save())
    x, labels = networks.samples(plan.training.forward, 5, plan.training.classes)
    for i in range(steps):
        for simulator in (reference, compiled) if swap else ():
            simulator.resample()
        here, rate = slice(i % 5, i % 5 + 1), networks.rates(1)
        expected = reference.train(x[here], labels[here], rate)
        found = compiled.train(x[here], labels[here], rate)
        assert [list(v) for v in found] == [list(v) for v in expected], f"step {i}"
        assert compiled.save() == reference.save(), f"step {i}"
    again = type(reference)(plan)
    again.load(compiled.save())
    assert again.save() == reference.save()
    return compiled


@pytest.mark.parametrize("gate", [None, Gate.of(1)], ids=["all", "gate"])
@pytest.mark.parametrize("accumulate", [1, 3])
def test_updates_are_counted_modulo_2_to_the_32(accumulate: int, gate: Gate | None) -> None:
    plan = plan_training(training_of(accumulate, gate), align_bytes=8)
    reference = PlannedReference(plan, 7)
    reference.update = END - 2
    compiled = assert_same_bits(plan, reference, 4 * accumulate)
    assert compiled.counters[1:] == (2, 0)


@pytest.mark.draws(6)
@pytest.mark.parametrize("accumulate", [2, 3, 7])
@pytest.mark.parametrize("skipped", [0, 5, END - 3])
@pytest.mark.parametrize("below", [2, 0], ids=["across", "behind"])
def test_a_gate_and_accumulate_go_on_alike_where_positions_begin_anew(
    accumulate: int, skipped: int, below: int
) -> None:
    """Position 2^32, and what is learnt of it: samples less the skipped ones, modulo 2^32."""
    plan = plan_training(training_of(accumulate, Gate.of(1)), align_bytes=8)
    reference = PlannedReference(plan, 7)
    place(reference, END - below)
    reference.skipped = skipped
    assert_same_bits(plan, reference, 2 * accumulate + 4)
    assert 0 <= reference.skipped < END


@pytest.mark.parametrize("accumulate", [3, 4, 7])
def test_a_group_begins_anew_where_learnt_samples_do(accumulate: int) -> None:
    """The one across 2^32, unless its length divides that: it would be of fewer samples."""
    plan = plan_training(training_of(accumulate, Gate.of(0)), align_bytes=8)
    reference = PlannedReference(plan, 7)
    place(reference, END - END % accumulate - accumulate)
    x, labels = networks.samples(plan.training.forward, 1, plan.training.classes)
    seen = []
    learn = reference.learn
    reference.learn = lambda inputs, step: (  # type: ignore[method-assign]
        seen.append((int(step[1]), int(step[2]))) or learn(inputs, step)
    )
    for _ in range(accumulate + END % accumulate + 1):
        reference.train(x, labels, networks.rates(1))
    last = END // accumulate
    group = [(last - 1, i) for i in range(accumulate)]
    assert seen == [*group, *((last, i) for i in range(END % accumulate)), (0, 0)]


def test_skipped_samples_are_counted_modulo_2_to_the_32() -> None:
    plan = plan_training(training_of(1, Gate.of(16)), align_bytes=8)
    reference = PlannedReference(plan, 7)
    reference.skipped, reference.mean_q19 = END - 1, 2**31 - 1
    assert assert_same_bits(plan, reference, 1).gate[1] == 0


def test_a_state_whose_mean_loss_is_below_0_is_saved_as_it_was() -> None:
    """No step leaves one, but a state may hold any bits, and C keeps them."""
    plan = plan_training(training_of(1, Gate.of(1)), align_bytes=8)
    reference = PlannedReference(plan, 7)
    reference.mean_q19 = -3
    compiled = CompiledSimulator(plan, seed=7, extra_flags=QUICK)
    compiled.load(reference.save())
    assert compiled.gate == (-3, 0)
    assert compiled.save() == reference.save()
    assert_same_bits(plan, reference, 1)


@pytest.mark.parametrize("drifts", [False, True], ids=["policy", "drift"])
def test_samples_of_a_front_are_counted_modulo_2_to_the_32(drifts: bool) -> None:
    plan = with_ladder(networks.training_graph(mobile_network(), LAST), drifts=drifts)
    reference = LadderReference(plan, 7)
    reference.level_samples = [END - 1 for _ in reference.level_samples]
    compiled = assert_same_bits(plan, reference, 5)
    assert min(compiled.level_samples) < 5


def test_columns_are_swapped_once_at_each_position_around_2_to_the_32() -> None:
    training = networks.training_graph(
        networks.residual_network(), SHARES, StepOptions(swap="drawn")
    )
    plan = plan_training(training, align_bytes=8)
    reference = PlannedReference(plan, 7)
    reference.resample()
    place(reference, END - 2)
    assert_same_bits(plan, reference, 4, swap=True)


# --------------------------------------------------------------------------------------- reservoir

PROGRAM = """
#include "mct_reservoir.h"

uint32_t slot(uint32_t seen, uint32_t remember);
uint32_t slot(uint32_t seen, uint32_t remember) { return mct_offer_slot(seen, remember); }
uint32_t offered(uint32_t seen);
uint32_t offered(uint32_t seen) { return mct_offered(seen); }
uint32_t replayed(uint32_t position, uint32_t seen, uint32_t remember);
uint32_t replayed(uint32_t position, uint32_t seen, uint32_t remember) {
    return mct_replay_slot(position, seen, remember);
}
"""


@pytest.fixture(scope="module")
def library(
    c_compilers: list[tuple[str, ...]], tmp_path_factory: pytest.TempPathFactory
) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("reservoir")
    (folder / "reservoir.c").write_text(PROGRAM, encoding="utf-8")
    flags = ["-std=c11", "-O1", *WARNINGS, f"-I{RUNTIME}", "-shared", "-fPIC"]
    command = [*c_compilers[0], *flags, "-o", "reservoir.so", "reservoir.c"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    loaded = ctypes.CDLL(str(folder / "reservoir.so"))
    for function in (loaded.slot, loaded.offered, loaded.replayed):
        function.restype = ctypes.c_uint32
    return loaded


@pytest.mark.parametrize("remember", [1, 50, 65_535])
def test_a_reservoir_stays_as_it_is_when_its_count_has_ended(
    library: ctypes.CDLL, remember: int
) -> None:
    """2^32 - 1 samples were offered: a count that began anew would throw all of it away."""
    first, seen = MOST_OFFERED - 3, MOST_OFFERED - 3
    for slot in slots_of_offers(first, 6, remember).tolist():
        found = library.slot(seen, remember)
        assert (found if found < remember else NOWHERE) == slot
        if seen == MOST_OFFERED:
            assert slot == NOWHERE
        seen = library.offered(seen)
    assert seen == MOST_OFFERED == END - 1


def test_replays_go_on_where_positions_begin_anew(library: ctypes.CDLL) -> None:
    for position in (END - 1, END, END + 1):
        for seen in (3, END - 1):
            expected = library.replayed(position % END, seen, 50)
            assert slots_of_replays(np.array([position]), np.array([seen]), 50)[0] == expected


def test_a_library_replays_on_when_its_count_of_offers_has_ended() -> None:
    step = prepare(networks.residual_network(), "head")
    project = step.library(Interface(remember=2))
    library = CompiledSimulator(step.plan, seed=7, project=project)._library
    library.mct_front.restype = library.mct_ring_bytes.restype = ctypes.c_void_p
    x, _ = networks.samples(step.graph, 1, 4)
    result, rate = (ctypes.c_int32 * 2)(), ctypes.c_int64(0)

    def remember(label: int) -> None:
        assert library.mct_feed(0, x[0].tobytes(), x[0].size) == 0
        assert library.mct_remember(ctypes.c_void_p(library.mct_front()), label) == 0

    def ring() -> list[int]:
        """The count of offers, and the labels."""
        return np.frombuffer(ctypes.string_at(library.mct_ring_bytes(), 12), "<u4").tolist()

    remember(0)
    remember(1)
    assert ring() == [2, 0, 1]
    ctypes.memmove(library.mct_ring_bytes(), (END - 2).to_bytes(4, "little"), 4)
    for _ in range(3):
        remember(2)
        assert ring() == [END - 1, 0, 1]
        assert library.mct_replay(rate, result) == 0


def test_a_run_of_ever_more_offers_replays_what_is_remembered() -> None:
    earlier = Earlier(END - 4, MOST_OFFERED - 1, (7,))
    order = with_replays(np.array([1, 2, 3]), 1, 1, earlier)
    assert order.tolist() == [1, 7, 2, 7, 3, 7]

"""Fronts computed row by row by generated C: the same bits, however the rows come."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcutrain.ir.graph import Graph
from mcutrain.memplan import Stream, plan_training
from mcutrain.simulation import CompiledSimulator, ReferenceSimulator
from mcutrain.simulation.build import SANITIZE
from mcutrain.sparse import UpdateScheme
from tests.memplan.fronts import (
    draw_front,
    planned,
    with_constant_image,
    with_cut_rows,
    with_groups,
    with_matrices,
    with_padding_below,
    with_resized_rows,
    with_two_stems,
)
from tests.memplan.test_stream import mobile_network
from tests.ops.drawing import SeededSource, drawn
from tests.simulation import networks
from tests.simulation.test_training_steps import QUICK, build_program, write_steps

STEPS = 4
ERROR_SIZE = 2
SCHEMES = (UpdateScheme(), UpdateScheme("last", 1, {}, 1), UpdateScheme("bias", None))


def assert_same_bits(graph: Graph, stream: Stream, scheme: UpdateScheme, **options: Any) -> None:
    plan = planned(graph, stream, scheme)
    compiled = CompiledSimulator(plan, seed=7, **options)
    reference = ReferenceSimulator(plan.training, seed=7)
    x, labels = networks.samples(graph, STEPS, plan.training.classes)
    rates = networks.rates(STEPS)
    expected, found = (s.train(x, labels, rates) for s in (reference, compiled))
    assert [list(v) for v in found] == [list(v) for v in expected]
    assert networks.states_differ(compiled.state, reference.state) == []
    np.testing.assert_array_equal(compiled.infer(x[:2]), reference.infer(x[:2]))


@settings(max_examples=8)
@given(
    graph=drawn(draw_front),
    scheme=st.sampled_from(SCHEMES),
    stream=st.sampled_from(["auto", "max"]),
    portable=st.booleans(),
)
def test_drawn_fronts_compute_the_bits_of_the_reference(
    graph: Graph, scheme: UpdateScheme, stream: Stream, portable: bool
) -> None:
    assert_same_bits(graph, stream, scheme, portable=portable, extra_flags=QUICK)


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda s: s.name)
def test_a_mobile_network_computes_the_bits_of_the_reference(scheme: UpdateScheme) -> None:
    assert_same_bits(mobile_network(), "max", scheme, extra_flags=QUICK)


@pytest.mark.draws(3)
@pytest.mark.parametrize(
    "network",
    [
        with_constant_image,
        with_padding_below,
        with_two_stems,
        with_resized_rows,
        with_groups,
        with_cut_rows,
        with_matrices,
    ],
)
def test_odd_fronts_compute_the_bits_of_the_reference(network: Callable[[], Graph]) -> None:
    assert_same_bits(network(), "max", SCHEMES[0], extra_flags=QUICK)


def test_what_was_learnt_with_one_plan_goes_on_with_another() -> None:
    """Rows are no part of the model: the saved state is the same."""
    graph = mobile_network()
    off, least = (
        CompiledSimulator(planned(graph, s, SCHEMES[1]), extra_flags=QUICK) for s in ("off", "max")
    )
    x, labels = networks.samples(graph, STEPS, 4)
    off.train(x, labels, networks.rates(STEPS))
    least.load(off.save())
    assert least.save() == off.save()


# ------------------------------------------------------------------------------ how the rows come


class Fed:
    """A simulator, called as a program on a device calls it."""

    def __init__(self, stream: Stream = "max") -> None:
        graph = mobile_network()
        self.simulator = CompiledSimulator(planned(graph, stream), seed=1, extra_flags=QUICK)
        self.library = self.simulator._library
        self.library.mct_infer.restype = ctypes.c_void_p
        self.x, self.labels = networks.samples(graph, 3, 4)

    def feed(self, offset: int, values: npt.NDArray[np.int8]) -> int:
        content = values.tobytes()
        return int(self.library.mct_feed(offset, content, len(content)))

    def scores(self) -> bytes | None:
        found = self.library.mct_infer()
        return None if found is None else ctypes.string_at(found, 4)

    def train(self) -> int:
        result = (ctypes.c_int32 * 2)()
        rate = (ctypes.c_int32 * 2)(1 << 30, -4)
        packed = ctypes.c_int64.from_buffer(rate)
        return int(self.library.mct_train(ctypes.c_int32(1), packed, result))


@settings(max_examples=15)
@given(
    cuts=st.lists(st.integers(0, 48 * 12 * 3), max_size=20), stream=st.sampled_from(["off", "max"])
)
def test_pieces_of_any_size_are_the_same_sample(cuts: list[int], stream: Stream) -> None:
    fed = FED[stream]
    sample = fed.x[0].ravel()
    ends = [0, *sorted(cuts), sample.size]
    for begin, end in pairwise(ends):
        assert fed.feed(begin, sample[begin:end]) == 0
    assert fed.scores() == fed.simulator.infer(fed.x[:1]).tobytes()


@pytest.fixture(scope="module", autouse=True)
def _fed() -> None:
    FED.update({"off": Fed("off"), "max": Fed("max")})


FED: dict[str, Fed] = {}


def test_a_sample_may_begin_anew() -> None:
    fed = FED["max"]
    wrong, right = fed.x[1].ravel(), fed.x[0].ravel()
    assert fed.feed(0, wrong[:1000]) == 0
    assert fed.feed(0, right[:700]) == 0
    assert fed.feed(700, right[700:]) == 0
    assert fed.scores() == fed.simulator.infer(fed.x[:1]).tobytes()


def test_bytes_that_are_not_the_next_ones_change_nothing() -> None:
    fed = FED["max"]
    sample = fed.x[0].ravel()
    assert fed.feed(0, sample[:100]) == 0
    for offset, count in ((99, 5), (101, 5), (100, sample.size - 99), (sample.size + 1, 1)):
        assert fed.feed(offset, sample[:1].repeat(count)) == ERROR_SIZE
    assert fed.feed(0, np.zeros(sample.size + 1, np.int8)) == ERROR_SIZE
    assert fed.feed(100, sample[100:]) == 0
    assert fed.scores() == fed.simulator.infer(fed.x[:1]).tobytes()


def test_an_incomplete_sample_is_refused() -> None:
    fed = FED["max"]
    sample = fed.x[0].ravel()
    before = fed.simulator.save()
    assert fed.feed(0, sample[:-1]) == 0
    assert fed.scores() is None
    assert fed.train() == ERROR_SIZE
    assert fed.simulator.save() == before
    assert fed.feed(sample.size - 1, sample[-1:]) == 0
    assert fed.train() == 0
    assert fed.train() == ERROR_SIZE, "the sample was used up"
    assert fed.simulator.save() != before


# -------------------------------------------------------------------------------------- sanitizers


@pytest.mark.slow
def test_sanitizers_find_nothing(sanitizing: dict[str, tuple[str, ...]], tmp_path: Path) -> None:
    for (name, command), seed in zip(sanitizing.items(), (4, 5), strict=False):
        folder = tmp_path / name
        folder.mkdir()
        graph = draw_front(SeededSource(seed))
        training = networks.training_graph(graph, SCHEMES[1])
        plan = plan_training(training, align_bytes=8, stream="max")
        assert plan.segments
        program = build_program(plan, [*command, *SANITIZE], folder)
        x, labels = networks.samples(graph, STEPS, training.classes)
        write_steps(folder / "samples", x, labels, networks.rates(STEPS))
        done = subprocess.run([program, folder / "samples"], capture_output=True, timeout=120)
        assert done.returncode == 0, done.stderr.decode()[:4000]

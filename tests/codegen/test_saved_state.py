"""Saving and loading the trained state: what is refused, and that a refusal changes nothing."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcutrain.errors import DataError, StateError
from mcutrain.ir.graph import Graph
from mcutrain.simulation import CompiledSimulator, PlannedReference
from mcutrain.simulation.compiled import SAVED_HEADER_BYTES, STATUS_TEXT
from mcutrain.sparse import UpdateScheme
from tests.simulation.networks import planned, rates, residual_network, samples, training_graph

QUICK = ("-O1",)
CLASSES = 4
SIZE, FORMAT, MODEL, CHECKSUM, RANGE = 2, 3, 4, 5, 6


@pytest.fixture(scope="module")
def graph() -> Graph:
    return residual_network(classes=CLASSES)


@pytest.fixture(scope="module")
def simulator(graph: Graph) -> CompiledSimulator:
    training = training_graph(graph, UpdateScheme("last:2", 2, {}, 2))
    made = CompiledSimulator(planned(training), portable=True, extra_flags=QUICK)
    x, labels = samples(graph, 4, CLASSES)
    made.train(x, labels, rates(4))
    return made


def assert_refused(simulator: CompiledSimulator, saved: bytes, status: int) -> None:
    before = simulator.save()
    with pytest.raises(StateError) as caught:
        simulator.load(saved)
    assert STATUS_TEXT[status] in str(caught.value)
    assert simulator.save() == before


def with_checksum(saved: bytes) -> bytes:
    """The same with the checksum that its content has."""
    crc = zlib.crc32(saved[24:], zlib.crc32(saved[:20]))
    return saved[:20] + struct.pack("<I", crc) + saved[24:]


def test_a_loaded_state_goes_on_as_if_it_had_never_been_saved(
    graph: Graph, simulator: CompiledSimulator
) -> None:
    x, labels = samples(graph, 6, CLASSES, seed=9)
    saved = simulator.save()
    first = simulator.train(x, labels, rates(6))
    after = simulator.save()
    assert after != saved
    simulator.load(saved)
    assert simulator.save() == saved
    np.testing.assert_array_equal(simulator.train(x, labels, rates(6)), first)
    assert simulator.save() == after
    simulator.load(saved)


def test_the_header_is_what_the_documentation_says(simulator: CompiledSimulator) -> None:
    saved = simulator.save()
    magic, version, _, size, _ = struct.unpack_from("<4sIQII", saved)
    assert (magic, version, size) == (b"MCTS", 1, len(saved) - SAVED_HEADER_BYTES)
    assert with_checksum(saved) == saved


@pytest.mark.parametrize("place", ["first", "last"])
@pytest.mark.parametrize("value", [2**30 + 1, -(2**30) - 1, 2**31 - 1, -(2**31)])
def test_a_bias_beyond_its_limit_is_refused_though_the_checksum_is_right(
    value: int, place: str, simulator: CompiledSimulator
) -> None:
    """With such a one sums could overflow; at the limit itself nothing can."""
    reference = PlannedReference(simulator.plan)
    biases = [n for n in simulator.plan.training.parameters if simulator.state[n].itemsize == 4]
    name = biases[0 if place == "first" else -1]
    at = SAVED_HEADER_BYTES + simulator.plan.state_offsets[name]
    at += 0 if place == "first" else 4 * (simulator.state[name].size - 1)
    saved = simulator.save()

    def forged(bias: int) -> bytes:
        return with_checksum(saved[:at] + struct.pack("<i", bias) + saved[at + 4 :])

    assert_refused(simulator, forged(value), RANGE)
    with pytest.raises(StateError, match="beyond"):
        reference.load(forged(value))
    allowed = forged(2**30 if value > 0 else -(2**30))
    for either in (simulator, reference):
        either.load(allowed)
        assert either.save() == allowed
    simulator.load(saved)


def test_any_difference_of_a_bias_is_a_sound_state(graph: Graph) -> None:
    """Only the head's bias has a limit that a state could break."""
    scheme = UpdateScheme("last:2", 2, {}, 2, bias_bits=16)
    made = CompiledSimulator(
        planned(training_graph(graph, scheme)), portable=True, extra_flags=QUICK
    )
    reference = PlannedReference(made.plan)
    saved = made.save()
    offsets = made.plan.state_offsets
    (first, second) = (n for n in offsets if n.endswith(".difference"))
    for value in (-(2**15), 2**15 - 1):
        forged = bytearray(saved)
        for name in (first, second):
            at = SAVED_HEADER_BYTES + offsets[name]
            size = made.state[name].size
            forged[at : at + 2 * size] = struct.pack("<h", value) * size
        whole = with_checksum(bytes(forged))
        x, labels = samples(graph, 3, CLASSES)
        for either in (made, reference):
            either.load(whole)
            assert either.save() == whole
            either.train(x, labels, rates(3))
        assert made.save() == reference.save()
        np.testing.assert_array_equal(made.infer(x), reference.infer(x))
    (bias,) = (n for n in made.plan.training.parameters if made.state[n].itemsize == 4)
    at = SAVED_HEADER_BYTES + offsets[bias]
    assert_refused(
        made, with_checksum(saved[:at] + struct.pack("<i", 2**30 + 1) + saved[at + 4 :]), RANGE
    )


def test_every_truncation_is_refused(simulator: CompiledSimulator) -> None:
    saved = simulator.save()
    for length in (0, 1, 4, 23, 24, 25, len(saved) // 2, len(saved) - 1):
        assert_refused(simulator, saved[:length], SIZE)
    assert_refused(simulator, saved + b"\0", SIZE)


def test_a_wrong_size_in_the_header_is_refused(simulator: CompiledSimulator) -> None:
    saved = simulator.save()
    for size in (0, 1, 2**32 - 24, 2**32 - 1):
        assert_refused(
            simulator, with_checksum(saved[:16] + struct.pack("<I", size) + saved[20:]), SIZE
        )


@pytest.mark.parametrize("position", range(8))
def test_other_files_and_versions_are_refused(simulator: CompiledSimulator, position: int) -> None:
    saved = bytearray(simulator.save())
    saved[position] ^= 0x40
    assert_refused(simulator, with_checksum(bytes(saved)), FORMAT)


@pytest.mark.parametrize("position", range(8, 16))
def test_a_state_of_another_model_is_refused(simulator: CompiledSimulator, position: int) -> None:
    saved = bytearray(simulator.save())
    saved[position] ^= 1
    assert_refused(simulator, with_checksum(bytes(saved)), MODEL)


def test_a_state_of_another_scheme_is_refused(graph: Graph, simulator: CompiledSimulator) -> None:
    training = training_graph(graph, UpdateScheme())
    other = CompiledSimulator(planned(training), portable=True, extra_flags=QUICK)
    assert_refused(simulator, other.save(), MODEL)


@settings(max_examples=200)
@given(data=st.data())
def test_any_flipped_bit_behind_the_header_is_refused(
    simulator: CompiledSimulator, data: st.DataObject
) -> None:
    saved = bytearray(simulator.save())
    bit = data.draw(st.integers(20 * 8, len(saved) * 8 - 1))
    saved[bit // 8] ^= 1 << bit % 8
    assert_refused(simulator, bytes(saved), CHECKSUM)


@settings(max_examples=300)
@given(garbage=st.binary(max_size=400), keep=st.sampled_from([0, 4, 8, 16, 20]))
def test_random_bytes_never_change_the_state(
    simulator: CompiledSimulator, garbage: bytes, keep: int
) -> None:
    before = simulator.save()
    with pytest.raises(StateError):
        simulator.load(before[:keep] + garbage)
    assert simulator.save() == before


@pytest.mark.parametrize("label", [-1, CLASSES, 2**31 - 1, -(2**31)])
def test_a_label_that_is_no_class_is_refused_and_changes_nothing(
    graph: Graph, simulator: CompiledSimulator, label: int
) -> None:
    before = simulator.save()
    x, _ = samples(graph, 1, CLASSES)
    with pytest.raises(DataError, match=f"label {label} is not one of {CLASSES} classes"):
        simulator.train(x, [label], rates(1))
    assert simulator.save() == before


def test_a_sample_of_the_wrong_size_is_refused(simulator: CompiledSimulator) -> None:
    with pytest.raises(DataError, match="a sample has 5 bytes, the model takes 192"):
        simulator.infer(np.zeros((1, 5), np.int8))

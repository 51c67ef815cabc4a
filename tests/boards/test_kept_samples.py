"""Firmware that keeps raw samples gives them back, and they give the windows that were learnt."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcutrain_host.memory import linked_memory
from mcutrain_host.protocol import Status

from tests.boards.test_learning import BURST, LOUD, PLAIN, OnChip, Pair, carry_out, project, twin
from tests.boards.test_same_bits import as_program
from tests.frontends.test_trigger import noise

ASKED, KEPT = 900, 1024
KEEPING = replace(PLAIN, keep_samples=ASKED)


def all_of(pair: Pair, first: int) -> tuple[np.ndarray, int, int]:
    """Samples from a number on, how many there are, and the frames before the stream."""
    found = b""
    width = 2 * pair.device.identity.sample_numbers
    while True:
        piece = pair.device.read_samples(first + len(found) // width)
        if not piece.raw:
            return np.frombuffer(found, "<i2").reshape(-1, width // 2), piece.total, piece.begun
        found += piece.raw


@pytest.mark.slow
@pytest.mark.draws(1)
@pytest.mark.parametrize("kind", ["rows", "mfcc"])
def test_what_was_heard_is_given_back(projects_root: Path, kind: str) -> None:
    with as_program(project(projects_root, "native", KEEPING, kind)) as device:
        pair = Pair(device, twin(KEEPING, kind), device.restart)
        front = pair.board.ear.front

        @settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
        @given(pieces=st.lists(st.integers(1, 700), max_size=6), seed=st.integers(0, 99))
        def run(pieces: list[int], seed: int) -> None:
            begun = device.begin_stream().begun
            assert begun == device.learnt().frames
            pair.sent, heard = 0, np.zeros((0, front.channels), np.int16)
            for i, count in enumerate(pieces):
                x = noise(front, [(count // front.hop + 2, LOUD)], seed + i)[:count]
                pair.hear(x)
                heard = np.concatenate((heard, x.reshape(-1, front.channels)))
            for first in (0, max(0, len(heard) - KEPT), len(heard) // 2, len(heard)):
                if len(heard) - first > KEPT:
                    pair.refused(Status.NOT_KEPT, device.read_samples, first)
                    assert device.read_samples(first, 0).total == len(heard)
                    continue
                found, total, behind = all_of(pair, first)
                assert (total, behind) == (len(heard), begun)
                assert np.array_equal(found, heard[first:])
            pair.refused(Status.NOT_KEPT, device.read_samples, len(heard) + 1)

        run()


@pytest.mark.draws(1)
@pytest.mark.parametrize("chip", ["nucleo-f446re", "rpi-pico"])
def test_chips_keep_them_in_the_memory_that_was_planned(projects_root: Path, chip: str) -> None:
    folder = project(projects_root, chip, KEEPING, "rows")
    linked = linked_memory(folder)
    assert linked is not None
    assert linked.agrees
    pair = OnChip(folder, twin(KEEPING, "rows"))
    carry_out(pair, [*BURST, ("lesson", 1), ("undo",)])
    assert all_of(pair, 0)[1] == 21 * pair.board.ear.front.hop
    assert pair.device.statistics().stack_used_bytes < pair.device.identity.stack_bytes


@pytest.mark.slow
def test_other_firmware_keeps_none(projects_root: Path) -> None:
    with as_program(project(projects_root, "native", PLAIN)) as device:
        pair = Pair(device, twin(PLAIN), device.restart)
        pair.refused(Status.COMMAND, device.read_samples, 0)

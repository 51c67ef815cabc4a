"""Whatever goes wrong on the way, the trained state is that of an undisturbed run, to the bit.

`make stress` does what CI does on a smaller scale: 1,000 power cuts, 1,000 samples on a bad cable.
"""

from __future__ import annotations

import os

import pytest
from mcutrain_host.virtual.link import LinkFaults

from tests.boards.projects import built, lessons, simulated_state, training_step
from tests.boards.stress import on_a_bad_cable, taught, with_power_cuts

IS_STRESS = bool(os.environ.get("MCUTRAIN_STRESS"))
CUTS = 1000 if IS_STRESS else 25
CUTS_PER_RUN = 50 if IS_STRESS else 25
SAMPLES = 1000 if IS_STRESS else 40
HEAD = "head"  # the smallest state and the shortest step: the most cuts per second
MOST_INSTRUCTIONS = 60_000_000
"""Between two cuts: a few steps and saves, and often less than the first save."""


@pytest.mark.timeout(3600 if IS_STRESS else 600)
@pytest.mark.parametrize("board", ["nucleo-f446re", "rpi-pico"])
def test_power_cuts_lose_and_double_no_step(projects_root, tmp_path, board):
    step = training_step(HEAD)
    folder = built(projects_root, board, step=step)
    done = 0
    for seed in range(CUTS // CUTS_PER_RUN // (2 if IS_STRESS else 1)):
        device, link = with_power_cuts(folder, CUTS_PER_RUN, MOST_INSTRUCTIONS, seed)
        count = 60
        record = taught(device, count, save_every=2, state=tmp_path / f"{seed}.mcts")
        assert link.cuts > 0
        done += link.cuts
        assert record.positions()[-1] == count
        assert device.read_state() == simulated_state(count, HEAD)
        assert (tmp_path / f"{seed}.mcts").read_bytes() == simulated_state(count, HEAD)
        link.machine.power_cut()
        link.machine.power_on()
        assert device.identify().position == count
        assert device.read_state() == simulated_state(count, HEAD)
    print(f"{board}: {done} power cuts")


@pytest.mark.timeout(3600 if IS_STRESS else 600)
def test_a_bad_cable_loses_and_doubles_no_step(projects_root, tmp_path):
    third = 0.001 / 3
    faults = LinkFaults(drop=third, corrupt=third, double=third)
    step = training_step(HEAD)
    device = on_a_bad_cable(built(projects_root, "nucleo-f446re", step=step), faults, seed=1)
    record = taught(device, SAMPLES, save_every=20, state=tmp_path / "state.mcts")
    assert record.positions() == list(range(1, SAMPLES + 1))
    assert device.read_state() == simulated_state(SAMPLES, HEAD)
    assert device.resent > 0
    assert len(lessons()[1]) >= SAMPLES

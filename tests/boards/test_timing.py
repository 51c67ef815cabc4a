"""Firmware that times its nodes: on virtual boards, whose clock counts instructions."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import pytest
from mcutrain_host.client import Device
from mcutrain_host.errors import HostError, RefusedError
from mcutrain_host.manifest import BoardProject
from mcutrain_host.protocol import Rate, Status

from mcutrain import demo, prepare
from mcutrain.codegen import Interface
from mcutrain.cost.counting import count_instructions
from mcutrain.cost.profile import CYCLES, profile_of, timing_of
from mcutrain.cost.timing import NEVER, RATE, time_on_board
from mcutrain.errors import TargetError
from mcutrain.pipeline import TrainingStep
from mcutrain.target import load_target
from tests.boards import projects
from tests.boards.projects import SEED, TWO_BODIES, built, lessons, simulated_state, training_step
from tests.boards.test_same_bits import on_unicorn
from tests.drawing import drawn_by_commit
from tests.simulation.networks import residual_network, samples

STEP_ERROR = 0.05
"""Of the whole step: a timed step begins with other noise, and the best of five counts."""
NODE_ERROR = 0.12
"""Each look at the clock, and what moves rows in a segment that a sample is fed to."""
GRADIENT_ERROR = 0.55
"""What a gradient's zeros, masks and exponent save differs by sample; the best counts."""
TICK_CYCLES = 125
"""Of the RP2040's timer, which counts microseconds."""


@lru_cache(maxsize=2)
def step(stream: str = "off") -> TrainingStep:
    if stream == "max":
        return prepare(demo.network(), "last:2", elastic=True, stream="max")
    return prepare(residual_network(size=16), "last:4", elastic=True)


def timed(root: Path, board: str, stream: str = "off") -> Path:
    timing = timing_of(step(stream).plan, load_target(board).isa)
    return built(root, board, step=step(stream), interface=Interface(timing=timing))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("board", "stream"), [("rpi-pico", "off"), ("nucleo-f446re", "off"), ("nucleo-f446re", "max")]
)
def test_a_board_times_what_its_twin_counts(projects_root: Path, board: str, stream: str) -> None:
    """Also of layers that are computed row by row, inside one another's calls."""
    folder = timed(projects_root, board, stream)
    device, project = on_unicorn(folder), BoardProject.read(folder)
    timing = project.manifest.timing
    assert bool(step(stream).plan.segments) == (stream == "max")
    assert timing == timing_of(step(stream).plan, load_target(board).isa)
    found, unit = time_on_board(device, project)
    assert unit == CYCLES
    counted = count_instructions(step(stream), board)
    names = {node.name for node in timing.nodes}
    assert found.keys() == names
    total = sum(counted[name] for name in names)
    assert abs(sum(found.values()) / total - 1) < STEP_ERROR
    tick = TICK_CYCLES if board == "rpi-pico" else 0
    for node in timing.nodes:  # a microsecond more or less, a call's own instructions
        error = GRADIENT_ERROR if node.needed_by else NODE_ERROR
        expected = counted[node.name]
        assert abs(found[node.name] - expected) < 60 + tick + error * expected, node.name
    profile = profile_of(timing, found, unit)
    assert profile.error is None
    assert 0 < profile.misplaced < 0.2
    device.identify()
    assert device.identity.position == 0  # restarted


def test_times_are_of_the_steps_since_they_were_forgotten(projects_root: Path) -> None:
    folder = timed(projects_root, "nucleo-f446re")
    device = on_unicorn(folder)
    nodes = BoardProject.read(folder).manifest.timing.nodes
    device.reset(1)
    assert device.identity.times_nodes
    assert set(device.read_times(len(nodes))) == {NEVER}
    x, y = samples(step().graph, 1, 4)
    device.send_sample(x[0].tobytes())
    device.infer()
    assert set(device.read_times(len(nodes))) == {NEVER}  # of training steps
    device.send_sample(x[0].tobytes())
    device.train(int(y[0]), 0, RATE)
    once = device.read_times(len(nodes))
    assert all(0 < time < 10**6 for time in once)
    device.send_sample(x[0].tobytes())
    device.train(int(y[0]), 1, RATE)
    assert all(a <= b for a, b in zip(device.read_times(len(nodes)), once, strict=True))
    device.forget_times()
    assert set(device.read_times(len(nodes))) == {NEVER}
    with pytest.raises(HostError, match="answered TIMES with 0 bytes"):
        device.read_times(len(nodes) + 1)


@pytest.mark.parametrize("board", ["rpi-pico", "nucleo-f446re"])
def test_a_timed_step_computes_the_same_bits_in_the_same_stack(
    projects_root: Path, board: str
) -> None:
    device = on_unicorn(timed(projects_root, board))
    device.reset(7)
    simulator = step().simulator(7)
    x, y = samples(step().graph, 3, 4)
    for i in range(3):
        device.send_sample(x[i].tobytes())
        device.train(int(y[i]), i, RATE)
        simulator.train(x[i : i + 1], y[i : i + 1], [RATE])
    assert device.read_state() == simulator.save()
    assert device.statistics().stack_used_bytes < device.identity.stack_bytes


@pytest.mark.slow
@pytest.mark.parametrize(
    ("remember", "board"),
    drawn_by_commit([(count, board) for count in (0, 8) for board in TWO_BODIES], 1),
)
def test_a_timed_step_of_the_demo_fits_the_stack(
    projects_root: Path, board: str, remember: int
) -> None:
    timing = timing_of(training_step().plan, load_target(board).isa)
    interface = Interface(timing=timing, remember=remember)
    device = on_unicorn(built(projects_root, board, interface=interface))
    x, y = lessons()
    device.reset(SEED)
    for i in range(4):
        device.send_sample(x[i].tobytes())
        device.train(int(y[i]), i, Rate(projects.RATE.mult_q31, projects.RATE.shift))
    assert device.read_state() == simulated_state(4)
    assert device.statistics().stack_used_bytes < device.identity.stack_bytes


def test_other_firmware_is_a_sentence(projects_root: Path) -> None:
    board = "nucleo-f446re"
    folder, plain = timed(projects_root, board), built(projects_root, board, step=step())
    other = on_unicorn(plain)
    with pytest.raises(RefusedError) as refused:
        other.read_times(1)
    assert refused.value.status == Status.COMMAND
    with pytest.raises(HostError, match="runs firmware that does not time its nodes: build"):
        time_on_board(other, BoardProject.read(folder))
    with pytest.raises(TargetError, match="does not time its nodes: generate it with --timed"):
        time_on_board(Device(other.link), BoardProject.read(plain))

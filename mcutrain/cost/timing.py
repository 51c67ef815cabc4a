"""What each node of a training step takes, by the clock of the program that runs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.client import Device
from mcutrain_host.errors import HostError
from mcutrain_host.manifest import BoardProject, Timing
from mcutrain_host.protocol import Rate
from mcutrain_host.pull import check_firmware

from mcutrain.codegen import Interface
from mcutrain.cost.profile import CYCLES, NANOSECONDS, timing_of
from mcutrain.errors import TargetError
from mcutrain.ir.difference import drawn_inputs
from mcutrain.pipeline import TrainingStep
from mcutrain.simulation import CompiledSimulator
from mcutrain.simulation.rates import LearningRate

Array = npt.NDArray[Any]
Report = Callable[[str, int, int], None]
"""Called with what is being done, how much of it, and of how much."""

RATE = Rate(1 << 30, -4)
SETTLING_UPDATES = 2
"""Before these the gradients' exponents do not fit, and rare paths of the code are common."""
TIMED_UPDATES = 5
"""Timed updates, of which each node's fastest counts."""
UPDATES_HERE = 400
"""Timed updates on this computer, where other programs disturb more."""
NEVER = 2**32 - 1
NANOSECONDS_HZ = 10**9


def time_on_board(
    device: Device, project: BoardProject, report: Report = lambda what, done, of: None
) -> tuple[Mapping[str, int], str]:
    """Time each node on a board, which trains on noise and restarts. Returns the unit, too.

    Raises TargetError for firmware that does not time its nodes, HostError.
    """
    timing, group = timing_of_project(project), project.manifest.samples_per_update
    identity = device.identify()
    check_firmware(device, project.firmware)
    if not identity.times_nodes:
        raise HostError(
            f"the board at {device.link.name} runs firmware that does not time its nodes: build "
            f"{project.folder} and flash it"
        )
    if identity.clock_hz == 0:
        raise HostError(f"the board at {device.link.name} counts no cycles, so nothing is timed")
    random = np.random.default_rng(0)
    settling, steps = SETTLING_UPDATES * group, (SETTLING_UPDATES + TIMED_UPDATES) * group
    device.reset(1)
    for position in range(steps):
        if position == settling:
            device.forget_times()
        device.send_sample(random.bytes(identity.input_bytes))
        label = bytes(identity.label_bytes) or position % max(identity.classes, 1)
        device.train(label, position, RATE)
        report("timing nodes", position + 1, steps)
    ticks = device.read_times(len(timing.nodes))
    device.restart()
    unit = NANOSECONDS if identity.clock_hz == NANOSECONDS_HZ else CYCLES
    return _by_node(timing, ticks), unit


def timing_of_project(project: BoardProject) -> Timing:
    """Raises TargetError if its program does not time its nodes."""
    if project.manifest.timing is None:
        raise TargetError(
            f"the firmware of {project.folder} does not time its nodes: generate it with --timed"
        )
    return project.manifest.timing


def time_here(
    step: TrainingStep, portable: bool = False, report: Report = lambda what, done, of: None
) -> Mapping[str, int]:
    """Nanoseconds of the step's C on this computer by node; the front is computed, too."""
    plan, timing = step.plan, timing_of(step.plan, "host")
    project = step.library(Interface(timing=timing))
    simulator = CompiledSimulator(plan, portable=portable, project=project)
    group, random = plan.training.accumulate, np.random.default_rng(0)
    rates = [LearningRate(RATE.mult_q31, RATE.shift)] * group
    for update in range(SETTLING_UPDATES + UPDATES_HERE):
        if update == SETTLING_UPDATES:
            simulator.forget_times()
        x = drawn_inputs(plan.training.forward, plan.training.x, random, group)
        simulator.train(x, np.arange(update, update + group) % plan.training.classes, rates)
        report("timing nodes", update + 1, SETTLING_UPDATES + UPDATES_HERE)
    return _by_node(timing, simulator.fewest_ticks(len(timing.nodes)))


def _by_node(timing: Timing, ticks: Sequence[int]) -> Mapping[str, int]:
    """Return ticks of a mean step, by the fewest in which a node runs; 0 if it never did."""
    return {
        node.name: 0 if fewest == NEVER else round(fewest / node.every)
        for node, fewest in zip(timing.nodes, ticks, strict=True)
    }

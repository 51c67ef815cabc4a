"""Instructions of a training step, node by node, counted on the virtual board."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.build import build
from mcutrain_host.client import Device
from mcutrain_host.manifest import BoardProject
from mcutrain_host.protocol import Rate
from mcutrain_host.virtual.counter import OperatorCount
from mcutrain_host.virtual.errors import VirtualBoardError, check_installed

from mcutrain.autodiff.train_graph import TrainGraph
from mcutrain.codegen.program import stage_function
from mcutrain.cost.instructions import nodes_of
from mcutrain.errors import TargetError
from mcutrain.ir.difference import drawn_inputs
from mcutrain.memplan import TrainingPlan
from mcutrain.pipeline import TrainingStep
from mcutrain.target import Target, load_target

Array = npt.NDArray[Any]
Report = Callable[[str, int, int], None]
"""Called with what is being done, how much of it, and of how much."""

TRAIN, FEED, COMPUTE = "mct_train", "mct_feed", "mct_segment_compute"
RATE = Rate(1 << 30, -4)
SETTLING_UPDATES = 2
"""Before these the gradients' exponents do not fit, and rare paths of the code are common."""
COUNTED_UPDATES = 4
MOST_CALLS = 1022
"""Rows that counter.c has for a root, less its own code and the last, which collects the rest."""


def count_instructions(
    step: TrainingStep,
    board: str | Path | Target,
    folder: Path | None = None,
    samples: tuple[Array, Array] | None = None,
    report: Report = lambda what, done, of: None,
) -> Mapping[str, int]:
    """Executed instructions of one training step by the node's name, as `estimate` gives them.

    The moving of rows from node to node counts with the last node of their segment, as on a board's
    clock. Where the sample is fed row by row, it counts with the first.

    The mean of COUNTED_UPDATES steps: what a gradient's zeros and the sums' sizes save differs a
    little from sample to sample. folder: where the project is generated and built, unless it lies
    there built already; None is a temporary one. samples: int8 inputs [n, …] and their labels,
    used in turn; None is noise.

    Raises TargetError for a board without an emulator, PlanError if the step does not fit it,
    and mcutrain_host's HostError (no compiler, no emulator: the sentence says which).
    """
    target = board if isinstance(board, Target) else load_target(board)
    training = step.plan.training
    if "unicorn" not in target.values.get("emulate", {}):
        raise TargetError(
            f"{target.name} has no virtual board to count instructions on; use one whose "
            "board.toml has `unicorn` under [emulate], as nucleo-f446re"
        )
    check_installed()
    if folder is None:
        with tempfile.TemporaryDirectory() as scratch:
            return count_instructions(step, target, Path(scratch) / "project", samples, report)
    _built(step, target, folder, report)
    return _counts(step.plan, folder, samples or noise(training), report)


def _built(step: TrainingStep, target: Target, folder: Path, report: Report) -> None:
    """Generate and build, unless that is what lies there."""
    project = step.firmware(target)
    manifest = folder / "manifest.json"
    is_same = manifest.is_file() and manifest.read_text() == project.files[manifest.name]
    if not is_same or not BoardProject.read(folder).elf.is_file():
        project.write(folder)
        build(folder, progress=lambda done, of: report("compiling for the board", done, of))


def noise(training: TrainGraph) -> tuple[Array, Array]:
    """Eight samples without meaning."""
    random = np.random.default_rng(0)
    x = drawn_inputs(training.forward, training.x, random, 8)
    if not training.positions:
        return x, np.arange(8) % training.classes
    if training.takes_targets:
        dtype = training.label_type.dtype
        labels = random.integers(-128, 128, (8, *training.positions)).astype(dtype)
        for of in training.label_ranges:
            labels[:, of.first : of.first + of.count] %= of.classes
        return x, labels
    labels = random.integers(0, training.classes, (8, *training.positions))
    return x, labels.astype(np.uint8)


def _counts(
    plan: TrainingPlan, folder: Path, samples: tuple[Array, Array], report: Report
) -> Mapping[str, int]:
    """Run a built project."""
    from mcutrain_host.virtual.board import DirectLink, load_machine
    from mcutrain_host.virtual.link import LoopbackLink

    machine = load_machine(folder, LoopbackLink())
    device = Device(DirectLink(machine))
    steps = run_counted(device, plan.training, samples, machine.cpu.counter.clear, report)
    return by_node(plan, machine.operators(), steps)


def run_counted(
    device: Device,
    training: TrainGraph,
    samples: tuple[Array, Array],
    forget: Callable[[], None],
    report: Report = lambda what, done, of: None,
) -> int:
    """Train a board that has just started. Returns the steps since `forget` was called."""
    device.identify()
    settling = SETTLING_UPDATES * training.accumulate
    counted = COUNTED_UPDATES * training.accumulate
    x, labels = samples
    for i in range(settling + counted):
        if i == settling:
            forget()
        device.send_sample(x[i % len(x)].tobytes())
        label = labels[i % len(x)]
        device.train(label.tobytes() if training.positions else int(label), i, RATE)
        report("counting instructions", i + 1, settling + counted)
    return counted


def by_node(plan: TrainingPlan, rows: Sequence[OperatorCount], steps: int) -> Mapping[str, int]:
    """The n-th call is the n-th node or segment that has code: how mct_train is generated."""
    kernels = nodes_of(plan.training)
    expected = _calls(plan, kernels)
    if len(expected) > MOST_CALLS:
        raise TargetError(f"the step makes {len(expected)} calls; at most {MOST_CALLS} are counted")
    calls = [row for row in rows if row.root == TRAIN and row.index > 0]
    if [function for _, function in expected] != [row.function for row in calls]:
        raise VirtualBoardError(
            "the firmware's calls are not those of the training step; was the folder built from "
            "another one?"
        )
    total = dict.fromkeys(kernels, 0)
    for (name, _), row in zip(expected, calls, strict=True):
        total[name] += row.instructions
    for number, segment in enumerate(plan.segments):
        for place, stage in enumerate(segment.stages):
            root = stage_function(number, place)
            total[stage.node.name] += sum(row.instructions for row in rows if row.root == root)
        if segment.is_fed:
            total[segment.name] += sum(row.instructions for row in rows if row.root == FEED)
    return {name: round(n / steps) for name, n in total.items()}


def _calls(plan: TrainingPlan, kernels: Mapping[str, str]) -> list[tuple[str, str]]:
    """(node, function) of all that mct_train calls; a segment stands under its last node."""
    segments = {name: segment for segment in plan.segments for name in segment.nodes}
    found = []
    for name, function in kernels.items():
        segment = segments.get(name)
        if segment is None and function:
            found.append((name, function))
        elif segment is not None and name == segment.name and not segment.is_fed:
            found.append((segment.stages[-1].node.name, COMPUTE))
    return found

"""How often gradients are zero, and what skipping that would save at most.

    .venv/bin/python benchmarks/zero_gradients.py --shared ../shared [--board rpi-pico]

Each network trains in the generated C at the rate that --lr auto finds; at some steps of the run
numpy repeats the next --samples ones and looks at every int8 gradient tensor that a node of the
backward pass reads. zero: elements; channels and positions: those whose elements are all zero, of a
tensor; tensors: those all of whose elements are. Means over tensors, weighted by the instructions
that their readers execute on the virtual --board. A reader cannot save more than that share of its
instructions by leaving out zero channels (positions, tensors), so the last columns say what a step
could lose, before any test for zeros is paid: of the better of both for each node; of zero channels
in updates of weights alone, whose rows they are; and of whole tensors.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from accuracy import DATA, MODEL
from rich.console import Console
from rich.table import Table

from mcutrain import data, demo, prepare
from mcutrain.cost.counting import count_instructions
from mcutrain.ir.graph import Graph, Node
from mcutrain.ir.interpret import interpret
from mcutrain.memplan import find_latent, latents
from mcutrain.ops.training import ParameterGradientOp
from mcutrain.pipeline import TrainingStep
from mcutrain.runs.training import prepare_run
from mcutrain.simulation import LatentReference, PlannedReference, Run, RunSettings

Array = npt.NDArray[np.int8]
LEAST_COVERED = 0.9
"""Share of the backward pass that has to be in the readers; the rest copies and merges."""
MOMENTS = (100, 500, 2000)
"""Steps after which gradients are looked at."""


@dataclass(frozen=True)
class Zeros:
    """Shares of a gradient tensor's elements, channels and positions; tensors: 0 or 1."""

    elements: float
    channels: float
    positions: float
    tensors: float

    @staticmethod
    def of(gradient: Array) -> Zeros:
        """The last axis is the channels'."""
        is_zero = (gradient == 0).reshape(-1, gradient.shape[-1])
        return Zeros(
            float(is_zero.mean()),
            float(is_zero.all(axis=0).mean()),
            float(is_zero.all(axis=1).mean()),
            float(is_zero.all()),
        )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shared", default=os.environ.get("MCUTRAIN_SHARED", "../shared"))
    parser.add_argument("--board", default="stm32f746g-disco")
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--only", default="", help="part of a network's name")
    arguments = parser.parse_args()
    table = Table(
        "network", "step", "zero", "channels", "positions", "tensors", "M instructions", "backward",
        "at most", "rows", "tensors",
    )  # fmt: skip
    for name, step, split in cases(Path(arguments.shared)):
        if arguments.only in name:
            for row in rows(step, split, arguments.board, arguments.samples):
                print(name, *row, sep="  ", flush=True)
                table.add_row(name, *row)
    Console(width=130).print(table)


def cases(shared: Path) -> Iterator[tuple[str, TrainingStep, data.Split]]:
    """Networks and what they learn."""
    size = demo.Size()
    fashion = demo.deployed(demo.upright(size))
    for scheme in ("fashion-sparse", "full"):
        yield f"demo, {scheme}", demo.training_step(demo.network(), scheme), fashion
    words = data.load(shared / "data/kws01.npz")
    network = shared / "models/kws_ref_model.tflite"
    yield "kws_ref_model, full", prepare(network, "full", classes=12), words
    images = data.load(shared / DATA)
    step = prepare(shared / MODEL, "mcunet-5fps-49kb", classes=10)
    yield "mcunet-5fps, 49 KB", step, images


def rows(step: TrainingStep, split: data.Split, board: str, count: int) -> Iterator[list[str]]:
    """One for each moment of the run."""
    counted = count_instructions(step, board)
    run = prepare_run(step, split, RunSettings(1), simulator=lambda: step.simulator(1))
    whole = sum(counted.values())
    later = step.plan.training.graph.nodes[step.plan.training.loss_step + 1 :]
    backward = sum(counted.get(node.name, 0) for node in later)
    done = 0
    for moment in MOMENTS:
        if moment > run.total - count:
            return
        train(run, done, moment - done)
        done = moment
        found = [zeros_at(step, run, moment + i) for i in range(count)]
        weights, means, is_row = [], [], []
        for node in later:
            dy = read_gradient(step.plan.training.graph, node)
            if dy is not None and counted.get(node.name, 0):
                values = [found[i][dy] for i in range(count)]
                weights.append(counted[node.name])
                is_row.append(isinstance(node.op, ParameterGradientOp))
                means.append([_mean(values, f) for f in Zeros.__dataclass_fields__])
        share = np.average(np.array(means), axis=0, weights=weights)
        table = np.array(means)
        assert sum(weights) > LEAST_COVERED * backward
        most = (np.maximum(table[:, 1], table[:, 2]) * weights).sum()
        in_rows = (table[:, 1] * weights * np.array(is_row)).sum()
        tensors = (table[:, 3] * weights).sum()
        yield [
            f"{moment:,}",
            *(f"{value:.1%}" for value in share),
            f"{whole / 1e6:.2f}",
            f"{backward / whole:.0%}",
            f"{most / whole:.2%}",
            f"{in_rows / whole:.2%}",
            f"{tensors / whole:.2%}",
        ]


def read_gradient(graph: Graph, node: Node) -> str | None:
    """The gradient that a node of the backward pass reads first: its exponent comes behind it."""
    pairs = zip(node.inputs, node.inputs[1:], strict=False)
    found = (a for a, b in pairs if graph.tensors[b].type.dtype == "exponent")
    return next((name for name in found if graph.tensors[name].type.dtype == "int8"), None)


def _mean(values: list[Zeros], field: str) -> float:
    return float(np.mean([getattr(value, field) for value in values]))


def train(run: Run, first: int, count: int) -> None:
    """Steps of the run in the generated C."""
    index, epoch = run.course.indices(first, count)
    x = run.samples.train(index, epoch, run.settings.seed)
    rates = [run.course.rates.at(first + i) for i in range(count)]
    run.simulator.train(x, run.samples.split.train.y[index], rates)


def zeros_at(step: TrainingStep, run: Run, position: int) -> dict[str, Zeros]:
    """Count zeros in all gradients that a step would compute from the run's state."""
    reference = PlannedReference(step.plan)
    x, label = run.course.at(position)
    if latents(step.plan):
        begin = LatentReference(step.plan, find_latent(step.plan))
        x, reference = begin.front(x[np.newaxis])[0], begin
    reference.load(run.simulator.save())
    training, rate = reference.training, run.course.rates.at(position)
    later = training.graph.nodes[training.loss_step + 1 :]
    names = {name for node in later if (name := read_gradient(training.graph, node)) is not None}
    inputs = {
        training.x: x.reshape(training.graph.tensors[training.x].type.shape),
        training.label: np.array([label], np.int32),
        training.step: np.array(
            [reference.key, reference.update, reference.sample, rate.mult_q31, rate.shift]
        ),
        **reference.state,
    }
    found = interpret(training.graph, inputs, names)
    return {name: Zeros.of(value) for name, value in found.items()}


if __name__ == "__main__":
    main()

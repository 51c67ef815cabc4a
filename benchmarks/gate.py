"""What the gate saves, and what that costs: accuracy against executed instructions.

    .venv/bin/python benchmarks/gate.py --shared ../shared --seeds 3 [--cases demo cifar]

The demo (its network under fashion-sparse, its data and epochs), and mcunet-5fps under its 49 KB
scheme with a new head on CIFAR-10: --samples images, --epochs epochs. For each alpha the same
samples in the same order, at the rate that --lr auto finds with that gate. Beside it what no gate
is needed for: the same run without one, of whose steps a share, drawn at random, is left out as a
whole, forward pass included; once with as many samples learnt as with the gate, once with as many
instructions.

M instructions: of one step on the virtual --board, executed; a step that learns, and one that is
skipped, from the sample and from its latent, weighted by how many there were. total: of the run,
from the latents with every front computed once.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from accuracy import DATA, MODEL
from rich.console import Console
from rich.table import Table

from mcutrain import data, demo, pipeline, prepare
from mcutrain.cost.counting import count_instructions
from mcutrain.ir.graph import Graph
from mcutrain.memplan import find_latent
from mcutrain.pipeline import TrainingStep
from mcutrain.runs.training import fastest_simulator, prepare_run
from mcutrain.simulation import Run, RunSettings

ALPHAS = (0.0, 0.5, 0.8, 1.0)
COMPARED = ALPHAS[1:]
"""Beside which steps are left out at random."""
CHUNK = 32


@dataclass(frozen=True)
class Instructions:
    """Instructions of one step.

    front: up to the latent. skipped: up to the loss and the gate.
    """

    whole: float
    skipped: float
    front: float

    def mean(self, share: float, front: bool = True) -> float:
        """share: of steps that are skipped."""
        found = self.skipped * share + self.whole * (1 - share)
        return found if front else found - self.front


@dataclass(frozen=True)
class Found:
    """Result of one run.

    learnt: steps that trained. seen: steps that were computed at all, of `steps`.
    """

    accuracy: float
    rate: float | None
    learnt: int
    seen: int
    steps: int

    @property
    def skipped_share(self) -> float:
        """Share of the computed steps that trained nothing."""
        return 1 - self.learnt / self.seen


@dataclass(frozen=True)
class Case:
    """What is trained on what. classes: of a new head. rate: None is to be found."""

    name: str
    model: Graph
    scheme: str
    split: data.Split
    epochs: int
    board: str
    classes: int | None = None
    rate: float | None = None

    def step(self, alpha: float | None, seed: int) -> TrainingStep:
        """The planned step."""
        return prepare(self.model, self.scheme, classes=self.classes, head_seed=seed, gate=alpha)

    def run(self, alpha: float | None, seed: int) -> tuple[TrainingStep, Run]:
        """A run that has not begun, at the rate that its trials find."""
        step = self.step(alpha, seed)
        settings = RunSettings(self.epochs, self.rate, seed=seed, test_every=0)
        made = fastest_simulator(step, self.split, settings)
        return step, prepare_run(step, self.split, settings, simulator=lambda: made)

    def gated(self, alpha: float | None, seed: int) -> Found:
        """With a gate, or all of it."""
        _, run = self.run(alpha, seed)
        state = run.train()
        skipped = sum(epoch.skipped or 0 for epoch in state.epochs)
        accuracy = state.epochs[-1].test_accuracy
        assert accuracy is not None
        rate, learnt = run.settings.learning_rate, run.total - skipped
        return Found(100 * accuracy, rate, learnt, run.total, run.total)

    def drawn(self, share: float, seed: int) -> Found:
        """Without a gate; of the steps this share, at random."""
        _, run = self.run(None, seed)
        course, random, learnt = run.course, np.random.default_rng(1000 + seed), 0
        position = 0
        while position < run.total:
            index, epoch = course.indices(position, CHUNK)
            taken = np.flatnonzero(random.random(len(index)) < share)
            rates = [course.rates.at(position + int(i)) for i in taken]
            x = run.samples.train(index[taken], epoch, seed)
            run.simulator.train(x, self.split.train.y[index[taken]], rates)
            position, learnt = position + len(index), learnt + len(taken)
        return Found(100 * run.evaluate(), run.settings.learning_rate, learnt, learnt, run.total)

    @cached_property
    def instructions(self) -> Instructions:
        """Count steps that all learn; a skipped one ends with the node that computes the loss."""
        step = self.step(None, 0)
        counted, training = count_instructions(step, self.board), step.plan.training
        names = [node.name for node in training.graph.nodes]
        latent = find_latent(step.plan)

        def until(position: int) -> int:
            return sum(counted.get(name, 0) for name in names[:position])

        whole = sum(counted.values())
        return Instructions(whole, until(training.loss_step + 1), until(latent.position))


def main() -> None:
    """Train, and print a table for each case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shared", default=os.environ.get("MCUTRAIN_SHARED", "../shared"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--samples", type=int, default=2000, help="of CIFAR-10")
    parser.add_argument("--epochs", type=int, default=2, help="of CIFAR-10")
    parser.add_argument("--lr", type=float, help="of CIFAR-10, instead of --lr auto")
    parser.add_argument("--board", default="stm32f746g-disco")
    parser.add_argument("--cases", nargs="+", default=["demo", "cifar"])
    arguments = parser.parse_args()
    for name in arguments.cases:
        case = demo_case(arguments.board) if name == "demo" else cifar_case(arguments)
        Console(width=130).print(table_of(case, range(arguments.seeds)))


def demo_case(board: str) -> Case:
    """As `mcutrain demo` trains it, but for the rate."""
    split = demo.deployed(demo.upright(demo.Size()))
    return Case("demo", demo.network(), "fashion-sparse", split, demo.SETTINGS.epochs, board)


def cifar_case(arguments: argparse.Namespace) -> Case:
    """As benchmarks/accuracy.py trains it, but for rate and augmentation."""
    shared = Path(arguments.shared)
    split = data.load(shared / DATA)
    split = data.Split(split.train.subset(arguments.samples), split.test)
    graph = pipeline.load(shared / MODEL)
    board, epochs = arguments.board, arguments.epochs
    return Case("cifar", graph, "mcunet-5fps-49kb", split, epochs, board, 10, arguments.lr)


def table_of(case: Case, seeds: Sequence[int]) -> Table:
    """Make the table of all rows."""
    cost = case.instructions
    table = Table(
        "steps", "rates", "learnt", "top-1 %", "to the first", "M instructions", "total G",
        "from latent", "total G",
        title=f"{case.name}: {case.scheme}, {case.epochs} epochs of {len(case.split.train):,}, "
        f"{len(seeds)} seeds, {case.board}: {cost.whole / 1e6:.2f} M a step, "
        f"{cost.skipped / 1e6:.2f} M skipped, {cost.front / 1e6:.2f} M before the latent",
    )  # fmt: skip
    first = [case.gated(None, seed) for seed in seeds]

    def add(name: str, found: Sequence[Found]) -> None:
        table.add_row(name, *_cells(case, found, first))
        print(name, *_cells(case, found, first), sep="  ", flush=True)

    add("all", first)
    gated = {}
    for alpha in ALPHAS:
        gated[alpha] = [case.gated(alpha, seed) for seed in seeds]
        add(f"gate {alpha:g}", gated[alpha])
    for alpha in COMPARED:
        shares = [found.learnt / found.steps for found in gated[alpha]]
        alike = [cost.mean(found.skipped_share) / cost.whole for found in gated[alpha]]
        for text, wanted in (
            (f"random, learnt as {alpha:g}", shares),
            ("… instructions", alike),
        ):
            drawn = [case.drawn(s, seed) for s, seed in zip(wanted, seeds, strict=True)]
            add(text, drawn)
    return table


def _cells(case: Case, found: Sequence[Found], first: Sequence[Found]) -> list[str]:
    cost = case.instructions
    accuracy = np.array([f.accuracy for f in found])
    change = accuracy - np.array([f.accuracy for f in first])
    fronts = len(case.split.train) * cost.front

    def total(f: Found, front: bool) -> float:
        return f.seen * cost.mean(f.skipped_share, front)

    whole = np.mean([total(f, True) for f in found])
    tail = np.mean([total(f, False) for f in found])
    steps = np.mean([f.steps for f in found])
    return [
        ", ".join(f"{f.rate:g}" for f in found),
        f"{np.mean([f.learnt / f.steps for f in found]):.1%}",
        _with_error(accuracy),
        "" if found is first else _with_error(change, "+"),
        f"{whole / steps / 1e6:.2f}",
        f"{whole / 1e9:.1f}",
        f"{tail / steps / 1e6:.2f}",
        f"{(tail + fronts) / 1e9:.1f}",
    ]


def _with_error(values: np.ndarray, sign: str = "") -> str:
    if len(values) < 2:
        return f"{values.mean():{sign}.2f}"
    return f"{values.mean():{sign}.2f} ± {values.std(ddof=1) / len(values) ** 0.5:.2f}"


if __name__ == "__main__":
    main()

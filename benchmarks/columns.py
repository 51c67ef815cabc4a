"""Resampled columns against fixed ones at equal SRAM: accuracy on CIFAR-10, several seeds.

    .venv/bin/mcutrain analyze ../shared/models/mcunet-5fps.int8.tflite \
        --data ../shared/data/cifar10_10k2k.npz --by gradient -o analysis.json
    .venv/bin/python benchmarks/columns.py --shared ../shared --analysis analysis.json

mcunet-5fps as benchmarks/accuracy.py trains it, at the SRAM of two published schemes. `published`:
the scheme, with the columns of the largest norms, or the same layers and shares with other columns
in every epoch, or in every quarter of one: drawn, or after their turns those that moved most
(`fisher`). `ranked`: TraDy (arXiv 2510.19675): as many layers as fit, each with the same share of
its columns, in the order of their squared gradients per byte of weights and activations, over the
published scheme's biases; with and without resampling.

--episodes: the demo's network instead, on few-shot episodes, with columns that are fixed, drawn,
and chosen after TinyTrain (`fisher`). --cost: what a draw takes on virtual boards.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from mcutrain_host.build import build
from mcutrain_host.client import Device
from mcutrain_host.protocol import Rate
from mcutrain_host.virtual.board import DirectLink, load_machine
from mcutrain_host.virtual.link import LoopbackLink
from rich.console import Console
from rich.table import Table

from mcutrain import data, demo, prepare
from mcutrain.features.resampling.turns import ResamplingTurns
from mcutrain.ir.graph import Graph
from mcutrain.pipeline import TrainingStep, load
from mcutrain.quant import replace_head
from mcutrain.selection.contribution import read_contributions
from mcutrain.simulation import Run, RunSettings, Samples
from mcutrain.sparse import UpdateScheme, find_head, layers_of, parse_scheme
from mcutrain.target import load_target

MODEL = "models/mcunet-5fps.int8.tflite"
DATA = "data/cifar10_10k2k.npz"
TRAIN_IMAGES = 4000
BUDGETS = ("49", "100")
BOARDS = ("mps2-an386", "rpi-pico")
DEMO_SCHEMES = ("22:0.25,19:0.25,16:0.25,13:0.25,bias:12", "22:0.125,19:0.125,16:0.125,bias:12")


@dataclass(frozen=True)
class Row:
    """Which layers, how often columns are drawn in an epoch, and ranked layers' share.

    rule: of mcutrain.sparse.columns, for rows with draws.
    """

    way: str
    draws: int = 0
    share: float = 0.0
    rule: str = "drawn"


ROWS = (
    Row("published"),
    Row("published", 1),
    Row("published", 4),
    Row("ranked", 0, 0.125),
    Row("ranked", 1, 0.125),
    Row("ranked", 0, 0.25),
    Row("ranked", 1, 0.25),
    Row("published", 4, rule="fisher"),
)


def main() -> None:
    """Print a line for each run, then the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shared", default=os.environ.get("MCUTRAIN_SHARED", "../shared"))
    parser.add_argument("--analysis", type=Path, help="by gradient, for ranked layers")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--budgets", nargs="+", default=BUDGETS)
    parser.add_argument("--rows", type=int, nargs="+", help="only these, counted from 0")
    parser.add_argument("--episodes", type=int, default=0, help="of 5 ways and 5 shots")
    parser.add_argument("--cost", action="store_true")
    options = parser.parse_args()
    if options.episodes:
        few_shot(options.episodes)
    if options.cost:
        for board in BOARDS:
            print(f"{board}: {cost(board):,} instructions of a draw")
    if not options.episodes and not options.cost:
        on_cifar(options)


def on_cifar(options: argparse.Namespace) -> None:
    """The table of the published budgets."""
    shared, console = Path(options.shared), Console()
    graph, split = load(shared / MODEL), data.load(shared / DATA)
    split = data.Split(split.train.subset(TRAIN_IMAGES), split.test)
    fisher = {}
    if options.analysis:
        gains = read_contributions(options.analysis, graph).gain("fisher")
        fisher = {i: by[1.0] for i, by in gains.weights.items()}
    heads = ("budget", "layers", "share", "draws an epoch", "columns", "SRAM", "top-1 %")
    table = Table(*heads, "± of the mean")
    for budget in options.budgets:
        published = parse_scheme(f"mcunet-5fps-{budget}kb")
        limit = prepared(graph, published, 0, Row("published")).plan.sram_bytes
        for number, row in enumerate(ROWS):
            if (options.rows and number not in options.rows) or (row.share and not fisher):
                continue
            scheme = published
            if row.way == "ranked":
                scheme = ranked(graph, published, fisher, row.share, limit)
                console.print(f"{budget} KB, ranked, {row.share}: {sorted(scheme.weights)}")
            found = []
            for seed in range(options.seeds):
                step = prepared(graph, scheme, seed, row)
                found.append(100 * train(step, split, row, seed))
                console.print(f"{budget} KB, {row}, seed {seed}: {found[-1]:.2f} %")
            error = np.std(found, ddof=1) / len(found) ** 0.5 if len(found) > 1 else 0.0
            columns = row.rule if row.draws else ""
            texts = (f"{step.plan.sram_bytes:,}", f"{np.mean(found):.2f}", f"{error:.2f}")
            table.add_row(
                f"{budget} KB", row.way, f"{row.share:g}", f"{row.draws}", columns, *texts
            )
    console.print(table)


def prepared(graph: Graph, scheme: UpdateScheme, seed: int, row: Row) -> TrainingStep:
    """With a new head of ten classes."""
    return prepare(graph, scheme, classes=10, head_seed=seed, swap=row.rule if row.draws else "")


def ranked(
    graph: Graph, published: UpdateScheme, fisher: dict[int, float], share: float, limit: int
) -> UpdateScheme:
    """The best layers per byte, each with this share, as many as the SRAM holds with resampling."""
    head = find_head(graph)
    per_byte = {}
    for layer in layers_of(graph, head):
        weight = graph.tensors[layer.weight].type
        (node,) = (n for n in graph.nodes if layer.weight in n.inputs)
        is_pointwise = weight.shape[0] > 1 and weight.shape[1:3] == (1, 1)
        if layer.index in fisher and is_pointwise:
            read = graph.tensors[node.inputs[0]].type.size_bytes
            per_byte[layer.index] = fisher[layer.index] / (weight.size_bytes + read)
    chosen: dict[str, float] = {}
    for index in sorted(per_byte, key=lambda i: -per_byte[i]):
        weights = {**chosen, str(index): share}
        scheme = replace(published, name="ranked", weights=weights)
        if sram(graph, scheme) <= limit:
            chosen = weights
    return replace(published, name="ranked", weights=chosen)


def sram(graph: Graph, scheme: UpdateScheme) -> int:
    """Plan arena and state with resampling, in bytes."""
    ten = replace_head(graph, find_head(graph).node, 10)
    return prepare(ten, scheme, swap="drawn").plan.sram_bytes


def train(step: TrainingStep, split: data.Split, row: Row, seed: int) -> float:
    """Final accuracy."""
    settings = RunSettings(4, 0.1 / 256, seed=seed, flip=True, test_every=0)
    x = step.input_type
    samples = Samples.prepare(split, x.shape[1:], x.scale, x.zero_point, settings)
    every = len(split.train) // row.draws if row.draws else 0
    run = Run(
        step.simulator(seed=seed + 1),
        samples,
        settings,
        turns=[ResamplingTurns(every)] if every else [],
    )
    return run.train().epochs[-1].test_accuracy


def few_shot(episodes: int) -> None:
    """Accuracy on the same episodes: 20 epochs of 25 images, a draw every 25 steps or 50."""
    graph, split = load(demo.MODEL), data.load(demo.IMAGES)
    table = Table("scheme", "columns", "steps of a turn", "SRAM", "top-1 %", "± 95 %")
    for scheme in DEMO_SCHEMES:
        for rule, every in (("", 0), ("drawn", 25), ("drawn", 50), ("fisher", 25), ("fisher", 50)):
            found = []
            for seed in range(episodes):
                drawn = data.Episodes(5, 5, episodes).draw(split, seed)
                step = prepare(graph, scheme, classes=5, head_seed=seed, swap=rule)
                settings = RunSettings(20, 0.03, seed=seed, test_every=0)
                x = step.input_type
                shape = (x.shape[1:], x.scale, x.zero_point)
                samples = Samples.prepare(drawn, *shape, settings)
                run = Run(
                    step.simulator(seed=seed + 1),
                    samples,
                    settings,
                    turns=[ResamplingTurns(every)] if every else [],
                )
                found.append(100 * run.train().epochs[-1].test_accuracy)
            error = 1.96 * np.std(found, ddof=1) / len(found) ** 0.5
            sram = f"{step.plan.sram_bytes:,}"
            row = (scheme, rule or "fixed", f"{every or ''}", sram, f"{np.mean(found):.2f}")
            table.add_row(*row, f"{error:.2f}")
            Console().print(" ".join(row), f"{error:.2f}")
    Console().print(table)


def cost(board: str) -> int:
    """Instructions of a draw: what each column is worth, the save, and the draw."""
    step = prepare(load(demo.MODEL), DEMO_SCHEMES[0], swap="fisher")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "project"
        step.firmware(load_target(board)).write(folder)
        build(folder, None, "-O3")
        machine = load_machine(folder, LoopbackLink())
        device = Device(DirectLink(machine))
    x = np.random.default_rng(0).integers(-128, 128, device.identify().input_bytes, np.int8)
    for position in range(device.reset(1), 4):
        device.send_sample(x.tobytes())
        device.train(0, position, Rate(1 << 30, -4))
    before = machine.instructions
    device.resample(4)
    shelf = step.plan.shelf_bytes
    print(f"{board}: a shelf of {shelf:,} bytes, a state of {step.plan.state_bytes:,}")
    return machine.instructions - before


if __name__ == "__main__":
    main()

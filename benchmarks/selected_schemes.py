"""Selected against published update schemes at equal SRAM: accuracy on CIFAR-10, several seeds.

    .venv/bin/python benchmarks/selected_schemes.py --shared ../shared --analysis analysis.json

For the true SRAM (arena and trainable state) of each published scheme for mcunet-5fps, the scheme
that `mcutrain select` finds under the same limit; both trained as benchmarks/accuracy.py does it.
The analysis, and the finalists if there are any, see training images only:

    .venv/bin/mcutrain analyze ../shared/models/mcunet-5fps.int8.tflite \
        --data ../shared/data/cifar10_10k2k.npz --epochs 6 -o analysis.json

--rate: that all are trained at, times 1/256. --joint-rate: that the measure `joint` is taken at,
instead of the analysis' own.

--many-classes: the 100 classes of benchmarks/many_classes.py instead, 5 epochs of 5,000 images at a
rate of 0.3/256, tested on the 5,000 other training images; the analysis is by gradient, of 2,000 of
those that are trained on, and kept in the file.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from pathlib import Path
from statistics import mean

import many_classes
import numpy as np
from accuracy import DATA, MODEL, RATE, Case, train
from joblib import Parallel, delayed
from rich.console import Console
from rich.table import Table

from mcutrain import data, pipeline
from mcutrain.analysis.gradient import GradientSettings, by_gradient
from mcutrain.analysis.problem import Problem, held_out
from mcutrain.analysis.trial import TrialSettings
from mcutrain.cost.schemes import cost_model
from mcutrain.experiments.finalists import part, trained
from mcutrain.experiments.parallel import Lesson
from mcutrain.pipeline import StepOptions
from mcutrain.quant import replace_head
from mcutrain.selection.contribution import Contributions, read_contributions
from mcutrain.selection.cost import Limits
from mcutrain.selection.proposals import Proposal, propose
from mcutrain.selection.result import Selection
from mcutrain.selection.select import Selector
from mcutrain.simulation import RunSettings
from mcutrain.sparse import find_head, parse_scheme

BUDGETS = ("49", "74", "100", "124", "148")
CLASSES = 10
TRAIN_IMAGES = 4000
MANY_IMAGES, MANY_EPOCHS, MANY_RATE = 10_000, 5, 0.3 / 256


def main() -> None:
    """Select, train everything, print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shared", default=os.environ.get("MCUTRAIN_SHARED", "../shared"))
    parser.add_argument("--analysis", type=Path, required=True)
    parser.add_argument("--measure")
    parser.add_argument("--budgets", nargs="+", default=BUDGETS)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--finalists", type=int, default=0)
    parser.add_argument("--select-only", action="store_true")
    parser.add_argument("--rate", type=float, default=256 * RATE)
    parser.add_argument("--joint-rate", type=float)
    parser.add_argument("--many-classes", action="store_true")
    options = parser.parse_args()
    shared = Path(options.shared)
    if options.many_classes and not options.analysis.exists():
        analysis_of_many(shared).write(options.analysis)
    pairs = select(shared, options)
    if not options.select_only:
        compare(shared, pairs, options)


def select(shared: Path, options: argparse.Namespace) -> dict[str, tuple[str, str, int]]:
    """Budget → published scheme's name, selected scheme's file, SRAM bytes of the published one."""
    graph = pipeline.load(shared / MODEL)
    contributions = read_contributions(options.analysis, graph).smoothed()
    if options.joint_rate is not None:
        contributions = at_rate(contributions, options.joint_rate / 256)
    graph = replace_head(graph, find_head(graph).node, contributions.classes)
    costs = cost_model(graph)
    pairs = {}
    for budget in options.budgets:
        published = f"mcunet-5fps-{budget}kb"
        sram_bytes = pipeline.prepare(graph, parse_scheme(published)).plan.sram_bytes
        limits = Limits(sram_bytes)
        if options.finalists > 1:
            proposals = propose(graph, contributions, costs, limits, options.finalists)
            found = finalist(proposals, lesson(shared, options), options.jobs)
        else:
            found = Selector(graph, contributions, costs, options.measure).select(limits)
        file = options.analysis.with_name(f"selected-{budget}kb.toml")
        file.write_text(found.scheme.to_toml(), encoding="utf-8")
        print(
            f"{budget} KB, {sram_bytes:,} bytes: {found.measured.sram_bytes:,} bytes, "
            f"by {found.published or found.measure}, {found.binding}\n{found.scheme.to_toml()}",
            flush=True,
        )
        pairs[budget] = (published, str(file), sram_bytes)
    return pairs


def at_rate(contributions: Contributions, rate: float) -> Contributions:
    """With kernels of another largest rate; the gradients are the same."""
    kernels = contributions.kernels
    factor = rate / contributions.settings["learning_rate"]
    rates = (factor * kernels.rate, factor * kernels.disturbing_rate)
    kernels = replace(kernels, rate=rates[0], disturbing_rate=rates[1])
    return replace(contributions, kernels=kernels)


def analysis_of_many(shared: Path) -> Contributions:
    """By gradient, of 2,000 images, with as many epochs as are trained."""
    images = halves_of_many(shared).train
    graph = pipeline.load(shared / MODEL)
    problem = Problem.of(graph, held_out(images, 2000), len(images.names))
    epochs = MANY_EPOCHS * len(images) // len(problem.train_y)  # as many steps
    settings = GradientSettings(learning_rate=MANY_RATE, epochs=epochs)
    return by_gradient(problem, settings)


def halves_of_many(shared: Path) -> data.Split:
    """To train on, and to test on; all of them are CIFAR-10's training images."""
    images = many_classes.dataset(shared / DATA, MANY_IMAGES).train
    half = len(images) // 2
    return data.Split(images.subset(half), images.take(np.arange(half, len(images))))


def train_many(shared: Path, scheme: str, seed: int) -> float:
    """Accuracy on the training images that are not trained on."""
    split = halves_of_many(shared)
    settings = TrialSettings(MANY_EPOCHS, MANY_RATE, seed)
    usual = many_classes.VARIANTS[0]
    model = pipeline.load(shared / MODEL)
    return many_classes.learn(model, split, parse_scheme(scheme), settings, usual).outputs / 100


def lesson(shared: Path, options: argparse.Namespace) -> Lesson:
    """How finalists are trained, as all schemes here; on training images, some of them held out."""
    if options.many_classes:
        images = halves_of_many(shared).train
        settings = RunSettings(MANY_EPOCHS, MANY_RATE)
        many = StepOptions(classes=len(images.names))
        return Lesson(shared / MODEL, (), many, part(images), settings)
    images = part(data.load(shared / DATA).train, TRAIN_IMAGES)
    settings = RunSettings(learning_rate=options.rate / 256, flip=True)
    return Lesson(shared / MODEL, (), StepOptions(classes=CLASSES), images, settings)


def finalist(proposals: list[Proposal], how: Lesson, jobs: int) -> Selection:
    """As `mcutrain select --finalists` chooses."""
    found = trained(proposals, how, jobs)
    for one in found:
        selection = one.proposal.selection
        print(
            f"  {100 * one.accuracy:.2f} % held out, {selection.measured.sram_bytes:,} bytes, "
            f"{one.proposal.reading}: {selection.scheme.bias_depth} biases, "
            f"{dict(selection.scheme.weights)}, {selection.scheme.residual_bits} bits"
        )
    return found[0].proposal.selection


def compare(
    shared: Path, pairs: dict[str, tuple[str, str, int]], options: argparse.Namespace
) -> None:
    """Train every scheme with every seed."""
    runs = [
        (budget, i, seed)
        for budget in options.budgets
        for seed in range(options.seeds)
        for i in range(2)
    ]

    def one(budget: str, i: int, seed: int) -> float:
        scheme = pairs[budget][i]
        if options.many_classes:
            return train_many(shared, scheme, seed)
        case = Case("", scheme, True, "")
        return train(shared, case, seed, TRAIN_IMAGES, options.rate / 256)[0]

    console = Console()
    found = {}
    jobs = Parallel(n_jobs=options.jobs, return_as="generator")(delayed(one)(*r) for r in runs)
    for run, accuracy in zip(runs, jobs, strict=True):
        found[run] = accuracy
        console.print(
            f"{run[0]} KB, {('published', 'selected')[run[1]]}, seed {run[2]}: "
            f"{100 * accuracy:.2f} %"
        )
    table = Table("budget", "SRAM limit", "published, top-1 %", "selected, top-1 %", "better in")
    means = ([], [])
    for budget in options.budgets:
        both = [[found[budget, i, s] for s in range(options.seeds)] for i in range(2)]
        better = sum(b >= a for a, b in zip(*both, strict=True))
        for i in range(2):
            means[i].append(mean(both[i]))
        cells = [" ".join(f"{100 * a:.2f}" for a in part) for part in both]
        table.add_row(
            f"{budget} KB", f"{pairs[budget][2]:,}", *cells, f"{better} of {options.seeds}"
        )
    table.add_row("mean", "", *(f"{100 * mean(m):.2f}" for m in means), "")
    console.print(table)


if __name__ == "__main__":
    main()

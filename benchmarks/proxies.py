"""Cheaper fronts for easy samples, judged at equal instructions: accuracy against plain training.

    .venv/bin/python benchmarks/proxies.py --shared ../shared --seeds 3 [--passes 1 4] [--time]
        [--models mcunet-5fps mbv2-w0.35 or files] [--schemes 49kb head]
        [--methods proxies "always 1"]
    .venv/bin/python benchmarks/proxies.py --models NET.int8.tflite --schemes head --time-only

CIFAR-10, a new 10-class head, the first --samples training images and all test images, the same
order for all methods of a seed. Rates: for each method, and each share of plain steps, the best of
--rates on the next 1,000 training images, the mean of --tuning other seeds. The ladder is made of
--unlabelled further training images: --levels fronts and the policy.

plain: every sample by the whole front. gate: samples of low loss are not learnt from. proxies: the
policy chooses a front, also for test images. always n: front n for all, no policy; for one pass.
cached: plain, each sample's latent computed once and kept; the same bits as plain.

M instructions: of a step, in the mean, estimated for a Cortex-M4 or M7; policy, chosen front, loss,
and what is learnt. to plain: top-1 less plain's, seed by seed, with its standard error. to as
many: less that of plain steps of which so many are left out at random, that it executes as many
instructions. ms, with --time: processor time of a step of the generated C on this computer, of all
threads together (MCT_THREADS=1 for one), over --timed samples; methods take turns after each few
samples, so that what else runs slows all of them alike. There always n has its policy, too.
--methods: rows beside plain, by name; all of them by default.
--time-only: nothing else, at one rate, the first of --rates, and with fronts of the first channels
that nobody fitted, of which a policy takes each alike, by brightness: time does not depend on
weights. --ladder DIR: what `mcutrain proxies` wrote for the one model and scheme, instead.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path

import numpy as np
from accuracy import DATA
from gate import _with_error as with_error
from rich.console import Console
from rich.table import Table

from mcutrain import data, pipeline, prepare
from mcutrain.cost.executed import StepParts
from mcutrain.features import FACTS
from mcutrain.ir.graph import Graph
from mcutrain.memplan import Ladder, find_latent, front
from mcutrain.pipeline import TrainingStep
from mcutrain.proxies import (
    LadderSettings,
    inner_channels,
    keep_channels,
    kept_ladder,
    make_ladder,
)
from mcutrain.proxies.policy import features_of, fit_policy, on_grid, policy_graph, stem_of
from mcutrain.runs.training import fastest_simulator, prepare_run
from mcutrain.simulation import Run, RunSettings, Samples

ALPHA = 0.8
CHUNK = 32
BLOCK = 8
"""Channels that go together."""
BRIGHTNESS_SAMPLES = 24
TURN = 10
"""Samples after which it is the next method's turn to be timed."""
VALIDATION = 1000
FIRST_TUNING_SEED = 100
LARGE = 1 << 24
"""A bias whose score saturates."""
RATES = [0.0003, 0.0006, 0.00125, 0.0025, 0.005, 0.01, 0.02]


@dataclass(frozen=True)
class Method:
    """A row. level: the one that all samples take; None: the policy chooses."""

    name: str
    gate: bool = False
    ladder: bool = False
    level: int | None = None


PLAIN = Method("plain")


@dataclass(frozen=True)
class Found:
    """Result of one run.

    instructions: of a mean step. levels: shares of samples.
    """

    accuracy: float
    instructions: float
    learnt: float
    levels: tuple[float, ...] = ()


@dataclass(frozen=True, eq=False)
class Case:
    """What is trained on what. ladder: of the front of `scheme`. tuning: its test is validation."""

    model: Graph
    scheme: str
    split: data.Split
    tuning: data.Split
    passes: int
    ladder: Ladder
    rates: tuple[float, ...]
    tuning_seeds: int

    @cache  # noqa: B019 - a case lives as long as the program
    def step(self, method: Method, seed: int) -> TrainingStep:
        """The planned step."""
        ladder = self.ladder if method.ladder else None
        if ladder is not None and method.level is not None:
            ladder = always(ladder, method.level)
        alpha = ALPHA if method.gate else None
        return prepare(
            self.model, self.scheme, classes=10, head_seed=seed, gate=alpha, ladder=ladder
        )

    def run(
        self, method: Method, seed: int, rate: float, latent: str = "auto", tuning: bool = False
    ) -> Run:
        """A run that has not begun. latent: off computes each front."""
        step = self.step(method, seed)
        split = self.tuning if tuning else self.split
        settings = RunSettings(self.passes, rate, seed=seed, test_every=0)
        made = fastest_simulator(step, split, settings, latent=latent)
        return prepare_run(step, split, settings, simulator=lambda: made)

    @cache  # noqa: B019
    def rate_of(self, method: Method, share: float = 1.0) -> float:
        """The best on validation images. share: of steps that are taken."""

        def right(rate: float) -> float:
            seeds = range(FIRST_TUNING_SEED, FIRST_TUNING_SEED + self.tuning_seeds)
            runs = ((self.run(method, seed, rate, tuning=True), seed) for seed in seeds)
            return float(np.mean([_trained(run, seed, share) for run, seed in runs]))

        return max(self.rates, key=right)

    def trained(self, method: Method, seed: int) -> Found:
        """Accuracy and what it cost."""
        run = self.run(method, seed, self.rate_of(method))
        state = run.train()
        skipped = sum(epoch.skipped or 0 for epoch in state.epochs)
        accuracy = state.epochs[-1].test_accuracy
        assert accuracy is not None
        learnt, shares = 1 - skipped / run.total, ()
        if method.ladder:
            levels = [epoch.levels for epoch in state.epochs if epoch.levels is not None]
            shares = tuple(np.sum(levels, axis=0) / run.total)
        instructions = self.costs.mean(learnt, shares or None)
        if method.level is not None:  # nothing has to choose
            instructions -= self.costs.policy
        return Found(100 * accuracy, instructions, learnt, shares)

    def drawn(self, share: float, seed: int) -> float:
        """Accuracy of plain steps, of which this share is taken, at random."""
        rate = self.rate_of(PLAIN, round(share, 2))
        return 100 * _trained(self.run(PLAIN, seed, rate), seed, share)

    @cached_property
    def costs(self) -> StepParts:
        """Costs of the parts of a step with proxies and a gate."""
        found = StepParts.of(self.step(Method("gate", gate=True, ladder=True), 0).plan)
        assert found is not None, "there is a model of instructions of a Cortex-M4 and M7"
        return found


def _trained(run: Run, seed: int, share: float) -> float:
    """Accuracy after a run of which this share of steps is taken, at random."""
    course, random = run.course, np.random.default_rng(1000 + seed)
    position, y = 0, run.samples.split.train.y
    while position < run.total:
        index, epoch = course.indices(position, CHUNK)
        taken = np.flatnonzero(random.random(len(index)) < share)
        rates = [course.rates.at(position + int(i)) for i in taken]
        run.simulator.train(run.samples.train(index[taken], epoch, seed), y[index[taken]], rates)
        position += len(index)
    return run.evaluate()


def always(ladder: Ladder, level: int) -> Ladder:
    """A ladder whose policy wants one level, whatever the sample."""
    policy = ladder.policy
    _, weight, bias = policy.nodes[-2].inputs
    found = {name: policy.tensors[name].data for name in (weight, bias)}
    assert found[weight] is not None
    assert found[bias] is not None
    wanted = np.zeros_like(found[bias])
    wanted[level] = LARGE
    changed = {weight: np.zeros_like(found[weight]), bias: wanted}
    tensors = {n: replace(t, data=changed.get(n, t.data)) for n, t in policy.tensors.items()}
    return replace(ladder, policy=replace(policy, tensors=tensors))


def ladder_of(graph: Graph, scheme: str, split: data.Split, settings: LadderSettings) -> Ladder:
    """As `mcutrain proxies` makes it of these samples."""
    step = prepare(graph, scheme, classes=10)
    given = inputs_of(step, split)
    made = make_ladder(step, find_latent(step.plan), given, settings)
    cosines = ", ".join(f"{level.cosine:.3f}" for level in made.levels)
    print(f"{scheme}: cosines {cosines}; policy right for {made.right:.1%}", flush=True)
    return made.ladder


def inputs_of(step: TrainingStep, split: data.Split) -> np.ndarray:
    """The training images as the step takes them."""
    x = step.input_type
    samples = Samples.prepare(split, x.shape[1:], x.scale, x.zero_point, RunSettings())
    return samples.quantized(samples.split.train.x)


def unfitted(graph: Graph, scheme: str, split: data.Split, settings: LadderSettings) -> Ladder:
    """Fronts of the first channels of each group, which make no good latents."""
    step = prepare(graph, scheme, classes=10)
    latent = find_latent(step.plan)
    whole = front(step.plan.training, latent)
    stem = stem_of(whole)
    groups = inner_channels(whole, [name for node in stem.nodes for name in node.outputs])
    proxies = []
    for level in range(1, settings.levels):
        share = 1 - level * settings.delta
        counts = [max(BLOCK, int(group.channels * share) // BLOCK * BLOCK) for group in groups]
        pairs = zip(groups, counts, strict=True)
        proxies.append(keep_channels(whole, [(group, np.arange(count)) for group, count in pairs]))
    some = data.Split(split.train.subset(BRIGHTNESS_SAMPLES), split.test)
    features = features_of(on_grid(stem), inputs_of(step, some))
    ranks = np.argsort(np.argsort(features.sum(axis=1)))
    levels = ranks * settings.levels // len(ranks)
    fitted = fit_policy(features, levels, settings.levels)
    policy = policy_graph(on_grid(stem), *fitted, features)
    return Ladder(latent.tensor, tuple(proxies), policy)


def kept(graph: Graph, scheme: str, folder: Path) -> Ladder:
    """Read the proxies of a folder."""
    step = prepare(graph, scheme, classes=10)
    return kept_ladder(folder)(lambda latent: pipeline.front_of(step, latent))


def main() -> None:
    """A table for each model, scheme and number of passes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shared", default=os.environ.get("MCUTRAIN_SHARED", "../shared"))
    parser.add_argument("--models", nargs="+", default=["mcunet-5fps", "mbv2-w0.35"])
    parser.add_argument("--schemes", nargs="+", default=["49kb", "head"])
    parser.add_argument("--passes", nargs="+", type=int, default=[1, 4])
    parser.add_argument("--methods", nargs="+", help="rows beside plain, by name")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--samples", type=int, default=4000)
    parser.add_argument("--unlabelled", type=int, default=4000)
    parser.add_argument("--levels", type=int, default=3)
    parser.add_argument("--delta", type=float, default=0.25)
    parser.add_argument("--rates", nargs="+", type=float, default=RATES)
    parser.add_argument("--tuning", type=int, default=2)
    parser.add_argument("--distillation", type=int, default=LadderSettings.distillation)
    parser.add_argument("--ladder", type=Path)
    parser.add_argument("--time", action="store_true")
    parser.add_argument("--time-only", action="store_true")
    parser.add_argument("--timed", type=int, default=1000)
    arguments = parser.parse_args()
    shared = Path(arguments.shared)
    images = data.load(shared / DATA)
    split = data.Split(images.train.subset(arguments.samples), images.test)
    behind = arguments.samples + VALIDATION
    tuning = data.Split(split.train, part(images.train, arguments.samples, behind))
    further = part(images.train, behind, behind + arguments.unlabelled)
    some = data.Split(further, split.test)
    settings = LadderSettings(
        arguments.levels, arguments.delta, distillation=arguments.distillation
    )
    for model in arguments.models:
        file = Path(model)
        graph = pipeline.load(file if file.is_file() else shared / f"models/{model}.int8.tflite")
        for short in arguments.schemes:
            scheme = f"{model}-{short}" if short.endswith("kb") else short
            if arguments.ladder is not None:
                ladder = kept(graph, scheme, arguments.ladder)
            elif arguments.time_only:
                ladder = unfitted(graph, scheme, images, settings)
            else:
                ladder = ladder_of(graph, scheme, some, settings)
            for passes in arguments.passes:
                case = Case(
                    graph, scheme, split, tuning, passes, ladder,
                    tuple(arguments.rates), arguments.tuning,
                )  # fmt: skip
                name = f"{model}, {scheme}, {passes} passes"
                shown = times_of if arguments.time_only else table_of
                Console(width=140).print(shown(name, case, arguments))


def part(images: data.Dataset, first: int, end: int) -> data.Dataset:
    """Take a part of a data set."""
    return data.Dataset(images.x[first:end], images.y[first:end], images.names)


def title_of(title: str, case: Case) -> str:
    """With what the parts of a step take."""
    cost = case.costs
    fronts = ", ".join(f"{front / 1e6:.2f}" for front in cost.fronts)
    return (
        f"{title}; M instructions: policy {cost.policy / 1e6:.2f}, fronts {fronts}, "
        f"to the loss {cost.loss / 1e6:.2f}, update {cost.update / 1e6:.2f}"
    )


def methods_of(levels: int, passes: int) -> tuple[Method, ...]:
    """All rows that are trained."""
    return (
        PLAIN,
        Method("gate", gate=True),
        Method("proxies", ladder=True),
        Method("proxies, gate", gate=True, ladder=True),
        *(
            Method(f"always {n}", ladder=True, level=n)
            for n in range(1, levels if passes == 1 else 1)
        ),
    )


def table_of(title: str, case: Case, arguments: argparse.Namespace) -> Table:
    """Make the table, and print its rows as they come."""
    cost, seeds = case.costs, range(arguments.seeds)
    table = Table(
        "", "rate", "levels", "learnt", "M instructions", "share", "top-1 %", "to plain",
        "to as many", *(["ms"] if arguments.time else []),
        title=title_of(f"{title}, {len(seeds)} seeds", case),
    )  # fmt: skip
    print(table.title, flush=True)
    methods = [
        method
        for method in methods_of(case.ladder.levels, case.passes)
        if method is PLAIN or not arguments.methods or method.name in arguments.methods
    ]
    timed = {} if not arguments.time else step_times(case, methods, arguments.timed)
    first = [case.trained(PLAIN, seed) for seed in seeds]

    def add(row: Sequence[str]) -> None:
        table.add_row(*row)
        print(*row, sep=" | ", flush=True)

    for method in methods:
        own = first if method is PLAIN else [case.trained(method, seed) for seed in seeds]
        cells = _row(method.name, case, method, own, first)
        add([*cells, *([f"{timed[method].ms:.2f}"] if timed else [])])
    if case.passes > 1:
        once = cost.fronts[0] / case.passes + cost.loss + cost.update
        add(_row("cached", case, PLAIN, [replace(f, instructions=once) for f in first], first))
    return table


def _row(
    name: str, case: Case, method: Method, found: Sequence[Found], first: Sequence[Found]
) -> list[str]:
    accuracy = np.array([f.accuracy for f in found])
    plain = np.array([f.accuracy for f in first])
    instructions = float(np.mean([f.instructions for f in found]))
    shares = [min(f.instructions / case.costs.whole, 1) for f in found]
    is_plain = name == PLAIN.name
    alike = plain if is_plain else np.array([case.drawn(s, i) for i, s in enumerate(shares)])
    return [
        name,
        f"{case.rate_of(method):g}",
        " ".join(f"{100 * s:.0f}" for s in np.mean([f.levels for f in found], axis=0)),
        f"{np.mean([f.learnt for f in found]):.0%}",
        f"{instructions / 1e6:.2f}",
        f"{instructions / case.costs.whole:.1%}",
        with_error(accuracy),
        "" if is_plain else with_error(accuracy - plain, "+"),
        "" if is_plain else with_error(accuracy - alike, "+"),
    ]


@dataclass(frozen=True)
class Timed:
    """Times of steps with seed 0, every front computed.

    levels, learnt: shares of the samples.
    """

    ms: float
    levels: tuple[float, ...]
    learnt: float


def step_times(case: Case, methods: Sequence[Method], samples: int) -> dict[Method, Timed]:
    """Time each method; methods take turns every few samples."""
    rates = dict.fromkeys(methods, case.rates[0])
    if len(case.rates) > 1:
        rates = {method: case.rate_of(method) for method in methods}
    runs = {method: case.run(method, 0, rates[method], "off") for method in methods}
    seconds = dict.fromkeys(methods, 0.0)
    count = min(samples, len(case.split.train))
    for begin in range(0, count, TURN):
        index = np.arange(begin, min(begin + TURN, count))
        for method, run in runs.items():
            x = run.samples.train(index, 0, 0)
            each = [run.course.rates.at(int(i)) for i in index]
            started = time.process_time()
            run.simulator.train(x, case.split.train.y[index], each)
            seconds[method] += time.process_time() - started
    found = {}
    for method, run in runs.items():
        saved, plan = run.simulator.save(), case.step(method, 0).plan
        counted = FACTS.read(saved, plan.state.table)
        levels = tuple(n / count for n in counted.get("levels", ()))
        skipped = counted.get("skipped", 0)
        found[method] = Timed(1e3 * seconds[method] / count, levels, 1 - skipped / count)
    return found


def times_of(title: str, case: Case, arguments: argparse.Namespace) -> Table:
    """Time per sample, and instructions, without any accuracy."""
    methods = methods_of(case.ladder.levels, 1)
    found = step_times(case, methods, arguments.timed)
    first = found[PLAIN].ms
    table = Table(
        "", "levels", "learnt", "M instructions", "share", "ms", "share of plain's",
        title=title_of(f"{title}, {min(arguments.timed, len(case.split.train))} samples", case),
    )  # fmt: skip
    for method, own in found.items():
        instructions = case.costs.mean(own.learnt, own.levels or None)
        instructions -= case.costs.policy if method.level is not None else 0
        table.add_row(
            method.name,
            " ".join(f"{100 * share:.0f}" for share in own.levels),
            f"{own.learnt:.0%}",
            f"{instructions / 1e6:.2f}",
            f"{instructions / case.costs.whole:.1%}",
            f"{own.ms:.2f}",
            f"{own.ms / first:.1%}",
        )
    return table


if __name__ == "__main__":
    main()

"""Modules against schemes at equal SRAM: accuracy on CIFAR-10, several seeds.

    .venv/bin/python benchmarks/modules.py --shared ../shared

As benchmarks/accuracy.py trains, but each way of training at the learning rate, and modules at
theirs, that are best on training images: 4 epochs of the first 3,000, tested on the other 1,000, at
the --search-at rung. A rung is so many KB of SRAM (arena and state), or what a published scheme
takes (49kb). Of layers, biases and modules each way trains as many of the last ones as fit. `lite
residuals` have the biases of TinyTL (arXiv 2007.11622) beside them. --analysis FILE: also what
`mcutrain select` would select by it; --augmented FILE --augmented-analysis FILE: and what it would
select of a model that has modules, by the analysis of that; both by --measure.
--no-flip: images as they are, which is sooner, since what frozen layers make of an image is kept.
--images: fewer to learn from. Rates are searched for only where there are several.

--tinytl: without a limit all biases, and all biases with lite residuals beside all blocks, as
TinyTL compares them.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from statistics import mean, stdev

from joblib import Parallel, delayed
from rich.console import Console
from rich.table import Table

from mcutrain import data
from mcutrain.cost.instructions import USUAL_ISA, estimate
from mcutrain.cost.schemes import cost_model
from mcutrain.errors import McutrainError
from mcutrain.functions.modules import with_pet
from mcutrain.ir.graph import Graph
from mcutrain.modules import parse_pet
from mcutrain.pipeline import TrainingStep, load, prepare
from mcutrain.quant import replace_head
from mcutrain.runs.training import fastest_simulator, prepare_run
from mcutrain.selection.contribution import read_contributions
from mcutrain.selection.cost import Limits
from mcutrain.selection.select import Selector
from mcutrain.simulation import RunSettings
from mcutrain.sparse import UpdateScheme, find_head, layers_of, parse_scheme
from mcutrain.sparse.scheme import schemes_of

DATA = "data/cifar10_10k2k.npz"
CLASSES = 10
TRAIN_IMAGES = 4000
HELD_OUT = 1000
RATES = (0.2, 0.4, 0.8)
MODULE_RATES = (1.0, 0.1)
UNLIMITED = "all"
MOST_BIASES = 60


@dataclass(frozen=True)
class Way:
    """What is trained; {} stands for as many of the last as fit. biases: as many more as fit."""

    name: str
    scheme: str = "head"
    pet: str = ""
    biases: bool = False


WAYS = (
    Way("head", "head"),
    Way("biases", "bias:{}"),
    Way("adapters, biases", pet="adapter:8,at=last:{}", biases=True),
    Way("LoRA", pet="lora:4,at=last:{}"),
    Way("LoRA-FA", pet="lora-fa:4,at=last:{}"),
    Way("gains", pet="gain,at=last:{}"),
    Way("lite residuals", pet="lite:3,groups=4,at=last:{}", biases=True),
)


@dataclass(frozen=True)
class Trained:
    """A scheme, and the modules that it trains, if there are any. model: that has them already."""

    scheme: str
    pet: str = ""
    model: Path | None = None

    def at(self, module_rate: float) -> Trained:
        """Modules at this rate."""
        return replace(self, pet=f"{self.pet},rate:{module_rate:g}") if self.pet else self

    @property
    def text(self) -> str:
        """In a table."""
        return self.scheme if not self.pet else ",".join((self.pet, self.scheme))


def main() -> None:
    """Choose what fits, find rates, train everything, print a table for each rung."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shared", default=os.environ.get("MCUTRAIN_SHARED", "../shared"))
    parser.add_argument("--model", default="mcunet-5fps")
    parser.add_argument("--rungs", nargs="+", default=["64", "96", "128", "192"])
    parser.add_argument("--search-at", help="one of the rungs; 96, if it is one, else the first")
    parser.add_argument("--tinytl", action="store_true")
    parser.add_argument("--ways", nargs="+", help="some of the ways, by name")
    parser.add_argument("--analysis", type=Path)
    parser.add_argument("--augmented", type=Path)
    parser.add_argument("--augmented-analysis", type=Path)
    parser.add_argument("--measure", help="of the analyses; their first one")
    parser.add_argument("--no-flip", action="store_true")
    parser.add_argument("--images", type=int, default=TRAIN_IMAGES)
    parser.add_argument("--rates", type=float, nargs="+", default=RATES, help="times 1/256")
    parser.add_argument("--module-rates", type=float, nargs="+", default=MODULE_RATES)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    if options.search_at not in options.rungs:
        options.search_at = "96" if "96" in options.rungs else options.rungs[0]
    shared, console = Path(options.shared), Console(width=140)
    model = shared / f"models/{options.model}.int8.tflite"
    if options.tinytl:
        ladder, options.search_at = {UNLIMITED: tinytl(load(model))}, UNLIMITED
    else:
        ladder = {rung: rows_of(model, rung, options, console) for rung in options.rungs}
    for table in compared(shared, model, ladder, options, console):
        console.print(table)


def tinytl(graph: Graph) -> dict[str, Trained]:
    """All biases, with and without modules."""
    biases = f"bias:{len(layers_of(graph, find_head(graph))) - 1}"
    return {"biases": Trained(biases), "lite residuals": Trained(biases, "lite:3,groups=4")}


def rows_of(
    model: Path, rung: str, options: argparse.Namespace, console: Console
) -> dict[str, Trained]:
    """What each way trains in so much SRAM."""
    graph = load(model)
    new = with_head(model)
    limit = limit_of(new, options.model, rung)
    rows = {}
    fitting = [
        (prepare(new, scheme).plan.sram_bytes, scheme.name) for scheme in schemes_of(options.model)
    ]
    if any(size <= limit for size, _ in fitting):
        rows["published"] = Trained(max(pair for pair in fitting if pair[0] <= limit)[1])
    for way in (way for way in WAYS if not options.ways or way.name in options.ways):
        found = largest(new, way, limit)
        if found is None:
            console.print(f"{way.name}: none fits {limit:,} bytes")
        else:
            rows[way.name] = found
    if options.ways:
        rows = {name: row for name, row in rows.items() if name in options.ways}
    if options.analysis is not None:
        rows["selected"] = Trained(selected(graph, options.analysis, limit, options.measure))
    if options.augmented is not None:
        whole = load(options.augmented)
        scheme = selected(whole, options.augmented_analysis, limit, options.measure)
        rows["selected, of modules too"] = Trained(scheme, model=options.augmented)
    return rows


def limit_of(graph: Graph, network: str, rung: str) -> int:
    """Bytes."""
    if rung.endswith("kb"):
        return prepare(graph, f"{network}-{rung}").plan.sram_bytes
    return 1024 * int(rung)


def with_head(model: Path) -> Graph:
    """The model with a new classifier."""
    graph = load(model)
    return replace_head(graph, find_head(graph).node, CLASSES)


def outlined(graph: Graph, what: Trained) -> TrainingStep:
    """What the plan needs; numbers of modules mean nothing."""
    pet = parse_pet(what.pet or "linear")
    return prepare(pet.outline(graph), pet.scheme(parse_scheme(what.scheme)))


def fits(graph: Graph, what: Trained, limit: int) -> bool:
    """Whether there are so many places, and the SRAM."""
    try:
        return outlined(graph, what).plan.sram_bytes <= limit
    except McutrainError:
        return False


def largest(graph: Graph, way: Way, limit: int) -> Trained | None:
    """As many as fit; needs grow with their number."""
    text = way.pet or way.scheme

    def of(count: int, biases: int = 0) -> Trained:
        scheme = f"bias:{biases}" if biases else "head"
        if way.pet:
            return Trained(scheme, text.format(count))
        return Trained(text.format(count))

    places = 1 if "{}" not in text else len(layers_of(graph, find_head(graph)))
    count = most(places, lambda k: fits(graph, of(k), limit))
    if count == 0:
        return None
    if not way.biases:
        return of(count)
    return of(count, most(MOST_BIASES, lambda b: fits(graph, of(count, b), limit)))


def most(limit: int, is_possible: Callable[[int], bool]) -> int:
    """The largest of 0 … limit that is possible, as all smaller ones are."""
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if is_possible(middle) else (low, middle - 1)
    return low


def selected(graph: Graph, analysis: Path, limit: int, measure: str | None) -> str:
    """The scheme, in a file beside the analysis."""
    contributions = read_contributions(analysis, graph).smoothed()
    new = replace_head(graph, find_head(graph).node, CLASSES)
    found = Selector(new, contributions, cost_model(new), measure).select(Limits(limit))
    path = analysis.with_name(f"{analysis.stem}-{found.measure}-{limit}.toml")
    path.write_text(found.scheme.to_toml(), encoding="utf-8")
    return str(path)


def compared(
    shared: Path,
    model: Path,
    ladder: dict[str, dict[str, Trained]],
    options: argparse.Namespace,
    console: Console,
) -> Iterator[Table]:
    """Every row at its way's rate from every seed; what several rungs train is trained once."""
    jobs = Parallel(n_jobs=options.jobs, return_as="generator")
    rates = [rate / 256 for rate in options.rates]
    first = ladder[options.search_at]
    for rows in ladder.values():  # ways that did not fit there
        first = first | {name: row for name, row in rows.items() if name not in first}
    learn = partial(learnt, options.images, not options.no_flip, shared, model)
    choices = {
        name: list(product(rates, options.module_rates if row.pet else (1.0,)))
        for name, row in first.items()
    }
    searches = [(name, *at) for name, every in choices.items() for at in every if len(every) > 1]
    results = jobs(
        delayed(learn)(first[name].at(of_modules), 0, rate, True)
        for name, rate, of_modules in searches
    )
    by_rates = {name: dict.fromkeys(every, 0.0) for name, every in choices.items()}
    for (name, rate, of_modules), accuracy in zip(searches, results, strict=True):
        by_rates[name][rate, of_modules] = accuracy
        text = first[name].at(of_modules).text
        console.print(f"{text}, rate {256 * rate:g}/256: {accuracy:.2f} % held out")
    best = {name: max(found, key=found.__getitem__) for name, found in by_rates.items()}
    runs = {
        (row.at(best[name][1]), best[name][0], seed): name
        for seed in range(options.seeds)
        for rows in ladder.values()
        for name, row in rows.items()
    }
    accuracies = {}
    results = jobs(delayed(learn)(row, seed, rate) for row, rate, seed in runs)
    for (run, name), accuracy in zip(runs.items(), results, strict=True):
        row, rate, seed = run
        accuracies[run] = accuracy
        text = f"{name}, {row.text}, seed {seed}, rate {256 * rate:g}/256: {accuracy:.2f} %"
        console.print(text)
    new = with_head(model)
    for rung, rows in ladder.items():
        table = Table(rung, "trains", "arena", "state", "saved", "M instructions", "256 · rate",
                      "top-1 %", "±", title=model.name)  # fmt: skip
        for name, row in rows.items():
            step = outlined(new if row.model is None else with_head(row.model), row)
            rate, of_modules = best[name]
            row = row.at(of_modules)
            found = [accuracies[row, rate, seed] for seed in range(options.seeds)]
            error = f"{stdev(found) / len(found) ** 0.5:.2f}" if len(found) > 1 else ""
            work = sum(estimate(step.plan.training, USUAL_ISA, step.plan.segments).values())
            table.add_row(
                name,
                row.text,
                f"{step.plan.arena_bytes:,}",
                f"{step.plan.state_bytes:,}",
                f"{saved_bytes(step):,}",
                f"{work / 1e6:.1f}",
                f"{256 * rate:g}",
                f"{mean(found):.2f}",
                error,
            )
        yield table


def saved_bytes(step: TrainingStep) -> int:
    """Count the bytes that the backward pass reads: activations alive at the loss."""
    plan = step.plan
    return sum(buffer.size_bytes for buffer in plan.arena.live_at(plan.training.loss_step))


def learnt(
    images: int,
    flip: bool,
    shared: Path,
    model: Path,
    what: Trained,
    seed: int,
    rate: float,
    is_search: bool = False,
) -> float:
    """Accuracy in percent, after learning from so many images. is_search: on these alone."""
    split = data.load(shared / DATA)
    graph = load(what.model or model)
    new = replace_head(graph, find_head(graph).node, CLASSES)
    pet = parse_pet(what.pet or "linear")
    scheme: UpdateScheme = pet.scheme(parse_scheme(what.scheme))
    split = data.Split(split.train.subset(images), split.test)
    if is_search:
        every, first = split.train, images * (TRAIN_IMAGES - HELD_OUT) // TRAIN_IMAGES
        split = data.Split(every.subset(first), every.take(range(first, images)))
    step = prepare(with_pet(new, pet, split, None, seed), scheme)
    settings = RunSettings(4, rate, seed=seed, flip=flip, test_every=0)
    run = prepare_run(
        step, split, settings, simulator=lambda: fastest_simulator(step, split, settings)
    )
    run.train()
    return 100 * (run.state.epochs[-1].test_accuracy or 0.0)


if __name__ == "__main__":
    main()

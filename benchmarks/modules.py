"""Modules against schemes at equal SRAM: accuracy on CIFAR-10, several seeds.

    .venv/bin/python benchmarks/modules.py --shared ../shared

As benchmarks/accuracy.py trains, but for each way of training at the learning rate that is best on
training images: 4 epochs of the first 3,000, tested on the other 1,000. The SRAM (arena and state)
is that of a published scheme. Of layers, biases and modules each way trains as many of the last
ones as fit. `lite residuals` have the biases of TinyTL (arXiv 2007.11622) beside them. --analysis
FILE: also what `mcutrain select` would select by it; --augmented FILE --augmented-analysis FILE:
and what it would select of a model that has modules, by the analysis of that.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from dataclasses import dataclass
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
from mcutrain.simulation import Run, RunSettings, Samples
from mcutrain.sparse import UpdateScheme, find_head, layers_of, parse_scheme
from mcutrain.sparse.contribution import read_contributions
from mcutrain.sparse.cost import Limits
from mcutrain.sparse.select import Selector

DATA = "data/cifar10_10k2k.npz"
CLASSES = 10
TRAIN_IMAGES = 4000
HELD_OUT = 1000
RATES = tuple(rate / 256 for rate in (0.2, 0.4, 0.8))
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
    Way("last layers", "last:{}"),
    Way("adapters", pet="adapter:8,at=last:{}"),
    Way("adapters, biases", pet="adapter:8,at=last:{}", biases=True),
    Way("LoRA", pet="lora:4,at=last:{}"),
    Way("LoRA-FA", pet="lora-fa:4,at=last:{}"),
    Way("gains", pet="gain,at=last:{}"),
    Way("lite residuals 1×1", pet="lite:1,at=last:{}", biases=True),
    Way("lite residuals 3×3", pet="lite:3,groups=4,at=last:{}", biases=True),
)


@dataclass(frozen=True)
class Trained:
    """A scheme, and the modules that it trains, if there are any. model: that has them already."""

    scheme: str
    pet: str = ""
    model: Path | None = None

    @property
    def text(self) -> str:
        """In a table."""
        return self.scheme if not self.pet else ",".join((self.pet, self.scheme))


def main() -> None:
    """Choose what fits, find rates, train everything, print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shared", default=os.environ.get("MCUTRAIN_SHARED", "../shared"))
    parser.add_argument("--model", default="mcunet-5fps")
    parser.add_argument("--budgets", nargs="+", default=["49", "100"], help="published schemes, KB")
    parser.add_argument("--ways", nargs="+", help="some of the ways, by name")
    parser.add_argument("--analysis", type=Path)
    parser.add_argument("--augmented", type=Path)
    parser.add_argument("--augmented-analysis", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    shared, console = Path(options.shared), Console()
    model = shared / f"models/{options.model}.int8.tflite"
    graph = load(model)
    new = replace_head(graph, find_head(graph).node, CLASSES, 0)
    for budget in options.budgets:
        published = f"{options.model}-{budget}kb"
        limit = prepare(new, published).plan.sram_bytes
        rows = {"published": Trained(published)}
        for way in WAYS:
            if options.ways and way.name not in options.ways:
                continue
            found = largest(new, way, limit)
            if found is None:
                console.print(f"{way.name}: none fits {limit:,} bytes")
            else:
                rows[way.name] = found
        if options.analysis is not None:
            rows["selected"] = Trained(selected(graph, options.analysis, limit))
        if options.augmented is not None:
            whole = load(options.augmented)
            scheme = selected(whole, options.augmented_analysis, limit)
            rows["selected, of modules too"] = Trained(scheme, model=options.augmented)
        if options.ways and "published" not in options.ways:
            del rows["published"]
        console.print(compared(shared, model, rows, f"{budget} KB", limit, options, console))


def with_head(model: Path) -> Graph:
    """The model with a new classifier."""
    graph = load(model)
    return replace_head(graph, find_head(graph).node, CLASSES, 0)


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


def selected(graph: Graph, analysis: Path, limit: int) -> str:
    """The scheme, in a file beside the analysis."""
    contributions = read_contributions(analysis, graph).smoothed()
    new = replace_head(graph, find_head(graph).node, CLASSES, 0)
    found = Selector(new, contributions, cost_model(new)).select(Limits(limit))
    path = analysis.with_name(f"{analysis.stem}-selected-{limit}.toml")
    path.write_text(found.scheme.to_toml(), encoding="utf-8")
    return str(path)


def compared(
    shared: Path,
    model: Path,
    rows: dict[str, Trained],
    budget: str,
    limit: int,
    options: argparse.Namespace,
    console: Console,
) -> Table:
    """Every row at its rate from every seed."""
    jobs = Parallel(n_jobs=options.jobs, return_as="generator")
    searches = [(name, rate) for name in rows for rate in RATES]
    by_rate = dict(
        zip(
            searches,
            jobs(delayed(learn)(shared, model, rows[n], 0, r, True) for n, r in searches),
            strict=True,
        )
    )
    rates = {name: max(RATES, key=lambda rate: by_rate[name, rate]) for name in rows}
    runs = [(name, seed) for seed in range(options.seeds) for name in rows]
    accuracies: dict[str, list[float]] = {name: [] for name in rows}
    results = jobs(delayed(learn)(shared, model, rows[n], s, rates[n]) for n, s in runs)
    for (name, seed), accuracy in zip(runs, results, strict=True):
        accuracies[name].append(accuracy)
        console.print(f"{budget}, {name}, seed {seed}, rate {rates[name]:g}: {accuracy:.2f} %")
    table = Table(f"{budget}: {limit:,} bytes", "trains", "arena", "state", "M instructions",
                  "rate · 256", "top-1 %", title=model.name)  # fmt: skip
    new = with_head(model)
    for name, what in rows.items():
        step = outlined(new if what.model is None else with_head(what.model), what)
        found = accuracies[name]
        error = f" ± {stdev(found):.2f}" if len(found) > 1 else ""
        work = sum(estimate(step.plan.training, USUAL_ISA, step.plan.segments).values())
        table.add_row(
            name,
            what.text,
            f"{step.plan.arena_bytes:,}",
            f"{step.plan.state_bytes:,}",
            f"{work / 1e6:.1f}",
            f"{256 * rates[name]:g}",
            f"{mean(found):.2f}{error}",
        )
    return table


def learn(
    shared: Path, model: Path, what: Trained, seed: int, rate: float, is_search: bool = False
) -> float:
    """Accuracy in percent. is_search: on training images alone."""
    split = data.load(shared / DATA)
    graph = load(what.model or model)
    new = replace_head(graph, find_head(graph).node, CLASSES, seed)
    pet = parse_pet(what.pet or "linear")
    scheme: UpdateScheme = pet.scheme(parse_scheme(what.scheme))
    split = data.Split(split.train.subset(TRAIN_IMAGES), split.test)
    if is_search:
        images = split.train
        first = TRAIN_IMAGES - HELD_OUT
        split = data.Split(images.subset(first), images.take(range(first, TRAIN_IMAGES)))
    step = prepare(with_pet(new, pet, split, None, seed), scheme)
    settings = RunSettings(4, rate, seed=seed, flip=True, test_every=0)
    x = step.graph.tensors[step.graph.inputs[0]].type
    prepared = Samples.prepare(split, x.shape[1:], x.scale, x.zero_point, settings)
    state = Run(step.simulator(seed=seed + 1), prepared, settings).train()
    return 100 * (state.epochs[-1].test_accuracy or 0.0)


if __name__ == "__main__":
    main()

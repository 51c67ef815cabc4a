"""Exact selection against an evolutionary search over the same schemes, at equal budgets.

    python benchmarks/selection.py [--analysis FILE] [--shared DIR] [--model mcunet-5fps|demo]

The search is the published method ("On-Device Training Under 256KB Memory", section 2.3: mutation
and crossover of a population of schemes), here with mcutrain's own costs: a scheme that does not
fit is made to by dropping weights at random. Every generation is a quarter of the population kept,
half of the rest made by mutation, half by crossover. Costs are computed beforehand for both (first
line); the search is told them as sums, which takes microseconds, and is given several seeds. Of
its last population the best scheme that fits when planned counts, as for the exact answer.
Without --analysis the gains are random. Budgets are of arena and state.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from mcutrain import demo
from mcutrain.cost.schemes import cost_model
from mcutrain.ir.graph import Graph
from mcutrain.pipeline import load
from mcutrain.quant import replace_head
from mcutrain.selection.choices import Choices
from mcutrain.selection.contribution import (
    SHARES,
    Contributions,
    Gains,
    digest,
    read_contributions,
)
from mcutrain.selection.cost import Limits
from mcutrain.selection.option import Depth
from mcutrain.selection.select import Selector
from mcutrain.sparse import find_head, layers_of

Genes = npt.NDArray[np.int64]
POPULATION, GENERATIONS, SEEDS = 512, 200, 3
MUTATION = 0.1
BUDGETS = (0.02, 0.05, 0.1, 0.25, 0.5)
"""Shares of the way from the head alone to everything that has a gain."""


@dataclass(frozen=True)
class Space:
    """One depth at some residual bits: what each option of each unit gains and takes."""

    depth: Depth
    bits: int
    factor: float
    fixed_bytes: int

    def gain_and_peak(self, genes: Genes) -> tuple[float, int]:
        """genes: for each unit the option that is taken, 0 is none."""
        gain, memory = self.depth.gain, self.depth.memory + self.depth.state_bytes
        for unit, gene in zip(self.depth.units, genes, strict=True):
            if gene:
                option = unit[gene - 1]
                gain += self.factor * option.gain
                memory = memory + option.memory + option.state[self.bits]
        return gain, int(memory.max()) + self.fixed_bytes


class Evolution:
    """A population of (depth and bits, genes)."""

    def __init__(self, spaces: Sequence[Space], budget: int, seed: int) -> None:
        self.spaces, self.budget = spaces, budget
        self.rng = np.random.default_rng(seed)
        self.evaluated = 0
        alive = [
            i for i, s in enumerate(spaces) if self._fits(s, np.zeros(len(s.depth.units), int))
        ]
        self.alive = alive
        self.population = [self._random() for _ in range(POPULATION)]

    def run(self) -> None:
        """The generations."""
        for _ in range(GENERATIONS):
            self.population.sort(key=lambda one: -one[0])
            kept = self.population[: POPULATION // 4]
            made = [self._mutated(kept) for _ in range((POPULATION - len(kept)) // 2)]
            crossed = [self._crossed(kept) for _ in range(POPULATION - len(kept) - len(made))]
            self.population = kept + made + crossed

    def best(self, selector: Selector) -> float:
        """The largest gain of a scheme that also fits when it is planned."""
        for gain, place, genes in sorted(self.population, key=lambda one: -one[0]):
            space = self.spaces[place]
            taken = zip(space.depth.units, genes, strict=True)
            shares = [pair for unit, gene in taken if gene for pair in unit[gene - 1].shares]
            choices = (space.depth.depth, tuple(sorted(shares)), space.bits)
            scheme = selector.structure.scheme(*choices, selector.choices.book.bias_bits)
            if selector.costs.plan(scheme).sram_bytes <= self.budget:
                return gain
        return float("nan")

    def _fits(self, space: Space, genes: Genes) -> bool:
        return space.gain_and_peak(genes)[1] <= self.budget

    def _repaired(self, place: int, genes: Genes) -> tuple[float, int, Genes]:
        """Weights are dropped at random until it fits."""
        space = self.spaces[place]
        while True:
            self.evaluated += 1
            gain, peak = space.gain_and_peak(genes)
            taken = np.flatnonzero(genes)
            if peak <= self.budget or not len(taken):
                return gain, place, genes
            genes[self.rng.choice(taken)] = 0

    def _random(self) -> tuple[float, int, Genes]:
        place = int(self.rng.choice(self.alive))
        units = self.spaces[place].depth.units
        genes = np.array([self.rng.integers(len(u) + 1) for u in units], np.int64)
        genes[self.rng.random(len(genes)) < self.rng.random()] = 0
        return self._repaired(place, genes)

    def _mutated(self, kept: Sequence[tuple[float, int, Genes]]) -> tuple[float, int, Genes]:
        _, place, genes = kept[self.rng.integers(len(kept))]
        if self.rng.random() < MUTATION:
            return self._moved(int(self.rng.choice(self.alive)), place, genes)
        units = self.spaces[place].depth.units
        fresh = np.array([self.rng.integers(len(u) + 1) for u in units], np.int64)
        changed = self.rng.random(len(genes)) < MUTATION
        return self._repaired(place, np.where(changed, fresh, genes))

    def _crossed(self, kept: Sequence[tuple[float, int, Genes]]) -> tuple[float, int, Genes]:
        _, place, genes = kept[self.rng.integers(len(kept))]
        _, other, partner = kept[self.rng.integers(len(kept))]
        _, _, moved = self._moved(place, other, partner, repair=False)
        return self._repaired(place, np.where(self.rng.random(len(genes)) < 0.5, genes, moved))

    def _moved(
        self, to: int, place: int, genes: Genes, repair: bool = True
    ) -> tuple[float, int, Genes]:
        """Move the weights to another depth, as far as they lie within it. Units end alike."""
        count = len(self.spaces[to].depth.units)
        moved = np.zeros(count, np.int64)
        same = min(count, len(genes))
        if same:
            moved[count - same :] = genes[len(genes) - same :]
        moved = np.minimum(moved, [len(u) for u in self.spaces[to].depth.units] or [0][:count])
        return self._repaired(to, moved) if repair else (0.0, to, moved)


def main() -> None:
    """A line per budget."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--analysis", type=Path)
    parser.add_argument("--model", choices=("demo", "mcunet-5fps"), default="mcunet-5fps")
    shared = os.environ.get("MCUTRAIN_SHARED", "../shared")
    parser.add_argument("--shared", type=Path, default=Path(shared))
    given = parser.parse_args()
    graph = network(given.model, given.shared)
    found = random_gains(graph) if given.analysis is None else read_contributions(given.analysis)
    begin = time.process_time()
    selector = Selector(graph, found, cost_model(graph))
    seconds = time.process_time() - begin
    print(f"{graph.name}: {len(selector.choices.book)} costs in {seconds:.1f} s of CPU")
    print(f"{'budget':>9} {'exact':>9} {'s':>6} {'solves':>6} {'cuts':>4}  ", end="")
    print(f"{'evolution, best and worst of ' + str(SEEDS):>32} {'s':>6} {'schemes':>9}")
    for budget in budgets(selector):
        print(row(selector, budget), flush=True)


def network(name: str, shared: Path) -> Graph:
    """The model with ten classes."""
    if name == "demo":
        return demo.network()
    graph = load(shared / "models" / "mcunet-5fps.int8.tflite")
    return replace_head(graph, find_head(graph).node, 10)


def random_gains(graph: Graph) -> Contributions:
    """Larger for larger shares, of similar size for all layers; some are negative."""
    rng = np.random.default_rng(0)
    layers = layers_of(graph, find_head(graph))
    bias = (0.0, *np.cumsum(rng.normal(0.004, 0.004, len(layers))).tolist())
    weights = {
        i: {s: float(rng.normal(0.01, 0.006) * s**0.3) for s in SHARES} for i in range(len(layers))
    }
    names = tuple(layer.name for layer in layers)
    gains = {"accuracy": Gains(bias, weights)}
    factors = {0: 0.8, 4: 1.0, 8: 1.01}
    return Contributions(
        graph.name, digest(graph), 10, "training", names, {"accuracy": 0.6}, gains, factors
    )


def budgets(selector: Selector) -> list[int]:
    """From little to most of what could be used."""
    least = smallest(selector.choices)
    everything = selector.select(Limits(), with_next=False).measured.sram_bytes
    return [round(least + share * (everything - least)) for share in BUDGETS]


def smallest(choices: Choices) -> int:
    """Bytes of the head alone."""
    head = choices.depths[0]
    return int(head.memory.max()) + head.state_bytes


def row(selector: Selector, budget: int) -> str:
    """Both answers and what they cost."""
    begin = time.process_time()
    exact = selector.select(Limits(budget), with_next=False)
    exact_s = time.process_time() - begin
    spaces = [
        Space(depth, bits, selector.factors[bits], selector.costs.fixed_sram_bytes)
        for depth in selector.choices.depths
        for bits in selector.choices.bits
    ]
    begin, gains, evaluated = time.process_time(), [], 0
    for seed in range(SEEDS):
        evolution = Evolution(spaces, budget, seed)
        evolution.run()
        gains.append(evolution.best(selector))
        evaluated += evolution.evaluated
    seconds = (time.process_time() - begin) / SEEDS
    return (
        f"{budget:>9,} {exact.gain:>9.4f} {exact_s:>6.1f} {exact.solves:>6} {exact.cuts:>4}  "
        f"{max(gains):>21.4f} {min(gains):>10.4f} {seconds:>6.1f} {evaluated // SEEDS:>9,}"
    )


if __name__ == "__main__":
    main()

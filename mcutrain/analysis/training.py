"""Contribution by training: what each bias depth and each layer's share adds, by trying it.

Lin et al., "On-Device Training Under 256KB Memory", NeurIPS 2022, section 2.3: train with an update
scheme, and take the accuracy it adds. Here every candidate starts from the same head, sees the same
samples in the same order, and runs in the device's integers.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, field, replace
from functools import cached_property
from importlib.metadata import version
from typing import Any

import numpy as np
from mcutrain_host.dataclass import dataclass

from mcutrain.analysis import candidates as kinds
from mcutrain.analysis.candidates import HEAD, Candidate
from mcutrain.analysis.cut_step import cut_step
from mcutrain.analysis.front import Activations, Cut, cut_at, cut_before, worthwhile_cuts
from mcutrain.analysis.module_parts import ModuleParts, module_parts
from mcutrain.analysis.problem import HEAD_EPOCHS, Problem
from mcutrain.analysis.progress import Estimate, Report, Times, TrialsDone
from mcutrain.analysis.store import Store, analysis_folder
from mcutrain.analysis.trial import TrialSettings, run_trial, trained_head
from mcutrain.analysis.workers import Call, Execution, Workers, workers
from mcutrain.arguments import EPOCHS
from mcutrain.ir.digest import graph_digest
from mcutrain.ir.graph import Graph
from mcutrain.selection.contribution import Contributions, Gains
from mcutrain.sparse import UpdateScheme, arrange, find_head
from mcutrain.sparse.leaving_out import ModulePlace, trained_modules_only, without_modules
from mcutrain.sparse.scheme import USUAL_BITS

BEST_LAYERS = 6
"""Layers of one scheme on which the residual bits are compared."""
BROAD_SHARE = 0.25
"""Share of the many layers of the other one."""
NEARLY_ALL = 0.95
BACKWARD = 2.5
"""Time of a multiply-accumulate backward and in updates, over one forward; only for estimates."""
ON_ALL_CORES = Execution()
RESULTS = 3
"""Raised when the same inputs would give another result."""


@dataclass(frozen=True)
class TrainingSettings:
    """head_epochs: of the head alone, before all else. epochs: of every candidate.

    Early layers gain more with a head that was trained before: a new one passes hardly any gradient
    back at first. By default candidates start as `mcutrain simulate` does.

    learning_rate: per sample. module_rate: as a scheme has it. seeds: how many runs with other
    orders and roundings are averaged, from `seed` on.
    """

    epochs: int = EPOCHS
    learning_rate: float = 0.1 / 256
    seed: int = 0
    seeds: int = 1
    head_epochs: int = HEAD_EPOCHS["training"]
    module_rate: float | None = None


def by_training(
    problem: Problem,
    settings: TrainingSettings,
    execution: Execution = ON_ALL_CORES,
    report: Report = lambda _: None,
    times: Times | None = None,
) -> Contributions:
    """Train every candidate. Results stay in the cache, so that an interrupted analysis continues.

    report: called with the progress. times: is filled with where the time went.
    """
    analysis = _Analysis(problem, settings, report, times or Times())
    started = time.monotonic()
    count = len(problem.layers)
    with workers(execution) as pool:
        later = kinds.weight_candidates(count, count // 2)  # as expensive as they may turn out
        values = analysis.outcomes(kinds.bias_candidates(count), pool, later)
        base = base_depth(kinds.bias_gains(_of(values, problem.measures[-2]), count))
        values |= analysis.outcomes(kinds.weight_candidates(count, base), pool)
        values |= analysis.outcomes(kinds.module_candidates(count, analysis.modules, base), pool)
        compared = [
            kinds.residual_candidates(count, weights, base)
            for weights in _references(_of(values, problem.measures[-2]), count, base)
        ]
        values |= analysis.outcomes([c for by in compared for c in by.values()], pool)
    analysis.forget()
    analysis.times.wall = time.monotonic() - started
    return analysis.contributions(values, compared, base)


def base_depth(bias: Sequence[float]) -> int:
    """The least bias depth that gains nearly all that biases can.

    Weights are measured over at least so many biases. Over fewer, late layers would get the credit
    for what the biases before them gain as well, and schemes train those in any case: they are
    the cheapest.
    """
    smooth = Gains(tuple(bias), {}).smoothed().bias
    enough = NEARLY_ALL * smooth[-1]
    return next(depth for depth, gain in enumerate(smooth) if gain >= enough)


Values = dict[Candidate, dict[str, float]]
Modules = tuple[tuple[str, int], ...]
"""As Candidate has them."""


@dataclass
class _Analysis:
    """The state of one analysis: activations made, results known, time spent."""

    problem: Problem
    settings: TrainingSettings
    report: Report
    times: Times
    store: Store = field(default_factory=lambda: Store(analysis_folder() / "results"))
    _starts: dict[int, Graph] = field(default_factory=dict)

    @cached_property
    def cuts(self) -> tuple[Cut, ...]:
        return worthwhile_cuts(self._plain)

    @cached_property
    def _plain(self) -> Graph:
        """The network without modules that have learnt nothing."""
        return self._without_modules[0]

    @cached_property
    def _without_modules(self) -> tuple[Graph, tuple[ModulePlace, ...]]:
        return without_modules(self._trunk)

    @cached_property
    def modules(self) -> tuple[ModuleParts, ...]:
        return module_parts(self._trunk)

    @cached_property
    def _read_by(self) -> dict[str, str]:
        """The tensor that each module reads, by its name."""
        return {place.module.name: place.reads for place in self._without_modules[1]}

    @cached_property
    def activations(self) -> tuple[Activations, Activations]:
        """Activations of the training and the test samples."""
        folder = analysis_folder() / "activations"

        def report(name: str, done: int, count: int) -> None:
            self.report(TrialsDone(f"activations at {name}", done, count))

        train = Activations(self._plain, self.cuts, self.problem.train_x, folder, report)
        return train, Activations(self._plain, self.cuts, self.problem.test_x, folder, report)

    def outcomes(
        self, wanted: Sequence[Candidate], pool: Workers, later: Sequence[Candidate] = ()
    ) -> Values:
        """Every measure of the candidates, the mean over all seeds.

        later: what will be wanted next; it counts in the remaining time.
        """
        seeds = range(self.settings.seed, self.settings.seed + self.settings.seeds)
        keys = {(c, seed): self._key(c, seed) for seed in seeds for c in wanted}
        known: dict[str, dict[str, float]] = {}
        for key in set(keys.values()):
            found = self.store.get(key)
            if found is not None and found.keys() >= set(self.problem.measures):
                known[key] = found
        self.times.cached += len(known)
        missing = {key: pair for pair, key in keys.items() if key not in known}
        known |= self._run(missing, pool, tuple(later) * len(seeds))
        return {
            c: {
                m: float(np.mean([known[keys[c, s]][m] for s in seeds]))
                for m in self.problem.measures
            }
            for c in wanted
        }

    def _run(
        self,
        missing: Mapping[str, tuple[Candidate, int]],
        pool: Workers,
        later: Sequence[Candidate],
    ) -> dict[str, dict[str, float]]:
        """The trials that are not in the cache, the longest first."""
        costs = {key: self._cost(candidate) for key, (candidate, _) in missing.items()}
        order = sorted(missing, key=lambda key: (-costs[key], key))
        following = {f"later {i}": self._cost(c) for i, c in enumerate(later)}
        estimate = Estimate({**costs, **following}, pool.count)
        total = len(order) + len(following)
        if order:
            used = {self._cut(candidate) for candidate, _ in missing.values()}
            self._prepare({seed for _, seed in missing.values()}, used)
            self.report(TrialsDone("training candidates", 0, total))
        known: dict[str, dict[str, float]] = {}
        for key, result in pool.results(self._calls(order, missing)):
            self.store.put(key, result)
            self.times.add(result)
            known[key] = result
            estimate.add(key, result)
            left = estimate.remaining_seconds()
            self.report(TrialsDone("training candidates", len(known), total, left))
        return known

    def _prepare(self, seeds: set[int], cuts: set[Cut]) -> None:
        """Activations and trained heads: what the trials start from."""
        started = time.monotonic()
        last = self.cuts[-1]
        for cut in sorted({last, *cuts}, key=lambda c: c.position):
            for part in self.activations:
                part.at(cut)
        for seed in sorted(seeds - self._starts.keys()):
            rate = self.problem.head_rate * self.settings.learning_rate
            settings = TrialSettings(self.settings.head_epochs, rate, seed)
            x = self.activations[0].at(last)
            graph = self._trunk
            self._starts[seed] = trained_head(
                graph, last, x, self.problem.train_y, settings, self.problem.targets
            )
        self.times.front += time.monotonic() - started

    def _calls(
        self, order: Sequence[str], missing: Mapping[str, tuple[Candidate, int]]
    ) -> Iterator[Call]:
        problem = self.problem
        arrays: dict[Cut, tuple[Any, ...]] = {}
        for key in order:
            candidate, seed = missing[key]
            cut = self._cut(candidate)
            if cut not in arrays:
                train_x, test_x = (part.at(cut) for part in self.activations)
                arrays[cut] = (train_x, problem.train_y, test_x, problem.test_y)
            step = cut_step(self._starts[seed], self._scheme(candidate), cut, problem.targets)
            yield key, run_trial, (step, self._trial_settings(seed), *arrays[cut])

    def forget(self) -> None:
        """Delete the activations: they are large, and quickly made again."""
        for part in self.activations:
            part.forget()

    def contributions(
        self, values: Values, compared: Sequence[Mapping[int, Candidate]], base: int
    ) -> Contributions:
        problem, count = self.problem, len(self.problem.layers)
        measured = {m: _of(values, m) for m in problem.measures}
        return Contributions(
            model=problem.model.name,
            model_digest=problem.model_digest,
            classes=problem.outputs,
            method="training",
            layers=tuple(layer.name for layer in problem.layers),
            head={m: measured[m][HEAD] for m in problem.measures},
            gains={m: kinds.gains(by, count, base, self.modules) for m, by in measured.items()},
            residual_factor=_residual_factor(measured[problem.measures[-2]], compared),
            module_rate=self.settings.module_rate,
            settings={
                **asdict(self.settings),
                "samples": len(problem.train_y),
                "test_samples": len(problem.test_y),
                "data_digest": problem.data_digest,
                **problem.said_of_targets,
                "base_depth": base,
                "residual_references": [list(by[USUAL_BITS].weights) for by in compared],
                "seconds": {k: round(v, 3) for k, v in asdict(self.times).items()},
            },
        )

    def _scheme(self, candidate: Candidate) -> UpdateScheme:
        """A head that has learnt before learns on as fast as all else."""
        rate = 1.0 if self.settings.head_epochs else self.problem.head_rate
        return replace(candidate.scheme(self.settings.module_rate), head_rate=rate)

    def _trial_settings(self, seed: int) -> TrialSettings:
        return TrialSettings(self.settings.epochs, self.settings.learning_rate, seed)

    def _key(self, candidate: Candidate, seed: int) -> str:
        """A hash of all that the result depends on."""
        scheme = self._scheme(candidate)
        trunk, trunk_digest = self._trained_trunk(candidate)
        order, updates = arrange(scheme, trunk)
        parts = (
            RESULTS,
            version("mcutrain"),
            trunk_digest,
            self._data_digest,
            self.settings.head_epochs,
            self._trial_settings(seed),
            sorted(updates.items()),
            sorted(order.orders.items()),
        )
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]

    @cached_property
    def _data_digest(self) -> str:
        return self.problem.data_digest

    @cached_property
    def _trained_trunks(self) -> dict[Modules, tuple[Graph, str]]:
        return {}

    def _trained_trunk(self, candidate: Candidate) -> tuple[Graph, str]:
        """The network with the candidate's modules alone, and its digest."""
        key = candidate.modules
        if key not in self._trained_trunks:
            graph = trained_modules_only(self._trunk, self._scheme(candidate))
            self._trained_trunks[key] = graph, graph_digest(graph)
        return self._trained_trunks[key]

    @cached_property
    def _trunk(self) -> Graph:
        return self.problem.trunk()

    def _position(self, candidate: Candidate) -> int:
        """The first trained node of a candidate, in the network without modules; before it, what
        reads the tensor of a module."""
        layers = self.problem.layers
        first = candidate.first_layer(len(layers))
        layer = layers[first] if first < len(layers) else find_head(self._plain)
        position = [n.name for n in self._plain.nodes].index(layer.name)
        read = (cut_at(self._plain, self._read_by[name]).position for name, _ in candidate.modules)
        return min(position, *read) if candidate.modules else position

    def _cut(self, candidate: Candidate) -> Cut:
        return cut_before(self.cuts, self._position(candidate))

    def _cost(self, candidate: Candidate) -> float:
        """Multiply-accumulates of a trial, those of the backward pass weighted."""
        forward = self._plain.macs(self._cut(candidate).position)
        backward = self._plain.macs(self._position(candidate))
        steps = self.settings.epochs * len(self.problem.train_y)
        tests = len(self.problem.test_y)
        return steps * (forward + BACKWARD * backward) + tests * forward


Weights = tuple[tuple[int, float], ...]


def _of(values: Values, measure: str) -> dict[Candidate, float]:
    """One measure of all candidates; more is better."""
    sign = -1.0 if measure == "loss" else 1.0
    return {candidate: sign * by[measure] for candidate, by in values.items()}


def _references(measured: Mapping[Candidate, float], count: int, base: int) -> tuple[Weights, ...]:
    """Return what residual bits are compared on: much of few layers, and a little of many.

    A weight without residual bits takes the noise of rounding in whole steps. One layer stands
    that, many together need not, so the gains of single layers do not tell.
    """
    found = kinds.gains(measured, count, base).weights
    best = sorted(found, key=lambda i: (-found[i][1.0], i))[:BEST_LAYERS]
    many = tuple((i, BROAD_SHARE) for i in found if found[i][BROAD_SHARE] > 0)
    few = tuple((i, 1.0) for i in best)
    return (few, many) if len(many) > 1 else (few,)


def _residual_factor(
    measured: Mapping[Candidate, float], compared: Sequence[Mapping[int, Candidate]]
) -> dict[int, float]:
    """The gain of weights by residual bits over that with the usual, by the worse reference.

    Only the usual bits are offered where these references gain nothing.
    """
    usual = [measured[by[USUAL_BITS]] for by in compared]
    bases = [measured[kinds.bias_candidate(by[USUAL_BITS].bias_depth)] for by in compared]
    gain = max(of - base for of, base in zip(usual, bases, strict=True))
    if gain <= 0:
        return {USUAL_BITS: 1.0}
    change = {
        bits: min(measured[by[bits]] - of for by, of in zip(compared, usual, strict=True))
        for bits in compared[0]
    }
    return {bits: max(1.0 + change[bits] / gain, 0.0) for bits in change}

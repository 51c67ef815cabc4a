"""Different schemes for the same limits, each the best by one reading of an analysis.

Gains are measured one layer at a time with some noise, and trained together layers overlap. Which
reading of them predicts best is not known before; training the few schemes they propose tells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from mcutrain_host.dataclass import dataclass

from mcutrain.errors import PlanError, SchemeError
from mcutrain.ir.graph import Graph
from mcutrain.selection.contribution import SHARES, Contributions, Gains, is_joint
from mcutrain.selection.cost import CostModel, Limits
from mcutrain.selection.cost_book import Progress
from mcutrain.selection.result import Selection
from mcutrain.selection.select import Selector, fits
from mcutrain.sparse.scheme import USUAL_BITS, UpdateScheme, schemes_of

MEAN = "mean"
"""The measures' mean, each in parts of its largest gain."""
WEIGHT_FACTORS = (0.5, 2.0)
"""Factors on gains of weights: layers overlap more or less than they add up."""
FACTOR = ", weights × "
ALONE = ", layers alone"
"""Gains of modules overlap more than those of layers, so the best without any is tried, too."""
PUBLISHED = "published as "
"""The scheme that was published for this very network, found by others on other data: a prior."""


@dataclass(frozen=True)
class Proposal:
    """A reading of the analysis, and the best scheme by it."""

    reading: str
    selection: Selection


def readings(contributions: Contributions) -> dict[str, Gains]:
    """Return readings by name, the most natural first.

    Measures as they are, the first without modules, their mean, and weights less or more where
    gains are a sum.
    """
    measures = dict(contributions.gains)
    first = next(iter(measures))
    if measures[first].modules:
        others = {n: measures[n] for n in measures if n != first}
        alone = replace(measures[first], modules={})
        measures = {first: measures[first], f"{first}{ALONE}": alone, **others}
    sums = [gains for name, gains in contributions.gains.items() if not is_joint(name)]
    if len(sums) > 1:
        measures[MEAN] = _mean(sums)
    weighted = {
        f"{name}{FACTOR}{factor:g}": _weighted(measures[name], factor)
        for name in reversed(measures)
        if not is_joint(name)
        for factor in WEIGHT_FACTORS
    }
    return {**measures, **weighted}


def propose(
    graph: Graph,
    contributions: Contributions,
    costs: CostModel,
    limits: Limits,
    count: int,
    *,
    by_gradient: bool = False,
    progress: Progress = lambda done, total: None,
    report: Callable[[int], None] = lambda done: None,
) -> list[Proposal]:
    """Propose at most `count` different schemes, fewer if the readings agree.

    report: told how many are found. Raises PlanError if nothing fits.
    """
    by_text: dict[str, Proposal] = {}
    known = published(contributions, costs, limits)
    for name, selector in _selectors(graph, contributions, costs, by_gradient, progress):
        selection = selector.select(limits, with_next=False)
        proposals = [Proposal(name, selection)]
        if known is not None:  # beside the first reading
            prior = selector.given(known, limits, selection.bound)
            proposals += [] if prior is None else [Proposal(f"{PUBLISHED}{known.name}", prior)]
            known = None
        for proposal in proposals:
            by_text.setdefault(proposal.selection.scheme.to_toml(), proposal)
            report(len(by_text))
            if len(by_text) == count:
                return list(by_text.values())
    return list(by_text.values())


def _selectors(
    graph: Graph,
    contributions: Contributions,
    costs: CostModel,
    by_gradient: bool,
    progress: Progress,
) -> Iterator[tuple[str, Selector]]:
    """Yield a selector for every reading, the usual residual bits first."""
    read = readings(contributions)
    plain = [name for name in read if FACTOR not in name]
    weighted = [name for name in read if FACTOR in name]
    free = replace(contributions, gains=read)
    usual = replace(free, residual_factor={USUAL_BITS: 1.0})
    for analysis, names in ((usual, plain), (free, plain), (usual, weighted)):
        for name in names:
            selector = Selector(graph, analysis, costs, name, progress)
            selector.by_gradient = by_gradient
            yield (name if analysis is usual else f"{name}, any residual bits"), selector


def published(
    contributions: Contributions, costs: CostModel, limits: Limits
) -> UpdateScheme | None:
    """The largest shipped scheme of this network that fits; None if there is none."""
    count = len(contributions.layers)
    found: list[tuple[int, str, UpdateScheme]] = []
    for scheme in schemes_of(contributions.model):
        depth = scheme.bias_depth or 0
        shares = {int(i): share for i, share in scheme.weights.items() if share > 0}
        is_choice = max(shares, default=0) < count and set(shares.values()) <= set(SHARES)
        if depth > count or not is_choice:
            continue
        try:
            needs = costs.plan(scheme)
        except (SchemeError, PlanError):  # of another network of that name
            continue
        if fits(limits, needs):
            found.append((needs.sram_bytes, scheme.name, scheme))
    return max(found, key=lambda one: one[:2])[-1] if found else None


def _weighted(gains: Gains, factor: float) -> Gains:
    weights = {i: {s: factor * g for s, g in by.items()} for i, by in gains.weights.items()}
    modules = {n: {c: factor * g for c, g in by.items()} for n, by in gains.modules.items()}
    return Gains(gains.bias, weights, modules)


def _mean(every: list[Gains]) -> Gains:
    """Return the mean of gains, of what all of them have."""
    units = [_largest(gains) or 1.0 for gains in every]

    def mean(gains: Iterable[float]) -> float:
        return sum(gain / unit for gain, unit in zip(gains, units, strict=True)) / len(every)

    bias = tuple(mean(g.bias[k] for g in every) for k in range(len(every[0].bias)))
    weights: dict[int, dict[float, float]] = {}
    for i, by in every[0].weights.items():
        shares = [s for s in by if all(s in g.weights.get(i, {}) for g in every)]
        weights[i] = {s: mean([g.weights[i][s] for g in every]) for s in shares}
    modules: dict[str, dict[int, float]] = {}
    for name, own in every[0].modules.items():
        counts = [c for c in own if all(c in g.modules.get(name, {}) for g in every)]
        modules[name] = {c: mean([g.modules[name][c] for g in every]) for c in counts}
    return Gains(bias, weights, modules)


def _largest(gains: Gains) -> float:
    weights = (g for by in gains.weights.values() for g in by.values())
    modules = (g for by in gains.modules.values() for g in by.values())
    return max(0.0, *gains.bias, *weights, *modules)

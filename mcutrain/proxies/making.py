"""A proxy cascade from a network's own and unlabelled samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.cost.flash import network_bytes
from mcutrain.cost.instructions import USUAL_ISA, network_instructions
from mcutrain.errors import ArgumentError, DataError, PlanError
from mcutrain.ir.graph import Graph
from mcutrain.memplan import Ladder, Latent, front
from mcutrain.pipeline import TrainingStep
from mcutrain.proxies.compiled import latents_of
from mcutrain.proxies.distil import Distilled, distil
from mcutrain.proxies.fit import fit
from mcutrain.proxies.folder import MOST_PROXIES
from mcutrain.proxies.inner import Inner, inner_channels
from mcutrain.proxies.policy import (
    features_of,
    fit_policy,
    levels_of,
    on_grid,
    policy_graph,
    stem_of,
)
from mcutrain.proxies.rank import Ranking, allocate, rank
from mcutrain.shown import Record, Shown

Array = npt.NDArray[Any]
Report = Callable[[str, int, int], None]
"""Called with what is being done, how much of it, and of how much."""
Kept = tuple[tuple[Inner, Array], ...]
FITTED_SAMPLES = 128
"""Most samples to which a front is fitted by least squares.

Fronts learn from half of the samples. A quarter fits the policy, and a quarter says how good both
are.
"""
FEWEST_SAMPLES = 16
PASSES = 8


@dataclass(frozen=True)
class LadderSettings:
    """What is wanted.

    levels: fronts, the whole one among them. delta: how much less each costs than the one before,
    as a share of the cost of all channels that can go. threshold: the least cosine of a proxy's
    latent and the whole front's that is near enough. None takes the median of the cheapest level,
    so that this level serves half of the samples. least_cosine: that every level has to reach in
    the mean. distillation: passes over the samples that fronts are trained for, when they are
    fitted.
    """

    levels: int = 3
    delta: float = 0.25
    threshold: float | None = None
    least_cosine: float | None = None
    distillation: int = PASSES

    def check(self) -> None:
        """Raise ArgumentError for what makes no sense."""
        if not 2 <= self.levels <= MOST_PROXIES + 1:
            raise ArgumentError(f"{self.levels} levels: give 2 to {MOST_PROXIES + 1}")
        if not 0 < self.delta * (self.levels - 1) < 1:
            raise ArgumentError(
                f"{self.levels - 1} times {self.delta:g} is no share below 1 that can go: give "
                "fewer levels, or a smaller delta"
            )
        if self.distillation < 0:
            raise ArgumentError(f"{self.distillation} passes of distillation: give 0 or more")
        for name, value in (("threshold", self.threshold), ("least cosine", self.least_cosine)):
            if value is not None and not -1 <= value <= 1:
                raise ArgumentError(f"a {name} of {value:g} is no cosine: give -1 to 1")


@dataclass(frozen=True)
class Level:
    """A front of the cascade, on samples that neither it nor the policy was fitted to.

    channels, of: of the groups that can be pruned. macs, instructions: of an inference of the
    front; instructions are estimated for a Cortex-M4 or M7. flash_bytes: of what it has that the
    whole front has not. cosine: of its latent and the whole front's, the mean over the samples.
    error: the squared error as a share of the latent's variance. gain: what distillation took of
    it, on other samples. near: of how many samples it is near enough. share: of those that the
    policy sends to it.
    """

    level: int
    channels: int
    of: int
    macs: int
    instructions: int
    flash_bytes: int
    cosine: float
    error: float
    gain: float
    near: float
    share: float


@dataclass(frozen=True, repr=False)
class MadeLadder(Shown):
    """A proxy cascade, the front that it is of, and how good it is.

    right: for how many samples the policy chooses the cheapest level that is near enough.
    policy_macs: of its own, behind the stem. policy_instructions: of all that it computes, the stem
    at some positions among them. samples: of which the figures are.
    """

    ladder: Ladder
    front: Graph
    delta: float
    threshold: float
    levels: tuple[Level, ...]
    right: float
    policy_macs: int
    policy_instructions: int
    samples: int

    @property
    def mean_instructions(self) -> float:
        """Instructions of policy and chosen front for a sample, as a share of the whole front's."""
        fronts = sum(level.share * level.instructions for level in self.levels)
        return (self.policy_instructions + fronts) / self.levels[0].instructions

    def summary(self) -> str:
        """Return a line that describes it."""
        cheapest = self.levels[-1]
        return (
            f"{len(self.levels)} fronts to {self.ladder.latent}, the least with "
            f"{cheapest.macs / self.levels[0].macs:.0%} of the products and a cosine of "
            f"{cheapest.cosine:.3f}"
        )

    def records(self) -> list[Record]:
        """A row for each level."""
        return [asdict(level) for level in self.levels]

    def facts(self) -> dict[str, Any]:
        """Return values for a cascade's JSON file, and --json."""
        return {
            "delta": self.delta,
            "threshold": self.threshold,
            "samples": self.samples,
            "policy_macs": self.policy_macs,
            "policy_instructions": self.policy_instructions,
            "mean_instructions": self.mean_instructions,
            "policy_right": self.right,
            "levels": self.records(),
        }


def make_ladder(
    step: TrainingStep,
    latent: Latent,
    x: Array,
    settings: LadderSettings = LadderSettings(),
    report: Report = lambda *_: None,
) -> MadeLadder:
    """Fronts for a step that begins with `latent`. x: samples, int8 [n, …], without labels.

    Raises ArgumentError, DataError for too few samples, PlanError where nothing can be pruned or
    a level does not reach what is wanted.
    """
    settings.check()
    if len(x) < FEWEST_SAMPLES:
        raise DataError(f"{len(x)} samples are too few to fit fronts to: give {FEWEST_SAMPLES}")
    whole = front(step.plan.training, latent)
    stem = stem_of(whole)
    groups = _groups(whole, stem, latent)
    learnt, others = np.array_split(x, 2)
    kept, fitted = _fitted(whole, groups, learnt[:FITTED_SAMPLES], settings, report)
    distilled = _distilled(whole, fitted, learnt, settings.distillation, report)
    fronts = [found.front for found in distilled]
    told, judged = np.array_split(others, 2)
    known = _distances(fronts, told, latent, partial(report, "comparing"))
    threshold = settings.threshold
    if threshold is None:
        threshold = float(np.median(known[-1].cosines))
    policy = _policy(on_grid(stem), told, difficulties(known, threshold), settings.levels)
    distances = _distances(fronts, judged, latent, partial(report, "judging"))
    _check(distances, settings)
    chosen = levels_of(policy, judged)
    levels = tuple(
        Level(
            level=n,
            channels=sum(len(channels) for _, channels in kept[n]),
            of=sum(group.channels for group in groups),
            macs=graph.macs(),
            instructions=int(_instructions(graph)),
            flash_bytes=0 if n == 0 else network_bytes(graph, whole),
            cosine=float(distances[n].cosines.mean()),
            error=distances[n].error,
            gain=distilled[n].gain,
            near=float((distances[n].cosines >= threshold).mean()),
            share=float((chosen == n).mean()),
        )
        for n, graph in enumerate(fronts)
    )
    return MadeLadder(
        Ladder(latent.tensor, tuple(fronts[1:]), policy),
        whole,
        settings.delta,
        threshold,
        levels,
        float((chosen == difficulties(distances, threshold)).mean()),
        policy.macs() - on_grid(stem).macs(),
        round(_instructions(policy)),
        len(judged),
    )


@dataclass(frozen=True)
class Distances:
    """How far latents are from the whole front's. cosines: of each sample. error: see Level."""

    cosines: Array
    error: float

    @staticmethod
    def of(wanted: Array, found: Array, zero_point: int) -> Distances:
        """Measure int8 latents [n, …]."""
        a, b = (v.reshape(len(v), -1).astype(np.float64) - zero_point for v in (wanted, found))
        norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
        cosines = np.where(norms > 0, (a * b).sum(axis=1) / np.maximum(norms, 1e-9), 1.0)
        variance = ((a - a.mean(axis=0)) ** 2).sum()
        return Distances(cosines, float(((a - b) ** 2).sum() / max(variance, 1e-9)))


def difficulties(distances: Sequence[Distances], threshold: float) -> Array:
    """The cheapest level that is near enough, of each sample, by each level's distances.

    0, the whole front, where none is.
    """
    cosines = np.array([d.cosines for d in distances])
    levels = np.arange(len(cosines))[:, None]
    found: Array = np.where(cosines >= threshold, levels, 0).max(axis=0)
    return found


def _distances(
    fronts: Sequence[Graph], x: Array, latent: Latent, report: Callable[[int, int], None]
) -> list[Distances]:
    """Measure each front, the whole one first."""
    made = [latents_of(graph, x, report) for graph in fronts]
    return [Distances.of(made[0], found, latent.type.zero_point) for found in made]


def _policy(stem: Graph, x: Array, wanted: Array, levels: int) -> Graph:
    """Return what tells the wanted level of each sample."""
    features = features_of(stem, x)
    return policy_graph(stem, *fit_policy(features, wanted, levels), features)


def _fitted(
    whole: Graph, groups: tuple[Inner, ...], x: Array, settings: LadderSettings, report: Report
) -> tuple[list[Kept], list[Graph]]:
    """Return for each level the channels that it keeps, and the front; level 0 keeps all."""
    ranking = rank(whole, groups, x, _instructions, partial(report, "ranking channels"))
    kept: list[Kept] = [tuple((group, np.arange(group.channels)) for group in groups)]
    for level in range(1, settings.levels):
        kept.append(_fewer(ranking, 1 - level * settings.delta, kept[-1], level))
    levels = enumerate(kept[1:], 1)
    fronts = [fit(whole, k, x, partial(report, f"fitting level {n}")) for n, k in levels]
    return kept, [whole, *fronts]


def _distilled(
    whole: Graph, fitted: list[Graph], x: Array, passes: int, report: Report
) -> list[Distilled]:
    """The fronts, the whole one first, trained for what that gives."""
    found = [Distilled(whole, 0.0)]
    if not passes:
        return [*found, *(Distilled(graph, 0.0) for graph in fitted[1:])]
    wanted = latents_of(whole, x)
    for n, graph in enumerate(fitted[1:], 1):
        told = partial(report, f"distilling level {n}")
        found.append(distil(graph, whole, x, wanted, passes, told))
    return found


def _groups(whole: Graph, stem: Graph, latent: Latent) -> tuple[Inner, ...]:
    fixed = [name for node in stem.nodes for name in node.outputs]
    groups = inner_channels(whole, fixed)
    if not groups:
        raise PlanError(
            f"nothing before {latent.tensor!r} can be pruned: no convolution behind the first has "
            "channels that only convolutions of the front read; train fewer layers, so that the "
            "front is longer"
        )
    return groups


def _fewer(ranking: tuple[Ranking, ...], share: float, before: Kept, level: int) -> Kept:
    """Raises PlanError if there is nothing more that can go."""
    kept = allocate(ranking, share)
    counts = [sum(len(channels) for _, channels in found) for found in (before, kept)]
    if counts[0] <= counts[1]:
        raise PlanError(
            f"level {level} can lose no more channels than level {level - 1}, which has "
            f"{counts[0]}: give fewer levels, or another delta"
        )
    return kept


def _check(distances: list[Distances], settings: LadderSettings) -> None:
    least = settings.least_cosine
    if least is None:
        return
    means = [float(d.cosines.mean()) for d in distances]
    if min(means) < least:
        reached = ", ".join(f"{mean:.4f} by level {n}" for n, mean in enumerate(means) if n)
        raise PlanError(
            f"a cosine of {least:g} was asked for and not reached: {reached}; give fewer levels, "
            "a smaller delta or more samples"
        )


def _instructions(graph: Graph) -> float:
    return sum(network_instructions(graph, USUAL_ISA).values())

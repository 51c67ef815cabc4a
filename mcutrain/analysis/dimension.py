"""Effective dimension: how many directions a parameter's gradients offer that training can use.

The gradients of n samples g_1 … g_n have the covariance (1/n) sum g gᵀ with eigenvalues λ. After T
steps at learning rate η, gradient descent has gone a share of about λ / (λ + ρ), ρ = 1/(η T), of
the way along each direction. Early stopping is a ridge (Yao, Rosasco, Caponnetto 2007; Ali, Kolter,
Tibshirani 2019). The sum of these shares is the effective dimension (degrees of freedom; Zhang
2005). Where all λ are far below ρ it is Fisher information over ρ; but a direction counts at most
once, however steep. So layers near the input, whose few gradients are large and all point one way,
do not come first, as they do by Fisher information and by the first-order estimate.

The eigenvalues are those of the samples' inner products, so the covariance is never built.

A step follows one sample, though, and disturbs what the others taught. The least mean squares rule
learns slower for it, by the factor 1 - η t / 2, and diverges where that is 0. t is the mean squared
gradient, added up over all that is trained (Widrow et al. 1976; Feuer, Weinstein 1985). What is
learnable is the effective dimension with so much smaller a rate. It is why early layers, whose
gradients are the largest, are not worth training at the rate of the others. At the rates that suit
many classes they would stop everything from learning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.analysis.module_parts import ModuleParts
from mcutrain.selection.contribution import Gains
from mcutrain.selection.kernels import Kernels

Array = npt.NDArray[Any]

MOST_SAMPLES = 128
"""Measured on mcunet-5fps and the demo: 64, 128 and 256 samples rank alike within 0.03."""
MOST_KEPT = 128
"""Samples whose inner products stand in the analysis: of all parts of a network, some megabytes."""
COSINE_MOMENTS = (1 / 2, 3 / 8)
"""Mean and mean square of (1 + cos x) / 2 between 0 and π."""
MOST_BYTES = 2**29
"""Most bytes for the gradients of all samples, float32; large networks take fewer samples."""


@dataclass
class InnerProducts:
    """Collects gradients, sample by sample.

    parts: parameter → its channels (last axis) in groups. A share of a weight is a number of
    groups, from the first on; a bias has one group.
    """

    parts: Mapping[str, Sequence[Array]]
    _rows: dict[str, list[Array]] = field(default_factory=dict)

    def add(self, gradients: Mapping[str, Array]) -> None:
        """One more sample, unless there are enough of them."""
        elements = sum(gradients[name].size for name in self.parts)
        most = min(MOST_SAMPLES, max(MOST_BYTES // (4 * elements), 2))
        for name, groups in self.parts.items():
            rows = self._rows.setdefault(name, [])
            if len(rows) < most:
                flat = gradients[name].reshape(-1, gradients[name].shape[-1])
                ordered = [flat[:, group].ravel() for group in groups]
                rows.append(np.concatenate(ordered).astype(np.float32))

    def of(self, name: str) -> tuple[Array, ...]:
        """Inner products [samples, samples] over the first group, the first two, …"""
        rows = np.array(self._rows[name], np.float64)
        per_channel = rows.shape[1] // sum(len(group) for group in self.parts[name])
        total = np.zeros((len(rows), len(rows)))
        found = []
        first = 0
        for group in self.parts[name]:
            last = first + len(group) * per_channel
            total = total + rows[:, first:last] @ rows[:, first:last].T
            found.append(total)
            first = last
        return tuple(found)


def effective_dimension(products: Array, ridge: float) -> float:
    """Sum of λ / (λ + ridge) over the eigenvalues of products / samples."""
    eigenvalues = np.maximum(np.linalg.eigvalsh(products / len(products)), 0.0)
    return float((eigenvalues / (eigenvalues + ridge)).sum())


def learnable(products: Array, learning_rate: float, steps: int) -> float:
    """The effective dimension that steps of one sample reach; 0 where they overshoot.

    learning_rate: the largest of a cosine schedule, whose mean is half of it.
    """
    slowed = 1 - learning_rate / 2 * float(np.trace(products)) / len(products)
    if slowed <= 0:
        return 0.0
    return effective_dimension(products, 2 / (learning_rate * slowed * steps))


Measure = Callable[[Array], float]
"""Measures what is trained, from the inner products of its gradients."""


def product_gains(
    products: Mapping[str, Sequence[Array]],
    names: Mapping[int, tuple[str, str]],
    shares: Mapping[int, Mapping[float, int]],
    modules: Sequence[ModuleParts],
    measure: Measure,
    base: int = 0,
) -> Gains:
    """Return what biases and weights add to a measure that is 0 where nothing is trained.

    products: as InnerProducts.of has them. names: layer → weight and bias. shares: layer → share →
    how many groups of channels it has. base: weights add to the biases of their layer and those
    behind it, and at least to the last `base`. Over fewer, late layers would get the credit for
    what the biases before them can do. Modules add to all biases: over fewer, each of many gets the
    credit for the same. (mcunet-5fps, 75,084 bytes, CIFAR-10, three seeds: what is selected among
    layers and modules learns 77.4 % over few biases, 79.2 % over all.)
    """
    behind: list[Array] = []
    for layer in sorted(names, reverse=True):
        bias = products[names[layer][1]][-1]
        behind.append(bias if not behind else behind[-1] + bias)
    by_depth = (0.0, *map(measure, behind))
    weights: dict[int, dict[float, float]] = {}
    for layer, (name, _) in sorted(names.items()):
        depth = max(len(names) - layer, base)
        by_group = [measure(behind[depth - 1] + more) for more in products[name]]
        weights[layer] = {
            share: by_group[groups - 1] - by_depth[depth] for share, groups in shares[layer].items()
        }
    of_modules: dict[str, dict[int, float]] = {}
    for module in modules:
        own = behind[-1] + sum(products[name][-1] for name in module.biases)
        of_modules[module.name] = {
            count: measure(own + part) - by_depth[-1]
            for count, part in zip(module.counts, products[module.name], strict=True)
        }
    return Gains(by_depth, weights, of_modules)


def kernels_of(
    products: Mapping[str, Sequence[Array]],
    names: Mapping[int, tuple[str, str]],
    shares: Mapping[int, Mapping[float, int]],
    modules: Sequence[ModuleParts],
    rate: float,
    steps: int,
) -> Kernels:
    """The inner products themselves, by what a scheme may train; arguments as product_gains has
    them. rate: the largest of a cosine schedule."""

    def single(found: Array) -> Array:
        return found[:MOST_KEPT, :MOST_KEPT].astype(np.float32)

    weights = {
        i: {s: single(products[names[i][0]][n - 1]) for s, n in by.items()}
        for i, by in shares.items()
    }
    own = {}
    for module in modules:
        beside = sum(products[name][-1] for name in module.biases)
        parts = zip(module.counts, products[module.name], strict=True)
        own[module.name] = {count: single(part + beside) for count, part in parts}
    biases = tuple(single(products[names[i][1]][-1]) for i in sorted(names))
    mean, mean_square = COSINE_MOMENTS
    return Kernels(mean * rate, mean_square / mean * rate, steps, biases, weights, own)


def nested_groups(picked: Sequence[Sequence[int]]) -> tuple[tuple[Array, ...], tuple[int, ...]]:
    """Channels in groups, from nested choices of them, and how many groups each choice has."""
    groups: list[Array] = []
    counts = []
    known: set[int] = set()
    for choice in picked:
        new = sorted(set(choice) - known)
        if new:
            groups.append(np.array(new))
            known.update(new)
        counts.append(len(groups))
    return tuple(groups), tuple(counts)

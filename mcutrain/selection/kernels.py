"""What a whole scheme can learn: inner products of samples' gradients, which add up over parts.

Gains of layers overlap, and a sum of what each adds alone does not know by how much. The inner
products K [n, n] of the gradients of n samples do: over all that a scheme trains they are the sum
of those over its biases and weights. As mcutrain.analysis.dimension explains, T steps of rates η
reach the effective dimension g(X) = tr X (X + r n)⁻¹ with X = s K, r = 1 / (T · mean η). They are
slower by s = 1 - h t / 2, where t = tr K / n is the mean squared gradient. A step gains η and
disturbs η² t / 2, so over all steps h = mean η² / mean η. Where that is 0 or less, nothing is
learnt.

A concave function of X lies below each of its tangents, which is what an exact search needs. Let G₀
be the gradient at X₀. Where g(X₀) + <G₀, s K - X₀> < a, no scheme with inner products K reaches a.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

Array = npt.NDArray[Any]

LEAST_PACE = 1e-3
"""Below this factor s nothing is learnt; its inverse is in the tangents."""
HALVINGS = 7
"""How often the rate is halved where the best one for a scheme is looked for."""


@dataclass(frozen=True)
class Tangent:
    """Tangent at a scheme: g(X) <= offset + <slope, X>. trace: t of the scheme, pace: its s."""

    offset: float
    slope: Array
    trace: float
    pace: float


@dataclass(frozen=True, eq=False)
class Kernels:
    """Inner products [samples, samples] of all that can be trained, float32.

    rate: the mean of all steps'. disturbing_rate: mean square of the rates over their mean. steps:
    of one sample. biases: of each layer. weights: layer → share. modules: name → number of hidden
    channels, with the biases that a module brings.
    """

    rate: float
    disturbing_rate: float
    steps: int
    biases: Sequence[Array]
    weights: Mapping[int, Mapping[float, Array]]
    modules: Mapping[str, Mapping[int, Array]] = field(default_factory=dict)

    @property
    def samples(self) -> int:
        """How many; no scheme can learn more directions."""
        return len(self.biases[0])

    @cached_property
    def behind(self) -> tuple[Array, ...]:
        """Products of the last 0, 1, … biases, added up."""
        found = [np.zeros((self.samples, self.samples))]
        for products in reversed(self.biases):
            found.append(found[-1] + products)
        return tuple(found)

    def at(self, share: float) -> Kernels:
        """Return the same gradients' at a share of this rate."""
        rates = (share * self.rate, share * self.disturbing_rate)
        return replace(self, rate=rates[0], disturbing_rate=rates[1])

    def pace(self, trace: float) -> float:
        """The factor by which steps are slower where the mean squared gradient is `trace`."""
        return 1 - self.disturbing_rate / 2 * trace

    def learnable(self, products: Array) -> float:
        """Return what a scheme of these inner products reaches."""
        pace = self.pace(self.trace(products))
        if pace < LEAST_PACE:
            return 0.0
        eigenvalues = np.maximum(np.linalg.eigvalsh(pace * products), 0.0)
        return float((eigenvalues / (eigenvalues + self._ridge)).sum())

    def of(self, depth: int, shares: Mapping[int, float]) -> Array:
        """The inner products of a scheme: the last `depth` biases, and these shares of weights."""
        total: Array = self.behind[depth].copy()
        for layer, share in shares.items():
            total += self.weights[layer][share]
        return total

    def reachable(self, products: Array) -> float:
        """Return what a scheme reaches at the best of this rate and its halves.

        The more is trained, the smaller the steps have to be: at one rate for all, a scheme that
        trains everything would seem to learn nothing.
        """
        slower = (self.at(2.0**-halving) for halving in range(HALVINGS + 1))
        return max(kernels.learnable(products) for kernels in slower)

    def tangent(self, products: Array) -> Tangent | None:
        """Return where a scheme of these inner products is; None if it does not learn."""
        trace = self.trace(products)
        pace = self.pace(trace)
        if pace < LEAST_PACE:
            return None
        eigenvalues, vectors = np.linalg.eigh(pace * products)
        eigenvalues = np.maximum(eigenvalues, 0.0)
        share = eigenvalues / (eigenvalues + self._ridge)
        slopes = self._ridge / (eigenvalues + self._ridge) ** 2
        offset = float((share - slopes * eigenvalues).sum())
        return Tangent(offset, (vectors * slopes) @ vectors.T, trace, pace)

    def trace(self, products: Array) -> float:
        """The mean squared gradient."""
        return float(np.trace(products)) / self.samples

    @property
    def _ridge(self) -> float:
        return self.samples / (self.rate * self.steps)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Kernels) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def to_dict(self) -> dict[str, Any]:
        """Return values for JSON: each matrix on and below its diagonal, base64 of float32."""
        return {
            "samples": self.samples,
            "rate": self.rate,
            "disturbing_rate": self.disturbing_rate,
            "steps": self.steps,
            "biases": [_text(products) for products in self.biases],
            "weights": _texts(self.weights),
            **({"modules": _texts(self.modules)} if self.modules else {}),
        }


def _texts(of: Mapping[Any, Mapping[Any, Array]]) -> dict[str, dict[str, str]]:
    return {str(i): {str(k): _text(m) for k, m in by.items()} for i, by in of.items()}


def _text(products: Array) -> str:
    lower = products[np.tril_indices(len(products))]
    return base64.b64encode(lower.astype("<f4").tobytes()).decode()


def products_of(text: str, samples: int) -> Array:
    """The matrix [samples, samples] that to_dict has as text. Raises ValueError if it is none."""
    content = base64.b64decode(text, validate=True)
    if len(content) != 4 * (samples * (samples + 1) // 2):
        raise ValueError(f"{len(content)} bytes for {samples} samples")
    lower = np.frombuffer(content, "<f4")
    if not np.isfinite(lower).all():
        raise ValueError("not all are numbers")
    found = np.zeros((samples, samples), np.float32)
    rows, columns = np.tril_indices(samples)
    found[rows, columns] = found[columns, rows] = lower
    return found

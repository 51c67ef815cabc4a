"""What is trained to find out what it contributes: one candidate per number of an analysis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mcutrain.sparse import Layer, UpdateScheme
from mcutrain.sparse.contribution import SHARES, Gains


@dataclass(frozen=True)
class Candidate:
    """The head and the last `bias_depth` biases, and shares of some layers' weights.

    weights: (layer, share) pairs; a layer counts from the front. residual_bits: of the weights.
    """

    bias_depth: int
    weights: tuple[tuple[int, float], ...] = ()
    residual_bits: int = 4

    def first_layer(self, layers: int) -> int:
        """The first of so many layers that is trained; `layers` is the head."""
        return min(layers - self.bias_depth, *(i for i, _ in self.weights), layers)

    def scheme(self) -> UpdateScheme:
        """As an update scheme."""
        shares = {str(i): share for i, share in self.weights}
        return UpdateScheme("candidate", self.bias_depth, shares, 0, self.residual_bits)


HEAD = Candidate(0)


def bias_candidate(depth: int) -> Candidate:
    """The head and the last biases."""
    return Candidate(depth)


def weight_candidate(layers: int, layer: int, share: float) -> Candidate:
    """A share of a layer's weights over the biases from it on."""
    return Candidate(layers - layer, ((layer, share),))


def standard_candidates(layers: Sequence[Layer]) -> tuple[Candidate, ...]:
    """The head, every bias depth, every layer at every share."""
    count = len(layers)
    biases = [bias_candidate(depth) for depth in range(count + 1)]
    weights = [weight_candidate(count, i, share) for i in range(count) for share in SHARES]
    return (*biases, *weights)


def residual_candidates(layers: int, weights: Sequence[tuple[int, float]]) -> dict[int, Candidate]:
    """By residual bits: shares of several layers over the biases from the first of them."""
    depth = layers - min(i for i, _ in weights)
    return {bits: Candidate(depth, tuple(sorted(weights)), bits) for bits in (0, 4, 8)}


def gains(values: Mapping[Candidate, float], layers: int) -> Gains:
    """Differences of a measure that is known for every standard candidate."""
    biases = [values[bias_candidate(depth)] for depth in range(layers + 1)]
    weights = {
        i: {
            share: values[weight_candidate(layers, i, share)] - biases[layers - i]
            for share in SHARES
        }
        for i in range(layers)
    }
    return Gains(tuple(value - biases[0] for value in biases), weights)

"""What is trained to find out what it contributes: one candidate per number of an analysis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mcutrain_host.dataclass import dataclass

from mcutrain.analysis.module_parts import ModuleParts
from mcutrain.selection.contribution import SHARES, Gains
from mcutrain.sparse import UpdateScheme
from mcutrain.sparse.scheme import RESIDUAL_BITS, USUAL_BITS


@dataclass(frozen=True)
class Candidate:
    """The head and the last `bias_depth` biases, shares of some layers' weights, and modules.

    weights: (layer, share) pairs; a layer counts from the front. residual_bits: of the weights.
    modules: (name, hidden channels) pairs, as schemes have them.
    """

    bias_depth: int
    weights: tuple[tuple[int, float], ...] = ()
    residual_bits: int = USUAL_BITS
    modules: tuple[tuple[str, int], ...] = ()

    def first_layer(self, layers: int) -> int:
        """The first of so many layers that is trained; `layers` is the head."""
        return min(layers - self.bias_depth, *(i for i, _ in self.weights), layers)

    def scheme(self, module_rate: float | None = None) -> UpdateScheme:
        """As an update scheme."""
        shares = {str(i): share for i, share in self.weights}
        return UpdateScheme(
            "candidate",
            self.bias_depth,
            shares,
            0,
            self.residual_bits,
            modules=bool(self.modules),
            module_channels=dict(self.modules),
            module_rate=module_rate,
        )


HEAD = Candidate(0)


def bias_candidate(depth: int) -> Candidate:
    """The head and the last biases."""
    return Candidate(depth)


def weight_candidate(layers: int, layer: int, share: float, base: int = 0) -> Candidate:
    """A share of a layer's weights over the biases from it on, and at least the last `base`."""
    return Candidate(max(layers - layer, base), ((layer, share),))


def bias_candidates(layers: int) -> tuple[Candidate, ...]:
    """The head, and every bias depth."""
    return tuple(bias_candidate(depth) for depth in range(layers + 1))


def weight_candidates(layers: int, base: int) -> tuple[Candidate, ...]:
    """Every layer at every share."""
    return tuple(
        weight_candidate(layers, i, share, base) for i in range(layers) for share in SHARES
    )


def module_candidate(layers: int, module: ModuleParts, count: int, base: int = 0) -> Candidate:
    """Some of a module's channels over the biases from its layer on, and at least `base`."""
    return Candidate(max(layers - module.anchor, base), modules=((module.name, count),))


def module_candidates(
    layers: int, modules: Sequence[ModuleParts], base: int
) -> tuple[Candidate, ...]:
    """Every module at every number of its channels."""
    return tuple(module_candidate(layers, m, count, base) for m in modules for count in m.counts)


def residual_candidates(
    layers: int, weights: Sequence[tuple[int, float]], base: int = 0
) -> dict[int, Candidate]:
    """Return candidates by residual bits: shares of layers over the biases from the first one."""
    depth = max(layers - min(i for i, _ in weights), base)
    return {bits: Candidate(depth, tuple(sorted(weights)), bits) for bits in RESIDUAL_BITS}


def bias_gains(values: Mapping[Candidate, float], layers: int) -> tuple[float, ...]:
    """Gains of biases by depth, over the head alone."""
    return tuple(values[c] - values[HEAD] for c in bias_candidates(layers))


def gains(
    values: Mapping[Candidate, float],
    layers: int,
    base: int,
    modules: Sequence[ModuleParts] = (),
) -> Gains:
    """Differences of a measure that is known for every candidate."""
    found = []
    for i in range(layers):
        candidates = {share: weight_candidate(layers, i, share, base) for share in SHARES}
        without = values[bias_candidate(max(layers - i, base))]
        found.append({share: values[c] - without for share, c in candidates.items()})
    of_modules: dict[str, dict[int, float]] = {}
    for module in modules:
        without = values[bias_candidate(max(layers - module.anchor, base))]
        of_modules[module.name] = {
            n: values[module_candidate(layers, module, n, base)] - without for n in module.counts
        }
    return Gains(bias_gains(values, layers), dict(enumerate(found)), of_modules)

"""What of an analysis can be a part of a scheme that fits: the rest need not be costed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mcutrain_host.dataclass import dataclass

from mcutrain.errors import SchemeError, UnsupportedError
from mcutrain.ir.graph import Graph
from mcutrain.selection.contribution import Contributions, Gains
from mcutrain.selection.cost import CostModel, SchemeCost
from mcutrain.selection.timeline import Timeline
from mcutrain.selection.units import Shares, Structure


def least_sram_bytes(cost: SchemeCost) -> int:
    """Bytes of arena and state that no plan goes below."""
    return int(Timeline([cost.steps]).memory(cost).max()) + sum(cost.state.values())


def fitting(found: Contributions, graph: Graph, costs: CostModel, sram_bytes: int) -> Contributions:
    """Leave out biases and shares of weights that take more than so much SRAM by themselves.

    A share's cost is taken over as few biases as it may be trained with, the smaller shares first.
    Where one does not fit, the larger ones of its layer do not. Modules stay.
    """
    bits = max(found.residual_factor)
    room = _Room(Structure.of(graph, costs.update_rule), costs, bits, sram_bytes)
    depth = room.deepest(len(found.layers))
    kept: dict[int, tuple[float, ...]] = {}

    def shares(layer: int, known: Mapping[float, float]) -> tuple[float, ...]:
        if layer not in kept:
            kept[layer] = room.shares(layer, depth, known)
        return kept[layer]

    def of(gains: Gains) -> Gains:
        weights = {i: {s: by[s] for s in shares(i, by)} for i, by in gains.weights.items()}
        return Gains(gains.bias[: depth + 1], weights, gains.modules)

    return replace(found, gains={name: of(gains) for name, gains in found.gains.items()})


@dataclass(frozen=True)
class _Room:
    """So much SRAM. bits: residual bits at which schemes are costed."""

    structure: Structure
    costs: CostModel
    bits: int
    sram_bytes: int

    def deepest(self, layers: int) -> int:
        """The most biases that fit; what they take grows with their number."""
        low, high = 0, layers
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self._holds(middle) else (low, middle - 1)
        return low

    def shares(self, layer: int, depth: int, known: Mapping[float, float]) -> tuple[float, ...]:
        """Those of a layer that fit, of those that are known."""
        least = self.structure.least_depth(layer)
        if least > depth:
            return ()
        found: list[float] = []
        for share in sorted(known):
            if known[share] > 0 and not self._holds(least, ((layer, share),)):
                break
            found.append(share)
        return tuple(found)

    def _holds(self, depth: int, shares: Shares = ()) -> bool:
        """Return whether a scheme may fit; what cannot be trained so is told elsewhere."""
        scheme = self.structure.scheme(depth, shares, self.bits, self.costs.bias_bits[0])
        try:
            cost = self.costs.cost(scheme)
        except (SchemeError, UnsupportedError):
            return bool(shares)
        return self.costs.fixed_sram_bytes + least_sram_bytes(cost) <= self.sram_bytes

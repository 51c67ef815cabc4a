"""What of a module has a gradient before it has learnt: the part of it that begins at zero."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.ir.graph import Graph
from mcutrain.selection.units import Structure, kept_channels
from mcutrain.sparse.modules import PROJECTION, WholeModule, low_rank_columns, rate_of

Array = npt.NDArray[Any]

SHARES = (0.25, 0.5, 1.0)
"""Shares of a module's hidden channels that are analysed; they are in order of what they see."""


@dataclass(frozen=True)
class ModuleParts:
    """One candidate. weight: whose last input channels, from number `first` on, are its hidden
    channels' (a gain has none: its factors). biases: that are trained with it, and have a gradient.
    counts: of hidden channels that are candidates, ascending; 0 of a gain. anchor: the layer whose
    bias is trained wherever the module is. rate: what its learning rate is multiplied with.
    """

    name: str
    weight: str
    first: int
    biases: tuple[str, ...]
    counts: tuple[int, ...]
    anchor: int
    rate: float

    def groups(self, graph: Graph) -> dict[str, tuple[Array, ...]]:
        """As InnerProducts takes them: of the module's own columns, and of its biases."""
        size = graph.tensors[self.weight].type.shape[-1] - self.first
        ends = [count or size for count in self.counts]
        parts = tuple(np.arange(a, b) for a, b in zip([0, *ends], ends, strict=False))
        biases = {n: (np.arange(graph.tensors[n].type.elements),) for n in self.biases}
        return {self.name: parts, **biases}


def module_parts(graph: Graph, module_rate: float | None = None) -> tuple[ModuleParts, ...]:
    """Return the parts of modules that have learnt nothing. module_rate: as a scheme has it.

    The first factor of a product whose second one is 0 has a gradient of 0: what it may learn later
    is not seen.
    """
    structure = Structure.of(graph)
    columns = {c.projection: (w, c.rank) for w, c in low_rank_columns(graph).items()}
    found = []
    for place, module in enumerate(structure.modules, structure.count):
        weight, first, biases = _ends(module, columns, graph)
        counts = sorted({kept_channels(module, share) for share in SHARES})
        anchor = structure.anchor[place]
        rate = rate_of(module.kind, module_rate)
        found.append(ModuleParts(module.name, weight, first, biases, tuple(counts), anchor, rate))
    return tuple(found)


def _ends(
    module: WholeModule, columns: dict[str, tuple[str, int]], graph: Graph
) -> tuple[str, int, tuple[str, ...]]:
    """The weight behind the hidden channels, its first column of them, and trained biases."""
    last = list(module.parts.values())[-1]
    if PROJECTION in module.parts:
        weight, rank = columns[last.weight]
        return weight, graph.tensors[weight].type.shape[-1] - rank, ()
    return last.weight, 0, (last.bias,) if module.kind != "gain" else ()

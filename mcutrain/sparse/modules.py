"""The modules of a graph: small branches beside frozen layers, and what of them is trained."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from mcutrain.ir.graph import Graph, Node
from mcutrain.sparse.layers import Layer, all_layers_of, find_head
from mcutrain.sparse.module_names import ModulePart, module_part

LORA = ("lora", "lora-fa")
"""Kinds whose second matrix is columns of another layer's weight."""
PROJECTION = "a"
"""The part of these that is a layer of its own."""
FINE_BITS = 8
"""Residual bits of what begins at zero: first updates are far smaller than a weight's step."""


@dataclass(frozen=True)
class Trained:
    """What of a module's layer is trained. is_fine: its weight begins at zero, or moves little."""

    weight: bool
    bias: bool
    is_fine: bool = False


TRAINED: Mapping[tuple[str, str], Trained] = {
    ("adapter", "down"): Trained(True, True),
    ("adapter", "up"): Trained(True, True, True),
    ("lite", "first"): Trained(True, True),
    ("lite", "second"): Trained(True, True, True),
    ("lora", PROJECTION): Trained(True, False),
    ("lora-fa", PROJECTION): Trained(False, False),
    ("gain", "factor"): Trained(True, False, True),
}
"""By kind and part."""


@dataclass(frozen=True)
class ModuleLayer:
    """A layer of a module."""

    layer: Layer
    part: ModulePart

    @property
    def trained(self) -> Trained:
        """What the scheme `modules` trains of it; nothing of a part that is not known."""
        return TRAINED.get((self.part.kind, self.part.part), Trained(False, False))


def modules_of(graph: Graph) -> tuple[ModuleLayer, ...]:
    """All layers of modules, in execution order."""
    found = []
    for layer in all_layers_of(graph, find_head(graph)):
        part = module_part(layer.weight)
        if part is not None:
            found.append(ModuleLayer(layer, part))
    return tuple(found)


def added_columns(graph: Graph) -> dict[str, int]:
    """Weight → how many of its last input channels belong to a low-rank module.

    Such a layer reads its input and, behind it, what the module's projection makes of it.
    """
    producers = {name: node for node in graph.nodes for name in node.outputs}
    ranks = {
        m.layer.name: graph.tensors[m.layer.weight].type.shape[0]
        for m in modules_of(graph)
        if m.part.kind in LORA and m.part.part == PROJECTION
    }
    found = {}
    for layer in all_layers_of(graph, find_head(graph)) if ranks else ():
        joined = _behind_views(producers, layer.node.inputs[0])
        if joined is None or len(joined.inputs) != 2:
            continue
        last = _behind_views(producers, joined.inputs[1])
        if last is not None and last.name in ranks:
            found[layer.weight] = ranks[last.name]
    return found


def trained_layers(graph: Graph) -> Iterator[tuple[Layer, Trained]]:
    """Every layer of a module with what is trained of it."""
    for module in modules_of(graph):
        yield module.layer, module.trained


def _behind_views(producers: Mapping[str, Node], name: str) -> Node | None:
    """The node that computes a tensor's numbers."""
    node = producers.get(name)
    while node is not None and node.op.is_view:
        node = producers.get(node.inputs[0])
    return node

"""The modules of a graph: small branches beside frozen layers, and what of them is trained."""

from __future__ import annotations

from collections.abc import Mapping

from mcutrain_host.dataclass import dataclass

from mcutrain.ir.graph import Graph, Node
from mcutrain.sparse.layers import Layer, all_layers_of, find_head
from mcutrain.sparse.module_names import DEPTHWISE, ModulePart, module_part

LORA = ("lora", "lora-fa")
"""Kinds whose second matrix is columns of another layer's weight."""
PROJECTION = "a"
"""The part of these that is a layer of its own."""
FIRST = ("down", "first", PROJECTION)
"""Parts that make a module's hidden channels."""
FINE_BITS = 8
"""Residual bits of what begins at zero: first updates are far smaller than a weight's step."""


@dataclass(frozen=True)
class Trained:
    """What of a module's layer is trained.

    residual_bits: of its weight, whatever a scheme says of layers: more where it begins at zero, or
    moves little.
    """

    weight: bool
    bias: bool
    residual_bits: int = 4


TRAINED: Mapping[tuple[str, str], Trained] = {
    ("adapter", "down"): Trained(True, True),
    ("adapter", "up"): Trained(True, True, FINE_BITS),
    ("lite", DEPTHWISE): Trained(True, True),
    ("lite", "first"): Trained(True, True),
    ("lite", "second"): Trained(True, True, FINE_BITS),
    ("lora", PROJECTION): Trained(True, False),
    ("lora-fa", PROJECTION): Trained(False, False),
    ("gain", "factor"): Trained(True, False, FINE_BITS),
}
"""What is trained, by kind and part."""


def rate_of(kind: str, module_rate: float | None) -> float:
    """What the learning rate of such a module is multiplied with. module_rate: as a scheme has it.

    Measured (docs/modules.md, "At equal SRAM"): what is right for biases is too much for a branch,
    and not for a gain, which moves a channel by a share of itself.
    """
    if module_rate is not None:
        return module_rate
    return 1.0 if kind == "gain" else 0.1


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


@dataclass(frozen=True)
class WholeModule:
    """All of one module. parts: its layers by what part they are.

    channels: hidden channels or rank, of which a module can also have the first ones only; 0 if it
    has none, or cannot.
    """

    name: str
    kind: str
    parts: Mapping[str, Layer]
    channels: int


def whole_modules(graph: Graph) -> dict[str, WholeModule]:
    """Return the modules by name, in execution order."""
    parts: dict[str, dict[str, Layer]] = {}
    kinds: dict[str, str] = {}
    for found in modules_of(graph):
        parts.setdefault(found.part.module, {})[found.part.part] = found.layer
        kinds[found.part.module] = found.part.kind
    return {
        name: WholeModule(name, kinds[name], own, _channels(graph, own))
        for name, own in parts.items()
    }


def hidden_layer(parts: Mapping[str, Layer]) -> Layer | None:
    """The layer that makes a module's hidden channels, if it has any."""
    return next((parts[p] for p in FIRST if p in parts), None)


def _channels(graph: Graph, parts: Mapping[str, Layer]) -> int:
    """Channels of the first layer, if the second one reads all of them; one without groups."""
    first = hidden_layer(parts)
    if first is None:
        return 0
    hidden, *_, read = graph.tensors[first.weight].type.shape
    return hidden if read == graph.tensors[first.node.inputs[0]].type.shape[-1] else 0


@dataclass(frozen=True)
class Columns:
    """The last `rank` input channels of a weight, which a low-rank module added.

    projection: the weight of the module's own layer. joined: the node in front of the layer that
    puts what it makes behind the layer's input.
    """

    rank: int
    projection: str
    joined: Node


def low_rank_columns(graph: Graph) -> dict[str, Columns]:
    """Return low-rank columns by weight; such a layer also reads what the module makes."""
    producers = {name: node for node in graph.nodes for name in node.outputs}
    projections = {
        m.layer.name: m.layer
        for m in modules_of(graph)
        if m.part.kind in LORA and m.part.part == PROJECTION
    }
    found = {}
    for layer in all_layers_of(graph, find_head(graph)) if projections else ():
        joined = _behind_views(producers, layer.node.inputs[0])
        if joined is None or len(joined.inputs) != 2:
            continue
        last = _behind_views(producers, joined.inputs[1])
        if last is not None and last.name in projections:
            weight = projections[last.name].weight
            rank = graph.tensors[weight].type.shape[0]
            found[layer.weight] = Columns(rank, weight, joined)
    return found


def added_columns(graph: Graph) -> dict[str, int]:
    """Weight → how many of its last input channels belong to a low-rank module."""
    return {weight: columns.rank for weight, columns in low_rank_columns(graph).items()}


def _behind_views(producers: Mapping[str, Node], name: str) -> Node | None:
    """The node that computes a tensor's numbers."""
    node = producers.get(name)
    while node is not None and node.op.is_view:
        node = producers.get(node.inputs[0])
    return node

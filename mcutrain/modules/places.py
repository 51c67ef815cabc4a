"""Where modules can stand in a network: its trunk, its layers."""

from __future__ import annotations

from collections.abc import Sequence

from mcutrain.errors import SchemeError, did_you_mean
from mcutrain.ir.graph import Graph, Node
from mcutrain.modules.spec import LITE, ModuleSpec
from mcutrain.ops.add import Add
from mcutrain.ops.conv_2d import Conv2D
from mcutrain.ops.depthwise_conv_2d import DepthwiseConv2D
from mcutrain.ops.grouped_conv_2d import GroupedConv2D
from mcutrain.sparse.layers import all_layers_of, find_head
from mcutrain.sparse.modules import modules_of

CONVOLUTIONS = (Conv2D, DepthwiseConv2D, GroupedConv2D)
WHERE = {
    "adapter": "it has no residual addition and no linear projection before its head",
    "lora": "it has no 1×1 convolution and no fully connected layer before its head",
    "lora-fa": "it has no 1×1 convolution and no fully connected layer before its head",
    "lite": "it has no block between ends of others, of the same size or half of it",
    "gain": "it has no convolution before its head",
}
"""Why a network has no place for a kind."""


def places_of(graph: Graph, spec: ModuleSpec) -> tuple[Node, ...]:
    """The nodes that modules of this kind stand at, in execution order.

    Without names: an adapter gets the ends of blocks (see trunk_ends), a lite residual those of
    blocks with a known input (see blocks_of). A low-rank update gets the 1×1 convolutions and fully
    connected layers, a gain all convolutions. The head gets none. Raises SchemeError if there are
    none, for names that are none of these, and for a model that has modules already.
    """
    present = modules_of(graph)
    if present:
        raise SchemeError(
            f"{graph.name!r} has modules already, first {present[0].layer.name!r}: give the model "
            "as it was before"
        )
    usual = _usual(graph, spec.kind)
    if spec.names:
        return _named(graph, spec, _possible(graph, spec.kind))
    if not usual:
        raise SchemeError(f"{graph.name!r} has no place for {spec.kind}: {_why(graph, spec.kind)}")
    if spec.last is not None and spec.last > len(usual):
        raise SchemeError(
            f"{spec.text}: {graph.name!r} has {len(usual)} places for {spec.kind}, not {spec.last}"
        )
    return usual if spec.last is None else usual[-spec.last :]


def trunk_ends(graph: Graph) -> tuple[Node, ...]:
    """The last nodes of blocks: residual additions, and linear projections that no addition reads.

    A projection is a 1×1 convolution whose output can be negative (it has no ReLU) and whose only
    reader is not an addition.
    """
    found = []
    for node in _before_head(graph):
        readers = graph.consumers(node.outputs[0])
        is_part = len(readers) == 1 and isinstance(readers[0].op, Add)
        if isinstance(node.op, Add) or (_is_linear(graph, node) and not is_part):
            found.append(node)
    return tuple(found)


def blocks_of(graph: Graph) -> dict[str, str]:
    """The blocks that keep an image's size or halve it: name of the last node → the tensor read.

    That is the operand of the addition that skips the block, or what the block before ends in.
    """
    before: dict[str, set[str]] = {}
    for node in graph.nodes:
        known = [{name, *before.get(name, ())} for name in node.inputs]
        before.update(dict.fromkeys(node.outputs, set().union(*known)))
    found, previous = {}, ""
    for node in trunk_ends(graph):
        x, y = previous, node.outputs[0]
        for one, other in (node.inputs[:2], node.inputs[1::-1]):
            if isinstance(node.op, Add) and one in before.get(other, ()):
                x = one
        if x in before[y] and _halving(graph, x, y) is not None:
            found[node.name] = x
        previous = y
    return found


def _halving(graph: Graph, x: str, y: str) -> int | None:
    """The stride from x to y: 1 or 2, the same along both axes; None if it is neither."""
    (_, *size, _), (_, *new, _) = graph.tensors[x].type.shape, graph.tensors[y].type.shape
    strides = [s for s in (1, 2) if [-(-n // s) for n in size] == new]
    return strides[0] if strides else None


def _usual(graph: Graph, kind: str) -> tuple[Node, ...]:
    return trunk_ends(graph) if kind == "adapter" else _possible(graph, kind)


def _possible(graph: Graph, kind: str) -> tuple[Node, ...]:
    """All that can be named."""
    before = _before_head(graph)
    if kind == "adapter":
        return tuple(n for n in before if isinstance(n.op, (Add, *CONVOLUTIONS)))
    if kind == LITE:
        blocks = blocks_of(graph)
        return tuple(n for n in before if n.name in blocks)
    if kind == "gain":
        return tuple(n for n in before if isinstance(n.op, CONVOLUTIONS))
    return tuple(n for n in before if isinstance(n.op, Conv2D) and n.op.window.kernel == (1, 1))


def _before_head(graph: Graph) -> tuple[Node, ...]:
    """The nodes on which a module can stand: those whose output something before the logits reads.

    A weight that several layers share, or that is computed, takes no module.
    """
    head = find_head(graph)
    place = [n.name for n in graph.nodes].index(head.name)
    layers = {layer.name: layer for layer in all_layers_of(graph, head)}
    found = []
    for node in graph.nodes[:place]:
        layer = layers.get(node.name)
        is_own = layer is not None and len(graph.consumers(layer.weight)) == 1
        is_read = graph.consumers(node.outputs[0]) and node.outputs[0] not in graph.outputs
        if is_read and (is_own or isinstance(node.op, Add)):
            found.append(node)
    return tuple(found)


def _is_linear(graph: Graph, node: Node) -> bool:
    if not isinstance(node.op, Conv2D) or node.op.requantize is None:
        return False
    stage = node.op.requantize
    return node.op.window.kernel == (1, 1) and stage.low < stage.zero_point


def _named(graph: Graph, spec: ModuleSpec, possible: Sequence[Node]) -> tuple[Node, ...]:
    """Return the named places in execution order."""
    by_name = {node.name: node for node in possible}
    numbers = {str(la.index): la.name for la in all_layers_of(graph, find_head(graph))}
    wanted = set()
    for key in spec.names:
        name = key if key in by_name else numbers.get(key, key)
        if name not in by_name:
            raise SchemeError(
                f"{spec.text}: {key!r} is no place for {spec.kind} in {graph.name!r}; `mcutrain "
                f"info` lists the layers{did_you_mean(key, by_name)}"
            )
        wanted.add(name)
    return tuple(node for node in possible if node.name in wanted)


def _why(graph: Graph, kind: str) -> str:
    named = _possible(graph, kind)
    example = f"; name one, as in at={named[0].name}" if named and not _usual(graph, kind) else ""
    return WHERE[kind] + example

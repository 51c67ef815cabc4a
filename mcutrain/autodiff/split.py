"""Partly trained weights: what is trained goes to RAM, the rest stays in flash."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mcutrain.ir.graph import Graph, Node, Tensor
from mcutrain.ir.op import ParameterUpdate
from mcutrain.ops.merge_columns import MergeColumns


def split_parameters(
    graph: Graph, updates: Mapping[str, ParameterUpdate]
) -> tuple[Graph, Mapping[str, Node]]:
    """The graph with every partly trained weight made of a frozen and a trained constant.

    The weight keeps its name and becomes the output of a MergeColumns in front of its reader;
    these nodes come too, by the weight's name. Their second input is what is trained.
    """
    tensors = dict(graph.tensors)
    merges: dict[str, Node] = {}
    for name, update in updates.items():
        tensor = graph.tensors[name]
        if update.channels is None or tensor.data is None:
            continue
        names = (_unused(f"{name}.frozen", tensors), _unused(f"{name}.trained", tensors))
        trained = tensor.data[..., list(update.channels)]
        trained_type = replace(tensor.type, shape=trained.shape)
        tensors[names[0]] = Tensor(names[0], tensor.type, tensor.data)
        tensors[names[1]] = Tensor(names[1], trained_type, trained)
        tensors[name] = Tensor(name, tensor.type)
        merges[name] = Node(f"{name}.merge", MergeColumns(update.channels), names, (name,))
    nodes: list[Node] = []
    for node in graph.nodes:
        nodes += [merges[name] for name in node.inputs if name in merges]
        nodes.append(node)
    return replace(graph, tensors=tensors, nodes=tuple(nodes)), merges


def _unused(name: str, taken: Mapping[str, Tensor]) -> str:
    """The name, with as many strokes behind it as make it new."""
    while name in taken:
        name += "'"
    return name

"""What of a parameter is trained goes to RAM, the rest stays in flash."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from mcutrain.ir.graph import Graph, Node, Tensor, TensorType
from mcutrain.ir.op import ParameterUpdate
from mcutrain.ops.add_difference import AddDifference
from mcutrain.ops.merge_columns import MergeColumns
from mcutrain.ops.training import initial_parameter


def split_parameters(
    graph: Graph, updates: Mapping[str, ParameterUpdate]
) -> tuple[Graph, Mapping[str, Node]]:
    """The graph with every partly trained weight made of a frozen and a trained constant.

    So is a bias of which the difference is trained. The parameter keeps its name and becomes the
    output of a MergeColumns or an AddDifference in front of its reader; these nodes come too, by
    the parameter's name. Their second input is what is trained.
    """
    tensors = dict(graph.tensors)
    merges: dict[str, Node] = {}
    for name, update in updates.items():
        tensor = graph.tensors[name]
        if tensor.data is None:
            continue
        if update.channels is not None:
            merges[name] = _columns(tensor, update.channels, tensors)
        elif update.difference_shift is not None:
            merges[name] = _difference(tensor, update.difference_shift, tensors)
    nodes: list[Node] = []
    for node in graph.nodes:
        nodes += [merges[name] for name in node.inputs if name in merges]
        nodes.append(node)
    return replace(graph, tensors=tensors, nodes=tuple(nodes)), merges


def _columns(tensor: Tensor, channels: tuple[int, ...], tensors: dict[str, Tensor]) -> Node:
    """The weight in two parts, which are added to the tensors."""
    assert tensor.data is not None
    name = tensor.name
    names = (_unused(f"{name}.frozen", tensors), _unused(f"{name}.trained", tensors))
    trained = tensor.data[..., list(channels)]
    trained_type = replace(tensor.type, shape=trained.shape)
    tensors[names[0]] = Tensor(names[0], tensor.type, tensor.data)
    tensors[names[1]] = Tensor(names[1], trained_type, trained)
    tensors[name] = Tensor(name, tensor.type)
    return Node(f"{name}.merge", MergeColumns(channels), names, (name,))


def _difference(tensor: Tensor, shift: int, tensors: dict[str, Tensor]) -> Node:
    """The bias and a difference of 0, which are added to the tensors."""
    assert tensor.data is not None
    name = tensor.name
    names = (_unused(f"{name}.frozen", tensors), _unused(f"{name}.difference", tensors))
    tensors[names[0]] = Tensor(names[0], tensor.type, initial_parameter(tensor.data))
    none = np.zeros(tensor.type.shape, np.int16)
    tensors[names[1]] = Tensor(names[1], TensorType(none.shape, "int16"), none)
    tensors[name] = Tensor(name, tensor.type)
    return Node(f"{name}.sum", AddDifference(shift), names, (name,))


def _unused(name: str, taken: Mapping[str, Tensor]) -> str:
    """The name, with as many strokes behind it as make it new."""
    while name in taken:
        name += "'"
    return name

"""Parameters trained in part: what is trained goes to RAM, the rest stays in flash."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.ir.graph import Graph, Node, Tensor, TensorType
from mcutrain.ir.op import Op, ParameterUpdate
from mcutrain.ops.add_difference import AddDifference
from mcutrain.ops.merge_columns import MergeColumns
from mcutrain.ops.updating import initial_parameter

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class SplitParameter:
    """A parameter in two tensors. frozen: a constant. trained: what is trained, in the state.

    join: makes the parameter of both. node: which does so in front of the reader; None if the
    reader takes both. columns: the state that says which columns these are, if they change; then
    `frozen` is in the backing store (see TrainGraph).
    """

    frozen: str
    trained: str
    join: Op
    node: Node | None = None
    columns: str | None = None

    def whole(self, frozen: Array, trained: Array) -> Array:
        """The parameter of its two tensors' values, where its columns do not change."""
        (value,) = self.join.reference(frozen, trained)
        return value


def split_parameters(
    graph: Graph, updates: Mapping[str, ParameterUpdate], resamples: bool = False
) -> tuple[Graph, Mapping[str, SplitParameter]]:
    """Make every partly trained weight of a frozen and a trained constant.

    So is a bias whose difference is trained. Where the reader of a weight takes both, the frozen
    one keeps the weight's name, and has zeros where it is trained. Else the parameter keeps its
    name and becomes the output of a MergeColumns or an AddDifference in front of its reader.
    Returns the graph, and what was split by the parameter's name. resamples: a reader that takes
    both also takes a third tensor, which says which columns are trained. The frozen one then has
    all columns.
    """
    tensors = dict(graph.tensors)
    split: dict[str, SplitParameter] = {}
    nodes = {node.name: node for node in graph.nodes}
    before: dict[str, list[Node]] = {name: [] for name in nodes}
    for name, update in updates.items():
        tensor = graph.tensors[name]
        if tensor.data is None:
            continue
        reader = next(node.name for node in graph.nodes if name in node.inputs)
        if update.channels is not None:
            op = nodes[reader].op
            direct = op.with_trained_columns(update.channels)
            resampling = op.with_resampled_columns(len(update.channels)) if resamples else None
            split[name] = _columns(tensor, update.channels, direct is not None, tensors)
            if resampling is not None:
                split[name] = _resampled(tensor, split[name], update.channels, tensors)
            direct = resampling or direct
            if direct is not None:
                apart = (split[name].trained, split[name].columns)
                read = (*nodes[reader].inputs, *(n for n in apart if n is not None))
                nodes[reader] = replace(nodes[reader], op=direct, inputs=read)
        elif update.difference_shift is not None:
            split[name] = _difference(tensor, update.difference_shift, tensors)
        node = split[name].node if name in split else None
        before[reader] += [node] if node else []
    ordered = [n for name, node in nodes.items() for n in (*before[name], node)]
    return replace(graph, tensors=tensors, nodes=tuple(ordered)), split


def _columns(
    tensor: Tensor, channels: tuple[int, ...], is_direct: bool, tensors: dict[str, Tensor]
) -> SplitParameter:
    """The weight in two parts, which are added to the tensors."""
    assert tensor.data is not None
    name, join = tensor.name, MergeColumns(channels)
    frozen = name if is_direct else _unused(f"{name}.frozen", tensors)
    trained = _unused(f"{name}.trained", tensors)
    part, rest = tensor.data[..., list(channels)], tensor.data.copy()
    rest[..., list(channels)] = 0
    tensors[name] = Tensor(name, tensor.type)
    tensors[frozen] = Tensor(frozen, tensor.type, rest)
    tensors[trained] = Tensor(trained, replace(tensor.type, shape=part.shape), part)
    node = None if is_direct else Node(f"{name}.merge", join, (frozen, trained), (name,))
    return SplitParameter(frozen, trained, join, node)


def _resampled(
    tensor: Tensor, split: SplitParameter, channels: tuple[int, ...], tensors: dict[str, Tensor]
) -> SplitParameter:
    """The weight whole again, and a third tensor with what is trained of it at first."""
    name = _unused(f"{tensor.name}.columns", tensors)
    tensors[split.frozen] = tensor
    columns = np.array(channels, np.int16)
    tensors[name] = Tensor(name, TensorType(columns.shape, "int16"), columns)
    return replace(split, columns=name)


def _difference(tensor: Tensor, shift: int, tensors: dict[str, Tensor]) -> SplitParameter:
    """The bias and a difference of 0, which are added to the tensors."""
    assert tensor.data is not None
    name, join = tensor.name, AddDifference(shift)
    names = (_unused(f"{name}.frozen", tensors), _unused(f"{name}.difference", tensors))
    tensors[names[0]] = Tensor(names[0], tensor.type, initial_parameter(tensor.data))
    none = np.zeros(tensor.type.shape, np.int16)
    tensors[names[1]] = Tensor(names[1], TensorType(none.shape, "int16"), none)
    tensors[name] = Tensor(name, tensor.type)
    return SplitParameter(*names, join, Node(f"{name}.sum", join, names, (name,)))


def _unused(name: str, taken: Mapping[str, Tensor]) -> str:
    """The name, with as many strokes behind it as make it new."""
    while name in taken:
        name += "'"
    return name

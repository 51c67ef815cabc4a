"""Normalizations as exporters write them in parts: one node again for its many."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy.typing as npt
from onnx import GraphProto, NodeProto, TensorProto, helper

from mcutrain.formats.normalizations import NormalizationPart, Normalized, normalized
from mcutrain.formats.onnx.file import tensor_to_array
from mcutrain.formats.onnx.normalizing import AROUND_ZERO, AXES, BY_LENGTH

Array = npt.NDArray[Any]


def with_layer_norms(graph: GraphProto) -> None:
    """Put a LayerNormalization in the place of each that is written in parts."""
    if not any(node.op_type in ROOTS for node in graph.node):
        return
    parts = _Parts(graph)
    outputs = {info.name for info in graph.output}
    found = normalized(parts.parts, parts.constant, outputs)
    found = {name: one for name, one in found.items() if not parts.is_known(one.of.x)}
    nodes = [_joined(node, found) for node in graph.node]
    before = {name for node in graph.node if found.keys() & node.output for name in node.input}
    kept = _without_unread(nodes, outputs, before)
    del graph.node[:]
    graph.node.extend(kept)


def _joined(node: NodeProto, found: dict[str, Normalized]) -> NodeProto:
    one = found.get(node.output[0]) if node.output else None
    if one is None:
        return node
    attributes: dict[str, Any] = {"epsilon": one.of.epsilon, AXES: one.of.axes}
    attributes |= {AROUND_ZERO: int(not one.of.is_centred), BY_LENGTH: int(one.of.is_length)}
    inputs = [one.of.x, one.gamma, one.beta]
    return helper.make_node(
        "LayerNormalization", inputs, [one.output], name=node.name, **attributes
    )


LEAST_LIMIT = 15.0  # above it the softplus of x is x, in single precision
ROOTS = ("Sqrt", "ReduceL2")
PARTS = {
    *("ReduceMean", "Sub", "Pow", "Mul", "Max", "Relu", "Add", "Sqrt", "Reciprocal", "Div"),
    *("ReduceL2", "Clip", "Expand"),
}


def _without_unread(nodes: list[NodeProto], outputs: set[str], last: set[str]) -> list[NodeProto]:
    """Without the parts that only led to what is now one node. last: what its last part read."""
    producers = {name: node for node in nodes for name in node.output}
    readers: dict[str, int] = defaultdict(int)
    for node in nodes:
        for name in node.input:
            readers[name] += 1
    gone: set[int] = set()
    waiting = list(last)
    while waiting:
        part = producers.get(waiting.pop())
        if part is None or id(part) in gone or part.op_type not in PARTS:
            continue
        if any(readers[name] or name in outputs for name in part.output):
            continue
        gone.add(id(part))
        for name in part.input:
            readers[name] -= 1
            waiting.append(name)
    return [node for node in nodes if id(node) not in gone]


def without_known_choices(graph: GraphProto) -> None:
    """Put an Identity in the place of each Where that always gives its last input."""
    if not any(node.op_type == "Where" for node in graph.node):
        return
    parts = _Parts(graph)
    for node in graph.node:
        if node.op_type != "Where" or len(node.input) != 3:
            continue
        condition, last = parts.producers.get(node.input[0]), node.input[2]
        if condition is None or last not in parts.producers:
            continue
        if _is_softplus(condition, node, parts) or _is_nan_guard(condition, node):
            node.CopyFrom(helper.make_node("Identity", [last], node.output, name=node.name))
    read = {name for node in graph.node for name in node.input}
    read.update(info.name for info in graph.output)
    conditions = ("Greater", "IsNaN")
    kept = [n for n in graph.node if n.op_type not in conditions or read.intersection(n.output)]
    del graph.node[:]
    graph.node.extend(kept)


def _is_softplus(condition: NodeProto, where: NodeProto, parts: _Parts) -> bool:
    """Return whether a Where is PyTorch's Softplus, which is x itself above a limit of 20."""
    _, x, softplus = where.input
    node = parts.producers[softplus]
    if condition.op_type != "Greater" or condition.input[0] != x or list(node.input) != [x]:
        return False
    limit = parts.constant(condition.input[1])
    has_limit = limit is not None and limit.size == 1 and float(limit.ravel()[0]) >= LEAST_LIMIT
    return has_limit and node.op_type == "Softplus"


def _is_nan_guard(condition: NodeProto, where: NodeProto) -> bool:
    """Return whether it replaces NaN alone, as PyTorch does behind a masked softmax."""
    return condition.op_type == "IsNaN" and condition.input[0] == where.input[2]


class _Parts:
    """The nodes of a graph as parts, and its constants."""

    def __init__(self, graph: GraphProto) -> None:
        self.producers = {name: node for node in graph.node for name in node.output}
        self.initializers = {tensor.name: tensor for tensor in graph.initializer}
        self.parts = [self._part(node) for node in graph.node if node.output]

    def constant(self, name: str) -> Array | None:
        """The numbers, if they are known."""
        node = self.producers.get(name)
        if node is None:
            tensor = self.initializers.get(name)
            return None if tensor is None else tensor_to_array(tensor)
        if node.op_type == "Identity":
            return self.constant(node.input[0])
        value = next((a.t for a in node.attribute if a.name == "value"), TensorProto())
        return tensor_to_array(value) if node.op_type == "Constant" and value.data_type else None

    def is_known(self, name: str) -> bool:
        """Return whether it is computed of constants alone, as standardized weights are."""
        waiting, seen = [name], set()
        while waiting:
            name = waiting.pop()
            node = self.producers.get(name)
            if node is None and name and name not in self.initializers:
                return False
            if node is not None and name not in seen:
                seen.add(name)
                waiting.extend(node.input)
        return True

    def _part(self, node: NodeProto) -> NormalizationPart:
        axes = self._axes(node) if node.op_type in ("ReduceMean", "ReduceL2") else ()
        return NormalizationPart(node.op_type, tuple(node.input), tuple(node.output), axes)

    def _axes(self, mean: NodeProto) -> tuple[int, ...]:
        """Return the axes of a mean or length that keeps them; empty where they are not known."""
        attributes = {a.name: a for a in mean.attribute}
        if "keepdims" in attributes and not attributes["keepdims"].i:
            return ()
        given = self.constant(mean.input[1]) if len(mean.input) > 1 else None
        axes = tuple(attributes["axes"].ints if "axes" in attributes else ())
        return axes if given is None else tuple(given.ravel().tolist())

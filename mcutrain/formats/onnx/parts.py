"""Layer normalization as exporters below opset 17 write it: one node again for its many.

    d = x - mean(x);  y = d / sqrt(mean(d * d) + epsilon) * gamma + beta

and as TensorFlow has it, x * g + (beta - mean(x) * g) with g = gamma / sqrt(...).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt
from onnx import GraphProto, NodeProto, TensorProto, helper

from mcutrain.formats.onnx.file import tensor_to_array
from mcutrain.formats.onnx.normalizing import AXES

Array = npt.NDArray[Any]

MOST_EPSILON = 1.0


@dataclass(frozen=True)
class _Deviation:
    """Of a sqrt(mean((x - mean)**2) + epsilon): its name, and those of x and of x - mean."""

    name: str
    x: str
    differences: frozenset[str]
    means: frozenset[str]
    axes: tuple[int, ...]
    epsilon: float


@dataclass(frozen=True)
class _Normalized:
    """What is a layer normalization. gamma, beta: constants, "" for none."""

    output: str
    of: _Deviation
    gamma: str = ""
    beta: str = ""


def with_layer_norms(graph: GraphProto) -> None:
    """Put a LayerNormalization in the place of each that is written in parts."""
    if not any(node.op_type == "Sqrt" for node in graph.node):
        return
    found = {one.output: one for one in _Parts(graph).found()}
    nodes = [_joined(node, found) for node in graph.node]
    before = {name for node in graph.node if found.keys() & node.output for name in node.input}
    kept = _without_unread(nodes, {info.name for info in graph.output}, before)
    del graph.node[:]
    graph.node.extend(kept)


def _joined(node: NodeProto, found: dict[str, _Normalized]) -> NodeProto:
    one = found.get(node.output[0]) if node.output else None
    if one is None:
        return node
    attributes: dict[str, Any] = {"epsilon": one.of.epsilon, AXES: one.of.axes}
    inputs = [one.of.x, one.gamma, one.beta]
    return helper.make_node(
        "LayerNormalization", inputs, [one.output], name=node.name, **attributes
    )


PARTS = {"ReduceMean", "Sub", "Pow", "Mul", "Add", "Sqrt", "Reciprocal", "Div"}


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


class _Parts:
    """The nodes of a graph by what they compute and read, and its constants."""

    def __init__(self, graph: GraphProto) -> None:
        self.producers = {name: node for node in graph.node for name in node.output}
        self.readers: dict[str, list[NodeProto]] = defaultdict(list)
        for node in graph.node:
            for name in dict.fromkeys(node.input):
                self.readers[name].append(node)
        self.initializers = {tensor.name: tensor for tensor in graph.initializer}
        self.outputs = {info.name for info in graph.output}

    def found(self) -> Iterator[_Normalized]:
        """All of them."""
        for node in self.producers.values():
            deviation = self._deviation(node) if node.op_type == "Sqrt" else None
            for one in self._normalized(deviation) if deviation else ():
                yield self._shifted(self._scaled(one))

    # ------------------------------------------------------------------ what nodes are

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

    def _with_constant(self, node: NodeProto, other: str) -> str:
        """The input beside `other`, if it is constant; else nothing."""
        rest = [name for name in node.input if name != other]
        return rest[0] if len(rest) == 1 and self.constant(rest[0]) is not None else ""

    def _number(self, name: str) -> float | None:
        value = self.constant(name)
        return float(value.ravel()[0]) if value is not None and value.size == 1 else None

    def _mean(self, name: str) -> tuple[str, tuple[int, ...]] | None:
        """What a mean is of, and its axes."""
        node = self.producers.get(name)
        if node is None or node.op_type != "ReduceMean":
            return None
        attributes = {a.name: a for a in node.attribute}
        if "keepdims" in attributes and not attributes["keepdims"].i:
            return None
        given = self.constant(node.input[1]) if len(node.input) > 1 else None
        axes = tuple(attributes["axes"].ints if "axes" in attributes else ())
        axes = axes if given is None else tuple(given.ravel().tolist())
        return (node.input[0], axes) if axes else None

    def _squared(self, name: str) -> str:
        """What the tensor is the square of; nothing if it is none."""
        node = self.producers.get(name)
        if node is None:
            return ""
        is_square = node.op_type == "Mul" and len(set(node.input)) == 1
        is_power = node.op_type == "Pow" and self._number(node.input[1]) == 2.0
        return node.input[0] if is_square or is_power else ""

    def _deviation(self, root: NodeProto) -> _Deviation | None:
        """What a Sqrt is the deviation of."""
        added = self.producers.get(root.input[0])
        if added is None or added.op_type != "Add":
            return None
        for name in added.input:
            epsilon, mean = self._number(self._with_constant(added, name)), self._mean(name)
            if epsilon is None or mean is None or not 0 <= epsilon <= MOST_EPSILON:
                continue
            difference = self.producers.get(self._squared(mean[0]))
            if difference is None or difference.op_type != "Sub":
                continue
            x, its_mean = difference.input
            if self._mean(its_mean) == (x, mean[1]):
                means = {
                    n.output[0] for n in self.readers[x] if self._mean(n.output[0]) == (x, mean[1])
                }
                alike = {
                    n.output[0]
                    for n in self.readers[x]
                    if n.op_type == "Sub" and n.input[0] == x and n.input[1] in means
                }
                return _Deviation(
                    root.output[0], x, frozenset(alike), frozenset(means), mean[1], epsilon
                )
        return None

    # ------------------------------------------------------------------ what they make together

    def _normalized(self, of: _Deviation) -> Iterator[_Normalized]:
        """Differences by the deviation, or times its reciprocal and perhaps gamma."""
        for node in self.readers[of.name]:
            if node.op_type == "Div" and node.input[1] == of.name:
                if node.input[0] in of.differences:
                    yield _Normalized(node.output[0], of)
                elif self._number(node.input[0]) == 1.0:
                    yield from self._times(of, node.output[0])
            elif node.op_type == "Reciprocal":
                yield from self._times(of, node.output[0])

    def _times(self, of: _Deviation, factor: str, gamma: str = "") -> Iterator[_Normalized]:
        """What is multiplied by 1 / deviation, or by gamma / deviation."""
        for node in self.readers[factor]:
            if node.op_type != "Mul":
                continue
            (other,) = [name for name in node.input if name != factor] or [factor]
            if other in of.differences:
                yield _Normalized(node.output[0], of, gamma)
            elif other == of.x:
                yield from self._completed(of, factor, node.output[0], gamma)
            elif not gamma and self._fits(of, other):
                yield from self._times(of, node.output[0], other)

    def _completed(
        self, of: _Deviation, factor: str, product: str, gamma: str
    ) -> Iterator[_Normalized]:
        """x * factor + (beta - mean * factor)."""
        for node in self.readers[product]:
            (rest,) = [name for name in node.input if name != product] or [""]
            shift = self.producers.get(rest)
            if node.op_type != "Add" or shift is None or shift.op_type != "Sub":
                continue
            beta, moved = shift.input[0], self.producers.get(shift.input[1])
            if moved is None or moved.op_type != "Mul" or not self._fits(of, beta):
                continue
            if any({*moved.input} == {mean, factor} for mean in of.means):
                yield _Normalized(node.output[0], of, gamma, beta)

    def _fits(self, of: _Deviation, name: str) -> bool:
        """Whether it is a constant with at most a number for each that is normalized."""
        value = self.constant(name)
        if value is None:
            return False
        longer = [i - value.ndim for i, length in enumerate(value.shape) if length > 1]
        if all(axis < 0 for axis in of.axes):
            return set(longer) <= set(of.axes)
        return len(longer) <= len(of.axes)

    def _sole_reader(self, name: str, op_type: str) -> NodeProto | None:
        readers = self.readers[name]
        alone = len(readers) == 1 and name not in self.outputs
        return readers[0] if alone and readers[0].op_type == op_type else None

    def _scaled(self, one: _Normalized) -> _Normalized:
        """With the gamma that follows."""
        node = self._sole_reader(one.output, "Mul")
        gamma = self._with_constant(node, one.output) if node else ""
        if node is None or one.gamma or one.beta or not self._fits(one.of, gamma):
            return one
        return _Normalized(node.output[0], one.of, gamma)

    def _shifted(self, one: _Normalized) -> _Normalized:
        """With the beta that follows."""
        node = self._sole_reader(one.output, "Add")
        beta = self._with_constant(node, one.output) if node else ""
        if node is None or one.beta or not self._fits(one.of, beta):
            return one
        return _Normalized(node.output[0], one.of, one.gamma, beta)

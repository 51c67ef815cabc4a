"""Tensor, Node, Graph: frozen values. A pass takes a graph and returns another one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.shown import Record, Shown

if TYPE_CHECKING:
    from mcutrain.data.layout import InputOrder
    from mcutrain.ir.op import Op

Array = npt.NDArray[Any]

# "exponent" is a gradient's exponent and its history (mct_exponent: three int8), "step" what a
# node may know of the training step it runs in (mct_step: five 32-bit words).
DTYPE_BYTES = {"int8": 1, "uint8": 1, "int16": 2, "int32": 4, "exponent": 1, "step": 4}


@dataclass(frozen=True)
class TensorType:
    """Shape, element type and quantization.

    shape: batch first, channels last; batch is 1. scales: one real number, or one per channel of
    `axis`, or none for a tensor that is not quantized (indices, masks). real = scale * (q -
    zero_point); the zero point is 0 wherever there is more than one scale.
    """

    shape: tuple[int, ...]
    dtype: str = "int8"
    scales: tuple[float, ...] = ()
    zero_point: int = 0
    axis: int = -1

    @property
    def elements(self) -> int:
        """How many numbers the tensor holds."""
        return int(math.prod(self.shape))

    @property
    def size_bytes(self) -> int:
        """Bytes in memory, without alignment."""
        return self.elements * DTYPE_BYTES[self.dtype]

    @property
    def scale(self) -> float:
        """The one scale of a per-tensor quantized tensor."""
        if len(self.scales) != 1:
            raise ValueError(f"expected one scale, the tensor has {len(self.scales)}")
        return self.scales[0]

    def layout(self) -> tuple[tuple[int, ...], str]:
        """Return what memory and kernels see: shape and element type, without the quantization."""
        return self.shape, self.dtype


@dataclass(frozen=True)
class Tensor:
    """A named value: computed by a node, given from outside, or constant if `data` is there."""

    name: str
    type: TensorType
    data: Array | None = field(default=None, compare=False, repr=False)

    @property
    def is_constant(self) -> bool:
        """Whether the value is known before any node runs."""
        return self.data is not None

    def content(self) -> tuple[str, bytes]:
        """Key of a constant's values: equal constants are stored once in a program."""
        assert self.data is not None
        return str(self.data.dtype), self.data.tobytes()


@dataclass(frozen=True)
class Node:
    """One operator applied to named tensors."""

    name: str
    op: Op
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True, repr=False)
class Graph(Shown):
    """A network: nodes in execution order over named tensors, in single assignment form.

    class_names: what the outputs of a classifier mean, in their order; empty where nobody says.
        They are no part of what is computed.
    input_axes, output_axes: order of axes in the file, of the input and of each output. The file's
        array is ours transposed by it; empty where the file has ours.
    input_order: the order in which users have samples; None: as the input.
    row: where several outputs are trained together, the tensors that lie one after another in the
        one output; else empty. output_names: the file's names.
    step_rows: how many rows of the input a step of a streaming model takes; 0: it has no steps.
    """

    name: str
    tensors: Mapping[str, Tensor]
    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    class_names: tuple[str, ...] = field(default=(), compare=False)
    input_axes: tuple[int, ...] = field(default=(), compare=False)
    output_axes: tuple[tuple[int, ...], ...] = field(default=(), compare=False)
    input_order: InputOrder | None = field(default=None, compare=False)
    step_rows: int = field(default=0, compare=False)
    row: tuple[str, ...] = ()
    output_names: tuple[str, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tensors", MappingProxyType(dict(self.tensors)))

    def summary(self) -> str:
        """Return a line that describes it."""
        shapes = [
            ", ".join(str(t.shape) for t in self.types(n)) for n in (self.inputs, self.outputs)
        ]
        return f"{self.name}, {len(self.nodes)} nodes, {shapes[0]} → {shapes[1]}"

    def records(self) -> list[Record]:
        """A row for each node, in the order of execution."""
        found = []
        for node in self.nodes:
            inputs, outputs = self.types(node.inputs), self.types(node.outputs)
            constants = (self.tensors[name] for name in node.inputs)
            found.append(
                {
                    "node": node.name,
                    "operator": type(node.op).__name__,
                    "output": "×".join(map(str, outputs[0].shape[1:])),
                    "macs": node.op.macs(inputs, outputs),
                    "parameters": sum(t.type.elements for t in constants if t.is_constant),
                }
            )
        return found

    def types(self, names: Iterable[str]) -> tuple[TensorType, ...]:
        """The types of the named tensors, in order."""
        tensors = self.tensors
        return tuple([tensors[name].type for name in names])

    def macs(self, first: int = 0, last: int | None = None) -> int:
        """Multiply-accumulates of the nodes from `first` to before `last`."""
        nodes = self.nodes[first:last]
        return sum(n.op.macs(self.types(n.inputs), self.types(n.outputs)) for n in nodes)

    def constants(self) -> set[str]:
        """Names of those that nodes read."""
        read = {name for node in self.nodes for name in node.inputs}
        return {name for name in read if self.tensors[name].is_constant}

    def vocabulary(self, x: str) -> int:
        """How many token ids a tensor may hold: the rows of the smallest table that they choose
        from. 0 of a tensor that holds none.
        """
        if self.tensors[x].type.dtype != "int16":
            return 0
        rows = [
            self.vocabulary(node.outputs[0])
            if node.op.is_view
            else node.op.rows_of_ids(self.types(node.inputs))
            for node in self.consumers(x)
        ]
        return min(rows, default=0)

    def producer(self, tensor: str) -> Node | None:
        """The node that computes `tensor`; None for inputs and constants."""
        return next((n for n in self.nodes if tensor in n.outputs), None)

    @property
    def gives_probabilities(self) -> bool:
        """Whether the first output is a softmax or the like, as `probability` finds it."""
        return self.probability(self.outputs[0]) is not None

    def probability(self, tensor: str) -> Node | None:
        """The softmax or the like that gives a tensor, perhaps under another shape, or in another
        scale that leaves the largest the largest; None if nothing does."""
        node = self.producer(tensor)
        while node is not None and (node.op.is_view or self._leaves_the_largest(node)):
            node = self.producer(node.inputs[0])
        return node if node is not None and node.op.is_probability else None

    def _leaves_the_largest(self, node: Node) -> bool:
        """Return whether only the largest of several shares of 1 can be above a half."""
        y = self.tensors[node.outputs[0]].type
        return node.op.is_rescale and y.scale * (127 - y.zero_point) >= 0.5

    def consumers(self, tensor: str) -> tuple[Node, ...]:
        """The nodes that read `tensor`, in execution order."""
        return tuple(n for n in self.nodes if tensor in n.inputs)

    def logits_node(self, head: Node) -> Node:
        """What gives the logits of the last layer: itself, or the mean over its positions."""
        readers = self.consumers(head.outputs[0])
        return readers[0] if len(readers) == 1 and readers[0].op.is_mean else head

    def with_nodes(self, nodes: Iterable[Node], keep: Iterable[str] = ()) -> Graph:
        """Return the graph with other nodes. Tensors that neither these nor `keep` name are
        dropped.
        """
        nodes = tuple(nodes)
        used = {*self.inputs, *self.outputs, *keep}
        used.update(name for n in nodes for name in (*n.inputs, *n.outputs))
        tensors = {k: v for k, v in self.tensors.items() if k in used}
        return replace(self, nodes=nodes, tensors=tensors)

"""A graph that grows: modules are put in while its nodes are gone through, first to last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.errors import SchemeError
from mcutrain.ir.graph import Graph, Node, Tensor, TensorType
from mcutrain.ir.names import Names
from mcutrain.ir.op import Op
from mcutrain.ir.verify import proven
from mcutrain.modules.numbers import ModuleNumbers
from mcutrain.ops.conv_2d import Conv2D
from mcutrain.ops.depthwise_conv_2d import DepthwiseConv2D
from mcutrain.ops.grouped_conv_2d import GroupedConv2D
from mcutrain.ops.spatial import Window
from mcutrain.quant import multipliers
from mcutrain.shown import Record, Shown
from mcutrain.sparse.module_names import DEPTHWISE, ModulePart

Array = npt.NDArray[Any]
POINT = Window((1, 1))
LEAST_SCALE = 2.0**-40
"""Least scale of a weight: that of one that is all zeros."""


@dataclass(frozen=True)
class Module:
    """One module. place: the node that it stands at. layers: its own, by name.

    rank: hidden channels or rank, 0 if it has none. weights: that it adds. trained: of its weights
    and biases, by the scheme `modules`. macs: multiply-accumulates that it adds.
    """

    kind: str
    place: str
    rank: int
    layers: tuple[str, ...]
    weights: int
    trained: int
    macs: int


@dataclass(frozen=True, repr=False)
class Augmented(Shown):
    """A graph with modules, which computes the bits of the one without until they learn."""

    graph: Graph
    modules: tuple[Module, ...]

    def summary(self) -> str:
        """Return a line that describes it."""
        weights, macs = (sum(getattr(m, k) for m in self.modules) for k in ("weights", "macs"))
        return f"{self.graph.name}, {len(self.modules)} modules, {weights:,} weights, {macs:,} MACs"

    def records(self) -> list[Record]:
        """A row for each module."""
        return [{**asdict(m), "layers": list(m.layers)} for m in self.modules]


class Graft:
    """Collects nodes. now: for a tensor of the old graph, the one to read in its place.

    numbers: what layers of modules are made of, in the place of what follows from samples.
    """

    def __init__(self, graph: Graph, numbers: ModuleNumbers | None = None) -> None:
        self.graph, self.numbers = graph, numbers
        self.tensors = dict(graph.tensors)
        self.nodes: list[Node] = []
        self.now: dict[str, str] = {}
        self.modules: list[Module] = []
        self._names = Names(graph.tensors)

    def result(self) -> Augmented:
        """The verified graph."""
        changed = replace(self.graph, tensors=self.tensors)
        return Augmented(proven(changed.with_nodes(self.nodes)), tuple(self.modules))

    def type(self, name: str) -> TensorType:
        """Type of a tensor."""
        return self.tensors[name].type

    def reading(self, node: Node) -> Node:
        """The node with what it is to read now."""
        return replace(node, inputs=tuple(self.now.get(n, n) for n in node.inputs))

    def constant(self, name: str, kind: TensorType, data: Array) -> str:
        """A new constant, or another one under an old name."""
        self.tensors[name] = Tensor(
            name, replace(kind, shape=data.shape), np.ascontiguousarray(data)
        )
        return name

    def node(
        self, name: str, op: Op, inputs: tuple[str, ...], scale: float, zero_point: int
    ) -> str:
        """A node with one int8 output of its name; the output's name."""
        (inferred,) = op.infer(*(self.type(n) for n in inputs))
        y = self._names.take(name)
        kind = replace(inferred, scales=(scale,), zero_point=zero_point)
        self.tensors[y] = Tensor(y, kind)
        self.nodes.append(Node(y, op, inputs, (y,)))
        return y

    def layer(
        self,
        part: ModulePart,
        x: str,
        w: Array,
        scales: Sequence[float],
        bias: Array,
        y: tuple[float, int],
        window: Window = POINT,
    ) -> str:
        """A convolution, in groups if w reads fewer channels, of some parts a depthwise one; its
        output.

        w: int8, scales of its output channels. bias: real numbers. y: scale and zero point.
        """
        kind = self.type(x)
        is_depthwise = part.kind == "gain" or part.part == DEPTHWISE
        axis = 3 if is_depthwise else 0
        known = None
        if self.numbers is not None:
            w, scales, known = self.numbers.take(w.shape, len(scales))
        stage = multipliers.conv_requantize(kind.scale, scales, *y)
        sums = [kind.scale * s for s in scales]
        wanted = np.rint(bias / sums).astype(np.int64) if known is None else known.astype(np.int64)
        b = multipliers.bias_without_overflow(w, axis, wanted, stage)
        if b is None and known is not None:
            raise SchemeError(f"the numbers of modules are damaged: sums of {part.name} overflow")
        assert b is not None, f"{part.name}: sums overflow"
        inputs = (
            x,
            self.constant(part.weight, TensorType((), "int8", tuple(scales), 0, axis), w),
            self.constant(part.bias, TensorType((), "int32", tuple(sums), 0, 0), b),
        )
        is_grouped = not is_depthwise and w.shape[3] != kind.shape[3]
        make = DepthwiseConv2D if is_depthwise else GroupedConv2D if is_grouped else Conv2D
        return self.node(part.name, make(window, kind.zero_point, stage), inputs, *y)

    def note(
        self, kind: str, place: str, rank: int, first: int, weights: int, trained: int
    ) -> None:
        """Note the module whose nodes are those from number `first` on."""
        added = [n for n in self.nodes[first:] if len(n.inputs) == 3]
        macs = sum(
            n.op.macs([self.type(i) for i in n.inputs], [self.type(o) for o in n.outputs])
            for n in added
        )
        names = tuple(n.name for n in added)
        self.modules.append(Module(kind, place, rank, names, weights, trained, macs))


def quantized_rows(rows: Array) -> tuple[Array, tuple[float, ...]]:
    """Real weights [out, in] as int8 [out, 1, 1, in] and a scale for each row."""
    scales = np.maximum(np.abs(rows).max(axis=1) / 127, LEAST_SCALE).astype(np.float32)
    w = np.clip(np.rint(rows / scales[:, None].astype(np.float64)), -127, 127).astype(np.int8)
    return w[:, None, None, :], tuple(scales.astype(np.float64).tolist())

"""Modules folded into the layers that they stand at: no more operators, other weights.

lora, lora-fa   [W | B]·concat(x, A·x + a) + b = (W + B·A)·x + (b + B·a): up to the rounding and the
                clamping of A·x, and the rounding of W + B·A to int8. A row that does not fit its
                own scale gets a larger one.
gain            g·(W·x + b): the scales of W by channel, times g; where g is negative the
                row's sign. Up to one rounding less, and the clamping between both.

Adapters and lite residuals have a ReLU inside, and stay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.errors import SchemeError
from mcutrain.ir.graph import Graph, Node, Tensor
from mcutrain.ir.verify import proven
from mcutrain.ops.conv_2d import Conv2D, Requantize
from mcutrain.ops.depthwise_conv_2d import DepthwiseConv2D
from mcutrain.ops.grouped_conv_2d import GroupedConv2D
from mcutrain.quant import multipliers
from mcutrain.quant.multipliers import single
from mcutrain.sparse.leaving_out import without_dead
from mcutrain.sparse.modules import LORA, PROJECTION, ModuleLayer, added_columns, modules_of

Array = npt.NDArray[Any]
RULES: tuple[Callable[[float, Sequence[float], float, int], Requantize], ...] = (
    multipliers.conv_requantize,
    multipliers.fully_connected_requantize,
    multipliers.fully_connected_requantize_rounding_twice,
)


@dataclass(frozen=True)
class Merged:
    """A graph without the modules that could be folded. folded: their layers, by name.

    left: the layers of modules that are still there. weights, changed: of the layers that they were
    folded into, and how many of those are other integers than before.
    """

    graph: Graph
    folded: tuple[str, ...]
    left: tuple[str, ...]
    weights: int
    changed: int

    @property
    def text(self) -> str:
        """Return a sentence that describes it."""
        left = f"; {len(self.left)} layers of modules stay" if self.left else ""
        return (
            f"{len(self.folded)} modules merged into their layers, {self.changed:,} of "
            f"{self.weights:,} weights there changed{left}"
        )


def merged(graph: Graph) -> Merged:
    """The graph with low-rank updates and gains folded into their layers.

    Raises SchemeError if there is none that can be folded, or sums would overflow.
    """
    work = _Merging(graph)
    for module in modules_of(graph):
        kind, part = module.part.kind, module.part.part
        if kind in LORA and part == PROJECTION:
            work.fold_low_rank(module)
        elif kind == "gain":
            work.fold_gain(module)
    if not work.folded:
        raise SchemeError(
            f"{graph.name!r} has no modules that can be merged: those are low-rank updates (lora, "
            "lora-fa) and gains; leave out the merging"
        )
    changed = replace(graph, tensors=work.tensors)
    found = proven(without_dead(changed.with_nodes(work.nodes)))
    left = tuple(m.layer.name for m in modules_of(found))
    counts = work.changed.values()
    return Merged(
        found, tuple(work.folded), left, sum(n for n, _ in counts), sum(c for _, c in counts)
    )


class _Merging:
    """The nodes and tensors so far.

    before: weight → what it was without modules; changed: how many it has, and how many are others.
    """

    def __init__(self, graph: Graph) -> None:
        self.tensors = dict(graph.tensors)
        self.nodes = list(graph.nodes)
        self.graph = graph
        self.columns = added_columns(graph)
        self.folded: list[str] = []
        self.before: dict[str, Array] = {}
        self.changed: dict[str, tuple[int, int]] = {}

    def fold_low_rank(self, module: ModuleLayer) -> None:
        """B·A into W. A layer that the projection reaches by a view keeps it."""
        z = module.layer.node
        joined = self._only_reader(z.outputs[0])
        host = None if joined is None else self._only_reader(joined.outputs[0])
        if joined is None or host is None or host.inputs[1] not in self.columns:
            return
        assert isinstance(host.op, Conv2D)
        w, b, a, shift = (
            self._data(name).astype(np.float64) for name in (*host.inputs[1:], *z.inputs[1:])
        )
        rank = self.columns[host.inputs[1]]
        scales = np.array(self.tensors[z.inputs[1]].type.scales)[:, None]
        columns = w[:, 0, 0, -rank:]
        rows = w[:, 0, 0, :-rank] + columns @ (scales * a[:, 0, 0])
        sums = b + columns @ (scales[:, 0] * shift)
        self._replace(host, joined.inputs[0], rows[:, None, None, :], sums, 0, w[..., :-rank])
        self.folded.append(module.layer.name)

    def fold_gain(self, module: ModuleLayer) -> None:
        """g into the scales of the layer before."""
        gain = module.layer.node
        x, y = gain.inputs[0], gain.outputs[0]
        host = next(n for n in self.nodes if x in n.outputs)
        stage = getattr(host.op, "requantize", None)
        g = self._data(gain.inputs[1]).ravel().astype(np.float64)
        factor = g * np.array(self.tensors[gain.inputs[1]].type.scales)
        if not isinstance(host.op, Conv2D | DepthwiseConv2D | GroupedConv2D) or stage is None:
            return
        is_one_sided = stage.low >= stage.zero_point
        is_single = len(stage.mult_q31) != len(g)
        has_bias = bool(self._data(gain.inputs[2]).any())
        if self._only_reader(x) is None or is_single or has_bias:
            return
        if is_one_sided and (g < 0).any():
            return
        axis = self.tensors[host.inputs[1]].type.axis % 4
        along = [-1 if i == axis else 1 for i in range(4)]
        w, b = (self._data(n) for n in host.inputs[1:])
        sign = np.sign(g)
        self._replace(
            host, host.inputs[0], w * sign.reshape(along), b * sign, axis, w, np.abs(factor)
        )
        self.nodes = [
            replace(n, inputs=tuple(x if name == y else name for name in n.inputs))
            for n in self.nodes
            if n.name != gain.name
        ]
        self.folded.append(module.layer.name)

    def _replace(
        self,
        host: Node,
        x: str,
        w: Array,
        b: Array,
        axis: int,
        before: Array,
        factor: Array | None = None,
    ) -> None:
        """The layer with real weights w and biases b in units of its scales, times the factor."""
        _, weight, bias = host.inputs
        old_w, old_b, y = (self.tensors[n].type for n in (weight, bias, host.outputs[0]))
        stage = host.op.requantize  # type: ignore[attr-defined]
        others = tuple(i for i in range(4) if i != axis)
        grown = np.maximum(np.abs(w).max(axis=others) / 127, 1.0)
        if len(old_w.scales) == 1:
            grown = grown.max(keepdims=True)
        gains = np.ones_like(grown) if factor is None else np.where(factor > 0, factor, 1.0)
        scales = tuple(
            s if r == 1 else single(s * r)
            for s, r in zip(old_w.scales, (grown * gains).tolist(), strict=True)
        )
        along = [-1 if i == axis else 1 for i in range(4)]
        new_w = np.clip(np.rint(w / grown.reshape(along)), -127, 127).astype(np.int8)
        made = self._stage(stage, self.tensors[x].type.scale, old_w.scales, scales, y.scale)
        sums = np.rint(b / grown).astype(np.int64)
        new_b = multipliers.bias_without_overflow(new_w, axis, sums, made)
        if new_b is None:
            raise SchemeError(
                f"the sums of {host.name!r} overflow 32 bits with its module in them: export "
                "without merging"
            )
        kind_w = replace(old_w, shape=new_w.shape, scales=scales)
        ratio = np.array(scales) / np.array(old_w.scales)
        b_scales = tuple((np.array(old_b.scales) * ratio).tolist())
        self.tensors[weight] = Tensor(weight, kind_w, np.ascontiguousarray(new_w))
        self.tensors[bias] = Tensor(bias, replace(old_b, scales=b_scales), new_b)
        op: Any = host.op
        place = [n.name for n in self.nodes].index(host.name)
        self.nodes[place] = replace(host, op=replace(op, requantize=made), inputs=(x, weight, bias))
        first = self.before.setdefault(weight, before)
        self.changed[weight] = new_w.size, int((new_w != first).sum())

    def _stage(
        self,
        stage: Requantize,
        x_scale: float,
        old: Sequence[float],
        new: Sequence[float],
        y_scale: float,
    ) -> Requantize:
        """The multipliers of new scales, by the rule that made those of the old ones."""
        if tuple(old) == tuple(new):
            return stage
        rule = next(
            (
                rule
                for rule in RULES
                if (made := rule(x_scale, old, y_scale, stage.zero_point)).mult_q31
                == stage.mult_q31
                and made.rounds_once == stage.rounds_once
            ),
            multipliers.conv_requantize,
        )
        made = rule(x_scale, new, y_scale, stage.zero_point)
        return replace(stage, mult_q31=made.mult_q31, shift=made.shift)

    def _data(self, name: str) -> Array:
        data = self.tensors[name].data
        assert data is not None, name
        return data

    def _only_reader(self, name: str) -> Node | None:
        readers = [n for n in self.nodes if name in n.inputs]
        return readers[0] if len(readers) == 1 and name not in self.graph.outputs else None

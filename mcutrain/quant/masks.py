"""Masks of attention: numbers such as -1e9 before a softmax, for which int8 has no room.

A mask adds a constant to scores, so that the softmax gives 0 where it is far below the others. It
does so, in steps of 1/256, as soon as it is lower than the others by the spread of the scores and
some more. How far below does not matter to the softmax, and a larger range would take the steps of
the scores in int8.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.quant.float_elementwise import AddConstant
from mcutrain.quant.float_graph import FloatGraph, FloatNode
from mcutrain.quant.float_shapes import FloatSoftmax
from mcutrain.quant.float_sums import Sums

Array = npt.NDArray[Any]

GONE = 8.0
"""exp(-8) is 1/2981: less than a twelfth of a softmax' step."""


@dataclass(frozen=True, eq=False)
class Mask:
    """A constant that a node adds to rows of scores. beta: what the softmax multiplies them by."""

    node: FloatNode
    constant: Array
    beta: float

    @property
    def below(self) -> Array:
        """How far each number is below the largest of its row."""
        below: Array = self.constant.max(axis=-1, keepdims=True) - self.constant
        return below

    def spread(self, x: Array) -> float:
        """Range of the scores in a row without the mask. x: what the node reads."""
        op = self.node.op
        scores = op.sums(x) if isinstance(op, Sums) else x
        return float(np.ptp(scores, axis=-1).max())

    def clipped(self, reach: float) -> FloatNode:
        """The node with a mask that goes no further below the largest number of its row.

        Rows that are far below 0 as a whole begin at 0: a softmax takes them for the same.
        """
        largest = self.constant.max(axis=-1, keepdims=True)
        start = np.where(largest < -reach, 0, largest)
        shorter = (start - np.minimum(self.below, reach)).astype(self.constant.dtype)
        op = self.node.op
        made = replace(op, b=shorter) if isinstance(op, Sums) else AddConstant(shorter)
        return replace(self.node, op=made)


def clip_masks(graph: FloatGraph, samples: Array) -> tuple[FloatGraph, tuple[str, ...]]:
    """The graph with masks that reach no further than an int8 softmax can tell, and what was done.

    samples: as the graph takes them; they say how far apart scores are.
    """
    masks = {mask.node.inputs[0]: mask for mask in _masks(graph)}
    if not masks:
        return graph, ()
    spreads = dict.fromkeys(masks, 0.0)

    def see(name: str, x: Array) -> None:
        if name in masks:
            spreads[name] = max(spreads[name], masks[name].spread(x))

    for batch in graph.batches(samples):
        graph.run(batch, see)
    nodes: dict[str, FloatNode] = {}
    notes = []
    for name, mask in masks.items():
        reach = spreads[name] + GONE / mask.beta
        if np.isfinite(reach) and (mask.below > reach).any():
            nodes[mask.node.output] = mask.clipped(reach)
            notes.append(
                f"node {mask.node.name!r} masks with {mask.constant.min():.4g} before a softmax; "
                f"{-reach:.4g} does the same in int8, and is taken"
            )
    return graph.with_nodes(nodes.get(n.output, n) for n in graph.nodes), tuple(notes)


def _masks(graph: FloatGraph) -> Iterator[Mask]:
    """Yield masks that could be too far below: what is added by as much as a softmax' own reach."""
    for node in graph.nodes:
        constant = node.op.b if isinstance(node.op, Sums) else getattr(node.op, "c", None)
        if not isinstance(node.op, (AddConstant, Sums)) or constant is None:
            continue
        if node.op.limits != (-np.inf, np.inf) or np.ptp(constant, axis=-1).max() <= GONE:
            continue
        if softmax := _softmax_of(graph, node):
            yield Mask(node, constant, softmax.beta)


def _softmax_of(graph: FloatGraph, node: FloatNode) -> FloatSoftmax | None:
    """The softmax inside the network that alone reads the rows of a node's output."""
    row = graph.shapes[node.output][-1]
    reader = graph.sole_reader(node.output)
    while reader is not None and reader.op.is_view and graph.shapes[reader.output][-1] == row:
        reader = graph.sole_reader(reader.output)
    if reader is None or not isinstance(reader.op, FloatSoftmax) or reader.op.beta <= 0:
        return None
    return None if _is_output(graph, reader) else reader.op


def _is_output(graph: FloatGraph, node: FloatNode) -> bool:
    """Return whether it gives the model's classes, whose logits are not to change."""
    reader: FloatNode | None = node
    while reader is not None and (reader is node or reader.op.is_view):
        if reader.output in graph.outputs:
            return True
        reader = graph.sole_reader(reader.output)
    return False

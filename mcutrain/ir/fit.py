"""No value of any operator may be larger than its arithmetic holds: proven from sizes, for all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mcutrain.errors import UnsupportedError
from mcutrain.ir.graph import Node, Tensor
from mcutrain.ir.op import Bound


def fit_sums(nodes: Iterable[Node], tensors: Mapping[str, Tensor]) -> tuple[Node, ...]:
    """The nodes, with wide sums where the bounds of an operator do not hold otherwise.

    Raises UnsupportedError, naming the node, where wide sums do not help or there are none.
    """
    return tuple(_fitted(node, tensors) for node in nodes)


def _fitted(node: Node, tensors: Mapping[str, Tensor]) -> Node:
    broken = [b for b in node.op.bounds([tensors[n] for n in node.inputs]) if not b.holds]
    if not broken:
        return node
    wide = node.op.with_wide_sums()
    if wide is None:
        raise UnsupportedError(_sentence(node, broken[0]))
    return Node(node.name, wide, node.inputs, node.outputs)


def _sentence(node: Node, bound: Bound) -> str:
    return (
        f"node {node.name!r} ({type(node.op).__name__}): its {bound.what} can reach "
        f"{bound.largest:,}, and the arithmetic holds {bound.limit:,}: {bound.advice}"
    )

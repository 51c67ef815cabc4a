"""No value of any operator may be larger than its arithmetic holds: proven from sizes, for all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mcutrain.errors import UnsupportedError
from mcutrain.ir.graph import Node, Tensor
from mcutrain.ir.op import Bound

HOLDING_AT_MOST = 512

_HOLDING: dict[tuple[int, ...], tuple[object, ...]] = {}
"""Frozen nodes whose bounds hold, which schemes of one network share: by the identities of the
operator, and of the types and the data that it reads, which are kept here so that nothing else can
have them. Nobody changes the data of a graph."""


def fit_sums(nodes: Iterable[Node], tensors: Mapping[str, Tensor]) -> tuple[Node, ...]:
    """The nodes, with wide sums where the bounds of an operator do not hold otherwise.

    Raises UnsupportedError, naming the node, where wide sums do not help or there are none.
    """
    return tuple(_fitted(node, tensors) for node in nodes)


def _fitted(node: Node, tensors: Mapping[str, Tensor]) -> Node:
    read = [tensors[n] for n in node.inputs]
    asked = (node.op, *(part for t in read for part in (t.type, t.data)))
    identities = tuple(map(id, asked))
    if identities in _HOLDING:
        return node
    broken = [b for b in node.op.bounds(read) if not b.holds]
    if not broken:
        if any(t.is_constant for t in read):
            _remember(identities, asked)
        return node
    wide = node.op.with_wide_sums()
    if wide is None:
        raise UnsupportedError(_sentence(node, broken[0]))
    return Node(node.name, wide, node.inputs, node.outputs)


def _remember(identities: tuple[int, ...], asked: tuple[object, ...]) -> None:
    if len(_HOLDING) >= HOLDING_AT_MOST:
        _HOLDING.clear()
    _HOLDING[identities] = asked


def _sentence(node: Node, bound: Bound) -> str:
    return (
        f"node {node.name!r} ({type(node.op).__name__}): its {bound.what} can reach "
        f"{bound.largest:,}, and the arithmetic holds {bound.limit:,}: {bound.advice}"
    )

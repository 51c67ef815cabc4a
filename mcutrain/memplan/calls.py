"""Kernel calls, remembered: schemes of one network share most of their nodes."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from mcutrain.errors import UnsupportedError
from mcutrain.ir.graph import Graph, Node, TensorType
from mcutrain.ir.op import INT32_MAX, KernelCall, Op

ASKED_AT_MOST = 4096

_ASKED: dict[tuple[int, ...], tuple[tuple[object, ...], KernelCall]] = {}
"""What is asked again and again while one step is planned, by the identities of the operator and
the types, which are kept beside the answer: comparing their values takes longer than planning."""


@lru_cache(maxsize=2048)
def kernel_call(
    op: Op, types: tuple[TensorType, ...], results: tuple[TensorType, ...]
) -> KernelCall:
    """As Op.kernel."""
    return op.kernel(types, results)


def node_call(graph: Graph, node: Node) -> KernelCall:
    """A node's. Raises UnsupportedError if a number of it cannot be written in C."""
    types, results = graph.types(node.inputs), graph.types(node.outputs)
    asked = (node.op, *types, *results)
    identities = (len(types), *map(id, asked))
    if known := _ASKED.get(identities):
        return known[1]
    try:
        call = _checked_call(node.op, types, results)
    except ValueError as error:
        raise _wrong(node, str(error)) from error
    if len(_ASKED) >= ASKED_AT_MOST:
        _ASKED.clear()
    _ASKED[identities] = asked, call
    return call


@lru_cache(maxsize=2048)
def _checked_call(
    op: Op, types: tuple[TensorType, ...], results: tuple[TensorType, ...]
) -> KernelCall:
    """Raises ValueError if a number cannot be written in C."""
    call = kernel_call(op, types, results)
    large = [p for p in call.params if isinstance(p.value, int) and abs(p.value) > INT32_MAX]
    if large and not large[0].name.endswith("salt"):
        raise ValueError(f"its {large[0].name} is {large[0].value}, beyond 32 bits")
    return call


def overwriting_bytes(graph: Graph, node: Node, rows: int) -> int:
    """Scratch to compute so many rows of a node's output upon the same rows of an input."""
    if node_call(graph, node).overwriting_bytes == 0:
        return 0

    def cut(kind: TensorType) -> TensorType:
        return replace(kind, shape=(kind.shape[0], rows, *kind.shape[2:]))

    results = graph.types(node.outputs)
    images = node.op.rows(graph.types(node.inputs), results)
    assert images is not None, f"{node.name!r} is not computed row by row"
    types = enumerate(graph.types(node.inputs))
    parts = tuple(cut(kind) if i in images.inputs else kind for i, kind in types)
    return kernel_call(node.op, parts, tuple(map(cut, results))).overwriting_bytes


def _wrong(node: Node, what: str) -> UnsupportedError:
    return UnsupportedError(
        f"node {node.name!r} ({type(node.op).__name__}) cannot be computed: {what}; if the model's "
        "scales are as they should be, train only layers behind it"
    )

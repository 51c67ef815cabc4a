"""What every graph must fulfil: those of files, and after each stage our own."""

from __future__ import annotations

from mcutrain.errors import ModelError
from mcutrain.ir.graph import Graph, Node


def verify(graph: Graph) -> Graph:
    """Return the graph, or raise ModelError with the first rule it breaks.

    Every name is a tensor. Every tensor is written at most once, and before it is read. Node names
    are unique. Constants hold what their type says. `infer` agrees with the declared types.
    """
    written = {*graph.inputs, *(n for n, t in graph.tensors.items() if t.is_constant)}
    _check_constants(graph)
    names: set[str] = set()
    for node in graph.nodes:
        if node.name in names:
            raise ModelError(f"two nodes of graph {graph.name!r} are named {node.name!r}")
        names.add(node.name)
        _check_order(graph, node, written)
        _check_types(graph, node)
        written.update(node.outputs)
    for output in graph.outputs:
        if output not in written:
            raise ModelError(f"output {output!r} of graph {graph.name!r} is never computed")
    return graph


def proven(graph: Graph) -> Graph:
    """Return the graph of one of our own stages; that it breaks a rule is our bug, not its user's.

    Raises AssertionError with the sentence of `verify`.
    """
    try:
        return verify(graph)
    except ModelError as error:
        raise AssertionError(str(error)) from error


def _check_constants(graph: Graph) -> None:
    for name, tensor in graph.tensors.items():
        if name != tensor.name:
            raise ModelError(f"tensor {tensor.name!r} is filed under the name {name!r}")
        if tensor.data is not None:
            found = (tensor.data.shape, str(tensor.data.dtype))
            if found != tensor.type.layout():
                raise ModelError(f"constant {name!r} is {found}, its type says {tensor.type}")


def _check_order(graph: Graph, node: Node, written: set[str]) -> None:
    for name in (*node.inputs, *node.outputs):
        if name not in graph.tensors:
            raise ModelError(f"node {node.name!r} names the unknown tensor {name!r}")
    for name in node.inputs:
        if name not in written:
            raise ModelError(f"node {node.name!r} reads {name!r} before it is computed")
    for name in node.outputs:
        if name in written:
            raise ModelError(f"node {node.name!r} writes {name!r}, which has a value already")


def _check_types(graph: Graph, node: Node) -> None:
    try:
        inferred = node.op.infer(*graph.types(node.inputs))
    except ValueError as error:
        raise ModelError(f"node {node.name!r} ({type(node.op).__name__}): {error}") from error
    for name, expected in zip(node.outputs, inferred, strict=True):
        found = graph.tensors[name].type.layout()
        if found != expected.layout():
            raise ModelError(
                f"node {node.name!r} ({type(node.op).__name__}) computes {expected.layout()}, "
                f"but its output {name!r} is declared {found}"
            )

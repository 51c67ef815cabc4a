"""The rounding of ONNX for that of TFLite: a pass from graph to graph that changes bits."""

from __future__ import annotations

from dataclasses import replace

from mcutrain.ir.graph import Graph


def rounding_once(graph: Graph) -> Graph:
    """The graph as a file of ONNX means it, where it can be computed so: see Op.rounding_once."""
    return graph.with_nodes(replace(node, op=node.op.rounding_once()) for node in graph.nodes)

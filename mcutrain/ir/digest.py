"""What a graph computes, as a few digits: a key for what is kept of it."""

from __future__ import annotations

import hashlib

import numpy as np

from mcutrain.ir.graph import Graph


def graph_digest(graph: Graph) -> str:
    """16 hexadecimal digits of a whole network, its head included."""
    found = hashlib.sha256(repr(graph.nodes).encode())
    for name, tensor in sorted(graph.tensors.items()):
        found.update(f"{name} {tensor.type}".encode())
        if tensor.data is not None:
            found.update(np.ascontiguousarray(tensor.data).tobytes())
    return found.hexdigest()[:16]

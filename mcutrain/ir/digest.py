"""What a graph computes, as a few digits: a key for what is kept of it."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain.ir.graph import Graph

Array = npt.NDArray[Any]


def graph_digest(graph: Graph) -> str:
    """16 hexadecimal digits of a whole network, its head included."""
    found = hashlib.sha256(repr(graph.nodes).encode())
    for name, tensor in sorted(graph.tensors.items()):
        found.update(f"{name} {tensor.type}".encode())
        if tensor.data is not None:
            found.update(np.ascontiguousarray(tensor.data).tobytes())
    return found.hexdigest()[:16]


def arrays_digest(*arrays: Array) -> str:
    """16 hexadecimal digits of arrays' shapes, types and values."""
    found = hashlib.sha256()
    for array in arrays:
        found.update(f"{array.shape} {array.dtype}".encode())
        found.update(np.ascontiguousarray(array).data)
    return found.hexdigest()[:16]

"""What modules were made of when they were put in: enough to put the same ones in again.

Ranges and directions of modules follow from samples, which whoever exports a state need not have.
Their constants, in the order in which they are put in, are all that is left of the samples.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain.errors import SchemeError
from mcutrain.ir.graph import Graph
from mcutrain.sparse.module_names import module_part

Array = npt.NDArray[Any]


class ModuleNumbers:
    """Weights, their scales and biases of modules' layers, taken one after the other."""

    def __init__(self, content: bytes) -> None:
        self._content, self._at = content, 0

    @staticmethod
    def of_text(text: str) -> ModuleNumbers:
        """As numbers_of wrote them. Raises SchemeError."""
        try:
            return ModuleNumbers(base64.b64decode(text, validate=True))
        except (binascii.Error, ValueError) as error:
            raise SchemeError(f"the numbers of modules are damaged: {error}") from error

    def take(self, shape: tuple[int, ...], scales: int) -> tuple[Array, Sequence[float], Array]:
        """Take the next layer's numbers: weights int8, a scale per output channel, biases int32."""
        w = self._next(np.int8, int(np.prod(shape))).reshape(shape)
        found = self._next("<f8", scales)
        if not (np.isfinite(found).all() and (found > 0).all()):
            raise SchemeError("the numbers of modules are damaged: a scale is not above 0")
        return w, tuple(found.tolist()), self._next("<i4", scales).astype(np.int32)

    def check_end(self) -> None:
        """Raise SchemeError if there are more than were taken."""
        if self._at != len(self._content):
            raise SchemeError("the numbers of modules are of other modules: they are too many")

    def _next(self, dtype: npt.DTypeLike, count: int) -> Array:
        size = count * np.dtype(dtype).itemsize
        if self._at + size > len(self._content):
            raise SchemeError("the numbers of modules are of other modules: they are too few")
        found = np.frombuffer(self._content, dtype, count, self._at).copy()
        self._at += size
        return found


def numbers_of(graph: Graph) -> str:
    """Return the numbers of a graph's modules before they learn, as text; empty without any."""
    parts = []
    for node in graph.nodes:
        if len(node.inputs) != 3 or module_part(node.inputs[1]) is None:
            continue
        weight, bias = (graph.tensors[name] for name in node.inputs[1:])
        assert weight.data is not None, f"{weight.name} is no constant"
        assert bias.data is not None, f"{bias.name} is no constant"
        scales = np.array(weight.type.scales, "<f8")
        parts += [weight.data.astype(np.int8), scales, bias.data.astype("<i4")]
    return base64.b64encode(b"".join(part.tobytes() for part in parts)).decode()

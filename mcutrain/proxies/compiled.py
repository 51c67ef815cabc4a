"""A front in C on this computer: what it makes of many samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain import pipeline
from mcutrain.ir.graph import Graph, Node, Tensor, TensorType
from mcutrain.ir.names import Names
from mcutrain.ir.verify import proven
from mcutrain.memplan import find_latent
from mcutrain.ops.conv_2d import Conv2D
from mcutrain.ops.reshape import Reshape
from mcutrain.ops.spatial import Window
from mcutrain.quant.multipliers import conv_requantize
from mcutrain.simulation.latent import LatentSimulator

Array = npt.NDArray[Any]
CLASSES = 2
CHUNK = 32


def compiled_front(front: Graph) -> LatentSimulator:
    """The front with a classifier behind it, which nobody asks. Raises BuildError."""
    step = pipeline.prepare(_with_classifier(front), "head", stream="off")
    return step.latent_simulator(find_latent(step.plan, front.outputs[0]))


def latents_of(
    front: Graph, x: Array, report: Callable[[int, int], None] = lambda *_: None
) -> Array:
    """Of samples, int8 [n, …]."""
    simulator, found = compiled_front(front), []
    for first in range(0, len(x), CHUNK):
        found.append(simulator.front(x[first : first + CHUNK]))
        report(min(first + CHUNK, len(x)), len(x))
    return np.concatenate(found)


def _with_classifier(front: Graph) -> Graph:
    (latent,) = front.outputs
    kind = front.tensors[latent].type
    names = Names()
    for name in (*front.tensors, *(node.name for node in front.nodes)):
        names.take(name)
    flat, weight, bias, y = (names.take(n) for n in ("flat", "weight", "bias", "classes"))
    w = np.zeros((CLASSES, 1, 1, kind.elements), np.int8)
    tensors = {
        **front.tensors,
        flat: Tensor(flat, replace(kind, shape=(1, 1, 1, kind.elements))),
        weight: Tensor(weight, TensorType(w.shape, "int8", (1.0,), 0, 0), w),
        bias: Tensor(
            bias,
            TensorType((CLASSES,), "int32", (kind.scale,), 0, 0),
            np.zeros(CLASSES, np.int32),
        ),
        y: Tensor(y, TensorType((1, 1, 1, CLASSES), "int8", (kind.scale * 256,))),
    }
    stage = conv_requantize(kind.scale, (1.0,), kind.scale * 256, 0)
    nodes = (
        *front.nodes,
        Node(flat, Reshape((1, 1, 1, kind.elements)), (latent,), (flat,)),
        Node(y, Conv2D(Window((1, 1)), kind.zero_point, stage), (flat, weight, bias), (y,)),
    )
    return proven(replace(front, tensors=tensors, nodes=nodes, outputs=(y,)))

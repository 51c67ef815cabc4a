"""A front in C on this computer: what it makes of many samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain import pipeline
from mcutrain.ir.graph import Graph
from mcutrain.memplan import find_latent
from mcutrain.proxies.behind import Behind
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
    """Compute the latents of samples, int8 [n, …]."""
    simulator, found = compiled_front(front), []
    for first in range(0, len(x), CHUNK):
        found.append(simulator.front(x[first : first + CHUNK]))
        report(min(first + CHUNK, len(x)), len(x))
    return np.concatenate(found)


def _with_classifier(front: Graph) -> Graph:
    made = Behind(front)
    kind = made.type
    w, bias = np.zeros((CLASSES, kind.elements), np.int8), np.zeros(CLASSES, np.int32)
    made.reshape("flat", (1, 1, 1, kind.elements))
    made.dense("classes", w, 1.0, bias, kind.scale * 256, 0)
    return made.result()

"""Networks with modules, fresh and as if they had learnt."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mcutrain.ir.graph import Graph
from mcutrain.modules import Augmented, augment, observe, observed_tensors, parse_modules
from mcutrain.sparse.module_names import module_part
from mcutrain.sparse.modules import added_columns
from tests.simulation.networks import samples

KINDS = ("adapter:2", "lora:2", "lora-fa:2", "gain", "gain,adapter:3,lora:1", "lora:2,start=random")
CALIBRATION = 5


def augmented(graph: Graph, text: str, seed: int = 0) -> Augmented:
    """From random samples."""
    specs = parse_modules(text)
    x, _ = samples(graph, CALIBRATION, 2, seed)
    return augment(graph, specs, observe(graph, observed_tensors(graph, specs), x), seed)


def learnt(graph: Graph, seed: int = 0, spread: float = 40.0) -> Graph:
    """The graph with random numbers in what began at zero, or at one."""
    rng = np.random.default_rng(seed)
    added, tensors = added_columns(graph), dict(graph.tensors)
    for name, tensor in graph.tensors.items():
        if tensor.data is None:
            continue
        part, data = module_part(name), np.array(tensor.data)
        drawn = np.clip(np.rint(rng.normal(0, spread, data.shape)), -127, 127).astype(np.int8)
        if name in added:
            data[..., -added[name] :] = drawn[..., -added[name] :]
        elif part is not None and part.part == "up":
            data = drawn
        elif part is not None and part.part == "factor":
            data = (data + drawn // 4).astype(np.int8)
        tensors[name] = replace(tensor, data=data)
    return replace(graph, tensors=tensors)

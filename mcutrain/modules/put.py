"""Modules put into a graph: what each kind is made of, and why it changes nothing at first.

adapter   y = x + up(relu(down x)), Houlsby et al. 2019, arXiv 1902.00751, of 1×1 convolutions. up
          is 0, its output has the scale of x. An int8 Add brings both to twice the larger scale:
          x is multiplied by exactly 1/2, with 20 bits behind the point, and the sum by exactly
          2 / 2**20; what comes out is x. The output's zero point is 0, so that it can be of either
          sign where x, behind a ReLU, cannot.
lora      y = requantize([W | B]·concat(x, A x) + b), Hu et al. 2021, arXiv 2106.09685: the update
          B·A is an addend of the sums before they are requantized, once. B is 0 on W's scales.
lora-fa   The same with a frozen A, Zhang et al. 2023, arXiv 2308.03303.
gain      y = g·x by channel; a weight of 64 at a scale of 1/64 is exactly 1, and so is the
          multiplier 1/64 that follows from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain.errors import SchemeError
from mcutrain.ir.graph import Graph, Node, TensorType
from mcutrain.modules.graft import Augmented, Graft, quantized_rows, single
from mcutrain.modules.observe import Observed, directions, ranges
from mcutrain.modules.places import places_of
from mcutrain.modules.spec import ModuleSpec
from mcutrain.ops.add import Add
from mcutrain.ops.concatenation import Concatenation
from mcutrain.quant import multipliers
from mcutrain.sparse.module_names import ModulePart

Array = npt.NDArray[Any]

FILLED = 0.9
"""Of the int8 range, that a projection fills on calibration samples; the rest is for others."""
COARSEST = 1 / 16
"""Scale of a projection's weights at most: what hardly varies is not blown up to fill a range."""
GAIN = 64
"""The integer that is a gain of 1; the largest gain is 127 / 64."""
LOWEST, HIGHEST = -128, 127


def observed_tensors(graph: Graph, specs: Sequence[ModuleSpec]) -> tuple[str, ...]:
    """The tensors whose values on calibration samples `augment` needs. Raises SchemeError."""
    names = []
    for spec in specs:
        for node in places_of(graph, spec):
            if spec.kind == "adapter":
                names.append(node.outputs[0])
            elif spec.kind != "gain":
                names.append(node.inputs[0])
            _check_rank(graph, spec, node)
    return tuple(dict.fromkeys(names))


def augment(
    graph: Graph, specs: Sequence[ModuleSpec], observed: Observed, seed: int = 0
) -> Augmented:
    """The graph with modules. observed: of the observed_tensors. seed: of random directions.

    Raises SchemeError where a kind has no place, is too wide, or the model has modules already.
    """
    wanted: dict[str, list[ModuleSpec]] = {}
    for spec in specs:
        for node in places_of(graph, spec):
            _check_rank(graph, spec, node)
            wanted.setdefault(node.name, []).append(spec)
    graft = Graft(graph)
    for i, node in enumerate(graph.nodes):
        read = graft.reading(node)
        own = wanted.get(node.name, [])
        for spec in own:
            if spec.kind in INTO:
                read = INTO[spec.kind](graft, spec, read, observed[node.inputs[0]], seed + i)
        graft.nodes.append(read)
        for spec in own:
            if spec.kind in BEHIND:
                y = node.outputs[0]
                graft.now[y] = BEHIND[spec.kind](
                    graft, spec, node, observed.get(y, np.zeros(0)), seed + i
                )
    return graft.result()


def _check_rank(graph: Graph, spec: ModuleSpec, node: Node) -> None:
    """Raises SchemeError for more directions than there are channels."""
    read = node.outputs[0] if spec.kind == "adapter" else node.inputs[0]
    channels = graph.tensors[read].type.shape[-1]
    if spec.rank > channels:
        raise SchemeError(
            f"{spec.text}: {node.name!r} has {channels} channels there, fewer than {spec.rank}: "
            f"take at most {channels}, or other places (at=last:3, at=LAYER)"
        )


def _adapter(graft: Graft, spec: ModuleSpec, node: Node, observed: Array, seed: int) -> str:
    """Behind the end of a block."""
    first, x = len(graft.nodes), graft.now.get(node.outputs[0], node.outputs[0])
    kind = graft.type(x)
    down, up = (ModulePart(node.name, spec.kind, part) for part in ("down", "up"))
    rows, bias = _one_sided(observed, kind, spec, seed)
    w, scales = quantized_rows(rows)
    hidden = graft.layer(down, x, w, scales, bias, (kind.scale, LOWEST))
    channels = kind.shape[-1]
    # One step of a weight moves the output by one step where the hidden channel is largest.
    step = single(1 / (HIGHEST - LOWEST))
    zeros = np.zeros((channels, 1, 1, spec.rank), np.int8)
    nothing = np.zeros(channels)
    y = graft.layer(up, hidden, zeros, (step,) * channels, nothing, (kind.scale, 0))
    own = (kind.scale, kind.zero_point)
    total = Add(*multipliers.add_scales(own, (kind.scale, 0), own))
    weights = 2 * channels * spec.rank
    graft.note(spec.kind, node.name, spec.rank, first, weights, weights + channels + spec.rank)
    return graft.node(f"{node.name}/module.{spec.kind}", total, (x, y), *own)


def _lora(graft: Graft, spec: ModuleSpec, node: Node, observed: Array, seed: int) -> Node:
    """The layer with more columns, and what they read in front of it."""
    first = len(graft.nodes)
    x, weight, _ = node.inputs
    kind, w = graft.type(x), graft.tensors[weight]
    assert w.data is not None
    part = ModulePart(node.name, spec.kind, "a")
    rows, bias = _two_sided(observed, kind, spec, seed)
    a, scales = quantized_rows(rows)
    same = (kind.scale, kind.zero_point)
    z = graft.layer(part, x, a, scales, bias, same)
    joined = graft.node(f"{node.name}/module.{spec.kind}", Concatenation(3), (x, z), *same)
    outs, ins = w.type.shape[0], kind.shape[-1]
    columns = np.concatenate((w.data, np.zeros((outs, 1, 1, spec.rank), np.int8)), axis=3)
    graft.constant(weight, w.type, columns)
    trained = spec.rank * (outs + (ins if spec.kind == "lora" else 0))
    graft.note(spec.kind, node.name, spec.rank, first, spec.rank * (outs + ins), trained)
    positions = graft.graph.tensors[node.outputs[0]].type.elements // outs
    last = graft.modules[-1]
    graft.modules[-1] = replace(last, macs=last.macs + positions * outs * spec.rank)
    return replace(node, inputs=(joined, *node.inputs[1:]))


def _gain(graft: Graft, spec: ModuleSpec, node: Node, observed: Array, seed: int) -> str:
    """Behind a convolution."""
    first, x = len(graft.nodes), graft.now.get(node.outputs[0], node.outputs[0])
    kind = graft.type(x)
    channels = kind.shape[-1]
    w = np.full((1, 1, 1, channels), GAIN, np.int8)
    part = ModulePart(node.name, spec.kind, "factor")
    own = (kind.scale, kind.zero_point)
    y = graft.layer(part, x, w, (1 / GAIN,) * channels, np.zeros(channels), own)
    graft.note(spec.kind, node.name, 0, first, channels, channels)
    return y


BEHIND: Mapping[str, Callable[[Graft, ModuleSpec, Node, Array, int], str]] = {
    "adapter": _adapter,
    "gain": _gain,
}
"""Kinds that stand behind a node."""
INTO: Mapping[str, Callable[[Graft, ModuleSpec, Node, Array, int], Node]] = {
    "lora": _lora,
    "lora-fa": _lora,
}
"""Kinds that change a node."""


def _projected(
    observed: Array, kind: TensorType, spec: ModuleSpec, seed: int
) -> tuple[Array, Array, Array]:
    """Directions, [rank, channels], and the range of each on the samples, in steps of kind's."""
    x = observed.reshape(-1, observed.shape[-1]).astype(np.float64) - kind.zero_point
    rows = directions(x, spec.rank, spec.start, seed)
    return rows, *ranges(x @ rows.T)


def _filling(rows: Array, spans: Array, steps: float) -> Array:
    """The rows, such that spans become so many steps, or less where weights would be coarse."""
    factors = steps / np.maximum(spans, 1.0)
    most = 127 * COARSEST / np.maximum(np.abs(rows).max(axis=1), 1e-9)
    found: Array = rows * np.minimum(factors, most)[:, None]
    return found


def _two_sided(
    observed: Array, kind: TensorType, spec: ModuleSpec, seed: int
) -> tuple[Array, Array]:
    """Weights and real bias whose sums lie in the middle of int8, on the scale of `kind`."""
    rows, low, high = _projected(observed, kind, spec, seed)
    scaled = _filling(rows, high - low, FILLED * (HIGHEST - LOWEST))
    factors = np.linalg.norm(scaled, axis=1)
    middle = (LOWEST + HIGHEST) / 2 - kind.zero_point
    return scaled, (middle - factors * (low + high) / 2) * kind.scale


def _one_sided(
    observed: Array, kind: TensorType, spec: ModuleSpec, seed: int
) -> tuple[Array, Array]:
    """The same for a ReLU: half of the range is above 0."""
    rows, low, high = _projected(observed, kind, spec, seed)
    scaled = _filling(rows, (high - low) / 2, FILLED * (HIGHEST - LOWEST))
    factors = np.linalg.norm(scaled, axis=1)
    return scaled, -factors * (low + high) / 2 * kind.scale

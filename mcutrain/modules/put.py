"""Modules put into a graph: what each kind is made of, and why it changes nothing at first.

adapter   y = x + up(relu(down x)), Houlsby et al. 2019, arXiv 1902.00751, of 1×1 convolutions. up
          is 0, its output has the scale of x. An int8 Add brings both to twice the larger scale.
          It multiplies x by exactly 1/2, with 20 bits behind the point, and the sum by exactly
          2 / 2**20: the result is x. The output's zero point is 0, so that it can be of either
          sign where x, behind a ReLU, cannot.
lora      y = requantize([W | B]·concat(x, A x) + b), Hu et al. 2021, arXiv 2106.09685: the update
          B·A is an addend of the sums before they are requantized, once. B is 0 on W's scales.
lora-fa   The same with a frozen A, Zhang et al. 2023, arXiv 2308.03303.
lite      y = main + up2(W2·relu(W1·pool2(x))), the lite residual of TinyTL, Cai et al. 2020, arXiv
          2007.11622, section 3.2, beside the block that computes main from x, without its
          normalization and with W2 = 0 in the place of a last factor 0. W1 has the block's stride;
          separable, it is a depthwise convolution and a 1×1 one.
gain      y = g·x by channel; a weight of 64 at a scale of 1/64 is exactly 1, and so is the
          multiplier 1/64 that follows from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.errors import SchemeError
from mcutrain.ir.graph import Graph, Node, TensorType
from mcutrain.modules.graft import Augmented, Graft, quantized_rows
from mcutrain.modules.numbers import ModuleNumbers
from mcutrain.modules.observe import Observed, directions, ranges
from mcutrain.modules.places import blocks_of, places_of
from mcutrain.modules.sizes import halved, halved_size, larger
from mcutrain.modules.spec import EXPANDS, LITE, ModuleSpec
from mcutrain.ops.add import Add
from mcutrain.ops.concatenation import Concatenation
from mcutrain.ops.pooling import AveragePool2D
from mcutrain.ops.spatial import Window
from mcutrain.quant import multipliers
from mcutrain.quant.multipliers import single
from mcutrain.sparse.module_names import DEPTHWISE, ModulePart

Array = npt.NDArray[Any]

FILLED = 0.9
"""Share of int8 that a projection fills on calibration samples; the rest is for others."""
COARSEST = 1 / 16
"""Scale of a projection's weights at most: what hardly varies is not blown up to fill a range."""
MOST_ROWS = 20_000
"""Patches of a lite residual's input that directions and ranges follow from."""
GAIN = 64
"""The integer that is a gain of 1; the largest gain is 127 / 64."""
LOWEST, HIGHEST = -128, 127
NOTHING = np.zeros((0,), np.int8)
"""What is seen for a kind that does not look."""


def observed_tensors(graph: Graph, specs: Sequence[ModuleSpec]) -> tuple[str, ...]:
    """The tensors whose values on calibration samples `augment` needs. Raises SchemeError."""
    placed = (place for spec in specs for place in _placed(graph, spec))
    return tuple(dict.fromkeys(place.reads for place in placed if place.spec.kind != "gain"))


def augment(
    graph: Graph,
    specs: Sequence[ModuleSpec],
    observed: Observed,
    seed: int = 0,
    numbers: ModuleNumbers | None = None,
) -> Augmented:
    """The graph with modules. observed: of the observed_tensors. seed: of random directions.

    numbers: what modules are made of, whatever was observed, see mcutrain.modules.numbers.
    Raises SchemeError where a kind has no place, is too wide, or the model has modules already.
    """
    wanted: dict[str, list[_Placed]] = {}
    for spec in specs:
        for place in _placed(graph, spec):
            wanted.setdefault(place.node.name, []).append(place)
    graft = Graft(graph, numbers)
    for i, node in enumerate(graph.nodes):
        read = graft.reading(node)
        own = wanted.get(node.name, [])
        for place in own:
            if place.spec.kind in INTO:
                read = INTO[place.spec.kind](graft, place, observed[place.reads], seed + i)
        graft.nodes.append(read)
        for place in own:
            if place.spec.kind in BEHIND:
                y, seen = node.outputs[0], observed.get(place.reads, NOTHING)
                graft.now[y] = BEHIND[place.spec.kind](graft, place, seen, seed + i)
    return graft.result()


@dataclass(frozen=True)
class _Placed:
    """One module to be: of a kind, at a node of the graph without any. reads: its input there."""

    spec: ModuleSpec
    node: Node
    reads: str


def _placed(graph: Graph, spec: ModuleSpec) -> list[_Placed]:
    """Return where modules of this kind stand.

    Raises SchemeError where there is no place, or more directions or groups than channels.
    """
    blocks = blocks_of(graph) if spec.kind == LITE else {}
    found = []
    for node in places_of(graph, spec):
        read = node.outputs[0] if spec.kind == "adapter" else node.inputs[0]
        read = blocks.get(node.name, read)
        _check_channels(spec, node, graph.tensors[read].type.shape[-1])
        found.append(_Placed(spec, node, read))
    return found


def _check_channels(spec: ModuleSpec, node: Node, channels: int) -> None:
    if spec.groups > 1 and (channels % spec.groups or channels == spec.groups):
        raise SchemeError(
            f"{spec.text}: the block that ends in {node.name!r} reads {channels} channels, which "
            f"are not {spec.groups} groups of several: take other groups, or other places (at=)"
        )
    if spec.rank > channels:
        raise SchemeError(
            f"{spec.text}: {node.name!r} has {channels} channels there, fewer than {spec.rank}: "
            f"take at most {channels}, or other places (at=last:3, at=LAYER)"
        )


def _adapter(graft: Graft, place: _Placed, seen: Array, seed: int) -> str:
    """Put an adapter behind the end of a block."""
    spec, node = place.spec, place.node
    first, x = len(graft.nodes), graft.now.get(node.outputs[0], node.outputs[0])
    kind = graft.type(x)
    down, up = (ModulePart(node.name, spec.kind, part) for part in ("down", "up"))
    seen = _flat(seen)
    rows, bias = _one_sided(seen, kind, spec.rank, spec.start, seed)
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


def _lora(graft: Graft, place: _Placed, seen: Array, seed: int) -> Node:
    """The layer with more columns, and what they read in front of it."""
    spec, node = place.spec, place.node
    first = len(graft.nodes)
    x, weight, bias_name = graft.reading(node).inputs
    kind, w = graft.type(x), graft.tensors[weight]
    assert w.data is not None
    part = ModulePart(node.name, spec.kind, "a")
    seen = _flat(seen)
    rows, bias = _two_sided(seen, kind, spec.rank, spec.start, seed)
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
    return replace(node, inputs=(joined, weight, bias_name))


def _lite(graft: Graft, place: _Placed, seen: Array, seed: int) -> str:
    """Put a lite residual beside a block, behind its end."""
    spec, node = place.spec, place.node
    first = len(graft.nodes)
    x, main = (graft.now.get(name, name) for name in (place.reads, node.outputs[0]))
    kind, trunk = graft.type(x), graft.type(main)
    pool = AveragePool2D(halved(kind.shape, 2))
    part = ModulePart(node.name, spec.kind, "pool")
    small = graft.node(part.name, pool, (x,), kind.scale, kind.zero_point)
    shape = graft.type(small).shape
    stride = 1 if halved_size(trunk.shape) == shape[1:3] else 2
    window = halved(shape, spec.kernel, stride)
    pooled = [pool.reference(one[None])[0] for one in seen]
    make = _separable if spec.separable else _grouped
    y = make(graft, place, small, window, pooled, seed)
    hidden, channels = graft.type(y).shape[-1], trunk.shape[-1]
    step = single(trunk.scale / kind.scale / (HIGHEST - LOWEST))
    zeros = np.zeros((channels, 1, 1, hidden), np.int8)
    same = (trunk.scale, trunk.zero_point)
    part = ModulePart(node.name, spec.kind, "second")
    y = graft.layer(part, y, zeros, (step,) * channels, np.zeros(channels), (trunk.scale, 0))
    if graft.type(y).shape != trunk.shape:
        large = larger(graft.type(y).shape, trunk.shape, spec.up)
        part = ModulePart(node.name, spec.kind, "large")
        y = graft.node(part.name, large, (y,), trunk.scale, 0)
    total = Add(*multipliers.add_scales(same, (trunk.scale, 0), same))
    layers = [n for n in graft.nodes[first:] if len(n.inputs) == 3]
    weights, biases = (sum(graft.type(n.inputs[i]).elements for n in layers) for i in (1, 2))
    graft.note(spec.kind, node.name, hidden, first, weights, weights + biases)
    return graft.node(f"{node.name}/module.{spec.kind}", total, (main, y), *same)


def _grouped(
    graft: Graft, place: _Placed, small: str, window: Window, pooled: Sequence[Array], seed: int
) -> str:
    """A lite residual's W1 as one convolution, in groups; pooled: what `small` is on samples."""
    spec, kind = place.spec, graft.type(small)
    taps = (spec.kernel, spec.kernel, kind.shape[-1])
    patches = [window.patches(one, kind.zero_point).reshape(-1, *taps) for one in pooled]
    seen = _drawn(np.concatenate(patches), seed)
    own = taps[2] // spec.groups
    each = max(1, round(EXPANDS[spec.expand] * own))
    made = [
        _one_sided(
            seen[..., g * own : (g + 1) * own].reshape(len(seen), -1), kind, each, spec.start, seed
        )
        for g in range(spec.groups)
    ]
    w, scales = quantized_rows(np.concatenate([rows for rows, _ in made]))
    bias = np.concatenate([b for _, b in made])
    w = w.reshape(each * spec.groups, *taps[:2], own)
    part = ModulePart(place.node.name, spec.kind, "first")
    return graft.layer(part, small, w, scales, bias, (kind.scale, LOWEST), window)


def _separable(
    graft: Graft, place: _Placed, small: str, window: Window, pooled: Sequence[Array], seed: int
) -> str:
    """Build a depthwise convolution with each channel's principal direction, and a 1×1 one."""
    spec, kind = place.spec, graft.type(small)
    channels = kind.shape[-1]
    patches = [
        window.patches(one, kind.zero_point).reshape(-1, spec.kernel**2, channels) for one in pooled
    ]
    seen = _drawn(np.concatenate(patches), seed)
    made = [_two_sided(seen[..., c], kind, 1, spec.start, seed + c) for c in range(channels)]
    w, scales = quantized_rows(np.concatenate([rows for rows, _ in made]))
    w = np.moveaxis(w.reshape(1, channels, spec.kernel, spec.kernel), 1, 3)
    bias = np.concatenate([b for _, b in made])
    part = ModulePart(place.node.name, spec.kind, DEPTHWISE)
    same = (kind.scale, kind.zero_point)
    y = graft.layer(part, small, np.ascontiguousarray(w), scales, bias, same, window)
    own = [np.asarray(graft.tensors[name].data) for name in (part.weight, part.bias)]
    seen = _flat(np.concatenate([graft.nodes[-1].op.reference(one, *own)[0] for one in pooled]))
    hidden = max(1, round(EXPANDS[spec.expand] * channels))
    rows, bias = _one_sided(_drawn(seen, seed), kind, hidden, spec.start, seed)
    w, scales = quantized_rows(rows)
    part = ModulePart(place.node.name, spec.kind, "first")
    return graft.layer(part, y, w, scales, bias, (kind.scale, LOWEST))


def _drawn(rows: Array, seed: int) -> Array:
    """Draw at most MOST_ROWS of the rows."""
    if len(rows) <= MOST_ROWS:
        return rows
    found: Array = rows[np.random.default_rng(seed).choice(len(rows), MOST_ROWS, replace=False)]
    return found


def _gain(graft: Graft, place: _Placed, seen: Array, seed: int) -> str:
    """Put a gain behind a convolution."""
    spec, node = place.spec, place.node
    first, x = len(graft.nodes), graft.now.get(node.outputs[0], node.outputs[0])
    kind = graft.type(x)
    channels = kind.shape[-1]
    w = np.full((1, 1, 1, channels), GAIN, np.int8)
    part = ModulePart(node.name, spec.kind, "factor")
    own = (kind.scale, kind.zero_point)
    y = graft.layer(part, x, w, (1 / GAIN,) * channels, np.zeros(channels), own)
    graft.note(spec.kind, node.name, 0, first, channels, channels)
    return y


BEHIND: Mapping[str, Callable[[Graft, _Placed, Array, int], str]] = {
    "adapter": _adapter,
    LITE: _lite,
    "gain": _gain,
}
"""Kinds that stand behind a node."""
INTO: Mapping[str, Callable[[Graft, _Placed, Array, int], Node]] = {
    "lora": _lora,
    "lora-fa": _lora,
}
"""Kinds that change a node."""


def _flat(values: Array) -> Array:
    """Every pixel by itself: [n, channels]."""
    return values.reshape(-1, values.shape[-1])


def _projected(
    x: Array, kind: TensorType, rank: int, start: str, seed: int
) -> tuple[Array, Array, Array]:
    """Directions, [rank, channels], and the range of each on the samples, in steps of kind's."""
    x = x.astype(np.float64) - kind.zero_point
    rows = directions(x, rank, start, seed)
    return rows, *ranges(x @ rows.T)


def _filling(rows: Array, spans: Array, steps: float) -> Array:
    """The rows, such that spans become so many steps, or less where weights would be coarse."""
    factors = steps / np.maximum(spans, 1.0)
    most = 127 * COARSEST / np.maximum(np.abs(rows).max(axis=1), 1e-9)
    found: Array = rows * np.minimum(factors, most)[:, None]
    return found


def _two_sided(x: Array, kind: TensorType, rank: int, start: str, seed: int) -> tuple[Array, Array]:
    """Weights and real bias whose sums lie in the middle of int8, on the scale of `kind`."""
    rows, low, high = _projected(x, kind, rank, start, seed)
    scaled = _filling(rows, high - low, FILLED * (HIGHEST - LOWEST))
    factors = np.linalg.norm(scaled, axis=1)
    middle = (LOWEST + HIGHEST) / 2 - kind.zero_point
    return scaled, (middle - factors * (low + high) / 2) * kind.scale


def _one_sided(x: Array, kind: TensorType, rank: int, start: str, seed: int) -> tuple[Array, Array]:
    """Make rows for a ReLU: half of the range is above 0."""
    rows, low, high = _projected(x, kind, rank, start, seed)
    scaled = _filling(rows, (high - low) / 2, FILLED * (HIGHEST - LOWEST))
    factors = np.linalg.norm(scaled, axis=1)
    return scaled, -factors * (low + high) / 2 * kind.scale

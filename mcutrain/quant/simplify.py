"""Passes on the float graph that keep its outputs: fold constants, fuse activations.

Every rule looks at one node and its neighbours and says what replaces them; they are applied until
none fits. Batch norm and preprocessing are both an Affine here. It goes into the weights before it
or behind it. Where padding stands in the way, the border gets the number that means 0. What is left
becomes a 1x1 depthwise convolution.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from mcutrain.errors import ModelError
from mcutrain.quant.float_affine import Affine
from mcutrain.quant.float_elementwise import Clamp
from mcutrain.quant.float_graph import FloatGraph, FloatNode
from mcutrain.quant.float_matmul import FloatBatchMatMul
from mcutrain.quant.float_norm import FloatLayerNorm
from mcutrain.quant.float_recurrent import FloatRecurrent
from mcutrain.quant.float_shapes import (
    FloatConcat,
    FloatMean,
    FloatMove,
    FloatPad,
    FloatPool,
    FloatReshape,
    FloatSlice,
    FloatSoftmax,
)
from mcutrain.quant.float_sums import Sums
from mcutrain.quant.patterns import Edit, Rule, known_product

MAX_NODES = 5000
LARGEST_BIAS = 1e30  # far beyond what sound models have, far below float32's largest
NO_PADDING = (0, 0, 0, 0)
UNLIMITED = (-math.inf, math.inf)
SCALED = (Sums, FloatLayerNorm)
"""What has factors and shifts of its own for the channels of its output."""
NONE = (math.inf, -math.inf)  # limits that nothing has


def simplify(graph: FloatGraph) -> FloatGraph:
    """The graph with all that can be folded folded; no Affine is left. Raises ModelError."""
    if len(graph.nodes) > MAX_NODES:
        raise ModelError(f"the model has {len(graph.nodes)} operators; the most is {MAX_NODES}")
    graph = graph.with_nodes(graph.nodes)
    for rules in (RULES, (_affine_to_convolution, _activation_into)):
        changed = True
        while changed:
            graph, changed = _swept(without_views(graph), rules)
    _check_weights(graph)
    return without_views(graph)


def _check_weights(graph: FloatGraph) -> None:
    """Folding multiplies: what was finite may not be any more."""
    for node in graph.nodes:
        op = node.op
        if not isinstance(op, Sums):
            continue
        if not np.isfinite(op.w).all() or not np.isfinite(op.b).all():
            raise ModelError(f"node {node.name!r}: its weights leave the range of float32")
        if not (np.abs(op.b) <= LARGEST_BIAS).all():
            raise ModelError(
                f"node {node.name!r} adds numbers beyond {LARGEST_BIAS:.0e}; in a mask -10000 does "
                "the same"
            )


def _swept(graph: FloatGraph, rules: tuple[Rule, ...]) -> tuple[FloatGraph, bool]:
    """Every rule on every node once, as long as they do not touch the same nodes."""
    edits: dict[str, tuple[FloatNode, ...]] = {}
    touched: set[str] = set()
    for node in graph.nodes:
        for rule in rules:
            edit = None if node.output in touched else rule(graph, node)
            if edit is None:
                continue
            near = {
                name for output in edit.nodes for name in (output, *graph.producers[output].inputs)
            }
            if not near & touched:
                edits.update(edit.nodes)
                touched |= near
    nodes = [new for node in graph.nodes for new in edits.get(node.output, (node,))]
    return graph.with_nodes(nodes), bool(edits)


def without_views(graph: FloatGraph) -> FloatGraph:
    """Reshapes to the same shape go, and a reshape reads what the chain before it started from."""
    source: dict[str, str] = {}
    nodes = []
    for node in graph.nodes:
        if not node.op.is_view:
            nodes.append(replace(node, inputs=tuple(source.get(n, n) for n in node.inputs)))
            continue
        before = graph.producers.get(node.inputs[0])
        first = source.get(node.inputs[0], node.inputs[0])
        if before is not None and before.op.is_view and first == before.output:
            first = source.get(before.inputs[0], before.inputs[0])
        if graph.shapes[first] == graph.shapes[node.output] and node.output not in graph.outputs:
            source[node.output] = first
        else:
            nodes.append(replace(node, inputs=(first,)))
    return _without_last_view(graph.with_nodes(nodes))


def _without_last_view(graph: FloatGraph) -> FloatGraph:
    """Leave out a reshape that is an output: its input is computed under its name."""
    for node in graph.nodes:
        x = node.inputs[0]
        if (
            node.op.is_view
            and graph.shapes[x] == graph.shapes[node.output]
            and x in graph.producers
            and graph.readers[x] == 1
        ):
            made = replace(graph.producers[x], output=node.output)
            nodes = [made if n.output == x else n for n in graph.nodes if n is not node]
            return _without_last_view(graph.with_nodes(nodes))
    return graph


def _before(graph: FloatGraph, node: FloatNode, place: int = 0) -> FloatNode | None:
    """The node that computes an input of this node, if only this node reads it."""
    x = node.inputs[place]
    return graph.producers.get(x) if graph.sole_reader(x) is node else None


def _fused(first: FloatNode, node: FloatNode, **changes: object) -> Edit:
    """`first`, changed, computes what `node` did."""
    made = replace(first, output=node.output, **changes)  # type: ignore[arg-type]
    return Edit({first.output: (), node.output: (made,)})


def _affine_to_the_front(graph: FloatGraph, node: FloatNode) -> Edit | None:
    """An Affine goes into what has factors before it, or the Affine; through what commutes with it.

    These are what keeps numbers in their channels, and clamps if the factors are positive; what is
    the same for all numbers passes whatever moves them.
    """
    first = _before(graph, node)
    if not isinstance(node.op, Affine) or first is None or not _is_absorbed(graph, node, node.op):
        return None
    affine, op = node.op, first.op
    if isinstance(op, Affine):
        return _fused(first, node, op=op.then(affine))
    passed = _before_move(graph, first, affine)
    if passed is not None:
        return _swapped(first, replace(node, op=passed))
    limits = _limits_after(op.limits, affine)
    if isinstance(op, Clamp):
        return _swapped(replace(first, op=Clamp(*limits)), node)
    assert isinstance(op, SCALED)
    bare = replace(op, low=UNLIMITED[0], high=UNLIMITED[1]).then(affine.factor, affine.shift)
    return _fused(first, node, op=bare.clamped(*limits))


def _before_move(graph: FloatGraph, node: FloatNode, affine: Affine) -> Affine | None:
    """What does to the input of a node that moves numbers what the Affine does to its output."""
    if not isinstance(node.op, FloatMove) or len(node.inputs) != 1:
        return None
    channels = graph.shapes[node.inputs[0]][-1]
    if affine.is_uniform:
        return affine.of_channels(channels)
    if node.op.is_view and channels % len(affine.factor) == 0:
        return affine.tiled(channels // len(affine.factor))
    return affine if node.op.keeps_channels else None


def _is_absorbed(graph: FloatGraph, node: FloatNode, affine: Affine, place: int = 0) -> bool:
    """Return whether weights or an Affine before an input of the node can take the Affine in."""
    first = _before(graph, node, place)
    if first is None:
        return False
    passed = _before_move(graph, first, affine)
    if passed is not None:
        return _is_absorbed(graph, first, passed)
    if isinstance(first.op, Affine):
        return True
    op = first.op
    if not isinstance(op, (*SCALED, Clamp)) or _limits_after(op.limits, affine) == NONE:
        return False
    return isinstance(op, SCALED) or _is_absorbed(graph, first, affine)


def _limits_after(limits: tuple[float, float], affine: Affine) -> tuple[float, float]:
    """The limits of clamp(x, …) * factor + shift = clamp(x * factor + shift, …); NONE if none."""
    if limits == UNLIMITED:
        return UNLIMITED
    if (affine.factor <= 0).any():
        return NONE
    ends = [e * affine.factor + affine.shift for e in limits]
    if any(np.isfinite(e).all() and np.ptp(e) > 0 for e in ends):
        return NONE
    low, high = (float(e[0]) for e in ends)
    return (low, high) if low <= 0 <= high else NONE


def _swapped(first: FloatNode, node: FloatNode) -> Edit:
    """Two nodes in the other order: node, then first."""
    middle = first.output
    inner = replace(node, inputs=first.inputs, output=middle)
    outer = replace(first, inputs=(middle,), output=node.output)
    return Edit({first.output: (inner,), node.output: (outer,)})


def _affine_to_the_back(graph: FloatGraph, node: FloatNode) -> Edit | None:
    """An Affine goes into the weights that read it, perhaps through a Reshape."""
    first = _before(graph, node)
    if first is None or not isinstance(first.op, Affine):
        return None
    affine, op = first.op, node.op
    if op.is_view:
        reader = graph.sole_reader(node.output)
        channels = graph.shapes[node.output][-1]
        if reader is None or not isinstance(reader.op, Sums) or channels % len(affine.factor):
            return None
        tiled = affine.tiled(channels // len(affine.factor))
        return _swapped(replace(first, op=tiled), node)
    if not isinstance(op, Sums):
        return None
    if op.window.padding == NO_PADDING or not affine.shift.any():
        changed = op.after(affine.factor, affine.shift)
        made = replace(node, op=changed, inputs=first.inputs)
        return Edit({first.output: (), node.output: (made,)})
    return _padded_before(first, node, affine, op)


def _factor_into_operand(graph: FloatGraph, node: FloatNode) -> Edit | None:
    """A factor of a product of matrices is one of the operand whose weights take it in."""
    first = _before(graph, node)
    if (
        first is None
        or not isinstance(first.op, FloatBatchMatMul)
        or not isinstance(node.op, Affine)
        or not node.op.is_factor
    ):
        return None
    for place, x in enumerate(first.inputs):
        factor = node.op.of_channels(graph.shapes[x][-1])
        if _is_absorbed(graph, first, factor, place):
            inner = replace(node, op=factor, inputs=(x,), output=first.output)
            inputs = (*first.inputs[:place], inner.output, *first.inputs[place + 1 :])
            outer = replace(first, inputs=inputs, output=node.output)
            return Edit({first.output: (inner,), node.output: (outer,)})
    return None


def _factor_to_softmax(graph: FloatGraph, node: FloatNode) -> Edit | None:
    """A factor that no weights before it take in goes on to a Softmax, which has one of its own.

    Through what moves numbers, and products of matrices: queries and keys of an attention are
    often divided by the root of their length, or its root.
    """
    if isinstance(node.op, Affine):
        return None  # both become one
    for place in range(len(node.inputs)):
        first = _before(graph, node, place)
        if (
            first is None
            or not isinstance(first.op, Affine)
            or not (first.op.is_factor and first.op.factor[0] > 0)
            or not _leads_to_softmax(graph, node)
            or _is_absorbed(graph, first, first.op)
        ):
            continue
        inputs = (*node.inputs[:place], first.inputs[0], *node.inputs[place + 1 :])
        if isinstance(node.op, FloatSoftmax):
            op = FloatSoftmax(float(np.float32(node.op.beta * first.op.factor[0])))
            return Edit({first.output: (), node.output: (replace(node, op=op, inputs=inputs),)})
        inner = replace(node, inputs=inputs, output=first.output)
        factor = first.op.of_channels(graph.shapes[node.output][-1])
        outer = replace(first, op=factor, inputs=(inner.output,), output=node.output)
        return Edit({first.output: (), node.output: (inner, outer)})
    return None


def _leads_to_softmax(graph: FloatGraph, node: FloatNode) -> bool:
    """Return whether a factor of the node's input can be one of what a Softmax reads."""
    if isinstance(node.op, FloatSoftmax):
        return True
    is_move = isinstance(node.op, FloatMove) and len(node.inputs) == 1
    is_factor = isinstance(node.op, Affine) and node.op.is_factor
    reader = graph.sole_reader(node.output)
    if reader is None or not (is_move or is_factor or isinstance(node.op, FloatBatchMatMul)):
        return False
    return _leads_to_softmax(graph, reader)


def _padded_before(first: FloatNode, node: FloatNode, affine: Affine, op: Sums) -> Edit | None:
    """Padding by the number that the Affine turns into 0, if it is the same for all channels."""
    if (affine.factor == 0).any():
        return None
    value = -affine.shift / affine.factor
    if np.ptp(value) > 1e-6 * np.abs(value).max():
        return None
    window = replace(op.window, padding=NO_PADDING)
    bare = replace(op.after(affine.factor, affine.shift), window=window)
    pad = FloatPad(op.window.padding, float(value.mean()))
    border = FloatNode(f"{node.name}/pad", pad, first.inputs, first.output)
    return Edit({first.output: (border,), node.output: (replace(node, op=bare),)})


def _activation_into(graph: FloatGraph, node: FloatNode) -> Edit | None:
    """A clamp goes into the operator before it, or in front of what moves numbers to it."""
    first = _before(graph, node)
    if not isinstance(node.op, Clamp) or first is None:
        return None
    if first.op.is_view or _brings_limited(graph, first):
        return _swapped(first, node)
    changed = first.op.clamped(*node.op.limits)
    return None if changed is None else _fused(first, node, op=changed)


def _brings_limited(graph: FloatGraph, node: FloatNode) -> bool:
    """Whether the node only moves numbers of an operator that can have an activation in it."""
    first = _before(graph, node)
    if not isinstance(node.op, FloatMove) or len(node.inputs) != 1 or first is None:
        return False
    return first.op.clamped(*UNLIMITED) is not None or _brings_limited(graph, first)


def _pad_into(graph: FloatGraph, node: FloatNode) -> Edit | None:
    """A border of zeros goes into the window of the convolution."""
    first = _before(graph, node)
    if (
        first is None
        or not isinstance(first.op, FloatPad)
        or first.op.value != 0
        or any(first.op.channels)
        or not isinstance(node.op, Sums)
    ):
        return None
    sides = [a + b for a, b in zip(node.op.window.padding, first.op.padding, strict=True)]
    window = replace(node.op.window, padding=(sides[0], sides[1], sides[2], sides[3]))
    made = replace(node, op=replace(node.op, window=window), inputs=first.inputs)
    return Edit({first.output: (), node.output: (made,)})


def _pool_to_mean(graph: FloatGraph, node: FloatNode) -> Edit | None:
    """The average of the whole image is a mean, which in int8 has a scale of its own."""
    op = node.op
    if not isinstance(op, FloatPool) or op.largest or any(op.window.padding):
        return None
    if op.window.kernel != graph.shapes[node.inputs[0]][1:3]:
        return None
    return Edit({node.output: (replace(node, op=FloatMean()),)})


def _affine_to_convolution(graph: FloatGraph, node: FloatNode) -> Edit | None:
    """Turn an Affine that could not be folded into a convolution."""
    if not isinstance(node.op, Affine):
        return None
    shape = graph.shapes[node.output]
    if len(shape) == 4:
        return Edit({node.output: (replace(node, op=node.op.as_convolution()),)})
    image = (1, 1, math.prod(shape) // shape[-1], shape[-1])
    names = [f"{node.output}/{part}" for part in ("image", "scaled")]
    return Edit(
        {
            node.output: (
                FloatNode(names[0], FloatReshape(image), node.inputs, names[0]),
                FloatNode(node.name, node.op.as_convolution(), (names[0],), names[1]),
                FloatNode(names[1], FloatReshape(shape), (names[1],), node.output),
            )
        }
    )


def _no_affine(graph: FloatGraph, node: FloatNode) -> Edit | None:
    """An Affine that changes nothing is a view."""
    if not isinstance(node.op, Affine) or not node.op.is_identity:
        return None
    return Edit({node.output: (replace(node, op=FloatReshape(graph.shapes[node.output])),)})


def _last_step(graph: FloatGraph, node: FloatNode) -> Edit | None:
    """The last step of a sequence alone is not computed as a sequence, which needs more memory."""
    first = _before(graph, node)
    if first is None or not isinstance(node.op, FloatSlice):
        return None
    op, (_, steps, *_) = first.op, graph.shapes[node.inputs[0]]
    if not isinstance(op, FloatRecurrent) or len(op.w) > 1 or op.is_last:
        return None
    last = 0 if op.direction == "reverse" else steps - 1
    if node.op.part.first != (0, last, 0) or not node.op.is_homogeneous:
        return None
    if node.op.part.sizes[1] > 1:
        return None
    view = replace(node, op=FloatReshape(graph.shapes[node.output]))
    alone = replace(first, op=replace(op, is_last=True))
    return Edit({first.output: (alone,), node.output: (view,)})


def _part_of_join(graph: FloatGraph, node: FloatNode) -> Edit | None:
    """Take a part that lies within one of the joined tensors from that one alone."""
    first = graph.producers.get(node.inputs[0])
    if not isinstance(node.op, FloatSlice) or first is None:
        return None
    if not isinstance(first.op, FloatConcat) or first.op.constants:
        return None
    axis, part = first.op.axis, node.op.part
    end = 0
    for name in first.inputs:
        shape = graph.shapes[name]
        start, end = end, end + shape[axis]
        if start <= part.places[axis][0] and part.places[axis][-1] < end:
            places = (*part.first[:axis], part.first[axis] - start, *part.first[axis + 1 :])
            op = FloatSlice(replace(part, first=places), shape[-1])
            whole = FloatReshape(shape) if part.sizes == shape else op
            return Edit({node.output: (replace(node, op=whole, inputs=(name,)),)})
    return None


RULES: tuple[Rule, ...] = (
    known_product,
    _last_step,
    _part_of_join,
    _no_affine,
    _pool_to_mean,
    _affine_to_the_front,
    _affine_to_the_back,
    _factor_into_operand,
    _factor_to_softmax,
    _pad_into,
    _activation_into,
)

"""A new classifier in place of a model's own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mcutrain.errors import SchemeError
from mcutrain.fixedpoint import quantize_multiplier
from mcutrain.ir.graph import Graph, Node, Tensor, TensorType
from mcutrain.ir.verify import verify
from mcutrain.ops.conv_2d import Conv2D, Requantize

MAX_CLASSES = 65536
HEAD_SUFFIX = "new"


def replace_head(graph: Graph, head: Node, classes: int, seed: int = 0) -> Graph:
    """The graph with a classifier of `classes` outputs, randomly initialised, and no softmax.

    The weights are uniform in ±1/sqrt(features), the biases 0. All classes share one weight scale,
    the largest of the old classifier's, and the old output scale, with zero point 0: both fit the
    features, which stay the same.
    """
    if not 2 <= classes <= MAX_CLASSES:
        raise SchemeError(f"a classifier needs 2 to {MAX_CLASSES} classes, not {classes}")
    op = head.op
    old = graph.tensors[head.inputs[1]].type
    if not isinstance(op, Conv2D) or op.requantize is None or old.shape[1:3] != (1, 1):
        raise SchemeError(f"the head {head.name!r} is no fully connected layer, it cannot change")
    features = graph.tensors[head.inputs[0]].type
    weight_scale = max(old.scales)
    output_scale = graph.tensors[head.outputs[0]].type.scale
    sum_scale = features.scale * weight_scale
    mult, shift = quantize_multiplier(sum_scale / output_scale)
    limit = 1 / np.sqrt(old.shape[3])
    drawn = np.random.default_rng(seed).uniform(-limit, limit, (classes, 1, 1, old.shape[3]))
    w = np.clip(np.rint(drawn / weight_scale), -127, 127).astype(np.int8)
    b = np.zeros(classes, np.int32)
    names = [f"{name}.{HEAD_SUFFIX}" for name in (*head.inputs[1:], head.outputs[0])]
    shape = (*graph.tensors[head.outputs[0]].type.shape[:-1], classes)
    tensors = {
        **graph.tensors,
        names[0]: Tensor(names[0], TensorType(w.shape, "int8", (weight_scale,)), w),
        names[1]: Tensor(names[1], TensorType(b.shape, "int32", (sum_scale,)), b),
        names[2]: Tensor(names[2], TensorType(shape, "int8", (output_scale,))),
    }
    requantize = Requantize((mult,), (shift,), 0)
    node = Node(
        head.name, replace(op, requantize=requantize), (head.inputs[0], *names[:2]), (names[2],)
    )
    kept = []
    for n in graph.nodes:
        if n.name == head.name:
            break
        kept.append(n)
    changed = replace(graph, tensors=tensors, outputs=(names[2],))
    return verify(changed.with_nodes((*kept, node)))

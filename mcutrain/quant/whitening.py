"""Two layers before a classifier, behind which a few samples tell a class that nobody trained.

What a trained network makes of samples varies most in the directions that tell its own classes
apart, and is longer where it is surer of one of them. A new class lies in the other directions.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain.errors import SchemeError
from mcutrain.fixedpoint import quantize_multiplier
from mcutrain.ir.graph import Graph, Node, Tensor, TensorType
from mcutrain.ir.verify import proven
from mcutrain.ops.conv_2d import Conv2D
from mcutrain.ops.layer_norm import Factors, LayerNorm, factors_scale
from mcutrain.quant.head import head_scales

Array = npt.NDArray[Any]
RIDGE = 0.01
LARGEST = 6.0
"""Of a feature whose root mean square over the sample is 1."""
ROOM = 127 / 115
"""Between the largest number of the samples and the largest code."""


def check_whitens(graph: Graph, head: Node) -> None:
    """Raises SchemeError for a head that is no fully connected layer, and a whitened one."""
    if any(node.name == "white" for node in graph.nodes):
        raise SchemeError(
            f"{graph.name!r} has whitened features already (node 'white'): give the model of which "
            "it was made"
        )
    try:
        head_scales(graph, head)
    except SchemeError as error:
        raise SchemeError(
            f"the head {head.name!r} is no fully connected layer, so the features that it reads "
            "cannot be whitened: take a model that ends in a mean over positions and such a layer"
        ) from error


def whitened(graph: Graph, head: Node, features: Array, ridge: float = RIDGE) -> Graph:
    """The graph with two layers before its classifier, made of features (n, c) of samples, int8.

    The first makes features of no correlation and of equal size, the second those of a sample 1
    in the root mean square. ridge: of the mean variance, added to each, so that features which
    hardly vary are not made large. The classifier is to be replaced: its scales are the old ones.
    Raises SchemeError as check_whitens does, and for features that do not vary.
    """
    check_whitens(graph, head)
    x, op = graph.tensors[head.inputs[0]].type, head.op
    assert isinstance(op, Conv2D)
    assert op.requantize is not None
    real = (features.astype(np.float64) - x.zero_point) * x.scale
    count, mean = real.shape[1], real.mean(axis=0)
    spread = np.atleast_2d(np.cov(real.T, bias=True))
    if not spread.any():
        raise SchemeError(
            f"the features that {head.name!r} reads are the same for all {len(real):,} samples, so "
            "there is nothing to whiten: give samples of several classes"
        )
    sizes, axes = np.linalg.eigh(spread + ridge * np.trace(spread) / count * np.eye(count))
    weights = axes / np.sqrt(sizes) @ axes.T
    scale = float(np.abs((real - mean) @ weights).max()) * ROOM / 127
    scales = np.abs(weights).max(axis=1) / 127
    sums = x.scale * scales
    w = np.rint(weights / scales[:, np.newaxis]).astype(np.int8).reshape(count, 1, 1, count)
    b = np.rint(-(w.reshape(count, count) @ (mean / x.scale))).astype(np.int32)
    mult, shift = zip(*(quantize_multiplier(float(s) / scale) for s in sums), strict=True)
    stage = replace(op.requantize, mult_q31=mult, shift=shift, zero_point=0, low=-128, high=127)
    y_scale = LARGEST / 127
    norm = replace(LayerNorm.from_real(count, 1e-6, scale, 0), origin=0, is_affine=False)
    factors = Factors.of(np.ones(count), np.zeros(count), y_scale)
    kind = TensorType((count,), "int32", (factors_scale(y_scale),))
    made = (
        Tensor("white.w", TensorType(w.shape, "int8", tuple(scales.tolist()), 0, 0), w),
        Tensor("white.b", TensorType(b.shape, "int32", tuple(sums.tolist()), 0, 0), b),
        Tensor("white", TensorType(x.shape, "int8", (scale,), 0)),
        Tensor("white.length", TensorType(x.shape, "int8", (y_scale,), 0)),
        *(Tensor(f"white.{n}", kind, v) for n, v in factors._asdict().items()),
    )
    place = [node.name for node in graph.nodes].index(head.name)
    last = replace(head, op=replace(op, x_zero_point=0), inputs=("white.length", *head.inputs[1:]))
    nodes = (
        *graph.nodes[:place],
        Node(
            "white",
            replace(op, requantize=stage),
            (head.inputs[0], "white.w", "white.b"),
            ("white",),
        ),
        Node("white.length", norm, ("white", "white.gamma", "white.beta"), ("white.length",)),
        last,
        *graph.nodes[place + 1 :],
    )
    tensors = {**graph.tensors, **{t.name: t for t in made}}
    return proven(replace(graph, tensors=tensors).with_nodes(nodes))

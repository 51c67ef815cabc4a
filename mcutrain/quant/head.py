"""A new classifier in place of a model's own, or the model's own with more classes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.errors import SchemeError
from mcutrain.fixedpoint import quantize_multiplier
from mcutrain.ir.graph import Graph, Node, Tensor, TensorType
from mcutrain.ir.op import ChannelwiseOp
from mcutrain.ir.verify import proven
from mcutrain.ops.conv_2d import Conv2D, Requantize
from mcutrain.quant.prototypes import HeadStart

Array = npt.NDArray[Any]

MAX_CLASSES = 65536
HEAD_SUFFIX = "new"
OUTPUT_ZERO_POINT = -64
"""Zero point of a new head's output.

The logits of a softmax are 0 in the mean, and what is far below the largest may clip. So three
quarters of the range are above 0.
"""
FIRST_LOGIT = 8.0
"""A new head's outputs reach at least so far above 0, and less than twice as far."""


@dataclass(frozen=True)
class _Mean:
    """The mean over the positions of a head, and the type of its output."""

    node: Node
    y: TensorType

    def scaled(self, exponent: int) -> _Mean:
        """Where the scale of the head's outputs is times 2**exponent: the operator is the same."""
        return replace(self, y=replace(self.y, scales=(math.ldexp(self.y.scale, exponent),)))

    def of(self, head: Tensor) -> tuple[Node, Tensor]:
        """The node and its output for another head's output."""
        name = f"{self.node.outputs[0]}.{HEAD_SUFFIX}"
        y = replace(self.y, shape=(*self.y.shape[:-1], head.type.shape[-1]))
        return replace(self.node, inputs=(head.name,), outputs=(name,)), Tensor(name, y)


@dataclass(frozen=True)
class _Head:
    """int8 w [classes, height, width, features], int32 b, and how sums become y.

    A fully connected layer, or a convolution with classes at each position. mean: over
    these positions, where that gives the logits.
    """

    op: Conv2D
    x: TensorType
    w: Tensor
    b: Tensor
    y: TensorType
    mean: _Mean | None

    @staticmethod
    def of(graph: Graph, node: Node) -> _Head:
        """Raises SchemeError if the node is no such layer."""
        op, (x, w, b) = node.op, (graph.tensors[n] for n in node.inputs)
        if not isinstance(op, Conv2D) or op.requantize is None:
            raise SchemeError(
                f"the head {node.name!r} is no fully connected layer or convolution of all "
                "channels, it cannot change"
            )
        last = graph.logits_node(node)
        mean = None if last is node else _Mean(last, graph.tensors[last.outputs[0]].type)
        return _Head(op, x.type, w, b, graph.tensors[node.outputs[0]].type, mean)

    @staticmethod
    def of_dense(graph: Graph, node: Node) -> _Head:
        """Return a head that gives one class. Raises SchemeError for any other."""
        found = _Head.of(graph, node)
        is_dense = found.w.type.shape[1:3] == found.x.shape[1:3] == (1, 1)
        if not is_dense and found.mean is None:
            raise SchemeError(
                f"the head {node.name!r} is no fully connected layer, it cannot get more classes"
            )
        return found

    @property
    def requantize(self) -> Requantize:
        """How sums become outputs."""
        assert self.op.requantize is not None
        return self.op.requantize

    def in_place_of(self, node: Node, graph: Graph) -> Graph:
        """The graph with this head in the place of `node` and of all that follows it.

        Its classes are others, and have no names.
        """
        names = [f"{name}.{HEAD_SUFFIX}" for name in (*node.inputs[1:], node.outputs[0])]
        tensors = {
            **graph.tensors,
            names[0]: replace(self.w, name=names[0]),
            names[1]: replace(self.b, name=names[1]),
            names[2]: Tensor(names[2], self.y),
        }
        nodes = [Node(node.name, self.op, (node.inputs[0], *names[:2]), (names[2],))]
        if self.mean is not None:
            mean, y = self.mean.of(tensors[names[2]])
            tensors[y.name] = y
            nodes.append(mean)
        before = graph.nodes[: [n.name for n in graph.nodes].index(node.name)]
        changed = replace(graph, tensors=tensors, outputs=nodes[-1].outputs, class_names=())
        return proven(changed.with_nodes((*before, *nodes)))


def replace_head(graph: Graph, head: Node, classes: int, start: HeadStart | None = None) -> Graph:
    """The graph with a classifier of `classes` outputs that knows nothing, and no softmax.

    All its weights are 0: the classes begin alike, and no sample has to unlearn what was drawn
    (docs/measurements/prototypes.md, "A classifier from class means"). start: other parameters.
    Scales do not depend on it, so a saved state means the same whatever the classifier started
    from.

    All classes share one weight scale, the largest of the old classifier's, which fits the
    features, as they stay the same. The output scale is a power of two of the old one; it grows
    with the logits (see autodiff.TrainGraph). Where the logits are the mean over positions of what
    an activation lets pass, biases make all classes begin in its middle. A softmax does not notice.
    Below a ReLU's 0 a class would have no gradient at any position.

    Two classes in place of one logit are one logit again, 0, on the old scale, which a sigmoid
    that follows needs.
    """
    _check_count(classes)
    if classes == 2 and gives_one_logit(graph, head):
        start = None if start is None else start.difference()
        return _replaced(graph, head, 1, start, keeps_scale=True)
    return _replaced(graph, head, classes, start)


def replace_by_sigmoids(graph: Graph, head: Node, outputs: int) -> Graph:
    """The graph with a head of so many outputs, each of which is to say yes or no by itself.

    As replace_head has it, but the middle of the outputs' range is 0, and they keep their scale:
    the old one where a sigmoid follows in the file.
    """
    if outputs != 1:
        _check_count(outputs)
    if _ends_in_sigmoid(graph):
        return _replaced(graph, head, outputs, None, keeps_scale=True)
    return _replaced(graph, head, outputs, None, zero_point=0)


def ends_in_sigmoids(graph: Graph) -> bool:
    """Return whether a network gives more than one probability, each by itself."""
    return graph.tensors[graph.outputs[0]].type.elements > 1 and _ends_in_sigmoid(graph)


def _ends_in_sigmoid(graph: Graph) -> bool:
    node = graph.probability(graph.outputs[0])
    return node is not None and isinstance(node.op, ChannelwiseOp)


def _replaced(
    graph: Graph,
    head: Node,
    classes: int,
    start: HeadStart | None,
    keeps_scale: bool = False,
    zero_point: int = OUTPUT_ZERO_POINT,
) -> Graph:
    """Return the graph with another head; outputs begin at the middle, or as `start` has it."""
    old = _Head.of(graph, head)
    weight_scale = max(old.w.type.scales)
    sum_scale = old.x.scale * weight_scale
    w = np.zeros((classes, *old.w.type.shape[1:]), np.int8)
    stage, begin = (
        (old.requantize, old.y.zero_point) if keeps_scale else _first_stage(old, zero_point)
    )
    exponent = _first_exponent(old.y.scale, sum_scale, stage.high - begin)
    if stage.high < 127 or keeps_scale:
        exponent = 0  # an activation's limit is a real number
    y_scale = math.ldexp(old.y.scale, exponent)
    mult, shift = quantize_multiplier(sum_scale / y_scale)
    b = np.full(classes, np.rint((begin - stage.zero_point) * y_scale / sum_scale), np.int32)
    if start is not None:
        _check_start(start, old, head, classes)
        w, b = start.w, b if start.b is None else start.b
    new = _Head(
        replace(old.op, requantize=replace(stage, mult_q31=(mult,), shift=(shift,))),
        old.x,
        replace(old.w, type=TensorType(w.shape, "int8", (weight_scale,)), data=w),
        replace(old.b, type=TensorType(b.shape, "int32", (sum_scale,)), data=b),
        TensorType((*old.y.shape[:-1], classes), "int8", (y_scale,), stage.zero_point),
        None if old.mean is None else old.mean.scaled(exponent),
    )
    return new.in_place_of(head, graph)


def regression_head(
    graph: Graph, head: Node, begin: Sequence[float], scale: float, zero_point: int
) -> Graph:
    """The graph with a head that gives so many real numbers, those of `begin` for every sample.

    scale, zero_point: of its int8 output. All weights are 0. Their scale is the largest of the old
    head's, in units of a quarter of the output's range. So it is the same part of that whatever the
    numbers' unit is. At most it makes a step of the sums one of the output.
    """
    old = _Head.of(graph, head)
    if old.mean is not None or math.prod(old.y.shape[:-1]) != 1:
        raise SchemeError(
            f"the head {head.name!r} gives numbers at {math.prod(old.y.shape[:-1]):,} positions, "
            "and a head for real targets gives them once: train with a model whose last layer is "
            "fully connected"
        )
    weight_scale = min(max(old.w.type.scales) * 64 * scale, scale / old.x.scale)
    sum_scale = old.x.scale * weight_scale
    w = np.zeros((len(begin), *old.w.type.shape[1:]), np.int8)
    limit = 2**30 - 1
    b = np.clip(np.rint(np.asarray(begin) / sum_scale), -limit, limit).astype(np.int32)
    mult, shift = quantize_multiplier(sum_scale / scale)
    stage = replace(
        old.requantize,
        mult_q31=(mult,),
        shift=(shift,),
        zero_point=zero_point,
        low=-128,
        high=127,
    )
    new = _Head(
        replace(old.op, requantize=stage),
        old.x,
        replace(old.w, type=TensorType(w.shape, "int8", (weight_scale,)), data=w),
        replace(old.b, type=TensorType(b.shape, "int32", (sum_scale,)), data=b),
        TensorType((*old.y.shape[:-1], len(begin)), "int8", (scale,), zero_point),
        None,
    )
    return new.in_place_of(head, graph)


def gives_one_logit(graph: Graph, head: Node) -> bool:
    """Return whether a head gives one number for two classes."""
    return graph.tensors[graph.logits_node(head).outputs[0]].type.elements == 1


def told_apart(graph: Graph, head: Node) -> int:
    """Return how many classes a head tells apart: one logit is for two."""
    classes: int = graph.tensors[head.outputs[0]].type.shape[-1]
    return 2 if gives_one_logit(graph, head) else classes


def random_start(graph: Graph, head: Node, classes: int, seed: int) -> HeadStart:
    """Weights that are uniform in ±1/sqrt(features of a window), and the usual biases."""
    old = _Head.of(graph, head)
    shape = (classes, *old.w.type.shape[1:])
    limit = 1 / math.sqrt(math.prod(shape[1:]))
    drawn = np.random.default_rng(seed).uniform(-limit, limit, shape)
    w = np.clip(np.rint(drawn / max(old.w.type.scales)), -127, 127).astype(np.int8)
    return HeadStart(w, None, (0.0, 0.0))


def _first_stage(old: _Head, zero_point: int) -> tuple[Requantize, int]:
    """Zero point and limits of a new head's outputs, and the int8 where they begin."""
    if old.mean is None:
        return replace(old.requantize, zero_point=zero_point, low=-128, high=127), zero_point
    return old.requantize, (old.requantize.low + old.requantize.high) // 2


def _first_exponent(old: float, sum_scale: float, steps: int) -> int:
    """The power of two times which the old scale reaches FIRST_LOGIT in so many steps."""
    least = max(FIRST_LOGIT / max(steps, 1), sum_scale)
    return math.ceil(math.log2(least / old))


def head_scales(graph: Graph, head: Node) -> tuple[float, float]:
    """Return the scales of a new classifier's features and weights, before it is there.

    Raises SchemeError for a classifier that cannot start from means of features.
    """
    old = _Head.of(graph, head)
    _check_takes_features(old, head)
    return old.x.scale, max(old.w.type.scales)


def _check_takes_features(old: _Head, head: Node) -> None:
    is_dense = old.w.type.shape[1:3] == old.x.shape[1:3] == (1, 1)
    if not is_dense or old.mean is not None:
        raise SchemeError(
            f"the head {head.name!r} is no fully connected layer, so it cannot start from the "
            "means of its features: leave out --head-start"
        )


def _check_start(start: HeadStart, old: _Head, head: Node, classes: int) -> None:
    shape = (classes, *old.w.type.shape[1:])
    if start.b is not None:
        _check_takes_features(old, head)
    if start.w.shape != shape or (start.b is not None and start.b.shape != (classes,)):
        raise SchemeError(
            f"the head {head.name!r} is to start from weights {start.w.shape}, but has {shape}: "
            "make them of samples of this model, with as many classes"
        )


def add_classes(graph: Graph, head: Node, count: int, seed: int = 0) -> Graph:
    """The graph with `count` more outputs behind the classifier's own, and no softmax.

    Weights, biases and quantization of the old classes stay as they are, so their outputs are the
    same integers. A new class starts as the mean of the old ones, so that it scores less than the
    best of them. Its weights are rounded at random, by the seed, at odds of their fraction.
    """
    if count < 1:
        raise SchemeError(f"{count} classes cannot be added: give at least one name")
    if gives_one_logit(graph, head):
        raise SchemeError(
            f"the head {head.name!r} has one output for two classes, so none can be added: "
            f"--classes {2 + count} puts a new one with an output for each there"
        )
    old = _Head.of_dense(graph, head)
    w, b = old.w.data, old.b.data
    assert w is not None
    assert b is not None
    classes = len(w) + count
    _check_count(classes)
    scales = np.broadcast_to(np.array(old.w.type.scales), len(w))
    like = int(scales.argmax())  # the old class whose quantization the new ones have
    relative = scales / scales[like]
    mean_w = np.tensordot(relative, w, 1) / len(w)
    drawn = np.random.default_rng(seed).random((count, *mean_w.shape))
    added_w = np.floor(mean_w + drawn).astype(np.int8)
    added_b = np.full(count, np.rint((relative * b).mean()), np.int32)
    new = _Head(
        replace(old.op, requantize=_longer(old.requantize, count, like)),
        old.x,
        _appended(old.w, added_w, like),
        _appended(old.b, added_b, like),
        replace(old.y, shape=(*old.y.shape[:-1], classes)),
        old.mean,
    )
    return new.in_place_of(head, graph)


def scale_outputs(graph: Graph, head: Node, exponent: int) -> Graph:
    """The graph with an output scale times 2**exponent, and the same parameters.

    A softmax that follows takes the new scale. Multipliers stay: only shifts change.
    """
    if exponent == 0:
        return graph
    last = graph.logits_node(head)
    place, tensors = graph.nodes.index(last), dict(graph.tensors)
    nodes = [replace(last, op=last.op.with_output_exponent(exponent))]
    same = {last.outputs[0]}  # what holds the logits' own integers
    for node in graph.nodes[place + 1 :]:
        is_reader = not same.isdisjoint(node.inputs)
        if is_reader and node.op.is_view:
            same.update(node.outputs)
        elif is_reader:
            node = replace(node, op=node.op.scaled(exponent))
        nodes.append(node)
    for name in same:
        kind = tensors[name].type
        tensors[name] = replace(
            tensors[name], type=replace(kind, scales=(math.ldexp(kind.scale, exponent),))
        )
    return proven(replace(graph, tensors=tensors, nodes=(*graph.nodes[:place], *nodes)))


def outputs_reaching(graph: Graph, head: Node, reach: tuple[float, float]) -> Graph:
    """The graph with outputs that reach so far above and below 0, in nats, or farther."""
    y = graph.tensors[graph.logits_node(head).outputs[0]].type
    high, low = (127 - y.zero_point) * y.scale, (y.zero_point + 128) * y.scale
    needed = max(reach[0] / high, reach[1] / low if low else 0.0, 1.0)
    return scale_outputs(graph, head, math.ceil(math.log2(needed)))


def _check_count(classes: int) -> None:
    if not 2 <= classes <= MAX_CLASSES:
        raise SchemeError(f"a classifier needs 2 to {MAX_CLASSES} classes, not {classes}")


def _longer(requantize: Requantize, count: int, like: int) -> Requantize:
    """Return the requantization with `count` more channels, which are as the channel `like` is."""
    if len(requantize.mult_q31) == 1:
        return requantize
    mult, shift = requantize.mult_q31, requantize.shift
    return replace(
        requantize, mult_q31=mult + count * (mult[like],), shift=shift + count * (shift[like],)
    )


def _appended(parameter: Tensor, added: Array, like: int) -> Tensor:
    """The parameter with more classes, which are quantized as the class `like` is."""
    assert parameter.data is not None
    data = np.concatenate((parameter.data, added))
    scales = parameter.type.scales
    if len(scales) > 1:
        scales += len(added) * (scales[like],)
    return replace(
        parameter, type=replace(parameter.type, shape=data.shape, scales=scales), data=data
    )

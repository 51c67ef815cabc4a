"""Networks whose fronts can be computed row by row: any windows, shortcuts, branches that join."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mcutrain.autodiff import TrainOptions
from mcutrain.ir.graph import Graph, Tensor
from mcutrain.memplan import Stream, TrainingPlan, check_contents, plan_training, training_plan
from mcutrain.memplan.training_plan import lay_out, needed_alignment, place
from mcutrain.ops.pooling import AveragePool2D, MaxPool2D
from mcutrain.ops.spatial import Window
from mcutrain.sparse import UpdateScheme, find_head, layers_of
from tests.ops.drawing import Source
from tests.simulation.networks import POINT, Network, same, training_graph

HEAD = UpdateScheme()
STRIDES = (1, 1, 1, 2, 3)
KINDS = (
    "conv",
    "depthwise",
    "residual",
    "pool",
    "pad",
    "join",
    "swish",
    "gate",
    "point",
    "sum",
    "slice",
    "matrices",
    "norm",
)
OVERWRITING = (
    *("prelu", "residual prelu", "point", "padding", "chain"),
    *("channels", "factors", "groups", "softmax"),
)


def draw_front(s: Source) -> Graph:
    """Tall rather than wide, so that many rows pass through few bytes; two to five parts."""
    shape = (s.integer(7, 29), s.integer(3, 7), s.integer(1, 3))
    net = Network(shape, s.integer(0, 2**31))
    y = net.conv(net.x, s.integer(2, 4), _window(s, net, net.x), relu=s.boolean())
    for _ in range(s.integer(1, 4)):
        y = _part(s, net, y)
    return net.graph(net.conv(net.mean(y), 3, rounds_once=True))


def _window(s: Source, net: Network, x: str, most: int = 7) -> Window:
    """Any that fits: kernels of 1 to `most`, strides of 1 to 3, sides padded by themselves."""
    kernel, stride, dilation, padding = [], [], [], []
    for size in net.type(x).shape[1:3]:
        k = s.integer(1, most)
        d = s.integer(1, 2)
        span = (k - 1) * d + 1
        lacking = max(span - size, 0)
        before = s.integer(0, min(k - 1, 3))
        after = max(s.integer(0, min(k - 1, 3)), lacking - before)
        kernel.append(k)
        stride.append(s.choice(STRIDES))
        dilation.append(d)
        padding += [before, after]
    return Window(tuple(kernel), tuple(stride), tuple(dilation), tuple(padding))


def _pool_window(s: Source, net: Network, x: str) -> Window:
    """Kernels of 1 to 3 that always have a place inside the image."""
    kernel = tuple(min(s.integer(1, 3), size) for size in net.type(x).shape[1:3])
    padding = [s.integer(0, k - 1) for k in kernel for _ in range(2)]
    return Window(kernel, (s.choice(STRIDES), s.integer(1, 2)), (1, 1), tuple(padding))


def _part(s: Source, net: Network, x: str) -> str:
    channels = net.type(x).shape[3]
    kind = s.choice(KINDS)
    if kind == "conv":
        return net.conv(x, s.integer(2, 4), _window(s, net, x, 5), s.boolean())
    if kind == "depthwise":
        return net.depthwise(x, _window(s, net, x), s.choice((1, 2)), relu=s.boolean())
    if kind == "residual":
        y = net.conv(x, s.integer(2, 6), relu=True)
        y = net.depthwise(y, same(s.choice((1, 3, 5, 7))), relu=s.boolean())
        return net.add(net.conv(y, channels), x)
    if kind == "pool":
        window, pool = _pool_window(s, net, x), s.choice((AveragePool2D, MaxPool2D, None))
        return net.scaled_pool(x, window) if pool is None else net.pool(x, pool, window)
    if kind == "pad":
        return net.pad(x, (s.integer(0, 3), s.integer(0, 3), s.integer(0, 1), s.integer(0, 1)))
    if kind == "join":
        parts = (x, net.conv(x, 2, relu=True), net.pool(x, MaxPool2D, same(3)))
        return net.concatenation(*parts[: s.integer(2, 3)])
    return _small_part(s, net, x, kind)


def _small_part(s: Source, net: Network, x: str, kind: str) -> str:
    """Of one or two nodes."""
    if kind == "swish":
        return net.mul(x, net.activation(x, "logistic"))
    if kind == "gate":
        return net.squeeze_and_excitation(net.relu(x))
    if kind == "slice":
        places = [range(s.integer(0, n - 1), n, s.choice(STRIDES)) for n in net.type(x).shape[1:]]
        return net.slice(x, *places)
    if kind == "matrices":
        return net.batch_matmul(x, net.conv(x, net.type(x).shape[3]), transposed_b=True)
    if kind == "norm":
        return net.layer_norm(x)
    if kind == "sum":
        return net.add(x, constant(net, x))
    return net.relu(net.conv(x, s.integer(1, 5)))


def draw_overwriting(s: Source) -> Graph:
    """Of what may lie upon its input and what else can be a stage, small; two to six parts."""
    net = Network((s.integer(5, 12), s.integer(2, 5), s.integer(1, 3)), s.integer(0, 2**31))
    y = net.conv(net.x, s.integer(1, 6), same(3))
    for _ in range(s.integer(2, 6)):
        y = _overwriting_part(s, net, y) if s.integer(0, 2) else _part(s, net, y)
    return net.graph(net.conv(net.mean(y), 3, rounds_once=True))


def _overwriting_part(s: Source, net: Network, x: str) -> str:
    """Of PReLU, depthwise layers that keep the size, chains of elementwise nodes."""
    kind, channels = s.choice(OVERWRITING), net.type(x).shape[3]
    if kind == "prelu":
        return net.prelu(x)
    if kind == "residual prelu":
        y = net.depthwise(net.prelu(x), same(s.choice((1, 3))))
        return net.prelu(net.add(net.conv(y, channels), x))
    if kind == "point":
        return net.depthwise(x, POINT, relu=s.boolean())
    if kind == "padding":  # strips that have no row of x
        above, below = s.integer(0, 3), s.integer(0, 4)
        return net.depthwise(x, Window((1, 1), (1, 1), (1, 1), (above, below, 0, 0)))
    if kind == "chain":
        y = net.leaky_relu(net.activation(net.relu(x), "hard_swish"))
        return net.layer_norm(net.squared_difference(y, x) if channels > 3 else net.div(y, x))
    if kind == "channels":
        return net.add(x, net.constant((1, 1, 1, channels), net.type(x)))
    if kind == "factors":
        return net.mul(x, net.constant((1, 1, 1, channels), net.type(x)))
    if kind == "groups":
        return net.grouped(net.conv(x, 4), 2, 2 * s.integer(1, 3), same(3))
    return net.softmax(x)


def draw_face(s: Source) -> Graph:
    """As networks of faces: PReLU behind each layer, also behind sums with a shortcut."""
    shape = (s.choice((8, 12, 16)), s.choice((4, 8)), 3)
    net = Network(shape, s.integer(0, 2**31))
    y = net.prelu(net.conv(net.x, s.choice((4, 8)), same(3, s.choice((1, 2)))))
    for _ in range(s.integer(1, 3)):
        channels = net.type(y).shape[3]
        inner = net.prelu(net.depthwise(y, same(3)))
        y = net.add(net.conv(inner, channels), y)
        y = net.prelu(y) if s.boolean() else y
        y = net.conv(y, 2 * channels, same(3, 2)) if s.boolean() else y
    return net.graph(net.conv(net.mean(y), 4, rounds_once=True))


def draw_plan(s: Source, graph: Graph) -> TrainingPlan:
    """A sound plan whose segments and strips are any: also those that no planner would choose.

    More of them begin behind an image than a planner has reasons for. Few layers are trained, as
    what is trained behind a node keeps it from being a stage.
    """
    layers = len(layers_of(graph, find_head(graph)))
    depth = s.integer(0, min(layers, 2))
    shares = {str(layers - 1 - i): s.choice((0.5, 1.0)) for i in range(depth)}
    scheme = s.choice((HEAD, UpdateScheme("bias", depth), UpdateScheme("shares", depth, shares)))
    options = TrainOptions(s.choice(("int8", "int8", "int16")))
    plain = lay_out(training_graph(graph, scheme, options), 8, "off")
    front, segments = training_plan._front(plain, 8), []
    for first, stages in front.runs():
        begin = 0
        while begin < len(stages):
            end = s.integer(begin + 1, len(stages))
            if s.integer(0, 4):
                part = (replace(stage, strip=s.choice((1, 1, 2, 4))) for stage in stages[begin:end])
                segments.append(front.segment(first + begin, tuple(part)))
            begin = end
    layout = training_plan._laid_out(plain.training, tuple(segments))
    plan = place(layout, max(8, needed_alignment(plain.training)), 0)
    check_contents(plan)
    return plan


def constant(net: Network, like: str) -> str:
    """An image of the same type, which lies in flash."""
    kind, name = net.type(like), f"constant{len(net.tensors)}"
    values = np.random.default_rng(0).integers(-50, 50, kind.shape).astype(np.int8)
    net.tensors[name] = Tensor(name, kind, values)
    return name


def with_constant_image() -> Graph:
    """A sum with a constant of as many rows, which lies in flash."""
    net = Network((24, 6, 3), 1)
    y = net.conv(net.x, 4, same(3))
    y = net.depthwise(net.conv(net.add(y, constant(net, y)), 12), same(3))
    return net.graph(net.conv(net.mean(net.conv(y, 4)), 3, rounds_once=True))


def with_padding_below() -> Graph:
    """When the last row of the input comes, the last strip that reads it is all that can begin."""
    net = Network((24, 6, 3), 1)
    y = net.conv(net.x, 4, Window((3, 3), (2, 2), (1, 1), (0, 1, 0, 1)))
    y = net.depthwise(net.conv(y, 12), same(3))
    return net.graph(net.conv(net.mean(net.conv(y, 4)), 3, rounds_once=True))


def with_resized_rows() -> Graph:
    """A resize needs its whole input; what lies before it, and behind, can be computed by rows."""
    net = Network((24, 6, 3), 1)
    y = net.depthwise(net.conv(net.x, 12, same(3, 2)), same(3))
    y = net.conv(net.doubled(net.conv(y, 3)), 12, same(3))
    y = net.conv(net.depthwise(y, same(3, 2)), 4)
    return net.graph(net.conv(net.mean(y), 3, rounds_once=True))


def with_cut_rows() -> Graph:
    """The first row that is read lies below the top, of the input, too; the last is not read."""
    net = Network((27, 6, 3), 1)
    y = net.conv(net.slice(net.x, range(1, 25), range(6), range(3)), 12, same(3))
    y = net.depthwise(net.slice(y, range(3, 24, 2), range(0, 6, 2), range(12)), same(3))
    return net.graph(net.conv(net.mean(net.conv(y, 4)), 3, rounds_once=True))


def with_matrices() -> Graph:
    """Products of the rows of two images, as matrices."""
    net = Network((24, 6, 3), 1)
    y = net.conv(net.x, 12, same(3))
    y = net.batch_matmul(y, net.conv(y, 12), transposed_b=True)
    y = net.batch_matmul(y, net.conv(y, 4), transposed_a=True)
    return net.graph(net.conv(net.mean(net.conv(y, 4)), 3, rounds_once=True))


def with_groups() -> Graph:
    """Convolutions in groups, strided and dilated."""
    net = Network((24, 6, 4), 1)
    y = net.grouped(net.x, 2, 12, same(3, 2), relu=True)
    y = net.grouped(y, 3, 9, Window((3, 2), (1, 1), (2, 1), (2, 2, 0, 1)))
    return net.graph(net.conv(net.mean(net.conv(y, 4)), 3, rounds_once=True))


def with_two_stems() -> Graph:
    """The second one reads the input when the first has long been computed."""
    net = Network((24, 6, 3), 1)
    a = net.squeeze_and_excitation(net.conv(net.x, 12, same(3)))
    b = net.conv(net.depthwise(net.conv(net.x, 16), same(3)), 12)
    return net.graph(net.conv(net.mean(net.add(a, b)), 3, rounds_once=True))


def planned(graph: Graph, stream: Stream, scheme: UpdateScheme = HEAD) -> TrainingPlan:
    return plan_training(training_graph(graph, scheme), align_bytes=8, stream=stream)

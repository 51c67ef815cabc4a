"""Passes to canonical form ask operators what they do; they know none by its class."""

from __future__ import annotations

import numpy as np
import pytest
from mcutrain_host.dataclass import dataclass

from mcutrain.errors import ModelError
from mcutrain.ir.graph import Graph, Node, Tensor, TensorType
from mcutrain.ir.interpret import interpret
from mcutrain.ir.op import Border, Op
from mcutrain.ops.conv_2d import Conv2D, Requantize
from mcutrain.ops.depthwise_conv_2d import DepthwiseConv2D
from mcutrain.ops.pad import Pad
from mcutrain.ops.rescale import Rescale
from mcutrain.ops.reshape import Reshape
from mcutrain.ops.slice import Part, Slice
from mcutrain.ops.spatial import Window
from mcutrain.quant.canonical import canonical

ZERO_POINT = -5
BORDER = (1, 2, 0, 3)
IMAGE = (1, 4, 3, 2)
CLAMP = Rescale(7, 7, 1 << 30, 1, -20, 40)
IDENTITY = Rescale(7, 7, 1 << 30, 1)


@dataclass(frozen=True)
class OtherPad(Pad):
    """An operator that the passes have not seen."""


@dataclass(frozen=True)
class OtherClamp(Rescale):
    """Another one."""


@dataclass(frozen=True)
class OtherView(Reshape):
    """And another."""


@dataclass(frozen=True)
class WrongBorder(DepthwiseConv2D):
    """Says that it takes a border in, and forgets it."""

    def with_border(self, border: Border) -> Op | None:
        return self


def chain(*ops: Op, shape: tuple[int, ...] = IMAGE, also: tuple[str, ...] = ()) -> Graph:
    """x → y0 → y1 …, with constants for what has weights. also: outputs besides the last."""
    tensors = {"x": Tensor("x", TensorType(shape))}
    nodes, last = [], "x"
    for i, op in enumerate(ops):
        constants = _constants(op, tensors[last].type.shape[-1], i)
        tensors |= {c.name: c for c in constants}
        names = (last, *(c.name for c in constants))
        last = f"y{i}"
        tensors[last] = Tensor(last, op.infer(*(tensors[n].type for n in names))[0])
        nodes.append(Node(f"node{i}", op, names, (last,)))
    return Graph("chain", tensors, tuple(nodes), ("x",), (*also, last))


def _constants(op: Op, channels: int, i: int) -> tuple[Tensor, ...]:
    if not isinstance(op, Conv2D | DepthwiseConv2D):
        return ()
    first = 1 if isinstance(op, DepthwiseConv2D) else channels
    w = np.arange(first * 9 * channels).reshape(first, 3, 3, channels).astype(np.int8)
    b = np.arange(channels, dtype=np.int32)
    kinds = TensorType(w.shape), TensorType(b.shape, "int32")
    return Tensor(f"w{i}", kinds[0], w), Tensor(f"b{i}", kinds[1], b)


def convolution(kind: type[Conv2D] | type[DepthwiseConv2D] = Conv2D) -> Op:
    window = Window((3, 3), padding=(1, 0, 2, 0))
    return kind(window, ZERO_POINT, Requantize((1 << 30,), (-6,), 7))


def run(graph: Graph) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    shape = graph.tensors["x"].type.shape
    values = {n: t.data for n, t in graph.tensors.items() if t.data is not None}
    values["x"] = rng.integers(-128, 128, shape).astype(np.int8)
    for node in graph.nodes:
        results = node.op.reference(*(values[n] for n in node.inputs))
        values.update(zip(node.outputs, results, strict=True))
    return [values[name] for name in graph.outputs]


def checked(graph: Graph) -> Graph:
    """Its canonical form, with the same outputs under the same names."""
    made = canonical(graph)
    assert made.outputs == graph.outputs
    for found, wanted in zip(run(made), run(graph), strict=True):
        np.testing.assert_array_equal(found, wanted)
    return made


def kinds(graph: Graph) -> list[str]:
    return [type(node.op).__name__ for node in graph.nodes]


@pytest.mark.parametrize("pad", [Pad, OtherPad])
@pytest.mark.parametrize("kind", [Conv2D, DepthwiseConv2D])
def test_a_border_of_zero_points_becomes_padding_of_the_convolution(pad, kind):
    made = checked(chain(pad(BORDER, ZERO_POINT), convolution(kind)))
    assert kinds(made) == [kind.__name__]
    assert made.nodes[0].op.window.padding == (2, 2, 2, 3)


@pytest.mark.parametrize(
    "graph",
    [
        chain(Pad(BORDER, ZERO_POINT + 1), convolution()),
        chain(Pad(BORDER, ZERO_POINT), convolution(), also=("y0",)),
        chain(Pad(BORDER, ZERO_POINT, (0, 1)), convolution()),
        chain(Pad(BORDER, ZERO_POINT), CLAMP),
    ],
    ids=["another number", "read by others", "channels", "no window"],
)
def test_another_border_stays(graph):
    assert checked(graph).nodes == graph.nodes


@pytest.mark.parametrize("clamp", [Rescale, OtherClamp])
def test_a_clamp_becomes_the_limits_of_the_operator_before(clamp):
    made = checked(chain(convolution(), clamp(7, 7, 1 << 30, 1, -20, 40)))
    assert kinds(made) == ["Conv2D"]
    requantize = made.nodes[0].op.requantize
    assert (requantize.low, requantize.high) == (-20, 40)


@pytest.mark.parametrize(
    "graph",
    [
        chain(convolution(), Rescale(7, 6, 1 << 30, 1, -20, 40)),
        chain(convolution(), Rescale(7, 7, 1 << 30, 0, -20, 40)),
        chain(convolution(), Rescale(7, 7, (1 << 30) + 1, 1, -20, 40)),
        chain(convolution(), CLAMP, also=("y0",)),
        chain(Pad(BORDER, 0), CLAMP),
        chain(CLAMP),
    ],
    ids=["zero point", "shift", "mult", "read by others", "cannot clamp", "nothing before"],
)
def test_another_rescale_stays(graph):
    assert checked(graph).nodes == graph.nodes


BORDERED = (1, 7, 6, 2)


@pytest.mark.parametrize("identity", [IDENTITY, OtherView(BORDERED)], ids=["rescale", "view"])
def test_what_does_nothing_goes(identity):
    border = Pad(BORDER, 0)
    assert kinds(checked(chain(border, identity))) == ["Pad"]
    assert kinds(checked(chain(border, identity, CLAMP))) == ["Pad", "Rescale"]


def test_a_view_under_another_shape_stays():
    assert kinds(checked(chain(Pad(BORDER, 0), OtherView((1, 84))))) == ["Pad", "OtherView"]


@pytest.mark.parametrize("view", [Reshape, OtherView])
def test_a_view_of_a_view_reads_what_the_first_one_did(view):
    made = checked(chain(view((1, 24)), view((1, 2, 3, 4)), Pad(BORDER, 0)))
    assert [node.inputs for node in made.nodes] == [("x",), ("y1",)]
    assert kinds(made) == [view.__name__, "Pad"]


def test_what_no_output_needs_goes():
    graph = chain(CLAMP, Pad(BORDER, 0), CLAMP)
    shorter = Graph("cut", graph.tensors, graph.nodes, ("x",), ("y1",))
    assert kinds(checked(shorter)) == ["Rescale", "Pad"]


def test_an_operator_that_folds_wrongly_is_our_bug_and_no_error_of_the_model():
    graph = chain(Pad(BORDER, ZERO_POINT), convolution(WrongBorder))
    with pytest.raises(AssertionError, match="its output 'y1' is declared"):
        canonical(graph)


def test_a_graph_of_a_file_that_breaks_a_rule_is_an_error_of_the_model():
    graph = chain(CLAMP, CLAMP)
    with pytest.raises(ModelError, match="before it is computed"):
        canonical(Graph("backwards", graph.tensors, graph.nodes[::-1], ("x",), graph.outputs))


@pytest.mark.parametrize(
    ("also", "read"), [((), ["x"]), (("y0",), ["x", "y0"]), (("y1",), ["x", "y1"])]
)
def test_a_part_of_a_part_is_one_unless_somebody_else_reads_it(also, read):
    parts = [
        Slice(Part.of((range(1), range(1, 4), range(3), range(2)))),
        Slice(Part.of((range(1), range(0, 3, 2), range(1, 3), range(2)))),
        Slice(Part.of((range(1), range(1, 2), range(2), range(1, 2)))),
    ]
    graph = chain(*parts, also=also)
    found = canonical(graph)
    assert [node.inputs[0] for node in found.nodes] == read
    x = np.arange(24).reshape(IMAGE).astype(np.int8)
    for name, y in interpret(graph, {"x": x}).items():
        assert np.array_equal(interpret(found, {"x": x})[name], y)

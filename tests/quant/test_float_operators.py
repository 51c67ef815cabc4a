"""What a float operator says of itself, and passes rely on, is true of what it computes."""

from __future__ import annotations

import numpy as np
import pytest

from mcutrain.ops.slice import Part
from mcutrain.ops.spatial import Window
from mcutrain.quant.fake import judged_graph
from mcutrain.quant.float_elementwise import Clamp, FloatAdd, FloatLeakyRelu, FloatMul, Function
from mcutrain.quant.float_graph import FloatGraph, FloatNode
from mcutrain.quant.float_norm import FloatLayerNorm
from mcutrain.quant.float_op import FloatOp
from mcutrain.quant.float_resize import FloatResize, Places
from mcutrain.quant.float_shapes import (
    FloatConcat,
    FloatMean,
    FloatPad,
    FloatPool,
    FloatReshape,
    FloatSlice,
    FloatSoftmax,
    FloatSum,
    FloatTranspose,
)
from mcutrain.quant.float_sums import Conv, DepthwiseConv, GroupedConv
from mcutrain.quant.simplify import simplify

IMAGE = (1, 4, 4, 3)
WINDOW = Window((2, 2), (2, 2), padding=(1, 0, 1, 0))
DOUBLED = Places.of(np.arange(8) / 2 - 0.25, 4)
COPIED = Places.of(np.arange(8) // 2, 4)
SAMPLES: dict[str, tuple[FloatOp, int]] = {
    "add": (FloatAdd(), 2),
    "mul": (FloatMul(), 2),
    "clamp": (Clamp(0.0, 1.0), 1),
    "leaky relu": (FloatLeakyRelu(0.25), 1),
    "layer norm": (FloatLayerNorm(np.ones(3), np.zeros(3), 0.1), 1),
    "sigmoid": (Function("logistic"), 1),
    "average": (FloatPool(WINDOW, False), 1),
    "maximum": (FloatPool(WINDOW, True), 1),
    "mean": (FloatMean(), 1),
    "sum": (FloatSum(), 1),
    "resize": (FloatResize(DOUBLED, DOUBLED), 1),
    "copying resize": (FloatResize(COPIED, COPIED), 1),
    "border of 0": (FloatPad((1, 0, 2, 1)), 1),
    "border of 1": (FloatPad((1, 0, 2, 1), 1.0), 1),
    "border and channels of 0": (FloatPad((1, 0, 2, 1), channels=(1, 2)), 1),
    "reshape": (FloatReshape((1, 16, 3)), 1),
    "slice": (FloatSlice(Part((0, 1, 0, 0), (1, 2, 4, 3), (1, 2, 1, 1)), 3), 1),
    "slice of channels": (FloatSlice(Part((0, 0, 0, 1), (1, 4, 4, 2), (1, 1, 1, 1)), 3), 1),
    "join": (FloatConcat(3), 2),
    "softmax": (FloatSoftmax(), 1),
    "transpose": (FloatTranspose((0, 2, 1, 3)), 1),
}
"""Operator, number of inputs."""
FACTORS = np.array([0.5, 2.0, 4.0], np.float32)  # powers of two: float products are exact


def drawn(count: int) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.integers(-8, 9, (2, *IMAGE[1:])).astype(np.float32) / 4 for _ in range(count)]


@pytest.mark.parametrize("name", SAMPLES)
def test_factors_of_channels_pass_exactly_the_operators_that_say_so(name):
    op, count = SAMPLES[name]
    x = drawn(count)
    y = op.run(*x)
    channels = y.shape[-1] == len(FACTORS)
    passes = channels and np.array_equal(op.run(*(v * FACTORS for v in x)), y * FACTORS)
    # Reshape and Transpose may move channels, and of two inputs both would need the factors
    unsure = op.is_view or isinstance(op, FloatTranspose) or count > 1
    assert op.is_homogeneous == (passes and not unsure)


@pytest.mark.parametrize("name", SAMPLES)
def test_a_view_keeps_all_elements_in_their_order(name):
    op, count = SAMPLES[name]
    x = drawn(count)
    y = op.run(*x)
    assert op.is_view == (y.shape != x[0].shape and np.array_equal(y.ravel(), x[0].ravel()))


@pytest.mark.parametrize("name", SAMPLES)
def test_an_output_of_probabilities_does_not_see_what_is_added_to_all_logits(name):
    op, count = SAMPLES[name]
    x = drawn(count)
    shifted = op.run(*(v + np.float32(3) for v in x))
    same = np.allclose(shifted, op.run(*x), rtol=1e-6, atol=0)
    assert op.is_probability == same


@pytest.mark.parametrize("name", SAMPLES)
def test_the_inputs_of_a_join_share_its_elements(name):
    op, count = SAMPLES[name]
    x = drawn(count)
    shared = count > 1 and op.run(*x).size == sum(v.size for v in x)
    assert op.is_join == shared


# ------------------------------------------------------------------------- passes that ask for it


def graph_of(*ops: FloatOp, shape: tuple[int, ...] = IMAGE) -> FloatGraph:
    """x → y0 → y1 …"""
    names = ["x", *(f"y{i}" for i in range(len(ops)))]
    nodes = [FloatNode(f"n{i}", op, (names[i],), names[i + 1]) for i, op in enumerate(ops)]
    return FloatGraph("chain", "x", shape, tuple(nodes), (names[-1],))


@pytest.mark.parametrize(
    ("behind", "judged"),
    [
        ((FloatSoftmax(),), "y0"),
        ((FloatSoftmax(), FloatReshape((1, 48)), FloatReshape((1, 6, 8))), "y0"),
        ((FloatReshape((1, 48)),), "y1"),
        ((), "y0"),
    ],
    ids=["softmax", "viewed softmax", "view", "nothing"],
)
def test_outputs_are_judged_before_their_softmax(behind, judged):
    graph = graph_of(FloatLeakyRelu(0.5), *behind)
    assert judged_graph(graph).outputs == (judged,)


def test_evened_channels_and_weights_reach_equally_far():
    window, b = Window((1, 1)), np.zeros(2)
    w = np.array([[1.0, 8.0, 0.0], [-4.0, 2.0, 0.0]], np.float32).reshape(2, 1, 1, 3)
    spread = np.array([16.0, 0.5, 3.0])
    with np.errstate(divide="ignore"):
        factor = Conv(window, w, b).evened(spread)
    assert factor.tolist()[:2] == [2.0, 0.25]  # 16 / 2 = 4 * 2 and 0.5 / 0.25 = 8 * 0.25
    assert np.isnan(factor[2])  # nothing reads the channel
    depthwise = DepthwiseConv(window, np.ones((1, 1, 1, 3), np.float32), np.zeros(3))
    assert depthwise.evened(spread).tolist() == spread.tolist()


@pytest.mark.parametrize("groups", [1, 2, 3])
def test_a_grouped_convolution_is_a_convolution_for_each_group(groups):
    rng = np.random.default_rng(groups)
    w = rng.normal(0, 1, (3 * groups, 3, 2, 4)).astype(np.float32)
    b, x = rng.normal(0, 1, len(w)), rng.normal(0, 1, (2, 5, 6, 4 * groups)).astype(np.float32)
    spread, factor, shift = (rng.uniform(0.5, 2, 4 * groups) for _ in range(3))
    window = Window((3, 2))
    whole = GroupedConv(window, w, b)
    each = [Conv(window, w[3 * g : 3 * g + 3], b[3 * g : 3 * g + 3]) for g in range(groups)]
    inputs = np.split(x, groups, axis=3)
    expected = [op.run(part) for op, part in zip(each, inputs, strict=True)]
    np.testing.assert_allclose(whole.run(x), np.concatenate(expected, axis=3), rtol=1e-4, atol=1e-4)
    spreads = np.split(spread, groups)
    evened = [op.evened(part) for op, part in zip(each, spreads, strict=True)]
    np.testing.assert_array_equal(whole.evened(spread), np.concatenate(evened))
    moved = (x * factor + shift).astype(np.float32)
    after = whole.after(factor, shift).run(x)
    np.testing.assert_allclose(after, whole.run(moved), rtol=1e-4, atol=1e-4)
    one = whole.after(factor[:1], shift[:1]).run(x)
    moved = (x * factor[0] + shift[0]).astype(np.float32)
    np.testing.assert_allclose(one, whole.run(moved), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("places", [range(1, 3), range(4, 6), range(3, 7, 2), range(2, 5)])
def test_a_part_of_what_is_joined_is_computed_alike_of_one_operand(places):
    nodes = (
        FloatNode("a", Function("exp"), ("x",), "a"),
        FloatNode("b", Function("tanh"), ("x",), "b"),
        FloatNode("join", FloatConcat(1), ("a", "b"), "join"),
        FloatNode("part", FloatSlice(Part.of([range(1), places, range(2)]), 2), ("join",), "part"),
    )
    graph = FloatGraph("g", "x", (1, 4, 2), nodes, ("part",))
    simple = simplify(graph)
    joins = [node for node in simple.nodes if isinstance(node.op, FloatConcat)]
    assert len(joins) == (places[0] < 4 <= places[-1])
    x = np.random.default_rng(0).normal(0, 1, (2, 4, 2)).astype(np.float32)
    assert (graph.run(x)[0] == simple.run(x)[0]).all()

"""Slice and Split of ONNX, along every axis: float and int8 models against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcutrain.errors import McutrainError
from mcutrain.formats import read_float
from mcutrain.formats.onnx.read import load_onnx
from mcutrain.formats.onnx.read_float import read_onnx
from mcutrain.ir.interpret import interpret
from mcutrain.ops.slice import Slice
from mcutrain.oracle.onnxruntime import onnxruntime_outputs
from mcutrain.quant.float_shapes import FloatSlice, FloatTranspose
from tests.formats.onnx_builder import QdqModel
from tests.quant.networks import OnnxNetwork

OPSETS = (10, 11, 13, 18, 21)
FEW = settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
LIKE = (0.05, 3)


def integers(net, values):
    return net.constant(np.array(values, np.int64))


def parts_of(net, x, sizes, axis, says_sizes=True):
    """The outputs of a Split, in the form of the model's opset."""
    inputs, attributes = [x], {"axis": axis}
    if says_sizes and net.opset >= 13:
        inputs.append(integers(net, sizes))
    elif says_sizes:
        attributes["split"] = sizes
    elif net.opset >= 18:
        attributes["num_outputs"] = len(sizes)
    if isinstance(net, QdqModel):
        net.op("Split", *inputs, outputs=len(sizes), **attributes)
    else:
        net.op("Split", *inputs, **attributes)
        more = [net._name("Split") for _ in sizes[1:]]
        net.nodes[-1].output.extend(more)
    return list(net.nodes[-1].output)


@st.composite
def shapes(draw):
    """Of [1, c], [1, c, l], [1, c, h, w]."""
    return (1, *(draw(st.integers(1, 6)) for _ in range(draw(st.integers(1, 3)))))


@st.composite
def cuts(draw, shape):
    """Starts, ends, axes and steps of a Slice that leaves something of each axis."""
    numbers = []
    for axis in draw(st.permutations(range(1, len(shape))))[: draw(st.integers(1, 3))]:
        size = shape[axis]
        first = draw(st.integers(0, size - 1))
        end = draw(st.integers(first + 1, size))
        start = draw(st.sampled_from((first, first - size)))
        ends = (end, 2**31 - 1) if end == size else (end, end - size)
        step = draw(st.integers(1, 3))
        numbers.append(
            (
                start,
                draw(st.sampled_from(ends)),
                axis - draw(st.sampled_from((0, len(shape)))),
                step,
            )
        )
    return [list(n) for n in zip(*numbers, strict=True)]


def sliced(net, x, numbers):
    return net.op("Slice", x, *(integers(net, n) for n in numbers))


@pytest.mark.oracle
@FEW
@given(data=st.data(), opset=st.sampled_from(OPSETS), alike=st.booleans())
def test_an_int8_slice_is_onnxruntimes(data, opset, alike, tmp_path_factory):
    """In the scale of its input bit for bit; in another one beside ties within a step."""
    pytest.importorskip("onnxruntime")
    shape = data.draw(shapes())
    model = QdqModel(shape, *LIKE, opset)
    y = sliced(model, model.x, data.draw(cuts(shape)))
    check_int8(
        model, model.requantize(y, *(LIKE if alike else (0.11, -4))), alike, tmp_path_factory
    )


@pytest.mark.oracle
@FEW
@given(data=st.data(), opset=st.sampled_from(OPSETS), says_sizes=st.booleans())
def test_the_parts_of_an_int8_split_are_onnxruntimes(data, opset, says_sizes, tmp_path_factory):
    pytest.importorskip("onnxruntime")
    shape = list(data.draw(shapes()))
    axis = data.draw(st.integers(1, len(shape) - 1))
    sizes = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    if not says_sizes:
        sizes = sizes[:1] * len(sizes)
        if opset >= 18 and len(sizes) > 1:
            sizes[-1] = data.draw(st.integers(1, sizes[0]))
    shape[axis] = sum(sizes)
    model = QdqModel(tuple(shape), *LIKE, opset)
    parts = parts_of(
        model, model.x, sizes, axis - data.draw(st.sampled_from((0, len(shape)))), says_sizes
    )
    y = model.requantize(data.draw(st.sampled_from(parts)), *LIKE)
    check_int8(model, y, True, tmp_path_factory)


def check_int8(model, y, exactly, tmp_path_factory):
    path = model.save(tmp_path_factory.mktemp("onnx") / "model.onnx", y)
    graph = load_onnx(path)
    (name,) = graph.inputs
    x = np.random.default_rng(0).integers(-128, 128, graph.tensors[name].type.shape).astype(np.int8)
    ours = interpret(graph, {name: x})[graph.outputs[0]].astype(int)
    theirs = onnxruntime_outputs(path, x, graph, optimize=False)
    assert ours.shape == theirs.shape
    assert np.abs(ours - theirs).max() <= (0 if exactly else 1)


def shortcut(net):
    """Of a CIFAR ResNet: every second pixel, one Slice for each axis as torch exports it."""
    x = net.conv("input", 4, 6, stride=2)
    y = sliced(net, "input", [[0], [2**63 - 1], [2], [2]])
    y = sliced(net, y, [[0], [2**63 - 1], [3], [2]])
    return net.op("Add", net.conv(y, 4, 6, 1), x)


def focus(net):
    corners = [[[i, j], [9, 9], [2, 3], [2, 2]] for i in (0, 1) for j in (0, 1)]
    x = net.op("Concat", *(sliced(net, "input", one) for one in corners), axis=1)
    return net.conv(x, 16, 3)


def branches(net):
    """Halves of the channels, one of which is computed with, then both beside each other."""
    a, b = parts_of(net, net.conv("input", 4, 8), [4, 4], 1, says_sizes=False)
    b = net.op("Relu", net.conv(b, 4, 4))
    return net.conv(net.op("Concat", a, b, axis=1), 8, 5)


def shuffled_branches(net):
    """Of ShuffleNet: the halves of channels that were shuffled."""
    x = net.op("Reshape", net.conv("input", 4, 8), integers(net, [1, 2, 4, 6, 6]))
    x = net.op("Transpose", x, perm=[0, 2, 1, 3, 4])
    a, b = parts_of(net, net.op("Reshape", x, integers(net, [1, 8, 6, 6])), [4, 4], 1)
    return net.op("Concat", net.conv(b, 4, 4), a, axis=1)


def uneven_parts(net):
    a, b, c = parts_of(net, net.conv("input", 4, 7), [1, 4, 2], -3)
    return net.op("Concat", net.op("Sigmoid", c), net.op("Neg", a), net.op("Relu", b), axis=1)


def last_of_a_sequence(net):
    rows = net.op("Reshape", "input", integers(net, [1, 24, 6]))
    rows = net.op("Transpose", rows, perm=[0, 2, 1])
    last = sliced(net, rows, [[-1], [9], [1]])
    return net.gemm(net.op("Flatten", last), 24, 5)


def part_of_a_row(net):
    row = net.op("Flatten", "input")
    return net.gemm(sliced(net, row, [[5], [-20], [1], [7]]), 17, 5)


def part_of_constants(net):
    a, b = parts_of(net, net.real(net.rng.normal(0, 1, (8, 4, 1, 1))), [5, 3], 0)
    y = net.op("Conv", "input", sliced(net, a, [[0], [4], [0]]))
    return net.op("Concat", y, net.op("Conv", "input", b), axis=1)


NETWORKS = {
    shortcut: 1,
    focus: 4,
    branches: 2,
    shuffled_branches: 2,
    uneven_parts: 3,
    last_of_a_sequence: 1,
    part_of_a_row: 1,
    part_of_constants: 0,
}
"""And how many parts of activations there are, of which one may be made in two steps."""


@pytest.mark.oracle
@pytest.mark.parametrize("opset", [11, 13, 18])
@pytest.mark.parametrize("make", NETWORKS)
def test_float_networks_with_parts_are_onnxruntimes(make, opset, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    net = OnnxNetwork([1, 4, 6, 6], opset)
    path = net.save(tmp_path / "model.onnx", make(net))
    x = np.random.default_rng(0).normal(0, 1, (1, 4, 6, 6)).astype(np.float32)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (wanted,) = session.run(None, {"input": x})
    graph = read_onnx(path)
    (found,) = graph.run(x.transpose(np.argsort(graph.file_axes[graph.input])))
    found = found.transpose(graph.file_axes.get(graph.outputs[0], range(found.ndim)))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    assert [type(n.op) for n in graph.nodes].count(FloatSlice) >= NETWORKS[make]


@pytest.mark.parametrize("make", NETWORKS)
def test_a_part_that_is_made_in_steps_is_one_slice(make, tmp_path):
    net = OnnxNetwork([1, 4, 6, 6])
    model = read_float(net.save(tmp_path / "model.onnx", make(net)))
    samples = np.random.default_rng(0).normal(0, 1, (8, 6, 6, 4)).astype(np.float32)
    graph = model.quantize(samples).graph
    assert [type(n.op) for n in graph.nodes].count(Slice) == NETWORKS[make]


def test_channels_that_several_parts_are_made_of_are_shuffled_once(tmp_path):
    net = OnnxNetwork([1, 4, 6, 6])
    graph = read_onnx(net.save(tmp_path / "model.onnx", shuffled_branches(net)))
    assert [type(n.op) for n in graph.nodes].count(FloatTranspose) == 1


ENDS_OF_FOUR = [[0] * 4, [1, 1, 3, 3], [1, 2, 3, 4]]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda net: sliced(net, "input", [[-1], [-9], [2], [-1]]), "a negative step is not"),
        (lambda net: sliced(net, "input", [[2], [2], [3]]), "nothing is left of"),
        (lambda net: sliced(net, "input", [[0], [1], [4]]), r"axes \(4,\) do not fit"),
        (lambda net: sliced(net, "input", [[0, 0], [1, 1], [2, -2]]), "name one twice"),
        (lambda net: sliced(net, "input", [[0], [1], [2], [0]]), "do not fit each other"),
        (lambda net: parts_of(net, "input", [2, 3], 1)[0], r"4 cannot be split .* \(2, 3\)"),
        (lambda net: parts_of(net, "input", [2, 2], 4)[0], r"axes \(4,\) do not fit"),
        (lambda net: parts_of(net, "input", [1] * 5, 2, False)[0], r"6 cannot be split into 5"),
        (lambda net: net.op("Split", "input", axis=1, num_outputs=2), "says otherwise"),
        (
            lambda net: sliced(
                net, net.op("Reshape", "input", integers(net, [1, 2, 2, 6, 6])), ENDS_OF_FOUR
            ),
            "5 axes, of .* cannot be cut; 2 to 4 can",
        ),
    ],
)
def test_what_is_not_supported_is_named(make, words, tmp_path):
    net = OnnxNetwork([1, 4, 6, 6], 18)
    with pytest.raises(McutrainError, match=words):
        read_onnx(net.save(tmp_path / "model.onnx", make(net)))

"""The .qdq.onnx twins of the shared int8 .tflite models, and onnxruntime's opinion of them."""

import platform
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from mcutrain.formats import load
from mcutrain.ir.interpret import interpret
from mcutrain.ops.conv_2d import Convolution
from mcutrain.oracle.onnxruntime import onnxruntime_outputs

TWINS = ["mcunet-5fps", "mbv2-w0.35", "proxyless-w0.3"]
STEP = 1
# Shares of a layer's elements that may differ where onnxruntime rounds a real number once.
TWICE_ROUNDED = 0.02  # a convolution's two roundings; measured: 0.4 % in the mean, 1.2 % at most
ONCE_ROUNDED = 0.001  # float32 sums next to a tie; measured: 0.0004 % in the mean, 0.07 % at most
TIES = 0.1  # an average of 16 elements is a tie once in 16 times; measured: 4.4 % at most
# Fifty layers later that has spread: in the mean over 20 images ours is up to 0.86 steps from
# onnxruntime and at most 7, its two levels are up to 0.49 steps from each other and at most 4.
MEAN_STEPS = 1.2
LARGEST_STEPS = 10

pytestmark = pytest.mark.shared


def images(count):
    """Smooth random images: blurred noise, so that activations look like those of photographs."""
    rng = np.random.default_rng(0)
    coarse = rng.integers(0, 256, (count, 9, 9, 3)).astype(float)
    fine = coarse.repeat(16, axis=1).repeat(16, axis=2)[:, :128, :128]
    return np.clip(fine + rng.normal(0, 12, fine.shape) - 128, -128, 127).astype(np.int8)


def run(graph, inputs):
    (x,), (y,) = graph.inputs, graph.outputs
    return np.concatenate([interpret(graph, {x: one[None]})[y] for one in inputs])


def weighted(graph):
    """Constants and attributes of every node that has weights, in order."""
    return [
        (node.op, [graph.tensors[n].data for n in node.inputs[1:]])
        for node in graph.nodes
        if any(graph.tensors[n].is_constant for n in node.inputs)
    ]


@pytest.mark.parametrize("name", TWINS)
def test_both_files_of_a_network_give_equal_weights_and_multipliers(name, shared):
    ours = weighted(load(shared / f"models/{name}.qdq.onnx"))
    twins = weighted(load(shared / f"models/{name}.int8.tflite"))
    assert [op for op, _ in ours] == [op for op, _ in twins]
    for (_, a), (_, b) in zip(ours, twins, strict=True):
        assert all(np.array_equal(p, q) for p, q in zip(a, b, strict=True))


@pytest.mark.parametrize("name", TWINS)
def test_both_files_of_a_network_compute_equal_outputs(name, shared):
    ours = load(shared / f"models/{name}.qdq.onnx")
    twin = load(shared / f"models/{name}.int8.tflite")
    inputs = images(2)
    assert np.array_equal(run(ours, inputs).ravel(), run(twin, inputs).ravel())


def onnxruntime_activations(path, image, scale):
    """Every QuantizeLinear's integers, channels last, without optimization."""
    onnxruntime = pytest.importorskip("onnxruntime")
    model = onnx.load(path)
    names = [n.output[0] for n in model.graph.node if n.op_type == "QuantizeLinear"]
    del model.graph.output[:]
    for name in names:
        value = onnx.helper.make_tensor_value_info(name, onnx.TensorProto.INT8, None)
        model.graph.output.append(value)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    real = (image.astype(np.float32) * np.float32(scale)).transpose(2, 0, 1)[None]
    found = session.run(names, {"input": real})
    return {n: v.transpose(0, 2, 3, 1) for n, v in zip(names, found, strict=True)}


def rounded_once(op):
    """The convolution with one rounding, as float has it."""
    return replace(op, requantize=replace(op.requantize, rounds_once=True))


@pytest.mark.oracle
@pytest.mark.parametrize("name", TWINS)
def test_each_layer_differs_from_onnxruntime_only_in_how_it_rounds(name, shared):
    path = shared / f"models/{name}.qdq.onnx"
    graph, image = load(path), images(1)[0]
    theirs = onnxruntime_activations(path, image, graph.tensors["input"].type.scale)
    theirs["input"] = image[None]
    constants = {n: t.data for n, t in graph.tensors.items() if t.is_constant}
    for node in (n for n in graph.nodes if not n.op.is_view):
        inputs = [{**theirs, **constants}[n] for n in node.inputs]
        is_convolution = isinstance(node.op, Convolution)
        expected = theirs[node.outputs[0]].astype(int)
        difference = np.abs(node.op.reference(*inputs)[0] - expected)
        assert difference.max() <= STEP
        assert (difference > 0).mean() <= (TWICE_ROUNDED if is_convolution else TIES)
        if is_convolution:
            once = rounded_once(node.op).reference(*inputs)[0]
            assert (once != expected).mean() <= ONCE_ROUNDED


def saturates_products():
    """Does onnxruntime, optimized, add pairs of int8 products in 16 bits here?

    On x86 without VNNI it does, and saturates: its results are then up to 31 steps from its own.
    """
    if platform.machine() not in ("x86_64", "AMD64"):
        return False
    information = Path("/proc/cpuinfo")
    return not information.exists() or "vnni" not in information.read_text()


@pytest.mark.draws(3)
@pytest.mark.oracle
@pytest.mark.parametrize(
    "optimize",
    [
        False,
        pytest.param(
            True,
            marks=pytest.mark.skipif(
                saturates_products(),
                reason="without VNNI onnxruntime, optimized, saturates sums of two products",
            ),
        ),
    ],
)
@pytest.mark.parametrize("name", TWINS)
def test_outputs_stay_within_steps_of_both_levels_of_onnxruntime(name, shared, optimize):
    path = shared / f"models/{name}.qdq.onnx"
    graph, inputs = load(path), images(4)
    ours = run(graph, inputs).astype(int)
    difference = np.abs(ours - onnxruntime_outputs(path, inputs, graph, optimize))
    assert difference.max() <= LARGEST_STEPS
    assert difference.mean() <= MEAN_STEPS

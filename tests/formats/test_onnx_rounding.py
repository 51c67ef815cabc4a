"""Pools, means and rescales of QDQ files round the real number once, as onnxruntime does."""

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcutrain.errors import UnsupportedError
from mcutrain.fixedpoint import multiplier_value, multiply_by_quantized_multiplier
from mcutrain.formats import as_format, load, write
from mcutrain.formats.onnx.read import load_onnx
from mcutrain.ir.graph import Graph
from mcutrain.ir.interpret import interpret
from mcutrain.ops.leaky_relu import LeakyRelu
from mcutrain.ops.pooling import AveragePool2D, Mean, ScaledAveragePool2D
from mcutrain.ops.rescale import Rescale
from mcutrain.oracle.onnxruntime import onnxruntime_outputs
from mcutrain.quant import multipliers
from tests.formats.onnx_builder import QdqModel

SHAPE = (1, 3, 7, 6)
SAMPLES = 8
NOISE = 1e-3
"""In steps: what the float32 of onnxruntime is off by, and more. Nearer to a half is a tie."""
RARE, UNBIASED = 0.001, 0.0005
"""Of thousands of numbers at drawn scales; the documents say what was found."""

scales = st.floats(2.0**-9, 2.0**-2, width=32)
zero_points = st.integers(-128, 127)
oracle = pytest.mark.oracle


class Drawn(NamedTuple):
    """A scale and zero point of the input, and of the output."""

    x: tuple[float, int]
    y: tuple[float, int]


# ------------------------------------------------------------------------------- what is computed


def average(model, x):
    return model.op("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2])


def average_with_borders(model, x):
    """Windows that hold 9, 6 and 4 numbers."""
    return model.op("AveragePool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])


def average_of_zeros_too(model, x):
    window = {"kernel_shape": [3, 2], "strides": [1, 2], "pads": [1, 0, 1, 0]}
    return model.op("AveragePool", x, count_include_pad=1, **window)


def positive_average(model, x):
    return model.op("Relu", average(model, x))


def largest(model, x):
    return model.op("MaxPool", x, kernel_shape=[2, 2], strides=[1, 2])


def global_average(model, x):
    return model.op("GlobalAveragePool", x)


def mean_of_rows(model, x):
    return model.op("ReduceMean", x, axes=[2], keepdims=1)


def concatenated(model, x):
    """Two scales: the input's, and three of it, at which nothing is a tie."""
    other = model.requantize(model.op("Relu", x), 3 * model.x_scale, -7)
    return model.op("Concat", x, other, axis=1)


def leaky(model, x):
    return model.op("LeakyRelu", x, alpha=0.3)


def rescaled(model, x):
    return model.op("Relu", x)


KINDS = {
    f.__name__: f
    for f in (
        average,
        average_with_borders,
        average_of_zeros_too,
        positive_average,
        largest,
        global_average,
        mean_of_rows,
        concatenated,
        leaky,
        rescaled,
    )
}
EQUAL_SCALES = {"average", "average_with_borders", "average_of_zeros_too", "positive_average"}
"""Where the scale stays these are TFLite's AVERAGE_POOL_2D; a quarter of 2 × 2 means are ties."""
each_kind = pytest.mark.parametrize("kind", KINDS)


def model_of(kind: str, drawn: Drawn, folder: Path) -> Path:
    model = QdqModel(SHAPE, *drawn.x)
    model.x_scale = np.float32(drawn.x[0])
    return model.save(folder / "m.onnx", model.requantize(KINDS[kind](model, model.x), *drawn.y))


def real_model_of(kind: str, drawn: Drawn, folder: Path) -> Path:
    """The same with the output as real numbers, in float32."""
    model = QdqModel(SHAPE, *drawn.x)
    model.x_scale = np.float32(drawn.x[0])
    return model.save(folder / "real.onnx", KINDS[kind](model, model.x))


def both(kind: str, drawn: Drawn, folder: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Our integers, onnxruntime's, and what it rounds: in steps of the output, unclipped."""
    import onnxruntime

    path = model_of(kind, drawn, folder)
    graph = load_onnx(path)
    (name,), (output,) = graph.inputs, graph.outputs
    rng = np.random.default_rng(int(drawn.x[0] * 1e6))
    x = rng.integers(-128, 128, (SAMPLES, *graph.tensors[name].type.shape[1:])).astype(np.int8)
    ours = np.concatenate([interpret(graph, {name: one[None]})[output] for one in x])
    theirs = onnxruntime_outputs(path, x, graph, optimize=False)
    session = onnxruntime.InferenceSession(real_model_of(kind, drawn, folder))
    real = []
    for one in x:
        given = (one[None].astype(np.float64) - drawn.x[1]) * np.float32(drawn.x[0])
        fed = np.moveaxis(given, -1, 1).astype(np.float32)
        real.append(np.moveaxis(session.run(None, {"input": fed})[0], 1, -1))
    steps = np.concatenate(real).astype(np.float64) / np.float32(drawn.y[0])
    return ours.astype(int), theirs.astype(int), steps.reshape(ours.shape)


@pytest.mark.draws(4)
@oracle
@each_kind
@settings(max_examples=12, deadline=None)
@given(x=st.tuples(scales, zero_points), y=st.tuples(scales, zero_points))
def test_what_differs_from_onnxruntime_is_a_tie(kind, x, y, tmp_path_factory):
    folder = tmp_path_factory.mktemp("rounding")
    ours, theirs, steps = both(kind, Drawn(x, y), folder)
    differs = ours != theirs
    assert np.abs(ours - theirs).max() <= 1
    from_half = np.abs(np.abs(steps - np.floor(steps)) - 0.5)
    assert from_half[differs].max(initial=0) < NOISE


@pytest.mark.draws(4)
@oracle
@each_kind
def test_few_numbers_differ_from_onnxruntime_and_their_mean_does_not(kind, tmp_path):
    """At scales as calibration gives them: none is a power of two of another."""
    rng = np.random.default_rng(3)
    found = []
    for _ in range(20):
        x, y = ((rng.uniform(0.005, 0.1), int(rng.integers(-128, 128))) for _ in range(2))
        ours, theirs, _ = both(kind, Drawn(x, y), tmp_path)
        found.append((ours - theirs).ravel())
    difference = np.concatenate(found)
    share = 100 * (difference != 0).mean()
    print(f"{kind:22} differs {share:.3f} % of {difference.size:,}, mean {difference.mean():+.5f}")
    assert (difference != 0).mean() < RARE
    assert abs(difference.mean()) < UNBIASED


# ----------------------------------------------------------------------------------- what is made


def test_an_average_under_another_scale_is_one_operator(tmp_path):
    graph = load_onnx(model_of("positive_average", Drawn((0.05, 3), (0.008, -128)), tmp_path))
    (node,) = graph.nodes
    assert isinstance(node.op, ScaledAveragePool2D)
    assert (node.op.low, node.op.shift) == (-128, 3)
    x = np.zeros((1, 7, 6, 3), np.int8)
    x[0, :2, :2, 0] = [[4, 5], [3, 3]]  # a mean of 0.75 steps of .05, which are 4.69 of .008
    y = interpret(graph, {graph.inputs[0]: x})[graph.outputs[0]]
    assert y[0, 0, 0].tolist() == [5 - 128, -128, -128]


def test_an_average_of_the_same_scale_is_tflites(tmp_path):
    graph = load_onnx(model_of("average", Drawn((0.05, 3), (0.05, 3)), tmp_path))
    assert [type(n.op) for n in graph.nodes] == [AveragePool2D]


def test_an_average_that_no_quantize_linear_follows_has_its_inputs_scale(tmp_path):
    model = QdqModel(SHAPE, 0.05, 3)
    y = model.op("MaxPool", average(model, model.x), kernel_shape=[1, 1])
    graph = load_onnx(model.save(tmp_path / "m.onnx", model.requantize(y, 0.05, 3)))
    assert type(graph.nodes[0].op) is AveragePool2D
    assert graph.tensors[graph.nodes[0].outputs[0]].type.scale == np.float32(0.05)


@pytest.mark.parametrize(
    ("kind", "op"), [("largest", Rescale), ("mean_of_rows", Mean), ("leaky", LeakyRelu)]
)
def test_no_multiplier_of_a_qdq_file_shifts_to_the_right(kind, op, tmp_path):
    graph = load_onnx(model_of(kind, Drawn((0.011, 0), (0.025, 4)), tmp_path))
    (found,) = [n.op for n in graph.nodes if type(n.op) is op]
    pairs = found.positive + found.negative if op is LeakyRelu else (found.mult_q31, found.shift)
    assert min(pairs[1::2]) == 0
    assert pairs[0] < 2**30


@given(real=st.floats(2.0**-24, 2.0**12), x=st.integers(-255, 255))
def test_a_multiplier_without_a_shift_to_the_right_rounds_the_real_product(real, x):
    mult, shift = multipliers.average_multiplier(real, 1.0, 1)
    assert shift >= 0
    assert abs(multiplier_value(mult, shift) - real) <= 2.0 ** (shift - 31)
    found = int(multiply_by_quantized_multiplier(np.array(x), mult, shift))
    assert abs(found - x * real) <= 0.5 + 255 * 2.0 ** (shift - 31)


def test_scales_whose_sums_overflow_are_refused(tmp_path):
    path = model_of("average", Drawn((1e9, 3), (1e6, 0)), tmp_path)
    load_onnx(path)  # 1,000 times a sum of four differences
    multipliers.average_multiplier(2.0**10, 1.0, 2**12)
    with pytest.raises(ValueError, match="its sums of 16384 numbers overflow 32 bits"):
        multipliers.average_multiplier(2.0**10, 1.0, 2**14)


@each_kind
def test_what_a_qdq_file_computes_is_written_and_read_back(kind, tmp_path):
    graph = load_onnx(model_of(kind, Drawn((0.011, 5), (0.025, -3)), tmp_path))
    assert write(graph, tmp_path / "again.onnx") == ""


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("average", r"node 'AveragePool_\d+': ScaledAveragePool2D has no operator in \.tflite"),
        (
            "largest",
            r"mult_q31 .*: TFLite rounds twice what \.onnx rounds once, write \.onnx",
        ),
    ],
)
def test_what_tflite_rounds_otherwise_is_not_written_there(kind, sentence, tmp_path):
    graph = load_onnx(model_of(kind, Drawn((0.011, 5), (0.025, -3)), tmp_path))
    with pytest.raises(UnsupportedError, match=sentence):
        write(graph, tmp_path / "m.tflite")
    assert not (tmp_path / "m.tflite").exists()


def twice_rounding(folder: Path) -> Graph:
    """Of a .tflite file's kind: its Rescale shifts to the right."""
    once = load_onnx(model_of("largest", Drawn((0.011, 5), (0.025, -3)), folder))
    given = (multipliers.single(0.011), 5), (multipliers.single(0.025), -3)
    tflites = multipliers.requantize(*given)
    return once.with_nodes(
        replace(n, op=tflites) if isinstance(n.op, Rescale) else n for n in once.nodes
    )


def test_a_file_of_tflites_rounding_says_so_and_keeps_the_bits_of_the_device(tmp_path):
    graph = twice_rounding(tmp_path)
    assert write(graph, tmp_path / "a.onnx") == ""
    assert load(tmp_path / "a.onnx").nodes[1].op == graph.nodes[1].op
    stated = onnx.load(tmp_path / "a.onnx").metadata_props
    assert [(s.key, s.value) for s in stated] == [("mcutrain.rounding", "twice")]


def test_what_is_quantized_for_onnx_rounds_once(tmp_path):
    graph = twice_rounding(tmp_path)
    assert as_format(graph, tmp_path / "b.tflite") is graph
    written = as_format(graph, tmp_path / "b.onnx")
    assert write(written, tmp_path / "b.onnx") == ""
    (found,) = [n.op for n in load(tmp_path / "b.onnx").nodes if isinstance(n.op, Rescale)]
    assert (found.shift, found.mult_q31) == (0, written.nodes[1].op.mult_q31)
    assert not onnx.load(tmp_path / "b.onnx").metadata_props

"""Samples in the order of the .onnx file give the outputs that onnxruntime gives for them.

The same samples reach the int8 file, of either format, as `simulate` and the others take them.
"""

import json

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from mcutrain import data, prepare
from mcutrain.errors import ModelError
from mcutrain.formats import load, patch, read_float, write
from mcutrain.formats.input_order import KEY
from mcutrain.formats.metadata import read_metadata
from mcutrain.ir.interpret import interpret
from mcutrain.oracle.onnxruntime import onnxruntime_outputs
from mcutrain.quant import QuantizeSettings
from mcutrain.quant.fake import snr_db
from mcutrain.runs.sample_reading import load_data, model_input, prepare_samples
from mcutrain.simulation import RunSettings
from tests.formats.onnx_builder import QdqModel
from tests.trained.networks import classifier

LEAST_DB = 15.0
"""int8 of such small networks is 20 to 50 dB from float; samples in another order are below 10."""
QUICK = QuantizeSettings("minmax", equalization="off", bias_correction="off")
SAMPLES, CLASSES, WIDTH = 10, 3, 6
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)  # shrinking takes minutes
LENGTHS = st.sampled_from([1, 2, 3, 5, 6, 6, 6])


class FloatNet:
    """Nodes on the input x, with random weights."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.constants = [], []

    def weights(self, *shape):
        scale = 1.5 / np.sqrt(np.prod(shape[1:]))
        return self.constant((scale * self.rng.standard_normal(shape)).astype(np.float32))

    def constant(self, array):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def op(self, kind, *inputs, **attributes):
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def dense(self, x, features):
        x = self.op("Flatten", x)
        x = self.op("Relu", self.op("MatMul", x, self.weights(features, WIDTH)))
        return self.op("MatMul", x, self.weights(WIDTH, CLASSES))

    def attention(self, x, tokens, features):
        q, k, v = (self.op("MatMul", x, self.weights(features, features)) for _ in range(3))
        scores = self.op("MatMul", q, self.op("Transpose", k, perm=[0, 2, 1]))
        mixed = self.op("MatMul", self.op("Softmax", scores, axis=-1), v)
        return self.dense(self.op("Add", mixed, x), tokens * features)

    def save(self, path, shape, output):
        value = helper.make_tensor_value_info
        graph = helper.make_graph(
            self.nodes,
            "net",
            [value("x", TensorProto.FLOAT, [1, *shape])],
            [value(output, TensorProto.FLOAT, [1, CLASSES])],
            self.constants,
        )
        opset = helper.make_opsetid("", 17)
        onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=8), path)
        return path


def conv(net, shape):
    """Of channels first, images or windows."""
    channels, *rest = shape
    x = "x"
    w = net.weights(4, channels, *(3 for _ in rest))
    x = net.op("Relu", net.op("Conv", x, w, pads=[1] * 2 * len(rest)))
    return net.dense(x, 4 * int(np.prod(rest)))


def pooled(net, shape):
    """The same, whose first operator has no weights."""
    channels, *rest = shape
    x = net.op("MaxPool", "x", kernel_shape=[3 for _ in rest], pads=[1] * 2 * len(rest))
    w = net.weights(4, channels, *(3 for _ in rest))
    x = net.op("Relu", net.op("Conv", x, w, pads=[1] * 2 * len(rest)))
    return net.dense(x, 4 * int(np.prod(rest)))


def dense(net, shape):
    return net.dense("x", int(np.prod(shape)))


def attention(net, shape):
    return net.attention("x", *shape)


def transposed(net, shape):
    """As converters from TensorFlow write it."""
    height, width, channels = shape
    x = net.op("Transpose", "x", perm=[0, 3, 1, 2])
    x = net.op("Relu", net.op("Conv", x, net.weights(4, channels, 3, 3), pads=[1] * 4))
    return net.dense(x, 4 * height * width)


def reshaped(net, shape):
    """The only channel, wherever it is, becomes the first."""
    height, width = shape[:2]
    x = net.op("Reshape", "x", net.constant(np.array([1, 1, height, width], np.int64)))
    x = net.op("Relu", net.op("Conv", x, net.weights(4, 1, 3, 3), pads=[1] * 4))
    return net.dense(x, 4 * height * width)


def unsqueezed(net, shape):
    """Images without an axis of channels get one: a convolution follows, but not over steps."""
    x = net.op("Unsqueeze", "x", net.constant(np.array([1], np.int64)))
    x = net.op("Relu", net.op("Conv", x, net.weights(4, 1, 3, 3), pads=[1] * 4))
    return net.dense(x, 4 * int(np.prod(shape)))


def shapes(rank):
    return st.tuples(*(LENGTHS for _ in range(rank)))


NETS = st.one_of(
    *(
        st.tuples(st.just(build), shapes(rank))
        for build, rank in (
            *((conv, 2), (conv, 3), (pooled, 2), (pooled, 3), (dense, 2), (dense, 3)),
            *((attention, 2), (transposed, 3), (unsqueezed, 2)),
        )
    ),
    st.tuples(st.just(reshaped), st.tuples(LENGTHS, LENGTHS, st.just(1))),
    st.tuples(st.just(reshaped), shapes(2)),
)
TURNED = (conv, pooled)


def samples_of(shape, seed=0):
    """Some axes much larger than others, so that another order is another input."""
    x = np.random.default_rng(seed).uniform(-1, 1, (SAMPLES, *shape))
    for axis, length in enumerate(shape):
        ramp = np.linspace(0.2, 1, length)
        x = x * ramp.reshape([-1 if i == axis + 1 else 1 for i in range(x.ndim)])
    return x.astype(np.float32)


def by_onnxruntime(path, x):
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 3, 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return np.concatenate([session.run(None, {"x": one[None]})[0] for one in x])


def quantized(source, x, path):
    """The int8 file, made as `quantize` makes it."""
    found = read_float(source)
    result = found.quantize(data.in_order(x, found.input_order), QUICK)
    assert write(result.graph, path) == ""
    return load(path)


def codes_of(graph, x):
    """What the graph takes, as `simulate` makes it of samples."""
    y = np.arange(len(x)) % 2
    split = load_data(graph, {"x_train": x, "y_train": y, "x_test": x, "y_test": y})
    made = prepare_samples(split, RunSettings(), model_input(graph))
    return made.test(0, len(x))


def outputs_of(graph, codes):
    (x,), y = graph.inputs, graph.outputs[0]
    shape = graph.tensors[x].type.shape
    found = np.concatenate([interpret(graph, {x: one.reshape(shape)})[y] for one in codes])
    kind = graph.tensors[y].type
    return (found.astype(np.float64) - kind.zero_point) * kind.scale


def net(build, shape, path, seed=1):
    made = FloatNet(seed)
    return made.save(path, shape, build(made, shape))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:samples are taken in the order of")
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), phases=PHASES)
@given(made=NETS, suffix=st.sampled_from([".tflite", ".onnx"]), seed=st.integers(0, 99))
def test_samples_in_the_files_order_give_onnxruntimes_outputs(made, suffix, seed, tmp_path_factory):
    build, shape = made
    folder = tmp_path_factory.mktemp("order")
    source = net(build, shape, folder / "m.onnx", seed)
    x = samples_of(shape, seed)
    graph = quantized(source, x, folder / f"m.int8{suffix}")
    codes = codes_of(graph, x)
    expected = by_onnxruntime(source, x)
    if np.ptp(expected) > 1e-3:
        assert snr_db(expected, outputs_of(graph, codes)) > LEAST_DB
    if suffix == ".onnx":
        stored = onnxruntime_outputs(folder / "m.int8.onnx", codes, graph, optimize=False)
        kind = graph.tensors[graph.outputs[0]].type
        theirs = (stored.astype(np.float64) - kind.zero_point) * kind.scale
        assert np.abs(theirs - outputs_of(graph, codes)).max() <= 3 * kind.scale
        assert model_shape_of(folder / "m.int8.onnx") == shape  # who runs one can run the other


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), phases=PHASES)
@given(made=NETS)
def test_only_what_convolves_is_turned(made, tmp_path_factory):
    build, shape = made
    found = read_float(net(build, shape, tmp_path_factory.mktemp("order") / "m.onnx"))
    order = found.input_order
    assert order.shape == shape
    assert order.model_shape == found.network.input_shape[1:]
    is_image = len(shape) == 3 and shape[2] not in (1, 3) and build is dense
    if build in TURNED or is_image:
        assert order.model_shape == (*shape[1:], shape[0])
    else:
        assert not order.is_turned
        assert order.model_shape == shape or (len(shape) == 3 and shape[0] == 1)


def model_shape_of(path):
    (info,) = onnx.load(path).graph.input
    return tuple(d.dim_value for d in info.type.tensor_type.shape.dim)[1:]


@pytest.fixture
def square(tmp_path):
    """A float file of windows, channels first, as long as they are wide."""
    return net(conv, (6, 6), tmp_path / "m.onnx")


def test_a_tflite_file_says_how_its_input_was_turned(square, tmp_path):
    path = tmp_path / "m.tflite"
    graph = quantized(square, samples_of((6, 6)), path)
    said = json.loads(read_metadata(path)[KEY])
    assert said == {"file": "m.onnx", "shape": [6, 6], "axes": [1, 0]}
    assert graph.input_order == data.InputOrder("m.onnx", (6, 6), (1, 0))


@pytest.mark.parametrize(("build", "shape"), [(dense, (6, 6)), (conv, (1, 6, 6))])
def test_a_file_whose_numbers_lie_as_the_users_says_nothing(build, shape, tmp_path):
    path = tmp_path / "m.tflite"
    quantized(net(build, shape, tmp_path / "m.onnx"), samples_of(shape), path)
    assert KEY not in read_metadata(path)


def test_an_onnx_file_that_keeps_the_order_says_nothing(square, tmp_path):
    path = tmp_path / "m.int8.onnx"
    graph = quantized(square, samples_of((6, 6)), path)
    assert KEY not in read_metadata(path)
    assert graph.input_order == data.InputOrder("m.int8.onnx", (6, 6), (1, 0))


def test_what_a_file_says_outlives_writing_patching_and_the_other_format(square, tmp_path):
    first, x = tmp_path / "m.tflite", samples_of((6, 6))
    graph = quantized(square, x, first)
    expected = codes_of_silently(graph, x)
    patched, again, other = (tmp_path / n for n in ("p.tflite", "again.tflite", "o.onnx"))
    assert patch(first, graph, graph, patched) == ""
    write(graph, again)
    write(graph, other)
    for path in (patched, again, other):
        assert np.array_equal(codes_of_silently(load(path), x), expected), path
    write(load(other), tmp_path / "back.tflite")
    assert load(tmp_path / "back.tflite").input_order.axes == (1, 0)


def test_a_tflite_files_own_order_outlives_onnx(tmp_path, square):
    """The .onnx file has channels first; who holds samples for the .tflite file need not know."""
    path = tmp_path / "m.tflite"
    graph = quantized(square, samples_of((6, 6)), path)
    bare = data.InputOrder.own((6, 6))
    own = type(graph)(graph.name, graph.tensors, graph.nodes, graph.inputs, graph.outputs)
    write(own, tmp_path / "own.tflite")
    assert KEY not in read_metadata(tmp_path / "own.tflite")
    write(load(tmp_path / "own.tflite"), tmp_path / "own.onnx")
    found = load(tmp_path / "own.onnx")
    x = samples_of((6, 6))
    assert found.input_order.axes == bare.axes
    assert np.array_equal(codes_of(found, x), codes_of(own, x))
    stored = onnxruntime_outputs(tmp_path / "own.onnx", codes_of(own, x), found, optimize=False)
    kind = found.tensors[found.outputs[0]].type
    theirs = (stored.astype(np.float64) - kind.zero_point) * kind.scale
    assert np.abs(theirs - outputs_of(own, codes_of(own, x))).max() <= 3 * kind.scale


def test_an_onnx_file_made_of_a_tflite_file_speaks_of_squares_alone(tmp_path):
    """Elsewhere shapes tell samples of either file's order."""
    path = tmp_path / "m.tflite"
    path.write_bytes(classifier())
    graph = load(path)
    write(graph, tmp_path / "m.onnx")
    assert KEY not in read_metadata(tmp_path / "m.onnx")
    found = load(tmp_path / "m.onnx")
    x = np.random.default_rng(0).integers(0, 256, (4, 6, 6, 3), np.uint8)
    for either in (x, np.moveaxis(x, -1, 1)):
        assert np.array_equal(codes_of(found, either), codes_of(graph, x))


def codes_of_silently(graph, x):
    with pytest.warns(match=r"samples are taken in the order of .*: \(channels, steps\)"):
        return codes_of(graph, x)


def test_a_training_step_takes_samples_as_its_model_does(square, tmp_path):
    graph = quantized(square, samples_of((6, 6)), tmp_path / "m.tflite")
    step = prepare(graph, "last:1", classes=5)
    assert model_input(step).order == graph.input_order
    (project,) = [f for f in step.project.files if f.endswith("manifest.json")]
    said = json.loads(step.project.files[project])["sample_order"]
    assert said == {"file": "m.onnx", "shape": [6, 6], "axes": [1, 0]}


def test_a_qdq_file_takes_samples_in_its_own_order(tmp_path):
    """Read directly, with nothing said of it."""
    model = QdqModel((1, 6, 6))
    rng = np.random.default_rng(0)
    w = model.dequantized(rng.integers(-99, 99, (4, 6, 3)).astype(np.int8), [0.01] * 4)
    x = model.requantize(model.op("Conv", model.x, w, pads=[1, 1]), 0.1, 0)
    y = model.requantize(model.op("GlobalAveragePool", x), 0.1, 0)
    graph = load(model.save(tmp_path / "m.onnx", y))
    x = rng.integers(-128, 128, (4, 6, 6)).astype(np.int8)
    with pytest.warns(match="in the order of m.onnx"):
        codes = codes_of(graph, x)
    assert np.array_equal(codes.reshape(4, 6, 6), x.transpose(0, 2, 1))
    real = ((x.astype(np.float32) - 3) * np.float32(0.05))[:, None]
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"))
    theirs = np.stack([session.run(None, {"input": one})[0].ravel() for one in real])
    found = outputs_of(graph, codes).reshape(4, -1)
    assert np.abs(found - theirs).max() <= 0.1 + 1e-6


@pytest.mark.parametrize(
    "entry",
    [
        b"{",
        b"[]",
        b"{}",
        b'{"file": 1, "shape": [6, 6], "axes": [1, 0]}',
        b'{"file": "m", "shape": [6, 6], "axes": [1, 1]}',
        b'{"file": "m", "shape": [6, 6], "axes": [1.0, 0]}',
        b'{"file": "m", "shape": [-6, -6], "axes": [1, 0]}',
        b'{"file": "m", "shape": [4, 9], "axes": [1, 0]}',
        b'{"file": "m", "shape": [6, 6, 1], "axes": [1, 0, 2]}',
        b'{"file": "m", "shape": 6, "axes": [1, 0]}',
        b"\xff\xfe" * 9,
        b"[" * 100_000,
    ],
)
def test_an_entry_that_does_not_fit_is_one_sentence(entry, square, tmp_path):
    graph = quantized(square, samples_of((6, 6)), tmp_path / "m.tflite")
    bare = type(graph)(graph.name, graph.tensors, graph.nodes, graph.inputs, graph.outputs)
    path = tmp_path / "odd.tflite"
    write(bare, path, metadata={KEY: entry})
    with pytest.raises(ModelError, match=r"odd\.tflite: its metadata mcutrain\.input"):
        load(path)

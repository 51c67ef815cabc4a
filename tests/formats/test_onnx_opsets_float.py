"""One float network as exporters wrote it in opset 7 and later: the same int8 file from each."""

from collections import Counter

import numpy as np
import onnx
import pytest
from onnx import helper, version_converter

from mcutrain.errors import ModelError, UnsupportedError
from mcutrain.formats import read_float
from mcutrain.formats.onnx.read_float import read_onnx
from mcutrain.formats.tflite.write import write_tflite
from mcutrain.ir.interpret import interpret
from mcutrain.oracle.original import compare_with_original
from mcutrain.quant import QuantizeSettings
from tests.quant.networks import OnnxNetwork

OLD = (7, 8, 9, 10, 11, 12)
NEW = (13, 17, 18, 21)
SAMPLES = np.random.default_rng(1).normal(0, 1, (12, 10, 8, 3))
SETTINGS = QuantizeSettings("minmax")
PADS = [0, 0, 1, 0, 0, 0, 1, 2]


class Written(OnnxNetwork):
    """Grows with each operator in the form that its opset has, and under the same name."""

    def __init__(self, shape, opset):
        super().__init__(shape, opset)
        self.count = Counter()

    def _name(self, stem):
        self.count[stem] += 1
        return f"{stem}_{self.count[stem]}"

    def moved(self, op_type, x, since, **values):
        """An operator whose attributes are inputs since that opset; 32-bit reals, 64-bit axes."""
        if self.opset < since:
            return self.op(op_type, x, **values)
        kinds = {True: np.float32, False: np.int64}
        arrays = [np.array(v, kinds[isinstance(v, float)]) for v in values.values()]
        return self.op(op_type, x, *[self.constant(array) for array in arrays])

    def mean(self, x):
        if self.opset < 18:
            return self.op("ReduceMean", x, axes=[2, 3], keepdims=0)
        axes = self.constant(np.array([2, 3], np.int64))
        return self.op("ReduceMean", x, axes, keepdims=0)

    def flat_size(self, x):
        """[1, -1] as torch writes it: by Shape, Slice, Squeeze, Unsqueeze and Concat."""
        shape = self.op("Shape", x)
        first = self.moved("Slice", shape, 10, starts=[0], ends=[1], axes=[0])
        batch = self.moved("Squeeze", first, 13, axes=[0])
        parts = [self.moved("Unsqueeze", batch, 13, axes=[0])]
        parts.append(self.op("Constant", value=onnx.numpy_helper.from_array(np.array([-1]))))
        return self.op("Concat", *parts, axis=0)


def network(opset, path, inputs_too=False):
    net = Written([1, 3, 10, 8], opset)
    x = net.moved("Pad", "input", 11, pads=PADS, value=0.25)
    x = net.batch_norm(net.conv(x, 3, 6, 3, 2, pads=[0] * 4), 6)
    x = net.moved("Clip", x, 11, min=0.0, max=6.0)
    gate = net.moved("Unsqueeze", net.mean(x), 13, axes=[2, 3])
    x = net.op("Mul", x, net.op("Sigmoid", net.conv(gate, 6, 6, 1)))
    x = net.moved("Clip", net.conv(x, 6, 8, bias=True), 11, min=0.0)
    y = net.moved("Squeeze", net.op("GlobalAveragePool", x), 13, axes=[2, 3])
    y = net.moved("Dropout", y, 12, ratio=0.3)
    x = net.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = net.op("Concat", net.op("Reshape", x, net.flat_size(x)), y, axis=1)
    output = net.op("Softmax", net.gemm(x, 40, 5), axis=1)
    proto = net.proto(output)
    if inputs_too:  # as IR version 3 demands, which exporters wrote until 2019
        proto.ir_version = 3
        value = helper.make_tensor_value_info
        proto.graph.input.extend(
            [value(t.name, t.data_type, list(t.dims)) for t in proto.graph.initializer]
        )
    onnx.save(proto, path)
    return path


def int8_file(path):
    """The int8 graph and the bytes of its .tflite file."""
    graph = read_float(path).quantize(SAMPLES, SETTINGS).graph
    written = path.with_suffix(".tflite")
    write_tflite(graph, written)
    return graph, written.read_bytes()


@pytest.fixture(scope="module")
def newest(tmp_path_factory):
    return int8_file(network(NEW[-1], tmp_path_factory.mktemp("newest") / "model.onnx"))


@pytest.mark.draws(4)
@pytest.mark.parametrize("opset", [*OLD, *NEW])
def test_every_opset_gives_the_same_int8_file(opset, newest, tmp_path):
    pytest.importorskip("onnxruntime")
    path = network(opset, tmp_path / "model.onnx")
    assert compare_with_original(read_float(path), SAMPLES).endswith("dB to onnxruntime")
    assert int8_file(path)[1] == newest[1]


def test_initializers_may_be_listed_as_inputs(newest, tmp_path):
    assert int8_file(network(8, tmp_path / "model.onnx", inputs_too=True))[1] == newest[1]


@pytest.mark.parametrize("opset", OLD)
def test_onnxs_own_converter_gives_the_same_int8_network(opset, newest, tmp_path):
    path = tmp_path / "model.onnx"
    converted = version_converter.convert_version(onnx.load(network(opset, path)), 13)
    onnx.save(converted, path)  # with other names
    graphs = newest[0], int8_file(path)[0]
    x = np.random.default_rng(2).integers(-128, 128, (1, 10, 8, 3)).astype(np.int8)
    found = [interpret(g, {g.inputs[0]: x})[g.outputs[0]] for g in graphs]
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("opset", [6, 29])
def test_other_opsets_are_refused(opset, tmp_path):
    net = OnnxNetwork([1, 3, 4, 4], opset)
    with pytest.raises(UnsupportedError, match=f"opset {opset}; 7 to 28 are supported"):
        read_onnx(net.save(tmp_path / "model.onnx", net.op("Relu", "input")))


def clip_with_attributes(net):
    return net.op("Clip", "input", min=0.0, max=6.0)


def clip_with_both(net):
    return net.op("Clip", "input", net.real(0.0), max=6.0)


def training_batch_norm(net):
    x = net.batch_norm("input", 3)
    net.nodes[-1].output.extend(["mean", "variance", "saved_mean", "saved_variance"])
    return x


def batch_norm_per_pixel(net):
    numbers = [net.real(np.ones((3, 4, 4))) for _ in range(4)]
    return net.op("BatchNormalization", "input", *numbers, spatial=0)


def softmax_over_an_image(net):
    return net.op("Softmax", "input")


@pytest.mark.parametrize(
    ("opset", "make", "words"),
    [
        (11, clip_with_attributes, "attribute max is not"),
        (10, clip_with_both, "min and max twice"),
        (9, training_batch_norm, "training mode"),
        (8, batch_norm_per_pixel, "spatial 0"),
        (12, softmax_over_an_image, "one over 48 numbers"),
    ],
)
def test_what_an_opset_does_not_have_is_named(opset, make, words, tmp_path):
    net = OnnxNetwork([1, 3, 4, 4], opset)
    with pytest.raises(ModelError, match=words):
        read_onnx(net.save(tmp_path / "model.onnx", make(net)))


@pytest.mark.parametrize("shape", [[1, 5], [1, 5, 1, 1], [1, 1, 1, 5]])
def test_an_old_softmax_is_over_the_one_axis_that_is_long(shape, tmp_path):
    pytest.importorskip("onnxruntime")
    net = OnnxNetwork(shape, 11)
    path = net.save(tmp_path / "model.onnx", net.op("Softmax", net.op("Relu", "input")))
    model = read_float(path)
    x = np.random.default_rng(0).normal(0, 1, (3, *model.network.input_shape[1:]))
    assert compare_with_original(model, x).endswith("dB to onnxruntime")

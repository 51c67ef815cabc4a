"""Float models fixed to a batch of several samples: one sample of each, as onnxruntime's batch."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mcutrain.errors import UnsupportedError
from mcutrain.formats import read_float
from mcutrain.formats.onnx.batch import with_one_sample
from mcutrain.oracle.original import compare_with_original

BATCH, LENGTH, WIDTH = 3, 4, 6
IMAGE, ROWS = (BATCH, 2, 5, 5), (BATCH, LENGTH, WIDTH)
CLOSE = 1e-4
RNG = np.random.default_rng(3)


class Fixed:
    """A model on the input x, fixed to BATCH."""

    def __init__(self, shape, opset=17):
        self.opset = opset
        self.shape, self.nodes, self.constants = shape, [], []

    def constant(self, array):
        name = f"c{len(self.constants)}"
        data = np.asarray(array)
        self.constants.append(numpy_helper.from_array(data, name))
        return name

    def real(self, *shape):
        return self.constant(RNG.normal(0, 0.5, shape).astype(np.float32))

    def integers(self, *numbers):
        return self.constant(np.array(numbers, np.int64))

    def op(self, kind, *inputs, **attributes):
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name=f"n_{name}", **attributes))
        return name

    def save(self, path):
        value = helper.make_tensor_value_info
        graph = helper.make_graph(
            self.nodes,
            "fixed",
            [value("x", TensorProto.FLOAT, self.shape)],
            [value(self.nodes[-1].output[0], TensorProto.FLOAT, None)],
            self.constants,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)])
        model.ir_version = 8
        model = onnx.shape_inference.infer_shapes(model)
        onnx.save(model, path)
        return path


def cnn():
    m = Fixed(IMAGE)
    x = m.op("Relu", m.op("Conv", "x", m.real(4, 2, 3, 3), m.real(4)))
    row = m.op("Reshape", x, m.integers(BATCH, -1))
    m.op("Gemm", row, m.real(3, 36), m.real(3), transB=1)
    return m


def constants_for_each_sample():
    """Broadcast by the exporter to the whole batch."""
    m = Fixed(ROWS)
    position = np.broadcast_to(RNG.normal(0, 1, (1, LENGTH, WIDTH)), ROWS).astype(np.float32)
    x = m.op("Add", "x", m.constant(position))
    token = np.broadcast_to(RNG.normal(0, 1, (1, 1, WIDTH)), (BATCH, 1, WIDTH)).astype(np.float32)
    x = m.op("Concat", m.constant(token), x, axis=1)
    m.op("Gemm", m.op("Gather", x, m.constant(np.int64(0)), axis=1), m.real(WIDTH, 3))
    return m


def attention():
    """qkv in one product, split by a Gather behind a Transpose that moves the batch."""
    m = Fixed(ROWS)
    qkv = m.op("MatMul", "x", m.real(WIDTH, 3 * WIDTH))
    qkv = m.op("Reshape", qkv, m.integers(BATCH, LENGTH, 3, 2, 3))
    qkv = m.op("Transpose", qkv, perm=[2, 0, 3, 1, 4])
    q, k, v = (m.op("Gather", qkv, m.constant(np.int64(i)), axis=0) for i in range(3))
    scores = m.op("MatMul", q, m.op("Transpose", k, perm=[0, 1, 3, 2]))
    y = m.op("MatMul", m.op("Softmax", scores, axis=-1), v)
    y = m.op("Transpose", y, perm=[0, 2, 1, 3])
    y = m.op("Reshape", y, m.integers(BATCH, LENGTH, WIDTH))
    m.op("Gemm", m.op("ReduceMean", y, axes=[1], keepdims=0), m.real(WIDTH, 3))
    return m


def squeezed():
    m = Fixed(ROWS)
    x = m.op("Transpose", "x", perm=[0, 2, 1])
    x = m.op("Conv", m.op("Unsqueeze", x, m.integers(2)), m.real(4, WIDTH, 1, 3))
    x = m.op("Squeeze", x, m.integers(2))
    m.op("Gemm", m.op("Flatten", x), m.real(8, 3))
    return m


def softmax_before_opset_13():
    """Over the last axis alone, and over the one axis from 1 on."""
    m = Fixed(ROWS, opset=12)
    x = m.op("Softmax", "x", axis=2)
    m.op("Softmax", m.op("Reshape", x, m.integers(BATCH, -1)))
    return m


@pytest.mark.oracle
@pytest.mark.parametrize(
    "make", [cnn, constants_for_each_sample, attention, squeezed, softmax_before_opset_13]
)
def test_a_sample_alone_computes_what_it_does_in_the_batch(tmp_path, make):
    onnxruntime = pytest.importorskip("onnxruntime")
    path = make().save(tmp_path / "m.onnx")
    x = RNG.normal(0, 1, make().shape).astype(np.float32)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    wanted = session.run(None, {"x": x})[0]
    model = read_float(path)
    network = model.network
    axes = network.file_axes[network.input]
    back = np.argsort(axes)
    for sample, expected in zip(x, wanted, strict=True):
        found = network.run(sample[None].transpose(back))[0]
        assert np.abs(found.ravel() - expected.ravel()).max() < CLOSE
    assert float(compare_with_original(model, x.transpose(back)).split()[0]) > 100


def joined_with_positions():
    m = Fixed(ROWS)
    m.op("Gemm", m.op("Reshape", "x", m.integers(-1, WIDTH * BATCH)), m.real(WIDTH * BATCH, 3))
    return m


def batch_in_the_middle():
    m = Fixed(ROWS)
    x = m.op("Transpose", "x", perm=[1, 0, 2])
    m.op("Reshape", x, m.integers(LENGTH, BATCH * WIDTH))
    return m


def softmax_of_samples():
    m = Fixed((BATCH, WIDTH))
    m.op("Softmax", "x", axis=0)
    return m


def products_of_samples():
    m = Fixed((BATCH, WIDTH))
    m.op("MatMul", "x", m.op("Transpose", "x", perm=[1, 0]))
    return m


def mean_of_samples():
    m = Fixed(ROWS)
    m.op("Sub", "x", m.op("ReduceMean", "x", axes=[0]))
    return m


def picked_sample():
    m = Fixed(ROWS)
    m.op("Gather", "x", m.constant(np.int64(1)), axis=0)
    return m


def numbers_of_their_own():
    m = Fixed(ROWS)
    m.op("Add", "x", m.real(*ROWS))
    return m


def batch_against_positions():
    m = Fixed((BATCH, BATCH, WIDTH))
    m.op("Add", "x", m.op("Transpose", "x", perm=[1, 0, 2]))
    return m


def softmax_of_all_behind():
    """Of opset 12: over the axes from 1 on, the batch among them."""
    m = Fixed(ROWS, opset=12)
    x = m.op("Transpose", "x", perm=[1, 2, 0])
    m.op("Transpose", m.op("Softmax", x), perm=[2, 0, 1])
    return m


def softmax_of_all_by_name():
    m = Fixed(ROWS, opset=12)
    x = m.op("Transpose", "x", perm=[1, 0, 2])
    m.op("Transpose", m.op("LogSoftmax", x, axis=-2), perm=[1, 0, 2])
    return m


def mean_of_no_axes():
    """An empty list is all axes."""
    m = Fixed(ROWS)
    m.op("Sub", "x", m.op("ReduceMean", "x"))
    axes = helper.make_attribute("axes", [], attr_type=onnx.AttributeProto.INTS)
    m.nodes[0].attribute.append(axes)
    return m


def unknown():
    m = Fixed((BATCH, WIDTH))
    m.op("CumSum", "x", m.constant(np.int64(0)))
    return m


MIXED = {
    joined_with_positions: "Reshape (node 'n_t0') joins the batch with other axes",
    batch_in_the_middle: "Reshape (node 'n_t1') joins the batch with other axes",
    softmax_of_samples: "Softmax (node 'n_t0') mixes samples",
    products_of_samples: "MatMul (node 'n_t1') multiplies samples with each other",
    mean_of_samples: "ReduceMean (node 'n_t0') mixes samples",
    picked_sample: "Gather (node 'n_t0') picks samples",
    numbers_of_their_own: "Add (node 'n_t0') reads 'c0', which differs by sample",
    batch_against_positions: "Add (node 'n_t1') combines samples along different axes",
    softmax_of_all_behind: "Softmax (node 'n_t1') mixes samples",
    softmax_of_all_by_name: "LogSoftmax (node 'n_t1') mixes samples",
    mean_of_no_axes: "ReduceMean (node 'n_t0') mixes samples",
    unknown: "CumSum (node 'n_t0') may mix samples",
}


@pytest.mark.parametrize("make", MIXED, ids=lambda make: make.__name__)
def test_what_mixes_samples_is_refused_with_the_node(tmp_path, make):
    with pytest.raises(UnsupportedError) as found:
        read_float(make().save(tmp_path / "m.onnx"))
    said = f"the model is fixed to a batch of {BATCH}, and {MIXED[make]}: export the model with"
    assert said in str(found.value)


def test_a_model_of_one_sample_is_left_alone(tmp_path):
    m = cnn()
    m.shape = (1, *IMAGE[1:])
    m.constants[2] = numpy_helper.from_array(np.array([1, -1]), "c2")
    model = onnx.load(m.save(tmp_path / "m.onnx"))
    assert with_one_sample(model) is model

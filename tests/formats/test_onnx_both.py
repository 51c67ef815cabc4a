"""Every ONNX operator that is read in both ways: the same network as float and as int8."""

import numpy as np
import onnx
import pytest

from mcutrain.formats.onnx.operators import OPERATORS
from mcutrain.formats.onnx.read import load_onnx
from mcutrain.formats.onnx.read_float import read_onnx
from mcutrain.ir.interpret import interpret
from mcutrain.oracle.onnxruntime import onnxruntime_outputs
from mcutrain.quant.fake import snr_db
from tests.formats.onnx_builder import QdqModel
from tests.quant.networks import OnnxNetwork

pytestmark = pytest.mark.oracle

SHAPE = (1, 4, 6, 5)
STEP = 1  # both round the same real number, we in fixed point
LEAST_DB = 100.0  # float32 sums in another order
OPSET = 20  # the first with Gelu
OTHERS = {"Upsample", "RMSNormalization", "SimplifiedLayerNormalization", "LSTM", "GRU"}
"""Not of OPSET, or of one integer operand alone: held against onnxruntime elsewhere."""
POOL = {"kernel_shape": [3, 2], "strides": [2, 2], "ceil_mode": 1}
RNG = np.random.default_rng(0)
KERNEL = RNG.integers(-127, 128, (3, 4, 3, 2)).astype(np.int8)
MATRIX = RNG.integers(-127, 128, (120, 3)).astype(np.int8)


def simple(op_type, *constants, **attributes):
    """An operator on x and constants."""

    def grow(net, x, weight):
        arrays = [np.asarray(constant) for constant in constants]
        kinds = {"i": np.int64, "f": np.float32}
        given = [net.constant(array.astype(kinds[array.dtype.kind])) for array in arrays]
        return net.op(op_type, x, *given, **attributes)

    return grow


def normalized(op_type, count, **attributes):
    """By statistics of x, then one factor and one shift, which int8 files may have."""

    def grow(net, x, weight):
        own = [net.constant(np.full(count, value, np.float32)) for value in (0.7, -0.1)]
        return net.op(op_type, x, *own, **attributes)

    return grow


def positive(net, x):
    """Away from 0."""
    y = net.op("Add", net.op("Sigmoid", x), net.constant(np.float32(0.5)))
    return net.requantize(y, 0.01, -120) if isinstance(net, QdqModel) else y


def of_a_row(op_type):
    """Of all numbers and a matrix."""
    return lambda net, x, weight: net.op(op_type, net.op("Flatten", x), weight(MATRIX))


def there_and_back(net, x, weight):
    there, back = (net.constant(np.array([0], np.int64)) for _ in "ab")
    return net.op("Relu", net.op("Squeeze", net.op("Unsqueeze", x, there), back))


def scaled_rows(net, x, weight):
    """A layer over channels, as ConvNeXt has it, and a factor for each of them."""
    rows = net.op("MatMul", net.op("Transpose", x, perm=[0, 2, 3, 1]), weight(MATRIX[:4]))
    if isinstance(net, QdqModel):
        rows = net.requantize(rows, 0.05, -2)
    factors = net.constant(np.float32([[[0.5]], [[1.5]], [[-1.0]]]))
    return net.op("Mul", net.op("Transpose", rows, perm=[0, 3, 1, 2]), factors)


def number_first(net, x, weight):
    return net.op("Min", net.constant(np.float32(0.9)), x)


def gathered(net, x, weight):
    """One row of each channel, the last but one; its axis goes and comes back."""
    row = net.op("Gather", x, net.constant(np.array(-2, np.int64)), axis=2)
    return net.op("Unsqueeze", row, net.constant(np.array([2], np.int64)))


def folded_number(net, x, weight):
    number = net.op("Mul", weight(np.array([40], np.int8)), net.constant(np.float32([2.0])))
    return net.op("Add", x, number)


def with_itself(net, x, weight):
    return net.op("MatMul", x, net.op("Transpose", x, perm=[0, 1, 3, 2]))


def upsampled(*kernel, bias=False, **attributes):
    """A ConvTranspose to 3 channels."""
    w = RNG.integers(-128, 128, (4, 3, *kernel)).astype(np.int8)
    b = [RNG.normal(0, 1, 3).astype(np.float32)] if bias else []
    return lambda net, x, weight: net.op(
        "ConvTranspose", x, weight(w), *map(net.constant, b), **attributes
    )


def of_positive(op_type):
    return lambda net, x, weight: net.op(op_type, positive(net, x))


CASES = {
    "Abs": simple("Abs"),
    "Add": simple("Add", 0.4),
    "Add of a folded number": folded_number,
    "AveragePool": simple("AveragePool", **POOL, pads=[1, 1, 0, 0], count_include_pad=1),
    "Cast": simple("Cast", to=onnx.TensorProto.FLOAT),
    "Clip": simple("Clip", 0.5, 1.5),
    "Clip below 0": simple("Clip", -1.5, -0.25),
    "Concat": lambda net, x, weight: net.op("Concat", x, x, axis=1),
    "Conv": lambda net, x, weight: net.op("Conv", x, weight(KERNEL), auto_pad="SAME_LOWER"),
    "ConvTranspose": upsampled(2, 2, bias=True, strides=[2, 2]),
    "ConvTranspose of a window of 3": upsampled(
        *(3, 3), bias=True, strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1]
    ),
    "ConvTranspose of a window of 4": upsampled(4, 4, strides=[2, 2], pads=[1, 1, 1, 1]),
    "ConvTranspose of one stride": upsampled(3, 2, pads=[2, 0, 0, 1]),
    "ConvTranspose of two strides": upsampled(3, 5, bias=True, strides=[3, 2], pads=[0, 2, 1, 4]),
    "ConvTranspose to the same": upsampled(5, 3, strides=[3, 2], auto_pad="SAME_UPPER"),
    "ConvTranspose to the same, lower": upsampled(4, 3, strides=[3, 2], auto_pad="SAME_LOWER"),
    "ConvTranspose to a shape": upsampled(5, 4, strides=[2, 2], output_shape=[13, 11]),
    "Div": simple("Div", 1.6),
    "Dropout": simple("Dropout"),
    "Einsum": lambda net, x, weight: net.op("Einsum", x, x, equation="abcd,abed->aebc"),
    "DepthToSpace": simple("DepthToSpace", blocksize=2),
    "DepthToSpace of rows": simple("DepthToSpace", blocksize=2, mode="CRD"),
    "Elu": simple("Elu"),
    "Erf": simple("Erf"),
    "Expand": simple("Expand", [1, 4, 6, 5]),
    "Exp": simple("Exp"),
    "Flatten": of_a_row("MatMul"),
    "Gelu": simple("Gelu"),
    "Gelu of a tanh": simple("Gelu", approximate="tanh"),
    "Gather": simple("Gather", [0, 2, 4], axis=3),
    "Gather of one": gathered,
    "Gemm": of_a_row("Gemm"),
    "GlobalAveragePool": simple("GlobalAveragePool"),
    "GlobalMaxPool": simple("GlobalMaxPool"),
    "GroupNormalization": normalized("GroupNormalization", 2, num_groups=2),
    "HardSigmoid": simple("HardSigmoid", alpha=0.3, beta=0.4),
    "HardSwish": simple("HardSwish"),
    "Identity": simple("Identity"),
    "InstanceNormalization": normalized("InstanceNormalization", 4),
    "LayerNormalization": simple("LayerNormalization", *RNG.normal(0, 1, (2, 5)), epsilon=1e-3),
    "LayerNormalization of all": simple(
        "LayerNormalization", *RNG.normal(0, 1, (2, 4, 6, 5)), axis=1
    ),
    "LayerNormalization of images": simple("LayerNormalization", RNG.normal(0, 1, (6, 1)), axis=2),
    "LayerNormalization of channels": lambda net, x, weight: net.op(
        "Transpose",
        simple("LayerNormalization", *RNG.normal(0, 1, (2, 4)))(
            net, net.op("Transpose", x, perm=[0, 2, 3, 1]), weight
        ),
        perm=[0, 3, 1, 2],
    ),
    "LeakyRelu": simple("LeakyRelu", alpha=0.2),
    "Log": of_positive("Log"),
    "MatMul": of_a_row("MatMul"),
    "MatMul of two": with_itself,
    "Max": simple("Max", -0.7),
    "Max above 0": simple("Max", 0.7),
    "MaxPool": simple("MaxPool", **POOL),
    "Min": simple("Min", 0.9),
    "Min of a number and x": number_first,
    "Mish": simple("Mish"),
    "Mul": simple("Mul", -0.8),
    "Mul of channels behind rows": scaled_rows,
    "Neg": simple("Neg"),
    "PRelu": simple("PRelu", [[[0.25]]] * 4),
    "Pad": simple("Pad", [0, 0, 1, 2, 0, 0, 0, 1]),
    "Reciprocal": of_positive("Reciprocal"),
    "ReduceMax": simple("ReduceMax", [2, 3]),
    "ReduceMean": simple("ReduceMean", [2, 3]),
    "ReduceMean of rows": simple("ReduceMean", [2]),
    "ReduceMean of columns": simple("ReduceMean", [-1], keepdims=0),
    "ReduceMean of channels": simple("ReduceMean", [1]),
    "ReduceMean of channels and rows": simple("ReduceMean", [1, 2], keepdims=0),
    "ReduceMean of all": simple("ReduceMean", [1, 2, 3]),
    "ReduceSum": simple("ReduceSum", [2, 3]),
    "ReduceSum of rows": simple("ReduceSum", [2], keepdims=0),
    "ReduceSum of channels": simple("ReduceSum", [1]),
    "Relu": simple("Relu"),
    "Reshape": simple("Reshape", [1, 4, 10, 3]),
    "Resize": simple("Resize", np.zeros(0), [1.0, 1.0, 2.0, 2.0], mode="linear"),
    "Selu": simple("Selu"),
    "Sigmoid": simple("Sigmoid"),
    "Slice": simple("Slice", [1, -5], [4, 100], [1, 3], [1, 2]),
    "Softmax": simple("Softmax", axis=1),
    "Softplus": simple("Softplus"),
    "SpaceToDepth": lambda net, x, weight: net.op(
        "SpaceToDepth",
        net.op("Slice", x, *(net.constant(np.array([v], np.int64)) for v in (0, 4, 3))),
        blocksize=2,
    ),
    "Softmax of rows": simple("Softmax", axis=2),
    "Softsign": simple("Softsign"),
    "Sqrt": of_positive("Sqrt"),
    "Split": simple("Split", axis=2, num_outputs=1),
    "Squeeze": there_and_back,
    "Sub": simple("Sub", 0.4),
    "Tanh": simple("Tanh"),
    "Tile": simple("Tile", [1, 1, 2, 1]),
    "Transpose": simple("Transpose", perm=[0, 1, 3, 2]),
    "Unsqueeze": there_and_back,
}


def test_every_operator_that_is_read_in_both_ways_has_a_case():
    both = {name for name, rules in OPERATORS.items() if rules.int8 and rules.real}
    assert both - OTHERS == {name.split()[0] for name in CASES}


@pytest.mark.parametrize("name", CASES)
def test_the_float_network_computes_what_onnxruntime_does(name, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    net = OnnxNetwork(list(SHAPE), OPSET)
    y = CASES[name](net, "input", lambda w: net.real(w * np.float32(0.01)))
    path = net.save(tmp_path / "model.onnx", y)
    x = RNG.normal(0, 1, SHAPE).astype(np.float32)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (wanted,) = session.run(None, {"input": x})
    graph = read_onnx(path)
    (found,) = graph.run(x.transpose(np.argsort(graph.file_axes[graph.input])))
    assert snr_db(wanted, found.transpose(graph.file_axes[graph.outputs[0]])) > LEAST_DB


@pytest.mark.parametrize("name", CASES)
def test_the_int8_network_is_within_a_step_of_onnxruntime(name, tmp_path):
    pytest.importorskip("onnxruntime")
    model = QdqModel(SHAPE, 0.03, 5, OPSET)
    y = CASES[name](model, model.x, lambda w: model.dequantized(w, 0.01))
    path = model.save(tmp_path / "model.onnx", model.requantize(y, 0.03, 5))
    graph = load_onnx(path)
    x = RNG.integers(-128, 128, graph.tensors[graph.inputs[0]].type.shape).astype(np.int8)
    ours = interpret(graph, {graph.inputs[0]: x})[graph.outputs[0]].astype(int)
    theirs = onnxruntime_outputs(path, x, graph, optimize=False)
    assert ours.shape == theirs.shape
    assert np.abs(ours - theirs).max() <= STEP

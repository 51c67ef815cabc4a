"""Float networks of a few layers, and what onnxruntime's quantizer makes of them."""

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

IMAGE = (1, 3, 8, 8)
CALIBRATION = 6  # samples


class Network:
    """Nodes on the input "x"; the last one gives "y". shape: of the input."""

    def __init__(self, shape=IMAGE, seed=7):
        self.shape, self.rng = shape, np.random.default_rng(seed)
        self.nodes, self.constants = [], []

    def weight(self, *shape, size=None):
        size = 1.7 / np.sqrt(np.prod(shape[1:])) if size is None else size
        return self.constant((self.rng.normal(size=shape) * size).astype(np.float32))

    def constant(self, array):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def op(self, op_type, *inputs, outputs=1, **attributes):
        names = [f"t{len(self.nodes)}_{i}" for i in range(outputs)]
        node = helper.make_node(op_type, inputs, names, name=f"node{len(self.nodes)}", **attributes)
        self.nodes.append(node)
        return names[0] if outputs == 1 else names

    def conv(self, x, inputs, outputs, kernel=3, group=1):
        weight = self.weight(outputs, inputs // group, kernel, kernel)
        bias = self.weight(outputs, size=0.2)
        pads = [kernel // 2] * 4
        return self.op("Conv", x, weight, bias, pads=pads, group=group)

    def classified(self, x, channels=8, classes=4):
        row = self.op("Flatten", self.op("GlobalAveragePool", x))
        weight, bias = self.weight(classes, channels), self.weight(classes, size=0.1)
        return self.op("Gemm", row, weight, bias, transB=1)

    def proto(self, opset=13):
        self.nodes[-1].output[0] = "y"
        value = helper.make_tensor_value_info
        graph = helper.make_graph(
            self.nodes,
            "network",
            [value("x", TensorProto.FLOAT, self.shape)],
            [value("y", TensorProto.FLOAT, None)],
            self.constants,
        )
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
        made.ir_version = 8
        return onnx.shape_inference.infer_shapes(made)


def started():
    """A network, and the output of its first convolution."""
    network = Network()
    return network, network.op("Relu", network.conv("x", 3, 8))


def plain():
    net, x = started()
    net.classified(x)
    return net


def residual():
    net, x = started()
    net.classified(net.op("Relu", net.op("Add", net.conv(x, 8, 8), x)))
    return net


def depthwise():
    net, x = started()
    limits = [net.constant(np.float32(v)) for v in (0, 6)]
    net.classified(net.op("Clip", net.conv(x, 8, 8, group=8), *limits))
    return net


def pools():
    net, x = started()
    x = net.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    net.classified(net.op("AveragePool", net.conv(x, 8, 8), kernel_shape=[2, 2]))
    return net


def concatenated():
    net, x = started()
    x = net.op("Concat", net.conv(x, 8, 8), x, axis=1)
    net.classified(net.conv(x, 16, 8, kernel=1))
    return net


def gated():
    net, x = started()
    share = net.op("LeakyRelu", net.conv(net.op("GlobalAveragePool", x), 8, 4, 1), alpha=0.1)
    share = net.op("Sigmoid", net.conv(share, 4, 8, 1))
    net.classified(net.op("Mul", x, share))
    return net


def swish():
    net, x = started()
    x = net.conv(x, 8, 8)
    net.classified(net.op("Mul", x, net.op("Sigmoid", x)))
    return net


def probabilities():
    net, x = started()
    net.op("Softmax", net.classified(x), axis=1)
    return net


def product():
    net, x = started()
    row = net.op("Reshape", x, net.constant(np.array([1, -1])))
    net.op("Add", net.op("MatMul", row, net.weight(512, 4, size=0.05)), net.weight(4))
    return net


def moved():
    net, x = started()
    x = net.op("Pad", x, net.constant(np.array([0, 0, 1, 1, 0, 0, 1, 1])))
    scales = net.constant(np.array([1, 1, 2, 2], np.float32))
    how = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    x = net.op("Resize", x, "", scales, mode="nearest", **how)
    a, b = net.op("Split", x, net.constant(np.array([4, 4])), outputs=2, axis=1)
    net.classified(net.op("Concat", b, a, axis=1))
    return net


def attention():
    net = Network((1, 6, 8))
    q, k = (net.op("MatMul", "x", net.weight(8, 8)) for _ in range(2))
    scores = net.op("MatMul", q, net.op("Transpose", k, perm=[0, 2, 1]))
    mixed = net.op("MatMul", net.op("Softmax", scores, axis=-1), q)
    row = net.op("ReduceMean", mixed, axes=[1], keepdims=0)
    net.op("Gemm", row, net.weight(4, 8), net.weight(4), transB=1)
    return net


def exported():
    """As exporters leave it: with a normalization, and a HardSwish of which a mean is taken."""
    net, x = started()
    rows = [net.constant(np.full(8, v, np.float32)) for v in (1.5, 0.1, 0.2, 0.9)]
    x = net.op("Relu", net.op("BatchNormalization", net.conv(x, 8, 8), *rows))
    x = net.op("HardSwish", net.conv(x, 8, 8))
    row = net.op("ReduceMean", x, axes=[2, 3], keepdims=0)
    net.op("Gemm", row, net.weight(4, 8), net.weight(4), transB=1)
    return net


NETWORKS = {
    f.__name__: f
    for f in (
        *(plain, residual, depthwise, pools, concatenated, gated, swish, probabilities, product),
        *(moved, attention),
    )
}


def quantized(
    network, path, form, activations, weights, per_channel=False, opset=13, prepares=False
):
    """The path of what onnxruntime.quantization writes. form: QOperator or QDQ. prepares: first."""
    from onnxruntime import quantization
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Samples(quantization.CalibrationDataReader):
        def __init__(self):
            rng = np.random.default_rng(0)
            drawn = (rng.uniform(-1, 1, network.shape) for _ in range(CALIBRATION))
            self.rows: Iterator = iter([{"x": x.astype(np.float32)} for x in drawn])

        def get_next(self):
            return next(self.rows, None)

    source = path.with_name(f"{path.stem}.float.onnx")
    onnx.save(network.proto(opset), source)
    if prepares:
        quant_pre_process(source, source, skip_symbolic_shape=True)
    quantization.quantize_static(
        source,
        path,
        Samples(),
        quant_format=quantization.QuantFormat[form],
        activation_type=quantization.QuantType[f"Q{activations}"],
        weight_type=quantization.QuantType[f"Q{weights}"],
        per_channel=per_channel,
    )
    return path

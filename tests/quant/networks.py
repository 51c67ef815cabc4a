"""Float networks written in the forms that exporters write, with random but sane weights."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

IR_VERSION = 10  # of opset 21; onnxruntime knows it


class OnnxNetwork:
    """A float model that grows operator by operator, channels first, as torch exports it."""

    def __init__(self, shape, opset=17, seed=0):
        self.shape, self.opset = shape, opset
        self.rng = np.random.default_rng(seed)
        self.nodes, self.initializers, self.number = [], [], 0

    def constant(self, array, name=None):
        name = name or self._name("constant")
        self.initializers.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def real(self, array):
        return self.constant(np.asarray(array, np.float32))

    def op(self, op_type, *inputs, **attributes):
        name = self._name(op_type)
        self.nodes.append(helper.make_node(op_type, inputs, [name], name=f"/{name}", **attributes))
        return name

    def conv(self, x, channels_in, channels_out, kernel=3, stride=1, group=1, bias=False, **more):
        fan_in = channels_in // group * kernel**2
        w = self.rng.normal(
            0, np.sqrt(2 / fan_in), (channels_out, channels_in // group, kernel, kernel)
        )
        inputs = [x, self.real(w)]
        if bias:
            inputs.append(self.real(self.rng.normal(0, 0.1, channels_out)))
        attributes = {
            "kernel_shape": [kernel] * 2,
            "strides": [stride] * 2,
            "pads": [kernel // 2] * 4,
            "dilations": [1, 1],
            "group": group,
            **more,
        }
        return self.op("Conv", *inputs, **attributes)

    def batch_norm(self, x, channels):
        rng = self.rng
        parameters = (
            rng.uniform(0.5, 1.5, channels),
            rng.normal(0, 0.2, channels),
            rng.normal(0, 0.2, channels),
            rng.uniform(0.5, 2.0, channels),
        )
        names = [self.real(p) for p in parameters]
        return self.op("BatchNormalization", x, *names, epsilon=1e-5, momentum=0.9)

    def gemm(self, x, features, classes):
        w = self.rng.normal(0, np.sqrt(1 / features), (classes, features))
        b = self.rng.normal(0, 0.1, classes)
        return self.op("Gemm", x, self.real(w), self.real(b), alpha=1.0, beta=1.0, transB=1)

    def proto(self, *outputs):
        value = helper.make_tensor_value_info
        graph = helper.make_graph(
            self.nodes,
            "main_graph",
            [value("input", TensorProto.FLOAT, self.shape)],
            [value(name, TensorProto.FLOAT, None) for name in outputs],
            self.initializers,
        )
        opset = helper.make_opsetid("", self.opset)
        return helper.make_model(graph, opset_imports=[opset], ir_version=IR_VERSION)

    def save(self, path, *outputs):
        onnx.save(self.proto(*outputs), path)
        return path

    def _name(self, stem):
        self.number += 1
        return f"{stem}_{self.number}"


def resnet8(path, seed=0):
    """As torch exports it with do_constant_folding off: Conv without bias, BatchNormalization."""
    net = OnnxNetwork(["batch", 3, 32, 32], seed=seed)

    def block(x, channels_in, channels_out, stride):
        y = net.op(
            "Relu", net.batch_norm(net.conv(x, channels_in, channels_out, 3, stride), channels_out)
        )
        y = net.batch_norm(net.conv(y, channels_out, channels_out), channels_out)
        if stride != 1:
            x = net.batch_norm(net.conv(x, channels_in, channels_out, 1, stride), channels_out)
        return net.op("Relu", net.op("Add", y, x))

    x = net.op("Relu", net.batch_norm(net.conv("input", 3, 16), 16))
    x = block(x, 16, 16, 1)
    x = block(x, 16, 32, 2)
    x = block(x, 32, 64, 2)
    x = net.op("GlobalAveragePool", x)
    x = net.op("Flatten", x, axis=1)
    return net.save(path, net.gemm(x, 64, 10))


def mobilenet_v3(path, seed=0):
    """A small one at 64x64: HardSwish, squeeze-and-excitation with HardSigmoid, Dropout."""
    net = OnnxNetwork([1, 3, 64, 64], seed=seed)

    def squeeze(x, channels):
        hidden = max(8, channels // 4)
        s = net.op("GlobalAveragePool", x)
        s = net.op("Relu", net.conv(s, channels, hidden, 1, bias=True))
        s = net.op("HardSigmoid", net.conv(s, hidden, channels, 1, bias=True), alpha=1 / 6)
        return net.op("Mul", s, x)

    def block(x, channels_in, expanded, channels_out, kernel, stride, activation, excites):
        y = net.op(activation, net.batch_norm(net.conv(x, channels_in, expanded, 1), expanded))
        y = net.conv(y, expanded, expanded, kernel, stride, group=expanded)
        y = net.op(activation, net.batch_norm(y, expanded))
        y = squeeze(y, expanded) if excites else y
        y = net.batch_norm(net.conv(y, expanded, channels_out, 1), channels_out)
        return net.op("Add", x, y) if stride == 1 and channels_in == channels_out else y

    x = net.op("HardSwish", net.batch_norm(net.conv("input", 3, 16, 3, 2), 16))
    x = block(x, 16, 16, 16, 3, 2, "Relu", True)
    x = block(x, 16, 48, 24, 3, 2, "Relu", False)
    x = block(x, 24, 64, 24, 3, 1, "Relu", False)
    x = block(x, 24, 72, 40, 5, 2, "HardSwish", True)
    x = block(x, 40, 96, 40, 5, 1, "HardSwish", True)
    x = net.op("HardSwish", net.batch_norm(net.conv(x, 40, 128, 1), 128))
    x = net.op("Flatten", net.op("GlobalAveragePool", x), axis=1)
    x = net.op("Dropout", net.op("HardSwish", net.gemm(x, 128, 96)))
    return net.save(path, net.gemm(x, 96, 10))


def grouped_pyramid(path, seed=0):
    """Blocks with grouped convolutions, as ResNeXt has them, at two sizes that are added again."""
    net = OnnxNetwork([1, 3, 32, 32], seed=seed)

    def block(x, channels, groups, stride=1):
        y = net.op("Relu", net.batch_norm(net.conv(x, channels, 2 * channels, 1), 2 * channels))
        y = net.conv(y, 2 * channels, 2 * channels, 3, stride, group=groups)
        y = net.op("Relu", net.batch_norm(y, 2 * channels))
        return net.batch_norm(net.conv(y, 2 * channels, channels, 1), channels)

    fine = net.op("Relu", net.batch_norm(net.conv("input", 3, 12, 3, 2), 12))
    fine = net.op("Relu", net.op("Add", fine, block(fine, 12, 3)))
    coarse = net.op("Relu", block(fine, 12, 4, 2))
    twice = net.constant(np.array([1, 1, 2, 2], np.float32))
    wide = net.op("Resize", coarse, "", twice, mode="linear")
    nearest = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    blocks = net.op("Resize", coarse, "", twice, mode="nearest", **nearest)
    y = net.op("Concat", net.op("Add", fine, wide), blocks, axis=1)
    y = net.op("Relu", net.conv(y, 24, 16, group=2, bias=True))
    y = net.op("Flatten", net.op("GlobalAveragePool", y), axis=1)
    return net.save(path, net.gemm(y, 16, 10))


def parameter_free_shortcuts(path, seed=0):
    """A ResNet for CIFAR whose shortcuts leave pixels out and add channels of 0, behind a focus.

    He et al., CVPR 2016, option A. Slices and pads are those that torch exports; the focus makes
    channels of pixels, and the last block computes with half of the channels.
    """
    net = OnnxNetwork([1, 3, 32, 32], seed=seed)

    def integers(*numbers):
        return net.constant(np.array(numbers, np.int64))

    def every_second(x, row, column):
        last = 2**63 - 1
        x = net.op("Slice", x, integers(row), integers(last), integers(2), integers(2))
        return net.op("Slice", x, integers(column), integers(last), integers(3), integers(2))

    def block(x, channels, stride):
        y = net.op(
            "Relu",
            net.batch_norm(net.conv(x, channels, stride * channels, 3, stride), stride * channels),
        )
        y = net.batch_norm(net.conv(y, stride * channels, stride * channels), stride * channels)
        if stride == 2:
            half = channels // 2
            x = net.op("Pad", every_second(x, 0, 0), integers(0, half, 0, 0, 0, half, 0, 0))
        return net.op("Relu", net.op("Add", y, x))

    corners = [every_second("input", row, column) for column in (0, 1) for row in (0, 1)]
    x = net.op("Concat", *corners, axis=1)
    x = net.op("Relu", net.batch_norm(net.conv(x, 12, 8), 8))
    x = block(block(block(x, 8, 1), 8, 2), 16, 2)
    split = net.op("Split", x, integers(12, 20), axis=1)
    net.nodes[-1].output.append(f"{split}_rest")
    y = net.op("Relu", net.conv(f"{split}_rest", 20, 20, group=4, bias=True))
    x = net.op("Concat", split, y, axis=1)
    x = net.op("Flatten", net.op("GlobalAveragePool", x), axis=1)
    return net.save(path, net.gemm(x, 32, 10))

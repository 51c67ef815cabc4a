"""A small U-Net as an exporter writes it, and images with a class for each pixel."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from mcutrain.data import IGNORED
from mcutrain.formats import read_float
from mcutrain.ir.graph import Graph

Array = npt.NDArray[Any]

SIDE, CLASSES, WIDTH = 8, 3, 4
IR_VERSION = 8  # of opset 17


class _UNet:
    """Nodes and weights of a network that halves an image, doubles it, and reads both."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(5)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"{kind}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def constant(self, array: Array) -> str:
        name = f"constant{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(array.astype(np.float32), name))
        return name

    def conv(self, x: str, ins: int, outs: int, side: int) -> str:
        w = self.rng.normal(0, np.sqrt(2 / (ins * side**2)), (outs, ins, side, side))
        b = self.rng.normal(0, 0.1, outs)
        return self.op("Conv", x, self.constant(w), self.constant(b), pads=4 * [side // 2])


def proto(softmax: bool = False) -> onnx.ModelProto:
    """With logits or, behind them, probabilities."""
    net = _UNet()
    near = net.op("Relu", net.conv("x", 3, WIDTH, 3))
    small = net.op("MaxPool", near, kernel_shape=[2, 2], strides=[2, 2])
    far = net.op("Relu", net.conv(small, WIDTH, 2 * WIDTH, 3))
    nearest = {"mode": "nearest", "nearest_mode": "floor"}
    doubled = net.op(
        "Resize",
        far,
        "",
        net.constant(np.array([1, 1, 2, 2])),
        coordinate_transformation_mode="asymmetric",
        **nearest,
    )
    both = net.op("Concat", doubled, near, axis=1)
    y = net.conv(net.op("Relu", net.conv(both, 3 * WIDTH, WIDTH, 3)), WIDTH, CLASSES, 1)
    y = net.op("Softmax", y, axis=1) if softmax else y
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        net.nodes,
        "unet",
        [value("x", TensorProto.FLOAT, [1, 3, SIDE, SIDE])],
        [value(y, TensorProto.FLOAT, [1, CLASSES, SIDE, SIDE])],
        net.weights,
    )
    opset = helper.make_opsetid("", 17)
    return helper.make_model(graph, opset_imports=[opset], ir_version=IR_VERSION)


def images(count: int, seed: int = 0) -> tuple[Array, Array]:
    """Float images with a bright rectangle of each class but 0, and the class of each pixel.

    The first row is to be ignored.
    """
    rng = np.random.default_rng(seed)
    x = rng.normal(0, 0.15, (count, SIDE, SIDE, 3)).astype(np.float32)
    y = np.zeros((count, SIDE, SIDE), np.uint8)
    for image, labels in zip(x, y, strict=True):
        for c in range(1, CLASSES):
            top, left = rng.integers(0, SIDE - 3, 2)
            image[top : top + 3, left : left + 3, c] += 1
            labels[top : top + 3, left : left + 3] = c
    y[:, 0] = IGNORED
    return x, y


@cache
def unet(softmax: bool = False) -> Graph:
    """The int8 network."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "unet.onnx"
        onnx.save(proto(softmax), path)
        return read_float(path).quantize(images(32, 1)[0]).graph


def codes(graph: Graph, x: Array) -> Array:
    """Images as the network's int8 input."""
    kind = graph.tensors[graph.inputs[0]].type
    return np.clip(np.rint(x / kind.scale) + kind.zero_point, -128, 127).astype(np.int8)

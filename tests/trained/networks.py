"""Small .tflite and .onnx classifiers, as files of other programs have them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx

from tests.formats.onnx_builder import QdqModel
from tests.formats.tflite_builder import NO_TENSOR, TfliteBuilder

Shape = tuple[int, ...]

SAME = 0
NONE, RELU = 0, 1
SPREAD = 40.0
"""Standard deviation of activations, in int8 steps: some clamp, most do not."""
WEIGHT_SPREAD = 40.0


class Layers(TfliteBuilder):
    """Adds layers whose scales keep the spread of activations. Returns indices of tensors."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.rng = np.random.default_rng(seed)

    def shape(self, x: int) -> Shape:
        return tuple(int(n) for n in self.tensors[x].fields["Shape"])

    def scale(self, x: int) -> float:
        return float(self.tensors[x].fields["Quantization"].fields["Scale"][0])

    def weight(self, name: str, shape: Shape, axis: int) -> tuple[int, tuple[float, ...]]:
        values = np.clip(np.rint(self.rng.normal(0, WEIGHT_SPREAD, shape)), -127, 127)
        drawn = self.rng.uniform(0.002, 0.01, shape[axis]).astype(np.float32)
        scales = tuple(float(s) for s in drawn)
        return self.constant(name, values.astype(np.int8), scale=scales, axis=axis), scales

    def bias(self, name: str, x: int, scales: tuple[float, ...]) -> int:
        values = self.rng.integers(-800, 800, len(scales)).astype(np.int32)
        product = tuple(float(np.float32(self.scale(x) * s)) for s in scales)
        return self.constant(name, values, scale=product)

    def output(self, name: str, x: int, shape: Shape, scales: tuple[float, ...], taps: int) -> int:
        spread = np.mean(scales) * self.scale(x) * np.sqrt(taps) * WEIGHT_SPREAD
        zero_point = int(self.rng.integers(-20, 20))
        return self.tensor(name, shape, scale=float(np.float32(spread)), zero_point=zero_point)

    def conv(
        self, name: str, x: int, out: int, kernel: int, stride: int = 1, act: int = NONE
    ) -> int:
        _, height, width, channels = self.shape(x)
        w, scales = self.weight(f"{name}/weight", (out, kernel, kernel, channels), 0)
        b = self.bias(f"{name}/bias", x, scales)
        shape = (1, -(-height // stride), -(-width // stride), out)
        y = self.output(name, x, shape, scales, kernel**2 * channels)
        options = {"Padding": SAME, "StrideH": stride, "StrideW": stride}
        options |= {"DilationHFactor": 1, "DilationWFactor": 1, "FusedActivationFunction": act}
        return self.operator("CONV_2D", [x, w, b], y, table="Conv2DOptions", **options)

    def depthwise(self, name: str, x: int, has_bias: bool = True) -> int:
        shape = self.shape(x)
        w, scales = self.weight(f"{name}/weight", (1, 3, 3, shape[3]), 3)
        inputs = [x, w, self.bias(f"{name}/bias", x, scales)] if has_bias else [x, w]
        y = self.output(name, x, shape, scales, 9)
        options = {"Padding": SAME, "StrideH": 1, "StrideW": 1, "DepthMultiplier": 1}
        options |= {"DilationHFactor": 1, "DilationWFactor": 1, "FusedActivationFunction": RELU}
        return self.operator("DEPTHWISE_CONV_2D", inputs, y, "DepthwiseConv2DOptions", **options)

    def add(self, name: str, a: int, b: int) -> int:
        scale = float(np.float32(np.hypot(self.scale(a), self.scale(b))))
        y = self.tensor(name, self.shape(a), scale=scale, zero_point=5)
        return self.operator("ADD", [a, b], y, "AddOptions", FusedActivationFunction=NONE)

    def mean(self, name: str, x: int) -> int:
        shape = self.shape(x)
        scale = float(np.float32(self.scale(x) / np.sqrt(shape[1] * shape[2])))
        y = self.tensor(name, (1, shape[3]), scale=scale, zero_point=-7)
        axes = self.constant(f"{name}/axes", np.array([1, 2], np.int32))
        return self.operator("MEAN", [x, axes], y, "ReducerOptions", KeepDims=False)

    def dense(self, name: str, x: int, units: int, has_bias: bool = True) -> int:
        features = self.shape(x)[-1]
        w, scales = self.weight(f"{name}/weight", (units, features), 0)
        b = self.bias(f"{name}/bias", x, scales) if has_bias else NO_TENSOR
        y = self.output(name, x, (1, units), scales, features)
        return self.operator(
            "FULLY_CONNECTED", [x, w, b], y, "FullyConnectedOptions", FusedActivationFunction=NONE
        )

    def softmax(self, name: str, x: int) -> int:
        y = self.tensor(name, self.shape(x), scale=1 / 256, zero_point=-128)
        return self.operator("SOFTMAX", [x], y, "SoftmaxOptions", Beta=1.0)


def classifier(seed: int = 1, *, softmax: bool = True, biases: bool = True) -> bytes:
    """A .tflite of pixels with a residual block; without biases one layer and the head have none.

    Six layers; their names are first, wide, deep, narrow, sum, mean, head, probabilities.
    """
    b = Layers(seed)
    x = b.tensor("image", (1, 6, 6, 3), scale=1 / 255, zero_point=-128)
    first = b.conv("first", x, 8, 3, stride=2, act=RELU)
    y = b.conv("wide", first, 12, 1, act=RELU)
    y = b.depthwise("deep", y, biases)
    y = b.add("sum", b.conv("narrow", y, 8, 1), first)
    y = b.dense("head", b.mean("mean", y), 4, biases)
    y = b.softmax("probabilities", y) if softmax else y
    return b.content([x], [y])


def onnx_classifier(path: Path, *, head: str = "Gemm", float_bias: bool = False) -> Path:
    """A QDQ model with a depthwise layer and a flattened image before the head.

    head: Gemm, or MatMul (with an Add of the bias). float_bias: as some exporters leave them.
    """
    rng = np.random.default_rng(5)
    model = QdqModel((1, 3, 4, 4), scale=0.02)

    def bias(count: int, scale: float) -> str:
        values = rng.integers(-300, 300, count).astype(np.int32)
        if float_bias:
            return model.constant((values * scale).astype(np.float32))
        return model.dequantized(values, np.full(count, scale, np.float32))

    def weight(*shape: int, axis: int = 0) -> str:
        values = rng.integers(-90, 90, shape).astype(np.int8)
        return model.dequantized(values, np.full(shape[axis], 0.004, np.float32), axis)

    first = model.op("Conv", model.x, weight(8, 3, 3, 3), bias(8, 0.02 * 0.004), pads=[1, 1, 1, 1])
    y = model.requantize(model.op("Relu", first), 0.02, -128)
    deep = model.op("Conv", y, weight(8, 1, 3, 3), bias(8, 0.02 * 0.004), group=8, strides=[2, 2])
    y = model.requantize(deep, 0.02, 4)
    row = model.op("Flatten", y, axis=1)
    if head == "Gemm":
        y = model.op("Gemm", row, weight(4, 8), bias(4, 0.02 * 0.004), transB=1)
    else:
        y = model.op("MatMul", row, weight(8, 4, axis=1))
        y = model.op("Add", y, bias(4, 0.02 * 0.004))
    y = model.requantize(y, 0.05, -11)
    output = model.requantize(model.op("Softmax", y, axis=1), 1 / 256, -128)
    proto = model.proto(output)
    proto.doc_string = "made by a test"
    proto.metadata_props.append(onnx.StringStringEntryProto(key="author", value="somebody"))
    onnx.save(proto, path)
    return path

"""Small QDQ models for tests."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

IR_VERSION = 10  # of opset 21; onnxruntime knows it


class QdqModel:
    """A model that grows operator by operator. `x` is its dequantized input."""

    def __init__(self, shape, scale=0.05, zero_point=3, opset=17, dtype=np.int8):
        self.shape, self.opset, self.dtype = shape, opset, dtype
        self.nodes, self.initializers, self.number = [], [], 0
        self.x = self.requantize("input", scale, zero_point)

    def constant(self, array, name=None):
        name = name or self._name("constant")
        self.initializers.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def op(self, op_type, *inputs, outputs=1, **attributes):
        names = [self._name(op_type) for _ in range(outputs)]
        node = helper.make_node(op_type, inputs, names, name=names[0], **attributes)
        self.nodes.append(node)
        return names[0]

    def quantize(self, real, scale, zero_point):
        parameters = (
            self.constant(np.float32(scale)),
            self.constant(np.array(zero_point, self.dtype)),
        )
        return self.op("QuantizeLinear", real, *parameters)

    def requantize(self, real, scale, zero_point):
        integers = self.quantize(real, scale, zero_point)
        parameters = self.nodes[-1].input[1:]
        return self.op("DequantizeLinear", integers, *parameters)

    def dequantized(self, integers, scales, axis=0):
        """A weight or bias; one scale makes it per tensor."""
        scales = np.asarray(scales, np.float32)
        zero = np.zeros(scales.shape, integers.dtype)
        names = [self.constant(a) for a in (integers, scales, zero)]
        attributes = {"axis": axis} if scales.ndim else {}
        return self.op("DequantizeLinear", *names, **attributes)

    def proto(self, output):
        value = helper.make_tensor_value_info
        graph = helper.make_graph(
            self.nodes,
            "model",
            [value("input", TensorProto.FLOAT, self.shape)],
            [value(output, TensorProto.FLOAT, None)],
            self.initializers,
        )
        opset = helper.make_opsetid("", self.opset)
        return helper.make_model(graph, opset_imports=[opset], ir_version=IR_VERSION)

    def save(self, path: Path, output):
        onnx.save(self.proto(output), path)
        return path

    def _name(self, stem):
        self.number += 1
        return f"{stem}_{self.number}"

"""One ONNX node of an int8 model: its inputs as tensors of the graph under construction."""

from __future__ import annotations

from dataclasses import dataclass

from mcutrain.formats.onnx.node import OnnxNode
from mcutrain.formats.onnx.values import Builder, Image, Value, as_image, same_order
from mcutrain.quant.float_op import Quantization


@dataclass(frozen=True)
class Int8Node(OnnxNode[Value]):
    """builder: what the rule for the operator adds to."""

    builder: Builder

    def real(self, index: int = 0) -> Value:
        """An activation in real numbers."""
        found = self.x(index)
        if found.integer_type:
            raise self.unsupported(
                f"integers as input {index} are not; the output of a DequantizeLinear is"
            )
        return found

    def tensor(self, index: int = 0) -> tuple[str, Quantization]:
        """The int8 tensor of an activation, in the order in which it is stored."""
        value = self.real(index)
        quantization = value.source.quantization
        if quantization is None:
            raise self.unsupported(
                f"a float input {index} is not; a QuantizeLinear and DequantizeLinear before it is"
            )
        return self.builder.emit(value, f"{self.name}.input{index}", quantization), quantization

    def stored(self, index: int = 0) -> tuple[str, Quantization]:
        """The same as [1, h, w, c] of the image as it is stored."""
        image = self.real(index).image
        tensor, quantization = self.tensor(index)
        return self.builder.reshape(tensor, (1, *image), f"{self.name}.stored{index}"), quantization

    def image(self, index: int = 0) -> tuple[str, Quantization]:
        """The same as [1, h, w, c] of the ONNX shape."""
        value = self.real(index)
        wanted = as_image(f"input {index} of node {self.name!r}", value.shape)
        tensor, quantization = self.tensor(index)
        self.check_order(value, wanted)
        return self.builder.reshape(tensor, (1, *wanted), f"{self.name}.image{index}"), quantization

    def check_order(self, value: Value, wanted: Image) -> None:
        """Refuse what would need the data to be moved."""
        if not same_order(value.image, wanted):
            raise self.unsupported(
                f"the shape {value.shape} of flattened image channels is not; only Gemm and "
                "MatMul after such a Flatten or Reshape are"
            )

"""Int8 .tflite models become graphs whose outputs equal TFLite's reference kernels bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tflite import BuiltinOperator

from mcutrain.errors import UnsupportedError
from mcutrain.formats.tflite import elementwise, shapes, sums
from mcutrain.formats.tflite.convert import Converter, Operands
from mcutrain.formats.tflite.file import MISSING, OPERATOR_NAMES, FileModel, naming, read_file
from mcutrain.ir.graph import Graph
from mcutrain.quant.canonical import canonical


def load_tflite(path: str | Path) -> Graph:
    """The int8 graph of a .tflite file, in canonical form. Raises ModelError with a sentence.

    Inputs and outputs are the int8 tensors: QUANTIZE and DEQUANTIZE at the edges are dropped, and
    an uint8 tensor there stands for its integers minus 128.
    """
    path = Path(path)
    with naming(path):
        model = read_file(path)
        _refuse_float(model)
        return canonical(Converter(model, EMITTERS).graph(path.stem))


def _refuse_float(model: FileModel) -> None:
    """A model without any int8 activation was never quantized."""
    computed = [model.tensors[i] for op in model.operators for i in op.outputs if i != MISSING]
    if computed and all(t.dtype in ("float32", "float16") for t in computed):
        raise UnsupportedError(
            "this is a float model; quantize it to int8 first: `mcutrain quantize` does it, or "
            "TensorFlow Lite's full integer quantization"
        )


EMITTERS: dict[int, Callable[[Operands], None]] = {
    BuiltinOperator.ADD: elementwise.add,
    BuiltinOperator.AVERAGE_POOL_2D: shapes.average_pool_2d,
    BuiltinOperator.CONCATENATION: shapes.concatenation,
    BuiltinOperator.CONV_2D: sums.conv_2d,
    BuiltinOperator.DEPTHWISE_CONV_2D: sums.depthwise_conv_2d,
    BuiltinOperator.DEQUANTIZE: elementwise.dequantize,
    BuiltinOperator.ELU: elementwise.table("elu"),
    BuiltinOperator.EXPAND_DIMS: shapes.reshape,
    BuiltinOperator.FULLY_CONNECTED: sums.fully_connected,
    BuiltinOperator.GELU: elementwise.gelu,
    BuiltinOperator.HARD_SWISH: elementwise.table("hard_swish"),
    BuiltinOperator.LEAKY_RELU: elementwise.leaky_relu,
    BuiltinOperator.LOGISTIC: elementwise.table("logistic"),
    BuiltinOperator.MAX_POOL_2D: shapes.max_pool_2d,
    BuiltinOperator.MEAN: shapes.mean,
    BuiltinOperator.MUL: elementwise.mul,
    BuiltinOperator.PACK: shapes.shape_arithmetic,
    BuiltinOperator.PAD: shapes.pad,
    BuiltinOperator.PADV2: shapes.pad_v2,
    BuiltinOperator.QUANTIZE: elementwise.quantize,
    BuiltinOperator.RELU: elementwise.activation("relu"),
    BuiltinOperator.RELU6: elementwise.activation("relu6"),
    BuiltinOperator.RELU_N1_TO_1: elementwise.activation("relu_n1_to_1"),
    BuiltinOperator.RESHAPE: shapes.reshape,
    BuiltinOperator.SHAPE: shapes.shape_arithmetic,
    BuiltinOperator.SOFTMAX: elementwise.softmax,
    BuiltinOperator.SQUEEZE: shapes.reshape,
    BuiltinOperator.STRIDED_SLICE: shapes.shape_arithmetic,
    BuiltinOperator.SUB: elementwise.sub,
    BuiltinOperator.TANH: elementwise.table("tanh"),
    BuiltinOperator.TRANSPOSE: shapes.transpose,
}

SUPPORTED = tuple(OPERATOR_NAMES[code] for code in EMITTERS)

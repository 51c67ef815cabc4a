"""Every ONNX operator: its rule for int8 models and for float ones, or why there is none.

A rule makes of a node the value that its output is. Rules of one family, and how the family is
written, stand in one file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mcutrain_host.dataclass import dataclass

from mcutrain.formats.onnx import (
    activations,
    arithmetic,
    cutting,
    einsum,
    extremes,
    joining,
    normalizing,
    pooling,
    products,
    quantizing,
    recurrent,
    resizing,
    shaping,
    sums,
    transposed,
    write_sums,
)
from mcutrain.formats.onnx.float_node import FloatOnnx, FloatValue
from mcutrain.formats.onnx.int8_node import Int8Node
from mcutrain.formats.onnx.values import Value
from mcutrain.formats.onnx.writer import OnnxWriter
from mcutrain.ir.graph import Node
from mcutrain.ops.add import Add
from mcutrain.ops.add_channels import AddChannels
from mcutrain.ops.batch_matmul import BatchMatMul
from mcutrain.ops.concatenation import Concatenation
from mcutrain.ops.conv_2d import Conv2D
from mcutrain.ops.depthwise_conv_2d import DepthwiseConv2D
from mcutrain.ops.div import Div
from mcutrain.ops.embedding import Embedding
from mcutrain.ops.grouped_conv_2d import GroupedConv2D
from mcutrain.ops.gru import Gru
from mcutrain.ops.layer_norm import LayerNorm
from mcutrain.ops.leaky_relu import LeakyRelu
from mcutrain.ops.lookup import Lookup
from mcutrain.ops.lstm import Lstm
from mcutrain.ops.mul import Mul
from mcutrain.ops.pad import Pad
from mcutrain.ops.pooling import AveragePool2D, ImageSum, MaxPool2D, Mean, ScaledAveragePool2D
from mcutrain.ops.rescale import Rescale
from mcutrain.ops.reshape import Reshape
from mcutrain.ops.resize import Resize
from mcutrain.ops.slice import Slice
from mcutrain.ops.softmax import Softmax
from mcutrain.ops.transpose import Transpose
from mcutrain.quant.float_affine import (
    divided_by_constant,
    minus_constant,
    plus_constant,
    times_constant,
)
from mcutrain.quant.float_elementwise import FloatAdd, FloatMul

Int8Rule = Callable[[Int8Node], Value]
FloatRule = Callable[[FloatOnnx], FloatValue]
Emitter = Callable[[OnnxWriter, Node], None]


@dataclass(frozen=True)
class Rules:
    """Rules of one operator. int8, real: None where it is not read so; reason: why, in short."""

    int8: Int8Rule | None
    real: FloatRule | None
    reason: str = ""


_float_div = arithmetic.float_arithmetic(divided_by_constant, None)

OPERATORS: dict[str, Rules] = {
    "Abs": Rules(activations.int8_unary, activations.float_function),
    "Add": Rules(arithmetic.int8_add, arithmetic.float_arithmetic(plus_constant, FloatAdd())),
    "AveragePool": Rules(pooling.int8_pool, pooling.float_pool),
    "BatchNormalization": Rules(
        None, sums.float_batch_norm, "quantizing folds it into the layer before it"
    ),
    "Cast": Rules(shaping.int8_cast, shaping.float_cast),
    "Celu": Rules(None, activations.float_function, "of the float model"),
    "Clip": Rules(activations.int8_clip, activations.float_clip),
    "Concat": Rules(joining.int8_concat, joining.float_concat),
    "Conv": Rules(sums.int8_conv, sums.float_conv),
    "ConvTranspose": Rules(transposed.int8_conv_transpose, transposed.float_conv_transpose),
    "DepthToSpace": Rules(shaping.between_depth_and_space, shaping.between_depth_and_space),
    "DequantizeLinear": Rules(
        quantizing.int8_dequantize,
        None,
        "only of constants, which are folded",
    ),
    "Div": Rules(arithmetic.int8_binary, _float_div),
    "Dropout": Rules(shaping.identity, shaping.identity),
    "Einsum": Rules(einsum.int8_einsum, einsum.float_einsum),
    "Elu": Rules(activations.int8_unary, activations.float_function),
    "Erf": Rules(activations.int8_unary, activations.float_function),
    "Exp": Rules(activations.int8_unary, activations.float_function),
    "Expand": Rules(shaping.expand, shaping.expand),
    "Flatten": Rules(shaping.reshape, shaping.reshape),
    "Gather": Rules(cutting.gather, cutting.gather),
    "Gelu": Rules(activations.int8_unary, activations.float_function),
    "GRU": Rules(recurrent.recurrent, recurrent.recurrent),
    "Gemm": Rules(sums.int8_gemm, sums.float_gemm),
    "GlobalAveragePool": Rules(pooling.int8_global_pool, pooling.float_global_pool),
    "GlobalMaxPool": Rules(pooling.int8_global_pool, pooling.float_global_pool),
    "GroupNormalization": Rules(normalizing.int8_group_norm, normalizing.float_group_norm),
    "HardSigmoid": Rules(activations.int8_unary, activations.float_hard_sigmoid),
    "HardSwish": Rules(activations.int8_unary, activations.float_function),
    "Identity": Rules(shaping.identity, shaping.identity),
    "InstanceNormalization": Rules(normalizing.int8_group_norm, normalizing.float_group_norm),
    "LSTM": Rules(recurrent.recurrent, recurrent.recurrent),
    "LayerNormalization": Rules(normalizing.layer_norm, normalizing.layer_norm),
    "LeakyRelu": Rules(activations.int8_leaky_relu, activations.float_leaky_relu),
    "Log": Rules(activations.int8_unary, activations.float_function),
    "LogSoftmax": Rules(None, activations.float_softmax, "of the float model, at its end"),
    "MatMul": Rules(sums.int8_matmul, sums.float_matmul),
    "Max": Rules(extremes.int8_extreme, extremes.float_extreme),
    "MaxPool": Rules(pooling.int8_pool, pooling.float_pool),
    "Min": Rules(extremes.int8_extreme, extremes.float_extreme),
    "Mish": Rules(activations.int8_unary, activations.float_function),
    "Mul": Rules(arithmetic.int8_binary, arithmetic.float_arithmetic(times_constant, FloatMul())),
    "Neg": Rules(activations.int8_unary, arithmetic.float_negative),
    "PRelu": Rules(activations.int8_leaky_relu, activations.float_prelu),
    "Pad": Rules(joining.pad, joining.pad),
    "Pow": Rules(None, activations.float_power, "of the float model, by 2, 3 or 0.5"),
    "QuantizeLinear": Rules(quantizing.int8_quantize, None, "a model that has it is int8 already"),
    "RMSNormalization": Rules(normalizing.layer_norm, normalizing.layer_norm),
    "Reciprocal": Rules(activations.int8_unary, activations.float_function),
    "ReduceMax": Rules(pooling.reduce_max, pooling.reduce_max),
    "ReduceMean": Rules(pooling.reduce_mean, pooling.reduce_mean),
    "ReduceMin": Rules(None, extremes.reduce_min, "of the float model"),
    "ReduceSum": Rules(pooling.int8_sum, pooling.float_sum),
    "Relu": Rules(activations.int8_relu, activations.float_clip),
    "Reshape": Rules(shaping.reshape, shaping.reshape),
    "Resize": Rules(resizing.resize, resizing.resize),
    "Selu": Rules(activations.int8_unary, activations.float_function),
    "Sigmoid": Rules(activations.int8_unary, activations.float_function),
    "SimplifiedLayerNormalization": Rules(normalizing.layer_norm, normalizing.layer_norm),
    "Slice": Rules(cutting.slice_of, cutting.slice_of),
    "Softmax": Rules(activations.int8_softmax, activations.float_softmax),
    "Softplus": Rules(activations.int8_unary, activations.float_function),
    "Softsign": Rules(activations.int8_unary, activations.float_function),
    "SpaceToDepth": Rules(shaping.between_depth_and_space, shaping.between_depth_and_space),
    "Split": Rules(cutting.slice_of, cutting.slice_of),
    "Sqrt": Rules(activations.int8_unary, activations.float_function),
    "Squeeze": Rules(shaping.reshape, shaping.reshape),
    "Sub": Rules(arithmetic.int8_binary, arithmetic.float_arithmetic(minus_constant, FloatAdd(-1))),
    "Tanh": Rules(activations.int8_unary, activations.float_function),
    "Tile": Rules(shaping.expand, shaping.expand),
    "Transpose": Rules(shaping.transpose, shaping.transpose),
    "Unsqueeze": Rules(shaping.reshape, shaping.reshape),
    "Upsample": Rules(resizing.resize, resizing.resize),
    "Where": Rules(None, arithmetic.float_where, "of the float model, by a constant condition"),
}

INT8_RULES: dict[str, Int8Rule] = {n: r.int8 for n, r in OPERATORS.items() if r.int8}
FLOAT_RULES: dict[str, FloatRule] = {n: r.real for n, r in OPERATORS.items() if r.real}
REASONS = {n: r.reason for n, r in OPERATORS.items() if r.reason}

EMITTERS: dict[type[Any], Emitter] = {
    Add: arithmetic.write_add,
    AddChannels: arithmetic.write_add,
    AveragePool2D: pooling.write_pool,
    BatchMatMul: products.write_product,
    Concatenation: joining.write_concat,
    Conv2D: write_sums.conv_2d,
    DepthwiseConv2D: write_sums.depthwise_conv_2d,
    Embedding: cutting.write_embedding,
    GroupedConv2D: write_sums.grouped_conv_2d,
    Gru: recurrent.write_recurrent,
    LayerNorm: normalizing.write_layer_norm,
    LeakyRelu: activations.write_leaky_relu,
    Lookup: activations.write_look_up,
    Lstm: recurrent.write_recurrent,
    MaxPool2D: pooling.write_pool,
    ImageSum: pooling.write_mean,
    Mean: pooling.write_mean,
    Div: arithmetic.write_div,
    Mul: arithmetic.write_mul,
    Pad: joining.write_pad,
    Rescale: activations.write_rescale,
    Reshape: shaping.write_reshape,
    Resize: resizing.write_resize,
    ScaledAveragePool2D: pooling.write_pool,
    Slice: cutting.write_slice,
    Softmax: activations.write_softmax,
    Transpose: shaping.write_transpose,
}
"""How an operator of our graphs is written."""

"""Operators that change the scale or hold a tensor between limits: QUANTIZE, RELU and the like."""

from __future__ import annotations

from dataclasses import replace

from mcutrain.errors import UnsupportedError
from mcutrain.formats.tflite.entry import Entry
from mcutrain.formats.tflite.flatbuffer import Table
from mcutrain.formats.tflite.float_operator import FloatOperator
from mcutrain.formats.tflite.int8_operator import Int8Operator
from mcutrain.formats.tflite.operands import Operands
from mcutrain.formats.tflite.writer import TfliteWriter
from mcutrain.ir.graph import Node
from mcutrain.ops.rescale import Rescale
from mcutrain.quant import multipliers
from mcutrain.quant.float_elementwise import Clamp
from mcutrain.quant.float_op import Quantization

RELUS = {"relu": 2, "relu6": 2, "relu_n1_to_1": 1}  # activations that stand alone: versions


def sides(w: TfliteWriter, node: Node) -> tuple[Quantization, Quantization]:
    """The quantization of a node's input and of its output."""
    x, y = (Quantization.of(w.type(name)) for name in (node.inputs[0], node.outputs[0]))
    return x, y


def _relu(kind: str) -> Entry:
    """A free-standing activation."""

    def convert(o: Operands) -> None:
        o.emit(Clamp(*multipliers.ACTIVATION_RANGE[kind]), o.x())

    name, version = kind.upper(), RELUS[kind]
    return Entry(name, convert, writes={Rescale: _write_rescale}, version=version)


def _is_edge(o: Int8Operator, index: int, edges: tuple[int, ...]) -> bool:
    """Return whether a float tensor is the model's own input or output."""
    return index in edges and index not in o.converter.int8_of


def _int8_quantize(o: Int8Operator) -> None:
    """Dropped at the model's input, else a Rescale."""
    source, target = o.input_index(0), o.output_index()
    if o.model.tensors[source].dtype == "float32":
        if not _is_edge(o, source, o.model.inputs):
            raise UnsupportedError(f"{o.where} quantizes in the middle; supported are the edges")
        o.y()
        o.converter.int8_of[source] = target
        return
    o.emit(Clamp(*multipliers.ACTIVATION_RANGE["none"]), o.x())


def _int8_dequantize(o: Int8Operator) -> None:
    """Read a DEQUANTIZE at the model's output, which is dropped."""
    source, target = o.input_index(0), o.output_index()
    is_float = o.model.tensors[target].dtype == "float32"
    if not is_float or not _is_edge(o, target, o.model.outputs):
        raise UnsupportedError(f"{o.where} dequantizes in the middle; supported are the edges")
    o.tensor()
    o.converter.int8_of[target] = source


def _float_dequantize(o: FloatOperator) -> None:
    """Read a DEQUANTIZE of weights that are stored as float16, or as int8 with scales."""
    t = o.file_tensor(0)
    if t.data is None:
        raise UnsupportedError(
            f"{o.where} dequantizes {t.name!r}; supported are constants, in models to quantize"
        )
    o.importer.constants[o.output_index()] = replace(
        t, name=o.y.name, dtype="float32", data=o.real(0)
    )


def _write_rescale(w: TfliteWriter, node: Node) -> None:
    """QUANTIZE, RELU, RELU6 or RELU_N1_TO_1: whichever has these multipliers and limits."""
    op = node.op
    assert isinstance(op, Rescale)
    x, y = sides(w, node)
    for kind in RELUS:
        if op != multipliers.requantize(x, y) and op == multipliers.activation_rescale(kind, x, y):
            w.operator(kind.upper(), node.inputs, node.outputs[0])
            return
    w.then_limits(node, "QUANTIZE", node.inputs, Table("QuantizeOptions"), (op.low, op.high))


OPERATORS = (
    Entry("DEQUANTIZE", int8=_int8_dequantize, real=_float_dequantize),
    Entry(
        "QUANTIZE",
        int8=_int8_quantize,
        reason="a model that has it is int8 already",
        writes={Rescale: _write_rescale},
    ),
    *(_relu(kind) for kind in RELUS),
)

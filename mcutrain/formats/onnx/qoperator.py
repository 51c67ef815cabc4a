"""Models in operator form (QLinearConv …) as the QDQ models that compute the same.

An operator on integers with its scales becomes what it means: DequantizeLinear of its inputs, the
operator on real numbers, QuantizeLinear of its result. Operators that move integers, such as a
Reshape or MaxPool, stand bare between them in this form; they get the quantization of what they
move. ONNX has QLinearConv and QLinearMatMul; the others are of onnxruntime's domain com.microsoft,
see its ContribOperators.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from mcutrain.errors import ModelError, UnsupportedError
from mcutrain.formats.onnx.file import tensor_to_array
from mcutrain.formats.onnx.old import ONE_AXIS_SINCE
from mcutrain.formats.onnx.scales import CHANNELS_SINCE
from mcutrain.ir.names import Names

Array = npt.NDArray[Any]

CONTRIBUTED = "com.microsoft"
QUANTIZERS = ("DequantizeLinear", "QuantizeLinear")
MOVING = {
    *("Flatten", "Gather", "Identity", "MaxPool", "Pad", "Reshape", "Resize", "Slice", "Split"),
    *("Squeeze", "Transpose", "Unsqueeze", "Upsample", "DepthToSpace", "SpaceToDepth", "Tile"),
    *("Expand", "Relu", "Max", "Min", "Clip", "Concat", "GlobalMaxPool", "ReduceMax"),
}
"""Operators of ONNX that take integers as they are."""
FILLED_SINCE = 11
"""The opset from which on the number that a Pad fills in is an input."""

_Triple = tuple[int, int, int]
"""Places of integers, scale and zero point among the inputs."""


class _Form:
    """How an operator is written. op_type: on real numbers. y: places of scale and zero point.

    weight: whether the second operand may have a scale per channel, and a bias may follow at
    `bias`. drops: attributes that are of this form alone.
    """

    def __init__(
        self,
        op_type: str,
        operands: tuple[_Triple, ...],
        y: tuple[int, int],
        bias: int | None = None,
        drops: tuple[str, ...] = (),
    ) -> None:
        self.op_type, self.operands, self.y = op_type, operands, y
        self.bias, self.drops = bias, drops


_ONE: tuple[_Triple, ...] = ((0, 1, 2),)
_TWO: tuple[_Triple, ...] = ((0, 1, 2), (3, 4, 5))

FORMS: Mapping[tuple[str, str], _Form] = {
    ("", "QLinearConv"): _Form("Conv", _TWO, (6, 7), bias=8),
    ("", "QLinearMatMul"): _Form("MatMul", _TWO, (6, 7)),
    (CONTRIBUTED, "QGemm"): _Form("Gemm", _TWO, (7, 8), bias=6),
    (CONTRIBUTED, "QLinearAdd"): _Form("Add", _TWO, (6, 7)),
    (CONTRIBUTED, "QLinearAveragePool"): _Form(
        "AveragePool", _ONE, (3, 4), drops=("channels_last",)
    ),
    (CONTRIBUTED, "QLinearGlobalAveragePool"): _Form(
        "GlobalAveragePool", _ONE, (3, 4), drops=("channels_last",)
    ),
    (CONTRIBUTED, "QLinearLeakyRelu"): _Form("LeakyRelu", _ONE, (3, 4)),
    (CONTRIBUTED, "QLinearMul"): _Form("Mul", _TWO, (6, 7)),
    (CONTRIBUTED, "QLinearReduceMean"): _Form("ReduceMean", _ONE, (3, 4)),
    (CONTRIBUTED, "QLinearSigmoid"): _Form("Sigmoid", _ONE, (3, 4)),
    (CONTRIBUTED, "QLinearSoftmax"): _Form("Softmax", _ONE, (3, 4), drops=("opset",)),
}
CONCAT = "QLinearConcat"


def is_operator_form(graph: GraphProto) -> bool:
    """Return whether a node computes with integers and scales."""
    return any(_key(n) in FORMS or n.op_type == CONCAT or _is_contributed(n) for n in graph.node)


def with_qdq(model: ModelProto) -> ModelProto:
    """The model in QDQ form; itself if it is. Raises ModelError, UnsupportedError."""
    if not is_operator_form(model.graph):
        return model
    made = ModelProto()
    made.CopyFrom(model)
    (opset,) = (o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))
    _Rewriting(made.graph, opset).run()
    return made


def _key(node: NodeProto) -> tuple[str, str]:
    return "" if node.domain == "ai.onnx" else node.domain, node.op_type


def _is_contributed(node: NodeProto) -> bool:
    return node.domain == CONTRIBUTED and node.op_type in QUANTIZERS


class _Rewriting:
    """A graph whose nodes are replaced one after another."""

    def __init__(self, graph: GraphProto, opset: int) -> None:
        self.graph, self.opset = graph, opset
        self.constants: dict[str, TensorProto] = {t.name: t for t in graph.initializer}
        self.names = Names()
        taken = {t.name for t in graph.initializer} | {i.name for i in graph.input}
        for node in graph.node:
            taken.update((node.name, *node.output))
        for name in sorted(taken):
            self.names.take(name)
        self.stored: dict[str, tuple[str, ...]] = {}  # integers → names of scale and zero point
        self.nodes: list[NodeProto] = []

    def run(self) -> None:
        """Replace all nodes."""
        for node in self.graph.node:
            if node.op_type == "Constant" and node.output:
                values = (a.t for a in node.attribute if a.name == "value")
                self.constants.update(zip(node.output, values, strict=False))
            self._replace(node)
        del self.graph.node[:]
        self.graph.node.extend(self.nodes)

    def _replace(self, node: NodeProto) -> None:
        form = FORMS.get(_key(node))
        if form is not None:
            self._written_out(node, form)
        elif _key(node) == (CONTRIBUTED, CONCAT):
            self._concat(node)
        elif node.op_type in MOVING and node.input and node.input[0] in self.stored:
            self._moving(node)
        else:
            self._kept(node)

    def _kept(self, node: NodeProto) -> None:
        if _is_contributed(node):
            plain = NodeProto()
            plain.CopyFrom(node)
            plain.domain = ""
            node = plain
        self.nodes.append(node)
        if node.op_type == "QuantizeLinear":
            self.stored.update(dict.fromkeys(node.output, tuple(node.input[1:3])))

    def _written_out(self, node: NodeProto, form: _Form) -> None:
        attributes = {a.name: a for a in node.attribute}
        self._check(node, attributes, form)
        inputs = [self._real(node, i, triple, form) for i, triple in enumerate(form.operands)]
        if form.bias is not None and (name := _input(node, form.bias)):
            inputs.append(self._bias(node, name, form))
        kept = [a for name, a in attributes.items() if name not in form.drops]
        y = tuple(_input(node, place) for place in form.y)
        self._emit(node, form.op_type, inputs, kept, y)

    def _concat(self, node: NodeProto) -> None:
        operands = [(i, i + 1, i + 2) for i in range(2, len(node.input), 3)]
        inputs = [self._dequantized(node, operand) for operand in operands]
        y = (_input(node, 0), _input(node, 1))
        self._emit(node, "Concat", inputs, list(node.attribute), y)

    def _moving(self, node: NodeProto) -> None:
        """Its integers as real numbers and back, under the scale of what it reads first."""
        scale = self.stored[node.input[0]]
        inputs = [
            self._dequantize(name, self.stored.get(name, scale))
            if name in self.stored or self._is_stored(name, scale)
            else name
            for name in node.input
        ]
        op_type, attributes = node.op_type, list(node.attribute)
        if op_type == "Relu":
            op_type, inputs = "Max", [*inputs, self._zero(scale)]
        elif op_type == "Pad" and self.opset >= FILLED_SINCE and _fills_with_zeros(node):
            inputs = [*(*inputs, "", "")[:2], self._zero(scale), *inputs[3:]]
        self._emit(node, op_type, inputs, attributes, scale)

    def _zero(self, scale: tuple[str, ...]) -> str:
        """The integer 0 in real numbers: what operators of integers as they are mean by 0."""
        point = self.constants.get(scale[1]) if len(scale) > 1 else None
        kind = np.dtype(np.uint8) if point is None else tensor_to_array(point).dtype
        name = self.names.take("zero")
        self.graph.initializer.append(numpy_helper.from_array(np.zeros((), kind), name))
        return self._dequantize(name, scale)

    def _is_stored(self, name: str, scale: tuple[str, ...]) -> bool:
        """Whether it is a constant in the integers of a zero point: what a Pad is filled with."""
        types = [self.constants[n].data_type for n in (name, *scale[1:]) if n in self.constants]
        return len(types) == 2 and types[0] == types[1]

    def _emit(
        self,
        node: NodeProto,
        op_type: str,
        inputs: list[str],
        attributes: list[Any],
        y: tuple[str, ...],
    ) -> None:
        """The operator on real numbers, and what stores its results; y[0] empty: nothing does."""
        name = node.name or next(iter(node.output), "")
        is_real = not y[0]
        outputs = [o if is_real or not o else self.names.take(f"{o}/real") for o in node.output]
        made = helper.make_node(op_type, inputs, outputs, name=name)
        made.attribute.extend(attributes)
        self.nodes.append(made)
        for real, stored in zip(outputs, node.output, strict=True):
            if real == stored:
                continue
            quantizer = self.names.take(f"{stored}/quantize")
            parts = [real, *(part for part in y if part)]
            self.nodes.append(helper.make_node("QuantizeLinear", parts, [stored], name=quantizer))
            self.stored[stored] = tuple(parts[1:])

    def _real(self, node: NodeProto, index: int, triple: _Triple, form: _Form) -> str:
        """An operand as real numbers; a weight along the axis of its channels."""
        scale = self.constants.get(_input(node, triple[1]))
        if index == 0 or scale is None or _count(scale) == 1:
            return self._dequantized(node, triple)
        if self.opset < CHANNELS_SINCE:
            raise UnsupportedError(
                f"{node.op_type} (node {node.name!r}): scales per channel in opset {self.opset} "
                f"are not supported; export the float model for opset {CHANNELS_SINCE} or later "
                "and quantize it again"
            )
        return self._dequantized(node, triple, axis=_weight_axis(node, form))

    def _dequantized(self, node: NodeProto, triple: _Triple, axis: int | None = None) -> str:
        name, *scale = (_input(node, place) for place in triple)
        if not name or not scale[0]:
            raise ModelError(f"{node.op_type} (node {node.name!r}): an input is missing")
        return self._dequantize(name, tuple(part for part in scale if part), axis)

    def _dequantize(self, name: str, scale: tuple[str, ...], axis: int | None = None) -> str:
        real = self.names.take(f"{name}/real")
        attributes: dict[str, Any] = {} if axis is None else {"axis": axis}
        made = helper.make_node("DequantizeLinear", [name, *scale], [real], name=real, **attributes)
        self.nodes.append(made)
        return real

    def _bias(self, node: NodeProto, name: str, form: _Form) -> str:
        """int32 under the product of the scales of both operands, and a Gemm's alpha."""
        a, b = (self._numbers(node, form.operands[i][1]) for i in (0, 1))
        alpha = next((a.f for a in node.attribute if a.name == "alpha"), 1.0)
        if a.size != 1 and b.size != 1 and a.shape != b.shape:
            raise UnsupportedError(
                f"{node.op_type} (node {node.name!r}): scales of the shapes {a.shape} and "
                f"{b.shape} are not supported; one for the first operand is"
            )
        with np.errstate(over="ignore"):  # the reader says that a scale must be finite
            scale = (a.astype(np.float64) * b.astype(np.float64) * alpha).astype(np.float32)
        one = scale.reshape(()) if scale.size == 1 else scale.ravel()
        stored = self.names.take(f"{name}/scale")
        self.graph.initializer.append(numpy_helper.from_array(np.asarray(one), stored))
        return self._dequantize(name, (stored,), axis=None if scale.size == 1 else 0)

    def _numbers(self, node: NodeProto, place: int) -> Array:
        name = _input(node, place)
        if name not in self.constants:
            raise UnsupportedError(
                f"{node.op_type} (node {node.name!r}): the scale {name!r} is computed, which is "
                "not supported; a constant is: quantize the model statically"
            )
        return tensor_to_array(self.constants[name])

    def _check(self, node: NodeProto, attributes: Mapping[str, Any], form: _Form) -> None:
        where = f"{node.op_type} (node {node.name!r})"
        if "channels_last" in attributes and attributes["channels_last"].i:
            raise UnsupportedError(
                f"{where}: channels_last is not supported; channels first is: quantize the model "
                "without onnxruntime's optimizations"
            )
        rules = attributes["opset"].i if "opset" in attributes else self.opset
        if (rules < ONE_AXIS_SINCE) != (self.opset < ONE_AXIS_SINCE):
            raise UnsupportedError(
                f"{where}: the rules of opset {rules} in a model of opset "
                f"{self.opset} are not supported; export the float model anew"
            )


def _input(node: NodeProto, place: int) -> str:
    return str(node.input[place]) if place < len(node.input) else ""


def _fills_with_zeros(node: NodeProto) -> bool:
    modes = [a.s for a in node.attribute if a.name == "mode"]
    return modes in ([], [b"constant"]) and not _input(node, 2)


def _count(tensor: TensorProto) -> int:
    return int(np.prod(tensor.dims, dtype=np.int64))


def _weight_axis(node: NodeProto, form: _Form) -> int:
    """The axis of a weight's channels: the first of a Conv's and a transposed Gemm's."""
    if form.op_type == "Conv":
        return 0
    transposed = any(a.name == "transB" and a.i for a in node.attribute)
    return 0 if transposed else 1

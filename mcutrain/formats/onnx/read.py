"""int8 .onnx models in QDQ form, or in operator form, which is turned into it, become graphs.

Every operator of the file stands between DequantizeLinear and QuantizeLinear; we take the integers
they speak of and compute in integers, by TFLite's rules. onnxruntime computes the same in float, so
single outputs may differ by a step.

Differences to the file: activations are [1, h, w, c] instead of [1, c, h, w]. uint8 activations are
int8, smaller by 128. The QuantizeLinear of the input and the DequantizeLinear of the output are
gone, so the graph takes and gives int8. An input stays as it is where channels last would move more
numbers. A Rescale follows a MaxPool, Pad, Resize or Softmax whose QuantizeLinear has another scale
than the operator gives. First comes the operator on the input's integers, then the new scale, then
activations. Pools, means, and whatever only changes the scale round once, as onnxruntime does.
"""

from __future__ import annotations

from pathlib import Path

from onnx import GraphProto, ModelProto, TensorProto

from mcutrain.errors import ModelError, UnsupportedError
from mcutrain.formats.fitting import Fitting
from mcutrain.formats.obstacles import UNPREPARED
from mcutrain.formats.onnx.file import (
    Attributes,
    keep_output,
    opsets,
    read_model,
    tensor_to_array,
)
from mcutrain.formats.onnx.int8_node import Int8Node
from mcutrain.formats.onnx.layout import CHANNELS_LAST, IMAGE_RANKS, Layout
from mcutrain.formats.onnx.node import Constant, OnnxNode
from mcutrain.formats.onnx.operators import INT8_RULES, REASONS
from mcutrain.formats.onnx.parts import with_layer_norms
from mcutrain.formats.onnx.qoperator import with_qdq
from mcutrain.formats.onnx.reading import ID_TYPES, Reading, read_in_best_order
from mcutrain.formats.onnx.recurrent import with_one_output
from mcutrain.formats.onnx.values import (
    MAX_ELEMENTS,
    Builder,
    GraphInput,
    IdInput,
    Source,
    Value,
)
from mcutrain.ir.graph import Graph
from mcutrain.ops.transpose import Transpose
from mcutrain.quant.canonical import canonical
from mcutrain.quant.rounding import rounding_once

INPUT_TYPES: dict[int, str] = {
    TensorProto.FLOAT: "",
    TensorProto.INT8: "int8",
    TensorProto.UINT8: "uint8",
    **dict.fromkeys(ID_TYPES, "ids"),
}
OLDEST_QDQ_OPSET = 10
ROUNDING, ROUNDS_TWICE = "mcutrain.rounding", "twice"
"""Metadata of a file that was written of a graph with TFLite's rounding: the bits of its device."""
AXES, CHANNELS_FIRST = "mcutrain.axes", "channels first"
"""Metadata of a file that we wrote with its input turned, where nothing else in it tells that."""
DYNAMIC = ("ConvInteger", "DynamicQuantizeLinear", "DynamicQuantizeMatMul", "MatMulInteger")
ORT_QUANTIZER, PREPARED = "onnx.quantize", "onnx.quant.pre_process"
"""What onnxruntime's quantizer writes as the producer, and its pre-processing as a key."""


def load_onnx(path: str | Path) -> Graph:
    """The int8 graph of a QDQ model in canonical form.

    The graph's input is int8 [1, h, w, c] (or [1, n]) with the quantization of the model's first
    QuantizeLinear. An image output is [1, h, w, c], a vector [1, n]. Its axes say where the file
    has another order. Raises UnsupportedError for what is valid but unknown, ModelError for what is
    broken.
    """
    model = _read_qdq(path)
    graph = _read_graph(model, Path(path))[0]
    stated = {entry.key: entry.value for entry in model.metadata_props}
    if stated.get(ROUNDING) != ROUNDS_TWICE:
        graph = rounding_once(graph)
    return canonical(graph.with_nodes(graph.nodes))


def rounding_of_weights(path: Path) -> str:
    """How weights with a zero point became int8, as a clause; nothing where none was rounded."""
    model = _read_qdq(path)
    if not _has_zero_points(model.graph):
        return ""
    fitting = _read_graph(model, path)[1]
    return f"the file has weights with a zero point; {fitting}" if fitting.rounded else ""


def _read_qdq(path: str | Path) -> ModelProto:
    """The model in QDQ form."""
    model = read_model(path)
    keep_output(model.graph)
    (opset,) = opsets(model)
    model = with_qdq(model)
    with_layer_norms(model.graph)
    with_one_output(model.graph)
    _check_form(model.graph, opset)
    return model


def _read_graph(model: ModelProto, path: Path) -> tuple[Graph, Fitting]:
    """The graph as the file has it, and how its weights fit int8."""
    (opset,) = opsets(model)
    keys = {entry.key for entry in model.metadata_props}
    is_unprepared = model.producer_name == ORT_QUANTIZER and PREPARED not in keys

    def read(turns: bool) -> tuple[Graph, Fitting]:
        reader = _Int8Reader(opset, turns)
        reader.likely += (UNPREPARED,) if is_unprepared else ()
        return reader.graph(model.graph, path), reader.builder.fitting

    if any((e.key, e.value) == (AXES, CHANNELS_FIRST) for e in model.metadata_props):
        return read(True)
    return read_in_best_order(model.graph, read, lambda found: _moved(found[0]))


def _has_zero_points(graph: GraphProto) -> bool:
    """Return whether a constant of two or more axes is read with a zero point other than 0."""
    constants = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and node.output:
            values = (a.t for a in node.attribute if a.name == "value")
            constants.update(zip(node.output, values, strict=False))
    return any(
        node.op_type == "DequantizeLinear"
        and len(node.input) > 2
        and node.input[2] in constants
        and len(getattr(constants.get(node.input[0]), "dims", ())) > 1
        and tensor_to_array(constants[node.input[2]]).any()
        for node in graph.node
    )


def _moved(graph: Graph) -> int:
    moves = (node for node in graph.nodes if isinstance(node.op, Transpose))
    return sum(graph.tensors[node.outputs[0]].type.elements for node in moves)


def _check_form(graph: GraphProto, opset: int) -> None:
    found = {node.op_type for node in graph.node}
    if found.intersection(DYNAMIC):
        raise UnsupportedError(
            "the model is quantized dynamically (MatMulInteger …): the scales of its activations "
            "are computed while it runs; quantize the float model with `mcutrain quantize`, or "
            "with onnxruntime's quantize_static"
        )
    if "QuantizeLinear" not in found and "DequantizeLinear" not in found:
        raise UnsupportedError(
            "the model is float: it has no QuantizeLinear or DequantizeLinear; quantize it to int8 "
            "first: `mcutrain quantize` does it"
        )
    if opset < OLDEST_QDQ_OPSET:
        raise ModelError(
            f"the model is of opset {opset}, but QuantizeLinear is of opset {OLDEST_QDQ_OPSET} and "
            "later: export it anew"
        )


class _Int8Reader(Reading[Value]):
    """Its activations wait for the QuantizeLinear that says how they are stored."""

    rules = INT8_RULES
    reasons = REASONS
    input_types = tuple(INPUT_TYPES)
    max_elements = MAX_ELEMENTS

    def __init__(self, opset: int, turns: bool) -> None:
        super().__init__(opset, turns)
        self.builder = Builder(self.budget)
        self.input_axes: tuple[int, ...] = ()
        self.output_axes: list[tuple[int, ...]] = []

    def graph(self, graph: GraphProto, path: Path) -> Graph:
        """Convert every node in order."""
        with self.refusing(graph):
            name = self.begin(graph)
            outputs = self.compute(graph)
        builder = self.builder
        if name not in builder.tensors:
            raise ModelError(f"the model {str(path)!r} computes nothing from its input {name!r}")
        return Graph(
            path.stem,
            builder.tensors,
            tuple(builder.nodes),
            (name,),
            outputs,
            input_axes=self.input_axes,
            output_axes=tuple(self.output_axes),
        )

    def node(
        self,
        name: str,
        op_type: str,
        inputs: tuple[Value | Constant | None, ...],
        outputs: tuple[str, ...],
        attributes: Attributes,
    ) -> OnnxNode[Value]:
        """Make a node with the graph under construction."""
        args = (name, op_type, self.opset, inputs, outputs, attributes, self.budget)
        return Int8Node(*args, self.builder)

    def begin(self, graph: GraphProto) -> str:
        """Note what is known, and the input; its name."""
        declared = self.declare(graph)
        self._check_image(f"the input {declared.name!r}", declared.layout.shape)
        self.input_axes = declared.layout.perm
        layout = declared.layout.of_rank(len(CHANNELS_LAST))
        integer_type = INPUT_TYPES.get(declared.element_type, "")
        source: Source = GraphInput(declared.name, declared.layout.stored, layout.stored)
        if integer_type == "ids":
            source, layout = IdInput(declared.name, declared.layout.stored), declared.layout
        self.builder.reserved.add(declared.name)
        self.define(declared.name, Value(source, layout, integer_type=integer_type))
        return declared.name

    def end(self, name: str) -> str:
        """The int8 tensor of a graph output, in the shape a user expects."""
        value = self.output(name)
        quantization = value.source.quantization
        if quantization is None:
            raise UnsupportedError(
                f"the output {name!r} is float; a QuantizeLinear (and DequantizeLinear) before it "
                "is supported"
            )
        self._check_image(f"the output {name!r}", value.shape)
        tensor = self.builder.emit(value, name, quantization)
        layout, axes = value.layout, range(len(value.shape))
        order = (0, *axes[2:], 1)
        moves = len(layout.steps(value.shape, order)) > 1
        if moves and layout.is_row_major:
            order = tuple(axes)
        self.output_axes.append(Layout.of_order(value.shape, order).perm)
        return self.builder.arrange(tensor, layout, value.shape, order, name)

    def _check_image(self, what: str, shape: tuple[int, ...]) -> None:
        if len(shape) not in IMAGE_RANKS or shape[0] != 1:
            raise UnsupportedError(
                f"{what} has the shape {shape}; supported are [1, c], [1, c, l] and [1, c, h, w]"
            )

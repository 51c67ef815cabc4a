"""Float .onnx models become float graphs."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

from onnx import GraphProto, TensorProto

from mcutrain.errors import ModelError, UnsupportedError
from mcutrain.formats.onnx.batch import with_one_sample
from mcutrain.formats.onnx.file import HALVES, Attributes, keep_output, opsets, read_model
from mcutrain.formats.onnx.float_node import FloatOnnx, FloatValue, Nodes
from mcutrain.formats.onnx.layout import Layout
from mcutrain.formats.onnx.module_names import with_module_names
from mcutrain.formats.onnx.node import Constant, OnnxNode
from mcutrain.formats.onnx.one_input import with_one_input
from mcutrain.formats.onnx.operators import FLOAT_RULES, REASONS
from mcutrain.formats.onnx.parts import with_layer_norms, without_known_choices
from mcutrain.formats.onnx.reading import ID_TYPES, Reading, read_in_best_order
from mcutrain.formats.onnx.recurrent import with_one_output
from mcutrain.quant.float_graph import MAX_ELEMENTS, FloatGraph, FloatNode
from mcutrain.quant.float_op import Shape
from mcutrain.quant.float_shapes import FloatReshape, FloatTranspose


def read_onnx(path: Path) -> FloatGraph:
    """The float graph of an .onnx file. Raises ModelError with a sentence.

    float16 and float64 are read as float32. An input of uint8 are pixels, see
    `FloatGraph.takes_pixels`. Several float inputs are one, see `FloatGraph.row`.

    An input [1, c, h, w] becomes [1, h, w, c] where that moves fewer numbers: before convolutions.
    It does not where the model begins with a Transpose from channels last, as converters from
    TensorFlow write it.
    """
    try:
        model = read_model(path)
        keep_output(model.graph)
        found = {node.op_type for node in model.graph.node}
        if "QuantizeLinear" in found:
            raise UnsupportedError("the model is quantized already; give the float model")
        model, inputs = with_one_input(model)
        model = with_one_sample(model)
        graph, (opset, *_) = model.graph, opsets(model)
        with_layer_norms(graph)
        without_known_choices(graph)
        with_one_output(graph)
        with_module_names(graph)
        read = read_in_best_order(
            graph, lambda turns: _FloatReader(opset, turns).graph(graph, path.stem), _moved
        )
        return replace(read, row=inputs)
    except ModelError as error:
        text = str(error)
        raise type(error)(text if str(path) in text else f"{path}: {text}") from error
    except (ArithmeticError, LookupError, MemoryError, RecursionError, ValueError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ModelError(f"{path} is corrupt: {reason}") from error


def _moved(graph: FloatGraph) -> int:
    moves = (node for node in graph.nodes if isinstance(node.op, FloatTranspose))
    return sum(math.prod(graph.shapes[node.output]) for node in moves)


class _FloatReader(Reading[FloatValue]):
    """Its activations are tensors that are stored channels last."""

    rules = FLOAT_RULES
    reasons = REASONS
    input_types = (TensorProto.FLOAT, TensorProto.DOUBLE, *HALVES, TensorProto.UINT8, *ID_TYPES)
    max_elements = MAX_ELEMENTS

    def __init__(self, opset: int, turns: bool) -> None:
        super().__init__(opset, turns)
        self.nodes = Nodes()
        self.axes: dict[str, tuple[int, ...]] = {}

    def node(
        self,
        name: str,
        op_type: str,
        inputs: tuple[FloatValue | Constant | None, ...],
        outputs: tuple[str, ...],
        attributes: Attributes,
    ) -> OnnxNode[FloatValue]:
        """Make a node with the float nodes so far."""
        args = (name, op_type, self.opset, inputs, outputs, attributes, self.budget)
        return FloatOnnx(*args, self.nodes)

    def graph(self, graph: GraphProto, name: str) -> FloatGraph:
        """Convert every node in order."""
        with self.refusing(graph):
            declared = self.declare(graph)
            for taken in (declared.name, *(o.name for o in graph.output)):
                self.nodes.names.take(taken)
            stored = self._note(declared.name, declared.layout)
            self.define(declared.name, FloatValue(declared.name, declared.layout))
            if declared.element_type in ID_TYPES:
                self.nodes.integers.add(declared.name)
            outputs = self.compute(graph)
        axes = {name: self.axes[name] for name in (declared.name, *outputs)}
        nodes = tuple(self.nodes.nodes)
        is_half = any(tensor.data_type in HALVES for tensor in graph.initializer)
        read = FloatGraph(name, declared.name, stored, nodes, outputs, axes, is_half=is_half)
        if self.nodes.integers and not read.ids:
            raise UnsupportedError(
                f"the input {declared.name!r} is read as integers, but no Gather of a constant "
                "table takes them for token ids: export the model with a float input"
            )
        is_uint8 = declared.element_type == TensorProto.UINT8
        return replace(read, takes_pixels=is_uint8 and not read.ids)

    def assumed(self, name: str, layout: Layout) -> FloatValue:
        """Its shape is all that there is of it."""
        tensor = self.nodes.names.take(name)
        self.nodes.shapes[tensor] = layout.stored
        return FloatValue(tensor, layout)

    def end(self, name: str) -> str:
        """The stored tensor of an output, under the output's name, channels last."""
        value = self.output(name)
        if value.tensor == name:
            raise UnsupportedError(f"the output {name!r} is the model's input")
        if value.shape[:1] != (1,):
            raise UnsupportedError(
                f"the output {name!r} has the shape {value.shape}; one that begins with a batch of "
                "1 is supported"
            )
        order = value.layout.order
        tensor = self.nodes.arrange(value.tensor, value.layout, value.shape, order, name)
        stored = self._note(name, Layout.of_order(value.shape, order))
        view = FloatReshape(stored)
        self.nodes.nodes.append(FloatNode(f"{name}/output", view, (tensor,), name))
        return name

    def _note(self, name: str, layout: Layout) -> Shape:
        """The stored shape of an input or output of the graph."""
        self.nodes.shapes[name], self.axes[name] = layout.stored, layout.perm
        return layout.stored

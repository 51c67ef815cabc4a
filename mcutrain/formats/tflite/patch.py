"""The original .tflite file with other parameters: all the rest survives as it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tflite
from mcutrain_host.dataclass import dataclass

from mcutrain.formats.tflite.file import MISSING, UINT8_OFFSET, FileModel, FileOperator, read_file
from mcutrain.formats.tflite.flatbuffer import Table, read_model
from mcutrain.formats.tflite.recurrent import PARTS
from mcutrain.formats.tflite.shapes import VIEWS
from mcutrain.formats.tflite.sums import WEIGHT_AXES
from mcutrain.formats.tflite.writer import TENSOR_TYPES, as_bytes, quantization
from mcutrain.ir.difference import changed, is_rescaled
from mcutrain.ir.graph import Graph, Tensor, TensorType
from mcutrain.ops.lstm import GATES, Lstm
from mcutrain.sparse import find_head

Array = npt.NDArray[Any]

DATA_SLOT = 4  # of Buffer.data in the table's vtable
SCALE_SLOT = 8  # of QuantizationParameters.scale


@dataclass(frozen=True)
class Change:
    """A parameter that is another now. operator, position: where the file reads it."""

    operator: int
    position: int
    tensor: Tensor
    is_resized: bool


def patched(path: Path, original: Graph, trained: Graph) -> bytes | None:
    """The file with the trained graph's parameters; None if it is not known where they go.

    original: the graph of the file. Parameters of the same size are replaced in place, so that no
    other byte changes; else the file's tables are written anew.
    """
    model = read_file(path)
    changes = _changes(model, original, trained)
    if changes is None:
        return None
    content = path.read_bytes()
    in_place = _in_place(content, model, changes)
    if in_place is not None and is_rescaled(original, trained):
        scales = {i: kind.scale for i, kind in _output_types(model, original, trained).items()}
        in_place = _with_scales(in_place, scales)
    return in_place or _rewritten(content, model, changes, (original, trained))


def _changes(model: FileModel, original: Graph, trained: Graph) -> list[Change] | None:
    """Every changed constant with its place in the file."""
    names = changed(original, trained)
    operators = _operators(model, original)
    found: list[Change] = []
    for name in names:
        node, *others = (n for n in trained.nodes if name in n.inputs)
        if others or node.name not in operators:
            return None
        before, after = original.tensors.get(name), trained.tensors[name]
        is_resized = before is None or before.type != after.type
        position = node.inputs.index(name)
        if not isinstance(node.op, Lstm):
            found.append(Change(operators[node.name], position, after, is_resized))
            continue
        assert after.data is not None
        for gate, data in enumerate(np.split(after.data, GATES)):
            part = Tensor(name, replace(after.type, shape=data.shape), data)
            place = PARTS[position - 1] + gate
            found.append(Change(operators[node.name], place, part, is_resized))
    return found


def _operators(model: FileModel, graph: Graph) -> dict[str, int]:
    """Node with weights → the operator of the file that it comes from.

    Both lists are in order; an operator whose weights the next node does not have was left out.
    """
    found = {}
    nodes = [
        n
        for n in graph.nodes
        if (len(n.inputs) == 3 or isinstance(n.op, Lstm)) and graph.tensors[n.inputs[1]].is_constant
    ]
    stored = [(i, _weight_bytes(model, operator)) for i, operator in enumerate(model.operators)]
    for node in nodes:
        data = graph.tensors[node.inputs[1]].data
        assert data is not None
        places = [place for place, (_, content) in enumerate(stored) if content == data.tobytes()]
        if places:
            found[node.name] = stored[places[0]][0]
            del stored[: places[0] + 1]
    return found


def _weight_bytes(model: FileModel, operator: FileOperator) -> bytes | None:
    """The content of a layer's weight; None for other operators."""
    count = GATES if operator.name == "UNIDIRECTIONAL_SEQUENCE_LSTM" else 1
    if count == 1 and operator.name not in WEIGHT_AXES:
        return None
    parts = [model.tensors[operator.inputs[1 + i]].data for i in range(count)]
    return b"".join(part.tobytes() for part in parts if part is not None) or None


# ----------------------------------------------------------------------------------- in place


def _in_place(content: bytes, model: FileModel, changes: list[Change]) -> bytes | None:
    """Return the bytes with other parameters; None if one of them has no place of its own."""
    root = tflite.Model.GetRootAs(content, 0)
    graph = root.Subgraphs(0)
    uses = model.reads
    graphs = [root.Subgraphs(i) for i in range(root.SubgraphsLength())]
    buffers = Counter(g.Tensors(i).Buffer() for g in graphs for i in range(g.TensorsLength()))
    buffers.update(root.Metadata(i).Buffer() for i in range(root.MetadataLength()))
    result = bytearray(content)
    for change in changes:
        index = _index(model, change)
        if index == MISSING or change.is_resized or uses[index] != 1:
            return None
        buffer = graph.Tensors(index).Buffer()
        data = as_bytes(_data(change)).tobytes()
        table = root.Buffers(buffer)
        if buffers[buffer] != 1 or table.DataLength() != len(data):
            return None
        place = table._tab.Vector(table._tab.Offset(DATA_SLOT))
        result[place : place + len(data)] = data
    return bytes(result)


def _with_scales(content: bytes, scales: Mapping[int, float]) -> bytes | None:
    """Return the bytes with other scales of tensors; None if others may share them."""
    graph = tflite.Model.GetRootAs(content, 0).Subgraphs(0)
    tables = [graph.Tensors(i).Quantization() for i in range(graph.TensorsLength())]
    places = [_scale_place(table) for table in tables]
    uses = Counter(places)
    result = bytearray(content)
    for index, scale in scales.items():
        table, place = tables[index], places[index]
        new = np.array(scale, "<f4").tobytes()
        if place and result[place : place + 4] == new:
            continue
        if table is None or table.ScaleLength() != 1 or uses[place] != 1 or table.MinLength():
            return None
        result[place : place + 4] = new
    return bytes(result)


def _scale_place(table: Any) -> int:
    """Return where the scales begin; 0 if there are none."""
    if table is None or not table.ScaleLength():
        return 0
    return int(table._tab.Vector(table._tab.Offset(SCALE_SLOT)))


def _output_types(model: FileModel, original: Graph, trained: Graph) -> dict[int, TensorType]:
    """Return new types of the head's outputs, and of their mean's, by tensor of the file."""
    old, new = find_head(original).node, find_head(trained).node
    last = original.logits_node(old), trained.logits_node(new)
    operators = [_operators(model, original)[old.name]]
    if last[0] is not old:
        operators.append(_mean_behind(model, operators[0]))
    found = {}
    for operator, node in zip(operators, dict.fromkeys((new, last[1])), strict=True):
        kind = trained.tensors[node.outputs[0]].type
        for index, added in _same_integers(model, operator).items():
            found[index] = replace(kind, zero_point=kind.zero_point + added)
    return found


def _mean_behind(model: FileModel, head: int) -> int:
    """The operator that takes the mean over positions of the head's outputs."""
    names = [operator.name for operator in model.operators]
    return names.index("MEAN", head)


def _same_integers(model: FileModel, first: int) -> dict[int, int]:
    """The tensors that hold the outputs of the operator `first`, and what is added to them.

    128 in an uint8 tensor at the end of the model, otherwise 0.
    """
    found = dict.fromkeys(model.operators[first].outputs, 0)
    for operator in model.operators[first + 1 :]:
        source = next((i for i in operator.inputs[:1] if i in found), None)
        if source is None or operator.name not in (*VIEWS, "QUANTIZE"):
            continue
        for output in operator.outputs:
            if operator.name in VIEWS:
                found[output] = found[source]
            elif model.tensors[output].dtype == "uint8":
                found[output] = UINT8_OFFSET
    return found


def _index(model: FileModel, change: Change) -> int:
    """The number of the tensor that the operator reads there."""
    inputs = model.operators[change.operator].inputs
    return inputs[change.position] if change.position < len(inputs) else MISSING


def _owns_name(model: FileModel, change: Change) -> bool:
    """Return whether this reader of a tensor, of several, has its name: the last one has."""
    index = _index(model, change)
    return index != MISSING and model.tensors[index].name == change.tensor.name


def _data(change: Change) -> Array:
    assert change.tensor.data is not None
    return change.tensor.data


# ------------------------------------------------------------------------------------- anew


def _rewritten(
    content: bytes, model: FileModel, changes: list[Change], graphs: tuple[Graph, Graph]
) -> bytes:
    """The file's tables with the changes, written anew."""
    root = read_model(content)
    editor = _Editor(root, model)
    for change in sorted(changes, key=lambda c: _owns_name(model, c)):
        editor.set_parameter(change)
    original, trained = graphs
    if any(c.is_resized for c in changes) or is_rescaled(original, trained):
        old, new = find_head(original), find_head(trained)
        first = _operators(model, original)[old.name]
        classes = (
            original.tensors[old.bias].type.elements,
            trained.tensors[new.bias].type.elements,
        )
        editor.resize_outputs(first, classes, _output_types(model, original, trained))
    return root.file()


class _Editor:
    """Changes the tables of a model."""

    def __init__(self, root: Table, model: FileModel) -> None:
        self.root, self.model = root, model
        self.graph, *others = root["Subgraphs"]
        self.tensors: list[Table] = self.graph["Tensors"]
        self.other_tensors = [t for other in others for t in other.get("Tensors", [])]
        self.uses = model.reads

    def set_parameter(self, change: Change) -> None:
        """Give the operator its parameter: under the same name, if no other operator reads it."""
        operator = self.graph["Operators"][change.operator]
        inputs = operator["Inputs"]
        index = _index(self.model, change)
        if index == MISSING:
            operator["Inputs"] = np.append(inputs[: change.position], 0).astype(np.int32)
            table = Table("Tensor", {"Name": change.tensor.name})
        else:
            table = Table("Tensor", dict(self.tensors[index].fields))
        is_new = index == MISSING or self.uses[index] > 1
        if is_new:
            table["Name"] = change.tensor.name
            operator["Inputs"][change.position] = len(self.tensors)
            self.tensors.append(table)
            self.uses[index] -= 1
        else:
            self.tensors[index] = table
        self._fill(table, change, is_new)

    def _fill(self, table: Table, change: Change, is_new: bool) -> None:
        """Set the tensor's data, and if they changed its shape and quantization."""
        if is_new or change.is_resized:
            shape = self._file_shape(change)
            table["Shape"] = np.array(shape, np.int32)
            table["Type"] = TENSOR_TYPES[change.tensor.type.dtype]
            table["Quantization"] = quantization(change.tensor.type)
            table.fields.pop("ShapeSignature", None)
        data = Table("Buffer", {"Data": as_bytes(_data(change))})
        buffers = self.root["Buffers"]
        number = table.get("Buffer", 0)
        if number == 0 or is_new or self._readers(number) > 1:
            table["Buffer"] = len(buffers)
            buffers.append(data)
        else:
            buffers[number] = data

    def _readers(self, buffer: int) -> int:
        holders = (*self.tensors, *self.other_tensors, *self.root.get("Metadata", []))
        return sum(holder.get("Buffer", 0) == buffer for holder in holders)

    def _file_shape(self, change: Change) -> tuple[int, ...]:
        """As the operator has it: a matrix, where the graph has a 1x1 kernel."""
        shape = change.tensor.type.shape
        name = self.model.operators[change.operator].name
        is_matrix = name == "FULLY_CONNECTED" and len(shape) == 4
        return (shape[0], shape[3]) if is_matrix else shape

    def resize_outputs(
        self, first: int, classes: tuple[int, int], kinds: Mapping[int, TensorType]
    ) -> None:
        """Give the head's output, and what is computed from it, the new number of classes.

        first: the head's operator. kinds: of the tensors that have its integers, or their mean's.
        """
        reached = {int(i) for i in self.graph["Operators"][first]["Outputs"]}
        for index in range(first, len(self.model.operators)):
            operator, table = self.model.operators[index], self.graph["Operators"][index]
            if index > first and not reached.intersection(operator.inputs):
                continue
            if index > first and operator.name in VIEWS and kinds.keys() & set(operator.inputs):
                self._resize_view(table, classes)
            reached.update(operator.outputs)
            for output in operator.outputs:
                self._resize(self.tensors[output], classes)
                if output in kinds:
                    self.tensors[output]["Quantization"] = quantization(kinds[output])

    def _resize(self, tensor: Table, classes: tuple[int, int]) -> None:
        for field in ("Shape", "ShapeSignature"):
            if tensor.get(field) is not None:
                tensor[field] = _resized(tensor[field], classes)

    def _resize_view(self, operator: Table, classes: tuple[int, int]) -> None:
        """The shape that a RESHAPE is told, as an attribute and as a constant."""
        options = operator.get("BuiltinOptions")
        if options is not None and options.get("NewShape") is not None:
            options["NewShape"] = _resized(options["NewShape"], classes)
        if len(operator["Inputs"]) < 2:
            return
        index = int(operator["Inputs"][1])
        data = self.model.tensors[index].data
        if data is not None and data.dtype == np.int32:
            content = Table("Buffer", {"Data": as_bytes(_resized(data, classes))})
            tensor = Table(
                "Tensor", {**self.tensors[index].fields, "Buffer": len(self.root["Buffers"])}
            )
            self.root["Buffers"].append(content)
            operator["Inputs"][1] = len(self.tensors)
            self.tensors.append(tensor)


def _resized(shape: Array, classes: tuple[int, int]) -> Array:
    """A shape whose last axis of so many classes has another number of them."""
    places = np.flatnonzero(shape == classes[0])
    changed_shape = shape.copy()
    if len(places):
        changed_shape[places[-1]] = classes[1]
    return changed_shape

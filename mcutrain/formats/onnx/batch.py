"""Models that are fixed to a batch of more than one sample, as models of one.

Exporters write the batch of their example into the input and into the shapes of Reshapes. Where
every operator treats the samples alike, each on its own, a model of one sample can be made. The
batch is followed from the input on, and shapes and constants that hold it are changed. Whatever may
mix samples is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, numpy_helper, shape_inference

from mcutrain.errors import UnsupportedError
from mcutrain.formats.onnx.file import opsets, tensor_to_array
from mcutrain.formats.onnx.old import ONE_AXIS_SINCE

Array = npt.NDArray[Any]
Shape = tuple[int, ...]

ELEMENTWISE = {
    *("Abs", "Add", "Cast", "Clip", "DequantizeLinear", "Div", "Dropout", "Elu", "Erf", "Exp"),
    *("Gelu", "HardSigmoid", "HardSwish", "Identity", "LeakyRelu", "Log", "Max", "Min", "Mish"),
    *("Mul", "Neg", "PRelu", "Pow", "QuantizeLinear", "Reciprocal", "Relu", "Selu", "Sigmoid"),
    *("Softplus", "Sqrt", "Sub", "Tanh", "Where"),
}
OF_SAMPLES = {
    *("AveragePool", "BatchNormalization", "Conv", "ConvTranspose", "DepthToSpace"),
    *("GlobalAveragePool", "GlobalMaxPool", "InstanceNormalization", "LRN", "MaxPool", "Pad"),
    *("Resize", "SpaceToDepth", "Upsample"),
}
"""Operators whose first axis is the batch."""
ALONG_AXES = {
    *("Concat", "LayerNormalization", "LogSoftmax", "ReduceMax", "ReduceMean", "ReduceMin"),
    *("ReduceSum", "Slice", "Softmax", "Split", "ReduceL2"),
}
"""Operators that mix what lies along axes that they name."""
OF_STEPS = ("GRU", "LSTM")
"""Operators of sequences, whose batch may be the second axis."""
VIEWS = ("Flatten", "Reshape")
LEFT_OUT = ("Shape", "Size")
"""What says the batch itself: of the model of one sample, 1."""


def with_one_sample(model: ModelProto) -> ModelProto:
    """The model for one sample; itself where it is. Raises UnsupportedError."""
    known = {tensor.name for tensor in model.graph.initializer}
    inputs = [info for info in model.graph.input if info.name not in known]
    if len(inputs) != 1 or not inputs[0].type.tensor_type.shape.dim:
        return model
    batch = inputs[0].type.tensor_type.shape.dim[0].dim_value
    if batch <= 1:
        return model
    made = ModelProto()
    made.CopyFrom(model)
    try:
        inferred = shape_inference.infer_shapes(made, data_prop=True)
    except Exception as error:  # its errors share no base that is named
        reason = " ".join(str(error).split())[:200]
        raise _refused(batch, f"its shapes cannot be inferred: {reason}") from error
    (opset,) = opsets(model)
    _Batch(made.graph, batch, _shapes(inferred.graph), opset).remove(inputs[0].name)
    return made


def _refused(batch: int, why: str) -> UnsupportedError:
    return UnsupportedError(
        f"the model is fixed to a batch of {batch}, and {why}: export the model with a batch of 1, "
        "or a dynamic one"
    )


def _shapes(graph: GraphProto) -> dict[str, Shape]:
    """The shapes that are known, of all tensors."""
    found = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    for info in (*graph.input, *graph.value_info, *graph.output):
        dims = info.type.tensor_type.shape.dim
        if info.type.tensor_type.HasField("shape") and all(d.dim_value > 0 for d in dims):
            found[info.name] = tuple(d.dim_value for d in dims)
    return found


class _Batch:
    """axis: of the batch, by tensor; what is not there is the same for all samples."""

    def __init__(self, graph: GraphProto, batch: int, shapes: dict[str, Shape], opset: int) -> None:
        self.graph, self.batch, self.shapes, self.opset = graph, batch, shapes, opset
        self.axis: dict[str, int] = {}
        self.constants = {tensor.name: tensor for tensor in graph.initializer}
        for node in graph.node:
            if node.op_type == "Constant" and node.output:
                values = (a.t for a in node.attribute if a.name == "value")
                self.constants.update(zip(node.output, values, strict=False))
        self.made: dict[tuple[str, bytes], str] = {}

    def remove(self, name: str) -> None:
        """Follow the batch from the input, and change what holds it."""
        self.axis[name] = 0
        for node in self.graph.node:
            if node.op_type in LEFT_OUT or not any(n in self.axis for n in node.input):
                continue
            place = self._followed(node)
            self.axis.update(dict.fromkeys((n for n in node.output if n), place))
            if node.op_type in OF_STEPS:  # the states have no axis of steps
                self.axis.update(dict.fromkeys(node.output[1:], max(place - 1, 0)))
        for info in (*self.graph.input, *self.graph.output):
            if info.name in self.axis and info.type.tensor_type.shape.dim:
                info.type.tensor_type.shape.dim[self.axis[info.name]].dim_value = 1
        del self.graph.value_info[:]

    def _followed(self, node: NodeProto) -> int:
        """The axis of the batch of a node's outputs."""
        kind = node.op_type
        if kind in ELEMENTWISE:
            return self._elementwise(node)
        axis = self.axis.get(node.input[0])
        if kind == "Transpose" and axis is not None:
            perm = self._attribute(node, "perm") or list(range(self._rank(node.input[0])))[::-1]
            return list(perm).index(axis)
        rules: Mapping[str, Callable[[NodeProto, int], int]] = {
            "Gather": self._gather,
            "Gemm": self._gemm,
            "MatMul": self._matmul,
            "Squeeze": self._squeeze,
            "Unsqueeze": self._squeeze,
            **dict.fromkeys(VIEWS, self._view),
            **dict.fromkeys(ALONG_AXES, self._along),
            **dict.fromkeys(OF_SAMPLES, self._of_samples),
            **dict.fromkeys(OF_STEPS, self._of_steps),
        }
        if kind not in rules or (axis is None and kind not in ("MatMul", "Concat")):
            raise self._mixes(node, "may mix samples")
        return rules[kind](node, -1 if axis is None else axis)

    def _elementwise(self, node: NodeProto) -> int:
        """From the back; constants with a number for each sample must have the same for all."""
        back = {self.axis[n] - self._rank(n) for n in node.input if n in self.axis}
        ranks = [self._rank(n) for n in node.input if n]
        if len(back) != 1:
            raise self._mixes(node, "combines samples along different axes")
        (place,) = back
        for name in node.input:
            if name and name not in self.axis and name not in self.shapes:
                raise self._mixes(node, f"reads {name!r}, whose shape is not known")
        for index, name in enumerate(node.input):
            shape = self.shapes.get(name, ())
            if name and name not in self.axis and len(shape) >= -place and shape[place] != 1:
                node.input[index] = self._of_one(node, name, place)
        return place + max(ranks)

    def _of_one(self, node: NodeProto, name: str, place: int) -> str:
        """A constant for one sample; the same for all, or refused."""
        if name not in self.constants:
            raise self._mixes(node, f"reads {name!r}, which differs by sample")
        data = tensor_to_array(self.constants[name])
        first = np.take(data, [0], axis=place)
        if not (data == first).all():
            raise self._mixes(node, f"reads {name!r}, which differs by sample")
        return self._constant(name, first)

    def _view(self, node: NodeProto, axis: int) -> int:
        """The batch must be the first axis before and after, whole."""
        shape = self.shapes.get(node.output[0], ())
        if axis != 0 or not shape or shape[0] % self.batch:
            raise self._mixes(node, "joins the batch with other axes")
        if node.op_type == "Reshape" and node.input[1] in self.constants:
            target = np.array([shape[0] // self.batch, *shape[1:]], np.int64)
            node.input[1] = self._constant(node.input[1], target)
        return 0

    def _squeeze(self, node: NodeProto, axis: int) -> int:
        """Axes of length 1 go or come before the batch."""
        rank = max(self._rank(node.input[0]), self._rank(node.output[0]))
        axes = {a % rank for a in self._axes(node, rank)}
        if node.op_type == "Squeeze":
            if axis in axes:
                raise self._mixes(node, "takes the batch away")
            return axis - sum(a < axis for a in axes)
        kept = [a for a in range(rank) if a not in axes]
        return kept[axis]

    def _of_samples(self, node: NodeProto, axis: int) -> int:
        if axis != 0:
            raise self._mixes(node, "takes another axis as the batch")
        if node.op_type in ("Resize", "Upsample") and len(node.input) > 3 and node.input[3]:
            sizes = np.array([1, *self.shapes.get(node.output[0], ())[1:]], np.int64)
            node.input[3] = self._constant(node.input[3], sizes)
        return 0

    def _of_steps(self, node: NodeProto, axis: int) -> int:
        """The batch of the input lies before or behind its steps."""
        is_first = bool(self._attribute(node, "layout"))
        if axis != (0 if is_first else 1):
            raise self._mixes(node, "takes another axis as the batch")
        return 0 if is_first else 2

    def _gemm(self, node: NodeProto, axis: int) -> int:
        if axis != 0 or self._attribute(node, "transA") or node.input[1] in self.axis:
            raise self._mixes(node, "multiplies samples with each other")
        return 0

    def _matmul(self, node: NodeProto, _: int) -> int:
        """The batch may be rows of the first operand where the second is the same for all."""
        rank = max(self._rank(n) for n in node.input)
        places = {self.axis[n] - self._rank(n) for n in node.input if n in self.axis}
        is_alone = node.input[1] not in self.axis and self._rank(node.input[1]) <= 2
        (place, *others) = places
        if others or place == -1 or (place == -2 and not is_alone):
            raise self._mixes(node, "multiplies samples with each other")
        for name in node.input:
            shape = self.shapes.get(name, ())
            if name not in self.axis and place < -2 and len(shape) >= -place and shape[place] != 1:
                raise self._mixes(node, f"reads {name!r}, which differs by sample")
        return place + rank

    def _gather(self, node: NodeProto, axis: int) -> int:
        along = int(self._attribute(node, "axis") or 0) % self._rank(node.input[0])
        if node.input[1] in self.axis or along == axis:
            raise self._mixes(node, "picks samples")
        more = self._rank(node.output[0]) - self._rank(node.input[0])
        return axis + more if along < axis else axis

    def _along(self, node: NodeProto, axis: int) -> int:
        """None of the axes may be the batch; those that go may lie before it."""
        if node.op_type == "Concat":
            axis = next(self.axis[n] for n in node.input if n in self.axis)
            for index, name in enumerate(node.input):
                if name not in self.axis:
                    node.input[index] = self._of_one(node, name, axis)
        rank = self._rank(node.input[0])
        axes = {a % rank for a in self._axes(node, rank)}
        if node.op_type == "LayerNormalization" or self._is_of_many_axes(node):
            axes = set(range(min(axes), rank))
        others = (self.axis.get(n, axis) for n in node.input)
        if axis in axes or any(other != axis for other in others):
            raise self._mixes(node, "mixes samples")
        gone = rank - self._rank(node.output[0])
        return axis - (sum(a < axis for a in axes) if gone else 0)

    def _axes(self, node: NodeProto, rank: int) -> list[int]:
        """The axes that a node names, or those that it has by default."""
        place = {"Slice": 3}.get(node.op_type, 1)
        given = self._attribute(node, "axes")
        if not given and node.op_type.startswith(("Reduce", "Slice", "Squeeze", "Unsqueeze")):
            name = node.input[place] if len(node.input) > place else ""
            if name and name not in self.constants:
                raise self._mixes(node, "has axes that are computed")
            given = tensor_to_array(self.constants[name]).ravel().tolist() if name else []
            given = given or range(rank)  # an empty list is all of them
        if given is None:
            default = {"Split": 0, "Concat": 0}.get(node.op_type, -1)
            default = 1 if self._is_of_many_axes(node) else default
            one = self._attribute(node, "axis")
            given = [default if one is None else one]
        return [int(a) for a in given]

    def _is_of_many_axes(self, node: NodeProto) -> bool:
        """Return whether it is a softmax over all axes from one on, as opsets before 13 have it."""
        return node.op_type in ("Softmax", "LogSoftmax") and self.opset < ONE_AXIS_SINCE

    def _rank(self, name: str) -> int:
        if name not in self.shapes:
            raise _refused(self.batch, f"the shape of {name!r} is not known")
        return len(self.shapes[name])

    def _attribute(self, node: NodeProto, name: str) -> Any:
        for attribute in node.attribute:
            if attribute.name == name:
                is_list = attribute.type == AttributeProto.INTS
                return list(attribute.ints) if is_list else attribute.i
        return None

    def _constant(self, name: str, data: Array) -> str:
        """The name of a new constant, made once for all that read it."""
        key = name, data.tobytes()
        if key not in self.made:
            self.made[key] = f"{name}/one sample{len(self.made)}"
            self.shapes[self.made[key]] = data.shape
            self.graph.initializer.append(numpy_helper.from_array(data, self.made[key]))
        return self.made[key]

    def _mixes(self, node: NodeProto, why: str) -> UnsupportedError:
        name = node.name or next(iter(node.output), "")
        return _refused(self.batch, f"{node.op_type} (node {name!r}) {why}")

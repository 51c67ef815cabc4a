"""Read the nodes of an .onnx file as values: what is the same for int8 and for float models."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from mcutrain_host.dataclass import dataclass
from onnx import GraphProto, NodeProto, TensorProto, TypeProto, ValueInfoProto

from mcutrain.errors import ONE_INPUT, ModelError, UnsupportedError
from mcutrain.formats.obstacles import REASONS, Obstacle, Obstacles, Place, Reason, unknown
from mcutrain.formats.onnx import constants
from mcutrain.formats.onnx.cutting import split_up
from mcutrain.formats.onnx.file import Attributes, tensor_to_array, type_name
from mcutrain.formats.onnx.layout import Layout
from mcutrain.formats.onnx.node import Constant, ConstantBudget, OnnxNode, V, computed_input
from mcutrain.formats.onnx.old import with_attributes

R = TypeVar("R")
MAX_OUTPUTS = 64
MAX_AXES = 4
PRODUCTS = ("Conv", "ConvTranspose", "Gemm")  # whose input 1 must be constant
BEFORE_LAYOUT = {
    *("Add", "Cast", "Div", "Identity", "Mul", "Pad", "Sub", "Squeeze", "Unsqueeze"),
    *("DequantizeLinear", "QuantizeLinear"),
}
"""What may lie between the input and a Transpose that tells its layout."""
OF_WINDOWS = {
    *("AveragePool", "BatchNormalization", "Conv", "ConvTranspose", "GlobalAveragePool"),
    *("GlobalMaxPool", "MaxPool"),
}
"""What takes channels first, and is computed with channels last."""
BEFORE_WINDOWS = BEFORE_LAYOUT - {"Squeeze", "Unsqueeze"}
IMAGE_CHANNELS = (1, 3)
ID_TYPES = (TensorProto.INT16, TensorProto.INT32, TensorProto.INT64)
"""What an input of token ids may be."""


@dataclass(frozen=True)
class Input:
    """The one input of a model. element_type: of TensorProto."""

    name: str
    layout: Layout
    element_type: int


class Reading(ABC, Generic[V]):
    """The values of the ONNX tensors seen so far."""

    rules: Mapping[str, Callable[[Any], V]]
    reasons: Mapping[str, str]
    input_types: tuple[int, ...]
    max_elements: int
    likely: tuple[Reason, ...] = REASONS

    def __init__(self, opset: int, turns: bool) -> None:
        """turns: whether the input is stored with its channels, ONNX' axis 1, last."""
        self.opset, self.turns = opset, turns
        self.budget = ConstantBudget()
        self.values: dict[str, V | Constant] = {}
        self.lost: set[str] = set()  # tensors that a node was to compute which cannot be read

    @abstractmethod
    def node(
        self,
        name: str,
        op_type: str,
        inputs: tuple[V | Constant | None, ...],
        outputs: tuple[str, ...],
        attributes: Attributes,
    ) -> OnnxNode[V]:
        """The node with what its rule needs."""

    @abstractmethod
    def end(self, name: str) -> str:
        """The stored tensor of an output of the model."""

    @contextmanager
    def refusing(self, graph: GraphProto) -> Iterator[None]:
        """Read the graph in here. Raises ModelError with all that is in the way."""
        self.obstacles = Obstacles((node.op_type for node in graph.node), self.likely)
        with self.obstacles.told(lambda: self._scan(graph)):
            yield

    def compute(self, graph: GraphProto) -> tuple[str, ...]:
        """Apply the rules for all nodes; the stored tensors of the outputs."""
        shapes = {info.name: info for info in graph.value_info}
        for index, proto in enumerate(graph.node):
            place = _place(proto, index)
            if self.lost.isdisjoint(proto.input):
                with self.obstacles.noted(place):
                    self.visit(proto, place)
                    continue
                self.budget.spend(0)  # constants beyond it end the reading
                if self._assumes(proto, shapes):
                    continue
            self.lost.update(name for name in proto.output if name)
        outputs = []
        for info in graph.output:
            if info.name not in self.lost:
                with self.obstacles.noted():
                    outputs.append(self.end(info.name))
        if len(set(outputs)) != len(outputs):
            raise UnsupportedError("two outputs of the model are the same; leave one")
        return tuple(outputs)

    def assumed(self, name: str, layout: Layout) -> V | None:
        """A value for a tensor that no rule computes, so that reading goes on; None: it does not.

        Of int8 models it does not: the file does not say how such a tensor is quantized.
        """
        return None

    def _assumes(self, proto: NodeProto, infos: Mapping[str, ValueInfoProto]) -> bool:
        """Take the one output of a refused node as what the file says of it; whether it does."""
        name = proto.output[0] if len(proto.output) == 1 else ""
        kind = infos[name].type.tensor_type if name in infos else TypeProto.Tensor()
        batch, *rest = (d.dim_value for d in kind.shape.dim) if kind.shape.dim else (0,)
        shape = (1, *rest)
        is_fixed = batch in (0, 1) and 1 < len(shape) <= MAX_AXES and min(shape) > 0
        is_small = is_fixed and math.prod(shape) <= self.max_elements
        if kind.elem_type != TensorProto.FLOAT or not is_small or name in self.values:
            return False
        value = self.assumed(name, Layout.of_order(shape, (0, *range(2, len(shape)), 1)))
        if value is not None:
            self.define(name, value)
        return value is not None

    def _refused(self, proto: NodeProto, where: str, folds: bool) -> UnsupportedError | None:
        """Why an operator is not read, whatever its attributes. folds: its inputs are constant."""
        if proto.domain not in ("", "ai.onnx"):
            return UnsupportedError(
                f"{where} is of the domain {proto.domain!r}; only ONNX's own operators are "
                "supported"
            )
        op_type = proto.op_type
        if op_type in self.rules or (op_type in constants.RULES and (folds or op_type == "Shape")):
            return None
        return unknown(where, self.rules, self.reasons.get(op_type, ""))

    def define(self, name: str, value: V | Constant) -> None:
        """Note a value. Raises ModelError if the name has one."""
        if name in self.values:
            raise ModelError(f"the tensor {name!r} is defined twice")
        self.values[name] = value

    def declare(self, graph: GraphProto) -> Input:
        """Note the initializers; the one input, and whether the outputs are few enough."""
        for tensor in graph.initializer:
            data = tensor_to_array(tensor)
            self.budget.spend(data.nbytes)
            self.define(tensor.name, Constant(tensor.name, data))
        inputs = [info for info in graph.input if info.name not in self.values]
        if len(inputs) != 1:
            names = ", ".join(repr(info.name) for info in inputs[:8])
            raise UnsupportedError(f"the model has {len(inputs)} inputs ({names}); {ONE_INPUT}")
        (info,) = inputs
        kind = info.type.tensor_type.elem_type
        with self.obstacles.noted():
            self._check_edges(graph, info)
        shape = self._input_shape(info)
        order = list(range(len(shape)))
        if self.turns:
            order = [0, *order[2:], 1]
        return Input(str(info.name), Layout.of_order(shape, order), kind)

    def _check_edges(self, graph: GraphProto, info: ValueInfoProto) -> None:
        """The type of the one input, and how many outputs there are."""
        kind = info.type.tensor_type.elem_type
        if kind not in self.input_types:
            known = " or ".join(type_name(t) for t in self.input_types)
            raise UnsupportedError(
                f"input {info.name!r} is {type_name(kind)}; {known} is supported: export the model "
                "with such an input"
            )
        if not 0 < len(graph.output) <= MAX_OUTPUTS:
            raise UnsupportedError(
                f"{len(graph.output)} outputs are not supported; 1 to {MAX_OUTPUTS} are"
            )

    def visit(self, proto: NodeProto, place: Place) -> None:
        """Apply the rule for a node, or those for what it is made of."""
        for node in split_up(self._looked_up(proto, place)):
            self._apply(node)

    def _apply(self, node: OnnxNode[V]) -> None:
        try:
            result = self._result(node)
        except (ValueError, IndexError, OverflowError) as error:
            raise node.wrong(str(error)) from error
        if node.attributes.unread:
            unread = node.attributes.unread[0]
            raise node.unsupported(f"the attribute {unread} is not; leave it out: the others are")
        if not isinstance(result, Constant) and math.prod(result.shape) > self.max_elements:
            raise node.wrong(
                f"the output {result.shape} has more than {self.max_elements:,} numbers"
            )
        self.define(node.output, result)

    def output(self, name: str) -> V:
        """The value of an output."""
        value = self.values.get(name)
        if value is None or isinstance(value, Constant):
            raise ModelError(f"the output {name!r} is not computed from the input")
        return value

    def _result(self, node: OnnxNode[V]) -> V | Constant:
        folds = all(x is None or isinstance(x, Constant) for x in node.inputs)
        fold = constants.RULES.get(node.op_type)
        if fold is not None and (folds or node.op_type == "Shape"):
            return fold(node)
        return self.rules[node.op_type](node)

    def _looked_up(self, proto: NodeProto, place: Place) -> OnnxNode[V]:
        outputs, where = tuple(proto.output), place.where
        if not outputs or not outputs[0]:
            raise ModelError(f"{where} has no output")
        found = tuple(self._lookup(n, where) if n else None for n in proto.input)
        folds = all(x is None or isinstance(x, Constant) for x in found)
        if (error := self._refused(proto, where, folds)) is not None:
            raise error
        attributes = Attributes(where, {a.name: a for a in proto.attribute})
        inputs = with_attributes(proto.op_type, self.opset, found, attributes)
        return self.node(place.name, proto.op_type, inputs, outputs, attributes)

    def _lookup(self, name: str, where: str) -> V | Constant:
        if name not in self.values:
            raise ModelError(
                f"{where} reads {name!r}, which nothing before it computes: it is missing, or "
                "the nodes form a cycle"
            )
        return self.values[name]

    def _scan(self, graph: GraphProto) -> Iterator[Obstacle]:
        """Return what is refused for its operator, or for a weight that is computed."""
        known = {tensor.name for tensor in graph.initializer}
        for index, proto in enumerate(graph.node):
            place = _place(proto, index)
            computed = [i for i, name in enumerate(proto.input) if name and name not in known]
            error = self._refused(proto, place.where, folds=not computed)
            if error is None and proto.op_type in PRODUCTS and 1 in computed:
                error = computed_input(place.where, 1)
            if error is not None:
                yield Obstacle(error, place)
            if not computed or proto.op_type == "Shape":
                known.update(proto.output)

    def _input_shape(self, info: ValueInfoProto) -> tuple[int, ...]:
        """The shape; only the batch may be left open, and is 1."""
        dims = info.type.tensor_type.shape.dim
        shape = tuple(d.dim_value if d.dim_value > 0 else None for d in dims)
        if len(shape) < 2:
            raise UnsupportedError(
                f"input {info.name!r} has the shape {shape}; at least two axes are supported, of "
                "which the first is the batch"
            )
        if None in shape[1:]:
            open_axes = [i for i, length in enumerate(shape) if length is None and i > 0]
            raise UnsupportedError(
                f"input {info.name!r} has open lengths on the axes {open_axes}; all but the batch "
                "must be fixed: export the model without dynamic axes for them"
            )
        fixed = tuple(1 if d is None else d for d in shape)
        if len(fixed) > MAX_AXES:
            raise UnsupportedError(
                f"input {info.name!r} has {len(fixed)} axes, {fixed}: volumes and videos (Conv3d) "
                "are not supported; images [1, c, h, w] and sequences [1, c, l] are"
            )
        if math.prod(fixed) > self.max_elements:
            raise ModelError(
                f"input {info.name!r} of shape {fixed} has more than {self.max_elements:,} "
                "numbers, which no microcontroller holds"
            )
        if fixed[0] != 1:
            raise UnsupportedError(
                f"input {info.name!r} has a batch of {fixed[0]}; 1 is supported: export the model "
                "with a batch of 1, or a dynamic one"
            )
        return fixed


def _place(proto: NodeProto, index: int) -> Place:
    """Return where a node is; nameless ones are called after their output."""
    name = proto.name or next(iter(proto.output), "") or f"node {index}"
    return Place(index, proto.op_type, name, f"{proto.op_type} (node {name!r})")


def read_in_best_order(
    graph: GraphProto, read: Callable[[bool], R], moved: Callable[[R], int]
) -> R:
    """Return what is read with the input as the file has it, or turned to channels last.

    Whichever moves fewer numbers; where both move as many, as the file has it. Images become
    channels last in any case, as all that varies images wants them, unless their last axis or a
    Transpose tells that they are. read: raises ModelError; called with whether the input is turned.
    moved: how many numbers are moved.
    """
    told = is_turned(graph)
    if told is not None:
        return read(told)
    found, errors = [], []
    for turns in (False, True):
        try:
            found.append(read(turns))
        except ModelError as error:
            errors.append((turns, error))
    if not found:
        raise next(error for turns, error in errors if turns)
    return min(found, key=moved)


def is_turned(graph: GraphProto) -> bool | None:
    """Whether the input has its channels first, to be turned; None where nothing tells it."""
    shape, ways = _ways_from_input(graph)
    if len(shape) < 3 or _is_channels_last(ways):
        return False
    convolves = all(way.op_type in OF_WINDOWS and not way.is_reshaped for way in ways)
    is_image = len(shape) == 4 and shape[3] not in IMAGE_CHANNELS
    return True if convolves or is_image else None


@dataclass(frozen=True)
class _Way:
    """The first node behind the input, and simple operators, that may tell the order of its axes.

    is_reshaped: whether axes of length 1 come or go before it.
    """

    op_type: str
    perm: tuple[int, ...]
    is_reshaped: bool


def _ways_from_input(graph: GraphProto) -> tuple[tuple[int, ...], list[_Way]]:
    """The input's shape, and where its numbers go."""
    known = {tensor.name for tensor in graph.initializer}
    info = next((info for info in graph.input if info.name not in known), None)
    if info is None:
        return (), []
    shape = tuple(d.dim_value for d in info.type.tensor_type.shape.dim)
    reached, ways = {str(info.name): False}, []
    for node in graph.node:
        read = [reached[name] for name in node.input if name in reached]
        if not read:
            continue
        if node.op_type in BEFORE_LAYOUT:
            is_reshaped = any(read) or node.op_type not in BEFORE_WINDOWS
            reached.update(dict.fromkeys(node.output, is_reshaped))
            continue
        perm = next((tuple(a.ints) for a in node.attribute if a.name == "perm"), ())
        ways.append(_Way(str(node.op_type), perm, any(read)))
    return shape, ways


def _is_channels_last(ways: Sequence[_Way]) -> bool:
    """Whether all ways from the input lead over simple operators to Transposes to channels first.

    So do files that were converted from TensorFlow; the input is [1, h, w, c] for their users.
    """
    return bool(ways) and all(
        way.op_type == "Transpose"
        and len(way.perm) > 2
        and way.perm == (0, len(way.perm) - 1, *range(1, len(way.perm) - 1))
        for way in ways
    )

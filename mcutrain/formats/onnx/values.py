"""What a tensor of an ONNX graph is while it is turned into nodes of ours.

ONNX computes in float between a DequantizeLinear and a QuantizeLinear; our operators need to know
the quantization of their result. So the result of an operator is a `Source` that waits for it.
Activations and reshapes in between are noted on the `Value` and cost nothing until then.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Container
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.errors import ModelError, UnsupportedError
from mcutrain.formats.fitting import Fitting
from mcutrain.formats.onnx.layout import Layout, Mover
from mcutrain.formats.onnx.node import ConstantBudget
from mcutrain.ir.graph import Node, Tensor, TensorType
from mcutrain.ir.op import Op
from mcutrain.ops.reshape import Reshape
from mcutrain.quant import multipliers
from mcutrain.quant.float_op import IDS, FloatOp, Quantization
from mcutrain.quant.float_shapes import FloatMove, FloatReshape

Array = npt.NDArray[Any]

FULL = multipliers.INT8
MAX_ELEMENTS = 2**26  # of one activation; no microcontroller has a hundredth of it
MAX_FACTOR = 2.0**10  # a requantization by more saturates whatever is not zero


class Source(ABC):
    """How the integers of a value come to be. `quantization`: what it is if nothing is asked."""

    quantization: Quantization | None = None

    @abstractmethod
    def emit(
        self, builder: Builder, name: str, wanted: Quantization, limits: tuple[int, int]
    ) -> str:
        """Add the nodes that compute the tensor `name`, clamped to the limits. Its final name."""


@dataclass(frozen=True, eq=False)
class Value:
    """An activation. layout: of the integers that the source gives.

    low, high: the real limits of activations not applied yet. integer_type: int8 or uint8 between a
    QuantizeLinear and a DequantizeLinear, else "" for real numbers.
    """

    source: Source
    layout: Layout
    low: float = -math.inf
    high: float = math.inf
    integer_type: str = ""

    @property
    def shape(self) -> tuple[int, ...]:
        """As ONNX sees it."""
        return self.layout.shape

    def clipped(self, low: float, high: float) -> Value:
        """This value after an activation: the limits themselves are clipped."""
        return replace(
            self,
            low=min(max(self.low, low), high),
            high=min(max(self.high, low), high),
        )

    def limits(self, quantization: Quantization) -> tuple[int, int]:
        """The limits as int8."""
        return quantization.stored(self.low), quantization.stored(self.high)


class Builder(Mover):
    """The tensors and nodes of the graph under construction. fitting: of weights so far."""

    def __init__(self, budget: ConstantBudget) -> None:
        self.budget = budget
        self.fitting = Fitting()
        self.tensors: dict[str, Tensor] = {}
        self.nodes: list[Node] = []
        self._node_names: set[str] = set()
        self._emitted: dict[tuple[Source, Quantization, tuple[int, int]], str] = {}
        self._moved: dict[tuple[str, Op], str] = {}
        self._numbers: dict[str, int] = {}
        self.reserved: set[str] = set()  # names of graph inputs that are declared later

    def emit(self, value: Value, name: str, wanted: Quantization) -> str:
        """The tensor of the value under a quantization; made once for all who ask."""
        return self.emit_source(value.source, name, wanted, value.limits(wanted))

    def emit_source(
        self, source: Source, name: str, wanted: Quantization, limits: tuple[int, int]
    ) -> str:
        """Emit a value's source, with the limits as int8."""
        key = (source, wanted, limits)
        if key not in self._emitted:
            self._emitted[key] = source.emit(self, name, wanted, limits)
        return self._emitted[key]

    def constant(
        self, name: str, data: Array, scales: tuple[float, ...], axis: int, zero_point: int = 0
    ) -> str:
        """Add a constant."""
        self.budget.spend(data.nbytes)
        final = self._unused(name, self.tensors)
        data = np.ascontiguousarray(data)
        data.flags.writeable = False
        axis = axis if len(scales) > 1 else -1
        kind = TensorType(data.shape, str(data.dtype), scales, zero_point, axis)
        self.tensors[final] = Tensor(final, kind, data)
        return final

    def input(self, name: str, shape: tuple[int, ...], quantization: Quantization) -> str:
        """Add a graph input."""
        self.tensors[name] = Tensor(name, _activation(shape, quantization))
        return name

    def node(
        self, name: str, op: Op, inputs: tuple[str, ...], output: str, quantization: Quantization
    ) -> str:
        """Add a node; its output's type is inferred, its name is `output` or like it."""
        try:
            (kind,) = op.infer(*(self.tensors[n].type for n in inputs))
        except ValueError as error:
            raise ModelError(f"node {name!r}: {error}") from error
        if math.prod(kind.shape) > MAX_ELEMENTS:
            raise ModelError(
                f"node {name!r} would compute {kind.shape}, more than {MAX_ELEMENTS} numbers"
            )
        final = self._unused(output, self.tensors)
        self.tensors[final] = Tensor(final, _activation(kind.shape, quantization))
        node_name = self._unused(name, self._node_names)
        self._node_names.add(node_name)
        self.nodes.append(Node(node_name, op, inputs, (final,)))
        return final

    def rescale(
        self, name: str, x: str, wanted: Quantization, limits: tuple[int, int], output: str
    ) -> str:
        """Add a Rescale from the tensor's own quantization."""
        kind = self.tensors[x].type
        given = Quantization.of(kind)
        check_factor(name, given.scale / wanted.scale)
        op = multipliers.requantize(given, wanted).with_channel_limits(*limits)
        return self.node(name, op, (x,), output, wanted)

    def move(self, x: str, op: FloatMove, stem: str) -> str:
        """Its integers under another shape or in another order; made once for all who ask."""
        kind = self.tensors[x].type
        given = Quantization.of(kind)
        made = op.int8((kind,), given)
        if made == Reshape(kind.shape):
            return x
        if (x, made) not in self._moved:
            try:
                made.infer(kind)
            except ValueError as error:
                raise UnsupportedError(f"{type(made).__name__} for {stem!r}: {error}") from error
            self._moved[x, made] = self.node(stem, made, (x,), stem, given)
        return self._moved[x, made]

    def reshape(self, x: str, shape: tuple[int, ...], name: str) -> str:
        """The tensor under another shape."""
        return self.move(x, FloatReshape(shape), name)

    def _unused(self, name: str, taken: Container[str]) -> str:
        """The name, or the name with a number behind it."""
        final = name
        while final in taken or final in self.reserved:
            self._numbers[name] = self._numbers.get(name, 1) + 1
            final = f"{name}.{self._numbers[name]}"
        return final


@dataclass(frozen=True, eq=False)
class Stored(Source):
    """A tensor that is there."""

    tensor: str
    quantization: Quantization

    def emit(
        self, builder: Builder, name: str, wanted: Quantization, limits: tuple[int, int]
    ) -> str:
        """The tensor itself, or a Rescale of it."""
        if wanted == self.quantization and limits == FULL:
            return self.tensor
        return builder.rescale(name, self.tensor, wanted, limits, name)


@dataclass(frozen=True, eq=False)
class GraphInput(Source):
    """The model's input, whose quantization the first QuantizeLinear or DequantizeLinear tells."""

    name: str
    shape: tuple[int, ...]
    image: tuple[int, ...]

    def emit(
        self, builder: Builder, name: str, wanted: Quantization, limits: tuple[int, int]
    ) -> str:
        """Declare the input, as an image; clamp it if an activation says so."""
        if self.name not in builder.tensors:
            builder.input(self.name, self.shape, wanted)
        kind = builder.tensors[self.name].type
        if (kind.scale, kind.zero_point) != wanted:
            raise UnsupportedError(f"input {self.name!r} is quantized twice, differently")
        tensor = builder.reshape(self.name, self.image, f"{self.name}.image")
        if limits == FULL:
            return tensor
        return builder.rescale(name, tensor, wanted, limits, name)


@dataclass(frozen=True, eq=False)
class Computed(Source):
    """An operator on int8 tensors.

    quantization: of its result where it has one of its own (MaxPool, Pad, Softmax): another one, or
    an activation, is a Rescale after it, unless the operator requantizes. None: it always does.
    """

    name: str
    op: FloatOp
    inputs: tuple[str, ...]
    quantization: Quantization | None

    def emit(
        self, builder: Builder, name: str, wanted: Quantization, limits: tuple[int, int]
    ) -> str:
        """The operator, then a Rescale if one is needed."""
        own = self.quantization
        if own is None or self.op.requantizes:
            return self._made(builder, name, wanted, limits)
        if wanted == own and limits == FULL:
            return self._made(builder, name, own)
        tensor = self._made(builder, f"{name}.unscaled", own)
        return builder.rescale(f"{self.name}.rescale", tensor, wanted, limits, name)

    def _made(
        self, builder: Builder, name: str, y: Quantization, limits: tuple[int, int] = FULL
    ) -> str:
        types = [builder.tensors[x].type for x in self.inputs]
        if not self.op.has_other_factors:
            check_factor(self.name, *(kind.scale / y.scale for kind in types))
        try:
            made = self.op.int8(types, y)
        except ValueError as error:
            raise ModelError(f"node {self.name!r}: {error}") from error
        if limits != FULL:
            made = made.with_channel_limits(*limits)
        order = self.op.order(*(kind.shape for kind in types))
        constants = [
            builder.constant(f"{self.name}.{what}", data, kind.scales, kind.axis)
            for what, kind, data in self.op.parameters(types, y)
        ]
        return builder.node(
            self.name, made, (*(self.inputs[i] for i in order), *constants), name, y
        )


@dataclass(frozen=True, eq=False)
class ChosenRows(Source):
    """Rows of a table, integers without a zero point, chosen by the ids in a tensor.

    quantization: in which the table fits int8. It is stored in another one of the same scale if
    that is asked for and it fits, too.
    """

    name: str
    op: FloatOp
    ids: str
    table: str
    rows: Array
    quantization: Quantization

    def emit(
        self, builder: Builder, name: str, wanted: Quantization, limits: tuple[int, int]
    ) -> str:
        """The operator with its table, then a Rescale if one is needed."""
        moved = self.rows + np.int64(wanted.zero_point)
        fits = wanted.scale == self.quantization.scale and np.array_equal(
            moved, np.clip(moved, *FULL)
        )
        own = wanted if fits else self.quantization
        codes = (self.rows + np.int64(own.zero_point)).astype(np.int8)
        table = builder.constant(self.table, codes, (own.scale,), -1, own.zero_point)
        inner = Computed(self.name, self.op, (self.ids, table), own)
        return inner.emit(builder, name, wanted, limits)


@dataclass(frozen=True, eq=False)
class IdInput(Source):
    """The model's input of token ids."""

    name: str
    shape: tuple[int, ...]
    quantization: Quantization = IDS

    def emit(
        self, builder: Builder, name: str, wanted: Quantization, limits: tuple[int, int]
    ) -> str:
        """Declare the input. Raises UnsupportedError where it is read as a number."""
        if wanted != IDS or limits != FULL:
            raise UnsupportedError(
                f"input {self.name!r} holds token ids; only a Gather of a constant table may read "
                "them"
            )
        if self.name not in builder.tensors:
            builder.input(self.name, self.shape, IDS)
        return self.name


def check_factor(name: str, *factors: float) -> None:
    """Refuse requantization factors that no sound model has."""
    for factor in factors:
        if not 0 <= factor <= MAX_FACTOR:
            raise ModelError(f"node {name!r} multiplies by {factor:.3g}; its scales are wrong")


def _activation(shape: tuple[int, ...], quantization: Quantization) -> TensorType:
    return TensorType(shape, quantization.dtype, (quantization.scale,), quantization.zero_point)

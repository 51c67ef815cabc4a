"""The contract that every operator fulfils, in one class in one file of mcutrain/ops/."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.ir.graph import Tensor, TensorType

Array = npt.NDArray[Any]

INT32_MAX = 2**31 - 1


@dataclass(frozen=True)
class Param:
    """One field of a kernel's parameter struct: a number, a constant table in flash, or an input.

    An input lies in the state, since the struct is a constant. It may also be a C function.
    """

    name: str
    value: int | tuple[int, ...] | Operand | FunctionName | None
    ctype: str = "int32_t"


def table_of(name: str, indices: tuple[int, ...] | None) -> Param:
    """A table of indices into channels; NULL if they are 0, 1, 2 …, or None."""
    first = indices is None or indices == tuple(range(len(indices)))
    return Param(name, None if first else indices, "const int16_t *")


@dataclass(frozen=True)
class FunctionName:
    """A C function, by its name: the value of a parameter that points to it."""

    name: str


@dataclass(frozen=True)
class Operand:
    """One pointer of a kernel call: a node's input or output, the scratch buffer, or NULL."""

    kind: str
    index: int = 0


def inputs(*indices: int) -> tuple[Operand, ...]:
    """Operands that pass these inputs of the node."""
    return tuple(Operand("input", i) for i in indices)


def outputs(*indices: int) -> tuple[Operand, ...]:
    """Operands that pass these outputs of the node."""
    return tuple(Operand("output", i) for i in indices)


SCRATCH = Operand("scratch")
NULL = Operand("null")


@dataclass(frozen=True)
class KernelCall:
    """The C call of a node: `function(&params, operands…)`.

    kernel: the folder under firmware/kernels/ with the header and the bodies; the function's is
    the file of its name. Updated values (Op.updates) are passed once, as the input they replace.
    scratch_bytes: where nothing is overwritten; overwriting_bytes: where an output lies upon an
    input (Op.may_overwrite). Without either the scratch is NULL. align_bytes: of the scratch.
    also: other C files that it needs, relative to the firmware folder.
    """

    kernel: str
    function: str
    params: tuple[Param, ...]
    operands: tuple[Operand, ...]
    scratch_bytes: int = 0
    overwriting_bytes: int = 0
    align_bytes: int = 4
    also: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        """The plain body's C file, relative to the firmware folder."""
        return f"kernels/{self.kernel}/{self.function}.c"

    @property
    def sources(self) -> tuple[str, ...]:
        """All C files that it needs besides the runtime."""
        return (self.source, *self.also)


@dataclass(frozen=True)
class Rows:
    """How an operator can compute its output from top to bottom, some rows at a time.

    Row r of the output is made of the rows r * stride - pad … r * stride - pad + span - 1 of each
    input in `inputs`. Rows outside the image are padding. Other inputs are read whole.

    The same kernel computes n rows if its parameters say so. These fields name the parameters: `x`
    and `y` are how many rows of input and output there are; `pad_top` is the rows of padding above.
    `counted` is what all rows have together (elements, positions).
    """

    inputs: tuple[int, ...]
    span: int = 1
    stride: int = 1
    pad: int = 0
    x: str = ""
    y: str = ""
    pad_top: str = ""
    counted: str = ""

    def needed(self, first: int, count: int, height: int) -> tuple[int, int]:
        """The input rows, [begin, end), for so many output rows; height: of the input."""
        return self.begin(first, height), self.end(first + count, height)

    def begin(self, first: int, height: int) -> int:
        """The first input row for the output rows from `first` on."""
        return min(max(first * self.stride - self.pad, 0), height)

    def end(self, end: int, height: int) -> int:
        """The input row behind those for the output rows before `end`."""
        return min(max((end - 1) * self.stride - self.pad + self.span, 0), height)


def rows_apart(
    types: Sequence[TensorType], results: Sequence[TensorType], counted: str
) -> Rows | None:
    """Each row of an image by itself, of all inputs that have as many rows."""
    shape = results[0].shape
    if len(shape) != 4:
        return None
    images = (i for i, t in enumerate(types) if len(t.shape) == 4 and t.shape[1] == shape[1])
    return Rows(tuple(images), counted=counted)


@dataclass(frozen=True)
class Gradient:
    """The derivative of the loss by the stored integers of a tensor.

    derivative = integer * 2**exponent * scale: integer is the tensor `name`, exponent the first
    number of the tensor `exponent` and known only at run time, scale a constant.
    """

    name: str
    exponent: str
    scale: float


@dataclass(frozen=True)
class ParameterUpdate:
    """How one tensor is trained: w -= learning_rate * rate * derivative.

    rate: per output channel, or one for all (quantization-aware scaling). residual_bits: fraction
    bits kept beside an int8 weight. channels: the trained input channels, ascending; None is all.
    difference_shift: of a bias of which the int16 difference to the model's own is kept, in units
    of 2**difference_shift; None keeps the int32 itself. rule: of mcutrain.update_rules.
    """

    rate: tuple[float, ...]
    residual_bits: int = 4
    channels: tuple[int, ...] | None = None
    difference_shift: int | None = None
    rule: str = "sgd"


@dataclass(frozen=True)
class Axis:
    """An axis of an operand, and how an order of channels lies on it.

    Place (i * channels + c) * inner + j of the axis belongs to channel c, for every i < outer and
    j < inner. operand: an input or output of the node; axis: counted from 0.
    """

    operand: Operand
    axis: int
    outer: int = 1
    inner: int = 1


ChannelTie = tuple[Axis, ...]


def expanded_order(order: Array, outer: int, inner: int) -> Array:
    """The order of an axis's places that follows from an order of channels; see Axis.

    order: channel order[j] moves to place j.
    """
    places = np.arange(outer * len(order) * inner).reshape(outer, len(order), inner)
    expanded: Array = places[:, order].ravel()
    return expanded


def channel_axis(operand: Operand, of: TensorType, outer: int = 1, inner: int = 1) -> Axis:
    """The last axis of an operand."""
    return Axis(operand, len(of.shape) - 1, outer, inner)


@dataclass(frozen=True)
class Bound:
    """|value| <= largest, whatever the inputs are; what computes it is exact up to `limit`.

    what: which values, in words, with the sizes that make them large. advice: what to do if
    largest > limit.
    """

    what: str
    largest: int
    advice: str
    limit: int = INT32_MAX

    @property
    def holds(self) -> bool:
        """Whether it fits."""
        return self.largest <= self.limit


@dataclass(frozen=True)
class Border:
    """Rows and columns of one number around an image. padding: top, bottom, left, right."""

    padding: tuple[int, int, int, int]
    value: int


class Emit(Protocol):
    """What an operator's gradient rule may ask for; autodiff implements it."""

    @property
    def gradient_dtype(self) -> str:
        """int8 or int16, for all gradient tensors."""

    def wants(self, tensor: Tensor) -> bool:
        """Return whether anything that is trained lies before `tensor`."""

    def update(self, parameter: Tensor) -> ParameterUpdate | None:
        """Return how the parameter is trained; None if it is frozen."""

    def mask(self, y: Tensor) -> str:
        """The bits of where y did not clamp; the node that computes y will save them."""

    def history(self, y: Tensor) -> tuple[str, ...]:
        """Return what `Op.with_history` adds; the node that computes y will save it."""

    def value(self, parameter: Tensor) -> str:
        """The tensor to read the parameter from, before its update."""

    def salt(self) -> int:
        """A number that no other node of this graph has, to tell its random numbers apart."""

    def node(self, op: Op, *inputs: str) -> str:
        """Add a node with one output, or find the equal one that is there. Returns the output."""

    def gradient(self, op: Op, dy: Gradient, *inputs: str) -> Gradient:
        """Add a GradientOp; its exponent's history becomes part of the state."""

    def train(
        self, op: Op, update: ParameterUpdate, dy: Gradient, *inputs: str, parameter: Tensor
    ) -> None:
        """Add a ParameterGradientOp, applied at once or accumulated as the scheme has it."""


class Op(ABC):
    """An operator: its fields are its attributes, its methods all there is to know about it."""

    @abstractmethod
    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The types of the outputs. Raises ValueError with a sentence if the inputs do not fit."""

    @abstractmethod
    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """The exact integer meaning: the outputs for these inputs."""

    @abstractmethod
    def kernel(self, inputs: Sequence[TensorType], outputs: Sequence[TensorType]) -> KernelCall:
        """The C call that computes the same bits."""

    def gradient(
        self, emit: Emit, dy: Gradient, inputs: Sequence[Tensor], y: Tensor
    ) -> tuple[Gradient | None, ...]:
        """Add the backward nodes; the gradients of the inputs, None where none is wanted."""
        raise ValueError(f"{type(self).__name__} has no gradient")

    def bounds(self, inputs: Sequence[Tensor]) -> tuple[Bound, ...]:
        """Return how large the int32 values can become that its kernel computes with.

        From sizes, own numbers and constants alone: an input without data may hold anything that
        its type can, a trained bias anything in ±BIAS_LIMIT. None if nothing can become large.
        """
        return ()

    def with_wide_sums(self) -> Op | None:
        """Return the operator with int64 sums, which saturate, for bounds that do not hold.

        None if it has none. Where the bounds hold both compute the same bits.
        """
        return None

    @property
    def updates(self) -> dict[int, int]:
        """Output → input whose storage it must take over (a parameter, an exponent)."""
        return {}

    @property
    def may_overwrite(self) -> dict[int, tuple[int, ...]]:
        """Output → inputs whose storage it may take over if they are not needed afterwards.

        Only those that are exactly as large.
        """
        return {}

    is_digest: ClassVar[bool] = False
    """Whether the output is a smaller stand-in for the input, best made before it is freed."""

    def rows(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> Rows | None:
        """Return how it computes row by row; None if it must have its whole input first.

        Asked only while the operator saves no mask.
        """
        return None

    def with_mask(self) -> Op:
        """Return the operator with a second output: where the first one did not clamp."""
        raise ValueError(f"{type(self).__name__} does not clamp")

    def with_history(self) -> Op:
        """Return the operator with more outputs: what its gradient reads of each step."""
        raise ValueError(f"{type(self).__name__} has no steps")

    @property
    def layer_inputs(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Which inputs are weights and which are biases, where it is a layer; no others follow."""
        return (1,), (2,)

    def as_sums(self) -> Op:
        """Return the operator with its int32 sums as output, which a loss reads.

        Raises ValueError with a sentence if it cannot be the last layer of a training step.
        """
        raise ValueError(
            f"{type(self).__name__} cannot be the last layer that is trained: that is a "
            "convolution or a fully connected layer"
        )

    def sum_scales(self, types: Sequence[TensorType]) -> tuple[float, ...]:
        """The real number that each of these sums counts in: per channel, or one for all."""
        raise ValueError(f"{type(self).__name__} has no sums")

    is_mean: ClassVar[bool] = False
    """Whether y is the mean of x over its positions, in sums that a loss can read."""

    @property
    def is_probability(self) -> bool:
        """Whether the output is a monotone function of logits that training leaves out."""
        return False

    def scaled(self, exponent: int) -> Op:
        """Return the same function of real numbers for an input whose scale is times
        2**exponent.
        """
        raise ValueError(f"{type(self).__name__} belongs to the scale of its input")

    def with_output_exponent(self, exponent: int) -> Op:
        """Return the same function of real numbers for an output whose scale is times
        2**exponent.
        """
        raise ValueError(f"{type(self).__name__} belongs to the scale of its output")

    @property
    def exponent_room(self) -> int:
        """The largest exponent for `scaled` and `with_input_exponent`."""
        return 0

    def with_input_exponent(self, limit: int) -> Op:
        """`scaled` by an exponent that is read as a second input, and held in 0 to limit."""
        raise ValueError(f"{type(self).__name__} belongs to the scale of its input")

    is_rescale: ClassVar[bool] = False
    """Whether y is x in another scale."""

    is_view: ClassVar[bool] = False
    """Whether the output is the first input under another shape: no code, no memory."""

    @property
    def factors(self) -> tuple[int, ...]:
        """The places of inputs that are trained as biases are, besides a layer's own: gains."""
        return ()

    def with_trained_columns(self, channels: tuple[int, ...]) -> Op | None:
        """Return the operator that reads these columns of its weight from one more input.

        None if it must find the weight in one piece.
        """
        return None

    def with_resampled_columns(self, count: int) -> Op | None:
        """Return the operator that reads so many columns of its weight from one more input.

        One more input, int16, says which columns these are, ascending. None if the operator must
        find the weight in one piece.
        """
        return None

    def rows_of_ids(self, inputs: Sequence[TensorType]) -> int:
        """How many token ids its first input may hold, the rows of a table; 0: it holds none."""
        return 0

    def channel_ties(
        self, types: Sequence[TensorType], results: Sequence[TensorType]
    ) -> tuple[ChannelTie, ...]:
        """The axes that must be permuted together, by one order per tie, to change nothing else.

        Permuting them all, and this operator by with_channel_order, leaves every sum, so every
        bit, as it was. An axis that is in no tie must keep its order; so it is with all of an
        operator that does not say. Asked only while the operator saves no mask.
        """
        return ()

    def with_channel_order(self, *orders: Array) -> Op:
        """The operator with its own per-channel numbers permuted, one order for each tie."""
        return self

    def macs(self, inputs: Sequence[TensorType], outputs: Sequence[TensorType]) -> int:
        """Multiply-accumulates of one execution."""
        return 0

    def rounding_once(self) -> Op:
        """Return the operator with each result rounded once, as ONNX means it; self if there is
        none.

        TFLite rounds twice where a multiplier shifts to the right. That is seldom seen after long
        shifts, as of sums of products, and seen in a number of four or eight after short ones.
        """
        return self

    def with_channel_limits(self, low: int, high: int) -> Op:
        """Return the operator with a narrower output range (a fused activation)."""
        raise ValueError(f"{type(self).__name__} has no fused activation")

    def resized(self, old: int, new: int) -> Op:
        """Return the operator for an input of `new` elements instead of `old`, along the same axis.

        Raises ValueError with a sentence if there is none.
        """
        return self

    def after(self, before: Op) -> Op | None:
        """One operator that does what `before` and then this one do; None if there is none."""
        return None

    @property
    def activation(self) -> tuple[int, int] | None:
        """The limits of y = clamp(x, low, high), on x's scale; None if it does anything else."""
        return None

    @property
    def border(self) -> Border | None:
        """What y is x with around it; None if the operator does anything else."""
        return None

    def with_border(self, border: Border) -> Op | None:
        """Return the operator for an x without its border yet; None if there is none."""
        return None


class ChannelwiseOp(Op):
    """An operator that treats each channel by itself, and all of them alike."""

    def channel_ties(
        self, types: Sequence[TensorType], results: Sequence[TensorType]
    ) -> tuple[ChannelTie, ...]:
        """The last axes of all operands."""
        operands = (*inputs(*range(len(types))), *outputs(*range(len(results))))
        return (tuple(map(channel_axis, operands, (*types, *results))),)


def exact_matmul(a: Array, b: Array) -> Array:
    """Integer matrix product as int64. Float64 BLAS is exact below 2**53 and much faster."""
    product = np.asarray(a, np.float64) @ np.asarray(b, np.float64)
    return product.astype(np.int64)

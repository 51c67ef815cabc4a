"""ONNX operators that rearrange: Transpose, which is a view where it can be, and Concat."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mcutrain.formats.onnx.node import OnnxNode, normalized_axes
from mcutrain.formats.onnx.values import (
    FULL,
    Builder,
    Constant,
    Image,
    Quantization,
    Source,
    Value,
    as_image,
    is_linear,
)
from mcutrain.ops.concatenation import MOST_INPUTS, Concatenation
from mcutrain.ops.transpose import MOST_AXES, Transpose

IMAGE_RANKS = (3, 4)  # [1, c, l] and [1, c, h, w]


@dataclass(frozen=True, eq=False)
class Moved(Source):
    """Another source's integers in another order. lengths: of the axes as they are stored."""

    name: str
    source: Source
    lengths: tuple[int, ...]
    perm: tuple[int, ...]

    @property
    def quantization(self) -> Quantization | None:  # type: ignore[override]
        """As it was."""
        return self.source.quantization

    def emit(
        self, builder: Builder, name: str, wanted: Quantization, limits: tuple[int, int]
    ) -> str:
        """The source, then a Transpose."""
        x = builder.emit_source(self.source, f"{name}.unmoved", wanted, limits)
        x = builder.reshape(x, self.lengths, f"{name}.axes")
        return builder.node(self.name, Transpose(self.perm), (x,), name, wanted)


def transpose(builder: Builder, node: OnnxNode) -> Value:
    """Transpose: if the integers can stay, only the ONNX shape changes."""
    value = node.value(0)
    shape = value.shape
    perm = node.attributes.integers("perm", tuple(reversed(range(len(shape))))) or ()
    if sorted(perm) != list(range(len(shape))):
        raise node.wrong(f"perm {perm} does not fit {shape}")
    new_shape = tuple(shape[axis] for axis in perm)
    stored = _stored_axes(value)
    moved = [perm.index(axis) for axis in stored or ()]  # the stored axes by their new numbers
    image = None if stored is None else _image_of(moved, new_shape)
    if image is not None:
        return replace(value, image=image, shape=new_shape)
    if stored is None:
        longer = [axis for axis in perm if shape[axis] > 1]
        if longer == sorted(longer):
            return replace(value, shape=new_shape)
        raise node.unsupported(
            f"moving the axes of {shape} is not, as one of them joins channels to rows or columns; "
            "axes that keep the channels apart are"
        )
    if len(stored) > MOST_AXES:
        raise node.unsupported(
            f"moving {len(stored)} axes longer than 1 is not; up to {MOST_AXES} are"
        )
    ordered, image = _as_wished(new_shape)
    lengths = tuple(shape[axis] for axis in stored)
    source = Moved(node.name, value.source, lengths, tuple(moved.index(axis) for axis in ordered))
    return replace(value, source=source, image=image, shape=new_shape)


def _as_wished(shape: tuple[int, ...]) -> tuple[list[int], Image]:
    """The axes longer than 1 in the order in which moved data is best stored, and the image.

    Channels last if the shape is that of an image; row by row if it has another batch or rank.
    """
    axes = [axis for axis, length in enumerate(shape) if length > 1]
    if len(shape) in IMAGE_RANKS and shape[0] == 1 and shape[1] > 1:
        return [*axes[1:], axes[0]], as_image("", shape)
    return axes, (1, 1, math.prod(shape))


def _stored_axes(value: Value) -> list[int] | None:
    """The ONNX axes longer than 1 in the order in which the integers are stored.

    None if they are stored channels last, and no axis begins where the channels end.
    """
    axes = [i for i, length in enumerate(value.shape) if length > 1]
    if is_linear(value.image):
        return axes
    count = 0
    while math.prod(value.shape[axis] for axis in axes[:count]) < value.image[2]:
        count += 1
    if math.prod(value.shape[axis] for axis in axes[:count]) != value.image[2]:
        return None
    return [*axes[count:], *axes[:count]]


def _image_of(stored: Sequence[int], shape: tuple[int, ...]) -> Image | None:
    """How integers in that order of ONNX axes are an image; None if they are none."""
    ordered = sorted(stored)
    if list(stored) == ordered:
        return 1, 1, math.prod(shape)
    first = stored.index(ordered[0])
    if [*stored[first:], *stored[:first]] != ordered:
        return None
    channels = math.prod(shape[axis] for axis in stored[first:])
    if len(shape) not in IMAGE_RANKS or shape[0] != 1 or channels != shape[1]:
        return None
    return as_image("", shape)


@dataclass(frozen=True, eq=False)
class Joined(Source):
    """Values side by side along an axis of [1, h, w, c]; each is brought to the scale asked for."""

    name: str
    parts: tuple[Value, ...]
    axis: int

    def emit(
        self, builder: Builder, name: str, wanted: Quantization, limits: tuple[int, int]
    ) -> str:
        """Rescales as far as they are needed, then a Concatenation, then a clamp."""
        names = []
        for i, part in enumerate(self.parts):
            x = builder.emit(part, f"{name}.part{i}", wanted)
            image = as_image(f"input {i} of node {self.name!r}", part.shape)
            names.append(builder.reshape(x, (1, *image), f"{name}.image{i}"))
        own = name if limits == FULL else f"{name}.unclamped"
        while len(names) > 1:
            last = len(names) <= MOST_INPUTS
            joined = builder.node(
                self.name,
                Concatenation(self.axis),
                tuple(names[:MOST_INPUTS]),
                own if last else f"{name}.first",
                wanted,
            )
            names = [joined, *names[MOST_INPUTS:]]
        if limits == FULL:
            return names[0]
        return builder.rescale(f"{self.name}.clamp", names[0], wanted, limits, name)


AXIS_OF_IMAGE = {2: {1: 3}, 3: {1: 3, 2: 2}, 4: {1: 3, 2: 1, 3: 2}}
"""By the number of ONNX axes: an axis as it is among [1, h, w, c]."""


def concat(builder: Builder, node: OnnxNode) -> Value:
    """Concat of activations."""
    if any(isinstance(x, Constant) for x in node.inputs):
        raise node.unsupported("a constant beside activations is not; activations are")
    values = [node.real(i) for i in range(max(1, len(node.inputs)))]
    shape = list(values[0].shape)
    (axis,) = normalized_axes(node, [node.attributes.integer("axis", 0)], len(shape))
    ours = AXIS_OF_IMAGE.get(len(shape), {}).get(axis)
    if ours is None:
        raise node.unsupported(f"axis {axis} of {tuple(shape)} is not; channels and rows are")
    for index, value in enumerate(values):
        node.check_order(value, as_image(f"input {index} of node {node.name!r}", value.shape))
        if len(value.shape) != len(shape) or any(
            a != b for i, (a, b) in enumerate(zip(value.shape, shape, strict=True)) if i != axis
        ):
            raise node.wrong(f"{value.shape} and {tuple(shape)} do not fit along axis {axis}")
    shape[axis] = sum(value.shape[axis] for value in values)
    image = as_image(f"node {node.name!r}", tuple(shape))
    return Value(Joined(node.name, tuple(values), ours), image, tuple(shape))

"""What operators on shapes and axes make of a shape: the same for constants and activations."""

from __future__ import annotations

import math
from typing import Any

from mcutrain.formats.onnx.file import MAX_RANK
from mcutrain.formats.onnx.node import OnnxNode

Shape = tuple[int, ...]


def transposed_order(node: OnnxNode[Any], rank: int) -> Shape:
    """The order of a Transpose's axes."""
    perm = node.attributes.integers("perm", tuple(reversed(range(rank)))) or ()
    if sorted(perm) != list(range(rank)):
        raise node.wrong(f"perm {perm} does not fit {rank} dimensions")
    return perm


def reduced(node: OnnxNode[Any], shape: Shape) -> tuple[list[int], Shape] | None:
    """The axes over which a ReduceMean is, and its output's shape; None if it does nothing."""
    axes = node.attributes.integers("axes")
    if node.has(1):
        axes = node.integers(1)
    does_nothing = bool(node.attributes.integer("noop_with_empty_axes", 0))
    kept = node.attributes.integer("keepdims", 1)
    if does_nothing and not axes:
        return None
    over = node.axes(axes or range(len(shape)), len(shape))
    return over, tuple(1 if i in over else d for i, d in enumerate(shape) if kept or i not in over)


def slices(node: OnnxNode[Any], shape: Shape) -> tuple[slice, ...]:
    """Return what a Slice takes of each axis."""
    starts, ends = node.integers(1), node.integers(2)
    axes = node.integers(3) if node.has(3) else tuple(range(len(starts)))
    steps = node.integers(4) if node.has(4) else (1,) * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        raise node.wrong("starts, ends, axes and steps do not fit each other")
    node.axes(axes, len(shape))
    parts = [slice(None)] * len(shape)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        stop = None if step < 0 and end < -shape[axis] else end
        parts[axis] = slice(start, stop, step)
    return tuple(parts)


def new_shape(node: OnnxNode[Any], shape: Shape) -> Shape:
    """Return what Reshape, Flatten, Squeeze or Unsqueeze make of a shape."""
    result = _new_shape(node, shape)
    if len(result) > MAX_RANK:
        raise node.wrong(f"the output has {len(result)} dimensions; the limit is {MAX_RANK}")
    if math.prod(result) != math.prod(shape):
        raise node.wrong(f"{shape} cannot become {result}")
    return result


def _new_shape(node: OnnxNode[Any], shape: Shape) -> Shape:
    if node.op_type == "Flatten":
        axis = node.attributes.integer("axis", 1)
        if not -len(shape) <= axis <= len(shape):
            raise node.wrong(f"axis {axis} does not fit {shape}")
        axis += len(shape) if axis < 0 else 0
        return math.prod(shape[:axis]), math.prod(shape[axis:])
    if node.op_type == "Reshape":
        return _reshaped(node, shape)
    axes = node.integers(1) if node.has(1) else None
    if node.op_type == "Squeeze":
        ones = [i for i, d in enumerate(shape) if d == 1]
        gone = ones if axes is None else node.axes(axes, len(shape))
        if not set(gone) <= set(ones):
            raise node.wrong(f"axes {gone} of {shape} are not all 1")
        return tuple(d for i, d in enumerate(shape) if i not in gone)
    new_axes = node.axes(axes or (), len(shape) + len(axes or ()))
    rest = iter(shape)
    rank = len(shape) + len(new_axes)
    return tuple(1 if i in new_axes else next(rest) for i in range(rank))


def _reshaped(node: OnnxNode[Any], shape: Shape) -> Shape:
    """The target with its 0 (copy) and -1 (whatever is left) filled in."""
    target = list(node.integers(1))
    if not node.attributes.integer("allowzero", 0):
        if any(d == 0 and i >= len(shape) for i, d in enumerate(target)):
            raise node.wrong(f"shape {target} copies a dimension that {shape} lacks")
        target = [shape[i] if d == 0 else d for i, d in enumerate(target)]
    known = math.prod(d for d in target if d != -1)
    if target.count(-1) > 1 or min(target, default=1) < -1 or (-1 in target and known == 0):
        raise node.wrong(f"shape {target} is impossible")
    total = math.prod(shape)
    return tuple(total // known if d == -1 else d for d in target)

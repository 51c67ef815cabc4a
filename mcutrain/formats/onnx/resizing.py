"""ONNX operators that resize images: Resize, and Upsample of older opsets.

Positions are computed in float32, as onnxruntime does: where a rounding decides between two
pixels, both decide alike. As onnxruntime since 1.27 (microsoft/onnxruntime#28291), a position
within TIE of the middle between two pixels counts as the middle, whatever float32 made of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.errors import UnsupportedError
from mcutrain.formats.onnx.layout import Layout
from mcutrain.formats.onnx.node import GraphNode, OnnxNode, V
from mcutrain.formats.onnx.shaping import identity
from mcutrain.formats.onnx.writer import OnnxWriter, channels_first
from mcutrain.ir.graph import Node
from mcutrain.ops.resize import MAX_SIZE, ONE, Positions, Resize
from mcutrain.quant.float_op import Shape
from mcutrain.quant.float_resize import FloatResize, Places

Array = npt.NDArray[Any]

MODES_SINCE = 11
"""The opset from which on a Resize says where pixels lie; before that: asymmetric, rounded down."""
NEAR = ONE // 8
"""How far positions of a written file may lie from ours, in ONE-ths of a pixel; it then says so."""


@dataclass(frozen=True)
class ResizedAxis:
    """An axis: its pixels before and after, and the factor between them."""

    size: int
    new: int
    factor: np.float32

    def align_corners(self, index: Array) -> Array:
        """The centres of the outermost pixels lie on each other."""
        if self.new == 1:
            return np.zeros(1, np.float32)
        return index * np.float32(self.size - 1) / np.float32(self.new - 1)

    def asymmetric(self, index: Array) -> Array:
        """The centres of the first pixels lie on each other."""
        return index / self.factor

    def half_pixel(self, index: Array) -> Array:
        """The corners of the images lie on each other."""
        return (index + np.float32(0.5)) / self.factor - np.float32(0.5)

    def half_pixel_symmetric(self, index: Array) -> Array:
        """The centres of the images do, where the factor does not give whole pixels.

        onnxruntime adds this up in float64.
        """
        share = np.float32(self.new) / (self.factor * np.float32(self.size))
        offset = np.float32(self.size / 2) * (np.float32(1) - share)
        moved = np.float64(offset) + (index.astype(np.float64) + 0.5) / np.float64(self.factor)
        found: Array = (moved - 0.5).astype(np.float32)
        return found

    def pytorch_half_pixel(self, index: Array) -> Array:
        """Do as half_pixel, but one pixel is the first one."""
        return self.half_pixel(index) if self.new > 1 else np.zeros(1, np.float32)

    def tf_half_pixel_for_nn(self, index: Array) -> Array:
        """Do as half_pixel, without half a pixel's shift."""
        return (index + np.float32(0.5)) / self.factor


COORDINATES: dict[str, Callable[[ResizedAxis, Array], Array]] = {
    "half_pixel": ResizedAxis.half_pixel,
    "asymmetric": ResizedAxis.asymmetric,
    "align_corners": ResizedAxis.align_corners,
    "pytorch_half_pixel": ResizedAxis.pytorch_half_pixel,
    "half_pixel_symmetric": ResizedAxis.half_pixel_symmetric,
    "tf_half_pixel_for_nn": ResizedAxis.tf_half_pixel_for_nn,
}
HALF = np.float32(0.5)
TIE = np.float32(1e-6)


def _nearest(at: Array, at_a_tie: Array) -> Array:
    """Round to the nearest whole number; where two are as near, take at_a_tie."""
    below = np.floor(at)
    from_the_middle = at - below - HALF
    found: Array = np.where(np.abs(from_the_middle) <= TIE, at_a_tie, below + (from_the_middle > 0))
    return found


ROUNDINGS: dict[str, Callable[[Array], Array]] = {
    "floor": np.floor,
    "round_prefer_floor": lambda at: _nearest(at, np.floor(at)),
    "round_prefer_ceil": lambda at: _nearest(at, np.ceil(at)),
    "ceil": np.ceil,
}


@dataclass(frozen=True)
class Mode:
    """Where pixels lie (of COORDINATES), and how positions between them are rounded.

    rounding: of ROUNDINGS; "" interpolates linearly.
    """

    coordinates: str
    rounding: str

    def places(self, along: ResizedAxis) -> Places:
        """Return the places of an axis."""
        at = COORDINATES[self.coordinates](along, np.arange(along.new, dtype=np.float32))
        return Places.of(ROUNDINGS[self.rounding](at) if self.rounding else at, along.size)


ONE_ROW = Places((0.0,), (0,))
MOST_BELOW = 16
"""Largest denominator of the simple fractions among which a factor of a file is looked for."""
WRITTEN = {
    "nearest": tuple(
        Mode(coordinates, rounding)
        for rounding, coordinates in itertools.product(ROUNDINGS, list(COORDINATES)[:3])
    ),
    "linear": tuple(Mode(coordinates, "") for coordinates in list(COORDINATES)[:3]),
}
"""What files are written with."""


def resize(node: GraphNode[V]) -> V:
    """Resize and Upsample of height and width, to the nearest pixel or linearly between two."""
    shape = node.real().shape
    mode = _mode(node)
    if len(shape) not in (3, 4):
        raise node.unsupported(f"{shape} is not; [1, c, l] and [1, c, h, w] are")
    along = [_along(node, shape, axis) for axis in range(len(shape))]
    if along[1].new != along[1].size and along[-1].new == along[-1].size:
        return _channels_last(node, mode, along)
    for axis in (0, 1):
        if along[axis].new != along[axis].size:
            raise _too_much(node, shape, axis, along[axis].new)
    spatial = along[2:]
    if all(along.new == along.size for along in spatial):
        return identity(node)  # as onnxruntime copies, whatever the factors are
    places = [mode.places(along) for along in spatial]
    if all(p.is_identity(along.size) for p, along in zip(places, spatial, strict=True)):
        return identity(node)
    rows, columns = (ONE_ROW, *places)[-2:]
    return node.of_image(FloatResize(rows, columns), node.image())


def _channels_last(node: GraphNode[V], mode: Mode, along: list[ResizedAxis]) -> V:
    """Resize [1, l, c] or [1, h, w, c], as jax2onnx writes it."""
    shape = node.real().shape
    if along[0].new != along[0].size:
        raise _too_much(node, shape, 0, along[0].new)
    spatial = along[1:-1]
    rows, columns = (ONE_ROW, *(mode.places(one) for one in spatial))[-2:]
    stored = (1, *((1, *shape[1:-1])[-2:]), shape[-1])
    image = node.arranged(0, stored, range(len(stored)), "image0")
    new = (1, *(one.new for one in spatial), shape[-1])
    layout = replace(Layout.of_rows((1, *((1, *new[1:-1])[-2:]), shape[-1])), shape=new)
    return node.computed(FloatResize(rows, columns), (image,), layout)


def _too_much(node: OnnxNode[Any], shape: Shape, axis: int, new: int) -> UnsupportedError:
    return node.unsupported(
        f"axis {axis} of {shape} to {new} is not; height and width to 1 to {MAX_SIZE:,} are"
    )


def _mode(node: OnnxNode[Any]) -> Mode:
    attributes = node.attributes
    kind = attributes.text("mode", "nearest")
    is_old = node.op_type == "Upsample" or node.opset < MODES_SINCE
    coordinates, rounding = "asymmetric", "floor"
    if not is_old:
        coordinates = attributes.text("coordinate_transformation_mode", "half_pixel")
        rounding = attributes.text("nearest_mode", "round_prefer_floor")
        attributes.real("cubic_coeff_a", 0.0)
        attributes.real("extrapolation_value", 0.0)
        for name in ("exclude_outside", "antialias"):
            if attributes.integer(name, 0):
                raise node.unsupported(f"{name} is not; a Resize without it is")
        policy = attributes.text("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            raise node.unsupported(f"keep_aspect_ratio_policy {policy!r} is not; 'stretch' is")
    if kind not in ("nearest", "linear"):
        raise node.unsupported(f"mode {kind!r} is not; 'nearest' and 'linear' are")
    if coordinates not in COORDINATES:
        raise node.unsupported(
            f"coordinate_transformation_mode {coordinates!r} is not; {', '.join(COORDINATES)} are"
        )
    if rounding not in ROUNDINGS:
        raise node.unsupported(f"nearest_mode {rounding!r} is not; {', '.join(ROUNDINGS)} are")
    return Mode(coordinates, rounding if kind == "nearest" else "")


def _along(node: OnnxNode[Any], shape: Shape, axis: int) -> ResizedAxis:
    """Return what becomes of an axis."""
    size, rank = shape[axis], len(shape)
    place = 1 if node.op_type == "Upsample" or node.opset < MODES_SINCE else 2
    axes = node.attributes.integers("axes", tuple(range(rank))) or ()
    node.axes(axes, rank)
    order = [a % rank for a in axes]
    if axis not in order:
        return ResizedAxis(size, size, np.float32(1))
    index = order.index(axis)
    if node.has(place) and node.constant(place).data.size:
        factors = node.constant(place).real().ravel().astype(np.float32)
        if len(factors) != len(order) or not (np.isfinite(factors) & (factors > 0)).all():
            raise node.wrong(f"scales {factors.tolist()} do not fit {shape}")
        factor = factors[index]
        new = int(min(float(np.floor(factor * np.float32(size))), MAX_SIZE + 1))
    elif place == 1 or not node.has(3) or not node.constant(3).data.size:
        what = "no scales" if place == 1 else "neither scales nor sizes"
        raise node.wrong(f"it has {what}: nothing says how large its output is")
    else:
        sizes = node.integers(3)
        if len(sizes) != len(order):
            raise node.wrong(f"sizes {sizes} do not fit {shape}")
        new = sizes[index]
        factor = np.float32(new) / np.float32(size)
    if not 0 < new <= MAX_SIZE or not 0 < size <= MAX_SIZE:
        raise _too_much(node, shape, axis, new)
    is_down = new < size
    if (
        is_down
        and node.opset < MODES_SINCE
        and node.attributes.text("mode", "nearest") == "nearest"
    ):
        raise node.unsupported(
            f"fewer pixels in opset {node.opset}, which does not say which, are not; in opset "
            f"{MODES_SINCE} or later they are"
        )
    return ResizedAxis(size, new, factor)


# ------------------------------------------------------------------------------------------ writing


def write_resize(w: OnnxWriter, node: Node) -> None:
    """Resize to sizes, or by factors, in the mode whose positions are ours, or nearly."""
    op, y = node.op, node.outputs[0]
    assert isinstance(op, Resize)
    _, height, width, _ = w.type(node.inputs[0]).shape
    axes = ((height, op.rows_at), (width, op.columns_at))
    kinds = ("nearest", "linear") if op.copies else ("linear",)
    tried = [
        (_apart(mode, along, axes), kind, mode, along)
        for candidates in (_by_size, _by_factor)
        for kind in kinds
        for mode in WRITTEN[kind]
        for along in [[_best(mode, candidates(*axis), axis[1]) for axis in axes]]
    ]
    apart, kind, mode, along = min(tried, key=lambda one: one[0])
    keeps_size = all(len(at) == size for size, at in axes)  # such a one is read as a copy
    if keeps_size or apart > (NEAR if kind == "linear" else 0):
        raise UnsupportedError(
            f"node {node.name!r} resizes {height}x{width} pixels to {along[0].new}x{along[1].new} "
            "at positions that no mode of .onnx has"
        )
    attributes = {"mode": kind, "coordinate_transformation_mode": mode.coordinates}
    if kind == "nearest":
        attributes["nearest_mode"] = mode.rounding
    if all(one.factor == _by_size(*axis)[0].factor for one, axis in zip(along, axes, strict=True)):
        sizes = np.array(channels_first(w.type(y).shape), np.int64)
        last = ["", w.constant(f"{y}/sizes", sizes)]
    else:
        factors = np.array([1, 1, *(one.factor for one in along)], np.float32)
        last = [w.constant(f"{y}/scales", factors)]
    w.finish(w.layer(node, "Resize", [w.real(node.inputs[0]), "", *last], **attributes), y)


def _by_size(size: int, at: Positions) -> list[ResizedAxis]:
    """The factor that a reader takes where the file says sizes."""
    return [ResizedAxis(size, len(at), np.float32(len(at)) / np.float32(size))]


def _by_factor(size: int, at: Positions) -> list[ResizedAxis]:
    """Factors of which a reader gets len(at) pixels, some of which the file's author may have had.

    Fractions of small numbers and of a hundred, and the slope of the positions within the axis.
    """
    new, (by_size,) = len(at), _by_size(size, at)
    factors = [by_size.factor, np.nextafter(by_size.factor, np.float32(np.inf))]
    factors += [
        np.float32(above / below)
        for below in (*range(1, MOST_BELOW + 1), 100)
        for above in range(new * below // size, (new + 1) * below // size + 1)
    ]
    inside = [index for index, place in enumerate(at) if 0 < place < (size - 1) * ONE]
    if len(inside) > 1 and at[inside[0]] < at[inside[-1]]:
        rise = at[inside[-1]] - at[inside[0]]
        factors.append(np.float32((inside[-1] - inside[0]) * ONE / rise))
    return [ResizedAxis(size, new, f) for f in factors if np.floor(f * np.float32(size)) == new]


def _best(mode: Mode, candidates: list[ResizedAxis], at: Positions) -> ResizedAxis:
    return min(candidates, key=lambda one: _apart(mode, [one], ((one.size, at),)))


def _apart(mode: Mode, along: list[ResizedAxis], axes: tuple[tuple[int, Positions], ...]) -> int:
    """The largest difference of positions, in ONE-ths of a pixel."""
    pairs = zip(along, axes, strict=True)
    return max(int(np.abs(np.array(mode.places(o).stored) - at).max()) for o, (_, at) in pairs)

"""Resized images: RESIZE_BILINEAR, RESIZE_NEAREST_NEIGHBOR."""

from __future__ import annotations

import itertools

import numpy as np
import tflite
from mcutrain_host.dataclass import dataclass

from mcutrain.errors import ModelError, UnsupportedError
from mcutrain.formats.tflite.entry import Entry, Rule
from mcutrain.formats.tflite.flatbuffer import Table
from mcutrain.formats.tflite.operands import Operands
from mcutrain.formats.tflite.writer import TfliteWriter
from mcutrain.ir.graph import Node
from mcutrain.ops.resize import MAX_SIZE, ONE, Resize
from mcutrain.quant.float_resize import FloatResize, Places
from mcutrain.quant.float_shapes import FloatReshape


@dataclass(frozen=True)
class Corners:
    """How pixels of the output lie on those of the input.

    align_corners: the centres of the outermost pixels lie on each other. half_pixel_centers: the
    corners of the images do. Neither: the centres of the first pixels, so that all is shifted.
    """

    align_corners: bool = False
    half_pixel_centers: bool = False

    def bilinear(self, size: int, new: int) -> Places:
        """As the kernels of RESIZE_BILINEAR have it: resize_bilinear.h of TFLite's reference.

        Of float models by real numbers; of int8 models in fixed point, from a scale that is
        rounded once.
        """
        aligned = self.align_corners and new > 1
        spans = (size - 1, new - 1) if aligned else (size, new)
        step = np.float32(spans[0]) / np.float32(spans[1])
        index = np.arange(new)
        half = np.float32(0.5 if self.half_pixel_centers else 0)
        real = (index.astype(np.float32) + half) * step - half
        fixed_step = (ONE * spans[0] + spans[1] // 2) // spans[1]
        fixed = index * fixed_step
        if self.half_pixel_centers:
            fixed = fixed + fixed_step // 2 - ONE // 2
        stored = np.clip(fixed, 0, (size - 1) * ONE)
        return Places(Places.of(real, size).real, tuple(stored.tolist()))

    def nearest(self, size: int, new: int) -> Places:
        """As resize_nearest_neighbor.h has it, in float32."""
        aligned = self.align_corners and new > 1
        spans = (size - 1, new - 1) if aligned else (size, new)
        step = np.float32(spans[0]) / np.float32(spans[1])
        offset = np.float32(0.5 if self.half_pixel_centers else 0)
        places = (np.arange(new, dtype=np.float32) + offset) * step
        rounded = (
            np.floor(places.astype(np.float64) + 0.5) if self.align_corners else np.floor(places)
        )
        return Places.of(rounded, size)


CORNERS = (Corners(), Corners(half_pixel_centers=True), Corners(align_corners=True))


def _resize(bilinear: bool) -> Rule:
    name = "ResizeBilinearOptions" if bilinear else "ResizeNearestNeighborOptions"

    def convert(o: Operands) -> None:
        options = o.options(getattr(tflite, name))
        o.check_alike("resize", inputs=1)
        image, new = o.image(), o.integers(1)
        corners = Corners(bool(options.AlignCorners()), bool(options.HalfPixelCenters()))
        if corners not in CORNERS:
            raise ModelError(f"{o.where} has both align_corners and half_pixel_centers")
        if len(new) != 2 or not all(0 < n <= MAX_SIZE for n in (*new, *image[1:3])):
            raise UnsupportedError(
                f"{o.where} resizes {image} to {new}; supported are a height and a width of 1 to "
                f"{MAX_SIZE:,}"
            )
        place = corners.bilinear if bilinear else corners.nearest
        rows, columns = place(image[1], new[0]), place(image[2], new[1])
        if rows.is_identity(image[1]) and columns.is_identity(image[2]):
            o.emit(FloatReshape(image), o.x())
        else:
            o.emit(FloatResize(rows, columns), o.x())

    return convert


def _write_resize(w: TfliteWriter, node: Node) -> None:
    """The operator and options of the same positions."""
    op, y = node.op, node.outputs[0]
    assert isinstance(op, Resize)
    _, height, width, _ = w.type(node.inputs[0]).shape
    new = len(op.rows_at), len(op.columns_at)
    kinds = ("NEAREST_NEIGHBOR", "BILINEAR") if op.copies else ("BILINEAR",)
    for kind, corners in itertools.product(kinds, CORNERS):
        place = corners.bilinear if kind == "BILINEAR" else corners.nearest
        places = place(height, new[0]).stored, place(width, new[1]).stored
        if places == (op.rows_at, op.columns_at):
            break
    else:
        raise UnsupportedError(
            f"node {node.name!r} resizes {height}x{width} pixels to {new[0]}x{new[1]} at positions "
            "that no operator of .tflite has; export it as .onnx"
        )
    size = w.helper(f"{y}/size", np.array(new, np.int32))
    table = "ResizeBilinearOptions" if kind == "BILINEAR" else "ResizeNearestNeighborOptions"
    fields = {
        "AlignCorners": corners.align_corners,
        "HalfPixelCenters": corners.half_pixel_centers,
    }
    w.operator(f"RESIZE_{kind}", [node.inputs[0], size], y, Table(table, fields))


OPERATORS = (
    Entry("RESIZE_BILINEAR", _resize(True), writes={Resize: _write_resize}, version=2),
    Entry("RESIZE_NEAREST_NEIGHBOR", _resize(False), writes={Resize: _write_resize}, version=2),
)

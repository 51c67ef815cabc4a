"""Small .tflite files with recurrent layers, as TensorFlow's converter quantizes them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.formats.tflite_builder import NO_TENSOR, TfliteBuilder, _int32

GATES = ("input", "forget", "cell", "output")


@dataclass
class LstmFile:
    """A file of one LSTM. without, extra: operands by their place, shapes of those that are added.

    dense: a layer before it.
    """

    steps: int = 5
    inputs: int = 4
    units: int = 3
    seed: int = 0
    x: tuple[float, int] = (0.03, 5)
    y: tuple[float, int] = (1 / 128, 0)
    cell_exponent: int = -11
    cell_clip: float = 0.0
    largest_scale: float = 0.02
    bias: int = 3000
    time_major: bool = False
    activation: int = 4
    without: tuple[int, ...] = ()
    extra: dict[int, tuple[int, ...]] = field(default_factory=dict)
    intermediates: int = 5
    dense: bool = False

    def content(self, head: bool = False) -> bytes:
        """The file; head: with the last step and a layer of three outputs behind it."""
        rng, b, n = np.random.default_rng(self.seed), TfliteBuilder(), self.units
        shape = (self.steps, 1) if self.time_major else (1, self.steps)
        of_x: dict[str, Any] = {"scale": self.x[0], "zero_point": self.x[1]}
        x = b.tensor("x", (1, self.steps, self.inputs), **of_x)
        operands = [NO_TENSOR] * 24
        operands[0] = _dense(b, x, self) if self.dense else x
        if self.time_major:
            turned = b.tensor("turned", (*shape, self.inputs), **of_x)
            perm = b.constant("perm", np.array([1, 0, 2], np.int32))
            operands[0] = b.operator("TRANSPOSE", [x, perm], turned, table="TransposeOptions")
        for first, width, part in ((1, self.inputs, "w"), (5, n, "u")):
            for k, gate in enumerate(GATES):
                data = rng.integers(-127, 128, (n, width)).astype(np.int8)
                scale = float(rng.uniform(0.1, 1) * self.largest_scale)
                operands[first + k] = b.constant(f"{part}/{gate}", data, scale=scale)
        for k, gate in enumerate(GATES):
            data = rng.integers(-self.bias, self.bias + 1, n).astype(np.int32)
            operands[12 + k] = b.constant(f"b/{gate}", data, scale=self.x[0] * 0.01)
        like: dict[str, Any] = {"scale": self.y[0], "zero_point": self.y[1]}
        operands[18] = b.tensor("state", (1, n), **like)
        operands[19] = b.tensor("cell", (1, n), "int16", scale=2.0**self.cell_exponent)
        for index in operands[18:20]:
            b.tensors[index].fields["IsVariable"] = True
        for place, of in self.extra.items():
            operands[place] = b.constant(f"extra/{place}", np.ones(of, np.int16), scale=0.01)
        for place in self.without:
            operands[place] = NO_TENSOR
        y = b.tensor("y", (*shape, n), **like)
        b.operator(
            "UNIDIRECTIONAL_SEQUENCE_LSTM",
            operands,
            y,
            table="UnidirectionalSequenceLSTMOptions",
            FusedActivationFunction=self.activation,
            CellClip=self.cell_clip,
            TimeMajor=self.time_major,
        )
        gates = [b.tensor(f"gate/{k}", (), "int16", scale=2.0**-12) for k in range(4)]
        known = [*gates, b.tensor("hidden", (), **like)][: self.intermediates]
        b.operators[-1].fields["Intermediates"] = _int32(known)
        return b.content([x], [_head(b, y, self) if head else y])


def _dense(b: TfliteBuilder, x: int, of: LstmFile) -> int:
    """As many channels as before, of each step."""
    data = np.random.default_rng(of.seed + 2).integers(-127, 128, (of.inputs, of.inputs))
    w = b.constant("dense/w", data.astype(np.int8), scale=0.005)
    bias = b.constant("dense/b", np.zeros(of.inputs, np.int32), scale=0.005 * of.x[0])
    y = b.tensor("dense", (1, of.steps, of.inputs), scale=of.x[0], zero_point=of.x[1])
    table, keeps = "FullyConnectedOptions", {"KeepNumDims": True}
    return int(b.operator("FULLY_CONNECTED", [x, w, bias], y, table=table, **keeps))


def _head(b: TfliteBuilder, y: int, of: LstmFile) -> int:
    """The last step, and a layer of three outputs behind it."""
    like: dict[str, Any] = {"scale": of.y[0], "zero_point": of.y[1]}
    begin, end, stride = (
        b.constant(name, np.array(values, np.int32))
        for name, values in (("begin", (0, -1, 0)), ("end", (0, 0, 0)), ("stride", (1, 1, 1)))
    )
    last = b.tensor("last", (1, of.units), **like)
    b.operator(
        "STRIDED_SLICE",
        [y, begin, end, stride],
        last,
        table="StridedSliceOptions",
        BeginMask=5,
        EndMask=7,
        ShrinkAxisMask=2,
    )
    rng = np.random.default_rng(of.seed + 1)
    w = b.constant("head/w", rng.integers(-127, 128, (3, of.units)).astype(np.int8), scale=0.01)
    bias = b.constant("head/b", np.zeros(3, np.int32), scale=0.01 * of.y[0])
    logits = b.tensor("logits", (1, 3), scale=0.02, zero_point=-3)
    b.operator("FULLY_CONNECTED", [last, w, bias], logits, table="FullyConnectedOptions")
    return logits

"""Odd but possible models: for every scheme there is a project, or a sentence; never anything else.

MCUTRAIN_ODD_MODELS=20000 draws so many.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, given, note, settings

from mcutrain import prepare
from mcutrain.errors import McutrainError
from mcutrain.formats import load
from mcutrain.ir.verify import verify
from mcutrain.simulation.rates import LearningRate
from tests.formats.onnx_builder import QdqModel
from tests.ops.drawing import Source, drawn

EXAMPLES = int(os.environ.get("MCUTRAIN_ODD_MODELS", "40"))
SCHEMES = ("head", "bias:1", "last:1", "full", "0:0.5")
HUGE = (*[1] * 16, 2, 2, 3, 3, 1000, 2**12, 2**15, 2**40)
MOST_LAYERS = 4
RATE = [LearningRate.of(1.0)]


def scale(s: Source) -> float:
    """Usual ones, and whatever float32 can hold."""
    usual = 2.0 ** s.integer(-10, 0)
    odd = s.choice((2.0 ** s.integer(-120, 120), 2.0 ** s.integer(-24, 10), 1e-20))
    return float(np.float32(s.choice((*[usual] * 8, odd))))


class Odd:
    """A QDQ model that grows layer by layer; x is its end, of the shape [1, c, h, w] or [1, n]."""

    def __init__(self, s: Source) -> None:
        self.s = s
        sides = (1, 1, 2, 3, 5)
        self.shape = (1, s.choice((1, 1, 2, 3)), s.choice(sides), s.choice(sides))
        self.scale = scale(s)
        self.model = QdqModel(self.shape, self.scale, self.point())
        self.x = self.model.x

    def point(self) -> int:
        return self.s.choice((-128, -128, 0, 127, self.s.integer(-128, 127)))

    def quantized(self, y: str, shape: tuple[int, ...]) -> None:
        """Go on from y, under a scale that fits or any other."""
        fits = self.scale * 2.0 ** self.s.integer(-3, 3)
        self.scale = float(np.float32(self.s.choice((*[fits] * 5, scale(self.s)))))
        self.x, self.shape = self.model.requantize(y, self.scale, self.point()), shape

    def weights(self, *shape: int) -> list[str]:
        """A weight and its bias, or none."""
        s, outs = self.s, shape[0]
        count = s.choice((1, outs))
        scales = np.array([scale(s) for _ in range(count)], np.float32)
        scales = scales if count > 1 or outs == 1 else scales[0]
        values = s.array(shape, "int8", *s.choice(((-127, 127), (-128, -128), (0, 0), (127, 127))))
        w = self.model.dequantized(values, scales)
        if s.boolean():
            return [w]
        limit = s.choice((0, 100, 2**30, 2**31 - 1))
        with np.errstate(all="ignore"):
            product = np.float32(self.scale) * scales
        return [w, self.model.dequantized(s.array((outs,), "int32", -limit, limit), product)]

    def conv(self, depthwise: bool) -> None:
        s, (_, c, h, w) = self.s, self.shape
        kernel = (s.integer(1, h), s.integer(1, w))
        outs = c * s.integer(1, 2) if depthwise else s.integer(1, 3)
        stride, dilation = [s.choice(HUGE) for _ in kernel], [1, 1]
        if kernel == (1, 1):
            dilation = [s.choice(HUGE) for _ in kernel]
        pads = [s.choice((0, 0, 0, 1, 3)) for _ in range(4)]
        weights = self.weights(outs, 1 if depthwise else c, *kernel)
        y = self.model.op(
            *("Conv", self.x, *weights),
            strides=stride, dilations=dilation, pads=pads, group=c if depthwise else 1,
        )  # fmt: skip
        rows = (h + pads[0] + pads[2] - (kernel[0] - 1) * dilation[0] - 1) // stride[0] + 1
        columns = (w + pads[1] + pads[3] - (kernel[1] - 1) * dilation[1] - 1) // stride[1] + 1
        self.quantized(y, (1, outs, rows, columns))

    def pool(self, kind: str) -> None:
        s, (_, c, h, w) = self.s, self.shape
        kernel, stride = [s.integer(1, h), s.integer(1, w)], [s.choice(HUGE) for _ in range(2)]
        y = self.model.op(kind, self.x, kernel_shape=kernel, strides=stride)
        rows, columns = ((n - k) // t + 1 for n, k, t in zip((h, w), kernel, stride, strict=True))
        self.quantized(y, (1, c, rows, columns))

    def elementwise(self) -> None:
        s, op = self.s, self.model.op
        kind = s.choice(("Relu", "Sigmoid", "Tanh", "HardSwish", "LeakyRelu", "Add", "Mul", "Sub"))
        if kind == "LeakyRelu":
            alpha = float(s.choice((0.0, 0.1, -1.0, 1e-30, 1e30, 2.0**20)))
            y = op(kind, self.x, alpha=alpha)
        elif kind in ("Add", "Mul", "Sub"):
            y = op(kind, self.x, self.x)
        else:
            y = op(kind, self.x)
        self.quantized(y, self.shape)

    def doubled(self) -> None:
        _, c, h, w = self.shape
        self.quantized(self.model.op("Concat", self.x, self.x, axis=1), (1, 2 * c, h, w))

    def grow(self) -> None:
        s, c = self.s, self.shape[1]
        layers: tuple[Callable[[], None], ...] = (
            lambda: self.conv(False),
            lambda: self.conv(True),
            lambda: self.pool(s.choice(("AveragePool", "MaxPool"))),
            lambda: self.quantized(self.model.op("GlobalAveragePool", self.x), (1, c, 1, 1)),
            self.doubled,
            self.elementwise,
        )
        s.choice((*layers, *layers[:2], *layers[:2]))()

    def head(self) -> str:
        """Of any kind, or none."""
        s, op = self.s, self.model.op
        if s.boolean():
            features = math.prod(self.shape)
            flat = op("Flatten", self.x, axis=1) if len(self.shape) == 4 else self.x
            outs = s.choice((1, 2, 3))
            w, *b = self.weights(outs, features)
            self.quantized(op("Gemm", flat, w, *b, transB=1), (1, outs))
        if s.integer(0, 3) == 0:
            self.x = self.model.requantize(op("Softmax", self.x, axis=1), 1 / 256, -128)
        return self.x


def odd_model(s: Source) -> tuple[bytes, str, dict[str, object]]:
    """A file, a scheme, and options."""
    model = Odd(s)
    for _ in range(s.integer(0, MOST_LAYERS)):
        model.grow()
    content = model.model.proto(model.head()).SerializeToString()
    options: dict[str, object] = {
        "gradient_dtype": s.choice(("int8", "int16")),
        "accumulate": s.choice((1, 3)),
        "classes": s.choice((None, None, None, None, 2, 3)),
        "loss": s.choice(("cross-entropy", "cross-entropy", "auto")),
        "qas": s.boolean(),
    }
    return content, s.choice(SCHEMES), options


@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
@given(drawing=drawn(odd_model))
def test_an_odd_model_is_planned_and_generated_or_refused_with_a_sentence(
    drawing: tuple[bytes, str, dict[str, object]], tmp_path_factory
) -> None:
    content, scheme, options = drawing
    path = Path(tmp_path_factory.getbasetemp()) / "odd.onnx"
    path.write_bytes(content)
    try:
        graph = verify(load(path))
        step = prepare(graph, scheme, **options)  # type: ignore[arg-type]
        made = step.project
    except McutrainError as error:
        note("refused: " + str(error))
        return
    assert any(name.endswith("mct_model.c") for name in made.files)
    reference = step.reference()
    x = np.full((1, *graph.tensors[graph.inputs[0]].type.shape[1:]), 127, np.int8)
    reference.train(x, np.zeros((1, *step.plan.training.positions), np.uint8), RATE)
    reference.save()

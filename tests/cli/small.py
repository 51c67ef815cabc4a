"""A network of six layers whose training needs 205 KB: choosing a scheme for it takes a second."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mcutrain.formats import read_float
from mcutrain.formats.tflite.write import write_tflite
from tests.quant.networks import OnnxNetwork

LAYERS = ((16, 3, 1), (64, 1, 1), (32, 3, 2), (96, 1, 1), (48, 3, 1))
"""Of each, outputs, kernel, stride; then come ten classes of the demo's images."""


def write_small(folder: Path) -> Path:
    """The .tflite file, with random weights."""
    net = OnnxNetwork([1, 1, 28, 28])
    x, before = "input", 1
    for outs, kernel, stride in LAYERS:
        x, before = net.op("Relu", net.conv(x, before, outs, kernel, stride, bias=True)), outs
    x = net.op("Flatten", net.op("GlobalAveragePool", x), axis=1)
    net.save(folder / "small.onnx", net.gemm(x, before, 10))
    pixels = np.random.default_rng(0).uniform(0, 1, (16, 28, 28, 1))
    write_tflite(read_float(folder / "small.onnx").quantize(pixels).graph, folder / "small.tflite")
    return folder / "small.tflite"

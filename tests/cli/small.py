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
    return _quantized(net, net.gemm(x, before, 10), folder)


def write_block(folder: Path) -> Path:
    """The .tflite file of a network with one residual block, which modules can stand beside."""
    net = OnnxNetwork([1, 1, 28, 28])
    x = net.op("Relu", net.conv("input", 1, 8, 3, 4, bias=True))
    wide = net.op("Relu", net.conv(x, 8, 16, 1, 1, bias=True))
    x = net.op("Add", net.conv(wide, 16, 8, 1, 1, bias=True), x)
    x = net.op("Flatten", net.op("GlobalAveragePool", x), axis=1)
    return _quantized(net, net.gemm(x, 8, 10), folder)


def _quantized(net: OnnxNetwork, outputs: str, folder: Path) -> Path:
    net.save(folder / "small.onnx", outputs)
    pixels = np.random.default_rng(0).uniform(0, 1, (16, 28, 28, 1))
    write_tflite(read_float(folder / "small.onnx").quantize(pixels).graph, folder / "small.tflite")
    return folder / "small.tflite"

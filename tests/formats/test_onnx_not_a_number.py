"""x, or 0 where x is no number: what PyTorch writes behind the softmax of a masked attention."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mcutrain.errors import UnsupportedError
from mcutrain.formats import read_float
from mcutrain.oracle.run_original import _run_onnx
from mcutrain.quant.float_shapes import FloatSoftmax
from tests.quant.networks import OnnxNetwork

SHAPE = [1, 12, 6]


def test_it_is_x_itself(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    net = OnnxNetwork(SHAPE)
    y = net.op("Softmax", net.op("Tanh", "input"), axis=-1)
    zero = net.constant(np.array(0, np.float32))
    y = net.op("Where", net.op("IsNaN", y), zero, y)
    path = net.save(tmp_path / "m.onnx", y)
    network = read_float(path).network
    assert [type(n.op) for n in network.nodes].count(FloatSoftmax) == 1
    x = np.random.default_rng(3).normal(0, 1, SHAPE).astype(np.float32)
    assert network.input_shape == tuple(SHAPE)
    np.testing.assert_allclose(network.run(x)[0], _run_onnx(path, x)[0], atol=1e-6)


def test_another_choice_by_it_is_refused(tmp_path: Path) -> None:
    net = OnnxNetwork(SHAPE)
    y, other = net.op("Tanh", "input"), net.op("Relu", "input")
    y = net.op("Where", net.op("IsNaN", y), net.constant(np.array(0, np.float32)), other)
    with pytest.raises(UnsupportedError, match="IsNaN"):
        read_float(net.save(tmp_path / "m.onnx", y))

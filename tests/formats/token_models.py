"""Networks of token ids, as PyTorch's exporters write them, and ids for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from mcutrain.formats.float_model import read_float
from mcutrain.ir.graph import Graph
from mcutrain.quant.quantizer import Quantized

Array = npt.NDArray[Any]

ROWS, TOKENS, WIDTH, CLASSES = 40, 6, 8, 3
HIDDEN = -10000.0


class TokenNet:
    """A float .onnx file in the making; `x` is what was computed last."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self.x = "ids"

    def constant(self, data: Any) -> str:
        name = f"c{len(self.initializers)}"
        data = np.asarray(data)
        data = data.astype(np.float32) if data.dtype.kind == "f" else data
        self.initializers.append(numpy_helper.from_array(data, name))
        return name

    def drawn(self, *shape: int) -> str:
        return self.constant(self.rng.normal(0, shape[0] ** -0.5, shape))

    def op(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        self.x = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [self.x], **attributes))
        return self.x

    def table(self, ids: str = "", rows: int = ROWS) -> str:
        return self.op("Gather", self.constant(self.rng.normal(0, 1, (rows, WIDTH))), ids or self.x)

    def dense(self, x: str, outs: int, ins: int = WIDTH) -> str:
        return self.op("Add", self.op("MatMul", x, self.drawn(ins, outs)), self.drawn(outs))

    def norm(self, x: str) -> str:
        ones = self.constant(np.ones(WIDTH, np.float32))
        return self.op("LayerNormalization", x, ones, self.drawn(WIDTH), epsilon=1e-5)

    def block(self, x: str) -> str:
        """Attention that sees no later token, and what follows it."""
        q, k, v = (self.dense(x, WIDTH) for _ in range(3))
        scores = self.op("MatMul", q, self.op("Transpose", k, perm=[0, 2, 1]))
        scores = self.op("Mul", scores, self.constant(np.float32(WIDTH**-0.5)))
        mask = np.triu(np.full((1, TOKENS, TOKENS), HIDDEN, np.float32), 1)
        shares = self.op("Softmax", self.op("Add", scores, self.constant(mask)), axis=-1)
        x = self.norm(self.op("Add", x, self.dense(self.op("MatMul", shares, v), WIDTH)))
        inner = self.op("Relu", self.dense(x, 2 * WIDTH))
        return self.norm(self.op("Add", x, self.dense(inner, WIDTH, 2 * WIDTH)))

    def positions(self) -> str:
        return self.op("Add", self.x, self.drawn(1, TOKENS, WIDTH))

    def classify(self, layers: int = 2) -> str:
        self.op("ReduceMean", self.x, axes=[1], keepdims=0)
        if layers == 2:
            self.op("Relu", self.dense(self.x, WIDTH))
        return self.dense(self.x, CLASSES)

    def save(self, path: Path, dtype: int = TensorProto.INT64, y: str = "") -> Path:
        value = helper.make_tensor_value_info
        graph = helper.make_graph(
            self.nodes,
            path.stem,
            [value("ids", dtype, ["n", TOKENS])],
            [value(y or self.x, TensorProto.FLOAT, None)],
            self.initializers,
        )
        opset = helper.make_opsetid("", 17)
        onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=8), path)
        return path


def bag(path: Path, dtype: int = TensorProto.INT64) -> Path:
    """The mean of rows and positions, and two layers."""
    net = TokenNet()
    net.table()
    net.positions()
    net.classify()
    return net.save(path, dtype)


def transformer(path: Path) -> Path:
    """Two blocks of attention behind rows, positions and a normalization."""
    net = TokenNet()
    net.table()
    x = net.norm(net.positions())
    for _ in range(2):
        x = net.block(x)
    net.classify(1)
    return net.save(path)


def ids(count: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(0, ROWS, (count, TOKENS)).astype(np.int16)


def quantized(path: Path) -> Quantized:
    return read_float(path).quantize(ids(64).astype(np.float32))


def int8_bag(tmp_path: Path) -> Graph:
    return quantized(bag(tmp_path / "bag.onnx")).graph

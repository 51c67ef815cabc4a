"""QDQ models of opset 10 to 12, whose QuantizeLinear has one scale: the same graph as of 13."""

import numpy as np
import pytest

from mcutrain.errors import McutrainError, ModelError, UnsupportedError
from mcutrain.formats.onnx.read import load_onnx
from mcutrain.ir.interpret import interpret
from mcutrain.oracle.onnxruntime import onnxruntime_outputs
from tests.formats.onnx_builder import QdqModel

SINCE = {"Clip": 11, "Pad": 11, "Dropout": 12, "Squeeze": 13}
STEP = 1


def grow(model, op_type, x, **values):
    """An operator with attributes, or with inputs since the opset that has them."""
    if model.opset < SINCE[op_type]:
        return model.op(op_type, x, **values)
    kinds = {True: np.float32, False: np.int64}
    arrays = [np.array(v, kinds[isinstance(v, float)]) for v in values.values()]
    return model.op(op_type, x, *[model.constant(a) for a in arrays])


def network(opset, path, weight_scales=0.01):
    model = QdqModel((1, 2, 6, 6), opset=opset)
    x = model.requantize(grow(model, "Pad", model.x, pads=[0, 0, 1, 1, 0, 0, 1, 1]), 0.05, 3)
    w = np.arange(-18, 18).reshape(2, 2, 3, 3).astype(np.int8)
    x = model.op("Conv", x, model.dequantized(w, weight_scales))
    x = model.requantize(grow(model, "Clip", x, min=0.0, max=6.0), 0.024, -128)
    x = model.requantize(model.op("GlobalAveragePool", x), 0.024, -128)
    x = grow(model, "Dropout", grow(model, "Squeeze", x, axes=[2, 3]), ratio=0.5)
    w = np.arange(6).reshape(3, 2).astype(np.int8)
    bias = model.dequantized(np.array([9, -5, 2], np.int32), 0.01 * 0.024)
    x = model.op("Gemm", x, model.dequantized(w, 0.01), bias, transB=1)
    x = model.op("Softmax", model.requantize(x, 0.01, 0), axis=1)
    return model.save(path, model.requantize(x, 1 / 256, -128))


def content(graph):
    """All but names."""
    constants = [t.data.tobytes() for t in graph.tensors.values() if t.data is not None]
    return [n.op for n in graph.nodes], [t.type for t in graph.tensors.values()], constants


@pytest.mark.parametrize("opset", [10, 11, 12])
def test_an_older_opset_gives_the_same_graph(opset, tmp_path):
    graphs = [load_onnx(network(o, tmp_path / f"{o}.onnx")) for o in (opset, 13)]
    assert content(graphs[0]) == content(graphs[1])


@pytest.mark.oracle
@pytest.mark.parametrize("opset", [10, 12])
def test_an_older_opset_is_within_one_step_of_onnxruntime(opset, tmp_path):
    path = network(opset, tmp_path / "model.onnx")
    graph = load_onnx(path)
    x = np.random.default_rng(0).integers(-128, 128, (4, 6, 6, 2)).astype(np.int8)
    ours = [interpret(graph, {graph.inputs[0]: one[None]})[graph.outputs[0]] for one in x]
    theirs = onnxruntime_outputs(path, x, graph, optimize=False)
    assert np.abs(np.concatenate(ours).astype(int) - theirs).max() <= STEP


def test_several_scales_need_opset_13(tmp_path):
    load_onnx(network(13, tmp_path / "new.onnx", [0.01, 0.02]))
    with pytest.raises(UnsupportedError, match="2 scales in opset 12 are not"):
        load_onnx(network(12, tmp_path / "old.onnx", [0.01, 0.02]))


def test_an_opset_without_quantization_is_named(tmp_path):
    with pytest.raises(ModelError, match="opset 9, but QuantizeLinear is of opset 10"):
        load_onnx(network(9, tmp_path / "model.onnx"))


@pytest.mark.parametrize("opset", [6, 29])
def test_an_unknown_opset_is_refused(opset, tmp_path):
    with pytest.raises(McutrainError, match=f"opset {opset}; 7 to 28 are supported"):
        load_onnx(network(opset, tmp_path / "model.onnx"))

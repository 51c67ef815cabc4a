"""Float models whose numbers are not float32: halves, doubles, and inputs of uint8."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mcutrain
from mcutrain.errors import DataError, ModelError
from mcutrain.formats import read_float
from mcutrain.formats.onnx.file import tensor_to_array
from mcutrain.oracle.original import compare_with_original

SHAPE = (3, 8, 8)
SAMPLES = 12
HALF_DB = 55.0  # 11 significant bits through four operators


def model(kind, path, between=()):
    """A convolution, its means and a layer, all in one element type. between: casts in front."""
    rng = np.random.default_rng(3)
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    parts = {
        "w": rng.normal(0, 0.3, (8, 3, 3, 3)),
        "b": rng.normal(0, 0.2, 8),
        "v": rng.normal(0, 0.5, (4, 8)),
        "c": rng.normal(0, 0.1, 4),
    }
    nodes = [
        *between,
        helper.make_node("Conv", ["x1" if between else "x", "w", "b"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("Gemm", ["f", "v", "c"], ["y"], transB=1),
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "model",
        [value("x", TensorProto.FLOAT if between else kind, (1, *SHAPE))],
        [value("y", kind, (1, 4))],
        [numpy_helper.from_array(np.asarray(v).astype(dtype), n) for n, v in parts.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)])
    made.ir_version = 10
    onnx.save(made, path)
    return path


def samples(count=SAMPLES, seed=1):
    return np.random.default_rng(seed).uniform(-1, 1, (count, *SHAPE)).astype(np.float32)


@pytest.mark.oracle
def test_a_model_in_float16_computes_as_onnxruntime(tmp_path):
    pytest.importorskip("onnxruntime")
    found = read_float(model(TensorProto.FLOAT16, tmp_path / "m.onnx"))
    assert found.network.is_half
    said = compare_with_original(found, samples().transpose(0, 2, 3, 1))
    assert float(said.split()[0]) > HALF_DB


@pytest.mark.oracle
def test_a_layer_in_float64_computes_as_onnxruntime(tmp_path):
    """onnxruntime has no convolution in float64."""
    pytest.importorskip("onnxruntime")
    path = model(TensorProto.DOUBLE, tmp_path / "m.onnx")
    made = onnx.load(path)
    made.graph.input[0].CopyFrom(helper.make_tensor_value_info("f", TensorProto.DOUBLE, (1, 8)))
    del made.graph.node[:-1]
    onnx.save(made, path)
    found = read_float(path)
    assert not found.network.is_half
    said = compare_with_original(found, samples()[:, 0, 0])
    assert float(said.split()[0]) > 100


@pytest.mark.parametrize("kind", [TensorProto.FLOAT16, TensorProto.BFLOAT16])
def test_halves_are_what_they_were_rounded_to(tmp_path, kind):
    """Edges in float32, as exporters leave them: the Cast to halves changes nothing."""
    cast = helper.make_node("Cast", ["x"], ["x1"], to=kind)
    found = read_float(model(kind, tmp_path / "m.onnx", [cast])).network
    weights = onnx.load(tmp_path / "m.onnx").graph.initializer[0]
    exact = numpy_helper.to_array(weights).astype(np.float32)
    assert np.array_equal(tensor_to_array(weights), exact)
    assert found.nodes[0].op.w.tobytes() == exact.transpose(0, 2, 3, 1).tobytes()


@pytest.mark.parametrize("kind", [TensorProto.FLOAT16, TensorProto.BFLOAT16])
def test_halves_may_lie_in_the_typed_field(kind):
    values = np.array([1.5, -0.0078125, 3.0, 65504.0 if kind == TensorProto.FLOAT16 else 2.0**100])
    tensor = helper.make_tensor("t", kind, [4], values)
    if tensor.HasField("raw_data"):
        bits = np.frombuffer(tensor.raw_data, np.uint16)
        tensor.ClearField("raw_data")
        tensor.int32_data.extend(bits.tolist())
    found = tensor_to_array(tensor)
    assert found.dtype == np.float32
    assert found.tolist() == values.tolist()


def uint8_model(path, last=()):
    """Preprocessing inside: Cast, Div, Sub, Div, Transpose to channels first."""
    rng = np.random.default_rng(5)
    parts = {
        "k": np.float32(255),
        "mean": np.array([0.485, 0.456, 0.406], np.float32),
        "std": np.array([0.229, 0.224, 0.225], np.float32),
        "w": rng.normal(0, 0.3, (8, 3, 3, 3)).astype(np.float32),
        "v": rng.normal(0, 0.5, (4, 8)).astype(np.float32),
    }
    chain = [
        ("Cast", ["x"], {"to": TensorProto.FLOAT}),
        ("Div", ["", "k"], {}),
        ("Sub", ["", "mean"], {}),
        ("Div", ["", "std"], {}),
        ("Transpose", [""], {"perm": [0, 3, 1, 2]}),
        ("Conv", ["", "w"], {}),
        ("Relu", [""], {}),
        ("GlobalAveragePool", [""], {}),
        ("Flatten", [""], {}),
        ("Gemm", ["", "v"], {"transB": 1}),
    ]
    nodes = [
        helper.make_node(op, [n or f"t{i - 1}" for n in names], [f"t{i}"], **attributes)
        for i, (op, names, attributes) in enumerate(chain)
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "model",
        [value("x", TensorProto.UINT8, (1, 8, 8, 3))],
        [value(f"t{len(chain) - 1}", TensorProto.FLOAT, (1, 4))],
        [numpy_helper.from_array(np.asarray(v), n) for n, v in parts.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    made.ir_version = 8
    onnx.save(made, path)
    return path


@pytest.mark.oracle
def test_an_input_of_uint8_takes_pixels_as_they_are(tmp_path):
    pytest.importorskip("onnxruntime")
    path = uint8_model(tmp_path / "m.onnx")
    pixels = np.random.default_rng(2).integers(0, 256, (40, 8, 8, 3)).astype(np.uint8)
    pixels = np.clip(pixels, 3, 240)  # the range is that of the type, not of the samples
    found = mcutrain.quantize(path, pixels, tmp_path / "m.int8.tflite")
    kind = found.graph.tensors[found.graph.inputs[0]].type
    assert (kind.scale, kind.zero_point) == (1.0, -128)
    assert float(found.read_as.split()[0]) > 100
    assert found.snr_db > 30


def test_an_input_of_uint8_takes_no_other_numbers(tmp_path):
    path = uint8_model(tmp_path / "m.onnx")
    pixels = np.random.default_rng(2).integers(0, 256, (40, 8, 8, 3)).astype(np.uint8)
    with pytest.raises(DataError, match="is uint8: it takes pixels as they are"):
        mcutrain.quantize(path, pixels, pixels=(0, 1))


def test_other_integers_are_refused(tmp_path):
    path = uint8_model(tmp_path / "m.onnx")
    made = onnx.load(path)
    made.graph.input[0].type.tensor_type.elem_type = TensorProto.INT8
    onnx.save(made, path)
    with pytest.raises(ModelError, match="is int8; float or double or float16 or bfloat16"):
        read_float(path)

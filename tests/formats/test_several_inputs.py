"""Float models of several inputs become models of one, a row that has them after each other."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

import mcutrain
from mcutrain.errors import UnsupportedError
from mcutrain.formats import load, read_float
from mcutrain.oracle.run_original import cut_apart
from tests.formats.oracle import needs_interpreter
from tests.formats.test_tflite_float import FloatModel
from tests.formats.tflite_builder import TfliteBuilder

IMAGE, SENSORS = (1, 3, 6, 5), (1, 4)


def two_inputs(
    path: Path, names: tuple[str, str] = ("image", "sensors"), **changed: object
) -> Path:
    """A convolution of one and a dense layer of the other, then a dense layer of both."""
    rng = np.random.default_rng(3)
    nodes = [
        ("Conv", [names[0], "w0", "b0"], "c", {}),
        ("Relu", ["c"], "r", {}),
        ("GlobalAveragePool", ["r"], "p", {}),
        ("Flatten", ["p"], "f", {}),
        ("Gemm", [names[1], "w1", "b1"], "g", {}),
        ("Concat", ["f", "g"], "both", {"axis": 1}),
        ("Gemm", ["both", "w2", "b2"], "y", {}),
    ]
    shapes = {
        "w0": (8, 3, 3, 3), "b0": (8,), "w1": (4, 6), "b1": (6,), "w2": (14, 3), "b2": (3,),
    }  # fmt: skip
    types = changed.get("types", (TensorProto.FLOAT, TensorProto.FLOAT))
    sizes = changed.get("shapes", (IMAGE, SENSORS))
    assert isinstance(types, tuple)
    assert isinstance(sizes, tuple)
    inputs = [helper.make_tensor_value_info(*one) for one in zip(names, types, sizes, strict=True)]
    graph = helper.make_graph(
        [helper.make_node(kind, x, [y], name=y, **more) for kind, x, y, more in nodes],
        "two",
        inputs,
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 3))],
        [
            onnx.numpy_helper.from_array(rng.normal(0, 0.4, s).astype(np.float32), name)
            for name, s in shapes.items()
        ],
    )
    opset = changed.get("opset", 17)
    opsets = [helper.make_opsetid("", opset)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


def rows(count: int) -> np.ndarray:
    size = math.prod(IMAGE) + math.prod(SENSORS)
    return np.random.default_rng(4).normal(0, 1, (count, size)).astype(np.float32)


@pytest.mark.parametrize("opset", [11, 17])
def test_a_row_is_cut_apart_as_onnxruntime_takes_its_inputs(tmp_path: Path, opset: int) -> None:
    runtime = pytest.importorskip("onnxruntime")
    path = two_inputs(tmp_path / "m.onnx", opset=opset)
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    model, x = read_float(path), rows(3)
    assert dict(model.network.row) == {"image": IMAGE, "sensors": SENSORS}
    for one in x:
        image, sensors = one[:90].reshape(IMAGE), one[90:].reshape(SENSORS)
        (wanted,) = session.run(None, {"image": image, "sensors": sensors})
        np.testing.assert_allclose(model.network.run(one[None])[0], wanted, atol=1e-5)


def test_names_that_the_file_has_are_not_taken_twice(tmp_path: Path) -> None:
    x = rows(2)
    plain = read_float(two_inputs(tmp_path / "m.onnx")).network
    for names in (("inputs", "inputs/sizes"), ("a", "a/part"), ("a/shape", "a")):
        network = read_float(two_inputs(tmp_path / "n.onnx", names)).network
        assert list(network.row) == list(names)
        assert (network.run(x)[0] == plain.run(x)[0]).all()


def test_it_is_quantized_and_said_to_take_a_row(tmp_path: Path) -> None:
    path = two_inputs(tmp_path / "m.onnx")
    x = rows(40)
    with pytest.warns(UserWarning, match=r"2 inputs: .* 94, 'image' \(3×6×5\), 'sensors' \(4\)"):
        made = mcutrain.quantize(path, x, tmp_path / "m.int8.tflite")
    assert made.snr_db > 20
    graph = load(tmp_path / "m.int8.tflite")
    assert [graph.tensors[name].type.shape for name in graph.inputs] == [(1, 94)]
    y = np.arange(40) % 3
    assert mcutrain.simulate(graph, (x, y), "last:2", classes=3, epochs=1, learning_rate=0.01)


@pytest.mark.parametrize(
    "changed",
    [
        {"types": (TensorProto.FLOAT, TensorProto.INT64)},
        {"types": (TensorProto.FLOAT, TensorProto.FLOAT16)},
        {"shapes": ((1, 3, "h", 5), SENSORS)},
        {"shapes": ((2, 3, 6, 5), (2, 4))},
        {"shapes": (IMAGE, (4,))},
    ],
)
def test_other_inputs_are_refused_with_the_way_out(
    tmp_path: Path, changed: dict[str, object]
) -> None:
    path = two_inputs(tmp_path / "m.onnx", **changed)
    with pytest.raises(
        UnsupportedError, match=r"2 inputs \('image', 'sensors'\); one .* constants"
    ):
        read_float(path)


def of_two(m: FloatModel, second: int) -> int:
    """The sum of a convolution of x and of a dense layer of another input."""
    shape = (1, 8, 7, 4)
    gate = m.op("LOGISTIC", [m.dense(second, 4, 5)], (1, 4))
    return m.op("ADD", [m.conv(m.x, shape), gate], shape, "AddOptions")


@needs_interpreter
@pytest.mark.oracle
def test_a_row_is_cut_apart_as_tflite_takes_its_inputs(tmp_path: Path) -> None:
    from mcutrain.oracle.run_original import _run_tflite

    m = FloatModel()
    second = m.builder.tensor("inputs", (1, 5), "float32")
    path = tmp_path / "m.tflite"
    path.write_bytes(m.builder.content([m.x, second], [of_two(m, second)]))
    x = np.random.default_rng(4).normal(0, 1, (3, 8 * 7 * 4 + 5)).astype(np.float32)
    network = read_float(path).network
    assert dict(network.row) == {"x": (1, 8, 7, 4), "inputs": (1, 5)}
    np.testing.assert_allclose(network.run(x)[0], _run_tflite(path, x)[0][:, 0], atol=1e-5)


def test_integers_beside_floats_are_refused_in_tflite(tmp_path: Path) -> None:
    b = TfliteBuilder()
    x, ids = b.tensor("x", (1, 4), "float32"), b.tensor("ids", (1, 4), "int32")
    y = b.operator("RELU", [x], b.tensor("y", (1, 4), "float32"))
    (tmp_path / "m.tflite").write_bytes(b.content([x, ids], [y]))
    with pytest.raises(UnsupportedError, match="2 inputs; one is supported"):
        read_float(tmp_path / "m.tflite")


@settings(max_examples=20)
@given(st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=3), min_size=1, max_size=4))
def test_parts_of_a_row_are_all_of_it_in_order(shapes: list[list[int]]) -> None:
    row = np.arange(sum(math.prod(shape) for shape in shapes))
    parts = cut_apart(row, shapes)
    assert [list(part.shape) for part in parts] == shapes
    assert (np.concatenate([part.ravel() for part in parts]) == row).all()

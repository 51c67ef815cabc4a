"""Models of token ids: read, quantized, written, and compared with their runtimes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto

from mcutrain.analysis.front import Activations, Cut
from mcutrain.errors import ModelError, UnsupportedError
from mcutrain.formats import load, load_tflite
from mcutrain.formats.float_model import read_float
from mcutrain.formats.onnx.write import write_onnx
from mcutrain.formats.tflite.write import write_tflite
from mcutrain.ir.difference import difference
from mcutrain.ir.graph import TensorType
from mcutrain.ir.interpret import interpret
from mcutrain.oracle.onnxruntime import onnxruntime_outputs
from mcutrain.oracle.original import compare_with_original
from mcutrain.oracle.tflite import tflite_outputs
from tests.formats.oracle import needs_interpreter
from tests.formats.tflite_builder import TfliteBuilder
from tests.formats.token_models import (
    ROWS,
    TOKENS,
    WIDTH,
    TokenNet,
    bag,
    ids,
    int8_bag,
    quantized,
    transformer,
)

INTEGERS = (TensorProto.INT16, TensorProto.INT32, TensorProto.INT64, TensorProto.UINT8)


def outputs(graph, x):
    shape = graph.tensors[graph.inputs[0]].type.shape
    found = [interpret(graph, {graph.inputs[0]: one.reshape(shape)}) for one in x]
    return np.concatenate([values[graph.outputs[0]] for values in found])


@pytest.mark.parametrize("make", [bag, transformer])
def test_a_float_file_computes_what_onnxruntime_does_and_is_quantized(tmp_path: Path, make) -> None:
    model = read_float(make(tmp_path / "m.onnx"))
    assert model.network.ids == {"ids": ROWS}
    assert "dB to onnxruntime" in compare_with_original(model, ids(4).astype(np.float32))
    found = quantized(model.path)
    x = found.graph.tensors[found.graph.inputs[0]].type
    assert x == TensorType((1, TOKENS), "int16", (1.0,))
    assert found.graph.vocabulary(found.graph.inputs[0]) == ROWS
    assert found.chosen.snr_db > 15


def test_an_input_may_be_of_any_integers_or_cast_to_them(tmp_path: Path) -> None:
    for dtype in INTEGERS[1:3]:  # what Gather takes as it is
        read = read_float(bag(tmp_path / f"{dtype}.onnx", dtype)).network
        assert read.ids == {"ids": ROWS}
    for dtype in (*INTEGERS, TensorProto.FLOAT):
        net = TokenNet()
        net.op("Cast", "ids", to=TensorProto.INT64)
        net.table()
        net.classify()
        read = read_float(net.save(tmp_path / f"cast{dtype}.onnx", dtype)).network
        assert (set(read.ids.values()), read.takes_pixels) == ({ROWS}, False)


def test_two_tables_hold_ids_to_the_smaller_one(tmp_path: Path) -> None:
    net = TokenNet()
    net.op("Add", net.table("ids"), net.table("ids", ROWS - 7))
    net.classify()
    graph = quantized(net.save(tmp_path / "two.onnx")).graph
    assert graph.vocabulary(graph.inputs[0]) == ROWS - 7
    write_tflite(graph, tmp_path / "two.tflite")
    assert not difference(graph, load(tmp_path / "two.tflite"))


def test_what_else_reads_ids_is_refused(tmp_path: Path) -> None:
    net = TokenNet()
    table = net.table("ids")
    mask = net.op("Cast", "ids", to=TensorProto.FLOAT)
    mask = net.op("Reshape", mask, net.constant(np.array([1, TOKENS, 1], np.int64)))
    net.op("Mul", table, mask)
    net.classify()
    path = net.save(tmp_path / "mask.onnx")
    with pytest.raises(ModelError, match="computes with token ids; only a Gather"):
        _ = read_float(path).network.ids
    numbers = TokenNet()
    numbers.op("Cast", "ids", to=TensorProto.FLOAT)
    numbers.dense(numbers.x, 3, TOKENS)
    with pytest.raises(UnsupportedError, match="no Gather of a constant table takes them"):
        read_float(numbers.save(tmp_path / "numbers.onnx"))
    columns = TokenNet()
    columns.op("Gather", columns.drawn(WIDTH, ROWS), "ids", axis=1)
    with pytest.raises(UnsupportedError, match="token ids of columns"):
        read_float(columns.save(tmp_path / "columns.onnx"))
    large = TokenNet()
    large.table("ids", 2**15 + 1)
    with pytest.raises(ModelError, match="32,768 rows at most"):
        read_float(large.save(tmp_path / "large.onnx"))


def test_a_written_file_computes_the_same_bits(tmp_path: Path) -> None:
    graph = int8_bag(tmp_path)
    assert write_onnx(graph, tmp_path / "b.onnx") == ""
    write_tflite(graph, tmp_path / "b.tflite")
    for name in ("b.onnx", "b.tflite"):
        back = load(tmp_path / name)
        assert not difference(graph, back)
        assert back.vocabulary(back.inputs[0]) == ROWS
        assert (outputs(back, ids(9)) == outputs(graph, ids(9))).all()
    attention = quantized(transformer(tmp_path / "t.onnx")).graph
    assert write_onnx(attention, tmp_path / "t8.onnx") == ""
    assert (outputs(load(tmp_path / "t8.onnx"), ids(9)) == outputs(attention, ids(9))).all()


@needs_interpreter
def test_the_interpreter_gives_the_same_bits(tmp_path: Path) -> None:
    graph = int8_bag(tmp_path)
    write_tflite(graph, tmp_path / "b.tflite")
    assert (tflite_outputs(tmp_path / "b.tflite", ids(50), graph) == outputs(graph, ids(50))).all()


def test_onnxruntime_differs_by_a_step_at_most(tmp_path: Path) -> None:
    graph = int8_bag(tmp_path)
    write_onnx(graph, tmp_path / "b.onnx")
    found = onnxruntime_outputs(tmp_path / "b.onnx", ids(50), load(tmp_path / "b.onnx"), False)
    assert np.abs(found.astype(int) - outputs(graph, ids(50))).max() <= 1


def tflite_rows(path: Path, name: str, ids_type: str = "int32", y_scale: float = 0.1) -> Path:
    """Rows of a table of int8; EMBEDDING_LOOKUP takes ids first, GATHER the table."""
    b = TfliteBuilder()
    codes = np.random.default_rng(0).integers(-128, 128, (ROWS, WIDTH)).astype(np.int8)
    x = given = b.tensor("ids", (1, TOKENS), ids_type)
    if ids_type == "int64":
        x = b.operator("CAST", [given], b.tensor("cast", (1, TOKENS), "int32"))
    if name == "keras":
        zero, rows = (b.constant(f"n{n}", np.array(n, np.int32)) for n in (0, ROWS))
        less = b.operator("LESS", [x, zero], b.tensor("less", (1, TOKENS), "bool"))
        moved = b.operator("ADD", [x, rows], b.tensor("moved", (1, TOKENS), "int32"))
        x = b.operator("SELECT", [less, moved, x], b.tensor("chosen", (1, TOKENS), "int32"))
        name = "GATHER"
    if name == "EMBEDDING_LOOKUP":
        shape = b.constant("shape", np.array([TOKENS], np.int32))
        x = b.operator("RESHAPE", [x, shape], b.tensor("flat", (TOKENS,), "int32"))
    table = b.constant("table", codes, scale=0.1, zero_point=4)
    y = b.tensor("y", (*((1,) if name == "GATHER" else ()), TOKENS, WIDTH), "int8", y_scale, 4)
    if name == "GATHER":
        b.operator(name, [table, x], y, table="GatherOptions", Axis=0)
    else:
        b.operator(name, [x, table], y)
    path.write_bytes(b.content([given], [y]))
    return path


@needs_interpreter
@pytest.mark.parametrize(
    ("name", "ids_type"),
    [
        ("GATHER", "int32"),
        ("GATHER", "int64"),
        ("keras", "int32"),
        ("EMBEDDING_LOOKUP", "int32"),
    ],
)
def test_rows_of_an_int8_table_are_copied_as_the_interpreter_does(
    tmp_path: Path, name: str, ids_type: str
) -> None:
    path = tflite_rows(tmp_path / "rows.tflite", name, ids_type)
    graph = load_tflite(path)
    if name != "EMBEDDING_LOOKUP":
        expected = tflite_outputs(path, ids(7), graph)
    else:  # the interpreter makes real numbers of it
        table = next(t.data for t in graph.tensors.values() if t.data is not None)
        expected = table[ids(7)]
    assert (outputs(graph, ids(7)).reshape(expected.shape) == expected).all()


def test_an_int8_table_of_another_scale_is_refused(tmp_path: Path) -> None:
    path = tflite_rows(tmp_path / "rows.tflite", "GATHER", y_scale=0.2)
    with pytest.raises(UnsupportedError, match="quantized as the output"):
        load_tflite(path)


def test_an_analysis_keeps_ids_as_they_are(tmp_path: Path) -> None:
    graph = int8_bag(tmp_path)
    first = Cut(graph.inputs[0], 0)
    kept = Activations(graph, (first,), ids(5), tmp_path).at(first)
    assert kept.dtype == np.int16
    assert (kept == ids(5)).all()

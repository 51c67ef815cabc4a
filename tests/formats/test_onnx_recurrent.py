"""LSTM and GRU of .onnx: as onnxruntime has them, in int8, written and read again, refused."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from mcutrain.errors import McutrainError, ModelError, UnsupportedError
from mcutrain.formats import format_of_quantized, load, read_float, write
from mcutrain.ir.difference import difference
from mcutrain.ir.interpret import interpret
from mcutrain.ops.gru import Gru
from mcutrain.ops.lstm import Lstm
from mcutrain.ops.recurrent import Recurrent
from mcutrain.pipeline import prepare
from mcutrain.quant.fake import snr_db
from mcutrain.quant.float_recurrent import FloatRecurrent
from mcutrain.simulation.rates import LearningRate
from mcutrain.trained import trained_graph
from tests.formats.onnx_builder import QdqModel

ort = pytest.importorskip("onnxruntime")

FLOAT_ERROR = 1e-5
"""Of single precision, over a few steps."""
INT8_DB = 22.0
"""At the least, of drawn weights; trained ones have 38 and more."""
GATES = {"LSTM": 4, "GRU": 3}


@dataclass
class RecurrentFile:
    """A float file of layers one after another, and what is made of the last one's output.

    how: "sequence", "last" (of the sequence), "h" (the state itself) or "both" (sequence and h).
    extra: inputs of the first layer, by their place.
    """

    kind: str = "LSTM"
    steps: int = 6
    inputs: int = 4
    units: int = 3
    direction: str = "forward"
    how: str = "sequence"
    layers: int = 1
    batch: int = 1
    is_batch_first: bool = False
    has_bias: bool = True
    spread: float = 0.5
    seed: int = 0
    head: int = 0
    attributes: dict[str, Any] = field(default_factory=dict)
    extra: dict[int, np.ndarray] = field(default_factory=dict)

    @property
    def ways(self) -> int:
        return 1 + (self.direction == "bidirectional")

    def write(self, path: Path) -> Path:
        self.rng, self.nodes = np.random.default_rng(self.seed), []
        self.initializers: list[TensorProto] = []
        x, width = "input", self.inputs
        if not self.is_batch_first:
            x = self.op("Transpose", x, perm=[1, 0, 2])
        for layer in range(self.layers):
            x, h = self.layer(x, width, layer)
            width = self.ways * self.units
        y = self.ended(x, h, width)
        if self.head:
            y = self.op("Gemm", y, self.constant(self.rng.normal(0, 1, (width, self.head))))
        info = helper.make_tensor_value_info
        shape = [self.batch, self.steps, self.inputs]
        ends = info("input", TensorProto.FLOAT, shape), info(y, TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "g", [ends[0]], [ends[1]], self.initializers)
        opset = helper.make_opsetid("", 17)
        onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=8), path)
        return path

    def layer(self, x: str, width: int, index: int) -> tuple[str, str]:
        rows, n = GATES[self.kind] * self.units, self.units
        shapes = [(self.ways, rows, width), (self.ways, rows, n), (self.ways, 2 * rows)]
        names = [
            self.constant(self.rng.normal(0, self.spread, s)) for s in shapes[: 2 + self.has_bias]
        ]
        inputs = [x, *names, *[""] * (8 - 1 - len(names))]
        for place, data in self.extra.items() if index == 0 else ():
            inputs[place] = self.constant(data, data.dtype.type)
        while not inputs[-1]:
            inputs.pop()
        own: dict[str, Any] = {"hidden_size": n, "direction": self.direction}
        own |= {"linear_before_reset": 1} if self.kind == "GRU" else {}
        own |= {"layout": 1} if self.is_batch_first else {}
        outputs = [f"{what}{index}" for what in ("y", "h", "c")[: 2 + (self.kind == "LSTM")]]
        self.nodes.append(
            helper.make_node(
                self.kind, inputs, outputs, f"layer{index}", **{**own, **self.attributes}
            )
        )
        if self.how in ("h", "cell") and index == self.layers - 1:
            return "", outputs[1 if self.how == "h" else 2]
        if self.is_batch_first:
            return self.reshaped(outputs[0], (self.batch, self.steps, self.ways * n)), outputs[1]
        if self.ways == 1:
            return self.op("Squeeze", outputs[0], self.constant([1], np.int64)), outputs[1]
        y = self.op("Transpose", outputs[0], perm=[0, 2, 1, 3])
        return self.reshaped(y, (self.steps, self.batch, self.ways * n)), outputs[1]

    def ended(self, x: str, h: str, width: int) -> str:
        if x and not self.is_batch_first:
            x = self.op("Transpose", x, perm=[1, 0, 2])
        if self.how == "sequence":
            return x
        if self.how == "last":
            return self.op("Gather", x, self.constant(-1, np.int64), axis=1)
        if not self.is_batch_first:
            h = self.op("Transpose", h, perm=[1, 0, 2])
        h = self.reshaped(h, (self.batch, width))
        if self.how != "both":
            return h
        return self.op("Add", self.op("ReduceMean", x, axes=[1], keepdims=0), h)

    def reshaped(self, x: str, shape: tuple[int, ...]) -> str:
        return self.op("Reshape", x, self.constant(shape, np.int64))

    def op(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        name = f"{op_type}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [name], name, **attributes))
        return name

    def constant(self, data: Any, dtype: type = np.float32) -> str:
        name = f"constant{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.asarray(data, dtype), name))
        return name

    def samples(self, count: int) -> np.ndarray:
        drawn = np.random.default_rng(self.seed + 1).normal(0, 1, (count, self.steps, self.inputs))
        return drawn.astype(np.float32)


def theirs(path: Path, x: np.ndarray) -> np.ndarray:
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return np.stack([session.run(None, {"input": one[None]})[0].ravel() for one in x])


def real_outputs(graph: Any, x: np.ndarray) -> np.ndarray:
    """What the int8 graph computes, in real numbers."""
    (name,), (end,) = graph.inputs, graph.outputs
    kind, y = graph.tensors[name].type, graph.tensors[end].type
    codes = np.clip(np.rint(x / np.float32(kind.scale)) + kind.zero_point, -128, 127)
    runs = (interpret(graph, {name: one.reshape(kind.shape).astype(np.int8)}) for one in codes)
    found = np.stack([next(iter(run.values())).ravel() for run in runs])
    return (found.astype(np.float64) - y.zero_point) * y.scale


def recurrent(graph: Any) -> list[Recurrent]:
    return [node.op for node in graph.nodes if isinstance(node.op, Recurrent)]


FILES = st.builds(
    RecurrentFile,
    kind=st.sampled_from(("LSTM", "GRU")),
    steps=st.integers(1, 20),
    inputs=st.integers(1, 8),
    units=st.integers(1, 6),
    direction=st.sampled_from(("forward", "reverse", "bidirectional")),
    how=st.sampled_from(("sequence", "last", "h", "both")),
    layers=st.integers(1, 2),
    has_bias=st.booleans(),
    spread=st.sampled_from((0.2, 0.5, 1.0)),
    seed=st.integers(0, 2**16),
)


@pytest.mark.slow
@given(model=FILES)
@settings(max_examples=15, deadline=None)
def test_it_is_read_as_onnxruntime_computes_it_and_its_int8_form_is_near_and_read_again(
    tmp_path_factory: pytest.TempPathFactory, model: RecurrentFile
) -> None:
    folder, x = tmp_path_factory.mktemp("recurrent"), model.samples(32)
    path = model.write(folder / "m.onnx")
    wanted, read = theirs(path, x), read_float(path)
    (found,) = read.network.run(x.reshape(len(x), *read.network.input_shape[1:]))
    assert np.abs(found.reshape(wanted.shape) - wanted).max() < FLOAT_ERROR
    graph = read.quantize(x).graph
    assert snr_db(wanted, real_outputs(graph, x)) > INT8_DB
    write(graph, folder / "q.onnx")
    assert difference(graph, load(folder / "q.onnx")) == ""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_128_steps_have_the_sound_of_few(tmp_path: Path, kind: str) -> None:
    model = RecurrentFile(kind, 128, 6, 8, spread=0.3)
    path, x = model.write(tmp_path / "m.onnx"), model.samples(12)
    assert snr_db(theirs(path, x), real_outputs(read_float(path).quantize(x).graph, x)) > INT8_DB


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_the_qdq_file_computes_in_onnxruntime_what_we_do_to_a_few_steps(
    tmp_path: Path, kind: str
) -> None:
    model = RecurrentFile(kind, 12, direction="bidirectional", how="h")
    path, x = model.write(tmp_path / "m.onnx"), model.samples(32)
    graph = read_float(path).quantize(x).graph
    write(graph, tmp_path / "q.onnx")
    assert snr_db(theirs(tmp_path / "q.onnx", x), real_outputs(graph, x)) > INT8_DB


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
@pytest.mark.parametrize("how", ["sequence", "h"])
def test_a_batch_before_the_steps_is_the_same_network(tmp_path: Path, kind: str, how: str) -> None:
    model = RecurrentFile(kind, direction="bidirectional", how=how)
    x = model.samples(8)
    paths = [
        replace(model, is_batch_first=first).write(tmp_path / f"{first}.onnx")
        for first in (False, True)
    ]
    a, b = (read_float(path).quantize(x).graph for path in paths)
    assert difference(a, b) == ""


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
@pytest.mark.parametrize("how", ["last", "h", "sequence"])
@pytest.mark.parametrize("first", [False, True])
def test_files_of_a_fixed_batch_are_read_as_those_of_one_sample(
    tmp_path: Path, kind: str, how: str, first: bool
) -> None:
    model = RecurrentFile(kind, how=how, layers=2, is_batch_first=first)
    x = model.samples(8)
    graphs = []
    for batch in (1, 5):
        path = replace(model, batch=batch).write(tmp_path / f"{batch}.onnx")
        graphs.append(read_float(path).quantize(x).graph)
    assert difference(*graphs) == ""


@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_the_last_step_alone_is_not_computed_as_a_sequence(tmp_path: Path, direction: str) -> None:
    """Of the reverse direction the last row is its first step, which stays a part of all."""
    model = RecurrentFile(how="last", direction=direction, layers=2)
    graph = read_float(model.write(tmp_path / "m.onnx")).quantize(model.samples(8)).graph
    assert [op.is_last for op in recurrent(graph)] == [False, direction == "forward"]


def test_a_state_that_only_leads_to_a_part_of_all_states_is_not_computed_again(
    tmp_path: Path,
) -> None:
    """h_n of PyTorch joins the states of all layers, of which often the last is taken."""
    model = RecurrentFile(layers=2, how="h")
    path = model.write(tmp_path / "m.onnx")
    proto = onnx.load(path)
    ending = [
        helper.make_node("Concat", ["h0", "h1"], ["all"], "join", axis=0),
        helper.make_node("Gather", ["all", "index"], ["one"], "gather", axis=0),
    ]
    proto.graph.initializer.append(numpy_helper.from_array(np.array(-1, np.int64), "index"))
    place = next(i for i, n in enumerate(proto.graph.node) if n.name == "layer1") + 1
    del proto.graph.node[place:]
    proto.graph.node.extend(ending)
    proto.graph.output[0].name = "one"
    onnx.save(proto, path)
    assert len(recurrent(read_float(path).quantize(model.samples(8)).graph)) == 2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"how": "cell"}, "the cell state as an output"),
        ({"kind": "GRU", "attributes": {"linear_before_reset": 0}}, "reset_after=True"),
        ({"attributes": {"activations": ["Relu", "Tanh", "Tanh"]}}, "activations"),
        ({"attributes": {"input_forget": 1}}, "coupled"),
        ({"attributes": {"clip": 3.0}}, "the attribute clip"),
        ({"extra": {4: np.array([3], np.int32)}}, "shorter than the input"),
        ({"extra": {5: np.ones((1, 1, 3), np.float32)}}, "an initial state"),
        ({"extra": {6: np.ones((1, 1, 3), np.float32)}}, "an initial state"),
        ({"extra": {7: np.ones((1, 9), np.float32)}}, "peephole"),
    ],
)
def test_other_layers_are_refused_with_a_sentence(
    tmp_path: Path, change: dict[str, Any], words: str
) -> None:
    model = RecurrentFile(**change)
    path = model.write(tmp_path / "m.onnx")
    with pytest.raises(UnsupportedError, match=words):
        read_float(path)


def test_states_of_zeros_and_full_lengths_are_read(tmp_path: Path) -> None:
    zeros = np.zeros((1, 1, 3), np.float32)
    plain = RecurrentFile(seed=3)
    said = replace(plain, attributes={"activations": ["Sigmoid", "Tanh", "Tanh"]})
    said.extra = {5: zeros, 6: zeros}
    x = plain.samples(8)
    a, b = (
        read_float(m.write(tmp_path / f"{i}.onnx")).quantize(x).graph
        for i, m in enumerate((plain, said))
    )
    assert difference(a, b) == ""


def test_a_gate_without_weights_has_its_bias(tmp_path: Path) -> None:
    """And one whose weights are tiny beside it."""
    model = RecurrentFile("GRU", spread=0.5, how="h")
    path = model.write(tmp_path / "m.onnx")
    op = next(n.op for n in read_float(path).network.nodes if isinstance(n.op, FloatRecurrent))
    op.w[:, 0] = 0
    op.w[:, 1] *= 1e-9
    op.u[:, 2] = 0
    network = read_float(path)
    node = next(n for n in network.network.nodes if isinstance(n.op, FloatRecurrent))
    changed = replace(node, op=op)
    graph = network.network.with_nodes(changed if n is node else n for n in network.network.nodes)
    x = model.samples(32)
    made = replace(network, network=graph).quantize(x).graph
    assert snr_db(graph.run(x)[0].reshape(32, -1), real_outputs(made, x)) > INT8_DB


@pytest.mark.parametrize("portable", [False, True])
@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_a_head_behind_it_is_trained_with_one_state_in_numpy_and_c(
    tmp_path: Path, kind: str, portable: bool
) -> None:
    model = RecurrentFile(kind, 8, 4, 6, "bidirectional", "h", head=3)
    path, x = model.write(tmp_path / "m.onnx"), model.samples(32)
    graph = read_float(path).quantize(x).graph
    assert isinstance(recurrent(graph)[0], {"LSTM": Lstm, "GRU": Gru}[kind])
    step, rng = prepare(graph, "head"), np.random.default_rng(0)
    codes = rng.integers(-128, 128, (6, *graph.tensors[graph.inputs[0]].type.shape[1:]))
    codes = codes.astype(np.int8)
    labels, rates = [0, 1, 2, 0, 1, 2], [LearningRate.of(0.1)] * 6
    numpy, compiled = step.reference(7), step.simulator(7, portable=portable)
    (wanted, _), (found, _) = (s.train(codes, labels, rates) for s in (numpy, compiled))
    assert (wanted == found).all()
    assert numpy.save() == compiled.save()
    assert (numpy.infer(codes) == compiled.infer(codes)).all()


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_it_is_trained_through_time_and_written_again(tmp_path: Path, kind: str) -> None:
    model = RecurrentFile(kind, 8, 4, 6, "reverse", "h", head=3)
    path, x = model.write(tmp_path / "m.onnx"), model.samples(8)
    graph = read_float(path).quantize(x).graph
    step, rng = prepare(graph, "last:1"), np.random.default_rng(0)
    codes = rng.integers(-128, 128, (6, *graph.tensors[graph.inputs[0]].type.shape[1:]))
    codes = codes.astype(np.int8)
    labels, rates = [0, 1, 2, 0, 1, 2], [LearningRate.of(0.5)] * 6
    numpy, compiled = step.reference(7), step.simulator(7, portable=True)
    losses = [s.train(codes, labels, rates)[0].tolist() for s in (numpy, compiled)]
    assert losses[0] == losses[1]
    assert numpy.save() == compiled.save()
    trained = trained_graph(step, compiled.save(), graph)
    for name in next(n for n in trained.nodes if isinstance(n.op, Recurrent)).inputs[1:3]:
        data = trained.tensors[name].data
        assert data is not None
        data[0, 0] = -128  # as a file may have it
    write(trained, tmp_path / "trained.onnx")
    again = load(tmp_path / "trained.onnx")
    (one,), (other,) = (
        [n for n in g.nodes if isinstance(n.op, Recurrent)] for g in (trained, again)
    )
    for name, found in zip(one.inputs[1:4], other.inputs[1:4], strict=True):
        assert (again.tensors[found].data == trained.tensors[name].data).all()
        assert (graph.tensors[name].data != trained.tensors[name].data).any()


def test_tflite_does_not_have_a_gru(tmp_path: Path) -> None:
    model = RecurrentFile("GRU", how="h", head=3)
    read = read_float(model.write(tmp_path / "m.onnx"))
    graph = read.quantize(model.samples(8)).graph
    with pytest.raises(UnsupportedError, match="have no GRU"):
        format_of_quantized(read.network, tmp_path / "m.tflite")
    with pytest.raises(McutrainError):
        write(graph, tmp_path / "m.tflite")


@pytest.mark.parametrize(("w", "u"), [((1, 0, 3), (1, 0, 0)), ((1, 8, 0), (1, 8, 2))])
def test_int8_weights_without_numbers_do_not_fit(
    tmp_path: Path, w: tuple[int, ...], u: tuple[int, ...]
) -> None:
    model = QdqModel((1, 1, 3))
    x = model.op("Transpose", model.x, perm=[1, 0, 2])
    scales = [model.constant(np.float32(0.1)), model.constant(np.int8(0))]
    weights = [
        model.op("DequantizeLinear", model.constant(np.zeros(s, np.int8)), *scales) for s in (w, u)
    ]
    y = model.requantize(model.op("LSTM", x, *weights, hidden_size=u[-1]), 1 / 128, 0)
    with pytest.raises(ModelError, match=r"its weights \(1, .* do not fit each other"):
        load(model.save(tmp_path / "m.onnx", y))

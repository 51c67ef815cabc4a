"""LSTM layers of int8 .tflite files: the interpreter's bits, what is refused, what is trained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mcutrain.errors import McutrainError, UnsupportedError
from mcutrain.formats import load
from mcutrain.ir.interpret import interpret
from mcutrain.ops.lstm import Lstm
from mcutrain.ops.recurrent import exp_negative16, sigmoid16, tanh16
from mcutrain.oracle.tflite import find_interpreter, tflite_outputs
from mcutrain.pipeline import prepare
from mcutrain.simulation.rates import LearningRate
from mcutrain.trained import export, trained_graph
from tests.formats.recurrent_models import LstmFile

NEEDS_INTERPRETER = pytest.mark.skipif(find_interpreter() is None, reason="needs ai-edge-litert")
TANH_ERROR, SIGMOID_ERROR = 2e-3, 1e-3
"""Of gemmlowp's functions with 16 bits."""


def differing(path: Path, model: LstmFile, samples: int = 2) -> int:
    """How many outputs are not the interpreter's."""
    path.write_bytes(model.content())
    graph = load(path)
    shape = graph.tensors[graph.inputs[0]].type.shape
    drawn = np.random.default_rng(model.seed).integers(-128, 128, (samples, *shape))
    x = drawn.astype(np.int8)
    ours = [next(iter(interpret(graph, {graph.inputs[0]: one}).values())) for one in x]
    theirs = tflite_outputs(path, x, graph)
    return int((np.concatenate(ours).ravel() != theirs.ravel()).sum())


@pytest.mark.slow
@NEEDS_INTERPRETER
@given(
    model=st.builds(
        LstmFile,
        steps=st.integers(1, 40),
        inputs=st.integers(1, 20),
        units=st.integers(1, 20),
        seed=st.integers(0, 2**16),
        x=st.tuples(st.floats(0.0078125, 0.125, width=32), st.integers(-128, 127)),
        y=st.tuples(st.floats(0.00390625, 0.03125, width=32), st.integers(-128, 127)),
        cell_exponent=st.integers(-15, -9),
        cell_clip=st.sampled_from((0.0, 0.3, 3.0, 1e-6, 1e6)),
        largest_scale=st.sampled_from((0.003, 0.02, 0.2)),
        bias=st.sampled_from((0, 3000, 100_000)),
    )
)
@example(
    LstmFile(
        7, 6, 20, 65536, (0.109375, -81), (0.0082004191, 68), -15, 3.0, 0.2, 100_000
    )  # -2**15 was a cell state within ±32767
)
@settings(max_examples=40, deadline=None)
def test_an_lstm_has_the_interpreters_bits(
    tmp_path_factory: pytest.TempPathFactory, model: LstmFile
) -> None:
    assert differing(tmp_path_factory.mktemp("lstm") / "m.tflite", model) == 0


@pytest.mark.slow
@NEEDS_INTERPRETER
def test_a_thousand_steps_have_the_interpreters_bits(tmp_path: Path) -> None:
    model = LstmFile(steps=1000, inputs=10, units=16, bias=300)
    assert differing(tmp_path / "m.tflite", model, 1) == 0


@NEEDS_INTERPRETER
@pytest.mark.parametrize("exponent", range(-15, -8))
def test_large_states_of_every_scale_have_the_interpreters_bits(
    tmp_path: Path, exponent: int
) -> None:
    model = LstmFile(60, 12, 12, cell_exponent=exponent, largest_scale=0.2)
    assert differing(tmp_path / "m.tflite", model) == 0


@NEEDS_INTERPRETER
def test_time_may_come_before_the_batch(tmp_path: Path) -> None:
    assert differing(tmp_path / "m.tflite", LstmFile(time_major=True)) == 0


@pytest.mark.filterwarnings("error")
def test_a_clip_beyond_int16_is_not_none(tmp_path: Path) -> None:
    limits = []
    for clip in (0.0, 3e38):
        path = tmp_path / "m.tflite"
        path.write_bytes(LstmFile(cell_clip=clip).content())
        limits += [n.op.cell_limit for n in load(path).nodes if isinstance(n.op, Lstm)]
    assert limits == [2**15, 2**15 - 1]


@pytest.mark.filterwarnings("error")
def test_scales_beyond_single_precision_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(LstmFile(largest_scale=1e30, x=(1e30, 0)).content())
    with pytest.raises(McutrainError):
        load(path)


@pytest.mark.parametrize("bits", range(7))
def test_functions_of_16_bits_are_near_the_real_ones(bits: int) -> None:
    a = np.arange(-(2**15), 2**15)
    real = a * 2.0 ** (bits - 15)
    assert np.abs(tanh16(a, bits) / 2**15 - np.tanh(real)).max() < TANH_ERROR
    if bits == 3:
        assert np.abs(sigmoid16(a) / 2**15 - 1 / (1 + np.exp(-real))).max() < SIGMOID_ERROR
    negative, exact = a[a <= 0], np.exp(real[a <= 0])
    assert np.abs(exp_negative16(negative, bits) / 2**15 - exact).max() < TANH_ERROR


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"extra": {9: (3,), 10: (3,), 11: (3,)}}, "peephole"),
        ({"extra": {16: (3, 3)}}, "projection"),
        ({"extra": {20: (3,)}}, "layer normalization"),
        ({"without": (1, 5, 12)}, "couples its input and forget gates"),
        ({"intermediates": 2}, "2 intermediate tensors"),
        ({"cell_exponent": -16}, "powers of two"),
        ({"cell_exponent": -8}, "powers of two"),
        ({"activation": 1}, "other than TANH"),
    ],
)
def test_other_lstms_are_refused_with_a_sentence(
    tmp_path: Path, change: dict[str, Any], words: str
) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(LstmFile(**change).content())
    with pytest.raises(UnsupportedError, match=words):
        load(path)


@pytest.mark.parametrize("portable", [False, True])
def test_a_head_behind_an_lstm_is_trained_with_one_state_in_numpy_and_c(
    tmp_path: Path, portable: bool
) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(LstmFile(steps=8, inputs=4, units=6, bias=300).content(head=True))
    step, rng = prepare(path, "head"), np.random.default_rng(0)
    x = rng.integers(-128, 128, (6, 8, 4)).astype(np.int8)
    labels, rates = [0, 1, 2, 0, 1, 2], [LearningRate.of(0.1)] * 6
    numpy, compiled = step.reference(7), step.simulator(7, portable=portable)
    (theirs, _), (ours, _) = (s.train(x, labels, rates) for s in (numpy, compiled))
    assert (theirs == ours).all()
    assert numpy.save() == compiled.save()
    assert (numpy.infer(x) == compiled.infer(x)).all()


@NEEDS_INTERPRETER
def test_an_lstm_that_was_trained_through_time_is_put_back_in_its_file(tmp_path: Path) -> None:
    path, out = tmp_path / "m.tflite", tmp_path / "trained.tflite"
    path.write_bytes(LstmFile(dense=True, bias=300).content(head=True))
    original, step = load(path), prepare(path, "full")
    x = np.random.default_rng(0).integers(-128, 128, (6, 5, 4)).astype(np.int8)
    simulator = step.simulator(7)
    simulator.train(x, [0, 1, 2, 0, 1, 2], [LearningRate.of(0.3)] * 6)
    graph = trained_graph(step, simulator.save(), original)
    done = export(path, original, graph, out)
    assert done.is_original
    assert out.stat().st_size == path.stat().st_size
    assert set(done.changed) > {"w/input", "u/input", "b/input", "dense/w"}
    assert (tflite_outputs(out, x, load(out)).ravel() == simulator.infer(x).ravel()).all()

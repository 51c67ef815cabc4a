"""Recurrent layers of float .tflite files: the interpreter's numbers, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import mcutrain
from mcutrain.errors import ModelError
from mcutrain.formats import load, read_float
from mcutrain.formats.contents import contents_of
from mcutrain.oracle.original import compare_with_original
from mcutrain.oracle.run_original import _run_tflite
from mcutrain.quant.float_recurrent import FloatRecurrent
from tests.formats.loop_models import FloatLayer
from tests.formats.oracle import needs_interpreter

FILE = Path(__file__).parent / "recurrent-keras.tflite"
LEAST_DB, TOLERANCE = 90.0, 1e-5  # float32 sums in another order, and another library's functions
KINDS = ("lstm", "gru", "fused")


def layers(path: Path) -> list[FloatRecurrent]:
    nodes = read_float(path).network.nodes
    return [node.op for node in nodes if isinstance(node.op, FloatRecurrent)]


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(5).uniform(-1, 1, shape).astype(np.float32)


@pytest.mark.slow
@needs_interpreter
@given(
    model=st.builds(
        FloatLayer,
        kind=st.sampled_from(KINDS),
        steps=st.integers(2, 12),
        inputs=st.integers(1, 6),
        units=st.integers(1, 6),
        seed=st.integers(0, 2**16),
        is_sequence=st.booleans(),
        is_back=st.booleans(),
        has_bias=st.booleans(),
        stored=st.sampled_from(("float32", "float16")),
    )
)
@example(FloatLayer("gru", steps=3, units=2, is_sequence=True))  # a list as long as the gates
@settings(max_examples=40, deadline=None)
def test_layers_compute_what_the_interpreter_does(
    tmp_path_factory: pytest.TempPathFactory, model: FloatLayer
) -> None:
    path = tmp_path_factory.mktemp("loop") / "m.tflite"
    path.write_bytes(model.content())
    (found,) = layers(path)
    assert found.is_last != model.is_sequence
    assert found.direction == ("reverse" if model.is_back else "forward")
    x = noise(3, model.steps, model.inputs)
    (ours,) = read_float(path).network.run(x)
    assert np.abs(ours.ravel() - _run_tflite(path, x)[0].ravel()).max() < TOLERANCE


@pytest.mark.slow
@needs_interpreter
def test_what_keras_writes_is_read_quantized_and_planned(tmp_path: Path) -> None:
    """By benchmarks/export_keras.py --names recurrent: of TensorFlow 2.21 and Keras 3.15."""
    assert [(type(one).__name__, one.direction, one.is_last) for one in layers(FILE)] == [
        ("FloatLstm", "reverse", False),
        ("FloatLstm", "forward", False),
        ("FloatGru", "reverse", True),
        ("FloatGru", "forward", True),
    ]
    x = noise(12, 24, 6)
    assert float(compare_with_original(read_float(FILE), x).split()[0]) > LEAST_DB
    assert contents_of(FILE).is_float
    with pytest.raises(ModelError, match="this is a float model; quantize it"):
        load(FILE)
    made = mcutrain.quantize(FILE, x, tmp_path)
    assert made.path is not None
    assert mcutrain.plan(load(made.path), "head").arena_bytes > 0


@pytest.mark.parametrize("kind", ["lstm", "gru"])
@pytest.mark.parametrize(
    "other",
    [
        {"activation": "RELU"},
        {"activation": "LINEAR", "size": 0.05},
        {"gate": "TANH"},
        {"state": 0.5},
        {"turns": 4},
        {"turns": 6},
        {"resets_before": True},
        {"steps": 5000},
        {"steps": 60, "grows": True},
    ],
    ids=str,
)
def test_another_loop_is_refused_with_what_is_read(
    tmp_path: Path, kind: str, other: dict[str, object]
) -> None:
    if kind == "lstm" and "resets_before" in other:
        return
    path = tmp_path / "m.tflite"
    path.write_bytes(FloatLayer(kind=kind, **other).content())  # type: ignore[arg-type]
    with pytest.raises(
        ModelError, match=r"WHILE \(node 'loop/0'\) is no layer that is known; supp"
    ):
        read_float(path)


def test_a_clip_that_keras_would_notice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(FloatLayer("fused", clip=3.0).content())
    with pytest.raises(ModelError, match="clips its cell state at 3; supported is a clip at 10"):
        read_float(path)
    path.write_bytes(FloatLayer("fused", clip=0.0).content())
    assert len(layers(path)) == 1


def test_the_first_step_is_not_taken_for_the_last(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(FloatLayer("fused", begins=0b111).content())
    (found,) = layers(path)
    assert not found.is_last


@pytest.mark.parametrize("kind", KINDS)
def test_inputs_that_are_turned_are_not_taken_for_steps(tmp_path: Path, kind: str) -> None:
    """Where there are as many."""
    path = tmp_path / "m.tflite"
    path.write_bytes(FloatLayer(kind, steps=4, inputs=4, is_back=True, turned=2).content())
    with pytest.raises(ModelError, match="REVERSE_V2 \\(node 'turned'\\) is not supported"):
        read_float(path)


def test_a_loop_of_a_subgraph_that_is_not_there_is_corrupt(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(FloatLayer("gru", body=3).content())
    with pytest.raises(ModelError, match="operator WHILE names subgraph 3 of 3"):
        read_float(path)
    path.write_bytes(FloatLayer("gru", body=0).content())
    with pytest.raises(ModelError, match="operator WHILE names subgraph 0 of 3"):
        read_float(path)
    path.write_bytes(FloatLayer("gru", body=1).content())
    with pytest.raises(ModelError, match="no layer that is known"):
        read_float(path)

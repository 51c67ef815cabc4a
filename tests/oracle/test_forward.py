"""Our forward passes held against a runtime: what is drawn, compared, left out and refused."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mcutrain.errors import McutrainError, UnsupportedError
from mcutrain.ir.graph import Graph, TensorType
from mcutrain.ir.interpret import interpret
from mcutrain.oracle import forward, onnxruntime, tflite
from tests.simulation.networks import residual_network

SAMPLES, BY_NUMPY = forward.BLOCK + 2, 2
Array = np.ndarray[Any, Any]


def outputs(graph: Graph, x: Array) -> Array:
    """What the numpy reference computes, as a runtime that is right would."""
    (name,), (output,) = graph.inputs, graph.outputs
    return np.concatenate([interpret(graph, {name: one[None]})[output] for one in x])


Runtime = Callable[[Array], Array]


@pytest.fixture
def verdict(monkeypatch: pytest.MonkeyPatch) -> Callable[..., forward.Verdict]:
    """Compares a network with a runtime of .tflite files whose outputs `changed` makes."""

    def compared(changed: Runtime, graph: Graph, **more: Any) -> forward.Verdict:
        def of_runtime(path: object, x: Array, graph: Graph, report: object) -> Array:
            return changed(outputs(graph, x))

        monkeypatch.setattr(forward, "load", lambda path: graph)
        monkeypatch.setattr(forward, "interpreter", lambda: tflite.Installed("a_runtime", None))
        monkeypatch.setattr(forward, "as_installed", lambda graph: graph)
        monkeypatch.setattr(forward, "rounding_of_uint8", lambda path: "")
        monkeypatch.setattr(forward, "tflite_outputs", of_runtime)
        return forward.compare(Path("m.tflite"), SAMPLES, BY_NUMPY, **more)

    return compared


def test_every_way_to_compute_is_compared_with_all_outputs_of_its_samples(
    verdict: Callable[..., forward.Verdict],
) -> None:
    graph = residual_network()
    size = int(np.prod(graph.tensors[graph.outputs[0]].type.shape[1:]))
    found = verdict(lambda y: y, graph)
    assert found.is_right
    assert found.runtime.startswith("a-runtime")
    counted = {c.of: (c.samples, c.outputs) for c in found.comparisons}
    assert counted == {
        "numpy reference": (BY_NUMPY, BY_NUMPY * size),
        "host C": (SAMPLES, SAMPLES * size),
        "portable C": (SAMPLES, SAMPLES * size),
    }
    assert (found.unchecked, found.original) == ((), None)


def test_one_output_of_the_last_sample_makes_c_wrong_and_the_reference_not(
    verdict: Callable[..., forward.Verdict],
) -> None:
    def changed(y: Array) -> Array:
        y.reshape(-1)[-1] ^= 1
        return y

    found = verdict(changed, residual_network())
    assert not found.is_right
    wrong = {c.of: c.differing for c in found.comparisons}
    assert wrong == {"numpy reference": 0, "host C": 1, "portable C": 1}


def test_progress_tells_each_way_and_ends_with_all_samples(
    verdict: Callable[..., forward.Verdict],
) -> None:
    told: dict[str, list[tuple[int, int]]] = {}
    graph = residual_network()
    verdict(
        lambda y: y,
        graph,
        report=lambda what, done, of: told.setdefault(what, []).append((done, of)),
    )
    assert told["numpy reference"] == [(1, BY_NUMPY), (2, BY_NUMPY)]
    assert told["host C"][-1] == told["portable C"][-1] == (SAMPLES, SAMPLES)


def test_a_model_of_two_inputs_is_refused_with_their_number(
    verdict: Callable[..., forward.Verdict],
) -> None:
    graph = residual_network()
    two = replace(graph, inputs=(*graph.inputs, "other"))
    two = replace(two, tensors={**two.tensors, "other": replace(graph.tensors["x"], name="other")})
    with pytest.raises(UnsupportedError, match=r"m\.tflite .*\b2 inputs"):
        verdict(lambda y: y, two)


def test_inputs_that_are_given_are_taken_instead_of_drawn_ones(
    verdict: Callable[..., forward.Verdict],
) -> None:
    graph = residual_network()
    asked: list[int] = []

    def given(graph: Graph) -> Array:
        asked.append(1)
        return forward.draw_inputs(graph, 3, 9)

    found = verdict(lambda y: y, graph, inputs=given)
    assert asked == [1]
    assert {c.samples for c in found.comparisons} == {BY_NUMPY, 3}


def test_drawn_inputs_are_the_seeds_and_in_turns_noisy_and_smooth() -> None:
    graph = residual_network()
    large = TensorType((1, 36, 36, 2), "int8", (1.0,), 0)
    graph = replace(graph, tensors={**graph.tensors, "x": replace(graph.tensors["x"], type=large)})
    x = forward.draw_inputs(graph, 40, 1)
    assert x.dtype == np.int8
    assert x.shape == (40, *graph.tensors[graph.inputs[0]].type.shape[1:])
    assert (x == forward.draw_inputs(graph, 40, 1)).all()
    assert (x != forward.draw_inputs(graph, 40, 2)).any()
    steps = np.abs(np.diff(x.astype(int), axis=2)).mean(axis=(1, 2, 3))
    assert steps[::2].min() > 1.5 * steps[1::2].max()


# ---------------------------------------------------------------------- types of a file's edges

KIND = TensorType((1, 4), "int8", (0.5,), 3)
CODES = np.array([[-128, -1, 3, 127]], np.int8)


@pytest.mark.parametrize(
    ("runtime", "uint8", "real"),
    [(tflite, np.uint8, np.float32), (onnxruntime, "tensor(uint8)", "tensor(float)")],
)
def test_edges_of_uint8_are_128_above_ours_and_real_ones_are_scaled(
    runtime: Any, uint8: object, real: object
) -> None:
    stored = runtime._encode(CODES, KIND, uint8)
    assert stored.dtype == np.uint8
    assert stored.tolist() == [[0, 127, 131, 255]]
    numbers = runtime._encode(CODES, KIND, real)
    assert numbers.dtype == np.float32
    assert numbers.tolist() == [[-65.5, -2.0, 0.0, 62.0]]
    for there in (stored, numbers, CODES):
        back = runtime._decode(there, KIND)
        assert back.dtype == np.int8
        assert back.tolist() == CODES.tolist()


@pytest.mark.parametrize("runtime", [tflite, onnxruntime])
def test_real_outputs_beyond_int8_are_its_ends(runtime: Any) -> None:
    found = runtime._decode(np.array([-1e6, 1e6], np.float32), KIND)
    assert found.tolist() == [-128, 127]


def test_outputs_come_back_in_our_order_of_axes() -> None:
    kind = TensorType((1, 2, 3, 4), "int8", (1.0,), 0)
    ours = np.arange(24, dtype=np.int8).reshape(kind.shape)
    theirs = ours.transpose(0, 3, 1, 2)  # channels first
    assert (onnxruntime._stored(theirs, (0, 3, 1, 2), kind) == ours).all()
    assert (onnxruntime._stored(theirs.reshape(1, -1), (0, 3, 1, 2), kind) == ours).all()


# ------------------------------------------------------------------------------ what is missing


def test_a_runtime_that_is_missing_is_named_with_what_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tflite, "find_interpreter", lambda: None)
    with pytest.raises(McutrainError, match=r"ai-edge-litert.*tflite-runtime"):
        tflite.interpreter()
    graph = residual_network()
    assert tflite.as_installed(graph) is graph


def test_an_operator_that_the_reference_kernels_lack_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tflite, "interpreter", lambda: tflite.Installed("a_runtime", None))
    said = tflite._refusal("Didn't find op for builtin opcode 'GELU' version '2'.")
    assert "GELU" in said
    assert "a-runtime" in said
    assert tflite._refusal("broken").endswith("broken")


def test_a_runtimes_process_imports_no_formats() -> None:
    """Each float model that is read starts one."""
    code = "import mcutrain.oracle.run_original, sys; print('mcutrain.formats' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"

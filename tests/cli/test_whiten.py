"""mcutrain whiten: what it writes and says; tests/cli/test_teach.py brings it to a board."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mcutrain
from mcutrain.errors import ArgumentError, DataError, SchemeError
from mcutrain.formats import load
from mcutrain.ir.difference import difference
from mcutrain.ir.graph import Graph
from mcutrain.ir.interpret import interpret
from mcutrain.runs import head_start
from tests.cli.conftest import Run, images, model, run
from tests.simulation.networks import Network, same

__all__ = ["images", "model", "run"]


def drawn_images(count: int = 40) -> tuple[np.ndarray, np.ndarray]:
    """Three classes, each brighter in its own third of the image."""
    random, y = np.random.default_rng(0), np.arange(count) % 3
    x = random.integers(0, 90, (count, 28, 28, 1))
    for i, label in enumerate(y):
        x[i, :, 9 * label : 9 * label + 9] += 120
    return x.astype(np.uint8), y


def scored(graph: Graph, x: np.ndarray) -> np.ndarray:
    """Scores int8 (n, classes) of pixels."""
    kind = graph.tensors[graph.inputs[0]].type
    codes = np.rint(x / 255 / kind.scale + kind.zero_point).clip(-128, 127).astype(np.int8)
    made = [interpret(graph, {graph.inputs[0]: c[np.newaxis]})[graph.outputs[0]] for c in codes]
    return np.concatenate(made).reshape(len(x), -1)


def test_the_new_classifier_knows_the_datas_classes_and_does_not_clip(model: Path) -> None:
    x, y = drawn_images()
    scores = scored(mcutrain.whiten(model, (x, y), test_share=0.25).graph, x)
    assert scores.shape[1] == 3
    assert (scores.argmax(axis=1) == y).mean() > 0.9
    assert scores.max() < 127


def test_outputs_reach_as_far_as_the_means_say(model: Path, monkeypatch: Any) -> None:
    made = head_start.head_start_of
    monkeypatch.setattr(
        head_start, "head_start_of", lambda *given: replace(made(*given), reach=(100.0, 1.0))
    )
    graph = mcutrain.whiten(model, drawn_images()).graph
    y = graph.tensors[graph.outputs[0]].type
    assert (127 - y.zero_point) * y.scale >= 100


def test_outputs_have_the_names_and_the_order_that_are_given(run: Run, model: Path) -> None:
    x, y = drawn_images()
    np.savez("named.npz", x=x, y=y, names=["bag", "boot", "cap"])
    run("whiten", model, "--data", "named.npz", "-o", "w.onnx", "--class-names", "cap,bag,boot")
    graph = load("w.onnx")
    assert graph.class_names == ("cap", "bag", "boot")
    assert (scored(graph, x).argmax(axis=1) == (y + 1) % 3).mean() > 0.9


@pytest.mark.slow
def test_the_same_from_python_is_the_same_file(run: Run, model: Path, images: Path) -> None:
    facts = run("whiten", model, "--data", images, "-o", "a.onnx", "--json").json
    found = mcutrain.whiten(model, images, "b.onnx")
    assert Path("a.onnx").read_bytes() == Path("b.onnx").read_bytes()
    assert difference(found.graph, load("b.onnx")) == ""
    assert facts == {"source": str(model), **found.to_dict(), "file": "a.onnx"}
    assert (facts["features"], facts["note"]) == (64, None)
    assert facts["class_names"] == list(load("a.onnx").class_names)
    assert f"{64**2:,} weights more" in repr(found)
    text = run("whiten", model, "--data", images, "-o", "a.onnx").out
    assert "--add-class NAME --imprint" in text


@pytest.mark.slow
def test_what_cannot_be_whitened_is_a_sentence(run: Run, model: Path, images: Path) -> None:
    said = run("whiten", model, "--data", images, "-o", "w.tflite").sentence
    assert "LayerNorm has no operator in .tflite files; write .onnx" in said
    assert not Path("w.tflite").exists()
    x, y = drawn_images()
    with pytest.raises(SchemeError, match="same for all 30 samples, so there is nothing to whiten"):
        mcutrain.whiten(model, (np.zeros_like(x), y), test_share=0.25)
    with pytest.raises(DataError, match="labels"):
        mcutrain.whiten(model, x)
    mcutrain.whiten(model, (x, y), "own.onnx")
    np.savez("some.npz", x=x[y < 2], y=y[y < 2], names=["bag", "boot"])
    known = replace(load(model), class_names=("bag", "boot", *"abcdefgh"))
    with pytest.raises(DataError, match=r"no training samples of a, b, c.* but the new classifier"):
        mcutrain.whiten(known, "some.npz")
    with pytest.raises(ArgumentError, match=r"own\.onnx is the model itself, which keeps"):
        mcutrain.whiten("own.onnx", (x, y), "own.onnx")
    said = run("whiten", "own.onnx", "--data", "some.npz", "-o", "w.onnx").sentence
    assert "has whitened features already (node 'white'): give the model of which" in said


def test_a_head_at_positions_has_no_features_to_whiten() -> None:
    net = Network((8, 8, 1), 0)
    graph = net.graph(net.mean(net.conv(net.x, 3, same(3, 2))), "positions")
    with pytest.raises(SchemeError, match="no fully connected layer, so the features"):
        mcutrain.whiten(graph, (np.zeros((6, 8, 8, 1), np.uint8), np.arange(6) % 3))

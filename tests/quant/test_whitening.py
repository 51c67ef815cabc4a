"""Features before a classifier without correlations, and of one length."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from mcutrain import formats
from mcutrain.demo import MODEL
from mcutrain.ir.graph import Graph
from mcutrain.quant.head import replace_head
from mcutrain.quant.whitening import whitened
from mcutrain.sparse import find_head

SAMPLES = 2000


def other_zero_point() -> Graph:
    """The network whose classifier reads features around -7: the demo's are around 0."""
    graph = formats.load(MODEL)
    head = find_head(graph).node
    x = graph.tensors[head.inputs[0]]
    tensors = {**graph.tensors, x.name: replace(x, type=replace(x.type, zero_point=-7))}
    nodes = [replace(n, op=replace(n.op, x_zero_point=-7)) if n is head else n for n in graph.nodes]
    return replace(graph, tensors=tensors).with_nodes(nodes)


def features_of(graph: Graph) -> np.ndarray:
    """Drawn features (n, c) that go together, as the classifier's input."""
    x = graph.tensors[find_head(graph).node.inputs[0]].type
    random = np.random.default_rng(0)
    mixed = random.normal(0, 12, (SAMPLES, x.elements)) @ random.normal(
        0, 1 / np.sqrt(x.elements), (x.elements, x.elements)
    )
    return np.clip(np.rint(mixed + 8), -128, 127).astype(np.int8)


def made(graph: Graph, features: np.ndarray) -> list[np.ndarray]:
    """What both layers make of features, a sample at a position."""
    x, found = features.reshape(1, len(features), 1, -1), []
    nodes = {node.name: node for node in graph.nodes}
    for name in ("white", "white.length"):
        constants = [graph.tensors[n].data for n in nodes[name].inputs[1:]]
        (x,) = nodes[name].op.reference(x, *constants)
        found.append(x.reshape(len(features), -1).astype(np.float64))
    return found


def test_features_have_no_correlation_and_one_length() -> None:
    graph = other_zero_point()
    features = features_of(graph)
    white, unit = made(whitened(graph, find_head(graph).node, features, ridge=1e-4), features)
    spread = np.cov(white.T)
    sizes = np.diag(spread)
    assert sizes.max() < 1.2 * sizes.min()
    assert np.abs(spread / sizes.mean() - np.eye(len(spread))).max() < 0.15
    assert np.abs(white.mean(axis=0)).max() < 1
    lengths = np.sqrt((unit**2).mean(axis=1)) * 6 / 127
    assert np.abs(lengths - 1).max() < 0.02
    cosines = (white * unit).sum(axis=1)
    cosines /= np.linalg.norm(white, axis=1) * np.linalg.norm(unit, axis=1)
    assert cosines.min() > 0.999


def test_the_classifier_reads_them_around_their_zero_point() -> None:
    graph = other_zero_point()
    head = find_head(whitened(graph, find_head(graph).node, features_of(graph))).node
    assert head.inputs[0] == "white.length"
    assert head.op.x_zero_point == 0


def test_a_ridge_keeps_features_small_that_hardly_vary() -> None:
    graph = formats.load(MODEL)
    features = features_of(graph)
    features[:, 0] = np.arange(SAMPLES) % 2
    white, _ = made(whitened(graph, find_head(graph).node, features), features)
    sizes = np.var(white, axis=0)
    assert sizes[0] < 0.5 * np.median(sizes)


def test_a_file_has_the_same_layers(tmp_path: Path) -> None:
    graph = formats.load(MODEL)
    white = whitened(graph, find_head(graph).node, features_of(graph))
    head = find_head(white).node
    new = replace_head(white, head, 5)
    path = tmp_path / "white.onnx"
    assert not formats.write(formats.as_format(new, path), path)
    kinds = [type(node.op).__name__ for node in formats.load(path).nodes]
    assert kinds[-3:] == ["Conv2D", "LayerNorm", "Conv2D"]

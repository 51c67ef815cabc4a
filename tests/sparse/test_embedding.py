"""A model of embeddings has no head: the sentence says the way out, which is gone here."""

from __future__ import annotations

import numpy as np
import pytest

from mcutrain import simulate
from mcutrain.errors import UnsupportedError
from mcutrain.ir.graph import Graph
from mcutrain.sparse import find_head
from tests.simulation.networks import Network, same

CLASSES = 3


def embedding(*, with_layer: bool) -> Graph:
    """Rows of length 1, as recognition of faces has them; or with a layer behind them."""
    net = Network((6, 6, 3), seed=4)
    rows = net.layer_norm(net.conv(net.mean(net.conv(net.x, 8, same(3), relu=True)), 12))
    return net.graph(net.conv(rows, 2) if with_layer else rows)


def test_the_sentence_names_a_layer_and_prototypes() -> None:
    with pytest.raises(UnsupportedError, match=r"behind an embedding put.*--head-start prototypes"):
        find_head(embedding(with_layer=False))


def test_prototypes_of_an_embedding_tell_classes_apart_and_are_trained_as_any_head() -> None:
    random, y = np.random.default_rng(0), np.arange(60) % CLASSES
    colours = random.normal(0, 70, (CLASSES, 1, 1, 3))
    x = np.clip(colours[y] + random.normal(0, 15, (60, 6, 6, 3)), -128, 127).astype(np.int8)
    graph = embedding(with_layer=True)
    more = {"classes": CLASSES, "head_start": "prototypes", "learning_rate": 0.01}
    begun, trained, by_numpy = (
        simulate(graph, (x, y), "head", epochs=epochs, reference=reference, **more)
        for epochs, reference in ((0, False), (2, False), (2, True))
    )
    assert begun.accuracy > 0.9
    assert trained.accuracy >= begun.accuracy
    assert trained.saved == by_numpy.saved != begun.saved

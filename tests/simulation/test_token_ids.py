"""Token ids with what a run may have besides: numpy and C end with the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mcutrain import simulate
from mcutrain.ir.graph import Graph
from tests.formats.token_models import CLASSES, ids, quantized, transformer

COUNT = 24


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    return quantized(transformer(tmp_path_factory.mktemp("ids") / "ids.onnx")).graph


@pytest.mark.slow
@pytest.mark.parametrize(
    "more",
    [
        {"latent": "auto", "replay": 8, "gate": 0.8},
        {"accumulate": 3, "gradient_dtype": "int16", "latent": "auto", "distill": 0.5},
    ],
)
def test_runs_of_token_ids_hold_the_same_bits(graph: Graph, more: dict[str, Any]) -> None:
    data, found = (ids(COUNT), np.arange(COUNT) % CLASSES), []
    for how in ({"reference": True}, {"portable": True}, {}):
        run = simulate(graph, data, "last:3", epochs=2, learning_rate=0.05, **more, **how)
        found.append((run.saved, run.loss, run.accuracy))
    assert found[0] == found[1] == found[2]

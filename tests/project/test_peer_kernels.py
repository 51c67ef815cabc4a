"""benchmarks/peer_kernels.py: which layers it compares, and with what."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from mcutrain.pipeline import load

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def peer_kernels() -> Iterator[ModuleType]:
    sys.path.insert(0, str(BENCHMARKS))
    try:
        yield importlib.import_module("peer_kernels")
    finally:
        sys.path.remove(str(BENCHMARKS))
        sys.modules.pop("peer_kernels", None)


@pytest.mark.shared
def test_layers_behind_a_view_and_before_a_softmax_are_compared(
    peer_kernels: ModuleType, shared: Path
) -> None:
    layers = peer_kernels.layers_of(load(shared / "models/kws_ref_model.tflite"))
    kinds = [layer.kind for layer in layers]
    assert kinds[-2:] == ["average pooling", "fully connected"]
    assert len(kinds) == 11
    pooled, last = layers[-2:]
    np.testing.assert_array_equal(last.inputs[0].ravel(), pooled.output.ravel())


@pytest.mark.shared
def test_each_channel_has_a_scale_where_the_layer_has_one_for_all(
    peer_kernels: ModuleType, shared: Path
) -> None:
    last = peer_kernels.layers_of(load(shared / "models/kws_ref_model.tflite"))[-1]
    (scale,) = last.node.op.requantize.mult_q31
    given = dict(peer_kernels.variables(last))
    assert given["multiplier"].tolist() == [scale] * 12
    assert given["shift"].shape == (12,)

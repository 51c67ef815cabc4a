"""benchmarks/peer_kernels.py: which layers it compares, and with what."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from mcutrain import prepare
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


@pytest.mark.shared
def test_tinyengine_computes_layers_with_the_kernels_that_its_generator_names(
    peer_kernels: ModuleType, shared: Path
) -> None:
    tinyengine = sys.modules["peer_tinyengine"]
    layers = peer_kernels.layers_of(load(shared / "models/mcunet-5fps.int8.tflite"))
    calls = [tinyengine.call_of(layer, is_float) for layer in layers for is_float in (False, True)]
    names = [call.statement.split("(")[0] for call in calls]
    assert names[0] == "convolve_s8_kernel3_inputch3_stride2_pad1"
    assert names[2:6] == [
        "depthwise_kernel3x3_stride1_inplace_CHW",
        "depthwise_kernel3x3_stride1_inplace_CHW_fpreq",
        "convolve_1x1_s8_ch16",
        "convolve_1x1_s8_ch16_fpreq",
    ]
    first = layers[0].node.op
    assert f", {-first.x_zero_point}, " in calls[0].statement


@pytest.mark.shared
def test_a_layer_that_tinyengine_has_no_kernel_for_is_not_counted(
    peer_kernels: ModuleType, shared: Path
) -> None:
    tinyengine = sys.modules["peer_tinyengine"]
    first = peer_kernels.layers_of(load(shared / "models/kws_ref_model.tflite"))[0]
    assert tinyengine.call_of(first, False) is None  # a window of 10x4
    assert peer_kernels.cell([5, None], 10) == "no kernel for 1"
    assert peer_kernels.cell([5, 15], 10) == "0.000 (0.50)"
    assert tinyengine.update((1, 16, 16, 8), (1, 16, 16, 8)) is None
    assert "kernel8_stride1_pad0_in8x8" in tinyengine.update((1, 8, 8, 8), (1, 8, 8, 4))


@pytest.mark.shared
def test_gradients_for_tinyengine_are_exact_in_float(
    peer_kernels: ModuleType, shared: Path
) -> None:
    tinyengine = sys.modules["peer_tinyengine"]
    graph = load(shared / "models/mcunet-5fps.int8.tflite")
    step = prepare(graph, "mcunet-5fps-49kb", classes=10, stream="off")
    found = tinyengine.gradients_of(step.plan.training.graph)
    kinds = [node.kind for node in found]
    assert {kind: kinds.count(kind) for kind in kinds} == {
        "input gradient of a convolution": 14,
        "update of a convolution's weights": 4,
        "input gradient of a depthwise one": 6,
    }
    assert all(node.statement for node in found)
    for node in found:
        assert np.abs(node.expected).max() < 1 << 24
        given = node.variables
        if node.output == "weight":
            dy, x = given["given"][0], given["gradient"][0]
            sums = np.einsum("hwo,hwi->oi", dy, x)
            moved = given["weight"][:, 0, 0].astype(float) - sums * tinyengine.RATE
            np.testing.assert_array_equal(node.expected[:, 0, 0], moved.astype(int))

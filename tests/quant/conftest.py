"""Networks that several tests quantize."""

from pathlib import Path

import numpy as np
import pytest

from mcutrain.formats import read_float
from mcutrain.quant import Quantized
from tests.cli.conftest import run
from tests.quant.networks import grouped_pyramid, mobilenet_v3, resnet8

__all__ = ["run"]

SIZES = {resnet8: 32, mobilenet_v3: 64, grouped_pyramid: 32}


@pytest.fixture(scope="session", params=SIZES, ids=lambda make: make.__name__)
def network(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The .onnx file of a network as torch exports it."""
    return request.param(tmp_path_factory.mktemp("network") / f"{request.param.__name__}.onnx")


@pytest.fixture(scope="session")
def quantized(network: Path) -> tuple[Quantized, np.ndarray]:
    """The same in int8, and samples that it was not calibrated with."""
    model = read_float(network)
    x = np.random.default_rng(1).uniform(-2, 2, (40, *model.network.input_shape[1:]))
    return model.quantize(x[:32]), x[32:].astype(np.float32)

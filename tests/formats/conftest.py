"""The float networks that quantization is tested with are read here, too."""

from tests.quant.conftest import network

__all__ = ["network"]

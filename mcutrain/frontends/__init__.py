"""Front ends: from what a sensor gives to what a network takes, in integers, in numpy and in C."""

from mcutrain.frontends.frontend import Frontend, FrontendC, Stream
from mcutrain.frontends.registry import KINDS, parse

__all__ = ["KINDS", "Frontend", "FrontendC", "Stream", "parse"]

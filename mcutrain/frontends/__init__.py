"""Front ends: from what a sensor gives to what a network takes, in integers, in numpy and in C."""

from mcutrain.frontends.frontend import MOST_TEXT, FeatureStream, Frontend, FrontendC, WindowC
from mcutrain.frontends.registry import KINDS, parse

__all__ = ["KINDS", "MOST_TEXT", "FeatureStream", "Frontend", "FrontendC", "WindowC", "parse"]

"""The TFLite interpreter of this Python, whichever package has it."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

from mcutrain_host.dataclass import dataclass

PACKAGES = ("ai_edge_litert", "tflite_runtime")


@dataclass(frozen=True)
class Installed:
    """An interpreter. rounds_once: how its reference FULLY_CONNECTED rounds.

    LiteRT's rounds once since 1.4; tflite-runtime's rounds twice, and takes the first channel's
    scale for all channels.
    """

    package: str
    module: Any

    @property
    def rounds_once(self) -> bool:
        """Whether FULLY_CONNECTED rounds once."""
        return self.package == "ai_edge_litert"


@cache
def find_interpreter() -> Installed | None:
    """The interpreter of this Python, if any."""
    for package in PACKAGES:
        try:
            return Installed(package, importlib.import_module(f"{package}.interpreter"))
        except ImportError:
            continue
    return None

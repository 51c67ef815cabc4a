"""Train int8 networks on microcontrollers: what you simulate is what you flash."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcutrain.api import SimulationResult, train
    from mcutrain.errors import McutrainError
    from mcutrain.pipeline import TrainingStep, load, prepare
    from mcutrain.simulate.run import RunSettings
    from mcutrain.sparse import UpdateScheme, parse_scheme

__all__ = [
    "McutrainError",
    "RunSettings",
    "SimulationResult",
    "TrainingStep",
    "UpdateScheme",
    "load",
    "parse_scheme",
    "prepare",
    "train",
]

__version__ = version("mcutrain")

_HOMES = {
    "McutrainError": "mcutrain.errors",
    "RunSettings": "mcutrain.simulate.run",
    "SimulationResult": "mcutrain.api",
    "TrainingStep": "mcutrain.pipeline",
    "UpdateScheme": "mcutrain.sparse",
    "load": "mcutrain.pipeline",
    "parse_scheme": "mcutrain.sparse",
    "prepare": "mcutrain.pipeline",
    "train": "mcutrain.api",
}


def __getattr__(name: str) -> object:
    """Import what is asked for, so that `mcutrain --help` does not wait for all of it."""
    if name not in _HOMES:
        raise AttributeError(f"module 'mcutrain' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)

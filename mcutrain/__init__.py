"""Train int8 networks on microcontrollers: what you simulate is what you flash.

    step = mcutrain.prepare("model.int8.tflite", "last:3", classes=10)
    result = mcutrain.train(step, (x, y), epochs=2, learning_rate=0.03)
    mcutrain.export("model.int8.tflite", "trained.tflite", result)

`dir(mcutrain)` lists what there is; each name is loaded when it is first used. All errors that an
input can cause are McutrainError. Reference: docs/python.md.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.metadata import version
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcutrain.api import SimulationResult, train
    from mcutrain.data import Normalization, Split
    from mcutrain.errors import McutrainError
    from mcutrain.functions.choosing import select
    from mcutrain.functions.learning import Comparison, analyze, compare, simulate
    from mcutrain.functions.models import QuantizedModel, diff, export, quantize, verify
    from mcutrain.functions.planning import Generated, Planned, generate, plan
    from mcutrain.ir.graph import Graph
    from mcutrain.pipeline import TrainingStep, load, prepare
    from mcutrain.simulate.run import RunSettings
    from mcutrain.sparse import UpdateScheme, parse_scheme

__all__ = [
    "Comparison",
    "Generated",
    "Graph",
    "McutrainError",
    "Normalization",
    "Planned",
    "QuantizedModel",
    "RunSettings",
    "SimulationResult",
    "Split",
    "TrainingStep",
    "UpdateScheme",
    "analyze",
    "compare",
    "diff",
    "export",
    "generate",
    "load",
    "parse_scheme",
    "plan",
    "prepare",
    "quantize",
    "select",
    "simulate",
    "train",
    "verify",
]

__version__ = version("mcutrain")

_NAMES = {
    "mcutrain.api": ("SimulationResult", "train"),
    "mcutrain.data": ("Normalization", "Split"),
    "mcutrain.errors": ("McutrainError",),
    "mcutrain.functions.choosing": ("select",),
    "mcutrain.functions.learning": ("Comparison", "analyze", "compare", "simulate"),
    "mcutrain.functions.models": ("QuantizedModel", "diff", "export", "quantize", "verify"),
    "mcutrain.functions.planning": ("Generated", "Planned", "generate", "plan"),
    "mcutrain.ir.graph": ("Graph",),
    "mcutrain.pipeline": ("TrainingStep", "load", "prepare"),
    "mcutrain.simulate.run": ("RunSettings",),
    "mcutrain.sparse": ("UpdateScheme", "parse_scheme"),
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> object:
    """Import what is asked for, so that `mcutrain --help` does not wait for all of it."""
    if name not in _HOMES:
        raise AttributeError(f"module 'mcutrain' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


class _Face(ModuleType):
    """`export` and `simulate` are packages and functions; as attributes they are the functions.

    The import system sets a package's attributes to its subpackages; a property is not replaced.
    """

    @property
    def export(self) -> object:
        """mcutrain.functions.models.export."""
        return __getattr__("export")

    @export.setter
    def export(self, value: object) -> None:
        """The subpackage, which `from mcutrain.export import …` finds all the same."""

    @property
    def simulate(self) -> object:
        """mcutrain.functions.learning.simulate."""
        return __getattr__("simulate")

    @simulate.setter
    def simulate(self, value: object) -> None:
        """The subpackage."""


sys.modules[__name__].__class__ = _Face

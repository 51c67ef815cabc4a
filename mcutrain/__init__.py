"""Train int8 networks on microcontrollers: what you simulate is what you flash.

    step = mcutrain.prepare("model.int8.tflite", "last:3", classes=10)
    result = mcutrain.train(step, (x, y), epochs=2, learning_rate=0.03)
    mcutrain.export("model.int8.tflite", "trained.tflite", result)

`dir(mcutrain)` lists what there is; each name is loaded when it is first used. All errors that an
input can cause are McutrainError. Reference: docs/python.md.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from mcutrain import shown as _shown

if TYPE_CHECKING:
    from mcutrain.data import Normalization, Split
    from mcutrain.errors import McutrainError
    from mcutrain.functions.automatic import auto_scheme
    from mcutrain.functions.board_training import BoardRun, train_board
    from mcutrain.functions.chooser import AutoScheme
    from mcutrain.functions.choosing import select
    from mcutrain.functions.comparing import Comparison, compare
    from mcutrain.functions.describing import ModelInfo, info
    from mcutrain.functions.episodes import FewShot, simulate_episodes
    from mcutrain.functions.firmware import (
        Built,
        Flashed,
        RunningBoard,
        build,
        flash,
        virtual_board,
    )
    from mcutrain.functions.generating import Generated, generate
    from mcutrain.functions.imprinting import Imprinted, imprint
    from mcutrain.functions.latent_data import LatentData, latents
    from mcutrain.functions.learning import analyze
    from mcutrain.functions.models import diff, export, verify
    from mcutrain.functions.modules import AugmentedModel, augment
    from mcutrain.functions.planning import Planned, plan
    from mcutrain.functions.preparing import prepare
    from mcutrain.functions.profiling import Profiled, profile
    from mcutrain.functions.proxy_making import make_proxies
    from mcutrain.functions.pulling import Pulled, pull
    from mcutrain.functions.quantizing import QuantizedModel, quantize
    from mcutrain.functions.selecting import (
        BudgetSweep,
        TrainedSelection,
        select_by_training,
        select_for_budgets,
    )
    from mcutrain.functions.serial_ports import SerialPorts, ports
    from mcutrain.functions.simulating import simulate
    from mcutrain.functions.training import train
    from mcutrain.ir.graph import Graph
    from mcutrain.pipeline import StepOptions, TrainingStep, load
    from mcutrain.proxies import MadeLadder
    from mcutrain.runs.result import SimulationResult
    from mcutrain.simulation.settings import RunSettings
    from mcutrain.sparse import UpdateScheme, parse_scheme

    __version__: str

__all__ = [
    "AugmentedModel",
    "AutoScheme",
    "BoardRun",
    "BudgetSweep",
    "Built",
    "Comparison",
    "FewShot",
    "Flashed",
    "Generated",
    "Graph",
    "Imprinted",
    "LatentData",
    "MadeLadder",
    "McutrainError",
    "ModelInfo",
    "Normalization",
    "Planned",
    "Profiled",
    "Pulled",
    "QuantizedModel",
    "RunSettings",
    "RunningBoard",
    "SerialPorts",
    "SimulationResult",
    "Split",
    "StepOptions",
    "TrainedSelection",
    "TrainingStep",
    "UpdateScheme",
    "analyze",
    "augment",
    "auto_scheme",
    "build",
    "compare",
    "diff",
    "export",
    "flash",
    "generate",
    "imprint",
    "info",
    "latents",
    "load",
    "make_proxies",
    "parse_scheme",
    "plan",
    "ports",
    "prepare",
    "profile",
    "pull",
    "quantize",
    "select",
    "select_by_training",
    "select_for_budgets",
    "simulate",
    "simulate_episodes",
    "train",
    "train_board",
    "verify",
    "virtual_board",
]

_NAMES = {
    "mcutrain.functions.training": ("train",),
    "mcutrain.runs.result": ("SimulationResult",),
    "mcutrain.data": ("Normalization", "Split"),
    "mcutrain.errors": ("McutrainError",),
    "mcutrain.functions.automatic": ("auto_scheme",),
    "mcutrain.functions.chooser": ("AutoScheme",),
    "mcutrain.functions.board_training": ("BoardRun", "train_board"),
    "mcutrain.functions.choosing": ("select",),
    "mcutrain.functions.comparing": ("Comparison", "compare"),
    "mcutrain.functions.describing": ("ModelInfo", "info"),
    "mcutrain.functions.learning": ("analyze",),
    "mcutrain.functions.models": ("diff", "export", "verify"),
    "mcutrain.functions.modules": ("AugmentedModel", "augment"),
    "mcutrain.functions.episodes": ("FewShot", "simulate_episodes"),
    "mcutrain.functions.firmware": (
        *("Built", "Flashed", "RunningBoard"),
        *("build", "flash", "virtual_board"),
    ),
    "mcutrain.functions.imprinting": ("Imprinted", "imprint"),
    "mcutrain.functions.latent_data": ("LatentData", "latents"),
    "mcutrain.functions.proxy_making": ("make_proxies",),
    "mcutrain.proxies": ("MadeLadder",),
    "mcutrain.functions.pulling": ("Pulled", "pull"),
    "mcutrain.functions.serial_ports": ("SerialPorts", "ports"),
    "mcutrain.functions.generating": ("Generated", "generate"),
    "mcutrain.functions.planning": ("Planned", "plan"),
    "mcutrain.functions.profiling": ("Profiled", "profile"),
    "mcutrain.functions.quantizing": ("QuantizedModel", "quantize"),
    "mcutrain.functions.selecting": (
        *("BudgetSweep", "TrainedSelection"),
        *("select_by_training", "select_for_budgets"),
    ),
    "mcutrain.functions.simulating": ("simulate",),
    "mcutrain.ir.graph": ("Graph",),
    "mcutrain.functions.preparing": ("prepare",),
    "mcutrain.pipeline": ("StepOptions", "TrainingStep", "load"),
    "mcutrain.simulation.settings": ("RunSettings",),
    "mcutrain.sparse": ("UpdateScheme", "parse_scheme"),
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> object:
    """Import what is asked for, so that `mcutrain --help` does not wait for all of it."""
    if name == "__version__":
        return import_module("importlib.metadata").version("mcutrain")
    if name not in _HOMES:
        raise AttributeError(f"module 'mcutrain' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def _drawn(result: _shown.Shown) -> str:
    """As HTML. The report is loaded when a notebook shows the first result."""
    from mcutrain.report.notebook import html_of

    return html_of(result)


_shown.drawn_by(_drawn)

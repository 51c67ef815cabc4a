"""Train int8 networks on microcontrollers: what you simulate is what you flash.

    step = mcutrain.prepare("model.int8.tflite", "last:3", classes=10)
    result = mcutrain.train(step, (x, y), epochs=2, learning_rate=0.03)
    mcutrain.export("model.int8.tflite", "trained.tflite", result)

`dir(mcutrain)` lists what there is; each name is loaded when it is first used. All errors that an
input can cause are McutrainError. Reference: docs/python.md.
"""

from __future__ import annotations

from importlib import import_module

from mcutrain import shown as _shown

_NAMES = {
    "mcutrain.data": ("Normalization", "Split"),
    "mcutrain.errors": ("McutrainError",),
    "mcutrain.functions.automatic": ("auto_scheme",),
    "mcutrain.functions.averaging": ("FleetAverage", "average"),
    "mcutrain.functions.board_training": ("BoardRun", "train_board"),
    "mcutrain.functions.alternatives": ("AutoScheme",),
    "mcutrain.functions.choosing": ("select",),
    "mcutrain.functions.comparing": ("Comparison", "compare"),
    "mcutrain.functions.data_describing": ("DataInfo", "describe_data"),
    "mcutrain.functions.describing": ("ModelInfo", "info"),
    "mcutrain.functions.episodes": ("FewShot", "simulate_episodes"),
    "mcutrain.functions.firmware": (
        *("Built", "Flashed", "RunningBoard"),
        *("build", "flash", "virtual_board"),
    ),
    "mcutrain.functions.fitting": ("FitResult", "fit"),
    "mcutrain.functions.fleet_project": ("FleetProject", "fleet"),
    "mcutrain.functions.gateway": ("Gateway",),
    "mcutrain.functions.folder_watching": ("Watched", "watch"),
    "mcutrain.functions.generating": ("Generated", "generate"),
    "mcutrain.functions.imprinting": ("ImprintedClass", "imprint"),
    "mcutrain.functions.latent_data": ("LatentData", "latents"),
    "mcutrain.functions.learning": ("analyze",),
    "mcutrain.functions.models": ("diff", "export", "verify"),
    "mcutrain.functions.modules": ("AugmentedModel", "augment"),
    "mcutrain.functions.planning": ("Planned", "plan"),
    "mcutrain.functions.preparing": ("prepare",),
    "mcutrain.functions.profiling": ("Profiled", "profile"),
    "mcutrain.functions.proxy_making": ("make_proxies",),
    "mcutrain.functions.pulling": ("Pulled", "pull"),
    "mcutrain.functions.quantizing": ("QuantizedModel", "quantize"),
    "mcutrain.functions.selecting": (
        *("BudgetSweep", "TrainedSelection"),
        *("select_by_training", "select_for_budgets"),
    ),
    "mcutrain.functions.selftest": ("SelfTestResult", "selftest"),
    "mcutrain.functions.serial_ports": ("SerialPorts", "ports"),
    "mcutrain.functions.simulating": ("simulate",),
    "mcutrain.functions.snapping": ("Snapped", "snap"),
    "mcutrain.functions.stepping": ("StepOutcome", "StepTrainer", "trainer"),
    "mcutrain.functions.teaching": ("Taught", "taught_state", "teach"),
    "mcutrain.functions.training": ("train",),
    "mcutrain.functions.whitening": ("WhitenedModel", "whiten"),
    "mcutrain.ir.graph": ("Graph",),
    "mcutrain.pipeline": ("StepOptions", "TrainingStep", "load"),
    "mcutrain.proxies": ("MadeLadder",),
    "mcutrain.runs.result": ("SimulationResult",),
    "mcutrain.simulation.settings": ("RunSettings",),
    "mcutrain.sparse": ("UpdateScheme", "parse_scheme"),
}
"""Public names by the module that has them; type checkers read __init__.pyi instead."""
_HOMES = {name: home for home, names in _NAMES.items() for name in names}
__all__ = sorted(_HOMES)


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

"""Run a training step: by the operators' reference meaning, or as compiled C with the same bits."""

from mcutrain.simulate.build import Compiler, check_can_build, find_compiler
from mcutrain.simulate.compiled import CompiledSimulator
from mcutrain.simulate.folder import simulator_of_folder
from mcutrain.simulate.range_test import FEWEST_STEPS, Search, loss_sign, warning
from mcutrain.simulate.reconstruction import Reconstruction, Tested, area_under_roc
from mcutrain.simulate.reference import PlannedReference, ReferenceSimulator
from mcutrain.simulate.run import (
    Course,
    EpochResult,
    Progress,
    Run,
    RunSettings,
    Samples,
    Simulator,
    rate_of_checkpoint,
)

__all__ = [
    "FEWEST_STEPS",
    "CompiledSimulator",
    "Compiler",
    "Course",
    "EpochResult",
    "PlannedReference",
    "Progress",
    "Reconstruction",
    "ReferenceSimulator",
    "Run",
    "RunSettings",
    "Samples",
    "Search",
    "Simulator",
    "Tested",
    "area_under_roc",
    "check_can_build",
    "find_compiler",
    "loss_sign",
    "rate_of_checkpoint",
    "simulator_of_folder",
    "warning",
]

"""Run a training step: by the operators' reference meaning, or as compiled C with the same bits."""

from mcutrain.simulation.build import Compiler, check_can_build, find_compiler
from mcutrain.simulation.checkpoint import Finished, check_checkpoint, rate_of_checkpoint
from mcutrain.simulation.compiled import CompiledSimulator
from mcutrain.simulation.course import Course
from mcutrain.simulation.folder import latents_of_folder, simulator_of_folder
from mcutrain.simulation.ladder import LadderReference, reference_of
from mcutrain.simulation.latent import LatentReference, LatentSamples, LatentSimulator
from mcutrain.simulation.metrics.reconstruction import Reconstruction
from mcutrain.simulation.metrics.regression import Regression
from mcutrain.simulation.metrics.several import SeveralOutputs, judging
from mcutrain.simulation.metrics.tested import OutputScore, Tested, area_under_roc
from mcutrain.simulation.progress import EpochResult, Progress
from mcutrain.simulation.range_test import (
    FEWEST_STEPS,
    FoundRate,
    Search,
    bad_sign,
    loss_sign,
    step_macs,
    warning,
)
from mcutrain.simulation.reference import PlannedReference, ReferenceSimulator
from mcutrain.simulation.replay import Earlier
from mcutrain.simulation.run import CountsLevels, Run, Simulator
from mcutrain.simulation.samples import Samples
from mcutrain.simulation.settings import RunSettings, rounding_seed

__all__ = [
    "FEWEST_STEPS",
    "CompiledSimulator",
    "Compiler",
    "CountsLevels",
    "Course",
    "Earlier",
    "EpochResult",
    "Finished",
    "FoundRate",
    "LadderReference",
    "LatentReference",
    "LatentSamples",
    "LatentSimulator",
    "OutputScore",
    "PlannedReference",
    "Progress",
    "Reconstruction",
    "ReferenceSimulator",
    "Regression",
    "Run",
    "RunSettings",
    "Samples",
    "Search",
    "SeveralOutputs",
    "Simulator",
    "Tested",
    "area_under_roc",
    "bad_sign",
    "check_can_build",
    "check_checkpoint",
    "find_compiler",
    "judging",
    "latents_of_folder",
    "loss_sign",
    "rate_of_checkpoint",
    "reference_of",
    "rounding_seed",
    "simulator_of_folder",
    "step_macs",
    "warning",
]

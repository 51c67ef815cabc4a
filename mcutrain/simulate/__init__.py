"""Run a training step: by the operators' reference meaning, or as compiled C with the same bits."""

from mcutrain.simulate.build import Compiler, find_compiler
from mcutrain.simulate.compiled import CompiledSimulator
from mcutrain.simulate.reference import ReferenceSimulator
from mcutrain.simulate.run import Progress, Run, RunSettings, Samples

__all__ = [
    "CompiledSimulator",
    "Compiler",
    "Progress",
    "ReferenceSimulator",
    "Run",
    "RunSettings",
    "Samples",
    "find_compiler",
]

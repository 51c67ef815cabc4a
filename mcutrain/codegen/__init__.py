"""TrainGraph + MemoryPlan → a C project that needs no Python."""

from mcutrain.codegen.firmware import isa_bodies
from mcutrain.codegen.project import Project, generate

__all__ = ["Project", "generate", "isa_bodies"]

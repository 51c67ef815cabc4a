"""TrainGraph + MemoryPlan → a C project that needs no Python."""

from mcutrain.codegen.project import Project, generate

__all__ = ["Project", "generate"]

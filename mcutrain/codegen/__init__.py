"""TrainGraph + MemoryPlan → a C project that needs no Python."""

from mcutrain.codegen.firmware import (
    SAVED_HEADER_BYTES,
    isa_bodies,
    isa_includes,
    portable_files,
    with_latents,
)
from mcutrain.codegen.interface import Interface
from mcutrain.codegen.project import Project, generate, ring_bytes, state_tensors

__all__ = [
    "SAVED_HEADER_BYTES",
    "Interface",
    "Project",
    "generate",
    "isa_bodies",
    "isa_includes",
    "portable_files",
    "ring_bytes",
    "state_tensors",
    "with_latents",
]

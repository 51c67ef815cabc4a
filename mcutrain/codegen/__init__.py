"""TrainGraph + MemoryPlan → a C project that needs no Python."""

from mcutrain.codegen.bodies import portable_files, with_bodies
from mcutrain.codegen.firmware import SAVED_HEADER_BYTES, with_latents
from mcutrain.codegen.interface import Interface
from mcutrain.codegen.isa import check_isa, taken
from mcutrain.codegen.packages import check_package
from mcutrain.codegen.project import Project, generate, ring_bytes

__all__ = [
    "SAVED_HEADER_BYTES",
    "Interface",
    "Project",
    "check_isa",
    "check_package",
    "generate",
    "portable_files",
    "ring_bytes",
    "taken",
    "with_bodies",
    "with_latents",
]

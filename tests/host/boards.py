"""Descriptions of boards, and manifests, with no more in them than a test needs."""

from typing import Any

from mcutrain_host.manifest import (
    FORMAT,
    BoardDescription,
    BoardMemory,
    BuildOutput,
    Compilation,
    EdgeTensor,
    Manifest,
)

EDGE = EdgeTensor(shape=(1, 1), scale=1.0, zero_point=0)


def described(name: str, core: str = "cortex-m4", **others: Any) -> BoardDescription:
    """A board, and how its project is compiled. vectors: of the memory map."""
    memory = BoardMemory(
        vectors=others.pop("vectors", None),
        stack_bytes=0, firmware_bytes=0, arena_bytes=0, state_bytes=0, sram_bytes=0, slots=(),
    )  # fmt: skip
    compilation = Compilation(
        gcc="", flags=(), zig=(), common_flags=(), include_dirs=(), sources=(), link=(),
        linker_script=None, output="firmware.elf",
    )  # fmt: skip
    return BoardDescription(
        name=name,
        title=name,
        core=core,
        isa="portable",
        output=BuildOutput(),
        memory=memory,
        compile=compilation,
        **others,
    )


def manifest_of(board: BoardDescription) -> Manifest:
    """A project's for this board."""
    return Manifest(
        format=FORMAT, generator="", model="m", model_hash="ff", scheme="s", classes=1,
        samples_per_update=1, input=EDGE, output=EDGE, arena_bytes=0, arena_lower_bound_bytes=0,
        state_bytes=0, constant_bytes=0, state=(), parameters=(), board=board,
    )  # fmt: skip

"""What a linked ELF occupies, part by part, beside what was planned."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection
from mcutrain_host.dataclass import dataclass
from mcutrain_host.errors import BuildError
from mcutrain_host.manifest import BoardProject

SHF_ALLOC = 2
ALIGN_BYTES = 8
MODEL_SYMBOLS = {"arena": "arena", "state": "state"}
"""Static objects of the generated C, by their name in mct_model.c."""


@dataclass(frozen=True)
class MemoryPart:
    """Bytes of SRAM by what they are for."""

    name: str
    planned: int
    linked: int


@dataclass(frozen=True)
class Memory:
    """sram: by part. flash: (section, bytes). sram_bytes: how much the chip has."""

    sram: tuple[MemoryPart, ...]
    flash: tuple[tuple[str, int], ...]
    sram_bytes: int

    @property
    def planned_bytes(self) -> int:
        """All SRAM that the plan asked for."""
        return sum(part.planned for part in self.sram)

    @property
    def linked_bytes(self) -> int:
        """All SRAM that the ELF occupies."""
        return sum(part.linked for part in self.sram)

    @property
    def flash_bytes(self) -> int:
        """All flash that the ELF occupies."""
        return sum(size for _, size in self.flash)

    @property
    def agrees(self) -> bool:
        """Whether every part is as planned."""
        return all(part.planned == part.linked for part in self.sram)

    def facts(self) -> dict[str, Any]:
        """For --json."""
        return {
            "sram": {p.name: {"planned": p.planned, "linked": p.linked} for p in self.sram},
            "flash": dict(self.flash),
            "planned_bytes": self.planned_bytes,
            "linked_bytes": self.linked_bytes,
            "flash_bytes": self.flash_bytes,
            "sram_bytes": self.sram_bytes,
            "agrees": self.agrees,
        }


def linked_memory(folder: Path) -> Memory | None:
    """The memory of a built project; None for a board with an operating system.

    Raises ProjectError if it is not built, BuildError if the ELF is none of ours.
    """
    project = BoardProject.read(folder)
    planned = project.board.memory
    if planned.ram is None:
        return None
    built = project.built_elf()
    try:
        with built.open("rb") as file:
            elf = ELFFile(file)
            sections = [
                (section.name, section["sh_addr"], section["sh_size"])
                for section in elf.iter_sections()
                if section["sh_flags"] & SHF_ALLOC and section["sh_size"] > 0
            ]
            sizes = _symbol_sizes(elf)
    except ELFError as error:
        raise BuildError(f"{built} is damaged ({error}): build the project again") from error
    ram = planned.ram
    inside = range(ram.origin, ram.origin + ram.bytes)
    stack = sizes["mct_stack_top"] - sizes["mct_stack_bottom"]
    arena, state = sizes["arena"], sizes["state"]
    total = _extent(s for s in sections if s[1] in inside)
    plan_arena = -(-planned.arena_bytes // ALIGN_BYTES) * ALIGN_BYTES
    others = planned.sram_bytes - planned.stack_bytes - plan_arena - planned.state_bytes
    parts = (
        MemoryPart("arena", plan_arena, arena),
        MemoryPart("trainable state", planned.state_bytes, state),
        MemoryPart("firmware's own", others, total - stack - arena - state),
        MemoryPart("stack", planned.stack_bytes, stack),
    )
    flash = tuple((name, size) for name, address, size in sections if address not in inside)
    return Memory(parts, flash, ram.bytes)


def _extent(sections: Iterable[tuple[str, int, int]]) -> int:
    """From the first byte to the last, rounded up."""
    spans = [(address, address + size) for _, address, size in sections]
    if not spans:
        return 0
    size = max(end for _, end in spans) - min(start for start, _ in spans)
    return -(-size // ALIGN_BYTES) * ALIGN_BYTES


def _symbol_sizes(elf: ELFFile) -> dict[str, int]:
    """Sizes of the model's objects, and the addresses that the linker script defines."""
    table = elf.get_section_by_name(".symtab")
    if not isinstance(table, SymbolTableSection):
        raise BuildError("the ELF has no symbols; build it without stripping")
    found: dict[str, int] = {}
    for symbol in table.iter_symbols():
        name = symbol.name.split(".")[0]
        if name in MODEL_SYMBOLS and symbol["st_info"]["type"] == "STT_OBJECT":
            found[name] = symbol["st_size"]
        elif name in ("mct_stack_bottom", "mct_stack_top"):
            found[name] = symbol["st_value"]
    missing = {"arena", "state", "mct_stack_bottom", "mct_stack_top"} - found.keys()
    if missing:
        raise BuildError(f"the ELF has no {sorted(missing)[0]!r}: is it firmware of mcutrain?")
    return found

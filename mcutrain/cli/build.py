"""mcutrain build: a generated project as firmware, with its memory beside the plan's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcutrain.cli import shared_flags
from mcutrain.cli.listening import OnScreen
from mcutrain.cli.output import show, show_json, show_table
from mcutrain.cli.plan import FORGETS
from mcutrain.functions.board_options import BuildOptions

if TYPE_CHECKING:
    from mcutrain_host.memory import Memory


def build(
    folder: shared_flags.Project, *, how: BuildOptions, json: shared_flags.Json = False
) -> None:
    """Compile a board's firmware, and compare its memory with the plan.

    Example: `mcutrain build project`
    """
    from mcutrain.functions.firmware import build as built

    found = built(folder, how=how, listener=OnScreen(json))
    if json:
        show_json(found.to_dict())
        return
    if found.memory is not None:
        _show_memory(found.memory)
    if found.why_no_saves:
        show(f"It saves nothing: {found.why_no_saves}; {FORGETS}.")
    show(f"Built {found.elf}" + (f" and {found.uf2.name}" if found.uf2 else ""))


def _show_memory(measured: Memory) -> None:
    rows: list[list[object]] = [[part.name, part.planned, part.linked] for part in measured.sram]
    rows.append(["SRAM", measured.planned_bytes, measured.linked_bytes])
    show_table(("SRAM", "planned", "linked"), rows)
    show(
        f"{'The plan and the ELF agree' if measured.agrees else 'THE PLAN AND THE ELF DIFFER'}: "
        f"{measured.linked_bytes:,} of the chip's {measured.sram_bytes:,} bytes of SRAM."
    )
    show_table(("flash", "bytes"), [*measured.flash, ("flash", measured.flash_bytes)])

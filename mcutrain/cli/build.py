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

    firmware = built(folder, how=how, listener=OnScreen(json))
    if json:
        show_json(firmware.to_dict())
        return
    if firmware.memory is not None:
        _show_memory(firmware.memory)
    if firmware.why_no_saves:
        show(f"It saves nothing: {firmware.why_no_saves}; {FORGETS}.")
    show(f"Built {firmware.elf}" + (f" and {firmware.uf2.name}" if firmware.uf2 else ""))


def _show_memory(measured: Memory) -> None:
    rows: list[list[object]] = [[part.name, part.planned, part.linked] for part in measured.sram]
    rows.append(["SRAM", measured.planned_bytes, measured.linked_bytes])
    show_table(("SRAM", "planned", "linked"), rows)
    show(
        f"{'The plan and the ELF agree' if measured.agrees else 'THE PLAN AND THE ELF DIFFER'}: "
        f"{measured.linked_bytes:,} of the chip's {measured.sram_bytes:,} bytes of SRAM."
    )
    show_table(("flash", "bytes"), [*measured.flash, ("flash", measured.flash_bytes)])

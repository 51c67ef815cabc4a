"""mcutrain build: a generated project as firmware, with its memory beside the plan's."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from mcutrain.cli.options import Json
from mcutrain.cli.output import count_bar, show, show_json, show_table
from mcutrain.cli.plan import FORGETS


def build(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR",
            help="What `mcutrain generate --board` wrote.",
            show_default=False,
        ),
    ],
    compiler: Annotated[
        str | None,
        typer.Option(
            help="gcc, zig, or a compiler's name; the board's gcc if it is installed, else zig.",
            show_default=False,
        ),
    ] = None,
    optimize: Annotated[
        str, typer.Option("--optimize", "-O", metavar="LEVEL", help="1, 2, 3 or s.")
    ] = "3",
    json: Json = False,
) -> None:
    """Compile a board's firmware, and compare its memory with the plan.

    Example: `mcutrain build project`
    """
    from mcutrain_host.build import build as compile_project
    from mcutrain_host.manifest import BoardProject
    from mcutrain_host.memory import linked_memory

    if optimize not in ("1", "2", "3", "s"):
        raise typer.BadParameter(f"{optimize!r} is none of 1, 2, 3, s", param_hint="--optimize")
    with count_bar(json) as bar:
        task = bar.add_task("compiling", total=None)
        elf = compile_project(
            folder,
            compiler,
            f"-O{optimize}",
            lambda done, total: bar.update(task, completed=done, total=total),
        )
    measured = linked_memory(folder)
    why_no_saves = BoardProject.read(folder).board.memory.why_no_saves
    if json:
        memory = None if measured is None else measured.facts()
        show_json({"elf": str(elf), "memory": memory, "why_no_saves": why_no_saves})
        return
    if measured is not None:
        _show_memory(measured)
    if why_no_saves:
        show(f"It saves nothing: {why_no_saves}; {FORGETS}.")
    uf2 = elf.with_suffix(".uf2")
    show(f"Built {elf}" + (f" and {uf2.name}" if uf2.is_file() else ""))


def _show_memory(measured: Any) -> None:
    rows = [[part.name, part.planned, part.linked] for part in measured.sram]
    rows.append(["SRAM", measured.planned_bytes, measured.linked_bytes])
    show_table(("SRAM", "planned", "linked"), rows)
    show(
        f"{'The plan and the ELF agree' if measured.agrees else 'THE PLAN AND THE ELF DIFFER'}: "
        f"{measured.linked_bytes:,} of the chip's {measured.sram_bytes:,} bytes of SRAM."
    )
    show_table(
        ("flash", "bytes"),
        [[name, size] for name, size in measured.flash] + [["flash", measured.flash_bytes]],
    )

"""mcutrain generate: the C of a training step."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from mcutrain.cli import shared_flags
from mcutrain.cli.automatic import say_head
from mcutrain.cli.listening import OnScreen
from mcutrain.cli.output import say, show, show_json, show_prose
from mcutrain.cli.plan import FORGETS
from mcutrain.functions.files import check_writable, writing
from mcutrain.functions.options import (
    BoardOptions,
    GeneratedRequest,
    HeadOptions,
    ProgramOptions,
    Seed,
)
from mcutrain.functions.run_options import ColumnOptions

if TYPE_CHECKING:
    from mcutrain.functions.generating import Front, Generated
    from mcutrain.target import Target


def generate(
    model: shared_flags.Model,
    output: Annotated[
        Path,
        shared_flags.written(
            "DIR",
            "The folder to write; an earlier project there is replaced. With --part front a "
            "file, .tflite or .onnx.",
        ),
    ],
    scheme: shared_flags.PlannedScheme = None,
    classes: shared_flags.Classes = shared_flags.KEEP,
    *,
    request: GeneratedRequest,
    hardware: BoardOptions,
    head: HeadOptions,
    program: ProgramOptions,
    data: Annotated[
        Path | None,
        shared_flags.option(
            "Training samples, as `mcutrain simulate` reads them. With them --scheme auto is the "
            "default, which chooses by them. Modules of --pet, class means of --head-start "
            "prototypes and the centre of --imprint are made of them."
        ),
    ] = None,
    columns: ColumnOptions,
    save_model: shared_flags.SaveModel = None,
    seed: Seed = 0,
    json: shared_flags.Json = False,
) -> None:
    """Write a C project that infers and trains: C11, static memory, no dependencies.

    With --board it is the whole firmware of a board, or a package for the build system that a board
    without firmware names. Otherwise it is a library for firmware of your own, in C or C++. It has
    one include folder, a Makefile and a program to start from. Its CMakeLists.txt is also a
    component of ESP-IDF, and its library.properties is for Arduino and PlatformIO.

    Example: `mcutrain generate model.tflite --scheme last:6 --classes 10 -o project`

    Example: `mcutrain generate model.tflite --scheme last:6 --part front -o front.tflite`
    """
    from mcutrain.functions.generating import generate as generated
    from mcutrain.functions.memory_limit import MemoryLimit
    from mcutrain.functions.planning import fixed_of

    if request.part == "front" or save_model is not None:
        check_writable(output if save_model is None else save_model)
    with writing(output):
        result = generated(
            model,
            output,
            scheme,
            classes=shared_flags.new_classes(classes),
            request=request,
            hardware=hardware,
            head=head,
            program=program,
            data=data,
            columns=columns,
            save_model=save_model,
            seed=seed,
            listener=OnScreen(json),
        )
    if json:
        show_json(result.to_dict())
        return
    needs_samples = head.imprint or head.head_start == "prototypes"
    is_head = scheme is None and not any(fixed_of(request).values()) and not head.imprint
    if request.part != "front" and is_head and (data is None or needs_samples):
        say_head(MemoryLimit.of(hardware.target))
    if result.front is not None:
        _show_front(result.front)
    else:
        _show(result, program)


def _show(project: Generated, program: ProgramOptions) -> None:
    """What was written, what it takes, and what to do with it."""
    step, target = project.plan.step, project.plan.board
    _show_files(project, program.prefix)
    show(
        f"{step.plan.arena_bytes:,} bytes of arena, {step.plan.state_bytes:,} of state, "
        f"{step.plan.constant_bytes:,} of constants."
    )
    if step.plan.training.is_tail:
        show_prose(
            f"It takes latents for samples: {step.plan.training.x}, {step.input_type.size_bytes:,} "
            "bytes. What makes them, with the same flags of the step: --part front."
        )
    if target is not None:
        _show_fit(project, target)
    if target is None or not target.has_firmware:
        _show_library(project, program)
    else:
        _show_firmware(project, target)


def _show_files(found: Generated, prefix: str) -> None:
    """The model's own by name, the others in a line."""
    sizes = found.files
    parts = ("model.", "tables.", "constants.", "class_", "pixel_")
    own = (f"src/{prefix}_{part}" for part in parts)
    begins = ("example/", *own)
    generated = [name for name in sizes if "/" not in name or name.startswith(begins)]
    for name in generated:
        show(f"{sizes[name]:>10,}  {found.folder / name}")
    others = [name for name in sizes if name not in generated]
    size = sum(sizes[name] for name in others)
    folders = ", ".join(sorted({name.partition("/")[0] for name in others}))
    show(f"{size:>10,}  {len(others)} files in {folders}")


def _show_parts(found: Generated) -> None:
    """What it remembers, and what it listens with, if it does."""
    if found.plan.ring is not None and (ring := found.plan.ring.summary()):
        show(ring)
    if found.plan.listening is not None:
        show(found.plan.listening.summary())


def _show_library(project: Generated, program: ProgramOptions) -> None:
    from mcutrain.codegen import taken

    _show_parts(project)
    names = [row.name for row in taken(program.isa)]
    if len(names) > 1:
        show_prose(
            f"Kernels for {', '.join(names)}: the compiler's macros choose, by src/mct_isa.h."
        )
    prefix = program.prefix
    header = project.folder / "src" / f"{prefix}_model.h"
    if "README.md" in project.files:  # of a package
        readme = project.folder / "README.md"
        show_prose(f"How to build it stands in {readme}, how to call it at the top of {header}.")
        return
    show_prose(f"How to call it stands at the top of {header}. To build lib{prefix}.a:")
    show(f"    make -C {shlex.quote(str(project.folder))}")


def _show_fit(found: Generated, target: Target) -> None:
    """What it takes of the board."""
    from mcutrain.cost.time import step_time

    step = found.plan.step
    if target.ram is not None:
        needs = target.sram_bytes(step.plan.arena_bytes, step.plan.resident_bytes)
        beside = "firmware" if target.has_firmware else f"{target.package} itself"
        show_prose(
            f"With stack and {beside} {needs:,} of {target.ram.size_bytes:,} bytes of SRAM of "
            f"{target.title}."
        )
    took = step_time(step.plan, target)
    if took is not None:
        show_prose(f"A step takes {took.text}: {took.reason}.")


def _show_firmware(found: Generated, target: Target) -> None:
    from mcutrain.functions.planning import board_facts

    _show_parts(found)
    why_no_saves = board_facts(found.plan.step, target)["why_no_saves"]
    if why_no_saves:
        show_prose(f"It saves nothing: {why_no_saves}; {FORGETS}.")
    show("To build the firmware:")
    show(f"    mcutrain build {shlex.quote(str(found.folder))}")


def _show_front(front: Front) -> None:
    """The model file of --part front."""
    show(f"{front.path}: {front.size_bytes:,} bytes, the front up to {front.latent}")
    for name, kind in (("input", front.x), ("output", front.y)):
        shape = " × ".join(map(str, kind.shape[1:]))
        show(f"  {name:8}int8 {shape}, scale {kind.scale:.9g}, zero point {kind.zero_point}")
    if front.other_bits:
        say(f"mcutrain: note: {front.other_bits}")

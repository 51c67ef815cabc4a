"""mcutrain generate: the C of a training step."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from mcutrain.cli import options
from mcutrain.cli.output import show, show_json, writing
from mcutrain.cli.plan import FORGETS
from mcutrain.cli.samples import Mean, Std, normalization


def generate(
    model: options.Model,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            help="The folder to write; an earlier project there is replaced.",
            show_default=False,
        ),
    ],
    scheme: options.Scheme = "head",
    board: options.Board = None,
    slots: options.Slots = "on",
    classes: options.Classes = options.KEEP,
    *,
    step_flags: options.StepFlags,
    seed: options.Seed = 0,
    no_qas: options.NoQas = False,
    prefix: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="What the model's functions, macros and files begin with, so that two models fit "
            "into one program; without --board.",
        ),
    ] = "mct",
    class_names: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,…|FILE",
            help="Names of the classes for the program, as a list or a text file with one a line; "
            "by default those in the metadata of a .tflite file.",
            show_default=False,
        ),
    ] = None,
    mean: Mean = None,
    std: Std = None,
    latent: Annotated[
        str | None,
        typer.Option(
            metavar="auto|TENSOR",
            help="Functions that begin a step with its latent, what the layers before the first "
            "trained one make of a sample, and one that computes it; without --board.",
            show_default=False,
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Write a C project that infers and trains: C11, static memory, no dependencies.

    With --board it is the whole firmware of a board, otherwise a library for firmware of your own,
    in C or C++: one include folder, a Makefile, a CMakeLists.txt that is also a component of
    ESP-IDF, a library.properties for Arduino and PlatformIO, and a program to start from.

    Example: `mcutrain generate model.tflite --scheme last:6 --classes 10 -o project`
    """
    from mcutrain.codegen import Interface
    from mcutrain.data import read_names
    from mcutrain.functions.planning import board_facts, names_in_file, write_project
    from mcutrain.pipeline import load
    from mcutrain.target import target_of

    target = target_of(board, slots)
    flags = step_flags.options(scheme, no_qas)
    step = flags.prepare(load(model), options.new_classes(classes), seed)
    names = names_in_file(model, step) if class_names is None else read_names(class_names)
    interface = Interface(prefix, names, normalization(mean, std), latent)
    with writing(output):
        found = write_project(step, target, interface, output)
    sizes = found.files
    if json:
        show_json(found.to_dict())
        return
    parts = ("model.", "tables.", "constants.", "class_", "pixel_")
    own = (f"src/{prefix}_{part}" for part in parts)
    begins = ("example/", *own)
    generated = [name for name in sizes if "/" not in name or name.startswith(begins)]
    for name in generated:
        show(f"{sizes[name]:>10,}  {output / name}")
    others = [name for name in sizes if name not in generated]
    size = sum(sizes[name] for name in others)
    folders = ", ".join(sorted({name.partition("/")[0] for name in others}))
    show(f"{size:>10,}  {len(others)} files in {folders}")
    show(
        f"{step.plan.arena_bytes:,} bytes of arena, {step.plan.state_bytes:,} of state, "
        f"{step.plan.constant_bytes:,} of constants."
    )
    if target is None:
        header = output / "src" / f"{prefix}_model.h"
        show(f"How to call it stands at the top of {header}. To build lib{prefix}.a:")
        show(f"    make -C {shlex.quote(str(output))}")
        return
    if target.ram is not None:
        needs = target.sram_bytes(step.plan.arena_bytes, step.plan.state_bytes)
        show(
            f"With stack and firmware {needs:,} of {target.ram.size_bytes:,} bytes of SRAM of "
            f"{target.title}."
        )
    why_no_saves = board_facts(step, target)["why_no_saves"]
    if why_no_saves:
        show(f"It saves nothing: {why_no_saves}; {FORGETS}.")
    show("To build the firmware:")
    show(f"    mcutrain build {shlex.quote(str(output))}")

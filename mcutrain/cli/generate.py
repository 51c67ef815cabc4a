"""mcutrain generate: the C of a training step."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from mcutrain.cli import options
from mcutrain.cli.models import load_model
from mcutrain.cli.output import check_writable, say, show, show_json, writing
from mcutrain.cli.pet import SaveModel, wanted_modules, with_modules
from mcutrain.cli.plan import FORGETS
from mcutrain.cli.samples import TEST_SHARE, DataSource, Mean, Std, normalization

if TYPE_CHECKING:
    from mcutrain.data import Normalization
    from mcutrain.ir.graph import Graph
    from mcutrain.target import Target


def generate(
    model: options.Model,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            help="The folder to write; an earlier project there is replaced. With --part front a "
            "file, .tflite or .onnx.",
            show_default=False,
        ),
    ],
    scheme: options.Scheme = "head",
    board: options.Board = None,
    slots: options.Slots = "on",
    classes: options.Classes = options.KEEP,
    *,
    pet: options.Pet = None,
    data: Annotated[
        Path | None,
        typer.Option(
            help="Training samples, as `mcutrain simulate` reads them, of which modules of --pet "
            "are made.",
            show_default=False,
        ),
    ] = None,
    save_model: SaveModel = None,
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
    part: Annotated[
        Literal["whole", "tail", "front"],
        typer.Option(
            help="tail is only what lies behind the latent, what the layers before the first "
            "trained one make of a sample: it takes latents for samples. front writes a model file "
            "of those layers alone, for whatever runtime makes the latents.",
        ),
    ] = "whole",
    latent: Annotated[
        str | None,
        typer.Option(
            metavar="auto|TENSOR",
            help="Functions that begin a step with its latent, and one that computes it; a board's "
            "firmware takes latents over its line, too. With --part tail or front, where the "
            "network is cut.",
            show_default=False,
        ),
    ] = None,
    elastic: options.IsElastic = False,
    swap: options.IsSwap = None,
    profile: options.Profile = None,
    timed: Annotated[
        bool,
        typer.Option(
            "--timed",
            help="With --board: firmware that looks at the clock around each node, for "
            "`mcutrain profile DIR --port P`.",
        ),
    ] = False,
    remember: options.Remember = 0,
    proxies: options.Proxies = None,
    drift: options.Drift = False,
    json: options.Json = False,
) -> None:
    """Write a C project that infers and trains: C11, static memory, no dependencies.

    With --board it is the whole firmware of a board, otherwise a library for firmware of your own,
    in C or C++: one include folder, a Makefile, a CMakeLists.txt that is also a component of
    ESP-IDF, a library.properties for Arduino and PlatformIO, and a program to start from.

    Example: `mcutrain generate model.tflite --scheme last:6 --classes 10 -o project`

    Example: `mcutrain generate model.tflite --scheme last:6 --part front -o front.tflite`
    """
    from mcutrain.codegen import Interface
    from mcutrain.cost.profile import timing_of
    from mcutrain.data import read_names
    from mcutrain.functions.planning import (
        board_facts,
        elastic_times,
        names_in_file,
        on_board,
        write_project,
    )
    from mcutrain.target import target_of

    if part == "front":
        flags = step_flags.options(scheme, no_qas)
        _check_front(
            {
                "--board": board is not None,
                "--slots": slots != "on",
                "--prefix": prefix != "mct",
                "--class-names": class_names is not None,
                "--mean": mean is not None,
                "--std": std is not None,
                "--remember": remember > 0,
                "--elastic": elastic,
                "--swap": swap is not None,
                "--profile": profile is not None,
                "--timed": timed,
                "--pet": pet is not None,
                "--proxies": proxies is not None,
                "--drift": drift,
            }
        )
        _write_front(model, flags, options.new_classes(classes), latent, output, json)
        return
    target = target_of(board, slots)
    _check_profile(profile, elastic)
    _check_timed(timed, target)
    is_tail = part == "tail"
    flags = replace(
        step_flags.options(scheme, no_qas),
        part="tail" if is_tail else "whole",
        latent=latent or options.AUTO,
        elastic=elastic or timed,
        swap=swap or "",
    )
    flags = replace(flags, pet=pet, proxies=proxies, drift=drift)
    graph = _graph(model, pet, data, save_model, normalization(mean, std), seed)
    step = flags.prepare(graph, options.new_classes(classes), seed)
    names = names_in_file(model, step) if class_names is None else read_names(class_names)
    interface = Interface(
        prefix,
        names,
        normalization(mean, std),
        None if is_tail else latent,
        remember,
        elastic_times(step, target, profile) if elastic else None,
        None if target is None or not timed else timing_of(step.plan, target.isa),
    )
    target = on_board(target, step, interface)
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
    if is_tail:
        show(
            f"It takes latents for samples: {step.plan.training.x}, {step.input_type.size_bytes:,} "
            "bytes. What makes them, with the same flags of the step: --part front."
        )
    ring = "" if found.plan.ring is None else found.plan.ring.summary()
    if target is None:
        if ring:
            show(ring)
        header = output / "src" / f"{prefix}_model.h"
        show(f"How to call it stands at the top of {header}. To build lib{prefix}.a:")
        show(f"    make -C {shlex.quote(str(output))}")
        return
    if target.ram is not None:
        needs = target.sram_bytes(step.plan.arena_bytes, step.plan.resident_bytes)
        show(
            f"With stack and firmware {needs:,} of {target.ram.size_bytes:,} bytes of SRAM of "
            f"{target.title}."
        )
    if ring:
        show(ring)
    why_no_saves = board_facts(step, target)["why_no_saves"]
    if why_no_saves:
        show(f"It saves nothing: {why_no_saves}; {FORGETS}.")
    show("To build the firmware:")
    show(f"    mcutrain build {shlex.quote(str(output))}")


def _check_profile(profile: Path | None, elastic: bool) -> None:
    if profile is not None and not elastic:
        raise typer.BadParameter("is for --elastic: give that, too", param_hint="--profile")


def _check_timed(timed: bool, target: Target | None) -> None:
    if timed and target is None:
        raise typer.BadParameter("is of a board's clock: give --board, too", param_hint="--timed")


def _graph(
    model: Path,
    pet: str | None,
    data: Path | None,
    save_model: Path | None,
    pixels: Normalization | None,
    seed: int,
) -> Graph:
    """The model, with modules of --pet, from samples as `augment` and `simulate` read them."""
    from mcutrain.runs.training import model_input

    graph, wanted = load_model(model), wanted_modules(model, pet, save_model)
    if wanted is None or not wanted.specs:
        if data is not None:
            raise typer.BadParameter("is what modules of --pet are made of", param_hint="--data")
        return graph
    if data is None or save_model is None:
        raise typer.BadParameter(
            "puts modules in: give --data, training samples that they are made of, and "
            "--save-model, the file from which what they learn is exported",
            param_hint="--pet",
        )
    check_writable(save_model)
    wanted.outline(graph)  # or a sentence, before samples are read
    source = DataSource(data, None, None, TEST_SHARE, pixels, seed)
    return with_modules(graph, wanted, source.read(model_input(graph)), source, save_model)


def _check_front(given: Mapping[str, bool]) -> None:
    """Raise typer.BadParameter for a flag of a project. given: by flag, whether it is there."""
    for flag in (name for name, is_there in given.items() if is_there):
        kind = "for no board" if flag in ("--board", "--slots") else "not a project"
        raise typer.BadParameter(
            f"a front is a model file, {kind}: leave this out", param_hint=flag
        )


def _write_front(
    model: Path,
    flags: options.StepOptions,
    classes: int | None,
    latent: str | None,
    output: Path,
    json: bool,
) -> None:
    """The model file of --part front."""
    from mcutrain.formats import format_of
    from mcutrain.functions.planning import write_front

    format_of(output)
    check_writable(output)
    step = flags.prepare(load_model(model), classes)
    found = write_front(step, latent or options.AUTO, output)
    if json:
        show_json(found.to_dict())
        return
    show(f"{output}: {found.size_bytes:,} bytes, the front up to {found.latent}")
    for name, kind in (("input", found.x), ("output", found.y)):
        shape = " × ".join(map(str, kind.shape[1:]))
        show(f"  {name:8}int8 {shape}, scale {kind.scale:.9g}, zero point {kind.zero_point}")
    if found.other_bits:
        say(f"mcutrain: note: {found.other_bits}")

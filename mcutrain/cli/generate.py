"""mcutrain generate: the C of a training step."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from mcutrain.cli import options
from mcutrain.cli.automatic import HEAD, Choosing, with_scheme
from mcutrain.cli.flags import given
from mcutrain.cli.models import load_model
from mcutrain.cli.output import check_writable, say, show, show_json, writing
from mcutrain.cli.pet import SaveModel, wanted_modules, with_modules
from mcutrain.cli.plan import FORGETS
from mcutrain.cli.samples import TEST_SHARE, DataSource, Mean, Std, normalization

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcutrain_host.manifest import Timing

    from mcutrain.data import Normalization, Split
    from mcutrain.functions.planning import Generated
    from mcutrain.ir.graph import Graph
    from mcutrain.pipeline import TrainingStep
    from mcutrain.pipeline.recipe import PutModules
    from mcutrain.quant import HeadStart
    from mcutrain.sparse.elastic import ElasticTimes
    from mcutrain.target import Target


@dataclass(frozen=True)
class MadeFlags:
    """Flags of what is made of samples: modules beside layers, and what a head starts from."""

    pet: options.Pet = None
    data: Annotated[
        Path | None,
        typer.Option(
            help="Training samples, as `mcutrain simulate` reads them, by which --scheme auto "
            "chooses (then the default), of which modules of --pet are made, class means of "
            "--head-start prototypes, and the centre of --imprint.",
            show_default=False,
        ),
    ] = None
    save_model: SaveModel = None
    head_start: options.HeadStart = "zeros"
    imprint: Annotated[
        bool,
        typer.Option(
            "--imprint",
            help="Functions that give a class its weights from a few samples of it, without "
            "training; a board's firmware does it for `mcutrain imprint`. With --data.",
        ),
    ] = False

    @property
    def puts_modules(self) -> bool:
        """Whether --pet has any."""
        from mcutrain.modules import parse_pet

        return self.pet is not None and bool(parse_pet(self.pet).specs)

    @property
    def needs_samples(self) -> bool:
        """Whether what the classifier reads of samples is part of the program."""
        return self.imprint or self.head_start == "prototypes"

    def to_choose_by(self, scheme: str) -> Path | None:
        """Training samples by which a scheme may be chosen: if it is asked for, or nothing else is.

        scheme: as it was given, empty if it was not.
        """
        return None if not scheme and self.needs_samples else self.data

    def check(self, scheme: str) -> None:
        """Raise typer.BadParameter for samples of which nothing is made, or that are missing."""
        is_read = self.puts_modules or self.needs_samples or scheme == options.AUTO
        if self.data is not None and not is_read:
            raise typer.BadParameter(
                "is what --scheme auto chooses by, modules of --pet are made of, class means of "
                "--head-start prototypes, or the centre of --imprint",
                param_hint="--data",
            )
        if self.data is None and self.imprint:
            raise typer.BadParameter(
                "is around the centre of samples: give --data, too", param_hint="--imprint"
            )
        if self.data is None and self.needs_samples:
            raise typer.BadParameter(
                "prototypes are means of samples: give --data, too", param_hint="--head-start"
            )


@dataclass(frozen=True)
class ProgramFlags:
    """Flags of what a program that calls the project sees."""

    prefix: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="What the model's functions, macros and files begin with, so that two models fit "
            "into one program; without --board.",
        ),
    ] = "mct"
    isa: Annotated[
        str,
        typer.Option(
            metavar="all|NAME",
            help="The instruction set that a library has kernels for: portable, dsp (Cortex-M4, "
            "M7, M33 and above), host (a computer or a Raspberry Pi); all takes those for chips "
            "along, and the compiler chooses by the processor that it compiles for; without "
            "--board.",
        ),
    ] = "all"
    package: Annotated[
        str,
        typer.Option(
            "--as",
            metavar="PACKAGE",
            help="A library as a package: arduino, cmake, cmsis-pack, esp-idf, pico-sdk, "
            "platformio or zephyr, with manifest, examples, a README and names of its own for all "
            "that a linker sees; without --board.",
            show_default=False,
        ),
    ] = ""
    class_names: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,…|FILE",
            help="Names of the classes, in the order of the outputs, for the program and for the "
            "data that it learns, as a list or a text file with one a line; by default those of "
            "the model's file.",
            show_default=False,
        ),
    ] = None
    mean: Mean = None
    std: Std = None

    @property
    def pixels(self) -> Normalization | None:
        """How they are normalized."""
        return normalization(self.mean, self.std)

    @property
    def given_names(self) -> tuple[str, ...]:
        """Names of classes from --class-names; empty without it."""
        from mcutrain.data import read_names

        return () if self.class_names is None else tuple(read_names(self.class_names))

    def names(self, step: TrainingStep) -> tuple[str, ...]:
        """Names of the step's classes: those given, or those of the model's file."""
        from mcutrain.functions.planning import names_of

        return names_of(step, self.given_names)


@dataclass(frozen=True)
class PartFlags:
    """Flags of the part of the network that is written, and of where it is cut."""

    part: Annotated[
        Literal["whole", "tail", "front"],
        typer.Option(
            help="tail is only what lies behind the latent, what the layers before the first "
            "trained one make of a sample: it takes latents for samples. front writes a model file "
            "of those layers alone, for whatever runtime makes the latents.",
        ),
    ] = "whole"
    latent: Annotated[
        str | None,
        typer.Option(
            metavar="auto|TENSOR",
            help="Functions that begin a step with its latent, and one that computes it; a board's "
            "firmware takes latents over its line, too. With --part tail or front, where the "
            "network is cut.",
            show_default=False,
        ),
    ] = None

    @property
    def is_tail(self) -> bool:
        """Whether what lies before the latent is left out."""
        return self.part == "tail"

    @property
    def begins_with(self) -> str | None:
        """The latent that functions begin a step with; a tail begins with its own anyway."""
        return None if self.is_tail else self.latent

    def of(self, step: options.StepRequest) -> options.StepRequest:
        """The step, cut so."""
        part: Literal["whole", "tail"] = "tail" if self.is_tail else "whole"
        return step.having(part=part, latent=self.latent or options.AUTO)


@dataclass(frozen=True)
class TimeFlags(options.AdaptiveFlags):
    """Flags of steps that choose what they train, or say what each node takes."""

    profile: options.Profile = None
    timed: Annotated[
        bool,
        typer.Option(
            "--timed",
            help="With --board: firmware that looks at the clock around each node, for "
            "`mcutrain profile DIR --port P`.",
        ),
    ] = False

    def check(self, target: Target | None) -> None:
        """Raise typer.BadParameter for flags that do not go together."""
        if self.profile is not None and not self.elastic:
            raise typer.BadParameter("is for --elastic: give that, too", param_hint="--profile")
        if self.timed and target is None:
            raise typer.BadParameter(
                "is of a board's clock: give --board, too", param_hint="--timed"
            )

    def of(self, step: options.StepRequest) -> options.StepRequest:
        """The step with them."""
        return super().of(step).having(elastic=self.elastic or self.timed)

    def times(self, step: TrainingStep, target: Target | None) -> ElasticTimes | None:
        """Return what the tensors take among which the program chooses; None if it does not."""
        from mcutrain.functions.planning import elastic_times

        return elastic_times(step, target, self.profile) if self.elastic else None

    def timing(self, step: TrainingStep, target: Target | None) -> Timing | None:
        """Return how the program times its nodes; None without --timed."""
        from mcutrain.cost.profile import timing_of

        return None if target is None or not self.timed else timing_of(step.plan, target.isa)


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
    scheme: options.PlannedScheme = None,
    *,
    hardware: options.BoardFlags,
    classes: options.Classes = options.KEEP,
    modules: MadeFlags,
    step_flags: options.StepFlags,
    seed: options.Seed = 0,
    no_qas: options.NoQas = False,
    program: ProgramFlags,
    cut: PartFlags,
    timing: TimeFlags,
    remember: options.Remember = 0,
    ladder: options.LadderFlags,
    json: options.Json = False,
) -> None:
    """Write a C project that infers and trains: C11, static memory, no dependencies.

    With --board it is the whole firmware of a board, otherwise a library for firmware of your own,
    in C or C++: one include folder, a Makefile, a CMakeLists.txt that is also a component of
    ESP-IDF, a library.properties for Arduino and PlatformIO, and a program to start from.

    Example: `mcutrain generate model.tflite --scheme last:6 --classes 10 -o project`

    Example: `mcutrain generate model.tflite --scheme last:6 --part front -o front.tflite`
    """
    from mcutrain.codegen import Interface, check_isa, check_package
    from mcutrain.functions.automatic import MemoryLimit
    from mcutrain.functions.planning import on_board, with_fewer_rows, write_project

    flags = step_flags.asked(scheme or (HEAD if modules.imprint else ""), no_qas)
    if cut.part == "front":
        others = given(hardware, program, timing, ladder)
        if remember:
            others.append("--remember")
        others += [
            name for name in ("--pet", "--head-start", "--imprint") if name in given(modules)
        ]
        _check_front(others, output)
        flags = replace(flags, scheme=flags.scheme or HEAD)
        step = flags.prepare(load_model(model), options.new_classes(classes))
        _write_front(step, cut.latent or options.AUTO, output, json)
        return
    target = hardware.target
    check_isa(program.isa, target)
    check_package(program.package, target)
    timing.check(target)
    flags = replace(ladder.of(timing.of(cut.of(flags))), pet=modules.pet)
    fixed = {
        "--pet": modules.pet,
        "--proxies": ladder.proxies,
        "--add-class": step_flags.add_class,
    }
    modules.check(flags.scheme or (HEAD if any(fixed.values()) else options.AUTO))
    graph, put, split = _graph(model, modules, program.pixels, seed)
    choosing = Choosing(graph, None, MemoryLimit.of(target), seed, json)
    flags = with_scheme(
        flags, choosing, classes, modules.to_choose_by(flags.scheme), fixed, program.pixels
    )
    flags, wanted = replace(flags, put=put), options.new_classes(classes)
    start = _head_start(graph, split, wanted, modules, program, seed)
    step = flags.prepare(graph, wanted, seed, start)
    centre = () if split is None else _centre(graph, split, modules, program, seed)
    if modules.imprint and wanted is not None and modules.head_start == "zeros":
        say(
            "mcutrain: note: the new classifier begins with zeros, and a class that is imprinted "
            "beside rows of zeros gets zeros: train it first, or give --head-start prototypes"
        )
    interface = Interface(
        program.prefix,
        program.names(step),
        program.pixels,
        cut.begins_with,
        remember,
        timing.times(step, target),
        timing.timing(step, target),
        centre=centre,
        isa=program.isa,
        package=program.package,
    )
    if flags.stream == options.AUTO:
        step = with_fewer_rows(step, target, interface)
    target = on_board(target, step, interface)
    with writing(output):
        found = write_project(step, target, interface, output)
    if json:
        show_json(found.to_dict())
    else:
        _show(found, program)


def _show(found: Generated, program: ProgramFlags) -> None:
    """What was written, what it takes, and what to do with it."""
    step, target = found.plan.step, found.plan.board
    _show_files(found, program.prefix)
    show(
        f"{step.plan.arena_bytes:,} bytes of arena, {step.plan.state_bytes:,} of state, "
        f"{step.plan.constant_bytes:,} of constants."
    )
    if step.plan.training.is_tail:
        show(
            f"It takes latents for samples: {step.plan.training.x}, {step.input_type.size_bytes:,} "
            "bytes. What makes them, with the same flags of the step: --part front."
        )
    if target is None:
        _show_library(found, program)
    else:
        _show_firmware(found, target)


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


def _show_ring(found: Generated) -> None:
    """What it remembers, if it does."""
    if found.plan.ring is not None and (ring := found.plan.ring.summary()):
        show(ring)


def _show_library(found: Generated, program: ProgramFlags) -> None:
    from mcutrain.codegen import taken

    _show_ring(found)
    names = [row.name for row in taken(program.isa)]
    if len(names) > 1:
        show(f"Kernels for {', '.join(names)}: the compiler's macros choose, by src/mct_isa.h.")
    prefix = program.prefix
    header = found.folder / "src" / f"{prefix}_model.h"
    if program.package:
        readme = found.folder / "README.md"
        show(f"How to build it stands in {readme}, how to call it at the top of {header}.")
        return
    show(f"How to call it stands at the top of {header}. To build lib{prefix}.a:")
    show(f"    make -C {shlex.quote(str(found.folder))}")


def _show_firmware(found: Generated, target: Target) -> None:
    from mcutrain.cost.time import step_time
    from mcutrain.functions.planning import board_facts

    step = found.plan.step
    if target.ram is not None:
        needs = target.sram_bytes(step.plan.arena_bytes, step.plan.resident_bytes)
        show(
            f"With stack and firmware {needs:,} of {target.ram.size_bytes:,} bytes of SRAM of "
            f"{target.title}."
        )
    took = step_time(step.plan, target)
    if took is not None:
        show(f"A step takes {took.text}: {took.reason}.")
    _show_ring(found)
    why_no_saves = board_facts(step, target)["why_no_saves"]
    if why_no_saves:
        show(f"It saves nothing: {why_no_saves}; {FORGETS}.")
    show("To build the firmware:")
    show(f"    mcutrain build {shlex.quote(str(found.folder))}")


def _graph(
    model: Path, flags: MadeFlags, pixels: Normalization | None, seed: int
) -> tuple[Graph, PutModules | None, Split | None]:
    """The model, with modules of --pet, and samples as `augment` and `simulate` read them."""
    from mcutrain.runs.training import model_input

    graph, wanted = load_model(model), wanted_modules(model, flags.pet, flags.save_model)
    if wanted is None or not wanted.specs:
        if flags.data is None or not flags.needs_samples:
            return graph, None, None
        source = DataSource(flags.data, None, None, TEST_SHARE, pixels, seed)
        return graph, None, source.read(model_input(graph))
    if flags.data is None or flags.save_model is None:
        raise typer.BadParameter(
            "puts modules in: give --data, training samples that they are made of, and "
            "--save-model, the file from which what they learn is exported",
            param_hint="--pet",
        )
    check_writable(flags.save_model)
    wanted.outline(graph)  # or a sentence, before samples are read
    source = DataSource(flags.data, None, None, TEST_SHARE, pixels, seed)
    split = source.read(model_input(graph))
    return *with_modules(graph, wanted, split, source, flags.save_model), split


def _head_start(
    graph: Graph,
    split: Split | None,
    classes: int | None,
    flags: MadeFlags,
    program: ProgramFlags,
    seed: int,
) -> HeadStart | None:
    """Make the start of a new head. Classes of the samples are in the order of the outputs."""
    from mcutrain.functions.planning import start_of_samples

    names = program.given_names
    return start_of_samples(
        flags.head_start, graph, split, classes, program.pixels, seed, class_names=names
    )


def _centre(
    graph: Graph, split: Split, flags: MadeFlags, program: ProgramFlags, seed: int
) -> tuple[int, ...]:
    """Return the centre of the features around which classes are imprinted; empty without
    --imprint.
    """
    from mcutrain.runs.head_start import centre_of_samples

    return centre_of_samples(graph, split, program.pixels, seed) if flags.imprint else ()


def _check_front(flags: Sequence[str], output: Path) -> None:
    """Raise an error for a flag of a project, or where no front can be written.

    flags: all of them that are given.
    """
    from mcutrain.formats import format_of

    for flag in flags:
        kind = "for no board" if flag in ("--board", "--slots") else "not a project"
        raise typer.BadParameter(
            f"a front is a model file, {kind}: leave this out", param_hint=flag
        )
    format_of(output)
    check_writable(output)


def _write_front(step: TrainingStep, latent: str, output: Path, json: bool) -> None:
    """The model file of --part front."""
    from mcutrain.functions.planning import write_front

    found = write_front(step, latent, output)
    if json:
        show_json(found.to_dict())
        return
    show(f"{output}: {found.size_bytes:,} bytes, the front up to {found.latent}")
    for name, kind in (("input", found.x), ("output", found.y)):
        shape = " × ".join(map(str, kind.shape[1:]))
        show(f"  {name:8}int8 {shape}, scale {kind.scale:.9g}, zero point {kind.zero_point}")
    if found.other_bits:
        say(f"mcutrain: note: {found.other_bits}")

"""The C of a training step: a firmware, a library, or a model file of the front."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path

from mcutrain_host.dataclass import dataclass
from mcutrain_host.files import unwritable

from mcutrain.arguments import Count, PathLike, Seed, checked
from mcutrain.codegen import Interface, check_isa, check_package
from mcutrain.cost.budget import program_estimates
from mcutrain.cost.instructions import USUAL_ISA
from mcutrain.cost.ladder import front_costs
from mcutrain.cost.profile import timing_of
from mcutrain.data import Data, Normalization, Outputs, Split
from mcutrain.errors import ArgumentError, McutrainError, OptionError
from mcutrain.features import program_choices
from mcutrain.formats import format_of, write
from mcutrain.functions.automatic import AUTO
from mcutrain.functions.chosen import Choosing, planned_step, read, with_scheme, with_targets
from mcutrain.functions.keywords import Keywords, given_of, with_keywords
from mcutrain.functions.listener import SILENT, Listener
from mcutrain.functions.loading import loaded
from mcutrain.functions.memory_limit import MemoryLimit
from mcutrain.functions.modules import wanted_modules, with_modules
from mcutrain.functions.options import (
    BoardOptions,
    GeneratedRequest,
    HeadOptions,
    Modules,
    ProgramOptions,
    ProxyCascade,
)
from mcutrain.functions.planning import (
    Model,
    Planned,
    elastic_times,
    facts,
    fixed_of,
    listening_of,
    on_board,
    ring_of,
    with_fewer_rows,
)
from mcutrain.functions.preparing import HEAD, Asked, Scheme, with_frontend
from mcutrain.functions.run_options import ColumnOptions, normalization_of
from mcutrain.ir.graph import Graph, TensorType
from mcutrain.memplan import check_board
from mcutrain.modules import Pet
from mcutrain.pipeline import TrainingStep, front_of
from mcutrain.pipeline.losses import fit_classes
from mcutrain.pipeline.recipe import PutModules
from mcutrain.quant import HeadStart
from mcutrain.runs.head_start import PROTOTYPES, ZEROS, Start, centre_of_samples, head_start_of
from mcutrain.shown import Record, Shown
from mcutrain.target import Target

FRONT = "front"
NOTHING_BESIDE = (
    "the new classifier begins with zeros, so an imprinted class would get zeros, too: train "
    "it first, or give --head-start prototypes"
)


@dataclass(frozen=True)
class Front:
    """A file that makes latents of samples. x, y: types of both, int8.

    other_bits: why mcutrain, reading the file back, computes other bits; empty if it does not.
    """

    path: Path
    size_bytes: int
    latent: str
    x: TensorType
    y: TensorType
    other_bits: str = ""

    def to_dict(self) -> Record:
        """Return it as `mcutrain generate --part front --json` prints it."""
        edges = {
            name: {"shape": list(t.shape), "scale": t.scale, "zero_point": t.zero_point}
            for name, t in (("input", self.x), ("output", self.y))
        }
        return {
            "file": str(self.path),
            "bytes": self.size_bytes,
            "latent": self.latent,
            **edges,
            "other_bits_because": self.other_bits or None,
        }


@dataclass(frozen=True, repr=False)
class Generated(Shown):
    """A C project that was written, or a model file of the front.

    files: name → its bytes. front: what the model file is, if it is one.
    """

    folder: Path
    files: dict[str, int]
    plan: Planned
    front: Front | None = None

    def summary(self) -> str:
        """Return a line that describes it."""
        size = sum(self.files.values())
        return f"{self.folder}, {len(self.files)} files of {size:,} bytes; {self.plan.summary()}"

    def records(self) -> list[Record]:
        """Every file."""
        return [{"file": name, "bytes": size} for name, size in self.files.items()]

    def to_dict(self) -> Record:
        """Return it as `mcutrain generate --json` prints it."""
        if self.front is not None:
            return self.front.to_dict()
        plan, ring = facts(self.plan.step), self.plan.ring
        more = {} if ring is None else {"ring": asdict(ring)}
        if self.plan.listening is not None:
            more["listening"] = asdict(self.plan.listening)
        return {"folder": str(self.folder), "files": self.files, "plan": plan, **more}


@with_keywords
@checked
def generate(
    model: Model,
    output: PathLike,
    scheme: Scheme | None = None,
    *,
    classes: Count | None = None,
    request: GeneratedRequest = GeneratedRequest(),
    hardware: BoardOptions = BoardOptions(),
    head: HeadOptions = HeadOptions(),
    program: ProgramOptions = ProgramOptions(),
    data: Data | None = None,
    columns: ColumnOptions = ColumnOptions(),
    normalization: Normalization | None = None,
    save_model: PathLike | None = None,
    seed: Seed = 0,
    listener: Listener = SILENT,
) -> Generated:
    """Write a C project that infers and trains: C11, static memory, no dependencies.

    Fields of request, hardware, head and program are keywords, too; mcutrain.functions.options
    explains each.

    model, scheme, classes: as `plan` takes them.
    output: the folder; an earlier project there is replaced. With part front it is a file, .tflite
        or .onnx.
    request: how the step learns, and which part of the network the project is of. latent is auto or
        a tensor's name: functions begin a step with it, or a tail does; see
        mcutrain.memplan.find_latent. remember: so many latents are kept in a ring in the slots of a
        board's firmware, which trains on them again. With some, latent is auto by default.
    hardware: board is the board whose whole firmware is written, or, where mcutrain has no firmware
        for it, a package that fits it. Without a board the project is a library for firmware of
        your own.
    head: head_start says what a new head starts from. imprint adds functions that give a class its
        weights from a few samples without training, around the centre of data. Beside rows of zeros
        a class gets zeros, so train a new head first, or begin it with prototypes.
    program: how names begin (prefix), the instruction set (isa) and the build system (package),
        features besides the step, and what the program knows of its classes and pixels
        (class_names, mean, std). normalization replaces mean and std.
    data: samples for the choice of the scheme, for modules of pet, for prototypes and for a centre.
    columns: which column of data keeps groups in one part (split_by) or has the labels
        (label_column), as `simulate` takes them.
    save_model: the file for the model with the modules of pet.
    seed: of random weights.
    listener: hears notes and progress; by default notes are Python warnings.

    Raises PlanError if the board has too little SRAM; ModelError, SchemeError, TargetError,
    ArgumentError; McutrainError if the folder cannot be written.

    >>> generate("model.int8.tflite", "project", "last:3", classes=10)
    """
    if request.part == FRONT:
        _check_front(request, hardware, head, program)
        return _front(model, Path(output), scheme, classes, request, listener)
    pixels = normalization or normalization_of(program.mean, program.std)
    target = hardware.target
    program = _packaged(program, target)
    _check_times(request, target)
    centre: tuple[int, ...] = ()
    if isinstance(model, TrainingStep):
        _check_made(head, data)
        step = model
    else:
        file = None if save_model is None else Path(save_model)
        pet = wanted_modules(model, request.pet, file)
        graph = with_frontend(loaded(model, listener), program.frontend)
        making = _Making(graph, request, head, data, columns, pet, file, pixels, seed, listener)
        step, centre = making.step(
            scheme, classes, MemoryLimit.of(target), program.class_names or ()
        )
    interface = _interface(step, request, program, pixels, target, centre)
    if request.stream == AUTO and not isinstance(model, TrainingStep):
        step = with_fewer_rows(step, target, interface)
    if target is None or not target.has_firmware:
        interface = replace(interface, estimates=program_estimates(step.plan, program.isa))
    return write_project(step, on_board(target, step, interface), interface, Path(output))


def _packaged(program: ProgramOptions, target: Target | None) -> ProgramOptions:
    """Return what the program is, with the package that a board without firmware asks for.

    Raises McutrainError for an unknown instruction set or package, or for a choice that the board
    has made.
    """
    firmware = target if target is not None and target.has_firmware else None
    if target is not None and not target.has_firmware:
        program = replace(program, package=program.package or target.package)
    check_isa(program.isa, firmware)
    check_package(program.package, firmware)
    return program


def _check_made(head: HeadOptions, data: Data | None) -> None:
    """Raise ArgumentError for what a step that is made already cannot be made with."""
    if data is not None or head != HeadOptions():
        raise ArgumentError(
            "a step of `prepare` has its head already: give the model instead, or leave out data "
            "and head_start"
        )


def _check_front(
    request: GeneratedRequest, hardware: BoardOptions, head: HeadOptions, program: ProgramOptions
) -> None:
    """Raise ArgumentError for options of a project, which a front is not."""
    own = {"elastic", "swap", "profile", "timed", "remember"}
    own |= {each.name for kind in (Modules, ProxyCascade) for each in fields(kind)}
    found: list[tuple[Keywords, str]] = [(hardware, name) for name in given_of(hardware)]
    found += [(request, name) for name in given_of(request) if name in own]
    found += [(each, name) for each in (head, program) for name in given_of(each)]
    for options, name in found:
        kind = "for no board" if options is hardware else "not a project"
        raise OptionError(name, f"a front is a model file, {kind}: leave this out")


def _front(
    model: Model,
    output: Path,
    scheme: Scheme | None,
    classes: int | None,
    request: GeneratedRequest,
    listener: Listener,
) -> Generated:
    """Write the model file of the front."""
    format_of(output)
    if isinstance(model, TrainingStep):
        step = model
    else:
        asked = Asked.of(request, scheme or HEAD, part="whole", latent=AUTO)
        step = planned_step(asked, loaded(model, listener), classes, listener)
    found = write_front(step, request.latent or AUTO, output)
    return Generated(output.parent, {output.name: found.size_bytes}, Planned(step), found)


def _check_times(request: GeneratedRequest, target: Target | None) -> None:
    """Raise ArgumentError for options that do not go together."""
    if request.profile is not None and not request.elastic:
        raise OptionError("profile", "is for --elastic: give that, too")
    if request.timed and target is None:
        raise OptionError("timed", "needs a board's clock: give --board, too")
    if request.timed and target is not None and not target.has_firmware:
        raise OptionError(
            "timed",
            f"needs firmware of mcutrain, which there is not for {target.name}: leave it out",
        )


def _interface(
    step: TrainingStep,
    request: GeneratedRequest,
    program: ProgramOptions,
    pixels: Normalization | None,
    target: Target | None,
    centre: tuple[int, ...],
) -> Interface:
    """Return what a program is called by and knows, besides its step."""
    is_unnamed = program.class_names is not None and not program.class_names
    times = timing = None
    if request.elastic or not request.timed:
        profile = None if request.profile is None else Path(request.profile)
        times = elastic_times(step, target, profile)
    if request.timed and target is not None:
        timing = timing_of(step.plan, target.costs)
    return Interface(
        program.prefix,
        () if is_unnamed else names_of(step, program.class_names or ()),
        pixels,
        None if request.part == "tail" else request.latent,
        request.remember,
        times,
        timing,
        centre=centre,
        isa=program.isa,
        package=program.package,
        **program_choices(program),
    )


@dataclass(frozen=True)
class _Making:
    """How a step for a project is made of a model, and what is made of samples for it."""

    graph: Graph
    request: GeneratedRequest
    head: HeadOptions
    data: Data | None
    columns: ColumnOptions
    pet: Pet | None
    save_model: Path | None
    pixels: Normalization | None
    seed: int
    listener: Listener

    @property
    def needs_samples(self) -> bool:
        """Whether what the classifier reads of samples is part of the program."""
        return self.head.imprint or self.head.head_start == PROTOTYPES

    def step(
        self,
        scheme: Scheme | None,
        classes: int | None,
        memory: MemoryLimit,
        class_names: Sequence[str],
    ) -> tuple[TrainingStep, tuple[int, ...]]:
        """Return the planned step, and the centre of the features; empty without imprint."""
        request, head = self.request, self.head
        fixed = fixed_of(request)
        self._check(scheme or (HEAD if any(fixed.values()) else AUTO))
        graph, split, put = self._with_modules()
        asked = replace(self._asked, put=put)
        asked, classes = with_targets(
            asked, graph, scheme, classes, self.data, self.listener, self.seed, self.columns
        )
        choosing = Choosing(graph, classes, memory, self.seed, self.listener)
        data = None if scheme is None and self.needs_samples else self.data
        asked = with_scheme(asked, choosing, scheme, data, fixed, self.pixels, self.columns)
        start = start_of_samples(
            head.head_start, graph, split, classes, self.pixels, self.seed, class_names=class_names
        )
        step = planned_step(asked, graph, classes, self.listener, self.seed, start)
        if not head.imprint or split is None:
            return step, ()
        if classes is not None and head.head_start == ZEROS:
            self.listener.detail(NOTHING_BESIDE)
        return step, centre_of_samples(graph, split, self.pixels, self.seed)

    @property
    def _asked(self) -> Asked:
        """What is asked for, without a scheme."""
        request, is_tail = self.request, self.request.part == "tail"
        return Asked.of(
            request,
            part="tail" if is_tail else "whole",
            latent=request.latent or AUTO if is_tail else AUTO,
            elastic=request.elastic or request.timed,
        )

    @property
    def _puts_modules(self) -> bool:
        return self.pet is not None and bool(self.pet.specs)

    def _check(self, scheme: Scheme) -> None:
        """Raise ArgumentError for samples of which nothing is made, or that are missing."""
        is_read = self._puts_modules or self.needs_samples or scheme == AUTO
        if self.data is not None and not is_read:
            raise OptionError(
                "data",
                "is read for --scheme auto, for modules of --pet, for --head-start "
                "prototypes and for --imprint: give one of these, or leave it out",
            )
        if self.data is None and self.head.imprint:
            raise OptionError("imprint", "needs the centre of samples: give --data, too")
        if self.data is None and self.needs_samples:
            raise OptionError("head_start", "prototypes are means of samples: give --data, too")

    def _with_modules(self) -> tuple[Graph, Split | None, PutModules | None]:
        """Return the model, with modules if they are put in, and samples that are needed."""
        if self.pet is None or not self._puts_modules:
            is_read = self.data is not None and self.needs_samples
            return self.graph, self._split() if is_read else None, None
        if self.data is None or self.save_model is None:
            raise OptionError(
                "pet",
                "makes modules from samples: give --data, training samples, and "
                "--save-model, the file with modules from which `mcutrain export` starts",
            )
        self.pet.outline(self.graph)  # fail before samples are read
        split = self._split()
        graph, put = with_modules(
            self.graph, self.pet, split, self.pixels, self.seed, self.save_model, self.listener
        )
        return graph, split, put

    def _split(self) -> Split:
        assert self.data is not None, "there are samples"
        return read(self.graph, self.data, self.listener, self.seed, self.columns)


def start_of_samples(
    start: Start,
    graph: Graph,
    split: Split | None,
    classes: int | None,
    normalization: Normalization | None,
    seed: int,
    *,
    class_names: Sequence[str] = (),
) -> HeadStart | None:
    """What a new head starts from, of samples whose labels may be in another order than outputs.

    class_names: of the outputs, if they are known. Raises SchemeError, DataError.
    """
    if classes is not None and split is not None and start == PROTOTYPES:
        split = fit_classes(graph, split, classes, class_names).split
    return head_start_of(start, graph, split, classes, normalization, seed)


def names_of(step: TrainingStep, given: Sequence[str] = ()) -> tuple[str, ...]:
    """Return names of a step's classes: those given, completed by added ones; else the step's own.

    Its own are those of the model's file, if the classifier stays. Raises McutrainError if there is
    not one for each.
    """
    learns = step.plan.training
    if not learns.has_labels:
        return tuple(given)
    if not given:
        return step.graph.class_names
    added = () if step.recipe is None else step.recipe.options.added
    return Outputs.of(learns.classes, (), given, added).names


def write_project(
    step: TrainingStep, target: Target | None, interface: Interface, folder: Path
) -> Generated:
    """Write the project of a step that is planned."""
    costs = front_costs(step.plan, USUAL_ISA if target is None else target.costs)
    interface = replace(interface, fronts=costs)
    if target is None or not target.has_firmware:
        if target is not None:
            listening = listening_of(step, target, interface.history)
            check_board(step.plan, target, 0 if listening is None else listening.sram_bytes)
        project = step.library(interface)
    else:
        project = step.firmware(target, interface)
    try:
        project.write(folder)
    except OSError as error:
        raise McutrainError(f"cannot write {folder}: {unwritable(folder, error)}") from error
    sizes = {name: len(text.encode()) for name, text in project.files.items()}
    ring, listening = (
        ring_of(step, target, interface),
        listening_of(step, target, interface.history),
    )
    return Generated(folder, sizes, Planned(step, target, ring, listening))


def write_front(step: TrainingStep, latent: str, path: Path) -> Front:
    """Write the front of a whole step as a `.tflite` or `.onnx` file, as the name says.

    latent: auto or a tensor's name, as for the tail that takes what it makes. The file is read back
    before it takes its place. Raises PlanError, ModelError, UnsupportedError.
    """
    graph = front_of(step, latent)
    other_bits = write(graph, path)
    (x,), (y,) = graph.types(graph.inputs), graph.types(graph.outputs)
    return Front(path, path.stat().st_size, graph.outputs[0], x, y, other_bits)

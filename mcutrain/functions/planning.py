"""What a training step needs, and the C of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from mcutrain.arguments import Count, PathLike, Seed, checked
from mcutrain.codegen import Interface, check_isa, check_package, ring_bytes, with_latents
from mcutrain.cost.flash import code_sizes
from mcutrain.cost.instructions import USUAL_ISA
from mcutrain.cost.ladder import check_flash, front_costs, front_flash_bytes
from mcutrain.cost.memory import flash_bytes
from mcutrain.cost.profile import times_of
from mcutrain.cost.streaming import fit_rows
from mcutrain.cost.time import step_time
from mcutrain.data import Data, Normalization, Outputs, Split
from mcutrain.errors import ArgumentError, PlanError
from mcutrain.formats import write
from mcutrain.functions.preparing import with_qas
from mcutrain.ir.graph import Graph, TensorType
from mcutrain.memplan import (
    STEP,
    MemoryPlan,
    Stream,
    check_board,
    check_budget,
    find_latent,
    latents,
    state_parts,
)
from mcutrain.modules import parse_pet
from mcutrain.pipeline import MakesLadder, Part, StepOptions, TrainingStep, front_of, load, prepare
from mcutrain.pipeline.losses import fit_classes
from mcutrain.proxies import kept_ladder
from mcutrain.quant import HeadStart
from mcutrain.runs.head_start import PROTOTYPES, ZEROS, Start, centre_of_samples, head_start_of
from mcutrain.runs.training import load_data
from mcutrain.shown import Record, Shown
from mcutrain.sparse import UpdateScheme, as_scheme
from mcutrain.sparse.elastic import ElasticTimes
from mcutrain.target import RING_PLACE_BYTES, Slots, Target, target_of

Model = Graph | TrainingStep | PathLike
IMPRINT_PROGRAM_BYTES = 3072
"""Flash of a program that imprints: 2,040 to 2,904 bytes of code, and its features' centre."""
Scheme = UpdateScheme | PathLike


@dataclass(frozen=True)
class Ring:
    """What a ring of remembered latents takes.

    sram_bytes: of a library's memory; on a board of what the firmware takes. slot_bytes,
    program_bytes: of each of the two slots that hold it in flash, and what they leave there; None
    for a library.
    """

    latents: int
    latent_bytes: int
    sram_bytes: int
    slot_bytes: int | None = None
    program_bytes: int | None = None

    def summary(self) -> str:
        """Return a sentence that describes it."""
        of = f"ring of {self.latents:,} latents"
        if self.program_bytes is None:
            return f"{self.sram_bytes:,} bytes of SRAM besides, for the {of}."
        return (
            f"The {of} takes {self.sram_bytes:,} bytes of the SRAM and, with the state, two slots "
            f"of {self.slot_bytes:,} bytes of flash, which leave {self.program_bytes:,} to the "
            "program."
        )


def _buffers(arena: MemoryPlan) -> list[Record]:
    return [
        {
            "buffer": b.name,
            "bytes": b.size_bytes,
            "offset": arena.offsets[b.name],
            "first_step": b.first,
            "last_step": b.last,
        }
        for b in arena.buffers
    ]


@dataclass(frozen=True, repr=False)
class Planned(Shown):
    """The memory of a training step, and of the firmware of a board that runs it.

    board: if one was given.
    ring: of latents, where some are remembered.
    """

    step: TrainingStep
    board: Target | None = None
    ring: Ring | None = None

    @property
    def arena_bytes(self) -> int:
        """Activations, gradients and scratch."""
        return self.step.plan.arena_bytes

    @property
    def state_bytes(self) -> int:
        """What training changes."""
        return self.step.plan.state_bytes

    @property
    def sram_bytes(self) -> int:
        """Arena and state; with a board all that its firmware takes, stack included."""
        if self.board is None or self.board.ram is None:
            return self.step.plan.sram_bytes
        return self.board.sram_bytes(self.arena_bytes, self.step.plan.resident_bytes)

    def summary(self) -> str:
        """Return a line that describes it."""
        of = ""
        if self.board is not None and self.board.ram is not None:
            of = f" of the {self.board.ram.size_bytes:,} of {self.board.name}"
        return (
            f"{self.step.graph.name}, scheme {self.step.scheme.name}: {self.sram_bytes:,} bytes of "
            f"SRAM{of}, arena {self.arena_bytes:,}, state {self.state_bytes:,}"
        )

    def records(self) -> list[Record]:
        """Every buffer of the arena, with its life and place; with a ladder also whose it is."""
        plan = self.step.plan
        if plan.ladder is None:
            return _buffers(plan.arena)
        arenas = {STEP: plan.arena, **plan.front_arenas}
        return [
            {"front": name, **record}
            for name, arena in arenas.items()
            for record in _buffers(arena)
        ]

    def to_dict(self) -> Record:
        """As `mcutrain plan --json` prints it, without the file's name."""
        on_board = {} if self.board is None else {"board": board_facts(self.step, self.board)}
        ring = None if self.ring is None else asdict(self.ring)
        return {**facts(self.step), "ring": ring, **on_board}


@checked
def plan(
    model: Model,
    scheme: Scheme = "head",
    *,
    classes: Count | None = None,
    loss: Literal["cross-entropy", "mse", "auto"] = "auto",
    added: Sequence[str] = (),
    accumulate: Count = 1,
    gradient_dtype: Literal["int8", "int16"] = "int8",
    qas: bool = True,
    gate: float | None = None,
    elastic: bool = False,
    swap: Literal["", "drawn", "fisher"] = "",
    stream: Stream = "auto",
    part: Part = "whole",
    latent: str = "auto",
    sram: Count | None = None,
    board: PathLike | Target | None = None,
    slots: Slots = "on",
    remember: int = 0,
    pet: str | None = None,
    proxies: PathLike | None = None,
    drift: bool = False,
) -> Planned:
    """Plan the memory of a model's training step, byte by byte.

    model: a path, a graph of `load`, or a step of `prepare` (which then has all other choices).
    scheme … latent: as `prepare` takes them.
    sram: bytes that arena and state may take.
    board: a board's name or folder, whose firmware and stack count, too.
    slots: "off" gives the flash that would keep the trained state to the program.
    remember: latents in a ring, as `generate` takes it.
    pet: modules that are put in and trained, too, as `simulate` takes it.
    proxies: a folder of fronts, of which the program takes one for each sample, as `mcutrain
        proxies` wrote it.
    drift: as `prepare` takes it.

    Raises PlanError if it is more than `sram` or the board has; ModelError, SchemeError,
    TargetError, ArgumentError; McutrainError if `remember` is negative.

    >>> plan("model.int8.tflite", "last:3", board="nucleo-f446re").sram_bytes
    """
    target = target_of(board, slots)
    if pet is not None:
        if isinstance(model, TrainingStep):
            raise ArgumentError("a step of `prepare` has its modules already: leave out pet")
        wanted = parse_pet(pet)
        model = wanted.outline(model if isinstance(model, Graph) else load(model))
        scheme = wanted.scheme(as_scheme(scheme))
    options = StepOptions(
        gradient_dtype,
        accumulate,
        gate,
        elastic,
        swap,
        classes=classes,
        added=tuple(added),
        loss=loss,
        part=part,
        latent=latent,
        drift=drift,
    )
    step = _step(model, with_qas(scheme, qas), options, ladder=_ladder(proxies), stream=stream)
    interface = planned_interface(step, target, latent, remember)
    if stream == "auto" and not isinstance(model, TrainingStep):
        step = with_fewer_rows(step, target, interface, sram)
    is_kept = remember or interface.elastic is not None
    target = on_board(target, step, interface) if is_kept else target
    if sram is not None:
        check_budget(step.plan, sram)
    if target is not None:
        check_board(step.plan, target)
    return Planned(step, target, ring_of(step, target, interface))


@dataclass(frozen=True, repr=False)
class Generated(Shown):
    """A C project that was written.

    files: name → its bytes.
    """

    folder: Path
    files: dict[str, int]
    plan: Planned

    def summary(self) -> str:
        """Return a line that describes it."""
        size = sum(self.files.values())
        return f"{self.folder}, {len(self.files)} files of {size:,} bytes; {self.plan.summary()}"

    def records(self) -> list[Record]:
        """Every file."""
        return [{"file": name, "bytes": size} for name, size in self.files.items()]

    def to_dict(self) -> Record:
        """As `mcutrain generate --json` prints it."""
        plan, ring = facts(self.plan.step), self.plan.ring
        more = {} if ring is None else {"ring": asdict(ring)}
        return {"folder": str(self.folder), "files": self.files, "plan": plan, **more}


@checked
def generate(
    model: Model,
    output: PathLike,
    scheme: Scheme = "head",
    *,
    board: PathLike | Target | None = None,
    slots: Slots = "on",
    classes: Count | None = None,
    loss: Literal["cross-entropy", "mse", "auto"] = "auto",
    added: Sequence[str] = (),
    head_start: Literal["zeros", "random", "prototypes"] = "zeros",
    imprint: bool = False,
    data: Data | None = None,
    seed: Seed = 0,
    accumulate: Count = 1,
    gradient_dtype: Literal["int8", "int16"] = "int8",
    qas: bool = True,
    gate: float | None = None,
    elastic: bool = False,
    swap: Literal["", "drawn", "fisher"] = "",
    stream: Stream = "auto",
    part: Part = "whole",
    prefix: str = "mct",
    isa: str = "all",
    package: str = "",
    class_names: Sequence[str] | None = None,
    normalization: Normalization | None = None,
    latent: str | None = None,
    remember: int = 0,
    proxies: PathLike | None = None,
    drift: bool = False,
) -> Generated:
    """Write a C project that infers and trains: C11, static memory, no dependencies.

    model … part: as `plan` takes them.
    output: the folder; an earlier project there is replaced.
    board: the board whose whole firmware is written. Without it, a library for firmware of your
        own.
    slots: as `plan` takes it; with "off" what a board learns does not survive a power cut.
    seed: of random weights.
    head_start: of a new head, as `simulate` takes it; prototypes are made of the training samples
        of data.
    imprint: add functions that give a class its weights from a few samples, without training,
        around the centre of data. Beside rows of zeros a class gets zeros, so train a new head
        before, or begin it with prototypes.
    prefix: what the library's names begin with.
    isa: the one instruction set that it has kernels for: portable, dsp, helium, armv6m or host. all
        takes those for chips along, and the compiler chooses by the processor that it compiles for.
    package: the build system that the library is a package for: arduino, cmake, cmsis-pack,
        esp-idf, pico-sdk, platformio or zephyr. Empty: files that several of them take.
    class_names: for the program, and for data that it learns; by default those of the model's file,
        if the classifier stays.
    normalization: of its pixels.
    latent: auto or a tensor's name, for functions that begin a step with it, or what a tail begins
        with; see mcutrain.memplan.find_latent.
    remember: latents in the ring that a board's firmware keeps in its slots and trains on again.
        With some, latent is auto by default.
    proxies, drift: as `plan` takes them.

    Raises PlanError if the board has too little SRAM; ModelError, SchemeError, TargetError,
    ArgumentError; McutrainError if the folder cannot be written.

    >>> generate("model.int8.tflite", "project", "last:3", classes=10)
    """
    target = target_of(board, slots)
    check_isa(isa, target)
    check_package(package, target)
    is_tail = part == "tail"
    needs_data = head_start == PROTOTYPES or imprint
    made = None
    if needs_data or head_start != ZEROS or data is not None:
        made = _made(model, data, normalization, seed, needs_data)
    start = None if made is None else made.start(head_start, classes, class_names or ())
    centre = made.centre if made is not None and imprint else ()
    model = model if made is None else made.graph
    options = StepOptions(
        gradient_dtype,
        accumulate,
        gate,
        elastic,
        swap,
        classes=classes,
        added=tuple(added),
        loss=loss,
        part=part,
        latent=latent or "auto" if is_tail else "auto",
        drift=drift,
    )
    step = _step(
        model,
        with_qas(scheme, qas),
        options,
        ladder=_ladder(proxies),
        head_start=start,
        head_seed=seed,
        stream=stream,
    )
    is_unnamed = class_names is not None and not class_names
    names = () if is_unnamed else names_of(step, class_names or ())
    begin, times = None if is_tail else latent, elastic_times(step, target)
    interface = Interface(
        prefix,
        names,
        normalization,
        begin,
        remember,
        times,
        centre=centre,
        isa=isa,
        package=package,
    )
    if stream == "auto" and not isinstance(model, TrainingStep):
        step = with_fewer_rows(step, target, interface)
    return write_project(step, on_board(target, step, interface), interface, Path(output))


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


@dataclass(frozen=True)
class _Samples:
    """A model, which is read but once, and samples that something is made of, if it is."""

    graph: Graph
    split: Split | None
    normalization: Normalization | None
    seed: int

    def start(
        self, start: Start, classes: int | None, class_names: Sequence[str]
    ) -> HeadStart | None:
        """Return what a new head starts from."""
        facts = (start, self.graph, self.split, classes, self.normalization, self.seed)
        return start_of_samples(*facts, class_names=tuple(class_names))

    @property
    def centre(self) -> tuple[int, ...]:
        """Return the centre of the classifier's features."""
        assert self.split is not None, "imprint needs data"
        return centre_of_samples(self.graph, self.split, self.normalization, self.seed)


def _made(
    model: Model,
    data: Data | None,
    normalization: Normalization | None,
    seed: int,
    needs_data: bool,
) -> _Samples:
    """Read samples for the start of a head and for a centre. needs_data: whether either is
    wanted.
    """
    if data is not None and not needs_data:
        raise ArgumentError(
            "data is what prototypes and a centre are made of: give head_start or imprint, too"
        )
    if data is None and needs_data:
        raise ArgumentError("prototypes, and the centre of imprint, are of samples: give data, too")
    if isinstance(model, TrainingStep):
        raise ArgumentError("the step is made already: give the model, or leave out head_start")
    graph = model if isinstance(model, Graph) else load(model)
    split = None if data is None else load_data(graph, data, seed=seed)
    return _Samples(graph, split, normalization, seed)


def planned_interface(
    step: TrainingStep, target: Target | None, latent: str, remember: int
) -> Interface:
    """Return what `plan` knows of a program: as far as its memory depends on it."""
    is_named = latent != "auto" and not step.plan.training.is_tail
    return Interface(
        remember=remember,
        latent=latent if is_named else None,
        elastic=elastic_times(step, target),
    )


def with_fewer_rows(
    step: TrainingStep, target: Target | None, interface: Interface, sram: int | None = None
) -> TrainingStep:
    """The step with as little computed row by row as its board, or `sram`, allows.

    Raises as `on_board` does.
    """
    board = on_board(target, step, interface)
    limits = [sram, None if board is None else board.step_bytes()]
    return fit_rows(step, min((limit for limit in limits if limit is not None), default=None))


def on_board(target: Target | None, step: TrainingStep, interface: Interface) -> Target | None:
    """A board as the step's firmware uses it: with slots that hold what is to be remembered.

    Raises PlanError where there is nothing to remember, TargetError if it does not fit.
    """
    if interface.remember and not step.plan.training.is_tail:
        try:
            find_latent(step.plan, interface.latent or "auto")
        except PlanError as error:
            raise PlanError(f"--remember keeps latents, and {error}; or leave it out") from error
    if target is None:
        return None
    code = code_sizes(target.isa)
    program_bytes = 0 if code is None else flash_bytes(step.plan.training, code)
    program_bytes += sum(front_flash_bytes(step.plan, code))
    program_bytes += IMPRINT_PROGRAM_BYTES if interface.centre else 0
    check_flash(step.plan, target)
    return with_latents(target, step.plan, interface, program_bytes)


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
        """As `mcutrain generate --part front --json` prints it."""
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
    costs = front_costs(step.plan, USUAL_ISA if target is None else target.isa)
    interface = replace(interface, fronts=costs)
    project = step.library(interface) if target is None else step.firmware(target, interface)
    project.write(folder)
    sizes = {name: len(text.encode()) for name, text in project.files.items()}
    return Generated(folder, sizes, Planned(step, target, ring_of(step, target, interface)))


def ring_of(step: TrainingStep, target: Target | None, interface: Interface) -> Ring | None:
    """The ring of a step's project; None if it has none, or in a file.

    target: as `on_board` has it.
    """
    wanted, is_tail = interface.wanted_latent, step.plan.training.is_tail
    if not interface.remember or wanted is None:
        return None
    latent = step.input_type if is_tail else find_latent(step.plan, wanted).type
    found = Ring(interface.remember, latent.size_bytes, ring_bytes(step.plan, interface))
    if target is None:
        return found
    in_sram = replace(found, sram_bytes=RING_PLACE_BYTES * interface.remember)
    if target.flash is None:
        return None
    return replace(in_sram, slot_bytes=target.slot_bytes, program_bytes=target.flash.size_bytes)


def elastic_times(
    step: TrainingStep, target: Target | None, profile: Path | None = None
) -> ElasticTimes | None:
    """Return the times by which a program selects what it trains, on a board or a Cortex-M4 or M7.

    profile: a file that says them. None if the step trains all, always. Raises ModelError.
    """
    if not step.plan.training.elastic:
        return None
    return times_of(step.plan, USUAL_ISA if target is None else target.isa, profile)


def facts(step: TrainingStep) -> dict[str, Any]:
    """Return what a plan says, for JSON."""
    found, arena = step.plan, step.plan.arena
    live = arena.live_at(arena.peak_step)
    return {
        "model": step.graph.name,
        "scheme": step.scheme.name,
        "begins_with": found.training.x if found.training.is_tail else None,
        "classes": found.training.classes,
        "arena_bytes": found.arena_bytes,
        "arena_lower_bound_bytes": arena.lower_bound_bytes,
        "arena_is_smallest": arena.is_smallest,
        "state_bytes": found.state_bytes,
        "state": state_parts(step.plan),
        "sram_bytes": found.sram_bytes,
        "constant_bytes": found.constant_bytes,
        "streamed": [
            {
                "first_step": segment.first,
                "last_step": segment.last,
                "takes_rows_of_input": segment.is_fed,
                "rows_kept": {t.name: t.room for t in segment.tensors if t.is_ring},
            }
            for segment in found.segments
        ],
        "least": None if found.least is None else asdict(found.least),
        "latents": [
            {
                "tensor": latent.tensor,
                "bytes": latent.size_bytes,
                "steps_before": latent.position,
                "macs_before": latent.macs,
            }
            for latent in latents(found)
        ],
        "gate": None if found.training.gate is None else found.training.gate.alpha,
        "levels": level_facts(step),
        "elastic": _elastic_facts(step),
        "shelf": {
            "weights": [weight.shelf for weight in found.training.swapped],
            "bytes": found.shelf_bytes,
        }
        if found.training.shelf
        else None,
        "steps": len(found.nodes),
        "peak_step": arena.peak_step,
        "peak_node": found.nodes[arena.peak_step].name,
        "at_peak": [
            {"name": b.name, "bytes": b.size_bytes}
            for b in sorted(live, key=lambda b: (-b.size_bytes, b.name))
        ],
    }


def _elastic_facts(step: TrainingStep) -> dict[str, Any] | None:
    """Return what can be left out, and what takes which part of a step on a Cortex-M4 or M7."""
    times = elastic_times(step, None)
    if times is None:
        return None
    whole = times.forward + times.problem.backward_time
    return {
        "tensors": [tensor.name for tensor in step.plan.training.elastic],
        "step_instructions": whole,
        "least_share": (times.forward + times.problem.least_time) / whole,
    }


def level_facts(step: TrainingStep, isa: str = USUAL_ISA) -> dict[str, Any] | None:
    """What the fronts of a ladder take: the policy, and the levels, the whole front first."""
    ladder, levels = step.plan.ladder, step.plan.training.levels
    if ladder is None or levels is None:
        return None
    policy, whole, *proxies = (asdict(cost) for cost in front_costs(step.plan, isa))
    arenas = [front.arena.arena_bytes for front in ladder.fronts]
    for facts, arena_bytes in zip((policy, *proxies), arenas, strict=True):
        facts["arena_bytes"] = arena_bytes
    return {
        "latent": ladder.latent,
        "drifts": levels.drifts,
        "policy": policy,
        "fronts": [whole, *proxies],
    }


def board_facts(step: TrainingStep, target: Target) -> dict[str, Any]:
    """Return what a plan needs of a board's SRAM in all; a program under Linux has no such limit.

    saves: how many the flash outlives, if nothing restarts between them; a restart may cost one.
    """
    from mcutrain.codegen.firmware import SAVED_HEADER_BYTES

    found = step.plan
    took = step_time(found, target)
    total = target.sram_bytes(found.arena_bytes, found.resident_bytes)
    return {
        "name": target.name,
        "stack_bytes": target.stack_bytes,
        "firmware_bytes": total - found.sram_bytes - target.stack_bytes,
        "sram_bytes": total,
        "chip_sram_bytes": None if target.ram is None else target.ram.size_bytes,
        "step_time": None if took is None else took.to_dict(),
        "saves": target.saves(SAVED_HEADER_BYTES + found.kept_bytes),
        "why_no_saves": target.why_no_saves(SAVED_HEADER_BYTES + found.kept_bytes),
        "erasures": target.erasures,
    }


def _ladder(folder: PathLike | None) -> MakesLadder | None:
    """Return what reads the ladder of a folder, if there is one."""
    return None if folder is None else kept_ladder(Path(folder))


def _step(model: Model, scheme: Scheme, options: StepOptions, **making: Any) -> TrainingStep:
    """The model's own, if it is one. making: what else mcutrain.pipeline.prepare takes."""
    if isinstance(model, TrainingStep):
        return model
    return prepare(model if isinstance(model, Graph) else load(model), scheme, options, **making)


def write_front(step: TrainingStep, latent: str, path: Path) -> Front:
    """Write the front of a whole step as a `.tflite` or `.onnx` file, as the name says.

    latent: auto or a tensor's name, as for the tail that takes what it makes. The file is read back
    before it takes its place. Raises PlanError, ModelError, UnsupportedError.
    """
    graph = front_of(step, latent)
    other_bits = write(graph, path)
    (x,), (y,) = graph.types(graph.inputs), graph.types(graph.outputs)
    return Front(path, path.stat().st_size, graph.outputs[0], x, y, other_bits)

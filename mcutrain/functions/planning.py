"""What a training step needs, and the C of it."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

from mcutrain_host.dataclass import dataclass

from mcutrain.arguments import Count, PathLike, Within, checked
from mcutrain.codegen import Interface, ring_bytes, with_latents
from mcutrain.cost.flash import code_sizes
from mcutrain.cost.instructions import USUAL_ISA
from mcutrain.cost.ladder import check_flash, front_costs, front_flash_bytes
from mcutrain.cost.memory import flash_bytes
from mcutrain.cost.profile import times_of
from mcutrain.cost.streaming import fit_rows
from mcutrain.cost.time import step_time
from mcutrain.data import Data
from mcutrain.errors import ArgumentError, OptionError, PlanError
from mcutrain.features import (
    check_learning,
    check_listening,
    frontend_of,
    listening_bytes,
    plan_values,
)
from mcutrain.functions.automatic import AUTO
from mcutrain.functions.chosen import Choosing, planned_step, with_scheme, with_targets
from mcutrain.functions.keywords import with_keywords
from mcutrain.functions.listener import SILENT, Listener
from mcutrain.functions.loading import loaded
from mcutrain.functions.options import GeneratedRequest, PlanOptions, StepRequest
from mcutrain.functions.preparing import Asked, with_frontend
from mcutrain.functions.run_options import ColumnOptions
from mcutrain.ir.graph import Graph
from mcutrain.memplan import (
    STEP,
    MemoryPlan,
    check_board,
    check_budget,
    find_latent,
    latents,
    state_parts,
)
from mcutrain.modules import parse_pet
from mcutrain.pipeline import TrainingStep
from mcutrain.shown import Record, Shown
from mcutrain.sparse import UpdateScheme
from mcutrain.sparse.elastic import ElasticTimes
from mcutrain.target import RING_PLACE_BYTES, Target

Model = Graph | TrainingStep | PathLike
FRONTEND_PROGRAM_BYTES = 8192
"""Flash of a front end and its commands, at most."""
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


@dataclass(frozen=True)
class Listening:
    """What a program's front end takes, besides arena and state.

    sram_bytes: what is heard and computed, samples that wait, and the window. flash_bytes,
    frame_instructions: of its C and of a frame, by instruction set; empty if it was not
    counted. hop_us: from one frame to the next; 0 if it is not known. is_of_board: whether these
    bytes are among those of a board's own firmware. frame_us: what a frame takes there, roughly;
    None where that is not known.
    """

    frontend: str
    sram_bytes: int
    hop_us: int
    flash_bytes: dict[str, int]
    frame_instructions: dict[str, int]
    is_of_board: bool = False
    frame_us: int | None = None

    def summary(self) -> str:
        """Return a sentence that describes it."""
        each = ", ".join(f"{n:,} ({isa})" for isa, n in self.frame_instructions.items())
        where = "of the SRAM are" if self.is_of_board else "of SRAM besides,"
        memory = f"{self.sram_bytes:,} bytes {where} for the front end {self.frontend}"
        if not each:
            return f"{memory}."
        when = f", every {self.hop_us / 1000:g} ms," if self.hop_us else ""
        time = "" if self.frame_us is None else f", {self.frame_us / 1000:.2g} ms"
        return f"{memory}; a frame{when} takes {each} instructions{time}."


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
    ring: of latents, where some are remembered. listening: of a library with a front end.
    """

    step: TrainingStep
    board: Target | None = None
    ring: Ring | None = None
    listening: Listening | None = None

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
        """Every buffer of the arena, with its life and place; in a cascade also whose it is."""
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
        """Return it as `mcutrain plan --json` prints it, without the file's name."""
        on_board = {} if self.board is None else {"board": board_facts(self.step, self.board)}
        ring = None if self.ring is None else asdict(self.ring)
        heard = None if self.listening is None else asdict(self.listening)
        return {**facts(self.step), "ring": ring, "listening": heard, **on_board}


@with_keywords
@checked
def plan(
    model: Model,
    scheme: Scheme | None = None,
    *,
    classes: Count | None = None,
    request: StepRequest = StepRequest(),
    data: Data | None = None,
    columns: ColumnOptions = ColumnOptions(),
    hardware: PlanOptions = PlanOptions(),
    remember: Annotated[int, Within(0)] = 0,
    listener: Listener = SILENT,
) -> Planned:
    """Plan the memory of a model's training step, byte by byte.

    model: a path, a graph of `load`, or a step of `prepare` (which then has all other choices).
    scheme: what to train, as `prepare` takes it; "auto" is what `auto_scheme` finds from the
        samples of data. By default "auto" where there is data, else the head.
    classes: as `prepare` takes them.
    request: how the step learns; its fields are keywords, too (see mcutrain.functions.options).
    columns: which column of data keeps groups in one part (split_by) or has the labels
        (label_column), as `simulate` takes them.
    hardware: board is a board's name or folder; its firmware and stack are counted, too. sram is
        the number of bytes for arena and state. slots "off" gives the program the flash that would
        keep the trained state.
    remember: how many latents the ring holds, as `generate` takes it.
    listener: hears notes and progress; by default notes are Python warnings.

    Raises PlanError if the step takes more than `sram`, or than the board has. Raises ModelError,
    SchemeError, TargetError, ArgumentError.

    >>> plan("model.int8.tflite", "last:3", board="nucleo-f446re").sram_bytes
    """
    target, sram = hardware.target, hardware.sram
    if request.part == "whole" and request.latent != AUTO and not remember:
        raise OptionError(
            "latent",
            "names what a tail begins with, or what --remember keeps: give one of these, too",
        )
    if isinstance(model, TrainingStep):
        if request.pet is not None:
            raise ArgumentError("a step of `prepare` has its modules already: leave out pet")
        step = model
    else:
        graph = with_frontend(loaded(model, listener), hardware.frontend)
        if request.pet is not None:
            graph = parse_pet(request.pet).outline(graph)
        asked, classes = with_targets(
            Asked.of(request), graph, scheme, classes, data, listener, columns=columns
        )
        choosing = Choosing(graph, classes, hardware.memory, listener=listener)
        asked = with_scheme(asked, choosing, scheme, data, fixed_of(request), columns=columns)
        step = planned_step(asked, graph, classes, listener)
    interface = planned_interface(step, target, request.latent, remember)
    interface = replace(
        interface,
        listen=hardware.listen,
        history=hardware.history,
        app=hardware.app,
        keep_samples=hardware.keep_samples,
    )
    check_listening(step.plan.training, interface, has_firmware(target))
    check_learning(step.plan.training, interface, has_firmware(target))
    listening = listening_of(step, target, hardware.history)
    own_bytes = 0 if listening is None else listening.sram_bytes
    if request.stream == AUTO and not isinstance(model, TrainingStep):
        left = None if sram is None else sram - own_bytes
        step = with_fewer_rows(step, target, interface, left)
    is_kept = remember or interface.elastic is not None or hardware.listen
    target = on_board(target, step, interface) if is_kept else target
    listening = listening_of(step, target, hardware.history)
    if sram is not None:
        check_budget(step.plan, sram, own_bytes)
    if target is not None:
        check_board(step.plan, target, own_bytes)
    return Planned(step, target, ring_of(step, target, interface), listening)


def fixed_of(request: StepRequest | GeneratedRequest) -> dict[str, object]:
    """Return what no scheme can be chosen beside, by flag."""
    return {"--pet": request.pet, "--proxies": request.proxies, "--add-class": request.added}


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


def has_firmware(target: Target | None) -> bool:
    """Return whether the program is a board's own firmware, and no library."""
    return target is not None and target.has_firmware


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
    if not target.has_firmware:  # what it saves, the program around the package decides
        check_flash(step.plan, target)
        return target
    code = code_sizes(target.costs)
    program_bytes = 0 if code is None else flash_bytes(step.plan.training, code)
    program_bytes += sum(front_flash_bytes(step.plan, code))
    program_bytes += IMPRINT_PROGRAM_BYTES if interface.centre else 0
    program_bytes += FRONTEND_PROGRAM_BYTES if interface.listen else 0
    check_flash(step.plan, target)
    return with_latents(target, step.plan, interface, program_bytes)


def listening_of(step: TrainingStep, target: Target | None, history: int = 0) -> Listening | None:
    """The front end of a step's program; None if it has none, and for firmware that hears nothing.

    target: as `on_board` has it. The host of such firmware computes features, and sends those.
    """
    front = frontend_of(step.plan.training)
    is_of_board = target is not None and target.listening_bytes > 0
    if front is None or (target is not None and target.has_firmware and not is_of_board):
        return None
    hop_us = 1_000_000 * front.hop // front.rate_hz if front.rate_hz else 0
    c = front.c
    counted, frame_us = dict(front.instructions), None
    if is_of_board and target is not None and target.costs in counted:
        counted = {target.costs: counted[target.costs]}
        seconds = target.step_seconds(counted[target.costs])
        frame_us = None if seconds is None else round(1_000_000 * seconds)
    return Listening(
        front.text,
        target.listening_bytes if is_of_board and target else listening_bytes(front, history),
        hop_us,
        dict(c.flash_bytes),
        counted,
        is_of_board,
        frame_us,
    )


def ring_of(step: TrainingStep, target: Target | None, interface: Interface) -> Ring | None:
    """The ring of a step's project; None if it has none, or in a file.

    target: as `on_board` has it.
    """
    wanted, is_tail = interface.wanted_latent, step.plan.training.is_tail
    if not interface.remember or wanted is None:
        return None
    latent = step.input_type if is_tail else find_latent(step.plan, wanted).type
    found = Ring(interface.remember, latent.size_bytes, ring_bytes(step.plan, interface))
    if target is None or not target.has_firmware:
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
    return times_of(step.plan, USUAL_ISA if target is None else target.costs, profile)


def facts(step: TrainingStep) -> dict[str, Any]:
    """Return what a plan says, for JSON."""
    planned, arena = step.plan, step.plan.arena
    live = arena.live_at(arena.peak_step)
    return {
        "model": step.graph.name,
        "scheme": step.scheme.name,
        "begins_with": planned.training.x if planned.training.is_tail else None,
        "classes": planned.training.classes,
        "arena_bytes": planned.arena_bytes,
        "arena_lower_bound_bytes": arena.lower_bound_bytes,
        "arena_is_smallest": arena.is_smallest,
        "state_bytes": planned.state_bytes,
        "state": state_parts(step.plan),
        "sram_bytes": planned.sram_bytes,
        "constant_bytes": planned.constant_bytes,
        "streamed": [
            {
                "first_step": segment.first,
                "last_step": segment.last,
                "takes_rows_of_input": segment.is_fed,
                "rows_kept": {t.name: t.room for t in segment.tensors if t.is_ring},
            }
            for segment in planned.segments
        ],
        "least": None if planned.least is None else asdict(planned.least),
        "latents": [
            {
                "tensor": latent.tensor,
                "bytes": latent.size_bytes,
                "steps_before": latent.position,
                "macs_before": latent.macs,
            }
            for latent in latents(planned)
        ],
        **plan_values(planned),
        "levels": level_facts(step),
        "elastic": _elastic_facts(step),
        "streaming": _streaming_facts(step),
        "steps": len(planned.nodes),
        "peak_step": arena.peak_step,
        "peak_node": planned.nodes[arena.peak_step].name,
        "at_peak": [
            {"name": b.name, "bytes": b.size_bytes}
            for b in sorted(live, key=lambda b: (-b.size_bytes, b.name))
        ],
    }


def _streaming_facts(step: TrainingStep) -> dict[str, Any] | None:
    """Return what a step of a streaming network takes; None for others."""
    steps = step.plan.steps
    if steps is None:
        return None
    return {
        "rows": steps.graph.tensors[steps.x].type.shape[1],
        "ring_bytes": steps.ring_bytes,
        "macs": steps.graph.macs(),
        "window_macs": step.plan.training.forward.macs(),
    }


def _elastic_facts(step: TrainingStep) -> dict[str, Any] | None:
    """Return which tensors can be left out, and their share of a step on a Cortex-M4 or M7."""
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
    """Return what a proxy cascade's policy and levels take, the whole front first."""
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

    planned = step.plan
    took = step_time(planned, target)
    total = target.sram_bytes(planned.arena_bytes, planned.resident_bytes)
    return {
        "name": target.name,
        "package": target.package or None,
        "stack_bytes": target.stack_bytes,
        "firmware_bytes": total - planned.sram_bytes - target.stack_bytes,
        "sram_bytes": total,
        "chip_sram_bytes": None if target.ram is None else target.ram.size_bytes,
        "step_time": None if took is None else took.to_dict(),
        "saves": target.saves(SAVED_HEADER_BYTES + planned.kept_bytes),
        "why_no_saves": target.why_no_saves(SAVED_HEADER_BYTES + planned.kept_bytes),
        "erasures": target.erasures,
    }

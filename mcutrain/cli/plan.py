"""mcutrain plan: the memory of a training step."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mcutrain.cli import shared_flags
from mcutrain.cli.automatic import say_head
from mcutrain.cli.listening import OnScreen
from mcutrain.cli.output import show, show_json, show_prose, show_table
from mcutrain.functions.files import replace_file
from mcutrain.functions.options import PlanOptions, Remember, StepRequest
from mcutrain.functions.run_options import ColumnOptions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mcutrain.memplan import TrainingPlan
    from mcutrain.pipeline import TrainingStep
    from mcutrain.target import Target

BIGGEST = 8
FORGETS = "a trained state does not survive a power cut"


def plan(
    model: shared_flags.Model,
    scheme: shared_flags.PlannedScheme = None,
    classes: shared_flags.Classes = shared_flags.KEEP,
    *,
    data: Annotated[
        Path | None,
        shared_flags.option(
            "Training samples, as `mcutrain simulate` reads them. With them --scheme auto is the "
            "default, which chooses by them."
        ),
    ] = None,
    columns: ColumnOptions,
    request: StepRequest,
    hardware: PlanOptions,
    remember: Remember = 0,
    csv: Annotated[
        Path | None,
        shared_flags.option("Write every buffer's lifetime and offset there."),
    ] = None,
    picture: Annotated[bool, typer.Option("--picture", help="Draw the arena over time.")] = False,
    json: shared_flags.Json = False,
) -> None:
    """Show the memory plan of a training step, byte by byte.

    With --board also what the firmware's stack and variables need there; fails if it has less.

    Example: `mcutrain plan model.tflite --scheme last:6 --classes 10 --sram 256K --picture`
    """
    from mcutrain.functions.planning import fixed_of
    from mcutrain.functions.planning import plan as planned
    from mcutrain.memplan import to_csv

    result = planned(
        model,
        scheme,
        classes=shared_flags.new_classes(classes),
        request=request,
        data=data,
        columns=columns,
        hardware=hardware,
        remember=remember,
        listener=OnScreen(json),
    )
    if scheme is None and data is None and not any(fixed_of(request).values()) and not json:
        say_head(hardware.memory)
    step = result.step
    if csv is not None:
        replace_file(csv, to_csv(step.plan.arena, step.plan.front_arenas).encode())
    if json:
        show_json({"file": str(model), **result.to_dict()})
        return
    more = [part.summary() for part in (result.ring, result.listening) if part is not None]
    _print(step, result.board, result.to_dict(), more)
    if picture:
        for text in _pictures(step.plan):
            show()
            show(text.rstrip())


def _pictures(plan: TrainingPlan) -> Iterator[str]:
    """The arena over a step; with a proxy cascade also over each of its fronts, under its name."""
    from mcutrain.memplan import picture, rows_kept

    begin = "" if plan.ladder is None else "step, level 0 its front\n"
    yield begin + picture(plan.arena, notes=rows_kept(plan))
    if plan.ladder is not None:
        for name, front in plan.ladder.named.items():
            yield f"{name}\n" + picture(front.arena, notes=rows_kept(front))


def against_bound(found: dict[str, Any]) -> str:
    """The lower bound, the bytes above it, and whether they have to be."""
    over = found["arena_bytes"] - found["arena_lower_bound_bytes"]
    text = f"lower bound {found['arena_lower_bound_bytes']:,}, {over:,} above it"
    if over == 0:
        return text
    if found["arena_is_smallest"]:
        return f"{text}; no arrangement is smaller"
    return f"{text}; a smaller one was neither found nor excluded"


def _print(
    step: TrainingStep, target: Target | None, facts: dict[str, Any], more: Sequence[str]
) -> None:
    learns = step.plan.training.learns
    part = f", the tail behind {facts['begins_with']}" if facts["begins_with"] else ""
    show_prose(f"{facts['model']}, scheme {facts['scheme']}, {learns}{part}")
    show_rows(_memory_rows(facts))
    streamed = _streamed(step)
    if streamed:
        show_prose(f"  {'row by row':16}{streamed}")
    _print_least(step)
    _print_latent(step, facts)
    _print_features(facts)
    _print_saves(facts.get("board"))
    _print_time(step, target)
    for sentence in more:
        show_prose(sentence)
    show_prose(
        f"The peak is at step {facts['peak_step']} of {facts['steps']}, {facts['peak_node']}. "
        "Alive then:"
    )
    biggest = facts["at_peak"][:BIGGEST]
    show_table(("buffer", "bytes"), [[b["name"], b["bytes"]] for b in biggest], names=(0,))


def _memory_rows(facts: dict[str, Any]) -> list[list[Any]]:
    """Rows of the arena, the state, all SRAM and the constants."""
    parts = [f"{name.replace('_', ' ')} {size:,}" for name, size in facts["state"].items() if size]
    return [
        ["arena", facts["arena_bytes"], against_bound(facts)],
        ["trainable state", facts["state_bytes"], ", ".join(parts)],
        *_sram_rows(facts["sram_bytes"], facts.get("board")),
        ["constants", facts["constant_bytes"], "frozen weights and biases, in flash"],
    ]


def _print_latent(step: TrainingStep, found: dict[str, Any]) -> None:
    """What a tail begins with, or what a whole step could."""
    from mcutrain.memplan import find_latent

    if found["begins_with"]:
        size = step.input_type.size_bytes
        show_prose(f"  {'latent':16}{size:>10,}     bytes of a sample for the tail, {_input(step)}")
    elif found["latents"]:
        latent = find_latent(step.plan)
        percent = round(100 * latent.macs / step.plan.training.forward.macs())
        show_prose(
            f"  {'latent':16}{latent.size_bytes:>10,}     {latent.tensor}: training leaves what is "
            f"before it as it is, {percent} % of an inference's multiplications"
        )


def _print_features(facts: dict[str, Any]) -> None:
    """What each feature of the step does, or takes."""
    from mcutrain.features import plan_lines

    for line in plan_lines(facts):
        show_prose(f"  {line}")
    _print_levels(facts["levels"])
    if facts["streaming"] is not None:
        steps = facts["streaming"]
        rows = f"{steps['rows']} new row{'s' * (steps['rows'] > 1)}"
        show_prose(
            f"  {'rings':16}{steps['ring_bytes']:>10,} B   of SRAM besides, for the rows that are "
            f"kept between steps; one of {rows} takes {steps['macs']:,} multiplications, a "
            f"window {steps['window_macs']:,}"
        )
    if facts["elastic"] is not None:
        count, least = len(facts["elastic"]["tensors"]), facts["elastic"]["least_share"]
        show_prose(
            f"  {'elastic':16}{count:>10,}     tensors, of which any but the last layer's can be "
            f"left out; a step takes {round(100 * least)} % of its instructions without them"
        )


def _print_saves(board: dict[str, Any] | None) -> None:
    """How many saves a board's flash outlives."""
    if board is not None and board["why_no_saves"]:
        show_prose(f"  {'saves':16}{'none':>10}     {board['why_no_saves']}; {FORGETS}")
    elif board is not None and board["saves"] is not None:
        show_prose(
            f"  {'saves':16}{board['saves']:>10,}     until the slots have borne the "
            f"{board['erasures']:,} erasures that the flash of {board['name']} is specified for"
        )


def _print_time(step: TrainingStep, target: Target | None) -> None:
    """How long it takes on the board, and how that is known."""
    from mcutrain.cost.time import step_time

    took = step_time(step.plan, target)
    if took is not None:
        show_prose(f"  {'step':16}{took.text}: {took.reason}")


def _print_levels(levels: dict[str, Any] | None) -> None:
    """What the policy and each front of a proxy cascade take, if there is one."""
    if levels is None:
        return
    count = len(levels["fronts"])
    show_prose(
        f"  {'levels':16}{count:>10,}     fronts that make {levels['latent']}; a policy takes one "
        f"for each sample{', corrected by what it taught' if levels['drifts'] else ''}"
    )
    named = [("policy", levels["policy"]), *enumerate(levels["fronts"])]
    head = ("level", "multiplications", "instructions", "flash", "arena")
    rows = [
        [name, f["macs"], f["instructions"], f["flash_bytes"], f.get("arena_bytes", "the step's")]
        for name, f in named
    ]
    show_table(head, rows)


def _input(step: TrainingStep) -> str:
    """Return what the samples of a tail are."""
    x = step.input_type
    shape = " × ".join(map(str, x.shape[1:]))
    return f"int8 {shape}, scale {x.scale:.9g}, zero point {x.zero_point}"


def _print_least(step: TrainingStep) -> None:
    """What it could do with, if it takes more."""
    from mcutrain.cost.streaming import work_of

    least = step.plan.least
    if least is not None:
        percent = round(100 * least.more_instructions / work_of(step.plan))
        show_prose(
            f"  {'could do with':16}{least.sram_bytes:>10,} B   of arena and state, computing more "
            f"row by row (--stream least), for {percent} % more instructions"
        )


def _streamed(step: TrainingStep) -> str:
    """Return which nodes compute row by row, in words."""
    nodes, segments = step.plan.nodes, step.plan.segments
    parts = [f"{nodes[s.first].name} to {nodes[s.last].name}" for s in segments]
    if any(s.is_fed for s in segments):
        parts.append("the input is never in memory as a whole")
    return "; ".join(parts)


def _sram_rows(sram_bytes: int, board: dict[str, Any] | None) -> list[list[Any]]:
    if board is None or board["chip_sram_bytes"] is None:
        return [["SRAM", sram_bytes, "arena + state, without stack and code's own variables"]]
    of = f"of the {board['chip_sram_bytes']:,} of {board['name']}"
    own = ["firmware's own", board["firmware_bytes"], "protocol, drivers, alignment"]
    if board["package"] is not None:
        own = [board["package"], board["firmware_bytes"], "assumed for itself, and alignment"]
    return [
        own,
        ["stack", board["stack_bytes"], "reserved"],
        ["SRAM", board["sram_bytes"], of],
    ]


def show_rows(rows: list[list[Any]]) -> None:
    """Name, bytes, remark, aligned."""
    for name, size, remark in rows:
        show_prose(f"  {name:16}{size:>10,} B   {remark}".rstrip())

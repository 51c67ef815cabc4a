"""mcutrain profile: instructions of a training step, node by node and tensor by tensor."""

from __future__ import annotations

import json as json_text
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mcutrain.cli import options
from mcutrain.cli.output import (
    check_writable,
    count_bar,
    percent,
    replace_file,
    show,
    show_json,
    show_table,
)

if TYPE_CHECKING:
    from mcutrain.cost.profile import StepProfile
    from mcutrain.pipeline import TrainingStep
    from mcutrain.target import Target


def profile(
    model: options.Model,
    scheme: options.Scheme = "head",
    classes: options.Classes = options.KEEP,
    *,
    step_flags: options.StepFlags,
    board: Annotated[
        str | None,
        typer.Option(
            metavar="BOARD",
            help="Whose instructions: a microcontroller such as nucleo-f446re, or a "
            "folder with a board.toml; by default those of a Cortex-M4 or M7.",
            show_default=False,
        ),
    ] = None,
    count: Annotated[
        bool,
        typer.Option("--count", help="Run the step on the board's emulator, too, and count them."),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write it there, too, for `generate --elastic --profile FILE` and "
            "`simulate --elastic SHARE --profile FILE`.",
            show_default=False,
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Say what each node and each trained tensor of a step takes, in instructions.

    By the instruction model; with --count also as the board's virtual twin executes them.

    Example: `mcutrain profile model.tflite --scheme last:6 --board nucleo-f446re --count`
    """
    from mcutrain.cost.instructions import USUAL_ISA
    from mcutrain.cost.profile import profile_step
    from mcutrain.errors import TargetError
    from mcutrain.pipeline import load
    from mcutrain.target import load_target

    target = None if board is None else load_target(board)
    if output is not None:
        check_writable(output)
    if count and target is None:
        raise typer.BadParameter("runs on a board: give --board, too", param_hint="--count")
    if target is not None and target.isa == "host":
        raise TargetError(
            f"{target.name} has no instruction model; name a microcontroller, such as nucleo-f446re"
        )
    flags = replace(step_flags.options(scheme), elastic=True)
    step = flags.prepare(load(model), options.new_classes(classes))
    counted = _counted(step, target, json) if count and target is not None else None
    isa = USUAL_ISA if target is None else target.isa
    found = profile_step(step.plan, isa, counted)
    facts = {"file": str(model), "board": board, **_facts(step, found)}
    if output is not None:
        replace_file(output, (json_text.dumps(facts, indent=2) + "\n").encode())
    if json:
        show_json(facts)
    else:
        _print(step, found, "a Cortex-M4 or M7" if target is None else target.name)


def _counted(step: TrainingStep, target: Target, quiet: bool) -> dict[str, int]:
    from mcutrain.cost.counting import count_instructions

    with count_bar(quiet) as bar:
        task = bar.add_task("compiling for the board", total=None)

        def report(what: str, done: int, of: int) -> None:
            bar.update(task, description=what, completed=done, total=of)

        return dict(count_instructions(step, target, report=report))


def _facts(step: TrainingStep, found: StepProfile) -> dict[str, Any]:
    return {
        "model": step.graph.name,
        "scheme": step.scheme.name,
        "isa": found.isa,
        "forward": found.instructions("forward"),
        "backward": found.instructions("backward"),
        "update": found.instructions("update"),
        "model_error": found.error,
        "nodes": [asdict(node) for node in found.nodes],
        "tensors": [asdict(tensor) for tensor in found.tensors],
    }


def _print(step: TrainingStep, found: StepProfile, chip: str) -> None:
    is_counted = found.error is not None
    columns = ["node", "kernel", "for", "estimated", *(["counted"] if is_counted else [])]
    rows = [
        [n.name, n.kernel, n.tensor or n.of, n.estimated, *([n.counted] if is_counted else [])]
        for n in found.nodes
    ]
    show(f"{step.graph.name}, scheme {step.scheme.name}: instructions of a step on {chip}")
    show_table(columns, rows, 3)
    show_table(
        ("tensor", "its update", "the gradient up to it"),
        [[t.name, t.update, t.backward] for t in found.tensors],
    )
    forward, backward, update = (found.instructions(p) for p in ("forward", "backward", "update"))
    show(
        f"In all {forward + backward + update:,}: forward and loss {forward:,}, gradients "
        f"{backward:,}, updates {update:,}."
    )
    if found.error is not None:
        side = "more" if found.error >= 0 else "less"
        show(f"The model estimates {percent(abs(found.error))} {side} than was counted.")

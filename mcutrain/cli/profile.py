"""mcutrain profile: what a training step takes, node by node and tensor by tensor."""

from __future__ import annotations

import json as json_text
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mcutrain.cli import boards, options
from mcutrain.cli.flags import given
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
    from collections.abc import Iterator, Sequence

    from mcutrain.cost.profile import StepProfile
    from mcutrain.cost.timing import Report
    from mcutrain.pipeline import TrainingStep
    from mcutrain.target import Target


@dataclass(frozen=True)
class WayFlags:
    """Flags of what a model's step is measured by."""

    board: Annotated[
        str | None,
        typer.Option(
            metavar="BOARD",
            help="Whose instructions: a microcontroller such as nucleo-f446re, or a "
            "folder with a board.toml; by default those of a Cortex-M4 or M7.",
            show_default=False,
        ),
    ] = None
    count: Annotated[
        bool,
        typer.Option("--count", help="Run the step on the board's emulator, too, and count them."),
    ] = False
    here: Annotated[
        bool,
        typer.Option(
            "--here",
            help="Run the step on this computer, too, and take the nanoseconds of each node.",
        ),
    ] = False

    def check(self) -> None:
        """Raise typer.BadParameter for flags that do not go together."""
        if self.count and self.board is None:
            raise typer.BadParameter("runs on a board: give --board, too", param_hint="--count")
        if self.here and self.board is not None:
            raise typer.BadParameter(
                "runs on this computer: leave out --board", param_hint="--here"
            )

    @property
    def target(self) -> Target | None:
        """The board. Raises TargetError if there are no estimates for it."""
        from mcutrain.errors import TargetError
        from mcutrain.target import load_target

        target = None if self.board is None else load_target(self.board)
        if target is not None and target.isa == "host":
            raise TargetError(
                f"{target.name} has no instruction model; name a microcontroller, such as "
                "nucleo-f446re"
            )
        return target


def profile(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL|DIR",
            help="An int8 .tflite or QDQ .onnx file; or, with a board, the project that "
            "`mcutrain generate --board B --timed` wrote.",
            show_default=False,
        ),
    ],
    scheme: options.Scheme = "head",
    classes: options.Classes = options.KEEP,
    *,
    step_flags: options.StepFlags,
    way: WayFlags,
    line: boards.LineFlags,
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
    """Show what each node and each trained tensor of a step takes.

    Of a model in instructions: by the instruction model; with --count also as the board's virtual
    twin executes them, with --here in nanoseconds of this computer. Of a project in cycles of the
    board, which trains on noise meanwhile: it restarts at the end with the state that it had saved.

    Example: `mcutrain profile model.tflite --scheme last:6 --board nucleo-f446re --count`

    Example: `mcutrain profile project --port /dev/ttyACM0 -o profile.json`
    """
    if output is not None:
        check_writable(output)
    if model.is_dir():
        _check_absent(given(way), "is of a model; DIR says what it was generated for")
        facts, found = _of_project(model, line, json)
    else:
        _check_absent(given(line), "is of a project: give its DIR for MODEL")
        way.check()
        flags = step_flags.asked(scheme).having(elastic=True)
        facts, found = _of_model(model, flags, options.new_classes(classes), way, json)
    if output is not None:
        replace_file(output, (json_text.dumps(facts, indent=2) + "\n").encode())
    if json:
        show_json(facts)
    else:
        _print(facts, found)


def _check_absent(flags: Sequence[str], why: str) -> None:
    for flag in flags:
        raise typer.BadParameter(why, param_hint=flag)


def _of_project(
    folder: Path, line: boards.LineFlags, quiet: bool
) -> tuple[dict[str, Any], StepProfile]:
    """Profile a project by its board's own clock."""
    from mcutrain_host.client import Device
    from mcutrain_host.link import SerialLink
    from mcutrain_host.manifest import BoardProject

    from mcutrain.cost.profile import profile_of
    from mcutrain.cost.timing import time_on_board, timing_of_project

    project = BoardProject.read(folder)
    timing = timing_of_project(project)
    with SerialLink(*line.of(project)) as link, _reporting("connecting", quiet) as report:
        times, unit = time_on_board(Device(link), project, report)
    found = profile_of(timing, times, unit)
    manifest = project.manifest
    facts = {"file": str(folder), "board": project.board.name}
    return {**facts, **_facts(manifest.model, manifest.scheme, found)}, found


def _of_model(
    model: Path, flags: options.StepRequest, classes: int | None, way: WayFlags, quiet: bool
) -> tuple[dict[str, Any], StepProfile]:
    """Profile a model by the instruction model, the virtual board, or this computer's clock."""
    from mcutrain.cost.instructions import USUAL_ISA
    from mcutrain.cost.profile import NANOSECONDS, profile_of, profile_step, timing_of
    from mcutrain.pipeline import load
    from mcutrain.simulation import check_can_build

    target = way.target
    if way.here:
        check_can_build()  # a sentence before the model is planned
    step = flags.prepare(load(model), classes)
    if way.here:
        found = profile_of(timing_of(step.plan, "host"), _timed_here(step, quiet), NANOSECONDS)
    else:
        counted = _counted(step, target, quiet) if way.count and target is not None else None
        isa = USUAL_ISA if target is None else target.isa
        found = profile_step(step.plan, isa, counted)
    facts = {"file": str(model), "board": way.board}
    return {**facts, **_facts(step.graph.name, step.scheme.name, found)}, found


def _timed_here(step: TrainingStep, quiet: bool) -> dict[str, int]:
    from mcutrain.cost.timing import time_here

    with _reporting("compiling for this computer", quiet) as report:
        return dict(time_here(step, report=report))


def _counted(step: TrainingStep, target: Target, quiet: bool) -> dict[str, int]:
    from mcutrain.cost.counting import count_instructions

    with _reporting("compiling for the board", quiet) as report:
        return dict(count_instructions(step, target, report=report))


@contextmanager
def _reporting(before: str, quiet: bool) -> Iterator[Report]:
    """A bar. before: what is done first."""
    with count_bar(quiet) as bar:
        task = bar.add_task(before, total=None)

        def report(what: str, done: int, of: int) -> None:
            bar.update(task, description=what, completed=done, total=of)

        yield report


def _facts(model: str, scheme: str, found: StepProfile) -> dict[str, Any]:
    return {
        "model": model,
        "scheme": scheme,
        "isa": found.isa,
        "unit": found.unit,
        "forward": found.time("forward"),
        "backward": found.time("backward"),
        "update": found.time("update"),
        "model_error": found.error,
        "per_instruction": found.per_instruction,
        "misplaced": found.misplaced,
        "nodes": [asdict(node) for node in found.nodes],
        "tensors": [asdict(tensor) for tensor in found.tensors],
    }


def _print(facts: dict[str, Any], found: StepProfile) -> None:
    is_counted = found.per_instruction is not None
    what = "counted" if found.error is not None else found.unit
    columns = ["node", "kernel", "for", "estimated", *([what] if is_counted else [])]
    rows = [
        [n.name, n.kernel, n.tensor or n.of, n.estimated, *([n.counted] if is_counted else [])]
        for n in found.nodes
    ]
    chip = facts["board"] or ("this computer" if found.unit == "ns" else "a Cortex-M4 or M7")
    show(f"{facts['model']}, scheme {facts['scheme']}: {found.unit} of a step on {chip}")
    show_table(columns, rows, 3)
    show_table(
        ("tensor", "its update", "the gradient up to it"),
        [[t.name, t.update, t.backward] for t in found.tensors],
    )
    forward, backward, update = (facts[part] for part in ("forward", "backward", "update"))
    show(
        f"In all {forward + backward + update:,}: forward and loss {forward:,}, gradients "
        f"{backward:,}, updates {update:,}."
    )
    for line in _of_the_model(found):
        show(line)


def _of_the_model(found: StepProfile) -> Iterator[str]:
    """How far it is from what was counted."""
    if found.per_instruction is None or found.misplaced is None:
        return
    if found.error is not None:
        side = "more" if found.error >= 0 else "less"
        yield f"The model estimates {percent(abs(found.error))} {side} than was counted."
        return
    yield (
        f"{found.per_instruction:.3g} {found.unit} for each instruction that the model estimates; "
        f"it gives {percent(found.misplaced)} of the time to other nodes than those that take it."
    )

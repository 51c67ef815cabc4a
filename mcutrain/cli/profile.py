"""mcutrain profile: what a training step takes, node by node and tensor by tensor."""

from __future__ import annotations

import json as json_text
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mcutrain.cli import boards, options
from mcutrain.cli.flags import given
from mcutrain.cli.listening import OnScreen
from mcutrain.cli.output import count_bar, percent, replace_file, show, show_json, show_table
from mcutrain.functions.files import check_writable
from mcutrain.functions.listener import Progress
from mcutrain.functions.options import MeasureOptions, ProfiledRequest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mcutrain.cost.profile import StepProfile
    from mcutrain.functions.profiling import Profiled


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
    request: ProfiledRequest,
    measure: MeasureOptions,
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
    from mcutrain.functions.profiling import profile as profiled

    if output is not None:
        check_writable(output)
    if model.is_dir():
        _check_absent(given(measure), "is of a model; DIR says what it was generated for")
        found = _of_project(model, line, json)
    else:
        _check_absent(given(line), "is of a project: give its DIR for MODEL")
        found = profiled(
            model,
            scheme,
            classes=options.new_classes(classes),
            request=request,
            measure=measure,
            listener=_Reporting(json),
        )
    facts = {"file": str(model), **found.to_dict()}
    if output is not None:
        replace_file(output, (json_text.dumps(facts, indent=2) + "\n").encode())
    if json:
        show_json(facts)
    else:
        _print(facts, found.profile)


class _Reporting(OnScreen):
    """Draws a bar of one line for whatever is run."""

    def counting(self, title: str) -> AbstractContextManager[Progress]:
        """Show what is run, after a while of preparing."""
        return _reporting(title, self.is_quiet)


def _check_absent(flags: Sequence[str], why: str) -> None:
    for flag in flags:
        raise typer.BadParameter(why, param_hint=flag)


def _of_project(folder: Path, line: boards.LineFlags, quiet: bool) -> Profiled:
    """Profile a project by its board's own clock."""
    from mcutrain_host.client import Device
    from mcutrain_host.link import SerialLink
    from mcutrain_host.manifest import BoardProject

    from mcutrain.cost.profile import profile_of
    from mcutrain.cost.timing import time_on_board, timing_of_project
    from mcutrain.functions.profiling import Profiled

    project = BoardProject.read(folder)
    timing = timing_of_project(project)
    with SerialLink(*line.of(project)) as link, _reporting("connecting", quiet) as report:
        times, unit = time_on_board(Device(link), project, report)
    found = profile_of(timing, times, unit)
    return Profiled(project.manifest.model, project.manifest.scheme, found, project.board.name)


@contextmanager
def _reporting(before: str, quiet: bool) -> Iterator[Progress]:
    """A bar. before: what is done first."""
    with count_bar(quiet) as bar:
        task = bar.add_task(before, total=None)

        def report(what: str, done: int, of: int) -> None:
            bar.update(task, description=what, completed=done, total=of)

        yield report


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

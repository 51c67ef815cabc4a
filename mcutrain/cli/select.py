"""mcutrain select: the best scheme for a budget, or the best ones for a range of budgets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from mcutrain.cli import options, select_output
from mcutrain.cli import samples as inputs
from mcutrain.cli.finalists import Training, final, finalist_facts, proposals, show_finalists
from mcutrain.cli.output import count_bar, err
from mcutrain.cli.select_request import Request, limits_of
from mcutrain.cli.training import Lines

if TYPE_CHECKING:
    from mcutrain.analysis.finalists import Finalist
    from mcutrain.ir.graph import Graph
    from mcutrain.runs.parallel import Lesson
    from mcutrain.sparse.contribution import Contributions
    from mcutrain.sparse.cost import Device, Limits
    from mcutrain.sparse.select import Selector
    from mcutrain.sparse.selection import Selection

UNITS_S = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
SWEEP_STEPS = 12
"""Budgets of a sweep that gives no step."""


def parse_seconds(text: str) -> float:
    """200ms is 0.2."""
    for unit, seconds in UNITS_S.items():
        number = text.removesuffix(unit)
        if number != text and number.replace(".", "", 1).isdigit():
            return float(number) * seconds
    raise typer.BadParameter(f"{text!r} is no time such as 200ms or 1.5s")


def parse_sweep(text: str) -> str:
    """FROM:TO or FROM:TO:STEP in bytes, checked here and kept as text."""
    budgets_of(text)
    return text


def budgets_of(text: str) -> list[int]:
    """The budgets of a sweep, ascending, the last one included."""
    parts = [options.parse_bytes(part) for part in text.split(":")]
    if len(parts) not in (2, 3) or parts[0] >= parts[1] or parts[-1] < 1:
        raise typer.BadParameter(f"{text!r} is no range such as 64K:256K or 64K:256K:16K")
    step = parts[2] if len(parts) == 3 else max(1, (parts[1] - parts[0]) // SWEEP_STEPS)
    return [*range(parts[0], parts[1], step), parts[1]]


Bytes = Annotated[
    int | None, typer.Option(parser=options.parse_bytes, metavar="BYTES", show_default=False)
]


def select(
    model: options.Model,
    analysis: Annotated[
        Path, typer.Option(help="What `mcutrain analyze` wrote.", show_default=False)
    ],
    board: options.Board = None,
    sram: Annotated[
        int | None,
        typer.Option(
            parser=options.parse_bytes,
            metavar="BYTES",
            help="Instead of the board's, such as 100K. Without --board: of arena and state only.",
            show_default=False,
        ),
    ] = None,
    flash: Annotated[
        int | None,
        typer.Option(
            parser=options.parse_bytes,
            metavar="BYTES",
            help="Instead of what the board has for code and constants.",
            show_default=False,
        ),
    ] = None,
    instructions: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="The most that a training step executes.", show_default=False
        ),
    ] = None,
    step_time: Annotated[
        float | None,
        typer.Option(
            parser=parse_seconds,
            metavar="TIME",
            help="The longest training step, such as 200ms.",
            show_default=False,
        ),
    ] = None,
    measure: Annotated[
        str | None,
        typer.Option(
            help="What to gain: accuracy, probability, loss, fisher or first_order; the analysis' "
            "first one by default.",
            show_default=False,
        ),
    ] = None,
    classes: Annotated[
        str,
        typer.Option(
            parser=options.parse_auto_classes,
            metavar="N|keep|auto",
            help="Outputs of the classifier; `auto`: as many as the analysis had.",
        ),
    ] = options.AUTO,
    accumulate: options.Accumulate = 1,
    channels: Annotated[
        Literal["norm", "gradient"],
        typer.Option(
            help="Which input channels a share is of: the largest by weight norm, or by gradient, "
            "as an analysis by gradient measured them."
        ),
    ] = "norm",
    sweep: Annotated[
        str | None,
        typer.Option(
            parser=parse_sweep,
            metavar="FROM:TO[:STEP]",
            help="Select for each of these SRAM budgets, such as 64K:256K.",
            show_default=False,
        ),
    ] = None,
    train: Annotated[
        bool, typer.Option("--train", help="Train each Pareto scheme of a sweep on --data.")
    ] = False,
    finalists: Annotated[
        int | None,
        typer.Option(
            min=2,
            max=20,
            help="Propose so many schemes, each the best by another reading of the analysis, train "
            "them on --data, and select the best on training samples held out.",
            show_default=False,
        ),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="As for `mcutrain simulate`.", show_default=False)
    ] = None,
    samples: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Training samples to train on, of every class alike; all by default.",
            show_default=False,
        ),
    ] = None,
    epochs: inputs.Epochs = 4,
    lr: inputs.Rate = inputs.RATE,  # type: ignore[assignment]  # typer parses it
    flip: inputs.Flip = False,
    crop: inputs.Crop = 0,
    augment: inputs.Augment = None,
    test_share: inputs.TestShare = 0.2,
    mean: inputs.Mean = None,
    std: inputs.Std = None,
    stride: inputs.Stride = None,
    seed: options.Seed = 0,
    jobs: inputs.Jobs = None,
    no_build: Annotated[
        bool, typer.Option("--no-build", help="Do not compile the selected firmware.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            help="Write scheme.toml, selection.json and a report there; of a sweep every scheme.",
            show_default=False,
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Select what to train: the scheme with the largest expected gain that fits.

    The answer is exact: no other choice of bias depth, layers, shares and residual bits gains more
    by this analysis within the limits. With --board, all SRAM that the firmware takes counts.

    Example: `mcutrain select model.tflite --analysis analysis.json --board nucleo-f446re -o best`
    """
    from mcutrain.simulation import RunSettings

    by_gradient = channels == "gradient"
    request = Request(model, analysis, board, classes, measure, accumulate, by_gradient)
    if train and (data is None or sweep is None):
        raise typer.BadParameter("it needs --sweep and --data", param_hint="--train")
    if finalists is not None and (data is None or sweep is not None):
        raise typer.BadParameter("it needs --data, and no --sweep", param_hint="--finalists")
    training = None
    if data is not None:
        kinds = inputs.kinds(augment)
        settings = RunSettings(epochs, lr, seed=seed, flip=flip, crop_pixels=crop, augment=kinds)
        pixels = inputs.normalization(mean, std)
        source = inputs.Source(data, None, None, test_share, pixels, seed, stride)
        training = Training(source, settings, samples, accumulate, jobs)
    graph, new_classes, contributions, target = request.read()
    limits = limits_of(target, sram, flash, instructions, step_time, sweep is not None)
    costs = request.device(graph, target, builds=not no_build and sweep is None)
    facts = request.facts(graph, contributions)
    if sweep is not None:
        lesson = None
        if train and training is not None:
            split = training.some(graph)
            lesson = training.lesson(model, new_classes, split)
        selector = _selector(request, graph, contributions, costs)
        processes = 1 if training is None else training.processes
        budgets = budgets_of(sweep)
        select_output.sweep(selector, graph.name, limits, budgets, lesson, processes, output, json)
        return
    if finalists is not None and training is not None:
        split = training.parted(graph)
        lesson = training.lesson(model, new_classes, split)
        found, entered = _select_by_training(
            request, graph, contributions, costs, limits, finalists, lesson, training.processes
        )
        facts["finalists"] = finalist_facts(entered)
        if not json:
            show_finalists(entered, split)
    else:
        found = _select_exactly(request, graph, contributions, costs, limits)
    if output is not None:
        select_output.write(found, facts, output)
        select_output.write_report(graph, found, contributions, target, accumulate, output)
    select_output.show_selection(found, facts, target, json)


def _select_exactly(
    request: Request, graph: Graph, contributions: Contributions, costs: Device, limits: Limits
) -> Selection:
    selector = _selector(request, graph, contributions, costs)
    with err.status("selecting"):
        return selector.select(limits)


def _selector(
    request: Request, graph: Graph, contributions: Contributions, costs: Device
) -> Selector:
    """All costs, with progress."""
    from mcutrain.sparse.select import Selector

    lines = Lines("costing schemes")
    with count_bar() as bar:
        task = bar.add_task("costing schemes", total=None)

        def progress(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)
            lines.tell(f"{done:,} of {total:,}")

        selector = Selector(graph, contributions.smoothed(), costs, request.measure, progress)
        selector.by_gradient = request.by_gradient
        return selector


def _select_by_training(
    request: Request,
    graph: Graph,
    contributions: Contributions,
    costs: Device,
    limits: Limits,
    count: int,
    lesson: Lesson,
    processes: int,
) -> tuple[Selection, list[Finalist]]:
    """The best finalist's selection, and all finalists."""
    read = contributions.smoothed()
    if request.measure is not None:
        read = replace(read, gains={request.measure: read.gain(request.measure)})
    found = proposals(graph, read, costs, limits, count, request.by_gradient)
    finalists = final(found, lesson, processes)
    return finalists[0].proposal.selection, finalists

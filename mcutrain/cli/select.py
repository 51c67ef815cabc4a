"""mcutrain select: the best scheme for a budget, or the best ones for a range of budgets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mcutrain.cli import options, select_output
from mcutrain.cli import samples as inputs
from mcutrain.cli.finalists import SchemeTraining, final, finalist_facts, proposals, show_finalists
from mcutrain.cli.output import check_writable_folder, count_bar, err
from mcutrain.cli.select_request import Choice, LimitFlags, Request
from mcutrain.cli.training import Lines
from mcutrain.errors import McutrainError
from mcutrain.functions.run_options import TrainingOptions

if TYPE_CHECKING:
    from mcutrain.analysis.finalists import Finalist
    from mcutrain.functions.choosing import LevelsBeside
    from mcutrain.runs.parallel import Lesson
    from mcutrain.sparse.select import Selector
    from mcutrain.sparse.selection import Selection

LADDER_FOLDER = "ladder"
SWEEP_STEPS = 12
"""Budgets of a sweep that gives no step."""


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


def select(
    request: Request,
    limits: LimitFlags,
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
    *,
    learning: TrainingOptions,
    reading: inputs.ReadingFlags,
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

    The answer is exact: no other choice of bias depth, layers, shares, modules and bits gains more
    by this analysis within the limits. With --board, all SRAM that the firmware takes counts.

    Example: `mcutrain select model.tflite --analysis analysis.json --board nucleo-f446re -o best`
    """
    if request.proxies is not None and sweep is not None:
        raise typer.BadParameter("it does not go with --sweep", param_hint="--proxies")
    if train and (data is None or sweep is None):
        raise typer.BadParameter("it needs --sweep and --data", param_hint="--train")
    if finalists is not None and (data is None or sweep is not None):
        raise typer.BadParameter("it needs --data, and no --sweep", param_hint="--finalists")
    if request.elastic and (finalists is not None or sweep is not None):
        flag = "--sweep" if finalists is None else "--finalists"
        raise typer.BadParameter(f"it does not go with {flag}", param_hint="--elastic")
    if output is not None:
        check_writable_folder(output)
    if request.proxies is not None:
        _check_ladder(request.proxies, None if output is None else output / LADDER_FOLDER)
    training = None
    if data is not None:
        settings = learning.settings(seed)
        source = reading.source(data, None, None, seed)
        training = SchemeTraining(source, settings, samples, request.accumulate, jobs)
    choice = request.read(limits, sweep is not None, builds=not no_build and sweep is None)
    if sweep is not None:
        _sweep(choice, budgets_of(sweep), training if train else None, output, json)
    elif finalists is not None and training is not None:
        _select_by_training(choice, finalists, training, output, json)
    else:
        with err.status("selecting"):
            found = _select(choice)
        _tell(choice, found, choice.facts, output, json)


def _select(choice: Choice) -> Selection:
    """The best scheme; of an elastic one also the share of its time that it may take."""
    from mcutrain.functions.choosing import select_elastic

    selector, request = _selector(choice), choice.request
    if not request.elastic:
        return selector.select(choice.limits)
    return select_elastic(selector, choice.limits, choice.graph, choice.target, choice.options)


def _sweep(
    choice: Choice,
    budgets: list[int],
    training: SchemeTraining | None,
    output: Path | None,
    json: bool,
) -> None:
    """A selection for each budget. training: of those that are worth their bytes."""
    lesson = None
    if training is not None:
        split = training.some(choice.graph, choice.classes)
        lesson = training.lesson(choice.request.model, choice.classes, split)
    points = select_output.select_each(_selector(choice), choice.limits, budgets)
    if output is not None:
        select_output.write_points(points, output)
    if lesson is not None and training is not None:
        points = select_output.trained(points, lesson, training.processes)
        if output is not None:
            select_output.write_points(points, output)
    select_output.show_points(choice.graph.name, points, json)


def _select_by_training(
    choice: Choice, count: int, training: SchemeTraining, output: Path | None, json: bool
) -> None:
    """The best of so many proposals, each trained."""
    split = training.parted(choice.graph, choice.classes)
    lesson = training.lesson(choice.request.model, choice.classes, split)
    finalists = _finalists(choice, count, lesson, training.processes)
    if not json:
        show_finalists(finalists, split)
    facts = {**choice.facts, "finalists": finalist_facts(finalists)}
    _tell(choice, finalists[0].proposal.selection, facts, output, json)


def _finalists(choice: Choice, count: int, lesson: Lesson, processes: int) -> list[Finalist]:
    """All of them, the best first."""
    read, measure = choice.contributions.smoothed(), choice.request.measure
    if measure is not None:
        read = replace(read, gains={measure: read.gain(measure)})
    return final(proposals(choice, read, count), lesson, processes)


def _tell(
    choice: Choice, found: Selection, facts: dict[str, Any], output: Path | None, json: bool
) -> None:
    """Write it, if there is a folder to write to, and print it."""
    if output is not None:
        select_output.write(found, facts, output)
        select_output.write_report(choice, found, output)
    levels = _levels(choice, found, output)  # a sentence, if it was made for another scheme
    if levels is not None:
        facts = {**facts, "ladder": levels.to_dict()}
        if output is not None:
            select_output.write(found, facts, output)
    select_output.show_selection(found, facts, choice.target, json)
    if levels is not None and not json:
        select_output.show_levels(levels, found.limits)


def _check_ladder(given: Path, output: Path | None) -> None:
    """Raise McutrainError now if there is none, or if it cannot be written later."""
    from mcutrain.proxies import check_folder, read_facts

    read_facts(given)
    if output is None:
        return
    if given.resolve() == output.resolve():
        raise McutrainError(
            f"{given} is the ladder that levels are taken from, and -o would replace it: give "
            "another folder"
        )
    check_folder(output)


def _levels(choice: Choice, found: Selection, output: Path | None) -> LevelsBeside | None:
    """How many of a ladder fit beside it, if there is one, and these in a folder of their own."""
    from mcutrain.functions.choosing import levels_beside

    request = choice.request
    if request.proxies is None:
        return None
    with err.status("planning levels"):
        levels = levels_beside(
            found,
            choice.graph,
            request.proxies,
            board=choice.target,
            slots=request.slots,
            accumulate=request.accumulate,
            elastic=request.elastic,
        )
    if output is not None:
        levels.write(request.proxies, output / LADDER_FOLDER)
    return levels


def _selector(choice: Choice) -> Selector:
    """All costs, with progress."""
    from mcutrain.sparse.select import Selector

    lines = Lines("costing schemes")
    with count_bar() as bar:
        task = bar.add_task("costing schemes", total=None)

        def progress(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)
            lines.tell(f"{done:,} of {total:,}")

        read, measure = choice.contributions.smoothed(), choice.request.measure
        selector = Selector(choice.graph, read, choice.costs, measure, progress)
        selector.by_gradient = choice.request.by_gradient
        return selector

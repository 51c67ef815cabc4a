"""mcutrain select: the best scheme for a budget, or the best ones for a range of budgets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mcutrain.cli import select_output, shared_flags
from mcutrain.cli.listening import OnScreen
from mcutrain.cli.output import err
from mcutrain.errors import McutrainError
from mcutrain.functions.files import check_writable_folder
from mcutrain.functions.options import Seed
from mcutrain.functions.run_options import (
    LimitOptions,
    SchemeReading,
    SelectOptions,
    TrainingOptions,
)

if TYPE_CHECKING:
    from mcutrain.functions.choosing import Choice, LevelsBeside
    from mcutrain.selection.result import Selection

LADDER_FOLDER = "ladder"
SWEEP_STEPS = 12
"""Budgets of a sweep that gives no step."""


def parse_sweep(text: str) -> str:
    """FROM:TO or FROM:TO:STEP in bytes, checked here and kept as text."""
    budgets_of(text)
    return text


def budgets_of(text: str) -> list[int]:
    """The budgets of a sweep, ascending, the last one included."""
    parts = [shared_flags.parse_bytes(part) for part in text.split(":")]
    if len(parts) not in (2, 3) or parts[0] >= parts[1] or parts[-1] < 1:
        raise typer.BadParameter(f"{text!r} is no range such as 64K:256K or 64K:256K:16K")
    step = parts[2] if len(parts) == 3 else max(1, (parts[1] - parts[0]) // SWEEP_STEPS)
    return [*range(parts[0], parts[1], step), parts[1]]


def select(
    model: shared_flags.Model,
    analysis: Annotated[Path, shared_flags.option("What `mcutrain analyze` wrote.")],
    request: SelectOptions,
    classes: Annotated[
        str,
        typer.Option(
            parser=shared_flags.parse_auto_classes,
            metavar="N|keep|auto",
            help="Outputs of the classifier; `auto`: as many as the analysis had.",
        ),
    ] = shared_flags.AUTO,
    proxies: Annotated[
        Path | None,
        shared_flags.option(
            "Cheaper fronts that `mcutrain proxies` wrote for the selected scheme. As many "
            "levels as fit beside it are kept, and written to -o.",
            metavar="DIR",
        ),
    ] = None,
    *,
    limits: LimitOptions,
    sweep: Annotated[
        str | None,
        shared_flags.option(
            "Select for each of these SRAM budgets, such as 64K:256K.",
            parser=parse_sweep,
            metavar="FROM:TO[:STEP]",
        ),
    ] = None,
    train: Annotated[
        bool, typer.Option("--train", help="Train each Pareto scheme of a sweep on --data.")
    ] = False,
    finalists: Annotated[
        int | None,
        shared_flags.option(
            "Propose N schemes, each the best by another reading of the analysis; train them on "
            "--data, and select the best on training samples held out.",
            min=2,
            max=20,
        ),
    ] = None,
    data: Annotated[Path | None, shared_flags.option("As for `mcutrain simulate`.")] = None,
    training: TrainingOptions,
    reading: SchemeReading,
    seed: Seed = 0,
    jobs: shared_flags.Jobs = None,
    no_build: Annotated[
        bool, typer.Option("--no-build", help="Do not compile the selected firmware.")
    ] = False,
    output: Annotated[
        Path | None,
        shared_flags.written(
            "DIR", "Write scheme.toml, selection.json and a report there; of a sweep every scheme."
        ),
    ] = None,
    json: shared_flags.Json = False,
) -> None:
    """Choose what to train: the scheme that fits and is expected to gain most, with proof.

    The answer is exact: no other choice of bias depth, layers, shares, modules and bits gains more
    by this analysis within the limits. With --board, all SRAM that the firmware takes counts.

    Example: `mcutrain select model.tflite --analysis analysis.json --board nucleo-f446re -o best`
    """
    from mcutrain.functions import selecting
    from mcutrain.functions.choosing import Choice, all_limits

    if sweep is not None and proxies is not None:
        raise typer.BadParameter("it does not go with --sweep", param_hint="--proxies")
    _check_training(sweep, finalists, data, train)
    if output is not None:
        check_writable_folder(output)
    if proxies is not None:
        _check_ladder(proxies, None if output is None else output / LADDER_FOLDER)
    wanted, hears = shared_flags.as_classes(classes), OnScreen(json)
    if data is not None:
        training.settings(seed)  # or a sentence
    trials = None if data is None else selecting.SchemeTrials(data, training, reading, seed, jobs)
    if sweep is not None:
        choice = selecting.sweep_choice(model, analysis, request, limits, wanted)
        budgets, learning = budgets_of(sweep), trials if train else None
        points = selecting.swept(choice, budgets, learning, output, hears)
        select_output.show_points(points, json)
    elif finalists is not None and trials is not None:
        choice = selecting.finalists_choice(
            model, analysis, request, limits, wanted, builds=not no_build
        )
        best = selecting.best_trained(choice, finalists, trials, hears)
        if not json:
            select_output.show_finalists(best)
        facts = {**choice.facts, "finalists": best.records()}
        _tell(choice, best.selection, facts, proxies, output, json)
    else:
        allowed = all_limits(request, limits)
        choice = Choice.of(model, analysis, request, allowed, wanted, builds=not no_build)
        selector = selecting.selector_of(choice, hears)
        with err.status("selecting"):
            found = choice.best(selector)
        _tell(choice, found, choice.facts, proxies, output, json)


def _check_training(
    sweep: str | None, finalists: int | None, data: Path | None, train: bool
) -> None:
    """Raise typer.BadParameter where there is nothing to train, or nothing to train on."""
    if train and (data is None or sweep is None):
        raise typer.BadParameter("it needs --sweep and --data", param_hint="--train")
    if finalists is not None and (data is None or sweep is not None):
        raise typer.BadParameter("it needs --data, and no --sweep", param_hint="--finalists")


def _tell(
    choice: Choice,
    selection: Selection,
    facts: dict[str, Any],
    proxies: Path | None,
    output: Path | None,
    json: bool,
) -> None:
    """Write it, if there is a folder to write to, and print it."""
    if output is not None:
        select_output.write(selection, facts, output)
        select_output.write_report(choice, selection, output)
    levels = _levels(choice, selection, proxies, output)  # fails for another scheme's
    if levels is not None:
        facts = {**facts, "ladder": levels.to_dict()}
        if output is not None:
            select_output.write(selection, facts, output)
    select_output.show_selection(selection, facts, choice.target, json)
    if levels is not None and not json:
        select_output.show_levels(levels, selection.limits)


def _check_ladder(given: Path, output: Path | None) -> None:
    """Raise McutrainError now if there is none, or if it cannot be written later."""
    from mcutrain.proxies import check_folder, read_facts

    read_facts(given)
    if output is None:
        return
    if given.resolve() == output.resolve():
        raise McutrainError(
            f"{given} is the cascade that levels are taken from; -o would overwrite it: give "
            "another folder"
        )
    check_folder(output)


def _levels(
    choice: Choice, found: Selection, proxies: Path | None, output: Path | None
) -> LevelsBeside | None:
    """Return how many levels of the cascade fit beside it, and write these into a folder."""
    from mcutrain.functions.choosing import levels_beside

    request = choice.request
    if proxies is None:
        return None
    with err.status("planning levels"):
        levels = levels_beside(
            found,
            choice.graph,
            proxies,
            board=choice.target,
            slots=request.slots,
            accumulate=request.accumulate,
            elastic=request.elastic,
        )
    if output is not None:
        levels.write(proxies, output / LADDER_FOLDER)
    return levels

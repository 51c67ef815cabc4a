"""mcutrain compare: what schemes cost and how well they learn, in one table."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from mcutrain.cli import shared_flags
from mcutrain.cli.listening import OnScreen
from mcutrain.cli.output import show, show_json, show_prose, show_table
from mcutrain.functions.files import check_writable_folder
from mcutrain.functions.options import LearningRequest, ProxyCascade
from mcutrain.functions.run_options import (
    BudgetOptions,
    DataOptions,
    EpisodeOptions,
    RowOptions,
    ScheduledOptions,
    ShareOptions,
)

if TYPE_CHECKING:
    from mcutrain.functions.comparing import Comparison
    from mcutrain.target import Target


def compare(
    model: shared_flags.Model,
    data: shared_flags.Data,
    *,
    scheme: Annotated[
        list[str] | None,
        shared_flags.option(
            "Another row, as `mcutrain plan --scheme` takes it; may be given again."
        ),
    ] = None,
    rows: RowOptions,
    budget: BudgetOptions,
    analysis: Annotated[
        Path | None,
        shared_flags.option(
            "What `mcutrain analyze` wrote: adds the scheme that it selects for --board or --sram."
        ),
    ] = None,
    classes: shared_flags.AutoClasses = shared_flags.AUTO,
    request: LearningRequest,
    cascade: ProxyCascade,
    few_shot: EpisodeOptions,
    training: ScheduledOptions,
    share: ShareOptions,
    reading: DataOptions,
    jobs: shared_flags.Jobs = None,
    output: Annotated[
        Path | None,
        shared_flags.written("DIR", "Write report.html and report.json there."),
    ] = None,
    json: shared_flags.Json = False,
) -> None:
    """Train schemes and compare them: the head, biases, the last layers, everything, and yours.

    What does not fit is trained too: this computer can. Ctrl-C loses nothing: the same command
    continues, from the cache.

    Example: `mcutrain compare model.tflite --data images/ --board nucleo-f446re -o comparison`
    """
    from mcutrain.functions.comparing import compare as compared

    if output is not None:
        check_writable_folder(output)
    result = compared(
        model,
        data,
        scheme or [],
        classes=shared_flags.as_classes(classes),
        request=request,
        rows=rows,
        cascade=cascade,
        share=share,
        few_shot=few_shot,
        training=training,
        reading=reading,
        budget=budget,
        analysis=analysis,
        jobs=jobs,
        output=output,
        listener=OnScreen(),
    )
    if json:
        show_json(_facts(result))
        return
    _print(result, budget.target)
    if result.report is not None:
        show(f"The report is {result.report}")


def _facts(found: Comparison) -> dict[str, Any]:
    runs, settings = found.runs, asdict(found.settings)
    return {
        "model": found.model,
        "seeds": runs.count if runs.episodes is None else None,
        "episodes": None if runs.episodes is None else asdict(runs.episodes),
        "settings": {name: value for name, value in settings.items() if name != "seed"},
        "rows": found.row_facts(),
    }


def _print(found: Comparison, target: Target | None) -> None:
    from mcutrain.report.training_sections import comparison_table

    table = comparison_table(found.rows)
    show_table(table.columns, table.rows, table.left, names=(0, 1), extra=("lr", "flash"))
    if target is not None and target.ram is not None:
        show_prose(f"SRAM: all that the firmware takes of {target.title}, stack included.")
    else:
        show_prose("SRAM: arena and trainable state, without stack and code's own variables.")
    if any(row.ways for row in found.rows):
        show_prose("Accuracy: the mean of the episodes, and its 95 % confidence interval.")
    show_prose(
        "Flash and instructions are estimates. What does not fit was trained on this computer."
    )

"""mcutrain train: a board learns, and this computer sends the samples."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mcutrain.cli import INTERRUPTED, shared_flags
from mcutrain.cli.listening import OnScreen
from mcutrain.cli.live import LiveFlags
from mcutrain.cli.output import percent, say, show, show_json
from mcutrain.cli.training import class_lines, score_lines
from mcutrain.functions.board_options import (
    BoardChoices,
    BoardDataOptions,
    LineOptions,
    RecordOptions,
    StateOptions,
    WaitOptions,
)
from mcutrain.functions.options import Seed
from mcutrain.functions.run_options import ScheduledOptions

if TYPE_CHECKING:
    from mcutrain_host.trainer import Outcome

    from mcutrain.functions.board_training import BoardRun


def train(
    folder: shared_flags.Project,
    data: shared_flags.Data,
    *,
    line: LineOptions,
    learning: ScheduledOptions,
    choices: BoardChoices,
    seed: Seed = 0,
    reading: BoardDataOptions,
    model: Annotated[
        Path | None,
        shared_flags.option(
            "For a project of --part tail: the model that it is the tail of. This computer "
            "computes its front, and the board gets latents. Without it the data are latents.",
            metavar="FILE",
        ),
    ] = None,
    saving: StateOptions,
    waiting: WaitOptions,
    record: RecordOptions,
    looking: LiveFlags,
    json: shared_flags.Json = False,
) -> None:
    """Train on a board; this computer sends samples and learning rates.

    With the flags of a `mcutrain simulate`, the board ends with the simulation's bits, and without
    --lr it finds the same learning rate. After Ctrl-C, a power cut or an unplugged cable, the same
    command goes on where the board is.

    Example: `mcutrain train project --data images/ --port /dev/ttyACM0 --epochs 2`
    """
    from mcutrain.functions.board_training import train_board

    looking.check()
    run = train_board(
        folder,
        data,
        model=model,
        line=line,
        learning=learning,
        choices=choices,
        reading=reading,
        saving=saving,
        waiting=waiting,
        record=record,
        seed=seed,
        listener=OnScreen(json, looking),
    )
    if json:
        show_json(run.to_dict())
    else:
        _tell(run)
    if run.is_interrupted:
        done = f"{run.outcome.position:,} of {run.outcome.total:,} steps are done"
        say(f"mcutrain: interrupted, {done} and saved, {kept(run)}; {run.again} continues")
        raise typer.Exit(INTERRUPTED)


def _tell(run: BoardRun) -> None:
    """What is doubtful, and what the run did."""
    if run.warning:
        say(f"mcutrain: {run.warning}")
    if run.is_interrupted:
        return
    _show_scores(run.outcome)
    _show_steps(run)
    _show_features(run)
    identity, stack = run.outcome.identity, run.outcome.statistics.stack_used_bytes
    used = f", {stack:,} of the stack's {identity.stack_bytes:,} used" if stack else ""
    show(f"SRAM            {identity.sram_bytes:,} bytes with the stack{used}")
    show(f"state           {kept(run)}; log in {shlex.quote(str(run.log))}")


def _show_scores(outcome: Outcome) -> None:
    before, resumed, after = outcome.before, outcome.resumed, outcome.accuracy
    if outcome.scores is not None and not outcome.has_one_class:
        _show_other_scores(outcome, outcome.scores)
    elif after is not None and before is not None:
        show(f"test accuracy   {percent(before)} before, {percent(after)} after")
        if resumed is not None and outcome.steps:
            show(f"resumed         at step {outcome.first:,}: {percent(resumed)}")
    elif after is not None and resumed is not None:
        at = f"at step {outcome.first:,}, where it went on"
        show(f"test accuracy   {percent(resumed)} {at}, {percent(after)} after")
    if outcome.has_one_class:
        for line in class_lines(outcome.scores_before or {}, outcome.scores or {}):
            show(line)


def _show_other_scores(outcome: Outcome, after: Mapping[str, Any]) -> None:
    before, resumed = outcome.scores_before, outcome.scores_resumed
    if before is not None:
        for line in score_lines(before, after):
            show(line)
    if resumed is not None and (outcome.steps or before is None):
        show(f"resumed         at step {outcome.first:,}; before and after, from there:")
        for line in score_lines(resumed, after):
            show(line)


def _show_steps(run: BoardRun) -> None:
    outcome = run.outcome
    if not outcome.steps:
        show(
            f"trained         nothing: the board had done all {outcome.total:,} steps; more "
            "--epochs, or --fresh, train it further"
        )
        return
    speed = outcome.steps / max(outcome.seconds, 1e-9)
    took = cycles(outcome, is_virtual=run.is_virtual)
    show(f"trained         {outcome.steps:,} steps, {speed:,.1f} a second{took}")


def _show_features(run: BoardRun) -> None:
    from mcutrain_host.trainer import ring_facts

    from mcutrain.features import FACTS

    outcome = run.outcome
    for line in FACTS.lines(run.features, outcome.position):
        show(line)
    ring = ring_facts(outcome.statistics)
    if ring:
        offered, erased = ring["samples_offered"], ring["slots_erased"]
        kept_now = min(offered, outcome.identity.remember)
        times = "once" if erased == 1 else f"{erased:,} times"
        show(f"remembered      {kept_now:,} of {offered:,} samples; a slot was erased {times}")


def kept(run: BoardRun) -> str:
    """Return where the trained state is."""
    outcome = run.outcome
    if not outcome.identity.has_slots:
        return f"in {run.state} alone: the board forgets without power"
    saved = outcome.saved
    if saved is None:
        return f"in {run.state}"
    # between the states that a board compares to choose what it trains, it keeps no other
    behind = f", of step {saved.position:,}" if saved.position < outcome.position else ""
    return f"on the board (save {saved.number}{behind}) and in {run.state}"


def cycles(outcome: Outcome, *, is_virtual: bool) -> str:
    """Cycles of a step, as text. is_virtual: whether instructions may be counted instead."""
    if not outcome.train_cycles:
        return ""
    hz = outcome.identity.clock_hz
    ms = f"{1e3 * outcome.train_cycles / hz:,.2f} ms" if hz else ""
    which = ", or more where the board is virtual: it counts instructions"
    time_of = f" ({ms}{which if is_virtual else ' on the board'})" if ms else ""
    return f", {outcome.train_cycles:,.0f} cycles each{time_of}"

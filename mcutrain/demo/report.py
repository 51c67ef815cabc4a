"""The demo's report: both runs, and the training step that the board executed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mcutrain_host.memory import Memory

from mcutrain.demo.board import BOARD
from mcutrain.pipeline import TrainingStep
from mcutrain.report.collect import collect, command_line
from mcutrain.report.learning import LearningCurve, Point
from mcutrain.report.write import write
from mcutrain.target import load_target


def write_report(
    step: TrainingStep,
    curves: Sequence[LearningCurve],
    on_board: Mapping[str, Any] | None,
    memory: Memory | None,
    folder: Path,
) -> str:
    """Write report.html and report.json. Returns the HTML's path.

    on_board: what `mcutrain demo --json` says of it, None if there was none. memory: of the
    board's ELF file.
    """
    drawn = collect(step, load_target(BOARD), memory)
    if on_board is not None:
        tested = (
            Point(0, on_board["accuracy_before"]),
            Point(on_board["steps"], on_board["accuracy"]),
        )
        curves = (*curves, LearningCurve(f"on {BOARD}", tested, unit="sample"))
        if drawn.instructions is not None:
            counted = replace(drawn.instructions, measured=on_board["instructions_per_step"])
            drawn = replace(drawn, instructions=counted)
    report = replace(drawn, curves=tuple(curves), commands=(command_line(),))
    return str(write(report, folder))

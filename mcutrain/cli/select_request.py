"""What `mcutrain select` is asked for: a model, its analysis, a board, and limits."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from mcutrain.cli import options

if TYPE_CHECKING:
    from mcutrain.ir.graph import Graph
    from mcutrain.sparse.contribution import Contributions
    from mcutrain.sparse.cost import Device, Limits
    from mcutrain.target import Target


@dataclass(frozen=True)
class Request:
    """What is asked, but for the limits."""

    model: Path
    analysis: Path
    board: str | None
    classes: str
    measure: str | None
    accumulate: int
    by_gradient: bool

    def read(self) -> tuple[Graph, int | None, Contributions, Target | None]:
        """The model with the head that is trained, its outputs if it is new, analysis, board."""
        from mcutrain.functions.choosing import analysis_for, classes_of
        from mcutrain.pipeline import load
        from mcutrain.quant import replace_head
        from mcutrain.sparse import find_head
        from mcutrain.target import load_target

        target = None if self.board is None else load_target(self.board)
        graph = load(self.model)
        head = find_head(graph)
        found = analysis_for(graph, self.analysis, self.measure, self.by_gradient)
        keeps = self.classes in (options.AUTO, options.KEEP)
        classes = self.classes if keeps else int(self.classes)
        wanted = classes_of(graph, found, classes, f" {self.analysis}")
        if wanted is not None:
            graph = replace_head(graph, head.node, wanted, 0)
        return graph, wanted, found, target

    def device(self, graph: Graph, target: Target | None, builds: bool) -> Device:
        """What schemes cost. builds: the winner is compiled, if there is a compiler."""
        from mcutrain.autodiff import TrainOptions
        from mcutrain.cost.schemes import device, has_compiler

        can_build = builds and target is not None and has_compiler(target)
        return device(graph, target, TrainOptions(accumulate=self.accumulate), can_build)

    def facts(self, graph: Graph, found: Contributions) -> dict[str, Any]:
        """For JSON."""
        return {"model": graph.name, "classes": found.classes, "board": self.board}


def limits_of(
    target: Target | None,
    sram: int | None,
    flash: int | None,
    instructions: int | None,
    step_time: float | None,
    is_sweep: bool,
) -> Limits:
    """What all flags and the board together allow."""
    from mcutrain.sparse.cost import Limits

    if is_sweep and sram is not None:
        raise typer.BadParameter("a sweep has its own budgets", param_hint="--sram")
    if target is None:
        for name, value in (
            ("flash", flash),
            ("instructions", instructions),
            ("step-time", step_time),
        ):
            if value is not None:
                raise typer.BadParameter("it needs --board", param_hint=f"--{name}")
        if sram is None and not is_sweep:
            raise typer.BadParameter("give --board, --sram or --sweep: there must be a limit")
        return Limits(sram)
    from mcutrain.errors import ArgumentError
    from mcutrain.functions.choosing import limits_of

    try:
        return limits_of(target, sram, flash, instructions, step_time)
    except ArgumentError as error:
        raise typer.BadParameter(str(error)) from error

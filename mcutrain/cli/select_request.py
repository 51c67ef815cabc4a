"""What `mcutrain select` is asked for: a model, its analysis, a board, and limits."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from mcutrain.cli import options
from mcutrain.functions.options import Accumulate, Board, Slots

if TYPE_CHECKING:
    from mcutrain.ir.graph import Graph
    from mcutrain.pipeline import StepOptions
    from mcutrain.sparse.contribution import Contributions
    from mcutrain.sparse.cost import CostModel, Limits
    from mcutrain.target import Target

UNITS_S = {"us": 1e-6, "ms": 1e-3, "s": 1.0}


def parse_seconds(text: str) -> float:
    """200ms is 0.2."""
    for unit, seconds in UNITS_S.items():
        number = text.removesuffix(unit)
        if number != text and number.replace(".", "", 1).isdigit():
            return float(number) * seconds
    raise typer.BadParameter(f"{text!r} is no time such as 200ms or 1.5s")


@dataclass(frozen=True)
class LimitFlags:
    """What a training step may take."""

    sram: Annotated[
        int | None,
        typer.Option(
            parser=options.parse_bytes,
            metavar="BYTES",
            help="Instead of the board's, such as 100K. Without --board: of arena and state only.",
            show_default=False,
        ),
    ] = None
    flash: Annotated[
        int | None,
        typer.Option(
            parser=options.parse_bytes,
            metavar="BYTES",
            help="Instead of what the board has for code and constants.",
            show_default=False,
        ),
    ] = None
    instructions: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="The most that a training step executes.", show_default=False
        ),
    ] = None
    step_time: Annotated[
        float | None,
        typer.Option(
            parser=parse_seconds,
            metavar="TIME",
            help="The longest training step, such as 200ms.",
            show_default=False,
        ),
    ] = None

    def limits(self, target: Target | None, is_sweep: bool) -> Limits:
        """Return what all flags and the board together allow."""
        from mcutrain.sparse.cost import Limits

        if is_sweep and self.sram is not None:
            raise typer.BadParameter("a sweep has its own budgets", param_hint="--sram")
        if target is None:
            for name, value in (
                ("flash", self.flash),
                ("instructions", self.instructions),
                ("step-time", self.step_time),
            ):
                if value is not None:
                    raise typer.BadParameter("it needs --board", param_hint=f"--{name}")
            if self.sram is None and not is_sweep:
                raise typer.BadParameter("give --board, --sram or --sweep: there must be a limit")
            return Limits(self.sram)
        from mcutrain.errors import ArgumentError
        from mcutrain.functions.choosing import limits_of

        try:
            return limits_of(target, self.sram, self.flash, self.instructions, self.step_time)
        except ArgumentError as error:
            raise typer.BadParameter(str(error)) from error


@dataclass(frozen=True)
class Request:
    """What is asked, but for the limits."""

    model: options.Model
    analysis: Annotated[
        Path, typer.Option(help="What `mcutrain analyze` wrote.", show_default=False)
    ]
    board: Board = None
    slots: Slots = "on"
    measure: Annotated[
        str | None,
        typer.Option(
            help="What to gain: accuracy, probability or loss of an analysis by training; "
            "learnable, joint, dimension, fisher or first_order of one by gradient; its first one "
            "by default.",
            show_default=False,
        ),
    ] = None
    classes: Annotated[
        str,
        typer.Option(
            parser=options.parse_auto_classes,
            metavar="N|keep|auto",
            help="Outputs of the classifier; `auto`: as many as the analysis had.",
        ),
    ] = options.AUTO
    accumulate: Accumulate = 1
    channels: Annotated[
        Literal["norm", "gradient"],
        typer.Option(
            help="Which input channels a share is of: the largest by weight norm, or by gradient, "
            "as an analysis by gradient measured them."
        ),
    ] = "norm"
    bias_bits: Annotated[
        Literal["32", "16", "any"],
        typer.Option(
            help="Bits of each trained bias: 16 for its difference to the model's; 32; or any, "
            "whichever gains more in what there is."
        ),
    ] = "16"
    layer_bits: Annotated[
        bool,
        typer.Option(
            "--layer-bits",
            help="Choose the residual bits of each layer by itself, instead of one number for all.",
        ),
    ] = False
    elastic: Annotated[
        bool,
        typer.Option(
            "--elastic",
            help="For firmware of `generate --elastic`, which leaves tensors out while it runs: "
            "only memory limits what is selected, and of a limit of time comes the share for "
            "`train --elastic`.",
        ),
    ] = False

    update_rule: options.UpdateRule = None
    proxies: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Cheaper fronts, as `mcutrain proxies` wrote them for the scheme that is "
            "selected: as many levels as fit beside it are kept, and written to -o.",
            show_default=False,
        ),
    ] = None

    @property
    def by_gradient(self) -> bool:
        """Are the channels of a share those with the largest gradient?"""
        return self.channels == "gradient"

    def read(self, flags: LimitFlags, is_sweep: bool, builds: bool) -> Choice:
        """All that the answer depends on. builds: the winner is compiled, if there is a compiler.

        Raises McutrainError, or typer.BadParameter for limits that contradict each other.
        """
        from mcutrain.cost.schemes import cost_model, has_compiler
        from mcutrain.pipeline import StepOptions
        from mcutrain.sparse.scheme import BIAS_BITS
        from mcutrain.update_rules import SGD

        asked = StepOptions(accumulate=self.accumulate, elastic=self.elastic)
        graph, wanted, found, target = self._read_files()
        limits = flags.limits(target, is_sweep)
        can_build = builds and target is not None and has_compiler(target)
        costs = cost_model(
            graph,
            target,
            asked,
            can_build,
            BIAS_BITS if self.bias_bits == "any" else (int(self.bias_bits),),
            self.layer_bits,
            self.update_rule or SGD,
        )
        return Choice(self, graph, wanted, asked, found, target, limits, costs)

    def _read_files(self) -> tuple[Graph, int | None, Contributions, Target | None]:
        """The model with the head that is trained, its outputs if it is new, analysis, board."""
        from mcutrain.functions.choosing import analysis_for, classes_of
        from mcutrain.pipeline import load
        from mcutrain.quant import replace_head
        from mcutrain.sparse import find_head
        from mcutrain.target import target_of

        target = target_of(self.board, self.slots)
        graph = load(self.model)
        head = find_head(graph)
        found = analysis_for(graph, self.analysis, self.measure, self.by_gradient)
        keeps = self.classes in (options.AUTO, options.KEEP)
        classes = self.classes if keeps else int(self.classes)
        wanted = classes_of(graph, found, classes, f" {self.analysis}")
        if wanted is not None:
            graph = replace_head(graph, head.node, wanted)
        return graph, wanted, found, target


@dataclass(frozen=True)
class Choice:
    """What schemes of a model are chosen from, and what they may cost.

    graph: with the head that is trained. classes: its outputs if it is new. options: of the step
    of such a graph.
    """

    request: Request
    graph: Graph
    classes: int | None
    options: StepOptions
    contributions: Contributions
    target: Target | None
    limits: Limits
    costs: CostModel

    @property
    def facts(self) -> dict[str, Any]:
        """Values for JSON."""
        classes = self.contributions.classes
        board, slots = self.request.board, self.request.slots
        return {"model": self.graph.name, "classes": classes, "board": board, "slots": slots}

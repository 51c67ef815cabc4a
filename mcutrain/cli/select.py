"""mcutrain select: the best scheme for a budget, or the best ones for a range of budgets."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from mcutrain.cli import options, select_output
from mcutrain.cli import samples as inputs
from mcutrain.cli.output import count_bar, err
from mcutrain.cli.simulate import AUTO, _classes
from mcutrain.cli.training import Lines

if TYPE_CHECKING:
    from mcutrain.ir.graph import Graph
    from mcutrain.sparse.contribution import Contributions
    from mcutrain.sparse.cost import Limits
    from mcutrain.sparse.select import Selector
    from mcutrain.target import Target

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
            parser=_classes,
            metavar="N|keep|auto",
            help="Outputs of the classifier; `auto`: as many as the analysis had.",
        ),
    ] = AUTO,
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
    data: Annotated[
        Path | None, typer.Option(help="As for `mcutrain simulate`.", show_default=False)
    ] = None,
    epochs: inputs.Epochs = 4,
    lr: inputs.Rate = inputs.RATE,  # type: ignore[assignment]  # typer parses it
    seed: options.Seed = 0,
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
    by_gradient = channels == "gradient"
    request = _Request(model, analysis, board, classes, measure, accumulate, by_gradient)
    if train and (data is None or sweep is None):
        raise typer.BadParameter("it needs --sweep and --data", param_hint="--train")
    graph, contributions, target = request.read()
    limits = _limits(target, sram, flash, instructions, step_time, sweep)
    selector = _selector(graph, contributions, target, request, builds=not no_build and not sweep)
    if sweep is not None:
        lesson = select_output.Lesson(data, epochs, lr, seed, accumulate) if train else None
        select_output.sweep(selector, graph, limits, budgets_of(sweep), lesson, output, json)
        return
    with err.status("selecting"):
        found = selector.select(limits)
    if output is not None:
        select_output.write(found, request.facts(graph, contributions), output)
        select_output.write_report(graph, found, contributions, target, accumulate, output)
    select_output.show_selection(found, request.facts(graph, contributions), target, json)


@dataclass(frozen=True)
class _Request:
    """What is asked, but for the limits."""

    model: Path
    analysis: Path
    board: str | None
    classes: str
    measure: str | None
    accumulate: int
    by_gradient: bool

    def read(self) -> tuple[Graph, Contributions, Target | None]:
        """The model with the head that is trained, its analysis, the board."""
        from mcutrain.errors import AnalysisError
        from mcutrain.pipeline import load
        from mcutrain.quant import replace_head
        from mcutrain.sparse import find_head
        from mcutrain.sparse.contribution import read_contributions
        from mcutrain.target import load_target

        target = None if self.board is None else load_target(self.board)
        graph = load(self.model)
        head = find_head(graph)
        found = read_contributions(self.analysis, graph)
        found.gain(self.measure)
        if self.by_gradient and not found.channels:
            raise AnalysisError(
                f"the analysis {self.analysis} has no channels; make one with `mcutrain analyze "
                "--by gradient`, or leave out --channels"
            )
        outputs = graph.tensors[graph.outputs[0]].type.shape[-1]
        if self.classes == AUTO:
            wanted = None if found.classes == outputs else found.classes
        else:
            wanted = options.new_classes(self.classes)
        if (wanted or outputs) != found.classes:
            raise AnalysisError(
                f"the analysis {self.analysis} was made with {found.classes} classes, not "
                f"{wanted or outputs}; leave out --classes, or analyze with that many"
            )
        if wanted is not None:
            graph = replace_head(graph, head.node, wanted, 0)
        return graph, found, target

    def facts(self, graph: Graph, found: Contributions) -> dict[str, Any]:
        """For JSON."""
        return {"model": graph.name, "classes": found.classes, "board": self.board}


def _limits(
    target: Target | None,
    sram: int | None,
    flash: int | None,
    instructions: int | None,
    step_time: float | None,
    sweep: str | None,
) -> Limits:
    """What all flags and the board together allow."""
    from mcutrain.sparse.cost import Limits

    if sweep is not None and sram is not None:
        raise typer.BadParameter("a sweep has its own budgets", param_hint="--sram")
    if target is None:
        for name, value in (
            ("flash", flash),
            ("instructions", instructions),
            ("step-time", step_time),
        ):
            if value is not None:
                raise typer.BadParameter("it needs --board", param_hint=f"--{name}")
        if sram is None and sweep is None:
            raise typer.BadParameter("give --board, --sram or --sweep: there must be a limit")
        return Limits(sram)
    counts = [n for n in (instructions, _instructions(target, step_time)) if n is not None]
    if counts and target.is_hosted:
        raise typer.BadParameter(
            f"nothing is known of the instructions of {target.name}; take a microcontroller"
        )
    return Limits(
        sram if sram is not None or target.ram is None else target.ram.size_bytes,
        flash if flash is not None or target.flash is None else target.flash.size_bytes,
        min(counts, default=None),
    )


def _instructions(target: Target, step_time: float | None) -> int | None:
    """How many a board executes in that time."""
    if step_time is None:
        return None
    if target.clock_hz is None or target.cycles_per_instruction is None:
        raise typer.BadParameter(
            f"the clock or cycles_per_instruction of {target.name} is not known",
            param_hint="--step-time",
        )
    return int(step_time * target.clock_hz / target.cycles_per_instruction)


def _selector(
    graph: Graph,
    contributions: Contributions,
    target: Target | None,
    request: _Request,
    builds: bool,
) -> Selector:
    """All costs, with progress."""
    from mcutrain.autodiff import TrainOptions
    from mcutrain.pipeline import device, has_compiler
    from mcutrain.sparse.select import Selector

    lines = Lines("costing schemes")
    with count_bar() as bar:
        task = bar.add_task("costing schemes", total=None)

        def progress(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)
            lines.tell(f"{done:,} of {total:,}")

        options = TrainOptions(accumulate=request.accumulate)
        can_build = builds and target is not None and has_compiler(target)
        found = device(graph, target, options, can_build)
        smoothed = contributions.smoothed()
        selector = Selector(graph, smoothed, found, request.measure, progress)
        selector.by_gradient = request.by_gradient
        return selector

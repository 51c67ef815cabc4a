"""mcutrain proxies: cheaper fronts for easy samples, and the policy that chooses among them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mcutrain.cli import options
from mcutrain.cli import samples as inputs
from mcutrain.cli.models import load_model
from mcutrain.cli.output import percent, say, show, show_json, show_table
from mcutrain.cli.training import counting
from mcutrain.functions.files import check_writable_folder

if TYPE_CHECKING:
    from mcutrain.ir.graph import Graph
    from mcutrain.pipeline import TrainingStep
    from mcutrain.proxies import LadderSettings, MadeLadder

SAMPLES = 400


@dataclass(frozen=True)
class LevelFlags:
    """Flags of the fronts that are wanted."""

    levels: Annotated[
        int, typer.Option(metavar="N", help="Fronts, the network's own, level 0, among them.")
    ] = 3
    delta: Annotated[
        float,
        typer.Option(
            metavar="SHARE",
            help="What each level costs less than the one before: a share of what the channels "
            "cost that can go.",
        ),
    ] = 0.25
    threshold: Annotated[
        float | None,
        typer.Option(
            metavar="COSINE",
            help="A level is near enough for a sample if its latent's cosine with the whole "
            "front's is as large; by default the median of the cheapest level's.",
            show_default=False,
        ),
    ] = None
    least_cosine: Annotated[
        float | None,
        typer.Option(
            metavar="COSINE",
            help="Write nothing unless every level reaches this in the mean.",
            show_default=False,
        ),
    ] = None
    distillation: Annotated[
        int,
        typer.Option(
            metavar="PASSES",
            help="Train each fitted front for the latents of the whole one: so many passes over "
            "half of the samples; 0 does not.",
        ),
    ] = 8

    @property
    def settings(self) -> LadderSettings:
        """Return the settings of the proxies, checked. Raises ArgumentError."""
        from mcutrain.proxies import LadderSettings

        found = LadderSettings(
            self.levels, self.delta, self.threshold, self.least_cosine, self.distillation
        )
        found.check()
        return found


def proxies(
    model: options.Model,
    data: inputs.Data,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            help="The folder to write: a .tflite file for each level, one for the policy, and "
            "ladder.json.",
            show_default=False,
        ),
    ],
    scheme: options.Scheme = "head",
    *,
    wanted: LevelFlags,
    latent: Annotated[
        str,
        typer.Option(
            metavar="auto|TENSOR",
            help="What the fronts make; as `mcutrain generate` is told, see `mcutrain plan`.",
        ),
    ] = "auto",
    samples: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help=f"So many training samples; labels do nothing. {SAMPLES} at most by default.",
            show_default=False,
        ),
    ] = None,
    seed: options.Seed = 0,
    reading: inputs.ReadingFlags,
    json: options.Json = False,
) -> None:
    """Make cheaper fronts for easy samples (a proxy cascade), and the policy that chooses.

    It rarely pays: keep latents where samples come again. docs/commands.md says when it may.
    What lies before the latent is pruned, fitted and trained for the whole front's latents, and
    quantized like these, so that one tail serves all levels.

    Example: `mcutrain proxies model.tflite --scheme last:6 --data images/ -o ladder/`
    """
    from mcutrain.cost.instructions import USUAL_ISA
    from mcutrain.data import AtMost
    from mcutrain.memplan import find_latent
    from mcutrain.pipeline import prepare
    from mcutrain.proxies import check_folder, make_ladder, write_ladder
    from mcutrain.simulation import check_can_build

    settings = wanted.settings
    check_folder(output)
    check_writable_folder(output)
    check_can_build()  # a sentence before the data is read
    graph = reading.named(load_model(model))
    step = prepare(graph, scheme)
    found = find_latent(step.plan, latent)
    count = AtMost(SAMPLES) if samples is None else samples
    x = _inputs(graph, step, reading.source(data, count, 1, seed))
    with counting("proxies", json) as tell:
        made = make_ladder(step, found, x, settings, tell)
    facts = {"model": str(model), "scheme": step.scheme.name, "isa": USUAL_ISA, **made.facts()}
    write_ladder(made.ladder, output, made.front, facts)
    if made.mean_instructions >= 1:
        say(
            "mcutrain: note: policy and fronts cost more than the whole front does for every "
            "sample: a larger --delta or a lower --threshold makes cheaper ones, less near"
        )
    if json:
        show_json({"folder": str(output), "latent": made.ladder.latent, **facts})
        return
    _print(made)
    fronts = "a front" if settings.levels == 2 else f"{settings.levels - 1} fronts"
    show(f"written         {output}: {fronts} and the policy")


def _inputs(graph: Graph, step: TrainingStep, source: inputs.DataSource) -> Any:
    """The training samples as the step takes them, int8."""
    from mcutrain.runs.samples import model_input
    from mcutrain.simulation import RunSettings, Samples

    split, x_type = source.for_model(graph).read(model_input(graph)), step.input_type
    prepared = Samples.prepare(
        split,
        x_type.shape[1:],
        x_type.scale,
        x_type.zero_point,
        RunSettings(),
        source.normalization or "auto",
    )
    return prepared.quantized(prepared.split.train.x)


def _print(made: MadeLadder) -> None:
    columns = (
        "level", "channels", "MACs", "instructions", "flash, bytes", "cosine", "error", "gain",
        "near", "share",
    )  # fmt: skip
    first = made.levels[0]
    rows = [
        [
            level.level,
            f"{level.channels:,} of {level.of:,}",
            percent(level.macs / first.macs),
            percent(level.instructions / first.instructions),
            level.flash_bytes,
            f"{level.cosine:.4f}",
            percent(level.error),
            percent(level.gain),
            percent(level.near),
            percent(level.share),
        ]
        for level in made.levels
    ]
    show_table(columns, rows)
    show(f"latent          {made.ladder.latent}; near from a cosine of {made.threshold:.4f} on")
    show(
        f"policy          {made.policy_macs} multiply-accumulates behind the stem; the cheapest "
        f"level that is near for {percent(made.right)} of {made.samples} samples it never saw"
    )
    show(
        f"in the mean     {percent(made.mean_instructions)} of the whole front's instructions, the "
        f"policy's {percent(made.policy_instructions / first.instructions)} among them"
    )

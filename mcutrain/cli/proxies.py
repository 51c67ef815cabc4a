"""mcutrain proxies: cheaper fronts for easy samples, and the policy that chooses among them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mcutrain.cli import shared_flags
from mcutrain.cli.listening import OnScreen
from mcutrain.cli.output import percent, show, show_json, show_table
from mcutrain.functions.run_options import LevelOptions, UnlabelledReading

if TYPE_CHECKING:
    from mcutrain.proxies import MadeLadder


def proxies(
    model: shared_flags.Model,
    data: shared_flags.Data,
    output: Annotated[
        Path,
        shared_flags.written(
            "DIR",
            "The folder to write: a .tflite file for each level, one for the policy, and "
            "ladder.json.",
        ),
    ],
    scheme: shared_flags.Scheme = "head",
    *,
    wanted: LevelOptions,
    latent: Annotated[
        str,
        typer.Option(
            metavar="auto|TENSOR",
            help="The tensor that the fronts compute, as for `mcutrain generate`; see `mcutrain "
            "plan`.",
        ),
    ] = "auto",
    seed: shared_flags.Seed = 0,
    reading: UnlabelledReading,
    json: shared_flags.Json = False,
) -> None:
    """Make cheaper fronts for easy samples (a proxy cascade), and the policy that chooses.

    It rarely pays: keep latents where samples come again. docs/commands.md says when it may.
    The front, the frozen layers before the first trained one, is pruned, fitted, and trained to
    give the whole front's latents. So one tail serves all levels.

    Example: `mcutrain proxies model.tflite --scheme last:6 --data images/ -o ladder/`
    """
    from mcutrain.functions.proxy_making import make_proxies
    from mcutrain.proxies import read_facts

    made = make_proxies(
        model,
        data,
        output,
        scheme,
        latent=latent,
        wanted=wanted,
        reading=reading,
        seed=seed,
        listener=OnScreen(json),
    )
    if json:
        show_json({"folder": str(output), **read_facts(output)})
        return
    _print(made)
    fronts = "a front" if wanted.levels == 2 else f"{wanted.levels - 1} fronts"
    show(f"written         {output}: {fronts} and the policy")


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

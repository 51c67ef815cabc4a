"""mcutrain average: what boards of a fleet learnt, as one state."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mcutrain.cli import shared_flags
from mcutrain.cli.output import say, show, show_json, show_table

if TYPE_CHECKING:
    from mcutrain.functions.averaging import FleetAverage


Base = Annotated[
    Path,
    shared_flags.argument("BASE", "The state that a round begins with."),
]


def average(
    model: shared_flags.Model,
    base: Base,
    trained: Annotated[
        list[str],
        shared_flags.argument(
            "[NAME=]FILE...",
            "What boards learnt: states (.mcts), checkpoints, projects, or sums (.mctd). "
            "NAME: of the board, else the file's.",
        ),
    ],
    output: Annotated[
        Path,
        shared_flags.written(
            "FILE", "The new base (.mcts), or the sum for another `average` to add (.mctd)."
        ),
    ],
    weights: Annotated[
        str | None,
        shared_flags.option(
            "A weight for each file; by default the number of samples that it learnt since the "
            "base.",
            metavar="N,N,…",
        ),
    ] = None,
    rounding: Annotated[
        str,
        typer.Option(
            metavar="nearest|stochastic",
            help="Rounding of the mean. stochastic keeps, in the mean, what is less than half of "
            "a last bit.",
        ),
    ] = "nearest",
    trim: Annotated[
        int,
        typer.Option(
            metavar="K",
            min=0,
            help="Leave out the K smallest and K largest differences of each number, against "
            "boards that lie or diverge. Weights do not count then.",
        ),
    ] = 0,
    former: Annotated[
        list[Path] | None,
        shared_flags.option(
            "The base of the round before; again for the one before that, and so on. A sum that "
            "began with the k-th counts 1/2^k.",
            metavar="FILE",
        ),
    ] = None,
    other: Annotated[
        list[Path] | None,
        shared_flags.option(
            "The base of boards with another scheme: tensors that both train are averaged over "
            "all.",
            metavar="FILE",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of stochastic rounding.")] = 0,
    json: shared_flags.Json = False,
) -> None:
    """Average what boards learnt from their own data: one state for all of them.

    Trained numbers are added as integers. So the result has the same bytes in any order of the
    boards, averaged at once or in groups whose sums are added.

    Example: `mcutrain average model.tflite base.mcts a.mcts b.mcts -o next.mcts`
    """
    from mcutrain.functions.averaging import average as averaged

    result = averaged(
        model,
        base,
        _files(trained),
        output,
        weights=_whole_numbers(weights),
        rounding=rounding,  # type: ignore[arg-type] # the function says which there are
        trim=trim,
        former=former or (),
        other=other or (),
        seed=seed,
    )
    if json:
        show_json({"model": str(model), "base": str(base), **result.to_dict()})
    else:
        _print(result)


def _files(given: list[str]) -> dict[str, Path] | list[Path]:
    """Files by name if one has a name; those without are called as their file is."""
    from mcutrain.errors import ArgumentError
    from mcutrain.functions.averaging import board_name

    if not any("=" in one and not Path(one).exists() for one in given):
        return [Path(one) for one in given]
    files: dict[str, Path] = {}
    for one in given:
        is_file = Path(one).exists()
        name, _, file = (board_name(Path(one)), "", one) if is_file else one.partition("=")
        if not file:
            raise ArgumentError(f"{one} is no file, and no NAME=FILE")
        if name in files:
            raise ArgumentError(f"two files are named {name!r}: give each board its own name")
        files[name] = Path(file)
    return files


def _whole_numbers(text: str | None) -> list[int] | None:
    from mcutrain.errors import ArgumentError

    if text is None:
        return None
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ArgumentError(f"--weights {text}: whole numbers are separated by commas") from None


def _print(result: FleetAverage) -> None:
    rows = [
        [s.name, s.boards, f"{s.weight:,}", f"{s.updates:,}", f"{s.moved:.2f}"]
        for s in result.shares
    ]
    show_table(("file", "boards", "weight", "updates", "moved"), rows)
    for share in result.shares:
        if share.is_far:
            say(
                f"warning: {share.name} moved by {share.moved:.2f} last bits, far from the others: "
                "look at its data and rate, leave it out, or give --trim"
            )
    show(f"{result.summary()}; SHA-256 {result.sha256}")

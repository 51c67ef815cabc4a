"""mcutrain imprint: a board learns a class from a few samples, without training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from mcutrain.cli import shared_flags
from mcutrain.cli.listening import OnScreen
from mcutrain.cli.output import show, show_json
from mcutrain.functions.board_options import ClassOptions, LineOptions, ReplayOptions
from mcutrain.functions.run_options import DataOptions

if TYPE_CHECKING:
    from mcutrain.functions.imprinting import ImprintedClass


def imprint(
    folder: shared_flags.Project,
    data: shared_flags.Data,
    name: Annotated[
        str,
        shared_flags.option(
            "The class: of the data, and of the outputs if they have names.",
            "--class",
            metavar="NAME",
        ),
    ],
    *,
    which: ClassOptions,
    line: LineOptions,
    after: ReplayOptions,
    seed: shared_flags.Seed = 0,
    reading: DataOptions,
    json: shared_flags.Json = False,
) -> None:
    """Teach a board a class from a few samples of it, without training it.

    All samples of the class that the data has are sent; what the other classes score stays as it
    is. The project was generated with --imprint, and with an output for the class: --add-class
    NAME, or more --classes than were trained.

    Example: `mcutrain imprint project --data hats/ --class hat --port /dev/ttyACM0`
    """
    from mcutrain.functions.imprinting import imprint as imprinted

    found = imprinted(
        folder,
        data,
        name,
        which=which,
        line=line,
        after=after,
        reading=reading,
        seed=seed,
        listener=OnScreen(json),
    )
    if json:
        show_json(found.to_dict())
    else:
        _tell(found)


def _tell(found: ImprintedClass) -> None:
    """What the board did."""
    report = found.report
    show(f"{found.summary()}.")
    if report.row_cycles:
        show(f"{report.sample_cycles:,} cycles a sample, {report.row_cycles:,} for the weights.")
    if found.replays:
        show(f"Then it learnt from {found.replays:,} samples that it remembers.")
    if report.save_number:
        show(f"The board has saved it (save {report.save_number}).")
    else:
        show("The board has no slots to save into: without power it forgets the class.")

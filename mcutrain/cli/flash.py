"""mcutrain flash: built firmware onto its board."""

from __future__ import annotations

from mcutrain.cli import shared_flags
from mcutrain.cli.listening import OnScreen
from mcutrain.cli.output import show, show_json
from mcutrain.functions.board_options import FlashOptions


def flash(
    folder: shared_flags.Project, *, where: FlashOptions, json: shared_flags.Json = False
) -> None:
    """Write built firmware to its board.

    The state that was trained and saved there stays, unless the project was generated with
    --slots off.

    Example: `mcutrain flash project --port /dev/ttyUSB0`
    """
    from mcutrain.functions.firmware import flash as flashed

    result = flashed(folder, where=where, listener=OnScreen(json))
    if json:
        show_json(result.to_dict())
        return
    show(f"{result.way}: {result.done}.")
    identity = result.identity
    if identity is not None:
        show(
            f"{identity.board} answers: {identity.model}, scheme {identity.scheme}, "
            f"{identity.position:,} samples learnt."
        )
    elif result.silent:
        show(f"The firmware does not answer {result.silent}.")

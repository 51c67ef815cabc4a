"""mcutrain ports: where a board may be."""

from __future__ import annotations

from typing import Annotated

import typer

from mcutrain.cli.output import show, show_json, show_table
from mcutrain.cli.shared_flags import Json


def ports(
    probe: Annotated[
        bool,
        typer.Option(
            "--probe",
            help="Ask each who is there. Opening a port restarts some boards, such as Arduinos.",
        ),
    ] = False,
    json: Json = False,
) -> None:
    """List the serial ports, and with --probe the boards that answer.

    Example: `mcutrain ports --probe`
    """
    from mcutrain_host.finding import NO_PORT

    from mcutrain.functions.serial_ports import ports as listed

    found = listed(probe=probe)
    rows = found.records()
    if json:
        show_json(found.to_dict())
    elif not rows:
        show(NO_PORT)
    else:
        show_table(tuple(rows[0]), [list(row.values()) for row in rows], left=4)

"""mcutrain ports: where a board may be."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mcutrain.cli.options import Json
from mcutrain.cli.output import count_bar, show, show_json, show_table

if TYPE_CHECKING:
    from mcutrain_host.ports import Port, Probe


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
    from mcutrain_host.ports import find_ports
    from mcutrain_host.ports import probe as ask

    found = find_ports()
    answers: dict[str, Probe] = {}
    if probe:
        with count_bar(json) as bar:
            for port in bar.track(found, description="asking"):
                answers[port.path] = ask(port.path)
    if json:
        show_json({"ports": [_facts(port, answers.get(port.path)) for port in found]})
    elif not found:
        show("there is no serial port; is the cable in, and does it carry data?")
    else:
        columns = ("port", "description", "USB", *(["board"] if probe else []))
        show_table(columns, [_row(port, answers.get(port.path)) for port in found], left=4)


def _facts(port: Port, answer: Probe | None) -> dict[str, Any]:
    found: dict[str, Any] = asdict(port)
    if answer is not None:
        identity = answer.identity
        found["board"] = asdict(identity) if identity else None
        found["reason"] = answer.reason
        if identity:
            found["board"]["model_hash"] = f"{identity.model_hash:016x}"
    return found


def _row(port: Port, answer: Probe | None) -> list[str]:
    usb = f"{port.vendor:04x}:{port.product:04x}" if port.vendor and port.product else ""
    row = [port.path, port.description, usb]
    if answer is not None:
        identity = answer.identity
        row.append(
            f"{identity.board}: {identity.model}, scheme {identity.scheme}, "
            f"{identity.position:,} samples learnt"
            if identity
            else "no answer"
        )
    return row

"""mcutrain ports: where a board may be."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mcutrain.cli.options import Json
from mcutrain.cli.output import show, show_json, show_table

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
    from mcutrain_host.finding import NO_PORT, ask_all
    from mcutrain_host.ports import find_ports

    found = find_ports()
    asked = ask_all(found) if probe else []
    answers = {port.path: answer for port, answer in zip(found, asked, strict=False)}
    if json:
        show_json({"ports": [_facts(port, answers.get(port.path)) for port in found]})
    elif not found:
        show(NO_PORT)
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
    from mcutrain_host.finding import answer_of

    usb = f"{port.vendor:04x}:{port.product:04x}" if port.vendor and port.product else ""
    row = [port.path, port.description, usb]
    if answer is not None:
        row.append(answer_of(answer))
    return row

"""mcutrain monitor: what a board says of itself, every second."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mcutrain.cli import boards
from mcutrain.cli.output import err, out, say, show, show_json, show_table

if TYPE_CHECKING:
    from mcutrain_host.client import Device

BAD_PREDICTION = -1


def monitor(
    port: boards.BoardPort = None,
    baud: boards.Baud = None,
    every: Annotated[
        float, typer.Option(min=0.1, metavar="SECONDS", help="Between two questions.")
    ] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Ask once and end.")] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print a line of JSON per answer in the place of text.")
    ] = False,
) -> None:
    """Watch a board: position, loss, cycles, stack, the line's faults. It changes nothing.

    A port has one user: while another program uses it, this is refused. Ctrl-C ends it. Where
    there is no terminal, a line is printed for each answer.

    Example: `mcutrain monitor --port /dev/ttyACM0`
    """
    from mcutrain_host.ports import PROBE, connect

    device = connect(boards.find_any_port(port), baud, PROBE)
    try:
        tell = _tell_json if json else _tell_table
        if once:
            tell(facts(device))
        elif json:
            _repeat(device, every, tell)
        elif out.is_terminal and err.is_terminal:
            _watch(device, every)
        else:
            tell(facts(device))
            _repeat(device, every, _tell_line)
    except KeyboardInterrupt:
        say("mcutrain: no longer watching")
    finally:
        device.close()


def facts(device: Device) -> dict[str, Any]:
    """Return what the board is, and what it counted. Raises HostError."""
    from mcutrain_host.errors import DeviceRestartedError

    try:
        counted = device.statistics()
    except DeviceRestartedError:
        device.identify()
        counted = device.statistics()
    identity = asdict(device.identity)
    identity["model_hash"] = f"{identity['model_hash']:016x}"
    identity["has_slots"] = device.identity.has_slots
    return {**identity, **asdict(counted), "loss": counted.loss_q16 / 65536}


def _tell_json(found: dict[str, Any]) -> None:
    show_json(found, indent=None)


def _tell_table(found: dict[str, Any]) -> None:
    show_table(("", ""), _rows(found))


def _tell_line(found: dict[str, Any]) -> None:
    """What changes, where no table can be drawn again."""
    prediction = found["prediction"]
    parts = [
        f"{found['position']:,} samples learnt",
        f"loss {found['loss']:.4f}",
        *([] if prediction == BAD_PREDICTION else [f"prediction {prediction}"]),
        *([f"save {found['save_number']}"] if found["save_number"] else []),
        f"{found['frames']:,} frames, {found['frames_refused']:,} damaged",
    ]
    show(f"{time.strftime('%H:%M:%S')}  {', '.join(parts)}")


def _repeat(device: Device, every: float, tell: Callable[[dict[str, Any]], None]) -> None:
    while True:
        tell(facts(device))
        time.sleep(every)


def _watch(device: Device, every: float) -> None:
    from rich.live import Live

    with Live(console=err, auto_refresh=False, transient=True) as live:
        while True:
            live.update(_table(facts(device)), refresh=True)
            time.sleep(every)


def _table(found: dict[str, Any]) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column()
    table.add_column(justify="right")
    for name, value in _rows(found):
        table.add_row(name, Text(value))
    return table


def _rows(found: dict[str, Any]) -> list[tuple[str, str]]:
    prediction = found["prediction"]
    return [
        ("board", found["board"]),
        ("model", found["model"]),
        ("scheme", found["scheme"]),
        ("samples learnt", f"{found['position']:,}"),
        ("loss of the last step", f"{found['loss']:.4f}"),
        ("last prediction", "none" if prediction == BAD_PREDICTION else str(prediction)),
        ("saturated gradients of the last step", f"{found['saturations']:,}"),
        ("training step", _cycles(found["train_cycles"], found["clock_hz"])),
        ("inference", _cycles(found["infer_cycles"], found["clock_hz"])),
        ("SRAM", f"{found['sram_bytes']:,} bytes"),
        ("stack used", f"{found['stack_used_bytes']:,} of {found['stack_bytes']:,} bytes"),
        ("newest save", _save(found)),
        *_ring(found),
        ("frames taken, damaged, repeated", _line(found)),
    ]


def _ring(found: dict[str, Any]) -> list[tuple[str, str]]:
    """Rows about the ring of a board that remembers samples."""
    if not found["remember"]:
        return []
    held = min(found["offered"], found["remember"])
    return [
        ("samples remembered", f"{held:,} of {found['offered']:,}, room for {found['remember']:,}"),
        ("erasures of a slot", f"{found['slots_erased']:,}"),
    ]


def _save(found: dict[str, Any]) -> str:
    if not found["has_slots"]:
        return "none: the board has no slots, and forgets without power"
    return str(found["save_number"] or "none")


def _cycles(cycles: int, clock_hz: int) -> str:
    if not cycles:
        return "none yet"
    return f"{cycles:,} cycles" + (f", {1e3 * cycles / clock_hz:,.2f} ms" if clock_hz else "")


def _line(found: dict[str, Any]) -> str:
    return f"{found['frames']:,}, {found['frames_refused']:,}, {found['repeated']:,}"

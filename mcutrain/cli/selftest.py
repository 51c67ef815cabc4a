"""mcutrain selftest: a board proves that it computes what the simulation computes."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mcutrain.cli import shared_flags
from mcutrain.cli.listening import OnScreen
from mcutrain.cli.output import say, show, show_json, show_table
from mcutrain.cli.training import counting
from mcutrain.functions.board_options import Port
from mcutrain.functions.files import check_writable, replace_file
from mcutrain.functions.options import boards as known_boards

if TYPE_CHECKING:
    from mcutrain_host.client import Device
    from mcutrain_host.selftest import SelfTest

    from mcutrain.functions.selftest import Prepared

TITLE = "selftest"
FAILED = 1
EMULATED_CUTS = 10
WORDS = {True: "passed", False: "FAILED", None: "not done"}
Cut = Callable[[int], None]


def selftest(
    board: Annotated[
        str | None,
        typer.Argument(
            metavar="BOARD",
            help="The board's name, or a folder with a board.toml.",
            autocompletion=known_boards,
            show_default=False,
        ),
    ] = None,
    port: Port = None,
    emulator: Annotated[
        bool, typer.Option("--emulator", help="A virtual board instead of one with a cable.")
    ] = False,
    steps: Annotated[int, typer.Option(min=1, max=2000, help="Steps to compare.")] = 100,
    power_cuts: Annotated[
        int | None,
        shared_flags.option(
            "Power cuts. It asks you to pull the cable for each; 0 if not given, 10 for an "
            "emulator.",
            min=0,
            max=500,
            metavar="N",
        ),
    ] = None,
    flash: Annotated[
        bool, typer.Option("--flash/--no-flash", help="Write the program, or go on with it.")
    ] = True,
    yes: Annotated[bool, typer.Option("--yes", help="Flash without asking.")] = False,
    keep: Annotated[
        Path | None,
        shared_flags.option("Keeps the generated program there.", metavar="DIR"),
    ] = None,
    output: Annotated[
        Path | None,
        shared_flags.written("FILE", "Writes the report."),
    ] = None,
    compare: Annotated[
        Path | None,
        shared_flags.option(
            "Shows a report, and whether its bits are those that this version simulates.",
            metavar="FILE",
        ),
    ] = None,
    json: shared_flags.Json = False,
) -> None:
    """Flash a board, train on it, disturb it, and compare every state with the simulation's.

    What it trains comes with mcutrain. Its program replaces the board's, and what that has saved.

    Example: `mcutrain selftest nucleo-f446re --emulator -o report.json`
    """
    from mcutrain_host.link import check_port

    from mcutrain.functions.selftest import prepare_selftest, read_selftest, write_selftest

    if compare is not None:
        _show_earlier(read_selftest(compare), compare, json)
        return
    if board is None:
        raise typer.BadParameter(
            "name the board to test, as nucleo-f446re; `mcutrain plan --help` lists them",
            param_hint="BOARD",
        )
    if output is not None:
        check_writable(output)
    cuts = (EMULATED_CUTS if emulator else 0) if power_cuts is None else power_cuts
    with tempfile.TemporaryDirectory() as scratch:
        folder = keep or Path(scratch)
        if port is not None and not emulator:
            check_port(port)
        with counting(TITLE, json) as report:
            prepared = prepare_selftest(board, folder, steps, cuts, report)
        with _board(prepared, port, emulator, flash, yes, json) as (device, cut):
            result = _run(prepared, device, cuts, cut, emulator, json)
    if output is not None:
        replace_file(output, write_selftest(result).encode())
    _show(result, json)
    if output is not None:
        say(f"The report is in {output}.")
    if not result.passed:
        raise typer.Exit(FAILED)


def _run(
    prepared: Prepared, device: Device, cuts: int, cut: Cut, emulator: bool, quiet: bool
) -> SelfTest:
    from mcutrain.functions.selftest import run_selftest

    if cuts and not emulator:  # the bar would write over what is asked
        return run_selftest(prepared, device, cuts, cut)
    with counting(TITLE, quiet) as report:
        return run_selftest(prepared, device, cuts, cut, not emulator, report)


@contextmanager
def _board(
    prepared: Prepared, port: str | None, emulator: bool, flash: bool, yes: bool, quiet: bool
) -> Iterator[tuple[Device, Cut]]:
    """The board with the program, and what cuts its power."""
    from mcutrain_host.client import Device
    from mcutrain_host.link import SerialLink

    from mcutrain.functions.board_line import find_baud, find_port

    project = prepared.project
    if emulator:
        from mcutrain_host.virtual.board import VirtualBoard
        from mcutrain_host.virtual.errors import check_installed

        check_installed()
        with (
            VirtualBoard.from_folder(project.folder, "pty") as virtual,
            SerialLink(virtual.port, find_baud(project, None)) as link,
        ):
            yield Device(link), lambda number: virtual.power_cycle()
        return
    if flash:
        _flash(prepared, port, yes, quiet)
    place = find_port(project, port, OnScreen().note)
    with SerialLink(place, find_baud(project, None)) as link:
        yield Device(link), _ask_for_a_cut


def _flash(prepared: Prepared, port: str | None, yes: bool, quiet: bool) -> None:
    from mcutrain_host.flashing import Job, choose

    title = prepared.project.board.title
    if not yes and not typer.confirm(
        f"This replaces the program of the {title}, and what it has saved. Go on?", err=True
    ):
        raise typer.Exit(2)
    with counting(TITLE, quiet) as report:
        job = Job(prepared.project, port, None, report)
        done = choose(job).run(job)
    say(done)


def _ask_for_a_cut(number: int) -> None:
    typer.prompt(
        f"Power cut {number}: pull the board's cable, plug it in again, and press Enter",
        default="",
        show_default=False,
        prompt_suffix=" ",
        err=True,
    )


def _show_earlier(result: SelfTest, path: Path, json: bool) -> None:
    from mcutrain.functions.selftest import has_our_bits

    with counting(TITLE, json) as report:
        equal = has_our_bits(result, report)
    _show(result, json, equal)
    if not json:
        verdict = "are" if equal else "are NOT"
        show(f"The bits in {path} {verdict} those that this version simulates.")
    if not (equal and result.passed):
        raise typer.Exit(FAILED)


def _show(result: SelfTest, json: bool, equal: bool | None = None) -> None:
    if json:
        facts: dict[str, Any] = asdict(result) | {"passed": result.passed}
        show_json(facts if equal is None else facts | {"bits_of_this_version": equal})
        return
    where = "in hardware" if result.hardware else "on an emulator"
    clock = f", {result.clock_hz / 1e6:g} MHz" if result.clock_hz else ""
    show(f"{result.title} ({result.core}{clock}), {where}, {result.compiler}: {result.scheme}")
    rows = [[check.name, WORDS[check.passed], check.found] for check in result.checks]
    show_table(("check", "", ""), rows, left=3)
    slow = sorted(result.nodes, key=lambda node: node.cycles, reverse=True)[:8]
    if slow:
        rows = [
            [node.name, f"{node.cycles:,}", f"{node.cycles / max(node.instructions, 1):.2f}"]
            for node in slow
        ]
        show_table(("slowest nodes", "cycles", "for each planned instruction"), rows)

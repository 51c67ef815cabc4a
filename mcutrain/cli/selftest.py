"""mcutrain selftest: a board proves that it computes what the simulation computes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mcutrain.cli import shared_flags
from mcutrain.cli.listening import OnScreen
from mcutrain.cli.output import say, show, show_json, show_table
from mcutrain.cli.training import counting
from mcutrain.functions.board_options import Port, ProofOptions
from mcutrain.functions.files import check_writable
from mcutrain.functions.options import boards as known_boards

if TYPE_CHECKING:
    from mcutrain.functions.selftest import SelfTestResult

TITLE = "selftest"
FAILED = 1
WORDS = {True: "passed", False: "FAILED", None: "not done"}


def selftest(
    board: Annotated[
        str | None,
        shared_flags.argument(
            "BOARD", "The board's name, or a folder with a board.toml.", autocompletion=known_boards
        ),
    ] = None,
    port: Port = None,
    *,
    how: ProofOptions,
    flash: Annotated[
        bool,
        typer.Option(
            "--flash/--no-flash",
            help="Write the program to the board; --no-flash goes on with the one that is there.",
        ),
    ] = True,
    yes: Annotated[bool, typer.Option("--yes", help="Flash without asking.")] = False,
    output: Annotated[
        Path | None,
        shared_flags.written("FILE", "Write the report there."),
    ] = None,
    compare: Annotated[
        Path | None,
        shared_flags.option(
            "Show an earlier report, and whether its bits are those that this version simulates.",
            metavar="FILE",
        ),
    ] = None,
    json: shared_flags.Json = False,
) -> None:
    """Flash a board, train on it, disturb it, and compare every state with the simulation's.

    What it trains comes with mcutrain. Its program replaces the board's, and what that has saved.

    Example: `mcutrain selftest nucleo-f446re --emulator -o report.json`
    """
    from mcutrain.functions.selftest import SelfTestResult
    from mcutrain.functions.selftest import selftest as tested

    if compare is not None:
        with counting(TITLE, json) as report:
            earlier = SelfTestResult.read(compare, report)
        _show(earlier, json)
        if not json:
            verdict = "are" if earlier.bits_of_this_version else "are NOT"
            show(f"The bits in {compare} {verdict} those that this version simulates.")
        if not earlier.passed:
            raise typer.Exit(FAILED)
        return
    if board is None:
        raise typer.BadParameter(
            "name the board to test, as nucleo-f446re; `mcutrain plan --help` lists them",
            param_hint="BOARD",
        )
    if output is not None:
        check_writable(output)
    result = tested(
        board,
        how=how,
        port=port,
        flash=flash,
        may_flash=lambda title: yes or _may_flash(title),
        cut=_ask_for_a_cut,
        listener=OnScreen(json),
    )
    if output is not None:
        result.write(output)
    _show(result, json)
    if output is not None:
        say(f"The report is in {output}.")
    if not result.passed:
        raise typer.Exit(FAILED)


def _may_flash(title: str) -> bool:
    if not typer.confirm(
        f"This replaces the program of the {title}, and what it has saved. Go on?", err=True
    ):
        raise typer.Exit(2)
    return True


def _ask_for_a_cut(number: int) -> None:
    typer.prompt(
        f"Power cut {number}: pull the board's cable, plug it in again, and press Enter",
        default="",
        show_default=False,
        prompt_suffix=" ",
        err=True,
    )


def _show(tested: SelfTestResult, json: bool) -> None:
    if json:
        show_json(tested.to_dict())
        return
    result = tested.report
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

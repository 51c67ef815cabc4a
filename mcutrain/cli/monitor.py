"""mcutrain monitor: what boards say of themselves, and how runs are, while they learn."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mcutrain.cli.listening import OnScreen
from mcutrain.cli.live import LiveFlags
from mcutrain.cli.output import err, out, say, show, show_json, show_table
from mcutrain.cli.shared_flags import argument, option
from mcutrain.functions.board_options import LOG

if TYPE_CHECKING:
    from mcutrain_host.live.facts import LiveFacts
    from mcutrain_host.live.sources import LiveSource


def monitor(
    runs: Annotated[
        list[Path] | None,
        argument(
            "[DIR|LOG]...",
            "Runs to watch: projects that train, or files of --log.",
        ),
    ] = None,
    port: Annotated[
        list[str] | None,
        option(
            "Where a board is: /dev/ttyACM0, COM3, socket://127.0.0.1:5000 or another URL of "
            "pyserial; give it again for more boards. Without it, and without a run, the only "
            "board that answers.",
            metavar="PORT",
        ),
    ] = None,
    baud: Annotated[
        int | None,
        option("The line's speed; tried out if not given.", min=1),
    ] = None,
    *,
    every: Annotated[
        float,
        typer.Option(
            min=0.1, metavar="SECONDS", help="Seconds between two questions to the board."
        ),
    ] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Ask once and end.")] = False,
    looking: LiveFlags,
    json: Annotated[
        bool, typer.Option("--json", help="Print a line of JSON per answer in the place of text.")
    ] = False,
) -> None:
    """Watch boards, or runs that other commands do: loss, accuracy, classes, memory, flash, line.

    It changes nothing. A port has one user: while `train` uses it, give the project in the place of
    the port. On a terminal it draws, elsewhere it prints a line for each answer. It ends with the
    runs; Ctrl-C ends it, too, and alone ends the watch of a board, or a page (--web).

    Example: `mcutrain monitor project --web`
    """
    with ExitStack() as stack:
        sources = _sources(runs or [], port or [], baud)
        for source in sources:
            stack.callback(source.close)
        try:
            if once:
                _tell_once(sources, json)
            elif json:
                _repeat_json(sources, every)
            elif looking.web or (out.is_terminal and err.is_terminal):
                _look(sources, every, looking if looking.web else replace(looking, live=True))
            else:
                _repeat_lines(sources, every)
            if not once:
                say(f"mcutrain: {'the run is' if len(sources) == 1 else 'all runs are'} over")
        except KeyboardInterrupt:
            say("mcutrain: no longer watching")


def _sources(runs: Sequence[Path], ports: Sequence[str], baud: int | None) -> list[LiveSource]:
    """Return what is watched. Raises HostError for a board that does not answer."""
    from mcutrain_host.live.sources import BoardSource, LogSource
    from mcutrain_host.ports import PROBE, connect

    from mcutrain.functions.board_line import find_any_port

    found: list[LiveSource] = [LogSource(run / LOG if run.is_dir() else run) for run in runs]
    named = ports if ports or runs else [find_any_port(None, OnScreen().note)]
    try:
        found += [BoardSource(connect(port, baud, PROBE)) for port in named]
    except BaseException:
        for source in found:
            source.close()
        raise
    return found


def _tell_once(sources: Sequence[LiveSource], json: bool) -> None:
    for source in sources:
        if json:
            show_json(source.values(), indent=None)
        else:
            _show_rows(source.ask())


def _are_over(sources: Sequence[LiveSource]) -> bool:
    return all(source.is_over for source in sources)


def _repeat_json(sources: Sequence[LiveSource], every: float) -> None:
    """A line for each answer, to the end of the runs."""
    while True:
        for source in sources:
            show_json(source.values(), indent=None)
        if _are_over(sources):
            return
        time.sleep(every)


def _repeat_lines(sources: Sequence[LiveSource], every: float) -> None:
    """What is known at first, then a line for each answer that says something new, to the end."""
    from mcutrain_host.live.rows import summary

    last: list[LiveFacts] = []
    for source in sources:
        last.append(source.ask())
        _show_rows(last[-1])
    while True:
        for i, source in enumerate(sources):
            facts = source.ask()
            if facts != last[i]:
                last[i] = facts
                which = f"{facts.source}  " if len(sources) > 1 else ""
                show(f"{time.strftime('%H:%M:%S')}  {which}{summary(facts)}")
        if _are_over(sources):
            return
        time.sleep(every)


def _look(sources: Sequence[LiveSource], every: float, looking: LiveFlags) -> None:
    """Draw to the end of the runs, or show on a page until Ctrl-C."""
    with looking.showing() as tell:
        while True:
            tell(tuple(source.poll() for source in sources))
            if not looking.web and _are_over(sources):
                return
            time.sleep(every)


def _show_rows(facts: LiveFacts) -> None:
    from mcutrain_host.live.rows import rows

    show_table(("", ""), [(row.name, row.text) for row in rows(facts)])

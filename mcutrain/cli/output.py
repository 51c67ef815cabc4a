"""What the commands print with: results on stdout, everything else on stderr."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from mcutrain_host.text import printable
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from mcutrain.shown import percent as percent

WIDTH_WITHOUT_TERMINAL = 120
IN_PERCENT = ("accuracy", "probability")
"""Measures of an analysis that are shares of 1."""

_wide = None if sys.stdout.isatty() or "COLUMNS" in os.environ else WIDTH_WITHOUT_TERMINAL
out = Console(width=_wide, highlight=False, markup=False, emoji=False)
err = Console(stderr=True, highlight=False, markup=False, emoji=False)


def say(text: str) -> None:
    """A line on stderr, as it is, but for what a terminal would obey."""
    sys.stderr.write(_visible(text) + "\n")
    sys.stderr.flush()


def show(text: str = "") -> None:
    """Lines on stdout, as they are, but for what a terminal would obey."""
    _write(_visible(text))


def show_json(value: Mapping[str, Any], indent: int | None = 2) -> None:
    """One JSON object on stdout."""
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    _write("".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text))


def _write(text: str) -> None:
    """Write to stdout. Raises OSError that names it."""
    with _named():
        sys.stdout.write(text + "\n")
        sys.stdout.flush()


@contextmanager
def _named() -> Iterator[None]:
    """An OSError names stdout; that of a pipe that nobody reads stays as it is."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, "standard output") from error


def _visible(text: str) -> str:
    """Lines from which names of a model, a folder or a board can send no terminal anything."""
    return "\n".join(printable(line, len(line)) for line in text.split("\n"))


def show_table(columns: Sequence[str], rows: Sequence[Sequence[object]], left: int = 1) -> None:
    """A table whose first `left` columns are words and the others numbers."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for i, name in enumerate(columns):
        table.add_column(
            Text(name), justify="left" if i < left else "right", overflow="fold", no_wrap=i >= left
        )
    for row in rows:
        table.add_row(*(Text(_visible(_cell(value))) for value in row))
    with _named(), out.capture() as capture:
        out.print(table)
    lines = [line.rstrip() for line in capture.get().splitlines()]
    _write("\n".join(line for line in lines if line))


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)


def shortened(text: str, most: int) -> str:
    """A text of at most so many characters; … stands for the end that is left out."""
    return text if len(text) <= most else text[: most - 1] + "…"


def duration(seconds: float) -> str:
    """A time as it is said: 3 min 05 s."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def count_bar(quiet: bool = False) -> Progress:
    """A bar of things done, on stderr, gone when it is done."""
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=err,
        transient=True,
        disable=quiet or not err.is_terminal,
    )


def training_bar(is_hidden: bool = False) -> Progress:
    """A bar of training steps with loss, accuracy and speed, on stderr."""
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TaskProgressColumn(),
        TextColumn("{task.fields[facts]}", markup=False),
        TimeRemainingColumn(),
        console=err,
        transient=True,
        disable=is_hidden or not err.is_terminal,
    )

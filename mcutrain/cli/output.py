"""What the commands print with: results on stdout, everything else on stderr."""

from __future__ import annotations

import json
import os
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from mcutrain_host.text import printable
from rich.cells import cell_len
from rich.console import Console

from mcutrain.cli.tables import TextTable
from mcutrain.shown import percent as percent

if TYPE_CHECKING:
    from rich.progress import Progress

WIDTH_WITHOUT_TERMINAL = 120
IN_PERCENT = ("accuracy", "probability", "r2")
"""Measures of an analysis that are shares of 1."""
COMMAND = ": mcutrain "
"""With it begins a command that the reader may copy, up to the end of the line."""
LATEST_GAP = 45
"""Before this character, what follows two spaces or more stands in a column."""

_wide = None if sys.stdout.isatty() or "COLUMNS" in os.environ else WIDTH_WITHOUT_TERMINAL
out = Console(width=_wide, highlight=False, markup=False, emoji=False)
err = Console(stderr=True, highlight=False, markup=False, emoji=False)


def say(text: str) -> None:
    """A line on stderr, as it is, but for what a terminal would obey."""
    lines = text.split("\n")
    width = prose_width(sys.stderr, err)
    sys.stderr.write("\n".join(_in_lines(_visible(line), width) for line in lines) + "\n")
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


def show_prose(text: str) -> None:
    """A line on stdout, which a terminal gets in several where it is too narrow."""
    _write(_in_lines(_visible(text), prose_width(sys.stdout, out)))


def prose_width(stream: TextIO, console: Console) -> int | None:
    """Columns that sentences have; None where nobody looks at a terminal."""
    return console.width if stream.isatty() else None


def table_width() -> int | None:
    """Columns that tables have: what the environment says, or a terminal; None without both."""
    said = os.environ.get("COLUMNS", "")
    if said.isdecimal() and int(said):
        return int(said)
    return out.width if sys.stdout.isatty() else None


def _in_lines(text: str, width: int | None) -> str:
    """A text in lines that break at spaces, below each other; a command stays in one, to copy."""
    if width is None or cell_len(text) <= width:
        return text
    said, colon, command = text.partition(COMMAND)
    gaps = list(re.finditer(r" {2,}", said[:LATEST_GAP]))
    indent = " " * (gaps[-1].end() if gaps else 0)
    lines = textwrap.wrap(
        said + colon[:1],
        width,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    if colon:
        lines.append(f"{indent}{colon[2:]}{command}")
    return "\n".join(lines)


def show_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    left: int = 1,
    *,
    names: Sequence[int] = (),
    extra: Sequence[str] = (),
) -> None:
    """A table whose first `left` columns are words and the others numbers.

    names: which columns may be shortened where a terminal is narrow. extra: titles of those that
    may be left out there, the first one first.
    """
    texts = tuple(tuple(_visible(_cell(value)) for value in row) for row in rows)
    table = TextTable(tuple(columns), texts, left, tuple(names), tuple(extra))
    with _named():
        lines = table.lines(out, table_width())
    _write("\n".join(lines))


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
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

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
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

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

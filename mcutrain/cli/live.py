"""What boards do, drawn while they do it: in the terminal, and on a page of this computer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import zip_longest
from typing import TYPE_CHECKING, Annotated

import typer
from mcutrain_host.dataclass import dataclass
from rich.cells import cell_len, set_cell_size
from rich.text import Text

from mcutrain.cli.output import err, say

if TYPE_CHECKING:
    from pathlib import Path

    from mcutrain_host.client import Device
    from mcutrain_host.live.facts import ClassCount, CurvePoint, LiveFacts
    from mcutrain_host.log import Log

Show = Callable[[tuple["LiveFacts", ...]], None]
WIDE = 100
"""Columns from which a curve stands beside the facts."""
GAP = 3
LEAST_CURVE = 48
"""Columns that facts beside it leave to a curve."""
LEAST_FACTS = 8
"""Lines of facts that a curve and classes below them leave."""
MARKS = "▁▂▃▄▅▆▇█"
PLAIN_MARKS = "_.,-=+*#"
"""Where a terminal has no other characters."""


@dataclass(frozen=True)
class LiveFlags:
    """Flags of where a run is shown while it lasts."""

    live: Annotated[
        bool,
        typer.Option(
            "--live", help="Draw loss, accuracy, classes, memory and flash in the terminal."
        ),
    ] = False
    web: Annotated[
        bool,
        typer.Option(
            "--web",
            help="Show the same on a page of this computer alone, whose address is printed.",
        ),
    ] = False
    web_port: Annotated[
        int,
        typer.Option(
            min=0, max=65535, metavar="N", help="The page's port; 0 takes one that is free."
        ),
    ] = 0

    @property
    def is_any(self) -> bool:
        """Whether there is something to be told."""
        return self.live or self.web

    @property
    def is_drawn(self) -> bool:
        """Whether the terminal is drawn on."""
        return self.live and err.is_terminal

    def check(self) -> None:
        """Raise HostError if there can be no page, before there is anything to show."""
        from mcutrain_host.live.web import check_installed

        if self.web:
            check_installed()

    @contextmanager
    def logging(self, log: Log, device: Device, path: Path) -> Iterator[Log]:
        """The log of a run on a board that also tells the views. path: of the log so far."""
        from mcutrain_host.live.sources import AskingLog, LiveLog
        from mcutrain_host.log import Logs

        with self.showing() as show:
            if not self.is_any:
                yield AskingLog(log, device)
                return
            live = LiveLog(device.link.name, show, path)
            try:
                yield AskingLog(Logs([log, live]), device)
            finally:
                live.close()

    @contextmanager
    def showing(self) -> Iterator[Show]:
        """Return what tells all views. Raises HostError if there can be no page."""
        with ExitStack() as stack:
            shows: list[Show] = []
            if self.web:
                from mcutrain_host.live.web import WebPage

                page = stack.enter_context(WebPage(self.web_port))
                say(f"mcutrain: live at {page.url}")
                shows.append(page.show)
            if self.is_drawn:
                shows.append(stack.enter_context(_in_terminal()))

            def show(boards: tuple[LiveFacts, ...]) -> None:
                for each in shows:
                    each(boards)

            yield show


@contextmanager
def _in_terminal() -> Iterator[Show]:
    """Draws on stderr; what was drawn last stays."""
    from rich.live import Live

    with Live(console=err, auto_refresh=False, vertical_overflow="crop") as live:
        yield lambda boards: live.update(picture(boards, err.width, err.height), refresh=True)


def picture(boards: Sequence[LiveFacts], width: int, height: int) -> Text:
    """All boards, one below the other. width, height: of the terminal, in characters."""
    each = (height - 1) // max(len(boards), 1)
    lines = [line for facts in boards for line in _board(facts, width - 1, each)]
    return Text("\n").join(lines)


def _board(facts: LiveFacts, width: int, most: int) -> list[Text]:
    """A board in at most so many lines: what does not fit is left out, from the end."""
    head = _head(facts, width)
    left = max(most - len(head), 0)
    if width >= WIDE:
        known = _facts(facts, width - GAP - LEAST_CURVE)[:left]
        side = max((line.cell_len for line in known), default=0)
        drawn = _drawn(facts, width - GAP - side)[:left]
        rows = zip_longest(known, drawn, fillvalue=Text(" " * side))
        body = [Text.assemble(one, " " * GAP, other) for one, other in rows]
    else:
        drawn = _drawn(facts, width)[: max(left - LEAST_FACTS, 0)]
        body = [*_facts(facts, width)[: left - len(drawn)], *drawn]
    return [*head, *body][:most]


def _head(facts: LiveFacts, width: int) -> list[Text]:
    """The board's name, and how far it is."""
    from mcutrain_host.live.rows import share, title

    done = share(facts)
    name = Text(set_cell_size(title(facts), width), style="bold")
    if done is None:
        return [name]
    full, empty = ("#", "-") if err.options.ascii_only else ("━", "─")
    filled = int(done * width)
    return [name, Text(full * filled + empty * (width - filled))]


def _facts(facts: LiveFacts, width: int) -> list[Text]:
    """A line for each row, as wide as the widest; texts are cut if that is wider than `width`."""
    from mcutrain_host.live.rows import rows

    found = rows(facts)
    names = min(max(len(row.name) for row in found) + 2, width)
    width = min(names + max(cell_len(row.text) for row in found), width)
    return [
        Text.assemble(
            (set_cell_size(row.name, names), "dim"), set_cell_size(row.text, width - names)
        )
        for row in found
    ]


def _drawn(facts: LiveFacts, width: int) -> list[Text]:
    """The curve, and below it the classes."""
    curve = _curve(facts.curve, width) if len(facts.curve) > 1 else []
    return [*curve, *_classes(facts.classes, width)]


def _curve(points: Sequence[CurvePoint], width: int) -> list[Text]:
    """A line of marks, higher where the loss is, between its numbers."""
    from mcutrain_host.live.rows import curve_texts

    marks = PLAIN_MARKS if err.options.ascii_only else MARKS
    count = min(len(points), width)
    losses = [points[i * len(points) // count].loss for i in range(count)]
    low, high = min(losses), max(losses)
    steps = [int((loss - low) / max(high - low, 1e-9) * (len(marks) - 1) + 0.5) for loss in losses]
    first, says, last = curve_texts(points)
    return [
        Text(set_cell_size(says, width), style="dim"),
        Text(set_cell_size("".join(marks[step] for step in steps), width)),
        Text(set_cell_size(f"{first} to {last}", width), style="dim"),
    ]


def _classes(classes: Sequence[ClassCount], width: int) -> list[Text]:
    """Each as its name, and how many of its steps had been predicted, in columns."""
    texts = [f"{each.name} {each.right:,}/{each.steps:,}" for each in classes]
    column = max((cell_len(text) + 2 for text in texts), default=1)
    count = max(width // column, 1)
    return [
        Text(set_cell_size("".join(set_cell_size(t, column) for t in texts[i : i + count]), width))
        for i in range(0, len(texts), count)
    ]

"""Tables that fit a terminal: no number is broken, and no word but a name, whose end is an …."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from mcutrain_host.dataclass import dataclass
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.table import Table
from rich.text import Text

GAP, NARROW_GAP = 3, 2
"""Spaces between columns; the narrow ones where the usual ones are too many."""
LEAST_NAME = 14
"""Characters that are left of a name before a column is left out."""


@dataclass(frozen=True)
class TextTable:
    """Cells as texts. left: so many first columns are words, the others numbers.

    names: which of the columns may be shortened. extra: columns, by title, that may be left out,
    the first one first.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: int = 1
    names: tuple[int, ...] = ()
    extra: tuple[str, ...] = ()

    def lines(self, console: Console, width: int | None) -> Iterator[str]:
        """The table in so many columns of a terminal; None for as many as it takes."""
        usual = [max(self._cells(i), cell_len(name)) for i, name in enumerate(self.columns)]
        if width is None or _total(usual, GAP) <= width:
            yield from _rendered(console, self, usual, GAP)
            return
        table, widths = self, self._narrow(width)
        gone: list[str] = []
        for name in self.extra:
            if _total(widths, NARROW_GAP) <= width:
                break
            gone.append(name)
            table = table.without(name)
            widths = table._narrow(width)
        for part in table._stacked(width):
            yield from _rendered(console, part, part._narrow(width), NARROW_GAP)
        if gone:
            yield f"left out in {width} columns: {', '.join(gone)}"

    def without(self, name: str) -> TextTable:
        """The table without a column."""
        at = self.columns.index(name)
        return self._of([i for i in range(len(self.columns)) if i != at])

    def _of(self, kept: Sequence[int]) -> TextTable:
        return replace(
            self,
            columns=tuple(self.columns[i] for i in kept),
            rows=tuple(tuple(row[i] for i in kept) for row in self.rows),
            left=sum(i < self.left for i in kept),
            names=tuple(kept.index(i) for i in self.names if i in kept),
        )

    def _cells(self, column: int) -> int:
        return max((cell_len(row[column]) for row in self.rows), default=0)

    def _narrow(self, width: int) -> list[int]:
        """Widths of columns: titles broken at spaces, names shortened, then words broken at spaces.

        Where that is too wide, the widths are what cannot be less.
        """
        titles = [_longest_word([name]) for name in self.columns]
        widths = [max(self._cells(i), least) for i, least in enumerate(titles)]
        for i in self.names:
            widths[i] = max(widths[i], titles[i])
        short = {i: max(LEAST_NAME, titles[i]) for i in self.names}
        _shrink(widths, short, width)
        words = [i for i in range(self.left) if i not in self.names]
        least = {i: _longest_word([self.columns[i], *(r[i] for r in self.rows)]) for i in words}
        if _total(widths, NARROW_GAP) > width and not self.extra_columns:
            _shrink(widths, least, width)
        return widths

    @property
    def extra_columns(self) -> list[str]:
        """What can still be left out."""
        return [name for name in self.extra if name in self.columns]

    def _stacked(self, width: int) -> Iterator[TextTable]:
        """Parts that fit, one below the other, each with the first column."""
        rest = list(range(1, len(self.columns)))
        while rest:
            count = len(rest)
            part = self._of([0, *rest])
            while count > 1 and _total(part._narrow(width), NARROW_GAP) > width:
                count -= 1
                part = self._of([0, *rest[:count]])
            yield part
            rest = rest[count:]
        if len(self.columns) == 1:
            yield self


def _total(widths: Sequence[int], gap: int) -> int:
    """Columns of a terminal that a table takes: a space, the columns and what is between them."""
    return 1 + sum(widths) + gap * (len(widths) - 1)


def _longest_word(texts: Sequence[str]) -> int:
    return max((cell_len(word) for text in texts for word in text.split()), default=0)


def _shrink(widths: list[int], least: dict[int, int], width: int) -> None:
    """Make the widest of some columns narrower, until all fit or these are as narrow as can be."""
    while _total(widths, NARROW_GAP) > width:
        wide = [i for i, most in least.items() if widths[i] > most]
        if not wide:
            return
        widths[max(wide, key=lambda i: widths[i])] -= 1


def _rendered(console: Console, table: TextTable, widths: Sequence[int], gap: int) -> Iterator[str]:
    """Lines without spaces at their ends."""
    drawn = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1) if gap == GAP else (0, 1, 0, 0))
    for i, (name, width) in enumerate(zip(table.columns, widths, strict=True)):
        side = "left" if i < table.left else "right"
        drawn.add_column(Text(name), justify=side, overflow="fold", width=width)  # type: ignore[arg-type]
    for row in table.rows:
        cells = zip(row, widths, strict=True)
        drawn.add_row(
            *(Text(_cut(c, w) if i in table.names else c) for i, (c, w) in enumerate(cells))
        )
    options = console.options.update(width=_total(widths, gap) + gap)
    text = "".join(segment.text for segment in console.render(drawn, options))
    yield from (line for each in text.splitlines() if (line := each.rstrip()))


def _cut(text: str, width: int) -> str:
    """A name of at most so many characters."""
    return text if cell_len(text) <= width else set_cell_size(text, width - 1).rstrip() + "…"

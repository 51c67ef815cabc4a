"""The arena as plain text: steps to the right, addresses upwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from string import ascii_lowercase, ascii_uppercase
from types import MappingProxyType

from mcutrain_host.dataclass import dataclass

from mcutrain.memplan.plan import Buffer, MemoryPlan

LEGEND_ENTRIES = 12
FREE = "."
NO_NOTES: Mapping[str, str] = MappingProxyType({})


def picture(
    plan: MemoryPlan, width: int = 72, height: int = 20, notes: Mapping[str, str] = NO_NOTES
) -> str:
    """A drawing of `width` columns and `height` rows, a legend, and arena against lower bound.

    A cell shows the buffer that covers most of it. The largest buffers have capital letters and
    an entry in the legend, the others small letters, again from `a` after `z`. `^` marks the peak.
    notes: what the legend says of a buffer besides.
    """
    if not plan.buffers:
        return "the plan has no buffers\n"
    largest = sorted(plan.buffers, key=lambda b: (-b.size_bytes, b.name))
    grid = _Grid.of(plan, max(width - _margin(plan) - 2, 1), max(height, 1))
    lines = [*_drawing(plan, grid, _symbols(largest)), *_legend(largest, notes), _summary(plan)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


@dataclass(frozen=True)
class _Grid:
    """Cells over all steps and the arena; each step as wide as the others where steps are few."""

    first: int
    steps: int
    arena_bytes: int
    columns: int
    rows: int

    @classmethod
    def of(cls, plan: MemoryPlan, width: int, height: int) -> _Grid:
        first = min(buffer.first for buffer in plan.buffers)
        steps = max(buffer.last for buffer in plan.buffers) + 1 - first
        columns = steps * (width // steps) if steps <= width else width
        return cls(first, steps, max(plan.arena_bytes, 1), columns, height)

    def column_cover(self, buffer: Buffer, column: int) -> int:
        """The share of the column's steps in which the buffer lives, times a constant."""
        begin, end = (buffer.first - self.first, buffer.last + 1 - self.first)
        return _overlap(begin * self.columns, end * self.columns, column, self.steps)

    def row_cover(self, offset: int, size_bytes: int, row: int) -> int:
        """The share of the row's bytes that lie in the buffer, times a constant."""
        end = offset + size_bytes
        return _overlap(offset * self.rows, end * self.rows, row, self.arena_bytes)


def _overlap(begin: int, end: int, cell: int, cell_length: int) -> int:
    """Return how much of [begin, end) lies in the given cell of a ruler of equal cells."""
    return max(0, min(end, (cell + 1) * cell_length) - max(begin, cell * cell_length))


def _symbols(largest: Sequence[Buffer]) -> Mapping[str, str]:
    capitals = ascii_uppercase[:LEGEND_ENTRIES]
    small = ascii_lowercase * (len(largest) // len(ascii_lowercase) + 1)
    return {b.name: symbol for b, symbol in zip(largest, capitals + small, strict=False)}


def _margin(plan: MemoryPlan) -> int:
    return len(str(plan.arena_bytes))


def _drawing(plan: MemoryPlan, grid: _Grid, symbols: Mapping[str, str]) -> list[str]:
    """Rows from the top address down, the mark of the peak, and the first and last step."""
    columns = [_column(plan, grid, column, symbols) for column in range(grid.columns)]
    margin = _margin(plan)
    lines = []
    for row in reversed(range(grid.rows)):
        address = row * grid.arena_bytes // grid.rows
        lines.append(f"{address:>{margin}} |" + "".join(cells[row] for cells in columns))
    blank = " " * (margin + 2)
    peak_step = plan.peak_step
    at_peak = Buffer("", 0, peak_step, peak_step)
    marks = ["^" if grid.column_cover(at_peak, c) else " " for c in range(grid.columns)]
    last = str(grid.first + grid.steps - 1)
    first = f"{grid.first}".ljust(grid.columns - len(last))
    return [*lines, blank + "".join(marks), blank + first + (last if grid.steps > 1 else "")]


def _column(plan: MemoryPlan, grid: _Grid, column: int, symbols: Mapping[str, str]) -> list[str]:
    """The symbols of one column, from the lowest row up."""
    live = [(b, cover) for b in plan.buffers if (cover := grid.column_cover(b, column))]
    return [_cell(plan, grid, row, live, symbols) for row in range(grid.rows)]


def _cell(
    plan: MemoryPlan,
    grid: _Grid,
    row: int,
    live: Sequence[tuple[Buffer, int]],
    symbols: Mapping[str, str],
) -> str:
    areas = (
        (-grid.row_cover(plan.offsets[b.name], b.size_bytes, row) * steps, b.name)
        for b, steps in live
    )
    area, name = min(areas, default=(0, ""))
    return symbols[name] if area < 0 else FREE


def _legend(largest: Sequence[Buffer], notes: Mapping[str, str]) -> list[str]:
    """One line for each of the largest buffers, aligned, and one for all the rest."""
    entries = largest[:LEGEND_ENTRIES]
    names = [_printable(b.name) for b in entries]
    name_width = max(map(len, names))
    size_width = len(f"{entries[0].size_bytes:,}")
    lines = [
        f"{symbol} {name:<{name_width}}  {b.size_bytes:>{size_width},} B  steps {b.first}-{b.last}"
        + (f", {notes[b.name]}" if b.name in notes else "")
        for symbol, name, b in zip(ascii_uppercase, names, entries, strict=False)
    ]
    rest = largest[LEGEND_ENTRIES:]
    if rest:
        lines.append(f"a-z  {len(rest)} more, at most {rest[0].size_bytes:,} B each")
    return lines


def _printable(name: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in name)


def _summary(plan: MemoryPlan) -> str:
    bound_bytes = plan.lower_bound_bytes
    percent = 100 * (plan.arena_bytes - bound_bytes) / max(bound_bytes, 1)
    return (
        f"arena {plan.arena_bytes:,} B, lower bound {bound_bytes:,} B at step {plan.peak_step} (^),"
        f" {percent:.1f} % over"
    )

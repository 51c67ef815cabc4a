"""Plans and problems as CSV in the format of google/minimalloc, fit for a bug report.

Columns `id,lower,upper,size` and, for a plan, `offset`. A lifetime is half-open: alive from step
`lower` to before step `upper`. Where the fronts of a proxy cascade take turns in the arena, a last
column says whose a buffer is. The steps of each front follow those of the one before, so that all
of it is one plan.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from mcutrain.errors import PlanError
from mcutrain.memplan.plan import Buffer, MemoryPlan

PROBLEM_COLUMNS = ("id", "lower", "upper", "size")
PLAN_COLUMNS = (*PROBLEM_COLUMNS, "offset")
FRONT_COLUMNS = (*PLAN_COLUMNS, "front")
STEP = "step"
"""Whose buffers are no front's; the whole front's are among them."""
NO_FRONTS: Mapping[str, MemoryPlan] = MappingProxyType({})


def to_csv(plan: MemoryPlan, fronts: Mapping[str, MemoryPlan] = NO_FRONTS) -> str:
    """One line per buffer, in the plan's order, with its offset.

    fronts: plans that share the arena, one at a time; their buffers follow, under these names.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(FRONT_COLUMNS if fronts else PLAN_COLUMNS)
    begin = 0
    for front, part in {STEP: plan, **fronts}.items():
        for b in part.buffers:
            row = [b.name, begin + b.first, begin + b.last + 1, b.size_bytes, part.offsets[b.name]]
            writer.writerow([*row, front] if fronts else row)
        begin += max((b.last + 1 for b in part.buffers), default=0)
    return text.getvalue()


def read_fronts(text: str) -> dict[str, str]:
    """Read which front has which buffer, from the text that `read_csv` reads."""
    rows = csv.DictReader(io.StringIO(text, newline=""))
    whose = {row["id"]: row.get("front") or STEP for row in rows}
    return {name: front for name, front in whose.items() if front != STEP}


def read_csv(text: str) -> tuple[Buffer, ...]:
    """The buffers of a problem or plan, fronts' too; offsets are checked to be numbers, no more.

    Raises PlanError, with the line number, for anything but the columns above, one unique id per
    line, `lower` < `upper` and `size` > 0.
    """
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        columns = _header(next(reader, []))
        first_lines: dict[str, int] = {}
        buffers = []
        for row in reader:
            if row:
                buffers.append(_buffer(columns, row, reader.line_num))
                _check_new(first_lines, buffers[-1].name, reader.line_num)
    except csv.Error as error:
        raise PlanError(f"line {reader.line_num}: not CSV: {error}") from None
    return tuple(buffers)


def _header(row: Sequence[str]) -> tuple[str, ...]:
    columns = tuple(cell.strip() for cell in row)
    if columns not in (PROBLEM_COLUMNS, PLAN_COLUMNS, FRONT_COLUMNS):
        raise PlanError(
            f"line 1: the columns are '{','.join(columns)}'; "
            f"they must be '{','.join(PROBLEM_COLUMNS)}', with or without ',offset' or "
            "',offset,front'"
        )
    return columns


def _buffer(columns: Sequence[str], row: Sequence[str], line: int) -> Buffer:
    if len(row) != len(columns):
        raise PlanError(f"line {line}: {len(row)} values for {len(columns)} columns")
    numbers = min(len(columns), len(PLAN_COLUMNS))
    cells = zip(columns[1:numbers], row[1:numbers], strict=True)
    lower, upper, size_bytes, *_ = (_integer(cell, column, line) for column, cell in cells)
    if lower >= upper:
        raise PlanError(f"line {line}: lower {lower} is not less than upper {upper}")
    if size_bytes < 1:
        raise PlanError(f"line {line}: size {size_bytes} is not positive")
    return Buffer(row[0], size_bytes, lower, upper - 1)


def _integer(cell: str, column: str, line: int) -> int:
    try:
        return int(cell)
    except ValueError:
        raise PlanError(f"line {line}: {column} '{cell[:40]}' is not an integer") from None


def _check_new(first_lines: dict[str, int], name: str, line: int) -> None:
    if name in first_lines:
        raise PlanError(f"line {line}: id '{name}' is already on line {first_lines[name]}")
    first_lines[name] = line

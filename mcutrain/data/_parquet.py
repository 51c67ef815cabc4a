"""Reads Parquet files as rows of text cells, as a CSV file has them; pyarrow is optional."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mcutrain_host.packages import OPTIONAL
from mcutrain_host.text import reason

from mcutrain.data._folders import MAX_SET_BYTES
from mcutrain.errors import DataError

SUFFIXES = frozenset({".parquet", ".pq"})
BATCH_ROWS = 4096


def parquet_rows(path: Path) -> Iterator[tuple[str, list[str]]]:
    """The names of the columns, then each row, with its place; rows are counted from 1.

    Raises DataError for what is no Parquet file, and for one that unpacks to more than a set has.
    """
    if not OPTIONAL["pyarrow"].is_installed:
        raise DataError(OPTIONAL["pyarrow"].missing)
    import pyarrow
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            names = file.schema_arrow.names
            size_bytes = 4 * file.metadata.num_rows * len(names)
            if size_bytes > MAX_SET_BYTES:
                raise DataError(
                    f"has {file.metadata.num_rows:,} rows of {len(names)} columns, "
                    f"{size_bytes / 1e9:.1f} GB: split it"
                )
            yield "the table", names
            row = 0
            for batch in file.iter_batches(BATCH_ROWS):
                columns = (_read(column) for column in batch.columns)
                for cells in zip(*columns, strict=True):
                    row += 1
                    yield f"row {row}", [_text(cell) for cell in cells]
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        said = reason(error).splitlines()[0][:120].rstrip(".")
        raise DataError(f"is no readable Parquet file ({said}): save it again") from error


def _read(column: Any) -> list[Any]:
    """The cells of a column; times as texts, for Python has none of nanoseconds."""
    from pyarrow import types

    if types.is_duration(column.type):
        unit = column.type.unit
        return [None if n is None else f"{n} {unit}" for n in column.cast("int64").to_pylist()]
    if types.is_temporal(column.type):
        column = column.cast("string")
    cells: list[Any] = column.to_pylist()
    return cells


def _text(cell: Any) -> str:
    """A cell as a CSV file has it: nothing where there is none, 1 and 0 for yes and no."""
    if cell is None:
        return ""
    return str(int(cell) if isinstance(cell, bool) else cell).strip()

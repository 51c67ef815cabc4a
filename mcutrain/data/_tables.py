"""Reads tables of sensors, CSV or Parquet: rows in time, a column per channel, cut into windows."""

from __future__ import annotations

import csv
import math
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace
from itertools import chain
from os import PathLike
from pathlib import Path

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.data._folders import MAX_SET_BYTES, Kind, Note, Progress, list_parts, place_of
from mcutrain.data._parquet import SUFFIXES as PARQUET
from mcutrain.data._parquet import parquet_rows
from mcutrain.data.dataset import NO_TABLE, SPLIT_WORDS, Dataset, Labels, Split, as_names
from mcutrain.data.groups import Drawing
from mcutrain.data.targets import IGNORED, target_names
from mcutrain.errors import DataError

TABLES = Kind("table", "tables", PARQUET | {".csv", ".tsv"})
DELIMITERS = ",;\t"
LABEL = ("label", "class", "activity", "target")
SPLIT = ("split", "part")
RECORDING = ("recording", "session", "subject")
TIME = ("time", "timestamp", "index", "", "unnamed: 0", "__index_level_0__")
"""All but two are the row numbers that a table program writes; none of them is a channel."""
MAX_FILE_BYTES = 1 << 30
MAX_LINE = 1 << 20
MAX_COLUMNS = 4096
LARGEST = float(np.finfo(np.float32).max)

Rows = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Series:
    """Rows (time, channels) without a gap, of one class. part: 0 training, 1 test, 2 validation.

    targets: (time, k), of which a window has those of its last row; None where there are labels.
    group: of the samples, if they are split by one.
    """

    rows: Rows
    label: str
    part: int | None = None
    targets: Rows | None = None
    group: str = ""


@dataclass(frozen=True)
class Windows:
    """How series are cut: `length` rows each, one every `stride`; None is `length`.

    input_shape: the model's, of which the length follows by the number of channels.
    """

    input_shape: tuple[int, ...]
    stride: int | None = None

    def length(self, channels: int) -> int:
        """Rows of a window. Raises DataError where the columns do not fit the model's input."""
        values = math.prod(self.input_shape)
        if values % channels or values // channels < 1:
            raise DataError(
                f"the table has {channels} columns of numbers, but the model takes "
                f"{self.input_shape}, {values} values, which are no whole rows of them: keep the "
                f"model's columns (those named {', '.join(TIME[:3] + RECORDING)} are left out)"
            )
        lengths = [n for n in self.input_shape if n != 1]
        if len(lengths) > 1 and channels not in lengths:
            raise DataError(
                f"the table has {channels} columns of numbers, but the model takes rows of "
                f"{lengths[-1]}, {self.input_shape}: keep the model's {lengths[-1]} columns (those "
                f"named {', '.join(TIME[:3] + RECORDING)} are left out)"
            )
        return values // channels

    def starts(self, series: Series) -> range:
        """The first rows of its windows."""
        length = self.length(series.rows.shape[1])
        return range(0, len(series.rows) - length + 1, self.stride or length)


def read_series(
    path: Path,
    progress: Progress | None,
    least_classes: int = 2,
    note: Note = lambda _: None,
    targets: str = "",
    drawing: Drawing = Drawing(),
    label_column: str = "",
) -> tuple[list[Series], tuple[str, ...]]:
    """All series, and the classes. least_classes, note: of a folder, as list_parts has them.

    drawing: says the column, or of a folder the pattern of file names, by which it is split.
    """
    if path.is_file():
        found = read_table(path, columns=TableColumns(targets, drawing.by, label_column))
        if targets:
            return found, as_names(names_of_targets(path, targets))
        return found, _sorted_names({series.label for series in found})
    listings, names = list_parts(path, TABLES, least_classes, note)
    result: list[Series] = []
    total, done = sum(len(listing.paths) for listing in listings), 0
    for part, listing in enumerate(listings):
        groups = (
            drawing.of_files(listing.paths) if drawing.is_pattern else [""] * len(listing.paths)
        )
        column = "" if drawing.is_pattern else drawing.by
        for place, label, group in zip(listing.paths, listing.labels, groups, strict=True):
            result += [
                replace(
                    series,
                    part=part if len(listings) > 1 else None,
                    group=group or series.group,
                )
                for series in read_table(place, names[label], TableColumns(group=column))
            ]
            done += 1
            if progress is not None:
                progress(done, total)
    channels = Counter(series.rows.shape[1] for series in result)
    if len(channels) > 1:
        raise DataError(
            f"the files have {' and '.join(map(str, sorted(channels)))} columns of numbers: save "
            "the same columns in each"
        )
    return result, names


def _sorted_names(labels: set[str]) -> tuple[str, ...]:
    numeric = all(label.isascii() and label.isdecimal() and len(label) < 10 for label in labels)
    return as_names(sorted(labels, key=int) if numeric else sorted(labels))


def split_of_series(
    all_series: list[Series],
    names: tuple[str, ...],
    windows: Windows,
    drawing: Drawing,
) -> Split:
    """The parts that the files name; else whole series, or the end of each, are for the test."""
    if any(series.part is not None for series in all_series):
        drawing.check_none()
    length = windows.length(all_series[0].rows.shape[1])
    all_series = [series for series in all_series if len(windows.starts(series))]
    if all_series and all_series[0].targets is not None:
        split = _split_of_targets(all_series, names, windows, drawing)
        return split.each(_with_labels) if _are_labels(all_series) else split
    for name in names:
        if not any(series.label == name for series in all_series):
            raise DataError(
                f"class {name[:40]!a} has no {length} rows without a gap, one window: record more, "
                "or remove it"
            )
    if any(series.part is not None for series in all_series):
        parts = [[s for s in all_series if (s.part or 0) == which] for which in range(3)]
        parts = parts if parts[1] else [parts[0], parts[2], []]
    else:
        parts = [*_held_out(all_series, names, windows, drawing), []]
    for part, name in ((parts[1], "test"), (parts[0], "training")):
        check_windows(part, length, name)
    made = [dataset_of(part, names, windows) for part in parts if part]
    return Split(*made)


def _are_labels(found: list[Series]) -> bool:
    """Return whether columns say yes or no, each by itself, or that it is not known."""
    values = np.concatenate([series.targets for series in found if series.targets is not None])
    is_label = (values == 0) | (values == 1) | (values == IGNORED)
    return values.shape[1] > 1 and bool(is_label.all())


def _with_labels(part: Dataset) -> Dataset:
    return replace(part, y=part.y.astype(np.uint8))


def _split_of_targets(
    all_series: list[Series], names: tuple[str, ...], windows: Windows, drawing: Drawing
) -> Split:
    """The parts that the file names, or whole groups; else windows that share no row are drawn."""
    if any(series.part is not None for series in all_series):
        parts = [[s for s in all_series if (s.part or 0) == which] for which in range(3)]
        parts = parts if parts[1] else [parts[0], parts[2], []]
        length = windows.length(all_series[0].rows.shape[1])
        for part, name in ((parts[1], "test"), (parts[0], "training")):
            check_windows(part, length, name)
        return Split(*[dataset_of(part, names, windows) for part in parts if part])
    if drawing.by and all_series:
        labels = np.zeros(len(all_series), np.int64)
        both = _by_groups(all_series, labels, windows, drawing)
        return Split(*[dataset_of(part, names, windows) for part in both])
    whole = dataset_of(all_series, names, windows)
    if windows.stride is None or windows.stride >= windows.length(all_series[0].rows.shape[1]):
        train, test = drawing.parts(whole.y)
    else:  # neighbours share rows
        cut = min(max(round(len(whole) * (1 - drawing.share)), 1), len(whole) - 1)
        train, test = np.arange(cut), np.arange(cut, len(whole))
    return Split(whole.take(train), whole.take(test))


def check_windows(found: Sequence[Series], length: int, name: str) -> None:
    """Raise DataError unless the part of this name has a window of so many rows."""
    if not any(len(series.rows) >= length for series in found):
        raise DataError(
            f"no window of {length} rows is left for the {name} part: record more rows without a "
            "gap, or mark them"
        )


def _held_out(
    all_series: list[Series], names: tuple[str, ...], windows: Windows, drawing: Drawing
) -> tuple[list[Series], list[Series]]:
    """Training and test series, which share no row.

    Those of whole groups, if it is split by these; else whole series, drawn, where each class has
    two or more; else the end of each.
    """
    labels = np.array([names.index(series.label) for series in all_series], np.int64)
    if drawing.by:
        return _by_groups(all_series, labels, windows, drawing)
    if np.bincount(labels, minlength=len(names)).min() >= 2:
        train, test = drawing.parts(labels)
        return [all_series[i] for i in train], [all_series[i] for i in test]
    test_share = drawing.share
    if not 0.0 < test_share < 1.0:
        raise DataError(f"the test share is {test_share}: give a share between 0 and 1, as 0.2")
    first, last = [], []
    for series in all_series:
        starts = windows.starts(series)
        cut = starts[min(round(len(starts) * (1 - test_share)), len(starts) - 1)]
        cut = max(cut, windows.length(series.rows.shape[1]))  # a class needs one to train on
        first.append(replace(series, rows=series.rows[:cut]))
        last.append(replace(series, rows=series.rows[cut:]))
    return [s for s in first if windows.starts(s)], [s for s in last if windows.starts(s)]


def _by_groups(
    all_series: list[Series], labels: Labels, windows: Windows, drawing: Drawing
) -> tuple[list[Series], list[Series]]:
    """Training and test series; a series counts as many times as it has windows."""
    counts = [len(windows.starts(series)) for series in all_series]
    of_window = np.repeat(np.arange(len(all_series)), counts)
    groups = [all_series[i].group for i in of_window.tolist()]
    parts = drawing.parts(labels[of_window], groups)
    train, test = (np.unique(of_window[part]).tolist() for part in parts)
    return [all_series[i] for i in train], [all_series[i] for i in test]


def dataset_of(all_series: Sequence[Series], names: tuple[str, ...], windows: Windows) -> Dataset:
    """The windows of series one after the other; DataError where they do not fit into memory."""
    length = windows.length(all_series[0].rows.shape[1])
    count = sum(len(windows.starts(series)) for series in all_series)
    channels = all_series[0].rows.shape[1]
    if 4 * count * length * channels > MAX_SET_BYTES:
        raise DataError(
            f"{count} windows of {length} rows need {4e-9 * count * length * channels:.1f} GB: "
            "give a larger --stride"
        )
    x = np.empty((count, length, channels), np.float32)
    wanted = all_series[0].targets
    many = None if wanted is None else np.empty((count, wanted.shape[1]), np.float32)
    y = np.zeros(count, np.int64)
    done = 0
    for series in all_series:
        for start in windows.starts(series):
            x[done] = series.rows[start : start + length]
            if many is None or series.targets is None:
                y[done] = names.index(series.label)
            else:
                many[done] = series.targets[start + length - 1]
            done += 1
    x, given = x[:, 0] if length == 1 else x, y if many is None else many
    return Dataset(x, given, names, are_sorted=True)


# ---- one file ----


@dataclass(frozen=True)
class TableColumns:
    """What columns of a table are for, where it is said.

    targets: names of columns, joined by commas, or how many of the last ones. group: the name of
    the column to split by. label: the name of that of the labels, or its number, from 1.
    """

    targets: str = ""
    group: str = ""
    label: str = ""


def check_label_column(path: str | PathLike[str], label_column: str) -> None:
    """Raise DataError for a label column of what is no table."""
    place = Path(path)
    is_table = place.is_file() and place.suffix.lower() in TABLES.suffixes
    if label_column and place.exists() and not is_table:
        raise DataError(f"{path}: {NO_TABLE}")


def read_table(
    path: Path, label: str | None = None, columns: TableColumns = TableColumns()
) -> list[Series]:
    """The series of a file: a new one begins where label, split, recording or group change.

    label: of all rows, if the file has no column for it; empty for rows without one. Raises
    DataError that names the line.
    """
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise DataError(f"has more than {MAX_FILE_BYTES >> 30} GB: split it")
        return _read(_rows(path), label, columns)
    except DataError as error:
        where = f"{place_of(path)} " if label else ""  # else it is the place itself
        raise DataError(f"{where}{error}") from error
    except UnicodeDecodeError as error:
        where = "the file" if label is None else place_of(path)
        raise DataError(f"{where} is no UTF-8 text: save it as UTF-8") from error


def names_of_targets(path: Path, targets: str) -> list[str]:
    """Return what the target columns of a file are called that `read_table` has read."""
    if not _is_number(targets):
        return [name.strip() for name in targets.split(",")]
    _, cells = next(_rows(path))
    last = cells[-int(targets) :]
    is_header = all(_number(cell) is None for cell in cells)
    return last if is_header else list(target_names(len(last)))


def _lines(readline: Callable[[int], str]) -> Iterator[str]:
    number = 0
    while line := readline(MAX_LINE + 1):
        number += 1
        if len(line) > MAX_LINE:
            raise DataError(f"line {number} is longer than {MAX_LINE} characters: is it a CSV?")
        yield line


def _rows(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Rows with a cell, and where each is."""
    if path.suffix.lower() in PARQUET:
        yield from _named(parquet_rows(path))
        return
    with path.open(encoding="utf-8-sig", newline="") as file:
        lines = _lines(file.readline)
        first = next(lines, "")
        reader = csv.reader(chain((first,), lines), delimiter=max(DELIMITERS, key=first.count))
        try:
            for row in reader:
                cells = [cell.strip() for cell in row]
                if any(cells):
                    yield f"line {reader.line_num}", cells
        except csv.Error as error:
            raise DataError(
                f"line {reader.line_num} cannot be read ({error}): repair it"
            ) from error


def _named(rows: Iterator[tuple[str, list[str]]]) -> Iterator[tuple[str, list[str]]]:
    """The rows, whose first has names, also where a column is called by a number."""
    where, names = next(rows)
    yield where, [name if _number(name) is None else f"column {name}" for name in names]
    yield from rows


def _read(
    rows: Iterator[tuple[str, list[str]]], label: str | None, columns: TableColumns
) -> list[Series]:
    collected: _Collected | None = None
    for where, cells in rows:
        if collected is None:
            collected = _Collected.of(cells, label, where, columns)
        else:
            collected.add(cells, where)
    if collected is None or not collected.ends:
        raise DataError("has no row of numbers: save a row per time step")
    return collected.series()


@dataclass
class _Collected:
    """What has been read: numbers, and where label, part or recording change."""

    width: int
    numbers: list[int]
    special: dict[str, tuple[int, ...]]
    label: str | None
    targets: int = 0
    values: array[float] = field(default_factory=lambda: array("f"))
    keys: list[tuple[tuple[str, ...], ...]] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    rows: int = 0

    @staticmethod
    def of(first: list[str], label: str | None, line: str, columns: TableColumns) -> _Collected:
        """Begin with the first row: a header if no cell is a number, else a row already.

        Targets come last in `numbers`.
        """
        if len(first) > MAX_COLUMNS:
            raise DataError(f"{line} has {len(first)} columns, more than {MAX_COLUMNS}")
        if columns.group:
            _check_group(first, line, columns.group)
        if columns.targets:
            return _Collected._with_targets(first, line, columns)
        is_header = all(_number(cell) is None for cell in first)
        said = None
        if columns.label:
            said = _label_place(first, line, columns.label, is_header=is_header)
        elif not is_header and _number(first[-1]) is None:
            said = len(first) - 1
        special: dict[str, tuple[int, ...]] = {} if said is None else {"label": (said,)}
        names = [cell.lower() for cell in first] if is_header else []
        of_label = () if columns.label else (("label", LABEL),)
        for role, known in (*of_label, *_roles(columns.group)):
            places = tuple(
                i for i, n in enumerate(names) if n in known and (i != said or role == "group")
            )
            if len(places) > 1 and role != "recording":
                remedy = "say which, --label-column" if role == "label" else "keep one"
                raise DataError(f"{line} names {len(places)} columns of the {role}: {remedy}")
            if places:
                special[role] = places
        unused = {i for i, name in enumerate(names) if name in (*TIME, *LABEL)}
        unused = unused.union(*special.values())
        numbers = [i for i in range(len(first)) if i not in unused]
        made = _Collected(len(first), numbers, special, label)
        made._check(line)
        if not is_header:
            made.add(first, line)
        return made

    @staticmethod
    def _with_targets(first: list[str], line: str, columns: TableColumns) -> _Collected:
        if columns.label:
            raise DataError(
                "targets are numbers, and a label says a class: give --targets or --label-column"
            )
        is_header = all(_number(cell) is None for cell in first)
        names = [cell.lower() for cell in first] if is_header else [""] * len(first)
        wanted = _target_columns(first, columns.targets, line, is_header=is_header)
        special = {}
        for role, known in _roles(columns.group) if is_header else ():
            places = tuple(i for i, n in enumerate(names) if n in known and i not in wanted)
            if places:
                special[role] = places if role == "recording" else places[:1]
        times = TIME if is_header else ()
        unused = {i for i, name in enumerate(names) if name in times}
        unused = unused.union(wanted, *special.values())
        inputs = [i for i in range(len(first)) if i not in unused]
        if not inputs:
            raise DataError(
                f"{line} has no column of numbers besides the targets: save a column per channel"
            )
        made = _Collected(len(first), [*inputs, *wanted], special, "", len(wanted))
        if not is_header:
            made.add(first, line)
        return made

    def _check(self, line: str) -> None:
        if self.label is not None and "label" in self.special:
            raise DataError(
                f"{line} has a column of labels, but the file lies in a class folder: remove "
                "the column, or give the file itself as data"
                if self.label
                else f"{line} has a column of labels, which no sensor gives: remove it"
            )
        if self.label is None and "label" not in self.special:
            raise DataError(
                f"{line} has no column of labels: name it label, say which it is "
                "(--label-column), or put a file per recording into a folder per class"
            )
        if not self.numbers:
            raise DataError(f"{line} has no column of numbers: save a column per channel")

    def add(self, cells: list[str], line: str) -> None:
        """A row."""
        if len(cells) != self.width:
            raise DataError(f"{line} has {len(cells)} cells, but the first has {self.width}")
        found = [self._value(cells[i], i, line) for i in self.numbers]
        key = tuple(tuple(cells[i] for i in self.special.get(role, ())) for role in ROLES)
        label, part, _, group = key
        if label == ("",):
            raise DataError(f"{line} has no label: fill it in or remove the line")
        if group == ("",):
            raise DataError(f"{line} does not say its group: fill it in or remove the line")
        if part and part[0].lower() not in SPLIT_WORDS:
            raise DataError(f"{line} has the split {part[0][:40]!a}: use train, val and test")
        self.values.extend(found)
        self.rows += 1
        if self.keys and self.keys[-1] == key:
            self.ends[-1] = self.rows
        else:
            self.keys.append(key)
            self.ends.append(self.rows)

    @staticmethod
    def _value(cell: str, column: int, line: str) -> float:
        value = _number(cell)
        if value is None:
            raise DataError(
                f"{line} has {cell[:40]!a} in column {column + 1}: save a number; a column of "
                "words is a label (named label or class, or by --label-column) and no target"
            )
        if not abs(value) <= LARGEST:
            raise DataError(
                f"{line} has {cell[:40]!a} in column {column + 1}: save finite numbers, or "
                "remove the line"
            )
        return value

    def series(self) -> list[Series]:
        """All of them, over one array."""
        values = np.frombuffer(self.values, np.float32).reshape(self.rows, len(self.numbers))
        result, first = [], 0
        for (label, part, _, group), end in zip(self.keys, self.ends, strict=True):
            named = label[0] if self.label is None else self.label
            which = SPLIT_WORDS[part[0].lower()] if part else None
            inputs = len(self.numbers) - self.targets
            wanted = values[first:end, inputs:] if self.targets else None
            result.append(Series(values[first:end, :inputs], named, which, wanted, "".join(group)))
            first = end
        return result


def _is_number(column: str) -> bool:
    """Whether this is a number of columns; a longer one than any file has is a name."""
    return column.isdecimal() and len(column) < 10


def _target_columns(first: list[str], targets: str, line: str, *, is_header: bool) -> list[int]:
    """Places of the target columns. Raises DataError for one that is not there."""
    if _is_number(targets):
        count = int(targets)
        if not 0 < count < len(first):
            raise DataError(
                f"{line} has {len(first)} columns, of which the last {count} are to be "
                "targets: give fewer, at least 1"
            )
        return list(range(len(first) - count, len(first)))
    if not is_header:
        raise DataError(
            f"{line} has numbers, so the columns have no names: say how many of the last ones "
            "are targets, as in --targets 1"
        )
    found = []
    for name in (part.strip() for part in targets.split(",")):
        if first.count(name) != 1:
            there = "no column" if name not in first else f"{first.count(name)} columns"
            raise DataError(f"{line} has {there} {name[:40]!a} for a target: it has {_some(first)}")
        found.append(first.index(name))
    if len(set(found)) != len(found):
        raise DataError(f"a target is named twice in {targets[:80]!a}: name each column once")
    return found


def _label_place(first: list[str], line: str, label: str, *, is_header: bool) -> int:
    """The place of the label column. Raises DataError for one that is not there."""
    wanted = label.strip()
    if _is_number(wanted):
        if not 0 < int(wanted) <= len(first):
            raise DataError(
                f"{line} has {len(first)} columns, and the label is to be in column {wanted}: "
                f"count from 1 to {len(first)}"
            )
        return int(wanted) - 1
    if not is_header:
        raise DataError(
            f"{line} has numbers, so the columns have no names: give the number of the label's, "
            f"from 1 to {len(first)}, as in --label-column {len(first)}"
        )
    exact = [i for i, cell in enumerate(first) if cell == wanted]
    found = exact or [i for i, cell in enumerate(first) if cell.lower() == wanted.lower()]
    if len(found) != 1:
        there = f"{len(found)} columns" if found else "no column"
        raise DataError(f"{line} names {there} {wanted[:40]!a} of the label: it has {_some(first)}")
    return found[0]


def _some(first: list[str]) -> str:
    """The first names of a header."""
    return ", ".join(repr(cell[:40]) for cell in first[:16])


ROLES = ("label", "split", "recording", "group")


def _roles(group: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Names of columns by what they are for, besides that of labels."""
    by = (("group", (group.strip().lower(),)),) if group else ()
    return (("split", SPLIT), ("recording", RECORDING), *by)


def _check_group(first: list[str], line: str, group: str) -> None:
    """Raise DataError where the first row names no column to split by."""
    names = [cell.lower() for cell in first]
    if group.strip().lower() in names:
        return
    raise DataError(
        f"{line} names no column {group[:40]!a} to split by: it has {_some(first)}; of a folder of "
        "CSV files --split-by can also be a pattern of file names, with (?P<group>…)"
    )


def _number(cell: str) -> float | None:
    try:
        return None if "_" in cell else float(cell)
    except ValueError:
        return None

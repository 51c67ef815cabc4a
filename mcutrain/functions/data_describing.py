"""What a data set holds, and how a model would take it: looked at before anything is trained."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import asdict, field, replace
from pathlib import Path

import numpy as np
from mcutrain_host.dataclass import dataclass

from mcutrain import data as datasets
from mcutrain.arguments import PathLike, Seed, checked
from mcutrain.data import Data, Dataset, Split
from mcutrain.data.dataset import listed
from mcutrain.data.files import FolderFiles, UnreadableFile
from mcutrain.errors import DataError, ModelError, OptionError
from mcutrain.formats import read_float
from mcutrain.functions.chosen import of_outputs
from mcutrain.functions.files import replace_file
from mcutrain.functions.keywords import with_keywords
from mcutrain.functions.listener import SILENT, Listener
from mcutrain.functions.loading import loaded
from mcutrain.functions.run_options import DataOptions
from mcutrain.ir.graph import Graph
from mcutrain.pipeline.losses import BINARY_CROSS_ENTROPY, Fitted, fit_to_data
from mcutrain.runs.sample_reading import load_data, model_input
from mcutrain.shown import Record, Shown

PARTS = ("train", "test", "validation")
OF_A_MODEL = ("mean", "std", "stride", "class_names", "frontend")
IMBALANCE = 3
"""So many times as many samples of one class as of another are said."""
SHOWN_OF_A_CLASS = 8
"""Samples of each class on a contact sheet."""


@dataclass(frozen=True)
class ClassSamples:
    """Samples of a class in each part. output: of the model, that stands for it, if it is known."""

    name: str
    output: int | None
    train: int
    test: int
    validation: int


@dataclass(frozen=True)
class TargetRange:
    """A real target: its smallest, mean and largest number in the training part."""

    name: str
    low: float
    mean: float
    high: float


@dataclass(frozen=True)
class Twins:
    """Two equal samples of the data, by part and file, or number where there are no files."""

    one: str
    other: str
    are_of_one_part: bool


@dataclass(frozen=True, repr=False)
class DataInfo(Shown):
    """What a data set holds.

    shape, dtype: of a sample, as the model takes it if there is one. low, high: of all values.
    classes: empty without labels. targets: of regression. twins: equal samples, in pairs.
    unreadable: files that give no sample. notes: sentences, each with what to do.
    refusal: why nothing can be trained on it; empty if something can.
    """

    place: str
    shape: tuple[int, ...] = ()
    dtype: str = ""
    low: float = 0
    high: float = 0
    samples: tuple[int, int, int] = (0, 0, 0)
    classes: tuple[ClassSamples, ...] = ()
    targets: tuple[TargetRange, ...] = ()
    twins: tuple[Twins, ...] = ()
    unreadable: tuple[UnreadableFile, ...] = ()
    notes: tuple[str, ...] = ()
    refusal: str = ""
    split: Split | None = field(default=None, compare=False)

    def summary(self) -> str:
        """Return a line that describes it."""
        if self.refusal:
            return self.refusal
        train, test, validation = self.samples
        more = f" + {validation:,}" if validation else ""
        shape = "×".join(map(str, self.shape))
        what = f"{len(self.classes)} classes" if self.classes else f"{len(self.targets)} targets"
        known = what if self.classes or self.targets else "no labels"
        return f"{train:,} + {test:,}{more} samples of {shape} {self.dtype}, {known}"

    def records(self) -> list[Record]:
        """A row for each class, or for each target."""
        return [asdict(row) for row in self.classes or self.targets]

    def to_dict(self) -> Record:
        """All of it but the samples."""
        plain = {name: value for name, value in vars(self).items() if name != "split"}
        rows = ("classes", "targets", "twins", "unreadable")
        return {**plain, **{name: [asdict(row) for row in plain[name]] for name in rows}}

    def write_html(self, path: PathLike) -> Path:
        """Write a contact sheet, some samples of each class. Raises DataError, ReportError."""
        from mcutrain.report.contact_sheet import contact_sheet

        if self.split is None:
            raise DataError(f"there is no sample to show: {self.refusal}")
        page = contact_sheet(self.place, self.split.train, self.summary(), SHOWN_OF_A_CLASS)
        replace_file(Path(path), page.encode())
        return Path(path)


@with_keywords
@checked
def describe_data(
    data: Data,
    model: Graph | PathLike | None = None,
    *,
    reading: DataOptions = DataOptions(),
    seed: Seed = 0,
    listener: Listener = SILENT,
) -> DataInfo:
    """Look at a data set: samples by class and part, ranges, equal samples, unreadable files.

    Fields of reading are keywords, too.

    data: as `simulate` takes it. model: an int8 or float file; samples are then read as it takes
        them, and classes get the numbers of its outputs. Without one, images must have one size.
    reading: how the data is read; seed draws the test part where the data has none.
    listener: hears how far it is.

    What stops training is the result's `refusal`, and no error. Raises ModelError for the model,
    OptionError for options that need one.

    >>> describe_data("images/", "model.tflite").to_pandas()
    """
    place = str(data) if datasets.is_path(data) else "arrays"
    if model is None:
        _check_alone(data, reading)
    graph = None if model is None else _taking(model, listener)
    notes: list[str] = []
    try:
        with listener.reading() as tell:
            split = _read(data, graph, reading, seed, tell, notes)
    except DataError as error:
        return DataInfo(place, unreadable=_unreadable(data, reading, seed), refusal=str(error))
    fitted = None
    if isinstance(graph, Graph) and not graph.row:
        fitted = _fitted(graph, split, reading, notes)
    parts = _parts(split)
    counted = _with_columns(split, fitted)
    notes += _imbalance(counted)
    values = [(part.x.min(), part.x.max()) for part in parts.values()]
    return DataInfo(
        place,
        split.train.x.shape[1:],
        str(split.train.x.dtype),
        float(min(low for low, _ in values)),
        float(max(high for _, high in values)),
        _lengths(split),
        tuple(_classes(counted, _outputs(counted, fitted))),
        tuple(_targets(split)),
        tuple(_twins(parts, _names(data, parts, reading, seed))),
        notes=tuple(notes),
        split=split,
    )


def _check_alone(data: Data, reading: DataOptions) -> None:
    """Raise OptionError for what counts only for a model, where there is none."""
    said = next((name for name in OF_A_MODEL if getattr(reading, name)), None)
    if said is not None:
        raise OptionError(said, "says how a model takes samples: give the model, too (--model)")
    if datasets.is_table(data):
        raise OptionError(
            "model", "needed for a table, which is cut into windows as the model takes them"
        )


def _taking(model: Graph | PathLike, listener: Listener) -> Graph | datasets.InputOrder:
    """The model, or of a float one how it takes samples."""
    if isinstance(model, Graph):
        return model
    try:
        return loaded(model, listener)
    except ModelError as error:
        try:
            return read_float(Path(model)).input_order
        except ModelError:
            raise error from None


def _read(
    data: Data,
    model: Graph | datasets.InputOrder | None,
    reading: DataOptions,
    seed: int,
    progress: datasets.Progress | None,
    notes: list[str],
) -> Split:
    if isinstance(model, Graph):
        taken = model_input(model).with_frontend(reading.frontend)
        reading = of_outputs(model.output_names, data, reading)
        split = load_data(
            taken,
            data,
            seed=seed,
            progress=progress,
            **reading.taken,
            is_partial=True,
            note=notes.append,
            certain=notes.append,
        )
        notes += datasets.input_notes(split, taken, reading.normalization or "auto")
        return split
    order = model.with_frontend(reading.frontend) if model is not None else None
    if not datasets.is_path(data):
        drawing = replace(reading.drawing(seed), note=notes.append)
        split = datasets.of_arrays(data, validation=None, drawing=drawing, order=order)
        return split.drawn(reading.samples, reading.test_samples, seed)
    return datasets.load(
        data,
        **reading.taken,
        seed=seed,
        order=order,
        progress=progress,
        note=notes.append,
        least_classes=1,
        left_out=notes.append,
    )


def _unreadable(data: Data, reading: DataOptions, seed: int) -> tuple[UnreadableFile, ...]:
    """Return files of a folder that cannot be read; none where something else stopped it."""
    if not datasets.is_path(data):
        return ()
    try:
        files = FolderFiles.of(Path(data), reading.drawing(seed))
    except (DataError, OSError):
        return ()
    return () if files is None else files.unreadable()


def _fitted(graph: Graph, split: Split, reading: DataOptions, notes: list[str]) -> Fitted | None:
    """The data as training would take it; None where it would not."""
    try:
        fitted = fit_to_data(graph, split, "auto", "auto", (), reading.class_names or ())
    except DataError as error:
        notes.append(f"training would say: {error}")
        return None
    notes += fitted.notes
    if fitted.classes is not None and split.is_labelled and not split.has_targets:
        notes.append(
            f"the model's own outputs do not fit: training begins with a new head of "
            f"{fitted.classes} outputs"
        )
    return fitted


def _with_columns(split: Split, fitted: Fitted | None) -> Split:
    """The split; where its labels are rows of 0 and 1, with a name for each column."""
    if not split.may_have_rows or (fitted and fitted.loss != BINARY_CROSS_ENTROPY):
        return split
    if fitted:
        return fitted.split
    (columns,) = split.positions
    unnamed = split.has_numbers_for_names and columns > 1
    return split.with_names(tuple(map(str, range(columns)))) if unnamed else split


def _has_columns(split: Split) -> bool:
    """Return whether each name is of a column of the labels."""
    return split.may_have_rows and split.positions == (len(split.names),)


def _outputs(split: Split, fitted: Fitted | None) -> dict[str, int]:
    """Outputs of the model by the names of the classes, as training would take them."""
    if fitted is None or not split.is_labelled or (split.positions and not _has_columns(split)):
        return {}
    return {name: i for i, name in enumerate(fitted.split.names)}


def _parts(split: Split) -> dict[str, Dataset]:
    found = (split.train, split.test, split.validation)
    return {name: part for name, part in zip(PARTS, found, strict=True) if part is not None}


def _lengths(split: Split) -> tuple[int, int, int]:
    validation = 0 if split.validation is None else len(split.validation)
    return len(split.train), len(split.test), validation


def _counted(split: Split, part: Dataset | None) -> list[int]:
    """How many samples of a part have each class, or each label; of positions, how many have it."""
    classes = len(split.names)
    if part is None or not part.is_labelled:
        return [0] * classes
    if _has_columns(split):
        return [int(n) for n in (part.y == 1).sum(axis=0)]
    labels = part.y[part.y != datasets.IGNORED] if part.positions else part.y
    return [int(n) for n in np.bincount(labels.ravel(), minlength=classes)]


def _classes(split: Split, outputs: dict[str, int]) -> Iterator[ClassSamples]:
    if split.has_targets or not (split.is_labelled or split.test.is_labelled):
        return
    known = (split.train, split.test, split.validation)
    counts = (_counted(split, part) for part in known)
    for name, train, test, validation in zip(split.names, *counts, strict=True):
        yield ClassSamples(name, outputs.get(name), train, test, validation)


def _targets(split: Split) -> Iterator[TargetRange]:
    if not split.has_targets:
        return
    for name, column in zip(split.names, split.train.y.T.astype(np.float64), strict=True):
        yield TargetRange(name, float(column.min()), float(column.mean()), float(column.max()))


def _imbalance(split: Split) -> Iterator[str]:
    """Return what is said of classes that have few samples, or none."""
    if split.has_targets or not split.is_labelled:
        return
    for name, part in _parts(split).items():
        counts = _counted(split, part)
        missing = [n for n, count in zip(split.names, counts, strict=True) if not count]
        if missing:
            which = listed(missing)
            yield f"the {name} part has no sample of {which}, so it says nothing about them"
    counts = _counted(split, split.train)
    most, least = max(counts), min(filter(None, counts), default=0)
    if least and most >= IMBALANCE * least:
        largest, smallest = (split.names[counts.index(n)] for n in (most, least))
        yield (
            f"{largest!r} has {most / least:.1f} times as many training samples as {smallest!r}: "
            "--class-weights balanced gives each class the same say"
        )


def _names(
    data: Data, parts: dict[str, Dataset], reading: DataOptions, seed: int
) -> dict[str, list[str]]:
    """Return what each sample is called, by part: its file, or its number."""
    numbered = {name: [f"{name} {i}" for i in range(len(part))] for name, part in parts.items()}
    is_drawn = reading.samples is not None or reading.test_samples is not None
    if is_drawn or not datasets.is_path(data):
        return numbered
    files = FolderFiles.of(Path(data), reading.drawing(seed))
    if files is None:
        return numbered
    return {
        name: [str(path.relative_to(data)) for path in paths]
        for name, paths in zip(parts, files.parts, strict=True)
    }


def _twins(parts: dict[str, Dataset], names: dict[str, list[str]]) -> Iterator[Twins]:
    """Pairs of equal samples: each that comes again, with the first of its kind."""
    first: dict[bytes, tuple[str, int]] = {}
    for name, part in parts.items():
        for i, sample in enumerate(part.x):
            key = hashlib.blake2b(np.ascontiguousarray(sample).tobytes(), digest_size=16).digest()
            seen = first.setdefault(key, (name, i))
            if seen != (name, i):
                yield Twins(names[seen[0]][seen[1]], names[name][i], seen[0] == name)

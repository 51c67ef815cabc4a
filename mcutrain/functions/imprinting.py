"""A board learns a class from a few samples, without training."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
from mcutrain_host import imprint as board
from mcutrain_host.dataclass import dataclass
from mcutrain_host.errors import ProjectError
from mcutrain_host.imprint import ImprintReport, NewClass
from mcutrain_host.manifest import BoardProject
from mcutrain_host.protocol import Rate

from mcutrain.arguments import PathLike, Seed, checked
from mcutrain.data import Data, Dataset, Split
from mcutrain.errors import DataError, did_you_mean
from mcutrain.functions.board_line import connected
from mcutrain.functions.board_options import ClassOptions, LineOptions, ReplayOptions
from mcutrain.functions.board_samples import added_classes, input_of
from mcutrain.functions.chosen import samples_for
from mcutrain.functions.keywords import with_keywords
from mcutrain.functions.listener import SILENT, Listener
from mcutrain.functions.run_options import DataOptions
from mcutrain.quant.imprint import MOST_SAMPLES
from mcutrain.runs.sample_reading import check_latents, prepare_samples
from mcutrain.shown import Record, Shown
from mcutrain.simulation import RunSettings
from mcutrain.simulation.compiled import no_imprint
from mcutrain.simulation.rates import LearningRate


@dataclass(frozen=True, repr=False)
class ImprintedClass(Shown):
    """A class that a board has learnt without training.

    name: of the class; label: the number of its output. known: classes 0 … known-1 were known
    before, but for this one. samples: how many it was learnt from; replays: steps of training that
    followed. report: what the board said, as mcutrain_host.imprint.ImprintReport has it.
    """

    name: str
    label: int
    known: int
    samples: int
    replays: int
    report: ImprintReport

    @property
    def others(self) -> int:
        """How many other classes were known."""
        return self.known - (1 if self.label < self.known else 0)

    def summary(self) -> str:
        """Return a line that describes it."""
        return (
            f"{self.name}, output {self.label}, got its weights from {self.samples:,} samples, "
            f"beside {self.others:,} classes that were known"
        )

    def to_dict(self) -> Record:
        """Return it as `mcutrain imprint --json` prints it."""
        return {
            "class": self.name,
            "label": self.label,
            "known": self.known,
            "samples": self.samples,
            "replays": self.replays,
            **asdict(self.report),
        }


@with_keywords
@checked
def imprint(
    project: PathLike,
    data: Data,
    name: str,
    *,
    which: ClassOptions = ClassOptions(),
    line: LineOptions = LineOptions(),
    after: ReplayOptions = ReplayOptions(),
    reading: DataOptions = DataOptions(),
    seed: Seed = 0,
    listener: Listener = SILENT,
) -> ImprintedClass:
    """Teach a board a class from a few samples of it, without training it.

    All samples of the class that the data has are sent; what the other classes score stays as it
    is. The project was generated with imprint=True, and with an output for the class: added=[name],
    or more classes than were trained.

    data: as `simulate` takes it. name: the class, of the data, and of the outputs if they have
    names. which: label and known, where names do not say them. line: port, found if only one fits.
    after: replay, steps of training that follow. Fields of these and of reading are keywords, too.

    Raises DataError if the data or the outputs have no such class; BuildError with what the line,
    the project or the board say; ArgumentError.

    >>> imprint("project", "hats/", "hat", port="/dev/ttyACM0").others
    """
    board_project = BoardProject.read(Path(project))
    if after.replay and not board_project.board.memory.remember:
        raise ProjectError(
            f"the firmware of {board_project.folder} remembers no samples to replay: generate it "
            "with --remember N"
        )
    label, known = numbers_of_class(board_project, name, which)
    samples = _samples(board_project, data, name, reading, seed, listener)
    rate = LearningRate.of(after.learning_rate)
    new = NewClass(samples, label, known, after.replay, Rate(rate.mult_q31, rate.shift))
    title = f"samples of {name}"
    with connected(board_project, line, listener) as device, listener.counting(title) as tell:
        report = board.imprint(
            device, board_project.firmware, new, lambda done, of: tell(title, done, of)
        )
    return ImprintedClass(name, label, known, len(samples), after.replay, report)


def numbers_of_class(project: BoardProject, name: str, which: ClassOptions) -> tuple[int, int]:
    """The number of the class's output, and how many are known. Raises DataError."""
    manifest, added = project.manifest, added_classes(project)
    own = manifest.classes - len(added)
    label = which.label
    if label is None:
        label = _number_of(name, manifest.class_names, added, own)
    known = which.known or (label if added and label >= own else own)
    if label >= manifest.classes or known > manifest.classes or (known == 1 and label == 0):
        raise DataError(no_imprint(1, label, known, manifest.classes))
    return label, known


def _number_of(name: str, names: tuple[str, ...], added: tuple[str, ...], own: int) -> int:
    """Return the number of the output with this name. Raises DataError."""
    if name in names:
        return names.index(name)
    if name in added:
        return own + added.index(name)
    known = (*names, *added)
    hint = f"the outputs are called {', '.join(known)}" if known else "the outputs have no names"
    raise DataError(
        f"no output is called {name!r}: {hint}{did_you_mean(name, known)}; give --label N, the "
        "number of the output"
    )


def _samples(
    project: BoardProject,
    data: Data,
    name: str,
    reading: DataOptions,
    seed: int,
    listener: Listener,
) -> list[bytes]:
    """The samples of a class as the board takes them. Raises DataError."""
    asked, begins_with = input_of(project), project.manifest.begins_with
    part = _of_class(samples_for(asked, data, reading, seed, listener, is_partial=True), name)
    split = Split(part, part)
    if begins_with:
        check_latents(split, RunSettings(), begins_with, asked.shape)
    normalization = reading.normalization
    prepared = prepare_samples(split, RunSettings(), asked, normalization=normalization)
    return [x.tobytes() for x in prepared.train(np.arange(len(part)), 0, 0)]


def _of_class(split: Split, name: str) -> Dataset:
    """All samples of a class, for training and for the test alike. Raises DataError."""
    if not split.is_labelled or split.positions or name not in split.names:
        names = split.names if split.is_labelled else ()
        has = f"has the classes {', '.join(names)}" if names else "does not say what samples are of"
        raise DataError(
            f"the data {has}, and no {name!r}: give a folder with a folder {name} of samples, or "
            f"another --class{did_you_mean(name, names)}"
        )
    number = split.names.index(name)
    parts = [p for p in (split.train, split.test, split.validation) if p is not None]
    x = np.concatenate([p.x[p.y == number] for p in parts])
    if not 0 < len(x) <= MOST_SAMPLES:
        raise DataError(
            f"the data has {len(x):,} samples of {name!r}: give 1 to {MOST_SAMPLES:,}; "
            "--samples N draws some"
        )
    return replace(split.train, x=x, y=np.zeros(len(x), np.int64), names=(name,))

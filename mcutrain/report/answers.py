"""What a trained network says of the test samples: which classes it confuses, and in which samples.

A count for each pair of classes, and the mistakes of which it is surest, as pictures. Of real
targets, predicted against true values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass
from mcutrain_host.packages import OPTIONAL

from mcutrain.data import Dataset
from mcutrain.report.charts import INKS, LOSS, Bar, Chart, Line, Mark, names, numbers
from mcutrain.report.checks import at_least_0
from mcutrain.report.figures import Figure, NumberTable, Picture, Section, count, percent, short
from mcutrain.report.pictures import extent, picture

Array = npt.NDArray[np.int64]
Samples = npt.NDArray[Any]
MOST_MISTAKES = 12
"""Mistakes that are shown."""
LARGEST_SAMPLE = 256 * 256 * 3
"""Numbers of a sample above which there are no pictures: the file would be several megabytes."""
ROW_PX, LEAST_PX, MOST_PX = 24, 120, 1200
FAINTEST = 0.12
MOST_POINTS, MOST_TARGETS = 400, 6
"""Samples of a chart of predictions, and such charts."""
DOT_PX = 2.5


@dataclass(frozen=True)
class Mistake:
    """A test sample that was taken for another class. picture: an address of data, or nothing."""

    sample: int
    label: int
    said: int
    picture: str = ""

    def __post_init__(self) -> None:
        at_least_0(sample=self.sample, label=self.label, said=self.said)


@dataclass(frozen=True)
class Answers:
    """Test samples by their class and by what was said: counts[label][said].

    mistakes: those of which the network is surest, first.
    """

    names: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]
    mistakes: tuple[Mistake, ...] = ()

    def __post_init__(self) -> None:
        size = len(self.names)
        if len(self.counts) != size or any(len(row) != size for row in self.counts):
            raise ValueError(f"counts are not {size} rows of {size} classes")
        if any(max(m.label, m.said) >= size for m in self.mistakes):
            raise ValueError(f"a mistake is of none of {size} classes")


def answers_of(test: Dataset, said: Array, lead: Array, shown: Samples) -> Answers:
    """Count answers. said: a class for each test sample; lead: by how much it beats the label.

    shown: the samples of `test` as pictures are made of them: it may have their latents.
    """
    size = len(test.names)
    counts = np.zeros((size, size), np.int64)
    np.add.at(counts, (test.y, said), 1)
    wrong = np.flatnonzero(said != test.y)
    surest = wrong[np.argsort(-lead[wrong], kind="stable")][:MOST_MISTAKES]
    low, high = extent(shown)
    has_pictures = OPTIONAL["pillow"].is_installed and shown[:1].size <= LARGEST_SAMPLE
    mistakes = (
        Mistake(
            int(i),
            int(test.y[i]),
            int(said[i]),
            picture(shown[i], low, high) if has_pictures else "",
        )
        for i in surest
    )
    return Answers(test.names, tuple(map(tuple, counts.tolist())), tuple(mistakes))


def section(answers: Answers) -> Section:
    """The matrix, a table of classes, and the surest mistakes."""
    counts = np.array(answers.counts, np.int64).reshape(len(answers.names), -1)
    right, of = int(np.trace(counts)), int(counts.sum())
    return Section(
        "answers",
        "What it takes for what",
        f"{count(right)} of {count(of)} test samples are classified correctly after training. "
        + _confused(answers.names, counts),
        (_matrix(answers.names, counts),),
        (_table(answers.names, counts),),
        pictures=tuple(
            Picture(
                m.picture,
                f"{answers.names[m.label]}, taken for {answers.names[m.said]}: sample {m.sample:,}",
            )
            for m in answers.mistakes
        ),
        pictures_say="The mistakes of which it is surest, among the test samples.",
    )


@dataclass(frozen=True)
class Predicted:
    """A real target's values and what a network gives for them, in the target's unit.

    wanted, found: of some test samples. mae, r2: of all `samples`; no r2 of equal values.
    """

    name: str
    wanted: tuple[float, ...]
    found: tuple[float, ...]
    samples: int
    mae: float
    r2: float | None = None

    def __post_init__(self) -> None:
        at_least_0(samples=self.samples)
        if len(self.wanted) != len(self.found) or not self.wanted:
            raise ValueError(f"{self.name!r} has not a prediction for each of some values")


def predictions_of(targets: Sequence[str], wanted: Array, found: Array) -> tuple[Predicted, ...]:
    """Return what each target was told. wanted, found: float64 [samples, targets].

    At most MOST_POINTS samples are kept.
    """
    places = np.arange(0, len(wanted), max(-(-len(wanted) // MOST_POINTS), 1))
    made = []
    for name, x, y in zip(targets, wanted.T, found.T, strict=True):
        around = float(((x - x.mean()) ** 2).sum())
        r2 = 1 - float(((y - x) ** 2).sum()) / around if around else None
        true, said = (tuple(values[places].tolist()) for values in (x, y))
        made.append(Predicted(name, true, said, len(x), float(np.abs(y - x).mean()), r2))
    return tuple(made)


def predictions(found: Sequence[Predicted]) -> Section:
    """Predicted against true values, a chart for each of the first targets, and a table of all."""
    columns = ("target", "test samples", "MAE", "R²")
    rows = tuple(
        (p.name, count(p.samples), f"{p.mae:.4g}", "" if p.r2 is None else f"{p.r2:.3f}")
        for p in found
    )
    return Section(
        "predictions",
        "Predicted and true values",
        "What the network gives for test samples after training, over what it should give; on the "
        "line it is right. A network that says the mean of all lies on a level.",
        tuple(_scatter(i, p) for i, p in enumerate(found[:MOST_TARGETS])),
        (NumberTable("Targets", columns, rows, 1),),
    )


def _scatter(number: int, predicted: Predicted) -> Figure:
    across = numbers(f"true {short(predicted.name, 30)}", predicted.wanted)
    up = numbers("predicted", [*predicted.wanted, *predicted.found])
    ends = min(predicted.wanted), max(predicted.wanted)
    marks = tuple(
        Mark(x, y, INKS[0], f"true {x:.4g}\npredicted {y:.4g}", radius=DOT_PX)
        for x, y in zip(predicted.wanted, predicted.found, strict=True)
    )
    line = Line(tuple((end, end) for end in ends), LOSS, 1.5)
    some = f" {count(len(marks))} of {count(predicted.samples)} samples." * (
        len(marks) < predicted.samples
    )
    caption = f"{short(predicted.name, 30)}: the closer to the line, the better.{some}"
    return Figure(f"chart-predicted-{number}", caption, Chart(across, up, (line, *marks), 270))


def _confused(classes: tuple[str, ...], counts: Array) -> str:
    """Name the pair of classes that is confused most."""
    wrong = counts * (1 - np.eye(len(counts), dtype=np.int64))
    if not wrong.any():
        return "None is taken for another class."
    label, said = np.unravel_index(int(wrong.argmax()), wrong.shape)
    return (
        f"The most frequent mistake: {classes[label]} taken for {classes[said]}, "
        f"{count(wrong[label, said])} of {count(counts[label].sum())}."
    )


def _matrix(classes: tuple[str, ...], counts: Array) -> Figure:
    bars = []
    last = len(classes) - 1
    for label, said in np.argwhere(counts).tolist():
        number, of = int(counts[label, said]), int(counts[label].sum())
        words = "right" if label == said else f"taken for {classes[said]}"
        share = f"{count(number)} of {count(of)}, {percent(number / of)}"
        bars.append(
            Bar(
                (said - 0.5, said + 0.5),
                (last - label - 0.5, last - label + 0.5),
                INKS[0] if label == said else LOSS,
                f"{classes[label]}, {words}\n{share}",
                FAINTEST + (1 - FAINTEST) * number / of,
            )
        )
    places = [str(i) for i in range(len(classes))]
    labels = [
        i if name == i else f"{short(name, 14)} {i}"
        for i, name in zip(places, classes, strict=True)
    ]
    return Figure(
        "chart-answers",
        "A row for each class, a column for what the network says. The stronger the colour, the "
        "larger the share of the row. Blue is right, red is wrong. Point at a field to read it.",
        Chart(
            names("the network says class", places),
            names("class", labels[::-1], most=len(labels) if len(labels) <= 30 else 10),
            tuple(bars),
            min(max(ROW_PX * len(classes), LEAST_PX), MOST_PX),
        ),
    )


def _table(classes: tuple[str, ...], counts: Array) -> NumberTable:
    rows = []
    for label, name in enumerate(classes):
        of, right = int(counts[label].sum()), int(counts[label, label])
        said = int(counts[:, label].sum())
        others = counts[label].copy()
        others[label] = 0
        most = int(others.argmax())
        rows.append(
            (
                name,
                f"{classes[most]} ({others[most]:,})" if others.any() else "",
                count(of),
                count(right),
                percent(right / of) if of else "",
                percent(right / said) if said else "",
            )
        )
    columns = ("class", "most often taken for", "samples", "right", "recall", "precision")
    return NumberTable("Classes", columns, tuple(rows), 2)

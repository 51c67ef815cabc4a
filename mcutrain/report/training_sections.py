"""The report on learning: accuracy curves of runs, schemes compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from mcutrain_host.dataclass import dataclass

from mcutrain.report.charts import INKS, SHAPES, Chart, Line, Mark, Rule, Ruler, numbers, si
from mcutrain.report.figures import (
    Figure,
    Key,
    NumberTable,
    Section,
    alike,
    count,
    lines,
    percent,
    plain,
)
from mcutrain.report.learning import Compared, LearningCurve, Point

MEASURED: Mapping[str, tuple[str, Callable[[float], str]]] = {
    "mae": ("MAE", "{:.4g}".format),
    "r2": ("R²", "{:.3f}".format),
    "f1": ("F1", percent),
    "iou": ("IoU", percent),
    "auc": ("AUC", "{:.4f}".format),
    "loss": ("test loss", "{:.4g}".format),
}
"""Measures of a test: what they are called, and how they are written."""
CHARTED = {
    "mae": "The mean absolute error of the test samples, in the targets' unit; less is better.",
    "auc": "The area under the ROC curve on the test samples; more is better.",
}
"""Measures that are drawn where there is no accuracy."""
MOST_MARKED = 60
"""Points of a line above which they are shown only where they are pointed at."""
DASH_PX, DOT_PX = 10, 3
"""Dashes of lines that lie on each other, so that each is seen; dots of dotted ones."""
RIM_PX = 1.8
"""How much of a mark is seen around the next one of an equal line."""


def curves(found: Sequence[LearningCurve]) -> Section:
    """Accuracy, or what stands for it, and loss over epochs, and over samples on a board."""
    units = [u for u in ("epoch", "sample") if any(c.unit == u for c in found)]
    figures: list[Figure] = []
    for unit in units:
        figures += _of_unit([c for c in found if c.unit == unit], unit)
    columns: dict[str, Callable[[LearningCurve], str]] = {
        "run": lambda c: c.name,
        "seed": lambda c: str(c.seed),
        "trained for": lambda c: count(c.points[-1].at) + f" {c.unit}s" if c.points else "",
    }
    title, says = "Loss while training", "The loss of the steps; less is better."
    known = [m for m in MEASURED if any(m in p.measures for c in found for p in c.points)]
    if has_classes(found):
        title = "Accuracy while training"
        says = "The share of test samples that is classified correctly, before training and after."
        columns["before"] = lambda c: percent(_first(c, lambda p: p.test_accuracy))
        columns["after"] = lambda c: percent(_last(c, lambda p: p.test_accuracy))
        columns["while training"] = lambda c: percent(_last(c, lambda p: p.train_accuracy))
    elif charted := [m for m in known if m in CHARTED]:
        title, says = f"{MEASURED[charted[0]][0]} while training", CHARTED[charted[0]]
    for measure in known:
        columns |= _of_measure(measure)
    columns["loss"] = lambda c: _number(_last(c, lambda p: p.loss))
    rows = tuple(tuple(cell(c) for cell in columns.values()) for c in found)
    table = NumberTable("Runs", tuple(columns), rows, 1)
    return Section("accuracy", title, says, tuple(figures), (table,))


def _of_measure(measure: str) -> dict[str, Callable[[LearningCurve], str]]:
    """Two columns of the table: before, and after."""
    name, said = MEASURED[measure]

    def text(value: float | None) -> str:
        return "" if value is None else said(value)

    return {
        f"{name} before": lambda c: text(_first(c, lambda p: p.measures.get(measure))),
        f"{name} after": lambda c: text(_last(c, lambda p: p.measures.get(measure))),
    }


def has_classes(found: Sequence[LearningCurve]) -> bool:
    """Return whether a curve has an accuracy."""
    points = [p for c in found for p in c.points]
    return any(p.test_accuracy is not None or p.train_accuracy is not None for p in points)


def _first(curve: LearningCurve, pick: Callable[[Point], float | None]) -> float | None:
    """Return what the test said before anything was trained, if it was measured."""
    return next((v for p in curve.points if p.at == 0 and (v := pick(p)) is not None), None)


def last_of(curve: LearningCurve, measure: str) -> float | None:
    """Return what the last test said of a measure."""
    return _last(curve, lambda p: p.measures.get(measure))


def _last(curve: LearningCurve, pick: Callable[[Point], float | None]) -> float | None:
    return next((v for p in reversed(curve.points) if (v := pick(p)) is not None), None)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


@dataclass(frozen=True)
class _Series:
    """A line of a chart. number: of its curve, which decides colour and shape."""

    name: str
    number: int
    points: tuple[tuple[float, float], ...]
    is_dotted: bool = False

    @property
    def ink(self) -> str:
        return INKS[self.number % len(INKS)]

    @property
    def shape(self) -> str:
        return SHAPES[self.number % len(SHAPES)]


def _of_unit(found: list[LearningCurve], unit: str) -> list[Figure]:
    accuracy: list[_Series] = []
    loss: list[_Series] = []
    for i, curve in enumerate(found):
        accuracy += _series(curve, i, "test", lambda p: _hundred(p.test_accuracy))
        accuracy += _series(curve, i, "training", lambda p: _hundred(p.train_accuracy))
        loss += _series(curve, i, "loss", lambda p: p.loss)
    accuracy, loss = _lasting(accuracy), _lasting(loss)
    figures = [] if has_classes(found) else list(_of_tests(found, unit))
    if accuracy:
        dotted = any(s.is_dotted for s in accuracy)
        chart = _lines(accuracy, unit, "accuracy, %", "{:.1f} %")
        figures.append(
            Figure(
                f"chart-accuracy-{unit}",
                "Solid: on test samples, which are never trained on."
                + " Dotted: on the training samples, as they came." * dotted
                + _above_zero(chart.y, " %")
                + _coincidence(accuracy),
                chart,
                _keys(accuracy),
            )
        )
    if loss:
        is_nats = has_classes(found)
        surprise = ": how surprising the right answers were, in nats" * is_nats
        nats = ", nats" * is_nats
        figures.append(
            Figure(
                f"chart-loss-{unit}",
                f"The loss while training{surprise}; less is better." + _coincidence(loss),
                _lines(loss, unit, f"loss{nats}", "{:.3f}" + nats[1:], least=0.0),
                _keys(loss) if len(loss) > 1 else (),
            )
        )
    return figures


def _of_tests(found: list[LearningCurve], unit: str) -> Iterator[Figure]:
    """Charts of what tests said of networks without classes."""
    for measure, says in CHARTED.items():
        series: list[_Series] = []
        for i, curve in enumerate(found):
            series += _series(curve, i, "test", partial(_measure_at, measure))
        series = _lasting(series)
        if series:
            name = MEASURED[measure][0]
            chart = _lines(series, unit, name, name + " {:.4g}", 0.0 if measure == "mae" else None)
            caption = says + _coincidence(series)
            yield Figure(f"chart-{measure}-{unit}", caption, chart, _keys(series))


def _measure_at(measure: str, point: Point) -> float | None:
    return point.measures.get(measure)


def _lasting(found: list[_Series]) -> list[_Series]:
    """The lines; a single point of a run says nothing of how it went on, and is in the table."""
    return [s for s in found if len(s.points) > 1]


def _hundred(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _series(
    curve: LearningCurve, i: int, what: str, pick: Callable[[Point], float | None]
) -> list[_Series]:
    """One line of a curve, or none if it has no such points."""
    points = tuple((float(p.at), y) for p in curve.points if (y := pick(p)) is not None)
    seed = f", seed {curve.seed}" if curve.seed else ""
    name = plain(f"{curve.name}{seed}, {what}")
    return [_Series(name, i, points, what == "training")] if points else []


def _coincidence(series: Sequence[_Series]) -> str:
    """A sentence, if lines lie on each other."""
    if all(equal == 1 for _, _, equal in alike([s.points for s in series])):
        return ""
    return " Lines that are equal take turns in dashes, and the legend says so."


def _dash(series: _Series, turn: int, equal: int) -> tuple[str, float]:
    """Return the dash of line number `turn` of `equal` ones, and where it begins."""
    if series.is_dotted:
        return f"{DOT_PX} {DOT_PX * (2 * equal - 1)}", 2 * DOT_PX * turn
    return (f"{DASH_PX} {DASH_PX * (equal - 1)}", DASH_PX * turn) if equal > 1 else ("", 0)


def _keys(series: Sequence[_Series]) -> tuple[Key, ...]:
    """The legend of lines; of equal ones it says whose they are."""
    found = []
    for s, (first, turn, equal) in zip(series, alike([s.points for s in series]), strict=True):
        same = "" if turn == 0 else f" (same as {series[first].name})"
        shape = s.shape if len(s.points) <= MOST_MARKED else "none"
        found.append(Key(s.name + same, s.ink, shape, True, _dash(s, turn, equal)[0]))
    return tuple(found)


def _lines(
    series: Sequence[_Series], unit: str, title: str, value: str, least: float | None = None
) -> Chart:
    """Lines, and a mark at each of their points that names all lines that go through it."""
    drawn: list[Line | Mark] = []
    through: dict[tuple[float, float], list[str]] = {}
    places = alike([s.points for s in series])
    for s, (_, turn, equal) in zip(series, places, strict=True):
        width = 1.5 if s.is_dotted else 2.5
        drawn.append(Line(s.points, s.ink, width, *_dash(s, turn, equal)))
        for place in s.points:
            through.setdefault(place, []).append(s.name)
    for s, (_, turn, equal) in zip(series, places, strict=True):
        radius = (2.5 if s.is_dotted else 4) + RIM_PX * (equal - 1 - turn)
        shape = s.shape if len(s.points) <= MOST_MARKED else "ghost"
        for x, y in s.points:
            says = lines((*through[x, y], f"{unit} {x:,g}: {value.format(y)}"))
            drawn.append(Mark(x, y, s.ink, says, shape, radius))
    heights = [y for s in series for _, y in s.points]
    return Chart(
        numbers(f"{unit}s trained", [0.0, *(x for s in series for x, _ in s.points)], text=si,
                is_count=True),
        numbers(title, heights if least is None else [least, *heights]),
        tuple(drawn),
        270,
    )  # fmt: skip


def _above_zero(upward: Ruler, unit: str) -> str:
    """Say where an axis begins that does not begin at 0."""
    return f" Upward the axis begins at {upward.low:g}{unit}, not at 0." * (upward.low > 0)


def comparison(rows: Sequence[Compared]) -> Section:
    """Schemes against each other: accuracy over SRAM."""
    limit = next((r.sram_limit for r in rows if r.sram_limit), None)
    fitting = [r for r in rows if r.fits is not False and r.accuracies]
    best = max(fitting, key=lambda r: r.accuracy, default=None)
    runs = _runs(rows)
    says = f"The same training with each scheme, {'' if runs == 'one run' else 'mean of '}{runs}."
    if best is not None:
        where = "" if limit is None else f" Of those that fit in {count(limit)} bytes of SRAM,"
        with_ = percent(best.accuracy) if is_share(best) else f"{best.measure} {best.accuracy:.4f}"
        says += f"{where or ' Of all,'} {best.name} is best with {with_}."
    return Section(
        "comparison",
        "Schemes compared",
        says,
        (_cloud(rows, limit),) if rows else (),
        (comparison_table(rows),),
    )


def _runs(rows: Sequence[Compared]) -> str:
    """Return how many seeds, or episodes, there are."""
    runs = max((len(r.accuracies) for r in rows), default=0)
    if runs == 1 and not any(r.ways for r in rows):
        return "one run"
    ways, shots = next(((r.ways, r.shots) for r in rows if r.ways), (0, 0))
    if not ways:
        return f"{runs} seed{'s' * (runs != 1)}"
    return (
        f"{runs} episode{'s' * (runs != 1)}, each of {ways} classes and {shots} training "
        f"sample{'s' * (shots != 1)} of each"
    )


def comparison_table(rows: Sequence[Compared]) -> NumberTable:
    """Return what `mcutrain compare` prints, too."""
    limited = any(r.sram_limit is not None for r in rows)
    measure = rows[0].measure if rows else "accuracy"
    columns = ["trained", "scheme", "lr", measure, "SRAM", "flash", "instructions per step"]
    if limited:
        columns.insert(5, "fits")
    gated, laddered = any(r.learnt is not None for r in rows), any(r.levels for r in rows)
    columns += ["learnt"] * gated + ["levels, %"] * laddered
    found = []
    for r in rows:
        row = [
            r.name,
            r.scheme,
            "" if r.learning_rate is None else f"{r.learning_rate:g}",
            accuracy_text(r),
            count(r.sram_bytes),
            count(r.flash_bytes),
            count(r.instructions),
        ]
        if limited:
            row.insert(5, {True: "yes", False: "no", None: ""}[r.fits])
        row += [percent(r.learnt)] * gated + [" ".join(_whole(s) for s in r.levels)] * laddered
        found.append(tuple(row))
    return NumberTable("Schemes", tuple(columns), tuple(found), 2)


def is_share(row: Compared) -> bool:
    """Return whether it is compared by accuracy, which is said in percent."""
    return row.measure == "accuracy"


def _whole(share: float) -> str:
    return f"{100 * share:.0f}"


def accuracy_text(row: Compared) -> str:
    """85.3 ± 0.4 %; without the spread for one seed. Of episodes it is the interval."""
    if not row.accuracies:
        return ""
    if not is_share(row):
        return f"{row.accuracy:.4f}" + ("" if row.error is None else f" ± {row.error:.4f}")
    if row.error is None:
        return percent(row.accuracy)
    return f"{100 * row.accuracy:.1f} ± {100 * row.error:.1f} %"


def _spread_said(rows: Sequence[Compared]) -> str:
    """Say what the bars are, if there are any."""
    if not any(r.error for r in rows):
        return ""
    if any(r.ways for r in rows):
        return " The bars are the 95 % confidence intervals of the means."
    return " The bars are the standard deviation over the seeds."


def _cloud(rows: Sequence[Compared], limit: int | None) -> Figure:
    trained = [r for r in rows if r.accuracies]
    same = alike([(r.sram_bytes, r.accuracies) for r in trained])
    marks, keys = [], []
    scale = 100 if is_share(rows[0]) else 1
    title = "accuracy, %" if is_share(rows[0]) else rows[0].measure
    for i, (r, (first, turn, _)) in enumerate(zip(trained, same, strict=True)):
        ink, shape = INKS[i % len(INKS)], SHAPES[i % len(SHAPES)]
        sizes = f"{count(r.sram_bytes)} bytes of SRAM"
        says = lines((r.name, plain(r.scheme), accuracy_text(r), sizes))
        radius, spread = max(7 - 2.5 * turn, 2), scale * (r.error or 0)
        marks.append(Mark(r.sram_bytes, scale * r.accuracy, ink, says, shape, radius, spread))
        keys.append(Key(r.name + (f" (same as {trained[first].name})" if turn else ""), ink, shape))
    heights = [y for mark in marks for y in (mark.y - mark.spread, mark.y + mark.spread)]
    widths = [0, *(r.sram_bytes for r in rows), limit or 0]
    upward = numbers(title, heights)
    unit = " %" if is_share(rows[0]) else ""
    return Figure(
        "chart-comparison",
        "Higher is better, further left is cheaper."
        + _spread_said(trained)
        + ("" if limit is None else " What lies right of the dashed line does not fit.")
        + _above_zero(upward, unit),
        Chart(
            numbers("bytes of SRAM", widths, text=si),
            upward,
            (*marks, *([] if limit is None else [Rule(limit, True, f"limit {count(limit)}")])),
            320,
        ),
        tuple(keys),
        is_wide=True,
    )

"""The report on learning: accuracy curves of runs, schemes compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import unescape

from mcutrain.report.figures import (
    COLOURS,
    Figure,
    Key,
    Section,
    Table,
    Trace,
    axis,
    count,
    figure,
    line,
    note,
    percent,
    plain,
    short,
)
from mcutrain.report.learning import Compared, Curve, Point

SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star", "hexagon")
MOST_MARKED = 60
"""Points of a line above which they get no markers."""


def curves(found: Sequence[Curve]) -> Section:
    """Accuracy and loss over epochs, and over samples for runs on a board."""
    units = [u for u in ("epoch", "sample") if any(c.unit == u for c in found)]
    figures: list[Figure] = []
    for unit in units:
        figures += _of_unit([c for c in found if c.unit == unit], unit)
    rows = [
        (
            c.name,
            str(c.seed),
            count(c.points[-1].at) + f" {c.unit}s" if c.points else "",
            percent(_first(c)),
            percent(_last(c, lambda p: p.test_accuracy)),
            percent(_last(c, lambda p: p.train_accuracy)),
            _number(_last(c, lambda p: p.loss)),
        )
        for c in found
    ]
    columns = ("run", "seed", "trained for", "before", "after", "while training", "loss")
    return Section(
        "accuracy",
        "Accuracy while training",
        "The share of test images that is classified correctly, before training and as it goes on.",
        tuple(figures),
        (Table("Runs", columns, tuple(rows), 1),),
    )


def _first(curve: Curve) -> float | None:
    """The accuracy on the test set before anything was trained, if it was measured."""
    first = curve.points[0] if curve.points else None
    return first.test_accuracy if first is not None and first.at == 0 else None


def _last(curve: Curve, pick: Callable[[Point], float | None]) -> float | None:
    return next((v for p in reversed(curve.points) if (v := pick(p)) is not None), None)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _of_unit(found: list[Curve], unit: str) -> list[Figure]:
    accuracy: list[Trace] = []
    loss: list[Trace] = []
    for i, curve in enumerate(found):
        accuracy += _line(curve, i, "test", lambda p: _hundred(p.test_accuracy), "%{y:.1f} %")
        accuracy += _line(curve, i, "training", lambda p: _hundred(p.train_accuracy), "%{y:.1f} %")
        loss += _line(curve, i, "loss", lambda p: p.loss, "%{y:.3f} nats")
    x = axis(f"{unit}s trained", rangemode="tozero", tickformat="~s" if unit == "sample" else "~g")
    figures = []
    if accuracy:
        figures.append(
            figure(
                f"chart-accuracy-{unit}",
                "Solid: on test images, which are never trained on. Dotted: on the training "
                "images, as they came.",
                accuracy,
                340,
                _keys(accuracy),
                xaxis=x,
                yaxis=axis("accuracy, %"),
            )
        )
    if loss:
        figures.append(
            figure(
                f"chart-loss-{unit}",
                "The loss while training: how surprising the right answers were, in nats; less is "
                "better.",
                loss,
                260,
                _keys(loss) if len(loss) > 1 else (),
                xaxis=x,
                yaxis=axis("loss, nats", rangemode="tozero"),
            )
        )
    return figures


def _keys(traces: list[Trace]) -> list[Key]:
    """The legend of lines."""
    return [
        Key(
            unescape(t["name"]),
            t["line"]["color"],
            "dots" if t["line"]["dash"] == "dot" else "line",
        )
        for t in traces
    ]


def _hundred(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _line(
    curve: Curve, i: int, what: str, pick: Callable[[Point], float | None], value: str
) -> list[Trace]:
    """One line of a curve, or none if it has no such points."""
    points = [(p.at, y) for p in curve.points if (y := pick(p)) is not None]
    if not points:
        return []
    marked = len(points) <= MOST_MARKED
    colour = COLOURS[i % len(COLOURS)]
    seed = f", seed {curve.seed}" if curve.seed else ""
    return [
        {
            "type": "scatter",
            "mode": "lines+markers" if marked else "lines",
            "name": plain(f"{curve.name}{seed}, {what}"),
            "x": [x for x, _ in points],
            "y": [y for _, y in points],
            "line": {
                "color": colour,
                "width": 1.5 if what == "training" else 2.5,
                "dash": "dot" if what == "training" else "solid",
            },
            "marker": {"size": 6, "symbol": SYMBOLS[i % len(SYMBOLS)]},
            "hovertemplate": f"%{{fullData.name}}<br>%{{x:,}}: {value}<extra></extra>",
        }
    ]


def comparison(rows: Sequence[Compared]) -> Section:
    """Schemes against each other: accuracy over SRAM."""
    limit = next((r.sram_limit for r in rows if r.sram_limit), None)
    seeds = max((len(r.accuracies) for r in rows), default=0)
    fitting = [r for r in rows if r.fits is not False and r.accuracies]
    best = max(fitting, key=lambda r: r.accuracy, default=None)
    says = f"The same training with each scheme, mean of {seeds} seed{'s' * (seeds != 1)}."
    if best is not None:
        where = "" if limit is None else f" Of those that fit in {count(limit)} bytes of SRAM,"
        says += f"{where or ' Of all,'} {best.name} is best with {percent(best.accuracy)}."
    return Section(
        "comparison",
        "Schemes compared",
        says,
        (_cloud(rows, limit),) if rows else (),
        (comparison_table(rows),),
    )


def comparison_table(rows: Sequence[Compared]) -> Table:
    """What `mcutrain compare` prints, too."""
    limited = any(r.sram_limit is not None for r in rows)
    columns = ["trained", "scheme", "accuracy", "SRAM", "flash", "instructions per step"]
    if limited:
        columns.insert(4, "fits")
    found = []
    for r in rows:
        row = [
            r.name,
            r.scheme,
            accuracy_text(r),
            count(r.sram_bytes),
            count(r.flash_bytes),
            count(r.instructions),
        ]
        if limited:
            row.insert(4, {True: "yes", False: "no", None: ""}[r.fits])
        found.append(tuple(row))
    return Table("Schemes", tuple(columns), tuple(found), 2)


def accuracy_text(row: Compared) -> str:
    """85.3 ± 0.4 %; without the spread for one seed."""
    if not row.accuracies:
        return ""
    if row.spread is None:
        return percent(row.accuracy)
    return f"{100 * row.accuracy:.1f} ± {100 * row.spread:.1f} %"


def _cloud(rows: Sequence[Compared], limit: int | None) -> Figure:
    traces = [
        {
            "type": "scatter",
            "mode": "markers",
            "name": plain(r.name),
            "x": [r.sram_bytes],
            "y": [100 * r.accuracy],
            "error_y": {"array": [100 * (r.spread or 0)], "thickness": 1.5, "visible": True},
            "customdata": [[short(r.scheme, 60), accuracy_text(r), count(r.sram_bytes)]],
            "marker": {
                "size": 13,
                "color": COLOURS[i % len(COLOURS)],
                "symbol": SYMBOLS[i % len(SYMBOLS)],
            },
            "hovertemplate": "<b>%{fullData.name}</b><br>%{customdata[0]}<br>%{customdata[1]}<br>"
            "%{customdata[2]} bytes of SRAM<extra></extra>",
        }
        for i, r in enumerate(rows)
        if r.accuracies
    ]
    most = max([r.sram_bytes for r in rows] + [limit or 0])
    marks = (
        {}
        if limit is None
        else {
            "shapes": [line(limit, "v")],
            "annotations": [
                {
                    **note(f"limit {count(limit)}"),
                    "x": limit,
                    "y": 1,
                    "yref": "y domain",
                    "yanchor": "bottom",
                    "xanchor": "right" if limit > most / 2 else "left",
                }
            ],
        }
    )
    return figure(
        "chart-comparison",
        "Higher is better, further left is cheaper. The bars are the standard deviation over "
        "the seeds."
        + ("" if limit is None else " What lies right of the dashed line does not fit."),
        traces,
        380,
        [Key(r.name, COLOURS[i % len(COLOURS)], "disc") for i, r in enumerate(rows)],
        xaxis=axis("bytes of SRAM", tickformat="~s", rangemode="tozero"),
        yaxis=axis("accuracy, %"),
        **marks,
    )

"""The report on a selection: what was chosen and why, and what other budgets would buy."""

from __future__ import annotations

from collections.abc import Sequence

from mcutrain.report.figures import (
    COLOURS,
    INK,
    Figure,
    Key,
    Section,
    Table,
    Trace,
    axis,
    count,
    figure,
    percent,
    plain,
    short,
)
from mcutrain.report.learning import Chosen, SweepPoint, mean_of, spread_of

SHARES_OF_ALL = ("accuracy", "probability")
"""Measures that are shares, shown in percent, their differences in points."""
LIMIT_NAMES = {
    "sram_bytes": "bytes of SRAM",
    "flash_bytes": "bytes of flash",
    "instructions": "instructions per step",
}


def selection(found: Chosen) -> Section:
    """The choice, its proof, and where its gain comes from."""
    limits = {k: v for k, v in found.limits.items() if v is not None}
    within = " and ".join(f"{count(v)} {LIMIT_NAMES.get(k, k)}" for k, v in limits.items())
    gain = f"+{_amount(found.gain, found.measure)}"
    proof = (
        "no scheme that fits is expected to gain more"
        if found.optimal
        else f"no scheme that fits can gain more than +{_amount(found.bound, found.measure)}"
    )
    says = (
        f"Within {within or 'no limit'}, training the head, the last {found.bias_depth} biases and "
        f"weights of {len(found.layers)} layers is expected to add {gain} of {found.measure} to "
        f"training the head alone; {proof}. What keeps the gain from being larger: "
        f"{found.binding or 'not asked'}."
    )
    if found.next is not None:
        more = _amount(found.next.more_gain, found.measure)
        says += (
            f" With {count(found.next.more_bytes)} bytes of SRAM more, +{more}: "
            f"{', '.join(found.next.changes)}."
        )
    return Section(
        "selection",
        "What was selected, and why",
        says,
        (_gains(found),),
        (_limits(found), _layers(found)),
    )


def _amount(gain: float, measure: str) -> str:
    if measure in SHARES_OF_ALL:
        return f"{100 * gain:.2f} points"
    return f"{gain:.4g}"


def _scaled(value: float, measure: str) -> float:
    return 100 * value if measure in SHARES_OF_ALL else value


def _gains(found: Chosen) -> Figure:
    """A bar for the biases and one for every layer's weights."""
    layers = sorted(found.layers, key=lambda c: c.layer)
    names = [f"last {found.bias_depth} biases", *(short(c.name, 24) for c in layers)][::-1]
    values = [found.bias_gain, *(c.gain for c in layers)][::-1]
    hover = ["", *(f"layer {c.layer}, {100 * c.share:.3g} % of its weights" for c in layers)][::-1]
    unit = ", points" if found.measure in SHARES_OF_ALL else ""
    return figure(
        "chart-selection",
        f"What each part of the choice is expected to gain in {found.measure}.",
        [
            {
                "type": "bar",
                "orientation": "h",
                "y": list(range(len(names))),
                "x": [_scaled(v, found.measure) for v in values],
                "customdata": [list(pair) for pair in zip(names, hover, strict=True)],
                "marker": {"color": [COLOURS[0]] * len(layers) + [COLOURS[1]]},
                "hovertemplate": "<b>%{customdata[0]}</b><br>%{customdata[1]}<br>%{x:+.4~g}"
                "<extra></extra>",
            }
        ],
        90 + 24 * len(names),
        xaxis=axis(f"expected gain{unit}", nticks=6),
        yaxis=axis(
            tickvals=list(range(len(names))),
            ticktext=names,
            showgrid=False,
            zeroline=False,
            tickfont={"size": 11, "color": INK},
        ),
    )


def _limits(found: Chosen) -> Table:
    used = {
        "sram_bytes": found.sram_bytes,
        "flash_bytes": found.flash_bytes,
        "instructions": found.instructions,
    }
    rows = tuple(
        (name, count(used[key]), count(found.limits.get(key)), count(found.free.get(key)))
        for key, name in LIMIT_NAMES.items()
    )
    return Table("Limits", ("", "used", "limit", "free"), rows)


def _layers(found: Chosen) -> Table:
    rows = tuple(
        (
            str(c.layer),
            c.name,
            percent(c.share, 1),
            _amount(c.gain, found.measure),
            count(c.state_bytes),
        )
        for c in found.layers
    )
    columns = ("layer", "name", "share", "expected gain", "bytes of state")
    return Table("Trained weights", columns, rows, 2)


def sweep(found: Sequence[SweepPoint]) -> Section:
    """Expected and trained measure over the budget."""
    ordered = sorted(found, key=lambda p: p.budget_bytes)
    trained = any(p.trained for p in ordered)
    columns = ["budget", "SRAM used", f"expected {ordered[0].measure}"]
    rows = []
    for p in ordered:
        row = [count(p.budget_bytes), count(p.sram_bytes), _level(p.expected, p.measure)]
        rows.append((*row, _trained_text(p)) if trained else tuple(row))
    return Section(
        "sweep",
        "What more memory buys",
        "The best scheme for each budget of SRAM. Where the line is flat, a larger chip does not "
        "help.",
        _pareto(ordered),
        (
            Table(
                "Budgets",
                (*columns, "trained accuracy") if trained else tuple(columns),
                tuple(rows),
                0,
            ),
        ),
    )


def _level(value: float, measure: str) -> str:
    return percent(value) if measure in SHARES_OF_ALL else f"{value:.4g}"


def _trained_text(point: SweepPoint) -> str:
    if not point.trained:
        return ""
    spread = spread_of(point.trained)
    more = "" if spread is None else f" ± {100 * spread:.1f}"
    return f"{100 * mean_of(point.trained):.1f}{more} %"


def _pareto(points: list[SweepPoint]) -> tuple[Figure, ...]:
    """Expected and trained together where both are shares of the test images."""
    measure = points[0].measure
    expected: Trace = {
        "type": "scatter",
        "mode": "lines+markers",
        "line": {"color": COLOURS[0], "width": 2, "shape": "hv"},
        "marker": {"size": 6},
        "x": [p.budget_bytes for p in points],
        "y": [_scaled(p.expected, measure) for p in points],
        "customdata": [[count(p.budget_bytes), count(p.sram_bytes)] for p in points],
        "hovertemplate": "budget %{customdata[0]} bytes, %{customdata[1]} used<br>expected "
        "%{y:.4~g}<extra></extra>",
    }
    done = [p for p in points if p.trained]
    trained = [_trained(done)] if done else []
    x = axis("budget, bytes of SRAM", tickformat="~s", nticks=8)
    keys = (
        Key(f"expected {measure}", COLOURS[0], "line"),
        Key("accuracy when trained", COLOURS[1], "disc"),
    )
    says = "Each point is the best scheme that fits in so many bytes of SRAM."
    if measure in SHARES_OF_ALL:
        y = axis("%" if trained else plain(f"expected {measure}, %"))
        both = [expected, *trained]
        return (figure("chart-sweep", says, both, 340, keys[: len(both)], xaxis=x, yaxis=y),)
    y = axis(plain(f"expected {measure}"))
    found = figure("chart-sweep", says, [expected], 340, keys[:1], xaxis=x, yaxis=y)
    if not trained:
        return (found,)
    y = axis("accuracy, %")
    says = "The same schemes, trained."
    return (
        found,
        figure("chart-sweep-trained", says, trained, 300, keys[1:], xaxis=x, yaxis=y),
    )


def _trained(done: list[SweepPoint]) -> Trace:
    return {
        "type": "scatter",
        "mode": "markers",
        "marker": {"size": 10, "color": COLOURS[1]},
        "x": [p.budget_bytes for p in done],
        "y": [100 * mean_of(p.trained) for p in done],
        "error_y": {"array": [100 * (spread_of(p.trained) or 0) for p in done], "thickness": 1.5},
        "customdata": [[_trained_text(p), count(p.budget_bytes)] for p in done],
        "hovertemplate": "budget %{customdata[1]} bytes<br>trained %{customdata[0]}<extra></extra>",
    }

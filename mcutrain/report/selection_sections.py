"""The report on a selection: what was chosen and why, and what other budgets would buy."""

from __future__ import annotations

from collections.abc import Sequence

from mcutrain.report.charts import Bar, Chart, Line, Mark, names, numbers, si
from mcutrain.report.figures import (
    Figure,
    Key,
    NumberTable,
    Section,
    count,
    lines,
    percent,
    plain,
    short,
)
from mcutrain.report.learning import Chosen, ChosenModule, SweepPoint, mean_of, spread_of

SHARES_OF_ALL = ("accuracy", "probability", "r2")
"""Measures that are shares, shown in percent, their differences in points."""
LIMIT_NAMES = {
    "sram_bytes": "bytes of SRAM",
    "flash_bytes": "bytes of flash",
    "instructions": "instructions per step",
}


def selection(chosen: Chosen) -> Section:
    """The choice, its proof, and where its gain comes from."""
    limits = {k: v for k, v in chosen.limits.items() if v is not None}
    within = " and ".join(f"{count(v)} {LIMIT_NAMES.get(k, k)}" for k, v in limits.items())
    gain = f"+{_amount(chosen.gain, chosen.measure)}"
    proof = (
        "no scheme that fits is expected to gain more"
        if chosen.optimal
        else f"no scheme that fits can gain more than +{_amount(chosen.bound, chosen.measure)}"
    )
    says = (
        f"Within {within or 'no limit'}, training the head, the last {chosen.bias_depth} biases "
        f"and weights of {len(chosen.layers)} layers{_modules_text(chosen)} is expected to add "
        f"{gain} of {chosen.measure} to training the head alone; {proof}. "
    )
    says += (
        f"What keeps the gain from being larger: {chosen.binding or 'not asked'}."
        if chosen.published is None
        else f"It was not chosen by these gains: it was published as {chosen.published}, and was "
        "the best of the finalists when trained."
    )
    if chosen.next is not None:
        more = _amount(chosen.next.more_gain, chosen.measure)
        says += (
            f" With {count(chosen.next.more_bytes)} bytes of SRAM more, +{more}: "
            f"{', '.join(chosen.next.changes)}."
        )
    return Section(
        "selection",
        "What was selected, and why",
        says,
        (_gains(chosen),),
        (_limits(chosen), _layers(chosen), *([_modules(chosen)] if chosen.modules else [])),
    )


def _amount(gain: float, measure: str) -> str:
    if measure in SHARES_OF_ALL:
        return f"{100 * gain:.2f} points"
    return f"{gain:.4g}"


def _scaled(value: float, measure: str) -> float:
    return 100 * value if measure in SHARES_OF_ALL else value


def _gains(chosen: Chosen) -> Figure:
    """A bar for the biases, one for every layer's weights, and one for every module."""
    parts = [(m.name, m.gain, _channels(m)) for m in reversed(chosen.modules)]
    parts += [
        (c.name, c.gain, f"layer {c.layer}, {100 * c.share:.3g} % of its weights")
        for c in sorted(chosen.layers, key=lambda c: -c.layer)
    ]
    titles = [*(short(name) for name, *_ in parts), f"last {chosen.bias_depth} biases"]
    gains = [*(gain for _, gain, _ in parts), chosen.bias_gain]
    values = [_scaled(v, chosen.measure) for v in gains]
    says = [*(what for *_, what in parts), ""]
    bars = [
        Bar(
            (0, value),
            (i - 0.4, i + 0.4),
            "c0" if i < len(parts) else "c1",
            lines((titles[i], says[i], f"{value:+.4g}")),
        )
        for i, value in enumerate(values)
    ]
    unit = ", points" if chosen.measure in SHARES_OF_ALL else ""
    return Figure(
        "chart-selection",
        f"What each part of the choice is expected to gain in {chosen.measure}.",
        Chart(
            numbers(f"expected gain{unit}", (0, *values)),
            names("", titles, len(titles)),
            tuple(bars),
            max(24 * len(titles), 96),
        ),
    )


def _limits(found: Chosen) -> NumberTable:
    used = {
        "sram_bytes": found.sram_bytes,
        "flash_bytes": found.flash_bytes,
        "instructions": found.instructions,
    }
    rows = tuple(
        (name, count(used[key]), count(found.limits.get(key)), count(found.free.get(key)))
        for key, name in LIMIT_NAMES.items()
    )
    return NumberTable("Limits", ("", "used", "limit", "free"), rows)


def _layers(found: Chosen) -> NumberTable:
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
    return NumberTable("Trained weights", columns, rows, 2)


def _modules(found: Chosen) -> NumberTable:
    rows = tuple(
        (m.name, str(m.channels or ""), _amount(m.gain, found.measure), count(m.state_bytes))
        for m in found.modules
    )
    columns = ("module", "channels", "expected gain", "bytes of state")
    return NumberTable("Trained modules", columns, rows, 1)


def _modules_text(found: Chosen) -> str:
    return f" and {len(found.modules)} modules" if found.modules else ""


def _channels(module: ChosenModule) -> str:
    return f"{module.channels} hidden channels" if module.channels else ""


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
            NumberTable(
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
    """Expected and trained together where both are shares of the test samples."""
    measure = points[0].measure
    steps = tuple((p.budget_bytes, _scaled(p.expected, measure)) for p in points)
    expected: list[Line | Mark] = [
        Line(steps, "c0", 2, has_stairs=True),
        *(
            Mark(
                x,
                y,
                "c0",
                f"budget {count(p.budget_bytes)} bytes, {count(p.sram_bytes)} used\n"
                f"expected {y:.4g}",
            )
            for p, (x, y) in zip(points, steps, strict=True)
        ),
    ]
    trained = [_trained(p) for p in points if p.trained]
    levels = [y for _, y in steps]
    reached = [y for mark in trained for y in (mark.y - mark.spread, mark.y + mark.spread)]
    x = numbers("budget, bytes of SRAM", [p.budget_bytes for p in points], text=si)
    keys = (
        Key(f"expected {measure}", "c0", "disc", has_line=True),
        Key("accuracy when trained", "c1", "disc"),
    )
    says = "Each point is the best scheme that fits in so many bytes of SRAM."
    if measure in SHARES_OF_ALL:
        y = numbers("%" if trained else plain(f"expected {measure}, %"), levels + reached)
        both = Chart(x, y, (*expected, *trained), 260)
        return (Figure("chart-sweep", says, both, keys if trained else keys[:1]),)
    alone = Chart(x, numbers(plain(f"expected {measure}"), levels), tuple(expected), 260)
    found = Figure("chart-sweep", says, alone, keys[:1])
    if not trained:
        return (found,)
    reaching = Chart(x, numbers("accuracy, %", reached), tuple(trained), 260)
    return (
        found,
        Figure("chart-sweep-trained", "The same schemes, trained.", reaching, keys[1:]),
    )


def _trained(p: SweepPoint) -> Mark:
    says = f"budget {count(p.budget_bytes)} bytes\ntrained {_trained_text(p)}"
    spread = 100 * (spread_of(p.trained) or 0)
    return Mark(p.budget_bytes, 100 * mean_of(p.trained), "c1", says, radius=5, spread=spread)

"""Charts as inline SVG that fits any width and any theme, without a script.

A plot is as wide as its place: across, everything is placed in percent; down, in pixels, as texts
and strokes are. So nothing has to be drawn again when a window changes, and a chart is the same in
a report, on paper and in a notebook. Colours are named, and STYLE says which they are in the light
and in the dark. What a mark `says` is shown where it is pointed at.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from mcutrain_host.dataclass import dataclass

INKS = ("c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7")
"""Okabe and Ito's colours, which colour-blind readers tell apart too; yellow made darker."""
LIMIT, GAIN, LOSS, PALE = "limit", "gain", "loss", "pale"
LIGHT = {
    **dict(zip(INKS, ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#7a7a7a",
                      "#b3a100"), strict=True)),
    LIMIT: "#c0392b", GAIN: "#2166ac", LOSS: "#b2182b", PALE: "#a3adb8",
}  # fmt: skip
DARK = {
    **dict(zip(INKS, ("#3d9fe0", "#f0b429", "#22b98d", "#dd93bb", "#84ccf5", "#f07b32", "#a0a0a0",
                      "#cdbb1f"), strict=True)),
    LIMIT: "#ff7b6b", GAIN: "#5aa9ee", LOSS: "#f0616d", PALE: "#6b7785",
}  # fmt: skip
SHAPES = ("disc", "square", "diamond", "triangle", "cross", "x", "star", "hexagon")
LARGEST = 1e150
"""Values beyond are drawn there, so that no difference of two overflows."""
LEAST = 1e-290
"""Nearer to 0 they are 0: parts of them could not be told from it."""
CHARACTER_PX, TICK_PX = 6.6, 12
SIGNS = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


def style() -> str:
    """The CSS of all charts."""

    def variables(colours: dict[str, str]) -> str:
        return "; ".join(f"--{name}: {colour}" for name, colour in colours.items())

    inks = "\n".join(f".{name} {{ --ink: var(--{name}) }}" for name in LIGHT)
    return f""".mct {{ {variables(LIGHT)} }}
@media screen and (prefers-color-scheme: dark) {{ .mct {{ {variables(DARK)} }} }}
{inks}
.plot {{ display: block; overflow: visible; font-size: {TICK_PX}px }}
.plot svg {{ overflow: visible }}
.plot text {{ fill: currentColor }}
.plot .grid {{ stroke: currentColor; opacity: .13 }}
.plot .edge {{ stroke: currentColor; opacity: .4 }}
.plot .fill, .swatch .fill {{ fill: var(--ink); print-color-adjust: exact; -webkit-print-color-adjust: exact }}
.plot .bar {{ stroke: var(--paper, none); stroke-width: .7 }}
.plot .line, .swatch .line {{ fill: none; stroke: var(--ink); vector-effect: non-scaling-stroke; stroke-linejoin: round; pointer-events: none }}
.plot .ring, .swatch .ring {{ fill: var(--paper, none); stroke: var(--ink); stroke-width: 2 }}
.plot .ghost {{ fill: transparent }}
.plot .note {{ fill: var(--ink) }}
.swatch {{ vertical-align: -1px; margin-right: .45em; overflow: visible }}
"""  # noqa: E501  # a rule of CSS per line


@dataclass(frozen=True)
class Ruler:
    """A ruler from low to high, with ticks (value, label)."""

    title: str
    low: float
    high: float
    ticks: tuple[tuple[float, str], ...] = ()
    has_grid: bool = True

    def share(self, value: float) -> float:
        """Return where a value is: 0 at low, 1 at high."""
        return (bounded(value) - self.low) / (self.high - self.low)


def numbers(
    title: str,
    values: Iterable[float],
    *,
    text: Callable[[float], str] = "{:g}".format,
    is_count: bool = False,
    most: int = 7,
) -> Ruler:
    """An axis that holds all values. is_count: of whole numbers, and it ends with the last."""
    found = [bounded(value) for value in values] or [0.0]
    low, high = min(found), max(found)
    if high - low <= max(abs(low), abs(high), 1e-12) * 1e-9:
        low, high = min(low, 0.0), max(high, 0.0) or max(abs(low), 1.0)
    step = _step((high - low) / most)
    if is_count:
        step = max(step, 1.0)
    else:
        low, high = math.floor(low / step) * step, math.ceil(high / step) * step
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    ticks = tuple((k * step, text(float(f"{k * step:.12g}"))) for k in range(first, last + 1))
    return Ruler(title, low, high, ticks)


def names(title: str, labels: Sequence[str], most: int = 10) -> Ruler:
    """Value i is labels[i]. At most about so many of them are written, with the last."""
    apart = max(-(-len(labels) // most), 1)
    shown = list(range(0, len(labels) - 1, apart))
    if len(shown) > 1 and (len(labels) - 1 - shown[-1]) * 2 <= apart:
        shown.pop()
    ticks = tuple((float(i), labels[i]) for i in [*shown, *range(len(labels))[-1:]])
    return Ruler(title, -0.5, max(len(labels), 1) - 0.5, ticks, has_grid=False)


def bounded(value: float) -> float:
    """The value where charts can compute with it."""
    return 0.0 if abs(value) < LEAST else min(max(float(value), -LARGEST), LARGEST)


def _step(wanted: float) -> float:
    """The next 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(wanted))
    return next(k * power for k in (1, 2, 5, 10, 20) if k * power >= wanted * (1 - 1e-9))


def si(value: float) -> str:
    """20000 as 20k."""
    for size, sign in SIGNS:
        if abs(value) >= size:
            return f"{value / size:g}{sign}"
    return f"{value:g}"


class Drawn(Protocol):
    """What a chart is made of."""

    def svg(self, place: PlotScales) -> str: ...


@dataclass(frozen=True)
class PlotScales:
    """Turns values into places of a plot: x in percent of its width, y in pixels."""

    x: Ruler
    y: Ruler
    height: float

    def across(self, value: float) -> str:
        """A length of x too, from low on."""
        return _short(100 * self.x.share(value)) + "%"

    def down(self, value: float) -> str:
        """Return the distance from the upper edge."""
        return _short(self.height * (1 - self.y.share(value)))


@dataclass(frozen=True)
class Bar:
    """A rectangle from x[0] to x[1] and y[0] to y[1]."""

    x: tuple[float, float]
    y: tuple[float, float]
    ink: str
    says: str = ""
    opacity: float = 1.0

    def svg(self, place: PlotScales) -> str:
        """An element."""
        left, right = sorted(100 * place.x.share(value) for value in self.x)
        low, high = sorted(place.height * (1 - place.y.share(value)) for value in self.y)
        faint = "" if self.opacity == 1 else f' opacity="{_short(self.opacity)}"'
        return (
            f'<rect class="bar fill {self.ink}" x="{_short(left)}%" y="{_short(low)}" '
            f'width="{_short(right - left)}%" height="{_short(high - low)}"{faint}>'
            f"{_title(self.says)}</rect>"
        )


@dataclass(frozen=True)
class Mark:
    """A symbol, with a line over `spread` to both sides. shape: of SHAPES, or ring, or ghost."""

    x: float
    y: float
    ink: str
    says: str = ""
    shape: str = "disc"
    radius: float = 4.0
    spread: float = 0.0

    def svg(self, place: PlotScales) -> str:
        """An element, or two."""
        x, y = place.across(self.x), place.down(self.y)
        bar = ""
        if self.spread:
            ends = (place.down(self.y - self.spread), place.down(self.y + self.spread))
            bar = (
                f'<line class="line {self.ink}" stroke-width="1.5" x1="{x}" x2="{x}" '
                f'y1="{ends[0]}" y2="{ends[1]}"/>'
            )
        inner = f"{symbol(self.shape, self.radius, self.ink)}{_title(self.says)}"
        return f'{bar}<svg class="mark" x="{x}" y="{y}">{inner}</svg>'


@dataclass(frozen=True)
class Line:
    """Through points. dash: of SVG, in pixels, after `late` pixels. has_stairs: level, then up."""

    points: tuple[tuple[float, float], ...]
    ink: str
    width: float = 2.5
    dash: str = ""
    late: float = 0.0
    has_stairs: bool = False

    def svg(self, place: PlotScales) -> str:
        """Stretched to the width, its stroke not."""
        corners = list(self.points)
        if self.has_stairs:
            steps = zip(self.points, self.points[1:], strict=False)
            corners = [p for a, b in steps for p in (a, (b[0], a[1]))] + corners[-1:]
        places = " ".join(f"{_short(1000 * place.x.share(x))},{place.down(y)}" for x, y in corners)
        return (
            f'<svg width="100%" height="{_short(place.height)}" preserveAspectRatio="none" '
            f'viewBox="0 0 1000 {_short(place.height)}">'
            f'<polyline class="line {self.ink}" stroke-width="{self.width}"'
            f'{dashes(self.dash, self.late)} points="{places}"/></svg>'
        )


@dataclass(frozen=True)
class Rule:
    """A dashed line across the plot, with a word at its end."""

    at: float
    is_upright: bool
    text: str = ""
    dash: str = "6 4"

    def svg(self, place: PlotScales) -> str:
        """A line, and a text above it."""
        if not self.is_upright:
            ends = f'x1="0" x2="100%" y1="{place.down(self.at)}" y2="{place.down(self.at)}"'
            return f'<line class="line {LIMIT}" stroke-width="1.5"{dashes(self.dash)} {ends}/>'
        x = place.across(self.at)
        anchor = "end" if place.x.share(self.at) > 0.5 else "start"
        return (
            f'<line class="line {LIMIT}" stroke-width="1.5"{dashes(self.dash)} x1="{x}" x2="{x}" '
            f'y1="0" y2="{_short(place.height)}"/>'
            f'<text class="note {LIMIT}" x="{x}" y="-5" text-anchor="{anchor}">'
            f"{html.escape(self.text)}</text>"
        )


@dataclass(frozen=True)
class Chart:
    """Marks between two axes. height: of the plot in pixels, without what is written around it."""

    x: Ruler
    y: Ruler
    marks: tuple[Drawn, ...]
    height: int

    def svg(self) -> str:
        """The whole of it."""
        place = PlotScales(self.x, self.y, self.height)
        longest = max((len(label) for _, label in self.y.ticks), default=0)
        left = round(longest * CHARACTER_PX + (12 if longest else 6) + (20 if self.y.title else 0))
        below = (20 if self.x.ticks else 4) + (20 if self.x.title else 0)
        body = "".join(mark.svg(place) for mark in self.marks)
        return (
            f'<svg class="plot" style="height: {self.height}px; width: calc(100% - {left + 22}px); '
            f'margin: 20px 22px {below}px {left}px">'
            f"{self._scales(place, left)}{body}</svg>"
        )

    def _scales(self, place: PlotScales, left: int) -> str:
        bottom = self.height
        marks = []
        for value, label in self.x.ticks:
            at = place.across(value)
            if self.x.has_grid:
                marks.append(f'<line class="grid" x1="{at}" x2="{at}" y1="0" y2="{bottom}"/>')
            marks.append(_text(label, f'x="{at}" y="{bottom + 16}" text-anchor="middle"'))
        for value, label in self.y.ticks:
            at = place.down(value)
            if self.y.has_grid:
                marks.append(f'<line class="grid" x1="0" x2="100%" y1="{at}" y2="{at}"/>')
            marks.append(_text(label, f'x="-7" y="{at}" dy=".35em" text-anchor="end"'))
        marks.append(f'<line class="edge" x1="0" x2="100%" y1="{bottom}" y2="{bottom}"/>')
        if self.x.title:
            y = bottom + (35 if self.x.ticks else 18)
            marks.append(_text(self.x.title, f'x="50%" y="{y}" text-anchor="middle"'))
        if self.y.title:
            turned = f'transform="rotate(-90)" x="{-bottom / 2:g}" y="{12 - left}"'
            marks.append(_text(self.y.title, f'{turned} text-anchor="middle"'))
        return "".join(marks)


def symbol(shape: str, radius: float, ink: str) -> str:
    """A shape around the origin."""
    r = _short(radius)
    if shape in ("disc", "ring", "ghost"):
        kind = {"disc": "fill", "ring": "ring", "ghost": "ghost"}[shape]
        return f'<circle class="{kind} {ink}" r="{r}"/>'
    paths = {
        "square": [(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
        "diamond": [(0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)],
        "triangle": [(0, -1.2), (1.15, 0.9), (-1.15, 0.9)],
        "cross": _plus(),
        "x": [((a - b) * 0.71, (a + b) * 0.71) for a, b in _plus()],
        "star": [_turned(k / 10, 1.4 if k % 2 == 0 else 0.6) for k in range(10)],
        "hexagon": [_turned(k / 6, 1.15) for k in range(6)],
    }
    points = " ".join(f"{_short(a * radius)},{_short(b * radius)}" for a, b in paths[shape])
    return f'<polygon class="fill {ink}" points="{points}"/>'


def _plus() -> list[tuple[float, float]]:
    a, b = 0.4, 1.25
    return [(-a, -b), (a, -b), (a, -a), (b, -a), (b, a), (a, a), (a, b), (-a, b), (-a, a), (-b, a),
            (-b, -a), (-a, -a)]  # fmt: skip


def _turned(turn: float, radius: float) -> tuple[float, float]:
    return radius * math.sin(2 * math.pi * turn), -radius * math.cos(2 * math.pi * turn)


def dashes(dash: str, late: float = 0.0) -> str:
    """Attributes of a dashed stroke."""
    if not dash:
        return ""
    return f' stroke-dasharray="{dash}"' + (f' stroke-dashoffset="{-late:g}"' if late else "")


def _text(text: str, attributes: str) -> str:
    return f"<text {attributes}>{html.escape(text)}</text>"


def _title(says: str) -> str:
    return f"<title>{html.escape(says)}</title>" if says else ""


def _short(number: float) -> str:
    """Two digits behind the point are a hundredth of a pixel."""
    return f"{number:.2f}".rstrip("0").rstrip(".") if math.isfinite(number) else "0"

"""What all charts have in common: colours, axes, texts. A figure is plotly's JSON as a dict."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#7a7a7a", "#b3a100")
"""Okabe and Ito's, which colour-blind readers tell apart too; yellow made darker."""
INK, GRID, PALE = "#1f2933", "#e4e7eb", "#cbd2d9"
LIMIT = "#c0392b"
DIVERGING = [[0.0, "#b2182b"], [0.5, "#f7f7f7"], [1.0, "#2166ac"]]
FONT = {"family": "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif", "size": 13}
LONGEST_LABEL = 26

Trace = dict[str, Any]


@dataclass(frozen=True)
class Key:
    """An entry of a legend in HTML, which wraps. shape: box, disc, ring, line or dots."""

    name: str
    colour: str
    shape: str = "box"


@dataclass(frozen=True)
class Figure:
    """A chart. name: of its HTML element. says: one or two sentences above it, in plain words."""

    name: str
    says: str
    data: tuple[Trace, ...]
    layout: dict[str, Any]
    keys: tuple[Key, ...] = ()

    @property
    def height(self) -> int:
        """In CSS pixels."""
        return int(self.layout["height"])


@dataclass(frozen=True)
class Table:
    """The same in numbers. left: how many columns are words, the others are numbers."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: int = 1


@dataclass(frozen=True)
class Section:
    """A heading, what it is about, charts, tables, and text as it is (a scheme, commands)."""

    name: str
    title: str
    says: str
    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = ()
    pre: str = ""


def figure(
    name: str,
    says: str,
    data: Sequence[Trace],
    height: int = 340,
    keys: Sequence[Key] = (),
    **layout: Any,
) -> Figure:
    """A figure in the common style. layout: what differs, as plotly has it."""
    common: dict[str, Any] = {
        "height": height,
        "font": {**FONT, "color": INK},
        "colorway": list(COLOURS),
        "paper_bgcolor": "#ffffff",
        "plot_bgcolor": "#ffffff",
        "margin": {"l": 8, "r": 12, "t": 24, "b": 8},
        "hovermode": "closest",
        "hoverlabel": {"align": "left", "font": {"size": 13}, "namelength": -1},
        "showlegend": False,
        "dragmode": False,
        "separators": ".,",
    }
    return Figure(name, says, tuple(data), {**common, **layout}, tuple(keys))


def axis(title: str = "", **more: Any) -> dict[str, Any]:
    """An axis in the common style."""
    found: dict[str, Any] = {
        "automargin": True,
        "gridcolor": GRID,
        "linecolor": PALE,
        "zerolinecolor": PALE,
        "title": {"text": title, "standoff": 8},
    }
    return {**found, **more}


def line(
    at: float, direction: str, axes: tuple[str, str] = ("x", "y"), dash: str = "dash"
) -> dict[str, Any]:
    """A line across the plot. direction: "h" or "v"; axes: which ones `at` counts on."""
    x, y = axes
    across = {"x0": at, "x1": at, "xref": x, "y0": 0, "y1": 1, "yref": f"{y} domain"}
    if direction == "h":
        across = {"y0": at, "y1": at, "yref": y, "x0": 0, "x1": 1, "xref": f"{x} domain"}
    return {"type": "line", "line": {"color": LIMIT, "width": 1.5, "dash": dash}, **across}


def note(text: str, **place: Any) -> dict[str, Any]:
    """A short text in a chart; it is plain text already."""
    return {"text": text, "showarrow": False, "font": {"color": LIMIT, "size": 12}, **place}


def some_ticks(labels: Sequence[str], most: int = 9) -> list[str]:
    """At most about so many of a category axis' labels, evenly apart, with the last."""
    apart = max(-(-len(labels) // most), 1)
    found = list(labels[:-1:apart])
    if len(found) > 1 and (len(labels) - 1) % apart and (len(labels) - 1) % apart * 2 <= apart:
        found.pop()
    return [*found, *labels[-1:]]


def plain(text: str) -> str:
    """A text that plotly takes for markup, made to show as it is."""
    return html.escape(" ".join(text.split()), quote=False)


def short(text: str, longest: int = LONGEST_LABEL) -> str:
    """The same for a label: of a long name its end, which tells more."""
    flat = " ".join(text.split())
    return plain(flat if len(flat) <= longest else "…" + flat[-longest + 1 :])


def percent(share: float | None, digits: int = 1) -> str:
    """0.8567 as 85.7 %; nothing for None."""
    return "" if share is None else f"{100 * share:.{digits}f} %"


def points(share: float) -> str:
    """A difference of shares as +2.3."""
    return f"{100 * share:+.2f}"


def count(number: float | None) -> str:
    """1234567 as 1,234,567; nothing for None."""
    return "" if number is None else f"{number:,.0f}"

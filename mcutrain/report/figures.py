"""What sections are made of: charts with their words and legends, tables, texts."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from mcutrain_host.dataclass import dataclass

from mcutrain.report.charts import Chart, dashes, symbol

LONGEST_LABEL = 26


@dataclass(frozen=True)
class Key:
    """An entry of a legend. shape: box, none, or a mark's. dash: of its line, if it has one."""

    name: str
    ink: str
    shape: str = "box"
    has_line: bool = False
    dash: str = ""

    @property
    def svg(self) -> str:
        """As the chart has it, small."""
        width = 30 if self.has_line else 12
        middle = width // 2
        line = (
            f'<line class="line {self.ink}" stroke-width="2.5"{dashes(self.dash)} '
            f'x1="0" x2="{width}" y1="6" y2="6"/>'
            if self.has_line
            else ""
        )
        if self.shape == "box":
            mark = f'<rect class="fill {self.ink}" x="1" y="1" width="10" height="10"/>'
        elif self.shape == "none":
            mark = ""
        else:
            mark = f'<g transform="translate({middle} 6)">{symbol(self.shape, 4, self.ink)}</g>'
        return (
            f'<svg class="swatch" width="{width}" height="12" aria-hidden="true">{line}{mark}</svg>'
        )


@dataclass(frozen=True)
class Figure:
    """A chart. name: of its HTML element. says: one or two sentences above it, in plain words.

    is_wide: it takes the whole width where others stand side by side.
    """

    name: str
    says: str
    chart: Chart
    keys: tuple[Key, ...] = ()
    is_wide: bool = False


@dataclass(frozen=True)
class NumberTable:
    """A figure as numbers. left: how many columns are words; the others are numbers."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: int = 1


@dataclass(frozen=True)
class Picture:
    """An image, as an address of data, and what it shows. Without an address only the words."""

    address: str
    says: str


@dataclass(frozen=True)
class Section:
    """A heading, what it is about, charts, tables, and text as it is (a scheme, commands).

    pictures: side by side, below a sentence about all of them.
    """

    name: str
    title: str
    says: str
    figures: tuple[Figure, ...] = ()
    tables: tuple[NumberTable, ...] = ()
    pre: str = ""
    pictures: tuple[Picture, ...] = ()
    pictures_say: str = ""


def alike(values: Sequence[Hashable]) -> list[tuple[int, int, int]]:
    """Return for each value: the index of the first equal one, its number among them, how many."""
    count: dict[Hashable, int] = {}
    places = []
    for value in values:
        count[value] = count.get(value, 0) + 1
        places.append(count[value] - 1)
    first = {value: i for i, value in reversed(list(enumerate(values)))}
    return [(first[v], n, count[v]) for v, n in zip(values, places, strict=True)]


def plain(text: str) -> str:
    """Return the text on one line."""
    return " ".join(text.split())


def short(text: str, longest: int = LONGEST_LABEL) -> str:
    """Return text for a label: of a long name its end, which tells more."""
    flat = plain(text)
    return flat if len(flat) <= longest else "…" + flat[-longest + 1 :]


def lines(texts: Iterable[str]) -> str:
    """Return what a mark says: the lines that have something to say."""
    return "\n".join(text for text in texts if text)


def percent(share: float | None, digits: int = 1) -> str:
    """0.8567 as 85.7 %; nothing for None."""
    return "" if share is None else f"{100 * share:.{digits}f} %"


def points(share: float) -> str:
    """A difference of shares as +2.3."""
    return f"{100 * share:+.2f}"


def count(number: float | None) -> str:
    """1234567 as 1,234,567; nothing for None."""
    return "" if number is None else f"{number:,.0f}"

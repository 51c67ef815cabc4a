"""Reports in headless Chromium, without a network: charts, hover texts, phones, hostile names."""

import itertools
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mcutrain.report.content import Report
from mcutrain.report.html import render, sections_of
from mcutrain.report.json_values import from_values, parse, to_json

DESKTOP, PHONE = (1280, 800), (390, 844)
HOSTILE = "</script><img src=x onerror=alert(1)><a href='javascript:alert(2)'>{{7*7}}${alert(3)}"
KEPT = ("kind", "unit", "format", "measure")
LEGIBLE = 4.5
"""The least contrast of text (Web Content Accessibility Guidelines 2.2, 1.4.3)."""
VISIBLE = 2.0
"""Of areas of a chart: Okabe and Ito's orange on white has 2.2."""


@dataclass
class Opened:
    """A page, and all that went wrong in it."""

    page: Any
    wrong: list[str] = field(default_factory=list)


@contextmanager
def opened(
    chromium: Any, file: Path, size: tuple[int, int], scheme: str = "light"
) -> Iterator[Opened]:
    width, height = size
    context = chromium.new_context(
        viewport={"width": width, "height": height}, offline=True, color_scheme=scheme
    )
    page = context.new_page()
    found = Opened(page)
    page.on("console", lambda message: found.wrong.append(message.text))
    page.on("pageerror", lambda error: found.wrong.append(str(error)))
    page.on("dialog", lambda dialog: found.wrong.append(dialog.message) or dialog.dismiss())
    page.on("request", lambda r: r.url.startswith("file:") or found.wrong.append(r.url))
    page.goto(file.as_uri())
    yield found
    context.close()


def charts_of(report: Report) -> list[str]:
    return [figure.name for section in sections_of(report) for figure in section.figures]


@pytest.fixture(scope="module")
def file(report: Report, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(render(report), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def desktop(chromium: Any, file: Path) -> Iterator[Opened]:
    with opened(chromium, file, DESKTOP) as found:
        yield found


def sizes(page: Any) -> dict[str, tuple[float, float]]:
    """Of each chart, with what is written around its plot."""
    found: dict[str, tuple[float, float]] = page.evaluate(
        "Object.fromEntries([...document.querySelectorAll('.chart')].map(chart => {"
        " const box = chart.getBoundingClientRect();"
        " return [chart.dataset.name, [box.width, box.height]]; }))"
    )
    return found


def test_every_chart_is_drawn_without_a_message(desktop: Opened, report: Report) -> None:
    found = sizes(desktop.page)
    assert set(found) == set(charts_of(report))
    assert {
        "chart-network", "chart-memory", "chart-sram", "chart-flash", "chart-nodes", "chart-bias",
        "chart-weights", "chart-accuracy-epoch", "chart-accuracy-sample", "chart-sweep",
        "chart-selection", "chart-comparison",
    } <= set(found)  # fmt: skip
    assert all(width > 500 and height >= 130 for width, height in found.values()), found
    assert desktop.wrong == []


def test_charts_beside_each_other_end_on_one_line(desktop: Opened) -> None:
    rows = desktop.page.evaluate(
        "[...document.querySelectorAll('.figures')].map(row =>"
        " [...row.querySelectorAll('.chart')].map(chart => {"
        "  const box = chart.getBoundingClientRect(); return [box.top, box.bottom]; }))"
    )
    pairs = [
        (below, other_below)
        for row in rows
        for (top, below), (other_top, other_below) in itertools.pairwise(row)
        if top < other_below and other_top < below
    ]
    assert pairs
    assert all(abs(below - other) < 1 for below, other in pairs)


def test_every_buffer_says_name_size_and_life(desktop: Opened, report: Report) -> None:
    memory = report.memory
    assert memory is not None
    marks = desktop.page.locator("[data-name=chart-memory] rect")
    texts = marks.evaluate_all("marks => marks.map(mark => mark.dataset.says)")
    assert sorted(t.split("\n")[0] for t in texts) == sorted(b.name for b in memory.buffers)
    largest = max(memory.buffers, key=lambda b: b.size_bytes)
    number = next(i for i, t in enumerate(texts) if t.startswith(largest.name + "\n"))
    marks.nth(number).hover()
    shown = desktop.page.locator("#tip").inner_text()
    assert f"{largest.size_bytes:,} bytes" in shown
    assert f"step {largest.first}" in shown
    assert memory.steps[largest.first] in shown
    desktop.page.locator("h1").hover()
    assert not desktop.page.locator("#tip").is_visible()


def test_a_buffer_is_drawn_where_the_plan_has_it(desktop: Opened, report: Report) -> None:
    memory = report.memory
    assert memory is not None
    boxes = desktop.page.evaluate(
        "(() => { const plot = document.querySelector('[data-name=chart-memory] .plot');"
        " const of = plot.getBoundingClientRect();"
        " return [...plot.querySelectorAll('rect')].map(mark => {"
        "  const box = mark.getBBox();"
        "  return [mark.dataset.says.split('\\n')[0], box.x / of.width, box.y / of.height,"
        "   box.width / of.width, box.height / of.height]; }); })()"
    )
    drawn = {name: box for name, *box in boxes}
    steps, top = len(memory.steps), 1.04 * memory.arena_bytes
    for b in memory.buffers:
        upper = 1 - (b.offset + b.size_bytes) / top
        wanted = (b.first / steps, upper, (b.last - b.first + 1) / steps, b.size_bytes / top)
        assert drawn[b.name] == pytest.approx(wanted, abs=2e-4), b.name


@pytest.mark.parametrize("width", [390, 1000, 2200])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_dark_and_wide_where_the_reader_is(
    chromium: Any, file: Path, width: int, scheme: str
) -> None:
    with opened(chromium, file, (width, 900), scheme) as found:
        page = found.page
        assert page.evaluate("document.documentElement.scrollWidth") == width
        backs = [luminance(page, f"{place}", "backgroundColor") for place in ("body", "section")]
        inks = [
            luminance(page, place, "fill" if "plot" in place else "color")
            for place in ("p", "figcaption", ".plot text", "td", "h2")
        ]
        bars = [luminance(page, f".plot rect.{ink}", "fill") for ink in ("c0", "c1", "c2")]
        for back in backs:
            assert all(contrast(back, ink) >= LEGIBLE for ink in inks)
            assert all(contrast(back, bar) >= VISIBLE for bar in bars)
        assert all((back < 0.1) == (scheme == "dark") for back in backs)
        left, right = page.evaluate(
            "(() => { const box = document.querySelector('[data-name=chart-memory] .plot')"
            ".getBoundingClientRect(); return [box.left, box.right]; })()"
        )
        assert right - left > 0.65 * width
        assert found.wrong == []


def luminance(page: Any, place: str, what: str) -> float:
    """Of a colour that a page computes (Web Content Accessibility Guidelines 2.2)."""
    text = page.evaluate(
        "([place, what]) => getComputedStyle(document.querySelector(place))[what]", [place, what]
    )
    parts = [int(part) / 255 for part in re.findall(r"\d+", text)[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return sum(share * c for share, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: float, other: float) -> float:
    light, dark = max(one, other), min(one, other)
    return (light + 0.05) / (dark + 0.05)


@pytest.fixture(scope="module")
def phone(
    chromium: Any, report: Report, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Opened]:
    """The report with hostile names everywhere, which are long, too."""
    values = hostile(parse(to_json(report), "report"))
    file = tmp_path_factory.mktemp("hostile") / "report.html"
    file.write_text(render(from_values(Report, values, "report")), encoding="utf-8")
    with opened(chromium, file, PHONE) as found:
        yield found


def test_a_phone_shows_it_without_scrolling_sideways(phone: Opened) -> None:
    phone.page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert phone.page.evaluate("document.documentElement.scrollWidth") == PHONE[0]
    assert all(200 < width <= PHONE[0] for width, _ in sizes(phone.page).values())


def test_names_of_a_model_cannot_become_markup(phone: Opened) -> None:
    page = phone.page
    assert page.evaluate("document.images.length") == 0
    assert page.evaluate("document.scripts.length") == 1
    assert page.locator("main a").count() == 0
    assert page.locator("h1").inner_text().endswith(HOSTILE)
    assert phone.wrong == []


def hostile(value: Any, key: str = "") -> Any:
    """The same values with a hostile end on every text."""
    if isinstance(value, dict):
        return {k: v if k in KEPT else hostile(v, k) for k, v in value.items()}
    if isinstance(value, list):
        return [hostile(v, key) for v in value]
    return value + HOSTILE if isinstance(value, str) else value


def test_without_javascript_charts_and_numbers_are_there(chromium: Any, file: Path) -> None:
    context = chromium.new_context(java_script_enabled=False, offline=True)
    page = context.new_page()
    page.goto(file.as_uri())
    text = page.locator("main").text_content()
    assert "block8/depthwise/dx" in text
    assert page.locator("svg.plot").first.is_visible()
    context.close()

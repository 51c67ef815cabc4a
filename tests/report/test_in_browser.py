"""Reports in headless Chromium, without a network: charts, hover texts, phones, hostile names."""

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
DRAWN = "document.querySelectorAll('.js-plotly-plot').length == {}"


@dataclass
class Opened:
    """A page, and all that went wrong in it."""

    page: Any
    wrong: list[str] = field(default_factory=list)


@contextmanager
def opened(chromium: Any, file: Path, size: tuple[int, int]) -> Iterator[Opened]:
    width, height = size
    context = chromium.new_context(viewport={"width": width, "height": height}, offline=True)
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
def desktop(chromium: Any, file: Path, report: Report) -> Iterator[Opened]:
    with opened(chromium, file, DESKTOP) as found:
        found.page.wait_for_function(DRAWN.format(len(charts_of(report))))
        yield found


def sizes(page: Any) -> dict[str, tuple[float, float]]:
    """Of the drawing in each chart."""
    found: dict[str, tuple[float, float]] = page.evaluate(
        "Object.fromEntries([...document.querySelectorAll('.js-plotly-plot')].map(chart => {"
        " const box = chart.querySelector('svg.main-svg').getBoundingClientRect();"
        " return [chart.id, [box.width, box.height]]; }))"
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


def test_every_buffer_says_name_size_and_life(desktop: Opened, report: Report) -> None:
    memory = report.memory
    assert memory is not None
    texts = desktop.page.evaluate(
        "document.getElementById('chart-memory').data.flatMap(trace => trace.customdata)"
    )
    assert sorted(t[0] for t in texts) == sorted(b.name for b in memory.buffers)
    largest = max(memory.buffers, key=lambda b: b.size_bytes)
    shown = desktop.page.evaluate(
        """name => {
            const chart = document.getElementById('chart-memory');
            const trace = chart.data.findIndex(t => t.customdata.some(c => c[0] == name));
            const point = chart.data[trace].customdata.findIndex(c => c[0] == name);
            Plotly.Fx.hover(chart, [{curveNumber: trace, pointNumber: point}]);
            return chart.querySelector('.hoverlayer').textContent;
        }""",
        largest.name,
    )
    assert f"{largest.size_bytes:,} bytes" in shown
    assert f"step {largest.first}" in shown
    assert memory.steps[largest.first] in shown


@pytest.fixture(scope="module")
def phone(
    chromium: Any, report: Report, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Opened]:
    """The report with hostile names everywhere, which are long, too."""
    values = hostile(parse(to_json(report), "report"))
    file = tmp_path_factory.mktemp("hostile") / "report.html"
    file.write_text(render(from_values(Report, values, "report")), encoding="utf-8")
    with opened(chromium, file, PHONE) as found:
        found.page.wait_for_function(DRAWN.format(len(charts_of(report))))
        yield found


def test_a_phone_shows_it_without_scrolling_sideways(phone: Opened) -> None:
    phone.page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert phone.page.evaluate("document.documentElement.scrollWidth") == PHONE[0]
    assert all(200 < width <= PHONE[0] for width, _ in sizes(phone.page).values())


def test_names_of_a_model_cannot_become_markup(phone: Opened) -> None:
    page = phone.page
    assert page.evaluate("document.images.length") == 0
    assert page.evaluate("document.scripts.length") == 3
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


def test_without_javascript_the_numbers_are_there(chromium: Any, file: Path) -> None:
    context = chromium.new_context(java_script_enabled=False, offline=True)
    page = context.new_page()
    page.goto(file.as_uri())
    text = page.locator("main").text_content()
    assert "block8/expand/weight2" in text
    assert page.locator("noscript").count() > 0
    assert not page.locator(".chart").first.is_visible()
    context.close()

"""Results in a notebook: the sections that a report has of them, without its page."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import jinja2

from mcutrain.report.charts import style
from mcutrain.report.collect import collect, curve_of
from mcutrain.report.content import Report
from mcutrain.report.figures import NumberTable, Section
from mcutrain.report.folder import analysis_of, chosen_of
from mcutrain.report.html import templates
from mcutrain.report.memory_sections import fronts, timeline, usage
from mcutrain.report.network_sections import analysis, network
from mcutrain.report.selection_sections import selection
from mcutrain.report.training_sections import comparison, curves
from mcutrain.shown import Shown

MOST_ROWS = 200
"""Most rows of a table that has no section of its own."""
STYLE = """
.mct figure { margin: .5em 0 } .mct figcaption { opacity: .75 }
.mct .keys { list-style: none; display: flex; flex-wrap: wrap; gap: .1em 1em; margin: .3em 0; padding: 0 }
.mct .figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 30em), 1fr)); gap: 0 2em; align-items: end }
.mct .wide { grid-column: 1 / -1 } .mct .scroll { max-height: 24em; overflow: auto }
.mct th, .mct td { text-align: right; padding: .15em .6em; white-space: nowrap } .mct .word { text-align: left }
"""  # noqa: E501  # a rule of CSS per line
TEMPLATE = """\
{% from "report_section.html.j2" import body %}
<div class="mct"><style>{{ charts|safe }}{{ style|safe }}</style>
<p><b>{{ kind }}</b> {{ summary }}</p>
{% for section in sections %}
<p>{{ section.says }}</p>
{{ body(section) }}
{% endfor %}
</div>
"""


def html_of(result: Shown) -> str:
    """A fragment that needs no script and nothing from elsewhere."""
    draw = SECTIONS.get(type(result).__name__, lambda found: [_table(found)])
    environment: jinja2.Environment = templates()
    return environment.from_string(TEMPLATE).render(
        charts=style(),
        style=STYLE,
        kind=type(result).__name__,
        summary=result.summary(),
        sections=draw(result),
    )


def _table(result: Shown) -> Section:
    records = result.records()
    columns = tuple(records[0]) if records else ()
    rows = tuple(tuple(_cell(row[c]) for c in columns) for row in records[:MOST_ROWS])
    title = f"{len(records)} rows" if len(records) <= MOST_ROWS else f"The first {MOST_ROWS} rows"
    words = next((i for i, c in enumerate(columns) if not isinstance(records[0][c], str)), 1)
    return Section("", "", "", (), (NumberTable(title, columns, rows, words),) if records else ())


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _step(step: Any) -> list[Section]:
    found = collect(step)
    return [network(found.network), *_memory(found)]


def _planned(planned: Any) -> list[Section]:
    found = collect(planned.step, planned.board)
    sections = [usage(found.usage)] if found.usage is not None else []
    return [*sections, *_memory(found)]


def _memory(found: Report) -> list[Section]:
    memory = [timeline(found.memory)] if found.memory is not None else []
    return [*memory, fronts(found.fronts)] if found.fronts else memory


SECTIONS: dict[str, Callable[[Any], list[Section]]] = {
    "TrainingStep": _step,
    "Planned": _planned,
    "SimulationResult": lambda result: [curves([curve_of("run", result)])],
    "Contributions": lambda found: [analysis(analysis_of(json.loads(found.to_json())))],
    "Selection": lambda found: [selection(chosen_of(json.loads(json.dumps(found.to_dict()))))],
    "Comparison": lambda found: [comparison(found.rows), curves(found.curves)],
}
"""Sections by the name of a result's class; other results are shown as their table."""

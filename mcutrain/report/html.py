"""A report as one HTML file that needs nothing but a browser: no network, no other file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jinja2
import mcutrain_templates
from mcutrain_host.dataclass import dataclass

from mcutrain.report import (
    answers,
    elastic_sections,
    instruction_sections,
    memory_sections,
    network_sections,
    selection_sections,
    training_sections,
)
from mcutrain.report.charts import style
from mcutrain.report.content import Report
from mcutrain.report.figures import Section, count, percent

TEMPLATE = "report.html.j2"


@dataclass(frozen=True)
class Fact:
    """One of the few numbers at the top."""

    title: str
    value: str
    remark: str = ""


def render(report: Report) -> str:
    """The HTML."""
    sections = tuple(sections_of(report))
    values = {
        "report": report,
        "facts": _facts(report),
        "sections": sections,
        "charts": style(),
        "has_charts": any(section.figures for section in sections),
    }
    return templates().get_template(TEMPLATE).render(values)


def templates() -> jinja2.Environment:
    """Return what reads the templates of reports."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(mcutrain_templates.__file__).parent),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def sections_of(report: Report) -> Iterator[Section]:
    """Only what there is something to say about."""
    for part, section in (
        (report.curves, training_sections.curves),
        (report.answers, answers.section),
        (report.predictions, answers.predictions),
        (report.choices, elastic_sections.choices),
        (report.selection, selection_sections.selection),
        (report.sweep, selection_sections.sweep),
        (report.comparison, training_sections.comparison),
        (report.network, network_sections.network),
        (report.analysis, network_sections.analysis),
        (report.usage, memory_sections.usage),
        (report.memory, memory_sections.timeline),
        (report.fronts, memory_sections.fronts),
        (report.instructions, instruction_sections.instructions),
        (report.profile, elastic_sections.profile),
    ):
        if part:
            draw: Callable[[Any], Section] = section
            yield draw(part)
    if report.scheme_toml:
        says = "What is trained: as a file, it can be given to --scheme."
        yield Section("scheme", "The scheme", says, pre=report.scheme_toml)
    if report.commands:
        says = "What was typed to make this."
        yield Section("commands", "Commands", says, pre="\n".join(report.commands))


def _facts(report: Report) -> list[Fact]:
    facts = []
    last = [c for c in report.curves if any(p.test_accuracy is not None for p in c.points)]
    if last:
        best = max(last, key=_final)
        facts.append(Fact("accuracy", percent(_final(best)), best.name))
    else:
        facts += _measures(report)
    usage = report.usage
    if usage is not None:
        of = f"of {count(usage.sram_limit)} bytes" if usage.sram_limit else "bytes"
        facts.append(Fact("SRAM", count(usage.sram_bytes), of))
        if usage.flash:
            of = f"of {count(usage.flash_limit)} bytes" if usage.flash_limit else "bytes"
            facts.append(
                Fact(
                    "flash", count(usage.flash_bytes), of if usage.counts_code else f"{of}, no code"
                )
            )
    if report.instructions is not None:
        measured = report.instructions.measured
        facts.append(
            Fact(
                "instructions per step",
                count(measured or report.instructions.total),
                "counted" if measured else "estimated",
            )
        )
    return facts


def _measures(report: Report) -> Iterator[Fact]:
    """Return what tests said last where there are no classes."""
    for measure in (*training_sections.CHARTED, "r2"):
        values = [(training_sections.last_of(c, measure), c.name) for c in report.curves]
        known = [(value, name) for value, name in values if value is not None]
        if known:
            value, name = (min if measure == "mae" else max)(known)
            title, said = training_sections.MEASURED[measure]
            yield Fact(title, said(value), name)


def _final(curve: Any) -> float:
    return next(
        (p.test_accuracy for p in reversed(curve.points) if p.test_accuracy is not None), 0.0
    )

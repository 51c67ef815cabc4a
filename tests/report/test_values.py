"""report.json: what was written is read, anything else is refused with a sentence."""

import math
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcutrain.errors import ReportError
from mcutrain.report.content import ArenaBuffer, ArenaMap, NetworkNode, Report
from mcutrain.report.html import render, sections_of
from mcutrain.report.json_values import from_json, from_values, parse, to_json
from mcutrain.report.learning import Compared, LearningCurve, Point, interval_of, spread_of
from mcutrain.report.training_sections import accuracy_text, comparison
from tests.report.conftest import full_report

PLACES = ("x", "y", "x1", "x2", "y1", "y2", "width", "height", "opacity", "r")
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 300)
    | st.integers()
    | st.floats()
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=4,
)


def test_a_report_is_read_as_it_was_written(report: Report) -> None:
    text = to_json(report)
    again = from_json(Report, text, "report.json")
    assert again == report
    assert from_json(Report, to_json(again), "report.json") == report


def test_only_what_is_known_gets_a_section(report: Report) -> None:
    names = [s.name for s in sections_of(report)]
    assert names == [
        *("accuracy", "choices", "selection", "sweep", "comparison", "network", "contributions"),
        *("usage", "memory", "fronts", "instructions", "profile", "scheme", "commands"),
    ]
    assert [s.name for s in sections_of(Report("m"))] == []
    assert "<script" not in render(Report("m"))


@pytest.mark.slow
@settings(max_examples=80, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_a_changed_report_is_drawn_or_refused_with_a_sentence(data: st.DataObject) -> None:
    values = parse(to_json(full_report()), "report.json")
    place, key = _somewhere(data, values)
    place[key] = data.draw(VALUES)
    try:
        changed = from_values(Report, values, "report.json")
    except ReportError:
        return
    page = render(changed)
    assert len(page) < 1_500_000
    for section in sections_of(changed):
        for figure in section.figures:
            for element in ElementTree.fromstring(figure.chart.svg()).iter():
                sizes = [v for k, v in element.attrib.items() if k in PLACES]
                assert all(math.isfinite(float(size.removesuffix("%"))) for size in sizes)


def _somewhere(data: st.DataObject, values: Any) -> tuple[Any, Any]:
    """A table or list within the values, and a key of it."""
    while True:
        keys = sorted(values) if isinstance(values, dict) else range(len(values))
        key = data.draw(st.sampled_from(keys))
        inner = values[key]
        if not isinstance(inner, dict | list) or not inner or data.draw(st.integers(0, 3)) == 0:
            return values, key
        values = inner


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "report.json is no JSON"),
        ("[" * 100_000, "report.json is no JSON"),
        ('{"model": NaN}', "NaN is no number"),
        ('{"model": "\\ud800"}', "report.json is no JSON"),
        ("[]", "report.json is [], not a table"),
        ("{}", "report.json: .*model"),
        ('{"model": 1}', "report.json.model is 1, not a text"),
        ('{"model": "m", "colour": 1}', "unknown key 'colour'"),
        ('{"model": "m", "classes": 1.5}', "report.json.classes is 1.5, not an integer"),
        ('{"model": "m", "classes": -1}', "classes is -1, below 0"),
        ('{"model": "m", "format": 2}', "format is 2; this mcutrain reads 1"),
        ('{"model": "m", "commands": [1]}', r"commands\[0\] is 1, not a text"),
        ('{"model": "m", "curves": [{"name": "c", "points": [{"at": 1e999}]}]}', "no finite"),
    ],
)
def test_what_is_no_report_is_refused(text: str, says: str) -> None:
    import re

    pattern = says if ".*" in says or "\\" in says else re.escape(says)
    with pytest.raises(ReportError, match=pattern):
        from_json(Report, text, "report.json")


@pytest.mark.parametrize(
    "make",
    [
        lambda: NetworkNode("n", "Conv2D", (), share=1.5),
        lambda: ArenaBuffer("b", "activation", 4, 3, 2, 0),
        lambda: ArenaBuffer("b", "unheard of", 4, 2, 3, 0),
        lambda: ArenaMap(8, 8, 0, ("a",), (ArenaBuffer("b", "mask", 4, 0, 1, 0),)),
        lambda: ArenaMap(8, 8, 1, ("a",), ()),
        lambda: LearningCurve("c", (Point(2), Point(1))),
        lambda: LearningCurve("c", (), unit="week"),
        lambda: Compared("n", "s", (), -1, 0, 0, 0),
    ],
)
def test_values_that_contradict_themselves_cannot_be_made(make: Any) -> None:
    with pytest.raises(ValueError, match=r" is | are | lives "):
        make()


def test_a_comparison_has_mean_spread_and_verdict() -> None:
    row = Compared("n", "s", (0.5, 0.7), 100, 50, 50, 10, sram_limit=100)
    assert (row.accuracy, row.fits) == (0.6, True)
    assert row.spread == pytest.approx(0.1 * 2**0.5)
    assert replace(row, accuracies=(0.5,)).spread is None
    assert replace(row, sram_limit=99).fits is False
    assert replace(row, sram_limit=None).fits is None


def test_the_interval_of_few_is_wider_than_their_spread() -> None:
    values = (0.5, 0.7, 0.6, 0.9, 0.8)
    spread = spread_of(values)
    assert spread is not None
    for count, quantile in ((2, 12.7062), (3, 4.3027), (5, 2.7764)):  # Student's t, 97.5 %
        some = values[:count]
        expected = quantile * (spread_of(some) or 0) / count**0.5
        assert interval_of(some) == pytest.approx(expected, rel=1e-4)
    assert interval_of((0.5,)) is None
    row = Compared("n", "s", values, 100, 50, 50, 10)
    assert accuracy_text(row) == "70.0 ± 15.8 %"
    few = replace(row, ways=5, shots=1)
    assert accuracy_text(few) == "70.0 ± 19.6 %"
    assert "mean of 5 seeds." in comparison([row]).says
    said = comparison([few]).says
    assert "mean of 5 episodes, each of 5 classes and 1 training sample of each." in said

"""Charts: round numbers on axes, marks where their values are, equal lines told apart."""

import math
import re
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcutrain.report.charts import Chart, Line, Mark, names, numbers, si
from mcutrain.report.html import render
from mcutrain.report.learning import LearningCurve, Point
from mcutrain.report.training_sections import comparison, curves
from tests.report.conftest import full_report

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
HEAD = LearningCurve("head", (Point(0, 0.1), Point(1, 0.6, 0.5, 1.2), Point(2, 0.7, 0.65, 0.9)))
FULL = LearningCurve("full", (Point(0, 0.1), Point(1, 0.7, 0.6, 1.0), Point(2, 0.8, 0.75, 0.6)))


@given(st.lists(NUMBERS, max_size=5))
@example([5e-324])
@example([1e-290, 1.5e-290])
def test_an_axis_holds_its_values_between_round_numbers(values: list[float]) -> None:
    axis = numbers("", values)
    assert -math.inf < axis.low < axis.high < math.inf
    assert 2 <= len(axis.ticks) <= 10
    for value in values:
        assert -1e-6 <= axis.share(value) <= 1 + 1e-6
    for value, _ in axis.ticks:
        assert -1e-6 <= axis.share(value) <= 1 + 1e-6


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ((0, 2), ["0", "1", "2"]),
        ((0, 1), ["0", "1"]),
        ((0, 28), ["0", "5", "10", "15", "20", "25"]),
        ((0, 131_072), ["0", "20k", "40k", "60k", "80k", "100k", "120k"]),
    ],
)
def test_counts_are_whole_and_end_with_the_last(values: tuple[int, ...], labels: list[str]) -> None:
    axis = numbers("", values, text=si, is_count=True)
    assert [label for _, label in axis.ticks] == labels
    assert (axis.low, axis.high) == values


def test_a_few_of_many_names_are_written_with_the_last() -> None:
    axis = names("", [*map(str, range(25)), "head"])
    assert [label for _, label in axis.ticks] == [*map(str, range(0, 24, 3)), "head"]
    assert axis.ticks[-1] == (25.0, "head")
    assert [label for _, label in names("", ["only"]).ticks] == ["only"]


def test_a_mark_lies_where_its_values_are() -> None:
    x, y = numbers("", (0, 10)), numbers("", (0, 4))
    svg = Chart(x, y, (Mark(2.5, 1, "c0", "a < b\n& c"),), 200).svg()
    assert '<svg class="mark" x="25%" y="150">' in svg
    assert "<title>a &lt; b\n&amp; c</title>" in svg


def test_stairs_are_level_before_they_rise() -> None:
    x, y = numbers("", (0, 10)), numbers("", (0, 10))
    svg = Chart(x, y, (Line(((0, 0), (5, 10)), "c0", has_stairs=True),), 100).svg()
    assert 'points="0,100 500,100 500,0"' in svg


def test_equal_lines_take_turns_in_dashes_and_say_whose_equal_they_are() -> None:
    found = curves([HEAD, replace(HEAD, name="selected"), FULL]).figures[0]
    assert [key.name for key in found.keys] == [
        "head, test",
        "head, training",
        "selected, test (same as head, test)",
        "selected, training (same as head, training)",
        "full, test",
        "full, training",
    ]
    assert found.says.endswith("and the legend says so.")
    low = found.chart.y.low
    assert (f"the axis begins at {low:g} %, not at 0." in found.says) == (low > 0)
    above = tuple(replace(p, test_accuracy=0.9, train_accuracy=0.95) for p in HEAD.points)
    assert "the axis begins at 9" in curves([replace(HEAD, points=above)]).figures[0].says
    lines = [mark for mark in found.chart.marks if isinstance(mark, Line)]
    assert [(line.dash, line.late) for line in lines] == [
        ("10 10", 0),
        ("3 9", 0),
        ("10 10", 10),
        ("3 9", 6),
        ("", 0),
        ("3 3", 0),
    ]
    marks = [mark for mark in found.chart.marks if isinstance(mark, Mark)]
    last = [mark for mark in marks if (mark.x, mark.y) == (2, 70)]
    assert [mark.radius for mark in last] == [5.8, 4]  # each is seen
    assert {mark.says for mark in last} == {"head, test\nselected, test\nepoch 2: 70.0 %"}


def test_lines_that_differ_are_solid_and_no_one_says_same() -> None:
    found = curves([HEAD, FULL]).figures[0]
    assert not any("same as" in key.name for key in found.keys)
    assert "equal" not in found.says
    dashes = {mark.dash for mark in found.chart.marks if isinstance(mark, Line)}
    assert dashes == {"", "3 3"}


def test_equal_schemes_of_a_comparison_are_told_apart() -> None:
    rows = full_report().comparison
    found = comparison([*rows, replace(rows[0], name="selected")]).figures[0]
    assert [key.name for key in found.keys] == ["head only", "full", "selected (same as head only)"]
    marks = [mark for mark in found.chart.marks if isinstance(mark, Mark)]
    assert marks[2].radius < marks[0].radius
    assert marks[2].shape != marks[0].shape


def test_a_report_with_every_part_is_small() -> None:
    page = render(full_report())
    assert len(page.encode()) < 300_000
    assert not re.search(r"https?://(?!www\.w3\.org)", page)

"""What sections say of values that are known: tables, places of bars, labels."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mcutrain.autodiff import Levels
from mcutrain.cost.instructions import USUAL_ISA
from mcutrain.cost.ladder import front_costs
from mcutrain.memplan import plan_with_ladder
from mcutrain.report.charts import INKS, Line, Mark, PlotScales, numbers
from mcutrain.report.checks import is_index
from mcutrain.report.collect import fronts_of, planned_flash
from mcutrain.report.content import ArenaBuffer, ArenaMap, Report
from mcutrain.report.figures import count, short
from mcutrain.report.html import render
from mcutrain.report.learning import Compared, LearningCurve, Point, SweepPoint
from mcutrain.report.memory_sections import fronts, stacked, timeline
from mcutrain.report.selection_sections import selection, sweep
from mcutrain.report.training_sections import comparison, curves
from tests.proxies import ladders
from tests.report import conftest as values

ROW_BY_ROW = ("rows of activations", "buffers")
"""What is kept of them; how far each has come."""


def test_parts_in_a_row_begin_where_the_one_before_ends() -> None:
    bars = stacked([("arena", 30), ("state", 12), ("stack", 5)])
    assert [bar.x for bar in bars] == [(0, 30), (30, 42), (42, 47)]
    assert bars[1].says == "state\n12 bytes"


def test_what_ends_or_begins_at_the_peak_is_alive_at_it() -> None:
    buffers = (
        ArenaBuffer("before", "activation", 8, 0, 0, 0),
        ArenaBuffer("ends", "activation", 8, 0, 1, 8),
        ArenaBuffer("begins", "mask", 16, 1, 2, 16),
        ArenaBuffer("behind", "scratch", 8, 2, 2, 0),
    )
    section = timeline(ArenaMap(32, 24, 1, ("a", "b", "c"), buffers))
    at_peak, every = section.tables
    assert [row[0] for row in at_peak.rows] == ["begins", "ends"]
    assert [row[0] for row in every.rows] == ["before", "ends", "begins", "behind"]
    assert "this one is 8 larger." in section.says


def test_a_published_scheme_is_not_said_to_be_chosen_by_its_gains() -> None:
    chosen = values.selection(tuple(map(str, range(25))))
    given = replace(chosen, published="p", optimal=False, bound=0.2, binding="", next=None)
    said = selection(given).says
    assert "+10.00 points of accuracy" in said
    assert "no scheme that fits can gain more than +20.00 points" in said
    assert said.endswith("it was published as p, and was the best of the finalists when trained.")
    assert "What keeps the gain" in selection(chosen).says


def test_fronts_are_shown_with_what_the_planner_says_of_each() -> None:
    step = ladders.step()
    whole, _ = ladders.front_of(step)
    given = replace(step.plan.training, levels=Levels(3, ""))
    plan = plan_with_ladder(given, ladders.ladder(whole))
    assert plan.ladder is not None
    table, *buffers = fronts(fronts_of(plan)).tables
    costs, arenas = front_costs(plan), [f.arena.arena_bytes for f in plan.ladder.fronts]
    sizes = [[c.macs, c.instructions, c.flash_bytes] for c in costs]
    for row, size in zip((sizes[0], *sizes[2:]), arenas, strict=True):
        row.append(size)
    assert [row[0] for row in table.rows] == ["policy", "level 0", "level 1", "level 2"]
    assert [[count(n) for n in row] for row in sizes] == [
        [cell for cell in row[1:] if cell] for row in table.rows
    ]
    for shown, front in zip(buffers, plan.ladder.fronts, strict=True):
        assert {row[0]: row[2:] for row in shown.rows} == {
            b.name: tuple(map(count, (b.size_bytes, front.arena.offsets[b.name], b.first, b.last)))
            for b in front.arena.buffers
        }
        assert {row[1] for row in shown.rows} <= {"activations", "scratch", *ROW_BY_ROW}
    own = {part.name: part.size_bytes for part in planned_flash(plan, USUAL_ISA)}
    more = sum(cost.flash_bytes for cost in (costs[0], *costs[2:]))
    assert own["fronts of the proxy cascade"] == more
    plain = {part.name: part.size_bytes for part in planned_flash(step.plan, USUAL_ISA)}
    assert plain == {
        name: size for name, size in own.items() if name != "fronts of the proxy cascade"
    }


def test_budgets_are_in_order() -> None:
    given = [SweepPoint(size, size - 8, "accuracy", size / 1000) for size in (300, 100, 200)]
    (table,) = sweep(given).tables
    assert [row[0] for row in table.rows] == ["100", "200", "300"]


def test_only_what_was_measured_before_training_is_called_so() -> None:
    begun = LearningCurve("begun", (Point(0, 0.1), Point(1, 0.6)))
    late = LearningCurve("late", (Point(1, 0.5), Point(2, 0.6)))
    (table,) = curves([begun, late]).tables
    assert [row[3:5] for row in table.rows] == [("10.0 %", "60.0 %"), ("", "60.0 %")]


def test_what_learns_real_targets_is_shown_by_its_error() -> None:
    points = [Point(i, loss=9.0 - i, measures={"mae": 4.0 - i, "r2": i - 1}) for i in range(3)]
    worse = LearningCurve("worse", (Point(2, measures={"mae": 3.5, "r2": -2.0}),))
    found = LearningCurve("on a board", tuple(points))
    drawn = curves([found, worse])
    assert drawn.title == "MAE while training"
    assert [figure.name for figure in drawn.figures] == ["chart-mae-epoch", "chart-loss-epoch"]
    assert drawn.figures[0].chart.marks[0] == Line(((0, 4), (1, 3), (2, 2)), INKS[0])
    assert "nats" not in drawn.figures[1].says + drawn.figures[1].chart.y.title
    (table,) = drawn.tables
    assert table.columns[3:] == ("MAE before", "MAE after", "R² before", "R² after", "loss")
    assert [row[3:] for row in table.rows] == [
        ("4", "2", "-1.000", "1.000", "7.000"), ("", "3.5", "", "-2.000", ""),
    ]  # fmt: skip
    page = render(Report("m", curves=(worse, found)))
    facts = [page.index(said) for said in (">2<", ">1.000<")]
    assert facts == sorted(facts)
    assert "Accuracy" not in page


def test_an_accuracy_stands_before_what_else_a_test_says() -> None:
    tested = {"f1": 0.25, "auc": 0.5}
    drawn = curves([LearningCurve("c", tuple(Point(i, 0.5, measures=tested) for i in range(2)))])
    assert drawn.title == "Accuracy while training"
    assert [figure.name for figure in drawn.figures] == ["chart-accuracy-epoch"]
    assert drawn.tables[0].columns[3:8] == (
        *("before", "after", "while training"), *("F1 before", "F1 after")
    )  # fmt: skip


def test_schemes_are_compared_in_the_unit_of_their_measure() -> None:
    row = Compared("a", "head", (0.5, 0.25), *[8] * 4, measure="R²")
    drawn = comparison([row, replace(row, name="b", accuracies=(-0.5, -0.25))])
    assert "a is best with R² 0.3750" in drawn.says
    (figure,) = drawn.figures
    assert figure.chart.y.title == "R²"
    assert [m.y for m in figure.chart.marks] == [0.375, -0.375]
    assert "%" not in figure.says


def test_of_a_long_name_the_end_is_shown() -> None:
    assert short("block8/expand/weight", 12) == "…pand/weight"
    assert short("block8\n  expand", 13) == "block8 expand"
    assert len(short("x" * 100, 12)) == 12


def test_a_spread_reaches_as_far_to_both_sides() -> None:
    place = PlotScales(numbers("", (0, 10)), numbers("", (0, 4)), 200)
    assert 'y1="175" y2="125"' in Mark(5, 1, "c0", spread=0.5).svg(place)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0", True), ("4", True), ("5", False), ("-1", False), ("1.0", False), ("²", False)],
)
def test_an_index_is_a_number_below_the_count(text: str, expected: bool) -> None:
    assert is_index(text, 5) == expected

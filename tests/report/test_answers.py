"""Which classes are confused: counts against a plain loop, the surest mistakes, a page."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcutrain.data import Dataset
from mcutrain.report.answers import (
    MOST_MISTAKES,
    MOST_POINTS,
    MOST_TARGETS,
    Answers,
    Mistake,
    answers_of,
    predictions,
    predictions_of,
    section,
)
from mcutrain.report.content import Report
from mcutrain.report.html import render
from mcutrain.report.json_values import from_json, to_json

CLASSES = ("cat", "dog", "<b>cow</b>")


@given(st.lists(st.tuples(*[st.integers(0, 2)] * 2, st.integers(0, 255)), min_size=1, max_size=40))
def test_answers_are_counted_and_the_surest_mistakes_come_first(
    samples: list[tuple[int, int, int]],
) -> None:
    labels, said, lead = (np.array(column, np.int64) for column in zip(*samples, strict=True))
    x = np.arange(len(samples), dtype=np.uint8).repeat(4).reshape(-1, 2, 2, 1)
    found = answers_of(Dataset(x, labels, CLASSES), said, lead, x)
    pairs = Counter(zip(labels.tolist(), said.tolist(), strict=True))
    assert {
        (i, j): n for i, row in enumerate(found.counts) for j, n in enumerate(row) if n
    } == pairs
    wrong = sorted((-s[2], i) for i, s in enumerate(samples) if s[0] != s[1])
    assert [m.sample for m in found.mistakes] == [i for _, i in wrong[:MOST_MISTAKES]]
    assert all((m.label, m.said) == samples[m.sample][:2] for m in found.mistakes)
    assert from_json(Answers, to_json(found), "answers") == found


def test_a_page_says_what_is_confused_most_and_shows_the_mistakes() -> None:
    x = np.zeros((5, 2, 2, 1), np.uint8)
    labels, said = np.array([0, 0, 1, 2, 2]), np.array([0, 1, 1, 0, 0])
    answers = answers_of(Dataset(x, labels, CLASSES), said, np.abs(labels - said), x)
    found = section(answers)
    assert found.says.startswith("2 of 5 ")
    assert "<b>cow</b> taken for cat, 2 of 2" in found.says
    assert [row[2:] for row in found.tables[0].rows] == [
        ("2", "1", "50.0 %", "33.3 %"), ("1", "1", "100.0 %", "50.0 %"), ("2", "0", "0.0 %", ""),
    ]  # fmt: skip
    page = render(Report("m", answers=answers))
    assert page.count('<img src="data:image/png;base64,') == 3
    assert "<b>cow" not in page


def test_a_network_without_mistakes_has_no_pictures() -> None:
    x, labels = np.zeros((2, 3), np.float32), np.array([0, 1])
    answers = answers_of(Dataset(x, labels, CLASSES[:2]), labels, 0 * labels, x)
    assert answers.mistakes == ()
    assert "None is taken for another" in section(answers).says
    for classes, rows in (
        (("0", "1"), ["1", "0"]),
        (CLASSES[:2], [f"{CLASSES[1]} 1", f"{CLASSES[0]} 0"]),
    ):
        found = section(answers_of(Dataset(x, labels, classes), labels, 0 * labels, x)).figures[0]
        assert [text for _, text in found.chart.y.ticks] == rows, "a number is not said twice"


@pytest.mark.parametrize(
    "values",
    [(CLASSES, ((1, 0),) * 3), (CLASSES[:1], ()), (CLASSES[:1], ((1,),), (Mistake(0, 0, 1),))],
)
def test_answers_that_contradict_themselves_are_refused(values: tuple[object, ...]) -> None:
    with pytest.raises(ValueError, match="class"):
        Answers(*values)  # type: ignore[arg-type]


def test_predictions_are_drawn_over_true_values() -> None:
    random = np.random.default_rng(0)
    wanted = random.normal(50, 9, (MOST_POINTS * 2 + 1, MOST_TARGETS + 1))
    wanted[:, 1] = 3
    found = wanted + random.normal(0, 3, wanted.shape)
    made = predictions_of([f"<b>{i}" for i in range(MOST_TARGETS + 1)], wanted, found)
    assert made[0].wanted == tuple(wanted[::3, 0].tolist())
    assert made[0].found == tuple(found[::3, 0].tolist())
    drawn = predictions(made)
    assert len(drawn.figures) == MOST_TARGETS
    assert "of 801 samples" in drawn.figures[0].says
    errors = found - wanted
    r2 = 1 - (errors**2).mean(axis=0)[0] / wanted[:, 0].var()
    mae = np.abs(errors).mean(axis=0)
    assert drawn.tables[0].rows[0] == ("<b>0", "801", f"{mae[0]:.4g}", f"{r2:.3f}")
    assert drawn.tables[0].rows[1][3] == "", "no share of a variance that is none"
    report = Report("m", predictions=made)
    assert from_json(Report, to_json(report), "report") == report
    page = render(report)
    assert "Predicted and true values" in page
    assert "<b>0" not in page
    with pytest.raises(ValueError, match="a prediction for each"):
        replace(made[0], found=())

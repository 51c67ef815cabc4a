"""The arena as text."""

from __future__ import annotations

import pytest

from mcutrain.memplan import Buffer, MemoryPlan, picture, solve

TINY = MemoryPlan(
    (Buffer("x", 16, 0, 1), Buffer("conv.y", 32, 1, 2), Buffer("mask", 8, 1, 3)),
    {"x": 32, "conv.y": 0, "mask": 48},
    64,
    4,
)

TINY_PICTURE = """\
56 |............
48 |...CCCCCCCCC
40 |BBBBBB......
32 |BBBBBB......
24 |...AAAAAA...
16 |...AAAAAA...
 8 |...AAAAAA...
 0 |...AAAAAA...
       ^^^
    0          3
A conv.y  32 B  steps 1-2
B x       16 B  steps 0-1
C mask     8 B  steps 1-3
arena 64 B, lower bound 56 B at step 1 (^), 14.3 % over
"""


def many() -> list[Buffer]:
    return [Buffer(f"b{i:02}", 10 + 7 * i % 60, 3 * i, 3 * i + 40) for i in range(60)]


def test_picture_of_a_tiny_plan_is_this_text() -> None:
    assert picture(TINY, width=16, height=8) == TINY_PICTURE


def test_picture_does_not_depend_on_the_order_of_buffers() -> None:
    assert picture(solve(many(), 4, 0)) == picture(solve(many()[::-1], 4, 0))


@pytest.mark.parametrize("width", [1, 20, 72, 300])
@pytest.mark.parametrize("height", [1, 20])
def test_drawing_keeps_to_its_width_and_height(width: int, height: int) -> None:
    lines = picture(solve(many(), 4, 0), width, height).splitlines()
    drawing = [line for line in lines if "|" in line]
    assert len(drawing) == height
    margin_and_a_column = len(drawing[0].split("|")[0]) + 2
    assert all(len(line) <= max(width, margin_and_a_column) for line in drawing)


def test_peak_mark_stands_over_the_peak_even_where_a_column_is_many_steps() -> None:
    buffers = [Buffer("long", 4, 0, 9_999), Buffer("peak", 4, 5_000, 5_000)]
    lines = picture(solve(buffers), width=23, height=2).splitlines()
    assert lines[2].index("^") == 3 + 10
    assert lines[2].count("^") == 1


def test_legend_names_the_largest_and_counts_the_rest() -> None:
    lines = picture(solve(many(), 4, 0)).splitlines()
    assert lines[22].startswith("A b")
    assert lines[-2].startswith("a-z  48 more, at most ")


def test_names_cannot_break_the_drawing() -> None:
    text = picture(solve([Buffer("bad\n\x1b[2Jname", 4, 0, 0)]))
    assert "bad??[2Jname" in text


def test_plan_without_buffers_has_a_picture() -> None:
    assert picture(solve([])) == "the plan has no buffers\n"

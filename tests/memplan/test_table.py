"""Plans and problems as CSV."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcutrain.errors import PlanError
from mcutrain.memplan import Buffer, read_csv, read_fronts, solve, to_csv

names = st.text(st.characters(exclude_categories=("Cc", "Cs")))
entries = st.tuples(st.integers(1, 2**40), st.integers(-5, 2**40), st.integers(0, 99))


@given(st.dictionaries(names, entries, max_size=8))
def test_buffers_of_a_plan_survive_csv(drawn: dict[str, tuple[int, int, int]]) -> None:
    buffers = tuple(
        Buffer(name, size_bytes, first, first + more)
        for name, (size_bytes, first, more) in drawn.items()
    )
    assert read_csv(to_csv(solve(buffers, 4, 0))) == buffers


def test_csv_has_half_open_lifetimes_and_offsets() -> None:
    plan = solve([Buffer("x", 6, 0, 1), Buffer("a,b", 4, 1, 1)])
    assert to_csv(plan) == 'id,lower,upper,size,offset\nx,0,2,6,0\n"a,b",1,2,4,8\n'


def test_fronts_follow_with_steps_of_their_own() -> None:
    """Each begins where the one before ends: together they are one plan."""
    step = solve([Buffer("x", 6, 0, 1), Buffer("a,b", 4, 1, 1)])
    fronts = {"policy": solve([Buffer("p", 8, 0, 2)]), "level 1": solve([Buffer("q", 5, 0, 0)])}
    text = to_csv(step, fronts)
    assert text == (
        "id,lower,upper,size,offset,front\n"
        'x,0,2,6,0,step\n"a,b",1,2,4,8,step\np,2,5,8,0,policy\nq,5,6,5,0,level 1\n'
    )
    assert read_csv(text) == (*step.buffers, Buffer("p", 8, 2, 4), Buffer("q", 5, 5, 5))
    assert read_fronts(text) == {"p": "policy", "q": "level 1"}
    assert read_fronts(to_csv(step)) == {}


def test_problem_without_offsets_and_with_blank_lines_is_read() -> None:
    text = "id,lower,upper,size\r\n0,5,7,32\r\n\r\n"
    assert read_csv(text) == (Buffer("0", 32, 5, 6),)


HEADER = "id,lower,upper,size\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: the columns are ''; they must be 'id,lower,upper,size'"),
        ("name,first,last,bytes\n", "line 1: the columns are 'name,first,last,bytes'"),
        (HEADER + "a,0,1\n", "line 2: 3 values for 4 columns"),
        (HEADER + "a,0,1,4,0\n", "line 2: 5 values for 4 columns"),
        (HEADER + "a,0,1,4\nb,0,one,4\n", "line 3: upper 'one' is not an integer"),
        (HEADER + "a,0,1.5,4\n", "line 2: upper '1.5' is not an integer"),
        (HEADER + f"a,0,1,{'9' * 10_000}\n", "line 2: size '9{40}' is not an integer"),
        (HEADER + "a,3,3,4\n", "line 2: lower 3 is not less than upper 3"),
        (HEADER + "a,0,1,0\n", "line 2: size 0 is not positive"),
        (HEADER + "\na,0,1,4\na,5,6,4\n", "line 4: id 'a' is already on line 3"),
        (HEADER + 'a,0,1,"4\n', "line 2: not CSV"),
        ("id,lower,upper,size,offset\na,0,1,4,x\n", "line 2: offset 'x' is not an integer"),
        ("id,lower,upper,size,offset,front\na,0,1,4,0\n", "line 2: 5 values for 6 columns"),
        ("id,lower,upper,size,front\na,0,1,4,f\n", "with or without ',offset' or ',offset,front'"),
    ],
)
def test_bad_csv_is_refused_with_its_line(text: str, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        read_csv(text)

"""Names that are taken get numbers, and no number is given twice."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mcutrain.ir.names import Names, unique_names


def test_the_second_of_a_name_gets_a_number() -> None:
    assert unique_names(["a", "b", "a", "a"]) == ("a", "b", "a_2", "a_3")


def test_a_number_that_a_name_has_already_is_passed_over() -> None:
    assert unique_names(["a", "a_2", "a", "a_2", "a"]) == ("a", "a_2", "a_3", "a_2_2", "a_4")
    assert Names(["a", "a_2"]).take("a") == "a_3"


@given(st.lists(st.sampled_from(["a", "a_2", "a_2_2", "a_3", "b"]), max_size=12))
def test_all_names_are_told_apart_and_the_first_of_each_stays(names: list[str]) -> None:
    found = unique_names(names)
    assert len(set(found)) == len(names)

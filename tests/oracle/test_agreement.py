"""What is said of two computations of the same outputs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mcutrain.oracle.forward import Agreement, Verdict

EXPECTED = np.array([[1, 5, -3], [0, -128, 127], [9, 9, 9]], np.int8)


def test_outputs_that_are_a_step_away_differ() -> None:
    found = EXPECTED.copy()
    found[0, 0] += 1
    one = Agreement.between("ours", found, "theirs", EXPECTED)
    assert (one.samples, one.outputs, one.differing, one.largest) == (3, 9, 1, 1)
    assert (one.mean, one.same_class) == (1 / 9, 1.0)


def test_the_largest_difference_of_int8_is_255_and_changes_the_class() -> None:
    found = EXPECTED.copy()
    found[1] = (0, 127, -128)
    one = Agreement.between("ours", found, "theirs", EXPECTED)
    assert (one.differing, one.largest, one.same_class) == (2, 255, 2 / 3)


def test_fewer_samples_are_the_first_ones() -> None:
    one = Agreement.between("ours", EXPECTED[:2], "theirs", EXPECTED)
    assert (one.samples, one.outputs, one.differing) == (2, 6, 0)


def test_a_verdict_is_wrong_if_one_of_its_exact_comparisons_differs() -> None:
    same = Agreement.between("numpy", EXPECTED, "theirs", EXPECTED)
    other = Agreement.between("C", EXPECTED + np.int8(1) * (EXPECTED == 5), "theirs", EXPECTED)
    assert Verdict("theirs", True, (same, same)).is_right
    wrong = Verdict("theirs", True, (same, other))
    assert not wrong.is_right
    assert wrong.summary() == "outputs other than those of theirs: numpy: 0 of 9, C: 1 of 9"
    assert replace(wrong, exact=False).is_right

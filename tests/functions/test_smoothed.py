"""Shown means are those of the last steps, from the first one on."""

import math

from mcutrain.functions.smoothed import SMOOTHING, Smoothed


def test_the_first_step_weighs_no_more_than_the_second() -> None:
    means = Smoothed()
    for step, loss in enumerate((8.0, 2.0), start=1):
        means.add(step, loss, 0.0)
    assert math.isclose(means.loss, 5.0, rel_tol=SMOOTHING)


def test_a_short_run_that_learns_ends_below_where_it_began() -> None:
    """200 steps, the first half at a loss of 8, the second at 1."""
    means = Smoothed()
    for step in range(1, 201):
        means.add(step, 8.0 if step <= 100 else 1.0, float(step > 100))
    assert 1.0 < means.loss < 4.5
    assert means.accuracy > 0.5


def test_a_mean_of_equal_losses_is_that_loss() -> None:
    means = Smoothed()
    for step in (1, 2, 50, 50, 1000):
        means.add(step, 3.0, 1.0)
        assert math.isclose(means.loss, 3.0)


def test_before_the_first_step_there_is_a_zero() -> None:
    assert Smoothed().loss == 0.0

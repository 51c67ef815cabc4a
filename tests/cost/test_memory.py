"""The memory of a scheme, summed up without a plan."""

from __future__ import annotations

from mcutrain.cost.memory import cost_of
from mcutrain.pipeline import prepare
from mcutrain.selection.cost import SchemeCost
from tests.selection.networks import graph_of


def most(cost: SchemeCost) -> int:
    steps = range(len(cost.steps))
    return max(sum(s.size_bytes for s in cost.spans if s.first <= n <= s.last) for n in steps)


def test_no_scheme_takes_less_than_its_front() -> None:
    training = prepare(graph_of("residual", 1), "last:2").plan.training
    without = most(cost_of(training))
    for front_bytes in (without - 1, without, without + 1, 10 * without):
        cost = cost_of(training, least_front_bytes=front_bytes)
        assert most(cost) == max(without, front_bytes)

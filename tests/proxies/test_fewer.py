"""A ladder with fewer levels: what its policy then chooses, and which levels go."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from mcutrain.errors import PlanError
from mcutrain.ir.graph import Graph
from mcutrain.ir.interpret import interpret
from mcutrain.memplan import Ladder
from mcutrain.ops.conv_2d import Conv2D
from mcutrain.proxies import fewer
from mcutrain.proxies.fewer import levels_that_fit, with_levels
from tests.proxies import ladders

SHARES = (0.75, 0.5, 0.25)


@pytest.fixture(scope="module")
def ladder() -> Ladder:
    whole, _ = ladders.front_of(ladders.step())
    return ladders.ladder(whole, SHARES)


def scores(policy: Graph, x: np.ndarray) -> np.ndarray:
    (name,), (y,) = policy.inputs, policy.outputs
    return interpret(policy, {name: x})[y].ravel()


def test_a_policy_scores_the_levels_that_are_left_as_before(ladder: Ladder) -> None:
    kind = ladder.policy.tensors[ladder.policy.inputs[0]].type
    rng = np.random.default_rng(1)
    for levels in (c for n in (1, 2, 3) for c in combinations((1, 2, 3), n)):
        less = with_levels(ladder, levels)
        assert less.proxies == tuple(ladder.proxies[i - 1] for i in levels)
        assert less.levels == 1 + len(levels)
        for _ in range(3):
            x = rng.integers(-128, 128, kind.shape).astype(np.int8)
            assert np.array_equal(scores(less.policy, x), scores(ladder.policy, x)[[0, *levels]])


def test_multipliers_of_each_level_stay_with_it(ladder: Ladder) -> None:
    *before, dense, shape = ladder.policy.nodes
    assert isinstance(dense.op, Conv2D)
    assert dense.op.requantize is not None
    several = replace(dense.op.requantize, mult_q31=(2**30, 2**29, 2**30 + 1, 3), shift=(-6,) * 4)
    nodes = (*before, replace(dense, op=replace(dense.op, requantize=several)), shape)
    weight = ladder.policy.tensors[dense.inputs[1]]
    by_level = replace(weight, type=replace(weight.type, scales=(1.0, 2.0, 3.0, 4.0)))
    tensors = {**ladder.policy.tensors, weight.name: by_level}
    policy = replace(ladder.policy, nodes=nodes, tensors=tensors)
    less = with_levels(replace(ladder, policy=policy), (2, 3)).policy
    op = less.nodes[-2].op
    assert isinstance(op, Conv2D)
    assert op.requantize is not None
    assert op.requantize.mult_q31 == (2**30, 2**30 + 1, 3)
    assert less.tensors[weight.name].type.scales == (1.0, 3.0, 4.0)


def test_what_saves_most_is_taken_first(ladder: Ladder) -> None:
    """And what does not fit beside it may be followed by what does."""
    tried: list[int] = []

    def fits(less: Ladder) -> bool:
        tried.append(len(less.proxies))
        return ladder.proxies[1] not in less.proxies

    found = levels_that_fit(ladder, fits)
    assert (found.kept, found.left_out, tried) == ((1, 3), (2,), [1, 2, 2])
    assert found.ladder == with_levels(ladder, (1, 3))
    two = levels_that_fit(ladder, lambda less: len(less.proxies) < 2)
    assert (two.kept, two.left_out) == ((3,), (1, 2))
    none = levels_that_fit(ladder, lambda _: False)
    assert (none.ladder, none.kept, none.left_out) == (None, (), (1, 2, 3))


def test_a_policy_of_another_kind_is_a_sentence(ladder: Ladder) -> None:
    policy = replace(ladder.policy, nodes=ladder.policy.nodes[:-1])
    with pytest.raises(PlanError, match="none of `mcutrain proxies`"):
        fewer._policy(policy, (0, 1))

"""Selection counts what a rule keeps: of all schemes trained by it, the best that fits is found."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mcutrain.cost.schemes import cost_model
from mcutrain.pipeline import prepare
from mcutrain.selection.cost import Limits
from mcutrain.selection.select import Selector
from mcutrain.sparse.scheme import UpdateScheme
from mcutrain.target import load_target
from mcutrain.update_rules import RULES, SGD
from tests.selection.networks import all_schemes, contributions, gain_of, graph_of, scheme_of

SHARES = (0.5, 1.0)
SUM_ORDER = 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("rule", sorted(RULES.keys() - {SGD}))
@pytest.mark.parametrize("board", [None, "nucleo-f446re"])
def test_selection_is_as_good_as_trying_every_scheme_by_a_rule(
    rule: str, board: str | None
) -> None:
    graph = graph_of("inverted", 1)
    target = None if board is None else load_target(board)
    costs = cost_model(graph, target, update_rule=rule)
    found = contributions(graph, np.random.default_rng(5), SHARES)

    def planned(depth: int, shares: tuple[tuple[int, float], ...], bits: int) -> int:
        scheme = replace(scheme_of(depth, shares, bits), update_rule=rule)
        return costs.plan(scheme).sram_bytes

    gains = found.gain().weights
    tried = {
        choice: planned(*choice)
        for choice in all_schemes(found, SHARES)
        if all(gains[i][share] > 0 for i, share in choice[1])
    }
    limit = sorted(tried.values())[len(tried) // 2]
    best = max(gain_of(found, *choice) for choice, needs in tried.items() if needs <= limit)
    chosen = Selector(graph, found, costs).select(Limits(sram_bytes=limit))
    assert chosen.scheme.update_rule == rule
    assert abs(chosen.gain - best) <= SUM_ORDER
    plan = prepare(graph, chosen.scheme).plan
    assert chosen.measured.state_bytes == plan.state_bytes
    by_sgd = prepare(graph, replace(chosen.scheme, update_rule=SGD)).plan
    assert by_sgd.state_bytes < plan.state_bytes


def test_a_selected_scheme_says_its_rule_in_its_file() -> None:
    assert 'update_rule = "momentum"' in UpdateScheme(update_rule="momentum").to_toml()

"""What the sums think fits, and planning or compiling does not, is cut off; and what then."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mcutrain.errors import AnalysisError, PlanError
from mcutrain.selection.cost import CostModel, Limits, Needs
from mcutrain.selection.select import MOST_CUTS, Selector
from tests.selection.networks import (
    all_schemes,
    cached_device,
    contributions,
    gain_of,
    graph_of,
    measured,
    scheme_of,
)

SHARES = (0.25, 1.0)
GENEROUS = Limits(10**6)


@pytest.fixture
def case():
    graph = graph_of("chain", 1)
    found = contributions(graph, np.random.default_rng(4), SHARES)
    return graph, found, cached_device("chain", 1, False)


def lying(costs: CostModel, more_bytes: int) -> CostModel:
    """Plans need more than lifetimes say, by a number that looks random."""

    def plan(scheme) -> Needs:
        true = costs.plan(scheme)
        excess = sum(map(ord, scheme.to_toml())) % more_bytes
        return replace(true, sram_bytes=true.sram_bytes + excess)

    return replace(costs, plan=plan)


@pytest.mark.slow
def test_the_best_scheme_that_fits_when_planned_is_found_behind_those_that_do_not(case):
    graph, found, costs = case
    liar = lying(costs, 200)
    weights = found.gain().weights
    schemes = [
        s for s in all_schemes(found, SHARES) if all(weights[i][share] > 0 for i, share in s[1])
    ]
    cuts, head = 0, min(measured(liar, *s).sram_bytes for s in schemes if s[:2] == (0, ()))
    for limit in range(400, 1000, 25):
        fitting = [s for s in schemes if measured(liar, *s).sram_bytes <= limit]
        selector = Selector(graph, found, liar)
        if head > limit:
            with pytest.raises(PlanError, match="the head alone needs"):
                selector.select(Limits(limit))
            continue
        selection = selector.select(Limits(limit), with_next=False)
        best = max(gain_of(found, *s) for s in fitting)
        assert selection.gain == pytest.approx(best, abs=1e-9)
        assert selection.optimal
        assert selection.measured.sram_bytes <= limit
        cuts += selection.cuts
    assert cuts > 10


def test_after_too_many_cuts_a_scheme_is_returned_with_a_bound_that_is_larger(case, monkeypatch):
    graph, found, costs = case
    monkeypatch.setattr("mcutrain.selection.select.MOST_CUTS", 3)
    assert MOST_CUTS > 3
    liar = lying(costs, 200)
    answers = [
        Selector(graph, found, liar).select(Limits(limit), with_next=False)
        for limit in range(600, 1000, 20)
    ]
    given_up = [a for a in answers if not a.optimal]
    assert given_up
    assert all(a.bound > a.gain for a in given_up)
    assert all(a.measured.sram_bytes <= a.limits.sram_bytes for a in answers)


def test_what_does_not_link_is_cut_off(case):
    graph, found, costs = case
    refused = []

    def build(scheme) -> Needs | None:
        if len(refused) < 3:
            refused.append(scheme)
            return None
        return replace(costs.plan(scheme), was_built=True)

    free = Selector(graph, found, costs).select(GENEROUS)
    selection = Selector(graph, found, replace(costs, build=build)).select(GENEROUS)
    assert selection.measured.was_built
    assert selection.cuts == 3
    assert refused[0] == free.scheme
    assert selection.scheme not in refused
    assert selection.gain < free.gain


def test_a_budget_below_the_head_alone_says_the_least_budget_and_its_step(case):
    graph, found, costs = case
    least = costs.plan(scheme_of(0, (), 4))
    with pytest.raises(PlanError) as caught:
        Selector(graph, found, costs).select(Limits(least.sram_bytes - 4))
    text = str(caught.value)
    assert f"needs {least.sram_bytes:,} bytes of SRAM, 4 more than the limit" in text
    assert f"at step {least.peak_step}, {least.peak_node!r}" in text
    assert Selector(graph, found, costs).select(Limits(least.sram_bytes)).scheme.weights == {}


def test_an_analysis_with_other_layers_or_without_the_measure_is_refused(case):
    graph, found, costs = case
    with pytest.raises(AnalysisError, match="has no 'fisher'; it has accuracy"):
        Selector(graph, found, costs, "fisher")
    with pytest.raises(AnalysisError, match="the analysis has 2 layers, the model 3"):
        Selector(graph, replace(found, layers=found.layers[:2]), costs)


def test_the_solver_prints_nothing(case, capfd):
    graph, found, costs = case
    Selector(graph, found, costs).select(Limits(700))
    assert capfd.readouterr().out == ""

"""Proposals are optima by different readings; finalists are trained on training samples only."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mcutrain.cli.select_output import show_selection
from mcutrain.cost.schemes import cost_model
from mcutrain.data import Dataset
from mcutrain.errors import DataError, PlanError, SchemeError
from mcutrain.experiments.finalists import part
from mcutrain.selection import proposals
from mcutrain.selection.contribution import Gains, is_joint
from mcutrain.selection.cost import Limits
from mcutrain.selection.proposals import MEAN, propose, readings
from mcutrain.selection.select import Selector
from mcutrain.sparse import UpdateScheme
from mcutrain.sparse.scheme import USUAL_BITS, schemes_of
from tests.selection.networks import contributions, inverted


@pytest.fixture(scope="module")
def problem():
    graph = inverted(3)
    rng = np.random.default_rng(5)
    first, second = (contributions(graph, rng).gain() for _ in range(2))
    made = replace(
        contributions(graph, rng, factors={0: 0.9, USUAL_BITS: 1.0}),
        gains={"accuracy": first, "probability": second},
    ).smoothed()
    return graph, made, cost_model(graph)


def test_the_mean_is_of_parts_of_the_largest_gain():
    one = Gains((0.0, 0.2), {0: {1.0: 0.4}})
    two = Gains((0.0, 3.0), {0: {1.0: 1.0}})
    made = replace(contributions(inverted(0), np.random.default_rng(0)), gains={"a": one, "b": two})
    found = readings(made)
    assert list(found)[:3] == ["a", "b", MEAN]
    assert found[MEAN].bias == pytest.approx((0, (0.5 + 1) / 2))
    assert found[MEAN].weights[0][1.0] == pytest.approx((1 + 1 / 3) / 2)
    assert found["a, weights × 0.5"].weights[0][1.0] == 0.2
    assert found["a, weights × 0.5"].bias == one.bias


def test_modules_are_proposed_beside_the_best_without_them():
    one = Gains((0.0, 0.2), {0: {1.0: 0.4}}, {"gain@a": {0: 0.3}})
    two = Gains((0.0, 3.0), {0: {1.0: 1.0}}, {"gain@a": {0: 1.5}})
    made = replace(contributions(inverted(0), np.random.default_rng(0)), gains={"a": one, "b": two})
    found = readings(made)
    assert list(found)[:4] == ["a", "a, layers alone", "b", MEAN]
    assert found["a"].modules["gain@a"] == {0: 0.3}
    assert (found["a, layers alone"].modules, found["a, layers alone"].bias) == ({}, one.bias)
    assert found[MEAN].modules["gain@a"][0] == pytest.approx((0.3 / 0.4 + 0.5) / 2)
    assert found["b, weights × 2"].modules["gain@a"] == {0: 3.0}


def test_what_is_learnt_together_is_read_as_it_is():
    """It is no sum, of which the mean with others or more of the weights would say something."""
    gains = Gains((0.0, 0.2), {0: {1.0: 0.4}}, {"gain@a": {0: 0.3}})
    made = contributions(inverted(0), np.random.default_rng(0))
    first = readings(replace(made, gains={"joint": gains, "b": gains}))
    assert list(first) == [
        "joint",
        "joint, layers alone",
        "b",
        "b, weights × 0.5",
        "b, weights × 2",
    ]
    assert is_joint("joint, layers alone")
    assert not is_joint("learnable")


@pytest.mark.slow
def test_every_proposal_is_the_optimum_of_its_reading_and_fits(problem):
    graph, made, costs = problem
    least = Selector(graph, made, costs).costs.plan
    limits = Limits(1550)
    found = propose(graph, made, costs, limits, 6)
    assert 2 <= len({p.selection.scheme.to_toml() for p in found}) == len(found) <= 6
    assert {p.selection.scheme.residual_bits for p in found} == {0, USUAL_BITS}
    every = replace(made, gains=readings(made))
    for proposal in found:
        reading, _, free = proposal.reading.partition(", any")
        analysis = every if free else replace(every, residual_factor={USUAL_BITS: 1.0})
        alone = Selector(graph, analysis, cost_model(graph), reading).select(limits, False)
        assert alone.scheme == proposal.selection.scheme
        assert alone.gain == proposal.selection.gain
        assert least(alone.scheme).sram_bytes <= 1550


def test_no_more_are_proposed_than_asked_for(problem):
    graph, made, costs = problem
    assert len(propose(graph, made, costs, Limits(1550), 1)) == 1
    with pytest.raises(PlanError, match="the head alone needs"):
        propose(graph, made, costs, Limits(10), 4)


def dataset(count: int) -> Dataset:
    return Dataset(np.arange(count, dtype=np.float32)[:, None], np.arange(count) % 2, ("a", "b"))


def test_finalists_are_judged_by_samples_that_did_not_train_them():
    split = part(dataset(500))
    assert (len(split.train), len(split.test)) == (400, 100)
    assert not set(split.train.x.ravel()) & set(split.test.x.ravel())
    fewer = part(dataset(500), 50)
    assert len(fewer.train) == 50
    assert set(fewer.test.x.ravel()).isdisjoint(fewer.train.x.ravel())
    assert len(fewer.test) == 100


def test_too_few_samples_to_choose_by_are_refused():
    with pytest.raises(DataError, match="99 training samples, a fifth of which are too few"):
        part(dataset(99))


def test_shipped_schemes_are_of_the_network_that_they_were_made_for():
    names = [f"mcunet-5fps-{size}kb" for size in (100, 124, 148, 49, 74)]
    assert [scheme.name for scheme in schemes_of("mcunet-5fps.int8")] == names
    assert [scheme.name for scheme in schemes_of("mcunet-5fps")] == names
    assert schemes_of("mcunet-5fps-small") == ()


@pytest.mark.slow
def test_the_largest_published_scheme_that_fits_is_proposed_as_it_is(problem, monkeypatch):
    graph, made, costs = problem
    small = UpdateScheme("small", 1, {})
    large = UpdateScheme("large", 3, {"0": 0.5, "2": 1.0, "1": 0.0})
    other = UpdateScheme("of another network", 3, {"77": 0.5})
    odd = UpdateScheme("an odd share", 3, {"0": 0.3})
    monkeypatch.setattr(proposals, "schemes_of", lambda _: (small, large, other, odd))
    least, most = (costs.plan(scheme).sram_bytes for scheme in (small, large))
    assert least < most
    for limit, scheme in ((most, large), (most - 1, small), (least, small)):
        assert proposals.published(made, costs, Limits(limit)) == scheme
        found = [p.selection.scheme for p in propose(graph, made, costs, Limits(limit), 6)]
        weights = {i: share for i, share in scheme.weights.items() if share > 0}
        assert (scheme.bias_depth, weights) in [(s.bias_depth, s.weights) for s in found]
    assert proposals.published(made, costs, Limits(least - 1)) is None


def test_a_scheme_of_another_network_of_that_name_is_left_out(problem, monkeypatch):
    _, made, costs = problem

    def refuse(scheme):
        raise SchemeError("it shares a weight")

    monkeypatch.setattr(proposals, "schemes_of", lambda _: (UpdateScheme("p", 3, {"2": 1.0}),))
    other = replace(costs, plan=refuse)
    assert proposals.published(made, other, Limits(4000)) is None
    known = proposals.published(made, costs, Limits(4000))
    assert known is not None
    assert known.name == "p"


def prior_of(problem, monkeypatch, scheme, limits=None):
    """The selection of a scheme that was published, and the best by the first measure."""
    graph, made, costs = problem
    monkeypatch.setattr(proposals, "schemes_of", lambda _: (scheme,))
    found = propose(graph, made, costs, limits or Limits(4000), 6)
    return next(p.selection for p in found if p.reading == "published as p"), found[0].selection


def test_a_published_scheme_is_not_said_to_be_an_optimum(problem, monkeypatch, capsys):
    prior, best = prior_of(problem, monkeypatch, UpdateScheme("p", 3, {"2": 1.0}))
    facts = {"model": "m", "classes": 3, "learns": "classes", "finalists": []}
    show_selection(prior, facts, None, json=False)
    said = capsys.readouterr().out
    assert "published as p" in said
    assert f"not proved to be the largest, which is at most {100 * best.gain:.1f} %" in said
    assert "kept away" not in said
    assert not prior.optimal


def test_a_published_scheme_has_the_gains_of_the_analysis(problem, monkeypatch):
    _, made, costs = problem
    prior, best = prior_of(problem, monkeypatch, UpdateScheme("p", 3, {"2": 1.0, "0": 0.5}))
    gains = made.gains["accuracy"]
    assert (prior.measure, prior.published, best.published) == ("accuracy", "p", None)
    assert prior.bias_gain == gains.bias[3]
    assert [(c.index, c.gain) for c in prior.layers] == [
        (0, gains.weights[0][0.5]),
        (2, gains.weights[2][1.0]),
    ]
    assert prior.gain == pytest.approx(gains.bias[3] + gains.weights[0][0.5] + gains.weights[2][1])
    assert prior.bound == best.bound >= best.gain > prior.gain
    assert prior.measured == costs.plan(prior.scheme)
    assert prior.to_dict()["published"] == "p"


def test_a_published_scheme_may_train_what_gains_nothing(problem, monkeypatch):
    """Its layers' bytes are those that a selection of the same scheme would tell."""
    graph, made, costs = problem
    gains = made.gains["accuracy"]
    scheme = UpdateScheme("p", 3, {"0": 0.5, "2": 1.0})
    sure = replace(gains, weights={0: {0.5: 9.0}, 2: {1.0: 9.0}}, bias=(0.0, 1.0, 2.0, 9.0))
    chosen = Selector(graph, replace(made, gains={"accuracy": sure}), costs).select(Limits(4000))
    none = replace(gains, weights={**gains.weights, 2: {1.0: -0.1}})
    prior, _ = prior_of(
        (graph, replace(made, gains={"accuracy": none}), costs), monkeypatch, scheme
    )
    assert dict(chosen.scheme.weights) == dict(prior.scheme.weights)
    assert [c.state_bytes for c in prior.layers] == [c.state_bytes for c in chosen.layers]
    assert [c.gain for c in prior.layers] == [gains.weights[0][0.5], -0.1]


def test_a_published_scheme_that_does_not_link_is_no_proposal(problem, monkeypatch):
    graph, made, costs = problem
    known = UpdateScheme("p", 3, {"2": 1.0})
    monkeypatch.setattr(proposals, "schemes_of", lambda _: (known,))

    def build(scheme):
        return None if dict(scheme.weights) == {"2": 1.0} else costs.plan(scheme)

    found = propose(graph, made, replace(costs, build=build), Limits(4000), 6)
    assert "published as p" not in [p.reading for p in found]

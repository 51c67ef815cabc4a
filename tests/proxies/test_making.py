"""A ladder that is made: levels that cost less, a policy that chooses, sentences."""

from __future__ import annotations

import itertools
from functools import lru_cache

import numpy as np
import pytest

from mcutrain import demo, pipeline
from mcutrain.errors import ArgumentError, DataError, PlanError
from mcutrain.ir.difference import difference
from mcutrain.ir.graph import Graph
from mcutrain.ir.interpret import interpret
from mcutrain.memplan import find_latent
from mcutrain.proxies import LadderSettings, MadeLadder, make_ladder
from mcutrain.proxies.compiled import latents_of
from mcutrain.proxies.making import Distances, difficulties
from mcutrain.proxies.policy import (
    features_of,
    fit_policy,
    levels_of,
    on_grid,
    policy_graph,
    stem_of,
)
from tests.proxies.ladders import step
from tests.proxies.test_fit import latents, samples, whole


@lru_cache(maxsize=1)
def made() -> MadeLadder:
    planned = step()
    return make_ladder(planned, find_latent(planned.plan), samples())


@pytest.mark.slow
def test_levels_cost_less_and_are_less_near_from_one_to_the_next() -> None:
    levels = made().levels
    assert [level.level for level in levels] == [0, 1, 2]
    for before, level in itertools.pairwise(levels):
        assert level.macs < before.macs
        assert level.instructions < before.instructions
        assert level.channels < before.channels
        assert level.cosine < before.cosine
        assert level.error > before.error
    assert levels[0].cosine == 1.0
    assert levels[0].flash_bytes == 0 < levels[2].flash_bytes < levels[1].flash_bytes
    assert sum(level.share for level in levels) == pytest.approx(1)
    assert made().policy_macs < 1000


def test_the_cheapest_level_serves_half_of_the_samples_unless_a_threshold_is_given() -> None:
    assert made().levels[2].near == pytest.approx(0.5, abs=0.2)  # of samples that set no threshold
    planned = step()
    latent = find_latent(planned.plan)
    strict = make_ladder(planned, latent, samples(), LadderSettings(levels=2, threshold=1.0))
    assert strict.levels[1].near == strict.levels[1].share == 0
    assert strict.ladder.levels == 2


def test_the_same_samples_make_the_same_ladder() -> None:
    planned = step()
    again = make_ladder(planned, find_latent(planned.plan), samples())
    pairs = zip(
        (*made().ladder.proxies, made().ladder.policy),
        (*again.ladder.proxies, again.ladder.policy),
        strict=True,
    )
    assert [difference(a, b) for a, b in pairs] == [""] * 3
    assert made().facts() == again.facts()


def test_all_fronts_begin_with_the_stem_of_the_policy() -> None:
    stem = stem_of(whole())
    for graph in (whole(), *made().ladder.proxies):
        assert graph.nodes[: len(stem.nodes)] == stem.nodes
    for graph in (*made().ladder.proxies, made().ladder.policy):
        for node in stem.nodes:
            for name in node.inputs:
                assert np.array_equal(graph.tensors[name].data, whole().tensors[name].data)


@pytest.mark.parametrize("grid", [1, 2, 3, 5])
def test_on_a_grid_the_stem_is_computed_at_some_of_its_inner_positions(grid: int) -> None:
    stem = stem_of(whole())
    some = on_grid(stem, grid)
    rows, columns = some.tensors[some.outputs[0]].type.shape[1:3]
    assert grid <= min(rows, columns) <= max(rows, columns) < 2 * grid + 1
    (top, _, left, _), (down, right) = (
        node.op.window.padding if i == 0 else node.op.window.stride
        for i, node in enumerate((stem.nodes[0], some.nodes[0]))
    )
    stride = stem.nodes[0].op.window.stride[0]
    if top % stride == left % stride == 0:  # else no position of the stem has the same inputs
        sample = samples()[0]
        every, few = (_made_of(graph, sample) for graph in (stem, some))
        first, steps = top // stride, (down // stride, right // stride)
        same = every[:, first :: steps[0], first :: steps[1]][:, :rows, :columns]
        assert np.array_equal(few, same)
    assert some.macs() < stem.macs()


def test_a_stem_of_few_positions_is_computed_at_all_of_them() -> None:
    stem = stem_of(whole())
    assert on_grid(stem, 1000) == stem


def _made_of(graph: Graph, sample: np.ndarray) -> np.ndarray:
    (x,), (y,) = graph.inputs, graph.outputs
    found: np.ndarray = interpret(graph, {x: sample.reshape(graph.tensors[x].type.shape)})[y]
    return found


def test_fronts_in_c_make_the_bits_of_the_reference() -> None:
    for graph in (whole(), made().ladder.proxies[0]):
        assert np.array_equal(latents_of(graph, samples()[:3]), latents(graph, samples()[:3])[:, 0])


def test_the_policy_chooses_the_first_of_the_largest_scores() -> None:
    policy: Graph = made().ladder.policy
    expected = [int(np.argmax(_made_of(policy, sample))) for sample in samples()[:12]]
    assert levels_of(policy, samples()[:12]).tolist() == expected


def test_a_policy_learns_what_the_stem_tells() -> None:
    stem = on_grid(stem_of(whole()))
    features = features_of(stem, samples())
    one = int(np.argmax(features.std(axis=0)))
    levels = np.digitize(features[:, one], np.quantile(features[:, one], [0.4, 0.7]))
    policy = policy_graph(stem, *fit_policy(features, levels, 3), features)
    assert np.mean(levels_of(policy, samples()) == levels) > 0.8
    alike = policy_graph(stem, *fit_policy(features, np.zeros(len(features), int), 3), features)
    assert set(levels_of(alike, samples())) == {0}


def test_difficulty_is_the_cheapest_level_that_is_near_enough() -> None:
    cosines = np.array([[1.0, 1, 1, 1], [0.9, 0.9, 0.5, 0.4], [0.5, 0.8, 0.9, 0.4]])
    distances = [Distances(row, 0.0) for row in cosines]
    assert difficulties(distances, 0.7).tolist() == [1, 2, 2, 0]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (LadderSettings(levels=1), "1 levels: give 2 to 16"),
        (LadderSettings(levels=17, delta=0.01), "17 levels: give 2 to 16"),
        (LadderSettings(levels=5, delta=0.25), "4 times 0.25 is no share below 1"),
        (LadderSettings(delta=-0.1), "2 times -0.1 is no share"),
        (LadderSettings(threshold=2), "a threshold of 2 is no cosine"),
        (LadderSettings(least_cosine=float("nan")), "a least cosine of nan is no cosine"),
    ],
)
def test_settings_that_make_no_sense_are_told(settings: LadderSettings, said: str) -> None:
    planned = step()
    with pytest.raises(ArgumentError, match=said):
        make_ladder(planned, find_latent(planned.plan), samples(), settings)


def test_what_cannot_be_made_is_told_with_what_was_reached() -> None:
    planned = step()
    latent = find_latent(planned.plan)
    with pytest.raises(DataError, match="15 samples are too few"):
        make_ladder(planned, latent, samples()[:15])
    wanted = LadderSettings(levels=2, least_cosine=0.9999)
    with pytest.raises(PlanError, match=r"not reached: 0\.\d+ by level 1; give"):
        make_ladder(planned, latent, samples(), wanted)
    many = LadderSettings(levels=16, delta=0.001)
    with pytest.raises(PlanError, match="can lose no more channels than level"):
        make_ladder(planned, latent, samples(), many)


def test_a_front_without_inner_channels_is_told() -> None:
    planned = pipeline.prepare(demo.network(), "fashion-sparse")
    first = find_latent(planned.plan, "block1/depthwise")
    with pytest.raises(PlanError, match=r"nothing before .* can be pruned"):
        make_ladder(planned, first, samples())

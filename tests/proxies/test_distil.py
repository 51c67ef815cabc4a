"""Fronts trained for another front's latents: same bits, nearer, and only what is their own."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from mcutrain.ir.difference import difference
from mcutrain.ir.graph import Graph
from mcutrain.proxies.distil import Distilled, distil, training_step
from mcutrain.proxies.making import Distances
from tests.proxies.ladders import first_channels
from tests.proxies.test_fit import latents, samples, whole
from tests.simulation import networks

LEARNT = 32


@lru_cache(maxsize=1)
def poor() -> Graph:
    """With half of the channels, as they were."""
    return first_channels(whole(), 0.5)


@lru_cache(maxsize=1)
def distilled() -> Distilled:
    x = samples()[:LEARNT]
    return distil(poor(), whole(), x, latents(whole(), x), 6)


def error(front: Graph, x: np.ndarray) -> float:
    zero_point = front.tensors[front.outputs[0]].type.zero_point
    return Distances.of(latents(whole(), x), latents(front, x), zero_point).error


def test_steps_towards_targets_have_the_same_bits_in_numpy_and_c() -> None:
    step = training_step(poor(), whole())
    assert step is not None
    training = step.plan.training
    assert training.takes_targets
    assert training.has_labels
    assert training.classes == 1
    reference, compiled = step.reference(5), step.simulator(5)
    x, targets = samples()[:4], latents(whole(), samples()[:4])
    targets[1:3] = np.random.default_rng(0).integers(-128, 128, targets[1:3].shape)
    for i, rate in enumerate(networks.rates(len(x), 1.0)):
        expected = reference.train(x[i : i + 1], targets[i : i + 1], [rate])
        found = compiled.train(x[i : i + 1], targets[i : i + 1], [rate])
        assert [list(v) for v in found] == [list(v) for v in expected], f"step {i}"
        assert networks.states_differ(compiled.state, reference.state) == [], f"step {i}"
    moved = networks.states_differ(reference.state, dict(training.state))
    learnt = [p for p in training.parameters if {p, f"{p}.residual"} & set(moved)]
    assert len(learnt) >= len(training.parameters) / 2  # of four samples


def test_the_loss_is_the_squared_error_at_the_latent() -> None:
    step = training_step(poor(), whole())
    assert step is not None
    x = samples()[:3]
    wanted, found = latents(whole(), x).astype(float), latents(poor(), x).astype(float)
    rates = networks.rates(3, 0.0)
    losses, _ = step.simulator().train(x, wanted.astype(np.int8), rates)
    expected = ((wanted - found).reshape(3, -1) ** 2).mean(axis=1)
    np.testing.assert_allclose(losses / 65536, expected, atol=2**-16)


def test_latents_come_nearer_for_samples_that_were_not_learnt() -> None:
    unseen = samples()[LEARNT:]
    assert distilled().gain > 0.1
    assert error(distilled().front, unseen) < 0.9 * error(poor(), unseen)


def test_the_same_samples_make_the_same_front() -> None:
    x = samples()[:LEARNT]
    again = distil(poor(), whole(), x, latents(whole(), x), 6)
    assert difference(again.front, distilled().front) == ""
    assert again.gain == distilled().gain


def test_what_the_whole_front_has_stays_as_it_is() -> None:
    before, after = poor(), distilled().front
    known = {whole().tensors[name].data.tobytes() for name in whole().constants()}  # type: ignore[union-attr]
    assert {t.name: t.type for t in before.tensors.values()} == {
        t.name: t.type for t in after.tensors.values()
    }
    changed, kept = 0, 0
    for name in before.constants():
        a, b = before.tensors[name].data, after.tensors[name].data
        assert a is not None
        assert b is not None
        is_weight = a.dtype == np.int8
        if is_weight and a.tobytes() in known:
            np.testing.assert_array_equal(a, b)
            kept += 1
        changed += is_weight and not np.array_equal(a, b)
    assert kept
    assert changed


def test_a_front_stays_where_nothing_is_gained_or_wanted() -> None:
    x = samples()[:LEARNT]
    wanted = latents(whole(), x)
    assert distil(poor(), whole(), x, wanted, 0) == Distilled(poor(), 0.0)
    assert distil(poor(), whole(), x[:4], wanted[:4], 3) == Distilled(poor(), 0.0)
    assert distil(whole(), whole(), x, wanted, 3) == Distilled(whole(), 0.0)
    own = latents(poor(), x)  # there is no error to become less
    assert distil(poor(), whole(), x, own, 3).gain == 0.0


def test_progress_comes_to_its_end() -> None:
    told: list[tuple[int, int]] = []
    x = samples()[:10]
    distil(poor(), whole(), x, latents(whole(), x), 2, lambda done, of: told.append((done, of)))
    assert told[-1][0] == told[-1][1]
    assert sorted(told) == told

"""What the policy is fitted to: scores of the least loss, of weights that stay finite."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mcutrain.proxies.policy import DECAY, fit_policy

Array = npt.NDArray[np.float64]

COUNT, FEATURES = 3, 4
STEP = 1e-4
FLAT = 1e-4
"""A slope at the minimum, at most; without the decay's share it would be 1e-3 and more."""


def separable() -> tuple[Array, npt.NDArray[np.int64]]:
    """Features of different sizes that tell levels apart without an error."""
    random = np.random.default_rng(0)
    levels = np.arange(90) % COUNT
    features = random.normal(size=(90, FEATURES)) * (1, 3, 10, 30)
    features[:, 0] = 2.0 * levels + 0.1 * random.normal(size=90) + 5
    return features, levels


def penalized(flat: Array, z: Array, levels: Array) -> float:
    """The mean of -log of the odds of what is wanted, and the decay."""
    w = flat.reshape(COUNT, -1)
    scores = z @ w.T
    odds = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    right = odds[np.arange(len(z)), levels]
    return float(-np.log(right).mean() + DECAY * (w * w).sum())


def test_a_policy_has_the_least_loss_with_its_decay() -> None:
    features, levels = separable()
    w, b = fit_policy(features, levels, COUNT)
    mean, scale = features.mean(axis=0), features.std(axis=0) + 1e-6
    found = np.column_stack([w * scale, b + w @ mean])
    z = np.column_stack([(features - mean) / scale, np.ones(len(features))])
    for place in range(found.size):
        moved = np.zeros(found.size)
        moved[place] = STEP
        up, down = (penalized(found.ravel() + sign * moved, z, levels) for sign in (1, -1))
        assert abs(up - down) / (2 * STEP) < FLAT
    assert (np.argmax(features @ w.T + b, axis=1) == levels).all()


def test_the_scores_of_a_sample_have_the_mean_zero() -> None:
    features, levels = separable()
    w, b = fit_policy(features, levels, COUNT)
    assert np.abs((features @ w.T + b).mean(axis=1)).max() < 1e-9

"""What a simulated step saves: the front that a run begins behind, as the search counts it."""

from __future__ import annotations

import pytest

from mcutrain import data
from mcutrain.memplan import find_latent, front_macs
from mcutrain.memplan.latent import LEAST_SAVED
from mcutrain.pipeline import prepare
from mcutrain.runs.training import fastest_simulator
from mcutrain.simulation import LatentSimulator, RunSettings
from tests.simulation.networks import Network, residual_network, same, samples


@pytest.mark.parametrize("scheme", ["head", "last:1", "last:2", "full"])
def test_it_is_the_front_that_the_fastest_simulator_leaves_out(scheme: str) -> None:
    step = prepare(residual_network(), scheme)
    x, y = samples(step.graph, 4, 4)
    part = data.Dataset(x, y.astype(int), tuple("abcd"))
    made = fastest_simulator(step, data.Split(part, part), RunSettings())
    expected = made.latent.macs if isinstance(made, LatentSimulator) else 0
    assert front_macs(step.plan) == expected
    assert (expected > 0) == (scheme != "full")


def test_a_front_that_hardly_saves_anything_is_none() -> None:
    net = Network((8, 8, 3), seed=2)
    small = net.conv(net.x, 1)
    wide = net.conv(net.conv(small, 24, same(3), relu=True), 24, same(3), relu=True)
    step = prepare(net.graph(net.conv(net.mean(wide), 4)), "last:2")
    saved = find_latent(step.plan).macs / step.plan.training.forward.macs()
    assert 0 < saved < LEAST_SAVED
    assert front_macs(step.plan) == 0

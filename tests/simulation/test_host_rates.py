"""Updates by vectors: whatever the learning rate, the bits of plain C."""

from __future__ import annotations

from mcutrain.pipeline import prepare
from mcutrain.simulation import CompiledSimulator
from mcutrain.simulation.rates import LearningRate
from tests.simulation.networks import samples, threaded_network


def test_vectors_update_as_plain_c_does_at_every_rate() -> None:
    """The shift decides whether products of all sums of an image fit 32 bits."""
    step = prepare(threaded_network(), "full")
    simulators = [CompiledSimulator(step.plan, portable=portable) for portable in (False, True)]
    x, labels = samples(step.graph, 2, 4)
    for shift in range(-36, 9, 2):
        for simulator in simulators:
            simulator.reset()
            simulator.train(x, labels, [LearningRate(1 << 30, shift)] * 2)
        vectors, plain = (simulator.save() for simulator in simulators)
        assert vectors == plain, shift

"""Boards of a fleet as states of the demo's network, trained by the generated C."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from mcutrain_host.saved import SavedState, with_recipe

from mcutrain import demo
from mcutrain.fleets import Contribution, FleetLayout
from mcutrain.pipeline import TrainingStep
from mcutrain.runs.sample_reading import model_input, prepare_samples
from mcutrain.simulation import RunSettings
from mcutrain.simulation.rates import LearningRate

SCHEME = "fashion-sparse"
BOARDS = 5
SAMPLES = (12, 30, 7, 21, 18)


@dataclass(frozen=True)
class Fleet:
    """A base, and what each board's state was after its own samples."""

    layout: FleetLayout
    base: SavedState
    states: tuple[SavedState, ...]

    @property
    def step(self) -> TrainingStep:
        return self.layout.step

    def contributions(self) -> list[Contribution]:
        return [
            Contribution.of(self.layout, self.base, state, f"board{i}", SAMPLES[i])
            for i, state in enumerate(self.states)
        ]

    def file(self, state: SavedState) -> bytes:
        """A state as simulate --save-state writes it."""
        return with_recipe(state.raw, self.step.recipe.to_json())


@cache
def fleet() -> Fleet:
    step = demo.training_step(demo.network(), SCHEME)
    layout, simulator = FleetLayout(step), step.simulator(7)
    split = demo.deployed(demo.upright(demo.Size(train=200, test=10)))
    samples = prepare_samples(split, RunSettings(), model_input(demo.network()))
    rate = LearningRate.of(0.05)

    def learnt(begin: bytes, first: int, count: int) -> SavedState:
        index = np.arange(first, first + count)
        simulator.load(begin)
        simulator.train(samples.train(index, 0, 0), split.train.y[index], [rate] * count)
        return layout.saved(simulator.save(), "a state")

    base = learnt(simulator.save(), 100, 20)  # not the first of all: masters are no middles
    states = [learnt(base.raw, 10 * i, count) for i, count in enumerate(SAMPLES)]
    return Fleet(layout, base, tuple(states))

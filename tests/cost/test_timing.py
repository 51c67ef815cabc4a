"""Timed nodes on this computer: which ones run, and how often."""

from __future__ import annotations

import numpy as np

from mcutrain import prepare
from mcutrain.codegen import Interface, Project
from mcutrain.cost.profile import timing_of
from mcutrain.cost.timing import NEVER, RATE, time_here
from mcutrain.pipeline import TrainingStep
from mcutrain.simulation import CompiledSimulator
from mcutrain.simulation.rates import LearningRate
from tests.simulation.networks import residual_network


def step(accumulate: int = 1) -> TrainingStep:
    return prepare(residual_network(), "last:2", elastic=True, accumulate=accumulate)


def test_nodes_that_are_left_out_have_no_time() -> None:
    found = step()
    timing = timing_of(found.plan, "host")
    project = found.library(Interface(timing=timing))
    simulator = CompiledSimulator(found.plan, project=project)
    simulator.select([])

    def ticks() -> dict[str, int]:
        x = np.zeros((1, *found.input_type.shape[1:]), np.int8)
        simulator.train(x, [1], [LearningRate(RATE.mult_q31, RATE.shift)])
        values = simulator.fewest_ticks(len(timing.nodes))
        return {node.name: value for node, value in zip(timing.nodes, values, strict=True)}

    needed = {n.name for n in timing.nodes if not n.needed_by or {0, 1} & {*n.needed_by}}
    assert 0 < len(needed) < len(timing.nodes)
    assert {name for name, value in ticks().items() if value != NEVER} == needed
    simulator.select(range(len(timing.tensors)))
    assert NEVER not in ticks().values()
    simulator.select([])
    assert NEVER not in ticks().values()  # what they took before stays


def test_updates_of_several_samples_count_with_their_share() -> None:
    found = step(accumulate=3)
    timing = timing_of(found.plan, "host")
    applied = {node.name for node in found.plan.training.apply}
    assert {node.name for node in timing.nodes if node.every == 3} == applied != set()
    assert {node.every for node in timing.nodes} == {1, 3}
    times = time_here(found)
    assert all(0 < times[node.name] < 10**8 for node in timing.nodes)


def test_a_clock_that_stands_still_does_not_hide_what_ran() -> None:
    found = step()
    timing = timing_of(found.plan, "host")
    project = found.library(Interface(timing=timing))
    name = "src/mct_model.c"
    frozen = project.files[name].replace("mct_ticks()", "(uint32_t)0")
    project = Project({**project.files, name: frozen})
    simulator = CompiledSimulator(found.plan, project=project)
    x = np.zeros((1, *found.input_type.shape[1:]), np.int8)
    simulator.train(x, [1], [LearningRate(RATE.mult_q31, RATE.shift)])
    assert set(simulator.fewest_ticks(len(timing.nodes))) == {1}

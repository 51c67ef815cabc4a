"""Threads of the simulated C: as many as are asked for, the same bits, none left behind."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from mcutrain.pipeline import TrainingStep, prepare
from mcutrain.simulation import CompiledSimulator
from tests.simulation.networks import rates, samples, threaded_network

TASKS = Path("/proc/self/task")


@pytest.fixture(scope="module")
def step() -> TrainingStep:
    return prepare(threaded_network(), "full")


def trained(step: TrainingStep, portable: bool = False) -> CompiledSimulator:
    simulator = CompiledSimulator(step.plan, portable=portable)
    x, labels = samples(step.graph, 3, 4)
    simulator.train(x, labels, rates(3))
    return simulator


@pytest.mark.skipif(not TASKS.is_dir(), reason="no /proc, so threads cannot be counted")
def test_a_simulator_has_its_threads_as_long_as_it_lives(
    step: TrainingStep, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCT_THREADS", "3")
    before = len(list(TASKS.iterdir()))
    simulator = trained(step)
    assert len(list(TASKS.iterdir())) == before + 2
    del simulator
    gc.collect()
    assert len(list(TASKS.iterdir())) == before


@pytest.mark.parametrize("threads", ["1", "2", "4", "-3", "1000", "many"])
def test_any_number_of_threads_ends_with_the_portable_bits(
    threads: str, step: TrainingStep, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCT_THREADS", threads)
    assert trained(step).save() == trained(step, portable=True).save()

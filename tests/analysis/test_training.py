"""Contribution by training: its numbers, its cache, its processes."""

from __future__ import annotations

import dataclasses
import importlib.machinery
import json
import os
import shlex
import socket
import subprocess
import sys
import types
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mcutrain_host.cache import is_sound

from mcutrain import data, pipeline
from mcutrain.analysis import candidates, training, workers
from mcutrain.analysis.candidates import (
    bias_candidate,
    bias_candidates,
    residual_candidates,
    weight_candidate,
    weight_candidates,
)
from mcutrain.analysis.problem import Problem, held_out
from mcutrain.analysis.progress import Estimate, Times, TrialsDone
from mcutrain.analysis.store import Store
from mcutrain.analysis.training import base_depth, by_training
from mcutrain.analysis.workers import Execution
from mcutrain.errors import AnalysisError, DataError
from mcutrain.selection.contribution import SHARES, Contributions
from mcutrain.simulation.build import find_compiler
from mcutrain.simulation.rates import LearningRate, Schedule
from mcutrain.sparse import UpdateScheme, find_head
from mcutrain.sparse.scheme import USUAL_BITS
from tests.analysis.conftest import SETTINGS, two_layers

HERE = Execution(jobs=1)
TRIALS = 13
"""Of the small problem. Another process of the tests may have left their results in the cache."""


@pytest.fixture(scope="module")
def found(small: Problem) -> Contributions:
    return by_training(small, SETTINGS, HERE)


def accuracy(problem: Problem, scheme: UpdateScheme) -> float:
    """By the whole network, as `mcutrain simulate` trains: the head alone, then the scheme."""
    graph = problem.model
    for chosen, epochs in ((UpdateScheme(), SETTINGS.head_epochs), (scheme, SETTINGS.epochs)):
        simulator = pipeline.prepare(graph, chosen).simulator(seed=1)
        count = len(problem.train_y)
        base = LearningRate.of(SETTINGS.learning_rate)
        schedule = Schedule(base, "cosine", round(0.1 * epochs * count), epochs * count)
        for epoch in range(epochs):
            index = data.order(count, epoch, 0)
            rates = [schedule.at(epoch * count + i) for i in range(count)]
            simulator.train(problem.train_x[index], problem.train_y[index], rates)
        head, state = find_head(graph), simulator.state
        trained = {
            n: dataclasses.replace(graph.tensors[n], data=state[n])
            for n in (head.weight, head.bias)
        }
        graph = dataclasses.replace(graph, tensors={**graph.tensors, **trained})
    outputs = simulator.infer(problem.test_x)
    return float((outputs.argmax(axis=1) == problem.test_y).mean())


def test_gains_are_differences_of_the_whole_networks_accuracies(
    found: Contributions, small: Problem
) -> None:
    head = accuracy(small, UpdateScheme())
    bias = accuracy(small, UpdateScheme(bias_depth=2))
    weights = accuracy(small, UpdateScheme(bias_depth=2, weights={"0": 0.5}))
    gains = found.gain("accuracy")
    assert found.head["accuracy"] == pytest.approx(head)
    assert gains.bias[2] == pytest.approx(bias - head)
    assert gains.weights[0][0.5] == pytest.approx(weights - bias)


def test_every_depth_layer_and_share_is_measured(found: Contributions, small: Problem) -> None:
    assert found.layers == tuple(layer.name for layer in small.layers)
    assert list(found.gains) == ["accuracy", "probability", "loss"]
    for gains in found.gains.values():
        assert len(gains.bias) == 3
        assert gains.bias[0] == 0
        assert {i: tuple(g) for i, g in gains.weights.items()} == {0: SHARES, 1: SHARES}
    assert found.residual_factor[USUAL_BITS] == 1
    seconds = json.loads(found.to_json())["settings"]["seconds"]
    assert seconds["trials"] + seconds["cached"] == TRIALS


def test_weights_are_measured_over_the_biases_that_gain_nearly_all() -> None:
    assert base_depth((0.0, 0.5, 0.96, 1.0, 0.98)) == 2
    assert base_depth((0.0, 0.5, 0.2, 1.0)) == 3  # 0.35 each where it falls
    assert base_depth((0.0, -0.1, -0.2)) == 0
    layers = 5
    shallow = weight_candidate(layers, 4, 0.5, base=3)
    assert (shallow.bias_depth, shallow.weights) == (3, ((4, 0.5),))
    assert weight_candidate(layers, 0, 0.5, base=3).bias_depth == 5
    values = {c: 0.1 * c.bias_depth for c in bias_candidates(layers)}
    values |= {c: 0.1 * c.bias_depth + 0.01 for c in weight_candidates(layers, 3)}
    found = candidates.gains(values, layers, 3)
    assert found.bias == pytest.approx([0.1 * k for k in range(6)])
    assert all(g == pytest.approx(0.01) for by in found.weights.values() for g in by.values())


def test_residual_bits_are_judged_by_the_worse_of_few_and_many_layers() -> None:
    few, many = (
        residual_candidates(4, weights) for weights in (((3, 1.0),), ((2, 0.25), (3, 0.25)))
    )
    measured = {bias_candidate(1): 0.5, bias_candidate(2): 0.6}
    measured |= {few[0]: 0.69, few[2]: 0.7, few[4]: 0.68, few[8]: 0.71}
    measured |= {many[0]: 0.55, many[2]: 0.65, many[4]: 0.64, many[8]: 0.65}
    factors = training._residual_factor(measured, (few, many))
    almost = {0: 0.5, 2: 1.0, 4: 0.9, 8: 1.0}
    assert factors == {bits: pytest.approx(factor) for bits, factor in almost.items()}
    nothing = dict.fromkeys(measured, 0.5)
    assert training._residual_factor(nothing, (few, many)) == {USUAL_BITS: 1.0}


def test_what_is_held_out_is_neither_trained_on_nor_the_data_sets_own_test() -> None:
    x = np.arange(10, dtype=np.uint8).reshape(10, 1, 1, 1)
    whole = data.Dataset(x, np.arange(10) % 2, ("a", "b"))
    split = held_out(whole, 6, None)
    parts = [set(part.x.ravel().tolist()) for part in (split.train, split.test)]
    assert [len(p) for p in parts] == [6, 4]
    assert not parts[0] & parts[1]
    assert [len(p) for p in (held_out(whole).train, held_out(whole).test)] == [5, 5]
    with pytest.raises(DataError, match="too few for 8 to train on and 3 to test on"):
        held_out(whole, 8, 3)


def test_shares_of_the_same_channels_are_trained_once(found: Contributions) -> None:
    """Three input channels: an eighth and a quarter of them are one channel."""
    gains = found.gain("loss").weights[0]
    assert gains[0.125] == gains[0.25]
    assert found.settings["seconds"]["trials"] < 1 + 2 + 8 + 3


@pytest.mark.slow
def test_an_interrupted_analysis_continues_in_processes_to_the_same_numbers(
    found: Contributions, small: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "analysis_folder", lambda: tmp_path)

    def interrupt(progress: TrialsDone) -> None:
        if progress.remaining_seconds is not None and progress.done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        by_training(small, SETTINGS, HERE, interrupt)
    times = Times()
    again = by_training(small, SETTINGS, Execution(jobs=2), times=times)
    assert times.cached == 3
    assert again.gains == found.gains
    assert again.residual_factor == found.residual_factor
    assert not list((tmp_path / "activations").iterdir())


def test_a_finished_analysis_trains_nothing_again(
    found: Contributions, small: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "run_trial", lambda *_: pytest.fail("trained again"))
    assert by_training(small, SETTINGS, HERE).gains == found.gains


def test_more_seeds_add_to_the_results_that_are_there(found: Contributions, small: Problem) -> None:
    times = Times()
    settings = dataclasses.replace(SETTINGS, seeds=2)
    analysis = training._Analysis(small, settings, lambda _: None, times)
    with workers.workers(HERE) as pool:
        both = analysis.outcomes((training.HEAD, bias_candidate(2)), pool)
    assert (times.cached, times.trials) == (2, 2)
    assert both[training.HEAD]["loss"] != -found.head["loss"]


def test_other_settings_have_results_of_their_own(found: Contributions, small: Problem) -> None:
    """found first, so that its results are in the cache."""
    analyses = [
        training._Analysis(p, s, print, Times())
        for p, s in (
            (small, SETTINGS),
            (small, dataclasses.replace(SETTINGS, epochs=2)),
            (small, dataclasses.replace(SETTINGS, learning_rate=0.1)),
            (small, dataclasses.replace(SETTINGS, head_epochs=3)),
            (dataclasses.replace(small, classes=4), SETTINGS),
            (dataclasses.replace(small, train_y=small.train_y[::-1]), SETTINGS),
            (dataclasses.replace(small, test_x=small.test_x[::-1]), SETTINGS),
        )
    ]
    keys = [a._key(training.HEAD, seed) for a in analyses for seed in (0, 1)]
    assert len(set(keys)) == len(keys)


def test_a_damaged_result_is_computed_again(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put("abcd", {"accuracy": 0.5})
    assert store.get("abcd") == {"accuracy": 0.5}
    (path,) = tmp_path.glob("*/*.json")
    for text in ("", "{", "[1]", '{"accuracy": "x"}', '{"accuracy": null}'):
        path.write_text(text)
        assert store.get("abcd") is None


@pytest.mark.slow
def test_a_dask_cluster_with_an_empty_cache_gives_the_same_numbers(
    found: Contributions, small: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both workers build the same objects at the same time, by a compiler that is soon done."""
    distributed = pytest.importorskip("distributed")
    monkeypatch.setenv("MCUTRAIN_CACHE", str(tmp_path))
    hasty = tmp_path / "hasty"
    hasty.write_text(f'#!/bin/sh\nexec {shlex.join(find_compiler().command)} "$@" -O0\n')
    hasty.chmod(0o755)
    monkeypatch.setenv("CC", str(hasty))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # dask's own
        with distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster:
            execution = Execution(backend="dask", scheduler=cluster.scheduler_address)
            assert by_training(small, SETTINGS, execution).gains == found.gains
    objects = list((tmp_path / "objects").glob("*.o"))
    assert objects
    assert all(map(is_sound, objects))


@pytest.mark.parametrize(
    "error",
    [
        TimeoutError("no worker after 10 seconds. Make sure that\n\nparallel_config(x=20)"),
        type("KilledWorker", (Exception,), {"__module__": "distributed.scheduler"})("no worker"),
        type("CommClosedError", (OSError,), {"__module__": "distributed.comm"})("no worker"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_cluster_that_is_lost_is_a_sentence(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As joblib raised when workers, or the scheduler, of a local Dask cluster were killed."""

    def lost(*_: object) -> Any:
        raise error
        yield

    execution = Execution(backend="ray", scheduler="tcp://10.0.0.1:8786")
    pool = workers.Workers(2, "", execution)
    monkeypatch.setattr(workers, "_ray_results", lost)
    said = r"the ray cluster tcp://10.0.0.1:8786 lost a worker, .*no worker[^\n]*continues$"
    with pytest.raises(AnalysisError, match=said):
        list(pool.results([]))


class _TaskError(Exception):
    """As ray wraps what a task raised."""

    def __init__(self, cause: Exception) -> None:
        self.cause = cause


@pytest.fixture
def fake_ray(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """Ray's calls that are used, in this process; `pip install ray` takes 250 MB."""
    ray = types.ModuleType("ray")
    ray.__spec__ = importlib.machinery.ModuleSpec("ray", None)
    ray.ahead = 0  # the most tasks that waited at once

    def remote(max_retries: int) -> Any:
        return lambda function: types.SimpleNamespace(remote=lambda *given: (function, given))

    def wait(tasks: list[Any], num_returns: int) -> tuple[list[Any], list[Any]]:
        ray.ahead = max(ray.ahead, len(tasks))
        return tasks[-1:], tasks[:-1]

    def get(task: Any) -> Any:
        try:
            return task[0](*task[1])
        except ValueError as error:
            raise _TaskError(error) from error

    ray.remote, ray.wait, ray.get, ray.cancel = remote, wait, get, lambda task, force: None
    ray.init, ray.shutdown = lambda **_: None, lambda: None
    ray.cluster_resources = lambda: {"CPU": 3.0}
    ray.exceptions = types.SimpleNamespace(RayTaskError=_TaskError)
    monkeypatch.setitem(sys.modules, "ray", ray)
    return ray


def test_ray_is_given_a_few_trials_ahead_and_returns_all(fake_ray: Any) -> None:
    with workers.workers(Execution(backend="ray", jobs=2)) as pool:
        assert (pool.count, pool.is_local) == (2, False)
        found = dict(pool.results([(str(i), int, (i,)) for i in range(20)]))
        assert found == {str(i): i for i in range(20)}
        assert fake_ray.ahead == 4
        with pytest.raises(ValueError, match="abc"):
            list(pool.results([("key", int, ("abc",))]))


@pytest.mark.usefixtures("fake_ray")
def test_a_ray_cluster_that_is_not_there_is_named() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    for where in (address, f"ray://{address}"):
        with (
            pytest.raises(AnalysisError, match=f"the ray cluster {where} does not answer"),
            workers.workers(Execution(backend="ray", scheduler=where)),
        ):
            pass


@pytest.mark.slow
def test_a_lost_process_of_this_machine_is_a_sentence() -> None:
    with (
        pytest.raises(AnalysisError, match="a worker process was ended"),
        workers.workers(Execution(jobs=2)) as pool,
    ):
        list(pool.results([("key", os._exit, (1,))]))


def test_what_a_trial_raises_is_not_called_a_lost_worker() -> None:
    with pytest.raises(ValueError, match="abc"), workers.workers(Execution(jobs=1)) as pool:
        list(pool.results([("key", int, ("abc",))]))


def test_samples_go_to_a_cluster_by_content(small: Problem, cache: Path) -> None:
    """A worker elsewhere has no file of this machine."""
    analysis = training._Analysis(small, SETTINGS, print, Times())
    mapped = np.load(_saved(cache), mmap_mode="r")
    assert isinstance(mapped, np.memmap)
    assert not isinstance(workers.sendable(mapped), np.memmap)
    assert analysis.problem is small


def _saved(folder: Path) -> Path:
    path = folder / "mapped.npy"
    np.save(path, np.arange(4))
    return path


@pytest.mark.parametrize(
    ("execution", "says"),
    [
        (Execution(backend="mpi"), "there is no backend 'mpi'"),
        (Execution(scheduler="tcp://localhost:1"), "needs --backend dask or ray"),
        (Execution(backend="ray"), r"needs the package ray, .*pip install 'mcutrain\[ray\]'"),
    ],
)
def test_what_cannot_run_is_explained(
    small: Problem, execution: Execution, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(AnalysisError, match=says):
        by_training(small, SETTINGS, execution)


@pytest.mark.slow
def test_a_cluster_that_is_not_there_is_named(
    small: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(workers, "CONNECT_SECONDS", 0.5)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(AnalysisError, match="does not answer"):
            by_training(small, SETTINGS, Execution(backend="dask", scheduler=address))


def test_the_remaining_time_follows_from_what_is_left() -> None:
    estimate = Estimate({"a": 100.0, "b": 300.0, "c": 50.0}, workers=2)
    estimate.add("a", {"build_seconds": 1.0, "train_seconds": 1.5, "test_seconds": 0.5})
    assert estimate.remaining_seconds() == pytest.approx((350 * 0.02 + 2 * 1.0) / 2)
    for key in ("b", "c"):
        estimate.add(key, {"build_seconds": 1.0, "train_seconds": 1.5, "test_seconds": 0.5})
    assert estimate.remaining_seconds() == 0


def test_samples_of_one_class_are_refused() -> None:
    graph = two_layers()
    x = np.zeros((6, 5, 5, 3), np.int8)
    names = ("cat", "dog", "bird", "fish")
    one = data.Dataset(x, np.zeros(6, np.int64), names)
    two = data.Dataset(x, np.arange(6) % 2, names)
    for split in (data.Split(one, two), data.Split(two, one)):
        with pytest.raises(DataError, match=r"all 6 \w+ samples are of the class 'cat'"):
            Problem.of(graph, split)


def test_what_an_interruption_leaves_to_be_cleaned_up_is_not_warned_of() -> None:
    """A race; whether the process that cleans up would warn is tried by itself."""
    module = "joblib.externals.loky.backend.resource_tracker"
    warn = f"import warnings; warnings.warn_explicit('leaked', UserWarning, 'f', 1, {module!r})"
    command = [sys.executable, "-c", warn]
    before = os.environ.get("PYTHONWARNINGS")
    with workers.workers(HERE):
        inside = subprocess.run(command, capture_output=True, text=True, check=True)
    after = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (inside.stderr, os.environ.get("PYTHONWARNINGS")) == ("", before)
    assert "leaked" in after.stderr

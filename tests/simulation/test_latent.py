"""Training from the latent ends with the bits of training from the samples."""

from __future__ import annotations

import ctypes
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mcutrain import data
from mcutrain.autodiff import TrainOptions
from mcutrain.codegen import Interface, generate
from mcutrain.errors import DataError, PlanError
from mcutrain.functions.training import train
from mcutrain.ir.graph import Graph
from mcutrain.memplan import Latent, Stream, TrainingPlan, find_latent, latents, plan_training
from mcutrain.pipeline import TrainingStep, prepare
from mcutrain.runs import training
from mcutrain.runs.watch import Watch
from mcutrain.simulation import (
    CompiledSimulator,
    LatentReference,
    LatentSamples,
    LatentSimulator,
    PlannedReference,
    RunSettings,
    Samples,
    kept_latents,
)
from mcutrain.sparse import UpdateScheme
from tests.memplan.fronts import draw_front, planned
from tests.memplan.test_latent import SCHEMES
from tests.memplan.test_stream import mobile_network
from tests.ops.drawing import drawn
from tests.simulation import networks
from tests.simulation.test_training_steps import QUICK

STEPS = 4
ERROR_SIZE = 2
LAST = UpdateScheme("last", 1, {}, 1)


def from_latents(plan: TrainingPlan, latent: Latent, seed: int = 7) -> LatentSimulator:
    project = generate(plan, "", interface=Interface(latent=latent.tensor))
    return LatentSimulator(plan, latent, project, seed, extra_flags=QUICK)


def assert_same_bits(plan: TrainingPlan, latent: Latent) -> None:
    """Of generated C and numpy, from the latent and from the samples."""
    graph = plan.training.forward
    x, labels = networks.samples(graph, STEPS, plan.training.classes)
    rates = networks.rates(STEPS)
    whole = PlannedReference(plan, 7)
    expected = [list(v) for v in whole.train(x, labels, rates)]
    for made in (from_latents(plan, latent), LatentReference(plan, latent, 7)):
        begin = made.front(x)
        assert begin.shape == (STEPS, *latent.type.shape[1:])
        assert [list(v) for v in made.train(begin, labels, rates)] == expected
        assert made.save() == whole.save()
        np.testing.assert_array_equal(made.infer(begin), whole.infer(x))


@settings(max_examples=8)
@given(
    graph=drawn(draw_front),
    scheme=st.sampled_from(SCHEMES),
    stream=st.sampled_from(["auto", "off", "max"]),
    which=st.integers(0, 100),
)
@pytest.mark.slow
def test_each_latent_of_drawn_networks_gives_the_bits_of_the_samples(
    graph: Graph, scheme: UpdateScheme, stream: Stream, which: int
) -> None:
    plan = planned(graph, stream, scheme)
    found = latents(plan)
    assume(found)
    assert_same_bits(plan, found[which % len(found)])


def test_updates_of_several_samples_may_begin_with_latents() -> None:
    options = TrainOptions("int16", 2)
    step = networks.training_graph(mobile_network(), LAST, options)
    plan = plan_training(step, align_bytes=8)
    assert_same_bits(plan, find_latent(plan))


def test_samples_and_latents_may_alternate() -> None:
    plan = planned(mobile_network(), "max", LAST)
    mixed, whole = from_latents(plan, find_latent(plan)), CompiledSimulator(plan, seed=7)
    x, labels = networks.samples(plan.training.forward, STEPS, 4)
    rates = networks.rates(STEPS)
    whole.train(x, labels, rates)
    for i in range(STEPS):
        one = slice(i, i + 1)
        if i % 2:
            mixed.train(mixed.front(x[one]), labels[one], rates[one])
        else:
            CompiledSimulator.train(_of_samples(mixed), x[one], labels[one], rates[one])
    assert mixed.save() == whole.save()


def _of_samples(simulator: LatentSimulator) -> CompiledSimulator:
    """The same library, called with samples."""
    other = object.__new__(CompiledSimulator)
    other.__dict__ = {**simulator.__dict__, "input_bytes": simulator.sizes.input_bytes}
    other._train = simulator._library.mct_host_train
    return other


def test_a_latent_takes_the_place_of_a_sample_that_was_half_there() -> None:
    """Its next rows are no rows of a sample any more; a label that is none changes nothing."""
    plan = planned(mobile_network(), "max", LAST)
    made = from_latents(plan, find_latent(plan))
    assert any(segment.is_fed for segment in plan.segments)
    library = made._library
    x, labels = networks.samples(plan.training.forward, 1, 4)
    latent, half = made.front(x), x.tobytes()[: x.size // 2]
    library.mct_front.restype = ctypes.c_void_p
    assert library.mct_feed(0, half, len(half)) == 0
    assert library.mct_front() is None
    before = made.save()
    rate = ctypes.c_int64(1 << 29)
    result = (ctypes.c_int32 * 2)()
    assert library.mct_train_latent(latent.tobytes(), ctypes.c_int32(4), rate, result) == 1
    assert made.save() == before
    assert library.mct_feed(len(half), half, 1) == 0
    made.train(latent, labels, networks.rates(1))
    assert library.mct_feed(len(half) + 1, half, 1) == ERROR_SIZE
    assert made.save() != before


# -------------------------------------------------------------------------------------------- runs


@pytest.fixture(scope="module")
def step() -> TrainingStep:
    return prepare(mobile_network(), "last:2")


def split_of(graph: Graph, count: int = 24) -> data.Split:
    x, labels = networks.samples(graph, count, 4)
    names = ("a", "b", "c", "d")
    parts = (data.Dataset(x[i:j], labels[i:j], names) for i, j in ((0, 16), (16, count)))
    return data.Split(*parts)


SETTINGS = RunSettings(epochs=3, learning_rate=0.02)


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where this test's runs keep latents, and no other's."""
    monkeypatch.setattr(kept_latents, "cache_folder", lambda: tmp_path / "cache")
    return tmp_path / "cache" / "latents"


@pytest.fixture
def fronts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Of how many samples fronts were computed."""
    counts: list[int] = []
    front = LatentSimulator.front

    def counted(self: LatentSimulator, x: npt.NDArray[Any]) -> npt.NDArray[Any]:
        counts.append(len(x))
        return front(self, x)

    monkeypatch.setattr(LatentSimulator, "front", counted)
    return counts


def test_a_run_from_latents_learns_the_same_and_computes_each_front_once(
    step: TrainingStep, fronts: list[int], kept: Path
) -> None:
    split = split_of(step.graph)
    off, auto = (train(step, split, SETTINGS, latent=how) for how in ("off", "auto"))
    assert auto.saved == off.saved
    assert [e.loss for e in auto.epochs] == [e.loss for e in off.epochs]
    assert [e.test_accuracy for e in auto.epochs] == [e.test_accuracy for e in off.epochs]
    assert (off.latent, auto.latent) == ("", find_latent(step.plan).tensor)
    assert sum(fronts) == len(split.train) + len(split.test)


def test_the_next_run_finds_the_latents_of_the_one_before(
    step: TrainingStep, fronts: list[int], kept: Path
) -> None:
    split = split_of(step.graph)
    first = train(step, split, SETTINGS)
    assert len(list(kept.iterdir())) == 2
    fronts.clear()
    again = train(step, split, SETTINGS)
    assert again.saved == first.saved
    assert not fronts
    for path in kept.iterdir():
        content = bytearray(path.read_bytes())
        content[-60] ^= 1
        path.write_bytes(content)
    assert train(step, split, SETTINGS).saved == first.saved
    assert sum(fronts) == len(split.train) + len(split.test)
    assert len(list(kept.iterdir())) == 2


def test_latents_of_something_else_are_not_taken(
    step: TrainingStep, fronts: list[int], kept: Path
) -> None:
    split = split_of(step.graph)
    train(step, split, SETTINGS)
    fewer = step.graph, UpdateScheme("last", 1, {}, 1)
    others = [
        (prepare(*fewer), split, "auto"),
        (step, replace(split, train=split.train.part(0, 15)), "auto"),
        (step, split, latents(step.plan)[0].tensor),
        (step, split.each(lambda part: replace(part, x=part.x[:, ::-1])), "auto"),
    ]
    for other, samples, latent in others:
        fronts.clear()
        found = train(other, samples, SETTINGS, latent=latent)
        assert found.saved == train(other, samples, SETTINGS, latent="off").saved
        assert sum(fronts) in (len(samples.train), len(samples.train) + len(samples.test))


def test_latents_of_samples_that_are_read_otherwise_are_not_taken(
    step: TrainingStep, fronts: list[int], kept: Path
) -> None:
    """Same front and pixels, but another mean, std, scale or zero point of what it takes."""
    graph = step.graph
    x = np.random.default_rng(0).integers(0, 256, (24, *graph.tensors["x"].type.shape[1:]), "u1")
    split = split_of(graph).each(lambda part: replace(part, x=x[: len(part)]))
    begin = Samples.prepare(split, x.shape[1:], 0.02, -3, SETTINGS, data.Normalization((0,), (1,)))
    made = step.latent_simulator(find_latent(step.plan))
    others = [
        begin,
        replace(begin, normalization=data.Normalization((0.5,), (1,))),
        replace(begin, normalization=data.Normalization((0,), (0.5,))),
        replace(begin, scale=0.01),
        replace(begin, zero_point=-4),
    ]
    for samples in others:
        fronts.clear()
        found = LatentSamples.of(samples, made)
        train, test = found.train(np.arange(16), 0, 0), found.test(0, 8)
        assert sum(fronts) == 24
        np.testing.assert_array_equal(train, made.front(samples.train(np.arange(16), 0, 0)))
        np.testing.assert_array_equal(test, made.front(samples.test(0, 8)))


def test_kept_latents_are_bounded_and_the_oldest_go_first(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [kept_latents.kept_latents("front", str(i), "") for i in range(4)]
    values = np.arange(100, dtype=np.int8).reshape(10, 10)
    kept_latents.keep_latents(paths[0], values)
    size = paths[0].stat().st_size
    monkeypatch.setattr(kept_latents, "MOST_BYTES", 3 * size)
    for age, path in enumerate(paths[1:3], start=1):
        kept_latents.keep_latents(path, values + age)
    for age, path in enumerate(paths[:3]):
        os.utime(path, (age, age))
    assert kept_latents.read_latents(paths[0], (10, 10)) is not None  # used now
    kept_latents.keep_latents(paths[3], values)
    assert [path.exists() for path in paths] == [True, False, True, True]
    monkeypatch.setattr(kept_latents, "MOST_BYTES", 99)
    kept_latents.keep_latents(paths[1], values)
    assert not paths[1].exists()
    assert kept_latents.read_latents(paths[0], (5, 20)) is None


def test_a_disk_that_keeps_nothing_does_not_stop_a_run(
    step: TrainingStep, kept: Path, fronts: list[int]
) -> None:
    kept.parent.mkdir()
    kept.write_text("no folder")
    split = split_of(step.graph)
    auto, off = (train(step, split, SETTINGS, latent=how) for how in ("auto", "off"))
    assert auto.saved == off.saved


def test_samples_that_are_varied_in_a_few_ways_have_latents_of_each(
    step: TrainingStep, fronts: list[int], kept: Path
) -> None:
    split = split_of(step.graph)
    varied = replace(SETTINGS, augment=("noise",), versions=2, epochs=5)
    off, auto = (train(step, split, varied, latent=how) for how in ("off", "auto"))
    assert auto.saved == off.saved
    assert (off.latent, auto.latent) == ("", find_latent(step.plan).tensor)
    assert sum(fronts) == 2 * len(split.train) + len(split.test)
    fronts.clear()
    other = replace(varied, seed=3)
    auto = train(step, split, other)
    assert auto.saved == train(step, split, other, latent="off").saved
    assert sum(fronts) == 2 * len(split.train)  # the test's are the same
    samples = training.prepare_run(step, split, varied).samples
    index = np.arange(len(split.train))
    epochs = [samples.train(index, epoch, 0).tobytes() for epoch in range(4)]
    assert epochs[0] == epochs[2] != epochs[1] == epochs[3]


def test_versions_of_samples_that_are_as_they_are_make_no_sense(step: TrainingStep) -> None:
    for wrong in (replace(SETTINGS, versions=2), replace(SETTINGS, versions=-1, flip=True)):
        with pytest.raises(DataError, match="give an augmentation, too"):
            train(step, split_of(step.graph), wrong)


def test_an_augmentation_that_there_is_not_is_a_sentence(step: TrainingStep) -> None:
    with pytest.raises(DataError, match="'noise:3' is no augmentation: give some of time-shift, "):
        train(step, split_of(step.graph), replace(SETTINGS, augment=("noise:3",)))


def test_a_checkpoint_goes_on_with_and_without_latents(step: TrainingStep, tmp_path: Any) -> None:
    split, file = split_of(step.graph), tmp_path / "run.npz"
    expected = train(step, split, SETTINGS, latent="off")

    def stop(progress: Any) -> None:
        if progress.trained >= len(split.train):
            raise KeyboardInterrupt

    watch = Watch(training=stop)
    with pytest.raises(KeyboardInterrupt):
        train(step, split, SETTINGS, checkpoint=file, latent="auto", watch=watch)
    found = train(step, split, SETTINGS, checkpoint=file, latent="off")
    assert found.saved == expected.saved


def test_varied_samples_have_no_latents(step: TrainingStep) -> None:
    split, name = split_of(step.graph), find_latent(step.plan).tensor
    latent = step.latent_simulator(find_latent(step.plan))
    for varied in (
        RunSettings(flip=True),
        RunSettings(crop_pixels=1),
        RunSettings(augment=("noise",)),
    ):
        made = training.fastest_simulator(step, split, varied)
        assert not isinstance(made, LatentSimulator)
        with pytest.raises(DataError, match="every epoch varies the samples"):
            training.fastest_simulator(step, split, varied, latent=name)
        with pytest.raises(DataError, match="every epoch varies the samples"):
            training.prepare_run(step, split, varied, simulator=lambda: latent)


def test_latents_that_take_too_much_memory_or_save_too_little_are_left(
    step: TrainingStep, monkeypatch: pytest.MonkeyPatch
) -> None:
    split = split_of(step.graph)

    def takes_latents() -> bool:
        return isinstance(training.fastest_simulator(step, split, SETTINGS), LatentSimulator)

    assert takes_latents()
    kept_bytes = find_latent(step.plan).size_bytes * 24
    monkeypatch.setattr(training, "MOST_LATENT_BYTES", kept_bytes)
    assert takes_latents()
    monkeypatch.setattr(training, "MOST_LATENT_BYTES", kept_bytes - 1)
    assert not takes_latents()
    monkeypatch.undo()
    monkeypatch.setattr(training, "saves_much", lambda *_: False)
    assert not takes_latents()


def test_a_name_that_is_no_latent_is_a_sentence(step: TrainingStep) -> None:
    with pytest.raises(PlanError, match="cannot begin with 'nothing'"):
        training.fastest_simulator(step, split_of(step.graph), SETTINGS, latent="nothing")


def test_a_learning_rate_is_found_from_latents_too(step: TrainingStep) -> None:
    wanted = RunSettings(epochs=1)
    split = split_of(step.graph, 40)
    made = training.fastest_simulator(step, split, wanted)
    assert isinstance(made, LatentSimulator)
    input_bytes = made.sizes.input_bytes
    other = next(t for t in latents(step.plan) if t.size_bytes != input_bytes)
    slow = LatentReference(step.plan, other)  # which is no sample by its size
    found = [
        training.prepare_run(step, split, wanted, simulator=simulator).settings.learning_rate
        for simulator in (lambda: slow, lambda: made, lambda: step.simulator(1))
    ]
    assert found[0] == found[1] == found[2]

"""A class gets its weights from a few samples: numpy and C, at the limits, and what it is worth."""

from __future__ import annotations

import ctypes
import math
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import mcutrain_firmware
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcutrain import prepare
from mcutrain.autodiff import Classifier
from mcutrain.codegen import Interface
from mcutrain.errors import DataError, McutrainError, SchemeError
from mcutrain.ir.graph import Graph
from mcutrain.memplan import find_latent
from mcutrain.pipeline import TrainingStep
from mcutrain.quant import random_start
from mcutrain.quant.imprint import MOST_SAMPLES, centre_of, imprinted, row_scale
from mcutrain.quant.prototypes import MEAN_BITS, class_means, rounded_division
from mcutrain.simulation import CompiledSimulator, LatentSimulator
from mcutrain.simulation.build import WARNINGS, find_compiler
from mcutrain.sparse import find_head, parse_scheme
from tests.quant.test_head import averaged, per_channel
from tests.simulation.networks import rates, residual_network, samples
from tests.simulation.test_resampling import UNDEFINED
from tests.simulation.test_training_steps import QUICK

Array = npt.NDArray[Any]
CLASSES = 4
RUNTIME = Path(mcutrain_firmware.__file__).parent / "runtime"


class Params(ctypes.Structure):
    _fields_ = (
        ("centre", ctypes.c_void_p),
        ("features", ctypes.c_int32),
        ("zero_point", ctypes.c_int32),
        ("residual_bits", ctypes.c_int32),
    )


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The C by itself; undefined behaviour ends it."""
    library = tmp_path_factory.mktemp("imprint") / "imprint.so"
    flags = ("-std=c11", *UNDEFINED, *WARNINGS, "-shared", "-fPIC", f"-I{RUNTIME}")
    command = (*find_compiler().command, *flags, "-o", str(library), str(RUNTIME / "mct_imprint.c"))
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(library))


def pointer(array: Array) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def assert_same_row(
    runtime: ctypes.CDLL,
    x: Array,
    zero_point: int,
    centre: Array,
    known: tuple[Array, Array],
    times: int = 1,
) -> Array:
    """The row of class 0 beside all others, of samples that come `times` times."""
    w, b = (np.concatenate([np.zeros_like(a[:1]), a]) for a in known)
    w, b, codes = np.ascontiguousarray(w), np.ascontiguousarray(b), np.ascontiguousarray(centre)
    params = Params(codes.ctypes.data, x.shape[1], zero_point, 0)
    sums = np.zeros(x.shape[1], np.int32)
    for sample in np.repeat(x, times, axis=0):
        runtime.mct_imprint_sums(ctypes.byref(params), pointer(sample), pointer(sums))
    count = len(x) * times
    exact = times * (x.astype(np.int64) - zero_point).sum(axis=0)
    np.testing.assert_array_equal(sums, exact)
    expected = imprinted(exact, count, codes.astype(np.int64) - zero_point, known)
    runtime.mct_imprint_row(
        ctypes.byref(params), pointer(sums), count, 0, len(w), pointer(w), None, pointer(b)
    )
    np.testing.assert_array_equal(w[0], expected.w)
    assert int(b[0]) == expected.b
    np.testing.assert_array_equal(w[1:], known[0])
    np.testing.assert_array_equal(b[1:], known[1])
    return w[0]


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), data=st.data())
def test_c_and_numpy_write_the_same_row(
    runtime: ctypes.CDLL, seed: int, data: st.DataObject
) -> None:
    features, others = data.draw(st.integers(1, 40)), data.draw(st.integers(1, 6))
    zero_point, reach = data.draw(st.integers(-128, 127)), data.draw(st.integers(0, 127))
    rng = np.random.default_rng(seed)
    x = rng.integers(-128, 128, (data.draw(st.integers(1, 9)), features)).astype(np.int8)
    centre = rng.integers(-128, 128, features).astype(np.int8)
    w = rng.integers(-reach - 1, reach + 1, (others, features)).astype(np.int8)
    b = rng.integers(-(2**30), 2**30 + 1, others).astype(np.int32)
    assert_same_row(runtime, x, zero_point, centre, (w, b))


@pytest.mark.draws(8)
@pytest.mark.parametrize("x", [-128, 127])
@pytest.mark.parametrize("centre", [-128, 127])
@pytest.mark.parametrize("weight", [-128, 127, 0])
@pytest.mark.parametrize("bias", [-(2**30), 2**30])
def test_nothing_overflows_at_the_limits(
    runtime: ctypes.CDLL, x: int, centre: int, weight: int, bias: int
) -> None:
    """Of sizes, counts and numbers; the sanitizer ends what does."""
    features = 32896
    rows = np.full((1, features), x, np.int8)
    codes = np.full(features, centre, np.int8)
    known = np.full((3, features), weight, np.int8), np.full(3, bias, np.int32)
    for zero_point in (-128, 127):
        found = assert_same_row(runtime, rows, zero_point, codes, known)
        assert x == centre or weight == 0 or set(np.abs(found.astype(int))) == {127}


def test_as_many_samples_as_there_may_be(runtime: ctypes.CDLL) -> None:
    x, centre = np.full((1, 3), 127, np.int8), np.full(3, -128, np.int8)
    known = np.full((2, 3), 5, np.int8), np.zeros(2, np.int32)
    assert_same_row(runtime, x, -128, centre, known, times=MOST_SAMPLES)


@given(st.integers(1, 2**30 - 1), st.integers(1, 2**50 - 1))
def test_the_root_is_exact_to_its_bits(runtime: ctypes.CDLL, squares: int, distance: int) -> None:
    root, shift = row_scale(squares, distance)
    runtime.mct_imprint_root.restype = ctypes.c_uint32
    found = ctypes.c_int32()
    numbers = ctypes.c_uint64(squares), ctypes.c_uint64(distance), ctypes.byref(found)
    assert (runtime.mct_imprint_root(*numbers), found.value) == (root, shift)
    assert root < 2**32
    assert shift >= 1
    assert root / 2**shift == pytest.approx(math.sqrt(squares / distance), rel=2**-14)


def test_a_row_is_as_long_as_the_others_and_their_mean_at_the_centre() -> None:
    rng = np.random.default_rng(1)
    w = rng.integers(-60, 60, (5, 64)).astype(np.int8)
    b = rng.integers(-(2**20), 2**20, 5).astype(np.int32)
    centre = rng.integers(0, 200, 64)
    row = imprinted(rng.integers(0, 900, 64), 4, centre, (w, b))
    lengths = (w.astype(float) ** 2).sum(axis=1)
    assert (row.w.astype(float) ** 2).sum() == pytest.approx(lengths.mean(), rel=0.01)
    at_centre = (w.astype(np.int64) @ centre + b).mean()
    assert row.w.astype(np.int64) @ centre + row.b == pytest.approx(at_centre, abs=0.5)


def test_the_centre_is_the_mean_of_class_means() -> None:
    """However many samples each has."""
    x = np.array([[10, -20], [20, -20], [90, 60]])
    means, _ = class_means(x + 128, np.array([0, 0, 1]), 2)
    assert centre_of(means, -128).tolist() == [53, 20]  # (15 + 90) / 2 goes up


# ------------------------------------------------------------------------ of a network


def centre_for(step: TrainingStep, x: Array) -> tuple[int, ...]:
    """Of what the network makes of samples."""
    head = Classifier.of(step.plan.training)
    whole = prepare(step.graph, "head", stream="off")
    found = whole.latent_simulator(find_latent(whole.plan, head.x)).front(x)
    sums = (found.reshape(len(x), -1).astype(np.int64) - head.zero_point).sum(axis=0)
    mean = rounded_division(sums << MEAN_BITS, len(x))
    return tuple(centre_of(mean[np.newaxis], head.zero_point).tolist())


STEPS: dict[str, dict[str, Any]] = {
    "head": {},
    "more layers": {"scheme": "last:3"},
    "accumulated": {"accumulate": 3},
    "int16": {"gradient_dtype": "int16"},
    "no residual bits": {"scheme": replace(parse_scheme("head"), head_residual_bits=0)},
    "two residual bits": {"scheme": replace(parse_scheme("last:2"), head_residual_bits=2)},
    "four residual bits": {"scheme": replace(parse_scheme("head"), head_residual_bits=4)},
    "elastic": {"scheme": "last:3", "elastic": True},
    "gate": {"gate": 0.5},
}


def step_of(name: str, classes: int = CLASSES) -> TrainingStep:
    graph = residual_network(classes=2)
    start = random_start(graph, find_head(graph).node, classes, 0)
    return prepare(graph, classes=classes, head_start=start, **STEPS[name])


def compiled(step: TrainingStep, centre: tuple[int, ...], **options: Any) -> CompiledSimulator:
    return CompiledSimulator(
        step.plan,
        seed=7,
        extra_flags=options.pop("flags", QUICK),
        project=step.library(Interface(centre=centre, **options)),
    )


@pytest.mark.draws(4)
@pytest.mark.parametrize("name", STEPS)
def test_c_and_numpy_end_with_the_same_state(name: str) -> None:
    """Training before and after, any class, any number of known ones."""
    step = step_of(name)
    x, labels = samples(step.plan.training.forward, 12, CLASSES)
    centre = centre_for(step, x)
    ours, theirs = compiled(step, centre), step.reference(7)
    for label, known in ((3, 3), (0, 4), (2, 1), (1, 2)):
        for simulator in (ours, theirs):
            simulator.train(x[:6], labels[:6], rates(6))
        before = ours.save()
        ours.imprint(x[6:], label, known)
        theirs.imprint(x[6:], label, known, centre)
        assert ours.save() == theirs.save() != before
    np.testing.assert_array_equal(ours.infer(x), theirs.infer(x))


@pytest.mark.parametrize("name", STEPS)
def test_a_class_that_is_forgotten_has_the_row_it_had_at_first(name: str) -> None:
    """In C as in numpy; the others keep what they have learnt, and training goes on alike."""
    step = step_of(name)
    x, labels = samples(step.plan.training.forward, 12, CLASSES)
    centre = centre_for(step, x)
    ours, theirs = compiled(step, centre), step.reference(7)
    head = Classifier.of(step.plan.training)
    first = {n: np.array(v) for n, v in theirs.state.items()}
    for simulator in (ours, theirs):
        simulator.train(x, labels, rates(12))
    ours.imprint(x[6:], 2, 4)
    theirs.imprint(x[6:], 2, 4, centre)
    learnt = {n: np.array(v) for n, v in theirs.state.items()}
    ours.forget_class(2)
    theirs.forget_class(2)
    assert ours.save() == theirs.save()
    for weight in (head.weight, head.bias):
        found = theirs.state[weight]
        np.testing.assert_array_equal(found[2], first[weight][2])
        assert (first[weight][2] != learnt[weight][2]).any()
        np.testing.assert_array_equal(np.delete(found, 2, 0), np.delete(learnt[weight], 2, 0))
    for simulator in (ours, theirs):
        simulator.train(x, labels, rates(12))
    assert ours.save() == theirs.save()


def test_all_classes_forgotten_are_the_classifier_that_came_with_it() -> None:
    step = step_of("head")
    x, labels = samples(step.plan.training.forward, 12, CLASSES)
    ours = compiled(step, centre_for(step, x))
    begun = step.reference(7)
    ours.train(x, labels, rates(12))
    for label in range(CLASSES):
        ours.forget_class(label)
    np.testing.assert_array_equal(ours.infer(x), begun.infer(x))


@pytest.mark.parametrize("label", [-1, CLASSES])
def test_a_class_that_is_none_cannot_be_forgotten(label: int) -> None:
    step = step_of("head")
    x, _ = samples(step.plan.training.forward, 4, CLASSES)
    ours = compiled(step, centre_for(step, x))
    before = ours.save()
    for simulator in (ours, step.reference(7)):
        with pytest.raises(DataError, match=f"class {label} is none of {CLASSES}"):
            simulator.forget_class(label)
    assert ours.save() == before


@pytest.mark.parametrize("name", ["head", "no residual bits", "two residual bits"])
def test_the_other_classes_keep_their_outputs(name: str) -> None:
    step = step_of(name)
    x, labels = samples(step.plan.training.forward, 12, CLASSES)
    simulator = compiled(step, centre_for(step, x))
    simulator.train(x, labels, rates(12))
    before = simulator.infer(x)
    simulator.imprint(x[:5], 1, 4)
    after = simulator.infer(x)
    kept = [0, 2, 3]
    np.testing.assert_array_equal(before[:, kept], after[:, kept])
    assert (before[:, 1] != after[:, 1]).any()


@pytest.mark.slow
def test_portable_c_and_c_under_the_sanitizer_write_the_same() -> None:
    step = step_of("more layers")
    x, _ = samples(step.plan.training.forward, 8, CLASSES)
    centre, saved = centre_for(step, x), set()
    for flags, portable in ((QUICK, False), (QUICK, True), (UNDEFINED, True)):
        project = step.library(Interface(centre=centre))
        simulator = CompiledSimulator(
            step.plan, seed=7, portable=portable, extra_flags=flags, project=project
        )
        simulator.imprint(x, 3, 3)
        saved.add(simulator.save())
    assert len(saved) == 1


def test_latents_imprint_as_their_samples_do() -> None:
    step = step_of("head")
    x, _ = samples(step.plan.training.forward, 6, CLASSES)
    centre, latent = centre_for(step, x), find_latent(step.plan)
    project = step.library(Interface(centre=centre, latent=latent.tensor))
    tail = LatentSimulator(step.plan, latent, project, 7)
    whole = compiled(step, centre)
    whole.imprint(x, 3, 3)
    tail.imprint(tail.front(x), 3, 3)
    assert tail.save() == whole.save()


def test_a_program_without_it_keeps_its_bytes() -> None:
    step = step_of("head")
    x, _ = samples(step.plan.training.forward, 4, CLASSES)
    plain, more = step.project.files, step.library(Interface(centre=centre_for(step, x))).files
    assert not any("imprint" in text for text in plain.values())
    assert more.keys() - plain.keys() == {"src/mct_imprint.c", "src/mct_imprint.h"}
    assert step.project.model_hash == step.library(Interface(centre=centre_for(step, x))).model_hash


def test_what_cannot_be_is_a_sentence() -> None:
    step = step_of("head")
    x, _ = samples(step.plan.training.forward, 4, CLASSES)
    centre = centre_for(step, x)
    ours, theirs = compiled(step, centre), step.reference(7)
    before = ours.save()
    for label, known in ((4, 3), (-1, 3), (0, 1), (1, 0), (1, 5)):
        for call in (
            lambda: ours.imprint(x, label, known),  # noqa: B023
            lambda: theirs.imprint(x, label, known, centre),  # noqa: B023
        ):
            with pytest.raises(DataError, match=f"class {label} cannot be compared with {known}"):
                call()
    with pytest.raises(DataError, match="from 1 to 65,535 samples, not 0"):
        ours.imprint(x[:0], 3, 3)
    assert ours.save() == before
    with pytest.raises(McutrainError, match="the centre has 3 features"):
        step.library(Interface(centre=(1, 2, 3)))


def _no_classifier(graph: Graph, **options: Any) -> Any:
    return lambda: Classifier.of(prepare(graph, **options).plan.training)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (_no_classifier(averaged()), "is no fully connected layer"),
        (_no_classifier(per_channel()), "have a weight scale each"),
    ],
)
def test_heads_without_a_row_for_each_class_are_refused(made: Any, said: str) -> None:
    with pytest.raises(SchemeError, match=said):
        made()

"""A step that the caller drives: the bits of `simulate`, the state as arrays, what is inside."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import mcutrain
from mcutrain import demo
from mcutrain.errors import ArgumentError, DataError, StateError
from mcutrain.ops.updating import unpack_residual
from mcutrain.pipeline import StepOptions
from mcutrain.pipeline import prepare as prepare_by
from mcutrain.runs.sample_reading import load_data, samples_of
from mcutrain.simulation import RunSettings
from mcutrain.simulation.course import Course
from mcutrain.simulation.rates import LearningRate, Schedule
from tests.cost.networks import tagging

Array = npt.NDArray[Any]
MODEL = Path(demo.__file__).parent / "fashion.int8.tflite"
RATE, COUNT = 0.03, 30
ROUNDED = 1.001
"""Units by which stochastic rounding of an update is off, at most."""
QUANTIZED_RATE = 1e-6
"""Rates are 32-bit multipliers, combined with one rounding."""


@pytest.fixture(scope="module")
def data() -> tuple[Array, Array]:
    with np.load(MODEL.parent / "fashion.npz") as file:
        names = sorted(file.files)
        x, y = (file[next(n for n in names if n.startswith(k) and "test" not in n)] for k in "xy")
    index = np.sort(np.concatenate([np.flatnonzero(y == k)[:3] for k in range(10)]))
    return x[index], y[index].astype(np.int64)


@pytest.fixture(scope="module")
def step() -> mcutrain.TrainingStep:
    return mcutrain.prepare(MODEL, "last:2")


def in_order(data: tuple[Array, Array], step: mcutrain.TrainingStep) -> tuple[Array, Array]:
    """As the first epoch of a run has them."""
    settings = RunSettings(epochs=1, learning_rate=RATE)
    split = load_data(step, data, validation=data)
    index, _ = Course(samples_of(step, split, settings), settings).indices(0, COUNT)
    return data[0][index], data[1][index]


def batches(x: Array, y: Array, size: int = 7) -> Iterator[tuple[Array, Array]]:
    for i in range(0, len(x), size):
        yield x[i : i + size], y[i : i + size]


@pytest.mark.parametrize("schedule", ["constant", "cosine"])
def test_the_bits_are_those_of_simulate(
    schedule: Any, data: tuple[Array, Array], step: mcutrain.TrainingStep, tmp_path: Path
) -> None:
    state = tmp_path / "simulated.state"
    run: dict[str, Any] = {"epochs": 1, "learning_rate": RATE, "schedule": schedule, "warmup": 0.1}
    mcutrain.simulate(MODEL, data, "last:2", validation=data, save_state=state, **run)
    rates = Schedule(LearningRate.of(RATE), schedule, round(0.1 * COUNT), COUNT).at
    trainer = mcutrain.trainer(step)
    trainer.fit(batches(*in_order(data, step)), rates)
    trainer.save(tmp_path / "own.state")
    assert (tmp_path / "own.state").read_bytes() == state.read_bytes()


def test_numpy_and_c_go_the_same_way(
    data: tuple[Array, Array], step: mcutrain.TrainingStep
) -> None:
    x, y = data[0][:3], data[1][:3]
    compiled, reference = mcutrain.trainer(step), mcutrain.trainer(step, reference=True)
    for _ in range(2):
        a, b = compiled.step(x, y, RATE), reference.step(x, y, RATE)
        assert a.losses_q16.tolist() == b.losses_q16.tolist()
        assert a.predictions.tolist() == b.predictions.tolist()
        assert compiled.saved == reference.saved
    assert compiled.predict(x).tolist() == reference.predict(x).tolist()
    assert compiled.steps_done == 6
    assert "compiled C" in compiled.summary()
    assert "numpy" in reference.summary()
    assert [r["tensor"] for r in compiled.records()] == list(compiled.state)


def test_a_seed_rounds_otherwise(data: tuple[Array, Array], step: mcutrain.TrainingStep) -> None:
    trainers = [mcutrain.trainer(step, seed=seed) for seed in (0, 1)]
    for trainer in trainers:
        trainer.step(*data, RATE)
    assert trainers[0].saved != trainers[1].saved


def test_predictions_are_of_before_the_update_and_evaluate_counts_them(
    data: tuple[Array, Array], step: mcutrain.TrainingStep
) -> None:
    trainer = mcutrain.trainer(step)
    before = trainer.predict(data[0]).argmax(axis=1)
    assert trainer.evaluate(*data) == (before == data[1]).mean()
    found = trainer.step(*data, 0.0)
    assert found.predictions.tolist() == before.tolist()
    assert found.labels.tolist() == data[1].tolist()
    assert found.loss == found.losses_q16.mean() / 65536
    assert found.records()[0]["prediction"] == before[0]


class Tensor:
    """What torch and tf have: no array, but it gives one."""

    def __init__(self, value: Array) -> None:
        self.value = value

    def detach(self) -> "Tensor":
        return self

    def numpy(self) -> Array:
        return self.value


class Loader:
    """As a torch DataLoader: iterated once an epoch, lists of tensors."""

    def __init__(self, *data: Array) -> None:
        self.data = data

    def __iter__(self) -> Iterator[list[Tensor]]:
        return ([Tensor(part) for part in batch] for batch in batches(*self.data))


def test_loaders_lists_and_generators_train_the_same(
    data: tuple[Array, Array], step: mcutrain.TrainingStep
) -> None:
    saved = set()
    for given in (Loader(*data), list(batches(*data))):
        trainer = mcutrain.trainer(step)
        assert len(trainer.fit(given, RATE, epochs=2).losses_q16) == 2 * COUNT
        saved.add(trainer.saved)
    twice = mcutrain.trainer(step)
    for _ in range(2):
        twice.fit(batches(*data), RATE)
    assert saved == {twice.saved}
    with pytest.raises(ArgumentError, match="a generator can be read once"):
        twice.fit(batches(*data), RATE, epochs=2)


def test_a_callback_ends_a_fit_and_a_schedule_is_asked_for_each_step(
    data: tuple[Array, Array], step: mcutrain.TrainingStep
) -> None:
    asked: list[int] = []

    def rate(number: int) -> float:
        asked.append(number)
        return RATE / (1 + number)

    trainer, seen = mcutrain.trainer(step), []

    def stop(given: object, outcome: mcutrain.StepOutcome) -> bool:
        seen.append((given, len(outcome.losses_q16)))
        return len(seen) == 2

    trainer.fit(batches(*data), rate, callbacks=[stop])
    assert seen == [(trainer, 7), (trainer, 7)]
    assert asked == list(range(14))


@pytest.mark.parametrize("reference", [False, True])
def test_state_is_read_and_written_by_name(
    reference: bool, data: tuple[Array, Array], step: mcutrain.TrainingStep, tmp_path: Path
) -> None:
    trainer, other = (mcutrain.trainer(step, reference=reference) for _ in range(2))
    trainer.step(data[0][:3], data[1][:3], RATE)
    assert set(trainer.trained) <= set(trainer.state)
    changed = [n for n in trainer.state if not np.array_equal(trainer.state[n], other.state[n])]
    assert changed
    for name in changed:
        other.state[name] = trainer.state[name]
    assert {n: v.tolist() for n, v in other.state.items()} == {
        n: v.tolist() for n, v in trainer.state.items()
    }
    assert other.predict(data[0][:3]).tolist() == trainer.predict(data[0][:3]).tolist()
    trainer.save(tmp_path / "a.state")
    again = mcutrain.trainer(step, reference=not reference, state=tmp_path / "a.state")
    assert again.saved == trainer.saved != other.saved  # counters stay


def test_a_state_takes_only_what_fits(step: mcutrain.TrainingStep, tmp_path: Path) -> None:
    trainer = mcutrain.trainer(step)
    before = trainer.saved
    weight = next(n for n in trainer.trained if trainer.state[n].dtype == np.int8)
    now = trainer.state[weight]
    with pytest.raises(DataError, match="has the shape"):
        trainer.state[weight] = now[:1]
    with pytest.raises(DataError, match="takes integers"):
        trainer.state[weight] = now * 0.5
    for wrong in (-128, 128):
        with pytest.raises(DataError, match="from -127 to 127"):
            trainer.state[weight] = np.full(now.shape, wrong)
    with pytest.raises(ArgumentError, match="no tensor 'w'; it has"):
        trainer.state["w"] = now
    with pytest.raises(ArgumentError, match="all of its tensors"):
        del trainer.state[weight]
    (tmp_path / "no.state").write_bytes(b"nothing")
    with pytest.raises(StateError, match=r"no\.state"):
        trainer.load(tmp_path / "no.state")
    assert trainer.saved == before


@pytest.mark.parametrize(("accumulate", "dtype"), [(1, "int8"), (2, "int8"), (1, "int16")])
def test_gradients_are_what_the_next_step_subtracts(
    accumulate: int, dtype: Any, data: tuple[Array, Array]
) -> None:
    step = mcutrain.prepare(MODEL, "last:2", accumulate=accumulate, gradient_dtype=dtype)
    trainer, x, y = mcutrain.trainer(step), data[0][:1], data[1][:1]
    trainer.step(data[0][1:5], data[1][1:5], RATE)
    before, saved = dict(trainer.state), trainer.saved
    found = [trainer.gradients(x, y)]
    assert trainer.saved == saved
    trainer.step(x, y, RATE)
    if accumulate == 2:
        found.append(trainer.gradients(x, y))
        trainer.step(x, y, RATE)
    assert set(found[0]) == set(trainer.trained)
    for name in found[0]:
        moved = masters(step, before, name) - masters(step, trainer.state, name)
        unit = 1 / (1 << bits_of(step, name))
        expected = RATE * sum(one[name] for one in found)
        limit = 8 if before[name].dtype == np.int8 else 1024
        inside = np.abs(expected) < limit
        assert inside.any()
        room = unit * ROUNDED + np.abs(expected) * QUANTIZED_RATE
        assert (np.abs(moved - expected) <= room)[inside].all(), name


def bits_of(step: mcutrain.TrainingStep, name: str) -> int:
    nodes = (*step.plan.training.graph.nodes, *step.plan.training.apply)
    rules = [
        getattr(n.op, "rule", None) for n in nodes if step.plan.training.updated[name] in n.outputs
    ]
    return max(next(rule.residual_bits for rule in rules if rule is not None), 0)


def masters(step: mcutrain.TrainingStep, state: Any, name: str) -> Array:
    """Weights with their residual bits."""
    bits, w = bits_of(step, name), state[name].astype(np.float64)
    if not bits:
        return np.asarray(w)
    updated = step.plan.training.updated
    nodes = (*step.plan.training.graph.nodes, *step.plan.training.apply)
    node = next(n for n in nodes if updated[name] in n.outputs)
    residual = next(s for s, new in updated.items() if new == node.outputs[1])
    return np.asarray(
        w + unpack_residual(state[residual], bits, w.size).reshape(w.shape) / (1 << bits)
    )


def test_hooks_and_values_are_the_tensors_of_the_step(
    data: tuple[Array, Array], step: mcutrain.TrainingStep
) -> None:
    compiled, reference = mcutrain.trainer(step), mcutrain.trainer(step, reference=True)
    x, y = data[0][:1], data[1][:1]
    with pytest.raises(ArgumentError, match="reference=True"):
        compiled.hook(print)
    seen: dict[str, Array] = {}
    remove = reference.hook(lambda node, tensor, value: seen.update({tensor: value}))
    values = compiled.values(x, y)
    reference.step(x, y, 0.0)
    assert {n: v.tolist() for n, v in seen.items()} == {n: v.tolist() for n, v in values.items()}
    assert values[step.plan.training.loss][0] == compiled.step(x, y, 0.0).losses_q16[0]
    seen.clear()
    remove()
    reference.step(x, y, 0.0)
    assert not seen


def test_what_does_not_fit_is_said(data: tuple[Array, Array], step: mcutrain.TrainingStep) -> None:
    trainer, (x, y) = mcutrain.trainer(step), data
    cases: list[tuple[str, Any, Any]] = [
        ("give y, a class number", x, None),
        ("30 samples, but 29 labels", x, y[1:]),
        ("no sample", x[:0], y[:0]),
        ("label 99 is not one of the step's 10 classes", x[:1], [99]),
    ]
    for said, samples, labels in cases:
        with pytest.raises(DataError, match=said):
            trainer.step(samples, labels, RATE)
    with pytest.raises(ArgumentError, match="rate of step 0 is 'fast'"):
        trainer.step(x, y, "fast")
    with pytest.raises(DataError, match="is dict, not"):
        trainer.fit([{"x": x, "y": y}])
    with pytest.raises(DataError, match="gave no batch"):
        trainer.fit([])
    with pytest.raises(DataError, match="these are 30"):
        trainer.gradients(x, y)
    assert trainer.steps_done == 0


def test_labels_of_their_own_are_learnt_in_any_batch() -> None:
    """A batch whose rows have one 1 each is no batch of classes."""
    step = prepare_by(tagging(1), "head", StepOptions(loss="binary-cross-entropy"))
    drawn = np.random.default_rng(0)
    x = drawn.integers(-100, 100, (6, *step.input_type.shape[1:])).astype(np.int8)
    y = np.eye(3, dtype=np.uint8)[[0, 1, 2, 0, 1, 1]]
    one, other = mcutrain.trainer(step), mcutrain.trainer(step)
    one.step(x, y, 0.01)
    for i in range(6):
        other.step(x[i : i + 1], y[i : i + 1], 0.01)
    assert one.saved == other.saved
    outputs = one.predict(x).reshape(6, 3)
    threshold = step.plan.training.threshold
    assert threshold is not None
    assert one.evaluate(x, y) == pytest.approx(((outputs > threshold) == y).mean())
    assert one.evaluate(x, np.zeros_like(y)) == pytest.approx((outputs <= threshold).mean())
    assert one.gradients(x[:1], y[:1])


@pytest.mark.parametrize(
    ("x", "y"), [(3, [1]), (None, [1]), ([[1, 2], [3]], [1, 2]), ("images", [1])]
)
def test_what_is_no_batch_gets_a_sentence(x: Any, y: Any) -> None:
    step = prepare_by(tagging(1), "head", StepOptions(loss="binary-cross-entropy"))
    with pytest.raises(DataError, match="batch"):
        mcutrain.trainer(step).step(x, y, 0.01)


def test_a_fit_needs_batches_and_epochs() -> None:
    step = prepare_by(tagging(1), "head", StepOptions(loss="binary-cross-entropy"))
    x = np.zeros((2, *step.input_type.shape[1:]), np.int8)
    batch, calls = (x, np.array([[1, 0, 1], [0, 0, 1]], np.uint8)), []
    for given, epochs in ((5, 1), ([batch], 0), ([batch], 1.5)):
        with pytest.raises(ArgumentError):
            mcutrain.trainer(step).fit(given, 0.01, epochs=epochs)  # type: ignore[arg-type]

    def enough(*_: object) -> np.bool_:
        calls.append(1)
        return np.bool_(True)

    mcutrain.trainer(step).fit([batch] * 4, 0.01, callbacks=[enough])
    assert len(calls) == 1

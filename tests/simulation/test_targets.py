"""Regression to real targets: numpy and C alike, gradients as derived, and what is said of data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from mcutrain import simulate
from mcutrain.data import Dataset, Split, Targets, load
from mcutrain.errors import DataError
from mcutrain.ir.graph import TensorType
from mcutrain.ops.target_error import FINER, HUBER_STEPS, UNIT_STEPS, Kind, RealTargetError
from mcutrain.pipeline import StepOptions, prepare
from mcutrain.pipeline.losses import fit_targets
from mcutrain.runs.result import SimulationResult
from tests.simulation.networks import residual_network

LOSSES = ("mse", "huber", "absolute")
Array = npt.NDArray[np.float64]


def learnable(count: int = 60) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float32]]:
    """Samples and two targets that they say, in different units."""
    graph, random = residual_network(), np.random.default_rng(0)
    level = random.uniform(-60, 60, (count, 1, 1, 1))
    shape = (count, *graph.tensors[graph.inputs[0]].type.shape[1:])
    x = np.clip(level + random.normal(0, 20, shape), -128, 127).astype(np.int8)
    mean = x.reshape(count, -1).mean(axis=1)
    return x, np.stack([mean, 100 - 2 * mean], axis=1).astype(np.float32)


@pytest.mark.parametrize("loss", LOSSES)
def test_numpy_and_c_learn_targets_alike_and_the_error_falls(loss: str) -> None:
    def learnt(*, reference: bool) -> SimulationResult:
        return simulate(
            residual_network(),
            learnable(),
            "last:2",
            epochs=2,
            learning_rate=0.003,
            loss=loss,
            reference=reference,
            portable=not reference,
        )

    c, by_numpy = learnt(reference=False), learnt(reference=True)
    assert c.saved == by_numpy.saved
    assert (c.mae, c.r2) == (by_numpy.mae, by_numpy.r2)
    assert c.mae is not None
    assert c.mae_before is not None
    assert c.mae < c.mae_before


def slope(kind: Kind, error: Array) -> Array:
    """The derivative of the loss by the error, both in units, of one element."""
    if kind == "absolute":
        return np.sign(error)
    limit = np.inf if kind == "squared" else HUBER_STEPS / UNIT_STEPS
    return 2 * np.clip(error, -limit, limit)


@pytest.mark.parametrize("kind", ["squared", "huber", "absolute"])
@pytest.mark.parametrize(("dtype", "least"), [("int8", 0.97), ("int16", 0.99)])
def test_the_gradient_is_that_of_real_numbers(kind: Kind, dtype: str, least: float) -> None:
    random, k, scale = np.random.default_rng(3), 40, 0.001
    y = TensorType((1, k), "int8", (0.25,), -7)
    op = RealTargetError.of(y, kind)((scale,), dtype, True, 5)
    sums = random.integers(-30000, 30000, (1, 1, 1, k)).astype(np.int32)
    target = random.integers(-8000, 8000, (1, k)).astype(np.int16)
    step, state = np.array([1, 0, 0, 0, 0], np.int64), np.zeros(3, np.int8)
    gradient, exponent, loss, _ = op.reference(step, sums, target, state)
    real = sums.ravel() * scale - (target.ravel() / FINER + 7) * 0.25
    unit = UNIT_STEPS * 0.25
    wanted = slope(kind, real / unit) * scale / unit / k
    found = gradient.ravel() * 2.0 ** float(exponent[0]) * op.gradient_scale
    assert found @ wanted / np.linalg.norm(found) / np.linalg.norm(wanted) >= least
    assert 0.95 < np.linalg.norm(found) / np.linalg.norm(wanted) < 1.05
    steps = np.abs(real / 0.25)
    limit = {"squared": np.inf, "huber": HUBER_STEPS}.get(kind, 0)
    inner = np.minimum(steps, limit)
    usual = steps if kind == "absolute" else inner * (2 * steps - inner)
    assert abs(loss[0] / 65536 - min(usual.mean(), 32768)) < 0.01 * usual.mean()


def split_of(y: npt.NDArray[np.float32]) -> Split:
    part = Dataset(np.zeros((len(y), 3), np.float32), y, ("a", "b")[: y.shape[1]])
    return Split(part, part)


def test_the_recipe_keeps_what_targets_mean() -> None:
    fitted = fit_targets(residual_network(), split_of(learnable()[1]), "auto")
    options = StepOptions(classes=fitted.classes, loss=fitted.loss, targets=fitted.targets)
    assert StepOptions.of_dict(options.to_dict()) == options
    step = prepare(residual_network(), "head", options)
    y = step.plan.training.forward.tensors[step.plan.training.forward.outputs[0]].type
    assert fitted.targets is not None
    assert (y.scale, y.zero_point) == (fitted.targets.scale, fitted.targets.zero_point)
    (header,) = (t for n, t in step.project.files.items() if n.endswith("mct_model.h"))
    assert "LABEL_BYTES of int16" in header


@pytest.mark.parametrize(
    ("low", "high"), [(-1.0, 1.0), (25.0, 346.0), (290.0, 310.0), (-9.0, -8.5)]
)
def test_codes_say_targets_to_a_part_of_an_output_step(low: float, high: float) -> None:
    y = np.linspace(low, high, 50, dtype=np.float32)[:, np.newaxis]
    targets = Targets.spanning(y)
    assert np.abs(targets.reals(targets.codes(y)) - y).max() <= targets.scale / FINER
    assert targets.clipped(y) == 0
    assert targets.scale <= 3.2 * (high - low) / 255


def test_targets_that_are_cut_are_said_because_errors_are_of_what_is_left() -> None:
    """Of the model's own four outputs, whose scale nobody made for them."""
    graph = residual_network()
    y = graph.tensors[graph.outputs[0]].type
    own = Targets(y.scale, y.zero_point)
    low, high = own.reals(np.array([-32768, 32767]))
    inside = np.linspace(low, high, 20)[:, np.newaxis] * np.ones(4)
    far = inside.copy()
    far[:3, 0] += [low, low, 3 * high]
    for rows, cut in ((inside, 0), (far, 3)):
        part = Dataset(np.zeros((20, 3), np.float32), rows.astype(np.float32), tuple("abcd"))
        notes = fit_targets(graph, Split(part, part), "auto").notes
        said = [n for n in notes if "targets are cut" in n]
        wanted = f"{2 * cut} of 160 targets are cut to {low:g} to {high:g}, and errors are told of"
        assert [n.partition(" what is left")[0] for n in said] == [wanted] * (cut > 0)
    y = np.array([[0, 0], [1, 1000], [2, 2000]], np.float32)
    assert Targets.spanning(y).cut(y) == 0
    assert Targets.spanning(y).cut(20 * y) == 4


def test_what_cannot_be_learnt_is_a_sentence() -> None:
    graph, y = residual_network(), learnable()[1]
    same = np.ones((20, 1), np.float32)
    for split, loss, classes, said in (
        (split_of(same), "auto", "auto", "'a' is 1 in all training samples"),
        (split_of(y), "cross-entropy", "auto", "cross-entropy learns classes"),
        (split_of(y), "auto", 3, "--classes 3 puts"),
    ):
        with pytest.raises(DataError, match=said):
            fit_targets(graph, split, classes, loss)
    with pytest.raises(DataError, match="y is nan in row 1"):
        Dataset(np.zeros((2, 3), np.float32), np.array([[0.5], [np.nan]], np.float32), ("a",))
    with pytest.raises(DataError, match="the loss huber compares"):
        simulate(graph, (learnable()[0], np.arange(60) % 2), "head", loss="huber", epochs=1)


def csv(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_columns_of_a_csv_become_targets(tmp_path: Path) -> None:
    rows = "".join(f"{i},{i * 2},{i / 4},{i / 8}\n" for i in range(20))
    named = csv(tmp_path / "a.csv", "x,z,target,w\n" + rows)
    bare = csv(tmp_path / "b.csv", rows)
    for path, targets, names in (
        (named, "target,w", ("target", "w")),
        (named, "2", ("target", "w")),
        (bare, "2", ("target 1", "target 2")),
    ):
        split = load(path, input_shape=(2,), targets=targets)
        assert split.names == names
        both = np.concatenate([split.train.y, split.test.y])
        x = np.concatenate([split.train.x, split.test.x])
        assert len(both) == 20
        assert (both[:, 0] == x[:, 0] / 4).all()
        assert (both[:, 1] == x[:, 0] / 8).all()


def test_columns_of_0_and_1_are_labels_that_do_not_exclude_each_other(tmp_path: Path) -> None:
    rows = [(i % 7 - 3, i % 5 - 2) for i in range(60)]
    lines = "".join(f"{a},{b},{int(a > 0)},{255 if i == 9 else int(b > 0)}\n"
                    for i, (a, b) in enumerate(rows))  # fmt: skip
    table = csv(tmp_path / "a.csv", "x,z,fan,door\n" + lines)
    split = load(table, input_shape=(2,), targets="fan,door")
    assert (split.positions, split.names, split.has_targets) == ((2,), ("fan", "door"), False)
    both = np.concatenate([split.train.y, split.test.y])
    x = np.concatenate([split.train.x, split.test.x])
    assert (both == 255).sum() == 1
    assert ((both[:, 0] == 1) == (x[:, 0] > 0)).all()
    assert load(table, input_shape=(3,), targets="1").has_targets
    reals = csv(tmp_path / "b.csv", "x,z,fan,door\n" + lines + "1,1,0,0.5\n")
    assert load(reals, input_shape=(2,), targets="fan,door").has_targets


@pytest.mark.parametrize(
    ("text", "targets", "said"),
    [
        ("x,t\n1,2\n", "u", "no column 'u' for a target: it has 'x', 't'"),
        ("x,t\n1,dog\n", "t", "line 2 has 'dog' in column 2"),
        ("x,t\n1,nan\n", "t", "line 2 has 'nan' in column 2"),
        ("1,2\n", "t", "the columns have no names"),
        ("x,t\n1,2\n", "2", "give fewer, at least 1"),
        ("x,t\n1,2\n", "t,t", "named twice"),
    ],
)
def test_bad_columns_are_sentences(tmp_path: Path, text: str, targets: str, said: str) -> None:
    with pytest.raises(DataError, match=said):
        load(csv(tmp_path / "a.csv", text), input_shape=(1,), targets=targets)

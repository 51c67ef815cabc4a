"""Several outputs that are trained together: numpy and C alike, their gradients add up."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from mcutrain_host.saved import HEADER_BYTES

from mcutrain import simulate
from mcutrain.autodiff import TrainOptions, differentiate
from mcutrain.data import TargetPart, Targets, load, of_arrays
from mcutrain.errors import DataError, ModelError, OptionError, PlanError, SchemeError
from mcutrain.formats.outputs import choosing, kept
from mcutrain.ir.graph import Graph
from mcutrain.memplan import find_latent
from mcutrain.ops.target_error import HUBER_STEPS, UNIT_STEPS
from mcutrain.pipeline import StepOptions, TrainingStep, prepare
from mcutrain.pipeline.losses import fit_to_data
from mcutrain.pipeline.several import fit_row, row_losses, row_targets
from mcutrain.runs.result import SimulationResult
from mcutrain.simulation import judging
from mcutrain.simulation.rates import LearningRate
from mcutrain.sparse import UpdateScheme, find_head, heads_of
from tests.autodiff.measure import cosine, float_derivatives, integer_derivatives, size_ratio
from tests.codegen.test_budget import Budgeted, budgeted
from tests.memplan.ladders import with_ladder
from tests.simulation.networks import detector, raw_updates

Array = npt.NDArray[Any]

RATE = LearningRate.of(0.05)
ALL = "boxes,classes,parts,tags"


def learnable(names: str = ALL, count: int = 40) -> tuple[Array, Array]:
    """Samples, and rows of what each output is to say of them."""
    random = np.random.default_rng(0)
    level = random.uniform(-60, 60, (count, 1, 1, 1))
    x = np.clip(level + random.normal(0, 30, (count, 4, 4, 2)), -128, 127).astype(np.int8)
    mean = x.mean(axis=(1, 2, 3)) / 100
    box = mean / 4
    rows = {
        "boxes": np.stack([box, -box, 2 * box, box / 2], axis=1),
        "classes": np.digitize(mean, (-0.3, 0.3))[:, None],
        "parts": np.digitize(x.mean(axis=3).reshape(count, 16), (-20, 20)),
        "tags": np.stack([mean > 0, np.abs(mean) > 0.3], axis=1),
    }
    rows["parts"][:, 3] = 255
    y = np.hstack([rows[name] for name in names.split(",")]).astype(np.float32)
    return x, y


def learnt(names: str = ALL, **more: Any) -> SimulationResult:
    given = {"epochs": 2, "learning_rate": 0.01, "losses": "boxes=huber:2", **more}
    return simulate(detector(names), learnable(names), "last:1", **given)


@pytest.mark.slow
@pytest.mark.parametrize("more", [{}, {"gradient_dtype": "int16", "accumulate": 3}])
def test_numpy_and_c_learn_all_outputs_alike(more: dict[str, Any]) -> None:
    portable, host, by_numpy = (
        learnt(portable=True, **more),
        learnt(**more),
        learnt(reference=True, **more),
    )
    assert portable.saved == host.saved == by_numpy.saved
    assert portable.outputs == host.outputs == by_numpy.outputs
    assert portable.loss == by_numpy.loss
    measures = [(score.output, score.measure) for score in portable.outputs]
    assert measures == [
        *[("boxes", "mae"), ("boxes", "r2"), ("classes", "accuracy")],
        *[("parts", "accuracy"), ("parts", "iou"), ("tags", "accuracy"), ("tags", "f1")],
    ]


def test_every_output_becomes_better() -> None:
    found = learnt(epochs=12, learning_rate=0.03)
    assert found.loss is not None
    assert found.loss_before is not None
    assert found.loss < 0.7 * found.loss_before
    after, before = (
        {(score.output, score.measure): score.value for score in scores}
        for scores in (found.outputs, found.outputs_before)
    )
    assert after["boxes", "mae"] < before["boxes", "mae"]
    for output in ("classes", "parts", "tags"):
        assert after[output, "accuracy"] > before[output, "accuracy"]


def test_one_output_of_two_learns_what_it_learns_alone() -> None:
    """The order and the weight of another output's loss change no bit of a head of its own."""
    first, second = (
        prepare(detector("classes,boxes"), "head", StepOptions(losses=f"boxes=huber:{w}"))
        for w in (1, 5)
    )
    x, y = learnable("classes,boxes")
    codes = [step.recipe.options.targets.codes(y) for step in (first, second)]
    assert (codes[0] == codes[1]).all()
    states = []
    for step in (first, second):
        simulator = step.reference(1)
        losses, predictions = simulator.train(x, codes[0], [LearningRate.of(0.01)] * len(x))
        head = heads_of(step.graph)[0]
        states.append((simulator.state[head.weight], predictions, losses))
    assert (states[0][0] == states[1][0]).all()
    assert (states[0][1] == states[1][1]).all()
    assert (states[0][2] < states[1][2]).any()


TWO = "boxes,classes"
SHARES = UpdateScheme("shares", 1, {"0": 0.5, "1": 0.5})


def two_outputs(scheme: UpdateScheme | str = "last:1", **options: Any) -> TrainingStep:
    return prepare(detector(TWO), scheme, StepOptions(losses="boxes=huber:2", **options))


def of_step(step: TrainingStep, count: int = 24) -> tuple[Array, Array]:
    """Samples and coded rows of labels."""
    assert step.recipe is not None
    assert step.recipe.options.targets is not None
    x, y = learnable(TWO, count)
    return x, step.recipe.options.targets.codes(y)


@pytest.mark.draws(3)
@pytest.mark.parametrize(
    ("scheme", "options"),
    [
        (SHARES, {"swap": "drawn"}),
        (SHARES, {"swap": "fisher", "accumulate": 3}),
        ("full", {"elastic": True}),
        (SHARES, {"elastic": True, "swap": "drawn", "gradient_dtype": "int16"}),
        ("last:1", {"part": "tail"}),
    ],
)
def test_features_of_a_step_hold_the_same_bits(
    scheme: UpdateScheme | str, options: dict[str, Any]
) -> None:
    step = two_outputs(scheme, **options)
    x, codes = of_step(step)
    if step.plan.training.is_tail:
        whole = two_outputs(scheme)
        x = whole.latent_simulator(find_latent(whole.plan)).front(x)
    found = []
    for simulator in (step.reference(7), step.simulator(7), step.simulator(7, portable=True)):
        said = []
        for here in (slice(12), slice(12, 24)):
            if "swap" in options:
                simulator.resample()
            said += [v.tolist() for v in simulator.train(x[here], codes[here], [RATE] * 12)]
        found.append((said, simulator.save(), simulator.infer(x).tolist()))
    assert found[0] == found[1] == found[2]


def test_a_tail_learns_what_the_whole_learns() -> None:
    whole, behind = two_outputs(), two_outputs(part="tail")
    x, codes = of_step(whole)
    simulators = whole.reference(7), behind.reference(7)
    latents = whole.latent_simulator(find_latent(whole.plan)).front(x)
    for simulator, begin in zip(simulators, (x, latents), strict=True):
        simulator.train(begin, codes, [RATE] * len(x))
    assert len({simulator.save()[HEADER_BYTES:] for simulator in simulators}) == 1


@pytest.mark.parametrize("elastic", [False, True])
def test_steps_that_return_in_between_end_with_the_same_bits(elastic: bool) -> None:
    step = two_outputs(elastic=elastic)
    x, codes = of_step(step, 4)
    simulator, reference = Budgeted(step.plan, budgeted(step.plan)), step.reference(7)
    for one, row in zip(x, codes, strict=True):
        losses, said = reference.train(one[None], row[None], [RATE])
        assert simulator.begin(one, row, RATE) == 0
        calls, result = simulator.finish((1, 0, 5000))
        assert calls > 2
        assert result == (losses[0], said.ravel()[0])
        assert simulator.save() == reference.save()


def test_a_cascade_of_fronts_gets_a_sentence() -> None:
    with pytest.raises(PlanError, match=r"labels \(of positions, targets or outputs\).*leave out"):
        with_ladder(two_outputs().plan.training)


def box_error(single: Graph, target: Array, weight: float) -> Any:
    """Huber's derivative by the logits, of a box that is to be the target."""
    y = single.tensors[single.outputs[0]].type

    def error(logits: Array) -> Array:
        unit = UNIT_STEPS * y.scale
        limit = HUBER_STEPS / UNIT_STEPS
        slope = np.clip((logits.ravel() - target) / unit, -limit, limit)
        return (weight * 2 * slope / unit / slope.size).reshape(logits.shape)

    return error


@pytest.mark.parametrize(("dtype", "least"), [("int8", 0.97), ("int16", 0.99)])
def test_the_trunk_gets_the_sum_of_both_gradients(dtype: str, least: float) -> None:
    graph, weight = detector("boxes,classes"), 3.0
    targets = row_targets(graph, f"boxes=huber:{weight:g}")
    losses = row_losses(graph, targets)
    head = find_head(graph).name
    updates = raw_updates(graph)
    for one in heads_of(graph):
        updates |= raw_updates(replace(graph, outputs=(one.node.outputs[0],), row=()))
    training = differentiate(graph, head, updates, losses, TrainOptions(dtype, accumulate=2))
    x, y = learnable("boxes,classes", 1)
    found = integer_derivatives(training, x, targets.codes(y)[0])
    boxes, classes = (replace(graph, outputs=(name,), row=()) for name in graph.row)
    real = targets.parts[0].targets.reals(targets.codes(y)[0, :4])
    of_boxes = float_derivatives(boxes, x, 0, error=box_error(boxes, real, weight))
    of_classes = float_derivatives(classes, x, int(y[0, 4]))
    for name in sorted(found):
        wanted = of_boxes.get(name, 0) + of_classes.get(name, np.zeros(found[name].shape))
        assert cosine(found[name], wanted) >= least, name
        assert 0.95 < size_ratio(found[name], wanted) < 1.05, name
    shared = [name for name in found if name in of_boxes and name in of_classes]
    assert len(shared) == 4, "both layers of the trunk learn from both"


def test_what_several_outputs_cannot_learn_gets_a_sentence() -> None:
    graph, both = detector("boxes,classes"), {"losses": "boxes=huber"}
    data = learnable("boxes,classes")
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("may learn classes or real targets", {}),
        ("gives probabilities", {"losses": "boxes=huber,classes=mse"}),
        ("write NAME=LOSS", {"losses": "huber"}),
        ("there is no loss 'hubert'", {"losses": "boxes=hubert"}),
        ("above 0, up to 100", {"losses": "boxes=huber:0"}),
        ("above 0, up to 100", {"losses": "boxes=huber:nan"}),
        ("without gate", {**both, "gate": 0.8}),
        ("names 'boxes' twice", {"losses": "boxes=huber,boxes=mse"}),
        ("is for one output", {**both, "loss": "mse"}),
        ("class names are of one output", {**both, "class_names": ("a", "b", "c")}),
        ("without added classes", {**both, "added": ("d",)}),
        ("without class_weights", {**both, "class_weights": "1,2"}),
        ("without distill", {**both, "distill": 0.5}),
        ("keep theirs", {**both, "classes": 3}),
    ]
    for why, given in wrong:
        with pytest.raises((SchemeError, DataError, OptionError), match=why):
            simulate(graph, data, "head", epochs=1, learning_rate=0.01, **given)
    for row, why in ((data[1][:, :4], "5 numbers"), (data[1] + 1, "labels from 0 to 2")):
        with pytest.raises(DataError, match=why):
            simulate(graph, (data[0], row), "head", epochs=1, learning_rate=0.01, **both)
    with pytest.raises(SchemeError, match="with one output"):
        prepare(
            replace(graph, outputs=graph.row[1:], row=(), output_names=()),
            "head",
            StepOptions(**both),
        )
    with pytest.raises(DataError, match="one output"):
        fit_to_data(graph, of_arrays(data), "keep", "auto", ())


def test_class_255_of_a_sample_is_a_class_and_no_mark() -> None:
    part = TargetPart("y", "cross-entropy", 1.0, 1, 300, 300, 0.1, 0)
    y = np.full((2, 300), -128, np.int8)
    y[:, 255] = 127
    loss, right = (
        judging(Targets(1.0, 0, parts=(part,))).tested([y], np.full((2, 1), label, np.int16)).loss
        for label in (254, 255)
    )
    assert right < 0.001 < loss


def test_targets_beyond_the_outputs_are_said() -> None:
    x, y = learnable("boxes,classes")
    y[0, :2] = (50, -50)
    fitted = fit_row(detector("boxes,classes"), of_arrays((x, y)), "keep", "boxes=huber")
    (note,) = fitted.notes
    assert re.match(r"\d+ of \d+ targets of 'boxes' lie beyond .*, -\d[\d.]* to \d[\d.]*, ", note)


def test_a_weight_keeps_all_its_digits() -> None:
    step = prepare(detector("boxes,classes"), "head", StepOptions(losses="boxes=huber:1.2345678"))
    assert step.recipe.options.losses == "boxes=huber:1.2345678,classes=cross-entropy:1.0"


def test_arrays_named_after_the_outputs_are_their_labels(tmp_path: Path) -> None:
    x, y = learnable("boxes,classes")
    parts = {"x": x, "boxes": y[:, :4], "classes": y[:, 4].astype(np.int64)}
    np.savez(tmp_path / "whole.npz", **parts)
    whole = load(tmp_path / "whole.npz", targets="boxes,classes", test_share=0.5)
    assert whole.has_targets
    rows = np.vstack([whole.train.y, whole.test.y])
    assert sorted(map(tuple, rows.tolist())) == sorted(map(tuple, y.tolist()))
    halves = {
        f"{k}_{p}": v[i::2] for k, v in parts.items() for i, p in enumerate(("train", "test"))
    }
    np.savez(tmp_path / "halves.npz", **halves)
    split = load(tmp_path / "halves.npz", targets="boxes,classes")
    assert (split.train.y == y[::2]).all()
    assert (split.test.y == y[1::2]).all()
    for key, why in (("classes_test", "there is no classes_test"), ("x_test", "x_test")):
        np.savez(tmp_path / "less.npz", **{k: v for k, v in halves.items() if k != key})
        with pytest.raises(DataError, match=why):
            load(tmp_path / "less.npz", targets="boxes,classes")
    np.savez(tmp_path / "short.npz", **{**halves, "boxes_train": y[:3, :4]})
    with pytest.raises(DataError, match="3 labels"):
        load(tmp_path / "short.npz", targets="boxes,classes")


def test_outputs_are_named_once_and_are_few_enough() -> None:
    for names, why in (("a,a", "twice"), ("a,c", "no output 'c'")):
        with choosing(names), pytest.raises(ModelError, match=why):
            kept(["a", "b"])
    with choosing("b,a"):
        assert kept(["a", "b", "c"]) == (1, 0)
    with choosing("a,b"):
        assert kept(["a,b", "a", "b"]) == (0,)

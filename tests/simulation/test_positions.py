"""Heads over positions: equal bits in numpy and C, what is said of their answers, and refusals."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcutrain import prepare, simulate
from mcutrain.codegen import Interface
from mcutrain.data import IGNORED, Split, of_arrays
from mcutrain.errors import DataError, McutrainError, SchemeError, UnsupportedError
from mcutrain.functions.training import train
from mcutrain.ir.graph import Graph
from mcutrain.pipeline import StepOptions, TrainingStep, differentiated
from mcutrain.pipeline.losses import fit_to_data, loss_of
from mcutrain.runs.training import prepare_run
from mcutrain.simulation import CompiledSimulator, ReferenceSimulator, RunSettings
from mcutrain.simulation.metrics.positions import counts_of, scores_of
from mcutrain.simulation.rates import LearningRate
from mcutrain.sparse import parse_scheme
from tests.ops.drawing import Source, drawn
from tests.simulation import networks, segmentation
from tests.simulation.segmentation import CLASSES, SIDE

QUICK = ("-O1",)
STEPS = 10


def assert_same_bits(graph: Graph, options: StepOptions, x, y, rate: float = 0.1) -> None:
    """Loss, count, all state and outputs after each step, whatever the C is compiled for."""
    scheme, loss = parse_scheme("full"), loss_of(graph, "cross-entropy")
    _, training = differentiated(graph, scheme, options, loss)
    reference = ReferenceSimulator(training, seed=7)
    portable = options.gradient_dtype == "int8"
    plan = networks.planned(training)
    compiled = CompiledSimulator(plan, seed=7, portable=portable, extra_flags=QUICK)
    for i, learning_rate in enumerate(networks.rates(len(x), rate)):
        here = slice(i, i + 1)
        expected = reference.train(x[here], y[here], [learning_rate])
        found = compiled.train(x[here], y[here], [learning_rate])
        assert [list(v) for v in found] == [list(v) for v in expected], f"step {i}"
        assert networks.states_differ(compiled.state, reference.state) == [], f"step {i}"
    np.testing.assert_array_equal(compiled.infer(x[:2]), reference.infer(x[:2]))


@pytest.mark.parametrize("softmax", [False, True])
@pytest.mark.parametrize("options", [StepOptions(), StepOptions("int16", 3)], ids=str)
def test_c_and_reference_hold_the_same_bits_of_a_u_net(options: StepOptions, softmax) -> None:
    graph = segmentation.unet(softmax)
    x, y = segmentation.images(STEPS)
    y[3] = IGNORED
    assert_same_bits(graph, options, segmentation.codes(graph, x), y)


def draw_shape(s: Source) -> tuple[tuple[int, int], int, int, int]:
    """Images and sequences, one position too few for a head over them at least once."""
    return (s.integer(1, 5), s.integer(2, 6)), s.integer(1, 3), s.integer(2, 6), s.integer(0, 99)


@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(shape=drawn(draw_shape), dtype=st.sampled_from(["int8", "int16"]))
def test_c_and_reference_hold_the_same_bits_of_drawn_shapes(shape, dtype: str) -> None:
    (height, width), channels, classes, seed = shape
    net = networks.Network((height, width, channels), seed)
    graph = net.graph(net.conv(net.conv(net.x, 4, relu=True), classes))
    x, _ = networks.samples(graph, 4, 2, seed)
    y = np.random.default_rng(seed).integers(0, classes, (4, height, width)).astype(np.uint8)
    y[1:, 0, 0] = IGNORED
    assert_same_bits(graph, StepOptions(dtype), x, y)


def test_the_labels_stay_in_memory_until_the_loss_and_no_longer() -> None:
    plan = prepare(segmentation.unet(), "full").plan
    (labels,) = (b for b in plan.arena.buffers if b.name == plan.training.label)
    assert labels.size_bytes == SIDE * SIDE
    assert (labels.first, labels.last) == (0, plan.training.loss_step)


# ---------------------------------------------------------------------------------------- answers


def test_counts_leave_out_what_is_ignored_and_the_first_of_equal_outputs_answers() -> None:
    y = np.array([[5, 5, 9, 1, 0, 7, 3, 4]], np.int8)  # answers 0, 0, 1, 1
    counts = counts_of(y, np.array([[0, 1, 1, IGNORED]], np.uint8))
    assert counts.tolist() == [[1, 0], [1, 1]]
    tested = scores_of(counts)
    assert tested.accuracy == 2 / 3
    assert tested.class_iou == (0.5, 0.5)
    assert tested.iou == 0.5


def test_a_class_that_is_nowhere_has_no_part_in_the_mean() -> None:
    tested = scores_of(np.array([[3, 0, 1], [0, 0, 0], [0, 0, 2]]))
    assert tested.class_iou == (3 / 4, None, 2 / 3)
    assert tested.iou == pytest.approx((3 / 4 + 2 / 3) / 2)


def test_without_a_labelled_position_there_is_no_mean() -> None:
    tested = scores_of(counts_of(np.zeros((1, 4), np.int8), np.full((1, 2), IGNORED, np.uint8)))
    assert (tested.accuracy, tested.iou, tested.class_iou) == (0.0, None, (None, None))


def labelled(count: int = 40, seed: int = 0) -> Split:
    return of_arrays(segmentation.images(count, seed))


def test_a_u_net_learns_and_says_how_well_by_positions() -> None:
    step = prepare(segmentation.unet(), "full")
    result = train(step, labelled(60), RunSettings(epochs=6, learning_rate=0.1), latent="off")
    assert result.iou_before is not None
    assert result.iou is not None
    assert result.iou > result.iou_before + 0.1
    assert result.epochs[-1].test_iou == result.iou
    assert 0 < result.epochs[0].train_accuracy < result.epochs[-1].train_accuracy <= 1
    assert len(result.class_iou) == CLASSES


def test_a_checkpoint_goes_on_with_the_same_bits(tmp_path) -> None:
    settings_of_run = RunSettings(epochs=2, learning_rate=0.05)
    step = prepare(segmentation.unet(), "head")
    whole = train(step, labelled(), settings_of_run)
    run = prepare_run(step, labelled(), settings_of_run)

    def stop(progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run.train(stop)
    run.save(tmp_path / "run.npz")
    again = train(step, labelled(), settings_of_run, checkpoint=tmp_path / "run.npz")
    assert again.saved == whole.saved
    assert (again.iou_before, again.class_iou) == (whole.iou_before, whole.class_iou)


@pytest.mark.parametrize("softmax", [False, True])
def test_a_new_head_has_classes_at_each_position(softmax: bool) -> None:
    step = prepare(segmentation.unet(softmax), "head", classes=5)
    assert step.plan.training.positions == (SIDE, SIDE)
    assert step.graph.tensors[step.graph.outputs[0]].type.shape == (1, SIDE, SIDE, 5)
    x, y = segmentation.images(4)
    y[y == 2] = 4
    x = segmentation.codes(step.graph, x)
    rate = [LearningRate.of(0.05)] * 4
    simulator, reference = step.simulator(3), step.reference(3)
    for found, expected in zip(
        simulator.train(x, y, rate), reference.train(x, y, rate), strict=True
    ):
        assert found.tolist() == expected.tolist()
    assert simulator.save() == reference.save()


def test_data_without_names_keep_the_head_though_the_last_class_is_nowhere() -> None:
    x, y = segmentation.images(10)
    y[y == 2] = 1
    graph = segmentation.unet()
    assert fit_to_data(graph, of_arrays((x, y)), "auto", "auto", ())[:2] == (None, "cross-entropy")
    named = of_arrays({"x": x, "y": y, "names": np.array(["nothing", "something"])})
    assert fit_to_data(graph, named, "auto", "auto", ())[0] == 2


# --------------------------------------------------------------------------------------- refusals


def step_of_head() -> TrainingStep:
    return prepare(segmentation.unet(), "head")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda x, y: (x, np.arange(10) % 2),
            "one label each, but the model gives a class for each",
        ),
        (lambda x, y: (x, y[:, :4]), r"labels have the shape \(4, 8\) but the model gives"),
        (lambda x, y: (x, np.where(y == 2, 7, y)), "labels go up to 7"),
        (lambda x, y: (x, y.astype(np.float32)), "y is float32 of shape .* integers"),
        (lambda x, y: (x, np.where(y == 2, -1, y.astype(int))), "labels from -1 to 255"),
        (lambda x, y: (x, y.astype(int) + 1), "from 1 to 256: number the classes from 0, below"),
        (lambda x, y: ((99 * x).clip(0, 255).astype(np.uint8)[:, :6], y), "cannot be resized"),
    ],
)
def test_labels_that_do_not_fit_are_a_sentence(change, said: str) -> None:
    x, y = segmentation.images(10)
    with pytest.raises(DataError, match=said):
        train(step_of_head(), change(x, y), RunSettings(epochs=1, learning_rate=0.1))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"augment": ("flip",)}, "augmentation that moves samples"),
        ({"crop_pixels": 2}, "augmentation that moves samples"),
        ({"replay": 1}, "train without --replay"),
    ],
)
def test_what_would_lose_the_labels_is_a_sentence(more, said: str) -> None:
    with pytest.raises(DataError, match=said):
        train(step_of_head(), labelled(), RunSettings(epochs=1, learning_rate=0.1, **more))


def test_labels_may_be_in_a_row_and_noise_may_be_added() -> None:
    x, y = segmentation.images(12, 1)  # those of the calibration
    run = RunSettings(epochs=1, learning_rate=0.1, augment=("noise",))
    saved = [train(step_of_head(), (x, labels), run).saved for labels in (y, y.reshape(12, -1))]
    assert saved[0] == saved[1]


def test_a_classifier_refuses_labels_of_positions() -> None:
    graph = networks.residual_network()
    shape = graph.tensors[graph.inputs[0]].type.shape[1:]
    x, y = np.zeros((6, *shape), np.int8), np.arange(18).reshape(6, 3) % 4
    with pytest.raises(DataError, match=r"3 labels each, .* one class for each sample"):
        train(prepare(graph, "head"), (x, y), RunSettings(epochs=1, learning_rate=0.1))


def test_a_board_remembers_no_labels_of_positions() -> None:
    with pytest.raises(McutrainError, match="leave out --remember"):
        step_of_head().library(Interface(remember=4))


def test_outputs_that_take_positions_and_classes_apart_are_refused() -> None:
    net = networks.Network((4, 4, 2), 1)
    y = net.reshape(net.conv(net.x, 6), (1, 1, 32, 3))
    with pytest.raises(SchemeError, match="do not end in these"):
        prepare(net.graph(y), "head")


def test_more_classes_than_labels_have_room_for_are_refused() -> None:
    net = networks.Network((2, 2, 1), 1)
    with pytest.raises(UnsupportedError, match="of 255 classes at most"):
        prepare(net.graph(net.conv(net.x, 256)), "head")


def test_a_wrong_label_is_a_sentence_and_changes_nothing() -> None:
    step = step_of_head()
    simulator = step.simulator()
    x, y = segmentation.images(1)
    before = simulator.save()
    y[0, 3, 3] = CLASSES
    with pytest.raises(DataError, match=f"label {CLASSES} is not one of {CLASSES} classes"):
        simulator.train(segmentation.codes(step.graph, x), y, [LearningRate.of(0.1)])
    assert simulator.save() == before


@pytest.mark.slow
def test_the_function_simulate_takes_labels_of_positions_and_logs_iou(tmp_path) -> None:
    log = tmp_path / "run.jsonl"
    how = {"epochs": 2, "learning_rate": 0.05, "log": log}
    found = simulate(segmentation.unet(), segmentation.images(20), **how)
    assert found.iou is not None
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    said = [line["iou"] for line in lines if line["event"] == "evaluated"]
    assert said == [found.iou_before, *(epoch.test_iou for epoch in found.epochs)]
    assert said[-1] == found.iou

"""A tail behind a front that somebody else computes is the whole step."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from mcutrain_host.saved import HEADER_BYTES

from mcutrain import prepare
from mcutrain.autodiff import TrainOptions
from mcutrain.codegen import Interface, generate
from mcutrain.demo import MODEL
from mcutrain.errors import DataError, McutrainError, PlanError
from mcutrain.formats import write
from mcutrain.functions.training import train
from mcutrain.ir.graph import Graph
from mcutrain.ir.interpret import interpret
from mcutrain.ir.verify import verify
from mcutrain.memplan import Latent, TrainingPlan, find_latent, front, latents, plan_training, tail
from mcutrain.oracle.onnxruntime import onnxruntime_outputs
from mcutrain.oracle.tflite import tflite_outputs
from mcutrain.pipeline import TrainingStep, front_of, load
from mcutrain.runs import training
from mcutrain.simulation import CompiledSimulator, PlannedReference, RunSettings
from mcutrain.sparse import UpdateScheme
from mcutrain.trained import step_of, trained_graph
from tests.formats.oracle import needs_interpreter
from tests.memplan.fronts import draw_front, planned
from tests.memplan.test_latent import SCHEMES
from tests.memplan.test_stream import mobile_network
from tests.ops.drawing import drawn
from tests.simulation import networks
from tests.simulation.test_latent import LAST, split_of
from tests.simulation.test_training_steps import QUICK

STEPS = 4
ONNX_STEPS = 4
"""onnxruntime rounds in float: in each of the layers a result may be the neighbour."""


def latents_of(plan: TrainingPlan, latent: Latent, x: np.ndarray) -> np.ndarray:
    """As the network of the front alone makes them, in numpy."""
    graph = verify(front(plan.training, latent))
    (name,), (made,) = graph.inputs, graph.outputs
    return np.concatenate([interpret(graph, {name: one[None]})[made] for one in x])


def assert_same_state(plan: TrainingPlan, latent: Latent, align_bytes: int = 4) -> None:
    """Of the whole step and of the tail behind the front, but for the model's hash."""
    x, labels = networks.samples(plan.training.forward, STEPS, plan.training.classes)
    rates = networks.rates(STEPS)
    whole = PlannedReference(plan, 7)
    expected = [list(v) for v in whole.train(x, labels, rates)]
    behind = plan_training(tail(plan.training, latent), align_bytes)
    assert behind.state_offsets == plan.state_offsets
    begin = latents_of(plan, latent, x)
    for made in (CompiledSimulator(behind, "", 7, extra_flags=QUICK), PlannedReference(behind, 7)):
        assert [list(v) for v in made.train(begin, labels, rates)] == expected
        assert made.save()[HEADER_BYTES:] == whole.save()[HEADER_BYTES:]
        np.testing.assert_array_equal(made.infer(begin), whole.infer(x))


@settings(max_examples=6)
@given(
    graph=drawn(draw_front),
    scheme=st.sampled_from(SCHEMES),
    stream=st.sampled_from(["auto", "off"]),
    which=st.integers(0, 100),
)
def test_a_tail_of_drawn_networks_ends_with_the_bits_of_the_whole(
    graph: Graph, scheme: UpdateScheme, stream: str, which: int
) -> None:
    plan = planned(graph, stream, scheme)
    found = latents(plan)
    assume(found)
    assert_same_state(plan, found[which % len(found)])


def test_a_tail_sums_gradients_of_several_samples_and_of_16_bits() -> None:
    graph = networks.training_graph(mobile_network(), LAST, TrainOptions("int16", 2))
    plan = plan_training(graph, align_bytes=8)
    assert_same_state(plan, find_latent(plan), 8)


@pytest.fixture(scope="module")
def whole() -> TrainingStep:
    return prepare(load(MODEL), "last:2")


@pytest.fixture(scope="module")
def behind() -> TrainingStep:
    return prepare(load(MODEL), "last:2", part="tail")


@pytest.fixture(scope="module")
def latents_and_samples(whole: TrainingStep) -> tuple[np.ndarray, np.ndarray]:
    x, _ = networks.samples(whole.graph, 8, 10)
    return whole.latent_simulator(find_latent(whole.plan)).front(x), x


def test_a_tail_holds_no_weight_of_the_front(whole: TrainingStep, behind: TrainingStep) -> None:
    assert behind.plan.constant_bytes < whole.plan.constant_bytes
    names = {node.name for node in front_of(whole).nodes}
    assert names
    assert names.isdisjoint(node.name for node in behind.plan.nodes)
    assert names | {n.name for n in behind.plan.nodes} == {n.name for n in whole.plan.nodes}


@pytest.mark.oracle
@needs_interpreter
def test_a_tail_behind_tflites_front_ends_with_the_bits_of_the_whole(
    whole: TrainingStep,
    behind: TrainingStep,
    latents_and_samples: tuple[np.ndarray, np.ndarray],
    tmp_path: Path,
) -> None:
    expected, x = latents_and_samples
    path = tmp_path / "front.tflite"
    assert write(front_of(whole), path) == ""
    found = tflite_outputs(path, x, load(path))
    np.testing.assert_array_equal(found, expected)
    simulators = whole.simulator(), behind.simulator()
    for simulator, begin in zip(simulators, (x, found), strict=True):
        simulator.train(begin, np.arange(len(x)) % 10, networks.rates(len(x)))
    assert len({simulator.save()[HEADER_BYTES:] for simulator in simulators}) == 1


@pytest.mark.oracle
def test_onnxruntime_computes_the_latents_of_a_written_front(
    whole: TrainingStep, latents_and_samples: tuple[np.ndarray, np.ndarray], tmp_path: Path
) -> None:
    expected, x = latents_and_samples
    path = tmp_path / "front.onnx"
    assert write(front_of(whole), path) == ""
    found = onnxruntime_outputs(path, x, load(path), optimize=False)
    assert np.abs(found.astype(int) - expected).max() <= ONNX_STEPS


def test_a_front_that_was_written_computes_the_same_when_it_is_read(
    whole: TrainingStep, latents_and_samples: tuple[np.ndarray, np.ndarray], tmp_path: Path
) -> None:
    expected, x = latents_and_samples
    for suffix in (".tflite", ".onnx"):
        path = tmp_path / f"front{suffix}"
        write(front_of(whole), path)
        graph = load(path)
        (name,), (made,) = graph.inputs, graph.outputs
        found = np.concatenate([interpret(graph, {name: one[None]})[made] for one in x])
        np.testing.assert_array_equal(found, expected)


def test_what_a_tail_learnt_is_exported_as_if_the_whole_had(
    whole: TrainingStep, behind: TrainingStep, latents_and_samples: tuple[np.ndarray, np.ndarray]
) -> None:
    begin, x = latents_and_samples
    labels, rates = np.arange(len(x)) % 10, networks.rates(len(x))
    found = []
    for step, given_x in ((whole, x), (behind, begin)):
        simulator = step.simulator()
        simulator.train(given_x, labels, rates)
        assert step.recipe is not None
        again = step_of(step.graph, step.recipe)
        found.append(trained_graph(again, simulator.save(), step.graph))
    a, b = ({n: t.data for n, t in g.tensors.items() if t.is_constant} for g in found)
    assert a.keys() == b.keys()
    assert all(np.array_equal(a[name], b[name]) for name in a)
    before = whole.graph.tensors
    assert any(not np.array_equal(a[name], before[name].data) for name in a)


# -------------------------------------------------------------------------------------------- runs


def test_a_run_takes_latents_as_data(whole: TrainingStep, behind: TrainingStep) -> None:
    split = split_of(whole.graph)
    made = whole.latent_simulator(find_latent(whole.plan))
    given_latents = split.each(lambda part: _with(part, made.front(part.x)))
    wanted = RunSettings(epochs=2, learning_rate=0.02)
    a = train(whole, split, wanted, latent="off")
    b = train(behind, given_latents, wanted)
    assert a.saved[HEADER_BYTES:] == b.saved[HEADER_BYTES:]
    with pytest.raises(DataError, match="augmentation varies samples"):
        train(behind, given_latents, RunSettings(flip=True))
    pixels = split.each(lambda part: _with(part, (part.x.astype(np.int16) + 128).astype(np.uint8)))
    with pytest.raises(DataError, match=r"block7/add, int8 \(4, 4, 64\), but the data is uint8"):
        train(behind, pixels, wanted)
    with pytest.raises(DataError, match=r"the data is int8 \(28, 28, 1\): give latents"):
        train(behind, split, wanted)


def _with(part: training.datasets.Dataset, x: np.ndarray) -> training.datasets.Dataset:
    return type(part)(x, part.y, part.names)


def test_the_c_of_a_tail_speaks_of_latents_and_of_no_sensor(behind: TrainingStep) -> None:
    files = generate(behind.plan, "").files
    header, example = (" ".join(files[n].split()) for n in ("src/mct_model.h", "example/main.c"))
    assert "Takes a latent as MCT_INPUT_BYTES real numbers" in header
    assert "what the model was trained on" not in header
    assert f"A sample is a latent, {behind.plan.training.x}, that" in example.replace(" * ", " ")
    assert "Sensors" not in example


def test_a_library_with_a_latent_says_at_its_top_how_to_keep_it(whole: TrainingStep) -> None:
    def top(interface: Interface) -> str:
        text = generate(whole.plan, "", interface=interface).files["src/mct_model.h"]
        return text.partition("#ifndef")[0]

    assert "mct_front gives the latent of the sample" in top(Interface(latent="auto"))
    assert "mct_front" not in top(Interface())


def test_a_tail_needs_no_functions_for_latents_and_no_pixels(behind: TrainingStep) -> None:
    with pytest.raises(McutrainError, match="a tail takes nothing but latents"):
        generate(behind.plan, "", interface=Interface(latent="auto"))
    normal = training.datasets.Normalization((0.5,), (0.5,))
    with pytest.raises(McutrainError, match="of pixels, but a tail takes latents"):
        generate(behind.plan, "", interface=Interface(normalization=normal))


def test_what_is_trained_from_the_first_layer_on_has_no_tail() -> None:
    with pytest.raises(PlanError, match="no training step can begin behind the input"):
        prepare(load(MODEL), "full", part="tail")

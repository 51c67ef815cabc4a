"""Steps of streaming networks: numpy, the generated C, and the file with trained weights."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcutrain.codegen import Interface
from mcutrain.formats import load, patch
from mcutrain.oracle.tflite import as_installed
from mcutrain.pipeline import prepare
from mcutrain.simulation import CompiledSimulator
from mcutrain.simulation.rates import LearningRate
from mcutrain.trained import trained_graph
from tests.formats.oracle import needs_interpreter
from tests.formats.streaming_models import streaming_model
from tests.formats.test_tflite_streaming import interpreted

RATE = LearningRate.of(0.05)
STEPS = 25
UNDEFINED = ("-fsanitize=undefined", "-fno-sanitize-recover=all")
STRIDED = {"fresh": 3, "stride": 3, "kernels": (5, 3)}


def written(tmp_path, content):
    path = tmp_path / "m.tflite"
    path.write_bytes(content)
    return path


def drawn(plan, seed, count=STEPS):
    kind = plan.steps.graph.tensors[plan.steps.x].type
    rng = np.random.default_rng(seed)
    return rng.integers(-128, 128, (count, *kind.shape[1:])).astype(np.int8)


def windows(graph, seed, count=6):
    rng = np.random.default_rng(seed)
    shape = graph.tensors[graph.inputs[0]].type.shape[1:]
    return rng.integers(-128, 128, (count, *shape)).astype(np.int8), [i % 3 for i in range(count)]


def test_a_wake_word_of_one_sigmoid_is_trained_by_its_window_and_steps_in_c(tmp_path):
    path = written(tmp_path, streaming_model(5, fresh=2, is_binary=True))
    graph = load(path)
    step = prepare(graph, "full")
    assert (step.plan.training.classes, step.plan.training.threshold) == (2, 0)
    ours, c = step.reference(), step.simulator()
    x, labels = windows(graph, 0)
    labels = [label % 2 for label in labels]
    before = c.steps(drawn(step.plan, 1))
    for one in (ours, c):
        one.train(x, labels, [RATE] * len(labels))
        one.forget_steps()
    assert ours.save() == c.save()
    after = c.steps(drawn(step.plan, 1))
    assert (ours.steps(drawn(step.plan, 1)) == after).all()
    assert (before != after).any()
    trained = trained_graph(step, c.save(), graph)
    assert patch(path, graph, trained, tmp_path / "t.tflite") == ""
    again = prepare(load(tmp_path / "t.tflite"), "full").reference()
    assert (again.steps(drawn(step.plan, 1)) == after).all()


@pytest.mark.parametrize("how", [{}, STRIDED, {"with_shortcut": True, "fresh": 2}])
@pytest.mark.parametrize("scheme", ["last:1", "full"])
def test_steps_in_c_are_those_of_numpy_before_and_behind_training(tmp_path, how, scheme):
    graph = load(written(tmp_path, streaming_model(5, **how)))
    step = prepare(graph, scheme)
    ours, c = step.reference(), step.simulator()
    x, labels = windows(graph, 0)
    before = c.steps(drawn(step.plan, 1))
    assert (ours.steps(drawn(step.plan, 1)) == before).all()
    for one in (ours, c):
        one.train(x, labels, [RATE] * len(labels))
    assert ours.save() == c.save()
    after = c.steps(drawn(step.plan, 2))  # training has left the rings alone
    assert (ours.steps(drawn(step.plan, 2)) == after).all()
    for one in (ours, c):
        one.forget_steps()
    again = c.steps(drawn(step.plan, 1))
    assert (ours.steps(drawn(step.plan, 1)) == again).all()
    assert (again != before).any()


def test_the_last_step_is_an_inference_of_the_window(tmp_path):
    graph = load(written(tmp_path, streaming_model(6, **STRIDED)))
    step = prepare(graph, "last:1")
    c = step.simulator()
    rows = drawn(step.plan, 3)
    shape = graph.tensors[graph.inputs[0]].type.shape
    window = rows.reshape(-1, *shape[2:])[-shape[1] :]
    assert (c.steps(rows)[-1] == c.infer(window[None])[0]).all()
    c.reset()
    assert (c.steps(rows) == step.reference().steps(rows)).all()


@pytest.mark.slow
def test_the_c_of_steps_is_clean(tmp_path):
    graph = load(written(tmp_path, streaming_model(7, **STRIDED)))
    step = prepare(graph, "last:2")
    c = CompiledSimulator(step.plan, portable=True, extra_flags=UNDEFINED)
    rows = drawn(step.plan, 4)
    assert (c.steps(rows) == step.reference().steps(rows)).all()


def test_rings_are_a_part_of_the_memory(tmp_path):
    graph = load(written(tmp_path, streaming_model(8, kernels=(3, 5), seen=4)))
    plan = prepare(graph, "last:1").plan
    assert plan.ring_bytes == 2 * 4 * 2 + 4 * 4 + 3 * 4
    assert plan.resident_bytes == plan.state_bytes + plan.ring_bytes
    assert plan.arena_bytes >= plan.steps.arena.arena_bytes


@needs_interpreter
@settings(max_examples=4, suppress_health_check=list(HealthCheck), deadline=None)
@given(seed=st.integers(0, 1000), how=st.sampled_from([{}, STRIDED, {"fresh": 2}]))
def test_the_trained_file_steps_as_the_trained_device(tmp_path_factory, seed, how):
    folder = tmp_path_factory.mktemp("model")
    path = written(folder, streaming_model(seed, **how))
    graph = load(path)
    step = prepare(as_installed(graph), "full")
    device = step.reference()
    x, labels = windows(graph, seed)
    device.train(x, labels, [RATE] * len(labels))
    trained = trained_graph(step, device.save(), graph)
    assert patch(path, graph, trained, folder / "t.tflite") == ""
    theirs = interpreted((folder / "t.tflite").read_bytes())
    rows = drawn(step.plan, seed)
    found = np.concatenate([theirs(one) for one in rows])
    assert (device.steps(rows) == found).all()
    assert (prepare(graph, "full").reference().steps(rows) != found).any()


@pytest.mark.parametrize("interface", [Interface(remember=4), Interface(latent="auto")])
def test_a_library_has_steps_beside_what_it_has_of_latents(tmp_path, interface):
    step = prepare(load(written(tmp_path, streaming_model(10))), "last:1")
    library = step.library(interface)
    c = CompiledSimulator(step.plan, project=library)
    rows = drawn(step.plan, 5)
    assert (c.steps(rows) == step.reference().steps(rows)).all()

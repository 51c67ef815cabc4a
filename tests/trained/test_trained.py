"""Trained parameters in exported files: the file's own runtime computes the device's bits."""

from pathlib import Path

import numpy as np
import pytest

from mcutrain.demo import MODEL
from mcutrain.errors import StateError
from mcutrain.ir.interpret import interpret
from mcutrain.ops.softmax import Softmax
from mcutrain.oracle.onnxruntime import onnxruntime_outputs
from mcutrain.oracle.tflite import as_installed, tflite_outputs
from mcutrain.pipeline import load, prepare
from mcutrain.trained import export, trained_graph
from mcutrain.update_rules import RULES, SGD
from tests.formats.oracle import ROUNDS_ONCE, needs_interpreter
from tests.trained.networks import classifier, onnx_classifier
from tests.trained.training import Trained, train

# Both round the same real number, we in fixed point: beside a tie the result may be the neighbour,
# in each of the layers.
ONNX_STEPS = 4

SCHEMES = {
    "head": {},
    "full": {"gradient_dtype": "int16"},
    "bias:2,0:0.4,1:0.5,3:0.25": {},
    "last:2,0:0.34": {"classes": 7},
    "bias:4": {"accumulate": 4},
    "last:1": {"classes": 4, "qas": False},
    "last:3": {"bias_bits": 16},
    "bias:3": {"bias_bits": 16, "accumulate": 3},
}
SCHEMES |= {
    f"last:2,bias:{3 + i}": {"update_rule": rule}
    for i, rule in enumerate(sorted(RULES.keys() - {SGD}))
}


def run(graph, x):
    (name,), (output,) = graph.inputs, graph.outputs
    return np.concatenate([interpret(graph, {name: one[None]})[output] for one in x])


def after_tail(trained: Trained, graph):
    """The device's outputs, and the softmax of them where a new head has got one again."""
    softmax = [node.op for node in graph.nodes if isinstance(node.op, Softmax)]
    if trained.step.recipe.options.classes is None or not softmax:
        return trained.outputs
    return softmax[0].reference(trained.outputs)[0]


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "classifier.tflite"
    path.write_bytes(classifier())
    return path


@pytest.fixture(scope="module", params=SCHEMES)
def trained(request, source):
    return train(load(source), request.param, **SCHEMES[request.param])


@pytest.mark.draws(4)
@pytest.mark.oracle
@needs_interpreter
def test_the_interpreter_computes_the_bits_of_the_device(trained, source, tmp_path):
    path = tmp_path / "trained.tflite"
    done = export(source, load(source), trained.graph, path)
    graph = load(path)
    expected = after_tail(trained, graph)
    if not ROUNDS_ONCE:  # the old runtime's FULLY_CONNECTED rounds otherwise than the device's
        expected = run(as_installed(graph), trained.x)
    assert np.array_equal(tflite_outputs(path, trained.x, graph), expected)
    assert done.is_original
    names = trained.step.plan.training.parameters
    for suffix in (".trained", ".difference", ".new"):
        names = {n.removesuffix(suffix) for n in names}
    assert set(done.changed) <= names
    assert set(done.changed) == names or not trained.step.scheme.qas  # without, steps are tiny


@pytest.mark.draws(4)
def test_files_of_both_formats_are_read_back_with_the_bits_of_the_device(trained, source, tmp_path):
    for name in ("trained.tflite", "trained.onnx"):
        path = tmp_path / name
        done = export(source, load(source), trained.graph, path)
        graph = load(path)
        assert not done.other_bits
        assert np.array_equal(run(graph, trained.x), after_tail(trained, graph))


@pytest.mark.draws(4)
@pytest.mark.oracle
def test_onnxruntime_agrees_but_for_rounding(trained, source, tmp_path):
    path = tmp_path / "trained.onnx"
    export(source, load(source), trained.graph, path)
    graph = load(path)
    found = onnxruntime_outputs(path, trained.x, graph, optimize=False)
    steps = np.abs(found.astype(int) - after_tail(trained, graph))
    assert np.median(steps) <= 1
    assert np.quantile(steps, 0.95) <= ONNX_STEPS


@pytest.mark.draws(4)
@pytest.mark.parametrize("head", ["Gemm", "MatMul"])
@pytest.mark.parametrize("float_bias", [False, True])
@pytest.mark.parametrize("classes", [None, 6])
def test_an_onnx_original_keeps_its_file_and_gets_the_parameters(
    head, float_bias, classes, tmp_path
):
    source = onnx_classifier(tmp_path / "original.onnx", head=head, float_bias=float_bias)
    trained = train(load(source), "last:1,0:0.5", classes=classes)
    for name in ("trained.onnx", "trained.tflite"):
        done = export(source, load(source), trained.graph, tmp_path / name)
        graph = load(tmp_path / name)
        assert done.is_original == name.endswith("onnx"), done.reason
        assert not done.other_bits
        assert np.array_equal(run(graph, trained.x), after_tail(trained, graph))
    if ROUNDS_ONCE:
        outputs = tflite_outputs(tmp_path / name, trained.x, graph)
        assert np.array_equal(outputs, after_tail(trained, graph))


@pytest.mark.oracle
@needs_interpreter
@pytest.mark.parametrize(("scheme", "classes"), [("fashion-sparse", None), ("last:3", 5)])
def test_the_demo_network_learns_and_is_exported(scheme, classes, tmp_path):
    original = load(MODEL)
    trained = train(original, scheme, classes=classes)
    path = tmp_path / "demo.tflite"
    done = export(MODEL, original, trained.graph, path)
    graph = load(path)
    assert done.is_original
    expected = trained.outputs if ROUNDS_ONCE else run(as_installed(graph), trained.x)
    assert np.array_equal(tflite_outputs(path, trained.x, graph), expected)
    if classes is None:  # same size: no byte but those of the parameters
        before, after = (np.frombuffer(p.read_bytes(), np.uint8) for p in (MODEL, path))
        trained_bytes = sum(
            original.tensors[n].type.size_bytes for n in done.changed if n in original.tensors
        )
        assert 0 < (before != after).sum() <= trained_bytes


def test_a_model_without_biases_gets_those_that_were_trained(tmp_path):
    source = tmp_path / "model.tflite"
    source.write_bytes(classifier(biases=False))
    original = load(source)
    trained = train(original, "bias:4")
    done = export(source, original, trained.graph, tmp_path / "trained.tflite")
    assert done.is_original
    assert np.array_equal(run(load(done.path), trained.x), trained.outputs)


def test_a_state_of_another_scheme_or_damaged_is_refused(source):
    original = load(source)
    step = prepare(original, "bias:1")
    saved = step.reference().save()
    trained_graph(step, saved, original)
    with pytest.raises(StateError, match="trained with another model, or with other flags"):
        trained_graph(prepare(original, "bias:2"), saved, original)
    damaged = saved[:-1] + bytes([saved[-1] ^ 1])
    with pytest.raises(StateError, match="is damaged"):
        trained_graph(step, damaged, original)
    with pytest.raises(StateError, match="is no trained state"):
        trained_graph(step, b"something else", original)


def test_an_untrained_state_is_the_original(source, tmp_path: Path):
    original = load(source)
    step = prepare(original, "last:2,0:0.5")
    graph = trained_graph(step, step.reference().save(), original)
    done = export(source, original, graph, tmp_path / "same.tflite")
    assert done.changed == ()
    assert done.path.read_bytes() == source.read_bytes()

"""Classes that are means over positions, as SqueezeNet has them: trained, and back to files."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcutrain import prepare
from mcutrain.errors import SchemeError
from mcutrain.formats import load
from mcutrain.ops.conv_2d import Conv2D
from mcutrain.ops.pooling import Mean, MeanSums
from mcutrain.ops.reshape import Reshape
from mcutrain.pipeline import TrainingStep
from mcutrain.pipeline.losses import choose_loss, positions_of
from mcutrain.simulation.rates import LearningRate
from tests.formats.oracle import needs_interpreter
from tests.quant.networks import OnnxNetwork
from tests.simulation.networks import rates, samples
from tests.simulation.test_training_steps import assert_same_bits
from tests.trained.int8_files import (
    assert_interpreter_agrees,
    assert_onnx_holds,
    assert_trained_files_hold,
    int8_file,
)

CLASSES = 4
SCHEMES = {
    "head": {},
    "bias:3": {"accumulate": 3},
    "last:2": {"gradient_dtype": "int16"},
    "full": {},
    "bias:2,2:0.5": {"elastic": True},
}
HEADS = {"own": {}, "new": {"classes": 7}, "added": {"added": ("more", "yet more")}}


def squeezenet(net: OnnxNetwork, relu: bool = True) -> str:
    """A fire module between two convolutions; the last one's means are the classes."""
    x = net.op("Relu", net.conv("input", 3, 8, stride=2, bias=True))
    squeezed = net.op("Relu", net.conv(x, 8, 4, kernel=1, bias=True))
    both = [net.op("Relu", net.conv(squeezed, 4, 8, kernel=k, bias=True)) for k in (1, 3)]
    y = net.conv(net.op("Concat", *both, axis=1), 16, CLASSES, kernel=1, bias=True)
    y = net.op("Relu", y) if relu else y
    return net.op("Flatten", net.op("GlobalAveragePool", y))


@pytest.fixture(scope="module", params=[True, False], ids=["relu", "linear"])
def source(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """The network in int8."""

    def write(path: Path) -> Path:
        net = OnnxNetwork([1, 3, 10, 8])
        return net.save(path, squeezenet(net, request.param))

    return int8_file(write, tmp_path_factory.mktemp("averaging"))


def test_the_loss_reads_the_sums_of_the_mean(source: Path) -> None:
    graph = load(source)
    assert [type(node.op) for node in graph.nodes[-3:]] == [Conv2D, Mean, Reshape]
    training = prepare(graph, "head").plan.training
    assert isinstance(training.graph.nodes[training.loss_step - 1].op, MeanSums)
    assert training.classes == CLASSES
    assert positions_of(graph) == ()
    with pytest.raises(SchemeError, match="it has 4 outputs and 240 inputs"):
        choose_loss(graph, "mse")


def test_both_formats_hold_the_network_bit_for_bit(source: Path, tmp_path: Path) -> None:
    assert_onnx_holds(load(source), tmp_path)


@pytest.mark.draws(4)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_generated_program_holds_the_bits_of_the_reference(source: Path, scheme: str) -> None:
    step = prepare(load(source), scheme, **SCHEMES[scheme])
    assert_same_bits(step.plan.training, 24)


@pytest.mark.draws(4)
@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("scheme", ["head", "full"])
def test_trained_files_compute_the_bits_of_the_device(
    source: Path, scheme: str, head: str, tmp_path: Path
) -> None:
    trained = assert_trained_files_hold(source, scheme, tmp_path, **HEADS[head])
    assert trained.outputs.shape[-1] == CLASSES + {"own": 0, "new": 3, "added": 2}[head]


@pytest.mark.oracle
@needs_interpreter
def test_the_interpreter_computes_the_bits_of_the_device(source: Path, tmp_path: Path) -> None:
    assert_interpreter_agrees(source, tmp_path)


def learnt(step: TrainingStep) -> float:
    """The share of a few samples whose largest int8 output is that of their class by heart."""
    simulator = step.simulator()
    x, y = samples(step.graph, 16, step.plan.training.classes)
    for _ in range(60):
        simulator.train(x, y, rates(len(x), 0.1))
    return float((simulator.infer(x).argmax(axis=1) == y).mean())


@pytest.mark.parametrize("head", HEADS)
def test_every_class_is_learnt(source: Path, head: str) -> None:
    """Of random samples, with all layers; a class below a ReLU's 0 would never be."""
    assert learnt(prepare(load(source), "full", **HEADS[head])) >= 0.75


def test_the_outputs_do_not_clip_where_the_sums_of_the_mean_do_not(source: Path) -> None:
    """Their scale follows the logits as that of a fully connected head does."""
    step = prepare(load(source), "head")
    simulator = step.simulator()
    x, y = samples(step.graph, 16, CLASSES)
    for _ in range(40):
        simulator.train(x, y, rates(len(x), 0.3))
    assert simulator.state["output.exponent"][0] > 0
    outputs = simulator.infer(x)
    _, wanted = simulator.train(x, y, [LearningRate.of(0)] * len(x))
    assert (outputs[range(len(x)), wanted] == outputs.max(axis=1)).all()

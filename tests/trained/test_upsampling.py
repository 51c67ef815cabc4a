"""A U-Net with transposed convolutions, slopes and means per axis: trained, and back to files."""

from pathlib import Path

import pytest

from mcutrain import prepare
from mcutrain.formats import load
from mcutrain.ops.pooling import Mean
from mcutrain.ops.transpose import Transpose
from tests.formats.oracle import needs_interpreter
from tests.quant.networks import OnnxNetwork
from tests.simulation.test_training_steps import assert_same_bits
from tests.trained.int8_files import (
    assert_interpreter_agrees,
    assert_onnx_holds,
    assert_trained_files_hold,
    int8_file,
)

SCHEMES = {
    "full": {},
    "bias:4,0:0.5,1:0.5": {},
    "last:3": {"gradient_dtype": "int16", "accumulate": 3},
}


def u_net(net):
    """Windows of 2 and 3, with a shortcut; slopes per channel; means of columns, then of rows."""
    whole = net.op(
        "PRelu", net.conv("input", 3, 4), net.real([[[0.2]], [[-0.3]], [[0.0]], [[1.1]]])
    )
    half = net.conv(net.op("MaxPool", whole, kernel_shape=[2, 2], strides=[2, 2]), 4, 6)
    w, b = net.real(net.rng.normal(0, 0.4, (6, 4, 2, 2))), net.real(net.rng.normal(0, 0.2, 4))
    up = net.op("Relu", net.op("ConvTranspose", half, w, b, strides=[2, 2]))
    joined = net.op("Concat", up, whole, axis=1)
    w = net.real(net.rng.normal(0, 0.3, (8, 5, 3, 3)))
    two = {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]}
    x = net.conv(net.op("ConvTranspose", joined, w, **two), 5, 5, kernel=1)
    x = net.op("ReduceMean", x, axes=[3], keepdims=1)
    x = net.op("Flatten", net.op("ReduceMean", x, axes=[2], keepdims=1))
    return net.op("Gemm", x, net.real(net.rng.normal(0, 0.5, (3, 5))), transB=1)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The network in int8."""

    def write(path: Path) -> Path:
        net = OnnxNetwork([1, 3, 4, 6])
        return net.save(path, u_net(net))

    return int8_file(write, tmp_path_factory.mktemp("upsampling"))


def test_both_formats_hold_the_network_bit_for_bit(source: Path, tmp_path: Path) -> None:
    graph = load(source)
    kinds = [type(node.op) for node in graph.nodes]
    assert (kinds.count(Transpose), kinds.count(Mean)) == (3, 2)
    assert_onnx_holds(graph, tmp_path)


@pytest.mark.draws(1)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_trained_files_compute_the_bits_of_the_device(
    source: Path, scheme: str, tmp_path: Path
) -> None:
    assert_trained_files_hold(source, scheme, tmp_path, **SCHEMES[scheme])


@pytest.mark.oracle
@needs_interpreter
def test_the_interpreter_computes_the_bits_of_the_device(source: Path, tmp_path: Path) -> None:
    assert_interpreter_agrees(source, tmp_path)


@pytest.mark.draws(1)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_generated_program_holds_the_bits_of_the_reference(source: Path, scheme: str) -> None:
    step = prepare(load(source), scheme, **SCHEMES[scheme])
    assert_same_bits(step.plan.training, 24)

"""An attention block, from a float model to a trained file and back."""

from pathlib import Path

import pytest

from mcutrain import prepare
from mcutrain.formats import load
from mcutrain.ops.batch_matmul import BatchMatMul
from mcutrain.ops.softmax import Softmax
from tests.formats.oracle import needs_interpreter
from tests.formats.test_onnx_products import attention
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
    "bias:3,0:0.5,1:0.5": {},  # layers in part, on both sides of the products
    "last:3": {"gradient_dtype": "int16", "accumulate": 3},
}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The network in int8."""

    def write(path: Path) -> Path:
        net = OnnxNetwork([1, 4, 2, 3])
        return net.save(path, attention(net))

    return int8_file(write, tmp_path_factory.mktemp("attending"))


def test_both_formats_hold_the_network_bit_for_bit(source: Path, tmp_path: Path) -> None:
    graph = load(source)
    kinds = [type(node.op) for node in graph.nodes]
    assert (kinds.count(BatchMatMul), kinds.count(Softmax)) == (2, 1)
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

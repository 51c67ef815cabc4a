"""Grouped convolutions and resized images, from a float model to a trained file and back."""

from pathlib import Path

import pytest

from mcutrain.formats import load
from mcutrain.ops.grouped_conv_2d import GroupedConv2D
from mcutrain.ops.resize import Resize
from mcutrain.trained import export
from tests.formats.oracle import needs_interpreter
from tests.quant.networks import grouped_pyramid
from tests.trained.int8_files import (
    assert_interpreter_agrees,
    assert_onnx_holds,
    assert_trained_files_hold,
    int8_file,
)

SCHEMES = {
    "full": {},
    "bias:4,2:0.5,5:0.34,7:0.25": {},  # grouped layers in part
    "last:3": {"gradient_dtype": "int16", "accumulate": 3},
}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The network in int8."""
    return int8_file(grouped_pyramid, tmp_path_factory.mktemp("grouped"))


def test_both_formats_hold_the_network_bit_for_bit(source: Path, tmp_path: Path) -> None:
    graph = load(source)
    kinds = [type(node.op) for node in graph.nodes]
    assert (kinds.count(GroupedConv2D), kinds.count(Resize)) == (3, 2)
    assert_onnx_holds(graph, tmp_path)


@pytest.mark.draws(1)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_trained_files_compute_the_bits_of_the_device(
    source: Path, scheme: str, tmp_path: Path
) -> None:
    trained = assert_trained_files_hold(source, scheme, tmp_path, **SCHEMES[scheme])
    original = load(source)
    changed = set(export(source, original, trained.graph, tmp_path / "again.tflite").changed)
    weights = [n.inputs[1] for n in original.nodes if isinstance(n.op, GroupedConv2D)]
    assert changed.issuperset(weights[1:] if scheme == "last:3" else weights)


@pytest.mark.oracle
@needs_interpreter
def test_the_interpreter_computes_the_bits_of_the_device(source: Path, tmp_path: Path) -> None:
    assert_interpreter_agrees(source, tmp_path)

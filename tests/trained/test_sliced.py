"""Shortcuts of slices and added channels, from a float model to a trained file and back."""

from pathlib import Path

import pytest

from mcutrain.formats import load
from mcutrain.ops.pad import Pad
from mcutrain.ops.slice import Slice
from tests.formats.oracle import needs_interpreter
from tests.quant.networks import parameter_free_shortcuts
from tests.trained.int8_files import (
    assert_interpreter_agrees,
    assert_onnx_holds,
    assert_trained_files_hold,
    int8_file,
)

SCHEMES = {
    "full": {},
    "bias:4,1:0.5,3:0.34,6:0.25": {},  # layers in part, on both sides of cut and added channels
    "last:3": {"gradient_dtype": "int16", "accumulate": 3},
}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The network in int8."""
    return int8_file(parameter_free_shortcuts, tmp_path_factory.mktemp("sliced"))


def test_both_formats_hold_the_network_bit_for_bit(source: Path, tmp_path: Path) -> None:
    """Every second row, then every second column of it, is one slice."""
    graph = load(source)
    kinds = [type(node.op) for node in graph.nodes]
    assert (kinds.count(Slice), kinds.count(Pad)) == (8, 2)
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

"""A Transpose of whatever axes, the batch among them: numpy's numbers, or a sentence."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings

from mcutrain.errors import UnsupportedError
from mcutrain.formats.onnx.read import load_onnx
from mcutrain.ir.interpret import interpret
from tests.formats.onnx_builder import QdqModel
from tests.formats.transposed import grow, reorderings

NOT_SUPPORTED = (
    "joins channels to rows or columns",
    "axes longer than 1",
    "flattens an image channels first",
)


def outputs(image, shape, perm, path):
    """(ours, numpy's) of an image whose numbers all differ, row by row."""
    model = QdqModel((1, *image))
    y = model.requantize(grow(model, model.x, shape, perm), 0.05, 3)
    graph = load_onnx(model.save(path, y))
    x = np.arange(np.prod(image)).astype(np.int8).reshape(1, *image)
    ours = interpret(graph, {graph.inputs[0]: x.transpose(0, 2, 3, 1)})[graph.outputs[0]]
    return ours.ravel(), x.reshape(shape).transpose(perm).ravel()


@settings(max_examples=300)
@given(case=reorderings())
def test_axes_in_another_order_are_numpys_or_refused(case, tmp_path_factory):
    refusal = ""
    try:
        ours, wanted = outputs(*case, tmp_path_factory.getbasetemp() / "transpose.onnx")
        np.testing.assert_array_equal(ours, wanted)
    except UnsupportedError as error:
        refusal = str(error)
    assert not refusal or any(words in refusal for words in NOT_SUPPORTED)


@pytest.mark.parametrize("perm", list(itertools.permutations(range(3)))[1:])
def test_the_batch_axis_moves_as_any_other(perm, tmp_path):
    ours, wanted = outputs((6, 2, 2), (2, 3, 4), perm, tmp_path / "model.onnx")
    np.testing.assert_array_equal(ours, wanted)


def test_more_axes_than_the_kernel_moves_are_refused(tmp_path):
    with pytest.raises(UnsupportedError, match=r"Transpose .* moving 5 axes longer than 1"):
        outputs((32, 1, 1), (2, 2, 2, 2, 2), (4, 3, 2, 1, 0), tmp_path / "model.onnx")

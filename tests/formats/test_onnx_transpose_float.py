"""A Transpose of whatever axes of a float model: numpy's numbers, or a sentence."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings

from mcutrain.errors import UnsupportedError
from mcutrain.formats import read_float
from mcutrain.formats.onnx.read_float import read_onnx
from tests.formats.transposed import grow, reorderings
from tests.quant.networks import OnnxNetwork

NOT_SUPPORTED = ("an axis of 1 in front is", "the batch of 1 stays in front")


def check(image, shape, perm, path):
    """Read and simplified graphs give numpy's numbers."""
    net = OnnxNetwork([1, *image])
    net.save(path, grow(net, "input", shape, perm))
    x = np.arange(np.prod(image)).astype(np.float32).reshape(1, *image)
    wanted = x.reshape(shape).transpose(perm).ravel()
    for graph in (read_onnx(path), read_float(path).network):
        (ours,) = graph.run(x.transpose(0, 2, 3, 1))
        np.testing.assert_array_equal(ours.ravel(), wanted)


@settings(max_examples=300)
@given(case=reorderings())
def test_axes_in_another_order_are_numpys_or_refused(case, tmp_path_factory):
    image, shape, perm = case
    path = tmp_path_factory.getbasetemp() / "float_transpose.onnx"
    if shape[0] == shape[perm[0]] == 1:
        check(image, shape, perm, path)
    else:
        with pytest.raises(UnsupportedError, match="|".join(NOT_SUPPORTED)):
            check(image, shape, perm, path)


@pytest.mark.parametrize("perm", list(itertools.permutations(range(4))))
def test_a_batch_of_one_goes_where_another_one_was(perm, tmp_path):
    image, shape = (6, 2, 1), (1, 4, 1, 3)
    if shape[perm[0]] == 1:
        check(image, shape, perm, tmp_path / "model.onnx")
    else:
        with pytest.raises(UnsupportedError, match=r"Transpose .* an axis of 1 in front"):
            check(image, shape, perm, tmp_path / "model.onnx")

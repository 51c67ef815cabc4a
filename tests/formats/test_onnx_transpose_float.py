"""A Transpose of whatever axes of a float model: numpy's numbers."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings

from mcutrain.errors import UnsupportedError
from mcutrain.formats import read_float
from mcutrain.formats.onnx.read_float import read_onnx
from tests.formats.transposed import grow, reorderings
from tests.quant.networks import OnnxNetwork


def check(image, shape, perm, path):
    """Read and simplified graphs give numpy's numbers, flattened."""
    net = OnnxNetwork([1, *image])
    net.save(path, net.op("Flatten", grow(net, "input", shape, perm), axis=0))
    x = np.arange(np.prod(image)).astype(np.float32).reshape(1, *image)
    wanted = x.reshape(shape).transpose(perm).ravel()
    for graph in (read_onnx(path), read_float(path).network):
        (ours,) = graph.run(x.transpose(np.argsort(graph.file_axes[graph.input])))
        np.testing.assert_array_equal(ours.ravel(), wanted)


@pytest.mark.slow
@settings(max_examples=300)
@given(case=reorderings())
def test_axes_in_another_order_are_numpys(case, tmp_path_factory):
    image, shape, perm = case
    check(image, shape, perm, tmp_path_factory.getbasetemp() / "float_transpose.onnx")


@pytest.mark.parametrize("perm", list(itertools.permutations(range(4))))
def test_a_batch_of_one_goes_where_it_likes(perm, tmp_path):
    check((6, 2, 1), (1, 4, 1, 3), perm, tmp_path / "model.onnx")


@pytest.mark.parametrize("perm", [(1, 0, 2, 3), (3, 2, 1, 0)])
def test_an_output_begins_with_a_batch(perm, tmp_path):
    net = OnnxNetwork([1, 6, 2, 3])
    path = net.save(tmp_path / "model.onnx", net.op("Transpose", "input", perm=perm))
    with pytest.raises(UnsupportedError, match=r"has the shape \(\d, .*a batch of 1"):
        read_onnx(path)

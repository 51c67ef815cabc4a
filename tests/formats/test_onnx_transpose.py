"""A Transpose of whatever axes, the batch among them: numpy's numbers."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings

from mcutrain.formats.onnx.read import load_onnx
from mcutrain.ir.interpret import interpret
from mcutrain.ops.pooling import MaxPool2D
from mcutrain.ops.reshape import Reshape
from mcutrain.ops.transpose import Transpose
from tests.formats.onnx_builder import QdqModel
from tests.formats.transposed import grow, reorderings


def outputs(image, shape, perm, path):
    """(ours, numpy's) of an image whose numbers all differ, row by row."""
    model = QdqModel((1, *image))
    y = model.requantize(grow(model, model.x, shape, perm), 0.05, 3)
    graph = load_onnx(model.save(path, y))
    x = np.arange(np.prod(image)).astype(np.int8).reshape(1, *image)
    ours = interpret(graph, {graph.inputs[0]: x.transpose(np.argsort(graph.input_axes))})[
        graph.outputs[0]
    ]
    return ours.ravel(), x.reshape(shape).transpose(perm).ravel()


@pytest.mark.slow
@settings(max_examples=300)
@given(case=reorderings())
def test_axes_in_another_order_are_numpys(case, tmp_path_factory):
    ours, wanted = outputs(*case, tmp_path_factory.getbasetemp() / "transpose.onnx")
    np.testing.assert_array_equal(ours, wanted)


def test_operands_in_other_orders_are_brought_into_one(tmp_path):
    """An image plus itself with rows for columns, both laid flat."""
    model, flat = QdqModel((1, 3, 2, 2)), np.array([1, -1], np.int64)
    turned = model.op("Transpose", model.x, perm=(0, 1, 3, 2))
    rows = [model.op("Reshape", v, model.constant(flat)) for v in (model.x, turned)]
    y = model.requantize(model.op("Add", *rows), 0.05, 0)
    graph = load_onnx(model.save(tmp_path / "model.onnx", y))
    x = np.arange(12).astype(np.int8).reshape(1, 3, 2, 2)
    ours = interpret(graph, {graph.inputs[0]: x.transpose(np.argsort(graph.input_axes))})[
        graph.outputs[0]
    ]
    wanted = x - 3 + x.transpose(0, 1, 3, 2) - 3
    np.testing.assert_array_equal(ours, wanted.reshape(1, 12))


def test_rows_and_columns_of_other_lengths_are_a_view_where_the_channels_stay(tmp_path):
    model, shape = QdqModel((1, 4, 6, 5)), np.array([1, 4, 10, 3], np.int64)
    y = model.op("Reshape", model.x, model.constant(shape))
    graph = load_onnx(model.save(tmp_path / "model.onnx", y))
    assert [node.op for node in graph.nodes] == [Reshape((1, 10, 3, 4))]


def test_an_output_that_a_transpose_makes_channels_last_moves_nothing(tmp_path):
    model = QdqModel((1, 2, 3, 4))
    y = model.op("Transpose", model.op("MaxPool", model.x, kernel_shape=[1, 1]), perm=(0, 2, 3, 1))
    graph = load_onnx(model.save(tmp_path / "model.onnx", model.requantize(y, 0.05, 3)))
    assert [type(node.op) for node in graph.nodes] == [MaxPool2D]
    assert graph.tensors[graph.outputs[0]].type.shape == (1, 3, 4, 2)


@pytest.mark.parametrize("perm", list(itertools.permutations(range(3)))[1:])
def test_the_batch_axis_moves_as_any_other(perm, tmp_path):
    ours, wanted = outputs((6, 2, 2), (2, 3, 4), perm, tmp_path / "model.onnx")
    np.testing.assert_array_equal(ours, wanted)


@pytest.mark.parametrize("perm", [(4, 3, 2, 1, 0), (2, 0, 4, 1, 3), (1, 3, 0, 4, 2)])
def test_more_axes_than_the_kernel_moves_are_moved_one_after_another(perm, tmp_path):
    path = tmp_path / "model.onnx"
    ours, wanted = outputs((32, 1, 1), (2, 2, 2, 2, 2), perm, path)
    np.testing.assert_array_equal(ours, wanted)
    kinds = [type(node.op) for node in load_onnx(path).nodes]
    assert 2 <= kinds.count(Transpose) <= 4

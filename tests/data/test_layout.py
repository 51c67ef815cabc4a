"""Whose order of axes samples have, and how they are turned for the model."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcutrain.data import (
    Dataset,
    InputOrder,
    Split,
    Transform,
    in_order,
    is_same_shape,
    load,
    split_in_order,
)
from mcutrain.data.unlabelled import load_samples
from mcutrain.errors import DataError

LENGTHS = st.sampled_from([1, 2, 3, 4, 4, 5])
SHAPES = st.integers(1, 3).flatmap(lambda rank: st.tuples(*(LENGTHS for _ in range(rank))))
IMAGE = InputOrder("m.onnx", (3, 8, 6), (1, 2, 0))
WINDOW = InputOrder("m.onnx", (4, 4), (1, 0))


def numbered(*shape, dtype=np.float32):
    return np.arange(2 * np.prod(shape)).reshape(2, *shape).astype(dtype)


@st.composite
def orders(draw):
    shape = draw(SHAPES)
    return InputOrder("m.onnx", shape, tuple(draw(st.permutations(range(len(shape))))))


@given(orders())
def test_samples_of_the_files_shape_are_turned_as_its_input_was(order):
    x = numbered(*order.shape)
    wanted = x.transpose(0, *(1 + axis for axis in order.axes))
    found = in_order(x, order)
    assert found.reshape(2, *order.model_shape).tolist() == wanted.tolist()


@given(orders())
def test_samples_of_the_models_shape_alone_are_as_they_are(order):
    if order.shape == order.model_shape:
        return
    x = numbered(*order.model_shape)
    assert in_order(x, order).reshape(x.shape).tolist() == x.tolist()


@given(orders())
def test_what_is_turned_is_said_once_and_nothing_else_is(order):
    said = []
    x = numbered(*order.shape)
    found = in_order(x, order, said.append)
    moves = not np.array_equal(found.ravel(), x.ravel())
    longer = [n for n in order.shape if n > 1]
    assert order.is_turned == (bool(said) and "in the order of m.onnx" in said[0])
    assert len(said) == order.is_turned
    assert moves == order.is_turned
    assert order.is_square <= order.is_turned
    if order.is_square:
        assert longer == [n for n in order.model_shape if n > 1]


def test_a_square_has_the_files_order_and_that_is_said():
    said = []
    x = numbered(4, 4)
    assert in_order(x, WINDOW, said.append).tolist() == x.transpose(0, 2, 1).tolist()
    assert said == [
        "samples are taken in the order of m.onnx: (channels, steps); they are turned to "
        "(steps, channels)"
    ]


def test_the_axes_of_images_are_named():
    assert IMAGE.names == (("channels", "height", "width"), ("height", "width", "channels"))
    assert InputOrder("m", (3, 8, 6), (2, 0, 1)).names is None
    assert InputOrder.own((3, 8, 6)).names is None
    assert InputOrder("m", (3, 8, 6), (2, 0, 1)).note.endswith(
        "the order of m: (3, 8, 6); they are turned to (6, 3, 8)"
    )


def test_a_data_sets_channel_axis_does_not_hide_a_square():
    x = numbered(4, 4)
    found = in_order(x[..., np.newaxis], WINDOW)
    assert found.reshape(x.shape).tolist() == x.transpose(0, 2, 1).tolist()


def test_two_readings_are_refused_with_both_named():
    order = InputOrder("m.onnx", (4, 1, 4), (1, 2, 0))
    x = numbered(4, 4)
    with pytest.raises(DataError, match="may be") as refused:
        in_order(x, order)
    assert "(4, 1, 4), as m.onnx has them" in str(refused.value)
    assert "(1, 4, 4), as the int8 model does" in str(refused.value)
    turned = in_order(x.reshape(2, 4, 1, 4), order)
    assert turned.reshape(x.shape).tolist() == x.transpose(0, 2, 1).tolist()
    assert in_order(x.reshape(2, 1, 4, 4), order).reshape(x.shape).tolist() == x.tolist()


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_images_of_either_order_are_told_by_their_shape(dtype):
    x = numbered(3, 8, 6, dtype=dtype)
    last = np.moveaxis(x, 1, -1)
    assert in_order(x, IMAGE).tolist() == last.tolist()
    assert in_order(last, IMAGE) is last


def test_what_only_fits_turned_is_turned_and_said_without_a_file():
    said = []
    x = numbered(3, 8, 6)
    found = in_order(x, InputOrder.own((8, 6, 3)), said.append)
    assert found.tolist() == np.moveaxis(x, 1, -1).tolist()
    assert said == ["samples (3, 8, 6) are turned to (8, 6, 3), channels last"]


@pytest.mark.parametrize("axes", [(0, 0), (0,), (1, 2), (0, 1, 2)])
def test_axes_that_are_no_order_are_refused(axes):
    with pytest.raises(DataError, match=re.escape(f"{axes} is no order")):
        InputOrder("m", (4, 4), axes)


@pytest.mark.parametrize(
    ("shape", "axes", "image"),
    [
        ((8, 6), (0, 1), (8, 6, 1)),
        ((8, 6), (1, 0), (8, 6, 1)),
        ((1, 8, 6), (1, 2, 0), (8, 6, 1)),
        ((1, 8, 6), (0, 1, 2), (8, 6, 1)),
        ((8, 6, 1), (0, 1, 2), (8, 6, 1)),
        ((8, 6, 1), (1, 2, 0), (8, 6, 1)),
        ((3, 8, 6), (1, 2, 0), (8, 6, 3)),
        ((3, 8, 6), (0, 1, 2), (8, 6, 3)),
        ((8, 6, 3), (0, 1, 2), (8, 6, 3)),
        ((8, 6, 5), (0, 1, 2), None),
        ((48,), (0,), None),
    ],
)
def test_images_become_the_models_whatever_its_shape(shape, axes, image):
    """In the file's order they are what the file takes for them: rows, columns, perhaps colours."""
    order = InputOrder("m.onnx", shape, axes)
    assert order.image == image
    if image is None:
        return
    x = np.random.default_rng(0).integers(0, 256, (2, *image), np.uint8)
    of_file = np.moveaxis(x, -1, 1) if shape[0] == image[2] != shape[-1] else x
    wanted = order.turned(of_file.reshape(2, *shape))
    found = order.of_images(x)
    assert found.reshape(wanted.shape).tolist() == wanted.tolist()
    larger = np.random.default_rng(1).integers(0, 256, (2, 19, 11, image[2]), np.uint8)
    taken = in_order(larger, order)
    if order.model_shape != image:
        fitted = order.of_images(Transform(*image).fit(larger))
        assert taken.reshape(fitted.shape).tolist() == fitted.tolist()
        first = in_order(np.moveaxis(larger, -1, 1), order)
        assert image[2] == 1 or first.tolist() == taken.tolist()


def test_parts_are_turned_once():
    x, said = numbered(4, 4), []
    part = Dataset(x, np.arange(2), ("a", "b"))
    split = split_in_order(Split(part, part, part), WINDOW, said.append)
    again = split_in_order(split, WINDOW, said.append)
    assert len(said) == 1
    for found in (again.train, again.test, again.validation):
        assert found.is_in_order
        assert found.x.reshape(x.shape).tolist() == x.transpose(0, 2, 1).tolist()
    assert split_in_order(again.drawn(1, 1, 0), WINDOW).train.x.tolist() == (
        again.drawn(1, 1, 0).train.x.tolist()
    )


def saved(tmp_path, x):
    path = tmp_path / "d.npz"
    np.savez(path, x=x, y=np.arange(len(x)) % 2)
    return path


def test_arrays_of_a_file_are_turned_for_training_and_for_calibration(tmp_path):
    x = np.random.default_rng(0).normal(size=(8, 4, 4)).astype(np.float32)
    path, said = saved(tmp_path, x), []
    split = load(path, order=WINDOW, note=said.append)
    found = np.concatenate([split.train.x, split.test.x]).reshape(8, 4, 4)
    taken = load_samples(path, 8, order=WINDOW, note=said.append).reshape(8, 4, 4)
    for y in (found, taken):
        key = lambda a: a.ravel().tolist()  # noqa: E731
        assert sorted(map(key, y)) == sorted(map(key, x.transpose(0, 2, 1)))
    assert len(said) == 2
    assert not load(path).train.is_in_order
    as_it_is = load(path, input_shape=(4, 4))
    assert np.concatenate([as_it_is.train.x, as_it_is.test.x]).shape == (8, 4, 4, 1)
    assert as_it_is.train.x[0].tolist() in x[..., np.newaxis].tolist()


def test_windows_of_csv_files_have_steps_first_whatever_the_files_order(tmp_path):
    """They are rows in time: a square is not turned as arrays of the file's shape would be."""
    rows = np.random.default_rng(0).normal(size=(32, 4)).astype(np.float32)
    lines = [",".join(map(str, row)) + f",{'ab'[i // 16]}" for i, row in enumerate(rows.tolist())]
    path = tmp_path / "d.csv"
    path.write_text("p,q,r,s,label\n" + "\n".join(lines) + "\n")
    split = load(path, order=WINDOW)
    assert split.train.is_in_order
    assert split.train.x[0].reshape(4, 4).tolist() == rows[:4].tolist()
    taken = load_samples(path, 1, order=WINDOW).reshape(4, 4)
    assert taken.tolist() in [w.tolist() for w in rows.reshape(-1, 4, 4)]


@settings(max_examples=30)
@given(SHAPES, SHAPES)
def test_lengths_of_one_do_not_matter(shape, other):
    assert is_same_shape(shape, other) == (
        [n for n in shape if n > 1] == [n for n in other if n > 1]
    )

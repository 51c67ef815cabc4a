"""An operator behind a classifier follows another number of classes."""

import pytest

from mcutrain.ops.rescale import Rescale
from mcutrain.ops.reshape import Reshape


def test_a_view_of_all_outputs_holds_the_new_ones_on_the_same_axis():
    assert Reshape((1, 10)).resized(10, 4) == Reshape((1, 4))
    assert Reshape((10, 1, 1)).resized(10, 12) == Reshape((12, 1, 1))
    assert Reshape((1, 1)).resized(1, 3) == Reshape((1, 3))


def test_a_view_that_splits_the_outputs_or_has_others_fits_no_new_head():
    for shape in ((2, 5), (1, 5, 2), (10, 2)):
        with pytest.raises(ValueError, match=r"reshaped to .* fits no new head"):
            Reshape(shape).resized(10, 4)


def test_what_treats_each_element_by_itself_is_the_same():
    op = Rescale(0, 0, 1 << 30, 1)
    assert op.resized(10, 4) is op

"""Which loss and which head fit a network and data."""

from __future__ import annotations

import numpy as np
import pytest

from mcutrain.data import Dataset, Split
from mcutrain.errors import DataError, SchemeError
from mcutrain.ir.graph import Graph
from mcutrain.ops.mean_squared_error import MAX_ELEMENTS
from mcutrain.pipeline.losses import choose_loss, choose_loss_for_data, classes_for
from tests.simulation.autoencoders import dense
from tests.simulation.networks import Network, residual_network, same
from tests.simulation.segmentation import unet


def copying(rows: int, columns: int) -> Graph:
    """As many outputs as inputs."""
    net = Network((rows, columns, 2), 1)
    return net.graph(net.conv(net.conv(net.x, 1, same(3)), 2))


def labelled(names: tuple[str, ...], positions: tuple[int, ...] = ()) -> Split:
    y = np.zeros((4, *positions), np.uint8 if positions else np.int64)
    y.flat[: len(names)] = np.arange(len(names))
    part = Dataset(np.zeros((4, 2, 2, 1), np.int8), y, names)
    return Split(part, part)


def test_a_network_that_reproduces_its_input_learns_that_unless_it_has_an_output_per_class() -> (
    None
):
    graph = dense(24)
    assert choose_loss(graph) == "mse"
    assert choose_loss_for_data(graph, "auto", None) == "mse"
    assert choose_loss_for_data(graph, "auto", 2) == "mse"
    assert choose_loss_for_data(graph, "auto", 24) == "cross-entropy"
    assert choose_loss_for_data(graph, "mse", 24) == "mse"
    assert choose_loss(residual_network()) == "cross-entropy"


def test_outputs_are_compared_with_inputs_up_to_a_number_of_them() -> None:
    rows = MAX_ELEMENTS // 2 // 16
    assert choose_loss(copying(rows, 16)) == "mse"
    assert choose_loss(copying(rows + 1, 16)) == "cross-entropy"
    with pytest.raises(SchemeError, match=r"outputs are more than"):
        choose_loss(copying(rows + 1, 16), "mse")


def test_without_labels_a_classifier_cannot_learn() -> None:
    for name in ("auto", "cross-entropy"):
        with pytest.raises(DataError, match=r"the data has no labels"):
            choose_loss_for_data(residual_network(), name, None)


@pytest.mark.parametrize(("count", "expected"), [(2, None), (3, None), (4, 4)])
def test_a_head_of_positions_stays_if_the_last_classes_are_in_no_image(
    count: int, expected: int | None
) -> None:
    """Of three outputs; unless somebody named the classes, who knows how many there are."""
    graph = unet()
    outputs = graph.tensors[graph.outputs[0]].type.shape[-1]
    assert outputs == 3
    numbers = tuple(map(str, range(count)))
    assert classes_for(graph, labelled(numbers, (2, 2)), "auto") == expected
    named = labelled(tuple("abcd"[:count]), (2, 2))
    assert classes_for(graph, named, "auto") == (None if count == outputs else count)


def test_a_classifier_gets_a_head_for_as_many_classes_as_there_are() -> None:
    graph = residual_network(classes=3)
    assert classes_for(graph, labelled(("0", "1")), "auto") == 2
    assert classes_for(graph, labelled(("0", "1")), "keep") is None
    assert classes_for(graph, labelled(("0", "1", "2")), "auto") is None
    assert classes_for(graph, labelled(("0", "1")), 9) == 9
    assert classes_for(graph, labelled(("0",)), "keep") is None
    with pytest.raises(DataError, match=r"one class, 'a', .*--classes keep"):
        classes_for(graph, labelled(("a",)), "auto")

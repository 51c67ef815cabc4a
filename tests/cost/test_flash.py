"""What of a training step is counted in flash."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mcutrain import prepare
from mcutrain.cost.flash import flash_parts, network_bytes, node_parts
from mcutrain.memplan.plan import align_up
from mcutrain.ops.conv_2d import Conv2D
from tests.selection.networks import graph_of


def test_state_that_begins_with_zeros_takes_no_flash() -> None:
    training = prepare(graph_of("residual", 1), "last:2", accumulate=2).plan.training
    sizes = {name: np.asarray(v).nbytes for name, v in training.state.items() if np.any(v)}
    assert {*training.state} - {*sizes}, "sums of gradients over samples"
    found = {
        key[1]: part.size_bytes
        for key, part in flash_parts(training).items()
        if key[0] == "initial"
    }
    assert found == {name: align_up(size, 4) for name, size in sizes.items()}


def test_of_a_network_beside_another_counts_only_what_that_one_has_not() -> None:
    one, other = graph_of("residual", 1), graph_of("chain", 1)
    assert network_bytes(one, one) == 0
    assert network_bytes(one, other) > 0


def test_channels_in_another_order_are_the_same_parts() -> None:
    graph = graph_of("residual", 1)
    node = next(n for n in graph.nodes if isinstance(n.op, Conv2D))
    stage = node.op.requantize
    turned = replace(stage, mult_q31=stage.mult_q31[::-1], shift=stage.shift[::-1])
    assert turned.mult_q31 != stage.mult_q31
    types = graph.types(node.inputs), graph.types(node.outputs)
    found, other = (
        node_parts(node.name, op, *types, None)
        for op in (node.op, replace(node.op, requantize=turned))
    )
    assert found == other

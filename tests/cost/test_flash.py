"""What of a training step is counted in flash."""

from __future__ import annotations

import numpy as np

from mcutrain.cost.flash import flash_parts, network_bytes
from mcutrain.memplan.plan import align_up
from mcutrain.pipeline import prepare
from tests.sparse.networks import graph_of


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

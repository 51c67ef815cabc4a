"""The true cost of an update scheme, without the search for offsets."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mcutrain.autodiff.train_graph import TrainGraph
from mcutrain.cost.flash import CodeSizes, flash_parts
from mcutrain.memplan.plan import align_up
from mcutrain.memplan.training_plan import lasting, needed_alignment
from mcutrain.sparse.cost import SchemeCost, Span

FRONT = "front, row by row"
"""A step behind all others, with the least that the front takes."""


def cost_of(
    training: TrainGraph,
    align_bytes: int = 4,
    code: CodeSizes | None = None,
    instructions: Mapping[str, int] | None = None,
    least_front_bytes: int = 0,
) -> SchemeCost:
    """Schedule and lifetimes as plan_training has them; the arena's lower bound, step by step.

    code: of the board's instruction set; without it nothing in flash is counted. instructions: of
    each node by its name. least_front_bytes: of the model without any update, below which no plan
    of it is; what a front that is computed row by row takes besides is no sum over tensors.
    """
    align_bytes = max(align_bytes, needed_alignment(training))
    layout = lasting(training, align_bytes)
    nodes = (*layout.training.graph.nodes, *layout.training.apply)
    return SchemeCost(
        steps=(*(node.name for node in nodes), FRONT),
        spans=(
            *(Span(align_up(b.size_bytes, align_bytes), b.first, b.last) for b in layout.buffers),
            Span(least_front_bytes, len(nodes), len(nodes)),
        ),
        state={name: int(np.asarray(value).nbytes) for name, value in training.state.items()},
        flash={} if code is None else flash_parts(training, code),
        work=instructions or {},
    )


def flash_bytes(training: TrainGraph, code: CodeSizes) -> int:
    """About what firmware takes in flash, rather more."""
    return code.fixed + sum(part.size_bytes for part in flash_parts(training, code).values())

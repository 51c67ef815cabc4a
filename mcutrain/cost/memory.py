"""The true cost of an update scheme, without the search for offsets."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mcutrain.autodiff.train_graph import TrainGraph
from mcutrain.cost.flash import CodeSizes, flash_parts
from mcutrain.memplan.plan import align_up
from mcutrain.memplan.training_plan import lay_out, needed_alignment
from mcutrain.sparse.cost import SchemeCost, Span


def cost_of(
    training: TrainGraph,
    align_bytes: int = 4,
    code: CodeSizes | None = None,
    instructions: Mapping[str, int] | None = None,
) -> SchemeCost:
    """Schedule and lifetimes as plan_training has them; the arena's lower bound, step by step.

    code: of the board's instruction set; without it nothing in flash is counted. instructions: of
    each node by its name.
    """
    layout = lay_out(training)
    nodes = (*layout.training.graph.nodes, *layout.training.apply)
    align_bytes = max(align_bytes, needed_alignment(layout.training))
    return SchemeCost(
        steps=tuple(node.name for node in nodes),
        spans=tuple(
            Span(align_up(b.size_bytes, align_bytes), b.first, b.last) for b in layout.buffers
        ),
        state={name: int(np.asarray(value).nbytes) for name, value in training.state.items()},
        flash={} if code is None else flash_parts(training, code),
        work=instructions or {},
    )


def flash_bytes(training: TrainGraph, code: CodeSizes) -> int:
    """About what firmware takes in flash, rather more."""
    return code.fixed + sum(part.size_bytes for part in flash_parts(training, code).values())

"""The true cost of an update scheme, without the search for offsets."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from mcutrain.autodiff.train_graph import TrainGraph
from mcutrain.cost.flash import CodeSizes, flash_parts
from mcutrain.ir.graph import Node
from mcutrain.memplan.plan import align_up
from mcutrain.memplan.training_plan import lasting, needed_alignment
from mcutrain.ops.gradient_sum import GradientSum
from mcutrain.selection.cost import UNNAMED, SchemeCost, Span

EXPONENT = ".exponent"
"""Ends the name of a gradient's, after that of the node that makes it."""
FRONT = "front, row by row"
"""A step behind all others, with the least that the front takes."""


def cost_of(
    training: TrainGraph,
    align_bytes: int = 4,
    code: CodeSizes | None = None,
    instructions: Mapping[str, int] | None = None,
    least_front_bytes: int = 0,
    has_modules: bool = False,
) -> SchemeCost:
    """Schedule and lifetimes as plan_training has them; the arena's lower bound, step by step.

    code: of the board's instruction set; without it nothing in flash is counted. instructions: of
    each node by its name. least_front_bytes: of the model without any update; no plan takes less.
    What a front takes besides, row by row, is no sum over tensors. has_modules: other schemes'
    graphs have more nodes or fewer, which changes numbers in names.
    """
    align_bytes = max(align_bytes, needed_alignment(training))
    layout = lasting(training, align_bytes)
    nodes = (*layout.training.graph.nodes, *layout.training.apply)
    names = step_names(nodes) if has_modules else tuple(node.name for node in nodes)
    steps = {node.name: name for node, name in zip(nodes, names, strict=True)}
    exponents = {f"{n}{EXPONENT}": f"{step}{EXPONENT}" for n, step in steps.items()}
    state = {exponents.get(n, n): np.asarray(v).nbytes for n, v in training.state.items()}
    assert len(state) == len(training.state), "two states have one name"
    return SchemeCost(
        steps=(*names, FRONT),
        spans=(
            *(Span(align_up(b.size_bytes, align_bytes), b.first, b.last) for b in layout.buffers),
            Span(least_front_bytes, len(nodes), len(nodes)),
        ),
        state=state,
        flash={} if code is None else flash_parts(training, code),
        work={steps.get(n, n): w for n, w in (instructions or {}).items()},
    )


def step_names(nodes: Sequence[Node]) -> tuple[str, ...]:
    """Names of nodes that do not depend on what else there is.

    What makes a layer's gradient is called after its operator, since it has the number of all that
    was added up before. What is added up where, modules decide.
    """
    known: Counter[str] = Counter()
    found = []
    for node in nodes:
        made = re.fullmatch(r"(.*)/dx\d*", node.name)
        name = node.name
        if made is not None:
            kind = f"{made[1]}/{type(node.op).__name__}"
            known[kind] += 1
            name = f"{UNNAMED * isinstance(node.op, GradientSum)}{kind}"
            name += f" {known[kind]}" if known[kind] > 1 else ""
        found.append(name)
    return tuple(found)


def flash_bytes(training: TrainGraph, code: CodeSizes) -> int:
    """About what firmware takes in flash, rather more."""
    return code.fixed + sum(part.size_bytes for part in flash_parts(training, code).values())

"""A proxy cascade with fewer levels: as many as a device has room for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from mcutrain_host.dataclass import dataclass

from mcutrain.cost.instructions import USUAL_ISA, network_instructions
from mcutrain.errors import PlanError
from mcutrain.ir.graph import Graph
from mcutrain.ir.verify import proven
from mcutrain.memplan import Ladder
from mcutrain.ops.conv_2d import Conv2D
from mcutrain.ops.reshape import Reshape


def with_levels(ladder: Ladder, levels: Sequence[int]) -> Ladder:
    """The whole front and these of the proxies, 1, 2, … in their order.

    The policy's scores of the others are left out: a sample of theirs takes the front that has the
    largest of those that are left. Raises PlanError for a policy that `mcutrain proxies` did not
    make.
    """
    proxies = tuple(ladder.proxies[level - 1] for level in levels)
    return replace(ladder, proxies=proxies, policy=_policy(ladder.policy, (0, *levels)))


def _policy(policy: Graph, levels: Sequence[int]) -> Graph:
    *before, dense, shape = policy.nodes
    stage = dense.op.requantize if isinstance(dense.op, Conv2D) else None
    if not isinstance(dense.op, Conv2D) or stage is None or not isinstance(shape.op, Reshape):
        raise PlanError("the cascade's policy is none of `mcutrain proxies`: make it again")
    index, tensors = list(levels), dict(policy.tensors)
    for name in dense.inputs[1:]:
        tensor = tensors[name]
        assert tensor.data is not None, "what a policy knows is constant"
        data = np.ascontiguousarray(tensor.data[index])
        scales = tensor.type.scales
        scales = scales if len(scales) == 1 else tuple(scales[i] for i in levels)
        kind = replace(tensor.type, shape=data.shape, scales=scales)
        tensors[name] = replace(tensor, type=kind, data=data)
    for name, own in ((dense.outputs[0], (1, 1, 1)), (shape.outputs[0], (1,))):
        kind = replace(tensors[name].type, shape=(*own, len(levels)))
        tensors[name] = replace(tensors[name], type=kind)
    if len(stage.mult_q31) > 1:
        mults = tuple(stage.mult_q31[i] for i in levels)
        stage = replace(stage, mult_q31=mults, shift=tuple(stage.shift[i] for i in levels))
    nodes = (
        *before,
        replace(dense, op=replace(dense.op, requantize=stage)),
        replace(shape, op=Reshape((1, len(levels)))),
    )
    return proven(replace(policy, tensors=tensors, nodes=nodes))


@dataclass(frozen=True)
class FittingLevels:
    """Proxies 1, 2, … that fit together. ladder: with them; None if none does."""

    ladder: Ladder | None
    kept: tuple[int, ...]
    left_out: tuple[int, ...]


def levels_that_fit(ladder: Ladder, fits: Callable[[Ladder], bool]) -> FittingLevels:
    """What saves most instructions is taken first, and what does not fit beside that is left out.

    fits: whether a program with such a proxy cascade does.
    """
    found: Ladder | None = None
    kept: tuple[int, ...] = ()
    costs = [sum(network_instructions(g, USUAL_ISA).values()) for g in ladder.proxies]
    for i in sorted(range(len(costs)), key=lambda i: (costs[i], -i)):
        levels = tuple(sorted((*kept, i + 1)))
        fewer = with_levels(ladder, levels)
        if fits(fewer):
            found, kept = fewer, levels
    every = range(1, len(ladder.proxies) + 1)
    return FittingLevels(found, kept, tuple(level for level in every if level not in kept))

"""Boards of several schemes in one fleet: the tensors that schemes have in common are averaged.

Each scheme has a base of its own, of one model. A tensor that two of them train alike has the same
numbers in both, and what boards of either learnt is added. All other tensors are averaged over the
boards that train them.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.saved import SavedState

from mcutrain.errors import StateError
from mcutrain.fleets.contribution import Contribution
from mcutrain.fleets.numbers import FleetLayout, TrainedNumbers

Array = npt.NDArray[Any]


def of_scheme(
    layout: FleetLayout,
    base: SavedState,
    one: Contribution,
    theirs: FleetLayout,
    their_base: SavedState,
) -> Contribution:
    """Return what boards of another scheme learnt, as a contribution to this one.

    Tensors that they do not train are `without` their weight. theirs, their_base: layout and base
    of their scheme. Raises StateError where the schemes have nothing in common. Also where their
    common tensors began with other numbers: then the bases are of two rounds or models.
    """
    ours, others = _places(layout), _places(theirs)
    before, their_before = layout.read(base), theirs.read(their_base)
    sums = {name: np.zeros(size, np.int64) for name, size in layout.sizes.items()}
    common = [key for key in ours if key in others]
    if not common:
        raise StateError(
            f"the scheme of {one.boards[0]!r} trains nothing that the fleet's base trains alike: "
            "average these boards by themselves"
        )
    for key in common:
        (name, order), (their_name, their_order) = ours[key], others[key]
        if not np.array_equal(before[name][order], their_before[their_name][their_order]):
            raise StateError(
                f"{name!r} began with other numbers in the base of {one.boards[0]!r} than in the "
                "fleet's: give bases of the same round and model"
            )
        sums[name][order] = one.sums[their_name][their_order]
    lacking = dict.fromkeys(sums, one.weight)
    lacking |= {ours[key][0]: one.without.get(others[key][0], 0) for key in common}
    return replace(
        one,
        model_hash=base.model_hash,
        base=sha256(base.raw).hexdigest(),
        sums=sums,
        without={name: weight for name, weight in lacking.items() if weight},
    )


def _places(layout: FleetLayout) -> dict[tuple[Any, ...], tuple[str, Array]]:
    """Trained tensors by what makes their numbers comparable, each with the model's own order.

    The order: at which place of the state each number of the model is.
    """
    step, found = layout.step, {}
    owners = {split.trained: name for name, split in step.plan.training.split.items()}
    for one in layout.numbers:
        owner = owners.get(one.name, one.name)
        what, order = _place(layout, one, owner)
        key = (owner, one.bits, one.low, one.high, what)
        found[key] = one.name, order
    return found


def _place(layout: FleetLayout, one: TrainedNumbers, owner: str) -> tuple[tuple[Any, ...], Array]:
    """What else a tensor must have in common, and its order. owner: the model's parameter."""
    channels, size = layout.step.order, layout.sizes[one.name]
    index = np.arange(size)
    tensor = channels.graph.tensors.get(owner)
    if tensor is not None and tensor.type.elements == size:
        return (size,), channels.restored(owner, index.reshape(tensor.type.shape)).ravel()
    orders = tuple(
        (axis, tuple(order)) for (name, axis), order in channels.orders.items() if name == owner
    )
    return (size, channels.channels.get(owner), orders), index

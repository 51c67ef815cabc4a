"""Which nodes of a training step serve which trained tensor, so that tensors can be left out.

As in "ElasticTrainer: Speeding Up On-Device Training with Runtime Elastic Tensor Selection"
(MobiSys 2023) a step updates only the tensors that are selected at the moment. The gradient is
passed back no further than they need it. Every node that runs computes the same bits as if all did.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from mcutrain_host.dataclass import dataclass

from mcutrain.ir.graph import Node

FACTOR_BITS = 16
FREE_BITS = 17
"""Products of two moves have 30 bits and factors 16: of so many bits of a count none overflows."""


@dataclass(frozen=True)
class ElasticTensor:
    """A trained tensor that a step may leave out.

    name: of its state. residual: the state with its residual bits, if it has some. rate: what the
    learning rate is multiplied by, one factor or one for each channel, which rate_axis counts.
    bits: behind the point of the stored number; negative if it stands for a larger unit.
    is_always_trained: of the last layer.
    """

    name: str
    residual: str | None
    rate: tuple[float, ...]
    rate_axis: int
    bits: int
    is_always_trained: bool


@dataclass(frozen=True)
class ImportanceScales:
    """What turns moves of a tensor's stored numbers into their importance.

    factors: 1 / rate of each channel, or one for all: factor / 2^16 * 2^exponent, where sums of a
    channel lose dropped_bits. Number i of `count` is of channel i // inner % len(factors).
    """

    factors: tuple[int, ...]
    exponent: int
    dropped_bits: int
    inner: int
    count: int


def importance_of(tensor: ElasticTensor, shape: tuple[int, ...]) -> ImportanceScales:
    """Return the scales for a tensor of this shape, so that no sum overflows int64."""
    real = [4.0**-tensor.bits / rate if rate > 0 else 0.0 for rate in tensor.rate]
    exponent = math.frexp(max(real))[1]
    scaled = (round(math.ldexp(value, FACTOR_BITS - exponent)) for value in real)
    factors = tuple(min(value, 2**FACTOR_BITS - 1) for value in scaled)
    count = math.prod(shape)
    dropped = max(count.bit_length() - FREE_BITS, 0)
    inner = count
    if len(factors) > 1:
        inner = math.prod(shape[tensor.rate_axis % len(shape) + 1 :])
    return ImportanceScales(factors, exponent + dropped, dropped, inner, count)


def served(
    nodes: Iterable[Node], tensors: Iterable[ElasticTensor], updated: Mapping[str, str]
) -> dict[str, frozenset[int]]:
    """Return, by node, the indices of the tensors whose update needs what it computes.

    nodes: of the backward pass and of updates, in execution order. updated: state → its new value.
    """
    made = {updated[t.name]: i for i, t in enumerate(tensors)}
    wanted: dict[str, frozenset[int]] = {name: frozenset({i}) for name, i in made.items()}
    found: dict[str, frozenset[int]] = {}
    for node in reversed(list(nodes)):
        found[node.name] = frozenset().union(*(wanted.get(n, frozenset()) for n in node.outputs))
        for name in node.inputs:
            wanted[name] = wanted.get(name, frozenset()) | found[node.name]
    return found

"""TrainGraph: everything that one training step computes, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy.typing as npt

from mcutrain.autodiff.split import Split
from mcutrain.ir.graph import Graph, Node

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class TrainGraph:
    """Forward, loss, backward and updates of one sample, in execution order.

    graph: reads the inputs `x`, `label`, `step` and the state; its outputs are `loss` (Q16, in the
        loss operator's unit), `prediction` (class of the largest logit) and the updated state.
    apply: nodes that run after the last sample of a group; empty unless samples are accumulated.
    forward: the network with the same state, for inference.
    state: initial value of everything that outlives a step, by tensor name, in storage order.
    updated: state name → name of its value after the step; what is missing does not change.
    parameters: the state names that are trained weights and biases.
    is_tail: x is no sample, but what a front of the network that is not here makes of it.
    split: by name, the network's weights that are trained in part, and biases by their difference.
    classes: how many logits there are. accumulate: samples per update. has_labels: False for a
        network that is to reproduce its input; then there is one class, 0, which nothing reads.
    output_exponent: the state by whose power of two the int8 outputs' scale is larger than their
        tensor says, so that they hold the logits however large they become; None if it is not.
    """

    graph: Graph
    apply: tuple[Node, ...]
    forward: Graph
    state: Mapping[str, Array]
    updated: Mapping[str, str]
    parameters: tuple[str, ...]
    x: str
    label: str
    step: str
    loss: str
    prediction: str
    classes: int
    accumulate: int = 1
    has_labels: bool = True
    output_exponent: str | None = None
    is_tail: bool = False
    split: Mapping[str, Split] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "state", MappingProxyType(dict(self.state)))
        object.__setattr__(self, "updated", MappingProxyType(dict(self.updated)))
        object.__setattr__(self, "split", MappingProxyType(dict(self.split)))

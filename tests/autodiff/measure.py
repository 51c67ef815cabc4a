"""The integer gradients of a training graph as real numbers, and how they compare."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain.autodiff import LossFactory, TrainGraph, TrainOptions, differentiate
from mcutrain.ir.graph import Graph
from mcutrain.ops.gradients import ACC_DROPPED_BITS
from mcutrain.ops.training import ApplyUpdate
from mcutrain.pipeline.losses import loss_of
from mcutrain.simulation import ReferenceSimulator
from mcutrain.simulation.rates import LearningRate
from mcutrain.sparse import find_head
from tests.autodiff.float_model import derivatives
from tests.simulation.networks import raw_updates

Array = npt.NDArray[Any]

SETTLING_UPDATES = 24
"""More than any test network has layers: each may need an update to find its exponent."""
SETTLED_UPDATES = 3
"""After so many that have changed no exponent of int16 none does: each step sees the same sample.
Those of int8 go to and fro, as what it rounds at random is seen."""
MEASURED_UPDATES = {"int8": 16, "int16": 4}
"""Their mean has a quarter of the noise that stochastic rounding adds to one, half of it where
a step is 256 times smaller."""


def raw_training(graph: Graph, dtype: str, loss: LossFactory | None = None) -> TrainGraph:
    """All weights and biases, accumulated, at rate 1: the gradients stay visible in the state."""
    head = find_head(graph).name
    options = TrainOptions(dtype, accumulate=2)
    loss = loss or loss_of(graph, "cross-entropy")
    return differentiate(graph, head, raw_updates(graph), loss, options)


def integer_derivatives(
    training: TrainGraph, x: Array, label: int | Array, updates: int | None = None
) -> dict[str, Array]:
    """dL/dq by parameter: the mean over so many updates, once all exponents have settled."""
    simulator = ReferenceSimulator(training)
    still = [LearningRate(0, 0)]
    (dtype,) = {node.op.dtype for node in training.apply if isinstance(node.op, ApplyUpdate)}
    updates = updates or MEASURED_UPDATES[dtype]
    seen: list[dict[str, int]] = []
    while len(seen) < SETTLING_UPDATES:
        simulator.train(np.concatenate([x, x]), [label] * 2, still * 2)
        seen.append(_exponents(simulator.state))
        if dtype == "int16" and seen[-SETTLED_UPDATES:] == seen[-1:] * SETTLED_UPDATES:
            break
    found: dict[str, Array] = {}
    for _ in range(updates):
        simulator.train(x, [label], still)  # the first of its group: its sum stands alone
        for name, value in _sums(training, simulator.state).items():
            found[name] = found.get(name, 0) + value / updates
        simulator.train(x, [label], still)
    return found


def _exponents(state: Mapping[str, Array]) -> dict[str, int]:
    return {name: int(value[0]) for name, value in state.items() if name.endswith(".exponent")}


def _sums(training: TrainGraph, state: Mapping[str, Array]) -> dict[str, Array]:
    """The accumulated gradients by parameter, as real numbers."""
    state_of = {new: name for name, new in training.updated.items()}
    found = {}
    for node in training.apply:
        assert isinstance(node.op, ApplyUpdate)
        sums = state[state_of[node.inputs[1]]]
        exponent = int(state[state_of[node.inputs[2]]][0]) + ACC_DROPPED_BITS[node.op.dtype]
        along = [-1 if i == node.op.rate_axis % sums.ndim else 1 for i in range(sums.ndim)]
        rate = np.reshape(node.op.rule.rate, along if len(node.op.rule.rate) > 1 else [])
        found[node.inputs[3]] = sums * rate * 2.0**exponent
    return found


def float_derivatives(
    graph: Graph,
    x: Array,
    label: int | Array,
    dropped: tuple[tuple[str, int], ...] = (),
    error: Callable[[Array], Array] | None = None,
) -> dict[str, Array]:
    """dL/dq of all constants, by the float model. error: see derivatives."""
    head = find_head(graph)
    last = graph.logits_node(head.node)
    nodes = graph.nodes[: graph.nodes.index(last)]
    bare = replace(last, op=last.op.as_sums())
    cut = replace(graph, nodes=(*nodes, bare), outputs=bare.outputs)
    scales = np.array(graph.tensors[head.bias].type.scales)
    if last is not head.node:
        y = graph.tensors[head.node.outputs[0]].type
        scales = np.array([y.scale / (y.shape[1] * y.shape[2])])
    found = derivatives(cut, x, label, last.name, scales, dropped, error)
    return {n: found[n] for n, t in graph.tensors.items() if t.is_constant and n in found}


def cosine(a: Array, b: Array) -> float:
    """Of the angle between two gradients."""
    a, b = np.asarray(a, np.float64).ravel(), np.asarray(b, np.float64).ravel()
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def size_ratio(a: Array, b: Array) -> float:
    return float(np.linalg.norm(a) / np.linalg.norm(b))

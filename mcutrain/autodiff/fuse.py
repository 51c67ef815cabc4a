"""Fold rescales (clamp mask, per-channel scale) and sums into the node that feeds them.

One pass in execution order merges all that can be. A merge changes neither who reads other results
nor what the nodes before it computed, so no merge that was passed over becomes possible later.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from mcutrain.autodiff.train_graph import TrainGraph
from mcutrain.ir.graph import Node
from mcutrain.ops.gradient_sum import GradientSum
from mcutrain.ops.gradients import GradientOp, products


def fuse_sums(training: TrainGraph) -> TrainGraph:
    """Sums of two gradients become the addend of the node that computed the later one."""
    draft = _Draft(training)
    for place in range(draft.steps):
        first = _before_sum(draft, place)
        if first is not None:
            draft.merge(first, place, _with_addend(draft.node(first), draft.node(place)))
    return draft.finish()


def _before_sum(draft: _Draft, place: int) -> int | None:
    """A plain gradient node that may add, and whose result only the sum at `place` reads."""
    second = draft.node(place)
    if not (isinstance(second.op, GradientSum) and len(second.op.weights) == 2):
        return None
    terms = [name for name, _ in second.op.named(second.inputs).terms]
    if terms[0] == terms[1]:
        return None
    place_of_first = max(draft.producers[name] for name in terms)
    first = draft.node(place_of_first)
    if not isinstance(first.op, GradientOp) or not first.op.may_add:
        return None
    stage = first.op.stage
    plain = not stage.masked and not stage.addend_scale
    readers = set().union(*(draft.readers[name] for name in first.outputs))
    alone = {reader for reader in readers if reader < draft.steps} == {place}
    return place_of_first if plain and alone else None


def _with_addend(first: Node, second: Node) -> Node:
    """`first` with the other term of the sum as its addend."""
    op, total = first.op, second.op
    assert isinstance(op, GradientOp)
    assert isinstance(total, GradientSum)
    terms = total.named(second.inputs).terms
    own = 0 if terms[0][0] == first.outputs[0] else 1
    stage = replace(
        op.stage,
        scale=products(op.stage.scale, (total.weights[own] * total.stage.scale[0],)),
        addend_scale=(total.weights[1 - own] * total.stage.scale[0],),
    )
    inputs = replace(op.named(first.inputs), addend=terms[1 - own])
    outputs = (second.outputs[0], first.outputs[1])
    return Node(first.name, replace(op, stage=stage), inputs.in_order(), outputs)


def fuse_rescales(training: TrainGraph) -> TrainGraph:
    """Return the gradients with one rounding where there were two, and fewer buffers."""
    draft = _Draft(training)
    for place in range(draft.steps):
        first = _before_rescale(draft, place)
        if first is not None:
            draft.merge(first, place, _with_stage(draft.node(first), draft.node(place)))
    return draft.finish()


def _before_rescale(draft: _Draft, place: int) -> int | None:
    """A plain gradient node whose result only the rescale at `place` reads."""
    second = draft.node(place)
    if not (isinstance(second.op, GradientSum) and len(second.op.weights) == 1):
        return None
    ((term, _),) = second.op.named(second.inputs).terms
    place_of_first = draft.producers.get(term)
    if place_of_first is None:
        return None
    first = draft.node(place_of_first)
    if not isinstance(first.op, GradientOp | GradientSum):
        return None
    if any(len(draft.readers[name]) > 1 for name in first.outputs[:2]):
        return None
    return None if first.op.stage.masked else place_of_first  # then it can be fused


def _with_stage(first: Node, second: Node) -> Node:
    """`first` with the rescale that follows it in its own stage."""
    op, rescale = first.op, second.op
    assert isinstance(op, GradientOp | GradientSum)
    assert isinstance(rescale, GradientSum)
    following = replace(
        rescale.stage, scale=tuple(rescale.weights[0] * s for s in rescale.stage.scale)
    )
    stage = op.stage.fused(following)
    assert stage is not None
    inputs = replace(op.named(first.inputs), mask=rescale.named(second.inputs).mask)
    outputs = (second.outputs[0], first.outputs[1])
    return Node(first.name, replace(op, stage=stage), inputs.in_order(), outputs)


class _Draft:
    """The nodes of a step and of its update, some merged; by place: the step's first."""

    def __init__(self, training: TrainGraph) -> None:
        self.training = training
        self.steps = len(training.graph.nodes)
        self.nodes: list[Node | None] = [*training.graph.nodes, *training.apply]
        self.producers: dict[str, int] = {}
        self.readers: dict[str, set[int]] = defaultdict(set)
        self.gone: list[Node] = []
        for place, node in enumerate(training.graph.nodes + training.apply):
            self._enter(place, node)

    def node(self, place: int) -> Node:
        """The node there; a merged one is not asked for."""
        node = self.nodes[place]
        assert node is not None
        return node

    def merge(self, first: int, second: int, merged: Node) -> None:
        """Put `merged` in the place of `first`, and take `second` and its exponent away."""
        old, gone = self._leave(first), self._leave(second)
        self.nodes[second] = None
        self._enter(first, merged)
        names = {gone.outputs[1]: old.outputs[1]}
        for place in sorted(self.readers[gone.outputs[1]]):
            node = self._leave(place)
            inputs = tuple(names.get(n, n) for n in node.inputs)
            self._enter(place, replace(node, inputs=inputs))
        self.gone.append(gone)

    def finish(self) -> TrainGraph:
        """The training graph of what is left."""
        if not self.gone:
            return self.training
        training = self.training
        exponents = {node.inputs[-1] for node in self.gone}
        updated = {node.outputs[1] for node in self.gone}
        apply = tuple(node for node in self.nodes[self.steps :] if node is not None)
        graph = replace(
            training.graph,
            inputs=tuple(n for n in training.graph.inputs if n not in exponents),
            outputs=tuple(n for n in training.graph.outputs if n not in updated),
        )
        left = [node for node in self.nodes[: self.steps] if node is not None]
        keep = {name for node in apply for name in (*node.inputs, *node.outputs)}
        return replace(
            training,
            graph=graph.with_nodes(left, keep),
            apply=apply,
            state={k: v for k, v in training.state.items() if k not in exponents},
            kinds={k: v for k, v in training.kinds.items() if k not in exponents},
            updated={k: v for k, v in training.updated.items() if k not in exponents},
        )

    def _enter(self, place: int, node: Node) -> None:
        self.nodes[place] = node
        for name in node.inputs:
            self.readers[name].add(place)
        for name in node.outputs:
            self.producers[name] = place

    def _leave(self, place: int) -> Node:
        node = self.node(place)
        for name in node.inputs:
            self.readers[name].discard(place)
        for name in node.outputs:
            self.producers.pop(name, None)
        return node

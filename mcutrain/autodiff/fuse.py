"""Fold rescales (clamp mask, per-channel scale) and sums into the node that feeds them."""

from __future__ import annotations

from dataclasses import replace

from mcutrain.autodiff.train_graph import TrainGraph
from mcutrain.ir.graph import Graph, Node
from mcutrain.ops.gradient_sum import GradientSum
from mcutrain.ops.training import GradientOp, products


def fuse_sums(training: TrainGraph) -> TrainGraph:
    """Sums of two gradients become the addend of the node that computed the later one."""
    graph, apply = training.graph, training.apply
    state, updated = dict(training.state), dict(training.updated)
    while True:
        pair = _next_sum(graph)
        if pair is None:
            return replace(training, graph=graph, apply=apply, state=state, updated=updated)
        first, second = pair
        renamed = {second.outputs[1]: first.outputs[1]}
        apply = tuple(_renamed(node, renamed) for node in apply)
        merged = _with_addend(first, second)
        graph = _merged(graph, first, second, merged, _names(apply))
        del state[second.inputs[-1]], updated[second.inputs[-1]]


def _next_sum(graph: Graph) -> tuple[Node, Node] | None:
    """A plain gradient node that may add, and the sum of two that alone reads its result."""
    for second in graph.nodes:
        if not (isinstance(second.op, GradientSum) and len(second.op.weights) == 2):
            continue
        terms = {second.inputs[1], second.inputs[3]}
        first = next(n for n in reversed(graph.nodes) if terms.intersection(n.outputs))
        if not isinstance(first.op, GradientOp) or not first.op.may_add or len(terms) == 1:
            continue
        stage = first.op.stage
        plain = not stage.masked and not stage.addend_scale
        readers = [n for n in graph.nodes if set(first.outputs).intersection(n.inputs)]
        if plain and readers == [second]:
            return first, second
    return None


def _with_addend(first: Node, second: Node) -> Node:
    """`first` with the other term of the sum as its addend."""
    op, total = first.op, second.op
    assert isinstance(op, GradientOp)
    assert isinstance(total, GradientSum)
    own = 0 if second.inputs[1] == first.outputs[0] else 1
    other = second.inputs[3:5] if own == 0 else second.inputs[1:3]
    stage = replace(
        op.stage,
        scale=products(op.stage.scale, (total.weights[own] * total.stage.scale[0],)),
        addend_scale=(total.weights[1 - own] * total.stage.scale[0],),
    )
    *inputs, exponent = first.inputs
    outputs = (second.outputs[0], first.outputs[1])
    return Node(first.name, replace(op, stage=stage), (*inputs, *other, exponent), outputs)


def fuse_rescales(training: TrainGraph) -> TrainGraph:
    """The same gradients with one rounding where there were two, and fewer buffers."""
    graph, apply = training.graph, training.apply
    state, updated = dict(training.state), dict(training.updated)
    while True:
        pair = _next_pair(replace(graph, nodes=(*graph.nodes, *apply)))
        if pair is None:
            return replace(training, graph=graph, apply=apply, state=state, updated=updated)
        first, second = pair
        renamed = {second.outputs[1]: first.outputs[1]}
        apply = tuple(_renamed(node, renamed) for node in apply)
        graph = _merged(graph, first, second, _with_stage(first, second), _names(apply))
        del state[second.inputs[-1]], updated[second.inputs[-1]]


def _next_pair(graph: Graph) -> tuple[Node, Node] | None:
    """A plain gradient node, and the rescale that is the only reader of its result."""
    producers = {name: node for node in graph.nodes for name in node.outputs}
    readers: dict[str, list[Node]] = {}
    for node in graph.nodes:
        for name in node.inputs:
            readers.setdefault(name, []).append(node)
    for second in graph.nodes:
        if not (isinstance(second.op, GradientSum) and len(second.op.weights) == 1):
            continue
        first = producers.get(second.inputs[1])
        if first is None or not isinstance(first.op, GradientOp | GradientSum):
            continue
        if len(readers[first.outputs[0]]) > 1 or len(readers[first.outputs[1]]) > 1:
            continue
        if first.op.stage.fused(second.op.stage) is not None:
            return first, second
    return None


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
    *inputs, exponent = first.inputs
    outputs = (second.outputs[0], first.outputs[1])
    masks = second.inputs[3:-1]
    return Node(first.name, replace(op, stage=stage), (*inputs, *masks, exponent), outputs)


def _merged(graph: Graph, first: Node, second: Node, merged: Node, keep: set[str]) -> Graph:
    """The graph with `merged` in the place of `first`, and without `second` and its exponent."""
    renamed = {second.outputs[1]: first.outputs[1]}
    nodes = [
        merged if node is first else _renamed(node, renamed)
        for node in graph.nodes
        if node is not second
    ]
    outputs = tuple(n for n in graph.outputs if n != second.outputs[1])
    inputs = tuple(n for n in graph.inputs if n != second.inputs[-1])
    return replace(graph, outputs=outputs, inputs=inputs).with_nodes(nodes, keep)


def _names(nodes: tuple[Node, ...]) -> set[str]:
    return {name for node in nodes for name in (*node.inputs, *node.outputs)}


def _renamed(node: Node, names: dict[str, str]) -> Node:
    """The node with its inputs under other names."""
    return replace(node, inputs=tuple(names.get(n, n) for n in node.inputs))

"""Fold each rescale (clamp mask, per-channel scale) into the node that computed its input."""

from __future__ import annotations

from dataclasses import replace

from mcutrain.autodiff.train_graph import TrainGraph
from mcutrain.ir.graph import Graph, Node
from mcutrain.ops.gradient_sum import GradientSum
from mcutrain.ops.training import GradientOp


def fuse_rescales(training: TrainGraph) -> TrainGraph:
    """The same gradients with one rounding where there were two, and fewer buffers."""
    graph, state, updated = training.graph, dict(training.state), dict(training.updated)
    while True:
        pair = _next_pair(graph)
        if pair is None:
            break
        first, second = pair
        dropped = second.inputs[-1]
        graph = _fused(graph, first, second, dropped, updated)
        del state[dropped], updated[dropped]
    return replace(training, graph=graph, state=state, updated=updated)


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


def _fused(
    graph: Graph, first: Node, second: Node, dropped: str, updated: dict[str, str]
) -> Graph:
    """`first` computes what `second` did; the mask that it now needs moves in front of it."""
    op, rescale = first.op, second.op
    assert isinstance(op, GradientOp | GradientSum)
    assert isinstance(rescale, GradientSum)
    following = replace(
        rescale.stage, scale=tuple(rescale.weights[0] * s for s in rescale.stage.scale)
    )
    stage = op.stage.fused(following)
    assert stage is not None
    masks = second.inputs[3:-1]
    *inputs, exponent = first.inputs
    outputs = (second.outputs[0], first.outputs[1])
    merged = Node(first.name, replace(op, stage=stage), (*inputs, *masks, exponent), outputs)
    renamed = {second.outputs[1]: first.outputs[1]}
    makers = [n for n in graph.nodes if set(masks).intersection(n.outputs)]
    nodes: list[Node] = []
    for node in graph.nodes:
        if node is first:
            nodes += [*(m for m in makers if m not in nodes), merged]
        elif node is not second and not (node in makers and node in nodes):
            nodes.append(replace(node, inputs=tuple(renamed.get(n, n) for n in node.inputs)))
    outputs_left = tuple(n for n in graph.outputs if n != second.outputs[1])
    inputs_left = tuple(n for n in graph.inputs if n != dropped)
    slim = replace(graph, outputs=outputs_left, inputs=inputs_left)
    return slim.with_nodes(nodes)

"""The trainable layers of a network, numbered as update schemes count them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.errors import UnsupportedError, some_of
from mcutrain.ir.graph import Graph, Node
from mcutrain.sparse.module_names import module_part

Array = npt.NDArray[Any]

INT8_MIN = -128


@dataclass(frozen=True)
class Layer:
    """A node with a weight and a bias. index: its place among all of them, the head not counted.

    Layers of modules are counted behind those of the network itself. others: weights that are
    trained with it whenever it is, whole: by which a recurrent layer reads its own outputs.
    """

    index: int
    node: Node
    weight: str
    bias: str
    others: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node.name


def _way_out(graph: Graph, last: Node | None) -> str:
    """Return what to do about an output that no layer gives. last: the node that does."""
    producers = {name: node for node in graph.nodes for name in node.outputs}
    node = last
    while node is not None and not _has_weights(graph, node):
        node = producers.get(node.inputs[0])
    if last is None or node is None:
        return "; export the model with a fully connected layer at its end"
    has_constant = any(graph.tensors[x].is_constant for x in last.inputs[:2])
    if node.outputs[0] in last.inputs and len(last.inputs) == 2 and has_constant:
        return (
            f"; its last layer {node.name!r} has its bias in a node of its own, {last.name!r} "
            f"({type(last.op).__name__}): join them before the model is quantized, as "
            "onnxruntime's quant_pre_process does"
        )
    return (
        f"; export the model so that it ends with its last layer {node.name!r}, without "
        f"{last.name!r} ({type(last.op).__name__}); two classes take two outputs, or one and a "
        "sigmoid; behind an embedding put a fully connected layer with an output for each class, "
        "which --classes N --head-start prototypes starts from the classes' means"
    )


def find_head(graph: Graph) -> Layer:
    """The layer that gives the logits: only its mean over positions, views and a softmax follow.

    Sigmoids may follow, each of one logit. Of several outputs in a row it is the last one's.

    Raises UnsupportedError if there is none, or if outputs come from several layers.
    """
    return heads_of(graph)[-1]


def heads_of(graph: Graph) -> tuple[Layer, ...]:
    """The head of each output that is trained, in the order of the outputs. Raises as find_head."""
    if not graph.row:
        return (_head_of(graph),)
    found = tuple(_head_of(replace(graph, outputs=(name,), row=())) for name in graph.row)
    if len({head.name for head in found}) < len(found):
        raise UnsupportedError(
            f"two of the outputs {some_of(map(repr, graph.row))} of {graph.name!r} come from one "
            "layer: name one of them (--model-output)"
        )
    return found


def _head_of(graph: Graph) -> Layer:
    node = _source_of(graph, graph.outputs[0])
    if any(_source_of(graph, name) is not node for name in graph.outputs[1:]):
        shapes = ("×".join(map(str, graph.tensors[n].type.shape[1:])) for n in graph.outputs)
        named = [f"{n!r} ({shape})" for n, shape in zip(graph.outputs, shapes, strict=True)]
        raise UnsupportedError(
            f"{graph.name!r} has {len(named)} outputs: {some_of(named)}; name the "
            "one whose layer is to be trained as the head, or several: --model-output NAME,…"
        )
    if node is None or not _has_weights(graph, node) or len(node.inputs) != 3:
        raise UnsupportedError(
            f"the output {graph.outputs[0]!r} of {graph.name!r} does not come from a convolution "
            "or fully connected layer (the mean over its positions, reshape, softmax and "
            "sigmoids may follow it), so there is no head to train"
            f"{_way_out(graph, node)}"
        )
    index = sum(_has_weights(graph, n) for n in graph.nodes) - 1
    return Layer(index, node, node.inputs[1], node.inputs[2])


def _source_of(graph: Graph, output: str) -> Node | None:
    """The node that gives an output, before views, a softmax, and a mean over positions."""
    node = graph.probability(output) or graph.producer(output)
    while node is not None and (node.op.is_view or node.op.is_probability):
        node = graph.producer(node.inputs[0])
    if node is not None and node.op.is_mean:
        node = graph.producer(node.inputs[0])
    return node


def layers_of(graph: Graph, head: Layer) -> tuple[Layer, ...]:
    """All layers but the head and those of modules, in execution order."""
    return tuple(la for la in all_layers_of(graph, head) if module_part(la.weight) is None)


def all_layers_of(graph: Graph, head: Layer) -> tuple[Layer, ...]:
    """All layers but the head: first the network's own, then those of modules."""
    heads = {head.name, *(la.name for la in (heads_of(graph) if graph.row else ()))}
    nodes = [n for n in graph.nodes if _has_weights(graph, n) and n.name not in heads]
    nodes.sort(key=lambda n: module_part(n.inputs[1]) is not None)
    return tuple(_layer(i, n) for i, n in enumerate(nodes))


def _layer(index: int, node: Node) -> Layer:
    (weight, *others), (bias, *_) = node.op.layer_inputs
    named = tuple(node.inputs[i] for i in others)
    return Layer(index, node, node.inputs[weight], node.inputs[bias], named)


@dataclass(frozen=True)
class NormalizationLayer:
    """A node whose gamma and beta are parameters of the model. behind: how many layers are ahead.

    parameters: their names, int32, which are trained as biases are.
    """

    name: str
    parameters: tuple[str, ...]
    behind: int


def normalizations_of(graph: Graph, head: Layer) -> tuple[NormalizationLayer, ...]:
    """Those before the head, in execution order."""
    names = {layer.name for layer in layers_of(graph, head)}
    found, behind = [], 0
    for node in graph.nodes[: graph.nodes.index(head.node)]:
        behind += node.name in names
        parameters = tuple(node.inputs[i] for i in node.op.factors)
        if parameters and all(graph.tensors[name].is_constant for name in parameters):
            found.append(NormalizationLayer(node.name, parameters, behind))
    return tuple(found)


def is_linear(graph: Graph, layer: Layer) -> bool:
    """Return whether a layer's outputs may be negative: it ends in no ReLU.

    Blocks of mobile networks end in such a layer, which has few channels, and so few biases.
    """
    return graph.tensors[layer.node.outputs[0]].type.zero_point > INT8_MIN


def _has_weights(graph: Graph, node: Node) -> bool:
    """Return whether it reads an activation, constant int8 weights and constant biases."""
    weights, biases = node.op.layer_inputs
    _, *parameters = node.inputs
    if len(parameters) != len(weights) + len(biases) or not parameters:
        return False
    is_int8 = all(graph.tensors[node.inputs[i]].type.dtype == "int8" for i in weights)
    return is_int8 and all(graph.tensors[name].is_constant for name in parameters)


def channel_norms(graph: Graph, layer: Layer) -> Array:
    """The norm of all weights that read an input channel, in real numbers, for each of them."""
    tensor = graph.tensors[layer.weight]
    assert tensor.data is not None
    w = tensor.data.astype(np.float64)
    if len(tensor.type.scales) > 1:
        axis = tensor.type.axis % w.ndim
        w = w * np.reshape(tensor.type.scales, [-1 if i == axis else 1 for i in range(w.ndim)])
    norms: Array = np.sqrt((w**2).reshape(-1, w.shape[-1]).sum(axis=0))
    return norms

"""What a model file holds: its layers, as update schemes count them, and what they take."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from mcutrain_host.dataclass import dataclass

from mcutrain.arguments import PathLike, checked
from mcutrain.errors import ITEM, ModelError, UnsupportedError
from mcutrain.formats import format_of_quantized, read_float
from mcutrain.formats.contents import FileEdge, contents_of
from mcutrain.functions.listener import SILENT, Listener
from mcutrain.functions.loading import loaded
from mcutrain.ir.graph import Graph, Node
from mcutrain.ir.text import dump
from mcutrain.quant.float_elementwise import Function
from mcutrain.quant.float_graph import FloatGraph, FloatNode
from mcutrain.quant.float_matmul import FloatBatchMatMul
from mcutrain.quant.float_op import FloatOp
from mcutrain.quant.float_shapes import FloatMean, FloatPool
from mcutrain.quant.float_sums import Sums
from mcutrain.shown import Record, Shown
from mcutrain.sparse import all_layers_of, find_head

if TYPE_CHECKING:
    from mcutrain.functions.preparing import Scheme

BIAS_BYTES = 4
LIKELY = "likely "
SEVERAL_OUTPUTS = "the outputs come from several layers; --model-output NAME names one"
NO_LAYER = "no layer gives the output, so that none is trained"


@dataclass(frozen=True)
class LayerInfo:
    """A node. index: as update schemes count layers; None for one that they do not train.

    macs: products of an inference. weights: numbers. bytes: of weights and biases in int8.
    """

    index: int | None
    name: str
    operator: str
    weight_shape: tuple[int, ...] | None
    input: tuple[int, ...]
    output: tuple[int, ...]
    macs: int
    weights: int
    bytes: int


@dataclass(frozen=True)
class EdgeInfo(FileEdge):
    """An input or output of an int8 model: real = scale · (q - zero_point)."""

    scale: float
    zero_point: int


@dataclass(frozen=True, repr=False)
class ModelInfo(Shown):
    """What a model holds.

    inputs, outputs: those of int8 models are EdgeInfo. head: name of the classifier's layer;
    no_head_because: the reason if there is none. layers: of a float model as `quantize` makes them,
    of one that it cannot make int8 none. largest_activation_bytes: in int8.

    Only of float models: operators: how many nodes of each the file has. parameters: its constant
    numbers. quantized_as: the format that `quantize` writes. obstacles: what keeps it from that, a
    sentence each; likely: what the model may be; refusal: all of it in one text.
    graph: the int8 network; None of a float one, and `no_graph` says why there is none.
    """

    name: str
    inputs: tuple[FileEdge, ...]
    outputs: tuple[FileEdge, ...]
    head: str | None = None
    no_head_because: str = ""
    layers: tuple[LayerInfo, ...] = ()
    largest_activation_bytes: int = 0
    graph: Graph | None = None
    no_graph: str = ""
    operators: tuple[tuple[str, int], ...] = ()
    parameters: int = 0
    quantized_as: str = ""
    refusal: str = ""

    @property
    def is_float(self) -> bool:
        """Whether the model is float, and is to be quantized first."""
        return self.graph is None

    @property
    def trainable_layers(self) -> int:
        """Layers before the head."""
        return sum(layer.index is not None for layer in self.layers) if self.head else 0

    @property
    def obstacles(self) -> tuple[str, ...]:
        """Why `quantize` cannot read the model; empty if it can."""
        return tuple(item for item in self._items if not item.startswith(LIKELY))

    @property
    def likely(self) -> tuple[str, ...]:
        """Likely reasons for the obstacles."""
        return tuple(item for item in self._items if item.startswith(LIKELY))

    @property
    def _items(self) -> list[str]:
        """The items of a refusal, or its one sentence."""
        first, *items = self.refusal.split(ITEM)
        return items or [first] * bool(first)

    def text(self, scheme: Scheme | None = None) -> str:
        """Return the graph, a node a line; with a scheme, the training graph of that.

        Raises ModelError for a float model, SchemeError.
        """
        if self.graph is None:
            raise ModelError(self.no_graph)
        if scheme is None:
            return dump(self.graph).rstrip()
        from mcutrain.functions.preparing import prepare  # slow to import

        step = prepare(self.graph, scheme, loss="auto", stream="auto")
        return dump(step.plan.training.graph).rstrip()

    def total(self, what: str) -> int:
        """Return the sum over all layers of macs, weights or bytes."""
        return sum(getattr(layer, what) for layer in self.layers)

    def summary(self) -> str:
        """Return a line that describes it."""
        if self.refusal:
            return f"{self.name}, float, {len(self.obstacles)} obstacles to int8"
        return (
            f"{self.name}{', float' if self.is_float else ''}: {self.trainable_layers} layers "
            f"before the head, {self.total('macs'):,} MACs, {self.total('weights'):,} weights"
        )

    def records(self) -> list[Record]:
        """A row for each node."""
        return [asdict(layer) for layer in self.layers]

    def to_dict(self) -> Record:
        """Return it as `mcutrain info --json` prints it, without the file's name."""
        facts: Record = {
            "inputs": [asdict(edge) for edge in self.inputs],
            "outputs": [asdict(edge) for edge in self.outputs],
        }
        if self.is_float:
            facts |= {"is_float": True, "operators": dict(self.operators)}
            facts |= {"parameters": self.parameters}
            facts |= {"obstacles": list(self.obstacles), "likely": list(self.likely)}
            if self.refusal:
                return facts
            facts["quantized_as"] = self.quantized_as
        else:
            facts["no_head_because"] = self.no_head_because or None
        return {
            "name": self.name,
            **facts,
            "head": self.head,
            "layers": self.records(),
            "trainable_layers": self.trainable_layers,
            **{what: self.total(what) for what in ("macs", "weights", "bytes")},
            "largest_activation_bytes": self.largest_activation_bytes,
        }


@checked
def info(model: Graph | PathLike, *, listener: Listener = SILENT) -> ModelInfo:
    """Say what a model holds: its layers, numbered as update schemes count them.

    model: an int8 model, or the file of a float one. Of a float model the result says what
        `quantize` will make of it, and all that is in its way.
    listener: hears where a file's own runtime computes other bits.

    Raises ModelError for a file that is neither.

    >>> info("model.int8.tflite").to_pandas()
    """
    try:
        return _of_graph(loaded(model, listener))
    except ModelError as error:
        if isinstance(model, Graph) or not _is_float(Path(model)):
            raise
        return _of_float(Path(model), str(error))


def _is_float(path: Path) -> bool:
    """Return whether it is a float model; nothing is known of a file that is none."""
    try:
        return contents_of(path).is_float
    except ModelError:
        return False


def _of_graph(graph: Graph) -> ModelInfo:
    head, reason, indices = None, "", {}
    try:
        node = find_head(graph)
        head, indices = node.name, {la.name: la.index for la in all_layers_of(graph, node)}
    except UnsupportedError as error:
        reason = str(error)
    activations = [t.type.size_bytes for t in graph.tensors.values() if not t.is_constant]
    return ModelInfo(
        name=graph.name,
        inputs=_edges(graph, graph.inputs),
        outputs=_edges(graph, graph.outputs),
        head=head,
        no_head_because=reason,
        layers=tuple(_layer(graph, node, indices.get(node.name)) for node in graph.nodes),
        largest_activation_bytes=max(activations, default=0),
        graph=graph,
    )


def _edges(graph: Graph, names: tuple[str, ...]) -> tuple[EdgeInfo, ...]:
    kinds = [(name, graph.tensors[name].type) for name in names]
    return tuple(EdgeInfo(n, t.shape, t.dtype, t.scale, t.zero_point) for n, t in kinds)


def _layer(graph: Graph, node: Node, index: int | None) -> LayerInfo:
    types, results = graph.types(node.inputs), graph.types(node.outputs)
    constants = [graph.tensors[n].type for n in node.inputs if graph.tensors[n].is_constant]
    return LayerInfo(
        index=index,
        name=node.name,
        operator=type(node.op).__name__,
        weight_shape=constants[0].shape if constants else None,
        input=types[0].shape,
        output=results[0].shape,
        macs=node.op.macs(types, results),
        weights=sum(t.elements for t in constants[:1]),
        bytes=sum(t.size_bytes for t in constants),
    )


def _of_float(path: Path, no_graph: str) -> ModelInfo:
    """Return what is in a float file, and what `quantize` makes of it."""
    contents = contents_of(path)
    found = ModelInfo(
        name=path.name,
        inputs=contents.inputs,
        outputs=contents.outputs,
        no_graph=no_graph,
        operators=tuple(sorted(contents.operators.items())),
        parameters=contents.parameters,
    )
    try:
        network = read_float(path).network
        return _of_network(network, found)
    except ModelError as error:
        return replace(found, refusal=str(error))


def _of_network(network: FloatGraph, found: ModelInfo) -> ModelInfo:
    """The file with its layers after folding, in int8 sizes."""
    head = _head(network)
    weighted = [n.output for n in network.nodes if isinstance(n.op, Sums) and n is not head]
    indices = {name: index for index, name in enumerate(weighted)}
    several = SEVERAL_OUTPUTS if len(found.outputs) > 1 else NO_LAYER
    return replace(
        found,
        name=network.name,
        head=None if head is None else head.name,
        no_head_because="" if head else several,
        layers=tuple(_float_layer(network, n, indices.get(n.output)) for n in network.nodes),
        largest_activation_bytes=max(math.prod(shape) for shape in network.shapes.values()),
        quantized_as=format_of_quantized(network, None),
    )


def _head(network: FloatGraph) -> FloatNode | None:
    """The layer of the logits; None if no layer gives them, or outputs come from several."""
    node = _source_of(network, network.outputs[0])
    if any(_source_of(network, name) is not node for name in network.outputs[1:]):
        return None
    return node if node is not None and isinstance(node.op, Sums) else None


def _source_of(network: FloatGraph, output: str) -> FloatNode | None:
    """The node that gives an output, before views, a softmax, and a mean over positions."""
    node = network.producers.get(output)
    while node is not None and (node.op.is_view or node.op.is_probability or _is_sigmoid(node.op)):
        node = network.producers.get(node.inputs[0])
    if node is not None and isinstance(node.op, FloatMean):
        node = network.producers.get(node.inputs[0])
    return node


def _is_sigmoid(op: FloatOp) -> bool:
    return isinstance(op, Function) and op.name == "logistic"


def _float_layer(network: FloatGraph, node: FloatNode, index: int | None) -> LayerInfo:
    op, y = node.op, network.shapes[node.output]
    w = op.w if isinstance(op, Sums) else None
    return LayerInfo(
        index=index,
        name=node.name,
        operator=_called(op),
        weight_shape=None if w is None else w.shape,
        input=network.shapes[node.inputs[0]],
        output=y,
        macs=op.macs(y) if isinstance(op, Sums | FloatBatchMatMul) else 0,
        weights=0 if w is None else w.size,
        bytes=0 if w is None else w.size + BIAS_BYTES * y[-1],
    )


def _called(op: FloatOp) -> str:
    """An operator's name for a reader."""
    if isinstance(op, Function):
        return op.name
    if isinstance(op, FloatPool):
        return "MaxPool" if op.largest else "AveragePool"
    return type(op).__name__.removeprefix("Float")

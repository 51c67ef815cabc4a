"""Where the classifier of a training step is: what it reads, and where the state keeps it."""

from __future__ import annotations

from mcutrain_host.dataclass import dataclass

from mcutrain.autodiff.train_graph import TrainGraph
from mcutrain.errors import SchemeError
from mcutrain.ir.graph import Node
from mcutrain.ops.training import ApplyUpdate, ParameterGradientOp


@dataclass(frozen=True)
class Classifier:
    """A fully connected layer that is trained. Its classes share one weight scale.

    node: its name in an inference. x: what it reads, int8 features with a zero_point. weight, bias,
    residual: names in the state; residual has `bits` for each weight, and is None where there are
    none.
    """

    node: str
    x: str
    zero_point: int
    weight: str
    bias: str
    residual: str | None
    bits: int
    features: int
    classes: int

    @staticmethod
    def of(training: TrainGraph) -> Classifier:
        """Raises SchemeError for a step whose classes cannot be given other weights one by one."""
        loss = training.graph.nodes[training.loss_step]
        head = training.graph.producer(loss.inputs[1])
        if head is None or not training.has_labels or training.positions:
            raise SchemeError(f"{training.graph.name!r} gives no class for a sample")
        if training.graph.tensors[loss.inputs[1]].type.elements < training.classes:
            raise SchemeError(
                f"{training.graph.name!r} has one output for two classes, which have no row each: "
                "a model with an output for each can imprint them"
            )
        tensors = training.graph.tensors
        if len(head.inputs) != 3 or not {*head.inputs[1:]} <= {*training.parameters}:
            raise SchemeError(_no_classifier(head))
        x, weight, bias = head.inputs
        kind, w = tensors[x].type, tensors[weight].type
        if w.shape[1:3] != (1, 1) or kind.shape[1:3] != (1, 1):
            raise SchemeError(_no_classifier(head))
        if len(w.scales) != 1:
            raise SchemeError(
                f"the classes of the head {head.name!r} have a weight scale each, so a row that "
                "one gets is no measure for another: give it new classes (classes)"
            )
        update = _update_of(training, weight)
        rule = update.op.rule if isinstance(update.op, ParameterGradientOp | ApplyUpdate) else None
        bits = 0 if rule is None else rule.residual_bits
        residual = update.inputs[update.inputs.index(weight) + 1] if bits else None
        node = next(n for n in training.forward.nodes if weight in n.inputs)
        return Classifier(
            node.name, x, kind.zero_point, weight, bias, residual, bits, w.shape[3], w.shape[0]
        )


def _update_of(training: TrainGraph, name: str) -> Node:
    """The node that gives a parameter its value after the step."""
    nodes = (*training.graph.nodes, *training.apply)
    return next(n for n in nodes if training.updated[name] in n.outputs)


def _no_classifier(head: Node) -> str:
    return f"the head {head.name!r} is no fully connected layer, whose classes have a row each"

"""What a device has learnt, as a graph: the state's parameters in the model's own order."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy.typing as npt
from mcutrain_host.errors import HostError, StateTooLongError
from mcutrain_host.saved import HEADER_BYTES, SavedState

from mcutrain.data.layout import InputOrder
from mcutrain.errors import DataError, PlanError, SchemeError, StateError, UnsupportedError
from mcutrain.features import features_of
from mcutrain.ir.digest import graph_digest
from mcutrain.ir.graph import Graph, Node, Tensor, TensorType
from mcutrain.ir.op import ChannelwiseOp, Op
from mcutrain.ir.verify import proven
from mcutrain.modules import numbers_of, parse_pet
from mcutrain.pipeline import TrainingStep, prepare
from mcutrain.pipeline.recipe import Recipe
from mcutrain.quant import ends_in_sigmoids, scale_outputs
from mcutrain.sparse import find_head
from mcutrain.trained.state import SavedRun

Array = npt.NDArray[Any]


def step_of(original: Graph, recipe: Recipe) -> TrainingStep:
    """The step that was trained; what a new head began from does not matter.

    What is computed row by row in a whole step does not matter either. Nothing is here, since a
    tail's latent may have been chosen so. Raises StateError where the original is another model
    than the one whose tail was trained.
    """
    try:
        return prepare(original, recipe.scheme, recipe.options, stream="off")
    except PlanError as error:
        if recipe.options.part == "whole":
            raise
        raise StateError(
            f"the tail that was trained begins with {recipe.options.latent!r}, which is no place "
            "to cut this model: give the file that its project was generated from"
        ) from error


def model_of(original: Graph, recipe: Recipe, where: str) -> Graph:
    """What was trained: the model's graph with the modules that were put into it, if some were.

    It has the name that the model had then, which a state's hash depends on, and the front end.
    original: of the model's file, or of the one with modules. where: a state is, for sentences.
    Raises StateError where it is another model than the one that was trained.
    """
    if not recipe.model:
        return original
    original = _with_frontend(original, recipe.frontend, where)
    found, named = graph_digest(original), replace(original, name=recipe.name or original.name)
    if found != recipe.model:
        if recipe.numbers and numbers_of(original) == recipe.numbers:
            return named
        raise StateError(
            f"{where} was trained from another model: its graph has the hash {recipe.model}, that "
            f"of {original.name} is {found}; give the file that was trained"
        )
    if not recipe.numbers:
        return named
    try:
        return parse_pet(recipe.pet).again(named, recipe.numbers)
    except SchemeError as error:
        raise StateError(
            f"{where} does not say of which modules it is ({error}): give the file that "
            "--save-model wrote"
        ) from error


def _with_frontend(graph: Graph, text: str, where: str) -> Graph:
    """Add the front end that training samples came from; the file's own, if it names one."""
    shape = graph.tensors[graph.inputs[0]].type.shape[1:]
    order = graph.input_order or InputOrder.own(shape, graph.name)
    if not text or order.frontend is not None:
        return graph
    try:
        return replace(graph, input_order=order.with_frontend(text))
    except DataError as error:
        raise StateError(f"{where} was trained with another model's front end: {error}") from error


def trained_graph(
    step: TrainingStep, saved: bytes, original: Graph, where: str = "the state"
) -> Graph:
    """The original with what was trained in it; a new head is followed by what followed the old.

    saved: as mct_state_save writes it. where: it is, for sentences. The output's scale is as large
    as training made it (see TrainGraph.output_exponent). The graph computes the bits of the step's
    forward pass; if a softmax follows a new head, those of the softmax of them. Raises
    StateError if the state is damaged, or of another model or scheme.
    """
    check_state(step, saved, where)
    return _with_values(step, saved, original)


def trained_by(run: SavedRun, recipe: Recipe, original: Graph) -> tuple[Graph, Graph]:
    """The graph that a file's state was trained from (see model_of), and the trained one.

    recipe: how it was trained. Raises StateError as `model_of` and `trained_graph`.
    """
    model = model_of(original, recipe, str(run.where))
    found = trained_in(run, step_of(model, recipe), model)
    return replace(model, name=original.name), replace(found, name=original.name)


def trained_in(run: SavedRun, step: TrainingStep, original: Graph) -> Graph:
    """As `trained_graph`, of the state in a file, of which no more is read than it can have."""
    where = str(run.where)
    try:
        saved = run.saved(step.plan.kept_bytes + HEADER_BYTES)
    except StateTooLongError as error:
        raise StateError(f"{_other(step, where)}; {error}") from error
    except HostError as error:
        raise StateError(str(error)) from error
    return trained_graph(step, saved, original, where)


def _with_values(step: TrainingStep, saved: bytes, original: Graph) -> Graph:
    training = step.plan.training
    has_labels = bool(training.positions) and training.threshold is not None
    if has_labels and original.gives_probabilities and not ends_in_sigmoids(original):
        raise UnsupportedError(
            f"{original.name!r} ends in a softmax, by which its outputs are one choice, but what "
            "was trained says yes or no for each: the file cannot get its head; generated C can"
        )
    values = trained_tensors(step, saved)
    tensors = {
        name: replace(tensor, data=values[name]) if name in values else tensor
        for name, tensor in step.graph.tensors.items()
    }
    graph = replace(step.graph, tensors=tensors)
    scaled = scale_outputs(graph, find_head(graph).node, output_exponent(step, saved))
    return with_original_tail(proven(scaled), original)


def output_exponent(step: TrainingStep, saved: bytes) -> int:
    """By which power of two the outputs' scale is larger than that of the step's graph.

    saved: of this step (see check_state). 0 where outputs keep their scale.
    """
    name = step.plan.training.output_exponent
    if name is None:
        return 0
    return int(step.plan.state.unpack(saved[HEADER_BYTES:])[name][0])


def trained_tensors(step: TrainingStep, saved: bytes) -> dict[str, Array]:
    """The weights and biases that the step trains, as its forward pass reads them.

    saved: of this step (see check_state).
    That is the int8 alone of a weight, whose residual bits only updates read, and the int32 of a
    bias. A weight that is trained in part is put together from its frozen and its trained columns.
    """
    training = step.plan.training
    state = step.plan.state.unpack(saved[HEADER_BYTES:])
    values: dict[str, Array] = {name: state[name] for name in training.parameters}
    for name, split in training.split.items():
        if split.columns is not None:
            values[name] = state[split.frozen]  # with what was trained in it
            continue
        frozen = training.forward.tensors[split.frozen].data
        assert frozen is not None, f"{split.frozen!r} is no constant"
        values[name] = split.whole(frozen, state[split.trained])
    own = {n for n, t in step.graph.tensors.items() if t.is_constant}
    return {n: step.order.restored(n, value) for n, value in values.items() if n in own}


def check_state(step: TrainingStep, saved: bytes, where: str) -> None:
    """Raise StateError with a sentence if the state is not one of this step."""
    try:
        found = SavedState.parse(saved, where).model_hash
    except HostError as error:
        raise StateError(str(error)) from error
    if found != step.model_hash:
        raise StateError(_other(step, where))


def _other(step: TrainingStep, where: str) -> str:
    """That a state is of another step, as a sentence."""
    return (
        f"{where} was trained with another model, or with other flags than these: "
        f"--scheme {step.scheme.name}, {step.plan.training.classes} classes, "
        f"--accumulate {step.plan.training.accumulate}{_options(step)}; give those of the "
        "training, and the version of mcutrain that it was made with"
    )


def _options(step: TrainingStep) -> str:
    """And what else the state's layout depends on."""
    gate = step.plan.training.gate
    training = step.plan.training
    more = (", elastic" if training.elastic else "") + (
        ", --resample" if training.resampled else ""
    )
    if training.levels is not None:
        more += f", a cascade of {training.levels.count} fronts"
        more += "".join(f", --{f.option}" for f in features_of(training) if f.option)
    return (", no gate" if gate is None else f", gate {gate.alpha:g}") + more


def with_original_tail(graph: Graph, original: Graph) -> Graph:
    """The graph with a new head, under the old one's names, followed by what followed the old one.

    A graph with the original's own head stays as it is.
    """
    new, old = find_head(graph), find_head(original)
    if new.weight == old.weight:
        return graph
    names = dict(zip(_names(graph, new.node), _names(original, old.node), strict=True))
    tensors = {names.get(n, n): replace(t, name=names.get(n, n)) for n, t in graph.tensors.items()}
    nodes = [
        replace(
            node,
            inputs=tuple(names.get(n, n) for n in node.inputs),
            outputs=tuple(names.get(n, n) for n in node.outputs),
        )
        for node in graph.nodes
    ]
    place = original.nodes.index(original.logits_node(old.node))
    tail: list[Node] = []
    for node in original.nodes[place + 1 :]:
        tail.append(_adapted(node, tensors, original))
    tensors.update({n: original.tensors[n] for n in _constants(original, tail) - tensors.keys()})
    joined = replace(graph, tensors=tensors, outputs=original.outputs)
    return proven(joined.with_nodes((*nodes, *tail)))


def _adapted(node: Node, tensors: dict[str, Tensor], original: Graph) -> Node:
    """A node behind the head, for as many classes as there are now; its output is noted."""
    source, y = node.inputs[0], node.outputs[0]
    if source not in tensors:
        raise UnsupportedError(
            f"node {node.name!r} is not behind the new head; a model with several outputs cannot "
            "be exported with another head"
        )
    x = tensors[source].type
    old = original.tensors[source].type
    is_sigmoid = node.op.is_probability and isinstance(node.op, ChannelwiseOp)
    if is_sigmoid and old.elements == 1 and x.elements > 1:
        raise UnsupportedError(
            f"node {node.name!r} is the sigmoid of one output, which {x.shape[-1]} classes do not "
            "have: the file cannot get their head; generated C can, and two classes keep the output"
        )
    op = node.op if x.scales == old.scales or node.op.is_view else _rescaled(node, x, old)
    try:
        op = op.resized(old.elements, x.elements)
    except ValueError as error:
        raise UnsupportedError(f"node {node.name!r}: {error}") from error
    (inferred,) = op.infer(*(tensors[n].type for n in node.inputs))
    like = replace(original.tensors[y].type, shape=inferred.shape)
    if op.is_view:
        like = TensorType(inferred.shape, x.dtype, x.scales, x.zero_point)
    tensors[y] = Tensor(y, like)
    return replace(node, op=op)


def _rescaled(node: Node, x: TensorType, old: TensorType) -> Op:
    """The operator for an input whose scale is another by a power of two."""
    mantissa, exponent = math.frexp(x.scale / old.scale)
    if mantissa != 0.5 or not node.op.is_probability:
        raise UnsupportedError(
            f"node {node.name!r} was made for another scale than the new head's outputs have"
        )
    return node.op.scaled(exponent - 1)


def _names(graph: Graph, head: Node) -> tuple[str, ...]:
    """Weight, bias, output, and that of a mean over positions, or the output again."""
    return (*head.inputs[1:], *head.outputs, *graph.logits_node(head).outputs)


def _constants(graph: Graph, nodes: list[Node]) -> set[str]:
    return {n for node in nodes for n in node.inputs if graph.tensors[n].is_constant}

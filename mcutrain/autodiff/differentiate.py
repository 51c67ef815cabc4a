"""Compile-time reverse-mode differentiation of an int8 graph."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain import fixedpoint
from mcutrain.autodiff.elastic import ElasticTensor
from mcutrain.autodiff.fuse import fuse_rescales, fuse_sums
from mcutrain.autodiff.rewriting import Rewriting
from mcutrain.autodiff.split import split_parameters
from mcutrain.autodiff.state_kinds import (
    BIASES,
    EXPONENTS,
    GRADIENT_SUMS,
    RESIDUAL_BITS,
    WEIGHTS,
    StateKind,
)
from mcutrain.autodiff.train_graph import LabelRange, TrainGraph
from mcutrain.errors import SchemeError, UnsupportedError
from mcutrain.ir.fit import fit_sums
from mcutrain.ir.graph import Graph, Node, Tensor, TensorType
from mcutrain.ir.op import Gradient, Op, ParameterUpdate
from mcutrain.ir.verify import proven
from mcutrain.ops import gradients, training, updating
from mcutrain.ops.gradient_sum import GradientSum
from mcutrain.ops.loss import LARGEST_EXPONENT, LossOp, OutputRange
from mcutrain.ops.scale_sums import ScaleSums
from mcutrain.ops.several import LabelPart, LossSum
from mcutrain.update_rules import AdaptingRule, rule_of

Array = npt.NDArray[Any]
NEW_EXPONENT = (fixedpoint.INITIAL_EXPONENT, fixedpoint.NO_EXPONENT, fixedpoint.NO_EXPONENT)
LossFactory = Callable[[tuple[float, ...], str, bool, int], LossOp]


@dataclass(frozen=True)
class OutputLoss:
    """What one of several outputs learns.

    head: its last layer. loss: as differentiate takes it. weight: by which the loss counts.
    unit: what the loss operator's number is multiplied by for the sum of all, besides.
    """

    head: str
    loss: LossFactory
    weight: float = 1.0
    unit: float = 1.0


Losses = LossFactory | tuple[OutputLoss, ...]
"""Of one output, or of each of several."""


@dataclass(frozen=True)
class TrainOptions:
    """How it learns. gradient_dtype: int8 or int16. accumulate: samples per update."""

    gradient_dtype: str = "int8"
    accumulate: int = 1


def differentiate(
    graph: Graph,
    head: str,
    updates: Mapping[str, ParameterUpdate],
    loss: Losses,
    options: TrainOptions = TrainOptions(),
    rewritings: Sequence[Rewriting] = (),
) -> TrainGraph:
    """The training step that updates the parameters named in `updates`.

    graph: an int8 network. head: the last layer, whose sums the loss reads, or those of their mean
    over positions; what follows (reshape, softmax) belongs to inference only. loss: makes the loss
    operator from the scale of the sums, the gradient type, whether exponents may differ between
    samples, and a salt. Or what each of several outputs learns; labels are then a row of int16, one
    output's after another's. rewritings: what features add, in this order.
    """
    unknown = [name for name in updates if name not in graph.tensors]
    if unknown:
        raise SchemeError(f"the model has no parameters named {sorted(unknown)}")
    builder = _Builder(graph, updates, options, rewritings)
    if isinstance(loss, tuple):
        builder.add_forward([each.head for each in loss])
        builder.add_losses(loss)
    else:
        builder.add_forward([head])
        builder.add_loss(loss)
    builder.add_backward()
    return builder.finish()


@dataclass(frozen=True)
class _Following:
    """Outputs whose scale follows the logits: of which node, by which state, up to which limit."""

    node: Node
    exponent: str
    limit: int


class _Builder:
    """Collects the nodes of a training graph; it is the `Emit` that operators talk to."""

    def __init__(
        self,
        graph: Graph,
        updates: Mapping[str, ParameterUpdate],
        options: TrainOptions,
        rewritings: Sequence[Rewriting],
    ) -> None:
        resamples = any(rewriting.resamples_columns for rewriting in rewritings)
        graph, self.split = split_parameters(graph, updates, resamples)
        self.source = graph
        self.updates = updates
        self.parameters = tuple(self._storage(name) for name in updates)
        self.columns = tuple(s.columns for s in self.split.values() if s.columns is not None)
        self.backing = tuple(s.frozen for s in self.split.values() if s.columns is not None)
        self.options = options
        self.rewritings = rewritings
        self.tensors = {k: self._as_state(v) for k, v in graph.tensors.items()}
        self.nodes: list[Node] = []
        self.apply: list[Node] = []
        self.state: dict[str, Array] = {}
        self.kinds: dict[str, StateKind] = {}
        self.updated: dict[str, str] = {}
        self.gradients: dict[str, list[Gradient]] = {}
        self.known: dict[tuple[Op, tuple[str, ...]], str] = {}
        self.saved: dict[str, tuple[str, ...]] = {}
        self.node_names = {node.name for node in graph.nodes}
        self.current = ""
        self.heads: list[str] = []
        self.following: _Following | None = None
        self.label_ranges: list[LabelRange] = []
        self.trained: list[ElasticTensor] = []
        self.salts = 0
        self.wanted = self._reachable()
        self.step = self._input("step", gradients.STEP)
        self.label = self._input("label", TensorType((1,), "int32"))
        for name in self.parameters:
            self._add_parameter(name)
        for rewriting in rewritings:
            rewriting.begin(self)

    # ------------------------------------------------------------------ what operators ask for

    @property
    def gradient_dtype(self) -> str:
        return self.options.gradient_dtype

    def wants(self, tensor: Tensor) -> bool:
        return tensor.name in self.wanted

    def update(self, parameter: Tensor) -> ParameterUpdate | None:
        return self.updates.get(parameter.name)

    def mask(self, y: Tensor) -> str:
        (name,) = self._saved(y, "mask", lambda op: op.with_mask())
        return name

    def history(self, y: Tensor) -> tuple[str, ...]:
        return self._saved(y, "history", lambda op: op.with_history())

    def _saved(self, y: Tensor, what: str, change: Callable[[Op], Op]) -> tuple[str, ...]:
        """What the changed operator gives besides y; the node that computes y has it from now."""
        if y.name not in self.saved:
            position = next(i for i, n in enumerate(self.nodes) if y.name in n.outputs)
            node = self.nodes[position]
            op = change(node.op)
            names = []
            for kind in op.infer(*(self.tensors[n].type for n in node.inputs))[1:]:
                names.append(self.unused(f"{y.name}.{what}"))
                self.tensors[names[-1]] = Tensor(names[-1], kind)
            self.nodes[position] = replace(node, op=op, outputs=(y.name, *names))
            self.saved[y.name] = tuple(names)
        return self.saved[y.name]

    def value(self, parameter: Tensor) -> str:
        split = self.split.get(parameter.name)
        if split is None or split.node is None:
            return parameter.name
        (value,) = self._add(split.node.op, split.node.inputs, "weight")
        return value

    def salt(self) -> int:
        self.salts += 1
        return self.salts

    def node(self, op: Op, *inputs: str) -> str:
        key = (op, inputs)
        if key not in self.known:
            (output,) = self._add(op, inputs, type(op).__name__.lower())
            self.known[key] = output
        return self.known[key]

    def gradient(self, op: Op, dy: Gradient, *inputs: str) -> Gradient:
        return self._add_gradient(op, (dy.name, dy.exponent, *inputs))

    def train(
        self, op: Op, update: ParameterUpdate, dy: Gradient, *inputs: str, parameter: Tensor
    ) -> None:
        assert isinstance(op, training.ParameterGradientOp)
        bits = update.residual_bits if parameter.type.dtype == "int8" else 0
        bits -= update.difference_shift or 0
        rule = self._rule(op, update, dy.scale, bits)
        state = [self._storage(parameter.name)]
        if bits > 0:
            residual = updating.initial_residual(int(np.prod(op.trained)), bits)
            state.append(self.add_state(f"{parameter.name}.residual", residual, RESIDUAL_BITS))
        self.trained.append(
            ElasticTensor(
                name=state[0],
                residual=state[1] if bits > 0 else None,
                rate=_of_trained(self.updates[parameter.name].rate, update, op),
                rate_axis=op.rate_axis,
                bits=bits,
                is_always_trained=self.current in self.heads,
            )
        )
        state += self._slots(op, rule, parameter.name)
        if self.options.accumulate == 1:
            with_rule = replace(op, rule=rule)
            read = (self.step, dy.name, dy.exponent, *inputs, *state)
            self._add_updating(with_rule, read, state, f"{parameter.name}.update")
            return
        if gradients.ACC_DROPPED_BITS[self.gradient_dtype]:
            op = replace(op, sum_rule=self._sum_rule(op, dy))
            rule = replace(rule, rate=tuple(r / 2**op.sum_rule.kept_bits for r in rule.rate))
        zeros = np.zeros(op.trained, np.int32)
        total = self.add_state(f"{parameter.name}.sum", zeros, GRADIENT_SUMS)
        read = (self.step, dy.name, *inputs, total)
        (summed,) = self._add_updating(op, read, [total], f"{parameter.name}.grad")
        apply = training.ApplyUpdate(rule, self.gradient_dtype, op.rate_axis)
        read = (self.step, summed, dy.exponent, *state)
        self._add_updating(apply, read, state, f"{parameter.name}.apply", self.apply)

    def _rule(
        self, op: training.ParameterGradientOp, update: ParameterUpdate, scale: float, bits: int
    ) -> updating.UpdateRule:
        """How a tensor moves. scale: of its gradient; bits: behind the point of its steps."""
        rule = rule_of(update.rule)
        if rule is not None:
            self._check_rule(rule)
            scale = rule.constant(scale, op.trained_count)
        rates = _of_trained(update.rate, update, op)
        unit = 2.0**bits
        factors = tuple([r * scale * unit for r in rates])
        if rule is None:
            return updating.UpdateRule(factors, bits, self.salt())
        return updating.AdaptedUpdate(factors, bits, self.salt(), rule)

    def _check_rule(self, rule: AdaptingRule) -> None:
        """Raises SchemeError for options of the step that only SGD knows."""
        wide = "gradients of 16 bits (--gradient-bits)" if self.gradient_dtype != "int8" else ""
        reasons = (wide, *(rewriting.needs_sgd for rewriting in self.rewritings))
        what = next(filter(None, reasons), "")
        if what:
            raise SchemeError(
                f"the update rule {rule.name!r} cannot be used with {what}: leave that out, or "
                "train with sgd"
            )

    def _slots(
        self, op: training.ParameterGradientOp, rule: updating.UpdateRule, parameter: str
    ) -> list[str]:
        """Add what a rule keeps of a tensor to the state; returns the names."""
        if not isinstance(rule, updating.AdaptedUpdate):
            return []
        count = op.trained_count
        return [
            self.add_state(
                f"{parameter}.{slot.name}", slot.value, StateKind(slot.name, slot.purpose)
            )
            for slot in rule.by.slots(int(np.prod(op.trained)) // count, count)
        ]

    def _sum_rule(self, op: training.ParameterGradientOp, dy: Gradient) -> updating.SumRule:
        """Return the rule for the sums of a group's samples, as large as they can become."""
        shape = self.tensors[dy.name].type.shape
        terms = int(np.prod(shape[:-1])) * self.options.accumulate
        largest = ((1 << gradients.GRADIENT_BITS[self.gradient_dtype]) - 1) * op.largest_factor
        return updating.SumRule.of(largest * terms, self.salt())

    # ------------------------------------------------------------------ the three parts of a step

    def add_forward(self, heads: Sequence[str]) -> None:
        """The network up to the logits, which are sums that are not requantized.

        What several heads are computed from comes ahead of all of them, in inference, too.
        """
        self.layers = layers = [self._layer(head) for head in heads]
        self.lasts = [self.source.logits_node(layer) for layer in layers]
        needed = self._ahead(self.lasts)
        behind = [node for node in self.source.nodes if node.name not in needed]
        ahead = [node for node in self.source.nodes if node.name in needed]
        self.source = replace(self.source, nodes=(*ahead, *behind))
        layer_of = {last.name: layer for last, layer in zip(self.lasts, layers, strict=True)}
        sums = {}
        for node in self.source.nodes:
            if node.name in layer_of:
                self.current, layer = node.name, layer_of[node.name]
                with _named(node.name):
                    op = node.op.as_sums()
                (sums[node.name],) = self._add(op, node.inputs, "sums")
                self.heads.append(self.nodes[-1].name if node is layer else layer.name)
            elif node.name in needed:
                self.nodes.append(node)
        self.logits = [sums[last.name] for last in self.lasts]

    def _layer(self, head: str) -> Node:
        layer = next((n for n in self.source.nodes if n.name == head), None)
        if layer is None:
            raise SchemeError(f"the model has no node {head!r} to take the logits from")
        return layer

    def _ahead(self, lasts: Sequence[Node]) -> set[str]:
        """The nodes ahead of some. Raises SchemeError if one of these needs another."""
        if len(lasts) == 1:
            return {node.name for node in self.source.nodes[: self.source.nodes.index(lasts[0])]}
        wanted, found = {name for last in lasts for name in last.inputs}, set()
        for node in reversed(self.source.nodes):
            if wanted.intersection(node.outputs):
                found.add(node.name)
                wanted.update(node.inputs)
        inner = next((last.name for last in lasts if last.name in found), None)
        if inner is not None:
            raise SchemeError(
                f"the layer {inner!r} gives an output that another output is computed from, which "
                "cannot be trained together: name one of the two (--model-output)"
            )
        return found

    def add_loss(self, loss: LossFactory) -> None:
        """The loss and the gradient of the sums."""
        (last,) = self.lasts
        op = self._loss_of(last, loss)
        reach = self._output_range(last)
        if reach is not None:
            op = op.followed_by(reach)
        exponent = self._add_exponent("loss")
        self.tensors[self.label] = Tensor(self.label, op.label_type)
        target = self.source.inputs[0] if op.target_is_input else self.label
        inputs: tuple[str, ...] = (self.step, self.logits[0], target, exponent)
        wanted = ("loss/gradient", f"{exponent}.new", "loss", "prediction")
        names = tuple(self.unused(name) for name in wanted)
        if reach is not None and op.is_followed:
            followed = self._add_exponent("output", [0, 0, 0])
            self.following = _Following(last, followed, reach.exponent_limit)
            self.updated[followed] = self.unused(f"{followed}.new")
            inputs, names = (*inputs, followed), (*names, self.updated[followed])
        if op.has_teacher:
            inputs = (*inputs, self._add_teacher())
        self._append(op, inputs, names, "loss")
        self.updated[exponent] = names[1]
        self.loss, self.prediction = names[2:4]
        self.has_labels = not op.target_is_input
        self.classes = op.classes(self.tensors[self.logits[0]].type.shape[-1])
        self.gradients[self.logits[0]] = [Gradient(names[0], names[1], op.gradient_scale)]

    def add_losses(self, losses: Sequence[OutputLoss]) -> None:
        """The loss of each output by its part of the labels, their gradients, and the sum."""
        ops = [self._loss_of(last, one.loss) for last, one in zip(self.lasts, losses, strict=True)]
        counts = [op.label_type.elements for op in ops]
        self.tensors[self.label] = Tensor(self.label, TensorType((1, sum(counts)), "int16"))
        read: list[str] = []
        for i, (op, one, sums) in enumerate(zip(ops, losses, self.logits, strict=True)):
            self.current = f"loss{i + 1}"
            kind = op.label_type
            part = LabelPart(sum(counts[:i]), kind.shape, kind.dtype)
            (label,) = self._add(part, (self.label,), "label")
            if kind.dtype != "int16":
                classes = op.classes(self.tensors[sums].type.shape[-1])
                has_many = kind.dtype == "uint8"
                found = LabelRange(part.first, kind.elements, classes, has_many)
                self.label_ranges.append(found)
            exponent = self._add_exponent(self.current)
            wanted = ("gradient", "exponent.new", "loss", "prediction")
            names = tuple(self.unused(f"{self.current}/{name}") for name in wanted)
            self._append(op, (self.step, sums, label, exponent), names, self.current)
            self.updated[exponent] = names[1]
            self.gradients[sums] = [Gradient(names[0], names[1], op.gradient_scale * one.weight)]
            read += names[2:]
        says = next((i for i, op in enumerate(ops) if op.label_type.dtype == "int32"), -1)
        total = LossSum(tuple(one.weight * one.unit for one in losses), says)
        self.loss, self.prediction = self.unused("loss"), self.unused("prediction")
        self._append(total, read, (self.loss, self.prediction), "loss")
        self.has_labels, self.classes = True, sum(counts)

    def _loss_of(self, last: Node, loss: LossFactory) -> LossOp:
        scales = last.op.sum_scales([self.source.tensors[n].type for n in last.inputs])
        uniform = scales[:1] if len(set(scales)) == 1 else scales
        return loss(uniform, self.gradient_dtype, self.options.accumulate == 1, self.salt())

    def _add_teacher(self) -> str:
        """Add the head as it is in flash, beside the one that is trained; returns its sums."""
        nodes, now = self.source.nodes, dict[str, str]()
        (layer,), (last,) = self.layers, self.lasts
        for node in nodes[nodes.index(layer) : nodes.index(last) + 1]:
            for name in node.inputs:
                if name in self.parameters:
                    now[name] = self.unused(f"{name}.flashed")
                    self.tensors[now[name]] = replace(self.source.tensors[name], name=now[name])
            op = node.op.as_sums() if node is last else node.op
            (y, *_) = self._add(op, [now.get(n, n) for n in node.inputs], "flashed")
            now[node.outputs[0]] = y
        return y

    def _output_range(self, last: Node) -> OutputRange | None:
        """How far the int8 outputs reach of what gives the logits, if their scale can change."""
        stage = last.op.requantize  # type: ignore[attr-defined]
        ops = [node.op for node in self._behind(last)]
        behind = [op for op in ops if not (op.is_view or op.is_rescale)]
        room = min([LARGEST_EXPONENT, *(op.exponent_room for op in behind)])
        return OutputRange.of(self.source.tensors[last.outputs[0]].type, stage, room)

    def _behind(self, last: Node) -> tuple[Node, ...]:
        """Return what follows the logits."""
        return self.source.nodes[self.source.nodes.index(last) + 1 :]

    def _forward(self) -> Graph:
        """The network with the state as inputs."""
        tensors = {k: self._as_state(v) for k, v in self.source.tensors.items()}
        known = (*self.parameters, *self.columns, *self.backing)
        forward = replace(self.source, tensors=tensors, inputs=(*self.source.inputs, *known))
        return forward if self.following is None else self._followed(forward, self.following)

    def _followed(self, forward: Graph, following: _Following) -> Graph:
        """The network with sums of their own for logits, scaled by the outputs' exponent."""
        last, exponent, limit = following.node, following.exponent, following.limit
        y = last.outputs[0]
        stage = last.op.requantize  # type: ignore[attr-defined]
        scaling = _unused(f"{last.name}/scaled", self.node_names)
        behind = [
            replace(n, op=n.op.with_input_exponent(limit), inputs=(*n.inputs, exponent))
            if n.op.is_probability
            else n
            for n in self._behind(last)
        ]
        nodes = (
            *forward.nodes[: forward.nodes.index(last)],
            Node(last.name, last.op.as_sums(), last.inputs, (self.logits[0],)),
            Node(scaling, ScaleSums(stage, limit), (self.logits[0], exponent), (y,)),
            *behind,
        )
        known = {name: self.tensors[name] for name in (self.logits[0], exponent)}
        return replace(
            forward,
            tensors={**forward.tensors, **known},
            nodes=nodes,
            inputs=(*forward.inputs, exponent),
        )

    def add_backward(self) -> None:
        """Every node's gradient rule, last node first."""
        for node in reversed(list(self.nodes)):
            if node.outputs[0] not in self.gradients:
                continue
            self.current = node.name
            dy = self._total(node.outputs[0])
            inputs = [self.tensors[n] for n in node.inputs]
            y = self.tensors[node.outputs[0]]
            with _named(node.name):
                grads = node.op.gradient(self, dy, inputs, y)
            for x, dx in zip(inputs, grads, strict=True):
                if dx is not None:
                    self.gradients.setdefault(x.name, []).append(dx)

    def finish(self) -> TrainGraph:
        """The verified, fused result."""
        outputs = (self.loss, self.prediction, *self.updated.values())
        inputs = (*self.source.inputs, self.label, self.step, *self.state, *self.backing)
        applied = {name for node in self.apply for name in node.outputs}
        graph = Graph(
            self.source.name,
            self.tensors,
            tuple(self.nodes),
            inputs,
            tuple(n for n in outputs if n not in applied),
        )
        added: dict[str, Any] = {}
        for rewriting in self.rewritings:
            added |= rewriting.finish(self)
        training_graph = TrainGraph(
            graph=graph,
            apply=tuple(self.apply),
            forward=self._forward(),
            state=self.state,
            kinds=self.kinds,
            updated=self.updated,
            parameters=self.parameters,
            split=self.split,
            x=self.source.inputs[0],
            label=self.label,
            step=self.step,
            loss=self.loss,
            prediction=self.prediction,
            accumulate=self.options.accumulate,
            classes=self._classes(),
            has_labels=self.has_labels,
            output_exponent=self.following.exponent if self.following else None,
            label_ranges=tuple(self.label_ranges),
            **added,
        )
        fused = _with_fitting_sums(fuse_rescales(fuse_sums(training_graph)))
        proven(fused.graph)
        return fused

    def _classes(self) -> int:
        """Return how many labels there are; 1 where a sample is no class."""
        is_class = self.has_labels and self.tensors[self.label].type.dtype != "int8"
        return self.classes if is_class else 1

    # ------------------------------------------------------------------ bookkeeping

    def _as_state(self, tensor: Tensor) -> Tensor:
        """A constant that is trained, or is put away and comes back, becomes an input."""
        is_input = tensor.name in (*self.parameters, *self.columns, *self.backing)
        return replace(tensor, data=None) if is_input else tensor

    def _storage(self, parameter: str) -> str:
        """The state that holds what is trained of a parameter."""
        split = self.split.get(parameter)
        return split.trained if split else parameter

    def _reachable(self) -> set[str]:
        """Tensors that depend on something trained."""
        reached = set(self.updates)
        for node in self.source.nodes:
            if reached.intersection(node.inputs):
                reached.update(node.outputs)
        return reached - set(self.updates)

    def _input(self, name: str, tensor_type: TensorType) -> str:
        name = self.unused(name)
        self.tensors[name] = Tensor(name, tensor_type)
        return name

    def _add_parameter(self, name: str) -> None:
        data = self.source.tensors[name].data
        if data is None:
            raise SchemeError(f"{name!r} is not a parameter of the model, it is computed")
        self.state[name] = updating.initial_parameter(data)
        self.kinds[name] = WEIGHTS if self.state[name].dtype == np.int8 else BIASES

    def add_state(self, name: str, value: Array, kind: StateKind) -> str:
        name = self.unused(name)
        self.tensors[name] = Tensor(name, TensorType(value.shape, str(value.dtype)))
        self.keep_in_state(name, value, kind)
        return name

    def keep_in_state(self, name: str, value: Array, kind: StateKind) -> None:
        self.state[name], self.kinds[name] = value, kind

    def _add_exponent(self, name: str, first: Sequence[int] = NEW_EXPONENT) -> str:
        full = self.unused(f"{name}.exponent")
        self.state[full], self.kinds[full] = np.array(first, np.int8), EXPONENTS
        self.tensors[full] = Tensor(full, gradients.EXPONENT)
        return full

    def unused(self, name: str) -> str:
        """A tensor name that neither the model nor training has used."""
        return _unused(name, self.tensors)

    def _add(self, op: Op, inputs: Sequence[str], suffix: str) -> tuple[str, ...]:
        """A node with fresh outputs, named after the forward node that is being differentiated."""
        name = self.unused(f"{self.current}/{suffix}")
        return self._append(op, inputs, (name,), name)

    def _append(
        self,
        op: Op,
        inputs: Sequence[str],
        outputs: Sequence[str],
        name: str,
        nodes: list[Node] | None = None,
    ) -> tuple[str, ...]:
        with _named(self.current):
            types = op.infer(*(self.tensors[n].type for n in inputs))
        for output, tensor_type in zip(outputs, types, strict=True):
            self.tensors[output] = Tensor(output, tensor_type)
        name = _unused(name, self.node_names)
        self.node_names.add(name)
        target = self.nodes if nodes is None else nodes
        target.append(Node(name, op, tuple(inputs), tuple(outputs)))
        return tuple(outputs)

    def _add_gradient(self, op: Op, inputs: Sequence[str]) -> Gradient:
        name = self.unused(f"{self.current}/dx")
        exponent = self._add_exponent(name)
        outputs = (name, self.unused(f"{exponent}.new"))
        self._append(op, (self.step, *inputs, exponent), outputs, name)
        self.updated[exponent] = outputs[1]
        return Gradient(outputs[0], outputs[1], 1.0)

    def _add_updating(
        self,
        op: Op,
        inputs: Sequence[str],
        state: Sequence[str],
        name: str,
        nodes: list[Node] | None = None,
    ) -> tuple[str, ...]:
        outputs = tuple(self.unused(f"{s}.new") for s in state)
        self.updated.update(zip(state, outputs, strict=True))
        return self._append(op, inputs, outputs, name, nodes)

    def _total(self, tensor: str) -> Gradient:
        """The sum of all contributions to a tensor's gradient."""
        first, *others = self.gradients[tensor]
        for other in others:
            stage = gradients.OutputStage((1.0,), False, self.gradient_dtype, self.salt())
            shape = self.tensors[tensor].type.shape
            op = GradientSum(stage, shape, (first.scale, other.scale))
            first = self._add_gradient(op, (first.name, first.exponent, other.name, other.exponent))
        return first


def _of_trained(
    rates: tuple[float, ...], update: ParameterUpdate, op: training.ParameterGradientOp
) -> tuple[float, ...]:
    """The rates of the trained columns, if they vary along them."""
    if update.channels and len(rates) > 1 and op.rate_axis == -1:
        return tuple(rates[c] for c in update.channels)
    return rates


def _with_fitting_sums(training: TrainGraph) -> TrainGraph:
    """Return the graph with wide sums where the bounds of operators need them."""
    graph, forward = (
        replace(g, nodes=fit_sums(g.nodes, g.tensors)) for g in (training.graph, training.forward)
    )
    apply = fit_sums(training.apply, training.graph.tensors)
    return replace(training, graph=graph, forward=forward, apply=apply)


@contextmanager
def _named(node: str) -> Iterator[None]:
    """Turn what an operator says it cannot do into an error that names the node."""
    try:
        yield
    except ValueError as error:
        raise UnsupportedError(f"node {node!r} cannot be trained: {error}") from error


def _unused(name: str, taken: Container[str]) -> str:
    """The name, with a number behind it if it is taken."""
    candidate, i = name, 2
    while candidate in taken:
        candidate, i = f"{name}{i}", i + 1
    return candidate

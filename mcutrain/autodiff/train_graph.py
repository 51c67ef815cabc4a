"""TrainGraph: everything that one training step computes, as values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.autodiff.elastic import ElasticTensor, served
from mcutrain.autodiff.gate import Gate
from mcutrain.autodiff.split import SplitParameter
from mcutrain.autodiff.state_kinds import StateKind
from mcutrain.ir.digest import arrays_digest
from mcutrain.ir.graph import Graph, Node, TensorType
from mcutrain.ops.loss import LossOp

Array = npt.NDArray[Any]

Q16_PER_NAT = math.log2(math.e) * 65536


@dataclass(frozen=True)
class ResampledWeight:
    """A weight of which other columns are trained from time to time.

    backing: its name in the backing store. trained: the state with the columns that are trained
    now. columns: the state that says which they are. bits: residual ones of a weight; with some,
    residual: the state that has those of the trained columns, and backing_residual: those of all,
    in the backing store. scores, backing_scores: the same of what the columns were found to be
    worth, if they are not drawn alike.
    """

    backing: str
    trained: str
    columns: str
    bits: int = 0
    residual: str = ""
    backing_residual: str = ""
    scores: str = ""
    backing_scores: str = ""


@dataclass(frozen=True)
class Levels:
    """A proxy cascade as a step's state knows it.

    count: of fronts, whose samples are counted. digest: of what they compute. drifts: whether
    a feature corrects which one is taken, by its LevelChoice (see mcutrain.features).
    """

    count: int
    digest: str
    drifts: bool = False


@dataclass(frozen=True)
class LabelRange:
    """Labels in a row of several outputs' that are class numbers: count of them from first on.

    may_ignore: whether one may be IGNORED.
    """

    first: int
    count: int
    classes: int
    may_ignore: bool


@dataclass(frozen=True)
class TrainGraph:
    """Forward, loss, backward and updates of one sample, in execution order.

    graph: reads the inputs `x`, `label`, `step` and the state. Its outputs are `loss` (Q16, in the
        loss operator's unit), `prediction` and the updated state. The prediction is the class of
        the largest logit; of a head over positions it is how many positions are right.
    apply: nodes that run after the last sample of a group; empty unless samples are accumulated.
    forward: the network with the same state, for inference.
    state: initial value of everything that outlives a step, by tensor name, in storage order.
    kinds: what each of these tensors is, by name.
    updated: state name → name of its value after the step; what is missing does not change.
    parameters: the state names that are trained weights and biases.
    is_tail: x is no sample but a latent; the front that makes it is not here.
    split: by name, the weights that are trained in part, and the biases that are trained by their
        difference.
    classes: how many labels there are, with a logit for each, or one for two.
    accumulate: samples per update.
    has_labels: False for a network that is to reproduce its input. There is one class then, 0,
        which nothing reads.
    output_exponent: the state with the power of two by which the scale of the int8 outputs is
        larger than their tensor says, so that they hold logits of any size. None without one.
    gate: which samples the nodes behind the loss run for; None for all. A skipped sample leaves the
        state as it was, but for random numbers, counters, the gate's words and output_exponent.
    elastic: trained tensors, nearest to the loss first. A step updates those that the state
        selects. Empty if every step updates all.
    resampled: weights whose trained columns change, in the order of the state.
    backing: these weights and their residual bits as they are at first, by name. No step changes
        them; the weights are inputs of the graph. Resampling puts the trained columns there, and
        takes others.
    label_ranges: of several outputs, whose labels are a row, which of these are class numbers.
    levels: the fronts of a proxy cascade; None where the step has only its own.
    """

    graph: Graph
    apply: tuple[Node, ...]
    forward: Graph
    state: Mapping[str, Array]
    kinds: Mapping[str, StateKind]
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
    split: Mapping[str, SplitParameter] = field(default_factory=dict)
    gate: Gate | None = None
    elastic: tuple[ElasticTensor, ...] = ()
    resampled: tuple[ResampledWeight, ...] = ()
    backing: Mapping[str, Array] = field(default_factory=dict)
    levels: Levels | None = None
    label_ranges: tuple[LabelRange, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "state", MappingProxyType(dict(self.state)))
        object.__setattr__(self, "kinds", MappingProxyType(dict(self.kinds)))
        object.__setattr__(self, "updated", MappingProxyType(dict(self.updated)))
        object.__setattr__(self, "split", MappingProxyType(dict(self.split)))
        object.__setattr__(self, "backing", MappingProxyType(dict(self.backing)))

    @property
    def vocabulary(self) -> int:
        """How many token ids there are, where a sample is made of them; 0: of numbers."""
        return self.forward.vocabulary(self.x)

    @property
    def input_type(self) -> TensorType:
        """Type of x: a sample, or a tail's latent."""
        return self.forward.tensors[self.x].type

    @property
    def label_type(self) -> TensorType:
        """Type of a sample's label: a number, or a byte for each position."""
        return self.graph.tensors[self.label].type

    @property
    def positions(self) -> tuple[int, ...]:
        """The shape of the labels of a head over positions, without the batch; else empty."""
        return self.label_type.shape[1:]

    @property
    def takes_targets(self) -> bool:
        """Whether a label is what the network is to give: int8 or int16, of which none is wrong."""
        return self.label_type.dtype in ("int8", "int16")

    @property
    def has_rows(self) -> bool:
        """Whether a sample's labels are of the sample as a whole, a sigmoid for each."""
        is_own = bool(self.positions) and self.threshold is not None
        return is_own and self.label_type.elements == self.channels

    @property
    def learns(self) -> str:
        """What is learnt, for sentences: so many classes, labels, targets, or the input."""
        if not self.has_labels:
            return "its own input"
        if self.takes_targets:
            return f"{self.label_type.elements:,} targets"
        if self.positions and self.threshold is not None:
            return f"{self.label_type.elements:,} labels"
        return f"{self.classes} classes"

    @property
    def channels(self) -> int:
        """How many numbers the head gives at each position."""
        sums = self.graph.nodes[self.loss_step].inputs[1]
        return self.graph.tensors[sums].type.shape[-1]

    @property
    def named(self) -> int:
        """How many names the outputs have: of classes, or of labels with a sigmoid each."""
        return self.label_type.elements if self.has_rows else self.classes

    @property
    def threshold(self) -> int | None:
        """The int8 above which an output of two classes says 1; None where classes have an output
        each.
        """
        y = self.forward.tensors[self.forward.outputs[0]].type
        has_classes = self.has_labels and not self.takes_targets
        if y.elements != self.label_type.elements or self.classes != 2 or not has_classes:
            return None
        middle = 0.5 / y.scale if self.forward.gives_probabilities else 0.0
        return math.floor(y.zero_point + middle)

    @property
    def loss_step(self) -> int:
        """Which of the nodes computes the loss; those behind it are the backward pass."""
        nodes = enumerate(self.graph.nodes)
        return next(step for step, node in nodes if self.loss in node.outputs)

    @cached_property
    def served(self) -> Mapping[str, frozenset[int]]:
        """Elastic tensors that need a node, by node behind the loss or of an update."""
        nodes = (*self.graph.nodes[self.loss_step + 1 :], *self.apply)
        return served(nodes, self.elastic, self.updated)

    @property
    def start(self) -> str:
        """16 hexadecimal digits of what the state begins with."""
        names = sorted(self.state)
        return arrays_digest(*(np.asarray(self.state[name]) for name in names))

    def with_first_outputs(self, reach: tuple[float, float]) -> TrainGraph:
        """Return the graph with outputs that hold the large logits that a classifier begins with.

        reach: how far these reach above and below 0, in nats.
        """
        name, loss = self.output_exponent, self.graph.nodes[self.loss_step].op
        outputs = loss.output_range if isinstance(loss, LossOp) else None
        if name is None or outputs is None:
            return self
        needed = outputs.exponent_for(*(n * Q16_PER_NAT for n in reach))
        first = np.array([needed, needed, needed], np.int8)
        return replace(self, state={**self.state, name: first})

    @property
    def guessing(self) -> float:
        """The loss of a network that knows nothing of its labels, in nats."""
        op = self.graph.nodes[self.loss_step].op
        assert isinstance(op, LossOp)
        return op.guessing(self.channels)

    @property
    def loss_exponent(self) -> str:
        """The state with the power of two of the loss's gradient."""
        made = self.graph.nodes[self.loss_step].outputs
        return next(s for s, new in self.updated.items() if new == made[1])

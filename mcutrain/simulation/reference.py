"""The definition of right: a training step by Op.reference."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain import fixedpoint
from mcutrain.autodiff import Classifier, TrainGraph
from mcutrain.codegen import SAVED_HEADER_BYTES
from mcutrain.codegen.program import Program
from mcutrain.errors import DataError, StateError
from mcutrain.features import WORD, FeatureState, StepRate, features_of
from mcutrain.ir.graph import Node
from mcutrain.ir.interpret import See, interpret
from mcutrain.memplan import TrainingPlan
from mcutrain.memplan.state import first_words
from mcutrain.memplan.steps import steps_of
from mcutrain.ops.bounds import BIAS_LIMIT
from mcutrain.ops.updating import pack_residual, unpack_residual
from mcutrain.quant.imprint import MOST_SAMPLES, Imprinted, imprinted
from mcutrain.simulation.compiled import STATUS_TEXT, no_class, no_imprint
from mcutrain.simulation.rates import LearningRate

Array = npt.NDArray[Any]


class ReferenceSimulator(FeatureState):
    """Holds the state of one training run and steps it, slowly and exactly.

    What features keep and do beside the step, mcutrain.features adds. see: told of each node of a
    step that has run, if somebody is.
    """

    see: See | None = None

    def __init__(self, training: TrainGraph, seed: int = 1) -> None:
        self.training = training
        self.reset(seed)

    def reset(self, seed: int = 1) -> None:
        """The weights the model came with; seed starts the rounding's random numbers."""
        self.words = first_words(self.training)
        kept = {**self.training.state, **self.training.backing}
        self.state = {k: np.array(v) for k, v in kept.items()}
        self.rings: dict[str, Array] = {}
        self.begin(seed)

    def train(
        self, x: Array, labels: Sequence[int] | Array, rates: Sequence[LearningRate]
    ) -> tuple[Array, Array]:
        """Train on samples in order. x: int8 [n, …]. Returns losses (Q16 nats), predictions."""
        results = [
            self._step(sample, label, rate)
            for sample, label, rate in zip(x, labels, rates, strict=True)
        ]
        losses, predictions = zip(*results, strict=True) if results else ((), ())
        return np.array(losses, np.int32), np.array(predictions, np.int32)

    def infer(self, x: Array) -> Array:
        """The outputs for int8 samples [n, …]."""
        forward = self.training.forward
        shape = self.training.input_type.shape
        outputs = [interpret(forward, self._forward_inputs(s.reshape(shape))) for s in x]
        return np.concatenate([o[forward.outputs[0]].reshape(1, -1) for o in outputs])

    def steps(self, x: Array) -> Array:
        """The outputs of a streaming network's next steps. x: their new rows, int8 [steps, …]."""
        stepped = steps_of(self.training)
        assert stepped is not None, "the network streams"
        graph, outputs = stepped.graph, []
        rows = graph.inputs[0]
        state = {n: v for n, v in self._forward_inputs(x).items() if n != self.training.x}
        for new in x:
            if not self.rings:
                self.rings = stepped.zeros()
            sample = new.reshape(graph.tensors[rows].type.shape)
            found = interpret(graph, {rows: sample, **state, **self.rings})
            self.rings = {ring.kept: found[ring.new] for ring in stepped.rings}
            outputs.append(found[graph.outputs[0]].reshape(1, -1))
        return np.concatenate(outputs)

    def forget_steps(self) -> None:
        """Begin with zeros before the next step."""
        self.rings = {}

    def _forward_inputs(self, x: Array) -> dict[str, Array]:
        """Return what an inference of a sample reads."""
        apart = self.read_by_inference()
        known = (*self.training.parameters, *apart, self.training.output_exponent)
        state = {name: self.state[name] for name in known if name is not None}
        return {self.training.x: x, **state}

    def imprint(self, x: Array, label: int, known: int, centre: Sequence[int]) -> None:
        """Give a class its weights from samples of it, int8 [n, …]; see mcutrain.quant.imprint.

        centre: codes of the classifier's features. Raises DataError for no sample or no such class.
        """
        head = Classifier.of(self.training)
        others = [k for k in range(known) if k != label]
        is_class = 0 <= label < head.classes and known <= head.classes
        if not is_class or not others or not 0 < len(x) <= MOST_SAMPLES:
            raise DataError(no_imprint(len(x), label, known, head.classes))
        shape = self.training.input_type.shape
        forward = self.training.forward
        before = [n.name for n in forward.nodes].index(head.node)
        graph = replace(forward, outputs=(head.x,)).with_nodes(forward.nodes[:before])
        sums = np.zeros(head.features, np.int64)
        for sample in x:
            found = interpret(graph, self._forward_inputs(sample.reshape(shape)), [head.x])
            sums += found[head.x].ravel().astype(np.int64) - head.zero_point
        self._put_row(head, label, imprinted_row(self.state, head, sums, len(x), others, centre))

    def forget_class(self, label: int) -> None:
        """Give a class the row it had at first. Raises DataError for no such class."""
        head = Classifier.of(self.training)
        if not 0 <= label < head.classes:
            raise DataError(no_class(label, head.classes))
        first = self.training.state
        row = Imprinted(first[head.weight][label], int(first[head.bias][label]))
        bits = self._residual_rows(head, first)
        self._put_row(head, label, row, 0 if bits is None else bits[label])

    def _put_row(
        self, head: Classifier, label: int, row: Imprinted, residual: int | Array | None = None
    ) -> None:
        """Weights, their residual bits (without them those that say they are exact), and bias."""
        w, b = self.state[head.weight].copy(), self.state[head.bias].copy()
        w[label], b[label] = row.w.reshape(w[label].shape), row.b
        self.state |= {head.weight: w, head.bias: b}
        bits = self._residual_rows(head, self.state)
        if bits is not None and head.residual is not None:
            bits[label] = 1 << head.bits - 1 if residual is None else residual
            self.state[head.residual] = pack_residual(bits.ravel(), head.bits)

    @staticmethod
    def _residual_rows(head: Classifier, state: Mapping[str, Array]) -> Array | None:
        """Residual bits of each class's weights; None if there are none."""
        if head.residual is None:
            return None
        size = head.classes * head.features
        return unpack_residual(state[head.residual], head.bits, size).reshape(head.classes, -1)

    def _step(self, x: Array, label: int | Array, rate: LearningRate) -> tuple[int, int]:
        training, kind = self.training, self.training.label_type
        self.key = fixedpoint.xorshift32(self.key)
        inputs: dict[str, Array] = {
            training.x: x.reshape(training.graph.tensors[training.x].type.shape),
            training.label: np.array(label).astype(kind.dtype).reshape(kind.shape),
            **self.state,
        }
        deciding = [f.decide for f in features_of(training) if f.decide is not None]
        if deciding:
            results = deciding[-1](self, inputs, rate)
        else:
            results = self.learn(inputs, self.numbered(self.update, self.sample, rate))
        self.sample += 1
        if self.sample == training.accumulate:
            self.update, self.sample = (self.update + 1) & WORD, 0
        return int(results[training.loss][0]), int(results[training.prediction][0])

    def numbered(self, update: int, sample: int, rate: StepRate) -> Array:
        """Return what nodes know of a step."""
        return np.array([self.key, update, sample, rate.mult_q31, rate.shift], np.int64)

    def learn(self, inputs: Mapping[str, Array], step: Array) -> dict[str, Array]:
        """The whole step, and the updates if it is the last of its group."""
        training = self.training
        graph = replace(training.graph, nodes=self._running(training.graph.nodes))
        results = interpret(
            graph, {**inputs, training.step: step}, self._kept(graph.nodes), self.see
        )
        self._take_over(results)
        if step[2] == training.accumulate - 1:
            self._apply(results, step)
        return results

    def _running(self, nodes: Sequence[Node]) -> tuple[Node, ...]:
        """Those of them that no feature leaves out."""
        hooks = (f.left_out for f in features_of(self.training) if f.left_out is not None)
        out = frozenset().union(*(left_out(self) for left_out in hooks))
        return tuple(node for node in nodes if node.name not in out)

    def _kept(self, nodes: Sequence[Node]) -> set[str]:
        """Return what must survive a step: results, updated state, what the apply nodes read."""
        computed = {name for node in nodes for name in node.outputs}
        return computed.intersection(
            [self.training.loss, self.training.prediction, *self.training.updated.values()]
        )

    def _take_over(self, results: Mapping[str, Array]) -> None:
        for name, new in self.training.updated.items():
            if new in results:
                self.state[name] = results[new]

    def _apply(self, results: Mapping[str, Array], step: Array) -> None:
        values = {**self.state, **results, self.training.step: step}
        applied: dict[str, Array] = {}
        for node in self._running(self.training.apply):
            arguments = [values[name] for name in node.inputs]
            outputs = node.op.reference(*arguments)
            if self.see is not None:
                self.see(node, arguments, outputs)
            applied.update(zip(node.outputs, outputs, strict=True))
        self._take_over(applied)


def imprinted_row(
    state: Mapping[str, Array],
    head: Classifier,
    sums: Array,
    count: int,
    others: Sequence[int],
    centre: Sequence[int],
) -> Imprinted:
    """Beside the rows of other classes, as a state has them."""
    w = state[head.weight].reshape(head.classes, -1)[list(others)]
    middle = np.array(centre, np.int64) - head.zero_point
    return imprinted(sums, count, middle, (w, state[head.bias][list(others)]))


class PlannedReference(ReferenceSimulator):
    """The reference with its state laid out and saved as the generated C does it."""

    def __init__(self, plan: TrainingPlan, seed: int = 1) -> None:
        super().__init__(plan.training, seed)
        self.plan = plan
        self._model_hash = bytes.fromhex(Program(plan).model_hash)[::-1]

    def save(self) -> bytes:
        """The trained state with header and checksum, the bytes of mct_state_save."""
        raw = self.plan.state.pack(self.words, self.kept())
        return self._header(raw) + bytes(raw)

    def load(self, saved: bytes) -> None:
        """Take over a saved state. Raises StateError, and nothing changes, if it does not fit."""
        raw = saved[SAVED_HEADER_BYTES:]
        if len(raw) != self.plan.kept_bytes or self._header(raw) != saved[:SAVED_HEADER_BYTES]:
            raise StateError("the saved state cannot be used: it is damaged, or of another model")
        state = self.plan.state.unpack(raw)
        biases = [state[name] for name in self.training.parameters if state[name].itemsize == 4]
        too_large = any((np.abs(b.astype(np.int64)) > BIAS_LIMIT).any() for b in biases)
        if too_large or not self.is_sound(state):
            raise StateError(f"the saved state cannot be used: {STATUS_TEXT[6]}")
        self.words = self.plan.state.unpack_words(raw)
        self.state = state

    def _header(self, raw: bytes | bytearray) -> bytes:
        """As firmware/runtime/mct_state.h has it."""
        begin = b"MCTS" + bytes([1, 0, 0, 0]) + self._model_hash
        begin += len(raw).to_bytes(4, "little")
        return begin + zlib.crc32(raw, zlib.crc32(begin)).to_bytes(4, "little")

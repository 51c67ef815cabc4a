"""The definition of right: a training step by Op.reference."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.state import (
    COUNTERS,
    GATE_MEAN,
    GATE_SKIPPED,
    LEVEL_SAMPLES,
    SELECTED_TENSORS,
    SWAP_POSITION,
)

from mcutrain import fixedpoint
from mcutrain.autodiff import Classifier, Gate, SwappedColumns, TrainGraph
from mcutrain.autodiff.gate import followed
from mcutrain.codegen import SAVED_HEADER_BYTES
from mcutrain.codegen.program import Program
from mcutrain.errors import DataError, StateError
from mcutrain.ir.graph import Node
from mcutrain.ir.interpret import interpret
from mcutrain.memplan import TrainingPlan
from mcutrain.memplan.state import first_words
from mcutrain.ops.bounds import BIAS_LIMIT
from mcutrain.ops.merge_columns import merged
from mcutrain.ops.training import pack_residual, unpack_residual
from mcutrain.quant.imprint import MOST_SAMPLES, Imprinted, imprinted
from mcutrain.simulation.compiled import STATUS_TEXT, no_imprint
from mcutrain.simulation.rates import LearningRate
from mcutrain.sparse.columns import drawn, scored
from mcutrain.sparse.elastic import selection_of, words

Array = npt.NDArray[Any]
WORD = 0xFFFFFFFF
"""Counts of the state have 32 bits, and begin anew behind them."""


class _Number:
    """A number among the words of the state, as an attribute; 0 in steps that do not keep it."""

    def __init__(self, kind: str, place: int = 0) -> None:
        self.kind, self.place = kind, place

    def __get__(self, simulator: ReferenceSimulator, _: object = None) -> int:
        numbers = simulator.words.get(self.kind)
        return 0 if numbers is None else int(numbers[self.place])

    def __set__(self, simulator: ReferenceSimulator, value: int) -> None:
        simulator.words[self.kind][self.place] = value


class ReferenceSimulator:
    """Holds the state of one training run and steps it, slowly and exactly.

    state: every state tensor by name. words: what else the state keeps, by kind of section, see
    mcutrain.memplan.state; the attributes are these words. key, update, sample: the counters.
    mean_q19, skipped: what a gate keeps. swapped: the position + 1 at which columns were swapped
    last, or 0.
    """

    key = _Number(COUNTERS, 0)
    update = _Number(COUNTERS, 1)
    sample = _Number(COUNTERS, 2)
    mean_q19 = _Number(GATE_MEAN)
    skipped = _Number(GATE_SKIPPED)
    swapped = _Number(SWAP_POSITION)

    def __init__(self, training: TrainGraph, seed: int = 1) -> None:
        self.training = training
        self.reset(seed)

    def reset(self, seed: int = 1) -> None:
        """The weights the model came with; seed starts the rounding's random numbers."""
        self.words = first_words(self.training)
        self.key = seed & 0xFFFFFFFF or 1
        self.selected = tuple(range(len(self.training.elastic)))
        kept = {**self.training.state, **self.training.shelf}
        self.state: dict[str, Array] = {k: np.array(v) for k, v in kept.items()}

    @property
    def selected(self) -> tuple[int, ...]:
        """Indices of the elastic tensors that are trained."""
        return selection_of(self.words.get(SELECTED_TENSORS, ()))

    @selected.setter
    def selected(self, tensors: Sequence[int]) -> None:
        if SELECTED_TENSORS in self.words:
            self.words[SELECTED_TENSORS][:] = words(tensors, len(self.training.elastic))

    @property
    def level_samples(self) -> list[int]:
        """Of each front of a ladder, how many samples were trained by way of it."""
        return [int(count) for count in self.words.get(LEVEL_SAMPLES, ())]

    @level_samples.setter
    def level_samples(self, counts: Sequence[int]) -> None:
        if LEVEL_SAMPLES in self.words:
            self.words[LEVEL_SAMPLES][:] = counts

    @property
    def position(self) -> int:
        """Samples that the state has seen, modulo 2^32."""
        return (self.update * self.training.accumulate + self.sample) & WORD

    def select(self, tensors: Sequence[int]) -> None:
        """Train these of the elastic tensors, by index, and those that always are."""
        always = (i for i, t in enumerate(self.training.elastic) if t.is_always_trained)
        self.selected = tuple(sorted({*tensors, *always}))

    def swap(self) -> None:
        """Put the trained columns back into their weights, and draw others to train.

        Once at a position: another time it changes nothing.
        """
        now = (self.position + 1) & WORD
        if self.swapped == now or not self.training.swapped:
            return
        for weight in self.training.swapped:
            self._score(weight)
        self.swapped = now
        for number, weight in enumerate(self.training.swapped):
            self.state.update(self.put_back(weight))
            whole, count = self.state[weight.shelf], len(self.state[weight.columns])
            scores = np.zeros(whole.shape[-1], np.uint8)
            if weight.scores:
                scores = self.state[weight.shelf_scores]
            columns = drawn(self.key, number, count, scores)
            self.state[weight.columns] = columns
            if weight.scores:
                self.state[weight.scores] = scores[columns]
            self.state[weight.trained] = whole[..., columns]
            if weight.bits:
                bits = unpack_residual(self.state[weight.shelf_residual], weight.bits, whole.size)
                taken = bits.reshape(whole.shape)[..., columns].ravel()
                self.state[weight.residual] = pack_residual(taken, weight.bits)

    def _score(self, weight: SwappedColumns) -> None:
        """Says of the trained columns what they are worth, after their first turn."""
        if not weight.scores:
            return
        columns, now = self.state[weight.columns], self.state[weight.trained].astype(np.int64)
        before = self.training.shelf[weight.shelf][..., columns].astype(np.int64) << weight.bits
        now = now << weight.bits
        if weight.bits:
            own = unpack_residual(self.state[weight.residual], weight.bits, now.size)
            now = now + own.reshape(now.shape) - (1 << weight.bits - 1)
        self.state[weight.scores] = scored(self.state[weight.scores], now - before)

    def put_back(self, weight: SwappedColumns) -> dict[str, Array]:
        """A weight and its residual bits on the shelf, with what is trained of it now."""
        state, columns = self.state, self.state[weight.columns]
        whole, part = state[weight.shelf], state[weight.trained]
        found = {weight.shelf: merged(whole, part, columns)}
        if weight.bits:
            bits = unpack_residual(state[weight.shelf_residual], weight.bits, whole.size)
            own = unpack_residual(state[weight.residual], weight.bits, part.size)
            both = merged(bits.reshape(whole.shape), own.reshape(part.shape), columns)
            found[weight.shelf_residual] = pack_residual(both.ravel(), weight.bits)
        if weight.scores:
            scores = (state[weight.shelf_scores], state[weight.scores])
            found[weight.shelf_scores] = merged(*scores, columns)
        return found

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

    def _forward_inputs(self, x: Array) -> dict[str, Array]:
        """What an inference of a sample reads."""
        apart = (name for s in self.training.swapped for name in (s.shelf, s.columns))
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

    def _put_row(self, head: Classifier, label: int, row: Imprinted) -> None:
        """Weights, residual bits that say they are exact, and bias."""
        w, b = self.state[head.weight].copy(), self.state[head.bias].copy()
        w[label], b[label] = row.w.reshape(w[label].shape), row.b
        self.state |= {head.weight: w, head.bias: b}
        if head.residual is not None:
            bits = unpack_residual(self.state[head.residual], head.bits, w.size).reshape(len(w), -1)
            bits[label] = 1 << head.bits - 1
            self.state[head.residual] = pack_residual(bits.ravel(), head.bits)

    def _step(self, x: Array, label: int | Array, rate: LearningRate) -> tuple[int, int]:
        training, kind = self.training, self.training.label_type
        self.key = fixedpoint.xorshift32(self.key)
        inputs: dict[str, Array] = {
            training.x: x.reshape(training.graph.tensors[training.x].type.shape),
            training.label: np.array(label).astype(kind.dtype).reshape(kind.shape),
            **self.state,
        }
        if training.gate is None:
            results = self._learn(inputs, self._numbered(self.update, self.sample, rate))
        else:
            results = self._gated(training.gate, inputs, rate)
        self.sample += 1
        if self.sample == training.accumulate:
            self.update, self.sample = (self.update + 1) & WORD, 0
        return int(results[training.loss][0]), int(results[training.prediction][0])

    def _numbered(self, update: int, sample: int, rate: LearningRate) -> Array:
        """What nodes know of a step."""
        return np.array([self.key, update, sample, rate.mult_q31, rate.shift], np.int64)

    def _learn(self, inputs: Mapping[str, Array], step: Array) -> dict[str, Array]:
        """The whole step, and the updates if it is the last of its group."""
        training = self.training
        graph = replace(training.graph, nodes=self._running(training.graph.nodes))
        results = interpret(graph, {**inputs, training.step: step}, self._kept(graph.nodes))
        self._take_over(results)
        if step[2] == training.accumulate - 1:
            self._apply(results, step)
        return results

    def _gated(
        self, gate: Gate, inputs: Mapping[str, Array], rate: LearningRate
    ) -> dict[str, Array]:
        """The step up to its loss, and the rest if the gate lets it pass.

        Updates are numbered as if there had been no skipped samples, which are counted modulo 2^32.
        But the outputs' exponent, which only classifiers have, follows each sample, and by its
        number among all.
        """
        training = self.training
        learnt = (self.position - self.skipped) & WORD
        step = self._numbered(*divmod(learnt, training.accumulate), rate)
        first = self._numbered(self.update, self.sample, rate) if training.has_labels else step
        begin = replace(training.graph, nodes=training.graph.nodes[: training.loss_step + 1])
        made = begin.nodes[-1].outputs
        results = interpret(begin, {**inputs, training.step: first}, made)
        passes = gate.learns(self.mean_q19, int(results[training.loss][0]))
        self.mean_q19 = followed(self.mean_q19, int(results[training.loss][0]))
        if passes:
            self._learn(inputs, step)
        else:
            self.skipped = (self.skipped + 1) & WORD
        if training.output_exponent is not None:
            followed_by = training.updated[training.output_exponent]
            self.state[training.output_exponent] = results[followed_by]
        return results

    def _running(self, nodes: Sequence[Node]) -> tuple[Node, ...]:
        """Those of them that are not there for tensors alone that are left out."""
        if not self.training.elastic:
            return tuple(nodes)
        served, selected = self.training.served, set(self.selected)
        return tuple(n for n in nodes if n.name not in served or served[n.name] & selected)

    def _kept(self, nodes: Sequence[Node]) -> set[str]:
        """What must survive a step: results, updated state, what the apply nodes read."""
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
            outputs = node.op.reference(*(values[name] for name in node.inputs))
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
        shelf = [self.put_back(weight) for weight in self.training.swapped]
        tensors = dict(self.state)
        for whole in shelf:
            tensors.update(whole)
        raw = self.plan.state.pack(self.words, tensors)
        return self._header(raw) + bytes(raw)

    def load(self, saved: bytes) -> None:
        """Take over a saved state. Raises StateError, and nothing changes, if it does not fit."""
        raw = saved[SAVED_HEADER_BYTES:]
        if len(raw) != self.plan.kept_bytes or self._header(raw) != saved[:SAVED_HEADER_BYTES]:
            raise StateError("the saved state cannot be used: it is damaged, or of another model")
        state = self.plan.state.unpack(raw)
        biases = [state[name] for name in self.training.parameters if state[name].itemsize == 4]
        is_sound = all(
            (np.diff(state[w.columns], prepend=-1, append=state[w.shelf].shape[-1]) > 0).all()
            for w in self.training.swapped
        )
        if not is_sound or any((np.abs(b.astype(np.int64)) > BIAS_LIMIT).any() for b in biases):
            raise StateError(f"the saved state cannot be used: {STATUS_TEXT[6]}")
        self.words = self.plan.state.unpack_words(raw)
        self.state = state

    def _header(self, raw: bytes | bytearray) -> bytes:
        """As firmware/runtime/mct_state.h has it."""
        begin = b"MCTS" + bytes([1, 0, 0, 0]) + self._model_hash
        begin += len(raw).to_bytes(4, "little")
        return begin + zlib.crc32(raw, zlib.crc32(begin)).to_bytes(4, "little")

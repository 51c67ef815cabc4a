"""A prepared step, driven by the caller: one group of samples after another, and what is inside."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from mcutrain_host import saved as saved_files
from mcutrain_host.dataclass import dataclass
from mcutrain_host.errors import HostError

from mcutrain import data as datasets
from mcutrain.arguments import PathLike, Seed, checked, warn
from mcutrain.codegen import SAVED_HEADER_BYTES
from mcutrain.errors import ArgumentError, DataError, StateError
from mcutrain.ir.graph import Node
from mcutrain.ops.training import ApplyUpdate, ParameterGradientOp
from mcutrain.ops.updating import UpdateRule
from mcutrain.pipeline import TrainingStep
from mcutrain.runs.sample_reading import load_data, samples_of
from mcutrain.shown import Shown
from mcutrain.simulation import CompiledSimulator, PlannedReference, Reconstruction, RunSettings
from mcutrain.simulation.metrics.labels import OwnLabels
from mcutrain.simulation.metrics.positions import counts_of, scores_of
from mcutrain.simulation.rates import LearningRate

Array = npt.NDArray[Any]
Rate: TypeAlias = Any
"""A number, a LearningRate, or a function that gives either for a step, counted from 0."""
Hook: TypeAlias = Callable[[str, str, Array], object]
"""Is told the name of a node, the name of a tensor that it has written, and a copy of its value."""
Q16 = 65536


@dataclass(frozen=True, repr=False)
class StepOutcome(Shown):
    """What training on some samples gave, an entry for each.

    losses_q16: of each sample before its update, in units of 2^-16 (nats of a cross-entropy).
    predictions: class numbers; of a model with many positions how many of them were right. labels:
    as the step takes them.
    """

    losses_q16: Array
    predictions: Array
    labels: Array

    @property
    def loss(self) -> float:
        """The mean loss."""
        return float(self.losses_q16.mean()) / Q16 if len(self.losses_q16) else float("nan")

    def summary(self) -> str:
        """Return a line that describes it."""
        return f"{len(self.losses_q16)} samples, mean loss {self.loss:.4f}"

    def records(self) -> list[dict[str, Any]]:
        """A row for each sample."""
        losses, predictions = (self.losses_q16 / Q16).tolist(), self.predictions.tolist()
        return [
            {"loss": loss, "prediction": prediction}
            for loss, prediction in zip(losses, predictions, strict=True)
        ]


class StateArrays(MutableMapping[str, Array]):
    """Every tensor of a trained state by its name: read a copy, write a whole array.

    int8 weights, packed residual bits, biases, exponents, slots of update rules.
    """

    def __init__(self, trainer: StepTrainer) -> None:
        self._trainer = trainer
        layout = trainer.prepared.plan.state
        self._sections = {s.name: s for s in (*layout.tensors, *layout.backing)}

    def __iter__(self) -> Iterator[str]:
        return iter(self._sections)

    def __len__(self) -> int:
        return len(self._sections)

    def __getitem__(self, name: str) -> Array:
        self._known(name)
        return self._read()[name]

    def __setitem__(self, name: str, value: Any) -> None:
        """Raises DataError for another shape or numbers that do not fit."""
        self._known(name)
        tensors = self._read()
        tensors[name] = self._fitting(name, value, tensors[name])
        trainer = self._trainer
        raw = trainer.saved[SAVED_HEADER_BYTES:]
        layout = trainer.prepared.plan.state
        packed = layout.pack(layout.unpack_words(raw), tensors)
        header = trainer.saved[: saved_files.HEADER.size]
        trainer.simulator.load(saved_files.with_checksum(header, bytes(packed)))

    def __delitem__(self, name: str) -> None:
        raise ArgumentError(f"{name!r} cannot be removed: a state always has all of its tensors")

    def __repr__(self) -> str:
        rows = (f"{s.name}: {s.dtype} {tuple(s.shape)}" for s in self._sections.values())
        return f"<StateArrays: {', '.join(rows)}>"

    def _known(self, name: str) -> None:
        if name not in self._sections:
            raise ArgumentError(
                f"the state has no tensor {name!r}; it has {', '.join(map(repr, self._sections))}"
            )

    def _read(self) -> dict[str, Array]:
        return self._trainer.prepared.plan.state.unpack(self._trainer.saved[SAVED_HEADER_BYTES:])

    def _fitting(self, name: str, value: Any, now: Array) -> Array:
        given = _as_array(value)
        if given.shape != now.shape:
            raise DataError(f"{name} has the shape {now.shape}, not {given.shape}")
        if given.dtype.kind not in "iu":
            raise DataError(f"{name} takes integers ({now.dtype}), not {given.dtype}: round them")
        limits = np.iinfo(now.dtype)
        is_weight = now.dtype == np.int8 and name in self._trainer.trained
        low = -127 if is_weight else int(limits.min)  # weights are symmetric
        if given.size and (int(given.min()) < low or int(given.max()) > limits.max):
            raise DataError(
                f"{name} takes {now.dtype} numbers from {low} to {limits.max}, and the given ones "
                f"go from {given.min()} to {given.max()}: clip them"
            )
        return given.astype(now.dtype)


class StepTrainer(Shown):
    """Trains a prepared step a few samples at a time; `trainer` makes one.

    step, evaluate, predict: samples and labels are arrays, lists or tensors of another library, as
    `train` takes them. state: the trained tensors. simulator: what computes.
    """

    def __init__(
        self,
        step: TrainingStep,
        simulator: CompiledSimulator | PlannedReference,
        normalization: datasets.Normalization | None = None,
    ) -> None:
        self.prepared, self.simulator = step, simulator
        self.steps_done = 0
        self.state = StateArrays(self)
        self._normalization = normalization
        self._said: set[str] = set()
        self._hooks: list[Hook] = []

    def step(self, x: Any, y: Any = None, rate: Rate = 0.01) -> StepOutcome:
        """Train on samples, one step for each, in their order.

        x: (n, …). y: (n,) class numbers; None where the loss takes none. rate: per sample; a
        number, a LearningRate, or a function of the step's number, which `steps_done` counts.
        Raises DataError, ArgumentError.
        """
        codes, labels = self._samples(x, y)
        rates = [self._rate(rate, self.steps_done + i) for i in range(len(codes))]
        losses, predictions = self.simulator.train(codes, labels, rates)
        self.steps_done += len(codes)
        return StepOutcome(losses, predictions, labels)

    def fit(
        self,
        batches: Iterable[Any],
        rate: Rate = 0.01,
        *,
        epochs: int = 1,
        callbacks: Sequence[Callable[[StepTrainer, StepOutcome], object]] = (),
    ) -> StepOutcome:
        """Train on all that an iterable gives: pairs (x, y), or x where the loss takes no labels.

        batches: a list, a generator, a torch DataLoader, a tf.data.Dataset. With more epochs than
        one it is iterated again. callbacks: each is called after each batch with this trainer and
        what the batch gave; one that returns True ends the fit.
        """
        if type(epochs) is not int or epochs < 1:
            raise ArgumentError(f"epochs is {epochs!r}: give a whole number from 1 on")
        if not isinstance(batches, Iterable):
            raise ArgumentError(f"batches is {batches!r:.60}: give what gives pairs (x, y)")
        if isinstance(batches, Iterator) and epochs > 1:
            raise ArgumentError(
                "a generator can be read once: give a list, a loader, or one epoch (epochs=1)"
            )
        done: list[StepOutcome] = []
        for batch in (batch for _ in range(epochs) for batch in batches):
            done.append(self.step(*self._pair(batch), rate))
            answers = [callback(self, done[-1]) for callback in callbacks]
            if any(isinstance(answer, bool | np.bool_) and answer for answer in answers):
                break
        if not done:
            raise DataError("the iterable gave no batch: there is nothing to learn")
        joined = zip(*((d.losses_q16, d.predictions, d.labels) for d in done), strict=True)
        return StepOutcome(*(np.concatenate(parts) for parts in joined))

    def predict(self, x: Any) -> Array:
        """The model's int8 outputs for samples, (n, outputs)."""
        training = self.prepared.plan.training
        count = len(_as_array(x))
        y = np.zeros((count, *training.positions), np.int64) if training.has_labels else None
        codes, _ = self._samples(x, y)
        return self.simulator.infer(codes)

    def evaluate(self, x: Any, y: Any = None) -> float:
        """Return the accuracy on samples (positions); without labels the mean loss."""
        codes, labels = self._samples(x, y)
        outputs, training = self.simulator.infer(codes), self.prepared.plan.training
        if not training.has_labels:
            out = self.prepared.graph.tensors[self.prepared.graph.outputs[0]].type
            compared = Reconstruction.of(self.prepared.input_type, out)
            return float(np.mean(compared.losses(codes, outputs)))
        judged = OwnLabels.of(training)
        if judged is not None:
            return judged.tested(judged.counts(outputs, labels)).accuracy
        if training.positions:
            return scores_of(counts_of(outputs, labels)).accuracy
        threshold = training.threshold
        answers = outputs.argmax(axis=1) if threshold is None else outputs[:, 0] > threshold
        return float((answers == labels).mean())

    def gradients(self, x: Any, y: Any = None) -> dict[str, Array]:
        """Return the gradient of each trained tensor for one sample: its update at a rate of 1.

        The gradient is float64, in int8 steps of a weight and in units of an integer bias, before
        rounding and before the limit of a step. It includes quantization-aware scaling. Rules other
        than SGD make their directions of it. int16 gradients that are added up over samples lose
        bits; these do not. The state stays as it is. x, y: one sample, (1, …).
        """
        found: dict[str, Array] = {}
        nodes = self.prepared.plan.training.apply
        applied = {n.op.named(n.inputs).sums: n for n in nodes if isinstance(n.op, ApplyUpdate)}

        def see(node: Node, read: Sequence[Array], gave: Sequence[Array]) -> None:
            op = node.op
            if not isinstance(op, ParameterGradientOp):
                return
            given, names = op.named(read), op.named(node.inputs)
            rule, name, exponent = op.rule, names.state[0], given.dy_exponent
            if rule is None:
                apply = applied[node.outputs[0]]
                assert isinstance(apply.op, ApplyUpdate)
                reads = apply.op.named(apply.inputs)
                rule, name = apply.op.rule, reads.state[0]
                exponent = values[reads.dy_exponent]
            assert exponent is not None
            sums = op.sums(given.dy, *given.own).reshape(op.trained)
            shape = self.state[name].shape
            found[name] = _direction(rule, sums, int(exponent[0]), op.rate_axis).reshape(shape)

        values: dict[str, Array] = {}

        def keep(node: Node, read: Sequence[Array], gave: Sequence[Array]) -> None:
            values.update(zip(node.inputs, read, strict=True))
            values.update(zip(node.outputs, gave, strict=True))
            see(node, read, gave)

        self._dry_run(x, y, keep)
        return found

    def values(self, x: Any, y: Any = None) -> dict[str, Array]:
        """Return every tensor that a step on one sample writes, by name; the state stays as it is.

        The bits are those of the next step in C. x, y: of one sample, (1, …).
        """
        found: dict[str, Array] = {}

        def see(node: Node, read: Sequence[Array], gave: Sequence[Array]) -> None:
            found.update(zip(node.outputs, (np.array(value) for value in gave), strict=True))

        self._dry_run(x, y, see)
        return found

    def hook(self, function: Hook) -> Callable[[], None]:
        """Call a function with (node, tensor, value) for each output of each node of later steps.

        Only the reference runs node by node: `trainer(step, reference=True)`. Returns a function
        that takes the hook away. Raises ArgumentError.
        """
        if not isinstance(self.simulator, PlannedReference):
            raise ArgumentError(
                "the compiled step has no hooks: make the trainer with reference=True, whose bits "
                "are the same, or take values(x, y)"
            )
        self._hooks.append(function)
        self.simulator.see = self._see
        return lambda: self._hooks.remove(function)

    @property
    def saved(self) -> bytes:
        """The trained state with header and checksum, as a board saves it."""
        return self.simulator.save()

    def save(self, path: PathLike) -> None:
        """Write the state as `mcutrain simulate --save-state` does, for `export` and boards."""
        recipe = self.prepared.recipe
        try:
            saved_files.write(Path(path), self.saved, "" if recipe is None else recipe.to_json())
        except HostError as error:
            raise StateError(str(error)) from error

    def load(self, path: PathLike) -> None:
        """Go on from a state that was saved. Raises StateError, and then nothing is changed."""
        model_hash = int(self.prepared.project.model_hash, 16)
        try:
            found = saved_files.read(Path(path), model_hash, len(self.saved))
        except HostError as error:
            raise StateError(str(error)) from error
        self.simulator.load(found.raw)

    @property
    def trained(self) -> tuple[str, ...]:
        """Names of the state's tensors that are weights and biases."""
        return self.prepared.plan.training.parameters

    def summary(self) -> str:
        """Return a line that describes it."""
        how = "numpy" if isinstance(self.simulator, PlannedReference) else "compiled C"
        return f"{self.prepared.summary()}; {self.steps_done:,} steps done, {how}"

    def records(self) -> list[dict[str, Any]]:
        """A row for each tensor of the state."""
        sections = self.prepared.plan.state.tensors
        return [
            {
                "tensor": s.name,
                "dtype": s.dtype,
                "shape": "×".join(map(str, s.shape)),
                "bytes": s.size_bytes,
                "purpose": s.purpose,
            }
            for s in sections
        ]

    def _see(self, node: Node, read: Sequence[Array], gave: Sequence[Array]) -> None:
        for name, value in zip(node.outputs, gave, strict=True):
            for hook in tuple(self._hooks):
                hook(node.name, name, np.array(value))

    def _dry_run(self, x: Any, y: Any, see: Callable[..., None]) -> None:
        codes, labels = self._samples(x, y)
        if len(codes) != 1:
            raise DataError(f"give one sample, as x[:1], y[:1]: these are {len(codes)}")
        reference = self.prepared.reference()
        reference.load(self.saved)
        reference.see = see
        reference.train(codes, labels, [LearningRate.of(0.0)])

    def _samples(self, x: Any, y: Any) -> tuple[Array, Array]:
        """As the step takes them."""
        x, training = _as_array(x), self.prepared.plan.training
        if not len(x):
            raise DataError("the batch has no sample")
        part: dict[str, Any] = {"x_train": x, "x_test": x[:1]}
        if training.has_labels:
            if y is None:
                raise DataError("this step learns classes: give y, a class number for each sample")
            labels = _as_array(y)
            if labels.ndim == 0 or len(labels) != len(x):
                count = len(labels) if labels.ndim else 1
                raise DataError(f"{len(x)} samples, but {count} labels")
            part |= {"y_train": labels, "y_test": labels[:1]}
            if training.takes_targets:
                raise DataError("this step learns real targets: `train` and `simulate` do that")
            if training.has_rows or not training.positions:
                self._check_labels(labels)
                part["names"] = self._names
        split = load_data(self.prepared, part, note=self._warn)
        if training.has_rows and not split.positions:  # one label each looks like a class
            split = split.with_rows()
        samples = samples_of(self.prepared, split, RunSettings(), self._normalization, self._note)
        return samples.quantized(samples.split.train.x), samples.split.train.y

    @property
    def _names(self) -> Array:
        """Names of the outputs; a batch need not have a sample of each class."""
        count = self.prepared.plan.training.named
        return np.array(self.prepared.graph.class_names or [str(i) for i in range(count)])

    def _check_labels(self, labels: Array) -> None:
        """Raise DataError for class numbers that the outputs do not have."""
        count = self.prepared.plan.training.classes
        if labels.ndim == 1 and labels.dtype.kind in "iuf":
            wrong = labels[(labels < 0) | (labels >= count)]
            if len(wrong):
                raise DataError(
                    f"label {wrong[0]} is not one of the step's {count} classes, 0 to {count - 1}: "
                    "labels are numbers of outputs"
                )

    def _warn(self, text: str) -> None:
        """Say each sentence once."""
        if text not in self._said:
            self._said.add(text)
            warn(text)

    def _note(self, text: str) -> None:
        """Say of the first batch alone what its values are."""
        if not self.steps_done:
            self._warn(text)

    def _rate(self, rate: Rate, step: int) -> LearningRate:
        value = rate(step) if callable(rate) else rate
        if isinstance(value, LearningRate):
            return value
        if isinstance(value, bool) or not isinstance(value, Real):
            raise ArgumentError(f"the rate of step {step} is {value!r}, not a number")
        return LearningRate.of(float(value))

    def _pair(self, batch: Any) -> tuple[Any, Any]:
        if not self.prepared.plan.training.has_labels:
            return (batch[0] if isinstance(batch, tuple | list) else batch), None
        if not isinstance(batch, tuple | list) or len(batch) != 2:
            raise DataError(
                f"a batch is {type(batch).__name__}, not (x, y): map it first, such as "
                "((b['image'], b['label']) for b in loader)"
            )
        return batch[0], batch[1]


@checked
def trainer(
    step: TrainingStep,
    *,
    seed: Seed = 0,
    reference: bool = False,
    portable: bool = False,
    normalization: datasets.Normalization | None = None,
    state: PathLike | None = None,
) -> StepTrainer:
    """Return a trainer for your own training loop: own loaders, schedules, callbacks, hooks.

    Same samples, rates and seed as `simulate` give the same bits. seed: of stochastic rounding, as
    that of `simulate`. reference: numpy instead of compiled C; slow, the same bits, with hooks.
    portable: the C that libraries hold. normalization: as `train` takes it. state: a saved state
    to go on from. Raises BuildError, StateError.

    >>> trainer(prepare("model.int8.tflite", "last:3")).step(x, y, 0.03).loss
    """
    first = RunSettings(seed=seed).rounding_seed
    made = step.reference(first) if reference else step.simulator(first, portable=portable)
    found = StepTrainer(step, made, normalization)
    if state is not None:
        found.load(state)
    return found


def _direction(rule: UpdateRule, sums: Array, exponent: int, axis: int) -> Array:
    """Sums of gradients times a rule's rates, in units of the trained number."""
    shape = [-1 if i == axis % sums.ndim else 1 for i in range(sums.ndim)]
    rates = np.array(rule.rate).reshape(shape if len(rule.rate) > 1 else [1] * sums.ndim)
    return np.asarray(sums * rates * 2.0 ** (exponent - max(rule.residual_bits, 0)), np.float64)


def _as_array(value: Any) -> Array:
    """A numpy array of what another library calls a tensor."""
    for name in ("detach", "cpu"):
        if not isinstance(value, np.ndarray) and callable(getattr(value, name, None)):
            value = getattr(value, name)()
    if not isinstance(value, np.ndarray) and callable(getattr(value, "numpy", None)):
        value = value.numpy()
    try:
        found = np.asarray(value)
    except (TypeError, ValueError) as error:
        raise DataError("a batch is no array: its parts differ in length or kind") from error
    if found.ndim == 0 or found.dtype.hasobject:
        raise DataError(
            f"{str(value)[:40]!a} is not a batch: give arrays with a sample in each row"
        )
    return found

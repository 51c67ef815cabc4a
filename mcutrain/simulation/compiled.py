"""The generated C in this process: the same bits as the reference, a thousand times faster."""

from __future__ import annotations

import ctypes
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass
from mcutrain_host.state import (
    COUNTERS,
    GATE_MEAN,
    GATE_SKIPPED,
    LEVEL_SAMPLES,
    SELECTED_TENSORS,
)

from mcutrain.codegen import SAVED_HEADER_BYTES, Project, generate
from mcutrain.data import IGNORED
from mcutrain.errors import DataError, StateError
from mcutrain.memplan import TrainingPlan
from mcutrain.quant.imprint import MOST_SAMPLES
from mcutrain.simulation.build import Compiler, build_library
from mcutrain.simulation.rates import LearningRate
from mcutrain.sparse.elastic import selection_of, words

Array = npt.NDArray[Any]

STATUS_TEXT = {
    2: "it has the wrong size",
    3: "it is no saved state of this version of mcutrain",
    4: "it belongs to another model or scheme, or to another version of mcutrain",
    5: "it is damaged: the checksum differs",
    6: "a bias in it is beyond ±2^30, or its trained columns are none, which no training makes",
}


@dataclass(frozen=True)
class Sizes:
    """What a library takes and gives: bytes of a sample, of its output, of the state; classes.

    kept_bytes: of the state, and the backing store. tensors: of an elastic step, 0 of others.
    label_bytes: of a sample with a label for each position, or a target; 0 of others.
    takes_targets: of these it is one, int8 or int16.
    """

    input_bytes: int
    output_bytes: int
    kept_bytes: int
    classes: int
    tensors: int = 0
    label_bytes: int = 0
    takes_targets: bool = False

    def labels(self, given: Sequence[int] | Array) -> Array:
        """Labels of samples as the library takes them. Raises DataError for one that is none."""
        y = np.asarray(given)
        if self.takes_targets:
            dtype = np.int16 if y.dtype == np.int16 else np.int8
            codes = np.ascontiguousarray(y, dtype).reshape(len(y), -1).view(np.int8)
            return codes.reshape(len(y), self.label_bytes)
        is_wrong = (y < 0) | (y >= self.classes)
        if self.label_bytes:
            is_wrong &= y != IGNORED
        if is_wrong.any():
            raise DataError(f"label {y[is_wrong][0]} is not one of {self.classes} classes")
        if not self.label_bytes:
            return np.ascontiguousarray(y, np.int32)
        if y.size != len(y) * self.label_bytes:
            raise DataError(f"a sample has {y[0].size} labels, the model takes {self.label_bytes}")
        return np.ascontiguousarray(y, np.uint8)


def no_imprint(samples: int, label: int, known: int, classes: int) -> str:
    """Return why a class cannot get its weights so."""
    if not 0 < samples <= MOST_SAMPLES:
        return f"a class gets its weights from 1 to {MOST_SAMPLES:,} samples, not {samples:,}"
    return (
        f"class {label} cannot be compared with {known} that are known: there are {classes}, and "
        "another one must be known"
    )


def no_class(label: int, classes: int) -> str:
    """Return why a class cannot be forgotten."""
    return f"class {label} is none of {classes}"


class LibrarySimulator:
    """One training run in a private copy of a shared library."""

    def __init__(self, library: Path, sizes: Sizes, seed: int = 1) -> None:
        self._library = _load_copy(library)
        self._train, self._infer = self._library.mct_host_train, self._library.mct_host_infer
        self.sizes = sizes
        self.input_bytes, self.output_bytes = sizes.input_bytes, sizes.output_bytes
        self.saved_bytes = sizes.kept_bytes + SAVED_HEADER_BYTES
        self._backing: object = None  # what the C reads the backing store from has to stay
        if hasattr(self._library, "mct_threads_set"):  # the copy stays loaded, its threads end
            weakref.finalize(self, self._library.mct_threads_set, 1)
        self.reset(seed)

    def reset(self, seed: int = 1) -> None:
        """The weights the model came with; seed starts the rounding's random numbers."""
        self._library.mct_reset(ctypes.c_uint32(seed))

    def train(
        self, x: Array, labels: Sequence[int] | Array, rates: Sequence[LearningRate]
    ) -> tuple[Array, Array]:
        """Train on samples in order. x: int8 [n, …]. Returns losses (Q16 nats), predictions."""
        return self._trained(self._train, x, labels, rates)

    def replay(
        self, x: Array, labels: Sequence[int] | Array, rates: Sequence[LearningRate]
    ) -> tuple[Array, Array]:
        """Train on samples whose latents were remembered, so that no front counts."""
        return self._trained(self._library.mct_host_replay, x, labels, rates)

    def _trained(
        self,
        function: Callable[..., int],
        x: Array,
        labels: Sequence[int] | Array,
        rates: Sequence[LearningRate],
    ) -> tuple[Array, Array]:
        """Train by a function of the library."""
        samples = self._samples(x)
        y = self.sizes.labels(labels)
        packed = np.array([(r.mult_q31, r.shift) for r in rates], np.int32).reshape(-1, 2)
        if not len(samples) == len(y) == len(packed):
            raise ValueError(f"{len(samples)} samples, {len(y)} labels, {len(packed)} rates")
        results = np.zeros((len(y), 2), np.int32)
        status = function(len(y), pointer(samples), pointer(y), pointer(packed), pointer(results))
        assert status == 0, "labels are checked"
        return results[:, 0].copy(), results[:, 1].copy()

    def infer(self, x: Array) -> Array:
        """The outputs for int8 samples [n, …]."""
        samples = self._samples(x)
        y = np.zeros((len(samples), self.output_bytes), np.int8)
        self._infer(len(samples), pointer(samples), pointer(y))
        return y

    def steps(self, x: Array) -> Array:
        """The outputs of a streaming network's next steps. x: their new rows, int8 [steps, …]."""
        rows = np.ascontiguousarray(x, np.int8)
        y = np.zeros((len(rows), self.output_bytes), np.int8)
        self._library.mct_host_steps(len(rows), pointer(rows), pointer(y))
        return y

    def forget_steps(self) -> None:
        """Begin with zeros before the next step."""
        self._library.mct_forget_rows()

    def imprint(self, x: Array, label: int, known: int) -> None:
        """Give a class its weights from samples of it. known: classes that have theirs already.

        Raises DataError for no sample or no such class. The C was generated with a centre.
        """
        status = 1
        if len(x):
            samples = self._samples(x)
            status = self._imprint(len(samples), pointer(samples), label, known)
        if status != 0:
            raise DataError(no_imprint(len(x), label, known, self.sizes.classes))

    def forget_class(self, label: int) -> None:
        """Give a class the row it had at first. Raises DataError for no such class."""
        if self._library.mct_forget_class(label) != 0:
            raise DataError(no_class(label, self.sizes.classes))

    @property
    def _imprint(self) -> Callable[..., int]:
        function: Callable[..., int] = self._library.mct_host_imprint
        return function

    def select(self, tensors: Sequence[int]) -> None:
        """Train these of the elastic tensors, by index, and those that always are."""
        chosen = words(tensors, self.sizes.tensors)
        self._library.mct_select((ctypes.c_uint32 * len(chosen))(*chosen))

    def forget_times(self) -> None:
        """Forget the times of nodes so far."""
        self._library.mct_forget_times()

    def fewest_ticks(self, nodes: int) -> tuple[int, ...]:
        """Fewest ticks of each timed node in a step; 2^32 - 1 if it did not run."""
        place = self._library.mct_fewest_ticks
        place.restype = ctypes.POINTER(ctypes.c_uint32)
        return tuple(place()[:nodes])

    def latents(self, x: Array, shape: tuple[int, ...]) -> Array:
        """The latents of samples, int8 [n, *shape], by C that was generated with one."""
        samples = as_bytes(x).reshape(len(x), self.sizes.input_bytes)
        found = np.zeros((len(samples), *shape), np.int8)
        self._library.mct_host_front(len(samples), pointer(samples), pointer(found))
        return found

    def save(self) -> bytes:
        """The trained state with header and checksum, as mct_state_save writes it."""
        buffer = ctypes.create_string_buffer(self.saved_bytes)
        self._library.mct_state_save(buffer)
        return buffer.raw

    def load(self, saved: bytes) -> None:
        """Take over a saved state. Raises StateError, and nothing changes, if it does not fit."""
        kept = ctypes.create_string_buffer(saved, max(len(saved), 1))
        status = self._library.mct_state_load(kept, ctypes.c_size_t(len(saved)))
        if status != 0:
            raise StateError(f"the saved state cannot be used: {STATUS_TEXT[status]}")
        self._backing = kept

    def resample(self) -> None:
        """Put the trained columns back into their weights, and draw others to train."""
        if not self._library.mct_swap_is_due():
            return
        kept = ctypes.create_string_buffer(self.saved_bytes)
        self._library.mct_swap_begin()
        self._library.mct_state_save(kept)
        status = self._library.mct_swap(kept)
        assert status == 0, f"a saved state that does not fit: {STATUS_TEXT[status]}"
        self._backing = kept

    def _samples(self, x: Array) -> Array:
        samples = as_bytes(x)
        if samples.shape[1] != self.input_bytes:
            raise DataError(
                f"a sample has {samples.shape[1]} bytes, the model takes {self.input_bytes}"
            )
        return samples


class CompiledSimulator(LibrarySimulator):
    """Simulates by a project's shared library, whose plan is known."""

    def __init__(
        self,
        plan: TrainingPlan,
        scheme: str = "",
        seed: int = 1,
        compiler: Compiler | None = None,
        portable: bool = False,
        extra_flags: Sequence[str] = (),
        project: Project | None = None,
    ) -> None:
        self.plan = plan
        self.project = project or generate(plan, scheme)
        training = plan.training
        tensors = training.forward.tensors
        sizes = Sizes(
            training.input_type.size_bytes,
            tensors[training.forward.outputs[0]].type.size_bytes,
            plan.kept_bytes,
            training.classes,
            len(training.elastic),
            training.label_type.size_bytes if training.positions else 0,
            training.takes_targets,
        )
        super().__init__(build_library(self.project, compiler, portable, extra_flags), sizes, seed)

    @property
    def selected(self) -> tuple[int, ...]:
        """The elastic tensors that are trained."""
        return selection_of(self.words().get(SELECTED_TENSORS, ()))

    @property
    def state(self) -> dict[str, Array]:
        """Every state tensor by name, and what is in the backing store."""
        raw = self.save()[SAVED_HEADER_BYTES:] if self.plan.backing_bytes else self._raw()
        return self.plan.state.unpack(raw)

    @property
    def counters(self) -> tuple[int, int, int]:
        """Random state, updates done, samples of the current update."""
        key, update, sample = self.words()[COUNTERS].tolist()
        return key, update, sample

    @property
    def gate(self) -> tuple[int, int]:
        """What a gate keeps: the mean loss as Q19, and the count of skipped samples."""
        words = self.words()
        return int(words[GATE_MEAN][0]), int(words[GATE_SKIPPED][0])

    @property
    def level_samples(self) -> tuple[int, ...]:
        """How many samples were trained by way of each front of a proxy cascade."""
        return tuple(int(count) for count in self.words().get(LEVEL_SAMPLES, ()))

    def levels(self, x: Array) -> Array:
        """Return the level that a step would take now, for each sample of int8 [n, …]."""
        samples, found = self._samples(x), np.zeros(len(x), np.int32)
        self._library.mct_host_levels(len(x), pointer(samples), pointer(found))
        return found.astype(np.int64)

    def words(self) -> dict[str, Array]:
        """Counters and what features keep, by kind."""
        return self.plan.state.unpack_words(self._raw())

    def _raw(self) -> bytes:
        """The state without header: no checksum is computed."""
        return ctypes.string_at(self._library.mct_state_bytes(), self.plan.state_bytes)


def as_bytes(x: Array) -> Array:
    """Samples of int8, or token ids of int16, as the bytes that the C takes: int8 [n, bytes]."""
    dtype = np.dtype("<i2" if x.dtype == np.int16 else "int8")
    return np.ascontiguousarray(x, dtype).reshape(len(x), -1).view(np.int8)


def pointer(array: Array) -> ctypes.c_void_p:
    """Return a pointer to the first element."""
    return ctypes.c_void_p(array.ctypes.data)


def _load_copy(library: Path) -> ctypes.CDLL:
    """A library loaded twice would share its static state; each simulator has its own copy."""
    handle, name = tempfile.mkstemp(suffix=".so", prefix="mcutrain-")
    os.close(handle)
    try:
        shutil.copyfile(library, name)
        loaded = ctypes.CDLL(name)
    finally:
        Path(name).unlink()
    loaded.mct_host_train.restype = ctypes.c_int32
    loaded.mct_host_infer.restype = None
    loaded.mct_reset.restype = None
    loaded.mct_state_save.restype = None
    loaded.mct_state_bytes.restype = ctypes.c_void_p
    loaded.mct_state_load.restype = ctypes.c_int32
    return loaded

"""Training from the latent: what the frozen front makes of a sample is computed once."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain.codegen import Project
from mcutrain.ir.interpret import interpret
from mcutrain.memplan import Latent, TrainingPlan, front, tail
from mcutrain.simulation.compiled import CompiledSimulator, pointer
from mcutrain.simulation.reference import PlannedReference
from mcutrain.simulation.run import Samples

Array = npt.NDArray[Any]


class LatentSimulator(CompiledSimulator):
    """Generated C that takes latents for samples: `train` and `infer` compute no front.

    project: generated with the latent (mcutrain.codegen.Interface.latent). The state, its bytes and
    what is learnt are those of the simulator that takes samples.
    """

    def __init__(
        self, plan: TrainingPlan, latent: Latent, project: Project, seed: int = 1, **options: Any
    ) -> None:
        self.latent = latent
        super().__init__(plan, seed=seed, project=project, **options)
        self._sample_bytes, self.input_bytes = self.input_bytes, latent.size_bytes
        self._train = self._library.mct_host_train_latents
        self._infer = self._library.mct_host_infer_latents
        self._train.restype, self._infer.restype = ctypes.c_int32, None

    def front(self, x: Array) -> Array:
        """The latents of samples, int8 [n, …]."""
        samples = np.ascontiguousarray(x, np.int8).reshape(len(x), self._sample_bytes)
        found = np.zeros((len(samples), *self.latent.type.shape[1:]), np.int8)
        self._library.mct_host_front(len(samples), pointer(samples), pointer(found))
        return found


class LatentReference(PlannedReference):
    """The same by Op.reference: the nodes before the latent, and a step of those behind it."""

    def __init__(self, plan: TrainingPlan, latent: Latent, seed: int = 1) -> None:
        super().__init__(plan, seed)
        self.latent = latent
        self._front = front(self.training, latent)
        self.training = tail(self.training, latent)

    def front(self, x: Array) -> Array:
        """The latents of samples, int8 [n, …]."""
        name, (sample,) = self.latent.tensor, self._front.inputs
        shape = self._front.tensors[sample].type.shape
        found = [interpret(self._front, {sample: s.reshape(shape)}, [name])[name] for s in x]
        return np.concatenate(found)


@dataclass(frozen=True)
class LatentSamples(Samples):
    """Samples as their latents, each computed when it is asked for first, or anew if it is varied.

    front: makes the latents of samples, int8 [n, …]. shape: of a latent, without the batch.
    """

    front: Callable[[Array], Array] = field(kw_only=True)
    shape: tuple[int, ...] = field(kw_only=True)

    @staticmethod
    def of(samples: Samples, simulator: LatentSimulator | LatentReference) -> LatentSamples:
        """Of samples."""
        values = {f.name: getattr(samples, f.name) for f in fields(Samples)}
        shape = simulator.latent.type.shape[1:]
        return LatentSamples(**values, front=simulator.front, shape=shape)

    def train(self, index: Array, epoch: int, seed: int) -> Array:
        """The latents of the training samples `index`."""
        if self.are_varied:
            return self.front(super().train(index, epoch, seed))
        return self._parts[0].at(index)

    def test(self, first: int, last: int) -> Array:
        """Those of test samples."""
        return self._parts[1].at(np.arange(first, min(last, len(self.split.test))))

    def whole(self) -> Samples:
        """The samples themselves."""
        return Samples(**{f.name: getattr(self, f.name) for f in fields(Samples)})

    @cached_property
    def _parts(self) -> tuple[_Latents, _Latents]:
        def part(x: Array) -> _Latents:
            empty = np.zeros((len(x), *self.shape), np.int8)
            return _Latents(empty, lambda index: self.front(self.quantized(x[index])))

        return part(self.split.train.x), part(self.split.test.x)


class _Latents:
    """Of one part of the data. values: those that are known. compute: makes the others."""

    def __init__(self, values: Array, compute: Callable[[Array], Array]) -> None:
        self._values, self._compute = values, compute
        self._is_known = np.zeros(len(values), bool)

    def at(self, index: Array) -> Array:
        """Those of the samples `index`."""
        new = index[~self._is_known[index]]
        if len(new):
            self._values[new] = self._compute(new)
            self._is_known[new] = True
        return self._values[index]

"""Training from the latent: what the frozen front makes of a sample is computed once."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.codegen import Project
from mcutrain.ir.digest import arrays_digest, graph_digest
from mcutrain.ir.graph import Graph
from mcutrain.ir.interpret import interpret
from mcutrain.memplan import Latent, TrainingPlan, front, tail
from mcutrain.simulation.compiled import CompiledSimulator
from mcutrain.simulation.kept_latents import keep_latents, kept_latents, read_latents
from mcutrain.simulation.reference import PlannedReference
from mcutrain.simulation.samples import Samples

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
        self.input_bytes = latent.size_bytes
        self._train = self._library.mct_host_train_latents
        self._infer = self._library.mct_host_infer_latents
        self._train.restype, self._infer.restype = ctypes.c_int32, None

    @property
    def _imprint(self) -> Callable[..., int]:
        function: Callable[..., int] = self._library.mct_host_imprint_latents
        return function

    @property
    def network(self) -> Graph:
        """What the front computes."""
        return front(self.plan.training, self.latent)

    def front(self, x: Array) -> Array:
        """The latents of samples, int8 [n, …]."""
        return self.latents(x, self.latent.type.shape[1:])


class LatentReference(PlannedReference):
    """Computes by Op.reference: the nodes before the latent, and a step of those behind it."""

    def __init__(self, plan: TrainingPlan, latent: Latent, seed: int = 1) -> None:
        super().__init__(plan, seed)
        self.latent = latent
        self.network = front(self.training, latent)
        self.training = tail(self.training, latent)

    def front(self, x: Array) -> Array:
        """The latents of samples, int8 [n, …]."""
        name, (sample,) = self.latent.tensor, self.network.inputs
        shape = self.network.tensors[sample].type.shape
        found = [interpret(self.network, {sample: s.reshape(shape)}, [name])[name] for s in x]
        return np.concatenate(found)


@dataclass(frozen=True)
class LatentSamples(Samples):
    """Samples as their latents, each computed when it is asked for first.

    Where every epoch varies the samples each is computed anew. front: makes the latents of samples,
    int8 [n, …]. shape: of a latent, without the batch. network: that the front computes; latents
    that are all known are kept under its digest; None: they are not kept.
    """

    front: Callable[[Array], Array] = field(kw_only=True)
    shape: tuple[int, ...] = field(kw_only=True)
    network: Graph | None = field(kw_only=True, default=None)

    @staticmethod
    def of(samples: Samples, simulator: LatentSimulator | LatentReference) -> LatentSamples:
        """Make latents of samples by a simulator's front."""
        shape = simulator.latent.type.shape[1:]
        return LatentSamples.by(samples, simulator.front, shape, simulator.network)

    @staticmethod
    def by(
        samples: Samples,
        front: Callable[[Array], Array],
        shape: tuple[int, ...],
        network: Graph | None = None,
    ) -> LatentSamples:
        """Make latents of samples by any front."""
        values = {f.name: getattr(samples, f.name) for f in fields(Samples)}
        return LatentSamples(**values, front=front, shape=shape, network=network)

    def train(self, index: Array, epoch: int, seed: int) -> Array:
        """The latents of the training samples `index`."""
        if self.are_varied and not self.versions:
            return self.front(super().train(index, epoch, seed))
        version = epoch % self.versions if self.are_varied else 0
        if (version, seed) not in self._train:
            self._train[version, seed] = self._latents(
                self.split.train.x,
                lambda index: super(LatentSamples, self).train(index, version, seed),
                f"{self.varied} {version} {seed}" if self.are_varied else "",
            )
        return self._train[version, seed].at(index)

    def test(self, first: int, last: int) -> Array:
        """Return the latents of test samples."""
        return self._test.at(np.arange(first, min(last, len(self.split.test))))

    def whole(self) -> Samples:
        """The samples themselves."""
        return Samples(**{f.name: getattr(self, f.name) for f in fields(Samples)})

    @cached_property
    def _train(self) -> dict[tuple[int, int], _Latents]:
        """Latents of the training part, by version and by the seed that varied it."""
        return {}

    @cached_property
    def _test(self) -> _Latents:
        x = self.split.test.x
        return self._latents(x, lambda index: self.quantized(x[index]), "")

    def _latents(self, x: Array, codes: Callable[[Array], Array], varied: str) -> _Latents:
        """Return latents of samples. codes: model inputs at some indices. varied: how, as words."""
        read = f"{self.scale} {self.zero_point} {self.normalization} {varied}"
        path = None
        if self.network is not None:
            path = kept_latents(graph_digest(self.network), arrays_digest(x), read)
        shape = (len(x), *self.shape)
        return _Latents(path, shape, lambda index: self.front(codes(index)))


class _Latents:
    """Latents of some samples. path: where they are kept, or None. compute: makes some."""

    def __init__(
        self, path: Path | None, shape: tuple[int, ...], compute: Callable[[Array], Array]
    ) -> None:
        self._path, self._compute = path, compute
        kept = None if path is None else read_latents(path, shape)
        self._values = np.zeros(shape, np.int8) if kept is None else kept
        self._is_known = np.full(len(self._values), kept is not None)

    def at(self, index: Array) -> Array:
        """Return the latents of the samples `index`."""
        new = index[~self._is_known[index]]
        if len(new):
            self._values[new] = self._compute(new)
            self._is_known[new] = True
            if self._path is not None and self._is_known.all():
                keep_latents(self._path, self._values)
        found: Array = self._values[index]
        return found

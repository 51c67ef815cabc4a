"""What a feature of a training step adds to the graph while it is differentiated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from mcutrain.autodiff.elastic import ElasticTensor
from mcutrain.autodiff.split import SplitParameter
from mcutrain.autodiff.state_kinds import StateKind
from mcutrain.ir.graph import Graph


class Building(Protocol):
    """A training graph that is being made, as far as features ask it."""

    @property
    def source(self) -> Graph:
        """The network, with its partly trained parameters split."""

    @property
    def split(self) -> Mapping[str, SplitParameter]:
        """Those parameters, by name."""

    @property
    def trained(self) -> Sequence[ElasticTensor]:
        """Trained tensors so far, nearest to the loss first."""

    def add_state(self, name: str, value: npt.NDArray[np.generic], kind: StateKind) -> str:
        """Add a tensor to the state; returns its name, which is new."""

    def keep_in_state(self, name: str, value: npt.NDArray[np.generic], kind: StateKind) -> None:
        """Make a tensor of the network a part of the state."""

    def unused(self, name: str) -> str:
        """Return the name, with a number behind it if a tensor has it."""


class Rewriting:
    """What one feature adds; by default, nothing.

    resamples_columns: weights that are trained in part lie whole in the backing store. The state
    says which columns are trained. needs_sgd: what the feature is, in words, if it only goes with
    SGD.
    """

    resamples_columns: bool = False
    needs_sgd: str = ""

    def begin(self, building: Building) -> None:
        """Add to the state, behind the trained parameters and their columns."""

    def finish(self, building: Building) -> Mapping[str, Any]:
        """Return fields of the TrainGraph, by name."""
        return {}

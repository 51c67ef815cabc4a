"""The option of a step with input-channel resampling, and what that adds to the graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.autodiff.rewriting import Building, Rewriting
from mcutrain.autodiff.state_kinds import COLUMNS
from mcutrain.autodiff.train_graph import ResampledWeight
from mcutrain.errors import ArgumentError
from mcutrain.ops.updating import initial_residual
from mcutrain.sparse.columns import RULES, UNKNOWN

Array = npt.NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class ResamplingOption:
    """A field of StepOptions.

    swap: other columns of weights that are trained in part can be trained while it runs, by this of
    the RULES of mcutrain.sparse.columns; empty: they cannot.
    """

    swap: str = ""


class ResamplingRewriting(Rewriting):
    """Weights in the backing store, and what their columns were found to be worth.

    rule: of mcutrain.sparse.columns.
    """

    resamples_columns = True
    needs_sgd = "input channels that change while it runs (--resample)"

    def __init__(self, rule: str) -> None:
        self.rule = rule
        self._scores: dict[str, str] = {}  # by the state that says which columns are trained

    def begin(self, building: Building) -> None:
        """Add the columns of each weight, and their scores if the rule has some."""
        for split in building.split.values():
            if split.columns is None:
                continue
            columns = np.array(building.source.tensors[split.columns].data, np.int16)
            building.keep_in_state(split.columns, columns, COLUMNS)
            if self.rule == "fisher":
                unknown = np.full(columns.shape, UNKNOWN, np.uint8)
                name = building.add_state(f"{split.columns}.scores", unknown, COLUMNS)
                self._scores[split.columns] = name

    def finish(self, building: Building) -> Mapping[str, Any]:
        """Return the weights whose trained columns change, and the backing store."""
        resampled = tuple(self._resampled(building))
        return {"resampled": resampled, "backing": _initial_backing(resampled, building)}

    def _resampled(self, building: Building) -> Iterator[ResampledWeight]:
        trained = {tensor.name: tensor for tensor in building.trained}
        for split in building.split.values():
            if split.columns is None:
                continue
            weight = ResampledWeight(split.frozen, split.trained, split.columns)
            tensor = trained.get(split.trained)
            if tensor is not None and tensor.residual is not None:
                name = building.unused(f"{split.frozen}.residual")
                weight = replace(
                    weight, bits=tensor.bits, residual=tensor.residual, backing_residual=name
                )
            if split.columns in self._scores:
                name = building.unused(f"{split.frozen}.scores")
                weight = replace(weight, scores=self._scores[split.columns], backing_scores=name)
            yield weight


def _initial_backing(
    resampled: tuple[ResampledWeight, ...], building: Building
) -> dict[str, Array]:
    """Return the whole weights, each with its residual bits and scores, as they are at first."""
    backing: dict[str, Array] = {}
    for weight in resampled:
        whole = np.asarray(building.source.tensors[weight.backing].data)
        backing[weight.backing] = whole
        if weight.bits:
            backing[weight.backing_residual] = initial_residual(whole.size, weight.bits)
        if weight.scores:
            backing[weight.backing_scores] = np.full(whole.shape[-1], UNKNOWN, np.uint8)
    return backing


def rewriting(options: ResamplingOption) -> Rewriting | None:
    """Return what makes columns change, if they can. Raises ArgumentError for an unknown rule."""
    if options.swap not in ("", *RULES):
        raise ArgumentError(f"swap is {options.swap!r}: take {' or '.join(RULES)}, or leave it out")
    return ResamplingRewriting(options.swap) if options.swap else None

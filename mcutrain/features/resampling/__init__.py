"""Input-channel resampling: other columns of a weight are trained from time to time.

Weights that are trained in part lie whole in the backing store, in flash. Resampling puts the
trained columns back there and takes others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mcutrain.autodiff.train_graph import ResampledWeight, TrainGraph
from mcutrain.features.feature import Code, PlannedMemory, PlanRow, StepFeature, Words
from mcutrain.features.resampling.check import has_columns, modules_stay
from mcutrain.features.resampling.option import ResamplingOption, rewriting
from mcutrain.features.resampling.reference import RESAMPLED_POSITION
from mcutrain.features.resampling.turns import RUN, ResamplingSettings

__all__ = ["FEATURE", "ResamplingOption", "ResamplingSettings"]


def _entries(code: Code, weight: ResampledWeight) -> Iterator[tuple[str, str]]:
    """Rows of a table: what is in the backing store, where its trained part is, and its name."""
    training = code.training
    whole, columns = training.backing[weight.backing], weight.columns
    channels, count = whole.shape[-1], len(training.state[columns])
    sizes = (whole.size // channels, channels, count)
    parts = [(weight.backing, weight.trained, sizes, 8, "WEIGHT")]
    if weight.bits:
        parts.append((weight.backing_residual, weight.residual, sizes, weight.bits, "RESIDUAL"))
    if weight.scores:
        parts.append((weight.backing_scores, weight.scores, (1, *sizes[1:]), 8, "SCORES"))
    for backing, trained, shape, bits, kind in parts:
        places = (
            code.backing_place(backing),
            code.state_offset(trained),
            code.state_offset(columns),
        )
        numbers = ", ".join(map(str, (*places, *shape, bits)))
        yield f"{numbers}, MCT_COLUMNS_OF_{kind}", backing


def _code(code: Code) -> Mapping[str, Any] | None:
    """Weights whose trained columns change: where they are, and what a draw resets."""
    resampled = code.training.resampled
    return {
        "initial": code.backing,
        "place": code.words(RESAMPLED_POSITION, "uint32_t"),
        "entries": [entry for weight in resampled for entry in _entries(code, weight)],
        "names": ", ".join(weight.backing for weight in resampled),
        "has_scores": any(weight.scores for weight in resampled),
    }


def _identity(training: TrainGraph) -> str:
    """Return what the hash of saved states takes: with the name that the class had in 0.1."""
    return repr(training.resampled).replace("ResampledWeight(", "SwappedColumns(")


def _backing(plan: PlannedMemory) -> Mapping[str, Any]:
    """Return what a plan says of the backing store."""
    weights = [weight.backing for weight in plan.training.resampled]
    return {"weights": weights, "bytes": plan.backing_bytes}


def _backing_line(backing: Mapping[str, Any]) -> str:
    weights = len(backing["weights"])
    return (
        f"{backing['bytes']:>10,}     bytes of flash, kept with the state: {weights} weights of "
        "which other input channels can be trained"
    )


FEATURE = StepFeature(
    name="resampling",
    is_on=lambda training: bool(training.resampled),
    rewriting=rewriting,
    words=(
        Words(
            RESAMPLED_POSITION,
            "uint32",
            lambda training: len(training.resampled[:1]),
            "samples learnt before the last draw of input channels, and 1; 0 before the first",
        ),
    ),
    identity=_identity,
    code=_code,
    plan_row=PlanRow("shelf", _backing, _backing_line),
    sources=lambda training: ("runtime/mct_columns.c",),
    commands="resample",
    commands_without="write",  # its state ends in flash, which is not written over the line
    flags={
        "--resample": lambda options: (
            f"--resample {options.swap}" if options.swap else "no --resample"
        )
    },
    check=modules_stay,
    check_made=has_columns,
    run=RUN,
    resident_bytes=8,  # of the pointer to the backing store, with what aligns what lies behind it
)

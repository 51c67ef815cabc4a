"""What is doubtful about a run that is over, in sentences."""

from __future__ import annotations

from collections.abc import Callable

from mcutrain.arguments import warn
from mcutrain.pipeline import TrainingStep
from mcutrain.runs.result import SimulationResult
from mcutrain.runs.training import search_of
from mcutrain.simulation import FEWEST_STEPS, FoundRate, Run, bad_sign, loss_sign, warning

MOST_TIES = 0.03
"""Share of answers that coarser outputs may make wrong; of more, what was learnt is the reason."""


def saturation_warning(count: int) -> str:
    """A sentence on biases that would have moved further; empty for none."""
    if not count:
        return ""
    are = "bias stands" if count == 1 else "biases stand"
    return (
        f"{count:,} trained {are} at the end of 16 bits and would have moved further: keep all 32 "
        "(bias_bits = 32 in the scheme), or take a lower learning rate"
    )


def coarseness_warning(result: SimulationResult) -> str:
    """A sentence on a larger scale of the outputs, if a few less are right; else empty."""
    lost = result.before - result.accuracy
    if result.output_exponent < 1 or not 0 < lost < MOST_TIES:
        return ""
    return (
        f"the int8 outputs have {2**result.output_exponent} times the scale that they began with, "
        "to hold larger ones: classes whose outputs lay a step apart may be equal now, which alone "
        "makes some answers wrong"
    )


def selection_warning(step: TrainingStep, run: Run) -> str:
    """A sentence on choices of tensors that were no more than chance; empty for none."""
    group = step.plan.training.accumulate
    return run.settings.doubt(run.state.decisions, run.course.epoch_steps, group)


def warn_of_rate(found: FoundRate) -> None:
    """A Python warning, if trials say nothing about the rate."""
    if found.doubt:
        warn(f"the learning rate {found.rate:g} was found, but {found.doubt}")


def rate_warning(
    step: TrainingStep, run: Run, report: Callable[[int, int], None] = lambda done, of: None
) -> str:
    """A sentence if a run that is over knows nothing because its learning rate is too large.

    It is compared with what trials find, which takes a while; runs that did learn are not. Empty if
    there is nothing to say.
    """
    if run.state.trained < FEWEST_STEPS or not run.state.epochs:
        return ""
    search = search_of(step, run.samples.whole(), run.settings)
    return warning(search, _bad_sign(step, run), report)


def _bad_sign(step: TrainingStep, run: Run) -> str:
    """Say that a run learnt nothing, or forgot; else ""."""
    before, last = run.state.before, run.state.epochs[-1]
    if step.plan.training.has_labels:
        if step.plan.training.takes_targets:
            return ""
        guessing = step.plan.training.guessing
        return bad_sign(
            last.loss, guessing, before.accuracy if before else None, last.test_accuracy
        )
    if before is None or before.loss is None:
        return ""
    return loss_sign(last.loss, before.loss, "the begin")

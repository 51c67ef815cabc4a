"""Whether a scheme learns more than its head alone would: what a larger one has to show."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace

from mcutrain_host import cache
from mcutrain_host.errors import CacheError

from mcutrain import data
from mcutrain.errors import BuildError, DataError, PlanError
from mcutrain.pipeline import StepOptions, TrainingStep, prepare
from mcutrain.runs.training import fastest_simulator, search_of
from mcutrain.simulation import FoundRate, LatentSamples, LatentSimulator, Run, Search
from mcutrain.simulation.range_test import RATES, OutOfTime, TrialOutcome, Trials
from mcutrain.sparse import UpdateScheme, arrange, find_head

Report = Callable[[int, int], None]
HEAD_RATES = 3
"""Rates that the head alone is tried with, upwards from the scheme's: it stands larger ones."""


def head_alone_warning(
    step: TrainingStep,
    split: data.Split,
    run: Run,
    rate: FoundRate,
    report: Report = lambda done, of: None,
) -> str:
    """A sentence if trials end better with the head alone than with all that the scheme trains.

    That is with less loss and more samples named: of few samples the one or the other is chance.
    run, rate: of the scheme, with the rate that trials found. The head is tried as long as they
    were, on the samples that they learnt, and judged by those that they held out. Empty if the
    scheme is no worse, or there is nothing to compare.
    """
    if not is_comparable(step, rate):
        return ""
    try:
        alone = _of_head(step, split, run, rate, report)
    except (BuildError, CacheError, DataError, OutOfTime, PlanError):
        return ""
    if alone.accuracy <= rate.accuracy or alone.loss >= rate.loss:
        return ""
    return (
        f"in trials of {rate.steps:,} steps the head alone named {100 * alone.accuracy:.1f} % of "
        f"{rate.judged:,} samples that were held out, the scheme {step.scheme.name} "
        f"{100 * rate.accuracy:.1f} %: take --scheme head, which needs less memory, or give the "
        "scheme more samples or epochs"
    )


def is_comparable(step: TrainingStep, found: FoundRate) -> bool:
    """Whether the head alone is another step that learns the same classes from the same samples."""
    training = step.plan.training
    head = find_head(step.graph)
    _, updates = arrange(step.scheme, step.graph)
    is_larger = bool(updates.keys() - {head.weight, head.bias})
    has_own_classes = training.has_labels and not training.positions and not training.is_tail
    is_grown = step.recipe is not None and bool(step.recipe.options.added)
    return is_larger and has_own_classes and not is_grown and found.steps > 0


def _of_head(
    step: TrainingStep, split: data.Split, run: Run, found: FoundRate, report: Report
) -> TrialOutcome:
    """Return what the head ends with, from the cache or from trials."""
    scheme = UpdateScheme(
        head_residual_bits=step.scheme.head_residual_bits,
        head_rate=step.scheme.head_rate,
        update_rule=step.scheme.update_rule,
    )
    own = StepOptions() if step.recipe is None else step.recipe.options
    options = StepOptions(
        accumulate=step.plan.training.accumulate,
        class_weights=own.class_weights,
        label_smoothing=own.label_smoothing,
    )
    head = prepare(step.graph, scheme, options)
    search = _search(head, split, run)
    path = cache.cache_folder() / "rates" / f"{search.key}-{found.steps}-{found.rate:g}.json"
    try:
        known = json.loads(cache.read(path) or b"")
        return TrialOutcome(float(known["loss"]), float(known["accuracy"]))
    except (ValueError, TypeError, KeyError):
        outcome = _tried(Trials(search), found, report)
    cache.write(path, json.dumps(asdict(outcome)).encode())
    return outcome


def _search(head: TrainingStep, split: data.Split, run: Run) -> Search:
    """Prepare the search for the head's own rate, on samples as its network takes them."""
    settings = replace(run.settings.without_turns(), learning_rate=None)
    simulator = fastest_simulator(head, split, settings)
    samples = run.samples.whole()
    if isinstance(simulator, LatentSimulator):
        samples = LatentSamples.of(samples, simulator)
    return search_of(head, samples, settings, simulator)


def _tried(trials: Trials, found: FoundRate, report: Report) -> TrialOutcome:
    """What the rate ends with that lowers the loss most."""
    first = RATES.index(found.rate)
    rates = RATES[first : first + HEAD_RATES]
    outcomes: list[TrialOutcome] = []
    report(0, len(rates))
    for rate in rates:
        outcomes.append(trials.outcome(rate, found.steps))
        report(len(outcomes), len(rates))
    return min(outcomes, key=lambda outcome: outcome.loss)

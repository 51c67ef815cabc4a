"""A run on this computer before it begins: what computes it, its samples, its learning rate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy.typing as npt

from mcutrain import data as datasets
from mcutrain.cost.elastic import estimated_times
from mcutrain.cost.instructions import USUAL_ISA
from mcutrain.errors import DataError
from mcutrain.features import Turn, conflict
from mcutrain.memplan import Latent, TrainingPlan, find_latent, front_macs, latents, saves_much
from mcutrain.pipeline import TrainingStep
from mcutrain.runs.result import TAKES_LATENTS
from mcutrain.runs.sample_reading import check_latents, input_type, samples_of
from mcutrain.simulation import (
    CompiledSimulator,
    CountsLevels,
    Earlier,
    Finished,
    FoundRate,
    LatentSamples,
    Reconstruction,
    Regression,
    Run,
    RunSettings,
    Samples,
    Search,
    Simulator,
    judging,
    step_macs,
)
from mcutrain.simulation.batches import BY_LEVEL, MIXED, LevelBatches
from mcutrain.simulation.metrics.labels import OwnLabels
from mcutrain.sparse.elastic import ElasticTimes

Array = npt.NDArray[Any]

MOST_LATENT_BYTES = 1 << 30
"""Most bytes of latents that a run keeps in memory of its own accord."""
WHOLE_IMAGES_MACS = 200_000_000_000
"""Multiply-accumulates of a run before a second plan, with whole images, pays for itself: it takes
0.3 s, and saves 2 to 10 % of mcunet-5fps's steps of 23 M."""


def prepare_run(
    step: TrainingStep,
    split: datasets.Split,
    settings: RunSettings,
    *,
    simulator: Callable[[], Simulator] | None = None,
    normalization: datasets.Normalization | None = None,
    times: ElasticTimes | None = None,
    after: Finished | None = None,
    report: Callable[[int, int], None] = lambda done, of: None,
    found: Callable[[FoundRate], None] = lambda _: None,
    note: Callable[[str], None] = lambda _: None,
) -> Run:
    """A run that has not begun. Raises DataError if the data does not fit the model.

    Finds the learning rate if the settings have none. simulator: makes what computes; None is the
    compiled C; one that takes latents gets those of the samples. normalization: what the model was
    trained on, if its input parameters do not tell (see mcutrain.data.quantize_input). times: what
    tensors take, for an elastic run; None: by the instruction model of a Cortex-M4 or M7. after: a
    run that this one goes on from, with what it has learnt and remembers. report: as
    Watch.searching.
    found: called with the rate, if one had to be found. note: as prepare_samples has it.
    """
    if after is not None:
        check_after(settings)
    if settings.batches == BY_LEVEL:
        check_batches(step.plan, settings)
    x = input_type(step)
    turns = turns_of(step, settings, len(split.train), times)
    if step.plan.training.is_tail:
        check_latents(split, settings, step.plan.training.x, x.shape[1:])
    samples = samples_of(step, split, settings, normalization, note)
    samples, earlier = after.added_to(samples, settings) if after else (samples, Earlier())
    made = simulator() if simulator else step.simulator(settings.rounding_seed)
    if after is not None:
        made.load(after.saved(len(made.save())))  # or a sentence
    if isinstance(made, TAKES_LATENTS):
        _check_fixed(settings)
        samples = LatentSamples.of(samples, made)
    if settings.learning_rate is None and settings.epochs == 0:
        settings = replace(settings, learning_rate=0.0)
    if settings.learning_rate is None:
        compiled = made if isinstance(made, CompiledSimulator) else None
        searched = samples if compiled else samples.whole()
        rate = search_of(step, searched, settings, compiled).found(report)
        found(rate)
        settings = replace(settings, learning_rate=rate.rate)
    recipe = "" if step.recipe is None else step.recipe.to_json()
    y = step.graph.tensors[step.graph.outputs[0]].type
    compared = None if step.plan.training.has_labels else Reconstruction.of(x, y)
    batches = None
    if settings.batches == BY_LEVEL:
        assert isinstance(made, CountsLevels), "fronts choose levels"
        batches = LevelBatches(made.levels, step.plan.training.accumulate)
    run = Run(
        made,
        samples,
        settings,
        step.project.digest,
        recipe=recipe,
        reconstruction=compared,
        regression=regression_of(step),
        table=step.plan.state.table,
        turns=turns,
        earlier=earlier,
        batches=batches,
        has_learnt=step.recipe is not None and step.recipe.options.classes is None,
        threshold=step.plan.training.threshold,
        judged=OwnLabels.of(step.plan.training),
    )
    run.course.mixed_batches(0)  # all fronts of an epoch, while its preparation is said
    return run


def regression_of(step: TrainingStep) -> Regression | None:
    """Return how a step's real targets, or several outputs, are judged; None of others."""
    targets = None if step.recipe is None else step.recipe.options.targets
    return None if targets is None else judging(targets)


def check_after(settings: RunSettings) -> None:
    """Raise DataError for what a run that goes on from another one cannot have."""
    if settings.learning_rate is None:
        raise DataError(
            "a learning rate is searched for the model as it comes, not for what a run before has "
            "made of it: give --lr"
        )
    settings.check_after()


def turns_of(
    step: TrainingStep, settings: RunSettings, samples: int, times: ElasticTimes | None = None
) -> tuple[Turn, ...]:
    """What such a run does between steps. samples: in an epoch. times: as prepare_run has them.

    Raises ArgumentError for a step that cannot be run so.
    """
    return settings.turns(
        step.plan,
        settings.epoch_steps(samples),
        lambda: times or estimated_times(step.plan, USUAL_ISA),
    )


def _check_fixed(settings: RunSettings) -> None:
    if not settings.kept_versions:
        raise DataError(
            "training cannot begin with latents where every epoch varies the samples: leave out "
            "the augmentation, or the latent, or vary each sample in a few ways only (versions)"
        )


def check_batches(plan: TrainingPlan, settings: RunSettings) -> None:
    """Raise DataError for a step whose samples cannot be put together by level."""
    training, wish = plan.training, "samples of one level in each update"
    if plan.ladder is None:
        raise DataError(f"{wish} are those of a cascade, and there is none: give --proxies, too")
    if training.accumulate == 1:
        raise DataError(f"{wish}, but each update has a single one: give --accumulate, too")
    why_not = conflict(training, "batches")
    if why_not:
        raise DataError(why_not)
    if settings.replay:
        raise DataError(
            f"{wish} are new ones, and what is replayed comes between them: leave out the replay, "
            "or --batches level"
        )


def check_ladder(plan: TrainingPlan, settings: RunSettings, latent: str) -> None:
    """Raise DataError for what a run with a proxy cascade cannot have."""
    if latent not in ("auto", "off"):
        raise DataError(
            "a cascade chooses a front for each sample in every step, so steps cannot begin with "
            f"{latent!r}: leave out the latent, or the cascade"
        )
    why_not = conflict(plan.training, "replay") if settings.replay else ""
    if why_not:
        raise DataError(why_not)


def fastest_simulator(
    step: TrainingStep,
    split: datasets.Split,
    settings: RunSettings,
    *,
    latent: str = "auto",
    portable: bool = False,
) -> CompiledSimulator:
    """Return the compiled C; where it helps, one that takes latents, so that fronts run once.

    latent: auto, off, or the name of the tensor to begin with. auto begins with the input where
    each epoch varies the samples anew, where little would be saved, or where the latents of all
    samples take more than a gigabyte. Long runs keep whole images, see
    TrainingStep.for_this_computer. Raises PlanError for a name that is none, DataError for one
    with varied samples.
    """
    seed = settings.rounding_seed
    if step.plan.ladder is not None:
        check_ladder(step.plan, settings, latent)
        return step.simulator(seed, portable=portable)
    if latent not in ("auto", "off"):
        _check_fixed(settings)
    begin = _begin_of(step.plan, split, settings, latent)
    images = _kept(split, settings) if begin else _computed(split, settings)
    if images * step.plan.training.forward.macs() >= WHOLE_IMAGES_MACS:
        step = step.for_this_computer()
    if begin is None:
        return step.simulator(seed, portable=portable)
    return step.latent_simulator(begin, seed, portable)


def _begin_of(
    plan: TrainingPlan, split: datasets.Split, settings: RunSettings, latent: str
) -> Latent | None:
    """Return the latent that steps begin with; None: they begin with the samples."""
    if latent == "off":
        return None
    if latent != "auto":
        return find_latent(plan, latent)
    if not settings.kept_versions or not latents(plan):
        return None
    chosen = find_latent(plan)
    kept_bytes = chosen.size_bytes * _kept(split, settings)
    return chosen if kept_bytes <= MOST_LATENT_BYTES and saves_much(plan, chosen) else None


def _kept(split: datasets.Split, settings: RunSettings) -> int:
    """Return how many latents a run has, if it keeps them."""
    return settings.kept_versions * len(split.train) + len(split.test)


def _computed(split: datasets.Split, settings: RunSettings) -> int:
    """Return how many samples pass through the network in a run that keeps no latents."""
    tests = 1 + sum(map(settings.tests_after, range(1, settings.epochs + 1)))
    steps = settings.epochs * (1 + settings.replay) * len(split.train)
    return steps + tests * len(split.test)


def search_of(
    step: TrainingStep,
    samples: Samples,
    settings: RunSettings,
    simulator: CompiledSimulator | None = None,
) -> Search:
    """The search for the rate of a run.

    samples: as `simulator` takes them; without one, as the whole step does, which is then compiled.
    """
    return Search(
        samples,
        replace(settings, batches=MIXED),
        step.project.model_hash,
        step.plan.training.start,
        step.plan.training.accumulate,
        lambda: simulator or step.simulator(settings.rounding_seed),
        0 if step.recipe is None else len(step.recipe.options.added),
        step_macs(step.plan.training.forward.macs(), front_macs(step.plan), settings),
    )

"""Training on the host from Python: what `mcutrain simulate` does, as one function."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.protocol import Rate, Selecting
from mcutrain_host.saved import level_drift, level_samples, saturated_biases, skipped_samples
from mcutrain_host.trainer import Lessons, Scores

from mcutrain import data as datasets
from mcutrain.arguments import PathLike, Positive, Seed, Within, checked, warn
from mcutrain.cost.elastic import estimated_times
from mcutrain.cost.instructions import USUAL_ISA
from mcutrain.errors import ArgumentError, DataError
from mcutrain.features import conflict
from mcutrain.ir.graph import Graph, TensorType
from mcutrain.memplan import TrainingPlan, find_latent, front_macs, latents, saves_much
from mcutrain.pipeline import TrainingStep
from mcutrain.shown import Record, Shown
from mcutrain.simulation import (
    FEWEST_STEPS,
    CompiledSimulator,
    CountsLevels,
    Course,
    Decision,
    Earlier,
    EpochResult,
    Finished,
    FoundRate,
    LatentReference,
    LatentSamples,
    LatentSimulator,
    Progress,
    Reconstruction,
    Run,
    RunSettings,
    Samples,
    Search,
    Simulator,
    TensorSelector,
    bad_sign,
    doubt,
    loss_sign,
    rate_of_checkpoint,
    step_macs,
    warning,
)
from mcutrain.simulation.batches import BY_LEVEL, MIXED, LevelBatches
from mcutrain.simulation.positions import counts_of, scores_of
from mcutrain.sparse.elastic import ElasticTimes

Array = npt.NDArray[Any]

MOST_LATENT_BYTES = 1 << 30
"""Most bytes of latents that a run keeps in memory of its own accord."""
TAKES_LATENTS = (LatentSimulator, LatentReference)
NOTHING_TO_LEAVE_OUT = (
    "the scheme trains the last layer alone, of which nothing can be left out: give one that "
    "trains more, such as last:4, or no share of a step (elastic)"
)
CHECKPOINT_SECONDS = 20.0
"""How often a running simulation writes its checkpoint."""


MOST_TIES = 0.03
"""Share of answers that coarser outputs may make wrong; of more, what was learnt is the reason."""


@dataclass(frozen=True, repr=False)
class SimulationResult(Shown):
    """What a run did.

    before, accuracy: shares of the test samples that are right.
    saved: the trained state, as mct_state_save writes it.
    learning_rate: the run's, given or found.
    seconds: of the steps. latent: what they began with, if not with the samples.
    saturated_biases: how many stand at an end of the 16 bits of their difference to the model's,
        where the scheme keeps that (bias_bits = 16).
    skipped: steps whose samples the gate kept from being learnt; None without a gate.
    decisions: what an elastic run selected.
    output_exponent: by which power of two the outputs' scale is larger now.
    levels: samples of each front of proxies, the whole one first; None without them.
    drift: by how many units of a score each level is preferred to the one before, in the end; None
        without policy feedback.
    mixed_batches: updates from samples of several levels; None where none are put together by it.
    order_doubt: what accuracy before training says against the order of the classes, if anything.
    scheme: what was trained.
    recipe: how the step was made, as JSON, for `export`.

    A network that reproduces its input has NaN for before and accuracy; it has loss_before, loss,
    auc_before and auc as mcutrain.simulation.Tested has them. A network that gives a class for each
    position has iou_before, iou and class_iou, and its accuracy is of positions.
    """

    before: float
    accuracy: float
    epochs: tuple[EpochResult, ...]
    steps: int
    seconds: float
    arena_bytes: int
    state_bytes: int
    saved: bytes
    loss_before: float | None = None
    loss: float | None = None
    auc_before: float | None = None
    auc: float | None = None
    iou_before: float | None = None
    iou: float | None = None
    class_iou: tuple[float | None, ...] = ()
    learning_rate: float | None = None
    recipe: str = ""
    saturated_biases: int = 0
    latent: str = ""
    skipped: int | None = None
    decisions: tuple[Decision, ...] = ()
    output_exponent: int = 0
    levels: tuple[int, ...] | None = None
    drift: float | None = None
    mixed_batches: int | None = None
    order_doubt: str = ""
    scheme: str = ""

    def summary(self) -> str:
        """Return a line that describes it."""
        if self.loss is None or self.loss_before is None:
            scores = f"accuracy {100 * self.before:.1f} → {100 * self.accuracy:.1f} %"
            if self.iou is not None and self.iou_before is not None:
                scores += f", mean IoU {100 * self.iou_before:.1f} → {100 * self.iou:.1f} %"
        else:
            scores = f"loss {self.loss_before:.3f} → {self.loss:.3f}"
        return f"{scores} in {self.steps:,} steps, {self.sram_bytes:,} bytes of SRAM"

    def records(self) -> list[Record]:
        """A row for each epoch."""
        return [asdict(epoch) for epoch in self.epochs]

    def to_dict(self) -> Record:
        """All of it but the saved state, of which there is the SHA-256."""
        left_out = ("saved", "recipe", "epochs", "decisions")
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in left_out}
        return {
            **values,
            "epochs": self.records(),
            "decisions": [asdict(decision) for decision in self.decisions],
            "sram_bytes": self.sram_bytes,
            "step_us": self.step_us,
            "state_sha256": hashlib.sha256(self.saved).hexdigest(),
        }

    @property
    def step_us(self) -> float:
        """Microseconds per training step on this machine."""
        return 1e6 * self.seconds / max(self.steps, 1)

    @property
    def sram_bytes(self) -> int:
        """Arena and trainable state."""
        return self.arena_bytes + self.state_bytes


@dataclass(frozen=True)
class Watch:
    """Who wants to know how far a run is: called with training progress, and test samples done.

    searching: called with the trials of a learning rate that are done, and how many there may be.
    noting: called with what the first test says against the order of the classes, if anything.
    """

    training: Callable[[Progress], None] = lambda _: None
    evaluating: Callable[[int], None] = lambda _: None
    searching: Callable[[int, int], None] = lambda done, of: None
    noting: Callable[[str], None] = lambda _: None


@checked
def train(
    step: TrainingStep,
    data: datasets.Data,
    settings: RunSettings | None = None,
    *,
    validation: datasets.Data | None = None,
    epochs: Annotated[int, Within(0)] | None = None,
    learning_rate: Positive | None = None,
    seed: Seed | None = None,
    normalization: datasets.Normalization | None = None,
    checkpoint: PathLike | None = None,
    latent: str = "auto",
    watch: Watch | None = None,
) -> SimulationResult:
    """Train in the generated C, compiled for this machine; the same bits as on any other.

    data: a path that mcutrain.data.load reads, a Split, or arrays (x, y).
    settings: all that determines the run. epochs, learning_rate (per sample) and seed replace
        theirs; 0 epochs train nothing. Without a rate short trials find one, as `--lr auto` does;
        the result names it.
    validation: (x, y) to test on, see mcutrain.data.of_arrays.
    checkpoint: a file to continue from if it exists, and to save to.
    latent: auto computes what the frozen front makes of a sample once, where no epoch varies the
        samples, with the same bits; off, or a tensor's name: see `fastest_simulator`.

    Warns of values that the model's input clips. Raises DataError if the data does not fit,
    StateError for another run's checkpoint, BuildError, ArgumentError.

    >>> train(prepare("model.int8.tflite", "last:3"), (x, y), epochs=2, learning_rate=0.03)
    """
    given = {"epochs": epochs, "learning_rate": learning_rate, "seed": seed}
    changes: dict[str, Any] = {k: v for k, v in given.items() if v is not None}
    is_partial = bool(step.graph.class_names or (step.recipe and step.recipe.options.added))
    split = load_data(step, data, validation=validation, is_partial=is_partial)
    if step.plan.training.has_labels:
        outputs = outputs_of(step)
        if guess := outputs.guess(split):
            warn(guess)
        split = outputs.labelled(split)
    from mcutrain.runs.head_alone import head_alone_warning

    file, watch = Path(checkpoint) if checkpoint else None, watch or Watch()
    wanted = continued(replace(settings or RunSettings(), **changes), file)
    rates: list[FoundRate] = []
    run = prepare_run(
        step,
        split,
        wanted,
        simulator=lambda: fastest_simulator(step, split, wanted, latent=latent),
        normalization=normalization,
        report=watch.searching,
        found=rates.append,
        note=warn,
    )
    for rate in rates:
        warn_of_rate(rate)
    doubts = [head_alone_warning(step, split, run, rate, watch.searching) for rate in rates]
    result = finish(step, run, file, watch)
    said = (
        *doubts,
        result.order_doubt,
        saturation_warning(result.saturated_biases),
        selection_warning(run),
        coarseness_warning(result),
    )
    for sentence in filter(None, said):
        warn(sentence)
    return result


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


def selection_warning(run: Run) -> str:
    """A sentence on choices of tensors that were no more than chance; empty for none."""
    return "" if run.selector is None else doubt(run.state.decisions, run.selector.periods.look)


def warn_of_rate(found: FoundRate) -> None:
    """A Python warning, if trials say nothing about the rate."""
    if found.doubt:
        warn(f"the learning rate {found.rate:g} was found, but {found.doubt}")


def continued(settings: RunSettings, checkpoint: Path | None) -> RunSettings:
    """Return settings with the learning rate of an existing checkpoint, if they have none."""
    if settings.learning_rate is not None or checkpoint is None or not checkpoint.exists():
        return settings
    return replace(settings, learning_rate=rate_of_checkpoint(checkpoint))


def load_data(
    model: Graph | TrainingStep | datasets.ModelInput,
    data: datasets.Data,
    test_share: float = 0.2,
    seed: int = 0,
    progress: datasets.Progress | None = None,
    validation: datasets.Data | None = None,
    samples: int | None = None,
    test_samples: int | None = None,
    stride: int | None = None,
    is_partial: bool = False,
    note: Callable[[str], None] = warn,
    certain: Callable[[str], None] = lambda _: None,
) -> datasets.Split:
    """A data set for a model: files are made to fit as they are read, and only what is drawn.

    samples, test_samples: how many of each part, None is all. stride: of windows of CSV files.
    is_partial: whether the model may know more classes than the data has. note: called with what is
    left out, and with a guess of how samples are turned; a Python warning by default. certain:
    called with how they are turned where that is no guess.
    Samples have the order of axes of the model's file, see `mcutrain.data.InputOrder`.
    """
    order = (model if isinstance(model, datasets.ModelInput) else model_input(model)).known_order
    turned = note if order.is_square else certain
    if not datasets.is_path(data):
        split = datasets.of_arrays(data, validation=validation, test_share=test_share, seed=seed)
        return datasets.split_in_order(split.drawn(samples, test_samples, seed), order, turned)
    if validation is not None:
        raise DataError("validation goes with arrays; a file or folder has a test part of its own")
    return datasets.load(
        data,
        test_share=test_share,
        seed=seed,
        order=order,
        stride=stride,
        progress=progress,
        samples=samples,
        test_samples=test_samples,
        least_classes=1 if is_partial else 2,
        note=turned,
        left_out=note,
    )


def outputs_of(step: TrainingStep) -> datasets.Outputs:
    """Return what is known of the outputs of a step that learns classes."""
    recipe = step.recipe
    added, is_new = (
        ((), False)
        if recipe is None
        else (recipe.options.added, recipe.options.classes is not None)
    )
    names = step.graph.class_names
    return datasets.Outputs.of(step.plan.training.classes, names, (), added, is_new)


def input_type(model: Graph | TrainingStep) -> TensorType:
    """The type of the model's input; of what a step begins with, which may be a latent."""
    if isinstance(model, TrainingStep):
        return model.input_type
    return model.tensors[model.inputs[0]].type


def model_input(model: Graph | TrainingStep) -> datasets.ModelInput:
    """What data sets need to know of it; of a tail's, which takes latents as they are, too."""
    x = input_type(model)
    if isinstance(model, TrainingStep):
        order = None if model.plan.training.is_tail else model.graph.input_order
    else:
        order = model.input_order
    return datasets.ModelInput(x.shape[1:], x.scale, x.zero_point, order)


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
    selector = selector_of(step, settings, len(split.train), times)
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
        table=step.plan.state.table,
        selector=selector,
        swap_every=swap_every_of(step, settings, len(split.train)),
        earlier=earlier,
        batches=batches,
        has_learnt=step.recipe is not None and step.recipe.options.classes is None,
    )
    run.course.mixed_batches(0)  # all fronts of an epoch, while its preparation is said
    return run


def check_after(settings: RunSettings) -> None:
    """Raise DataError for what a run that goes on from another one cannot have."""
    if settings.learning_rate is None:
        raise DataError(
            "a learning rate is searched for the model as it comes, not for what a run before has "
            "made of it: give --lr"
        )
    if settings.elastic is not None:
        raise DataError("an elastic run begins anew: leave out --elastic, or --after")
    if settings.swap:
        raise DataError("a run that swaps columns begins anew: leave out --swap, or --after")


def selector_of(
    step: TrainingStep, settings: RunSettings, samples: int, times: ElasticTimes | None = None
) -> TensorSelector | None:
    """Return what an elastic run trains; None for other runs. samples: in an epoch.

    Raises ArgumentError if the step cannot leave anything out, and as TensorSelector does.
    """
    if settings.elastic is None:
        return None
    training = step.plan.training
    if not training.elastic:
        raise ArgumentError(
            "this step trains all of its tensors, always: prepare one with elastic, or leave out "
            "the share of it that is to be taken"
        )
    if all(tensor.is_always_trained for tensor in training.elastic):
        raise ArgumentError(NOTHING_TO_LEAVE_OUT)
    periods = settings.periods(samples, training.accumulate)
    times = times or estimated_times(step.plan, USUAL_ISA)
    return TensorSelector(step.plan, times, periods, settings.importance)


def swap_every_of(step: TrainingStep, settings: RunSettings, samples: int) -> int:
    """Steps from one swap of columns to the next; 0 for a run without. samples: in an epoch.

    Raises ArgumentError if there are none, or the step always trains the same.
    """
    training = step.plan.training
    if settings.swap and not training.swapped:
        raise ArgumentError(
            "this step trains the same columns, always: prepare one with swap, or run without"
        )
    return settings.swap_every(samples, training.accumulate)


def check_latents(
    split: datasets.Split, settings: RunSettings, name: str, shape: tuple[int, ...]
) -> None:
    """Raise DataError for data that a tail does not take. name, shape: of its latent."""
    if settings.varies_samples:
        raise DataError(
            f"augmentation varies samples, but the data of a tail are latents, {name}: leave it "
            "out, or train with --model, whose front then takes the varied samples"
        )
    x = split.train.x
    if x.dtype != np.int8 or not datasets.is_same_shape(x.shape[1:], shape):
        raise DataError(
            f"a tail begins with {name}, int8 {shape}, but the data is {x.dtype} {x.shape[1:]}: "
            "give latents, which `mcutrain latents` makes of samples, or train with --model, whose "
            "front does"
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
        raise DataError(f"{wish} are those of a ladder, and there is none: give --proxies, too")
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
    """Raise DataError for what a run with a ladder of fronts cannot have."""
    if latent not in ("auto", "off"):
        raise DataError(
            "a ladder chooses a front for each sample in every step, so steps cannot begin with "
            f"{latent!r}: leave out the latent, or the ladder"
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
    """The compiled C; one that takes latents, so that fronts are computed once, where that helps.

    latent: auto, off, or the name of the tensor to begin with. auto begins with the input where
    each epoch varies the samples anew, where little would be saved, or where the latents of all
    samples take more than a gigabyte. Raises PlanError for a name that is none, DataError for one
    with varied samples.
    """
    seed = settings.rounding_seed
    if step.plan.ladder is not None:
        check_ladder(step.plan, settings, latent)
        return step.simulator(seed, portable=portable)
    if latent not in ("auto", "off"):
        _check_fixed(settings)
    if latent == "off" or (
        latent == "auto" and (not settings.kept_versions or not latents(step.plan))
    ):
        return step.simulator(seed, portable=portable)
    chosen = find_latent(step.plan, latent)
    if latent == "auto":
        kept = settings.kept_versions * len(split.train) + len(split.test)
        kept_bytes = chosen.size_bytes * kept
        if kept_bytes > MOST_LATENT_BYTES or not saves_much(step.plan, chosen):
            return step.simulator(seed, portable=portable)
    return step.latent_simulator(chosen, seed, portable)


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
    state, last = run.state, run.state.epochs[-1]
    if step.plan.training.has_labels:
        classes = step.plan.training.classes
        return bad_sign(last.loss, classes, state.before, last.test_accuracy)
    before = state.loss_before
    return "" if before is None else loss_sign(last.loss, before, "the begin")


def samples_of(
    step: TrainingStep,
    split: datasets.Split,
    settings: RunSettings,
    normalization: datasets.Normalization | None = None,
    note: Callable[[str], None] = lambda _: None,
) -> Samples:
    """A split made to fit a step, without labels if it learns without. Raises DataError."""
    x, has_labels = input_type(step), step.plan.training.has_labels
    return prepare_samples(
        split if has_labels else split.without_labels(),
        settings,
        input_shape=x.shape[1:],
        scale=x.scale,
        zero_point=x.zero_point,
        classes=step.plan.training.classes if has_labels else None,
        positions=step.plan.training.positions,
        normalization=normalization,
        note=note,
    )


def prepare_samples(
    split: datasets.Split,
    settings: RunSettings,
    *,
    input_shape: tuple[int, ...],
    scale: float,
    zero_point: int,
    classes: int | None,
    positions: tuple[int, ...] = (),
    normalization: datasets.Normalization | None = None,
    note: Callable[[str], None] = lambda _: None,
) -> Samples:
    """A split made to fit a model's input. Raises DataError if it does not fit the model.

    input_shape: without the batch; scale, zero_point: the input's. classes: that are told apart;
    None for a network that learns without labels. positions: see mcutrain.data.check.
    normalization: see prepare_run. note: called with
    what is to be said of values that the input clips, or hardly tells apart.
    """
    for dataset in (split.train, split.test, split.validation):
        if dataset is not None and len(dataset) == 0:
            raise DataError("the data set has no training, no test or no validation sample")
    if classes is not None and split.positions:
        _check_labels_stay(split, settings, input_shape)
    samples = Samples.prepare(
        split, input_shape, scale, zero_point, settings, normalization or "auto"
    )
    datasets.check(samples.split, input_shape=input_shape, classes=classes, positions=positions)
    model = datasets.ModelInput(input_shape, scale, zero_point)
    for said in datasets.input_notes(samples.split, model, normalization or "auto"):
        note(said)
    samples.test(0, 1)  # the normalization fits, or a sentence
    return samples


def _check_labels_stay(
    split: datasets.Split, settings: RunSettings, input_shape: tuple[int, ...]
) -> None:
    """Raise DataError for what would move samples away from the labels of their positions."""
    moves = [kind for kind in ("crop", "flip", "shift") if kind in settings.augment]
    if settings.flip or settings.crop_pixels or moves:
        raise DataError(
            "the data has a label for each position, and augmentation that moves samples (crop, "
            "flip, shift) does not move these: leave it out; colour, gain and noise can stay"
        )
    if settings.replay:
        raise DataError(
            "remembered samples have one label each, but the data has a label for each position: "
            "train without --replay"
        )
    x = datasets.arranged(split.train.x, input_shape)
    if not datasets.is_same_shape(x.shape[1:], input_shape):
        raise DataError(
            f"the samples have the shape {x.shape[1:]} but the model takes {input_shape}, and the "
            "labels of their positions cannot be resized with them: save both as the model has them"
        )


def board_lessons(
    course: Course,
    tests: int,
    reconstruction: Reconstruction | None = None,
    latents: bool = False,
    selecting: Selecting | None = None,
    after: int = 0,
) -> Lessons:
    """Return what `mcutrain.simulate` would learn, for a board. tests: test samples to evaluate.

    reconstruction: of a network that reproduces its input; None for a classifier. latents: the
    course's samples are latents that the firmware takes besides samples. selecting: when the board
    chooses what it trains. after: steps that it has done before.
    """
    test = course.samples.split.test
    has_classes = reconstruction is None

    def sample_at(position: int) -> tuple[bytes, int | bytes]:
        x, label = course.at(position - after)
        return x.tobytes(), label

    def rate_at(position: int) -> Rate:
        rate = course.rates.at(position - after)
        return Rate(rate.mult_q31, rate.shift)

    def test_at(index: int) -> tuple[bytes, int | bytes]:
        label = test.label(index) if has_classes else 0
        return course.samples.test(index, index + 1)[0].tobytes(), label

    scores = None if reconstruction is None else _scores(reconstruction, test)
    if has_classes and test.positions:
        scores = _position_scores(test)
    settings = course.settings
    ring = (settings.replay, settings.remember if settings.replay else 0)
    facts = (course.total + after, sample_at, rate_at, tests, test_at, scores, *ring)
    return Lessons(*facts, latents=latents, selecting=selecting, first=after)


def _position_scores(test: datasets.Dataset) -> Scores:
    """Score a network with a class for each position."""

    def counts(x: bytes, y: bytes, index: int) -> Array:
        return counts_of(np.frombuffer(y, np.int8)[np.newaxis], test.y[index : index + 1])

    def of_all(found: Sequence[Array]) -> dict[str, Any]:
        return scores_of(np.sum(found, axis=0)).of_positions

    return Scores(counts, of_all)


def _scores(reconstruction: Reconstruction, test: datasets.Dataset) -> Scores:
    """Return how a board's outputs are judged, as a simulation's are."""

    def loss_of(x: bytes, y: bytes, index: int) -> float:
        pair = (np.frombuffer(part, np.int8)[np.newaxis] for part in (x, y))
        return float(reconstruction.losses(*pair)[0])

    def of_all(losses: Sequence[float]) -> dict[str, float]:
        tested = reconstruction.tested(np.array(losses), test.y if test.is_labelled else None)
        named = {"loss": tested.loss, "auc": tested.auc}
        return {name: value for name, value in named.items() if value is not None}

    return Scores(loss_of, of_all)


def finish(
    step: TrainingStep, run: Run, checkpoint: Path | None = None, watch: Watch | None = None
) -> SimulationResult:
    """Run to the end, from the checkpoint if it exists, and keep it up to date, also at Ctrl-C."""
    watch = watch or Watch()
    if checkpoint is None:
        run.train(watch.training, watch.evaluating, watch.noting)
        return _result(step, run)
    if checkpoint.exists():
        run.resume(checkpoint)
    run.save(checkpoint)  # fails now rather than after an hour
    saved = time.monotonic()

    def saving(progress: Progress) -> None:
        nonlocal saved
        if time.monotonic() - saved > CHECKPOINT_SECONDS:
            run.save(checkpoint)
            saved = time.monotonic()
        watch.training(progress)

    try:
        run.train(saving, watch.evaluating, watch.noting)
    finally:
        run.save(checkpoint)
    return _result(step, run)


def trained_parameters(step: TrainingStep, saved: bytes) -> dict[str, Array]:
    """Every tensor of the trained state by name: weights, residual bits, biases, exponents."""
    from mcutrain.codegen import SAVED_HEADER_BYTES

    return step.plan.state.unpack(saved[SAVED_HEADER_BYTES:])


def _skipped(run: Run) -> int | None:
    now = skipped_samples(run.state.saved, run.table)
    return None if now is None else now - (skipped_samples(run.begin, run.table) or 0)


def _levels(run: Run) -> tuple[int, ...] | None:
    counts = (level_samples(saved, run.table) for saved in (run.state.saved, run.begin))
    pairs = [(now, before) for now, before in zip(*(c or () for c in counts), strict=True)]
    return tuple(now - before for now, before in pairs) or None


def _mixed_batches(epochs: Sequence[EpochResult]) -> int | None:
    counts = [epoch.mixed_batches for epoch in epochs if epoch.mixed_batches is not None]
    return sum(counts) if counts else None


def _result(step: TrainingStep, run: Run) -> SimulationResult:
    from mcutrain.trained import output_exponent

    state = run.state
    accuracy = state.epochs[-1].test_accuracy if state.epochs else state.before
    assert state.before is not None
    begin = run.simulator
    assert accuracy is not None, "after the last epoch there is always a test"
    return SimulationResult(
        before=state.before,
        accuracy=accuracy,
        epochs=state.epochs,
        steps=state.trained,
        seconds=state.seconds,
        arena_bytes=step.plan.arena_bytes,
        state_bytes=step.plan.state_bytes,
        saved=state.saved,
        loss_before=state.loss_before,
        loss=state.epochs[-1].test_loss if state.epochs else state.loss_before,
        auc_before=state.auc_before,
        auc=state.epochs[-1].test_auc if state.epochs else state.auc_before,
        iou_before=state.iou_before,
        iou=state.epochs[-1].test_iou if state.epochs else state.iou_before,
        class_iou=state.class_iou,
        learning_rate=run.settings.learning_rate,
        recipe="" if step.recipe is None else step.recipe.to_json(),
        saturated_biases=saturated_biases(state.saved, run.table),
        latent=begin.latent.tensor if isinstance(begin, TAKES_LATENTS) else "",
        skipped=_skipped(run),
        output_exponent=output_exponent(step, state.saved),
        decisions=state.decisions,
        levels=_levels(run),
        drift=level_drift(state.saved, run.table),
        mixed_batches=_mixed_batches(state.epochs),
        order_doubt=state.order_doubt,
        scheme=step.scheme.name,
    )

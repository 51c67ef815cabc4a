"""A prepared step is trained on this computer."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Annotated, Any

from mcutrain_host.dataclass import dataclass

from mcutrain import data as datasets
from mcutrain.arguments import PathLike, Positive, Seed, Within, checked, warn
from mcutrain.functions.keywords import Keywords, with_keywords
from mcutrain.pipeline import TrainingStep
from mcutrain.runs.doubts import (
    coarseness_warning,
    saturation_warning,
    selection_warning,
    warn_of_rate,
)
from mcutrain.runs.finishing import continued, finish
from mcutrain.runs.head_alone import head_alone_warning
from mcutrain.runs.result import SimulationResult
from mcutrain.runs.sample_reading import load_data, outputs_of
from mcutrain.runs.training import fastest_simulator, prepare_run
from mcutrain.runs.watch import Watch
from mcutrain.simulation import FoundRate, RunSettings


@dataclass(frozen=True, kw_only=True)
class RunChanges(Keywords):
    """Settings of a run that are often given by themselves; None keeps them."""

    epochs: Annotated[int, Within(0)] | None = None
    learning_rate: Positive | None = None
    seed: Seed | None = None

    def of(self, settings: RunSettings) -> RunSettings:
        """The settings with them."""
        given: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(self)}
        return replace(settings, **{name: v for name, v in given.items() if v is not None})


@with_keywords
@checked
def train(
    step: TrainingStep,
    data: datasets.Data,
    settings: RunSettings | None = None,
    *,
    validation: datasets.Data | None = None,
    changes: RunChanges = RunChanges(),
    normalization: datasets.Normalization | None = None,
    checkpoint: PathLike | None = None,
    latent: str = "auto",
    watch: Watch | None = None,
) -> SimulationResult:
    """Train in the generated C, compiled for this machine; the same bits as on any other.

    data: a path that mcutrain.data.load reads, a Split, or arrays (x, y).
    settings: all that determines the run. The keywords epochs, learning_rate (per sample) and seed
        replace theirs; 0 epochs train nothing. Without a rate short trials find one, as `--lr auto`
        does; the result names it.
    validation: (x, y) to test on, see mcutrain.data.of_arrays.
    checkpoint: a file to continue from if it exists, and to save to.
    latent: auto computes what the frozen front makes of a sample once, where no epoch varies the
        samples, with the same bits; off, or a tensor's name: see `fastest_simulator`.

    Warns of values that the model's input clips. Raises DataError if the data does not fit,
    StateError for another run's checkpoint, BuildError, ArgumentError.

    >>> train(prepare("model.int8.tflite", "last:3"), (x, y), epochs=2, learning_rate=0.03)
    """
    is_partial = bool(step.graph.class_names or (step.recipe and step.recipe.options.added))
    split = load_data(step, data, validation=validation, is_partial=is_partial)
    if step.plan.training.has_labels:
        outputs = outputs_of(step)
        if guess := outputs.guess(split):
            warn(guess)
        split = outputs.labelled(split)
    file, watch = Path(checkpoint) if checkpoint else None, watch or Watch()
    wanted = continued(changes.of(settings or RunSettings()), file)
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
        selection_warning(step, run),
        coarseness_warning(result),
    )
    for sentence in filter(None, said):
        warn(sentence)
    return result

"""Samples as a project's board takes them."""

from __future__ import annotations

import math
from dataclasses import replace

from mcutrain_host.json_values import ValuesError, from_values
from mcutrain_host.manifest import BoardProject, Manifest

from mcutrain.data import Data, InputOrder, ModelInput, Outputs, RawWindows, Split, Targets
from mcutrain.errors import BuildError, DataError
from mcutrain.functions.chosen import of_outputs, samples_for
from mcutrain.functions.listener import Listener
from mcutrain.functions.run_options import DataOptions
from mcutrain.pipeline.losses import NAMES_OF_SEVERAL, NAMES_OF_TARGETS, in_order
from mcutrain.runs.sample_reading import check_latents, prepare_samples
from mcutrain.simulation import (
    Course,
    LatentSamples,
    LatentSimulator,
    RunSettings,
    Samples,
    latents_of_folder,
)
from mcutrain.simulation.metrics.labels import OwnLabels


def input_of(
    project: BoardProject, front: LatentSimulator | None = None, kept: RawWindows | None = None
) -> ModelInput:
    """Return what data sets need to know of a board's input, or of that of the front before it.

    kept: where raw windows are kept, if they are.
    """
    manifest = project.manifest
    x = manifest.input if front is None else front.plan.training.input_type
    ids = manifest.input.ids if front is None else front.plan.training.vocabulary
    order = None if front is None else front.plan.training.forward.input_order
    if front is None and (said := manifest.sample_order) is not None:
        order = InputOrder(said.file, said.shape, said.axes).with_frontend(said.frontend)
        order = replace(order, kept=kept)
    return ModelInput(x.shape[1:], x.scale, x.zero_point, order, ids)


def read_for_board(
    project: BoardProject,
    data: Data,
    reading: DataOptions,
    settings: RunSettings,
    listener: Listener,
    front: LatentSimulator | None = None,
    kept: RawWindows | None = None,
) -> Samples:
    """Read the data as the board takes it. front: what makes latents of it, if something does.

    kept: where raw windows are kept, if they are.

    Raises DataError.
    """
    manifest = project.manifest
    asked = input_of(project, front, kept)
    targets = targets_of(project)
    if targets is not None:
        if reading.class_names:
            raise DataError(NAMES_OF_SEVERAL if targets.parts else NAMES_OF_TARGETS)
        reading = of_outputs([part.output for part in targets.parts], data, reading)
    split = _read(project, data, reading, settings, listener, asked, has_front=front is not None)
    if targets is not None:
        split = with_codes(split, targets, math.prod(manifest.positions))
    elif split.has_targets:
        raise DataError(
            f"the data has real targets, but {project.folder} learns none: generate it with this "
            "data (--scheme auto --data), or from a checkpoint of `simulate`"
        )
    elif manifest.has_labels:
        split = _labelled(project, reading, split, listener, replays=settings.replay > 0)
    else:
        split = split.without_labels()
    samples = prepare_samples(
        split,
        settings,
        asked,
        classes=manifest.classes if manifest.has_labels else None,
        positions=manifest.positions,
        has_rows=_has_rows(manifest),
        normalization=reading.normalization,
    )
    return samples if front is None else LatentSamples.of(samples, front)


def raw_windows_of(project: BoardProject) -> RawWindows | None:
    """Where to keep raw windows for a board that listens; None for one that takes features."""
    x = project.manifest.input
    return RawWindows(x.scale, x.zero_point) if project.listens else None


def targets_of(project: BoardProject) -> Targets | None:
    """Return how a project's real targets become integers; None if it learns something else."""
    said = (project.manifest.recipe or {}).get("targets")
    try:
        return None if said is None else from_values(Targets, said, "the recipe's targets")
    except ValuesError as error:
        raise DataError(f"{project.folder}: {error}: generate it again") from error


def with_codes(split: Split, targets: Targets, count: int) -> Split:
    """The data with targets as the board takes them. Raises DataError for others."""
    if not split.has_targets or split.train.y.shape[1] != count:
        given = f"{len(split.names)} targets" if split.has_targets else "no real targets"
        raise DataError(
            f"the board learns {count} real targets, but each sample has {given}: save y as "
            "float32, or name the columns of a CSV (--targets)"
        )
    return split.each(lambda part: replace(part, y=targets.codes(part.y)))


def _read(
    project: BoardProject,
    data: Data,
    reading: DataOptions,
    settings: RunSettings,
    listener: Listener,
    asked: ModelInput,
    *,
    has_front: bool,
) -> Split:
    """Read the data. Raises DataError; of latents that do not fit, with what else they may be."""
    manifest = project.manifest
    knows_more = manifest.class_names or reading.class_names or added_classes(project)
    takes_latents = bool(manifest.begins_with) and not has_front
    try:
        split = samples_for(
            *(asked, data, reading, settings.seed, listener),
            is_partial=bool(knows_more),
            keeps_raw=settings.varies_raw,
        )
    except DataError as error:
        if not takes_latents:
            raise
        raise DataError(
            f"{error}; {project.folder} is a tail and takes latents of that shape: where the data "
            "are samples, train with --model, whose front makes latents of them"
        ) from error
    if takes_latents:
        check_latents(split, settings, manifest.begins_with, asked.shape)
    return split


def added_classes(project: BoardProject) -> tuple[str, ...]:
    """Classes that the project learns in addition to its model's."""
    return tuple((project.manifest.recipe or {}).get("added", ()))


def _labelled(
    project: BoardProject, reading: DataOptions, split: Split, listener: Listener, *, replays: bool
) -> Split:
    """The data with labels that are numbers of outputs; notes what was guessed, or is forgotten.

    replays: whether what the board remembers keeps what it knows.
    """
    manifest = project.manifest
    given = tuple(reading.class_names or ())
    labels = own_labels(manifest)
    if labels is not None:
        if not _has_rows(manifest):
            return split
        outputs = Outputs.of(labels.channels, manifest.class_names, given)
        return in_order(split, outputs) if split.positions else outputs.labelled(split).with_rows()
    outputs = Outputs.of(manifest.classes, manifest.class_names, given, added_classes(project))
    found = outputs.labelled(split)
    forgets = "" if replays else outputs.forgets(found)
    for note in filter(None, (outputs.guess(split), forgets)):
        listener.note(note)
    return found


def own_labels(manifest: Manifest) -> OwnLabels | None:
    """Return how outputs are judged that have a label each; None where they are of classes."""
    found = manifest.label_outputs
    return None if found is None else OwnLabels(found.channels, found.threshold)


def _has_rows(manifest: Manifest) -> bool:
    """Return whether each sample has a row of labels, and no position of it one of its own."""
    found = manifest.label_outputs
    return found is not None and manifest.positions == (found.channels,)


def of_latents(project: BoardProject, course: Course) -> tuple[Course, bool]:
    """What the front makes of the samples, where the board takes that too: fewer bytes to send.

    Returns whether it does.
    """
    manifest = project.manifest
    if manifest.latent is None or manifest.levels is not None:  # the board counts what it chooses
        return course, False
    try:
        latents = latents_of_folder(course.samples, project.folder, manifest)
    except BuildError:  # the board computes fronts, too
        return course, False
    return replace(course, samples=latents), True

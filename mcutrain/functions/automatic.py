"""What is trained where nobody names a scheme: one that suits the memory, or the head."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from mcutrain.arguments import EPOCHS, Count, PathLike, Seed, checked
from mcutrain.data import Data
from mcutrain.errors import ArgumentError, McutrainError
from mcutrain.functions.alternatives import AutoScheme, Report
from mcutrain.functions.keywords import with_keywords
from mcutrain.functions.options import Classes, LearningRequest, MemoryOptions
from mcutrain.functions.preparing import HEAD, Asked, with_frontend
from mcutrain.functions.run_options import DataOptions
from mcutrain.ir.graph import Graph
from mcutrain.pipeline import TrainingStep, load
from mcutrain.pipeline.losses import fit_to_data
from mcutrain.runs.sample_reading import load_data
from mcutrain.sparse import UpdateScheme, find_head

AUTO = "auto"
Scheme = UpdateScheme | PathLike


def wanted_scheme(
    given: Scheme | None,
    runs: Iterable[Path | None] = (),
    fixed: Mapping[str, object] = MappingProxyType({}),
) -> Scheme:
    """Return the scheme: the given one, that of a run that goes on, auto, or the head.

    runs: files of runs to go on from, where they exist. fixed: by name, what a scheme cannot be
    chosen beside: the head is trained then. Raises ArgumentError for auto beside one of these.
    """
    if given is not None and given != AUTO:
        return given
    for kept in filter(None, map(_kept_scheme, runs)):
        return kept
    for name in (name for name, value in fixed.items() if value):
        if given is None:
            return HEAD
        raise ArgumentError(
            f"the scheme auto does not go with {name}: say what to train, such as head or last:3"
        )
    return AUTO


def _kept_scheme(run: Path | None) -> UpdateScheme | None:
    """Return the scheme that a run's file names; None if it names none. Others report a bad
    file.
    """
    if run is not None and run.exists():
        from mcutrain.trained.state import read_state  # only for a file that is there

        with suppress(McutrainError):
            recipe = read_state(run).recipe
            return None if recipe is None else recipe.scheme
    return None


@with_keywords
@checked
def auto_scheme(
    model: Graph | PathLike,
    data: Data,
    *,
    validation: Data | None = None,
    classes: Classes = "auto",
    request: LearningRequest = LearningRequest(),
    hardware: MemoryOptions = MemoryOptions(),
    reading: DataOptions = DataOptions(),
    seed: Seed = 0,
    epochs: Count = EPOCHS,
    alternatives: bool = True,
    progress: Report | None = None,
) -> AutoScheme:
    """Choose what to train on a board, or in so many bytes.

    Where everything fits, short runs say how many of the last layers to train, perhaps all. Else it
    takes what gains most of all that fits, by gradients of some training samples. Where these
    cannot be had, it takes as many layers from the end as fit. It also names a smaller scheme that
    should learn as much, if there is one. The answer is kept: asked again, it is there at once.
    Fields of request, hardware and reading are keywords, too.

    model, data, validation, classes, request, reading: as `simulate` takes them.
    hardware: board is a board's name or folder, with all that its firmware takes; sram the bytes
        instead. Without a board, of arena and state; with neither it is 256 KB.
    epochs: of the run that it is for; the longer, the more layers pay.
    alternatives: name a smaller and a larger scheme, too, which takes an analysis by gradients.
    progress: called with what is done, how much of it, and of how much.

    Raises PlanError if not even the head fits, DataError, ModelError, TargetError, ArgumentError.

    >>> auto_scheme("model.int8.tflite", (x, y), board="nucleo-f446re").scheme
    """
    from mcutrain.functions.chooser import Chooser  # who names a scheme needs none of it

    memory, pixels = hardware.memory, reading.normalization
    graph = with_frontend(model if isinstance(model, Graph) else load(model), reading.frontend)
    find_head(graph)
    split = load_data(
        graph,
        data,
        seed=seed,
        validation=validation,
        **reading.taken,
    )
    names = reading.class_names or ()
    fitted = fit_to_data(graph, split, classes, request.loss, (), names)
    found = Asked.of(request, HEAD, classes=fitted.classes).fitted(graph, fitted)
    asked = found.having(class_names=())

    def plan(scheme: UpdateScheme) -> TrainingStep:
        return replace(asked, scheme=scheme).prepare(graph, fitted.classes)

    bits = asked.update_scheme()
    chooser = Chooser(graph, fitted.classes, memory, plan, asked.options, bits, epochs=epochs)
    if progress is not None:
        chooser = replace(chooser, report=progress)
    choose = chooser.compared if alternatives else chooser.choose
    return choose(fitted.split, pixels)

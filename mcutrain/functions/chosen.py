"""What is asked for, with the scheme that a memory and training samples decide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from mcutrain_host.dataclass import dataclass

from mcutrain.arguments import EPOCHS
from mcutrain.data import (
    Data,
    ModelInput,
    Normalization,
    RawWindows,
    Split,
    input_notes,
    is_path,
)
from mcutrain.errors import OptionError
from mcutrain.formats import with_class_names
from mcutrain.functions.alternatives import Alternative, AutoScheme
from mcutrain.functions.automatic import AUTO, wanted_scheme
from mcutrain.functions.keywords import given_of
from mcutrain.functions.listener import SILENT, Listener
from mcutrain.functions.memory_limit import MemoryLimit
from mcutrain.functions.preparing import HEAD, Asked, Scheme, left_out_note
from mcutrain.functions.run_options import ColumnOptions, DataOptions, ReadingOptions
from mcutrain.ir.graph import Graph
from mcutrain.pipeline import TrainingStep
from mcutrain.pipeline.losses import Fitted, fit_to_data
from mcutrain.pipeline.several import fit_row
from mcutrain.quant import HeadStart
from mcutrain.runs.sample_reading import load_data, model_input
from mcutrain.sparse import UpdateScheme

if TYPE_CHECKING:
    from mcutrain.functions.chooser import Chooser


@dataclass(frozen=True)
class Choosing:
    """How a scheme is chosen for a model and a memory.

    classes: of a new head. seed: of samples. epochs: of the run that it is for.
    """

    graph: Graph
    classes: int | None
    memory: MemoryLimit
    seed: int = 0
    listener: Listener = SILENT
    epochs: int = EPOCHS

    def chosen(
        self, asked: Asked, split: Split, normalization: Normalization | None
    ) -> tuple[Asked, AutoScheme]:
        """Return what is asked for with the scheme, and why it is that. Raises PlanError."""
        return self._with_found(asked, split, normalization, is_compared=False)

    def compared(
        self, asked: Asked, split: Split, normalization: Normalization | None
    ) -> tuple[Asked, AutoScheme]:
        """Choose, and also estimate what smaller and larger schemes would learn."""
        return self._with_found(asked, split, normalization, is_compared=True)

    def _with_found(
        self, asked: Asked, split: Split, normalization: Normalization | None, *, is_compared: bool
    ) -> tuple[Asked, AutoScheme]:
        with self.listener.counting("choosing what to train") as tell:
            chooser = replace(self.chooser(asked), report=tell)
            choose = chooser.compared if is_compared else chooser.choose
            found = choose(split, normalization)
        self.listener.chosen(found, self.memory)
        return replace(asked, scheme=found.scheme), found

    def larger(self, asked: Asked, step: TrainingStep) -> Alternative | None:
        """A scheme that takes more than the step, as Chooser.larger finds it; it is kept."""
        needs, levels = self.memory.needs(step), step.plan.training.levels
        return self.chooser(asked).kept_larger(needs, asked.stream, levels)

    def chooser(self, asked: Asked) -> Chooser:
        """Return what chooses."""
        from mcutrain.functions.chooser import Chooser  # who names a scheme needs none of it

        def plan(scheme: UpdateScheme) -> TrainingStep:
            return replace(asked, scheme=scheme).prepare(self.graph, self.classes, self.seed)

        bits = replace(asked, scheme=HEAD).update_scheme()
        options = replace(asked.options, classes=self.classes)
        return Chooser(
            self.graph, self.classes, self.memory, plan, options, bits, epochs=self.epochs
        )


def with_scheme(
    asked: Asked,
    choosing: Choosing,
    given: Scheme | None,
    data: Data | None,
    fixed: Mapping[str, object],
    normalization: Normalization | None = None,
    columns: ColumnOptions = ColumnOptions(),
) -> Asked:
    """What is asked for, with the scheme that is given, or that auto chooses by training samples.

    Without a scheme it is auto if there is data, else, and beside what is `fixed`, the head. fixed:
    as wanted_scheme takes it. choosing: its classes are those that are asked for. columns: as
    `read` takes it. Raises McutrainError.
    """
    if given is None and (data is None or any(fixed.values())):
        return replace(asked, scheme=HEAD)
    if given is not None and given != AUTO:
        return replace(asked, scheme=given)
    wanted_scheme(AUTO, (), fixed)  # or a sentence
    if data is None:
        raise OptionError("scheme", "auto chooses by training samples: give them, too (--data)")
    graph = choosing.graph
    split = read(graph, data, choosing.listener, choosing.seed, columns)
    fitted = fitted_to(graph, split, choosing.classes or "keep", asked, choosing.listener)
    fitting = asked.fitted(graph, fitted)
    choosing = replace(choosing, classes=fitted.classes)
    found, _ = choosing.chosen(fitting, fitted.split, normalization)
    return replace(asked, scheme=found.scheme)


def with_targets(
    asked: Asked,
    graph: Graph,
    scheme: Scheme | None,
    classes: int | None,
    data: Data | None,
    listener: Listener,
    seed: int = 0,
    columns: ColumnOptions = ColumnOptions(),
) -> tuple[Asked, int | None]:
    """Ask for real targets where arrays have them, or the run of a saved state learnt them.

    columns: as `read` takes it. Raises OptionError for that without samples.
    """
    if data is None:
        for name in given_of(columns):
            raise OptionError(name, "is of training samples: give them, too (--data)")
    if data is not None and (not is_path(data) or Path(data).suffix.lower() == ".npz"):
        split = read(graph, data, listener, seed, columns)
        if split.has_targets:
            fitted = fitted_to(graph, split, classes or "auto", asked, listener)
            return asked.fitted(graph, fitted), fitted.classes
    return asked.as_learnt(scheme, classes)


def named(graph: Graph, reading: ReadingOptions) -> Graph:
    """The model with the class names that are given. Raises DataError for another number."""
    given = reading.class_names
    return graph if given is None else with_class_names(graph, given)


def read(
    graph: Graph,
    data: Data,
    listener: Listener,
    seed: int = 0,
    columns: ColumnOptions = ColumnOptions(),
) -> Split:
    """All samples for a model. Raises DataError."""
    return read_samples(graph, data, DataOptions(**vars(columns)), Asked(), seed, listener)


def read_samples(
    graph: Graph,
    data: Data,
    reading: DataOptions,
    asked: Asked,
    seed: int,
    listener: Listener,
    validation: Data | None = None,
    *,
    keeps_raw: bool = False,
) -> Split:
    """Samples for a model; the listener hears what its input would clip. Raises DataError.

    keeps_raw: whether raw samples, of which a front end makes these, will be varied.
    """
    reading = of_outputs(graph.output_names, data, reading)
    is_partial = bool(graph.class_names or reading.class_names or asked.options.added)
    model = model_input(graph)
    found = (model, data, reading, seed, listener, validation)
    return samples_for(*found, is_partial=is_partial, keeps_raw=keeps_raw)


def of_outputs(names: Sequence[str], data: Data, reading: DataOptions) -> DataOptions:
    """The options by which arrays are read that are named after several outputs, if there are."""
    if not names or reading.targets or not is_path(data):
        return reading
    from mcutrain.data import is_table  # whoever only plans reads nothing

    if is_table(data):
        return reading
    return replace(reading, targets=",".join(names))


def samples_for(
    model: ModelInput,
    data: Data,
    reading: DataOptions,
    seed: int,
    listener: Listener,
    validation: Data | None = None,
    *,
    is_partial: bool,
    keeps_raw: bool = False,
) -> Split:
    """Samples for an input. is_partial: whether the model may know more classes. As above."""
    model = model.with_frontend(reading.frontend)
    order = model.known_order
    is_own = keeps_raw and order.frontend is not None and order.kept is None
    if is_own:
        order = replace(order, kept=RawWindows(model.scale, model.zero_point))
        model = replace(model, order=order)
    with listener.reading() as tell:
        split = load_data(
            model,
            data,
            seed=seed,
            progress=tell,
            validation=validation,
            **reading.taken,
            is_partial=is_partial,
            note=listener.note,
            certain=listener.detail,
        )
    if keeps_raw and order.kept:
        split = split.each(lambda part: replace(part, heard=order))
        if is_own:
            order.kept.close()
    for note in input_notes(split, model, reading.normalization or "auto"):
        listener.note(note)
    return split


def fitted_to(
    graph: Graph,
    split: Split,
    classes: int | str,
    asked: Asked,
    listener: Listener,
    class_names: Sequence[str] = (),
    *,
    replays: bool = False,
) -> Fitted:
    """A head for the data, and the data for the head. Says what was guessed.

    Also what may be forgotten, unless samples of an earlier run are replayed. Raises DataError.
    """
    loss, added = asked.options.loss, asked.options.added
    if graph.row and loss != AUTO:
        raise OptionError(
            "loss",
            "is for one output, but the model has several: say what each learns, as losses "
            f"{graph.output_names[0]}={loss}",
        )
    if graph.row:
        fitted = fit_row(graph, split, classes, asked.options.losses, class_names)
    else:
        fitted = fit_to_data(graph, split, classes, loss, added, class_names)
    for note in filter(None, (*fitted.notes, "" if replays else fitted.forgets)):
        listener.note(note)
    return fitted


def planned_step(
    asked: Asked,
    graph: Graph,
    classes: int | None,
    listener: Listener,
    head_seed: int = 0,
    head_start: HeadStart | None = None,
) -> TrainingStep:
    """The planned step; the listener hears how far it is, and what is left out of the model."""
    with listener.placing() as report:
        step = asked.prepare(graph, classes, head_seed, head_start, report)
    if note := left_out_note(step):
        listener.note(note)
    return step

"""Modules put into a model, from Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain import modules
from mcutrain.arguments import Count, PathLike, Seed, checked
from mcutrain.data import Data, Normalization, Split
from mcutrain.errors import DataError, OptionError
from mcutrain.experiments.parallel import SchemeWay
from mcutrain.experiments.rows import PlannedRow
from mcutrain.formats import format_of, write
from mcutrain.functions.chosen import named, read_samples
from mcutrain.functions.keywords import with_keywords
from mcutrain.functions.listener import SILENT, Listener
from mcutrain.functions.models import check_other_file, inputs_of
from mcutrain.functions.preparing import Asked
from mcutrain.functions.run_options import ReadingOptions
from mcutrain.ir.graph import Graph
from mcutrain.modules import Module
from mcutrain.pipeline import load
from mcutrain.pipeline.recipe import PutModules
from mcutrain.shown import Record, Shown
from mcutrain.sparse import UpdateScheme

Array = npt.NDArray[Any]
Progress = Callable[[str, int, int], None]
SAMPLES = 50
"""Usual number of samples from which ranges and directions follow."""


@dataclass(frozen=True, repr=False)
class AugmentedModel(Shown):
    """A model with modules.

    samples: how many were looked at.
    path: where it was written.
    note: why mcutrain computes other bits when it reads the file (only .onnx), or nothing.
    """

    graph: Graph
    modules: tuple[Module, ...]
    samples: int
    path: Path | None = None
    note: str = ""

    def summary(self) -> str:
        """Return a line that describes it."""
        return modules.Augmented(self.graph, self.modules).summary()

    def records(self) -> list[Record]:
        """A row for each module."""
        return modules.Augmented(self.graph, self.modules).records()

    def to_dict(self) -> Record:
        """Return it as `mcutrain augment --json` prints it, without the model's file."""
        totals = {
            k: sum(getattr(m, k) for m in self.modules) for k in ("weights", "trained", "macs")
        }
        return {
            "model": self.graph.name,
            "file": None if self.path is None else str(self.path),
            "samples": self.samples,
            **totals,
            "macs_of_all": self.graph.macs(),
            "modules": self.records(),
            "note": self.note or None,
        }


@with_keywords
@checked
def augment(
    model: Graph | PathLike,
    what: str,
    data: Data | None = None,
    output: PathLike | None = None,
    *,
    samples: Count = SAMPLES,
    seed: Seed = 0,
    reading: ReadingOptions = ReadingOptions(),
    progress: Progress | None = None,
    listener: Listener = SILENT,
) -> AugmentedModel:
    """Put small trainable modules beside the layers of an int8 model, without changing an output.

    Outputs stay the same, bit for bit, until the modules are trained: scheme "modules".

    what: kinds and places, such as "adapter:8", "lora-fa:4,at=last:3" or "gain"; see
        docs/modules.md.
    data: training samples, as `simulate` takes them. Ranges and directions of the modules follow
        from `samples` of them, drawn by seed, of every class alike. Only gains need none.
    output: a .tflite or .onnx file to write.
    reading: how the data are read; its fields are keywords, too.

    Raises SchemeError for kinds without a place, places without the kind, a model with modules;
    DataError, ModelError; ArgumentError where the output is the model's own file.

    >>> augment("model.int8.tflite", "adapter:8", (x, y), "augmented.tflite").modules
    """
    if output is not None:
        format_of(Path(output))
        if not isinstance(model, Graph):
            check_augmented(Path(model), Path(output))
    graph = named(model if isinstance(model, Graph) else load(model), reading)
    specs = modules.parse_modules(what)
    check_places(graph, specs, has_data=data is not None)
    split = None
    if data is not None:
        split = read_samples(graph, data, reading.drawn(), Asked(), seed, listener)
    with listener.counting("augment") as tell:
        tell = progress or tell
        found = augmented(graph, specs, split, reading.normalization, samples, seed, tell)
    if output is None:
        return found
    path = Path(output)
    note = write_augmented(found.graph, path)
    if note:
        listener.note(note)
    return replace(found, path=path, note=note)


def check_augmented(model: Path, output: Path) -> None:
    """Raise ArgumentError where a model with modules would take the place of the one without.

    No module can be taken out again, and none put into what has some.
    """
    use = "which other modules would need again"
    check_other_file(model, output, use, "the one with modules")


def check_places(graph: Graph, specs: Sequence[modules.ModuleSpec], *, has_data: bool) -> None:
    """Raises SchemeError as `augment`, and DataError where samples are missing."""
    if modules.observed_tensors(graph, specs) and not has_data:
        texts = " and ".join(spec.text for spec in specs if spec.kind != "gain")
        raise DataError(f"ranges and directions of {texts} come from training samples: give --data")


def augmented(
    graph: Graph,
    specs: Sequence[modules.ModuleSpec],
    split: Split | None,
    normalization: Normalization | None,
    samples: int,
    seed: int,
    progress: Progress | None = None,
) -> AugmentedModel:
    """The model with modules, from at most so many training samples of the split."""
    tell = progress or (lambda what, done, of: None)
    names = modules.observed_tensors(graph, specs)
    x: Array = np.zeros((0,), np.int8)
    if names and split is not None:
        training = replace(split, test=split.train)
        x = inputs_of(graph, training, normalization, samples, seed)
    observed = modules.observe(graph, names, x, lambda done, of: tell("calibrating", done, of))
    found = modules.augment(graph, specs, observed, seed)
    return AugmentedModel(found.graph, found.modules, len(x))


def with_pet(
    graph: Graph,
    wanted: modules.Pet,
    split: Split,
    normalization: Normalization | None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Graph:
    """The graph with the modules, from SAMPLES training samples of the split."""
    if not wanted.specs:
        return graph
    found = augmented(graph, wanted.specs, split, normalization, SAMPLES, seed, progress)
    return found.graph


def wanted_modules(
    model: Graph | PathLike, pet: str | None, save_model: Path | None
) -> modules.Pet | None:
    """Parse --pet. Raises ArgumentError where the file for the model with modules does not fit it.

    model: its file, which must stay, or its graph.
    """
    wanted = None if pet is None else modules.parse_pet(pet)
    if save_model is None:
        return wanted
    if wanted is None:
        raise OptionError("save_model", "writes a model with the modules of --pet: give that, too")
    if not wanted.specs:
        raise OptionError(
            "save_model",
            f"writes a model with modules, but --pet {pet} puts none in: leave it out",
        )
    format_of(save_model)
    if not isinstance(model, Graph):
        check_augmented(Path(model), save_model)
    return wanted


def with_modules(
    graph: Graph,
    wanted: modules.Pet,
    split: Split,
    normalization: Normalization | None,
    seed: int,
    save_model: Path | None,
    listener: Listener,
) -> tuple[Graph, PutModules | None]:
    """The graph with modules from training samples, and what they are made of, if there are any.

    The graph is as the file has it, if it is written.
    """
    if not wanted.specs:
        return graph, None
    with listener.counting("calibrating") as tell:
        made = with_pet(graph, wanted, split, normalization, seed, tell)
    if save_model is not None:
        note = write_augmented(made, save_model)
        if note:
            listener.note(note)
        made = load(save_model)
    return made, PutModules.into(graph, wanted.text, made)


def pet_rows(
    graph: Graph,
    pets: Sequence[str],
    split: Split,
    normalization: Normalization | None,
    progress: Progress | None = None,
) -> list[PlannedRow]:
    """A row of a comparison for each, with modules from the training samples.

    Raises SchemeError before samples are looked at.
    """
    wanted = [modules.parse_pet(text) for text in pets]
    for one in wanted:
        one.outline(graph)  # or a sentence
    return [
        PlannedRow(
            one.text,
            one.scheme(UpdateScheme()),
            SchemeWay(graph=with_pet(graph, one, split, normalization, progress=progress)),
        )
        for one in wanted
    ]


def write_augmented(graph: Graph, path: Path) -> str:
    """Write it; why the file computes other bits as mcutrain reads it, or nothing."""
    return write(graph, path, description="modules added by mcutrain")

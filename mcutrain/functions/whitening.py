"""Two layers before a model's classifier, behind which a few samples tell a new class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.arguments import PathLike, Seed, checked
from mcutrain.data import Data
from mcutrain.errors import DataError, some_of
from mcutrain.formats import as_format, format_of, write
from mcutrain.functions.chosen import read_samples
from mcutrain.functions.keywords import with_keywords
from mcutrain.functions.listener import SILENT, Listener
from mcutrain.functions.models import check_other_file
from mcutrain.functions.preparing import Asked
from mcutrain.functions.run_options import ReadingOptions
from mcutrain.ir.graph import Graph
from mcutrain.pipeline import load
from mcutrain.pipeline.losses import fit_classes
from mcutrain.quant import told_apart
from mcutrain.quant.whitening import check_whitens
from mcutrain.runs.head_start import whitened_by_samples
from mcutrain.shown import Record, Shown
from mcutrain.sparse import find_head

Array = npt.NDArray[Any]


@dataclass(frozen=True, repr=False)
class WhitenedModel(Shown):
    """A model with whitened features and a new classifier.

    path: where it was written.
    note: why mcutrain computes other bits when it reads the file (only .onnx), or nothing.
    """

    graph: Graph
    path: Path | None = None
    note: str = ""

    @property
    def features(self) -> int:
        """How many the classifier reads."""
        return self.graph.tensors[find_head(self.graph).node.inputs[0]].type.elements

    def summary(self) -> str:
        """Return a line that describes it."""
        classes = told_apart(self.graph, find_head(self.graph).node)
        return (
            f"{self.features:,} features without correlations and of one length, "
            f"{self.features**2:,} weights more, and a classifier of {classes:,} class means"
        )

    def to_dict(self) -> Record:
        """Return it as `mcutrain whiten --json` prints it."""
        return {
            "model": self.graph.name,
            "file": None if self.path is None else str(self.path),
            "features": self.features,
            "classes": told_apart(self.graph, find_head(self.graph).node),
            "class_names": list(self.graph.class_names),
            "note": self.note or None,
        }


@with_keywords
@checked
def whiten(
    model: Graph | PathLike,
    data: Data,
    output: PathLike | None = None,
    *,
    seed: Seed = 0,
    reading: ReadingOptions = ReadingOptions(),
    listener: Listener = SILENT,
) -> WhitenedModel:
    """Make an int8 model ready to learn a new class from a few samples.

    It puts two layers before the classifier: they take away the features' correlation, give them
    equal size, and give those of each sample one length. The classifier is a new one, made of the
    means of the data's classes.

    data: training samples of all classes that the model is to know, as `simulate` takes them.
    output: an .onnx file to write; .tflite has no such normalization.
    reading: how the data are read; its fields are keywords, too.

    Raises SchemeError for a head that is no fully connected layer, and for features that do not
    vary. Raises DataError, ModelError; UnsupportedError for a .tflite file; ArgumentError where the
    output is the model's own file.

    >>> whiten("words.int8.tflite", "sounds/", "white.onnx").graph.class_names
    """
    if output is not None:
        format_of(Path(output))
        if not isinstance(model, Graph):
            use = "which keeps its classifier"
            check_other_file(Path(model), Path(output), use, "the whitened one")
    graph = model if isinstance(model, Graph) else load(model)
    check_whitens(graph, find_head(graph).node)  # fail before the data is read
    split = read_samples(graph, data, reading.drawn(), Asked(), seed, listener)
    fitted = fit_classes(graph, split, "auto", reading.class_names or ())
    classes = fitted.classes or told_apart(graph, find_head(graph).node)
    _check_classes(fitted.split.train.y, classes, fitted.class_names)
    for note in fitted.notes:
        listener.note(note)
    made = whitened_by_samples(graph, fitted.split, classes, reading.normalization, seed)
    made = replace(made, class_names=fitted.class_names)
    if output is None:
        return WhitenedModel(made)
    path = Path(output)
    made = as_format(made, path)
    note = write(made, path)
    if note:
        listener.note(note)
    return WhitenedModel(made, path, note)


def _check_classes(y: Array, classes: int, names: Sequence[str]) -> None:
    """Raise DataError for classes without samples: their means are not known."""
    missing = sorted(set(range(classes)) - set(np.unique(y).tolist()))
    if missing:
        told = [names[i] if names else f"output {i}" for i in missing]
        raise DataError(
            f"the data has no training samples of {some_of(told)}, but the new classifier "
            "needs the mean of each class: give samples of all classes that the model is to "
            "know"
        )

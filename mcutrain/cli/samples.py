"""Flags of the commands that learn from a data set, and reading it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mcutrain.cli.output import count_bar, say
from mcutrain.functions.run_options import DataOptions, ReadingOptions

if TYPE_CHECKING:
    from mcutrain.data import ModelInput, Normalization, Split
    from mcutrain.ir.graph import Graph

Data = Annotated[
    Path,
    typer.Option(
        help="An .npz file (x, y, optionally split; or x_train, y_train, x_test, y_test, and "
        "x_val, y_val for choices; without labels only x, or x_train, x_test and optionally "
        "y_test, 1 = anomaly); a folder with a folder per class of images, WAV or CSV files; or a "
        "CSV file with a column of labels. docs/data.md says more.",
        show_default=False,
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option(min=1, help="Processes that train; one per CPU by default.", show_default=False),
]


@dataclass(frozen=True)
class DataSource:
    """Where samples come from, and how many of them are used; `seed` draws them.

    class_names: of the model's outputs, if they are given. is_partial: whether the data need not
    have two classes, since the model knows others.
    """

    path: Path
    samples: int | None
    test_samples: int | None
    test_share: float
    normalization: Normalization | None
    seed: int = 0
    stride: int | None = None
    class_names: tuple[str, ...] = ()
    is_partial: bool = False

    def for_model(self, graph: Graph, added: tuple[str, ...] = ()) -> DataSource:
        """Return a source for a model that may know more classes than the data has."""
        return replace(self, is_partial=bool(graph.class_names or self.class_names or added))

    def read_labelled(self, model: ModelInput) -> Split:
        """Read data whose labels are needed. Raises DataError if it has none."""
        from mcutrain.errors import DataError

        split = self.read(model)
        if not split.is_labelled:
            raise DataError(
                f"{self.path} has no labels, which are needed to compare what is learnt: save y "
                "(or y_train and y_test) beside the samples"
            )
        return split

    def read(self, model: ModelInput) -> Split:
        """As many samples of both parts as asked for; says what the model's input would clip."""
        from mcutrain.data import input_notes, load

        with count_bar() as bar:
            task = bar.add_task("reading samples")
            split = load(
                self.path,
                test_share=self.test_share,
                seed=self.seed,
                order=model.known_order,
                stride=self.stride,
                progress=lambda done, of: bar.update(task, completed=done, total=of),
                samples=self.samples,
                test_samples=self.test_samples,
                least_classes=1 if self.is_partial else 2,
                note=lambda text: say(f"mcutrain: note: {text}"),
                left_out=lambda text: say(f"mcutrain: note: {text}"),
            )
        for note in input_notes(split, model, self.normalization or "auto"):
            say(f"mcutrain: note: {note}")
        return split


@dataclass(frozen=True, kw_only=True)
class ReadingFlags(ReadingOptions):
    """Flags of how a data set is read."""

    def source(
        self, path: Path, samples: int | None, test_samples: int | None, seed: int
    ) -> DataSource:
        """A data set that is read so. samples, test_samples: how many of them, None is all."""
        pixels = self.normalization
        source = DataSource(path, samples, test_samples, self.test_share, pixels, seed, self.stride)
        return replace(source, class_names=tuple(self.class_names or ()))

    def named(self, graph: Graph) -> Graph:
        """The model with the class names. Raises DataError if there is not one for each output."""
        from mcutrain.formats import with_class_names

        return graph if self.class_names is None else with_class_names(graph, self.class_names)


@dataclass(frozen=True, kw_only=True)
class SourceFlags(ReadingFlags, DataOptions):
    """Flags of how a data set is read, and how much of it."""

    def of(self, path: Path, seed: int) -> DataSource:
        """A data set that is read so."""
        return self.source(path, self.samples, self.test_samples, seed)

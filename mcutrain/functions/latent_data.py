"""A data set as the latents that a project's tail takes."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from mcutrain_host.dataclass import dataclass
from mcutrain_host.manifest import Manifest

from mcutrain.arguments import PathLike, Seed, checked
from mcutrain.data import Data, ModelInput, Outputs, Split
from mcutrain.errors import ArgumentError, DataError
from mcutrain.functions.chosen import samples_for
from mcutrain.functions.files import check_writable, replace_file
from mcutrain.functions.keywords import with_keywords
from mcutrain.functions.listener import SILENT, Listener
from mcutrain.functions.run_options import DataOptions
from mcutrain.runs.fronts import front_of_tail, latents_of
from mcutrain.runs.sample_reading import prepare_samples
from mcutrain.shown import Record, Shown
from mcutrain.simulation import LatentSimulator, RunSettings

PARTS = ("train", "test", "val")
TITLE = "computing latents"


@dataclass(frozen=True, repr=False)
class LatentData(Shown):
    """A data set of latents: data for `train_board`, as the project is a tail.

    latent: the tensor that they are. split: the latents, int8, with their labels. bytes_per_sample:
    of a latent; bytes_per_sample_before: of what the whole network takes. path: where they were
    written.
    """

    latent: str
    split: Split
    bytes_per_sample: int
    bytes_per_sample_before: int
    path: Path | None = None

    def summary(self) -> str:
        """Return a line that describes it."""
        return (
            f"{len(self.split.train):,} training and {len(self.split.test):,} test latents, "
            f"{self.latent}, {self.bytes_per_sample:,} bytes each in the place of "
            f"{self.bytes_per_sample_before:,}"
        )

    def to_dict(self) -> Record:
        """Return it as `mcutrain latents --json` prints it."""
        return {
            "file": None if self.path is None else str(self.path),
            "bytes": None if self.path is None else self.path.stat().st_size,
            "latent": self.latent,
            "bytes_per_sample": self.bytes_per_sample,
            "bytes_per_sample_before": self.bytes_per_sample_before,
            "samples": len(self.split.train),
            "test_samples": len(self.split.test),
        }


@with_keywords
@checked
def latents(
    project: PathLike,
    model: PathLike,
    data: Data,
    output: PathLike | None = None,
    *,
    reading: DataOptions = DataOptions(),
    seed: Seed = 0,
    listener: Listener = SILENT,
) -> LatentData:
    """Compute the latents of a data set: what a project's tail takes for samples.

    The front of the network runs on this computer, with the bits that it has on a chip.

    project: a folder of `generate` with part="tail". model: the file that it was generated from.
    data: as `simulate` takes it, with labels. output: an .npz file to write. reading: how much of
    the data is taken; its fields are keywords, too.

    Raises McutrainError where the project is no tail of the model, DataError, ArgumentError.

    >>> latents("tail", "model.int8.tflite", (x, y)).split  # for train_board("tail", …)
    """
    file = None if output is None else Path(output)
    if file is not None:
        if file.suffix != ".npz":
            raise ArgumentError(f"output is {file}: it must end with .npz")
        check_writable(file)
    folder = Path(project)
    manifest = Manifest.of_folder(folder, "--part tail")
    front = front_of_tail(manifest, Path(model), folder)
    split = _computed(front, manifest, data, reading, seed, listener)
    if file is not None:
        replace_file(file, _npz(split))
    before = front.plan.training.input_type.size_bytes
    return LatentData(manifest.begins_with, split, front.latent.size_bytes, before, file)


def _computed(
    front: LatentSimulator,
    manifest: Manifest,
    data: Data,
    reading: DataOptions,
    seed: int,
    listener: Listener,
) -> Split:
    """What the front makes of a data set, with labels that are numbers of the tail's outputs."""
    x, order = front.plan.training.input_type, front.plan.training.forward.input_order
    recipe = manifest.recipe or {}
    added, is_new = tuple(recipe.get("added", ())), recipe.get("classes") is not None
    names = manifest.class_names, tuple(reading.class_names or ())
    outputs = Outputs.of(manifest.classes, *names, added, is_new)
    model = ModelInput(x.shape[1:], x.scale, x.zero_point, order, front.plan.training.vocabulary)
    is_partial = bool(outputs.names or added)
    split = samples_for(model, data, reading, seed, listener, is_partial=is_partial)
    if not split.is_labelled:
        raise DataError(
            "the data has no labels, which are needed to learn from latents: save y (or y_train "
            "and y_test) beside the samples"
        )
    if manifest.has_labels:
        if guess := outputs.guess(split):
            listener.note(guess)
        split = outputs.labelled(split)
    normalization = reading.normalization
    prepared = prepare_samples(split, RunSettings(), model, normalization=normalization)
    with listener.counting(TITLE) as tell:
        return latents_of(prepared, front, lambda done, of: tell(TITLE, done, of))


def _npz(split: Split) -> bytes:
    """A data set that says itself what is for the test."""
    arrays: dict[str, Any] = {"names": np.array(split.names)}
    for name, part in zip(PARTS, (split.train, split.test, split.validation), strict=True):
        if part is not None:
            arrays |= {f"x_{name}": part.x, f"y_{name}": part.y}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()

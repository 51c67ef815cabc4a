"""What numbers a float classifier takes for pixels: those with which it names most samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.data import Data, InputOrder, ModelInput, Normalization, Outputs, Split
from mcutrain.errors import DataError
from mcutrain.formats import FloatModel
from mcutrain.formats.class_names import read_class_names
from mcutrain.frontends.camera import DEVIATION, MEAN
from mcutrain.functions.listener import Listener, Progress
from mcutrain.functions.run_options import DataOptions
from mcutrain.quant.quantizer import as_input
from mcutrain.runs.sample_reading import load_data
from mcutrain.shown import percent

SAMPLES, FEWEST = 200, 50
"""Training samples that are tried; fewer of a large model, or to check what was said."""
MOST_MACS = 60_000_000_000
"""Products of all that is tried, some seconds of a core."""
BATCH = 25
CLEARLY = 0.03
"""The best one is taken if the second names a smaller share of the samples by this."""


@dataclass(frozen=True)
class Taking:
    """What a model may take for pixels: the numbers for 0 and 255, or mean and std of each channel.

    They are as --pixels, or --mean and --std, have them.
    """

    pixels: tuple[float, ...] = ()
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()

    @property
    def text(self) -> str:
        """As flags say it."""
        if self.pixels:
            return f"--pixels {_joined(self.pixels)}"
        return f"--mean {_joined(self.mean)} --std {_joined(self.std)}"

    @property
    def normalization(self) -> Normalization:
        """What it makes of a pixel."""
        if self.pixels:
            return Normalization.of_range(*self.pixels)
        return Normalization(self.mean, self.std)

    @property
    def channels(self) -> int:
        """Channels that an image must have; 1 for any."""
        return max(len(self.mean), 1)


TRIED = (
    Taking((0.0, 1.0)),
    Taking((-1.0, 1.0)),
    Taking((0.0, 255.0)),
    Taking(mean=MEAN, std=DEVIATION),
)
"""What most are trained on; the last is what torchvision's models take, by ImageNet's images."""


@dataclass(frozen=True)
class Tried:
    """The share of the samples whose class the model names, by what it takes; the best first."""

    found: tuple[tuple[Taking, float], ...]
    samples: int
    classes: int

    @property
    def clear(self) -> Taking | None:
        """The one that is clearly the best, if there is one.

        It is right about twice as often as by chance; of two or three classes half the way from
        chance to all of them.
        """
        chance = 1 / self.classes
        (best, share), (_, second) = self.found[:2]
        if share < min(2 * chance, (1 + chance) / 2) or round(share - second, 9) <= CLEARLY:
            return None
        return best

    @property
    def numbers(self) -> str:
        """All of them, as a phrase."""
        return ", ".join(f"{percent(share)} with {taking.text}" for taking, share in self.found)

    def refusal(self, name: str) -> str:
        """Return what to do where none is clearly the best. name: of the data."""
        return (
            f"{name} holds pixels, and it is not clear what numbers the model takes for them: of "
            f"{self.samples} training samples it names {self.numbers}; give --pixels LOW,HIGH, or "
            "--mean and --std, as it was trained; if its classes have another order than the "
            "data's, --class-names gives theirs"
        )


def try_pixels(
    model: FloatModel,
    data: Split,
    classes: int,
    samples: int,
    tell: Progress = lambda what, done, of: None,
) -> Tried:
    """Run the float model on training samples with each of TRIED. samples: at most so many."""
    x, y = data.train.x[:samples], data.train.y[:samples]
    takings = [each for each in TRIED if each.channels in (1, x.shape[-1])]
    found = []
    for i, each in enumerate(takings):
        right = 0
        for first in range(0, len(x), BATCH):
            tell(f"trying {each.text}", i * len(x) + first, len(takings) * len(x))
            some = slice(first, first + BATCH)
            right += _right(model, x[some], y[some], each.normalization)
        found.append((each, right / len(x)))
    found.sort(key=lambda pair: -pair[1])  # stable
    return Tried(tuple(found), len(x), classes)


def guess_pixels(
    model: FloatModel,
    data: Data,
    reading: DataOptions,
    macs: int,
    seed: int,
    listener: Listener,
    samples: int = SAMPLES,
) -> Tried | None:
    """Try what pixels may be; None where that says nothing.

    That is so where the data are no pixels or have no classes, or not as many as the model has
    outputs. macs: of an inference. samples: no more are tried. Raises DataError.
    """
    graph = model.network
    if len(graph.outputs) != 1:
        return None
    outputs = int(np.prod(graph.shapes[graph.outputs[0]][1:]))
    most = max(FEWEST, min(samples, MOST_MACS // max(len(TRIED) * macs, 1)))
    split = _some(model, data, reading, (most, outputs), seed, listener)
    if split.train.x.dtype != np.uint8 or not split.is_labelled or split.positions:
        return None
    if len(split.names) != outputs or outputs < 2:
        return None
    names = read_class_names(model.path, outputs)
    try:
        split = Outputs.of(outputs, names, reading.class_names or ()).labelled(split)
    except DataError:
        return None  # it is said later, with what to do
    with listener.counting("finding what pixels are") as tell:
        return try_pixels(model, split, outputs, most, tell)


def _some(
    model: FloatModel,
    data: Data,
    reading: DataOptions,
    counts: tuple[int, int],
    seed: int,
    listener: Listener,
) -> Split:
    """Read at most so many training and test samples, of every class alike. Raises DataError."""
    order: InputOrder = model.input_order
    taken = ModelInput(order.model_shape, 1 / 255, -128, order)
    most, tests = counts
    few = replace(
        reading,
        samples=min(most, reading.samples or most),
        test_samples=min(tests, reading.test_samples or tests),
    )
    try:
        return _read(taken, data, few, seed, listener)
    except DataError:  # there may be fewer; else it is raised again
        split = _read(taken, data, reading, seed, listener)
        return split.drawn(min(most, len(split.train)), None, seed)


def _read(
    taken: ModelInput, data: Data, reading: DataOptions, seed: int, listener: Listener
) -> Split:
    """Read it for a model whose input's range nobody knows yet. Raises DataError."""
    with listener.reading() as tell:
        return load_data(
            taken.with_frontend(reading.frontend),
            data,
            seed=seed,
            progress=tell,
            **reading.taken,
            is_partial=True,
            note=listener.note,
            certain=listener.detail,
        )


def _right(
    model: FloatModel, x: npt.NDArray[np.uint8], y: npt.NDArray[np.int64], pixels: Normalization
) -> int:
    """Return how many of these samples the model names."""
    mean, std = np.array(pixels.mean), np.array(pixels.std)
    real = as_input(model.network, ((x / 255 - mean) / std).astype(np.float32))
    answers = model.network.run(real)[0].reshape(len(x), -1)
    known = np.isfinite(answers).all(axis=1)
    return int((known & (answers.argmax(axis=1) == y)).sum())


def _joined(numbers: Sequence[float]) -> str:
    return ",".join(f"{number:g}" for number in numbers)

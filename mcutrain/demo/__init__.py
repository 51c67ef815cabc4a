"""The embedded demo: a network that knows upright images, and a sensor that turns and dims them."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass
from mcutrain_host.files import NOT_OURS

from mcutrain import data
from mcutrain.ir.graph import Graph
from mcutrain.pipeline import TrainingStep, load, prepare
from mcutrain.runs.training import prepare_run
from mcutrain.simulation import Run, RunSettings

Array = npt.NDArray[Any]

FOLDER = Path(__file__).parent
MODEL = FOLDER / "fashion.int8.tflite"
FLOAT_MODEL = FOLDER / "fashion.onnx"
IMAGES = FOLDER / "fashion.npz"
SCHEMES = ("head", "fashion-sparse")
DIMMED = 0.5
SETTINGS = RunSettings(epochs=3, learning_rate=0.03)
"""One learning rate for both schemes. Measured after 3 epochs, seed 0: head 72.2, 72.8, 73.9 % at
0.02, 0.03, 0.1; fashion-sparse 84.7, 85.6 % at 0.02, 0.03."""


@dataclass(frozen=True)
class Size:
    """How much of the images is used, and how many steps numpy repeats."""

    train: int = 4000
    test: int = 1500
    epochs: int = SETTINGS.epochs
    reference_steps: int = 20


QUICK = Size(256, 100, 1, 2)


def network() -> Graph:
    """MobileNetV2 style, int8, trained on upright Fashion-MNIST by examples/fashion/pretrain.py."""
    return load(MODEL)


def upright(size: Size) -> data.Split:
    """Images as the network knows them."""
    split = data.load(IMAGES)
    return data.Split(split.train.subset(size.train), split.test.subset(size.test))


def copy_files(folder: Path) -> list[Path]:
    """The network, upright images, and the same as the sensor delivers them, for own trials.

    Raises FileExistsError, before anything is written, where one of them is there without the
    first: then it is not from an earlier demo.
    """
    sensor_file = folder / "sensor.npz"
    wanted = [*(folder / path.name for path in (FLOAT_MODEL, MODEL, IMAGES)), sensor_file]
    there = [path for path in wanted if path.exists()]
    if there and there[0] != wanted[0]:
        raise FileExistsError(errno.EEXIST, f"{there[0]} is there: {NOT_OURS}")
    whole = data.load(IMAGES)
    folder.mkdir(parents=True, exist_ok=True)
    copies = [Path(shutil.copy(path, folder)) for path in (FLOAT_MODEL, MODEL, IMAGES)]
    split = deployed(whole)
    np.savez_compressed(
        sensor_file,
        x_train=split.train.x,
        y_train=split.train.y,
        x_test=split.test.x,
        y_test=split.test.y,
        names=np.array(split.names),
    )
    return [*copies, sensor_file]


def deployed(split: data.Split) -> data.Split:
    """Return the images as the sensor delivers them."""
    train, test = (
        data.Dataset(sensor(part.x), part.y, part.names) for part in (split.train, split.test)
    )
    return data.Split(train, test)


def sensor(images: Array) -> Array:
    """Mounted sideways, in half the light. images: uint8 [n, h, w, c]."""
    turned = np.rot90(images, axes=(1, 2))
    return (turned * DIMMED).astype(np.uint8)


def training_step(graph: Graph, scheme: str) -> TrainingStep:
    """One of SCHEMES; the network keeps its own head."""
    return prepare(graph, scheme)


def training_run(step: TrainingStep, split: data.Split, size: Size, seed: int) -> Run:
    """A run of the compiled C that has not begun."""
    return prepare_run(step, split, replace(SETTINGS, epochs=size.epochs, seed=seed))


def same_bits(
    step: TrainingStep, run: Run, steps: int, report: Callable[[int], None] = lambda _: None
) -> bool:
    """Return whether numpy and the C hold the same trained state after each of the first steps."""
    reference = step.reference(run.settings.rounding_seed)
    compiled = step.simulator(run.settings.rounding_seed)
    labels = run.samples.split.train.y
    rate = [run.course.rates.base]
    for i in range(steps):
        index = np.array([i])
        x = run.samples.train(index, 0, run.settings.seed)
        for simulator in (reference, compiled):
            simulator.train(x, labels[index], rate)
        if reference.save() != compiled.save():
            return False
        report(i + 1)
    return True

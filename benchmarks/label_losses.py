"""What losses of labels, weights of classes and smoothing do, on images, over three seeds.

    .venv/bin/python benchmarks/label_losses.py --shared ../shared

Trains the head of mcunet-5fps on CIFAR-10 (cifar10_10k2k.npz): seven attributes of each image's
class (an animal, flies, wheels, four legs, made by man, fur, drives on roads) as labels that do not
exclude each other; and ten classes of which five have a twentieth of the samples.
"""

from __future__ import annotations

import argparse
import os
import warnings
from pathlib import Path

import numpy as np
import numpy.typing as npt

import mcutrain
from mcutrain.data import Dataset, Split

ATTRIBUTES = {
    "animal": (2, 3, 4, 5, 6, 7),
    "flies": (0, 2),
    "wheels": (0, 1, 9),
    "four legs": (3, 4, 5, 7),
    "made by man": (0, 1, 8, 9),
    "fur": (3, 4, 5, 7),
    "on roads": (1, 9),
}
MANY, FEW, TRAINED, TESTED, EPOCHS = 300, 15, 2000, 1000, 4
SEEDS = (1, 2, 3)
Array = npt.NDArray[np.uint8]


def attributes(y: npt.NDArray[np.int64]) -> Array:
    """Rows of 0 and 1 by the classes of images."""
    table = np.zeros((10, len(ATTRIBUTES)), np.uint8)
    for place, classes in enumerate(ATTRIBUTES.values()):
        table[list(classes), place] = 1
    return table[y]


def with_rare_classes(y: npt.NDArray[np.int64], seed: int) -> npt.NDArray[np.int64]:
    """Samples of which the last five classes have few."""
    rng = np.random.default_rng(seed)
    parts = [rng.permutation(np.flatnonzero(y == c))[: MANY if c < 5 else FEW] for c in range(10)]
    return np.concatenate(parts)


def row(title: str, model: Path, splits: list[Split], **options: str | float) -> None:
    """A line of the table: means, and the smallest and largest."""
    found = []
    for seed, split in zip(SEEDS, splits, strict=True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            one = mcutrain.simulate(model, split, "head", epochs=EPOCHS, seed=seed, **options)
        auc = (one.auc_before, one.auc) if one.class_auc else (np.nan, np.nan)
        found.append((one.before, one.accuracy, one.f1_before, one.f1, *auc))
    values = 100 * np.array(found, np.float64)
    cells = [
        f"{m:.1f} ({low:.1f} to {high:.1f})"
        for m, low, high in zip(values.mean(0), values.min(0), values.max(0), strict=True)
    ]
    print(f"| {title} | " + " | ".join(cells).replace("nan (nan to nan)", "–") + " |", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shared", default=os.environ.get("MCUTRAIN_SHARED", "../shared"))
    shared = Path(parser.parse_args().shared)
    model = shared / "models" / "mcunet-5fps.int8.tflite"
    with np.load(shared / "data" / "cifar10_10k2k.npz") as data:
        x, y, names = data["x_train"], data["y_train"], tuple(map(str, data["names"]))
        x_test, y_test = data["x_test"][:TESTED], data["y_test"][:TESTED].astype(np.int64)
    y = y.astype(np.int64)
    print("| learnt | accuracy before | after | mean F1 before | after | mean AUC before | after |")
    print("|---|---|---|---|---|---|---|")
    tags = tuple(ATTRIBUTES)
    test = Dataset(x_test, attributes(y_test), tags)
    splits = []
    for seed in SEEDS:
        index = np.random.default_rng(seed).permutation(len(y))[:TRAINED]
        splits.append(Split(Dataset(x[index], attributes(y[index]), tags), test))
    row("attributes", model, splits)
    row("attributes, balanced", model, splits, class_weights="balanced")
    row("attributes, smoothed by 0.1", model, splits, label_smoothing=0.1)
    test = Dataset(x_test, y_test, names)
    splits = []
    for seed in SEEDS:
        index = with_rare_classes(y, seed)
        splits.append(Split(Dataset(x[index], y[index], names), test))
    row("rare classes", model, splits)
    row("rare classes, balanced", model, splits, class_weights="balanced")
    row("rare classes, smoothed by 0.1", model, splits, label_smoothing=0.1)


if __name__ == "__main__":
    main()

"""Accuracies that papers publish for our three networks, with their conditions, for anchor.py.

    .venv/bin/python benchmarks/published.py

Every number names its table. A number that is not here was not found in the sources; none is read
off a figure. Lin et al.: "On-Device Training Under 256KB Memory", NeurIPS 2022, arXiv 2206.15472,
and its repository mit-han-lab/tiny-training. TraDy: Quélennec et al., "Study of Training Dynamics
for Memory-Constrained Fine-Tuning", ICLR 2026, arXiv 2510.19675.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

EPOCHS = 50


@dataclass(frozen=True)
class KnownSet:
    """One of the eight data sets. names: of a folder or file that holds it, see `plain`.

    test_images: in the authors' test part; None if we do not know. epochs: that Lin et al. train.
    """

    key: str
    title: str
    names: tuple[str, ...]
    test_images: int | None
    where: str
    epochs: int = EPOCHS


SETS = (
    KnownSet(
        "cars",
        "Cars",
        ("cars", "cars196", "stanfordcars"),
        8041,
        "https://ai.stanford.edu/~jkrause/cars/car_dataset.html",
    ),
    KnownSet(
        "cf10", "CF10", ("cf10", "cifar10"), 10_000, "https://www.cs.toronto.edu/~kriz/cifar.html"
    ),
    KnownSet(
        "cf100",
        "CF100",
        ("cf100", "cifar100"),
        10_000,
        "https://www.cs.toronto.edu/~kriz/cifar.html",
    ),
    KnownSet(
        "cub",
        "CUB",
        ("cub", "cub200", "cub2002011"),
        5794,
        "https://www.vision.caltech.edu/datasets/cub_200_2011/",
    ),
    KnownSet(
        "flowers",
        "Flowers",
        ("flowers", "flowers102", "oxfordflowers102"),
        6149,
        "https://www.robots.ox.ac.uk/~vgg/data/flowers/102/",
    ),
    KnownSet(
        "food",
        "Food",
        ("food", "food101"),
        25_250,
        "https://data.vision.ee.ethz.ch/cvl/datasets_extra/food-101/",
    ),
    KnownSet(
        "pets",
        "Pets",
        ("pets", "oxfordpets", "oxfordiiitpet"),
        3669,
        "https://www.robots.ox.ac.uk/~vgg/data/pets/",
    ),
    KnownSet(
        "vww",
        "VWW",
        ("vww", "visualwakewords", "vwws256"),
        None,
        "https://github.com/tensorflow/models/tree/master/research/slim",
        epochs=10,
    ),
)
KEYS = tuple(known.key for known in SETS)
MEANS = {"mean of 8": KEYS, "mean of 7": tuple(key for key in KEYS if key != "cars")}
"""Means over data sets that papers give; TraDy leaves out Cars."""


def plain(name: str) -> str:
    """A name without what people write differently: its letters and digits, in small letters."""
    return "".join(c for c in name.lower() if c.isalnum())


LIN, TRADY = "Lin et al.", "TraDy"
SOURCES = (LIN, TRADY)

CONDITIONS = MappingProxyType(
    {
        LIN: "128x128 pixels, 50 epochs (VWW 10), cosine after 5 epochs of warm-up (VWW 1), no "
        "weight decay, the best rate of a search for each run, random crops, flips and colour "
        "jitter (VWW: flips), in PyTorch (sections 3.1 and C; configs/default.yaml and transform.py"
        " of its repository)",
        TRADY: "SGD without momentum, cosine after 5 epochs of warm-up, no weight decay, 3 seeds, "
        "no Cars; we found neither its epochs, nor its batch, nor its number format",
    }
)
"""What all numbers of a source share."""
NOTES = MappingProxyType(
    {
        "a": "table 1: int8 graph, float32 classifier, SGD with momentum 0.9 and QAS, batch 128 "
        "(table 4 has the same), the last two blocks",
        "b": "table 1: everything float32, SGD with momentum, batch 128, the last two blocks",
        "c": "table 3: as in table 1, but the classifier is quantized, too, as ours is",
        "d": "table 4: int8 graph, float32 classifier, QAS, batch 1, no momentum, the last two "
        "blocks",
        "e": "table 2: int8 graph, float32 classifier, QAS, batched, no momentum (section C), a "
        "sparse update searched under 100 KB; mean and standard deviation of 3 runs",
        "f": "mit-han-lab/tiny-training, algorithm/scripts/sparse_update.sh: the 100 KB scheme, "
        "int8 graph, float32 classifier, QAS, batched, no momentum",
        "g": "table 1, as quoted by a summary (en.papernotes.org; the table itself was not at hand)"
        ": channels drawn anew in each epoch, 27,946 values of weights and activations, the least "
        "of its three budgets",
        "h": "the same table: the static sparse update of Lin et al. at that budget",
    }
)


@dataclass(frozen=True)
class Published:
    """Accuracies in percent of one network and way of training, by data set or mean of them.

    scheme: as anchor.py names it, or what is trained in words where we do not train it. note: its
    conditions, in NOTES. spread: the standard deviation of runs, where it is given. digits: behind
    the point, as the source prints them.
    """

    source: str
    network: str
    scheme: str
    note: str
    accuracy: Mapping[str, float]
    spread: Mapping[str, float] = field(default_factory=dict)
    digits: int = 1

    def text(self, data: str) -> str:
        """As a cell of a table; empty if there is no number."""
        if data not in self.accuracy:
            return ""
        spread = f" ± {self.spread[data]:.{self.digits}f}" if data in self.spread else ""
        return f"{self.accuracy[data]:.{self.digits}f}{spread} {self.note}"


def _eight(*values: float) -> dict[str, float]:
    """In the order of the paper's columns, with its mean behind them."""
    return dict(zip((*KEYS, "mean of 8"), values, strict=True))


_TWO_BLOCKS = "last two blocks"
_BUDGET = "27,946 values"
RESULTS = (
    Published(
        LIN,
        "mcunet-5fps",
        _TWO_BLOCKS,
        "a",
        _eight(55.2, 86.9, 64.6, 57.8, 89.1, 64.4, 80.9, 89.3, 73.5),
    ),
    Published(
        LIN,
        "mcunet-5fps",
        f"{_TWO_BLOCKS}, float",
        "b",
        _eight(56.7, 86.0, 63.4, 56.2, 88.8, 67.1, 79.5, 88.7, 73.3),
    ),
    Published(
        LIN,
        "mcunet-5fps",
        f"{_TWO_BLOCKS}, int8 head",
        "c",
        _eight(50.8, 86.1, 62.7, 56.8, 82.5, 61.7, 80.8, 87.8, 71.2),
    ),
    Published(
        LIN,
        "mcunet-5fps",
        f"{_TWO_BLOCKS}, batch 1",
        "d",
        {"cars": 51.1, "cub": 56.2, "flowers": 88.7, "pets": 79.3, "vww": 86.0},
    ),
    Published(LIN, "mcunet-5fps", "100kb", "f", {"flowers": 88.84}, digits=2),
    Published(
        LIN,
        "mbv2-w0.35",
        "100kb",
        "e",
        _eight(52.32, 86.99, 63.83, 54.72, 85.53, 62.24, 77.41, 88.40, 71.43),
        _eight(0.66, 0.17, 0.05, 0.52, 0.36, 0.23, 0.39, 0.22, 0.07),
        digits=2,
    ),
    Published(
        TRADY,
        "mbv2-w0.35",
        _BUDGET,
        "g",
        {"cf100": 68.68, "cub": 57.90, "food": 62.61, "vww": 88.76, "mean of 7": 74.91},
        {"mean of 7": 0.64},
        digits=2,
    ),
    Published(
        TRADY,
        "mbv2-w0.35",
        f"{_BUDGET}, static",
        "h",
        {"cf100": 67.34, "cub": 56.85, "food": 61.62, "vww": 87.73, "mean of 7": 74.22},
        digits=2,
    ),
)


def conditions(notes: Iterable[str]) -> list[str]:
    """A line for each source that has one of these notes, and for each note."""
    told = set(notes)
    lines = []
    for source in SOURCES:
        own = sorted(told & {r.note for r in RESULTS if r.source == source})
        lines += [f"{source}: {CONDITIONS[source]}"] if own else []
        lines += [f"{note}: {source}, {NOTES[note]}" for note in own]
    return lines


def main() -> None:
    """Print all of them, a line each, and their conditions."""
    for result in RESULTS:
        cells = (f"{data} {result.text(data)}" for data in result.accuracy)
        print(f"{result.source}, {result.network}, {result.scheme}: {', '.join(cells)}")
    for line in conditions(NOTES):
        print(line)


if __name__ == "__main__":
    main()

"""What a data set is: samples, labels, class names, a split, and the order of an epoch."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from mcutrain.errors import DataError

Samples: TypeAlias = npt.NDArray[Any]
Labels: TypeAlias = npt.NDArray[np.int64]
Indices: TypeAlias = npt.NDArray[np.int64]

SAMPLE_DTYPES = (np.dtype(np.uint8), np.dtype(np.int8), np.dtype(np.float32))
NORMAL_AND_ANOMALY = ("normal", "anomaly")
"""What labels mean where nothing is learnt from them, but a test has some."""
MAX_CLASSES = 65_536
"""A label above this is taken for a mistake, not for a class."""
MOST_NAMES = 16
"""That an error lists."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """Samples with one label each, and the names of the classes.

    x: uint8, int8 or float32, (n, height, width, channels), or (n, features) for no images;
       (n, height, width) gets a channel axis, and so do windows (n, time, channels), which get
       the shape of the model's input later. uint8 are pixels, int8 is already in the
       model's input format, float32 are real values.
    y: int64 (n,), each label an index into `names`.
    is_labelled: False where y is 0 throughout and means nothing.
    Both are kept as read-only views. Raises DataError for anything else.
    """

    x: Samples
    y: Labels
    names: tuple[str, ...]
    is_labelled: bool = True

    def __post_init__(self) -> None:
        x, y = as_samples(self.x, "x"), as_labels(self.y, "y")
        names = as_names(self.names)
        if len(x) != len(y):
            raise DataError(
                f"x has {len(x)} samples but y has {len(y)} labels: save one label each"
            )
        if y.max() >= len(names):
            raise DataError(
                f"y has label {y.max()} but there are {len(names)} class names: "
                "number the classes from 0 in the order of the names"
            )
        for field, value in (("x", _read_only(x)), ("y", _read_only(y)), ("names", names)):
            object.__setattr__(self, field, value)

    def __len__(self) -> int:
        return len(self.y)

    @property
    def classes(self) -> int:
        """The number of classes, those without a sample included."""
        return len(self.names)

    def subset(self, count: int) -> "Dataset":
        """The first `count` samples, 1 <= count <= len(self); raises DataError otherwise.

        For sets that are known to be mixed; `drawn` serves those that are not.
        """
        check_count(count, len(self))
        return self.part(0, count)

    def drawn(self, count: int, seed: int) -> "Dataset":
        """`count` samples that share out every class alike, see the function `drawn`."""
        return self.take(drawn(self.y, count, seed))

    def part(self, first: int, last: int) -> "Dataset":
        """The samples from `first` up to `last`, without a copy."""
        return replace(self, x=self.x[first:last], y=self.y[first:last])

    def take(self, index: Indices) -> "Dataset":
        """The samples at `index` (k,), k >= 1, in that order."""
        return replace(self, x=self.x[index], y=self.y[index])


@dataclass(frozen=True, eq=False)
class Split:
    """What is trained on and what accuracy is measured on; both know the same classes."""

    train: Dataset
    test: Dataset

    def __post_init__(self) -> None:
        if self.train.names != self.test.names:
            raise DataError("the training and test parts name different classes: name them alike")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the classes, in the order of their labels."""
        return self.train.names

    @property
    def is_labelled(self) -> bool:
        """Whether classes can be learnt from it."""
        return self.train.is_labelled

    def drawn(self, samples: int | None, test_samples: int | None, seed: int) -> "Split":
        """So many samples of each part, drawn by `seed`; None is all of them."""
        counts = (self.train, samples), (self.test, test_samples)
        return Split(*(part if n is None else part.drawn(n, seed) for part, n in counts))

    def without_labels(self) -> "Split":
        """The same samples for a network that reproduces them.

        Labels of the test part stay if there are two classes, for normal samples and anomalies.
        """
        keeps = self.test.is_labelled and self.test.classes == len(NORMAL_AND_ANOMALY)
        train, test = unlabelled(self.train.x), unlabelled(self.test.x)
        if keeps:
            test = replace(test, y=self.test.y, is_labelled=True)
        return Split(train, test)

    def with_classes_last(self, added: Sequence[str], old: int) -> "Split":
        """The same samples with these classes behind the others, which keep their order.

        old: how many others there must be. Raises DataError where the names do not fit.
        """
        names = self.names
        missing = [name for name in added if name not in names]
        if missing or len(names) - len(added) != old:
            raise DataError(
                f"the model has {old} classes and gets {', '.join(map(repr, added))}, but the data "
                f"has {len(names)}: {', '.join(map(repr, names[:MOST_NAMES]))}"
                f"{', …' if len(names) > MOST_NAMES else ''}: name its classes as the data does, "
                "which must hold the names of the old ones too"
            )
        new = (*(name for name in names if name not in added), *added)
        label = np.array([new.index(name) for name in names], np.int64)
        train, test = (replace(p, y=label[p.y], names=new) for p in (self.train, self.test))
        return Split(train, test)


def unlabelled(x: Samples) -> Dataset:
    """Samples alone."""
    return Dataset(x, np.zeros(len(x), np.int64), NORMAL_AND_ANOMALY, is_labelled=False)


def order(n: int, epoch: int, seed: int) -> Indices:
    """The order in which an epoch visits `n` samples: a permutation of 0..n-1, int64 (n,).

    Stable: it depends on the three numbers alone and stays the same over platforms and numpy
    versions, because only the raw PCG64 stream is used (numpy guarantees that stream and
    SeedSequence, but not Generator.permutation; NEP 19). Sample i comes at the rank of draw i;
    equal draws keep their order.
    """
    return np.argsort(_draws(n, seed, epoch), kind="stable").astype(np.int64)


def stratified(y: Labels, test_share: float, seed: int) -> tuple[Indices, Indices]:
    """Ascending indices (train, test) that share out every class alike.

    Of a class with k samples, round(k * test_share) go to the test part, but at least one where
    k >= 2, and never all. Which ones depends on (seed, class, k) alone. Raises DataError for a
    share outside 0..1 and where no class has two samples.
    """
    if not 0.0 < test_share < 1.0:
        raise DataError(f"the test share is {test_share}: give a share between 0 and 1, as 0.2")
    is_test = np.zeros(len(y), dtype=np.bool_)
    for label in np.unique(y).tolist():
        members = np.flatnonzero(y == label)
        count = min(max(int(len(members) * test_share + 0.5), 1), len(members) - 1)
        ranks = np.argsort(_draws(len(members), seed, label, _SPLIT_STREAM), kind="stable")
        is_test[members[ranks[:count]]] = True
    if not is_test.any():
        raise DataError("no class has two samples, so none can be kept for the test: add samples")
    return np.flatnonzero(~is_test), np.flatnonzero(is_test)


def drawn(y: Labels, count: int, seed: int) -> Indices:
    """Ascending indices of `count` samples, 1 <= count <= len(y), that share out every class alike.

    Every class is put into an order of its own, drawn from (seed, class) alone; sample r of a class
    of k comes at (r + 1/2) / k of the way, its first one at the start, and the first `count`
    of all are taken. So a class gets what its share of all samples gives, and at least one where
    `count` allows it; more samples hold the fewer; and how the classes follow each other does not
    matter. Raises DataError for another count.
    """
    check_count(count, len(y))
    place = np.empty(len(y), np.float64)
    turn = np.empty(len(y), np.uint64)
    for label in np.unique(y).tolist():
        members = np.flatnonzero(y == label)
        draws = _draws(len(members), seed, label, _SUBSET_STREAM)
        rank = np.empty(len(members), np.int64)
        rank[np.argsort(draws, kind="stable")] = np.arange(len(members))
        place[members] = np.where(rank == 0, 0.0, (2 * rank + 1) / (2 * len(members)))
        turn[members] = draws
    return np.sort(np.lexsort((y, turn, place))[:count]).astype(np.int64)


def check_count(count: int, available: int) -> None:
    """Raise DataError unless 1 <= count <= available."""
    if not 1 <= count <= available:
        raise DataError(
            f"{count} samples were asked for but the set has {available}: ask for 1 to {available}"
        )


def as_samples(x: Samples, key: str) -> Samples:
    """`x` as a Dataset takes it, (n, height, width) with a channel axis added; else DataError."""
    if x.dtype.newbyteorder("=") not in SAMPLE_DTYPES:
        raise DataError(f"{key} is {x.dtype}: save it as uint8 pixels, int8 or float32")
    if x.ndim not in (2, 3, 4):
        raise DataError(
            f"{key} has the shape {x.shape}: save (n, height, width, channels), "
            "(n, height, width) or (n, features)"
        )
    if x.size == 0:
        raise DataError(f"{key} has the shape {x.shape}, which holds no value: save samples")
    if x.dtype.kind == "f" and not np.isfinite(x).all():
        raise DataError(f"{key} holds values that are NaN or infinite: remove or replace them")
    native = x.astype(x.dtype.newbyteorder("="), copy=False)
    return native[..., np.newaxis] if x.ndim == 3 else native


def as_labels(y: npt.NDArray[Any], key: str) -> Labels:
    """`y` as int64 (n,), each label in 0..MAX_CLASSES-1; else DataError."""
    if y.dtype.kind not in "iu":
        raise DataError(f"{key} is {y.dtype}: save the class numbers as integers, as int64")
    if y.ndim != 1 or len(y) == 0:
        raise DataError(f"{key} has the shape {y.shape}: save one label per sample, shape (n,)")
    low, high = int(y.min()), int(y.max())
    if low < 0 or high >= MAX_CLASSES:
        raise DataError(
            f"{key} has labels from {low} to {high}: number the classes from 0, below {MAX_CLASSES}"
        )
    return y.astype(np.int64, copy=False)


def as_names(names: Sequence[str]) -> tuple[str, ...]:
    """Class names as a tuple, each printable and used once; else DataError."""
    for name in names:
        if not (name and name.isprintable()):
            raise DataError(
                f"the class name {name[:40]!a} is empty or cannot be printed: rename it"
            )
    name, uses = Counter(names).most_common(1)[0] if names else ("", 0)
    if uses > 1:
        raise DataError(
            f"the class name {name[:40]} is used {uses} times: give each class its own name"
        )
    return tuple(names)


_SPLIT_STREAM = 1
_SUBSET_STREAM = 2
"""Keep the draws of a split and of a subset apart from those of an epoch's order."""


def _draws(n: int, *key: int) -> npt.NDArray[np.uint64]:
    """`n` raw 64-bit draws of the PCG64 stream that `key` seeds (each taken modulo 2^64)."""
    stream = np.random.PCG64(np.random.SeedSequence([part % 2**64 for part in key]))
    return np.asarray(stream.random_raw(n), dtype=np.uint64)


def _read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    view: npt.NDArray[Any] = array.view()
    view.flags.writeable = False
    return view

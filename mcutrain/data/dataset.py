"""What a data set is: samples, labels, class names, a split, and the order of an epoch."""

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.data.targets import IGNORED, as_targets, target_names
from mcutrain.errors import DataError

if TYPE_CHECKING:
    from mcutrain.data.layout import InputOrder

Samples: TypeAlias = npt.NDArray[Any]
Labels: TypeAlias = npt.NDArray[Any]
Indices: TypeAlias = npt.NDArray[np.int64]
Data: TypeAlias = Any
"""A path, a Split, (x, y), ((x_train, y_train), (x_test, y_test)), x alone, or a mapping of arrays
by the names that an .npz file has."""

SAMPLE_DTYPES = tuple(map(np.dtype, (np.uint8, np.int8, np.float32, np.int16)))
NORMAL_AND_ANOMALY = ("normal", "anomaly")
"""What labels mean where nothing is learnt from them, but a test has some."""
NO_TABLE = (
    "a label column is one of a table, a CSV or Parquet file, which this is not: leave out "
    "--label-column"
)
SPLIT_WORDS = {"train": 0, "test": 1, "val": 2, "validation": 2}
"""What a sample is for, and the part of a Split."""
MAX_CLASSES = 65_536
"""A label above this is taken for a mistake, not for a class."""
MOST_NAMES = 16
"""Most names that an error lists."""


def is_path(data: Data) -> bool:
    """Return whether it is to be read from a file or folder."""
    return isinstance(data, str | PathLike)


@dataclass(frozen=True, eq=False)
class Dataset:
    """Samples with one label each, or one for each position, and the names of the classes.

    x: uint8, int8 or float32, (n, height, width, channels), or (n, features) for no images.
       (n, height, width) gets a channel axis. So do windows (n, time, channels), which get
       the shape of the model's input later. uint8 are pixels, int8 is already in the
       model's input format, float32 are real values, int16 are token ids.
    y: int64 (n,), each label an index into `names`; or uint8 (n, …), labels of positions, of which
       those that are IGNORED are none. Of regression float32 (n, k), k real targets each, or
       int16, what a network learns them as (see mcutrain.data.targets), and names are theirs.
    is_labelled: False where y is 0 throughout and means nothing.
    are_sorted: whether the order of the names is only the alphabet's, which no one has chosen.
    is_in_order: whether x has the order of axes of the model's input, see `InputOrder`.
    heard: what made x of raw windows. It keeps them, so that they can be varied; None of others.
    Both are kept as read-only views. Raises DataError for anything else.
    """

    x: Samples
    y: Labels
    names: tuple[str, ...]
    is_labelled: bool = True
    are_sorted: bool = False
    is_in_order: bool = False
    heard: "InputOrder | None" = None

    def __post_init__(self) -> None:
        x, y = as_samples(self.x, "x"), _labels_of_any_kind(self.y)
        names = as_names(self.names)
        if len(x) != len(y):
            raise DataError(
                f"x has {len(x)} samples but y has {len(y)} labels: save one label each"
            )
        top = y.shape[1] - 1 if _are_targets(y) else highest(y)
        if top >= len(names):
            raise DataError(
                f"y has label {top} but there are {len(names)} class names: "
                "number the classes from 0 in the order of the names"
            )
        for field, value in (("x", _read_only(x)), ("y", _read_only(y)), ("names", names)):
            object.__setattr__(self, field, value)

    def __len__(self) -> int:
        return len(self.y)

    @property
    def positions(self) -> tuple[int, ...]:
        """The shape of a sample's labels; empty where it has one, or targets."""
        return () if self.has_targets else self.y.shape[1:]

    @property
    def has_targets(self) -> bool:
        """Whether samples have real targets instead of labels."""
        return _are_targets(self.y)

    def label(self, index: int) -> int | bytes:
        """Return the label of a sample; labels of positions, and targets, are bytes."""
        return self.y[index].tobytes() if self.y.ndim > 1 else int(self.y[index])

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
    """What is trained on, and what accuracy is measured on. All parts know the same classes.

    validation: what choices are made by (a learning rate, what to train), if the data has such a
        part. The test part must never make any.
    """

    train: Dataset
    test: Dataset
    validation: Dataset | None = None

    def __post_init__(self) -> None:
        if any(part.positions != self.train.positions for part in self._parts):
            raise DataError(
                "the training and test parts have labels of different shapes: save them alike"
            )
        if any(part.has_targets != self.train.has_targets for part in self._parts):
            raise DataError(
                "one part has real targets and another class labels: save both as float32, or as "
                "integers"
            )
        if any(part.names != self.train.names for part in self._parts):
            raise DataError("the training and test parts name different classes: name them alike")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the classes, in the order of their labels."""
        return self.train.names

    @property
    def is_labelled(self) -> bool:
        """Whether classes can be learnt from it."""
        return self.train.is_labelled

    @property
    def positions(self) -> tuple[int, ...]:
        """The shape of a sample's labels; empty where it has one."""
        return self.train.positions

    @property
    def highest(self) -> int:
        """The largest label."""
        return max(highest(part.y) for part in self._parts)

    @property
    def may_have_rows(self) -> bool:
        """Whether labels can be a row for each sample, a 0 or 1 for each output."""
        return len(self.positions) == 1 and self.is_labelled and self.highest <= 1

    def with_rows(self) -> "Split":
        """Return the split with a row of 0 and 1 for each sample, 1 at its class."""
        one = np.eye(max(len(self.names), 2), dtype=np.uint8)
        return self.each(lambda part: replace(part, y=one[part.y], are_sorted=False))

    @property
    def has_targets(self) -> bool:
        """Whether samples have real targets instead of labels."""
        return self.train.has_targets

    @property
    def are_sorted(self) -> bool:
        """Whether the order of the names is only the alphabet's."""
        return self.train.are_sorted

    @property
    def has_numbers_for_names(self) -> bool:
        """Whether nobody named the classes."""
        return self.names == tuple(map(str, range(len(self.names))))

    @property
    def _parts(self) -> tuple[Dataset, ...]:
        known = (self.train, self.test)
        return known if self.validation is None else (*known, self.validation)

    def each(self, change: Callable[[Dataset], Dataset]) -> "Split":
        """Every part changed alike."""
        return Split(*(change(part) for part in self._parts))

    def drawn(self, samples: int | None, test_samples: int | None, seed: int) -> "Split":
        """Draw so many samples of the training and test part by `seed`; None takes all of them."""
        counts = (self.train, samples), (self.test, test_samples)
        train, test = (part if n is None else part.drawn(n, seed) for part, n in counts)
        return replace(self, train=train, test=test)

    def without_labels(self) -> "Split":
        """Return the samples without labels, for a network that reproduces them.

        Labels of the test part stay if there are two classes, for normal samples and anomalies.
        """
        keeps = self.test.is_labelled and self.test.classes == len(NORMAL_AND_ANOMALY)
        bare = self.each(lambda part: unlabelled(part.x))
        return (
            replace(bare, test=replace(bare.test, y=self.test.y, is_labelled=True))
            if keeps
            else bare
        )

    def with_classes_last(self, added: Sequence[str], old: int) -> "Split":
        """Return the split with these classes behind the others, which keep their order.

        old: how many others there must be. Raises DataError where the names do not fit.
        """
        names = self.names
        missing = [name for name in added if name not in names]
        if missing or len(names) - len(added) != old:
            raise DataError(
                f"the model has {old} classes and gets {', '.join(map(repr, added))}, but the data "
                f"has {len(names)}: {listed(names)}: name its classes as the data does; the data "
                "may have those of the new ones alone, or some of the old ones too if the model "
                "names these (--class-names)"
            )
        return self.numbered((*(name for name in names if name not in added), *added))

    def numbered(self, names: tuple[str, ...]) -> "Split":
        """Return the split with labels that count in these names, all of its own among them.

        Raises DataError for names that are not different.
        """
        places = {name: place for place, name in enumerate(names)}
        label = np.array([places[name] for name in self.names], np.int64)

        def renumbered(part: Dataset) -> Dataset:
            y = label[part.y] if part.is_labelled else part.y
            return replace(part, y=y, names=names, are_sorted=False)

        return self.each(renumbered)

    def with_names(self, names: tuple[str, ...]) -> "Split":
        """Return the split with other class names, at least as many; labels stay."""
        return self.each(lambda part: replace(part, names=names, are_sorted=False))


def listed(names: Sequence[str]) -> str:
    """Names for a sentence, the first of many."""
    return ", ".join(map(repr, names[:MOST_NAMES])) + (", …" if len(names) > MOST_NAMES else "")


def unlabelled(x: Samples) -> Dataset:
    """Samples alone."""
    return Dataset(x, np.zeros(len(x), np.int64), NORMAL_AND_ANOMALY, is_labelled=False)


def order(n: int, epoch: int, seed: int) -> Indices:
    """The order in which an epoch visits `n` samples: a permutation of 0..n-1, int64 (n,).

    It depends on the three numbers alone, and is the same on all platforms and with all versions of
    numpy: it uses only the raw PCG64 stream. numpy guarantees that stream and SeedSequence, but not
    Generator.permutation (NEP 19). Sample i comes at the rank of draw i; equal draws keep their
    order.
    """
    return np.argsort(raw_draws(n, seed, epoch), kind="stable").astype(np.int64)


def stratified(y: Labels, test_share: float, seed: int) -> tuple[Indices, Indices]:
    """Ascending indices (train, test) that share out every class alike.

    Of a class with k samples, round(k * test_share) go to the test part, but at least one where
    k >= 2, and never all. Which ones depends on (seed, class, k) alone. Raises DataError for a
    share outside 0..1 and where no class has two samples.
    """
    y = _strata(y)
    if not 0.0 < test_share < 1.0:
        raise DataError(f"the test share is {test_share}: give a share between 0 and 1, as 0.2")
    is_test = np.zeros(len(y), dtype=np.bool_)
    for label in np.unique(y).tolist():
        members = np.flatnonzero(y == label)
        count = min(max(int(len(members) * test_share + 0.5), 1), len(members) - 1)
        ranks = np.argsort(raw_draws(len(members), seed, label, _SPLIT_STREAM), kind="stable")
        is_test[members[ranks[:count]]] = True
    if not is_test.any():
        raise DataError("no class has two samples, so none can be kept for the test: add samples")
    return np.flatnonzero(~is_test), np.flatnonzero(is_test)


class AtMost(int):
    """A number of samples that nobody asked for: all are taken where there are fewer."""


def drawn(y: Labels, count: int, seed: int) -> Indices:
    """Ascending indices of `count` samples, 1 <= count <= len(y), that share out every class alike.

    Each class gets an order of its own, drawn from (seed, class) alone. Sample r of a class of k
    comes at (r + 1/2) / k of the way, its first one at the start; the first `count` of all are
    taken. So a class gets what its share of all samples gives, and at least one where `count`
    allows it. A larger draw contains the smaller one. The order of the classes does not matter.
    Raises DataError for another count, but not of AtMost, which takes all there are.
    """
    if isinstance(count, AtMost):
        count = min(count, len(y))
    check_count(count, len(y))
    y = _strata(y)
    place = np.empty(len(y), np.float64)
    turn = np.empty(len(y), np.uint64)
    for label in np.unique(y).tolist():
        members = np.flatnonzero(y == label)
        draws = raw_draws(len(members), seed, label, _SUBSET_STREAM)
        rank = np.empty(len(members), np.int64)
        rank[np.argsort(draws, kind="stable")] = np.arange(len(members))
        place[members] = np.where(rank == 0, 0.0, (2 * rank + 1) / (2 * len(members)))
        turn[members] = draws
    return np.sort(np.lexsort((y, turn, place))[:count]).astype(np.int64)


def _strata(y: Labels) -> Labels:
    """What samples are shared out by: their class; samples with many labels are all alike."""
    return y if y.ndim == 1 else np.zeros(len(y), np.int64)


def highest(y: Labels) -> int:
    """The largest class number; of labels of positions without those that are ignored."""
    return int(y.max() if y.ndim == 1 else y.max(where=y != IGNORED, initial=0))


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


def class_numbers(
    given: Mapping[str, npt.NDArray[Any]],
    names: tuple[str, ...] | None = None,
    are_targets: bool = False,
) -> tuple[dict[str, Labels], tuple[str, ...]]:
    """Labels as users have them, by their key, as numbers; and the names of the classes.

    Labels are numbers of classes (n,), class names (n,) as text, one-hot rows (n, classes), or
    numbers of classes for each position of a sample (n, …). Two axes are one-hot rows if all rows
    are one-hot. names: the saved ones; else texts sorted, or numbers as names, of which none may
    then be left out, but of positions. are_targets: real targets, also where they look like labels.
    The first array is the training part's. Raises DataError for anything else.
    """
    first = next(iter(given))
    given = {key: y.astype(np.uint8) if y.dtype == np.bool_ else y for key, y in given.items()}
    if are_targets or has_real_targets(given[first]):
        numbers = {key: as_targets(y, key) for key, y in given.items()}
        return numbers, names or target_names(numbers[first].shape[1])
    if given[first].dtype.kind in "US":
        texts = {key: _texts(y, key) for key, y in given.items()}
        known = as_names(sorted(set(texts[first]))) if names is None else names
        return {key: _numbers_of(text, key, known) for key, text in texts.items()}, known
    if _has_positions(given[first]):
        labels = {key: as_position_labels(y, key) for key, y in given.items()}
        top = max(highest(y) for y in labels.values())
        return labels, names or tuple(map(str, range(top + 1)))
    if given[first].ndim == 2 and given[first].shape[1] > 1:
        width = given[first].shape[1]
        numbers = {key: _hot(y, key, width) for key, y in given.items()}
        return numbers, names or tuple(map(str, range(width)))
    numbers = {
        key: as_labels(y[:, 0] if y.shape[1:] == (1,) else y, key) for key, y in given.items()
    }
    return numbers, names or _numbers_as_names(np.concatenate(list(numbers.values())))


def _has_positions(y: npt.NDArray[Any]) -> bool:
    """Return whether these are labels of positions, and no one-hot rows."""
    if y.ndim < 2 or y[:1].size <= 1:
        return False
    if y.ndim > 2:
        return True
    is_hot = ((y == 0) | (y == 1)).all() and (y.sum(axis=1) == 1).all()
    return y.dtype.kind in "iu" and not is_hot


def as_position_labels(y: npt.NDArray[Any], key: str) -> Labels:
    """`y` as uint8 (n, …), each label below IGNORED, or that; else DataError."""
    if y.dtype.kind not in "iu":
        raise DataError(
            f"{key} is {y.dtype} of shape {y.shape}: save the class numbers of the positions as "
            "integers, as uint8"
        )
    if y.size == 0 or y.ndim < 2:
        raise DataError(
            f"{key} has the shape {y.shape}: save the class numbers of all positions of each "
            "sample, as the training part has them"
        )
    low, high = int(y.min()), int(y.max())
    if low < 0 or high > IGNORED:
        raise DataError(
            f"{key} has labels from {low} to {high}: number the classes from 0, below {IGNORED}, "
            f"and give {IGNORED} to positions that are to be ignored"
        )
    return y.astype(np.uint8, copy=False)


def has_real_targets(y: npt.NDArray[Any]) -> bool:
    """Return whether these are targets of regression: floats, but no rows of 0 and 1."""
    if y.dtype.kind != "f" or y.ndim not in (1, 2) or y.size == 0:
        return False
    return y[:1].size == 1 or not ((y == 0) | (y == 1)).all()


def _are_targets(y: npt.NDArray[Any]) -> bool:
    return y.ndim == 2 and y.dtype in (np.dtype(np.float32), np.dtype(np.int16))


def _labels_of_any_kind(y: npt.NDArray[Any]) -> Labels:
    if _are_targets(y):
        return y if y.dtype == np.int16 else as_targets(y, "y")
    return as_position_labels(y, "y") if y.ndim > 1 and y[:1].size > 1 else as_labels(y, "y")


def _texts(y: npt.NDArray[Any], key: str) -> list[str]:
    """A (n,) or (n, 1) array of text; numpy itself trusts the four bytes to be a code point."""
    if y.dtype.kind not in "US" or y.size == 0 or y.size != len(y):
        raise DataError(
            f"{key} is {y.dtype} of shape {y.shape}: save a class name per sample, shape (n,), as "
            "the training part has them"
        )
    return as_texts(y.reshape(-1), key)


def as_texts(array: npt.NDArray[Any], key: str) -> list[str]:
    """The texts of a `U` or `S` array (n,). Raises DataError for what is no Unicode."""
    if array.dtype.kind == "S":
        try:
            return [value.decode("utf-8") for value in array.tolist()]
        except UnicodeDecodeError as error:
            raise DataError(f"{key} holds text that is no UTF-8: save it again") from error
    native = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))
    if (native.view(np.uint32) > sys.maxunicode).any():
        raise DataError(f"{key} holds text that is no Unicode: save it again")
    return [str(value) for value in native.tolist()]


def _numbers_of(texts: list[str], key: str, names: tuple[str, ...]) -> Labels:
    numbers = {name: i for i, name in enumerate(names)}
    unknown = next((text for text in texts if text not in numbers), None)
    if unknown is not None:
        raise DataError(
            f"{key} holds the class {unknown[:40]!a}, which is not among the {len(names)} of the "
            f"training part (or names): {', '.join(names[:MOST_NAMES])}"
            f"{', …' if len(names) > MOST_NAMES else ''}: add it there or remove it"
        )
    return np.array([numbers[text] for text in texts], np.int64)


def _hot(y: npt.NDArray[Any], key: str, width: int) -> Labels:
    """One-hot rows (n, width) as class numbers."""
    if y.ndim != 2 or y.shape[1] != width or len(y) == 0 or y.dtype.kind not in "biuf":
        raise DataError(
            f"{key} is {y.dtype} of shape {y.shape}: save one-hot rows of {width} classes, or a "
            "class number per sample, shape (n,)"
        )
    is_one = y == 1
    bad = np.flatnonzero((is_one.sum(axis=1) != 1) | ~(is_one | (y == 0)).all(axis=1))
    if len(bad):
        raise DataError(
            f"{key} has the shape {y.shape}, but row {bad[0]} is not one-hot, a single 1 among "
            "zeros: save that, or a class number per sample, shape (n,)"
        )
    numbers: Labels = is_one.argmax(axis=1).astype(np.int64)
    return numbers


def _numbers_as_names(y: Labels) -> tuple[str, ...]:
    used = np.unique(y)
    if len(used) <= used[-1]:
        gap = int(np.flatnonzero(used != np.arange(len(used)))[0])
        if used[0] == 1 and len(used) == used[-1]:
            raise DataError(
                f"the labels go from 1 to {used[-1]}, but class numbers begin at 0: subtract 1, or "
                "save names"
            )
        raise DataError(
            f"class {gap} has no sample though class {used[-1]} has: number the classes "
            "without gaps, or save names"
        )
    return tuple(str(label) for label in used.tolist())


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


def raw_draws(n: int, *key: int) -> npt.NDArray[np.uint64]:
    """`n` raw 64-bit draws of the PCG64 stream that `key` seeds (each taken modulo 2^64)."""
    stream = np.random.PCG64(np.random.SeedSequence([part % 2**64 for part in key]))
    return np.asarray(stream.random_raw(n), dtype=np.uint64)


def _read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    view: npt.NDArray[Any] = array.view()
    view.flags.writeable = False
    return view

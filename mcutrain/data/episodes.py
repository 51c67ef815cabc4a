"""Few-shot episodes: small tasks, of some classes of a data set and a few samples of each."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.data.dataset import Dataset, Indices, Labels, Split, listed, raw_draws
from mcutrain.errors import DataError

MOST_EPISODES = 1000
USUAL_EPISODES = 5
_CLASS_STREAM = 3
_SHOT_STREAM = 4
"""Keep the draws of episodes apart from those of other choices, see mcutrain.data.dataset."""


@dataclass(frozen=True)
class Episodes:
    """`count` tasks of `ways` classes, with `shots` training samples of each.

    Raises DataError for fewer than two classes, for no sample, and for a count that there is not.
    """

    ways: int
    shots: int
    count: int = USUAL_EPISODES

    def __post_init__(self) -> None:
        if self.ways < 2:
            raise DataError(f"ways = {self.ways}: an episode tells classes apart, give 2 or more")
        if self.shots < 1:
            raise DataError(f"shots = {self.shots}: an episode learns, give 1 sample or more")
        if not 1 <= self.count <= MOST_EPISODES:
            raise DataError(f"{self.count:,} episodes: give 1 to {MOST_EPISODES:,}")

    @staticmethod
    def of(
        ways: int | None, shots: int | None, count: int | None, classes: int | str = "auto"
    ) -> Episodes | None:
        """Return the episodes; None if nothing is given. Raises DataError if something is missing.

        classes: of a new head, which an episode has by itself: nothing but auto goes with one.
        """
        if ways is None and shots is None and count is None:
            return None
        if ways is None or shots is None:
            raise DataError(
                "an episode has ways, the classes that it tells apart, and shots, the training "
                "samples of each: give both, such as 5 and 5"
            )
        if classes != "auto":
            raise DataError(
                f"the new classifier of an episode has an output for each of its {ways} classes: "
                f"leave out classes ({classes})"
            )
        return Episodes(ways, shots, USUAL_EPISODES if count is None else count)

    @property
    def samples(self) -> int:
        """Training samples of one."""
        return self.ways * self.shots

    def check(self, split: Split) -> None:
        """Raise DataError if there is an episode that cannot be drawn from a data set."""
        if not split.is_labelled:
            raise DataError(
                "episodes are of classes, but the data has no labels: save y beside the samples"
            )
        if split.positions:
            raise DataError(
                "episodes are of classes, and each sample of one, but the data has labels of "
                f"{split.positions} for each sample: train without --ways and --shots"
            )
        if self.ways > len(split.names):
            raise DataError(
                f"an episode of {self.ways} classes is asked for, but the data has "
                f"{len(split.names)}: give 2 to {len(split.names)}"
            )
        trained, tested = (
            np.bincount(part.y, minlength=len(split.names)) for part in (split.train, split.test)
        )
        if (trained < self.shots).any():
            raise DataError(
                f"an episode takes {self.shots} training samples of each class, but there are "
                f"fewer of {_some(split, trained < self.shots)}: give fewer shots, or more samples"
            )
        if (tested == 0).any():
            raise DataError(
                f"there is no test sample of {_some(split, tested == 0)}, which episodes may be "
                "of: give more test samples"
            )

    def draw(self, split: Split, seed: int) -> Split:
        """The episode of a seed, see `episode`."""
        return episode(split, self.ways, self.shots, seed)


def episode(split: Split, ways: int, shots: int, seed: int) -> Split:
    """Some of a data set's classes, with `shots` training samples of each and all for the test.

    Classes and samples are drawn by `seed`; more ways or shots hold the fewer. Classes are numbered
    anew, in the order that they had. Raises DataError for an episode that cannot be drawn.
    """
    Episodes(ways, shots).check(split)
    chosen = np.sort(_first(len(split.names), ways, seed, 0, _CLASS_STREAM))
    y = split.train.y
    members = {label: np.flatnonzero(y == label) for label in chosen.tolist()}
    shown = [
        own[_first(len(own), shots, seed, label, _SHOT_STREAM)] for label, own in members.items()
    ]
    names = tuple(split.names[label] for label in chosen)
    validation = None if split.validation is None else _of_classes(split.validation, chosen)
    return Split(
        _numbered(split.train.take(np.sort(np.concatenate(shown))), chosen, names),
        _numbered(split.test.take(_of_classes(split.test, chosen)), chosen, names),
        None
        if split.validation is None or validation is None or not len(validation)
        else _numbered(split.validation.take(validation), chosen, names),
    )


def _first(n: int, count: int, *key: int) -> Indices:
    """The first `count` of 0..n-1 in the order that `key` draws."""
    return np.argsort(raw_draws(n, *key), kind="stable")[:count].astype(np.int64)


def _of_classes(part: Dataset, classes: Labels) -> Indices:
    return np.flatnonzero(np.isin(part.y, classes)).astype(np.int64)


def _numbered(part: Dataset, classes: Labels, names: tuple[str, ...]) -> Dataset:
    """Number labels by their place in `classes`, which are ascending."""
    return replace(part, y=np.searchsorted(classes, part.y).astype(np.int64), names=names)


def _some(split: Split, is_meant: npt.NDArray[np.bool_]) -> str:
    """Names of classes, as an error lists them."""
    return listed([name for name, meant in zip(split.names, is_meant, strict=True) if meant])
